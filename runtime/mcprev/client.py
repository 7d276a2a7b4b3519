"""A client: typed in the latest revision, speaking whichever one its server speaks (design §7.3).

NEG-1..12, LIFE-4..6, MOD-1, MOD-10, MRTR-5..12, PAGE-1, PAGE-3, COMP-2, LOG-5, CONV-29, CONV-39, SEAM-9.
`connect` in `mcprev.connecting` makes one; everything here needs an open connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from pydantic import ValidationError
from typing_extensions import Unpack, override

from mcprev.context import ClientContext
from mcprev.convert import Kind, convert, converter
from mcprev.driver import Connection
from mcprev.errors import (
    ConnectionLost,
    Json,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    SessionExpired,
)
from mcprev.identity import ClientIdentity
from mcprev.listening import Subscription
from mcprev.methods import Methods
from mcprev.options import Options, Package, Settings, caller_meta
from mcprev.pinging import keep_pinging
from mcprev.protocol import mrtr
from mcprev.protocol.cache import METHODS
from mcprev.protocol.correlate import Call
from mcprev.protocol.handshake import SEVERITY
from mcprev.protocol.peer import declares
from mcprev.protocol.sides import ClientSide
from mcprev.protocol.stateless import LOG_LEVEL, SERVER_INFO
from mcprev.protocol.tasks import is_task
from mcprev.remote_tasks import RemoteTask, followed, started
from mcprev.reopening import Keeper, Opened
from mcprev.revisions import LATEST, Revision, Tasks
from mcprev.seam import reader
from mcprev.serving import Exact, answer_input
from mcprev_types.latest import dispatch

if TYPE_CHECKING:
    from mcprev_types.latest import models

ClientHandler: TypeAlias = dispatch.ClientHandler[ClientContext]
"""What a client's author subclasses to answer servers: sampling, elicitation, roots, and notifications."""
logger: Final = logging.getLogger("mcprev.client")
T = TypeVar("T")


