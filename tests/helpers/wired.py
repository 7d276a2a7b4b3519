"""Connections of our own to an app, without sockets: what uvicorn does for `Http11Connection`, and a client at the other end."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import quote

import httptools
from typing_extensions import override

from helpers import asgi_bridge
from helpers.running import until
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.transports.http.server.http11_server import Http11Connection, Http11Server

HIGH: Final = 64 * 1024
"""Bytes that a client has not read when the server is asked to stop writing, as in asyncio."""
PIECE: Final = 256 * 1024
"""The most bytes that are read at a time, as in asyncio."""

_UNSAYABLE: Final = frozenset(b"\r\n\0\x7f") | frozenset(range(32)) - frozenset(b"\t")


class State:
    """What uvicorn knows of all connections."""

    def __init__(self) -> None:
        self.connections: set[Any] = set()
        self.default_headers: list[tuple[bytes, bytes]] = [(b"date", b"today")]


@dataclass
class Answer:
    """What a client can read of one answer."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    body: bytes = b""
    complete: bool = False

    def get(self, name: str) -> str | None:
        """The value of a header that comes once."""
        found = [value for key, value in self.headers if key == name]
        assert len(found) <= 1, self.headers
        return found[0] if found else None


def read_answers(data: bytes, *verbs: str, closed: bool = False) -> list[Answer]:
    """The answers to requests of these methods (POST where there are more), as far as they came."""
    found: list[Answer] = []
    asked = list(verbs)
    while b"\r\n\r\n" in data:
        head, _, data = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("ascii").split("\r\n")
        version, status, _ = first.split(" ", 2)
        assert version == "HTTP/1.1"
        answer = Answer(int(status), [cast("tuple[str, str]", tuple(line.split(": ", 1))) for line in lines])
        found.append(answer)
        verb = asked.pop(0) if asked and answer.status >= 200 else "POST"
        data = _read_body(answer, data, verb, closed=closed)
    return found


def _read_body(answer: Answer, data: bytes, verb: str, *, closed: bool) -> bytes:
    length = answer.get("content-length")
    if verb == "HEAD" or answer.status in (100, 204):
        assert (length is None) is (answer.status != 405 and verb != "HEAD")
        answer.complete = True
        return data
    if answer.get("transfer-encoding") == "chunked":
        assert length is None
        while b"\r\n" in data and not answer.complete:
            size, _, rest = data.partition(b"\r\n")
            count = int(size, 16)
            if len(rest) < count + 2:
                break
            assert rest[count : count + 2] == b"\r\n"
            answer.body += rest[:count]
            answer.complete, data = not count, rest[count + 2 :]
        return data if answer.complete else b""
    count = len(data) if length is None else int(length)
    answer.body = data[:count]
    answer.complete = closed if length is None else len(data) >= count
    return data[count:]


class Wire(asyncio.Transport):
    """A connection: the transport that the server has of it, and what its client does."""

    def __init__(
        self,
        front: Http11Server,
        state: State | None = None,
        protocol: asyncio.Protocol | None = None,
        **extra: object,
    ) -> None:
        """`protocol` stands in for the server's own: another one for HTTP, of which less can be asked."""
        super().__init__({"sockname": ("127.0.0.1", 8000), "peername": ("127.0.0.1", 5000), **extra})
        self._loop = asyncio.get_running_loop()
        self.heard: Callable[[bytes], object] = bool
        self.received = b""
        """All that the client has read."""
        self.closing = self.lost = self.eof = False
        self.gone = asyncio.Event()
        self._unread = b""
        self._reads = True
        self._held: list[bytes] = []
        self._paused = self._full = False
        ours = Http11Connection(front, cast("Any", None), cast("Any", state or State()), {})
        self.http = ours if protocol is None else cast("Http11Connection", protocol)
        self.http.connection_made(self)

    # -- what the client does ------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Send bytes; they arrive at once where the server reads."""
        for place in range(0, len(data), PIECE):
            self._held.append(data[place : place + PIECE])
        self._deliver()

    def _deliver(self) -> None:
        while self._held and not self._paused and not self.closing:
            self.http.data_received(self._held.pop(0))

    def read(self, *, more: bool = True) -> None:
        """Read what comes, or stop reading."""
        self._reads = more
        if more:
            unread, self._unread = self._unread, b""
            self._hear(unread)
            if self._full:
                self._full = False
                self.http.resume_writing()
            if self.closing:
                self._lose_soon(None)

    def take(self, count: int) -> None:
        """Read a little of what was not read."""
        some, self._unread = self._unread[:count], self._unread[count:]
        self._hear(some)

    def _hear(self, data: bytes) -> None:
        self.received += data
        self.heard(data)

    def hang_up(self) -> None:
        """Be gone."""
        self._unread = b""
        if not self.closing:
            self.closing = True
            self._lose_soon(ConnectionResetError())

    def answers(self, *verbs: str) -> list[Answer]:
        """What was answered, as far as it was read."""
        return read_answers(self.received, *verbs, closed=self.lost)

    async def settled(self) -> None:
        """Wait until nothing is served any more."""
        await until(lambda: self.lost or self.http._serving is None)
        await asyncio.sleep(0)

    # -- what the server sees ------------------------------------------------------------------------------

    @override
    def write(self, data: Any) -> None:
        assert not self.eof
        if self.closing:
            return
        if self._reads:
            self._hear(data)
            return
        self._unread += data
        if len(self._unread) > HIGH and not self._full:
            self._full = True
            self.http.pause_writing()

    @override
    def get_write_buffer_size(self) -> int:
        return len(self._unread)

    @override
    def can_write_eof(self) -> bool:
        return True

    @override
    def write_eof(self) -> None:
        self.eof = True

    @override
    def pause_reading(self) -> None:
        self._paused = True

    @override
    def resume_reading(self) -> None:
        self._paused = False
        self._loop.call_soon(self._deliver)

    @override
    def is_closing(self) -> bool:
        return self.closing

    @override
    def close(self) -> None:
        self.closing = True
        if not self._unread:
            self._lose_soon(None)

    @override
    def abort(self) -> None:
        self.closing = True
        self._unread = b""
        self._lose_soon(None)

    def _lose_soon(self, error: Exception | None) -> None:
        self._loop.call_soon(self._lose, error)

    def _lose(self, error: Exception | None) -> None:
        if not self.lost:
            self.lost = True
            self.gone.set()
            self.http.connection_lost(error)


