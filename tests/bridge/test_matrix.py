"""Every client in front of every server: what passes a bridge at each pair of revisions, and what ends by which rule.

Both ends are by hand and judge what they get by their revision. `docs/bridge.md` has the table of this run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from api.wire import LOG_LEVEL, SUBSCRIPTION_ID, Error, Message
from bridge.hands import (
    ELICIT,
    SAMPLE,
    SAMPLING,
    VENDOR,
    Downstream,
    Servers,
    Upstream,
    Work,
    bridge_to,
    bridged,
    capabilities_of,
    question,
    said,
    text,
)
from bridge.task_hands import (
    TASK_METHODS,
    capabilities_with_tasks,
    finished,
    long_work,
    marked_tool,
    offering_tasks,
    started,
)
from helpers.requirements import req
from helpers.running import run
from mcprev.bridge.pair import Rule
from mcprev.conversion import Reason
from mcprev.revisions import ALL, DEFAULT, Revision, TaskSupport

DOCS: Final = Path(__file__).resolve().parents[2] / "docs" / "bridge.md"
SECONDS: Final = 5.0
"""Seconds after which a feature hangs."""
YES, NONE = "yes", "-"
BIG: Final = 10**20 + 1
URI, AUDIO = "a:x", {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}
LINK: Final = {"type": "resource_link", "uri": URI, "name": "x"}
LONG: Final = {
    "type": "object",
    "properties": {
        "several": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "title": "Several"}
    },
}


@dataclass
class Cell:
    """One pair of revisions, with its two ends."""

    client: Downstream
    servers: Servers

    @property
    def row(self) -> Revision:
        return self.client.revision

    @property
    def there(self) -> Revision:
        return self.server.revision

    @property
    def server(self) -> Upstream:
        server = self.servers.made[-1]
        assert isinstance(server, Upstream)
        return server

    def both(self, method: str) -> bool:
        """Whether both revisions have a method."""
        return method in self.row.methods and method in self.there.methods


# -- the server ------------------------------------------------------------------------------------------


async def echo(_: Upstream, request: Message) -> Message:
    return text(request["params"].get("arguments"))


async def contents(up: Upstream, request: Message) -> Message:
    kind = request["params"]["arguments"]["kind"]
    if kind == "audio":
        return {"content": [AUDIO]}
    if kind == "link":
        return {"content": [LINK]}
    value: Any = {"a": [1, None, BIG]} if kind == "object" else [1, "two"]
    return {"content": [{"type": "text", "text": "shown"}], "structuredContent": value}


async def busy(up: Upstream, request: Message) -> Message:
    for number in (1, 2, 3):
        up.progresses(request, number)
        up.logs(request, "info", f"low {number}")
        up.logs(request, "error", number)
    return text("done")


async def noticing(up: Upstream, _request: Message) -> Message:
    up.tell(f"{VENDOR}of-the-server", {"a": BIG})
    return text("done")


async def waiting(up: Upstream, request: Message) -> None:
    up.progresses(request, 1)
    await asyncio.Event().wait()


async def asking(up: Upstream, request: Message) -> Message:
    kinds = request["params"]["arguments"]["kinds"]
    return await up.asking(request, *(question(up.revision, kind, f" {n}") for n, kind in enumerate(kinds)))


async def long_form(up: Upstream, request: Message) -> Message:
    params = {"message": "which?", "requestedSchema": LONG}
    return await up.asking(request, (ELICIT, params))


async def tool_sampling(up: Upstream, request: Message) -> Message:
    tool = {"name": "t", "inputSchema": {"type": "object"}}
    return await up.asking(request, (SAMPLE, {**SAMPLING, "tools": [tool]}))


async def withdrawing(up: Upstream, request: Message) -> Message:
    """Asks, and cancels its question as soon as it is asked."""
    method, params = question(up.revision, "sampling")
    up.send({"jsonrpc": "2.0", "id": "withdrawn", "method": method, "params": params})
    up.tell("notifications/cancelled", {"requestId": "withdrawn", "reason": "never mind"})
    return text("done")


TOOLS: Final[Mapping[str, Work]] = {
    **{
        function.__name__: function
        for function in (
            echo,
            contents,
            busy,
            noticing,
            waiting,
            asking,
            long_form,
            tool_sampling,
            withdrawing,
        )
    },
    "long_work": long_work,
    **TASK_METHODS,
}


def page(member: str, make: Callable[[int], Message]) -> Callable[[Message], Message]:
    def reply(request: Message) -> Message:
        params: Message = request.get("params") or {}
        number = int(params.get("cursor", "0"))
        return {member: [make(number)]} | ({"nextCursor": str(number + 1)} if number < 2 else {})

    return reply


def read(request: Message) -> Message | Error:
    uri = request["params"]["uri"]
    if uri != URI:
        return Error(-32002, "no such resource", {"uri": uri})
    return {"contents": [{"uri": URI, "text": "x"}]}


def read_modern(request: Message) -> Message | Error:
    found = read(request)
    return Error(-32602, found.message, found.data) if isinstance(found, Error) else found


def tool(there: Revision, number: int) -> Message:
    return (
        marked_tool(there, "long_work")
        if number == 1
        else {"name": f"t{number}", "inputSchema": {"type": "object"}}
    )


def server(there: Revision, make: type[Upstream] = Upstream) -> Upstream:
    made = make(
        there,
        TOOLS,
        {
            "tools/list": page("tools", partial(tool, there)),
            "resources/list": page("resources", lambda n: {"uri": f"a:{n}", "name": f"r{n}"}),
            "resources/templates/list": page(
                "resourceTemplates", lambda n: {"uriTemplate": "a:{x}", "name": f"m{n}"}
            ),
            "prompts/list": page("prompts", lambda n: {"name": f"p{n}"}),
            "prompts/get": lambda request: {
                "messages": [
                    {"role": "user", "content": {"type": "text", "text": request["params"]["arguments"]["a"]}}
                ]
            },
            "resources/read": read_modern if there.input_in_results else read,
            "completion/complete": {"completion": {"values": ["one", "two"], "total": 2}},
            "resources/subscribe": {},
            "resources/unsubscribe": {},
            f"{VENDOR}x": lambda request: {"echo": request["params"]["a"], "resultType": "complete"},
        },
    )
    return offering_tasks(made)


# -- features --------------------------------------------------------------------------------------------


async def introduction(cell: Cell) -> str:
    hello = cell.client.hello
    info = hello["serverInfo"] if cell.row.handshake else hello["_meta"]["io.modelcontextprotocol/serverInfo"]
    assert info["name"] == "by hand"
    assert hello["capabilities"].keys() >= {"tools", "prompts", "resources", "logging"}
    return YES


async def lists(cell: Cell) -> str:
    for method, member, key in (
        ("tools/list", "tools", "name"),
        ("prompts/list", "prompts", "name"),
        ("resources/list", "resources", "uri"),
        ("resources/templates/list", "resourceTemplates", "name"),
    ):
        found: list[str] = []
        params: Message = {}
        while True:
            result = (await cell.client.ask(method, params)).result
            found += [item[key] for item in result[member]]
            if "nextCursor" not in result:
                break
            params = {"cursor": result["nextCursor"]}
        assert len(set(found)) == 3, found
    return YES


async def calls(cell: Cell) -> str:
    arguments = {"a": BIG, "b": [None, "é", {"c": 1.5}]}
    assert said(await cell.client.call("echo", arguments)) == arguments
    return YES


async def content_of(cell: Cell, kind: str, type_: str, reason: Reason) -> str:
    if not _has_content(cell.there, type_):
        return NONE
    (block,) = (await cell.client.call("contents", {"kind": kind}))["content"]
    return YES if block["type"] == type_ else reason.value


def _has_content(row: Revision, type_: str) -> bool:
    return hasattr(row.models, {"audio": "AudioContent", "resource_link": "ResourceLink"}[type_])


async def audio(cell: Cell) -> str:
    return await content_of(cell, "audio", "audio", Reason.AUDIO)


async def links(cell: Cell) -> str:
    return await content_of(cell, "link", "resource_link", Reason.RESOURCE_LINK)


async def structured(cell: Cell) -> str:
    if not (cell.there.structured_objects or cell.there.input_in_results):
        return NONE
    found = await cell.client.call("contents", {"kind": "object"})
    if "structuredContent" in found:
        assert found["structuredContent"] == {"a": [1, None, BIG]}
        return YES
    assert str(BIG) in found["content"][-1]["text"]
    return Rule.STRUCTURED.value


async def structured_list(cell: Cell) -> str:
    if not cell.there.input_in_results:
        return NONE
    found = await cell.client.call("contents", {"kind": "list"})
    return YES if found.get("structuredContent") == [1, "two"] else Rule.STRUCTURED.value


async def resources(cell: Cell) -> str:
    found = (await cell.client.ask("resources/read", {"uri": URI})).result
    assert found["contents"] == [{"uri": URI, "text": "x"}]
    missing = (await cell.client.ask("resources/read", {"uri": "a:none"})).error
    assert missing["code"] == cell.row.resource_not_found
    return YES


async def prompts(cell: Cell) -> str:
    found = (await cell.client.ask("prompts/get", {"name": "p0", "arguments": {"a": "b"}})).result
    assert found["messages"][0]["content"]["text"] == "b"
    return YES


async def completion(cell: Cell) -> str:
    params = {"ref": {"type": "ref/prompt", "name": "p0"}, "argument": {"name": "a", "value": "o"}}
    found = (await cell.client.ask("completion/complete", params)).result
    assert found["completion"]["values"] == ["one", "two"]
    return YES


async def progress_and_logs(cell: Cell) -> str:
    meta: Message = {"progressToken": "mine"}
    if cell.row.log_level_per_request:
        meta[LOG_LEVEL] = "warning"
    elif cell.there.log_level_per_request:
        await cell.client.ask("logging/setLevel", {"level": "warning"})
    answer = await cell.client.ask("tools/call", {"name": "busy"}, meta=meta)
    assert said(answer.result) == "done"
    got = [(m["method"][14:], m["params"].get("progress", m["params"].get("data"))) for m in answer.before]
    assert [found for found in got if "low" not in str(found[1])] == [
        (what, number) for number in (1, 2, 3) for what in ("progress", "message")
    ]
    assert all(m["params"].get("progressToken", "mine") == "mine" for m in answer.before)
    return YES


async def cancellation(cell: Cell) -> str:
    client = cell.client
    params: Message = {"name": "waiting", "_meta": {"progressToken": 7}}
    asked = asyncio.ensure_future(client.ask("tools/call", params, id_="to cancel"))
    await client.heard("notifications/progress")
    client.tell("notifications/cancelled", {"requestId": "to cancel", "reason": "enough"})
    while not cell.server.cancelled:  # noqa: ASYNC110 - the server says so in a few turns of the loop
        await asyncio.sleep(0)
    asked.cancel()
    assert cell.server.cancelled == ["enough"]
    return YES


async def withdrawn(cell: Cell) -> str:
    """A question that the server cancels: the client is told, or is not asked any more."""
    if cell.there.input_in_results:
        return NONE
    client = cell.client
    client.replies[SAMPLE] = lambda _: None
    assert said(await client.call("withdrawing")) == "done"
    del client.replies[SAMPLE]
    return YES


async def changed_lists(cell: Cell) -> str:
    await _told(cell, "toolsListChanged", True, "notifications/tools/list_changed", {})
    return YES


async def updated(cell: Cell) -> str:
    params = {"uri": "a:1"}
    await _told(cell, "resourceSubscriptions", ["a:1"], "notifications/resources/updated", params)
    return YES


async def _told(cell: Cell, member: str, value: Any, method: str, params: Message) -> None:
    """Subscribe in the client's way, have the server announce a change in its own, and wait for it."""
    client = cell.client
    asked: asyncio.Future[Any] | None = None
    if not cell.row.handshake:
        asked = asyncio.ensure_future(
            client.ask("subscriptions/listen", {"notifications": {member: value}}, id_=f"listen {member}")
        )
        confirmed = await client.heard("notifications/subscriptions/acknowledged")
        assert confirmed["notifications"] == {member: value}
        assert confirmed["_meta"][SUBSCRIPTION_ID] == f"listen {member}"
    elif params:
        await client.ask("resources/subscribe", params)
    up = cell.server
    if cell.there.handshake:
        up.tell(method, params or None)
    else:
        id_, wanted = next((i, w) for i, w in reversed(up.listens) if w.get(member) == value)
        assert wanted
        up.tell(method, {**params, "_meta": {SUBSCRIPTION_ID: id_}})
    found = await client.heard(method)
    meta: Message = found.pop("_meta", {})
    assert found == params
    if asked is not None:
        assert meta[SUBSCRIPTION_ID] == f"listen {member}"
        client.tell("notifications/cancelled", {"requestId": f"listen {member}"})
        asked.cancel()