class Client(Methods):
    """An open connection to a server."""

    def __init__(
        self,
        opened: Opened,
        identity: ClientIdentity,
        settings: Settings,
        reopen: Callable[[Opened], Awaitable[Opened]],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self.identity = identity
        self.known = settings.known
        """What need not be asked."""
        self._ping_interval = settings.ping_interval
        self._timeouts = settings.timeouts
        self._close = close
        self._use(opened)
        self._keeper = Keeper(opened, reopen, settings.restarts, self._adopt)
        self._level: str | None = None
        self._readers: dict[str, Callable[[Any], Any]] = {}
        self.subscriptions: set[Subscription] = set()
        """Those who listen to a session's notifications."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None

    def _use(self, opened: Opened) -> None:
        self.connection = opened.connection
        self.plan = opened.plan
        """How the revision was negotiated."""
        self._side = cast("ClientSide", opened.connection.side)
        self._discovery = opened.discovery
        if self._ping_interval is not None:
            opened.connection.start(keep_pinging(opened.connection, self._side.session, self._ping_interval))

    async def _adopt(self, opened: Opened) -> None:
        """Go on over another connection, whose server is told what the one before knew."""
        self._use(opened)
        self.known.forget()
        if self._level is not None and not self.row.log_level_per_request:
            with suppress(McpError):
                await self.raw("logging/setLevel", {"level": self._level})

    # -- who is there --------------------------------------------------------------------------------------

    @property
    def row(self) -> Revision:
        """The row of the revision that is spoken."""
        return self._side.row

    @property
    def revision(self) -> str:
        """The name of the revision that is spoken."""
        return self.row.name

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
        if not self.row.log_level_per_request and level != self._level:
            self.check("logging/setLevel")
            await self.raw("logging/setLevel", {"level": level})
        self._level = level

    async def ping(self, **options: Unpack[Options]) -> None:
        """See whether the server answers; where there is no `ping`, by asking it who it is."""
        method = "ping" if "ping" in self.row.methods else "server/discover"
        await self.raw(method, None, **options)

    def roots_changed(self) -> None:
        """Tell the server that the roots changed, where there is a way to."""
        method = "notifications/roots/list_changed"
        if method in self.row.methods and "roots" in self.identity.capabilities(self.row):
            self._side.peer.send_notification(method, None)
            self.connection.pump()

    def listen(
        self, *, tools: bool = False, prompts: bool = False, resources: bool = False, uris: Sequence[str] = ()
    ) -> Subscription:
        """Hear of changes: `async with client.listen(tools=True) as changes: async for change in changes`.

        In sessions each URI is subscribed to by itself, and the lists' notifications are picked out (SUB-7).
        """
        wanted: dict[str, Json] = {}
        for member, flag in (
            ("toolsListChanged", tools), ("promptsListChanged", prompts), ("resourcesListChanged", resources),
        ):  # fmt: skip
            if flag:
                wanted[member] = True
        if uris:
            wanted["resourceSubscriptions"] = list(uris)
        return Subscription(self, wanted)

    # -- calls ---------------------------------------------------------------------------------------------

    @override
    async def call(self, method: str, params: Mapping[str, Json], **options: Unpack[Options]) -> object:
        """Call a method of the latest revision with JSON params, and get its result as a model of that revision.

        Input that the server needs on the way is got from the handler (MRTR-5, MRTR-12).
        """
        spec = LATEST.methods.get(method)
        if spec is None or spec.result is None:
            raise LocalProtocolError(f"'{method}' is no request of {LATEST.name}")
        end = self._end(options)
        result = self.known.recall(method, params, options, self.connection.now())
        if result is None:
            result = await self._complete(method, params, options, end)
        if is_task(result, self.row):
            result = await followed(self, result, end)
        return self._read(spec.result, result)

    async def start_tool(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        ttl: int | None = None,
        **options: Unpack[Options],
    ) -> RemoteTask:
        """Run a tool as a task, if the server can, and get the task instead of its result.

        `ttl` is how many milliseconds it should be kept where the client can say so. Where the server answers with
        a result, the task has ended. Raises what `call_tool` raises.
        """
        params: dict[str, Json] = {"name": name, "arguments": dict(arguments or {})}
        if self.row.tasks is Tasks.CORE:
            params["task"] = {} if ttl is None else {"ttl": ttl}
        return started(self, await self._complete("tools/call", params, options, self._end(options)))

    async def _complete(
        self, method: str, params: Mapping[str, Json], options: Options, end: float | None
    ) -> dict[str, Json]:
        """Call a method, and answer what the server asks, until it asks no more."""
        given, changes = dict(params), self.known.changes
        for attempt in range(mrtr.ROUNDS):
            send = partial(self._once, method, given, options, end)
            result = await self._lasting(send, end, retry=options.get("retry", False))
            if not mrtr.is_input_required(result):
                if not attempt and method in METHODS:
                    self._read(str(LATEST.methods[method].result), result)  # only what is valid is kept
                    self.known.learn(method, params, options, result, self.connection.now(), changes)
                return result
            requests = mrtr.requests_of(result)
            answers = {key: await answer_input(self, request) for key, request in requests.items()}
            if not requests:
                # The server only wants to be asked again; it is given time to get there (MRTR-6).
                await asyncio.sleep(min(0.05 * 2**attempt, 2.0))
            given = mrtr.retry(given, result, answers)
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
        end = self._end(options)
        return await self._lasting(
            lambda: self._wait(self._open(method, given, options, end, unchecked=True), options),
            end,
            retry=options.get("retry", False),
        )

    def exact(self, package: Package[T]) -> T:
        """The callers of the revision that is spoken, in its own types: `client.exact(mcprev_types.v2025_06_18)`.

        Raises `LocalProtocolError` when another revision is spoken (SEAM-9).
        """
        if self.revision != package.REVISION:
            raise LocalProtocolError(f"the server speaks {self.revision}, not {package.REVISION}")
        return package.ClientCalls(Exact(self))

    def check(self, method: str) -> None:
        """Raise `LocalProtocolError` for a request that the revision or the server does not have."""
        self._side.check(method)

    def open(
        self, method: str, params: dict[str, Json] | None, *, idle: float | None, total: float | None
    ) -> Call:
        """Send a request as it is; what it answers is for `Connection.wait`. Raises `ConnectionLost`."""
        self._check_open()
        return self._side.call(method, params, self.connection.now(), idle=idle, total=total)

    def _check_open(self) -> None:
        """Raise `ConnectionLost` where nothing can be sent any more."""
        error = self.connection.error
        if error is not None:
            raise ConnectionLost(str(error), in_flight=False, retry_safe=True) from error

    async def _lasting(
        self, send: Callable[[], Awaitable[dict[str, Json]]], end: float | None, *, retry: bool
    ) -> dict[str, Json]:
        """Send over another connection if this one was lost.

        Send once more if the session ran out (HTTP-23), or if the stream of the answer broke and that does no harm,
        by its nature or by the word of the caller (HTTPM-7).
        """
        # What takes its place may be lost by the time that one who waited for it gets to run.
        while (connection := self.connection).error is not None:
            await self.replace(connection, connection.error, end)
        try:
            return await send()
        except ConnectionLost as error:
            if not error.in_flight or not (error.retry_safe or retry):
                raise
            if isinstance(error, SessionExpired) or connection.error is not None:
                await self.replace(connection, error, end)
        return await send()

    async def replace(self, lost: Connection, reason: McpError, end: float | None = None) -> None:
        """Have another connection in the place of one that was lost; see `Keeper.replace`."""
        await self._keeper.replace(lost, reason, end)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something for as long as the client is open, whichever its connection is."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _once(
        self, method: str, params: dict[str, Json], options: Options, end: float | None
    ) -> dict[str, Json]:
        """One round of a call, converted both ways."""
        row = self.row
        wire: dict[str, Json] = {
            **params,
            "_meta": {**caller_meta(options, self.identity), **self.identity.hello(LATEST)},
        }
        level = options.get("log_level") or (self._level if row.log_level_per_request else None)
        if level is not None and row.log_level_per_request:
            wire["_meta"][LOG_LEVEL] = level
        elif level is not None and declares(self._side.peer.peer_capabilities or {}, "logging"):
            await self.set_log_level(cast("Any", level))
        self._side.check(method)
        wire = convert(wire, method, Kind.PARAMS, from_=LATEST, to=row)
        result = await self._wait(self._open(method, wire, options, end, unchecked=True), options)
        if row is LATEST or is_task(result, row):
            return result
        up = converter(method, Kind.RESULT, from_=row, to=LATEST)
        return cast("dict[str, Json]", up(result, validate=False))

    def _open(
        self,
        method: str,
        params: dict[str, Json] | None,
        options: Options,
        end: float | None,
        *,
        unchecked: bool = False,
    ) -> Call:
        self._check_open()
        now = self.connection.now()
        return self._side.call(
            method,
            params,
            now,
            idle=options.get("timeout", self._timeouts[0]),
            total=None if end is None else max(end - now, 0.0),
            progress="progress" in options,
            unchecked=unchecked,
        )

    async def _wait(self, call: Call, options: Options) -> dict[str, Json]:
        progress = options.get("progress")
        if progress is None:
            return await self.connection.wait(call)

        def told(params: Mapping[str, Json]) -> None:
            progress(params.get("progress", 0.0), params.get("total"), params.get("message"))

        return await self.connection.wait(call, told)

    def _end(self, options: Options) -> float | None:
        total = options.get("total_timeout", self._timeouts[1])
        return None if total is None else self.connection.now() + total

    def _read(self, name: str, result: dict[str, Json]) -> object:
        """A result as its model; the model is found once."""
        read = self._readers.get(name)
        if read is None:
            read = self._readers[name] = reader(LATEST, name)
        try:
            return read(result)
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
