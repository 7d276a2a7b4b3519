"""What a `Client` works on: the open connection, one request at a time as JSON, and whatever outlives a connection.

LIFE-18, LOG-5, CONV-39, HTTP-23, HTTPM-7, STDIO-7, SUB-5, SEAM-4.
Calls, subscriptions and tasks depend on a `ClientSession` and never on the `Client` above it.

A lost connection is replaced one attempt at a time and within bounds, when a call or a subscription needs it; later
calls wait for it. A call in flight fails and is not sent again, because the server may have executed it;
`SessionExpired` is the exception. Subscriptions and the log level are then set again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from typing_extensions import Unpack

from mcprev.client.callback_queue import CallbackQueue
from mcprev.client.calls import MethodPlan, listener, until
from mcprev.client.options import KNOWN, Options, caller_meta, unknown_option
from mcprev.client.server_cache import ServerCache
from mcprev.core.background import Background
from mcprev.core.capabilities import ClientCapabilities
from mcprev.core.connection import Connection
from mcprev.core.keepalive import keep_pinging
from mcprev.core.limits import LINGER
from mcprev.core.method_binding import Stub
from mcprev.core.pauses import Pauses
from mcprev.core.reconnect_policy import SOON, ReconnectPolicy
from mcprev.core.valid_entries import InvalidEntries
from mcprev.errors import AuthError, ConnectionLost, Json, McpError, RpcError, SessionExpired, one_line
from mcprev.protocol.endpoint import ClientProtocol, client_protocol
from mcprev.protocol.engine import check_level, declares
from mcprev.protocol.negotiation.steps import Plan
from mcprev.protocol.pending_calls import Call
from mcprev.revisions import Revision
from mcprev.wire.meta_keys import LOG_LEVEL

logger: Final = logging.getLogger("mcprev.client")
SET_LEVEL: Final = "logging/setLevel"
_NOTHING: Final[Mapping[str, Json]] = {}


Listener: TypeAlias = Callable[[str, Mapping[str, Json]], None]
"""Takes a notification of a handshake session, which may be about something else."""
InputAnswerer: TypeAlias = Callable[[Mapping[str, Json]], Awaitable[dict[str, Json]]]
"""Returns the answer to one input request. Raises `InputDeclined` and `RemoteProtocolError`."""  # MRTR-5, MRTR-12, TASKX-4


@dataclass(frozen=True, slots=True)
class OpenedConnection:
    """A connection with a negotiated revision."""

    connection: Connection
    plan: Plan
    discovery: Mapping[str, Json]
    """The server's DiscoverResult at the latest revision."""
    introduction: Mapping[str, Json]
    """The result of `initialize` or `server/discover` as the server sent it; empty if neither was needed."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings of one client that hold for all of its connections and calls."""

    identity: ClientCapabilities
    timeouts: tuple[float | None, float | None]
    """Default timeouts of a call in seconds: idle and total (see `Options`)."""
    reconnect: ReconnectPolicy
    ping_interval: float | None
    """Seconds between pings; None for no pings."""
    server_cache: ServerCache
    answer_input: InputAnswerer
    reopen: Callable[[OpenedConnection], Awaitable[OpenedConnection]]
    """Returns another connection in place of a lost one."""
    callbacks: CallbackQueue
    strict: bool = False
    """Whether a list with an entry that is not valid is not valid."""


