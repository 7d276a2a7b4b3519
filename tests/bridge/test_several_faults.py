"""Several servers of which some are down, slow or endless: the others serve, and what was away comes back by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

import mcprev
from api.wire import HandServer, Message
from bridge.hands import Downstream, Servers, Upstream, bridged, said, text
from bridge.joining import (
    MODERN,
    SESSION,
    all_tools,
    each_cell,
    each_client,
    ends,
    joined,
    name_of,
    tools,
)
from helpers.running import run, until
from mcprev.analysis.transcript import TranscriptValidator
from mcprev.bridge.several import lists as lists_of
from mcprev.core.lists import ListBounds
from mcprev.errors import ConnectionLost
from mcprev.protocol.subscriptions import CHANGES, Changed
from mcprev.revisions import Revision

NAMES: Final = ("files", "bank")
CHANGED: Final = CHANGES[Changed.TOOLS].method


def down(servers: Servers) -> None:
    """Let a server be unreachable from now on."""

    def fail() -> HandServer:
        raise ConnectionLost("nobody is there", in_flight=False, retry_safe=True)

    servers._make = fail  # pyright: ignore[reportPrivateUsage]


async def works(up: Upstream, _request: Message) -> Message:
    return text(name_of(up))


async def dies(up: Upstream, _request: Message) -> None:
    await up.aclose()


WORKS: Final = {"works": works, "dies": dies}


async def listen(client: Downstream) -> None:
    """Let a client be told of changes."""
    if not client.revision.handshake:
        params = {"notifications": {"toolsListChanged": True}, "_meta": client.stamp}
        client.send({"jsonrpc": "2.0", "id": "listening", "method": "subscriptions/listen", "params": params})
        await client.heard("notifications/subscriptions/acknowledged")


@each_cell
def test_one_that_is_down_is_missing_and_comes_back(row: Revision, there: Revision) -> None:
    client, servers = Downstream(row), ends(there, *NAMES, works=WORKS)

    async def main() -> None:
        bank = servers["bank"]
        make = bank._make  # pyright: ignore[reportPrivateUsage]
        down(bank)
        async with bridged(joined(servers, there), client):
            await listen(client)
            listed = (await client.ask("tools/list")).result
            assert all_tools(listed) == ["files__works", "files__dies"]
            assert said(await client.call("files__works")) == "files"
            error = (await client.ask("tools/call", {"name": "bank__works"})).error
            assert error["code"] == -32603
            assert "the server 'bank' behind the bridge" in error["message"]
            assert "nobody is there" in error["message"]
            bank._make = make  # pyright: ignore[reportPrivateUsage]
            await client.heard(CHANGED)
            listed = (await client.ask("tools/list")).result
            assert all_tools(listed) == ["files__works", "files__dies", "bank__works", "bank__dies"]
            assert said(await client.call("bank__works")) == "bank"

    run(main())


@each_cell
def test_one_that_dies_fails_its_own_calls_alone_and_is_started_again(row: Revision, there: Revision) -> None:
    client, servers = Downstream(row), ends(there, *NAMES, works=WORKS)

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            await listen(client)
            await client.ask("tools/list")
            error = await client.call("bank__dies")
            assert error["code"] == -32603
            assert "the server 'bank'" in error["message"]
            assert said(await client.call("files__works")) == "files"
            if row.handshake:
                # Nobody calls it: it is opened again all the same, and the client is told.
                before = len(servers["bank"].made)
                await until(lambda: len(servers["bank"].made) > before)
                await client.heard(CHANGED)
            assert said(await client.call("bank__works")) == "bank"
            assert len(servers["files"].made) <= 8

    run(main())


@each_client
def test_a_server_that_is_down_is_tried_more_and_more_rarely(row: Revision) -> None:
    client, servers = Downstream(row), ends(SESSION, *NAMES, works=WORKS)
    tried: list[float] = []

    def fail() -> HandServer:
        tried.append(asyncio.get_running_loop().time())
        raise ConnectionLost("nobody is there", in_flight=False, retry_safe=True)

    async def main() -> None:
        servers["bank"]._make = fail  # pyright: ignore[reportPrivateUsage]
        async with bridged(joined(servers, SESSION), client):
            await listen(client)
            for _ in range(20):
                assert (await client.ask("tools/call", {"name": "bank__works"})).code == -32603
            assert len(tried) <= 2
            await until(lambda: len(tried) >= 5)
            waits = [later - sooner for sooner, later in zip(tried[-4:-1], tried[-3:], strict=True)]
            assert waits == sorted(waits)
            assert waits[0] > 1.5

    run(main(), limit=300.0)


@each_client
def test_without_any_server_there_is_no_session(row: Revision) -> None:
    client, servers = Downstream(row), ends(SESSION, *NAMES)

    async def main() -> None:
        for each in servers.values():
            down(each)
        async with bridged(joined(servers, SESSION), client, opened=False):
            with pytest.raises(
                AssertionError, match=r"no server behind the bridge can be reached: .*'files'.*nobody"
            ):
                await client.open()

    run(main())


@each_cell
def test_a_slow_list_holds_up_the_others_for_a_bounded_time_once(row: Revision, there: Revision) -> None:
    client, servers = Downstream(row), ends(there, *NAMES, works=WORKS)
    asked: list[Message] = []

    def later(request: Message) -> None:
        asked.append(request)

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            await listen(client)
            for up in servers["bank"].made:
                up.replies["tools/list"] = later
            make = servers["bank"]._make  # pyright: ignore[reportPrivateUsage]

            def slow() -> HandServer:
                up = make()
                up.replies["tools/list"] = later
                return up

            servers["bank"]._make = slow  # pyright: ignore[reportPrivateUsage]
            loop = asyncio.get_running_loop()
            began = loop.time()
            assert all_tools((await client.ask("tools/list")).result) == ["files__works", "files__dies"]
            assert loop.time() - began < lists_of.WAIT + 1
            began = loop.time()
            assert all_tools((await client.ask("tools/list")).result) == ["files__works", "files__dies"]
            assert loop.time() - began < 1
            (request,) = asked
            (up,) = [each for each in servers["bank"].made if request in each.got]
            up.send(
                {"jsonrpc": "2.0", "id": request["id"], "result": up.complete("tools/list", tools("late"))}
            )
            await client.heard(CHANGED)

    run(main(), limit=60.0)


@each_cell
def test_an_endless_list_is_passed_on_page_by_page(row: Revision, there: Revision) -> None:
    def page(request: Message) -> Message:
        cursor = int(request["params"].get("cursor", "0")) if "params" in request else 0
        return {**tools(f"t{cursor}"), "nextCursor": str(cursor + 1)}

    client, servers = Downstream(row), ends(there, *NAMES, works=WORKS, bank={"tools/list": page})

    async def main() -> None:
        async with bridged(joined(servers, there), client):
            first = (await client.ask("tools/list")).result
            assert all_tools(first) == ["files__works", "files__dies", "bank__t0"]
            for number in range(1, 4):
                first = (await client.ask("tools/list", {"cursor": first["nextCursor"]})).result
                assert all_tools(first) == [f"bank__t{number}"]
            for wrong in ("5", first["nextCursor"] + "x"):
                assert (await client.ask("tools/list", {"cursor": wrong})).code == -32602
            # A cursor of one list is none of another.
            assert (await client.ask("resources/list", {"cursor": first["nextCursor"]})).code == -32602

    run(main())


@pytest.mark.parametrize("there", [MODERN], ids=lambda row: row.name)
def test_an_endless_list_decides_about_names_up_to_a_bound(
    there: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcprev.core.lists.BOUNDS", ListBounds(pages=20))
    pages: list[int] = []

    def page(request: Message) -> Message:
        cursor = int(request["params"].get("cursor", "0"))
        pages.append(cursor)
        return {**tools(f"t{cursor}"), "nextCursor": str(cursor + 1)}

    client, servers = Downstream(there), ends(there, *NAMES, works=WORKS, bank={"tools/list": page})

    async def main() -> None:
        async with bridged(joined(servers, there, prefixes="needed"), client):
            found = (await client.ask("tools/list")).result
            assert "nextCursor" not in found
            assert all_tools(found) == ["works", "dies", *(f"t{number}" for number in range(20))]
            assert max(pages) == 19

    run(main())


@each_cell
def test_one_client_on_a_hundred_servers(row: Revision, there: Revision) -> None:
    names = [f"s{number}" for number in range(100)]
    client, servers = Downstream(row), ends(there, *names, works={"works": works})

    async def main() -> None:
        for name in names[::10]:
            down(servers[name])
        async with bridged(joined(servers, there), client):
            up = [name for name in names if name not in names[::10]]
            assert all_tools((await client.ask("tools/list")).result) == [f"{name}__works" for name in up]
            found = await asyncio.gather(*(client.call(f"{name}__works") for name in up))
            assert [said(each) for each in found] == up

    run(main())


def test_a_recording_has_each_message_once_at_each_side(tmp_path: Path) -> None:
    servers = ends(SESSION, *NAMES)
    file = tmp_path / "both.jsonl"

    async def ask(_params: object) -> dict[str, str]:
        return {"name": "x"}

    async def main() -> None:
        bridge = joined(servers, SESSION, record=file)
        for mode in (SESSION.name, MODERN.name):
            async with mcprev.connect(bridge, mode=mode, elicitation=ask) as client:
                await client.list_tools()
                await client.call_tool("bank__asks", {})

    run(main())
    lines = file.read_bytes().splitlines()
    checker = TranscriptValidator()
    assert [each for number, line in enumerate(lines, 1) for each in checker.feed(number, line)] == []
    calls = [line for line in lines if b'"tools/call"' in line]
    # The stateless client repeats its call with the answer; at the server that is one call.
    assert sum(b'"bank__asks"' in line for line in calls) == 3
    assert sum(b'"asks"' in line for line in calls) == 2
    assert sum(b'"elicitation/create"' in line and b'"id"' in line for line in lines) == 4


@each_cell
def test_whatever_goes_wrong_at_one_server_is_no_error_of_the_others(
    row: Revision, there: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    """A target of a user's own raises what no target should."""
    client, servers = Downstream(row), ends(there, *NAMES, works=WORKS)

    def fail() -> HandServer:
        raise RuntimeError("with a secret in its text")

    async def main() -> None:
        servers["bank"]._make = fail  # pyright: ignore[reportPrivateUsage]
        async with bridged(joined(servers, there), client):
            assert all_tools((await client.ask("tools/list")).result) == ["files__works", "files__dies"]
            assert said(await client.call("files__works")) == "files"
            error = (await client.ask("tools/call", {"name": "bank__works"})).error
            assert error["code"] == -32603
            assert "secret" not in error["message"]

    run(main())
    assert "the server 'bank' is down: it cannot be reached: RuntimeError" in caplog.text