async def vendor_meta(cell: Cell) -> str:
    await cell.client.ask("tools/list", {"_meta": {"com.example/trace": {"x": BIG}}})
    got = [m for m in cell.server.got if m.get("method") == "tools/list"][-1]
    assert got["params"]["_meta"]["com.example/trace"] == {"x": BIG}
    return YES


async def vendor_method(cell: Cell) -> str:
    answer = (await cell.client.ask(f"{VENDOR}x", {"a": BIG})).message
    if "result" in answer:
        assert answer["result"] == {"echo": BIG, "resultType": "complete"}
        return YES
    assert answer["error"]["code"] == -32601
    assert Rule.METHOD.value in answer["error"]["message"]
    return Rule.METHOD.value


async def clients_notice(cell: Cell) -> str:
    method = f"{VENDOR}of-the-client"
    cell.client.tell(method, {"a": BIG})
    await cell.client.ask("tools/call", {"name": "echo"})
    heard = [
        found["params"]
        for server in cell.servers.made
        for found in server.got
        if found.get("method") == method
    ]
    if cell.row is cell.there and cell.row.handshake:
        assert heard == [{"a": BIG}]
        return YES
    assert heard == []
    return Rule.METHOD.value if cell.row.handshake else Rule.SENDERLESS.value


async def servers_notice(cell: Cell) -> str:
    method = f"{VENDOR}of-the-server"
    answer = await cell.client.ask("tools/call", {"name": "noticing"})
    heard = answer.notified(method)
    if cell.row is cell.there:
        assert heard == [{"a": BIG}]
        return YES
    assert heard == []
    return Rule.METHOD.value


