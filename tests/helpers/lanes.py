"""A server by hand for the connections of a client: it says exactly the bytes of a test, and knows which connection they go over.

`raw_server` is enough where requests and answers matter; here connections do. What a client sends is held to the
letter of HTTP, and every connection knows how much it was sent and when its client went.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import pytest
from typing_extensions import override

import mcprev
from helpers.raw_server import Exchange, Mcp, Reply
from helpers.requirements import E
from mcprev.revisions import Revision, revision_named
from mcprev.transports.http.client.session import HttpSession
from mcprev_types.latest import models as m

each_loop: Final = pytest.mark.usefixtures("event_loop_kind")
"""Run a test on asyncio's event loop and on uvloop."""
LATEST: Final = revision_named(E)
SMALL_BUFFER: Final = 64 * 1024
"""Bytes that the kernel is asked to hold for a server, so that one notices early that nobody reads."""
TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
FIRST_LINE: Final = re.compile(rb"(POST|GET|DELETE) (/[!-~]*) HTTP/1\.1\r\n")
HEADER: Final = re.compile(rb"(%b):[ \t]*([\t -~\x80-\xff]*)\r\n" % TOKEN)


class Sent(Exchange):
    """A request, which came over a connection that is known."""

    def __init__(self, lane: Lane, verb: str, path: str, headers: list[tuple[str, str]]) -> None:
        super().__init__(verb, path, headers, b"", asyncio.get_running_loop().time())
        self.lane = lane
        self.gone = lane.gone
        self._writer = lane.writer

    @property
    def length(self) -> int:
        """How long its body is."""
        return int(self.headers.get("content-length", 0))

    @override
    async def raw(self, data: bytes) -> None:
        if self.lane.writer.is_closing() or self.lane.ended:
            return  # a client may have had enough
        await super().raw(data)
        self.lane.wrote += len(data)

    async def pieces(self, *parts: bytes) -> None:
        """Send bytes, each part in a segment of its own, which is read before the next is sent."""
        for part in parts:
            await self.raw(part)
            await turns()

    async def drain(self) -> int:
        """Read what the client is still sending, until it has gone; how many bytes came."""
        count = 0
        with suppress(ConnectionError):
            while data := await self.lane.reader.read(SMALL_BUFFER):
                count += len(data)
        return count

    async def flood(self, piece: bytes, most: int) -> None:
        """Send the same again and again until the client hangs up, or it was sent `most` bytes."""
        while not self.gone.is_set() and self.lane.wrote < most:
            await self.raw(piece)
            await asyncio.sleep(0)

    def end_writing(self) -> None:
        """Say that nothing follows, and go on reading."""
        self.lane.ended = True
        self.lane.writer.write_eof()


class _Reader(asyncio.StreamReader):
    """A reader that says at once that the client has gone."""

    def __init__(self, gone: asyncio.Event) -> None:
        super().__init__(limit=SMALL_BUFFER)
        self._gone = gone

    @override
    def feed_eof(self) -> None:
        super().feed_eof()
        self._gone.set()

    @override
    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self._gone.set()


class _Accepted(asyncio.StreamReaderProtocol):
    """A connection whose end, of whatever kind, is no surprise."""

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        closed: asyncio.Future[None] = cast("Any", self)._closed
        if closed.done() and not closed.cancelled():
            closed.exception()


