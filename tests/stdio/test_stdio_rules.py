"""STDIO-1, 2, 3, 6, 8, 10, 11 at each revision: what goes over the pipes, byte for byte, and over other streams."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
import logging
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mcprev
from engine.fakes import initialize, modern, notification, request
from fuzz.fuzzing import each_once
from helpers.named import SOME_ROWS
from helpers.requirements import req
from helpers.running import run, until
from mcprev.core.connection import Connection
from mcprev.core.interfaces import RequestHandler
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.revisions import Revision
from mcprev.transports.lines import LineConnection
from mcprev_types.latest import models as m
from stdio.echo_server import Echo

HERE = Path(__file__).parent
ECHO = [sys.executable, "-W", "error", str(HERE / "echo_server.py")]


def shell(script: str) -> mcprev.stdio:
    """The echo server, started by a line of shell in which `$ECHO` stands for it."""
    return mcprev.stdio("sh", "-c", script.replace("$ECHO", shlex.join(ECHO)))


def opening(row: Revision) -> list[dict[str, Any]]:
    return (
        [initialize(row), notification("notifications/initialized")]
        if row.handshake
        else [modern("server/discover")]
    )


def call(row: Revision, name: str, id_: int, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return request("tools/call", params, id_) if row.handshake else modern("tools/call", params, id_)


def lines(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def said(result: m.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, m.TextContent)
    return block.text


@pytest.mark.slow
@req("STDIO-3", "STDIO-1")
@pytest.mark.parametrize("row", SOME_ROWS, ids=lambda row: row.name)
def test_a_server_reads_nothing_but_messages(row: Revision, tmp_path: Path) -> None:
    """Whatever is called, given up and shut down, its stdin holds one message of JSON-RPC a line."""
    kept = tmp_path / "stdin"

    async def main() -> None:
        async with mcprev.connect(shell(f"tee {shlex.quote(str(kept))} | $ECHO"), mode=row.name) as client:
            await client.call_tool("echo", {"text": "a\nb\r\n\u2028é"})
            waiting = asyncio.create_task(client.call_tool("wait"))
            await client.call_tool("echo")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await client.ping()

    run(main())
    data = kept.read_bytes()
    assert data.endswith(b"\n")
    messages = [json.loads(line.decode("utf-8")) for line in data[:-1].split(b"\n")]
    assert all(message["jsonrpc"] == "2.0" for message in messages)
    methods = [message["method"] for message in messages]
    assert methods[0] == ("initialize" if row.handshake else "server/discover")
    assert "notifications/cancelled" in methods


@pytest.mark.slow
@req("STDIO-3")
@pytest.mark.parametrize("row", SOME_ROWS, ids=lambda row: row.name)
def test_noise_of_a_server_is_skipped(row: Revision) -> None:
    async def main() -> None:
        noise = r"printf 'starting...\n\n{]\n7\n[]\n\000\377\n{\"level\":\"info\"}\n'; exec $ECHO"
        async with mcprev.connect(shell(noise), mode=row.name) as client:
            assert said(await client.call_tool("echo", {"text": "still there"})) == "still there"

    run(main())


@pytest.mark.slow
@req("STDIO-2", "STDIO-6")
@pytest.mark.parametrize("row", SOME_ROWS, ids=lambda row: row.name)
def test_stdout_holds_messages_only_and_the_end_of_stdin_ends_the_server(row: Revision) -> None:
    """The handler prints, writes to the descriptor and starts a child that does; everything asked is answered."""
    asked = [*opening(row), call(row, "print", 7), call(row, "echo", 8, text="é\u2028\n")]
    done = subprocess.run(ECHO, input=lines(*asked), capture_output=True, check=False, timeout=20)
    assert done.returncode == 0
    assert done.stdout.endswith(b"\n")
    found = [json.loads(line.decode("utf-8")) for line in done.stdout[:-1].split(b"\n")]
    assert [message["jsonrpc"] for message in found] == ["2.0"] * 3
    answers = {message["id"]: message for message in found}
    assert answers[8]["result"]["content"][0]["text"] == "é\u2028\n"
    for noise in (b"noise on stdout", b"raw noise", b"child noise"):
        assert noise in done.stderr


@pytest.mark.slow
@req("STDIO-6")
@pytest.mark.parametrize("row", SOME_ROWS, ids=lambda row: row.name)
def test_a_server_that_is_busy_ends_with_its_stdin(row: Revision) -> None:
    asked = lines(*opening(row), call(row, "wait", 7))
    done = subprocess.run(ECHO, input=asked, capture_output=True, check=False, timeout=20)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.slow
@req("STDIO-8", "CANC-2", "CANC-7")
@pytest.mark.parametrize("row", SOME_ROWS, ids=lambda row: row.name)
def test_a_cancelled_call_is_a_notification_and_nothing_follows(row: Revision) -> None:
    process = subprocess.Popen(ECHO, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    cancelled = notification("notifications/cancelled", {"requestId": 7})
    out, _ = process.communicate(
        lines(*opening(row), call(row, "wait", 7), cancelled, call(row, "echo", 8, text="x")), timeout=20
    )
    assert process.returncode == 0
    found = [json.loads(line) for line in out.splitlines()]
    assert [message["id"] for message in found[1:]] == [8]


@req("STDIO-10", everywhere=True)
def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    """Arguments arrive as they are, the child works where it is told to, and its environment is what was given."""
    odd = ["a b", "$HOME", "$(touch made)", "; exit 3", "*", "é", "", "'\""]
    script = "import json, os, sys; sys.stderr.write(json.dumps([sys.argv[1:], os.getcwd(), os.environ.get('MINE')]))"

    async def main() -> list[Any]:
        errors = bytearray()
        target = mcprev.stdio(
            sys.executable, "-c", script, *odd, cwd=tmp_path, env={"MINE": "é"}, stderr=errors.extend
        )
        with pytest.raises(mcprev.NegotiationError):
            await mcprev.connect(target)
        # It was started once for the probe and once for a session.
        found: list[Any] = json.JSONDecoder().raw_decode(errors.decode())[0]
        return found

    arguments, folder, mine = run(main())
    assert arguments == odd
    assert folder == str(tmp_path)
    assert mine == "é"
    assert list(tmp_path.iterdir()) == []


# -- other streams of bytes -------------------------------------------------------------------------------


class Socket:
    """A server behind a socket, as somebody else's transport would have it."""

    def __init__(self, where: str | tuple[str, int]) -> None:
        self._where = where
        self._connection: LineConnection | None = None

    async def open(self, side: ClientProtocol, desk: RequestHandler[Connection], /) -> Connection:
        loop, made = asyncio.get_running_loop(), LineConnection(
            side, desk, logging.getLogger("mcprev.test"), linger=0
        )
        if isinstance(self._where, str):
            await loop.create_unix_connection(lambda: made, self._where)
        else:
            await loop.create_connection(lambda: made, *self._where)
        self._connection = made
        return made

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.aclose()


