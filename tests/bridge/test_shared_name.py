"""Bridges of different servers do not meet in a store that both use; processes of one bridge do, whatever its file says now."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

import mcprev
from bridge.test_processes import LIMIT, MODERN, OLD, bridge
from bridge.test_several_processes import COUNT, RawSession, configured, text_of
from helpers.requirements import req
from helpers.running import run, until
from mcprev.bridge.bridge import Bridge
from mcprev.bridge.several.servers import ConfigFile
from mcprev.cli.serve import _report_stdio  # pyright: ignore[reportPrivateUsage]
from mcprev.errors import WORKER_LOST
from mcprev.protocol.request_state import RequestStateSealer

STATE: Final = "a state that the server of the other bridge has not made"
APP: Final = """
import mcprev

app = mcprev.App({name!r}, "1")
calls = 0


@app.tool
def count() -> str:
    global calls
    calls += 1
    return f"{name} {{calls}}"


@app.tool
async def ask(ctx: mcprev.Context) -> str:
    found = await ctx.elicit("who?", str)
    return found.data if isinstance(found, mcprev.Accepted) else "nobody"
"""


def server(name: str) -> mcprev.App:
    return mcprev.App(name, "1")


def file(folder: Path, name: str, *servers: str) -> ConfigFile:
    made = folder / name
    made.write_text(json.dumps({each: {"command": "true"} for each in servers}), encoding="utf-8")
    return ConfigFile(made)


@pytest.mark.parametrize(
    ("bridge_of", "name"),
    [
        (lambda: Bridge("https://mcp.example/mcp"), "mcprev-bridge"),
        (lambda: Bridge({"one": server("one")}), "mcprev-bridge"),
        (lambda: Bridge("https://mcp.example/mcp", "mine"), "mine"),
        (lambda: Bridge("https://mcp.example/mcp", "mcprev-bridge/mine"), "mcprev-bridge/mine"),
    ],
    ids=["a URL", "several", "named", "named in the same way"],
)
def test_people_read_no_digest(
    bridge_of: Callable[[], Bridge], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="mcprev.server"):
        _report_stdio(bridge_of())
    assert [record.getMessage().partition(" on stdin")[0] for record in caplog.records] == [
        f"serving '{name}'"
    ]


URL: Final = "https://mcp.example/mcp"
Targets = Callable[[Path], tuple[Any, Any]]
SAME: Final[dict[str, Targets]] = {
    "a URL": lambda _: (URL, mcprev.http(URL, headers={"Authorization": "Bearer x"})),
    "a URL with another key": lambda _: (f"{URL}?api_key=abcdefgh", f"{URL}?api_key=ijklmnop"),
    "a command": lambda _: (mcprev.stdio("a", "b"), mcprev.stdio("a", "b", env={"A": "1"})),
    "a command with another token": lambda _: (mcprev.stdio("a", "--token", "x"), mcprev.stdio("a", "--token", "y")),
    "a server of this process": lambda _: (server("a"), server("a").server),
    "a file that has changed": lambda folder: (file(folder, "a.json", "a"), file(folder, "a.json", "a", "b")),
    "several servers in another order": lambda _: ({"a": URL, "b": URL}, {"b": URL, "a": URL}),
}  # fmt: skip
DIFFERENT: Final[dict[str, Targets]] = {
    "two hosts": lambda _: (URL, "https://other.example/mcp"),
    "two tenants": lambda _: (f"{URL}?project=a", f"{URL}?project=b"),
    "two commands": lambda _: (mcprev.stdio("a", "b"), mcprev.stdio("a", "c")),
    "a command and a URL": lambda _: (mcprev.stdio("a"), URL),
    "two servers of this process": lambda _: (server("a"), server("b")),
    "two files": lambda folder: (file(folder, "a.json", "a"), file(folder, "b.json", "a")),
    "two sets of servers": lambda _: ({"a": URL}, {"a": URL, "b": URL}),
}


def name_in_store(target: Any, **options: Any) -> str:
    return str(Bridge(target, **options).identity.info["name"])


@req("SEAM-10", "HTTP-3")
@pytest.mark.parametrize("targets", SAME.values(), ids=SAME)
def test_one_server_has_one_name(targets: Targets, tmp_path: Path) -> None:
    one, other = targets(tmp_path)
    assert name_in_store(one) == name_in_store(other)


@req("SEAM-10", "SEC-4")
@pytest.mark.parametrize("targets", DIFFERENT.values(), ids=DIFFERENT)
def test_two_servers_have_two_names(targets: Targets, tmp_path: Path) -> None:
    one, other = targets(tmp_path)
    assert name_in_store(one) != name_in_store(other)
    assert name_in_store(one, name="mine") == name_in_store(other, name="mine") == "mine"


@req("SEAM-10", "SEC-4")
def test_a_command_in_another_folder_is_another_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = name_in_store(mcprev.stdio("python", "server.py"))
    monkeypatch.chdir(tmp_path)
    assert name_in_store(mcprev.stdio("python", "server.py")) != here


@req("SEAM-10", "SEC-4")
def test_nobody_sees_the_digest() -> None:
    """Clients and servers are told the name alone."""

    async def main() -> None:
        for given, shown in ((None, "mcprev-bridge"), ("mine", "mine")):
            inner = Bridge(server("x"), given)
            assert inner._own == {
                "name": shown,
                "version": mcprev.__version__,
            }  # pyright: ignore[reportPrivateUsage]

    run(main())


def command(folder: Path, name: str) -> tuple[str, ...]:
    app = folder / f"{name}.py"
    app.write_text(APP.format(name=name), encoding="utf-8")
    return "--server-revision", OLD.name, "--", sys.executable, "-m", "mcprev", "serve", str(app)


@pytest.mark.slow
@req("SEAM-10", "SEC-4", "HTTP-9", at=OLD.name)
@pytest.mark.parametrize("named", [False, True], ids=["by themselves", "under one name"])
def test_two_bridges_of_two_servers_on_one_store(named: bool, tmp_path: Path) -> None:
    """A session of one is unknown to the other; that one name joins them shows that the store is one."""
    store = f"sqlite:///{tmp_path}/bridge.db"
    name = ("--name", "one") if named else ()
    count: dict[str, Any] = {"method": "tools/call", "params": {"name": "count", "arguments": {}}}

    async def main() -> None:
        async with (
            bridge(*name, *command(tmp_path, "bank"), store=store) as bank,
            bridge(*name, *command(tmp_path, "files"), store=store) as files,
            aiohttp.ClientSession() as http,
        ):
            session = RawSession(http)
            await session.begin(bank.url)
            assert text_of(await session.post(bank.url, {"id": 1, **count})) == "bank 1"
            strayed = await session.post(files.url, {"id": 2, **count})
            if named:
                assert text_of(strayed) == "bank 2"
            else:
                assert "no session has this" in strayed["error"]["message"]
                assert text_of(await session.post(bank.url, {"id": 3, **count})) == "bank 2"

    run(main(), limit=LIMIT)


@req("SEAM-10", "SEC-4", "MRTR-4", at=MODERN.name)
def test_a_state_of_one_bridge_is_not_valid_at_another(tmp_path: Path) -> None:
    """Two servers that both ask: the answer to one never reaches the other."""
    store = mcprev.open_store(f"sqlite:///{tmp_path}/bridge.db")
    sealers: list[RequestStateSealer] = []

    async def main() -> None:
        for target in ("bank", "files", "bank"):
            made = Bridge(server(target), store=store)
            assert made._prepare is not None  # pyright: ignore[reportPrivateUsage]
            await made._prepare()  # pyright: ignore[reportPrivateUsage]
            sealers.append(made._states)  # pyright: ignore[reportPrivateUsage]
        bank, files, again = sealers
        token = bank.seal(STATE, method="tools/call", params={"name": "ask"}, principal=None, now=0.0)
        found = again.open(token, method="tools/call", params={"name": "ask"}, principal=None, now=1.0)
        assert found == STATE
        with pytest.raises(mcprev.InvalidParams):
            files.open(token, method="tools/call", params={"name": "ask"}, principal=None, now=1.0)
        await store.aclose()

    run(main())


@pytest.mark.slow
@req("SEAM-10", "TIME-1", "LIFE-16", at=OLD.name)
def test_a_process_that_starts_after_a_change_of_the_file_finds_the_sessions(tmp_path: Path) -> None:
    """It reads other servers than those that the session began with, passes on to the process that has it, and takes it over."""
    store = f"sqlite:///{tmp_path}/bridge.db"
    options = "--server-revision", OLD.name, *configured(tmp_path, "counter")

    async def main() -> None:
        async with bridge(*options, store=store) as holder, aiohttp.ClientSession() as http:
            session = RawSession(http)
            await session.begin(holder.url)
            assert text_of(await session.post(holder.url, {"id": 1, **COUNT})) == "1"
            configured(tmp_path, "counter", "more")
            await until(lambda: "was read again" in holder.said)
            async with bridge(*options, store=store) as later:
                assert text_of(await session.post(later.url, {"id": 2, **COUNT})) == "2"
                listed = (await session.post(later.url, {"id": 3, "method": "tools/list"}))["result"]["tools"]
                assert {tool["name"].partition("__")[0] for tool in listed} == {"counter", "more"}
                holder.process.kill()
                lost = await session.post(later.url, {"id": 4, **COUNT})
                assert lost["error"]["data"]["reason"] == WORKER_LOST
                assert text_of(await session.post(later.url, {"id": 5, **COUNT})) == "1"

    run(main(), limit=LIMIT)