class Lane:
    """A connection, as its server has it."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        """Which of the server's connections it is, from 1 on."""
        self.reader = reader
        self.writer = writer
        self.gone = asyncio.Event()
        """Set when the client has hung up."""
        self.ended = False
        """Whether nothing follows, although it is still read."""
        self.wrote = 0
        """Bytes of answers, whether or not they have arrived."""

    async def request(self) -> Sent | None:
        """The next request, without its body; None when there is no other. It has to be beyond reproach."""
        line = await self.reader.readline()
        if not line:
            return None
        first = FIRST_LINE.fullmatch(line)
        assert first is not None, line
        pairs: list[tuple[str, str]] = []
        while (line := await self.reader.readline()) != b"\r\n":
            found = HEADER.fullmatch(line)
            assert found is not None, line
            pairs.append((found[1].decode(), found[2].decode("latin-1").strip(" \t")))
        names = [name.lower() for name, _ in pairs]
        assert names.count("host") == 1
        assert names.count("content-length") == 1 or (first[1] != b"POST" and "content-length" not in names)
        assert not {"transfer-encoding", "upgrade"} & set(names)
        sent = Sent(self, first[1].decode(), first[2].decode(), pairs)
        assert first[1] == b"POST" or sent.length == 0
        return sent


Answer: TypeAlias = Callable[[Exchange], Awaitable[None]]
Early: TypeAlias = Callable[[Sent], Awaitable[bool]]


class Lanes:
    """A server and its connections."""

    def __init__(self, answer: Answer, *, early: Early | None, tls: ssl.SSLContext | None, host: str) -> None:
        self.seen: list[Sent] = []
        self.lanes: list[Lane] = []
        self.problems: list[BaseException] = []
        self.port = 0
        self.host = host
        self.tls = tls
        self._answer = answer
        self._early = early
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls is None else 'https'}://{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    @property
    def open(self) -> int:
        """How many connections there are now."""
        return sum(not lane.gone.is_set() for lane in self.lanes)

    def asked(self, method: str | None = None, verb: str = "POST") -> list[Sent]:
        """What was sent, oldest first."""
        return [seen for seen in self.seen if seen.verb == verb and method in (None, seen.method)]

    @property
    def calls(self) -> list[Sent]:
        """The calls of tools that came."""
        return self.asked("tools/call")

    async def start(self, port: int = 0) -> None:
        loop = asyncio.get_running_loop()

        def accept() -> asyncio.StreamReaderProtocol:
            gone = asyncio.Event()
            reader = _Reader(gone)

            def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                lane = Lane(len(self.lanes) + 1, reader, writer)
                lane.gone = gone
                self.lanes.append(lane)
                task = loop.create_task(self._serve(lane))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

            return _Accepted(reader, connected)

        if self.tls is not None:
            _expect_failed_handshakes(loop)
        host = "127.0.0.1" if self.host == "localhost" else self.host
        listening = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=1024
        )
        # Those who are accepted inherit both.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = listening.getsockname()[1]
        self._server = await loop.create_server(accept, sock=listening, ssl=self.tls, backlog=1024)

    async def stop(self) -> None:
        """Break every connection."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        for lane in self.lanes:
            if lane.writer.transport.get_write_buffer_size():
                lane.writer.transport.abort()
        await self._server.wait_closed()
        await turns()

    async def _serve(self, lane: Lane) -> None:
        lane.writer.transport.set_write_buffer_limits(SMALL_BUFFER)
        try:
            while (sent := await lane.request()) is not None:
                self.seen.append(sent)
                if self._early is None or not await self._early(sent):
                    sent.body = await lane.reader.readexactly(sent.length)
                    await self._answer(sent)
                if lane.gone.is_set() or lane.writer.transport.is_closing() or not sent.answered:
                    return
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        except Exception as error:  # noqa: BLE001 - the test is told
            self.problems.append(error)
        finally:
            if not lane.writer.transport.is_closing():  # else it says to the end what it has to say
                lane.writer.transport.abort()


def _expect_failed_handshakes(loop: asyncio.AbstractEventLoop) -> None:
    """A handshake that a client breaks off is no fault of a test's."""
    before = loop.get_exception_handler()
    assert before is not None

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if context["message"] != "Error on transport creation for incoming connection":
            before(loop, context)

    loop.set_exception_handler(handle)