def head(
    verb: str = "POST",
    target: str = "/mcp",
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    *,
    version: str = "1.1",
) -> bytes:
    """The head of a request; headers are a mapping or pairs."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    lines = [f"{verb} {target} HTTP/{version}", *(f"{name}: {value}" for name, value in pairs)]
    return "".join(line + "\r\n" for line in [*lines, ""]).encode("latin-1")


def chunked(*parts: bytes, trailer: bytes = b"") -> bytes:
    """A body in chunks."""
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n" + trailer + b"\r\n"


class _Reading(asyncio.Event):
    """Whether a client reads."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire

    @override
    def set(self) -> None:
        super().set()
        self._wire.read()

    @override
    def clear(self) -> None:
        super().clear()
        self._wire.read(more=False)


class Exchange(asgi_bridge.Exchange):
    """The same as that of the ASGI bridge, on a connection of its own, where it is also told what is read.

    What a client cannot say in a header is taken out of the scope.
    """

    def __init__(self, app: AsgiApp, scope: dict[str, Any], body: bytes | None) -> None:
        pairs: list[tuple[bytes, bytes]] = scope["headers"]
        pairs[:] = [(name, value.strip(b" \t")) for name, value in pairs if not set(value) & _UNSAYABLE]
        self._declared = any(name == b"content-length" for name, _ in pairs)
        # What a HEAD is answered cannot be looked at.
        verb = "PUT" if scope["method"] == "HEAD" else scope["method"]
        if body is not None or self._declared:
            self._chunked = False
            length = [] if self._declared else [(b"content-length", b"%d" % len(body or b""))]
        else:
            self._chunked = True
            length = [(b"transfer-encoding", b"chunked")]
        query = scope["query_string"]
        target = quote(scope["path"]).encode() + (b"?" + query if query else b"")
        lines = [b"%b %b HTTP/1.1" % (verb.encode(), target)]
        lines += [b"%b: %b" % pair for pair in [*pairs, *length]]
        self._parser = httptools.HttpResponseParser(self)
        self.wire = Wire(Http11Server(app), sockname=scope["server"])
        super().__init__(self._serve, scope, None)
        self.reading = _Reading(self.wire)
        self.reading.set()
        self.wire.heard = self._parser.feed_data
        self.wire.send(b"\r\n".join([*lines, b"", b""]))
        if body is not None:
            self.give(body)

    @override
    def give(self, body: bytes, *, more: bool = False) -> None:
        if self._chunked:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"" if more else b"0\r\n\r\n")
        self.wire.send(body)

    @override
    def disconnect(self) -> None:
        self.gone = True
        self.reading.set()
        self.wire.hang_up()

    @property
    @override
    def awaited(self) -> bool:
        request = self.wire.http._serving
        return request is not None and (request._gone or request.waiting) is not None

    async def _serve(self, *_: object) -> None:
        """Until all that was sent is served, and what was answered is read."""
        http = self.wire.http
        while task := http._serving.task if http._serving else next(iter(http.http_server.lasting), None):
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()
        await until(lambda: self.wire.lost or not self.wire._unread)
        self.wire.hang_up()
        await self.wire.gone.wait()
        assert not any(request.taken for request in (*http.queue, http._receiving) if request is not None)

    # -- what the parser finds -----------------------------------------------------------------------------

    # After the first answer, there may be one to what the declared length left over: it is not looked at.

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.complete:
            self.headers[name.decode()] = value.decode()

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if not self.complete and status >= 200:
            self.status = status

    def on_body(self, data: bytes) -> None:
        if not self.complete:
            self.body += data
            if self.headers.get("content-type") == "text/event-stream":
                self.events.extend(self._decoder.feed(data))

    def on_message_complete(self) -> None:
        self.complete = self.status != 0
