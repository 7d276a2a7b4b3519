"""A client: its calls are typed in the latest revision and converted to the revision that the server speaks.

NEG-1..12, LIFE-4..6, MOD-1, MOD-10, MRTR-5..12, PAGE-1, PAGE-3, COMP-2, LOG-5, CONV-29, SEAM-9.
`connect` in `mcprev.client.connect` makes one over a connection that is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import Unpack, override

from mcprev.client.calls import result_reader, until
from mcprev.client.methods import Methods, by_name, page_params
from mcprev.client.options import Options
from mcprev.client.session import ClientSession
from mcprev.client.subscriptions import Subscription
from mcprev.client.tasks import CALL, ClientTask, follow_task, task_in
from mcprev.core.capabilities import extension_settings
from mcprev.core.lists import ListBudget, model_text, read_pages
from mcprev.core.method_binding import read_result
from mcprev.errors import Json, MethodNotFound, RemoteProtocolError
from mcprev.protocol import mrtr
from mcprev.protocol.cache import METHODS
from mcprev.protocol.engine import declares
from mcprev.protocol.stateless import COMPLETE
from mcprev.protocol.subscriptions import TASK_IDS
from mcprev.protocol.tasks import TASK, TASKS_OF_TOOLS, is_task
from mcprev.revisions import LATEST, Revision, TaskSupport
from mcprev.wire.meta_keys import SERVER_INFO
from mcprev_types.latest import dispatch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcprev.core.connection import Connection
    from mcprev.core.exact import Package
    from mcprev.core.valid_entries import InvalidEntry
    from mcprev.extensions.skills.client import HeldSkill
    from mcprev.protocol.negotiation.steps import Plan
    from mcprev_types.latest import models

T = TypeVar("T")


class Client(Methods):
    """An open connection to a server, as `mcprev.connect` returns it.

    Params and results are models of the latest revision, whatever revision the server speaks. Every method that sends a
    request takes the options of `call_tool`, and raises its errors.
    """

    def __init__(
        self, session: ClientSession, close: Callable[[], Awaitable[None]], server_name: str | None = None
    ) -> None:
        """Create the client of an open session; `mcprev.connect` calls this. `close` releases the target."""
        super().__init__(self._entries)
        self.server_name: str | None = server_name
        """The name of the server in the configuration of `connect_all`; None for a client of `connect`."""
        self.session = session
        """The connection and the calls of this client, as JSON."""
        self._server_cache = session.server_cache
        self._close = close
        self._readers: dict[str, Callable[[Any], Any]] = {}
        """Parsers of results, by method."""
        self._closing: asyncio.Task[None] | None = None

    # -- the server ----------------------------------------------------------------------------------------

    @property
    def connection(self) -> Connection:
        """The current connection; a lost one is replaced by a new one."""
        return self.session.connection

    @property
    def plan(self) -> Plan:
        """The steps by which the revision was negotiated, and their outcome."""
        return self.session.opened.plan

    @property
    def spoken(self) -> Revision:
        """The revision that client and server speak, as a row of the table of revisions."""
        return self.session.revision

    @property
    def revision(self) -> str:
        """The name of the revision that client and server speak, such as `2025-11-25`."""
        return self.session.revision.name

    @property
    def reopened(self) -> int:
        """The number of times that the connection was lost and opened again."""
        return self.session.reopened

    @property
    def server_info(self) -> models.Implementation | None:
        """The name and version that the server declares, which are not authenticated; None if it declares none."""
        meta: dict[str, Json] = self.session.opened.discovery.get("_meta") or {}
        info = meta.get(SERVER_INFO)
        if info is None:
            return None
        found: models.Implementation = LATEST.models.Implementation.from_wire(info)
        return found

    @property
    def capabilities(self) -> models.ServerCapabilities:
        """The capabilities that the server declares, in the types of the latest revision."""
        declared: Json = self.session.opened.discovery.get("capabilities") or {}
        found: models.ServerCapabilities = LATEST.models.ServerCapabilities.from_wire(declared)
        return found

    def supports(self, extension: str) -> bool:
        """Return whether the server and this client both declare an extension, such as `io.modelcontextprotocol/ui`."""
        session = self.session
        theirs: Json = session.opened.discovery.get("capabilities") or {}
        both = (theirs, session.identity.capabilities(self.spoken))
        return all(extension_settings(declared, extension) is not None for declared in both)

    def extension_settings(self, extension: str) -> Mapping[str, Json] | None:
        """Return what the server declares about an extension, whether this client declares it or not; None for nothing."""
        return extension_settings(self.session.opened.discovery.get("capabilities") or {}, extension)

    @property
    def instructions(self) -> str | None:
        """The server's advice on how to use it, for the model; None if it gives none."""
        return self.session.opened.discovery.get("instructions")

    # -- the session ---------------------------------------------------------------------------------------

    async def set_log_level(self, level: models.LoggingLevel) -> None:
        """Request log messages of this level and above, for all calls from now on.

        `level` is `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert` or `emergency`. Messages go to the
        handler or to the function `logging` of `connect`. Raises `LocalProtocolError` if the revision has sessions and
        the server does not declare logging, and `ValueError` for an unknown level.
        """
        await self.session.set_log_level(level)

    async def ping(self, **options: Unpack[Options]) -> None:
        """Check that the server responds: send `ping`, or `server/discover` at revisions without `ping`."""
        method = "ping" if "ping" in self.spoken.methods else "server/discover"
        await self.raw(method, None, **options)

    def roots_changed(self) -> None:
        """Notify the server that the roots changed, if the revision has the notification and this client has roots."""
        method, session = "notifications/roots/list_changed", self.session
        if method in self.spoken.methods and "roots" in session.identity.capabilities(self.spoken):
            session.notify(method, None)

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Sequence[str] | str = (),
        tasks: Sequence[str] | str = (),
    ) -> Subscription:
        """Subscribe to changes: `async with client.listen(tools=True) as changes: async for change in changes`.

        `tools`, `prompts` and `resources` subscribe to changes of the server's lists, `uris` to changes of the contents
        of resources, and `tasks` to changes of the status of tasks with these ids. `Subscription.honoured` is the part
        of all this that the server reports.
        """
        lists = {
            "toolsListChanged": tools, "promptsListChanged": prompts, "resourcesListChanged": resources,
        }  # fmt: skip
        wanted: dict[str, Json] = {member: True for member, flag in lists.items() if flag}
        if uris:
            wanted["resourceSubscriptions"] = [uris] if isinstance(uris, str) else list(uris)
        if tasks:
            wanted[TASK_IDS] = [tasks] if isinstance(tasks, str) else list(tasks)
        return Subscription(self.session, wanted)

    # -- calls ---------------------------------------------------------------------------------------------

    @override
    async def call(self, method: str, params: Mapping[str, Json], **options: Unpack[Options]) -> object:
        """Call a method of the latest revision with JSON params; return its result as a model of that revision.

        If the server asks for input first, the handler of this client provides it. `call_tool` describes
        the options and the errors.
        """
        session = self.session
        sent: dict[str, Json] = {**params}
        if method not in self._readers:
            self._readers[method] = result_reader(method, self.spoken)
        end = session.deadline(options)
        task_tools = self._server_cache.task_tools
        as_task = method == CALL and bool(task_tools) and sent.get("name") in task_tools
        if as_task:
            sent[TASK] = {}
        try:
            if method in METHODS:
                fetch = partial(self._fetch, method, sent, options, end)
                check = partial(read_result, self._readers[method])
                result = await self._server_cache.result(method, sent, options, fetch, check)
            else:
                result = await session.request(method, sent, options, end)
        except MethodNotFound:
            if method != CALL or not declares(session.opened.discovery["capabilities"], TASKS_OF_TOOLS):
                raise
            # A tool that requires a task, or that cannot run as one any more, is refused like this; it has not run.
            as_task = not as_task
            sent = {**params, TASK: {}} if as_task else {**params}
            result = await session.request(CALL, sent, options, end)
            self._server_cache.set_task(str(sent.get("name")), required=as_task)
        # Most results are complete, which two look-ups show.
        if TASK in result or result.get("resultType", COMPLETE) != COMPLETE:
            result = await self._provide_input(method, sent, result, options, end)
            if is_task(result, self.spoken):
                result = await follow_task(session, result, options, end)
        typed: Any = read_result(self._readers[method], result)
        if method == CALL:
            self._server_cache.check(str(sent.get("name")), typed)
        return typed

    async def _fetch(
        self, method: str, params: dict[str, Json], options: Options, end: float | None
    ) -> dict[str, Json]:
        """Request a result that may be cached."""
        if "cursor" not in params:
            self.session.invalid.begin(method)
        return await self.session.request(method, params, options, end)

    @property
    def invalid_entries(self) -> Mapping[str, Sequence[InvalidEntry]]:
        """The entries that were left out of the lists of the server because they are not valid, by method (`tools/list`).

        Of each list those that its last reading found, at most 1,000. A warning in the log names each once. With
        `strict=True`, `connect` makes a client that leaves none out: such a list raises `RemoteProtocolError`.
        """
        return self.session.invalid.by_method

    async def _entries(self, method: str, member: str, options: Options) -> AsyncIterator[Any]:
        """Iterate over the entries of a list, page after page, within the bounds of `mcprev.core.lists`."""  # PAGE-3

        def take(budget: ListBudget, page: Any) -> str | None:  # noqa: ANN401 - the model of a page
            return budget.count(model_text(page), len(getattr(page, member)), page.next_cursor)

        def fetch(cursor: str | None) -> Awaitable[Any]:
            return self.call(method, page_params(cursor), **options)

        seconds = self.session.total_timeout(options)
        clock = self.session.clock
        async with aclosing(read_pages(method, fetch, take, seconds=seconds, clock=clock)) as pages:
            async for page in pages:
                for entry in getattr(page, member):
                    yield entry

    async def start_tool(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        ttl: int | None = None,
        **options: Unpack[Options],
    ) -> ClientTask:
        """Call a tool as a task, if the server supports that, and return the task instead of the result.

        `ttl` requests that the server keep the task for that many milliseconds; it has an effect at 2025-11-25 only.
        None: the server decides. If the server responds with a result, the returned task is already completed. Options
        and errors are those of `call_tool`.
        """
        params: dict[str, Json] = {"name": name, "arguments": by_name(arguments or {})}
        if self.spoken.tasks is TaskSupport.CORE:
            params["task"] = {} if ttl is None else {"ttl": ttl}
        end = self.session.deadline(options)
        result = await self.session.request("tools/call", params, options, end)
        result = await self._provide_input("tools/call", params, result, options, end)
        return task_in(result, self.session)

    async def task(self, task_id: str) -> ClientTask:
        """Fetch a task that was started before, perhaps by another client or process, by its id.

        Raises `InvalidParams` for a task that the server does not know, and the errors of `call_tool`.
        """
        task = ClientTask(self.session, {"taskId": task_id, "status": "working"})
        await task.refresh()
        return task

    async def _provide_input(
        self,
        method: str,
        params: dict[str, Json],
        result: dict[str, Json],
        options: Options,
        end: float | None,
    ) -> dict[str, Json]:
        """Answer the input requests of a result and call again, until a result has none."""
        for attempt in range(mrtr.MAX_ROUNDS):
            if not mrtr.is_input_required(result):
                return result
            answers = await self._answer_inputs(method, mrtr.requests_of(result), attempt, end)
            params = mrtr.retry(params, result, answers)
            if attempt + 1 < mrtr.MAX_ROUNDS:
                result = await self.session.request(method, params, options, end)
        raise RemoteProtocolError(f"'{method}' asked for input more than {mrtr.MAX_ROUNDS} times")

    async def _answer_inputs(
        self, method: str, requests: Mapping[str, Mapping[str, Json]], attempt: int, end: float | None
    ) -> dict[str, Json]:
        """Return the answers to all input requests of a result, by the deadline `end` of the call.

        Raises what `InputAnswerer` raises, and `RequestTimeout` if the handler takes longer.
        """  # TIME-1
        answer, clock = self.session.answer_input, self.session.clock
        async with until(end, f"total timeout: the input that '{method}' asked for was not there", clock):
            answers = {key: await answer(request) for key, request in requests.items()}
            if not requests:
                # The server only asks for a retry; wait before it (MRTR-6).
                await asyncio.sleep(min(0.05 * 2**attempt, 2.0))
        return answers

    async def raw(
        self, method: str, params: Mapping[str, Json] | None = None, **options: Unpack[Options]
    ) -> dict[str, Json]:
        """Call any method, with params and result as JSON of the spoken revision, without conversion or validation.

        The call is sent even if the server does not declare the method. At stateless revisions the required `_meta` is
        added.
        """
        return await self.session.raw(method, params, **options)

    @property
    def calls(self) -> dispatch.ClientCalls:
        """Methods for all requests and notifications of a client, typed in the latest revision.

        They are converted to the spoken revision. They include the requests for which `Client` has no method, such as
        `client.calls.subscribe(models.SubscribeParams(meta=client.meta))`.
        """
        from mcprev.core.exact import LatestSender

        session = self.session
        return dispatch.ClientCalls(LatestSender(lambda: session.revision, self.call, session.notify))

    @property
    def meta(self) -> models.RequestMetaObject:
        """The `_meta` that this client sends with requests of the latest revision, for the params of `calls`."""
        own = self.session.identity.introduction(LATEST)
        found: models.RequestMetaObject = LATEST.models.RequestMetaObject.from_wire(own)
        return found

    def exact(self, package: Package[T, object]) -> T:
        """Return the methods for all requests of the spoken revision in its own types, without conversion.

        `package` is the generated package of that revision, as in `client.exact(mcprev_types.v2025_06_18)`. Raises
        `LocalProtocolError` if another revision is spoken.
        """
        from mcprev.core.exact import ExactSender, row_of

        row = row_of(package, self.revision)
        return package.ClientCalls(ExactSender(row, self.session.raw, self.session.notify))

    # -- skills --------------------------------------------------------------------------------------------

    def skills(self, **options: Unpack[Options]) -> AsyncGenerator[HeldSkill, None]:
        """Iterate over the skills that the server lists, page after page; `mcprev.extensions.skills` describes them.

        Entries that are not valid or too large are left out, with a warning in the log. The list may lack skills that `skill`
        finds. Nothing is read but the list. Raises `LocalProtocolError` if the server declares no skills, and the errors of `tools`.
        """
        from mcprev.extensions.skills.client import skills_of

        return skills_of(self, options)

    def skill(self, uri: str) -> HeldSkill:
        """Return a skill by the URI of its SKILL.md, listed or not: `await client.skill(uri).read("templates/email.txt")`.

        Its entry is fetched when it is awaited, or when the first file is read. Raises `ValueError` for a text that is no such URI.
        """
        from mcprev.extensions.skills.client import skill_of

        return skill_of(self, uri)

    # -- the end -------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close the connection; may be called from any task, and more than once."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._end())
        await asyncio.shield(self._closing)

    async def _end(self) -> None:
        await self.session.aclose()
        await self._close()
