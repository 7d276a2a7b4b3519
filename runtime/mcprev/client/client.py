"""A client: typed in the latest revision, speaking whichever one its server speaks.

NEG-1..12, LIFE-4..6, MOD-1, MOD-10, MRTR-5..12, PAGE-1, PAGE-3, COMP-2, LOG-5, CONV-29, CONV-39, SEAM-9.
`connect` in `mcprev.client.connect` makes one; everything here needs an open connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from pydantic import ValidationError
from typing_extensions import Unpack, override

from mcprev.client.calls import RequestSender, listener, result_reader
from mcprev.client.context import ClientContext
from mcprev.client.methods import Methods
from mcprev.client.options import CallSettings, Options, Package, caller_meta
from mcprev.client.reconnecting import OpenedConnection, Reconnector
from mcprev.client.request_handler import Exact, Latest, answer_inputs
from mcprev.client.subscriptions import Subscription
from mcprev.client.tasks import ClientTask, followed, started
from mcprev.core.capabilities import ClientCapabilities
from mcprev.core.connection import Connection
from mcprev.core.keepalive import keep_pinging
from mcprev.errors import (
    ConnectionLost,
    Json,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    SessionExpired,
)
from mcprev.protocol import mrtr
from mcprev.protocol.cache import METHODS
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.protocol.engine import declares
from mcprev.protocol.pending_calls import Call
from mcprev.protocol.session_state import SEVERITY
from mcprev.protocol.stateless import COMPLETE, LOG_LEVEL, SERVER_INFO
from mcprev.protocol.subscriptions import TASK_IDS
from mcprev.protocol.tasks import TASK, is_task
from mcprev.revisions import LATEST, Revision, TaskSupport
from mcprev_types.latest import dispatch

if TYPE_CHECKING:
    from mcprev_types.latest import models

ClientHandler: TypeAlias = dispatch.ClientHandler[ClientContext]
"""What a client's author subclasses to answer servers: sampling, elicitation, roots, and notifications."""
logger: Final = logging.getLogger("mcprev.client")
T = TypeVar("T")
_NOTHING: Final[Mapping[str, Json]] = {}