def question_of(*kinds: str) -> Callable[[Cell], Awaitable[str]]:
    async def feature(cell: Cell) -> str:
        modes = [kind for kind in kinds if kind in ("form", "url")]
        if not all(mode in cell.there.elicitation_modes for mode in modes):
            return NONE
        found = await cell.client.call("asking", {"kinds": list(kinds)})
        if not all(mode in cell.row.elicitation_modes for mode in modes):
            assert found.get("isError") or "code" in str(found), found
            return Rule.METHOD.value
        arguments, answers = said(found)
        assert arguments == {"kinds": list(kinds)}
        for number, (kind, answer) in enumerate(zip(kinds, answers, strict=True)):
            assert (kind in ("roots", "url")) or f" {number}" in str(answer), answers
            assert "code" not in answer, answers
        return YES

    return feature


async def several_choices(cell: Cell) -> str:
    """A form with several choices of one field, where both revisions have forms and the server's has such fields."""
    if not (cell.there.sampling_tools and cell.row.elicitation_modes):
        return NONE
    cell.client.replies[ELICIT] = {"action": "accept", "content": {"several": ["a"]}}
    if cell.row.input_in_results:
        cell.client.answer_to = lambda *_: {"action": "accept", "content": {"several": ["a"]}}  # type: ignore[method-assign]
    found = await cell.client.call("long_form")
    del cell.client.replies[ELICIT]
    cell.client.__dict__.pop("answer_to", None)
    if cell.row.sampling_tools:
        assert said(found)[1] == [{"action": "accept", "content": {"several": ["a"]}}]
        return YES
    assert "several choices" in str(found)
    return Reason.MULTI_SELECT.value


