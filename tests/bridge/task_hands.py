"""Tasks of clients and servers by hand, in the way of each revision."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any, Final

from api.wire import Error, Message
from bridge.hands import Downstream, Upstream, Work, question, said, text
from mcprev.protocol import tasks
from mcprev.revisions import Revision, TaskSupport
from mcprev.wire.meta_keys import CLIENT_CAPABILITIES, RELATED

POLL: Final = 20
"""The milliseconds between two looks that these servers ask for."""
_ids = itertools.count(1)
_TIME: Final = "2026-01-01T00:00:00Z"


def capabilities_with_tasks(row: Revision, capabilities: Message) -> Message:
    """The capabilities of a client, with the extension where a revision has it."""
    if row.tasks is not TaskSupport.EXTENSION:
        return capabilities
    return {**capabilities, "extensions": {tasks.EXTENSION: {}}}


def offering_tasks(up: Upstream) -> Upstream:
    """A server that declares tasks in the way of its revision."""
    if up.revision.tasks is TaskSupport.CORE:
        up.capabilities = {**up.capabilities, "tasks": tasks.CORE_CAPABILITY}
    elif up.revision.tasks is TaskSupport.EXTENSION:
        up.capabilities = {**up.capabilities, "extensions": {tasks.EXTENSION: {}}}
    return up


def marked_tool(row: Revision, name: str) -> Message:
    """A tool that can only run as a task, as a list has it."""
    found: Message = {"name": name, "inputSchema": {"type": "object"}}
    return found | ({"execution": {"taskSupport": "required"}} if row.tasks is TaskSupport.CORE else {})


def _members(up: Upstream, id_: str) -> Message:
    unit = "" if up.revision.tasks is TaskSupport.CORE else "Ms"
    found = {"taskId": id_, "createdAt": _TIME, "lastUpdatedAt": _TIME, f"ttl{unit}": 60_000}
    return {**found, f"pollInterval{unit}": POLL, **up.tasks[id_]}


async def long_work(up: Upstream, request: Message) -> Message | Error:
    """A tool that runs as a task only, and asks the model of its client; where there are no tasks, it asks in its call."""
    params = request["params"]
    core = up.revision.tasks is TaskSupport.CORE
    if up.revision.tasks is TaskSupport.NONE:
        return await up.asking(request, question(up.revision, "sampling", " in a task"))
    if core and "task" not in params:
        return Error(-32601, "this tool can only run as a task")
    meta: Message = params.get("_meta") or {}
    capabilities: Message = meta.get(CLIENT_CAPABILITIES) or {}
    extensions: Message = capabilities.get("extensions") or {}
    if not core and tasks.EXTENSION not in extensions:
        return Error(-32021, "tasks are missing", {"requiredCapabilities": dict(tasks.NEEDS)})
    id_ = f"theirs-{next(_ids)}"
    up.tasks[id_] = {"status": "working", "statusMessage": "at it"}
    up.progresses(request, 1)
    if core:
        return {"task": _members(up, id_)}
    method, asked = question(up.revision, "sampling", " in a task")
    entry = {"method": method, "params": asked}
    up.tasks[id_] |= {"status": "input_required", "inputRequests": {"one": entry}}
    return {"resultType": "task", **{k: v for k, v in _members(up, id_).items() if k != "inputRequests"}}


async def _get(up: Upstream, request: Message) -> Message | Error:
    id_ = request["params"]["taskId"]
    return _members(up, id_) if id_ in up.tasks else Error(-32602, "no such task")


async def _result(up: Upstream, request: Message) -> Message | Error:
    """The end of a task, in whose course the server asks."""
    id_ = request["params"]["taskId"]
    if id_ not in up.tasks:
        return Error(-32602, "no such task")
    meta: Message = {RELATED: {"taskId": id_}}
    method, params = question(up.revision, "sampling", " in a task")
    up.tasks[id_] = {"status": "input_required"}
    answer = (await up.ask(method, {**(params or {}), "_meta": meta})).message
    up.tasks[id_] = {"status": "completed"}
    return {**text([None, [answer.get("result") or answer["error"]]]), "_meta": meta}


async def _update(up: Upstream, request: Message) -> Message | Error:
    id_, given = request["params"]["taskId"], request["params"]["inputResponses"]
    if id_ not in up.tasks or "one" not in given:
        return Error(-32602, "no such task")
    result = {"resultType": "complete", **text([None, [given["one"]]])}
    up.tasks[id_] = {"status": "completed", "result": result}
    return {}


async def _cancel(up: Upstream, request: Message) -> Message | Error:
    id_ = request["params"]["taskId"]
    if id_ not in up.tasks:
        return Error(-32602, "no such task")
    up.tasks[id_] = {"status": "cancelled"}
    up.cancelled.append(f"task {id_}")
    return _members(up, id_) if up.revision.tasks is TaskSupport.CORE else {}


TASK_METHODS: Final[Mapping[str, Work]] = {
    tasks.GET: _get,
    tasks.RESULT: _result,
    tasks.UPDATE: _update,
    tasks.CANCEL: _cancel,
}
"""What a server by hand answers about tasks, beside the methods of its revision."""


# -- clients ------------------------------------------------------------------------------------------------


async def started(client: Downstream, name: str) -> Message:
    """The task that a call is answered with."""
    core = client.revision.tasks is TaskSupport.CORE
    params: Message = {"name": name} | ({"task": {"ttl": 30_000}} if core else {})
    result = (await client.ask("tools/call", params)).result
    if core:
        return dict(result["task"])
    assert result["resultType"] == "task", result
    return result


async def finished(client: Downstream, id_: str) -> Any:
    """What the tool of a task has said at its end, after its questions were answered."""
    if client.revision.tasks is TaskSupport.CORE:
        result = (await client.ask(tasks.RESULT, {"taskId": id_})).result
        assert result["_meta"][RELATED] == {"taskId": id_}
        assert (await client.ask(tasks.GET, {"taskId": id_})).result["status"] == "completed"
        return said(result)
    answered: set[str] = set()
    while True:
        state = (await client.ask(tasks.GET, {"taskId": id_})).result
        if state["status"] == "completed":
            return said(state["result"])
        assert state["status"] in ("working", "input_required"), state
        asked: Message = state.get("inputRequests") or {}
        new = {key: found for key, found in asked.items() if key not in answered}
        if new:
            answered |= set(new)
            given = {
                key: client.answer_to(found["method"], found.get("params")) for key, found in new.items()
            }
            await client.ask(tasks.UPDATE, {"taskId": id_, "inputResponses": given})
        await asyncio.sleep(POLL / 1000)
