"""Large messages: a text of 1 and of 3 MB, base64 content of 10 MB, and beside them a small text.

Each call echoes what it sends, so that it is an argument and a result. The text has an escape in every ten characters.
Servers are measured over pipes, over HTTP in a session with JSON responses, and without a session, by a raw client
(bytes over pipes or one socket, no runtime of ours); clients call the floor server. The floor is the JSON parser and writer
that mcprev and the official SDK use, in a bare loop. Peers take turns; each figure is the median of the runs, with
minimum and maximum, and responses are checked. `--peer PYTHON` is an interpreter with the official SDK 2, `--fastmcp PYTHON`
one with FastMCP 4. Only ratios within one run travel to another machine.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import large_programs as programs
from http_load import open_session, request
from over_http import STATELESS, running
from over_stdio import OPENING
from report import Peer, byte_code, cpu_seconds, progress, release, show
from stdio_servers import REVISION

Exchange = Callable[[bytes], bytes]
"""Sends a message and returns the answer to it."""
MEGABYTE: Final = 1_000_000
SECONDS: Final = 0.6
"""How much CPU time a figure is made of: the kernel counts it in hundredths of a second."""


@dataclass(frozen=True)
class Load:
    """What is sent with each call."""

    name: str
    tool: str
    arguments: dict[str, str]

    @property
    def text(self) -> str:
        """The text that is echoed."""
        return self.arguments.get("data", self.arguments.get("text", ""))


def loads(*, quick: bool) -> list[Load]:
    """The texts and the base64 contents."""
    lines, data = "a line of\n" * (MEGABYTE // 10), "iVBORw0K" * (10 * MEGABYTE // 8)
    texts = [Load("small", "echo", {"text": "hello"}), Load("text 1 MB", "echo", {"text": lines})]
    if quick:
        return texts
    kinds = ("image", "audio", "blob")
    return [
        *texts,
        Load("text 3 MB", "echo", {"text": lines * 3}),
        *(Load(f"{kind} 10 MB", "show", {"kind": kind, "data": data}) for kind in kinds),
    ]


@contextmanager
def over_stdio(peer: Peer) -> Generator[tuple[Exchange, int, dict[str, Any]], None, None]:
    """A server on pipes: how to call it, its process id and the `_meta` of its calls."""
    process = subprocess.Popen([*peer.command, "stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def exchange(message: bytes) -> bytes:
        stdin.write(message + b"\n")
        stdin.flush()
        return stdout.readline()

    exchange(json.dumps(OPENING[0]).encode())
    stdin.write(json.dumps(OPENING[1]).encode() + b"\n")
    try:
        yield exchange, process.pid, {}
    finally:
        stdin.close()
        process.wait(10)


@contextmanager
def over_http(peer: Peer, form: str) -> Generator[tuple[Exchange, int, dict[str, Any]], None, None]:
    """The same of a server on HTTP: `form` is `session` or `stateless`."""
    row = REVISION if form == "session" else STATELESS
    with running(peer.command, form) as (port, pid), socket.create_connection(("127.0.0.1", port)) as wire:
        meta: dict[str, Any] = {}
        if form == "session":
            headers = open_session(port, row)
        else:
            headers = {"MCP-Protocol-Version": row.version, "Mcp-Method": "tools/call"}
            client = {"name": "b", "version": "1"}
            said = {"protocolVersion": row.version, "clientCapabilities": {}, "clientInfo": client}
            meta = {"_meta": {f"io.modelcontextprotocol/{name}": value for name, value in said.items()}}

        def exchange(message: bytes) -> bytes:
            tool = json.loads(message[: message.index(b'"arguments"')] + b'"x":1}}')["params"]["name"]
            more = {} if form == "session" else {"Mcp-Name": tool}
            wire.sendall(request(port, {**headers, **more}, message))
            return answered(wire)

        yield exchange, pid, meta


def answered(wire: socket.socket) -> bytes:
    """The body of a response, of known length or in chunks."""
    with wire.makefile("rb") as file:
        status = file.readline()
        headers = dict[bytes, bytes]()
        while (line := file.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        if b"content-length" in headers:
            body = file.read(int(headers[b"content-length"]))
        else:
            parts = list[bytes]()
            while size := int(file.readline(), 16):
                parts.append(file.read(size))
                file.readline()
            file.readline()
            body = b"".join(parts)
    if not status.startswith(b"HTTP/1.1 200"):
        raise ConnectionError(f"{status!r} {body[:200]!r}")
    return body


def measure(peer: Peer, transport: str, given: list[Load]) -> None:
    """One run of one server over one transport."""
    connect = over_stdio(peer) if transport == "stdio" else over_http(peer, transport)
    with connect as (exchange, pid, meta):
        for load in given:
            params = {"name": load.tool, "arguments": load.arguments, **meta}
            message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
            data = json.dumps(message).encode()
            try:
                answer = exchange(data)
            except ConnectionError as error:
                print(f"{peer.name}, {transport}, {load.name}: {error}", file=sys.stderr)
                return
            if json.dumps(load.text)[1:-1].encode() not in answer:
                raise AssertionError(answer[:500])
            times, started, cpu = 0, time.perf_counter(), cpu_seconds(pid)
            while (spent := cpu_seconds(pid) - cpu) < SECONDS:
                exchange(data)
                times += 1
            wall = time.perf_counter() - started
            peer.add(f"{transport}, {load.name}: CPU ms", spent / times * 1000)
            peer.add(f"{transport}, {load.name}: wall ms", wall / times * 1000)


def measure_client(peer: Peer, transport: str, floor: Peer, load: Load, file: Path) -> None:
    """One run of one client over one transport."""
    times = str(2000 if len(load.text) < 1000 else 30 * MEGABYTE // len(load.text))

    def run(server: list[str]) -> None:
        command = [peer.command[0], "-c", peer.client, REVISION.version, load.tool, str(file), times, *server]
        spent, wall = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        peer.add(f"client, {transport}, {load.name}: CPU ms", spent / int(times) * 1000)
        peer.add(f"client, {transport}, {load.name}: wall ms", wall / int(times) * 1000)

    if transport == "stdio":
        run([*floor.command, "stdio"])
    else:
        with running(floor.command, "session") as (port, _):
            run([f"http://127.0.0.1:{port}/mcp"])


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one short run, to see that everything works")
    parser.add_argument("--peer", action="append", default=[], help="python with the official SDK 2")
    parser.add_argument("--fastmcp", action="append", default=[], help="python with FastMCP 4")
    parser.add_argument("--only", default="", help="measure only figures whose names contain this text")
    options = parser.parse_args()
    peers = [
        Peer("floor", [sys.executable, "-c", programs.FLOOR], programs.FLOOR_CLIENT),
        Peer("mcprev", [sys.executable, "-c", programs.OURS], programs.OURS_CLIENT),
        Peer("mcprev App", [sys.executable, "-c", programs.APP]),
    ]
    peers += [
        Peer(release(python, "mcp"), [python, "-c", programs.SDK], programs.SDK_CLIENT)
        for python in options.peer
    ]
    peers += [
        Peer(release(python, "fastmcp"), [python, "-c", programs.FASTMCP], programs.FASTMCP_CLIENT)
        for python in options.fastmcp
    ]
    given, runs = loads(quick=options.quick), 1 if options.quick else options.runs
    with byte_code(), tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, str(number)) for number in range(len(given))]
        for file, load in zip(files, given, strict=True):
            file.write_text(json.dumps(load.arguments))
        for run in range(runs):
            for transport in ("stdio", "session", "stateless"):
                for peer in peers:
                    measure(peer, transport, [x for x in given if options.only in f"{transport}, {x.name}"])
            for transport in ("stdio", "session"):
                for file, load in zip(files, given, strict=True):
                    for peer in peers:
                        if peer.client and options.only in f"client, {transport}, {load.name}":
                            measure_client(peer, transport, peers[0], load, file)
            progress(run + 1, runs)
    show(peers)


if __name__ == "__main__":
    main()
