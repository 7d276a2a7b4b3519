"""What is wrong with messages of the tasks extension, which has no schema of a revision (TASKX-1..5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from mcprev.conversion import PayloadKind
from mcprev.protocol import tasks
from mcprev.protocol.tasks import Status
from mcprev.revisions import Revision, TaskSupport

Json: TypeAlias = Any
_ENDS: Final[Mapping[str, str]] = {
    Status.INPUT_REQUIRED: "inputRequests",
    Status.COMPLETED: "result",
    Status.FAILED: "error",
}
"""The member that a task of a status has beside the others."""


def _is_milliseconds(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


_MEMBERS: Final[Mapping[str, Callable[[Json], bool]]] = {
    "taskId": _is_text,
    "status": lambda value: value in set(Status),
    "createdAt": _is_text,
    "lastUpdatedAt": _is_text,
    "ttlMs": lambda value: value is None or _is_milliseconds(value),
}
_MAY_HAVE: Final[Mapping[str, Callable[[Json], bool]]] = {
    "statusMessage": _is_text,
    "pollIntervalMs": _is_milliseconds,
}
RESULT_TYPES: Final[Mapping[str, str]] = {
    "tools/call": "task",
    **dict.fromkeys(tasks.METHODS[TaskSupport.EXTENSION], "complete"),
}
"""The type of the result of each method, where a call is answered with a task."""


def is_of_extension(row: Revision, method: str) -> bool:
    """Whether a method is one of the extension at a revision."""
    known = {*tasks.METHODS[TaskSupport.EXTENSION], tasks.TASK_NOTIFICATION}
    return row.tasks is TaskSupport.EXTENSION and method in known


def objections(method: str, kind: str, value: Json) -> list[str]:
    """What is wrong with a payload of the extension."""
    found: list[str] = []
    if kind == PayloadKind.ERROR:
        return found
    if not isinstance(value, dict):
        return [f"{method} {kind} is no object"]
    said = cast("dict[str, Json]", value)
    if kind == PayloadKind.RESULT and said.get("resultType") != RESULT_TYPES[method]:
        found.append(f"resultType of {method} is {said.get('resultType')!r}")
    if kind == PayloadKind.PARAMS and method != tasks.TASK_NOTIFICATION:
        needs = {"taskId", "inputResponses"} if method == tasks.UPDATE else {"taskId"}
        return [f"{method} lacks {name}" for name in sorted(needs - said.keys())]
    if method in (tasks.UPDATE, tasks.CANCEL):
        return found + [f"{name} in the result of {method}" for name in _MEMBERS if name in said]
    found += [
        f"{name}: {said.get(name)!r}" for name, fits in _MEMBERS.items() if not fits(said.get(name, ""))
    ]
    found += [
        f"{name}: {said[name]!r}" for name, fits in _MAY_HAVE.items() if name in said and not fits(said[name])
    ]
    if method != "tools/call":
        ends = _ENDS.get(str(said.get("status")))
        found += [f"{ends} is missing"] if ends is not None and not isinstance(said.get(ends), dict) else []
    return found
