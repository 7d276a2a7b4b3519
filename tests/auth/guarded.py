"""A server that wants tokens, a table of tokens, and two ways to talk to it: plain ASGI, and its own connections."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import aiohttp
from multidict import CIMultiDict
from yarl import URL

import mcprev
from api.authors import text
from helpers.asgi_bridge import SCOPE, STREAM, TYPES, Client, Exchange, initialize, notification, request
from helpers.requirements import B, C, D, E
from helpers.running import until
from helpers.served import Served
from mcprev.revisions import Revision, revision_named
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.wire.sse import Decoder, Event

ROWS: Final = [revision_named(name) for name in (B, C, D, E)]
"""The revisions with authorization."""
RESOURCE: Final = "https://mcp.example/mcp"
ISSUER: Final = "https://as.example"
METADATA: Final = "https://mcp.example/.well-known/oauth-protected-resource/mcp"
Pairs: TypeAlias = Sequence[tuple[str, str]]


class Guarded(Served):
    """Says what its handlers see of a token."""

    def __init__(self) -> None:
        super().__init__()
        self.listed_by: list[mcprev.Access | None] = []

    async def list_tools(self, ctx: mcprev.Context, params: Any) -> Any:
        self.listed_by.append(ctx.access)
        return await super().list_tools(ctx, params)

    async def do_access(self, ctx: mcprev.Context, params: Any) -> Any:
        access = ctx.access
        assert access is not None
        assert ctx.principal == access.subject
        return text(
            json.dumps([access.subject, access.client_id, sorted(access.scopes), dict(access.claims)])
        )


class Tokens:
    """The tokens that are good, and what else looking at one may come to."""

    def __init__(self, **known: Any) -> None:
        self.now = 1000.0
        self.seen: list[str] = []
        self.gate = asyncio.Event()
        self.known: dict[str, Any] = {
            "alice": good("alice"),
            "alice2": good("alice", client_id="other"),
            "bob": good("bob"),
            **known,
        }

    async def verify(self, token: str) -> Any:
        self.seen.append(token)
        found = self.known.get(token)
        if isinstance(found, BaseException):
            raise found
        if found is asyncio.Event:
            await self.gate.wait()
            return self.known["alice"]
        return found

    def bearer(self, **options: Any) -> mcprev.Bearer:
        options = {"resource": RESOURCE, "authorization_servers": [ISSUER], **options}
        return mcprev.Bearer(self.verify, clock=lambda: self.now, **options)


def good(subject: str, **said: Any) -> mcprev.Access:
    merged: dict[str, Any] = {"audience": RESOURCE, "expires": 2000.0, **said}
    return mcprev.Access(subject, **merged)


def shows(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def challenge(headers: Mapping[str, str]) -> dict[str, str]:
    """The parameters of a challenge, none of which may be there twice."""
    value = headers["www-authenticate"]
    assert value.startswith("Bearer ")
    parameter = r'([a-z_]+)="([^"\\]*)"'
    assert re.fullmatch(rf"{parameter}(?:, {parameter})*", value[7:]), value
    found = re.findall(parameter, value[7:])
    assert len(dict(found)) == len(found)
    return dict(found)


# -- two ways --------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json", self
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.json["error"]

    @property
    def text(self) -> str:
        return str(self.json["result"]["content"][0]["text"])


class Stream(Protocol):
    """An answer that is a stream, as far as it came."""

    events: list[Event]

    async def heard(self, number: int) -> list[Event]:
        """Wait for a number of events, or for the end."""
        ...

    async def ended(self) -> None:
        """Wait for its proper end."""
        ...

    async def hang_up(self) -> None: ...


class Ask(Protocol):
    async def __call__(self, verb: str, target: str, headers: Pairs = (), body: object = None) -> Answer: ...

    async def stream(self, verb: str, target: str, headers: Pairs = (), body: object = None) -> Stream:
        """The same for what is answered with a stream."""
        ...


class AsgiStream:
    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.events = exchange.events

    async def heard(self, number: int) -> list[Event]:
        await until(lambda: len(self.events) >= number or self._exchange.task.done())
        return self.events

    async def ended(self) -> None:
        await self._exchange.done()
        assert self._exchange.complete

    async def hang_up(self) -> None:
        self._exchange.disconnect()
        await self._exchange.done()


class AsgiAsk:
    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    def _begin(self, verb: str, target: str, headers: Pairs, body: object) -> Exchange:
        path, _, query = target.partition("?")
        scope = {
            **SCOPE,
            "type": "http",
            "method": verb,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
        }
        return Exchange(self._app, scope, b"" if body is None else json.dumps(body).encode())

    async def __call__(self, verb: str, target: str, headers: Pairs = (), body: object = None) -> Answer:
        found = await self._begin(verb, target, headers, body).done()
        return Answer(found.status, found.headers, found.body)

    async def stream(self, verb: str, target: str, headers: Pairs = (), body: object = None) -> Stream:
        found = await self._begin(verb, target, headers, body).begun()
        assert (found.status, found.headers["content-type"]) == (200, "text/event-stream")
        return AsgiStream(found)


@asynccontextmanager
async def over_asgi(server: mcprev.Server, **options: Any) -> AsyncGenerator[Ask, None]:
    """The server as an app, called in process."""
    app = server.asgi(**options)
    try:
        yield AsgiAsk(app)
    finally:
        await app.aclose()


class HttpStream:
    def __init__(self, got: aiohttp.ClientResponse) -> None:
        self._got = got
        self._decoder = Decoder()
        self.events: list[Event] = []
        self._task = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        async for data in self._got.content.iter_any():
            self.events.extend(self._decoder.feed(data))

    async def heard(self, number: int) -> list[Event]:
        await until(lambda: len(self.events) >= number or self._task.done())
        return self.events

    async def ended(self) -> None:
        await self._task

    async def hang_up(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})
        self._got.close()


class HttpAsk:
    def __init__(self, http: aiohttp.ClientSession, port: int) -> None:
        self._http = http
        self._port = port

    async def _begin(self, verb: str, target: str, headers: Pairs, body: object) -> aiohttp.ClientResponse:
        url = URL(f"http://127.0.0.1:{self._port}{target}", encoded=True)
        data = None if body is None else json.dumps(body)
        return await self._http.request(verb, url, headers=CIMultiDict(headers), data=data)

    async def __call__(self, verb: str, target: str, headers: Pairs = (), body: object = None) -> Answer:
        async with await self._begin(verb, target, headers, body) as got:
            said = {name.lower(): value for name, value in got.headers.items()}
            return Answer(got.status, said, await got.read())

    async def stream(self, verb: str, target: str, headers: Pairs = (), body: object = None) -> Stream:
        got = await self._begin(verb, target, headers, body)
        assert (got.status, got.content_type) == (200, "text/event-stream")
        return HttpStream(got)


@asynccontextmanager
async def over_http(server: mcprev.Server, **options: Any) -> AsyncGenerator[Ask, None]:
    """The server on connections of its own."""
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(server.serve_http(port=0, ready=port.set_result, **options))
    async with aiohttp.ClientSession() as http:
        try:
            yield HttpAsk(http, await port)
        finally:
            task.cancel()
            await asyncio.wait({task})


Way: TypeAlias = Callable[..., AbstractAsyncContextManager[Ask]]
WAYS: Final[Sequence[Way]] = (over_asgi, over_http)


def asked(row: Revision, tool: str = "echo", **arguments: Any) -> tuple[str, str, dict[str, str], Any]:
    """A call of a tool in the way of a revision, whatever session it belongs to."""
    captured: list[tuple[Any, dict[str, str] | None]] = []

    class Listening(Client):
        def post(self, body: object, headers: Any = None) -> Any:
            captured.append((body, headers))

    client = Listening(None)
    client.revision = row
    client.call(tool, arguments)
    ((body, headers),) = captured
    said = {**TYPES, **(headers or {})}
    if row.handshake and row.version_header:
        said["mcp-protocol-version"] = row.version
    return "POST", "/mcp", said, body


def everything(row: Revision) -> list[tuple[str, str, dict[str, str], Any]]:
    """A request of every kind."""
    verb, path, headers, call = asked(row)
    return [
        (verb, path, headers, call),
        ("POST", "/mcp", dict(TYPES), initialize(row)),
        ("POST", "/mcp", dict(TYPES), notification("notifications/initialized")),
        ("POST", "/mcp", dict(TYPES), "no message"),
        ("GET", "/mcp", dict(STREAM), None),
        ("DELETE", "/mcp", {}, None),
        ("OPTIONS", "/mcp", {}, None),
        ("GET", "/sse", dict(STREAM), None),
        ("POST", "/messages?sessionId=x", dict(TYPES), request("ping")),
    ]


async def session(ask: Ask, row: Revision, token: str, scheme: str = "Bearer ") -> dict[str, str]:
    """The headers of a client of a revision, with a session where it has them."""
    said = {"authorization": scheme + token}
    if not row.handshake:
        return said
    opened = await ask("POST", "/mcp", [*TYPES.items(), *said.items()], initialize(row))
    assert opened.status == 200, opened
    return {**said, "mcp-session-id": opened.headers["mcp-session-id"]}
