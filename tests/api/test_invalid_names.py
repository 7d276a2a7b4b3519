"""Tools whose names no client has to take: a user can call them through clients and bridges, and is told once (TOOL-7)."""

from __future__ import annotations

import logging
from typing import Any, Final

import pytest

import mcprev
from bridge.hands import Downstream, Upstream, bridge_to, bridged
from bridge.joining import Ends, Group, all_tools, ends, joined, target_of, tools
from fuzz.fuzzing import each_once
from helpers.requirements import req
from helpers.running import run
from mcprev.protocol import tool_names
from mcprev.protocol.tool_names import MAX_TOOL_NAME, TOOL_NAME, with_prefix
from mcprev.revisions import DEFAULT, Revision

LONG: Final = "x" * 124
"""Too long with a prefix only."""
INVALID: Final = ("get weather", "wörter/zählen", "a:b", "y" * 129, "z" * 128 + " ", "\U0001f600")
NAMES: Final = ("fine", "also.fine_1234abcd", LONG, *INVALID)
each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
UNLISTED: Final = "buy@1"
"""What a server serves and does not list."""
each_there = pytest.mark.parametrize("there", [DEFAULT[-2], DEFAULT[-1]], ids=lambda row: row.name)


async def called(up: Upstream, request: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": request["params"]["name"]}]}


def servers_of(there: Revision, *names: str) -> Ends:
    """Servers by hand with odd names of tools."""
    return ends(
        there,
        *names,
        works=dict.fromkeys((*NAMES, UNLISTED), called),
        **{name: {"tools/list": tools(*NAMES)} for name in names},
    )


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if "work with every client" in each.getMessage()]


@pytest.fixture(autouse=True)
def _untold(caplog: pytest.LogCaptureFixture) -> None:
    """Names are told once in a process."""
    caplog.set_level(logging.WARNING)
    tool_names.logged_names.clear()


@req("TOOL-7")
@each_row
def test_a_client_and_a_bridge_of_one_server_pass_names_on(
    row: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    group = servers_of(row, "one")["one"]

    async def main() -> None:
        async with mcprev.connect(target_of(group), mode=row.name) as client:
            for _ in range(2):
                assert [tool.name async for tool in client.tools(fresh=True)] == list(NAMES)
            for name in NAMES:
                assert (await client.call_tool(name)).text == name
        assert len(warned(caplog)) == len(INVALID)
        downstream = Downstream(row)
        async with bridged(bridge_to(group, row), downstream):
            assert all_tools((await downstream.ask("tools/list")).result) == list(NAMES)
            for name in NAMES:
                answer = await downstream.ask("tools/call", {"name": name})
                assert answer.result["content"][0]["text"] == name

    run(main())


@req("TOOL-7", "SEAM-1")
@each_row
def test_the_names_of_several_servers_are_valid_and_lead_back(
    row: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    groups: dict[str, Group] = {**servers_of(row, "one", "two")}
    targets: Any = {name: target_of(group) for name, group in groups.items()}

    async def main() -> None:
        async with mcprev.connect_all(targets, mode=row.name) as clients:
            shown = [tool.name async for tool in clients.tools()]
            check(shown, "one__", "two__")
            for name, own in zip(shown, NAMES * 2, strict=True):
                assert (await clients.call_tool(name)).text == own
            assert (await clients.call_tool("two__get weather")).text == "get weather"
            again = [tool.name async for tool in clients.tools()]
            assert again == shown
        assert len(warned(caplog)) == len(INVALID) + 2 * (
            1 + len(INVALID)
        ), "each of the servers', and each that is renamed"
        async with mcprev.connect_all(targets, mode=row.name) as clients:  # who has the name from before
            assert [(await clients.call_tool(name)).text for name in reversed(shown)] == [
                *reversed(NAMES * 2)
            ]
            with pytest.raises(mcprev.McpError):
                await clients.call_tool("one__never_listed_0123abcd")

    run(main())


@each_once
@req("TOOL-7", "SEAM-1")
@each_row
@each_there
@pytest.mark.parametrize("prefixes", ["always", "needed"])
def test_a_bridge_of_several_servers_gives_valid_names(row: Revision, there: Revision, prefixes: Any) -> None:
    alone = "only here: ä"

    def bridge() -> Any:
        servers = servers_of(there, "one", "two")
        servers = {**servers, **ends(there, "three", works={alone: called})}
        return joined(servers, there, prefixes=prefixes)

    async def main() -> None:
        client = Downstream(row)
        async with bridged(bridge(), client):
            shown = all_tools((await client.ask("tools/list")).result)
            check(shown[:-1], "one__", "two__")
            assert shown[-1] == with_prefix(
                "three__", alone
            ), "also where it could have none: no server takes the name of another one's tool"
        # A client that has the names from before asks another process.
        other = Downstream(row)
        async with bridged(bridge(), other):
            for name, own in zip(reversed(shown), reversed([*NAMES * 2, alone]), strict=True):
                answer = await other.ask("tools/call", {"name": name})
                assert answer.result["content"][0]["text"] == own
            answer = await other.ask("tools/call", {"name": "two__get weather"})
            assert answer.result["content"][0]["text"] == "get weather"
            answer = await other.ask("tools/call", {"name": f"one__{UNLISTED}"})
            assert answer.result["content"][0]["text"] == UNLISTED, "no list shows a form of it"

    run(main())


def check(shown: list[str], *prefixes: str) -> None:
    """Names are valid, differ, and are those of servers where they can be."""
    assert len(set(shown)) == len(shown) == len(prefixes) * len(NAMES)
    assert all(TOOL_NAME.fullmatch(name) for name in shown)
    for prefix, part in zip(prefixes, (shown[: len(NAMES)], shown[len(NAMES) :]), strict=True):
        assert part == [with_prefix(prefix, name) for name in NAMES]
        assert part[:2] == [prefix + name for name in NAMES[:2]]


@req("TOOL-7", everywhere=True)
@pytest.mark.parametrize("prefix", ["", "a__", "p" * 110 + "__"])
@pytest.mark.parametrize("name", [*NAMES, "\ud800", "y" * 130])
def test_the_valid_form_of_a_name_is_always_the_same_and_that_of_no_other(prefix: str, name: str) -> None:
    found = with_prefix(prefix, name)
    assert found.startswith(prefix)
    assert len(found) <= MAX_TOOL_NAME
    assert TOOL_NAME.fullmatch(found)
    assert found == with_prefix(prefix, name)
    digest = tool_names.name_digest(name)
    assert (tool_names.stands_for(found) == digest) is (
        found != prefix + name or tool_names.stands_for(name) == digest
    )
    assert found != with_prefix(prefix, name + "!")


@req("TOOL-7", "SEC-6", everywhere=True)
def test_a_list_of_any_length_fills_neither_the_log_nor_memory(caplog: pytest.LogCaptureFixture) -> None:
    for size in range(tool_names.MAX_TOLD):
        tool_names.tell_invalid([f"{size} {'x' * 1000}"])
    assert len(warned(caplog)) == tool_names.MAX_TOLD
    assert max(map(len, tool_names.logged_names)) < 200
    tool_names.tell_invalid(["one more"])
    with_prefix("a__", "and another")
    assert len(warned(caplog)) == len(tool_names.logged_names) == tool_names.MAX_TOLD