@asynccontextmanager
async def lanes(
    answer: Answer, *, early: Early | None = None, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncGenerator[Lanes, None]:
    """Run a server for as long as the test wants it."""
    server = Lanes(answer, early=early, tls=tls, host=host)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
        if server.problems:
            raise server.problems[0]


# -- clients -------------------------------------------------------------------------------------------------


@asynccontextmanager
async def calling(
    url: str, *, row: Revision = LATEST, http: Mapping[str, Any] | None = None, **options: Any
) -> AsyncGenerator[mcprev.Client, None]:
    """A client of a server; `http` are options of its transport."""
    target = mcprev.http(url, **dict(http or {}))
    async with mcprev.connect(target, mode=row.name, cache=False, **options) as client:
        yield client


@asynccontextmanager
async def laid(
    called: Callable[[Sent], Awaitable[None]] | None = None,
    replies: Mapping[str, Reply] | None = None,
    *,
    row: Revision = LATEST,
    early: Early | None = None,
    host: str = "127.0.0.1",
    http: Mapping[str, Any] | None = None,
    **options: Any,
) -> AsyncGenerator[tuple[mcprev.Client, Lanes], None]:
    """A client and its server, whose tools are answered by `called`."""
    answer = Mcp(row, {"tools/call": cast("Reply", called or echo), **(replies or {})})
    async with (
        lanes(answer, early=early, host=host) as server,
        calling(server.url, row=row, http=http, **options) as client,
    ):
        yield client, server


@asynccontextmanager
async def requesting(url: str, **options: Any) -> AsyncGenerator[HttpSession, None]:
    """What sends the requests of a client, by itself."""
    given: dict[str, Any] = {"connect_timeout": 10.0, "max_message": 2**30, **options}
    requests = HttpSession(None, url, {}, **given)
    try:
        yield requests
    finally:
        await requests.close()


async def call(client: mcprev.Client, word: str = "hello", **arguments: Any) -> None:
    """Call a tool; the answer has to be the one to this call."""
    result = await client.call_tool(word, arguments)
    (block,) = result.content
    assert isinstance(block, m.TextContent)
    assert block.text == word


def body_to(sent: Exchange) -> bytes:
    """The JSON that answers a call."""
    content = [{"type": "text", "text": sent.message["params"]["name"]}]
    result = {"content": content, "resultType": "complete"}
    return json.dumps({**sent.response, "result": result}).encode()


async def echo(sent: Exchange) -> None:
    """Answer a call."""
    await sent.respond(200, body_to(sent), {"Content-Type": "application/json"})


def head(*lines: str, media: str = "application/json", first: str = "HTTP/1.1 200 OK") -> bytes:
    """The head of an answer."""
    return "".join(f"{line}\r\n" for line in [first, f"Content-Type: {media}", *lines, ""]).encode("latin-1")


def whole(body: bytes, *lines: str, media: str = "application/json", first: str = "HTTP/1.1 200 OK") -> bytes:
    """An answer that says how long it is."""
    return head(*lines, f"Content-Length: {len(body)}", media=media, first=first) + body


def event(body: bytes) -> bytes:
    """A message as an event of a stream."""
    return b"data: " + body + b"\n\n"


# -- time ----------------------------------------------------------------------------------------------------


async def turns(count: int = 3) -> None:
    """Let others run a few times, which reads what has arrived."""
    for _ in range(count):
        await asyncio.sleep(0)


async def still(amount: Callable[[], int], *, rounds: int = 100) -> int:
    """Wait until an amount grows no more, however often others run."""
    quiet, last = 0, amount()
    while quiet < rounds:
        await asyncio.sleep(0)
        quiet, last = (quiet + 1, last) if amount() == last else (0, amount())
    return last


def hurry() -> None:
    """Leave asyncio's debug mode, which takes more time than many calls do."""
    asyncio.get_running_loop().set_debug(enabled=False)


def open_descriptors() -> int:
    """How many descriptors this process has open; zero where that cannot be seen."""
    listed = Path("/proc/self/fd")
    return len(list(listed.iterdir())) if listed.is_dir() else 0


async def ended(task: asyncio.Task[Any]) -> None:
    """Cancel a task, and wait for it."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
