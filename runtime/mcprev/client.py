"""A client: typed in the latest revision, speaking whichever one its server speaks (design §7.3).

NEG-1..12, LIFE-4..6, MOD-1, MOD-10, MRTR-5..12, PAGE-1, PAGE-3, COMP-2, LOG-5, CONV-29, CONV-39, SEAM-9.
`connect` in `mcprev.connecting` makes one; everything here needs an open connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypedDict, TypeVar, cast

from pydantic import ValidationError
from typing_extensions import Unpack

from mcprev.context import ClientContext
from mcprev.convert import Kind, convert, converter
from mcprev.driver import Connection
from mcprev.errors import (
    InputDeclined,
    Json,
    LocalProtocolError,
    RemoteProtocolError,
    RpcError,
)
from mcprev.identity import ClientIdentity, overridden
from mcprev.listening import Subscription
from mcprev.protocol import mrtr
from mcprev.protocol.correlate import Call
from mcprev.protocol.handshake import SEVERITY
from mcprev.protocol.sides import ClientSide
from mcprev.protocol.stateless import LOG_LEVEL, SERVER_INFO
from mcprev.revisions import LATEST, Revision
from mcprev.seam import reader, to_wire
from mcprev.serving import Exact
from mcprev_types.latest import dispatch

if TYPE_CHECKING:
    from mcprev.protocol.plan import Plan
    from mcprev_types.latest import models

ClientHandler: TypeAlias = dispatch.ClientHandler[ClientContext]
"""What a client's author subclasses to answer servers: sampling, elicitation, roots, and notifications."""
Progress: TypeAlias = Callable[[float, float | None, str | None], None]
"""Told how far a call has come: progress, total, message."""
TIMEOUT: Final = 60.0
"""Seconds without a sign of life after which a call is given up, unless said otherwise."""
TOTAL: Final = 600.0
"""Seconds after which a call is given up whatever progress it makes, unless said otherwise."""
MAX_PAGES: Final = 10_000
"""More pages than this are not a list but a loop (PAGE-3)."""
logger: Final = logging.getLogger("mcprev.client")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Options(TypedDict, total=False):
    """What can be said of a single call."""

    timeout: float | None
    """Seconds without a sign of life after which it is given up; progress is one (LIFE-18)."""
    total_timeout: float | None
    """Seconds after which it is given up in any case."""
    progress: Progress
    """Ask for progress reports, and be told of them."""
    meta: Mapping[str, Json]
    """Members to add to `_meta`."""
    log_level: models.LoggingLevel
    """The lowest level of log messages wanted during the call (CONV-39)."""


class Package(Protocol[T_co]):
    """The package of a revision, such as `mcprev_types.v2025_06_18`."""

    @property
    def REVISION(self) -> str:  # noqa: N802 - as the packages spell it
        """The name of the revision."""
        ...

    @property
    def ClientCalls(self) -> Callable[[Any], T_co]:  # noqa: N802 - as the packages spell it
        """The callers of the revision."""
        ...


