"""An HTTP server by hand: it keeps every request as it came, and answers with the bytes that a test gives.

`serve` starts one for a function that answers each request; `Mcp` is such a function that speaks one revision, unless
the test wants something answered otherwise.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias, cast

from typing_extensions import override

import mcprev
from mcprev.revisions import Revision
from mcprev.wire.sse import Event, encode_event, encode_message

Answer: TypeAlias = Callable[["Exchange"], Awaitable[None]]
VERSION = "io.modelcontextprotocol/protocolVersion"
INFO = {"name": "by hand", "version": "0"}
REASONS = {200: "OK", 202: "Accepted", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}
EVERYTHING = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "logging": {},
    "completions": {},
}


class Exchange:
    """A request, and the means to answer it."""

    def __init__(self, verb: str, path: str, headers: list[tuple[str, str]], body: bytes, at: float) -> None:
        self.verb = verb
        self.path = path
        self.pairs = headers
        self.body = body
        self.at = at
        """When it came."""
        self.gone = asyncio.Event()
        """Set when the client has hung up."""
        self.answered = False
        self.later: Callable[[Coroutine[Any, Any, None]], None] = lambda work: work.close()
        """Do something while the client goes on using the connection."""
        self._writer: asyncio.StreamWriter | None = None

    @property
    def headers(self) -> dict[str, str]:
        """By name in lower case; a header that is there twice is a fault of the test's."""
        names = [name.lower() for name, _ in self.pairs]
        assert len(set(names)) == len(names)
        return {name.lower(): value for name, value in self.pairs}

    @property
    def message(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def method(self) -> str:
        """The method of the message; empty for answers and for what is no POST."""
        return str(self.message.get("method", "")) if self.body else ""

    # -- answering -----------------------------------------------------------------------------------------

    async def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        assert self._writer is not None
        self.answered = True
        self._writer.write(data)
        with suppress(ConnectionError):
            await self._writer.drain()

    async def respond(
        self, status: int = 200, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole answer."""
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        await self.raw("\r\n".join([*lines, "", ""]).encode() + body)

    async def json(self, value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send JSON."""
        await self.respond(
            status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})}
        )

    async def result(self, result: object, headers: Mapping[str, str] | None = None) -> None:
        """Answer the request with a result."""
        await self.json({"jsonrpc": "2.0", "id": self.message["id"], "result": result}, 200, headers)

    async def error(self, code: int, status: int = 200, message: str = "no", data: object = None) -> None:
        """Answer the request with a JSON-RPC error."""
        error = {"code": code, "message": message, **({} if data is None else {"data": data})}
        await self.json({"jsonrpc": "2.0", "id": self.message["id"], "error": error}, status)

    async def stream(self, headers: Mapping[str, str] | None = None) -> None:
        """Begin a stream of events."""
        lines = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        await self.raw("\r\n".join([*lines, "", ""]).encode())

    async def send(self, data: bytes) -> None:
        """Send bytes of a stream."""
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def event(self, message: object, event_id: str | None = None) -> None:
        """Send a message as an event."""
        await self.send(encode_message(json.dumps(message).encode(), event_id))

    async def prime(self, event_id: str, retry: int | None = None) -> None:
        """Send an event with an id and nothing in it."""
        await self.send(encode_event(Event(id=event_id, retry=retry)))

    async def end(self) -> None:
        """End a stream in good order."""
        await self.raw(b"0\r\n\r\n")

    def cut(self) -> None:
        """Break the connection."""
        assert self._writer is not None
        self._writer.transport.abort()

    @property
    def response(self) -> dict[str, Any]:
        """The envelope of a response to the request, without its result."""
        return {"jsonrpc": "2.0", "id": self.message["id"]}