class Client(Methods):
    """An open connection to a server."""

    def __init__(
        self,
        opened: OpenedConnection,
        identity: ClientCapabilities,
        settings: CallSettings,
        reopen: Callable[[OpenedConnection], Awaitable[OpenedConnection]],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self.identity = identity
        self.known = settings.known
        """What need not be asked."""
        self._ping_interval = settings.ping_interval
        self._timeouts = settings.timeouts
        self._close = close
        self._use(opened)
        self._keeper = Reconnector(opened, reopen, settings.restarts, self._adopt)
        self._level: str | None = None
        self._readers: dict[str, Callable[[Any], Any]] = {}
        self.subscriptions: set[Subscription] = set()
        """Those who listen to a session's notifications."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None

    def _use(self, opened: OpenedConnection) -> None:
        self.connection = opened.connection
        self.plan = opened.plan
        """How the revision was negotiated."""
        self._protocol = cast("ClientProtocol", opened.connection.protocol)
        self._caller = RequestSender(opened.connection, self.identity, self._timeouts[0])
        self._discovery = opened.discovery
        if self._ping_interval is not None:
            opened.connection.start(
                keep_pinging(opened.connection, self._protocol.session, self._ping_interval)
            )

    async def _adopt(self, opened: OpenedConnection) -> None:
        """Go on over another connection, whose server is told what the one before knew."""
        self._use(opened)
        self.known.forget()
        if self._level is not None and not self.spoken.log_level_per_request:
            with suppress(McpError):
                await self.raw("logging/setLevel", {"level": self._level})

    # -- who is there --------------------------------------------------------------------------------------

    @property
    def spoken(self) -> Revision:
        """The row of the revision that is spoken."""
        return self._protocol.revision

    @property
    def revision(self) -> str:
        """The name of the revision that is spoken."""
        return self.spoken.name

    @property
    def reopened(self) -> int:
        """How many times the connection was lost and opened again."""
        return self._keeper.times

    @property
    def server_info(self) -> models.Implementation | None:
        """What the server calls itself, unverified; None if it does not say."""
        meta: dict[str, Json] = self._discovery.get("_meta") or {}
        info = meta.get(SERVER_INFO)
        return (
            None
            if info is None
            else cast("models.Implementation", LATEST.models.Implementation.from_wire(info))
        )

    @property
    def capabilities(self) -> models.ServerCapabilities:
        """What the server can do."""
        found = LATEST.models.ServerCapabilities.from_wire(self._discovery.get("capabilities") or {})
        return cast("models.ServerCapabilities", found)

    @property
    def instructions(self) -> str | None:
        """Advice of the server's on how to use it well."""
        return self._discovery.get("instructions")

    # -- the connection and the session ---------------------------------------------------------------------

    async def set_log_level(self, level: models.LoggingLevel) -> None:
        """Want log messages from this level up, from now on and with every call (LOG-5).

        Raises `LocalProtocolError` for the server of a session that does not log.
        """
        if level not in SEVERITY:
            raise ValueError(f"no log level '{level}'; there are {', '.join(SEVERITY)}")
        if not self.spoken.log_level_per_request and level != self._level:
            self.check("logging/setLevel")
            await self.raw("logging/setLevel", {"level": level})
        self._level = level

    async def ping(self, **options: Unpack[Options]) -> None:
        """See whether the server answers; where there is no `ping`, by asking it who it is."""
        method = "ping" if "ping" in self.spoken.methods else "server/discover"
        await self.raw(method, None, **options)

    def roots_changed(self) -> None:
        """Tell the server that the roots changed, where there is a way to."""
        method = "notifications/roots/list_changed"
        if method in self.spoken.methods and "roots" in self.identity.capabilities(self.spoken):
            self._protocol.engine.send_notification(method, None)
            self.connection.process_events()

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Sequence[str] = (),
        tasks: Sequence[str] = (),
    ) -> Subscription:
        """Hear of changes: `async with client.listen(tools=True) as changes: async for change in changes`.

        In sessions each URI is subscribed to by itself, and the lists' notifications are picked out (SUB-7). `tasks`
        are ids of tasks whose states are to be told of, by a server that can (SUB-9): `honoured` says which it will.
        """
        wanted: dict[str, Json] = {}
        for member, flag in (
            ("toolsListChanged", tools), ("promptsListChanged", prompts), ("resourcesListChanged", resources),
        ):  # fmt: skip
            if flag:
                wanted[member] = True
        if uris:
            wanted["resourceSubscriptions"] = list(uris)
        if tasks:
            wanted[TASK_IDS] = list(tasks)
        return Subscription(self, wanted)

    # -- calls ---------------------------------------------------------------------------------------------

    @override
    async def call(self, method: str, params: Mapping[str, Json], **options: Unpack[Options]) -> object:
        """Call a method of the latest revision with JSON params, and get its result as a model of that revision.

        Input that the server needs on the way is got from the handler (MRTR-5, MRTR-12).
        """
        given = dict(params)
        if method not in self._readers:
            self._readers[method] = result_reader(method)
        end = self._end(options)
        result = await (self._cached if method in METHODS else self._ask)(method, given, options, end)
        # Most are complete, which is seen at once.
        if TASK in result or result.get("resultType", COMPLETE) != COMPLETE:
            result = await self._provide(method, given, result, options, end)
            if is_task(result, self.spoken):
                result = await followed(self, result, end)
        return self._read(method, result)

    async def start_tool(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        ttl: int | None = None,
        **options: Unpack[Options],
    ) -> ClientTask:
        """Run a tool as a task, if the server can, and get the task instead of its result.

        `ttl` is how many milliseconds it should be kept where the client can say so. Where the server answers with
        a result, the task has ended. Raises what `call_tool` raises.
        """
        params: dict[str, Json] = {"name": name, "arguments": dict(arguments or {})}
        if self.spoken.tasks is TaskSupport.CORE:
            params["task"] = {} if ttl is None else {"ttl": ttl}
        end = self._end(options)
        result = await self._ask("tools/call", params, options, end)
        return started(self, await self._provide("tools/call", params, result, options, end))

    async def _cached(
        self, method: str, params: dict[str, Json], options: Options, end: float | None
    ) -> dict[str, Json]:
        """What a server has answered before, if that is still good; else one round, whose answer is remembered."""
        result = self.known.lookup(method, params, options, self.connection.now())
        if result is None:
            changes = self.known.changes
            result = await self._ask(method, params, options, end)
            if not mrtr.is_input_required(result):
                self._read(method, result)  # only what is valid is kept
                self.known.store(method, params, options, result, self.connection.now(), changes)
        return result

    async def _provide(
        self,
        method: str,
        given: dict[str, Json],
        result: dict[str, Json],
        options: Options,
        end: float | None,
    ) -> dict[str, Json]:
        """Answer what a result asks and call again, until the server asks no more."""
        for attempt in range(mrtr.ROUNDS):
            if not mrtr.is_input_required(result):
                return result
            answers = await answer_inputs(self, method, mrtr.requests_of(result), attempt, end)
            given = mrtr.retry(given, result, answers)
            if attempt + 1 < mrtr.ROUNDS:
                result = await self._ask(method, given, options, end)
        raise RemoteProtocolError(f"'{method}' asked for input more than {mrtr.ROUNDS} times")

    async def raw(
        self, method: str, params: Mapping[str, Json] | None = None, **options: Unpack[Options]
    ) -> dict[str, Json]:
        """Call any method with JSON as it is at the spoken revision, and get the result's JSON, nothing converted.

        The server is not asked whether it offers the method; `_meta` is still stamped where requests describe
        themselves.
        """
        given = None if params is None else dict(params)
        if "meta" in options:
            meta: dict[str, Json] = (given or {}).get("_meta") or {}
            given = {**(given or {}), "_meta": {**meta, **caller_meta(options, self.identity)}}
        return await self._ask(method, given, options, self._end(options), raw=True)

    @property
    def calls(self) -> dispatch.ClientCalls:
        """Every method that a client may send, typed in the latest revision and converted to the one that is spoken.

        A request that has no method of its own below is here: `client.calls.subscribe(models.SubscribeParams(meta=client.meta))`.
        """
        return dispatch.ClientCalls(Latest(self))

    @property
    def meta(self) -> models.RequestMetaObject:
        """What requests of the latest revision say of this client, for the params of `calls`."""
        found = LATEST.models.RequestMetaObject.from_wire(self.identity.introduction(LATEST))
        return cast("models.RequestMetaObject", found)

    def exact(self, package: Package[T]) -> T:
        """The callers of the revision that is spoken, in its own types: `client.exact(mcprev_types.v2025_06_18)`.

        Raises `LocalProtocolError` when another revision is spoken (SEAM-9).
        """
        if self.revision != package.REVISION:
            raise LocalProtocolError(f"the server speaks {self.revision}, not {package.REVISION}")
        return package.ClientCalls(Exact(self))

    def check(self, method: str) -> None:
        """Raise `LocalProtocolError` for a request that the revision or the server does not have."""
        self._protocol.check(method)

    def open(
        self, method: str, params: dict[str, Json] | None, *, idle: float | None, total: float | None
    ) -> Call:
        """Send a request as it is; what it answers is for `Connection.wait`. Raises `ConnectionLost`."""
        self._caller.check_open()
        return self._protocol.call(method, params, self.connection.now(), idle=idle, total=total)

    async def _ask(
        self,
        method: str,
        given: dict[str, Json] | None,
        options: Options,
        end: float | None,
        *,
        raw: bool = False,
    ) -> dict[str, Json]:
        """One round of a call, converted both ways unless it is raw; over another connection if this one was lost.

        It is sent once more if the session ran out (HTTP-23), or if the stream of the answer broke and that does no
        harm, by its nature or by the word of the caller (HTTPM-7).
        """
        told = None if not options else listener(options)
        repeated = False
        while True:
            # What takes its place may be lost by the time that one who waited for it gets to run.
            while (connection := self.connection).error is not None:
                await self.replace(connection, connection.error, end)
            try:
                if raw or given is None:
                    return await self.connection.wait(self._caller.open(method, given, options, end), told)
                meta = self._meta(options) if options or self._level is not None else _NOTHING
                if "log_level" in options:
                    await self._say_level(options)
                caller = self._caller
                plan = caller.plans.get(method) or caller.find(method)
                call = caller.open(method, plan.params(given, meta), options, end)
                result = await self.connection.wait(call, told)
                return result if plan.up is None else plan.up(result)
            except ConnectionLost as error:
                if repeated or not error.in_flight or not (error.retry_safe or options.get("retry", False)):
                    raise
                if isinstance(error, SessionExpired) or connection.error is not None:
                    await self.replace(connection, error, end)
            repeated = True

    async def replace(self, lost: Connection, reason: McpError, end: float | None = None) -> None:
        """Have another connection in the place of one that was lost; see `Reconnector.replace`."""
        await self._keeper.replace(lost, reason, end)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something for as long as the client is open, whichever its connection is."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _meta(self, options: Options) -> Mapping[str, Json]:
        """What is added to `_meta` for one call: the caller's members, and the level where it comes with each call."""
        meta = caller_meta(options, self.identity)
        level = options.get("log_level") or self._level
        if level is None or not self.spoken.log_level_per_request:
            return meta
        return {**meta, LOG_LEVEL: level}

    async def _say_level(self, options: Options) -> None:
        """Set the level that a call wants where a session has one for all of its calls (CONV-39)."""
        level, per_session = options.get("log_level"), not self.spoken.log_level_per_request
        if level and per_session and declares(self._protocol.engine.peer_capabilities or {}, "logging"):
            await self.set_log_level(level)

    def _end(self, options: Options) -> float | None:
        total = options.get("total_timeout", self._timeouts[1])
        return None if total is None else self.connection.now() + total

    def _read(self, method: str, result: dict[str, Json]) -> object:
        """A result as its model."""
        try:
            return self._readers[method](result)
        except ValidationError as error:
            raise RemoteProtocolError(f"the result is not valid: {error}", raw=result) from None

    # -- the end -------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """End the connection; may be called from any task, and again."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._end_all())
        await asyncio.shield(self._closing)

    async def _end_all(self) -> None:
        await self._keeper.stop()
        await self.connection.aclose()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        await self._close()
