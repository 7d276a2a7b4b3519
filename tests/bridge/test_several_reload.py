"""The servers of a bridge are configured anew while it runs: no call is lost, and clients are told what has changed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

import mcprev
from api.wire import Message
from bridge.hands import Downstream, Upstream, bridged, question, said, text
from bridge.joining import (
    MODERN,
    SESSION,
    Ends,
    all_tools,
    asked,
    each_cell,
    ends,
    joined,
    name_of,
    target_of,
)
from helpers.running import run, until
from mcprev.bridge.several.member import ServerSpec
from mcprev.bridge.several.options import BridgedServer, Offer
from mcprev.bridge.several.servers import ConfigFile
from mcprev.protocol.subscriptions import CHANGES, Changed
from mcprev.revisions import Revision

NAMES: Final = ("files", "bank")
CHANGED: Final = CHANGES[Changed.TOOLS].method
APP: Final = """
import os

import mcprev

app = mcprev.App("echo", "1")


@app.tool
def echo(text: str) -> str:
    return text


@app.tool
def pid() -> int:
    return os.getpid()


@app.tool
def parent() -> int:
    return os.getppid()
"""


class Gate:
    """Lets calls wait until the test opens it."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.waiting = 0

    async def waits(self, up: Upstream, _request: Message) -> Message:
        self.waiting += 1
        await self.opened.wait()
        return text(name_of(up))


async def works(up: Upstream, _request: Message) -> Message:
    await asyncio.sleep(0)
    return text(name_of(up))


async def asks(up: Upstream, request: Message) -> Message:
    return await up.asking(request, question(up.revision, "form", f" {name_of(up)}"))


def targets(servers: Ends, **renamed: str) -> dict[str, BridgedServer]:
    """The servers by hand as targets, some under other names."""
    names = renamed or {name: name for name in servers}
    return {
        name: BridgedServer(target=target_of(servers[given]), offer=Offer()) for name, given in names.items()
    }


