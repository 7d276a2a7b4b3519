"""The settings of tasks on a server, and a store for tasks in memory (TASK-2, TASK-3, TASK-7, TASKX-2)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from pydantic_core import to_json

from mcprev.protocol import tasks
from mcprev.protocol.tasks import Support, Task, TaskStore

MAX_TASKS: Final = 10_000
"""The number of tasks that the store in memory keeps."""
MAX_BYTES: Final = 256 * 1024 * 1024
"""The number of bytes of JSON of the results that the store in memory keeps."""
MAX_RUNNING: Final = 1_000
"""The number of tasks that may run at a time."""
MAX_RUNNING_EACH: Final = 100
"""The number of running tasks of one principal, or of one session without authentication."""


class Tasks:
    """The settings of tasks on a server: which tools can run as tasks, how many, and how long tasks are kept."""

    def __init__(
        self,
        tools: Mapping[str, Support | str],
        *,
        store: TaskStore | None = None,
        ttl: int | None = tasks.DEFAULT_TTL,
        poll_interval: int | None = tasks.DEFAULT_POLL,
        max_running: int = MAX_RUNNING,
        max_running_each: int = MAX_RUNNING_EACH,
    ) -> None:
        """Set which tools can run as tasks, as in `Tasks({"build": "optional"})`, and the limits of tasks.

        - `tools` maps names of tools to `optional`, which allows calls with and without a task, or to `required`, which
          refuses calls that cannot become one. All other tools are `forbidden`: they never run as tasks.
        - `store` stores tasks. None: the `store` of the server; a `MemoryTaskStore` if it has none, which loses its tasks
          when the process ends.
        - `ttl` is the maximum time that a task is kept after its creation, in milliseconds: one hour by default. None:
          no maximum.
        - `poll_interval` is the time that clients should wait between two requests for a task's status, in milliseconds: 1,000
          by default. None: no advice.
        - `max_running` is the maximum number of tasks that run at a time, and `max_running_each` that of one principal,
          or of one session without authentication.

        Raises `ValueError` for any other word than `optional`, `required` and `forbidden`.
        """
        self.tools: dict[str, Support] = {name: Support(support) for name, support in tools.items()}
        self.store = store
        self.ttl = ttl
        self.poll_interval = poll_interval
        self.max_running = max_running
        self.max_running_each = max_running_each

    def support(self, tool: object) -> Support:
        """Return whether a tool can, must or must not run as a task."""
        return self.tools.get(tool, Support.FORBIDDEN) if isinstance(tool, str) else Support.FORBIDDEN


class MemoryTaskStore:
    """A store of tasks in memory, 10,000 with 256 MiB of results by default.

    Beyond that, tasks that have ended are deleted: the oldest of the principal or session with the most tasks, or the
    most bytes.
    """

    def __init__(
        self,
        max_tasks: int = MAX_TASKS,
        clock: Callable[[], float] = time.monotonic,
        *,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """`max_tasks` is the maximum number of tasks. `max_bytes` is the maximum size of their results together, in bytes. `clock` returns monotonic time in seconds."""
        self._tasks: dict[str, Task] = {}
        self._saved_at: dict[str, float] = {}
        """When each task was saved first."""
        self._sizes: dict[str, int] = {}
        """The bytes of the results of the tasks that have ended."""
        self._bytes: Counter[str | None] = Counter()
        """Those of each principal or session."""
        self._max_tasks, self._max_bytes = max_tasks, max_bytes
        self._clock = clock

    async def save(self, task: Task, /) -> None:
        """Store a task, replacing an earlier state of it."""
        self._tasks[task.id] = task
        self._saved_at.setdefault(task.id, self._clock())
        if task.ended:
            self._count(task, len(to_json(task.result or task.error, inf_nan_mode="constants")))
        if len(self._tasks) > self._max_tasks or self._bytes.total() > self._max_bytes:
            self._forget_expired()
            self._make_room()

    async def load(self, task_id: str, /) -> Task | None:
        """Return the task with an id; None if there is none or it has expired."""
        task = self._tasks.get(task_id)
        return None if task is not None and self._is_expired(task) else task

    async def list(self, owner: str | None, session: str | None, /) -> list[Task]:
        """Return the tasks of the principal `owner`, or those of a session without authentication if `owner` is None."""
        self._forget_expired()
        return [task for task in self._tasks.values() if task.belongs_to(owner, session)]

    def _is_expired(self, task: Task) -> bool:
        return (
            task.ended and task.ttl is not None and self._clock() >= self._saved_at[task.id] + task.ttl / 1000
        )

    def _forget_expired(self) -> None:
        for task in [task for task in self._tasks.values() if self._is_expired(task)]:
            self._delete(task)

    def _count(self, task: Task, size: int) -> None:
        """Count the bytes of a task; 0 if it is deleted."""
        self._bytes[_holder(task)] += size - self._sizes.pop(task.id, 0)
        if size:
            self._sizes[task.id] = size
        if not self._bytes[_holder(task)]:
            del self._bytes[_holder(task)]

    def _delete(self, task: Task) -> None:
        self._count(task, 0)
        del self._tasks[task.id], self._saved_at[task.id]

    def _make_room(self) -> None:
        if len(self._tasks) > self._max_tasks:
            ended = Counter(_holder(task) for task in self._tasks.values() if task.ended)
            if ended:
                self._delete(self._oldest(max(ended, key=ended.__getitem__)))
        while self._bytes.total() > self._max_bytes:
            self._delete(self._oldest(max(self._bytes, key=self._bytes.__getitem__)))

    def _oldest(self, holder: str | None) -> Task:
        """Return the oldest task of a holder that has ended."""
        return next(task for task in self._tasks.values() if task.ended and _holder(task) == holder)


def _holder(task: Task) -> str | None:
    """Return whose task it is: a principal, or a session without authentication."""
    return task.owner or task.session
