"""SIGTERM and SIGINT: calls in progress may finish, what remains is answered with an error, and the exit code is 0.

HTTP-3, LIFE-16, SUB-4, STDIO-6. Each test stops a real process.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

import mcprev
from fuzz.fuzzing import diagonal, each_once
from helpers.asgi_bridge import PREFIX, STREAM, TYPES, initialize, notification, request
from helpers.requirements import D, E, req
from helpers.running import run
from mcprev.errors import WorkerLost
from mcprev.revisions import DEFAULT, Revision, revision_named
from mcprev.serving.accepting import Acceptor
from mcprev.serving.sockets import bind
from mcprev.transports.http.server.health import health_routes

SCRIPT: Final = Path(__file__).parent / "stopping_server.py"
INTERNAL: Final = -32603
SHUT_DOWN: Final = {
    "code": INTERNAL,
    "message": "the server is shutting down",
    "data": {"reason": "worker_lost", "mayHaveRun": True},
}
"""The error of a request that is cut short."""
ROWS: Final = [revision_named(D), revision_named(E)]
"""Of sessions, and without them."""
LOOPS: Final = [
    "asyncio",
    pytest.param(
        "uvloop",
        marks=pytest.mark.skipif(
            importlib.util.find_spec("uvloop") is None, reason="uvloop is not installed"
        ),
    ),
]
SOON: Final = 30
"""Seconds within which a server ends that waits for nothing; its `drain` is longer in those tests."""


class Process:
    """A server in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.errors = b""
        self.port = 0

    async def said(self, *words: object) -> str:
        """Wait until it says a line that begins like this; the rest of that line."""
        assert self._process.stderr is not None
        start = " ".join(map(str, words)).encode()
        while True:
            line = await self._process.stderr.readline()
            assert line, self.errors
            self.errors += line
            if line.startswith(start):
                return line[len(start) :].decode().strip()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to it."""
        return await asyncio.open_connection("127.0.0.1", self.port)

    def post(self, body: dict[str, Any], headers: Mapping[str, str]) -> bytes:
        """A request, to be written to a connection."""
        data = json.dumps(body).encode()
        fields = {**headers, "Host": f"127.0.0.1:{self.port}", "Content-Length": str(len(data))}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + data

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def go_on(self) -> None:
        """Let the calls of the tool `short` end."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")

    async def refuses(self) -> None:
        """Wait until it takes no more connections."""

        while True:
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", self.port)):
                    return
            await asyncio.sleep(0.02)

    async def ended(self, within: float | None = None, code: int = 0) -> None:
        """Wait for its end, which is a good one."""
        assert self._process.stderr is not None
        self.errors += await asyncio.wait_for(self._process.stderr.read(), within)
        assert await asyncio.wait_for(self._process.wait(), within) == code, self.errors
        assert b"Traceback" not in self.errors


@asynccontextmanager
async def process(how: str, **options: object) -> AsyncGenerator[Process, None]:
    """A server that listens."""
    pipe = asyncio.subprocess.PIPE
    started = await asyncio.create_subprocess_exec(
        sys.executable, SCRIPT, how, json.dumps(options), stdin=pipe, stdout=pipe, stderr=pipe
    )
    server = Process(started)
    try:
        if how in {"asyncio", "uvloop", "uvicorn", "mounted"}:
            server.port = int(await server.said("port"))
        yield server
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


def said(
    row: Revision, method: str, params: dict[str, Any], id_: int = 1
) -> tuple[dict[str, Any], dict[str, str]]:
    """A request and its headers, in the way of a revision."""
    headers = dict(TYPES)
    if not row.handshake:
        params = {
            **params,
            "_meta": {PREFIX + "protocolVersion": row.version, PREFIX + "clientCapabilities": {}},
        }
        headers |= {"mcp-protocol-version": row.version, "mcp-method": method}
        headers |= {"mcp-name": params["name"]} if "name" in params else {}
    return request(method, params, id_), headers


async def opened(http: aiohttp.ClientSession, server: Process, row: Revision) -> dict[str, str]:
    """The headers of a session, if the revision has them."""
    if not row.handshake:
        return {}
    async with http.post(server.url, json=initialize(row), headers=TYPES) as answer:
        session = {"mcp-session-id": answer.headers["mcp-session-id"]}
    async with http.post(server.url, json=notification("notifications/initialized"), headers=TYPES | session):
        return session


