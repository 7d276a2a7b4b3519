"""Tasks as values: states, transitions, and their form at each revision (TASK-*, TASKX-*).

Two vocabularies describe the same record. In the core protocol a task is a member of its own and the result is fetched
separately; in the extension its members are those of the result, and `tasks/get` returns everything. The functions are
pure: each returns a new record, and a `TaskStore` holds the records.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from math import inf
from typing import Final, Protocol

from mcprev.errors import InvalidParams, Json
from mcprev.revisions import Revision, TaskSupport
from mcprev.wire.meta_keys import PREFIX, RELATED

EXTENSION: Final = PREFIX + "tasks"
"""The name of the extension in the capabilities."""  # TASKX-1
TASK: Final = "task"
"""The `resultType` of a result that is a task."""
GET: Final = "tasks/get"
RESULT: Final = "tasks/result"
UPDATE: Final = "tasks/update"
CANCEL: Final = "tasks/cancel"
LIST: Final = "tasks/list"
STATUS: Final = "notifications/tasks/status"
TASK_NOTIFICATION: Final = "notifications/tasks"
"""The notification on a listen stream with the members of `tasks/get`, in the extension."""  # SUB-9
METHODS: Final[Mapping[TaskSupport, frozenset[str]]] = {
    TaskSupport.NONE: frozenset(),
    TaskSupport.CORE: frozenset({GET, RESULT, CANCEL, LIST}),
    TaskSupport.EXTENSION: frozenset({GET, UPDATE, CANCEL}),
}
"""The task methods that a server answers."""
NEEDS: Final[Mapping[str, Json]] = {"extensions": {EXTENSION: {}}}
"""The capability that a client declares to receive tasks of the extension and to use their methods."""
CORE_CAPABILITY: Final[Mapping[str, Json]] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
"""The capability that a server declares for tasks of the core protocol."""  # TASK-1
TASKS_OF_TOOLS: Final = "tasks.requests.tools.call"
"""The part of it that says that tools can run as tasks, or must."""
DEFAULT_POLL: Final = 1000
"""The default polling interval in milliseconds."""
DEFAULT_TTL: Final = 3_600_000
"""The default lifetime of a task in milliseconds."""
PAGE: Final = 100
"""The number of tasks on one page of a list."""


class Support(StrEnum):
    """Whether a tool can run as a task: the values of `execution.taskSupport`."""

    FORBIDDEN = "forbidden"
    OPTIONAL = "optional"
    REQUIRED = "required"


class Status(StrEnum):
    """The status of a task."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL: Final = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
"""The final states."""  # TASK-2, TASK-5


@dataclass(frozen=True, slots=True)
class Task:
    """A request whose result comes later."""

    id: str
    created: float
    """The time of creation in seconds since the epoch."""
    updated: float
    ttl: int | None
    """The lifetime since creation in milliseconds; None without limit."""
    poll: int | None
    """The polling interval in milliseconds."""
    owner: str | None = None
    """The principal that owns the task; None without authentication."""  # TASK-7
    session: str | None = None
    """The session that created the task; its tasks are listed together."""
    status: Status = Status.WORKING
    message: str | None = None
    asked: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The open input requests at the latest revision, by key."""
    used: frozenset[str] = frozenset()
    """All keys used so far; none is used twice."""  # TASKX-3
    result: dict[str, Json] | None = None
    """The result at the latest revision."""
    error: dict[str, Json] | None = None
    """The JSON-RPC error."""
    given: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The answers that the handler has not taken yet, by key: `{"result": ...}` or `{"error": ...}`."""
    worker: str | None = None
    """The process that runs the task, where processes share a store."""
    version: int = 0
    """The version of the stored record; 0 for a task that is not stored."""

    @property
    def ended(self) -> bool:
        """Whether the task is in a final state."""
        return self.status in FINAL

    def belongs_to(self, owner: str | None, session: str | None) -> bool:
        """Return whether the task is one of an owner, or of a session without authentication."""  # TASK-7
        return self.owner == owner and (owner is not None or self.session == session)

    def remaining(self, now: float) -> float:
        """Return the seconds that are left of the lifetime of the task, at most all of it."""
        return inf if self.ttl is None else min(self.ttl, self.ttl + (self.created - now) * 1000) / 1000


# -- what may happen to a task -----------------------------------------------------------------------------


def begin(now: float, *, ttl: int | None, poll: int | None, owner: str | None, session: str | None) -> Task:
    """Return a new task with an unguessable id."""  # TASK-2
    return Task(secrets.token_hex(24), now, now, ttl, poll, owner, session)


def require_input(task: Task, key: str, request: Mapping[str, Json], now: float) -> Task:
    """Return the task with an input request added. Raises `ValueError` for a key used before."""  # TASKX-3
    if key in task.used:
        raise ValueError(f"each input request of a task requires a key of its own: '{key}' was used before")
    if task.ended:
        return task
    asked = {**task.asked, key: dict(request)}
    return replace(task, status=Status.INPUT_REQUIRED, asked=asked, used=task.used | {key}, updated=now)