async def sampling_with_tools(cell: Cell) -> str:
    if not cell.there.sampling_tools:
        return NONE
    found = await cell.client.call("tool_sampling")
    if cell.row.sampling_tools:
        assert "hi" in str(found)
        return YES
    assert "sampling" in str(found), found
    return "CONV-25"


async def long_tools(cell: Cell) -> str:
    """A call without a word of tasks, of a tool that can only run as one: the client gets the result."""
    if cell.there.tasks in (TaskSupport.NONE, cell.row.tasks):
        return NONE
    cell.client.capabilities = capabilities_of(cell.row)
    found = await cell.client.call("long_work")
    cell.client.capabilities = capabilities_with_tasks(cell.row, capabilities_of(cell.row))
    assert "in a task" in str(said(found)[1])
    return YES


async def own_tasks(cell: Cell) -> str:
    """A task as the client's revision has it, with a question."""
    if TaskSupport.NONE in (cell.there.tasks, cell.row.tasks):
        return NONE
    task = await started(cell.client, "long_work")
    _, answers = await finished(cell.client, task["taskId"])
    assert "in a task" in str(answers)
    return YES


async def cancelled_task(cell: Cell) -> str:
    """A task that the client cancels is cancelled at the server."""
    if TaskSupport.NONE in (cell.there.tasks, cell.row.tasks):
        return NONE
    task = await started(cell.client, "long_work")
    await cell.client.ask("tasks/cancel", {"taskId": task["taskId"]})
    state = (await cell.client.ask("tasks/get", {"taskId": task["taskId"]})).result
    assert state["status"] == "cancelled"
    ups = cell.servers.upstreams
    while not any("task" in why for up in ups for why in up.cancelled):  # noqa: ASYNC110
        await asyncio.sleep(0)  # the server says so in a few turns of the loop
    for up in ups:
        up.cancelled.clear()
    return YES