@pytest.mark.slow
@req("STDIO-11", "LIFE-16")
@pytest.mark.parametrize("kind", ["unix", "tcp"])
@each_once
def test_any_stream_of_bytes_will_do(row: Revision, kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        server, loop = mcprev.Server(Echo(), "echo", "1"), asyncio.get_running_loop()
        if kind == "unix":
            path = str(tmp_path / "s")
            listener: Any = await loop.create_unix_server(server.connection, path)
            where: str | tuple[str, int] = path
        else:
            listener = await loop.create_server(server.connection, "127.0.0.1", 0)
            where = listener.sockets[0].getsockname()
        async with listener:
            big = "é\u2028" * 50_000
            async with (
                mcprev.connect(Socket(where), mode=row.name) as one,
                mcprev.connect(Socket(where), mode=row.name) as other,
            ):
                texts = await asyncio.gather(*(one.call_tool("echo", {"text": big}) for _ in range(3)))
                assert [said(result) for result in texts] == [big] * 3
                assert said(await other.call_tool("echo", {"text": "x"})) == "x"
            await until(lambda: not server._connections)

    run(main())


NOISY = """
import atexit, os, subprocess, sys
import mcprev

def noise(when):
    print(f"{when}: printed")
    sys.stdout.write(f"{when}: written\\n")
    os.write(1, f"{when}: raw\\n".encode())
    subprocess.run([sys.executable, "-c", f"print('{when}: of a child'); print(len(input.__self__.open(0).read()))"])

noise("import")
atexit.register(noise, "exit")
server = mcprev.App("noisy", "1")

@server.tool
def call() -> str:
    noise("call")
    return "done"
"""


@req("STDIO-2", at=SOME_ROWS[0].name)
def test_nothing_that_a_served_module_prints_is_on_stdout(tmp_path: Path) -> None:
    """Not while it is imported, not by its children, not at its exit; and its children read none of the client's messages."""
    (tmp_path / "noisy.py").write_text(NOISY)
    row = SOME_ROWS[0]
    done = subprocess.run(
        [sys.executable, "-m", "mcprev", "serve", "noisy.py"],
        input=lines(*opening(row), call(row, "call", 7)),
        capture_output=True,
        cwd=tmp_path,
        check=True,
    )
    responses = [json.loads(line) for line in done.stdout.splitlines()]
    assert [response["id"] for response in responses][-1:] == [7]
    printed = done.stderr.decode().splitlines()
    for when in ("import", "call", "exit"):
        for how in ("printed", "written", "raw", "of a child"):
            assert f"{when}: {how}" in printed, (when, how)
    assert printed.count("0") == 3
