"""Requests that are answered with a task and go on by themselves (TASK-1..8, TASKX-1..5, TASKX-6, SUB-9, PROG-4).

One way to write a long-running tool for every revision: the handler is an ordinary one. Where tasks are part of
the protocol the client decides, and the whole handler runs as a task; where they are an extension the handler does,
with `ctx.detach()`; for any other client the same call simply takes as long as it takes.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from mcprev.convert import PayloadKind, convert
from mcprev.core.interfaces import principal_of, share_of
from mcprev.core.limits import CLOSE
from mcprev.errors import (
    INTERNAL_MESSAGE,
    ConnectionLost,
    ConversionError,
    InternalError,
    InvalidParams,
    Json,
    McpError,
    MethodNotFound,
    RpcError,
)
from mcprev.protocol import mrtr, tasks
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.handshake import HandshakeServer
from mcprev.protocol.session_state import State
from mcprev.protocol.stateless import uncovered
from mcprev.protocol.subscriptions import LISTEN, task_ids
from mcprev.protocol.tasks import Support, Task
from mcprev.revisions import LATEST, Revision
from mcprev.revisions import TaskSupport as Place
from mcprev.server.task_execution import TaskExecution
from mcprev.server.task_subscriptions import MOST, TaskSubscriptions
from mcprev.server.tasks import Tasks

if TYPE_CHECKING:
    from mcprev.core.connection import Connection
    from mcprev.server.context import Context

CALL: Final = "tools/call"
_PROCESS: Final = secrets.token_hex(8)
"""What tells this process's sessions from those of others that share a store."""
logger: Final = logging.getLogger("mcprev.server")
Outcome = Callable[["asyncio.Future[dict[str, Json]]"], dict[str, Json]]
"""Gives the result of a handler that has ended, also for one that failed. Raises `RpcError`."""
Run = Callable[["Context", dict[str, Json] | None], Awaitable[dict[str, Json]]]
"""Runs the handler once, and gives its result in the words of the latest revision."""