Feature: TypeAlias = Callable[[Cell], Awaitable[str]]
FEATURES: Final[Mapping[str, Feature]] = {
    "introduction": introduction,
    "lists, page by page": lists,
    "calls of tools": calls,
    "resources, and the code for a missing one": resources,
    "prompts": prompts,
    "completion": completion,
    "progress and log messages, in order": progress_and_logs,
    "cancellation with its reason": cancellation,
    "a question that the server cancels": withdrawn,
    "changes of lists": changed_lists,
    "changes of a resource": updated,
    "`_meta` of vendors": vendor_meta,
    "roots": question_of("roots"),
    "sampling": question_of("sampling"),
    "elicitation, form": question_of("form"),
    "elicitation, URL": question_of("url"),
    "three questions in one call": question_of("sampling", "roots", "sampling"),
    "several choices in a form": several_choices,
    "sampling with tools": sampling_with_tools,
    "audio": audio,
    "resource links": links,
    "structured content, an object": structured,
    "structured content, a list": structured_list,
    "tools that can only run as tasks": long_tools,
    "tasks, and what they ask": own_tasks,
    "cancellation of tasks": cancelled_task,
    "methods of vendors": vendor_method,
    "notifications of vendors, from clients": clients_notice,
    "notifications of vendors, from servers": servers_notice,
}


