"""A bridge that drives an ASGI app in process: streams, disconnects, slow bodies, readers that stop reading."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, cast

from helpers.running import until
from mcprev.revisions import Revision
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.wire.sse import Decoder, Event

TYPES: Final = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
STREAM: Final = {"accept": "text/event-stream"}
PREFIX: Final = "io.modelcontextprotocol/"
INFO: Final = {"name": "tester", "version": "1"}
SCOPE: Final[Mapping[str, Any]] = {
    "server": ("127.0.0.1", 8000),
    "root_path": "",
    "http_version": "1.1",
    "scheme": "http",
}


class Exchange:
    """One request, as its client sees it."""

    def __init__(self, app: Any, scope: dict[str, Any], body: bytes | None) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.complete = False
        """Whether the answer came to its end."""
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.reading = asyncio.Event()
        self.reading.set()
        self.gone = False
        self._decoder = Decoder()
        self.events: list[Event] = []
        self._receiving = False
        if body is not None:
            self.give(body)
        self.task = asyncio.get_running_loop().create_task(app(scope, self._receive, self._send))

    def give(self, body: bytes, *, more: bool = False) -> None:
        """Send a part of the body."""
        self.sent.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def disconnect(self) -> None:
        """Hang up."""
        self.gone = True
        self.reading.set()
        self.sent.put_nowait({"type": "http.disconnect"})

    @property
    def awaited(self) -> bool:
        """Whether the app waits for a part of the body, or for the client to hang up."""
        return self._receiving and self.sent.empty()

    async def _receive(self) -> MutableMapping[str, Any]:
        self._receiving = True
        try:
            return await self.sent.get()
        finally:
            self._receiving = False

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        await self.reading.wait()
        if self.gone:
            raise OSError("the client disconnected")
        if message["type"] == "http.response.start":
            assert not self.status
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            return
        assert self.status
        assert not self.complete
        data: bytes = message.get("body", b"")
        self.body += data
        if self.headers.get("content-type") == "text/event-stream":
            self.events.extend(self._decoder.feed(data))
        self.complete = not message.get("more_body", False)

    async def done(self) -> Exchange:
        """Wait until the app has nothing more to do with it."""
        await self.task
        assert self.complete or self.gone
        return self

    async def begun(self) -> Exchange:
        """Wait for the status."""
        await until(lambda: self.status != 0 or self.task.done())
        return self

    async def heard(self, number: int) -> list[Any]:
        """Wait for a number of messages on the stream, and give all there are."""
        await until(lambda: len(self.messages) >= number or self.task.done())
        return self.messages

    @property
    def messages(self) -> list[Any]:
        """The messages of the stream."""
        return [json.loads(event.data) for event in self.events if event.is_message]

    @property
    def json(self) -> Any:
        """The JSON of the body."""
        assert self.headers["content-type"] == "application/json", (self.status, self.headers, self.body)
        assert int(self.headers["content-length"]) == len(self.body)
        return json.loads(self.body)

    @property
    def answers(self) -> list[Any]:
        """The answers, in whichever format they came."""
        if self.headers["content-type"] == "text/event-stream":
            return [message for message in self.messages if "method" not in message]
        found: Any = self.json
        return found if self.body.startswith(b"[") else [found]

    @property
    def result(self) -> Any:
        """The result of the only answer."""
        (answer,) = self.answers
        return answer["result"]

    @property
    def error(self) -> Any:
        """The error of the only answer."""
        (answer,) = self.answers
        return answer["error"]

    @property
    def text(self) -> str:
        """The text of the only block of a tool's result."""
        return str(self.result["content"][0]["text"])


