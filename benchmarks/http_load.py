"""A raw HTTP client that does no more than it must: keeps connections open, sends what was written down, keeps answers.

Written on `asyncio.Protocol`, so that what is measured is the server; answers are looked at afterwards.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, cast

from typing_extensions import override

from mcprev.revisions import Revision

ACCEPT: Final = "application/json, text/event-stream"
_META: Final = "io.modelcontextprotocol/"


class Lane(asyncio.Protocol):
    """One connection: sends a request, waits for the whole answer, sends the next."""

    def __init__(self, requests: list[bytes], done: asyncio.Future[None]) -> None:
        self._requests: Iterator[bytes] = iter(requests)
        self._done = done
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._sent = 0.0
        self.answers: list[bytes] = []
        self.latencies: list[float] = []

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._next()

    def _next(self) -> None:
        assert self._transport is not None
        request = next(self._requests, None)
        if request is not None:
            self._sent = time.perf_counter()
            self._transport.write(request)
        elif not self._done.done():
            self._done.set_result(None)

    @override
    def data_received(self, data: bytes) -> None:
        self._buffer = data if not self._buffer else self._buffer + data
        if whole(self._buffer):
            self.latencies.append(time.perf_counter() - self._sent)
            self.answers.append(self._buffer)
            self._buffer = b""
            self._next()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(exc or ConnectionError("the server closed the connection"))


def whole(response: bytes) -> bool:
    """Whether this is a whole response, of known length or in chunks."""
    head, found, body = response.partition(b"\r\n\r\n")
    if not found:
        return False
    _, found, length = head.lower().partition(b"content-length: ")
    if found:
        return len(body) >= int(length.partition(b"\r\n")[0])
    return body.endswith(b"0\r\n\r\n")


def request(port: int, headers: Mapping[str, str], body: Any) -> bytes:  # noqa: ANN401 - JSON
    """A request as bytes; the body is given as JSON, or as the bytes of it."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"Host": f"127.0.0.1:{port}", "Content-Type": "application/json", "Accept": ACCEPT, **headers}
    lines = [f"{name}: {value}\r\n" for name, value in {**fields, "Content-Length": str(len(data))}.items()]
    return b"".join([b"POST /mcp HTTP/1.1\r\n", "".join(lines).encode(), b"\r\n", data])


def open_session(port: int, row: Revision) -> dict[str, str]:
    """Open a session, and give the headers that its requests carry."""
    fields = {"Content-Type": "application/json", "Accept": ACCEPT}
    said = {
        "protocolVersion": row.version,
        "capabilities": {},
        "clientInfo": {"name": "b", "version": "1"},
    }
    opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": said}
    response = _post(port, fields, opening)
    fields = {
        "Mcp-Session-Id": str(response.getheader("mcp-session-id")),
        "MCP-Protocol-Version": row.version,
    }
    confirmed = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    _post(port, {**fields, "Content-Type": "application/json", "Accept": ACCEPT}, confirmed)
    return fields


def _post(port: int, headers: Mapping[str, str], body: object) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", "/mcp", json.dumps(body), dict(headers))
    response = connection.getresponse()
    if response.status not in (200, 202):
        raise AssertionError(f"{response.status} {response.read()[:500]!r}")
    response.read()
    connection.close()
    return response


def calls(port: int, row: Revision, first: int, count: int) -> list[bytes]:
    """Calls of the echo tool, in a session of their own where the revision has them."""
    meta: dict[str, Any] = {}
    if row.handshake:
        headers = open_session(port, row)
    else:
        headers = {"MCP-Protocol-Version": row.version, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
        client = {"name": "b", "version": "1"}
        meta = {"protocolVersion": row.version, "clientCapabilities": {}, "clientInfo": client}
        meta = {"_meta": {_META + name: value for name, value in meta.items()}}
    made: list[bytes] = []
    for number in range(first, first + count):
        params = {"name": "echo", "arguments": {"text": f"hello {number}"}, **meta}
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        made.append(request(port, headers, message))
    return made


async def load(port: int, lanes: list[list[bytes]]) -> tuple[float, list[Lane]]:
    """Send each list over a connection of its own, and give the seconds it all took."""
    loop = asyncio.get_running_loop()
    futures = [loop.create_future() for _ in lanes]
    made: list[Lane] = []
    started = time.perf_counter()
    for requests, done in zip(lanes, futures, strict=True):
        _, lane = await loop.create_connection(partial(Lane, requests, done), "127.0.0.1", port)
        made.append(lane)
    await asyncio.wait_for(asyncio.gather(*futures), 120)
    return time.perf_counter() - started, made
