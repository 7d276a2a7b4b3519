"""What one side says that means something only at the other: members of params, and methods that nothing comes of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from api.wire import HANDSHAKE, Error, Message
from bridge.hands import SAMPLE, Downstream, Servers, Upstream, bridge_to, bridged, said, text
from bridge.task_hands import TASK_METHODS, capabilities_with_tasks, long_work, marked_tool, offering_tasks
from fuzz.fuzzing import each_once
from helpers.requirements import req
from helpers.running import run
from mcprev.bridge.bridge import Bridge
from mcprev.protocol import tasks
from mcprev.revisions import DEFAULT, Revision, TaskSupport

CORE: Final = [row for row in DEFAULT if row.tasks is TaskSupport.CORE]
EXTENSION: Final = [row for row in DEFAULT if row.tasks is TaskSupport.EXTENSION]
STEERING: Final[Message] = {
    "task": {"ttl": 1000},
    "inputResponses": {"one": {"action": "accept", "content": {"name": "x"}}},
    "requestState": "theirs",
}
"""The members that say how a call is executed, and the revisions that have each."""
MEANT: Final[Mapping[str, Callable[[Revision], bool]]] = {
    "task": lambda row: row.tasks is TaskSupport.CORE,
    "inputResponses": lambda row: row.input_in_results,
    "requestState": lambda row: row.input_in_results,
}
FOREIGN: Final = [
    (row, there, member)
    for row in DEFAULT
    for there in DEFAULT
    for member, meant in MEANT.items()
    if meant(there) and not meant(row)
]


def name_of(found: Any) -> str:
    return str(getattr(found, "name", found))


async def echo(_: Upstream, request: Message) -> Message:
    """The members of the params, without the `_meta`."""
    return text(sorted(request["params"].keys() - {"_meta"}))


@req("SEAM-10", "TASKX-6", "MRTR-4", everywhere=True)
@pytest.mark.parametrize(("row", "there", "member"), FOREIGN, ids=name_of)
def test_a_member_that_only_the_servers_revision_has_does_not_steer_the_call(
    row: Revision, there: Revision, member: str
) -> None:
    async def main() -> None:
        client, servers = Downstream(row, {}), Servers(lambda: Upstream(there, {"echo": echo}))
        async with bridged(bridge_to(servers, there), client):
            params: Message = {"name": "echo", "arguments": {}, member: STEERING[member], "com.example/x": 1}
            found = said((await client.ask("tools/call", params)).result)
            assert found == ["arguments", "com.example/x", "name"]
        servers.check()

    run(main())


@req("SEAM-10", "TASKX-6", at=CORE[0].name)
@pytest.mark.parametrize(
    ("row", "there"),
    [
        (row, there)
        for row in HANDSHAKE
        for there in HANDSHAKE
        if MEANT["task"](row) and not MEANT["task"](there)
    ],
    ids=name_of,
)
def test_nor_does_one_of_a_server_steer_what_it_asks(row: Revision, there: Revision) -> None:
    seen: list[Message] = []

    async def asks(up: Upstream, _: Message) -> Message:
        params: Message = {"messages": [], "maxTokens": 1, "task": {}, "com.example/x": 1}
        return text((await up.ask(SAMPLE, params)).message.get("result", {}).get("model"))

    async def main() -> None:
        client, servers = Downstream(row), Servers(lambda: Upstream(there, {"asks": asks}))

        def answer(request: Message) -> Message:
            seen.append(request["params"])
            return {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}

        client.replies[SAMPLE] = answer
        async with bridged(bridge_to(servers, there), client):
            assert said(await client.call("asks")) == "m"
            assert [sorted(params.keys() - {"_meta"}) for params in seen] == [
                ["com.example/x", "maxTokens", "messages"]
            ]

    run(main())


across = pytest.mark.parametrize(("row", "there"), [(e, c) for e in EXTENSION for c in CORE], ids=name_of)


def with_tasks(there: Revision) -> Servers:
    listed = {"tools": [marked_tool(there, "long_work")]}
    tools: dict[str, Any] = {"long_work": long_work, **TASK_METHODS}
    return Servers(lambda: offering_tasks(Upstream(there, tools, {"tools/list": dict(listed)})))


@req("SEAM-10", "TASKX-1", "MOD-6", at=EXTENSION[0].name)
@across
@pytest.mark.parametrize("method", sorted(tasks.METHODS[TaskSupport.EXTENSION]))
def test_tasks_need_a_client_that_declares_them(row: Revision, there: Revision, method: str) -> None:
    """Also where the task exists, or would if the id were right."""

    async def main() -> None:
        servers = with_tasks(there)
        client = Downstream(row, capabilities_with_tasks(row, {"sampling": {}}))
        async with bridged(bridge_to(servers, there), client):
            first = (await client.ask("tools/call", {"name": "long_work"})).result
            client.capabilities = {"sampling": {}}
            for id_ in (first["taskId"], "none"):
                params: Message = {"taskId": id_, "inputResponses": {}}
                error = (await client.ask(method, params)).error
                assert error["code"] == -32021
                assert error["data"] == {"requiredCapabilities": dict(tasks.NEEDS)}

    run(main())


@req("SEAM-10", "TASKX-2", "BASE-13", at=EXTENSION[0].name)
@across
def test_every_result_about_a_task_has_its_type(row: Revision, there: Revision) -> None:
    async def main() -> None:
        servers, client = with_tasks(there), Downstream(row, capabilities_with_tasks(row, {"sampling": {}}))
        async with bridged(bridge_to(servers, there), client):
            made = (await client.ask("tools/call", {"name": "long_work"})).result
            named = {"taskId": made["taskId"]}
            found = [
                (await client.ask(tasks.GET, named)).result,
                (await client.ask(tasks.UPDATE, {**named, "inputResponses": {}})).result,
                (await client.ask(tasks.CANCEL, named)).result,
                (await client.ask(tasks.CANCEL, named)).result,
            ]
            assert [made["resultType"], *(each["resultType"] for each in found)] == [
                "task",
                *["complete"] * 4,
            ]
            wanted = {"notifications": {"taskIds": [made["taskId"]]}}
            listening = asyncio.ensure_future(client.ask("subscriptions/listen", wanted))
            await client.heard("notifications/subscriptions/acknowledged")
        ended = (await listening).result  # the bridge has stopped
        assert ended["resultType"] == "complete"
        servers.check()

    run(main())


@each_once
@req("SEAM-10", "LOG-2", "ERR-3", everywhere=True)
@pytest.mark.parametrize("row", HANDSHAKE, ids=name_of)
@pytest.mark.parametrize("there", DEFAULT, ids=name_of)
@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
def test_a_level_is_set_where_log_messages_come(row: Revision, there: Revision, *, several: bool) -> None:
    async def main() -> None:
        cases: tuple[tuple[Message, int | None], ...] = (({"tools": {}}, -32601), ({"logging": {}}, None))
        for capabilities, code in cases:

            def make(capabilities: Message = capabilities) -> Upstream:
                up = Upstream(there, {}, {"tools/list": {"tools": []}})
                up.capabilities = dict(capabilities)
                if "logging" not in capabilities:
                    up.replies["logging/setLevel"] = Error(-32601, "no log messages")
                return up

            servers, client = Servers(make), Downstream(row)
            target: Any = servers
            bridge = bridge_to(servers, there)
            if several:
                import mcprev

                bridge = Bridge({"one": mcprev.memory(target)}, server_revisions=[there.name])
            async with bridged(bridge, client):
                message = (await client.ask("logging/setLevel", {"level": "debug"})).message
                assert message.get("error", {}).get("code") == code, message
            await client.aclose()

    run(main())
