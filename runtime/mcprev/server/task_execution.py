"""A request that is, or may become, a task: its record, its input requests and its waiters (TASK-2..5, TASKX-2, TASKX-3).

The record is replaced at once and stored afterwards, one state after the other, so that the store ends with the newest
one however slow it is. Every change wakes the waiters, also a change that could not be stored.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol, cast

from mcprev.errors import Json, McpError, RequestTimeout, TaskCancelled
from mcprev.protocol import tasks
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.tasks import Task
from mcprev.revisions import TaskSupport as Place

if TYPE_CHECKING:
    from mcprev.core.connection import Connection
    from mcprev.server.task_subscriptions import TaskSubscriptions
    from mcprev.server.tasks import Tasks

RETRY_DELAYS: Final = (0.05, 0.5, 2.0)
"""Seconds before each further attempt to store the end of a task, after the store failed."""
logger: Final = logging.getLogger("mcprev.server")


class TaskRegistry(Protocol):
    """The part of the task manager that an execution uses."""

    @property
    def settings(self) -> Tasks:
        """The limits and the store."""
        ...

    @property
    def running(self) -> dict[str, TaskExecution]:
        """The running tasks, by id."""
        ...

    @property
    def streams(self) -> TaskSubscriptions:
        """The listen streams with the status of tasks."""
        ...

    def begin(self, incoming: IncomingRequest, ttl: int | None, poll: int | None) -> Task:
        """Return a new task for a request. Raises `InternalError` if too many run, `InvalidParams` for an invalid `ttl`."""
        ...

    def notify_status(self, task: Task, incoming: IncomingRequest, connection: Connection) -> None:
        """Send the status of a task to the session that created it."""  # TASK-8
        ...


class TaskExecution:
    """The execution of a handler that is, or may become, a task."""

    def __init__(self, registry: TaskRegistry, incoming: IncomingRequest, connection: Connection) -> None:
        self._registry = registry
        self.request = incoming
        self._connection = connection
        self.task: Task | None = None
        self.handle: asyncio.Task[dict[str, Json]] | None = None
        loop = asyncio.get_running_loop()
        self.detached: asyncio.Future[Task] = loop.create_future()
        self._answers: dict[str, asyncio.Future[dict[str, Json]]] = {}
        self.sent: set[str] = set()
        """The keys of the input requests that the client has not answered yet."""
        self.changed: asyncio.Future[None] = loop.create_future()
        """Done at the next change of the task; each change replaces it with a new future."""
        self._saving = asyncio.Lock()
        self._saved: Task | None = None

    @property
    def is_task(self) -> bool:
        """Whether the request has become a task."""
        return self.task is not None

    async def detach(self, ttl: int | None, poll: int | None, message: str | None) -> None:
        """Make the request a task, which is its response; no effect if the request is closed.

        Raises what the store raises; the request is no task then.
        """  # TASKX-2
        if self.task is not None or not self.request.open:
            return
        task = self._registry.begin(self.request, ttl, poll)
        self.task = task if message is None else tasks.set_status(task, message, time.time())
        self._registry.running[task.id] = self
        self.request.reports_progress = self.request.revision.tasks is Place.CORE
        try:
            await self._store()
        except Exception:
            self.task, self.request.reports_progress = None, False
            del self._registry.running[task.id]
            raise
        if not self.detached.done():
            self.detached.set_result(self.task)

    async def save(self, task: Task) -> None:
        """Replace the record, store it, and notify waiters, listen streams and the session."""
        before, self.task = self.task, task
        try:
            await self._store()
        finally:
            self.notify_waiters()
        self._registry.streams.send(cast("Task", self._saved))
        if before is not None and before.status is not task.status:
            self._registry.notify_status(task, self.request, self._connection)

    async def save_end(self, task: Task) -> None:
        """Store the end of the task; try again if the store fails."""
        for delay in (*RETRY_DELAYS, None):
            try:
                await self.save(task)
            except Exception:
                logger.exception("the end of a task cannot be saved")
                if delay is not None:
                    await asyncio.sleep(delay)
            else:
                return

    async def _store(self) -> None:
        """Store the current record; one call at a time, so that the newest record is stored last."""
        async with self._saving:
            task = cast("Task", self.task)
            if task is not self._saved:
                await self._registry.settings.store.save(task)
                self._saved = task

    def notify_waiters(self) -> None:
        """Wake everything that waits for a change."""
        changed, self.changed = self.changed, asyncio.get_running_loop().create_future()
        if not changed.done():
            changed.set_result(None)

    def end(self) -> None:
        """Stop reporting progress."""
        self.request.reports_progress = False

    async def set_status(self, message: str) -> None:
        """Set the status message, which is for people."""
        if self.task is not None:
            await self.save(tasks.set_status(self.task, message, time.time()))

    async def ask(self, key: str, request: Mapping[str, Json], seconds: float | None) -> dict[str, Json]:
        """Ask the client for input and return its response, which comes by `tasks/update` or `tasks/result`.

        Raises `TaskCancelled` if the task has ended, `RequestTimeout`, or the error that the client answered with.
        """  # TASK-4, TASKX-3
        task = cast("Task", self.task)
        if task.ended:
            raise TaskCancelled(f"the task has ended: it is {task.status}")
        future: asyncio.Future[dict[str, Json]] = asyncio.get_running_loop().create_future()
        asked = tasks.require_input(task, key, request, time.time())
        self._answers[key] = future
        try:
            await self.save(asked)
            done, _ = await asyncio.wait({future}, timeout=seconds)
            if not done:
                elapsed = seconds or 0.0
                text = f"no answer to '{key}' within {elapsed:.3g} s"
                raise RequestTimeout(text, elapsed=elapsed, kind="total")
            return future.result()
        finally:
            if not future.done() or future.exception() is not None:
                future.cancel()  # a later answer is ignored
            self._answers.pop(key, None)
            self.sent.discard(key)
            if self.task is not None and key in self.task.asked:
                await self.save(tasks.input_received(self.task, (key,), time.time()))

    async def answer(self, answers: Mapping[str, dict[str, Json] | McpError]) -> None:
        """Pass the client's input responses to the handler; responses to unknown keys are ignored."""  # TASKX-3
        task = cast("Task", self.task)
        known = {key: answer for key, answer in answers.items() if key in task.asked}
        try:
            if known:
                await self.save(tasks.input_received(task, known, time.time()))
        finally:
            for key, answer in known.items():
                self._deliver(key, answer)

    def _deliver(self, key: str, answer: dict[str, Json] | McpError) -> None:
        future = self._answers.get(key)
        if future is None or future.done():
            return
        if isinstance(answer, McpError):
            future.set_exception(answer)
        else:
            future.set_result(answer)
