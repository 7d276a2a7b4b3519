"""Where a server listens: Unix sockets, both families of addresses, and sockets that a service manager has opened (HTTP-3)."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner

import mcprev
from helpers.requirements import req
from helpers.running import run, until
from mcprev.cli import main as command
from mcprev.serving.sockets import bind, described

XFF = "X-Forwarded-For"


def an_app() -> mcprev.App:
    app = mcprev.App("a", "1")
    app.health()

    @app.tool
    def hi() -> str:
        return "hi"

    return app


async def asked(connector: aiohttp.BaseConnector, url: str = "http://localhost/ready") -> int:
    async with (
        aiohttp.ClientSession(connector=connector) as http,
        http.get(url, headers={XFF: "1.1.1.1"}) as answer,
    ):
        return answer.status


@req("HTTP-3", everywhere=True)
def test_a_unix_socket_is_served_and_taken_again_when_nobody_listens_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "shop.sock"

    async def main() -> None:
        for _ in range(2):  # the file of the first one is left over
            ports: list[int] = []
            app = an_app()
            serving = asyncio.create_task(
                app.server.serve_http(host=f"unix:{path}", ready=ports.append, proxies=["unix"])
            )
            await until(lambda: bool(ports) or serving.done())  # noqa: B023
            assert ports == [0]
            assert await asked(aiohttp.UnixConnector(str(path))) == 200
            with pytest.raises(OSError, match=r"cannot listen at unix:.*Address already in use"):
                bind(f"unix:{path}", 0)
            serving.cancel()
            await asyncio.wait({serving})
            await app.server.aclose()

    with caplog.at_level(logging.DEBUG):
        run(main())
    said = [record.getMessage() for record in caplog.records]
    assert sum(text.startswith(f"listening at unix:{path} /mcp; revisions: ") for text in said) == 2
    assert not any("without authentication" in text for text in said)
    assert sum(text.startswith('1.1.1.1 "GET /ready"') for text in said) == 2


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize("kind", ["nothing", "a file", "a folder that is missing"])
def test_what_cannot_be_a_unix_socket_is_named_and_left_alone(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("kept")
    path = {"nothing": "", "a file": tmp_path / "file", "a folder that is missing": tmp_path / "no" / "x"}[
        kind
    ]
    with pytest.raises(OSError, match="unix:"):
        bind(f"unix:{path}", 0)
    assert (tmp_path / "file").read_text() == "kept"


def has_ipv6() -> bool:
    try:
        bind("::1", 0).close()
    except OSError:
        return False
    return socket.has_dualstack_ipv6()


@req("HTTP-3", "SEC-3", everywhere=True)
@pytest.mark.skipif(not has_ipv6(), reason="there is no IPv6 here")
def test_all_addresses_are_those_of_both_families(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        ports: list[int] = []
        app = an_app()
        serving = asyncio.create_task(app.server.serve_http(host="::", port=0, ready=ports.append))
        await until(lambda: bool(ports) or serving.done())
        for host in ("127.0.0.1", "[::1]"):
            assert await asked(aiohttp.TCPConnector(), f"http://{host}:{ports[0]}/ready") == 200
        serving.cancel()
        await asyncio.wait({serving})
        await app.server.aclose()

    with caplog.at_level(logging.DEBUG):
        run(main())
    said = [record.getMessage() for record in caplog.records]
    assert any("/mcp (IPv6 and IPv4); revisions: " in text for text in said)
    assert sorted(text.partition(":")[0] for text in said if '"GET /ready"' in text) == ["", "127.0.0.1"]
    with bind("::1", 0) as listening:
        assert described(listening)[2] == ""


GIVEN = """
import json, os, socket, sys
from mcprev.serving.sockets import inherited

def tried(given, **variables):
    os.dup2(given.fileno(), 3)
    os.environ.update({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "x", **variables})
    try:
        found = inherited()
        left = [name for name in os.environ if name.startswith("LISTEN_")]
        return None if found is None else [found.getsockname()[1], os.get_inheritable(3), left, found.detach()]
    except OSError as error:
        return str(error)

listening, datagrams, connected = socket.create_server(("127.0.0.1", 0)), socket.socket(type=socket.SOCK_DGRAM), socket.socketpair()[0]
print(json.dumps([
    listening.getsockname()[1], tried(listening), tried(listening, LISTEN_PID="1"), tried(listening, LISTEN_FDS="2"),
    tried(datagrams), tried(connected),
]))
"""


@req("HTTP-3", everywhere=True)
@pytest.mark.skipif(sys.platform == "win32", reason="there is no service manager like that")
def test_the_socket_of_a_service_manager_is_taken_if_it_can_be_served() -> None:
    """For this process alone; what it starts gets neither the socket nor the variables."""
    done = subprocess.run([sys.executable, "-c", GIVEN], capture_output=True, check=True, text=True)
    port, taken, others, two, *unfit = json.loads(done.stdout)
    assert (taken, others) == ([port, False, [], 3], None)
    assert two.startswith("LISTEN_FDS is 2: a server has one socket")
    assert all(text.startswith("the socket of LISTEN_FDS does not listen") for text in unfit)
    assert len(unfit) == 2


ACTIVATED = """
import os, socket, sys
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
os.dup2(listening.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.executable, [sys.executable, "-m", "mcprev", *sys.argv[1:]])
"""


@pytest.mark.slow
@req("HTTP-3", everywhere=True)
@pytest.mark.skipif(sys.platform == "win32", reason="there is no service manager like that")
def test_the_command_serves_the_socket_of_a_service_manager_and_the_call_that_waits_there(
    tmp_path: Path,
) -> None:
    """As with socket activation: the client has connected before the server starts."""
    (tmp_path / "app.py").write_text(
        "import mcprev\napp = mcprev.App('a', '1')\n@app.tool\ndef hi() -> str:\n    return 'hi'\n"
    )
    words = [
        "serve",
        "app.py",
        "--http",
        "127.0.0.1:1",
        "--workers",
        "1",
        "--store",
        f"sqlite:///{tmp_path}/store",
    ]

    async def main() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ACTIVATED, *words, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        async with mcprev.connect(f"http://127.0.0.1:{port}/mcp") as client:
            assert (await client.call_tool("hi")).text == "hi"
        process.terminate()
        assert await process.wait() == 0

    run(main(), limit=60)


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize(
    "words",
    [
        ["call", "server.py", "hi"],
        ["inspect", "server.py"],
        ["read", "server.py", "x://y"],
        ["bridge", "server.py"],
    ],
    ids=lambda words: words[0],
)
def test_a_recording_in_a_folder_that_is_missing_is_an_error_of_the_command_line(
    words: list[str], tmp_path: Path
) -> None:
    done = CliRunner().invoke(
        command, [*words, "--record", str(tmp_path / "no" / "x.jsonl")], prog_name="mcprev"
    )
    assert done.exit_code == 2
    assert "'--record': there is no folder" in done.stderr
    assert str(tmp_path / "no") in done.stderr
