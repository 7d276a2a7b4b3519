"""What a `Client` works on: the open connection, one request at a time as JSON, and whatever outlives a connection.

LIFE-18, LOG-5, CONV-39, HTTP-23, HTTPM-7, SUB-5, SEAM-4.
Calls, subscriptions and tasks depend on a `ClientSession` and never on the `Client` above it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, cast

from typing_extensions import Unpack

from mcprev.client.calls import RequestSender, listener
from mcprev.client.options import KNOWN, Options, caller_meta, unknown_option
from mcprev.client.reconnecting import OpenedConnection, Reconnector
from mcprev.client.server_cache import ServerCache
from mcprev.core.capabilities import ClientCapabilities
from mcprev.core.connection import Connection
from mcprev.core.keepalive import keep_pinging
from mcprev.core.method_binding import Stub
from mcprev.core.reconnect_policy import ReconnectPolicy
from mcprev.errors import ConnectionLost, Json, McpError, SessionExpired
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.protocol.engine import declares
from mcprev.protocol.pending_calls import Call
from mcprev.protocol.session_state import SEVERITY
from mcprev.revisions import Revision
from mcprev.wire.meta_keys import LOG_LEVEL

SET_LEVEL: Final = "logging/setLevel"
_NOTHING: Final[Mapping[str, Json]] = {}


class InputAnswerer(Protocol):
    """Answers the input requests that results and tasks contain."""  # MRTR-5, MRTR-12, TASKX-4

    async def answer_input(self, request: Mapping[str, Json], /) -> dict[str, Json]:
        """Return the answer to one input request. Raises `InputDeclined` and `RemoteProtocolError`."""
        ...


class ChangeListener(Protocol):
    """Listens to the change notifications of a handshake session."""

    @property
    def uris(self) -> tuple[str, ...]:
        """The resources that it is subscribed to."""
        ...

    def notification_received(self, method: str, params: Mapping[str, Json], /) -> None:
        """Take a notification; it may be about something else."""
        ...


@dataclass(frozen=True, slots=True)
class CallSettings:
    """Settings of one client that hold for all of its calls."""

    timeouts: tuple[float | None, float | None]
    """Default timeouts of a call in seconds: idle and total (see `Options`)."""
    reconnect: ReconnectPolicy
    ping_interval: float | None
    """Seconds between pings; None for no pings."""
    server_cache: ServerCache


class ClientSession:
    """Sends requests over the current connection, and opens another one when it is lost."""

    def __init__(
        self,
        opened: OpenedConnection,
        identity: ClientCapabilities,
        settings: CallSettings,
        reopen: Callable[[OpenedConnection], Awaitable[OpenedConnection]],
        inputs: InputAnswerer,
    ) -> None:
        self.identity = identity
        self.server_cache: ServerCache = settings.server_cache
        self.inputs = inputs
        self.listeners: set[ChangeListener] = set()
        """Subscriptions of a handshake session, whose notifications belong to no stream."""
        self._ping_interval = settings.ping_interval
        self._idle_timeout, self._total_timeout = settings.timeouts
        self._log_level: str | None = None
        self.least_level: str | None = None
        """The level below which log messages are dropped here, because the server has no way to be told one."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._use(opened)
        self.reconnector: Reconnector = Reconnector(opened, reopen, settings.reconnect, self._adopt)

    def _use(self, opened: OpenedConnection) -> None:
        self.opened = opened
        self.connection: Connection = opened.connection
        self.protocol: ClientProtocol = cast("ClientProtocol", opened.connection.protocol)
        self._sender = RequestSender(opened.connection, self.identity, self._idle_timeout)
        if self._ping_interval is not None:
            opened.connection.start(
                keep_pinging(opened.connection, self.protocol.session, self._ping_interval)
            )

    async def _adopt(self, opened: OpenedConnection) -> None:
        """Use a new connection, and restore on it what the server of the lost one was told."""
        self._use(opened)
        self.server_cache.forget()
        if self._log_level is not None and not self.revision.log_level_per_request:
            with suppress(McpError):
                await self.raw(SET_LEVEL, {"level": self._log_level})

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
        """Send a request and return its result, both in the latest revision unless `raw`; `end` is its deadline.

        A lost connection is replaced first. The request is sent once more if the session expired, and once
        if the stream of its answer broke and the method or the caller allows a repetition: a server that was
        restarted causes both.
        """  # HTTP-23, HTTPM-7
        progress = listener(options, self.start) if options else None
        repeated: tuple[bool, ...] = ()
        while True:
            # The replacement may be lost too, so loop.
            while (connection := self.connection).error is not None:
                await self.replace(connection, connection.error, end)
            try:
                if raw or params is None:
                    call = self._sender.open(method, params, options, end)
                    return await self.connection.wait(call, progress)
                meta = self._meta(options) if options or self._log_level is not None else _NOTHING
                if "log_level" in options:
                    await self._set_level_of(options)
                sender = self._sender
                plan = sender.plans.get(method) or sender.find(method)
                call = sender.open(method, plan.params(params, meta), options, end)
                result = await self.connection.wait(call, progress)
                return result if plan.up is None else plan.up(result)
            except ConnectionLost as error:
                expired = isinstance(error, SessionExpired)
                safe = error.in_flight and (error.retry_safe or options.get("retry", False))
                if expired in repeated or not safe:
                    raise
                repeated = (*repeated, expired)
                if expired or connection.error is not None:
                    await self.replace(connection, error, end)

    def open(self, method: str, params: dict[str, Json] | None) -> Call:
        """Send a request without timeouts; `Connection.wait` returns its result. Raises `ConnectionLost`."""
        self._sender.check_open()
        return self.protocol.engine.call(method, params, self.connection.now(), idle=None, total=None)

    def notify(self, method: str, params: dict[str, Json] | None) -> None:
        """Send a notification in JSON of the spoken revision."""
        self.protocol.notify(method, params)
        self.connection.process_events()

    def deadline(self, options: Options) -> float | None:
        """Return the time at which a call with these options ends; None for a call without a total timeout.

        Raises `TypeError` for an option that there is not.
        """
        if options and not options.keys() <= KNOWN:
            raise unknown_option(options)
        total = options.get("total_timeout", self._total_timeout)
        return None if total is None else self.connection.now() + total

    # -- log levels ----------------------------------------------------------------------------------------

    async def set_log_level(self, level: str) -> None:
        """Ask for log messages from this level up; see `Client.set_log_level`."""
        _known_level(level)
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
            self.least_level = _known_level(level)

    # -- lifetime ------------------------------------------------------------------------------------------

    async def replace(self, lost: Connection, reason: McpError, end: float | None = None) -> None:
        """Wait until another connection has replaced a lost one; see `Reconnector.replace`."""
        await self.reconnector.replace(lost, reason, end)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task until the session is closed, whichever its connection is."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def aclose(self) -> None:
        """End the connection and every task."""
        await self.reconnector.stop()
        await self.connection.aclose()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))


SessionArguments: TypeAlias = tuple[
    OpenedConnection,
    ClientCapabilities,
    CallSettings,
    Callable[[OpenedConnection], Awaitable[OpenedConnection]],
    InputAnswerer,
]
"""The arguments of `ClientSession`."""


class SessionFactory(Protocol):
    """Sees what clients send and receive, such as `mcprev.Telemetry`."""

    def session(self, *arguments: *SessionArguments) -> ClientSession:
        """Return a session over a connection that is open."""
        ...

    def wrap(self, method: str, stub: Stub, /) -> Stub:
        """Return a method of the client's handler with something around it."""
        ...


def _known_level(level: str) -> str:
    """Return the level. Raises `ValueError` if it is none."""
    if level not in SEVERITY:
        raise ValueError(f"'{level}' is not a log level; the levels are {', '.join(SEVERITY)}")
    return level
