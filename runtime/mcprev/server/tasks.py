"""What a server's author says of tasks, and a store for them in memory (TASK-2, TASK-3, TASK-7, TASKX-2)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from mcprev.protocol import tasks
from mcprev.protocol.tasks import Support, Task, TaskStore

ROOM: Final = 10_000
"""How many tasks the store in memory keeps."""
RUNNING: Final = 1_000
"""How many tasks may run at a time."""
RUNNING_EACH: Final = 100
"""How many of them one principal may have, or one session where nobody says who asks."""


class Tasks:
    """What a server's author says of tasks: which tools may run as one, and how long they are kept."""

    def __init__(
        self,
        tools: Mapping[str, Support | str],
        *,
        store: TaskStore | None = None,
        ttl: int | None = tasks.DEFAULT_TTL,
        poll: int | None = tasks.DEFAULT_POLL,
        max_running: int = RUNNING,
        max_running_each: int = RUNNING_EACH,
    ) -> None:
        """Say which tools can run as tasks: `optional` or `required`; any other is `forbidden`.

        `store` keeps them, in memory unless it says otherwise; `ttl` is the most milliseconds that one is kept from
        its creation on, `poll` the milliseconds that clients are asked to wait between two looks. At most
        `max_running` run at a time, and `max_running_each` of one principal, or of one session where nobody says who
        asks. Raises `ValueError` for another word.
        """
        self.tools: dict[str, Support] = {name: Support(support) for name, support in tools.items()}
        self.store: TaskStore = store or MemoryTaskStore()
        self.ttl = ttl
        self.poll = poll
        self.max_running = max_running
        self.max_running_each = max_running_each

    def support(self, tool: object) -> Support:
        """Whether a tool can run as a task."""
        return self.tools.get(tool, Support.FORBIDDEN) if isinstance(tool, str) else Support.FORBIDDEN


class MemoryTaskStore:
    """Keeps tasks for as long as this process lives; the oldest that have ended make room for new ones."""

    def __init__(self, room: int = ROOM, now: Callable[[], float] = time.time) -> None:
        self._tasks: OrderedDict[str, Task] = OrderedDict()
        self._room = room
        self._now = now

    async def save(self, task: Task, /) -> None:
        """Keep a task."""
        self._tasks[task.id] = task
        if len(self._tasks) > self._room:
            self._make_room()

    async def load(self, task_id: str, /) -> Task | None:
        """The task of a name."""
        task = self._tasks.get(task_id)
        if task is not None and task.ended and task.expired(self._now()):
            del self._tasks[task_id]
            return None
        return task

    async def list(self, owner: str | None, session: str | None, /) -> list[Task]:
        """The tasks of an owner, or of a session where nobody is told apart."""
        self._forget_expired()
        return [
            task
            for task in self._tasks.values()
            if task.owner == owner and (owner is not None or task.session == session)
        ]

    def _forget_expired(self) -> None:
        now = self._now()
        for task in [task for task in self._tasks.values() if task.ended and task.expired(now)]:
            del self._tasks[task.id]

    def _make_room(self) -> None:
        self._forget_expired()
        ended = (task.id for task in tuple(self._tasks.values()) if task.ended)
        while len(self._tasks) > self._room and (oldest := next(ended, None)) is not None:
            del self._tasks[oldest]
