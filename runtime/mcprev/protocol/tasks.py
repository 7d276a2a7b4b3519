"""Tasks as values: their states, what may follow what, and how each revision tells of them (TASK-*, TASKX-*).

Two vocabularies describe the same record. In the core one a task is a member of its own and its result is fetched;
in the extension its members are those of the result and everything comes with `tasks/get`. Nothing here waits,
looks at a clock or keeps anything: records are replaced, and `TaskStore` is where they are kept.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Protocol

from mcprev.errors import InvalidParams, Json, MissingClientCapability
from mcprev.revisions import Revision, TaskSupport

EXTENSION: Final = "io.modelcontextprotocol/tasks"
"""The extension's name, under which a capability declares it (TASKX-1)."""
RELATED: Final = "io.modelcontextprotocol/related-task"
"""The member of `_meta` that ties a message to a task (META-8, TASK-6)."""
TASK: Final = "task"
"""The `resultType` of a result that is a task."""
GET: Final = "tasks/get"
RESULT: Final = "tasks/result"
UPDATE: Final = "tasks/update"
CANCEL: Final = "tasks/cancel"
LIST: Final = "tasks/list"
STATUS: Final = "notifications/tasks/status"
NEWS: Final = "notifications/tasks"
"""What a listen stream tells of a task, where tasks are an extension: the members of `tasks/get` (SUB-9)."""
METHODS: Final[Mapping[TaskSupport, frozenset[str]]] = {
    TaskSupport.NONE: frozenset(),
    TaskSupport.CORE: frozenset({GET, RESULT, CANCEL, LIST}),
    TaskSupport.EXTENSION: frozenset({GET, UPDATE, CANCEL}),
}
"""The requests about tasks that a server answers."""
NEEDS: Final[Mapping[str, Json]] = {"extensions": {EXTENSION: {}}}
"""What a client has to declare to be sent tasks where they are an extension, and to ask about them."""
CORE_CAPABILITY: Final[Mapping[str, Json]] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
"""What a server declares where tasks are part of the protocol (TASK-1)."""
POLL: Final = 1000
"""Milliseconds between two looks, unless the author says otherwise."""
KEEP: Final = 3_600_000
"""Milliseconds that a task is kept, unless asked or said otherwise."""
PAGE: Final = 100
"""How many tasks are listed at a time."""


class Support(StrEnum):
    """Whether a tool can run as a task, in the words of `execution.taskSupport` (TASK-3)."""

    FORBIDDEN = "forbidden"
    OPTIONAL = "optional"
    REQUIRED = "required"


class Status(StrEnum):
    """What a task is doing."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL: Final = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
"""The states that nothing follows (TASK-2, TASK-5)."""


@dataclass(frozen=True, slots=True)
class Task:
    """A request that is answered later."""

    id: str
    created: float
    """When, in seconds since the epoch."""
    updated: float
    ttl: int | None
    """How long it is kept from its creation on, in milliseconds; None for as long as there is room."""
    poll: int | None
    """How long to wait between two looks, in milliseconds."""
    owner: str | None = None
    """Whom it belongs to (TASK-7); None where nobody is told apart."""
    session: str | None = None
    """The session that asked for it, whose tasks are listed together."""
    status: Status = Status.WORKING
    message: str | None = None
    asked: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What it needs to know before it can go on: requests in the words of the latest revision, by key."""
    used: frozenset[str] = frozenset()
    """Every key that was ever asked under: none comes twice (TASKX-3)."""
    result: dict[str, Json] | None = None
    """What it came to, in the words of the latest revision."""
    error: dict[str, Json] | None = None
    """The JSON-RPC error it came to."""

    @property
    def ended(self) -> bool:
        """Whether it is in a state that nothing follows."""
        return self.status in FINAL

    def expired(self, now: float) -> bool:
        """Whether it need not be kept any longer."""
        return self.ttl is not None and now >= self.created + self.ttl / 1000


# -- what may happen to a task -----------------------------------------------------------------------------


def begin(now: float, *, ttl: int | None, poll: int | None, owner: str | None, session: str | None) -> Task:
    """A task that has just begun, under a name that cannot be guessed (TASK-2)."""
    return Task(secrets.token_urlsafe(24), now, now, ttl, poll, owner, session)


def require_input(task: Task, key: str, request: Mapping[str, Json], now: float) -> Task:
    """It cannot go on before this is answered. Raises `ValueError` for a key that was used before (TASKX-3)."""
    if key in task.used:
        raise ValueError(f"a task asks under each key once: '{key}' was used before")
    if task.ended:
        return task
    asked = {**task.asked, key: dict(request)}
    return replace(task, status=Status.INPUT_REQUIRED, asked=asked, used=task.used | {key}, updated=now)


def input_received(task: Task, keys: Iterable[str], now: float) -> Task:
    """These are answered; with nothing left to ask it works on."""
    done = set(keys)
    left = {key: request for key, request in task.asked.items() if key not in done}
    status = task.status if task.ended or left else Status.WORKING
    return replace(task, asked=left, status=status, updated=now)