class Client:
    """An open connection to a server."""

    def __init__(
        self,
        connection: Connection,
        identity: ClientIdentity,
        plan: Plan,
        discovery: Mapping[str, Json],
        timeouts: tuple[float | None, float | None],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self.connection = connection
        self.plan = plan
        """How the revision was negotiated."""
        self._side = cast("ClientSide", connection.side)
        self._identity = identity
        self._discovery = discovery
        self._timeouts = timeouts
        self._close = close
        self._level: str | None = None
        self._readers: dict[str, Callable[[Any], Any]] = {}
        self.subscriptions: set[Subscription] = set()
        """Those who listen to a session's notifications."""
        self._closing: asyncio.Task[None] | None = None

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

    # -- tools, resources, prompts -------------------------------------------------------------------------

    async def call_tool(
        self, name: str, arguments: Mapping[str, Json] | None = None, **options: Unpack[Options]
    ) -> models.CallToolResult:
        """Run a tool. A tool that failed gives a result with `is_error`; see the specification's page on tools.

        Like every call it raises `RpcError` with what the server answered, `LocalProtocolError` for what this
        server does not offer, `RequestTimeout`, `ConnectionLost`, `InputDeclined` when the server needed input
        that was refused, and `RemoteProtocolError` for an answer that is not valid.
        """
        params: dict[str, Json] = {"name": name}
        if arguments is not None:
            params["arguments"] = dict(arguments)
        return cast("models.CallToolResult", await self.call("tools/call", params, **options))

    async def list_tools(
        self, cursor: str | None = None, **options: Unpack[Options]
    ) -> models.ListToolsResult:
        """One page of the tools on offer; `tools` gives all of them."""
        return cast("models.ListToolsResult", await self.call("tools/list", _page(cursor), **options))

    def tools(self, **options: Unpack[Options]) -> AsyncIterator[models.Tool]:
        """Every tool on offer, page after page."""
        return self._pages("tools/list", "tools", options)

    async def list_resources(
        self, cursor: str | None = None, **options: Unpack[Options]
    ) -> models.ListResourcesResult:
        """One page of the resources on offer; `resources` gives all of them."""
        return cast("models.ListResourcesResult", await self.call("resources/list", _page(cursor), **options))

    def resources(self, **options: Unpack[Options]) -> AsyncIterator[models.Resource]:
        """Every resource on offer, page after page."""
        return self._pages("resources/list", "resources", options)

    async def list_resource_templates(
        self, cursor: str | None = None, **options: Unpack[Options]
    ) -> models.ListResourceTemplatesResult:
        """One page of the resource templates on offer; `resource_templates` gives all of them."""
        found = await self.call("resources/templates/list", _page(cursor), **options)
        return cast("models.ListResourceTemplatesResult", found)

    def resource_templates(self, **options: Unpack[Options]) -> AsyncIterator[models.ResourceTemplate]:
        """Every resource template on offer, page after page."""
        return self._pages("resources/templates/list", "resource_templates", options)

    async def read_resource(self, uri: str, **options: Unpack[Options]) -> models.ReadResourceResult:
        """The contents of a resource. Raises `ResourceNotFound` at any revision when there is none."""
        return cast("models.ReadResourceResult", await self.call("resources/read", {"uri": uri}, **options))

    async def list_prompts(
        self, cursor: str | None = None, **options: Unpack[Options]
    ) -> models.ListPromptsResult:
        """One page of the prompts on offer; `prompts` gives all of them."""
        return cast("models.ListPromptsResult", await self.call("prompts/list", _page(cursor), **options))

    def prompts(self, **options: Unpack[Options]) -> AsyncIterator[models.Prompt]:
        """Every prompt on offer, page after page."""
        return self._pages("prompts/list", "prompts", options)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, **options: Unpack[Options]
    ) -> models.GetPromptResult:
        """A prompt, filled in with its arguments."""
        params: dict[str, Json] = {"name": name}
        if arguments is not None:
            params["arguments"] = dict(arguments)
        return cast("models.GetPromptResult", await self.call("prompts/get", params, **options))

    async def complete(
        self,
        ref: models.PromptReference | models.ResourceTemplateReference,
        name: str,
        value: str,
        context: Mapping[str, str] | None = None,
        **options: Unpack[Options],
    ) -> models.CompleteResult:
        """Ways to complete what is being typed for an argument; `context` holds the arguments that are known."""
        params: dict[str, Json] = {"ref": ref.to_wire(), "argument": {"name": name, "value": value}}
        if context is not None:
            params["context"] = {"arguments": dict(context)}
        return cast("models.CompleteResult", await self.call("completion/complete", params, **options))

    async def set_log_level(self, level: models.LoggingLevel) -> None:
        """Want log messages from this level up, from now on and with every call (LOG-5)."""
        if level not in SEVERITY:
            raise ValueError(f"no log level '{level}'; there are {', '.join(SEVERITY)}")
        if not self.row.log_level_per_request and level != self._level:
            await self.raw("logging/setLevel", {"level": level})
        self._level = level

    async def ping(self, **options: Unpack[Options]) -> None:
        """See whether the server answers; where there is no `ping`, by asking it who it is."""
        method = "ping" if "ping" in self.row.methods else "server/discover"
        await self.raw(method, None, **options)

    def roots_changed(self) -> None:
        """Tell the server that the roots changed, where there is a way to."""
        method = "notifications/roots/list_changed"
        if method in self.row.methods and "roots" in self._identity.capabilities(self.row):
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

    async def call(self, method: str, params: Mapping[str, Json], **options: Unpack[Options]) -> object:
        """Call a method of the latest revision with JSON params, and get its result as a model of that revision.

        Input that the server needs on the way is got from the handler (MRTR-5, MRTR-12).
        """
        spec = LATEST.methods.get(method)
        if spec is None or spec.result is None:
            raise LocalProtocolError(f"'{method}' is no request of {LATEST.name}")
        given = dict(params)
        end = self._end(options)
        for attempt in range(mrtr.ROUNDS):
            result = await self._once(method, given, options, end)
            if not mrtr.is_input_required(result):
                return self._read(spec.result, result)
            requests = mrtr.requests_of(result)
            answers = {key: await self._answer(request) for key, request in requests.items()}
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
            given = {**(given or {}), "_meta": {**meta, **options["meta"]}}
        return await self._wait(
            self._open(method, given, options, self._end(options), unchecked=True), options
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
        """Send a request as it is; what it answers is for `Connection.wait`."""
        return self._side.call(method, params, self.connection.now(), idle=idle, total=total)

    async def _once(
        self, method: str, params: dict[str, Json], options: Options, end: float | None
    ) -> dict[str, Json]:
        """One round of a call, converted both ways."""
        row = self.row
        wire: dict[str, Json] = {
            **params,
            "_meta": {**options.get("meta", {}), **self._identity.hello(LATEST)},
        }
        level = options.get("log_level") or (self._level if row.log_level_per_request else None)
        if level is not None and row.log_level_per_request:
            wire["_meta"][LOG_LEVEL] = level
        elif level is not None:
            await self.set_log_level(cast("Any", level))
        self._side.check(method)
        wire = convert(wire, method, Kind.PARAMS, from_=LATEST, to=row)
        result = await self._wait(self._open(method, wire, options, end), options)
        if row is LATEST:
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

    async def _pages(self, method: str, member: str, options: Options) -> AsyncIterator[Any]:
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(MAX_PAGES):
            page: Any = await self.call(method, _page(cursor), **options)
            for item in getattr(page, member):
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return
            if cursor in seen:
                break
            seen.add(cursor)
        raise RemoteProtocolError(f"the pages of '{method}' do not end")

    async def _answer(self, request: Mapping[str, Json]) -> dict[str, Json]:
        """Ask the handler what a result asks. Raises `InputDeclined` (MRTR-10)."""
        method = str(request.get("method"))
        if method not in overridden(self._identity.handler, LATEST, "ClientHandler"):
            raise InputDeclined(f"the server needs '{method}', for which there is no handler")
        binding = dispatch.CLIENT_BINDINGS[method]
        stub = getattr(self._identity.handler, binding.stub)
        try:
            params = request.get("params")
            given = None if params is None else reader(LATEST, binding.params)(params)
            return to_wire(await stub(ClientContext(self, self.connection, None), given))
        except ValidationError as error:
            raise RemoteProtocolError(
                f"the server's '{method}' is not valid: {error}", raw=dict(request)
            ) from None
        except RpcError as error:
            raise InputDeclined(f"'{method}' was declined: {error.message}") from error

    # -- the end -------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """End the connection; may be called from any task, and again."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._end_all())
        await asyncio.shield(self._closing)

    async def _end_all(self) -> None:
        await self.connection.aclose()
        await self._close()


def _page(cursor: str | None) -> dict[str, Json]:
    return {} if cursor is None else {"cursor": cursor}
