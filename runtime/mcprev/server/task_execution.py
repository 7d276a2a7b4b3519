"""One request that is, or may become, a task: its record, what it asks, and who waits for news of it (TASK-2..5, TASKX-2, TASKX-3).

The record changes in one step, without waiting, and is saved afterwards: a store may take its time, and what it was
given last is always what was newest. Whoever waits is woken by every change, and also by one that cannot be saved.
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

AGAIN: Final = (0.05, 0.5, 2.0)
"""Seconds after which a store that failed is asked again to save how a task ended."""
logger: Final = logging.getLogger("mcprev.server")


class TaskRegistry(Protocol):
    """What an execution needs of the manager that keeps it."""

    @property
    def settings(self) -> Tasks:
        """The bounds, and the store."""
        ...

    @property
    def running(self) -> dict[str, TaskExecution]:
        """What runs as a task, by the task's id."""
        ...

    @property
    def streams(self) -> TaskSubscriptions:
        """The listen streams that tell of tasks."""
        ...

    def begin(self, incoming: IncomingRequest, ttl: int | None, poll: int | None) -> Task:
        """Make a task for a request. Raises `InternalError` when too many run, `InvalidParams` for a bad `ttl`."""
        ...

    def notify_status(self, task: Task, incoming: IncomingRequest, connection: Connection) -> None:
        """Send a session the status of a task that it asked for."""  # TASK-8
        ...


class TaskExecution:
    """A handler that may be, or has become, a task."""

    def __init__(self, registry: TaskRegistry, incoming: IncomingRequest, connection: Connection) -> None:
        self._registry = registry
        self.request = incoming
        self._connection = connection
        self.task: Task | None = None
        self.handle: asyncio.Task[dict[str, Json]] | None = None
        loop = asyncio.get_running_loop()
        self.detached: asyncio.Future[Task] = loop.create_future()
        self._answers: dict[str, asyncio.Future[dict[str, Json]]] = {}
        self.taken: set[str] = set()
        """What is being asked of the client right now."""
        self.news: asyncio.Future[None] = loop.create_future()
        """Done as soon as something becomes of it; another takes its place then."""
        self._saving = asyncio.Lock()
        self._saved: Task | None = None

    @property
    def is_task(self) -> bool:
        """Whether it has become one."""
        return self.task is not None

    async def detach(self, ttl: int | None, poll: int | None, message: str | None) -> None:
        """Become a task: from now on nobody waits for the answer.

        A request that was given up is past that. What the store raises is raised here, and it is none then.
        """  # TASKX-2
        if self.task is not None or not self.request.open:
            return
        task = self._registry.begin(self.request, ttl, poll)
        self.task = task if message is None else tasks.set_status(task, message, time.time())
        self._registry.running[task.id] = self
        self.request.reports_progress = self.request.revision.tasks is Place.CORE
        try:
            await self._save()
        except Exception:
            self.task, self.request.reports_progress = None, False
            del self._registry.running[task.id]
            raise
        if not self.detached.done():
            self.detached.set_result(self.task)

    async def keep(self, task: Task) -> None:
        """Save what has become of it, and tell whoever waits for that."""
        before, self.task = self.task, task
        try:
            await self._save()
        finally:
            self.stir()
        self._registry.streams.tell(cast("Task", self._saved))
        if before is not None and before.status is not task.status:
            self._registry.notify_status(task, self.request, self._connection)

    async def keep_at_last(self, task: Task) -> None:
        """Save how it ended; a store that is not there for a moment is asked again."""
        for delay in (*AGAIN, None):
            try:
                await self.keep(task)
            except Exception:
                logger.exception("the end of a task cannot be saved")
                if delay is not None:
                    await asyncio.sleep(delay)
            else:
                return

    async def _save(self) -> None:
        """Have the store keep what it is by now: one after the other, so that what is newest is what stays."""
        async with self._saving:
            task = cast("Task", self.task)
            if task is not self._saved:
                await self._registry.settings.store.save(task)
                self._saved = task

    def stir(self) -> None:
        """Let whoever waits look at it again."""
        news, self.news = self.news, asyncio.get_running_loop().create_future()
        if not news.done():
            news.set_result(None)

    def end(self) -> None:
        """Nothing more is reported of it."""
        self.request.reports_progress = False

    async def set_status(self, message: str) -> None:
        """What it is at, for people."""
        if self.task is not None:
            await self.keep(tasks.set_status(self.task, message, time.time()))

    async def ask(self, key: str, request: Mapping[str, Json], seconds: float | None) -> dict[str, Json]:
        """Wait for an answer of the client's, however it comes.

        Raises `TaskCancelled` where nobody will be asked any more, `RequestTimeout`, and what the answer was.
        """  # TASK-4, TASKX-3
        task = cast("Task", self.task)
        if task.ended:
            raise TaskCancelled(f"the task has ended: it is {task.status}")
        future: asyncio.Future[dict[str, Json]] = asyncio.get_running_loop().create_future()
        asked = tasks.require_input(task, key, request, time.time())
        self._answers[key] = future
        try:
            await self.keep(asked)
            done, _ = await asyncio.wait({future}, timeout=seconds)
            if not done:
                elapsed = seconds or 0.0
                text = f"no answer to '{key}' within {elapsed:.3g} s"
                raise RequestTimeout(text, elapsed=elapsed, kind="total")
            return future.result()
        finally:
            if not future.done() or future.exception() is not None:
                future.cancel()  # an answer that comes now is for nobody
            self._answers.pop(key, None)
            self.taken.discard(key)
            if self.task is not None and key in self.task.asked:
                await self.keep(tasks.input_received(self.task, (key,), time.time()))

    async def answer(self, answers: Mapping[str, dict[str, Json] | McpError]) -> None:
        """The client answered; what it was not asked is left alone."""  # TASKX-3
        task = cast("Task", self.task)
        known = {key: answer for key, answer in answers.items() if key in task.asked}
        try:
            if known:
                await self.keep(tasks.input_received(task, known, time.time()))
        finally:
            for key, answer in known.items():
                self._hand_over(key, answer)

    def _hand_over(self, key: str, answer: dict[str, Json] | McpError) -> None:
        future = self._answers.get(key)
        if future is None or future.done():
            return
        if isinstance(answer, McpError):
            future.set_exception(answer)
        else:
            future.set_result(answer)
