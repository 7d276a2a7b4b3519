"""Servers that say nothing to `server/discover`, answer it late, or hang up: no client waits ten seconds for them (NEG-4, NEG-5)."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from typing_extensions import override

import mcprev
from api.wire import HANDSHAKE, HandServer, Message, each_session
from bridge.hands import Servers
from helpers.raw_server import Exchange, Mcp, serve, text
from helpers.requirements import req
from helpers.running import run, until
from mcprev.cli import main
from mcprev.client import probing
from mcprev.client.connect_options import PROBE
from mcprev.errors import ConnectionLost, NegotiationError
from mcprev.revisions import DEFAULT, Era, HttpShape, Revision
from mcprev.transports.stdio.client import UNANSWERED

MODERN: Final = DEFAULT[-1]
DISCOVER: Final = "server/discover"
TOOLS: Final[Message] = {"tools/list": {"tools": []}}
SERVER: Final = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    with open(sys.argv[2], "a") as seen:
        print(request["method"], file=seen)
    if "id" not in request or request["method"] == "server/discover":
        continue
    results = {
        "initialize": {"protocolVersion": sys.argv[1], "capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "1"}},
        "tools/list": {"tools": [{"name": "good", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "done"}]},
    }
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": results[request["method"]]}), flush=True)
"""
"""A process with sessions that says nothing to what it does not know."""


class Silent(HandServer):
    """A server that says nothing to a probe, or nothing at all, or takes its time for a probe."""

    def __init__(self, row: Revision, *, late: float | None = None, mute: bool = False) -> None:
        super().__init__(row, TOOLS)
        self._late = late
        self._mute = mute

    @override
    def _take(self, message: Message) -> None:
        if message.get("method") == DISCOVER and self._late is not None:
            asyncio.get_running_loop().call_later(self._late, super()._take, message)
        elif message.get("method") != DISCOVER and not self._mute:
            super()._take(message)


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> Generator[None, None, None]:
    monkeypatch.setattr(probing, "SOON", 1.0)
    UNANSWERED._known.clear()  # pyright: ignore[reportPrivateUsage]
    yield
    UNANSWERED._known.clear()  # pyright: ignore[reportPrivateUsage]


def connect(servers: Servers, **options: Any) -> mcprev.connect:
    target: Any = servers
    return mcprev.connect(mcprev.memory(target), **options)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@req("NEG-4", "NEG-5", everywhere=True)
