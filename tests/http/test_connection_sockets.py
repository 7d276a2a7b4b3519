"""Connections of our own over sockets: clients that are still sending, very many of them, and the end of the server."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

import mcprev
from api.transports import listening
from helpers.requirements import E, req
from helpers.running import until
from helpers.served import Served
from helpers.wired import Answer, chunked, head, read_answers
from helpers.wired_calls import (
    SMALL,
    call,
    fields,
    ids,
)
from mcprev.serving import running as http_server
from mcprev.transports.http.server.http11_server import Http11Connection

# -- sockets -------------------------------------------------------------------------------------------------

LOOPS: Final[dict[str, Callable[[], asyncio.AbstractEventLoop]]] = {"asyncio": asyncio.new_event_loop}
if importlib.util.find_spec("uvloop") is not None:
    import uvloop

    LOOPS["uvloop"] = uvloop.new_event_loop


def on(loop: str, work: Coroutine[Any, Any, None]) -> None:
    """Run it on a kind of loop; afterwards nothing of it is left."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(asyncio.sleep(0))  # some things are opened once for all loops
    descriptors = open_descriptors()
    complaints: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(str(context)))
        async with asyncio.timeout(20):
            await work
        await until(lambda: len(asyncio.all_tasks()) == 1)

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main())
    gc.collect()
    assert complaints == []
    assert open_descriptors() == descriptors


def open_descriptors() -> int:
    """How many descriptors this process has open; zero where that cannot be seen."""
    listed = Path("/proc/self/fd")
    return len(list(listed.iterdir())) if listed.is_dir() else 0


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected(base: str, count: int) -> AsyncGenerator[list[Ends], None]:
    """Some connections to a server."""
    where = urlsplit(base)
    ends = [await asyncio.open_connection(where.hostname, where.port) for _ in range(count)]
    try:
        yield ends
    finally:
        for _, writer in ends:
            writer.close()
        for _, writer in ends:
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def answer_of(reader: asyncio.StreamReader) -> Answer:
    """The next answer, which has a length."""
    top = await reader.readuntil(b"\r\n\r\n")
    (answer,) = read_answers(top)
    body = await reader.readexactly(int(answer.get("content-length") or 0))
    return read_answers(top + body)[0]


@req("HTTP-3", "HTTP-31", "SEC-6", at=E)
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("first", "piece", "status"),
    [
        (head("POST", "/mcp", [*fields(), ("Content-Length", "99999999")]), b"x" * 65536, 413),
        (head("POST", "/mcp", [*fields(), ("Transfer-Encoding", "chunked")]), chunked(b"x" * 65536)[:-5], 413),
        (head("POST", "/x", [*fields(), ("Content-Length", "99999999")]), b"x" * 65536, 404),
        (b"POST / HTTP/1.1\r\n", b"x: y\r\n" * 10000, 431),
        (b"noise", b"x" * 65536, 400),
        (call(connection="close"), call() * 100, 200),
    ],
    ids=["declared", "chunked", "nowhere", "head", "noise", "closed"],
)  # fmt: skip
def test_an_answer_can_be_read_by_who_has_not_finished_sending(
    first: bytes, piece: bytes, status: int, loop: str
) -> None:
    async def test() -> None:
        server = mcprev.Server(Served(), "served", "1")
        async with listening(server, **SMALL) as base, connected(base, 1) as ends:
            reader, writer = ends[0]
            writer.write(first)
            for _ in range(100):
                writer.write(piece)
                await writer.drain()
            answer = await answer_of(reader)
            assert (answer.status, answer.get("connection")) == (status, "close")
            assert await reader.read() == b""

    on(loop, test())


@req("HTTP-3", "SEC-6", at=E)
@pytest.mark.parametrize("loop", LOOPS)
def test_many_connections_come_and_go_and_leave_nothing(loop: str) -> None:
    async def test() -> None:
        handler = Served()
        alive: weakref.WeakSet[Http11Connection] = weakref.WeakSet()
        begin = Http11Connection.connection_made

        def made(self: Http11Connection, transport: asyncio.BaseTransport) -> None:
            alive.add(self)
            begin(self, transport)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Http11Connection, "connection_made", made)
            async with listening(mcprev.Server(handler, "served", "1")) as base:
                gc.collect()
                gc.disable()
                try:
                    async with connected(base, 200) as ends:
                        for number, (_, writer) in enumerate(ends):
                            writer.write(call(id_=number) * 2)
                        for number, (reader, _) in enumerate(ends):
                            assert ids([await answer_of(reader) for _ in range(2)]) == [number, number]
                        for _, writer in ends[::2]:
                            writer.write(call("wait")[:-3])
                        assert len(alive) == 200
                    await until(lambda: not alive)  # without the help of the garbage collector
                finally:
                    gc.enable()

    on(loop, test())


@pytest.mark.slow
@req("HTTP-3", "LIFE-16", "SEC-6", at=E)
@pytest.mark.parametrize("loop", LOOPS)
def test_a_server_stops_in_time_whatever_its_clients_do(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "STOP", 1.5)

    async def test() -> None:
        handler = Served()
        clock = asyncio.get_running_loop()
        body = head("POST", "/mcp", [*fields(), ("Content-Length", "100")]) + b"x"
        sent = [
            b"",
            call()[:30],
            call(),
            body,
            call("flood"),
            call(arguments={"x": "y" * 3_000_000}),
            call("hold"),
            call("quiet"),
            call("stubborn"),
            call("quiet", id_=2) + call() + body,
            b"noise",
            head("GET", "/x", {"content-length": "9"}),
        ]
        where: list[Ends] = []
        async with listening(mcprev.Server(handler, "served", "1"), send_timeout=600) as base:
            async with contextlib.AsyncExitStack() as stack:
                where += await stack.enter_async_context(connected(base, len(sent)))
                kept = stack.pop_all()  # the connections are closed once nothing refers to it
            for (_, writer), data in zip(where, sent, strict=True):
                writer.write(data)
            await until(lambda: handler.running == 3 and handler.started.is_set() and len(handler.notes) > 0)
            began = clock.time()
        assert clock.time() - began < 5
        assert handler.running == 0
        with contextlib.suppress(OSError):
            await kept.aclose()

    on(loop, test())