class TaskManager:
    """Runs what can become a task, and answers what is asked about tasks."""

    def __init__(self, settings: Tasks) -> None:
        self.settings = settings
        self.shown: Callable[[str, Context], bool] | None = None
        """Whether a tool exists for the client of a request; set where that differs by client."""
        self.running: dict[str, TaskExecution] = {}
        """What runs as a task here, by its name."""
        self.streams: TaskSubscriptions = TaskSubscriptions(_described)
        self._background: set[asyncio.Task[None]] = set()
        self._methods: Mapping[str, Callable[[IncomingRequest, Context], Awaitable[dict[str, Json]]]] = {
            tasks.GET: self._get,
            tasks.RESULT: self._result,
            tasks.UPDATE: self._update,
            tasks.CANCEL: self._cancel,
            tasks.LIST: self._list,
        }

    def serves(self, revision: Revision, method: str) -> bool:
        """Whether a request is about tasks; a listen stream comes this far only when it names some."""
        return method in tasks.METHODS[revision.tasks] or method == LISTEN

    async def serve(self, incoming: IncomingRequest, context: Context) -> None:
        """Answer a request about tasks. Raises `RpcError` for one that is refused."""
        if incoming.method == LISTEN:
            await self._listen(incoming, context)
            return
        incoming.respond(await self._methods[incoming.method](incoming, context))

    def mark(self, result: dict[str, Json], revision: Revision) -> dict[str, Json]:
        """A list of tools that says which of them can run as tasks, where there is a word for it."""  # TOOL-10
        if revision.tasks is not Place.CORE:
            return result
        marked = [
            (
                {**tool, "execution": {**tool.get("execution", {}), "taskSupport": str(support)}}
                if (support := self.settings.support(tool.get("name"))) is not Support.FORBIDDEN
                else tool
            )
            for tool in result["tools"]
        ]
        return {**result, "tools": marked}

    # -- calls that may become tasks -----------------------------------------------------------------------

    def takes(self, incoming: IncomingRequest, context: Context) -> bool:
        """Whether a call can become a task. Raises `RpcError` when it must and cannot, or may not."""  # TASK-3
        params, revision = incoming.params or {}, incoming.revision
        if incoming.method != CALL or revision.tasks is Place.NONE:
            return False
        support, shown = self.settings.support(params.get("name")), self.shown
        if support is not Support.FORBIDDEN and shown is not None and not shown(params["name"], context):
            support = Support.FORBIDDEN  # as for a tool that does not exist
        if revision.tasks is Place.CORE:
            wants = isinstance(params.get("task"), dict)
            refused = Support.FORBIDDEN if wants else Support.REQUIRED
            if support is refused:
                verb = "cannot" if wants else "can only"
                raise MethodNotFound(f"the tool '{params.get('name')}' {verb} run as a task")
            return wants
        can = not uncovered(context.capabilities, tasks.NEEDS)
        if support is Support.REQUIRED and not can:
            raise tasks.tasks_undeclared()
        return can and support is not Support.FORBIDDEN

    def begin(self, incoming: IncomingRequest, ttl: int | None, poll: int | None) -> Task:
        """A task for a request. Raises `InternalError` when too many run, `InvalidParams` for a bad wish."""
        if len(self.running) >= self.settings.max_running:
            raise InternalError("too many tasks are running")
        owner, session = principal_of(incoming), _session(incoming)
        if owner is not None or session is not None:
            running = (one.task for one in self.running.values() if one.task is not None)
            if owner is not None:
                own = sum(task.owner == owner for task in running)
            else:
                own = sum(task.session == session for task in running)
            if own >= self.settings.max_running_each:
                raise InternalError("too many tasks of this client are running")
        most = self.settings.ttl if ttl is None else ttl
        if incoming.revision.tasks is Place.CORE:
            most = tasks.wanted_ttl(incoming.params or {}, most)
        every = self.settings.poll if poll is None else poll
        return tasks.begin(time.time(), ttl=most, poll=every, owner=owner, session=session)

    async def call(
        self,
        context: Context,
        params: dict[str, Json] | None,
        run: Run,
        outcome: Outcome,
    ) -> dict[str, Json] | None:
        """Run a call that may become a task. Gives its result, or None once a task has been answered instead."""
        incoming = context.request
        running = context.running = TaskExecution(self, incoming, context.connection)
        try:
            if incoming.revision.tasks is Place.CORE:
                await _begun(running)
            handle = running.handle = asyncio.ensure_future(_to_the_end(context, params, run, running))
            if not running.detached.done():
                either: set[asyncio.Future[Any]] = {handle, running.detached}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._given_up(running, outcome)
            raise
        if not running.detached.done():
            return handle.result()
        self._see_to(running, outcome)
        if not incoming.open:
            handle.cancel()  # the client is never told the task's name
        incoming.respond(tasks.created(running.detached.result(), incoming.revision))
        return None

    async def _given_up(self, running: TaskExecution, outcome: Outcome) -> None:
        """The client gave a request up before it was told of a task: whatever runs for it is not wanted."""
        handle = running.handle
        if handle is not None:
            handle.cancel()
        if running.task is not None:
            self._see_to(running, outcome)
        elif handle is not None:
            await asyncio.wait({handle})
            if not handle.cancelled() and handle.exception() is not None:
                logger.debug("a handler that was given up raised", exc_info=handle.exception())

    def _see_to(self, running: TaskExecution, outcome: Outcome) -> None:
        watcher = asyncio.ensure_future(self._watch(running, outcome))
        self._background.add(watcher)
        watcher.add_done_callback(self._background.discard)
        share = share_of(running.request)
        if share is not None:
            share.hold()
            watcher.add_done_callback(lambda _: share.release())

    async def _watch(self, running: TaskExecution, outcome: Outcome) -> None:
        """See a task to its end, whatever that is."""
        handle = running.handle
        if handle is not None:
            await asyncio.wait({handle})
        task, now = cast("Task", running.task), time.time()
        try:
            if handle is None or handle.cancelled():
                task = tasks.cancel(task, now)
            else:
                task = tasks.complete(task, outcome(handle), now)
        except RpcError as error:
            task = tasks.fail_task(task, error.to_wire(), now)
        running.end()
        try:
            await running.keep_at_last(task)
        finally:
            self.running.pop(task.id, None)
            self.streams.forget(task)
            running.stir()

    async def aclose(self) -> None:
        """Give up what runs, within bounded time; may be called again."""
        for running in tuple(self.running.values()):
            if running.handle is not None:
                running.handle.cancel()
        for bound in (CLOSE, CLOSE):
            if self._background:
                _, left = await asyncio.wait(set(self._background), timeout=bound)
                for watcher in left:
                    logger.warning("a task does not end: it is left alone")
                    watcher.cancel()

    # -- requests about tasks ------------------------------------------------------------------------------

    async def _named(self, incoming: IncomingRequest) -> Task:
        """The task that a request names. Raises `InvalidParams` for one that is not there."""  # TASKX-5
        name = (incoming.params or {}).get("taskId")
        task = await self._find(name, incoming)
        if task is None:
            raise tasks.unknown(name)
        return task

    async def _find(self, name: object, incoming: IncomingRequest) -> Task | None:
        """The task of a name, if it is the asker's."""  # TASK-7
        running = self.running.get(name) if isinstance(name, str) else None
        task = await self.settings.store.load(name) if isinstance(name, str) else None
        if running is not None and (task is None or not task.ended):
            task = running.task  # which is what the store will have next; it may have ended meanwhile
        return task if task is not None and task.owner == principal_of(incoming) else None

    async def _get(self, incoming: IncomingRequest, context: Context) -> dict[str, Json]:
        del context
        return _described(await self._named(incoming), incoming.revision)

    async def _listen(self, incoming: IncomingRequest, context: Context) -> None:
        """Open a stream that tells of tasks, those of them that are the asker's and can be told of."""  # SUB-9
        if uncovered(context.capabilities, tasks.NEEDS):
            raise tasks.tasks_undeclared()
        found: list[tuple[TaskExecution | None, Task]] = []
        for name in task_ids((incoming.params or {})["notifications"])[:MOST]:
            running = self.running.get(name)
            task = await self._find(name, incoming)
            if task is not None and (running is not None or task.ended):
                found.append((running, task))
        # While others were looked up, more may have become of it.
        newest = [task if running is None else running.task or task for running, task in found]
        self.streams.open(incoming, context.connection, newest)

    async def _result(self, incoming: IncomingRequest, context: Context) -> dict[str, Json]:
        """Wait for the end of a task; what it asks meanwhile is asked here."""  # TASK-4
        task = await self._named(incoming)
        running = self.running.get(task.id)
        while not task.ended:
            # What becomes of it from here on is news, also while it is looked for.
            news = None if running is None else running.news
            task = await self._named(incoming)
            if running is not None and running.task is not None and running.task.ended:
                task = running.task
            if task.ended:
                break
            if running is None or news is None:
                # It runs in another process, whose store tells when it has ended.
                if task.expired(time.time()):
                    raise tasks.unknown(task.id)
                await asyncio.sleep((task.poll or tasks.DEFAULT_POLL) / 1000)
            elif (key := next((key for key in task.asked if key not in running.taken), None)) is not None:
                await self._put(running, key, task, context)
            else:
                await asyncio.shield(news)
        if task.error is not None:
            raise RpcError(str(task.error["message"]), code=task.error["code"], data=task.error.get("data"))
        if task.result is None:
            raise InvalidParams("the task was cancelled")
        result = _at(task.result, incoming.revision)
        return {**result, "_meta": {**(result.get("_meta") or {}), **tasks.related(task)}}

    async def _put(self, running: TaskExecution, key: str, task: Task, context: Context) -> None:
        """Send one of a task's questions to the client, on the stream of the request that waits for its result."""
        request = task.asked[key]
        params: dict[str, Json] = request.get("params") or {}
        meta: dict[str, Json] = params.get("_meta") or {}
        marked = {**params, "_meta": {**meta, **tasks.related(task)}}
        running.taken.add(key)
        try:
            answer: dict[str, Json] | McpError = await context.send_request({**request, "params": marked})
        except ConnectionLost:
            raise  # it is asked again over the next connection
        except McpError as error:
            answer = error
        finally:
            running.taken.discard(key)
            running.stir()
        await running.answer({key: answer})

    async def _update(self, incoming: IncomingRequest, context: Context) -> dict[str, Json]:
        """Answers came; what cannot be an answer is refused before any of them counts."""  # TASKX-3
        from mcprev.server.context import read_answer

        del context
        task = await self._named(incoming)
        given: Json = (incoming.params or {}).get("inputResponses") or {}
        if not isinstance(given, dict):
            raise InvalidParams("Invalid params: inputResponses is no object")
        responses = cast("dict[str, Json]", given)
        known: dict[str, dict[str, Json] | McpError] = {}
        for key in task.asked.keys() & responses.keys():
            answer: Json = responses[key]
            if not isinstance(answer, dict):
                raise InvalidParams(f"Invalid params: the input response '{key}' is no object")
            known[key] = cast("dict[str, Json]", answer)
            read_answer(key, task.asked[key], cast("dict[str, Json]", answer))
        running = self.running.get(task.id)
        if running is not None:
            await running.answer(known)
        return {}

    async def _cancel(self, incoming: IncomingRequest, context: Context) -> dict[str, Json]:
        """Give a task up; it says so before this is answered, and from then on."""  # TASK-5
        del context
        task, core = await self._named(incoming), incoming.revision.tasks is Place.CORE
        if task.ended and core:
            raise InvalidParams(
                f"the task has ended: it is {tasks.members(task, incoming.revision)['status']}"
            )
        if task.ended:
            return {}
        running = self.running.get(task.id)
        task = tasks.cancel(task, time.time())
        if running is None:
            await self.settings.store.save(task)
        else:
            try:
                await running.keep(task)
            finally:
                if running.handle is not None:
                    running.handle.cancel()
        return tasks.members(task, incoming.revision) if core else {}

    async def _list(self, incoming: IncomingRequest, context: Context) -> dict[str, Json]:
        """The asker's own tasks, a page at a time; a cursor is the name of the last one seen."""  # TASK-7
        del context
        found = await self.settings.store.list(principal_of(incoming), _session(incoming))
        cursor, start = (incoming.params or {}).get("cursor"), 0
        if cursor is not None:
            start = next((n for n, task in enumerate(found, 1) if task.id == cursor), 0)
            if not start:
                raise InvalidParams("Invalid params: no such cursor")
        page = found[start : start + tasks.PAGE]
        listed: dict[str, Json] = {"tasks": [tasks.members(task, incoming.revision) for task in page]}
        if len(found) > start + tasks.PAGE:
            listed["nextCursor"] = page[-1].id
        return listed

    def notify_status(self, task: Task, incoming: IncomingRequest, connection: Connection) -> None:
        """Tell the session that asked for a task what has become of it, where that can be told."""  # TASK-8
        peer, revision = incoming.engine, incoming.revision
        if (
            tasks.STATUS in revision.methods
            and isinstance(peer, HandshakeServer)
            and peer.state is State.READY
        ):
            peer.send_notification(tasks.STATUS, tasks.members(task, revision))
            connection.process_events()


