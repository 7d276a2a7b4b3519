"""Runs tool calls as tasks, and answers the requests about tasks (TASK-1..8, TASKX-1..5, TASKX-6, SUB-9, PROG-4).

The same handler serves a long-running tool at every revision. Where tasks are part of the core protocol, the client
decides that a call is a task, and the whole handler runs as one. Where tasks are an extension, the handler decides with
`ctx.detach()`. For any other client the call is answered when the handler returns.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, cast

from mcprev.core.input_requests import read_answer
from mcprev.core.interfaces import held_share, principal_of
from mcprev.core.limits import CLOSE
from mcprev.core.method_binding import log_error
from mcprev.error_text import internal_error, worker_lost
from mcprev.errors import (
    ConnectionLost,
    InternalError,
    InvalidParams,
    Json,
    McpError,
    MethodNotFound,
    RpcError,
    StoreError,
)
from mcprev.protocol import tasks
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.mrtr import without_empty_fields
from mcprev.protocol.stateless import COMPLETE, StatelessServer, missing_capability, uncovered
from mcprev.protocol.subscriptions import LISTEN, TASK_IDS, task_ids
from mcprev.protocol.tasks import Status, Support, Task
from mcprev.revisions import Revision, TaskSupport
from mcprev.server.task_execution import (
    CALL,
    RunningTasks,
    TaskExecution,
    TaskStream,
    given_form,
    result_at,
    session_of,
    status_at,
)
from mcprev.server.tasks import Tasks
from mcprev.wire.json_values import is_json_object

if TYPE_CHECKING:
    from mcprev.core.store import Records
    from mcprev.server.context import Context

logger: Final = logging.getLogger("mcprev.server")
MAX_CARRIED: Final = 1_000
"""The maximum number of tasks of one stream; further ones are ignored."""
STOPPED: Final = "the server stopped before the task ended"
Run = Callable[[], Coroutine[Any, Any, dict[str, Json]]]
"""Runs the handler and returns its result at the latest revision; a failed tool has one too. Raises `RpcError` only."""


class TaskManager(RunningTasks):
    """Runs the calls that can become tasks, and answers the requests about tasks."""

    def __init__(self, settings: Tasks, records: Records | None = None) -> None:
        super().__init__(settings, records)
        self.support: Callable[[object], Support] = settings.support
        """Returns whether clients can, must or must not call a tool as a task."""
        self.sees: Callable[[object, Context], Awaitable[bool]] | None = None
        """Returns whether the client of a request sees a tool; None: all of them do."""
        self._background: set[asyncio.Task[None]] = set()
        self._methods: Mapping[str, Callable[[IncomingRequest, Context], Awaitable[dict[str, Json]]]] = {
            tasks.GET: self._get,
            tasks.RESULT: self._result,
            tasks.UPDATE: self._update,
            tasks.CANCEL: self._cancel,
            tasks.LIST: self._list,
        }

    def serves(self, revision: Revision, method: str) -> bool:
        """Return whether a request is about tasks; a listen request is passed on only if its filter names tasks."""
        return method in tasks.METHODS[revision.tasks] or method == LISTEN

    async def serve(self, incoming: IncomingRequest, context: Context) -> None:
        """Answer a request about tasks. Raises `RpcError` if it is refused."""
        if incoming.method == LISTEN:
            await self._listen(incoming, context)
        else:
            incoming.respond(await self.answer(incoming, context))

    async def answer(self, incoming: IncomingRequest, context: Context) -> dict[str, Json]:
        """Return the result of a request about tasks other than to listen. Raises `RpcError` if it is refused."""
        result = await self._methods[incoming.method](incoming, context)
        if incoming.revision.tasks is TaskSupport.EXTENSION:
            result.setdefault("resultType", COMPLETE)
        return result

    def mark(self, result: dict[str, Json], revision: Revision) -> dict[str, Json]:
        """Return a list of tools with `execution.taskSupport`, at revisions that have the member."""  # TOOL-10
        if revision.tasks is not TaskSupport.CORE:
            return result
        marked = [
            (
                {**tool, "execution": {**tool.get("execution", {}), "taskSupport": str(support)}}
                if (support := self.support(tool.get("name"))) is not Support.FORBIDDEN
                else tool
            )
            for tool in result["tools"]
        ]
        return {**result, "tools": marked}

    # -- calls that may become tasks -----------------------------------------------------------------------

    async def takes(self, incoming: IncomingRequest, context: Context) -> bool:
        """Return whether a call can become a task. Raises `RpcError` if it must and cannot, or if the tool forbids it."""  # TASK-3
        params, revision = incoming.params or {}, incoming.revision
        if incoming.method != CALL or revision.tasks is TaskSupport.NONE:
            return False
        name, wants = params.get("name"), isinstance(params.get("task"), dict)
        support = self.support(name)
        if self.sees is not None and (wants or support is Support.REQUIRED):
            support = support if await self.sees(name, context) else Support.FORBIDDEN
        if revision.tasks is TaskSupport.CORE:
            refused = Support.FORBIDDEN if wants else Support.REQUIRED
            if support is refused:
                verb = "cannot" if wants else "can only"
                raise MethodNotFound(f"the tool '{params.get('name')}' {verb} run as a task")
            return wants
        can = not uncovered(context.capabilities, tasks.NEEDS)
        if support is Support.REQUIRED and not can:
            raise missing_capability(tasks.NEEDS)
        return can and support is not Support.FORBIDDEN

    async def call(self, context: Context, run: Run) -> dict[str, Json] | None:
        """Run a call that may become a task. Returns its result, or None if the response was a task."""
        incoming = context.request
        running = context.running = TaskExecution(self, incoming, context.connection)
        try:
            if incoming.revision.tasks is TaskSupport.CORE:
                await _begin_as_task(running)
            handle = running.handle = asyncio.ensure_future(run())
            if not running.detached.done():
                either: set[asyncio.Future[Any]] = {handle, running.detached}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._cancel_unanswered(running)
            raise
        if not running.detached.done():
            return handle.result()
        self._start_watching(running)
        if not incoming.open:
            handle.cancel()  # the client does not learn the id of the task, so nobody can use it
        incoming.respond(tasks.created(running.detached.result(), incoming.revision))
        return None

    async def _cancel_unanswered(self, running: TaskExecution) -> None:
        """Cancel the handler of a request that the client cancelled before it received a task."""
        handle = running.handle
        if handle is not None:
            handle.cancel()
        if running.task is not None:
            self._start_watching(running)
        elif handle is not None:
            await asyncio.wait({handle})
            if not handle.cancelled() and handle.exception() is not None:
                logger.debug("the handler of a cancelled request raised", exc_info=handle.exception())

    def _start_watching(self, running: TaskExecution) -> None:
        watcher = asyncio.ensure_future(self._watch(running))
        self._background.add(watcher)
        watcher.add_done_callback(self._background.discard)
        if self.shared is not None:
            attending = asyncio.ensure_future(self.shared.attend(running.look))
            watcher.add_done_callback(lambda _: attending.cancel())
        share = held_share(running.request)
        if share is not None:
            share.hold()
            watcher.add_done_callback(lambda _: share.release())

    async def _watch(self, running: TaskExecution) -> None:
        """Wait for the end of a task and store how it ended: completed, failed or cancelled.

        A task that ends with the server has failed, also one whose handler does not end.
        """
        handle = running.handle
        try:
            if handle is not None:
                await asyncio.wait({handle})
        except asyncio.CancelledError:
            if not running.stopped:
                raise
        task, now = running.begun, time.time()
        try:
            if running.stopped and handle is not None and (not handle.done() or handle.cancelled()):
                raise worker_lost(STOPPED, may_have_run=True)
            if handle is None or handle.cancelled():
                task = tasks.cancel(task, now)
            else:
                task = tasks.complete(task, handle.result(), now)
        except RpcError as error:
            task = tasks.fail_task(task, error.to_wire(), now)
        running.request.reports_progress = False
        try:
            await running.save_end(task)
        finally:
            self.running.pop(task.id, None)
            running.notify_waiters()

    async def aclose(self) -> None:
        """Cancel the running tasks and wait for their end, within bounded time; may be called again."""
        if self.running:
            logger.warning("the server stops, so tasks that run have failed: %d", len(self.running))
        for running in tuple(self.running.values()):
            running.stopped = True
            if running.handle is not None:
                running.handle.cancel()
        for bound in (CLOSE, CLOSE):
            if self._background:
                _, left = await asyncio.wait(set(self._background), timeout=bound)
                for watcher in left:
                    logger.warning("a task did not end after its cancellation; the server stops without it")
                    watcher.cancel()

    # -- requests about tasks ------------------------------------------------------------------------------

    async def _requested_task(self, incoming: IncomingRequest) -> Task:
        """Return the task that a request names. Raises `InvalidParams` for an unknown one."""  # TASKX-5
        name = (incoming.params or {}).get("taskId")
        task = await self._find(name, incoming)
        if task is None:
            raise tasks.unknown(name)
        return task

    async def _find(self, name: object, incoming: IncomingRequest) -> Task | None:
        """Return the task with an id, or None if there is none or it belongs to another principal."""  # TASK-7
        running = self.running.get(name) if isinstance(name, str) else None
        if running is not None and self.shared is not None:
            await running.look()
            task = running.task
        else:
            task = await self.store.load(name) if isinstance(name, str) else None
            if running is not None and (task is None or not task.ended):
                # Newer than the stored record; it may have ended since the store was read.
                task = running.task
        return task if task is not None and task.owner == principal_of(incoming) else None

    async def _get(self, incoming: IncomingRequest, _context: Context) -> dict[str, Json]:
        return status_at(await self._requested_task(incoming), incoming.revision)

    async def _listen(self, incoming: IncomingRequest, context: Context) -> None:
        """Open a stream with the status of the named tasks, of those that the client owns.

        Without a shared store, the changes of tasks that run in another process are unknown here, and left out.
        """  # SUB-9
        if uncovered(context.capabilities, tasks.NEEDS):
            raise missing_capability(tasks.NEEDS)
        found: list[tuple[TaskExecution | None, Task]] = []
        for name in task_ids((incoming.params or {})["notifications"])[:MAX_CARRIED]:
            running = self.running.get(name)
            task = await self._find(name, incoming)
            if task is not None and (running is not None or task.ended or self.shared is not None):
                found.append((running, task))
        if not incoming.open:
            return
        cast("StatelessServer", incoming.engine).open_stream(
            incoming, {TASK_IDS: [task.id for _, task in found]}
        )
        elsewhere: list[Coroutine[Any, Any, None]] = []
        for running, task in found:
            stream = TaskStream(incoming, context.connection)
            if running is not None:
                running.streams = [*(other for other in running.streams if other.incoming.open), stream]
            # A task may have changed while the next ones were loaded.
            goes_on = stream.send(task if running is None else running.task or task)
            if goes_on and running is None and self.shared is not None:
                elsewhere.append(self.shared.follow(task, stream.send))
        context.connection.process_events()
        if elsewhere:

            async def follow() -> None:
                await asyncio.gather(*elsewhere)

            context.connection.start(follow())

    async def _result(self, incoming: IncomingRequest, context: Context) -> dict[str, Json]:
        """Wait for the end of a task; its input requests are sent to the client as part of this request."""  # TASK-4
        task = await self._requested_task(incoming)
        if self.shared is not None:
            async with aclosing(self.shared.looks(task)) as looks:
                async for found in looks:
                    task = found
                    if task.ended:
                        break
                    for key in task.asked:
                        async with self.shared.claim(task, key) as claimed:
                            if claimed and key in (latest := await self._requested_task(incoming)).asked:
                                await self._request_input(key, latest, context)
                else:
                    raise tasks.unknown(task.id)
        running = self.running.get(task.id)
        while not task.ended and running is not None:
            # Taken before the task is loaded, so that no change is missed.
            changed = running.changed
            task = await self._requested_task(incoming)
            if running.task is not None and running.task.ended:
                task = running.task
            unsent = next((key for key in task.asked if key not in running.sent), None)
            if unsent is not None:
                running.sent.add(unsent)
                try:
                    await self._request_input(unsent, task, context)
                finally:
                    running.sent.discard(unsent)
                    running.notify_waiters()
            elif not task.ended:
                await changed.wait()
        clock = asyncio.get_running_loop().time
        until = clock() + task.remaining(time.time())
        while not task.ended:
            # It runs in another process: only the shared store shows its end.
            if clock() >= until:
                raise tasks.unknown(task.id)
            await asyncio.sleep((task.poll or tasks.DEFAULT_POLL) / 1000)
            task = await self._requested_task(incoming)
        if task.error is not None:
            raise RpcError(str(task.error["message"]), code=task.error["code"], data=task.error.get("data"))
        if task.result is None:
            raise InvalidParams("the task was cancelled")
        result = result_at(task.result, incoming.revision)
        return {**result, "_meta": {**(result.get("_meta") or {}), **tasks.related(task)}}

    async def _request_input(self, key: str, task: Task, context: Context) -> None:
        """Send an input request of a task to the client, on the stream of the request that waits for the result."""
        request = task.asked[key]
        params: dict[str, Json] = request.get("params") or {}
        meta: dict[str, Json] = params.get("_meta") or {}
        marked = {**params, "_meta": {**meta, **tasks.related(task)}}
        try:
            answer: dict[str, Json] | McpError = await context.send_request({**request, "params": marked})
        except ConnectionLost:
            raise  # the request is sent again on the next connection
        except McpError as error:
            answer = error
        await self._answer(task, {key: answer})

    async def _answer(self, task: Task, answers: Mapping[str, dict[str, Json] | McpError]) -> None:
        """Pass input responses to the process that runs the task. Raises `InternalError` if it cannot be reached."""
        running = self.running.get(task.id)
        if running is not None:
            await running.answer(answers)
        elif self.shared is not None:
            given = {key: given_form(answer) for key, answer in answers.items()}
            await self.shared.change(task.id, lambda found: tasks.give(found, given, time.time()))
        elif answers:
            raise InternalError(
                "the task runs in another process, and the server has no `store` that all its processes share"
            )

    async def _update(self, incoming: IncomingRequest, _context: Context) -> dict[str, Json]:
        """Accept input responses; if one of them is invalid, none is accepted."""  # TASKX-3
        task = await self._requested_task(incoming)
        given: Json = (incoming.params or {}).get("inputResponses") or {}
        if not is_json_object(given):
            raise InvalidParams("Invalid params: inputResponses is not an object")
        known: dict[str, dict[str, Json] | McpError] = {}
        for key in task.asked.keys() & given.keys():
            answer: Json = given[key]
            if not is_json_object(answer):
                raise InvalidParams(f"Invalid params: the input response '{key}' is not an object")
            response = known[key] = without_empty_fields(answer)
            read_answer(key, task.asked[key], response)
        await self._answer(task, known)
        return {}

    async def _cancel(self, incoming: IncomingRequest, _context: Context) -> dict[str, Json]:
        """Cancel a task; its status is `cancelled` before the response is sent."""  # TASK-5
        task, core = await self._requested_task(incoming), incoming.revision.tasks is TaskSupport.CORE
        had_ended, running = task.ended, self.running.get(task.id)
        if running is not None and not had_ended:
            try:
                await running.save(tasks.cancel(running.task or task, time.time()))
            finally:
                if running.handle is not None:
                    running.handle.cancel()
            task = running.task or task
        elif self.shared is not None and not had_ended:
            task = await self.shared.change(task.id, lambda found: tasks.cancel(found, time.time()))
        elif not had_ended:
            task = tasks.cancel(task, time.time())
            await self.store.save(task)
        if core and (had_ended or task.status is not Status.CANCELLED):
            raise InvalidParams(
                f"the task has ended: it is {tasks.members(task, incoming.revision)['status']}"
            )
        return tasks.members(task, incoming.revision) if core else {}

    async def _list(self, incoming: IncomingRequest, _context: Context) -> dict[str, Json]:
        """Return a page of the client's tasks; a cursor is the id of the last task of the page before."""  # TASK-7
        who, cursor = (principal_of(incoming), session_of(incoming)), (incoming.params or {}).get("cursor")
        if self.shared is not None:
            found = await self.shared.page(*who, cursor, tasks.PAGE + 1)
        else:
            found = await self.store.list(*who)
            if cursor is not None:
                start = next((n for n, task in enumerate(found, 1) if task.id == cursor), None)
                found = None if start is None else found[start:]
        if found is None:
            raise InvalidParams("Invalid params: the cursor is unknown; list again without a cursor")
        page = found[: tasks.PAGE]
        listed: dict[str, Json] = {"tasks": [tasks.members(task, incoming.revision) for task in page]}
        if len(found) > tasks.PAGE:
            listed["nextCursor"] = page[-1].id
        return listed


async def _begin_as_task(running: TaskExecution) -> None:
    """Make a request a task before its handler runs. Raises `RpcError` if it cannot be stored."""
    try:
        await running.detach(None, None, None)
    except RpcError:
        raise
    except Exception as error:
        log_error(logger, logging.ERROR, "a task cannot be saved", error)
        running.request.unserved = isinstance(error, StoreError)
        raise internal_error(error, may_have_run=False) from error