class Raw:
    """The server: its address and what it was sent."""

    def __init__(self, answer: Answer) -> None:
        self.seen: list[Exchange] = []
        self.problems: list[BaseException] = []
        self.connections = 0
        self.open = 0
        """How many connections there are now."""
        self.port = 0
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    def asked(self, verb: str = "POST", method: str | None = None) -> list[Exchange]:
        """What was sent, oldest first."""
        return [seen for seen in self.seen if seen.verb == verb and method in (None, seen.method)]

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.get_running_loop().create_server(self._accept, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Break every connection."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        await self._server.wait_closed()

    def _accept(self) -> asyncio.StreamReaderProtocol:
        reader = _Reader()

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._connected(reader, writer)

        return asyncio.StreamReaderProtocol(reader, connected)

    def _connected(self, reader: _Reader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        async def run() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001 - the test is told
                self.problems.append(error)

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: _Reader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while (exchange := await _read(reader)) is not None:
                exchange._writer = writer  # pyright: ignore[reportPrivateUsage]
                exchange.later = self._later
                self.seen.append(exchange)
                watch = asyncio.get_running_loop().create_task(_watch(reader, exchange.gone))
                try:
                    await self._answer(exchange)
                finally:
                    watch.cancel()
                    await asyncio.wait({watch})
                if exchange.gone.is_set() or writer.transport.is_closing() or not exchange.answered:
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except Exception as error:  # noqa: BLE001 - the test is told
            self.problems.append(error)
        finally:
            self.open -= 1
            writer.transport.abort()


class _Reader(asyncio.StreamReader):
    """Says when no more comes, while nobody reads: the client has hung up."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = asyncio.Event()

    @override
    def feed_eof(self) -> None:
        super().feed_eof()
        self.ended.set()

    @override
    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.ended.set()


async def _watch(reader: _Reader, gone: asyncio.Event) -> None:
    """Notice that the client hangs up while it is being answered; clients do not send ahead."""
    await reader.ended.wait()
    gone.set()


async def _read(reader: asyncio.StreamReader) -> Exchange | None:
    line = await reader.readline()
    if not line:
        return None
    verb, path, _ = line.decode("latin-1").split(" ", 2)
    headers: list[tuple[str, str]] = []
    while line := (await reader.readline()).rstrip(b"\r\n"):
        name, _, value = line.decode("latin-1").partition(":")
        headers.append((name, value.strip(" \t")))
    at = asyncio.get_running_loop().time()
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    assert not any(name.lower() == "transfer-encoding" for name, _ in headers)
    return Exchange(verb, path, headers, await reader.readexactly(length), at)


@asynccontextmanager
async def serve(answer: Answer, *, port: int = 0) -> AsyncGenerator[Raw, None]:
    """Run a server for as long as the test wants it."""
    raw = Raw(answer)
    await raw.start(port)
    try:
        yield raw
    finally:
        await raw.stop()
    if raw.problems:
        raise raw.problems[0]


Handler: TypeAlias = Callable[[Exchange], Awaitable[None]]
Reply: TypeAlias = Mapping[str, Any] | Handler


class Mcp:
    """Answers as a server of one revision does, in JSON; `replies` are results or functions, by method or verb."""

    def __init__(
        self,
        row: Revision,
        replies: Mapping[str, Reply] | None = None,
        *,
        session: str | None = "session-1",
        capabilities: Mapping[str, Any] | None = None,
    ) -> None:
        self.revision = row
        self.replies = dict(replies or {})
        self.session = session
        self.capabilities = EVERYTHING if capabilities is None else capabilities

    async def __call__(self, exchange: Exchange) -> None:
        key = exchange.method or exchange.verb
        if exchange.verb == "POST" and not exchange.method:
            key = "answer"
        reply = self.replies.get(key)
        if callable(reply):
            await reply(exchange)
        elif reply is not None:
            await exchange.result(self.complete(reply))
        else:
            await self.usual(exchange)

    def complete(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """A result with what the revision wants in each."""
        if self.revision.handshake:
            return dict(result)
        return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}

    async def usual(self, exchange: Exchange) -> None:
        """What is answered to the messages that open, end and belong to every connection."""
        if exchange.verb != "POST":
            await exchange.respond(200 if exchange.verb == "DELETE" else 405)
        elif "id" not in exchange.message or not exchange.method:
            await exchange.respond(202)
        elif exchange.method == "initialize" and self.revision.handshake:
            headers = {} if self.session is None else {"Mcp-Session-Id": self.session}
            await exchange.result(
                {
                    "protocolVersion": self.revision.version,
                    "capabilities": self.capabilities,
                    "serverInfo": INFO,
                },
                headers,
            )
        elif exchange.method == "server/discover" and not self.revision.handshake:
            found = {"supportedVersions": [self.revision.version], "capabilities": self.capabilities}
            await exchange.result(self.complete(found))
        elif exchange.method == "tools/list":
            await exchange.result(self.complete({"tools": []}))
        else:
            await exchange.error(-32601, 404 if not self.revision.handshake else 200, "Method not found")


def tool(name: str, properties: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A tool as it is listed."""
    return {"name": name, "inputSchema": {"type": "object", "properties": dict(properties or {})}}


def text(value: str) -> dict[str, Any]:
    """The result of a tool."""
    return {"content": [{"type": "text", "text": value}]}


def numbered(count: int) -> Iterator[dict[str, Any]]:
    """Log messages with numbers."""
    for number in range(count):
        yield {
            "jsonrpc": "2.0",
            "method": "notifications/message",
            "params": {"level": "error", "data": number},
        }


@asynccontextmanager
async def connected(
    row: Revision,
    replies: Mapping[str, Reply] | None = None,
    *,
    session: str | None = "session-1",
    handler: Any = None,
    headers: Any = None,
    **options: Any,
) -> AsyncGenerator[tuple[mcprev.Client, Mcp, Raw], None]:
    """A client that is connected at a revision, and the server it is connected to."""
    answer = Mcp(row, replies, session=session)
    async with serve(answer) as raw:
        target = mcprev.http(raw.url, headers=headers)
        async with mcprev.connect(target, mode=row.name, handler=handler, **options) as client:
            yield client, answer, raw


class OldMcp:
    """Answers as a server of the oldest transport does: a stream at its URL, and another URL to post to."""

    def __init__(
        self, row: Revision, replies: Mapping[str, Any] | None = None, endpoint: str = "/messages?sessionId=1"
    ) -> None:
        self.revision = row
        self.replies = dict(replies or {})
        self.endpoint = endpoint
        self.stream: Exchange | None = None
        self.refused_post = 405
        """How a POST to the stream's URL is answered."""

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.verb == "GET":
            self.stream = exchange
            await exchange.stream()
            await exchange.send(f"event: endpoint\ndata: {self.endpoint}\n\n".encode())
            await exchange.gone.wait()
        elif exchange.path != self.endpoint:
            await exchange.respond(self.refused_post)
        else:
            await exchange.respond(202)
            if "id" in exchange.message and exchange.method:
                exchange.later(self.reply(exchange))

    async def reply(self, exchange: Exchange) -> None:
        assert self.stream is not None
        found: Any = self.replies.get(exchange.method)
        if callable(found):
            await cast("Handler", found)(exchange)
            return
        if exchange.method == "initialize":
            found = {"protocolVersion": self.revision.version, "capabilities": EVERYTHING, "serverInfo": INFO}
        if found is not None:
            await self.stream.event({**exchange.response, "result": found})