def set_status(task: Task, message: str, now: float) -> Task:
    """What it is at, for people."""
    return task if task.ended else replace(task, message=message, updated=now)


def complete(task: Task, result: dict[str, Json], now: float) -> Task:
    """It came to a result; one that has ended stays as it is (TASK-5)."""
    if task.ended:
        return task
    return replace(task, status=Status.COMPLETED, result=result, asked={}, updated=now)


def fail_task(task: Task, error: dict[str, Json], now: float) -> Task:
    """It came to an error."""
    if task.ended:
        return task
    message = str(error.get("message"))
    return replace(task, status=Status.FAILED, error=error, message=message, asked={}, updated=now)


def cancel(task: Task, now: float) -> Task:
    """It is given up."""
    if task.ended:
        return task
    message = "cancelled by the client"
    return replace(task, status=Status.CANCELLED, message=message, asked={}, updated=now)


# -- how it is told ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TaskVocabulary:
    """The names that a vocabulary has for the same things."""

    ttl: str
    poll: str
    tool_error: Status
    """What a task is whose tool said that it failed (TASK-8, TASKX-2)."""


_WORDS: Final[Mapping[TaskSupport, _TaskVocabulary]] = {
    TaskSupport.CORE: _TaskVocabulary("ttl", "pollInterval", Status.FAILED),
    TaskSupport.EXTENSION: _TaskVocabulary("ttlMs", "pollIntervalMs", Status.COMPLETED),
}


def members(task: Task, revision: Revision) -> dict[str, Json]:
    """The members that describe a task."""
    words = _WORDS[revision.tasks]
    status = task.status
    if status is Status.COMPLETED and (task.result or {}).get("isError") is True:
        status = words.tool_error
    told: dict[str, Json] = {
        "taskId": task.id,
        "status": str(status),
        "createdAt": _when(task.created),
        "lastUpdatedAt": _when(task.updated),
        words.ttl: task.ttl,
    }
    if task.message is not None:
        told["statusMessage"] = task.message
    if task.poll is not None:
        told[words.poll] = task.poll
    return told


def created(task: Task, revision: Revision) -> dict[str, Json]:
    """The result that answers a request with a task."""
    told = members(task, revision)
    return {"task": told} if revision.tasks is TaskSupport.CORE else {"resultType": TASK, **told}


def outcome(task: Task, revision: Revision, result: dict[str, Json] | None) -> dict[str, Json]:
    """The result of `tasks/get`, and what listen streams tell; `result` is the task's own in the words of the revision, where it has one."""
    told = members(task, revision)
    if revision.tasks is TaskSupport.CORE:
        return told
    if task.asked:
        told["inputRequests"] = dict(task.asked)
    if result is not None:
        told["result"] = result
    if task.error is not None:
        told["error"] = task.error
    return told


def is_task(result: Mapping[str, Json], revision: Revision) -> bool:
    """Whether a result is a task instead of what was asked for."""
    if revision.tasks is TaskSupport.CORE:
        return isinstance(result.get("task"), dict)
    return result.get("resultType") == TASK


def related(task: Task) -> dict[str, Json]:
    """The member of `_meta` that says which task a message is about."""
    return {RELATED: {"taskId": task.id}}


def _when(seconds: float) -> str:
    """A time as ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# -- what is refused ---------------------------------------------------------------------------------------


def unknown(task_id: object) -> InvalidParams:
    """The answer for a task that is not there, or not the asker's (TASK-5, TASKX-5)."""
    return InvalidParams(f"Unknown task: {task_id!r:.80}")


def tasks_undeclared() -> MissingClientCapability:
    """The answer to a client that has not declared the extension (TASKX-5)."""
    return MissingClientCapability(
        f"this needs the client extension {EXTENSION}", data={"requiredCapabilities": dict(NEEDS)}
    )


def wanted_ttl(params: Mapping[str, Json], most: int | None) -> int | None:
    """How long a client wants its task to be kept, within the author's bound (TASK-2).

    Raises `InvalidParams` for what is no length of time.
    """
    wish: Mapping[str, Json] = params.get("task") or {}
    asked = wish.get("ttl")
    if asked is None:
        return most
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not 0 <= asked < 2**53:
        raise InvalidParams("Invalid params: task.ttl is no number of milliseconds")
    return int(asked) if most is None else min(int(asked), most)


# -- where they are kept -----------------------------------------------------------------------------------


class TaskStore(Protocol):
    """Where tasks are kept. What is saved has to be there for whoever asks next (TASKX-2)."""

    async def save(self, task: Task, /) -> None:
        """Keep a task in the place of what was kept under its name."""
        ...

    async def load(self, task_id: str, /) -> Task | None:
        """The task of a name; None for one that is not there any more."""
        ...

    async def list(self, owner: str | None, session: str | None, /) -> list[Task]:
        """The tasks of an owner, or of a session where nobody is told apart, oldest first."""
        ...
