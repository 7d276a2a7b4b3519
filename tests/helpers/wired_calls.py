"""The bytes of requests to send on connections of our own, and what their tests share."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from helpers.asgi_bridge import PREFIX, TYPES, initialize, notification, request
from helpers.requirements import B, C, D, E
from helpers.running import until
from helpers.wired import Answer, Wire, chunked, head
from mcprev.revisions import Revision, revision_named

SESSIONS: Final = [revision_named(name) for name in (B, C, D)]
MAX_BODY: Final = 3_000
MAX_HEADERS: Final = 2_000
SMALL: Final = {"max_body": MAX_BODY, "max_headers": MAX_HEADERS}


def said(tool: str, arguments: object = None, id_: object = 1) -> bytes:
    """A call that describes itself."""
    meta: dict[str, Any] = {
        PREFIX + "protocolVersion": E,
        PREFIX + "clientCapabilities": {},
        PREFIX + "logLevel": "debug",
    }
    return json.dumps(
        request("tools/call", {"name": tool, "arguments": arguments or {}, "_meta": meta}, id_)
    ).encode()


def fields(tool: str = "echo", **more: str) -> list[tuple[str, str]]:
    """The headers of such a call, but for those of its length."""
    routing = {"mcp-protocol-version": E, "mcp-method": "tools/call", "mcp-name": tool}
    more = {name.replace("_", "-"): value for name, value in more.items()}
    return [("Host", "localhost:8000"), *{**TYPES, **routing, **more}.items()]


def call(
    tool: str = "echo",
    arguments: object = None,
    id_: object = 1,
    *,
    target: str = "/mcp",
    version: str = "1.1",
    **more: str,
) -> bytes:
    """The bytes of a call."""
    body = said(tool, arguments, id_)
    pairs = [*fields(tool, **more), ("Content-Length", str(len(body)))]
    return head("POST", target, pairs, version=version) + body


def in_chunks(
    *parts: bytes, trailer: bytes = b"", offers: Mapping[str, str] = MappingProxyType({}), tool: str = "echo"
) -> bytes:
    """The same in chunks."""
    return head("POST", "/mcp", [*fields(tool, **offers), ("Transfer-Encoding", "chunked")]) + chunked(
        *(parts or (said("echo"),)), trailer=trailer
    )


def broken(line: bytes) -> bytes:
    """A call with one more line in its head."""
    return call().replace(b"\r\n", b"\r\n" + line + b"\r\n", 1)


def ids(answers: Sequence[Answer]) -> list[Any]:
    """What was answered, by id."""
    return [json.loads(answer.body)["id"] for answer in answers]


def texts(answers: Sequence[Answer]) -> list[str]:
    """What the tools said."""
    return [json.loads(answer.body)["result"]["content"][0]["text"] for answer in answers]


async def opened(wire: Wire, row: Revision) -> dict[str, str]:
    """Open a session; the headers that are its."""

    async def post(message: object, more: Mapping[str, str]) -> Answer:
        body = json.dumps(message).encode()
        before = len(wire.answers())
        wire.send(head("POST", "/mcp", {**TYPES, **more, "content-length": str(len(body))}) + body)
        await wire.settled()
        return wire.answers()[before]

    session = {"mcp-session-id": (await post(initialize(row), {})).get("mcp-session-id") or ""}
    if row.version_header:
        session["mcp-protocol-version"] = row.version
    assert (await post(notification("notifications/initialized"), session)).status == 202
    wire.received = b""
    return session


def in_session(session: Mapping[str, str], tool: str, id_: object = 1) -> bytes:
    """A call in a session."""
    body = json.dumps(request("tools/call", {"name": tool, "arguments": {}}, id_)).encode()
    return head("POST", "/mcp", {**TYPES, **session, "content-length": str(len(body))}) + body


async def gone(wire: Wire, held: int | None = 0) -> None:
    """Wait until the connection is closed, and see that nothing is left of it but what others `held`, if that counts."""
    await until(lambda: wire.lost)
    await until(lambda: wire.http._serving is None)
    assert held is None or wire.http.http_server.app.budget.held == held
    assert not wire.http.queue