async def _begun(running: TaskExecution) -> None:
    """Make a request a task. Raises `RpcError`: no tool has run, so there is no result of one."""
    try:
        await running.detach(None, None, None)
    except RpcError:
        raise
    except Exception as error:
        logger.exception("a task cannot be saved")
        raise InternalError(INTERNAL_MESSAGE) from error


async def _to_the_end(
    context: Context, params: dict[str, Json] | None, run: Run, running: TaskExecution
) -> dict[str, Json]:
    """Run a handler; one that is a task by then gets its input where it is, not by being asked again."""
    wire = await run(context, params)
    for _ in range(mrtr.MAX_ROUNDS):
        if not running.is_task or not mrtr.is_input_required(wire):
            return wire
        for key, request in mrtr.requests_of(wire).items():
            context.answers.given[key] = await running.ask(key, request, None)
        context.answers.state = wire.get(mrtr.STATE)
        wire = await run(context, context.answers.into(params or {}))
    raise TypeError(f"a task asked for input more than {mrtr.MAX_ROUNDS} times")


def _described(task: Task, revision: Revision) -> dict[str, Json]:
    """Everything that is told of a task."""
    result = None if task.result is None else _at(task.result, revision)
    return tasks.outcome(task, revision, result)


def _at(result: dict[str, Json], revision: Revision) -> dict[str, Json]:
    """A task's result in the words of a revision."""
    try:
        return cast("dict[str, Json]", convert(result, CALL, PayloadKind.RESULT, from_=LATEST, to=revision))
    except ConversionError as error:
        raise InternalError(INTERNAL_MESSAGE) from error


def _session(incoming: IncomingRequest) -> str | None:
    """The session that a request belongs to."""
    return f"{_PROCESS}-{incoming.engine.connection.number}" if incoming.revision.handshake else None