def outcomes(row: Revision, there: Revision, **options: Any) -> dict[str, str]:
    """What each feature comes to at a pair; `options` are those of the bridge."""
    found: dict[str, str] = {}

    async def main() -> None:
        servers = Servers(lambda: server(there))
        client = Downstream(row, capabilities_with_tasks(row, capabilities_of(row)))
        async with bridged(bridge_to(servers, there, revisions=[row.name], **options), client):
            cell = Cell(client, servers)
            for name, feature in FEATURES.items():
                try:
                    async with asyncio.timeout(SECONDS):
                        found[name] = await feature(cell)
                except Exception as error:
                    error.add_note(f"{name}: {row.name} -> {there.name}")
                    raise
            servers.check()

    run(main())
    return found


def table(found: Mapping[tuple[str, str], Mapping[str, str]]) -> str:
    """The table of `docs/bridge.md`: a row for each feature, a column for each client, a line for each other outcome."""
    names = [row.name for row in DEFAULT]
    lines = [
        f"| feature | {' | '.join(f'client {name}' for name in names)} |",
        "|---" * (len(names) + 1) + "|",
    ]
    for feature in FEATURES:
        cells: list[str] = []
        for client in names:
            by_outcome: dict[str, list[str]] = {}
            for there in names:
                by_outcome.setdefault(found[client, there][feature], []).append(there)
            if set(by_outcome) <= {YES, NONE}:
                cells.append(YES if YES in by_outcome else NONE)
            else:
                others = [
                    f"{outcome}: {', '.join(servers)}"
                    for outcome, servers in by_outcome.items()
                    if outcome not in (YES, NONE)
                ]
                cells.append("; ".join(([YES] if YES in by_outcome else []) + others))
        lines.append(f"| {feature} | {' | '.join(cells)} |")
    return "\n".join(lines)


_FOUND: Final[dict[tuple[str, str], dict[str, str]]] = {}


@req("SEAM-10", "CONV-36", "MRTR-11", "MRTR-12", "SUB-8")
@pytest.mark.parametrize("there", DEFAULT, ids=lambda row: f"to {row.name}")
def test_everything_passes_or_ends_by_its_rule(row: Revision, there: Revision) -> None:
    found = _FOUND[row.name, there.name] = outcomes(row, there)
    rules = {YES, NONE, *Rule, *Reason, "CONV-25"}
    assert set(found.values()) <= rules
    if row is there:
        passed = {YES, NONE} if row.handshake else {YES, NONE, Rule.SENDERLESS}
        assert set(found.values()) <= passed, "one revision passes everything but what no request carries"


@req("SEAM-10")
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
@pytest.mark.parametrize("draft_is_the_client", [True, False])
def test_the_draft_passes_like_any_other(row: Revision, *, draft_is_the_client: bool) -> None:
    draft = ALL[-1]
    found = outcomes(draft, row) if draft_is_the_client else outcomes(row, draft)
    newest = DEFAULT[-1].name
    latest = _FOUND.get((newest, row.name) if draft_is_the_client else (row.name, newest))
    assert set(found.values()) <= {YES, NONE, *Rule, *Reason, "CONV-25"}
    if latest is not None:
        own = {name: "" for name in found if "of vendors" in name}
        assert {**found, **own} == {**latest, **own}


@req("SEAM-10", everywhere=True)
def test_the_table_in_the_guide_is_that_of_the_run() -> None:
    for row in DEFAULT:
        for there in DEFAULT:
            if (row.name, there.name) not in _FOUND:
                _FOUND[row.name, there.name] = outcomes(row, there)
    assert table(_FOUND) in DOCS.read_text(encoding="utf-8"), table(_FOUND)