def input_received(task: Task, keys: Iterable[str], now: float) -> Task:
    """Return the task without the answered input requests; without open ones it is working again."""
    done = set(keys)
    left = {key: request for key, request in task.asked.items() if key not in done}
    status = task.status if task.ended or left else Status.WORKING
    return replace(task, asked=left, status=status, updated=now)


def give(task: Task, answers: Mapping[str, Json], now: float) -> Task:
    """Return the task with answers to its open input requests, for the process that runs it; others are ignored."""
    known = {key: answer for key, answer in answers.items() if key in task.asked}
    return replace(input_received(task, known, now), given={**task.given, **known}) if known else task


def set_status(task: Task, message: str, now: float) -> Task:
    """Return the task with a status message for people."""
    return task if task.ended else replace(task, message=message, updated=now)


def complete(task: Task, result: dict[str, Json], now: float) -> Task:
    """Return the task completed with a result."""
    return _end(task, now, status=Status.COMPLETED, result=result)


def fail_task(task: Task, error: dict[str, Json], now: float) -> Task:
    """Return the task failed with an error."""
    return _end(task, now, status=Status.FAILED, error=error, message=str(error.get("message")))


def cancel(task: Task, now: float) -> Task:
    """Return the task cancelled."""
    return _end(task, now, status=Status.CANCELLED, message="cancelled by the client")


def _end(task: Task, now: float, **changes: Json) -> Task:
    """Return the task in a final state; a task that is in one does not change."""  # TASK-5
    return task if task.ended else replace(task, asked={}, given={}, updated=now, **changes)


# -- how it is described ----------------------------------------------------------------------------------------


def members(task: Task, revision: Revision) -> dict[str, Json]:
    """Return the members that describe a task at a revision."""
    core, status = revision.tasks is TaskSupport.CORE, task.status
    unit = "" if core else "Ms"
    if core and status is Status.COMPLETED and (task.result or {}).get("isError") is True:
        status = Status.FAILED  # TASK-8, TASKX-2
    described: dict[str, Json] = {
        "taskId": task.id,
        "status": str(status),
        "createdAt": _iso_time(task.created),
        "lastUpdatedAt": _iso_time(task.updated),
        f"ttl{unit}": task.ttl,
    }
    if task.message is not None:
        described["statusMessage"] = task.message
    if task.poll is not None:
        described[f"pollInterval{unit}"] = task.poll
    return described


def created(task: Task, revision: Revision) -> dict[str, Json]:
    """Return the result that answers a request with a task."""
    described = members(task, revision)
    return {"task": described} if revision.tasks is TaskSupport.CORE else {"resultType": TASK, **described}


def outcome(task: Task, revision: Revision, result: dict[str, Json] | None) -> dict[str, Json]:
    """Return the result of `tasks/get`, also the params on listen streams. `result` is the task's result at the
    revision.
    """
    described = members(task, revision)
    if revision.tasks is TaskSupport.CORE:
        return described
    if task.asked:
        described["inputRequests"] = dict(task.asked)
    if result is not None:
        described["result"] = result
    if task.error is not None:
        described["error"] = task.error
    return described


def is_task(result: Mapping[str, Json], revision: Revision) -> bool:
    """Return whether a result is a task."""
    if revision.tasks is TaskSupport.CORE:
        return isinstance(result.get("task"), dict)
    return revision.tasks is TaskSupport.EXTENSION and result.get("resultType") == TASK


def related(task: Task) -> dict[str, Json]:
    """Return the `_meta` member that relates a message to a task."""
    return {RELATED: {"taskId": task.id}}


def _iso_time(seconds: float) -> str:
    """Format a time as ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# -- what is refused ---------------------------------------------------------------------------------------


def unknown(task_id: object) -> InvalidParams:
    """Return the error for a task that does not exist or belongs to another principal."""  # TASK-5, TASKX-5
    return InvalidParams(f"Unknown task: {task_id!r:.80}")


def wanted_ttl(params: Mapping[str, Json], most: int | None) -> int | None:
    """Return the lifetime that a client requests for its task, at most the author's limit.

    Raises `InvalidParams` for an invalid duration.
    """  # TASK-2
    wish: Mapping[str, Json] = params.get("task") or {}
    asked = wish.get("ttl")
    if asked is None:
        return most
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not 0 <= asked < 2**53:
        raise InvalidParams("Invalid params: task.ttl must be a number of milliseconds")
    return int(asked) if most is None else min(int(asked), most)


# -- where they are kept -----------------------------------------------------------------------------------


class TaskStore(Protocol):
    """Stores tasks. A saved task must be visible to the next request, in any process.

    The last writer wins. Where several processes serve the same clients, pass `store=` to the server instead: the tasks
    are then replaced by compare-and-set, and answers and cancellations reach the process that runs them.
    """

    async def save(self, task: Task, /) -> None:
        """Store a task, replacing the one with the same id."""
        ...

    async def load(self, task_id: str, /) -> Task | None:
        """Return the task with an id, or None."""
        ...

    async def list(self, owner: str | None, session: str | None, /) -> list[Task]:
        """Return the tasks of an owner, or of a session without authentication, oldest first."""
        ...