class ClientSession:
    """Sends requests over the current connection, and opens another one when it is lost."""

    def __init__(self, settings: ClientSettings, opened: OpenedConnection) -> None:
        self._settings = settings
        self.identity: ClientCapabilities = settings.identity
        self.server_cache: ServerCache = settings.server_cache
        self.answer_input: InputAnswerer = settings.answer_input
        self.callbacks: CallbackQueue = settings.callbacks
        self.invalid: InvalidEntries = InvalidEntries(logger)
        """The entries that were left out of lists."""
        self.listeners: dict[Listener, tuple[str, ...]] = {}
        """Subscriptions of a handshake session, whose notifications belong to no stream, with their resources."""
        self._log_level: str | None = None
        self.least_level: str | None = None
        """The level below which log messages are dropped here, because the server has no way to be told one."""
        self.reopened: int = 0
        """How many times the connection has been replaced."""
        self._since = asyncio.get_running_loop().time()
        """When the connection was opened."""
        self._tried = 0
        """Attempts to replace it, since it was last stable."""
        self._replacing: asyncio.Task[McpError | None] | None = None
        self.closing: bool = False
        """Whether the client is being closed."""
        self._waiting_for_success: set[asyncio.Event] = set()
        """Set when a request succeeds, or when there is another connection."""
        self._background = Background(logger, "what a session of a client does in the background")
        self.use(opened)

    def use(self, opened: OpenedConnection) -> None:
        """Send requests over this connection from now on."""
        self.opened = opened
        self.connection: Connection = opened.connection
        self.protocol: ClientProtocol = client_protocol(opened.connection.protocol)
        self._plans: dict[str, MethodPlan] = {}
        """The plans of the methods called so far over this connection."""
        interval = self._settings.ping_interval
        if interval is not None:
            opened.connection.start(keep_pinging(opened.connection, self.protocol.session, interval))

    @property
    def revision(self) -> Revision:
        """The revision that is spoken."""
        return self.protocol.revision

    # -- requests ------------------------------------------------------------------------------------------

    async def raw(
        self, method: str, params: Mapping[str, Json] | None = None, **options: Unpack[Options]
    ) -> dict[str, Json]:
        """Call any method with JSON of the spoken revision; see `Client.raw`."""
        sent = None if params is None else dict(params)
        if "meta" in options:
            meta: dict[str, Json] = (sent or {}).get("_meta") or {}
            sent = {**(sent or {}), "_meta": {**meta, **caller_meta(options, self.identity)}}
        return await self.request(method, sent, options, self.deadline(options), raw=True)

    async def request(
        self,
        method: str,
        params: dict[str, Json] | None,
        options: Options,
        end: float | None,
        *,
        raw: bool = False,
    ) -> dict[str, Json]:
        """Send a request and return its result, both in the latest revision unless `raw`; `end` is its deadline by `clock`.

        The callbacks of messages that came before the result are called before it is returned, see `CallbackQueue`.
        A lost connection is replaced first. The request is sent once more if the session expired, and once
        if the stream of its answer broke and the method or the caller allows a repetition: a server that was
        restarted causes both.
        """  # HTTP-23, HTTPM-7
        callbacks = self.callbacks
        progress = listener(options, callbacks) if options else None
        repeated: tuple[bool, ...] = ()
        while True:
            # The replacement may be lost too, so loop.
            while (connection := self.connection).error is not None:
                await self.replace(connection, connection.error, end)
            try:
                sent, up = params, None
                if not raw and params is not None:
                    meta = self._meta(options) if options or self._log_level is not None else _NOTHING
                    if "log_level" in options:
                        await self._set_level_of(options)
                    plan = self._plans.get(method)
                    if plan is None:
                        report = None if self._settings.strict else self.invalid.add
                        plan = MethodPlan(method, self.protocol, self.identity, report)
                        self._plans[method] = plan
                    sent, up = plan.params(params, meta), plan.up
                call = self.open(method, sent, options, end)
                result = await self.connection.wait(call, progress)
                if callbacks.runner is not None:
                    await callbacks.settled()
                if self._waiting_for_success:
                    self._reached()
                return result if up is None else up(result)
            except RpcError:
                if callbacks.runner is not None:
                    await callbacks.settled()
                raise
            except ConnectionLost as error:
                expired = isinstance(error, SessionExpired)
                safe = error.in_flight and (error.retry_safe or options.get("retry", False))
                if expired in repeated or not safe:
                    raise
                repeated = (*repeated, expired)
                if expired or connection.error is not None:
                    await self.replace(connection, error, end)

    def open(self, method: str, params: dict[str, Json] | None, options: Options, end: float | None) -> Call:
        """Send a request in JSON of the spoken revision; `Connection.wait` returns its result. Raises `ConnectionLost`."""
        connection = self.connection
        error = connection.error
        if error is not None:
            raise ConnectionLost(str(error), in_flight=False, retry_safe=True) from error
        now, idle = connection.now(), options.get("timeout", self._settings.timeouts[0])
        return self.protocol.engine.call(
            method,
            params,
            now,
            idle=idle,
            total=None if end is None else max(end + connection.pauses.total - now, 0.0),
            # A server reports progress, which restarts the timeout, only of requests with a token.
            progress=idle is not None or "progress" in options,
            unchecked=True,
        )

    def notify(self, method: str, params: dict[str, Json] | None) -> None:
        """Send a notification in JSON of the spoken revision."""
        self.protocol.notify(method, params)
        self.connection.process_events()

    def deadline(self, options: Options) -> float | None:
        """Return the time of `clock` at which a call with these options ends; None for a call without a total timeout.

        Raises `TypeError` for an option that there is not.
        """
        if options and not options.keys() <= KNOWN:
            raise unknown_option(options)
        total = options.get("total_timeout", self._settings.timeouts[1])
        connection = self.connection
        return None if total is None else connection.now() + total - connection.pauses.total

    @property
    def clock(self) -> Pauses:
        """The time that counts for calls: that of the event loop without that of logins."""
        return self.connection.pauses

    def idle_timeout(self, options: Options) -> float | None:
        """Return the seconds without a response after which a call with these options ends; None for none."""
        return options.get("timeout", self._settings.timeouts[0])

    def total_timeout(self, options: Options) -> float | None:
        """Return the total timeout of all calls of a list with these options; None for none."""
        return options.get("total_timeout", self._settings.timeouts[1])

    # -- log levels ----------------------------------------------------------------------------------------

    async def set_log_level(self, level: str) -> None:
        """Ask for log messages from this level up; see `Client.set_log_level`."""
        check_level(level)
        if not self.revision.log_level_per_request and level != self._log_level:
            self.protocol.engine.check_sendable(SET_LEVEL)
            await self.raw(SET_LEVEL, {"level": level})
        self._log_level = level

    def _meta(self, options: Options) -> Mapping[str, Json]:
        """Return what is added to `_meta`: the caller's members, and the log level where each request carries it."""
        meta = caller_meta(options, self.identity)
        level = options.get("log_level") or self._log_level
        if level is None or not self.revision.log_level_per_request:
            return meta
        return {**meta, LOG_LEVEL: level}

    async def _set_level_of(self, options: Options) -> None:
        """Set the log level of a call where only the whole session has one."""  # CONV-39
        level, per_session = options.get("log_level"), not self.revision.log_level_per_request
        if level and per_session and declares(self.protocol.engine.peer_capabilities or {}, "logging"):
            await self.set_log_level(level)
        elif level and per_session:
            check_level(level)
            self.least_level = level

    # -- reconnecting --------------------------------------------------------------------------------------

    @property
    def restarts(self) -> bool:
        """Whether a lost connection is opened again."""
        return self._settings.reconnect.limit > 0

    async def until_reached(self, seconds: float | None) -> None:
        """Wait until the server has answered a request or is connected again, at most some seconds and hardly less than `SOON`."""
        reached, now = asyncio.Event(), asyncio.get_running_loop().time
        began = now()
        self._waiting_for_success.add(reached)
        try:
            async with asyncio.timeout(seconds):
                await reached.wait()
                await asyncio.sleep(SOON - (now() - began))
        except TimeoutError:
            return
        finally:
            self._waiting_for_success.discard(reached)

    def _reached(self) -> None:
        for waiting in self._waiting_for_success:
            waiting.set()

    async def replace(
        self, lost: Connection, reason: McpError, end: float | None = None, *, quiet: bool = False
    ) -> None:
        """Wait until another connection replaces `lost`, at most until the time `end` of `clock`.

        Attempts that fail are logged, at DEBUG if `quiet`.
        Raises `reason` if no connection may be opened (policy, closed client), `ConnectionLost` if every attempt
        failed, `AuthError` or `RequestTimeout`.
        """
        if self.closing:
            raise reason
        if self.connection is not lost:
            return
        task = self._replacing
        if task is None or task.done():
            if not self._settings.reconnect.limit and not isinstance(reason, SessionExpired):
                raise reason
            task = self._replacing = asyncio.get_running_loop().create_task(
                self._connect_again(reason, quiet=quiet)
            )
        async with until(end, "total timeout: no new connection", self.clock):
            await asyncio.wait({task})
        if task.cancelled():
            raise reason
        error = task.result()
        if error is not None:
            raise error

    async def _connect_again(self, reason: McpError, *, quiet: bool) -> McpError | None:
        """Open another connection within the policy's number of attempts; return the error if all fail."""
        policy, now = self._settings.reconnect, asyncio.get_running_loop().time
        if now() - self._since >= policy.stable:
            self._tried = 0
        # An expired session is no failure of the server: the first attempt is not counted.
        counted = not isinstance(reason, SessionExpired)
        last = reason
        while not counted or self._tried < policy.limit:
            if counted:
                delay = policy.delay(self._tried)
                self._tried += 1
                await asyncio.sleep(delay)
            counted = True
            try:
                opened = await self._settings.reopen(self.opened)
            except AuthError as error:
                return error  # do not ask the user to log in repeatedly
            except McpError as error:
                last = error
                level = logging.DEBUG if quiet else logging.WARNING
                logger.log(level, "the server cannot be reached again: %s", one_line(error))
                continue
            self.reopened += 1
            self._since = now()
            logger.warning("connected again after: %s", one_line(reason))
            if self.clock.total:
                opened.connection.pauses.total += self.clock.total  # the same time goes on
            self.use(opened)
            await self._restore()
            if opened.connection.error is None:
                self._reached()
                return None
            last = opened.connection.error
        lost = ConnectionLost(
            f"the connection was lost and is not opened again: {last}", in_flight=False, retry_safe=True
        )
        lost.__cause__ = last
        return lost

    async def _restore(self) -> None:
        """Tell a new connection's server what that of the lost one was told, and forget what the latter said."""
        self.server_cache.forget()
        if self._log_level is not None and not self.revision.log_level_per_request:
            # A request here must not wait for a replacement of the connection: this task makes it.
            with suppress(McpError):
                call = self.open(SET_LEVEL, {"level": self._log_level}, {}, self.deadline({}))
                await self.connection.wait(call, None)

    # -- lifetime ------------------------------------------------------------------------------------------

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task until the session is closed, whichever its connection is."""
        return self._background.start(work)

    async def aclose(self) -> None:
        """End the connection and every task; replace no connection from now on."""
        self.closing = True
        if self._replacing is not None and not self._replacing.done():
            self._replacing.cancel()
            await asyncio.wait({self._replacing})
        await self.callbacks.aclose(LINGER)
        await self.connection.aclose()
        await self._background.aclose()


class SessionFactory(Protocol):
    """Sees what clients send and receive, such as `mcprev.Telemetry`."""

    def session(self, settings: ClientSettings, opened: OpenedConnection, /) -> ClientSession:
        """Return a session over a connection that is open."""
        ...

    def wrap(self, method: str, stub: Stub, /) -> Stub:
        """Return a method of the client's handler with something around it."""
        ...

    def trace_context(self) -> Mapping[str, str]:
        """Return members of `_meta` for the requests that open a connection."""
        ...
