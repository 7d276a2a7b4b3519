"""The server on uvicorn, mounted in other apps, and from the command line (HTTP-3, HTTP-27)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import gc
import importlib.util
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner

import mcprev
from helpers.asgi_bridge import PREFIX, STREAM, TYPES, Client, initialize, notification, request
from helpers.http_in_process import InProcess
from helpers.requirements import B, C, D, E, req
from helpers.running import run, until
from helpers.served import QUICK, Served, listening, server_of, work
from mcprev.cli import main
from mcprev.revisions import Revision, revision_named
from mcprev.serving import running as http_server
from mcprev.transports.http.server.asgi import AsgiApp

Make = Callable[..., AsgiApp]
LATER = [revision_named(name) for name in (B, C, D, E)]
SERVER = Path(__file__).parent.parent / "stdio" / "echo_server.py"


def stamped(row: Revision, name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """A call of a tool and its headers, in the way of a revision."""
    params: dict[str, Any] = {"name": name, "arguments": {}}
    headers = dict(TYPES)
    if not row.handshake:
        params["_meta"] = {
            PREFIX + "protocolVersion": row.version,
            PREFIX + "clientCapabilities": {},
            PREFIX + "logLevel": "debug",
        }
        headers |= {"mcp-protocol-version": row.version, "mcp-method": "tools/call", "mcp-name": name}
    return request("tools/call", params), headers


@req("HTTP-1", "HTTP-7", "HTTP-8", "HTTP-24", "HTTPM-4", "HTTPM-5")
@pytest.mark.parametrize("row", LATER, ids=[row.name for row in LATER])
def test_a_real_server_answers_streams_and_ends(row: Revision) -> None:
    async def test() -> None:
        handler = Served()
        async with (
            listening(mcprev.Server(handler, "served", "1")) as base,
            aiohttp.ClientSession() as http,
        ):
            url = base + "/mcp"
            session: dict[str, str] = {}
            if row.handshake:
                async with http.post(url, json=initialize(row), headers=TYPES) as opened:
                    session["mcp-session-id"] = opened.headers["mcp-session-id"]
                await http.post(url, json=notification("notifications/initialized"), headers=TYPES | session)
            body, headers = stamped(row, "echo")
            async with http.post(url, json=body, headers=headers | session) as answer:
                assert (answer.status, answer.content_type) == (200, "application/json")
                assert (await answer.json())["result"]["content"][0]["text"] == "{}"
            body, headers = stamped(row, "hold")
            async with http.post(url, json=body, headers=headers | session) as answer:
                assert answer.content_type == "text/event-stream"
                while b"notifications/message" not in await answer.content.readuntil(b"\n\n"):
                    pass
                handler.gate.set()
                assert b'"result"' in await answer.content.read()
            if row.handshake:
                listens = await http.get(url, headers=STREAM | session)
                async with http.delete(url, headers=session) as ended:
                    assert ended.status == 204
                assert b"data: {" not in await listens.content.read()
            async with http.post(url, data=b"x" * 10, headers=TYPES) as bad:
                assert bad.status == 400

    run(test())


@req("HTTPM-6", "HTTPM-5", at=E)
def test_a_client_that_hangs_up_on_a_real_server_cancels_its_request() -> None:
    async def test() -> None:
        handler = Served()
        async with (
            listening(mcprev.Server(handler, "served", "1"), defer=QUICK) as base,
            aiohttp.ClientSession() as http,
        ):
            body, headers = stamped(revision_named(E), "wait")
            with pytest.raises(TimeoutError):
                await http.post(
                    base + "/mcp",
                    json=body,
                    headers={**headers, "accept": "application/json"},
                    timeout=aiohttp.ClientTimeout(total=5 * QUICK),
                )
            await asyncio.wait_for(handler.stopped.wait(), 5)

    run(test())


@req("LIFE-16", "HTTP-8")
@pytest.mark.parametrize("row", [revision_named(name) for name in (B, C, D)], ids=[B, C, D])
def test_a_real_server_stops_although_streams_are_open(row: Revision) -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        async with aiohttp.ClientSession() as http:
            async with listening(mcprev.Server(Served(), "served", "1"), sse=True) as base:
                async with http.post(base + "/mcp", json=initialize(row), headers=TYPES) as opened:
                    session = {"mcp-session-id": opened.headers["mcp-session-id"]}
                streams = [
                    await http.get(base + "/mcp", headers=STREAM | session),
                    await http.get(base + "/sse", headers=STREAM),
                ]
                began = loop.time()
            assert loop.time() - began < 5
            for stream in streams:
                await stream.content.read()  # to a proper end

    run(test())


@req("HTTP-3", everywhere=True)
def test_a_port_that_is_taken_is_an_error_that_says_so() -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
            await mcprev.Server(Served(), "served", "1").serve_http(port=taken.getsockname()[1])

    run(test())


@req("HTTP-3", everywhere=True)
def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_spec(name: str) -> None:
        assert name == "uvicorn"

    monkeypatch.setattr(http_server, "find_spec", find_spec)
    with pytest.raises(ImportError, match=r"uvicorn; install mcprev\[http\]"):
        mcprev.Server(Served(), "served", "1").run_http()


@req("HTTP-1", "LIFE-16", everywhere=True)
@pytest.mark.skipif(importlib.util.find_spec("starlette") is None, reason="starlette is not installed")
@pytest.mark.parametrize("place", ["/outer", "/mcp", ""])
def test_it_works_mounted_in_starlette(place: str) -> None:
    async def test(handler: Served, make: Make) -> None:
        from starlette.applications import Starlette
        from starlette.routing import Mount

        app = Starlette(routes=[Mount(place, app=make(sse=True))])
        for path in (f"{place}/mcp", f"{place}/"):
            if path == "/":
                continue
            client = await Client(app, path).open(revision_named(D))
            assert (await client.call("log").done()).answers[0]["result"]
        stream = await client.send("GET", path=f"{place}/sse").begun()
        await until(lambda: len(stream.events) == 1)
        assert stream.events[0].data.decode().startswith(f"{place}/messages?")
        stream.disconnect()
        await stream.done()

    work(test)


@req("HTTP-1", "HTTP-31", everywhere=True)
@pytest.mark.skipif(importlib.util.find_spec("starlette") is None, reason="starlette is not installed")
def test_the_slash_of_a_mount_is_learnt_once() -> None:
    async def test() -> None:
        from starlette.applications import Starlette
        from starlette.routing import Mount

        paths: list[str] = []
        outer = Starlette(routes=[Mount("/mcp", app=mcprev.Server(Served(), "s", "1").asgi())])

        async def app(scope: Any, receive: Any, send: Any) -> None:
            paths.append(scope["path"])
            await outer(scope, receive, send)

        connector = InProcess(app)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            mcprev.connect(mcprev.http(connector.origin + "/mcp", session=session)) as client,
        ):
            for _ in range(3):
                await client.call_tool("echo", {})
        assert (paths[0], set(paths[1:])) == ("/mcp", {"/mcp/"})

    run(test())


@req("HTTP-1", everywhere=True)
@pytest.mark.skipif(importlib.util.find_spec("fastapi") is None, reason="fastapi is not installed")
def test_it_works_mounted_in_fastapi() -> None:
    async def test(handler: Served, make: Make) -> None:
        from fastapi import FastAPI

        app = FastAPI()
        app.mount("/outer", make())
        for row in LATER:
            client = await Client(app, "/outer/").open(row)
            assert (await client.call("echo").done()).text == "{}"

    work(test)


# -- the command -----------------------------------------------------------------------------------------


@req("HTTP-3", "LIFE-16", everywhere=True)
def test_the_command_serves_over_http_until_it_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import mcprev\n"
        "class Mine(mcprev.ServerHandler):\n    pass\n"
        "class box:\n    server = mcprev.Server(Mine(), 'mine', '1')\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-c", "from mcprev.cli import main; main()", "serve", "mine:box.server"]
    process = subprocess.Popen(
        [*command, "--http", str(port), "--path", "/here"], cwd=tmp_path, stderr=subprocess.PIPE
    )
    try:

        async def ask() -> None:
            async with aiohttp.ClientSession() as http:
                while True:
                    try:
                        async with http.post(
                            f"http://127.0.0.1:{port}/here", json=initialize(revision_named(D)), headers=TYPES
                        ) as answer:
                            assert (await answer.json())["result"]["serverInfo"]["name"] == "mine"
                            return
                    except aiohttp.ClientConnectorError:
                        assert process.poll() is None
                        await asyncio.sleep(0.05)

        run(ask())
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
        assert b"Traceback" not in errors
    finally:
        process.kill()
        process.communicate()


@req("STDIO-6", everywhere=True)
def test_the_command_serves_on_stdio_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import mcprev\nserver = mcprev.Server(mcprev.ServerHandler(), 'mine', '1')\n"
    )
    command = [sys.executable, "-c", "from mcprev.cli import main; main()", "serve", "mine.py:server"]
    done = subprocess.run(
        command,
        check=False,
        cwd=tmp_path,
        input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        capture_output=True,
        timeout=20,
    )
    assert done.stdout == b'{"jsonrpc":"2.0","id":1,"result":{}}\n', done.stderr


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing"], "there is no module 'nothing'"),
        (["nothing:"], "is not MODULE:SERVER"),
        (["no.such.module:x"], "there is no module"),
        (["no_such.py:x"], "there is no file"),
        (["mcprev:nothing"], "there is no 'nothing'"),
        (["mcprev:__version__"], "not a mcprev.Server or mcprev.App but a str"),
        (["x:y", "--stdio", "--http", "1"], "not both"),
        (["mcprev.server:SERVER", "--path", "/x"], "require --http"),
        ([f"{SERVER}:x"], "there is no 'x'"),
    ],
)
def test_the_command_says_what_is_wrong(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(main, ["serve", *arguments])
    assert result.exit_code != 0
    assert says in result.output


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9000", ("127.0.0.1", 9000)),
        ("10.0.0.1:9000", ("10.0.0.1", 9000)),
        ("example", ("example", 8000)),
        ("[::1]:9000", ("::1", 9000)),
        ("[::1]", ("::1", 8000)),
        (":9000", ("127.0.0.1", 9000)),
    ],
)
def test_an_address_may_leave_out_either_half(text: str, expected: tuple[str, int]) -> None:
    from mcprev.cli.serve import address

    assert address(text) == expected


def open_descriptors() -> int:
    """How many descriptors this process has open; zero where that cannot be seen."""
    listed = Path("/proc/self/fd")
    return len(list(listed.iterdir())) if listed.is_dir() else 0


# -- leaks -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@req("HTTP-27", "SEC-6")
@pytest.mark.parametrize("row", [revision_named(name) for name in (B, C, D)], ids=[B, C, D])
def test_sessions_that_are_opened_and_left_leave_nothing_behind(row: Revision) -> None:
    async def test(handler: Served, make: Make) -> None:
        now = [0.0]
        app = make(clock=lambda: now[0], idle=100.0, defer=QUICK)
        server = server_of(app)

        async def leave(count: int) -> None:
            for number in range(count):
                client = await Client(app).open(row)
                if number % 4 == 0:
                    await client.call("log").done()
                if number % 40 == 0:
                    stream = await client.send("GET").begun()
                    stream.disconnect()
                    await stream.done()
            assert len(app.dispatcher.sessions) == count
            now[0] += 1000
            app.dispatcher.sessions.expire()
            await until(lambda: len(server._connections) == 1)
            assert len(app.dispatcher.sessions) == 0
            events = app.settings.events
            assert events is not None
            assert getattr(events, "size") == 0  # noqa: B009 - of the store in memory
            gc.collect()

        descriptors = open_descriptors()
        await leave(100)
        tasks, objects = len(asyncio.all_tasks()), len(gc.get_objects())
        await leave(2000)
        assert len(gc.get_objects()) - objects < 500
        assert len(asyncio.all_tasks()) == tasks
        assert open_descriptors() == descriptors

    work(test, run=asyncio.run)  # the debug mode of the loop keeps a trace of every task
