"""Tasks as values: what may follow what, and both vocabularies (TASK-2, TASK-5, TASKX-1..3)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any, Final

import pytest
from hypothesis import given, strategies as st

from helpers.requirements import D, E, req
from mcprev.errors import InvalidParams
from mcprev.protocol import tasks
from mcprev.protocol.tasks import FINAL, Status, Task
from mcprev.revisions import ALL, Revision, TaskSupport as Place

CORE: Final = next(row for row in ALL if row.tasks is Place.CORE)
EXTENSION: Final = next(row for row in ALL if row.tasks is Place.EXTENSION)
OK: Final[dict[str, Any]] = {"content": []}
BROKEN: Final[dict[str, Any]] = {"code": -32603, "message": "broken"}
ISO: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def new(**members: Any) -> Task:
    return replace(tasks.begin(100.0, ttl=60_000, poll=500, owner=None, session=None), **members)


STEPS: Final[dict[str, Callable[[Task], Task]]] = {
    "ask": lambda task: tasks.require_input(task, f"k{len(task.used)}", {"method": "roots/list"}, 101.0),
    "answer": lambda task: tasks.input_received(task, list(task.asked)[:1], 101.0),
    "say": lambda task: tasks.set_status(task, "half way", 101.0),
    "complete": lambda task: tasks.complete(task, OK, 101.0),
    "fail": lambda task: tasks.fail_task(task, BROKEN, 101.0),
    "cancel": lambda task: tasks.cancel(task, 101.0),
}
LEGAL: Final = {
    Status.WORKING: set(Status),
    Status.INPUT_REQUIRED: set(Status),
    Status.COMPLETED: {Status.COMPLETED},
    Status.FAILED: {Status.FAILED},
    Status.CANCELLED: {Status.CANCELLED},
}


@req("TASK-2", "TASK-5", "TASKX-2", "TASKX-3", everywhere=True)
@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=12))
def test_only_legal_states_follow_each_other(steps: list[str]) -> None:
    task = new()
    assert task.status is Status.WORKING
    for step in steps:
        after = STEPS[step](task)
        assert after.status in LEGAL[task.status]
        assert (after.status is Status.INPUT_REQUIRED) is bool(after.asked)
        assert (after.id, after.created, after.ttl) == (task.id, task.created, task.ttl)
        assert after.updated >= task.updated
        assert after.used >= task.used
        if task.status in FINAL:
            assert (after.status, after.result, after.error) == (task.status, task.result, task.error)
        task = after


@req("TASK-2", "TASKX-2", everywhere=True)
def test_names_cannot_be_guessed() -> None:
    names = {new().id for _ in range(200)}
    assert len(names) == 200
    assert all(len(name) >= 32 and name.isascii() and name.isprintable() for name in names)


@req("TASKX-3", everywhere=True)
def test_a_key_is_asked_under_once() -> None:
    task = tasks.input_received(tasks.require_input(new(), "k", {}, 101.0), ["k", "other"], 102.0)
    assert (task.status, task.asked) == (Status.WORKING, {})
    with pytest.raises(ValueError, match="'k' was used before"):
        tasks.require_input(task, "k", {}, 103.0)


@req("TASK-2", at=D)
def test_in_the_core_a_task_is_a_member() -> None:
    task = tasks.set_status(new(), "at it", 101.5)
    told = tasks.created(task, CORE)
    assert told == {"task": tasks.members(task, CORE)}
    assert set(told["task"]) == {
        "taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttl", "pollInterval",
    }  # fmt: skip
    assert (told["task"]["ttl"], told["task"]["pollInterval"]) == (60_000, 500)
    assert ISO.fullmatch(told["task"]["createdAt"])
    assert tasks.members(new(ttl=None), CORE)["ttl"] is None
    CORE.models.CreateTaskResult.from_wire(told)


@req("TASKX-1", "TASKX-2")
def test_as_an_extension_a_task_is_the_result() -> None:
    told = tasks.created(new(poll=None), EXTENSION)
    assert told["resultType"] == "task"
    assert set(told) == {"resultType", "taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"}


@pytest.mark.parametrize(
    ("task", "row", "status"),
    [
        pytest.param(tasks.complete(new(), OK, 1.0), CORE, "completed", id=D),
        pytest.param(
            tasks.complete(new(), {**OK, "isError": True}, 1.0), CORE, "failed", id=f"{D}-tool-error"
        ),
        pytest.param(tasks.fail_task(new(), BROKEN, 1.0), CORE, "failed", id=f"{D}-error"),
        pytest.param(tasks.complete(new(), OK, 1.0), EXTENSION, "completed", id=E),
        pytest.param(
            tasks.complete(new(), {**OK, "isError": True}, 1.0), EXTENSION, "completed", id=f"{E}-tool-error"
        ),
        pytest.param(tasks.fail_task(new(), BROKEN, 1.0), EXTENSION, "failed", id=f"{E}-error"),
    ],
)
@req("TASK-8", "TASKX-2", "TASKX-6")
def test_what_a_failed_tool_makes_of_its_task(task: Task, row: Revision, status: str) -> None:
    assert tasks.members(task, row)["status"] == status


@req("TASKX-2")
def test_everything_comes_with_get() -> None:
    asked = tasks.require_input(new(), "k", {"method": "roots/list"}, 1.0)
    assert tasks.outcome(asked, EXTENSION, None)["inputRequests"] == {"k": {"method": "roots/list"}}
    failed = tasks.outcome(tasks.fail_task(asked, BROKEN, 1.0), EXTENSION, None)
    assert (failed["error"], "result" in failed, "inputRequests" in failed) == (BROKEN, False, False)
    done = tasks.outcome(tasks.complete(asked, OK, 1.0), EXTENSION, OK)
    assert (done["result"], "error" in done) == (OK, False)


@req("TASK-2", at=D)
@pytest.mark.parametrize(
    ("asked", "most", "found"),
    [(None, 1000, 1000), (500, 1000, 500), (5000, 1000, 1000), (5.5, None, 5), (None, None, None), (0, 9, 0)],
)
def test_how_long_a_task_is_kept(asked: Any, most: int | None, found: int | None) -> None:
    assert tasks.wanted_ttl({"task": {} if asked is None else {"ttl": asked}}, most) == found
    task = new(ttl=found)
    lasts = inf if found is None else found / 1000
    assert task.remaining(100.0) == task.remaining(99.0) == task.remaining(-1e9) == lasts
    left = task.remaining(100.0 + (found or 0) / 1000)
    assert left == (inf if found is None else pytest.approx(0, abs=1e-9))


@req("TASK-2", at=D)
@pytest.mark.parametrize("asked", [-1, "1", True, [], 2.0**60])
def test_what_is_no_length_of_time_is_refused(asked: Any) -> None:
    with pytest.raises(InvalidParams, match=r"task\.ttl"):
        tasks.wanted_ttl({"task": {"ttl": asked}}, 1000)