def answer_in(content_type: str, body: bytes) -> dict[str, Any]:
    """The one answer in a body, which is JSON or a whole event stream."""
    if content_type == "application/json":
        found = [json.loads(body)]
    else:
        assert body.endswith(b"\n\n")
        found = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: {")]
    assert len(found) == 1, body
    return dict[str, Any](found[0])


@pytest.mark.slow
@req("HTTP-3", "LIFE-16", at=(D, E))
@pytest.mark.parametrize(
    ("form", "number"),
    [("json", signal.SIGTERM), ("sse", signal.SIGTERM), ("sse", signal.SIGINT)],
    ids=["json", "sse", "interrupted"],
)
@pytest.mark.parametrize("loop", LOOPS)
@each_once
def test_calls_may_finish_and_what_remains_is_answered_with_an_error(
    form: str, loop: str, number: int
) -> None:
    """A session and requests without one, at one server; which signal it was is forgotten once it has come."""

    async def call(
        http: aiohttp.ClientSession, server: Process, row: Revision, session: Mapping[str, str], tool: str
    ) -> Any:
        body, headers = said(row, "tools/call", {"name": tool, "arguments": {}}, len(tool))
        async with http.post(server.url, json=body, headers={**headers, **session}) as answer:
            return answer.status, answer_in(answer.content_type, await answer.read())

    async def test() -> None:
        async with (
            process(loop, drain=1.5, json_response=form == "json") as server,
            aiohttp.ClientSession() as http,
        ):
            sessions = [(row, await opened(http, server, row)) for row in ROWS]
            short, long = (
                [asyncio.create_task(call(http, server, *each, tool)) for each in sessions]
                for tool in ("short", "long")
            )
            for _ in (*short, *long):
                await server.said("begun")
            server.signal(number)
            await server.refuses()
            server.go_on()
            for task in short:
                status, answer = await task
                assert (status, answer["result"]["content"][0]["text"]) == (200, "in time")
            assert not any(task.done() for task in long)
            for task in long:
                status, answer = await task
                assert answer["error"] == SHUT_DOWN
                assert answer["id"] == len("long")
            await server.ended()

    run(test())


@pytest.mark.slow
@req("HTTP-3", "LIFE-16", "SUB-4", at=(D, E))
@pytest.mark.parametrize("loop", LOOPS)
def test_streams_that_wait_for_no_call_end_at_once(loop: str) -> None:
    """Listen streams, GET streams and those of the oldest transport, each to its proper end."""

    async def test() -> None:
        async with process(loop, drain=60, sse=True) as server, aiohttp.ClientSession() as http:
            session = await opened(http, server, revision_named(D))
            body, headers = said(
                revision_named(E), "subscriptions/listen", {"notifications": {"toolsListChanged": True}}
            )
            base = server.url.removesuffix("/mcp")
            streams = [
                await http.post(server.url, json=body, headers=headers),
                await http.get(server.url, headers={**STREAM, **session}),
                await http.get(base + "/sse", headers=STREAM),
            ]
            assert [stream.status for stream in streams] == [200] * 3
            assert b"acknowledged" in await streams[0].content.readuntil(b"\n\n")
            server.signal(signal.SIGTERM)
            rest = [await stream.content.read() for stream in streams]
            assert b'"result"' in rest[0]
            await server.ended(SOON)

    run(test())


@pytest.mark.slow
@req("HTTP-3", "LIFE-16", at=(D, E))
@pytest.mark.parametrize("row", ROWS, ids=[D, E])
def test_connections_that_are_open_get_no_new_calls_in(row: Revision) -> None:
    """While calls finish, a new one is refused with 503 and its id; an answer or notification is still accepted."""

    async def test() -> None:
        async with process("asyncio", drain=60, shutdown_delay=0) as server, aiohttp.ClientSession() as http:
            session = await opened(http, server, row)
            body, headers = said(row, "tools/call", {"name": "short", "arguments": {}})
            headers |= session
            # Both connections are there before the signal.
            waits = asyncio.create_task(http.post(server.url, json=body, headers=headers))
            await server.said("begun")
            listing, more = said(row, "tools/list", {}, 2)
            async with http.post(server.url, json=listing, headers=more | session) as answer:
                assert answer.status == 200
                await answer.read()
            server.signal(signal.SIGTERM)
            await server.refuses()
            async with http.post(server.url, json=listing, headers=more | session) as answer:
                refused = await answer.json()
                assert (answer.status, refused["id"]) == (503, listing["id"])
                assert refused["error"] == {
                    **SHUT_DOWN,
                    "data": {"reason": "worker_lost", "mayHaveRun": False},
                }
                assert answer.headers["retry-after"] == "1"
            if row.handshake:
                told = notification("notifications/roots/list_changed")
                async with http.post(server.url, json=told, headers=TYPES | session) as answer:
                    assert answer.status == 202
            server.go_on()
            async with await waits as answer:
                assert b"in time" in await answer.read()
            await server.ended(SOON)

    run(test())


@pytest.mark.slow
@req("HTTP-3", "LIFE-16", "SUB-4", at=E)
def test_a_server_that_leaves_serves_the_next_call_of_each_connection_and_closes_it() -> None:
    """Meanwhile it is not ready and opens no streams; connections without a call are closed at the end of `shutdown_delay`."""
    row = revision_named(E)

    async def test() -> None:
        async with (
            process("asyncio", drain=60, shutdown_delay=5) as server,
            aiohttp.ClientSession() as http,
            aiohttp.ClientSession() as other,
        ):
            base = server.url.removesuffix("/mcp")
            listing, headers = said(row, "tools/list", {}, 2)
            listen, to_listen = said(
                row, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}
            )
            stream = await http.post(server.url, json=listen, headers=to_listen)
            waits = asyncio.create_task(http.post(server.url, **call_of(row, "short")))
            await server.said("begun")
            for _ in range(3):  # each leaves its connection open
                await read(other.get(base + "/ready"))
            taken = await asyncio.gather(
                *(read(http.post(server.url, json=listing, headers=headers)) for _ in "12")
            )
            assert [each[0] for each in taken] == [200, 200]
            server.signal(signal.SIGTERM)
            await server.refuses()
            rest = await stream.content.read()
            assert b'"result"' in rest
            status, fields, _ = await read(other.get(base + "/ready"))
            assert (status, fields["connection"]) == (503, "close")
            for _ in "13":  # the connection of the stream is one of them
                status, fields, _ = await read(http.post(server.url, json=listing, headers=headers))
                assert (status, fields["connection"]) == (200, "close")
            status, fields, body = await read(http.post(server.url, json=listen, headers=to_listen))
            assert (status, fields["retry-after"]) == (503, "1")
            assert json.loads(body)["error"]["message"] == "the server is shutting down"
            with pytest.raises(aiohttp.ClientConnectorError):  # none of the connections is left
                await read(http.post(server.url, json=listing, headers=headers))
            server.go_on()
            async with await waits as answer:
                assert b"in time" in await answer.read()
            await server.ended(SOON)

    run(test())