@each_cell
def test_no_call_is_lost_while_servers_are_replaced(row: Revision, there: Revision) -> None:
    client, gate = Downstream(row), Gate()
    servers = ends(there, "files", "old", "new", works={"works": works, "waits": gate.waits})

    async def main() -> None:
        bridge = joined(servers, there)
        kept = targets(servers, files="files")
        bridge.replace_servers({**kept, **targets(servers, bank="old")})
        async with bridged(bridge, client):
            if not row.handshake:
                params = {"notifications": {"toolsListChanged": True}, "_meta": client.stamp}
                client.send({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": params})
                await client.heard("notifications/subscriptions/acknowledged")
            open_calls = [asyncio.ensure_future(client.call("bank__waits")) for _ in range(3)]
            await until(lambda: gate.waiting == 3)
            before = len(servers["files"].made)

            async def load(name: str) -> list[str]:
                return [said(await client.call(f"{name}__works")) for _ in range(20)]

            loads = [asyncio.ensure_future(load(name)) for name in NAMES for _ in range(3)]
            await asyncio.sleep(0)
            bridge.replace_servers({**kept, **targets(servers, bank="new")})
            found = await asyncio.gather(*loads)
            assert all(each == ["files"] * 20 for each in found[:3])
            for each in found[3:]:
                assert each == sorted(each, reverse=True)  # old ones, then new ones
            assert said(await client.call("bank__works")) == "new"
            await until(lambda: any(each.get("method") == CHANGED for each in client.got))
            assert not any(up.lost for up in servers["old"].made if up.asked("tools/call"))
            gate.opened.set()
            assert [said(each) for each in await asyncio.gather(*open_calls)] == ["old"] * 3
            await until(lambda: all(up.lost for up in servers["old"].made))
            if row.handshake:
                assert len(servers["files"].made) == before
                assert not any(up.lost for up in servers["files"].made)

    run(main())


@each_cell
def test_servers_are_added_and_removed(row: Revision, there: Revision) -> None:
    client, servers = Downstream(row), ends(there, *NAMES, "third", works={"works": works})

    async def main() -> None:
        both = targets(servers, files="files", bank="bank")
        bridge = joined(servers, there)
        bridge.replace_servers(both)
        async with bridged(bridge, client):
            assert all_tools((await client.ask("tools/list")).result) == ["files__works", "bank__works"]
            bridge.replace_servers({"bank": both["bank"], **targets(servers, third="third")})
            assert all_tools((await client.ask("tools/list")).result) == ["bank__works", "third__works"]
            assert said(await client.call("third__works")) == "third"
            assert (await client.ask("tools/call", {"name": "files__works"})).code == -32602
            await until(lambda: all(up.lost for up in servers["files"].made))
            with pytest.raises(ValueError, match="the same prefix"):
                bridge.replace_servers({"bank": both["bank"], "BANK": both["bank"]})
            with pytest.raises(ValueError, match="at least one"):
                bridge.replace_servers({})
            assert all_tools((await client.ask("tools/list")).result) == ["bank__works", "third__works"]

    run(main())


@each_cell
def test_other_names_keep_the_connections(row: Revision, there: Revision) -> None:
    client, servers = Downstream(row), ends(there, "files", works={"works": works, "asks": asks})

    async def main() -> None:
        target = target_of(servers["files"])
        bridge = joined(servers, there)
        bridge.replace_servers({"files": BridgedServer(target=target)})
        async with bridged(bridge, client):
            await client.call("files__works")
            offer = Offer(deny={"tools": ["asks"]}, rename={"tools": {"works": "runs"}})
            bridge.replace_servers({"files": BridgedServer(target=target, prefix="f", offer=offer)})
            assert all_tools((await client.ask("tools/list")).result) == ["f__runs"]
            assert said(await client.call("f__runs")) == "files"
            if row.handshake:
                assert len(servers["files"].made) == 1
            assert (await client.ask("tools/call", {"name": "f__works"})).code == -32602

    run(main())


def test_a_call_that_waits_for_its_user_is_answered_where_it_began() -> None:
    client, servers = Downstream(MODERN), ends(SESSION, "old", "new", works={"asks": asks, "works": works})

    async def main() -> None:
        bridge = joined(servers, SESSION)
        bridge.replace_servers(targets(servers, bank="old"))
        async with bridged(bridge, client):
            first = (await client.ask("tools/call", {"name": "bank__asks"})).result
            bridge.replace_servers(targets(servers, bank="new"))
            (key,) = first["inputRequests"]
            answers = {key: {"action": "accept", "content": {"name": "x"}}}
            again = {"name": "bank__asks", "requestState": first["requestState"], "inputResponses": answers}
            _, (answer,) = said((await client.ask("tools/call", again)).result)
            assert answer["content"] == {"name": "x"}
            assert first["inputRequests"][key]["params"]["message"] == "who? old"
            assert said(await client.call("bank__works")) == "new"
            await until(lambda: all(up.lost for up in servers["old"].made))

    run(main())


@pytest.mark.parametrize("there", [SESSION, MODERN], ids=lambda row: row.name)
def test_a_session_keeps_its_level_and_subscriptions_at_the_new_server(there: Revision) -> None:
    client = Downstream(SESSION)
    subscribe: Any = {"resources/subscribe": {}, "resources/unsubscribe": {}}
    servers = ends(there, "old", "new", works={"works": works}, old=subscribe, new=subscribe)

    async def main() -> None:
        bridge = joined(servers, there)
        bridge.replace_servers(targets(servers, bank="old"))
        async with bridged(bridge, client):
            await client.ask("logging/setLevel", {"level": "debug"})
            await client.ask("resources/subscribe", {"uri": "bank+all:one"})
            bridge.replace_servers(targets(servers, bank="new"))
            await client.heard(CHANGES[Changed.RESOURCE].method)
            if there.handshake:
                assert asked(servers, "new", "logging/setLevel") == [{"level": "debug"}]
                assert asked(servers, "new", "resources/subscribe") == [{"uri": "all:one"}]
            else:
                (up,) = servers["new"].made
                assert isinstance(up, Upstream)
                assert [wanted["resourceSubscriptions"] for _, wanted in up.listens] == [["all:one"]]

    run(main())


# -- the file ------------------------------------------------------------------------------------------------


def entry(*words: str, **options: Any) -> Message:
    return {"command": sys.executable, "args": [*words], **({"bridge": options} if options else {})}


def write(file: Path, servers: Mapping[str, Any]) -> None:
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")


@pytest.mark.parametrize(
    ("servers", "text"),
    [
        ({}, "has no servers"),
        ({"a": {"command": "x", "disabled": True}}, "every server of the configuration is disabled"),
        (
            {"a": {"command": "x", "bridge": []}},
            "the server 'a' of the configuration: `bridge` is not an object",
        ),
        ({"a": {"command": "x", "bridge": {"allows": {}}}}, "`bridge` has no member `allows`.*allow"),
        ({"a": {"command": "x", "bridge": {"allow": []}}}, "`bridge.allow` is not an object"),
        (
            {"a": {"command": "x", "bridge": {"allow": {"tools": "x"}}}},
            "`bridge.allow.tools` is not a list of strings",
        ),
        ({"a": {"command": "x", "bridge": {"rename": {"tools": {"x": 1}}}}}, "is not an object of strings"),
        ({"a": {"command": "x", "bridge": {"rename": {"resources": {}}}}}, "`rename` has no `resources`"),
        ({"a": {"command": "x", "bridge": {"prefix": 3}}}, "`bridge.prefix` is not a string"),
        ({"a": {"command": "x", "bridge": {"prefix": "a__"}}}, "cannot have the prefix"),
        ({"a": {"command": "x", "bridge": {"perPrincipal": 1}}}, "must be true or false"),
        ({"a": {"command": "x", "url": "https://a.example"}}, "both `command` and `url`"),
        ({"a": {"command": "x"}, "A": {"command": "x"}}, "have the same prefix"),
    ],
)
def test_a_file_that_is_not_valid_is_refused(servers: Any, text: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    write(file, servers)
    with pytest.raises(ValueError, match=text):
        mcprev.Bridge(ConfigFile(file))


def test_a_file_is_read_again_when_it_changes_and_a_broken_one_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "mcp.json"
    write(file, {"one": entry()})
    source = ConfigFile(file, poll=0.01)
    assert list(source.read()) == ["one"]
    seen: list[list[str]] = []

    def configure(specs: Mapping[str, ServerSpec]) -> None:
        seen.append(list(specs))

    async def main() -> None:
        watching = asyncio.ensure_future(source.watch(configure))
        write(file, {"one": entry(), "two": entry(prefix="second")})
        await until(lambda: seen == [["one", "two"]])
        file.write_text("{", encoding="utf-8")
        await until(lambda: len(caplog.records) == 1)
        write(file, {"one": {"command": 3}})
        await until(lambda: len(caplog.records) == 2)
        file.unlink()
        await until(lambda: "No such file" in caplog.text)
        write(file, {"three": entry()})
        await until(lambda: seen[1:] == [["three"]])
        source.reload()
        await until(lambda: len(seen) == 3)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    with caplog.at_level("ERROR", "mcprev.bridge"):
        run(main())
    assert len(caplog.records) == 3
    assert all(
        "is invalid and was ignored; the servers are unchanged" in record.message for record in caplog.records
    )


def test_a_file_is_read_again_at_a_signal(tmp_path: Path) -> None:
    file, seen = tmp_path / "mcp.json", list[list[str]]()
    write(file, {"one": entry()})
    source = ConfigFile(file, poll=10_000.0, hangup=True)
    source.read()

    async def main() -> None:
        watching = asyncio.ensure_future(source.watch(lambda specs: seen.append(list(specs))))
        await asyncio.sleep(0)
        write(file, {"two": entry()})
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: seen == [["two"]])
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL

    run(main())


@pytest.mark.slow
def test_the_command_joins_the_servers_of_a_file_and_reads_it_again(tmp_path: Path) -> None:
    file, app, heard = tmp_path / "mcp.json", tmp_path / "app.py", list[bytes]()
    app.write_text(APP, encoding="utf-8")
    serve = ("-m", "mcprev", "serve", str(app))
    one = entry(*serve, deny={"tools": ["secret"]})
    write(file, {"one": one, "two": entry(*serve, rename={"tools": {"echo": "say"}})})

    async def main() -> None:
        command = mcprev.stdio(
            sys.executable, "-m", "mcprev", "bridge", "--config", str(file), stderr=heard.append
        )
        async with mcprev.connect(command) as client:
            names = [tool.name async for tool in client.tools()]
            assert names == ["one__echo", "one__pid", "one__parent", "two__say", "two__pid", "two__parent"]
            assert (await client.call_tool("two__say", {"text": "hello"})).text == "hello"
            pid = (await client.call_tool("one__pid", {})).text
            write(file, {"one": {**one, "bridge": {"deny": {"tools": ["echo"]}}}, "three": entry(*serve)})
            os.kill(int((await client.call_tool("one__parent", {})).text or "0"), signal.SIGHUP)
            names = ["two__say"]
            while "two__say" in names:
                names = [tool.name async for tool in client.tools()]
            assert names == ["one__pid", "one__parent", "three__echo", "three__pid", "three__parent"]
            assert (await client.call_tool("one__pid", {})).text == pid
            os.kill(int(pid or "0"), signal.SIGKILL)
            again = pid
            while again == pid:
                with suppress(mcprev.InternalError):  # the call that finds out
                    again = (await client.call_tool("one__pid", {})).text
            assert (await client.call_tool("three__echo", {"text": "here"})).text == "here"
            with pytest.raises(mcprev.InvalidParams):
                await client.call_tool("one__echo", {"text": "hello"})

    run(main(), limit=60.0)
    assert b"was read again: one, three" in b"".join(heard)
