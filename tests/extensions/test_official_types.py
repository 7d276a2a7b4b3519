"""Tasks and apps, whose messages the runtime makes by hand, are field by field what the official files say."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from importlib import import_module
from importlib.resources import files
from typing import Any, Final, get_args

import pytest

import mcprev
from mcprev.analysis.extension_rows import TASKS, row_of_extension
from mcprev.analysis.payloads import judge_payload
from mcprev.extensions import ui
from mcprev.protocol import tasks
from mcprev.revisions import ALL, Revision, TaskSupport
from mcprev.wire.headers import TASK_NAMES
from mcprev_types import Kind
from mcprev_types.extensions.index import EXTENSIONS

ROWS: Final = [row for row in ALL if row.tasks is TaskSupport.EXTENSION]
each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
FULL: Final = replace(
    tasks.begin(0, ttl=60_000, poll=500, owner=None, session=None), message="Busy", updated=1
)
ENDS: Final[dict[tasks.Status, dict[str, Any]]] = {
    tasks.Status.WORKING: {},
    tasks.Status.INPUT_REQUIRED: {"asked": {"k": {"method": "roots/list"}}},
    tasks.Status.COMPLETED: {"result": {"content": []}},
    tasks.Status.FAILED: {"error": {"code": -32603, "message": "failed"}},
    tasks.Status.CANCELLED: {},
}
"""What a task has beside its members, by its status."""


def document(name: str, version: str) -> dict[str, Any]:
    """The JSON Schema of a version of an extension."""
    info = EXTENSIONS[name]
    package = files("mcprev_types.extensions").joinpath(info.package, info.versions[version].package)
    found: dict[str, Any] = json.loads(package.joinpath("schema.json").read_text("utf-8"))["$defs"]
    return found


def properties(name: str, version: str, type_name: str) -> set[str]:
    return set(document(name, version)[type_name]["properties"])


def tasks_version(row: Revision) -> str:
    return str(import_module(f"{row_of_extension(TASKS, row).package}.constants").VERSION)


# -- tasks -------------------------------------------------------------------------------------------------


@each_row
def test_names_and_methods_of_tasks_are_those_of_the_official_file(row: Revision) -> None:
    specs = row_of_extension(TASKS, row).methods
    requests = {name for name, spec in specs.items() if spec.kind is Kind.REQUEST}
    assert EXTENSIONS[TASKS].id == tasks.EXTENSION
    assert requests == tasks.METHODS[TaskSupport.EXTENSION]
    assert specs.keys() - requests == {tasks.TASK_NOTIFICATION}
    assert {name: spec.name_param for name, spec in specs.items() if spec.name_param} == TASK_NAMES
    assert set(document(TASKS, tasks_version(row))["TaskStatus"]["enum"]) == {*tasks.Status}


@each_row
@pytest.mark.parametrize("status", tasks.Status)
def test_every_task_has_the_members_of_its_official_type(row: Revision, status: tasks.Status) -> None:
    own, version = row_of_extension(TASKS, row), tasks_version(row)
    task = replace(FULL, status=status, **ENDS[status])
    described = tasks.outcome(task, row, task.result)
    official = f"{''.join(word.capitalize() for word in status.split('_'))}Task"
    assert described.keys() == properties(TASKS, version, official)
    for bare in (
        described,
        tasks.outcome(replace(task, message=None, poll=None, ttl=None), row, task.result),
    ):
        assert judge_payload(own, (official,), bare, "$") == []
        assert judge_payload(own, ("GetTaskResult",), {"resultType": "complete", **bare}, "$") == []
        assert judge_payload(own, ("TaskStatusNotificationParams",), bare, "$") == []


@each_row
def test_the_result_that_is_a_task_has_the_members_of_its_official_type(row: Revision) -> None:
    made = tasks.created(FULL, row)
    assert made.keys() | {"_meta"} == properties(TASKS, tasks_version(row), "CreateTaskResult")
    assert judge_payload(row_of_extension(TASKS, row), ("CreateTaskResult",), made, "$") == []
    assert (
        document(TASKS, tasks_version(row))["CreateTaskResult"]["properties"]["resultType"]["const"]
        == tasks.TASK
    )


# -- apps --------------------------------------------------------------------------------------------------

APPS: Final = EXTENSIONS["apps"]
NOT_OF_TOOLS: Final = {"csp", "permissions"}
"""Members that the official type of a tool's `_meta` has in order to forbid them."""


def apps(type_name: str) -> set[str]:
    return properties("apps", APPS.latest, type_name)


def test_a_page_of_an_app_has_the_members_of_its_official_type() -> None:
    origins = ["https://a.example"]
    csp = ui.Csp(**{each.name: origins for each in fields(ui.Csp)})
    app = mcprev.App("clock", "1")
    page = app.ui(
        "ui://clock", "<!doctype html><title>t</title>", csp=csp,
        permissions=get_args(ui.Permission), domain="a.example", prefers_border=True,
    )  # fmt: skip
    meta: dict[str, Any] = dict(page.meta["ui"])
    assert meta.keys() == apps("McpUiResourceMeta")
    assert meta["csp"].keys() == apps("McpUiResourceCsp")
    assert meta["permissions"].keys() == apps("McpUiResourcePermissions")
    assert judge_payload(_apps_row(), ("McpUiResourceMeta",), meta, "$") == []


def test_a_tool_with_a_page_has_the_members_of_its_official_type() -> None:
    meta: dict[str, Any] = dict(ui.ToolInterface("ui://clock", frozenset({"app"})).meta["ui"])
    assert meta.keys() == apps("McpUiToolMeta") - NOT_OF_TOOLS
    assert judge_payload(_apps_row(), ("McpUiToolMeta",), meta, "$") == []
    assert (
        set(document("apps", APPS.latest)["McpUiToolVisibility"]["enum"])
        == {*get_args(ui.Visibility)}
        == ui.EVERYONE
    )


def test_a_client_that_shows_pages_declares_the_members_of_the_official_type() -> None:
    assert APPS.id == ui.NAME == ui.HOST.name == ui.SERVER.name
    assert ui.HOST.settings.keys() == apps("McpUiClientCapabilities")
    assert judge_payload(_apps_row(), ("McpUiClientCapabilities",), dict(ui.HOST.settings), "$") == []


def _apps_row() -> Revision:
    return row_of_extension("apps", ROWS[0])