class Client:
    """Sends requests to an app; what a session needs is added once there is one."""

    def __init__(self, app: AsgiApp | Any, path: str = "/mcp", **scope: Any) -> None:
        self.app = app
        self.path = path
        self.scope = {**SCOPE, **scope}
        self.session: dict[str, str] = {}
        self.revision: Revision | None = None

    def send(
        self,
        verb: str,
        body: object = None,
        headers: Mapping[str, str | None] | None = None,
        *,
        path: str | None = None,
        query: str = "",
        open_body: bool = False,
    ) -> Exchange:
        """Send a request. Headers that are None are left out."""
        merged: dict[str, str | None] = {
            **(TYPES if verb == "POST" else STREAM),
            **self.session,
            **(headers or {}),
        }
        pairs = [
            (name.encode(), value.encode("latin-1")) for name, value in merged.items() if value is not None
        ]
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        scope = {
            **self.scope,
            "type": "http",
            "method": verb,
            "path": path or self.path,
            "query_string": query.encode(),
            "headers": pairs,
        }
        return Exchange(self.app, scope, None if open_body else data)

    def post(self, body: object, headers: Mapping[str, str | None] | None = None) -> Exchange:
        """POST to the endpoint."""
        return self.send("POST", body, headers)

    def call(self, tool: str, arguments: object = None, id_: object = 1, **meta: Any) -> Exchange:
        """Call a tool in the way of the revision."""
        params: dict[str, Any] = {"name": tool, "arguments": arguments or {}}
        return self.request("tools/call", params, id_, **meta)

    def request(self, method: str, params: object = None, id_: object = 1, **meta: Any) -> Exchange:
        """Send a request in the way of the revision."""
        assert self.revision is not None
        message = request(method, params, id_)
        if not self.revision.handshake:
            return modern(self, self.revision, method, params, id_, **meta)
        if meta:
            message["params"] = {**(message.get("params") or {}), "_meta": meta}
        return self.post(message)

    async def open(self, row: Revision, **capabilities: object) -> Client:
        """Be a client of a revision: with a session, where it has them."""
        self.revision = row
        if not row.handshake:
            return self
        opened = await self.post(initialize(row, **capabilities)).done()
        assert opened.status == 200, opened.body
        assert opened.result["protocolVersion"] == row.version
        if "mcp-session-id" in opened.headers:
            self.session["mcp-session-id"] = opened.headers["mcp-session-id"]
        if row.version_header:
            self.session["mcp-protocol-version"] = row.version
        assert (await self.post(notification("notifications/initialized")).done()).status == 202
        return self


def modern(
    client: Client,
    row: Revision,
    method: str,
    params: object = None,
    id_: object = 1,
    *,
    headers: Mapping[str, str | None] | None = None,
    **meta: Any,
) -> Exchange:
    """A request that describes itself, with the headers that go with it."""
    stamp: dict[str, Any] = {PREFIX + "protocolVersion": row.version, PREFIX + "clientCapabilities": {}}
    stamp |= {name if "/" in name or name in BARE else PREFIX + name: value for name, value in meta.items()}
    stamp = {name: value for name, value in stamp.items() if value is not None}
    full: dict[str, Any] = {**cast("dict[str, Any]", params or {}), "_meta": stamp}
    said: dict[str, str | None] = {"mcp-protocol-version": row.version, "mcp-method": method}
    name = full.get("uri" if method == "resources/read" else "name")
    if isinstance(name, str):
        said["mcp-name"] = name
    return client.post(request(method, full, id_), {**said, **(headers or {})})


BARE: Final = ("progressToken", "traceparent", "tracestate", "baggage")


def request(method: str, params: object = None, id_: object = 1) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": id_, "method": method}
    return message if params is None else {**message, "params": params}


def notification(method: str, params: object = None) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def initialize(row: Revision, id_: object = "init", **capabilities: object) -> dict[str, Any]:
    params = {"protocolVersion": row.version, "capabilities": capabilities, "clientInfo": INFO}
    return request("initialize", params, id_)


async def lifespan(app: Any) -> tuple[asyncio.Queue[dict[str, Any]], list[str], asyncio.Task[None]]:
    """The lifespan of an app: what to tell it, what it answered, and its task."""
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    heard: list[str] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        heard.append(message["type"])

    task = asyncio.get_running_loop().create_task(app({"type": "lifespan"}, told.get, send))
    return told, heard, task