@each_session
def test_a_server_that_ignores_a_probe_is_asked_by_initialize_after_a_second(
    row: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        servers, loop = Servers(lambda: Silent(row)), asyncio.get_running_loop()
        began = loop.time()
        async with connect(servers) as client:
            assert probing.SOON <= loop.time() - began < 2 * probing.SOON
            assert client.revision == row.name
            assert [tool async for tool in client.tools()] == []
            assert any("no response within 1 s" in line for line in client.plan.evidence)
        (server,) = servers.made
        await until(lambda: server.lost)

    run(main())
    (told,) = warnings(caplog)
    assert DISCOVER in told
    assert "mode='legacy'" in told
    assert "--as" in told


ODD: Final[dict[str, list[Any]]] = {
    "refuses with a null id": [{"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "no"}}],
    "refuses without an id": [{"jsonrpc": "2.0", "error": {"code": -32600, "message": "no"}}],
    "prints first": [b"Starting ...", b"", b"\x1b[32mready\x1b[0m", b"{"],
    "prints JSON first": [b'{"level": "info", "msg": "ready"}', b"[]", b"1"],
    "tells first": [
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "up"}}
    ],
    "pings first": [{"jsonrpc": "2.0", "id": "a", "method": "ping"}],
}
"""What old servers send at a probe that they do not answer."""


@req("NEG-4", "NEG-5", "STDIO-3", everywhere=True)
@pytest.mark.parametrize("kind", ODD)
@each_session
def test_an_old_server_that_says_something_else_at_a_probe(
    row: Revision, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "SOON", 0.02)

    class Odd(HandServer):
        @override
        def _take(self, message: Message) -> None:
            if message.get("method") != DISCOVER and "method" in message:
                super()._take(message)
            elif "method" in message:
                self.send(*ODD[kind])

    async def main() -> None:
        servers = Servers(lambda: Odd(row, TOOLS))
        async with connect(servers) as client:
            assert client.revision == row.name
            assert [tool async for tool in client.tools()] == []
        assert len(servers.made) == 1

    run(main())


@req("NEG-4", "NEG-5", everywhere=True)
@each_session
def test_a_server_that_takes_nothing_after_a_probe_is_started_again(
    row: Revision, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(probing, "SOON", 0.02)
    monkeypatch.setattr(probing, "BESIDE", 0.05)

    class Stuck(HandServer):
        stuck = False

        @override
        def _take(self, message: Message) -> None:
            self.stuck = self.stuck or message.get("method") == DISCOVER
            if not self.stuck:
                super()._take(message)

    async def main() -> None:
        servers = Servers(lambda: Stuck(row, TOOLS))
        async with connect(servers) as client:
            assert client.revision == row.name
            assert [tool async for tool in client.tools()] == []
            await until(lambda: servers.made[0].lost)
        assert len(servers.made) == 2

    run(main())
    assert len(warnings(caplog)) == 1


@req("NEG-12", everywhere=True)
@each_session
def test_the_option_that_the_warning_names_spares_the_wait(
    row: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        for options in ({"mode": "legacy"}, {"mode": row.name}, {"era": Era.HANDSHAKE}):
            servers, loop = Servers(lambda: Silent(row)), asyncio.get_running_loop()
            began = loop.time()
            async with connect(servers, **options) as client:
                assert client.revision == row.name
            assert loop.time() - began < probing.SOON
            assert len(servers.made) == 1

    run(main())
    assert warnings(caplog) == []


@req("NEG-4", "NEG-5", everywhere=True)
def test_a_slow_server_keeps_its_revision(caplog: pytest.LogCaptureFixture) -> None:
    """What answers `server/discover` late refuses `initialize` if it has no sessions."""

    async def main() -> None:
        servers = Servers(lambda: Silent(MODERN, late=3))
        async with connect(servers) as client:
            assert client.revision == MODERN.name
            assert [tool async for tool in client.tools()] == []
        (server,) = servers.made
        await until(lambda: server.lost)

    caplog.set_level(logging.INFO, "mcprev.client")
    run(main())
    assert warnings(caplog) == []
    assert any(f"has not responded to '{DISCOVER}' for 1 s" in text for text in caplog.messages)


@req("NEG-5", everywhere=True)
@pytest.mark.parametrize("allowed", ["auto", MODERN.name])
def test_a_server_that_answers_nothing_is_an_error_and_it_is_told_what_is_waited_for(
    allowed: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        servers, loop = Servers(lambda: Silent(MODERN, mute=True)), asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(NegotiationError, match="no response within"):
            await connect(servers, mode=allowed, open_timeout=5)
        assert loop.time() - began < PROBE + 7
        await until(lambda: all(server.lost for server in servers.made))
        assert len(servers.made) == 1

    caplog.set_level(logging.INFO, "mcprev.client")
    run(main(), limit=60)
    assert any(f"has not responded to '{DISCOVER}' for 1 s" in text for text in caplog.messages)


@req("NEG-5", everywhere=True)
@pytest.mark.parametrize("count", [1, 2])
def test_a_client_that_gives_up_meanwhile_leaves_no_connection(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "SOON", 0.02)
    monkeypatch.setattr(probing, "BESIDE", 0.05)

    async def main() -> None:
        servers = Servers(lambda: Silent(MODERN, mute=True))
        opening = asyncio.ensure_future(_opened(connect(servers)))
        await until(lambda: len(servers.made) == count)
        opening.cancel()
        await asyncio.wait({opening})
        await until(lambda: all(server.lost for server in servers.made))

    run(main())


async def _opened(connecting: mcprev.connect) -> mcprev.Client:
    return await connecting


# -- processes, and the command ----------------------------------------------------------------------------


def asked(seen: Path) -> list[str]:
    found, _ = seen.read_text().split(), seen.write_text("")
    return found


@req("NEG-4", "NEG-7", everywhere=True)
def test_what_a_command_line_said_is_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(probing, "SOON", 0.1)
    seen = tmp_path / "seen"

    def command(*more: str, **options: Any) -> mcprev.stdio:
        return mcprev.stdio(sys.executable, "-c", SERVER, HANDSHAKE[0].version, str(seen), *more, **options)

    async def main() -> None:
        for target in (command(), command("other"), command(env={"OTHER": "1"})):
            async with mcprev.connect(target) as client:
                assert client.revision == HANDSHAKE[0].name
            assert asked(seen).count("initialize") == 1
        for target in (command(), command("other"), command(env={"OTHER": "1"})):
            async with mcprev.connect(target) as client:
                assert [tool.name async for tool in client.tools()] == ["good"]
                assert "known from before" in client.plan.evidence[0]
            assert DISCOVER not in asked(seen)

    run(main())


@pytest.mark.slow
@req("NEG-4", "NEG-7", everywhere=True)
def test_the_command_remembers_it_for_a_day(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(probing, "SOON", 0.1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    seen, now = tmp_path / "seen", 1e9
    monkeypatch.setattr("mcprev.cli.known_names.time.time", lambda: now)
    line = ("call", "good", "--", sys.executable, "-c", SERVER, HANDSHAKE[-1].version, str(seen))

    def call() -> tuple[str, list[str]]:
        UNANSWERED._known.clear()  # pyright: ignore[reportPrivateUsage] - another process
        done = CliRunner().invoke(main, line, catch_exceptions=False, prog_name="mcprev")
        assert (done.exit_code, done.stdout) == (0, "done\n"), done.stderr
        return done.stderr, asked(seen)

    told, sent = call()
    assert "Warning: " in told
    assert f"responds to 'initialize', and not to '{DISCOVER}' within 0.1 s" in told
    assert "--as" in told
    assert DISCOVER in sent
    told, sent = call()
    assert (told, DISCOVER in sent) == ("", False)
    now += 24 * 3600 + 1
    assert DISCOVER in call()[1]
    (kept,) = (tmp_path / "cache").rglob("*.json")
    for broken in (
        "{",
        '{"era": 1}',
        '{"era": {"name": "handshake", "until": "x"}}',
        '{"era": {"name": 1, "until": 1e9}}',
    ):
        kept.write_text(broken)
        assert DISCOVER in call()[1], broken
    assert json.loads(kept.read_text())["era"]["name"] == Era.HANDSHAKE


# -- HTTP --------------------------------------------------------------------------------------------------


STREAMABLE: Final = [row for row in HANDSHAKE if row.http is HttpShape.STREAMABLE]


@req("NEG-4", "NEG-6", everywhere=True)
@pytest.mark.parametrize("kind", ["cuts", "hangs", "ends an empty stream", "cuts a stream"])
@pytest.mark.parametrize("row", STREAMABLE, ids=lambda row: row.name)
def test_an_http_server_that_does_not_answer_a_probe_is_asked_by_initialize(row: Revision, kind: str) -> None:
    async def main() -> None:
        server = Mcp(row, {"tools/call": text("hi")})

        async def answer(exchange: Exchange) -> None:
            if exchange.method != DISCOVER:
                await server(exchange)
            elif kind == "hangs":
                await exchange.gone.wait()
            else:
                if "stream" in kind:
                    await exchange.stream()
                if "cuts" in kind:
                    exchange.cut()
                else:
                    await exchange.end()

        async with serve(answer) as raw, mcprev.connect(mcprev.http(raw.url)) as client:
            assert client.revision == row.name
            assert (await client.call_tool("t")).content
            assert len(raw.asked(method="initialize")) == 1

    run(main(), has_both_ends=True)


@req("NEG-4", "NEG-6", everywhere=True)
def test_an_http_server_without_sessions_that_cuts_connections_is_asked_by_nothing_else() -> None:
    """Where only a probe is possible, and where the era is known, it is the connection that is lost."""

    async def main() -> None:
        server, cuts = Mcp(MODERN, {"tools/call": text("hi")}), True

        async def answer(exchange: Exchange) -> None:
            if cuts:
                exchange.cut()
            else:
                await server(exchange)

        async with serve(answer) as raw:
            with pytest.raises(ConnectionLost):
                await mcprev.connect(mcprev.http(raw.url), mode=MODERN.name)
            with pytest.raises(ConnectionLost):
                await mcprev.connect(mcprev.http(raw.url), era=Era.STATELESS)
            assert {seen.method for seen in raw.seen} == {DISCOVER}
            with pytest.raises(ConnectionLost):
                await mcprev.connect(mcprev.http(raw.url))
            assert raw.asked(method="initialize")
            cuts = False
            async with mcprev.connect(mcprev.http(raw.url)) as client:
                assert client.revision == MODERN.name

    run(main(), has_both_ends=True)