@pytest.mark.slow
@req("HTTP-3", "LIFE-16", at=E)
def test_a_server_that_leaves_closes_no_connection_whose_response_has_not_said_so() -> None:
    """A proxy takes such a connection for its next request, and could not tell whether that one was served."""
    row = revision_named(E)

    async def test() -> None:
        async with process("asyncio", drain=60, shutdown_delay=5) as server:
            reader, writer = await server.connect()

            def send(body: dict[str, Any], headers: Mapping[str, str]) -> None:
                writer.write(server.post(body, headers))

            send(*said(row, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"connection: close" not in head
            server.signal(signal.SIGTERM)
            assert b'"result"' in await reader.readuntil(b"0\r\n\r\n")
            send(*said(row, "tools/list", {}, 2))
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert b"connection: close" in head
            assert b'"tools"' in await reader.read()
            writer.close()
            await server.ended(SOON)

    run(test())


@pytest.mark.slow
@req("HTTP-3", "LIFE-16", at=E)
def test_nor_does_it_when_the_call_ends_after_it_has_left() -> None:
    """The stream has begun before; whatever comes next on its connection is refused, so that it is sent elsewhere."""
    row = revision_named(E)

    async def test() -> None:
        async with process("asyncio", drain=60, shutdown_delay=1, heartbeat=0.1) as server:
            (idle, unused), (reader, writer) = await server.connect(), await server.connect()
            writer.write(server.post(*said(row, "tools/call", {"name": "short", "arguments": {}})))
            assert b"connection: close" not in await reader.readuntil(b"\r\n\r\n")
            server.signal(signal.SIGTERM)
            assert await idle.read() == b""  # the end of `shutdown_delay`
            unused.close()
            server.go_on()
            assert b"in time" in await reader.readuntil(b"0\r\n\r\n")
            writer.write(server.post(*said(row, "tools/list", {}, 2)))
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503")
            assert b"retry-after: 1" in head
            assert b"connection: close" in head
            await reader.read()
            writer.close()
            await server.ended(SOON)

    run(test())


def call_of(row: Revision, tool: str) -> dict[str, Any]:
    """The arguments of a POST that calls a tool."""
    body, headers = said(row, "tools/call", {"name": tool, "arguments": {}})
    return {"json": body, "headers": headers}


async def read(request: Any) -> tuple[int, Mapping[str, str], bytes]:
    """The status, headers and body of the answer to a request."""
    async with request as answer:
        return answer.status, answer.headers, await answer.read()


class Undecided(mcprev.ClientHandler):
    """Its user does not answer."""

    async def list_roots(self, ctx: mcprev.ClientContext, params: Any) -> Any:
        await asyncio.get_running_loop().create_future()


@pytest.mark.slow
@req("HTTP-3", "LIFE-16")
@pytest.mark.parametrize(
    ("row", "how"),
    diagonal([row for row in DEFAULT if row.handshake], ["uvicorn", "mounted"]),
    ids=lambda value: getattr(value, "name", value),
)
def test_uvicorn_ends_while_a_question_is_pending(row: Revision, how: str) -> None:
    """uvicorn waits for the responses in progress before it tells the app that it stops."""

    async def test() -> None:
        async with (
            process(how, drain=0.5) as server,
            mcprev.connect(server.url, mode=row.name, handler=Undecided(), restart=False) as client,
        ):
            asking = asyncio.create_task(client.call_tool("asks"))
            await server.said("begun")
            server.signal(signal.SIGTERM)
            with pytest.raises(WorkerLost, match="the server is shutting down") as caught:
                await asking
            assert caught.value.may_have_run
            await server.ended(SOON, -signal.SIGTERM)

    run(test())


@req("HTTP-3", at=E)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_is_answered_that_comes_with_the_signal_before_the_first_is_accepted(number: int) -> None:
    """From when anybody can know that the server listens, a signal stops it in order."""
    clients: list[socket.socket] = []

    def ready(port: int) -> None:
        clients.append(socket.create_connection(("127.0.0.1", port)))
        clients[0].sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        os.kill(os.getpid(), number)

    async def test() -> None:
        server = mcprev.Server(mcprev.ServerHandler(), "early", "1")
        await server.serve_http(port=0, ready=ready, routes=health_routes())

    run(test())
    with clients[0] as client:
        said = client.recv(1000)
    assert said.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.slow
@req("HTTP-3", at=E)
def test_a_second_interrupt_waits_for_nothing() -> None:
    async def test() -> None:
        async with process("asyncio", drain=60) as server, aiohttp.ClientSession() as http:
            body, headers = said(revision_named(E), "tools/call", {"name": "long", "arguments": {}})
            call = asyncio.create_task(http.post(server.url, json=body, headers=headers))
            await server.said("begun")
            server.signal(signal.SIGINT)
            await server.refuses()
            server.signal(signal.SIGINT)
            async with await call as answer:
                assert answer_in(answer.content_type, await answer.read())["error"]["code"] == INTERNAL
            await server.ended(SOON)

    run(test())


@req("HTTP-3", everywhere=True)
def test_a_connection_that_arrives_as_the_server_stops_breaks_nothing() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        failed: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: failed.append(context))
        with bind("127.0.0.1", 0) as listening:
            acceptor = Acceptor(listening, asyncio.Protocol, room=lambda: 1, make_room=lambda: False)
            acceptor.start()
            await asyncio.sleep(0)
            with socket.create_connection(listening.getsockname()):
                acceptor.stop()
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        assert failed == []

    run(test())


@pytest.mark.slow
@req("HTTP-3", at=E)
def test_a_handler_in_a_thread_does_not_keep_the_process() -> None:
    """`run_http`, which has the process for itself, ends it all the same."""

    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        async with process(str(port), drain=0.1) as server, aiohttp.ClientSession() as http:
            server.port = port
            body, headers = said(revision_named(E), "tools/call", {"name": "stuck", "arguments": {}})
            while True:
                try:
                    call = await http.post(server.url, json=body, headers=headers)
                    break
                except aiohttp.ClientConnectorError:
                    await asyncio.sleep(0.05)
            await server.said("begun")
            server.signal(signal.SIGTERM)
            assert answer_in(call.content_type, await call.read())["error"]["code"] == INTERNAL
            await server.ended(SOON)

    run(test())


@pytest.mark.slow
@req("STDIO-6", at=D)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("tool", ["long", "stuck"])
@each_once
def test_on_stdio_a_call_is_answered_before_the_process_ends(number: int, tool: str) -> None:
    async def test() -> None:
        async with process("stdio") as server:
            inner = server._process
            assert inner.stdin is not None
            assert inner.stdout is not None
            for message in (
                initialize(revision_named(D)),
                notification("notifications/initialized"),
                request("tools/call", {"name": tool, "arguments": {}}, 7),
            ):
                inner.stdin.write(json.dumps(message).encode() + b"\n")
            await server.said("begun")
            assert b"serverInfo" in await inner.stdout.readline()
            server.signal(number)
            answer = json.loads(await inner.stdout.readline())
            assert answer["id"] == 7
            assert answer["error"] == SHUT_DOWN
            assert await inner.stdout.read() == b""
            await server.ended(SOON)

    run(test())
