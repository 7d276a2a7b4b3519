"""Bridges that share a store, each as one process of a bridge, and a client that chooses the process of each message."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import aiohttp
import pytest
from typing_extensions import override

import mcprev
from api.wire import INFO, Message
from bridge.hands import Downstream
from bridge.insides import hub_of
from helpers.http_in_process import InProcess
from helpers.redis_server import RedisServer
from helpers.several_workers import Front, kill
from mcprev.bridge.bridge import Bridge
from mcprev.bridge.peers import Peers
from mcprev.bridge.shared_sessions import BridgedSessions
from mcprev.core.store import Store
from mcprev.revisions import Revision
from mcprev.transports.http.server.asgi import AsgiApp

STORES: Final = ("memory", "sqlite", "redis")
each_store = pytest.mark.parametrize("kind", STORES)
Place: TypeAlias = tuple[aiohttp.ClientSession, str]
"""One process: a session of HTTP, and the URL of the endpoint."""


@contextmanager
def stores(kind: str, folder: Path) -> Iterator[Callable[[], Store]]:
    """A function that opens the store that all processes share."""
    if kind == "memory":
        shared = mcprev.MemoryStore(clock=asyncio.get_running_loop().time)
        yield lambda: shared
    elif kind == "sqlite":
        yield lambda: mcprev.open_store(f"sqlite:///{folder}/bridge.db")
    else:
        server = RedisServer().start()
        try:
            yield lambda: mcprev.open_store(server.url())
        finally:
            server.end()


class SteeredFront(Front):
    """Gives requests to one process while a test says so."""

    only: int | None = None
    gone: frozenset[int] = frozenset()
    """The processes that get no more requests."""

    def __init__(self, apps: list[AsgiApp], seed: int = 0) -> None:
        super().__init__(apps, seed)
        self._serving: dict[asyncio.Task[None], int] = {}
        """The requests that are being served, and at which process."""

    @override
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        number = self.next()
        self.given.append(number)
        serving = asyncio.ensure_future(self.apps[number](scope, receive, send))
        self._serving[serving] = number
        try:
            await asyncio.wait({serving})
        finally:
            serving.cancel()
            del self._serving[serving]
        if not serving.cancelled():
            serving.result()  # else the connection is closed, as by the end of a process

    def leave(self, number: int) -> None:
        """Give a process no more requests, and close its connections."""
        self.gone |= {number}
        for serving, at in self._serving.items():
            if at == number:
                serving.cancel()

    @override
    def next(self) -> int:
        if self.only is not None:
            self._last = self.only
        else:
            while super().next() in self.gone:
                continue
        return self._last


class Fellows:
    """The processes while they run."""

    def __init__(self, bridges: list[Bridge], front: SteeredFront, places: list[Place], target: Any) -> None:
        self.bridges = bridges
        self.front = front
        self.places = places
        self.target = target
        """All of them behind the front."""

    def shared(self, at: int) -> BridgedSessions:
        """The sessions of a process."""
        shared = self.bridges[at]._clients.shared
        assert shared is not None
        return shared

    def peers(self, at: int) -> Peers:
        """The others, as a process sees them."""
        return self.shared(at)._peers

    def holders(self) -> list[int]:
        """The processes that hold a session."""
        return [at for at in range(len(self.bridges)) if self.shared(at)._held]

    def held_calls(self, at: int) -> int:
        """The calls that wait for a user at a process."""
        return sum(len(member.stateless.held) for member in hub_of(self.bridges[at]).members.values())

    async def kill(self, at: int) -> None:
        """End a process without a word; its lease is over, as some seconds later."""
        worker = self.peers(at)._worker
        number, lease = worker.number, worker._lease
        worker.abandon()
        assert lease is not None
        await lease.end()
        for other in range(len(self.bridges)):
            self.peers(other)._worker._alive.pop(number, None)
        await kill(self.front.apps[at])


@asynccontextmanager
async def fellows(
    make: Callable[[Store], Bridge], open_store: Callable[[], Store], count: int = 2, **options: Any
) -> AsyncGenerator[Fellows, None]:
    """Bridges that share a store, behind a front that gives no two requests in a row to the same one."""
    made = [open_store() for _ in range(count)]
    bridges = [make(store) for store in made]
    async with AsyncExitStack() as stack:
        for bridge in bridges:
            await stack.enter_async_context(bridge.running())
        apps = [bridge.asgi(**options) for bridge in bridges]
        front = SteeredFront(apps)
        connectors = [InProcess(front), *(InProcess(app) for app in apps)]
        sessions = [
            await stack.enter_async_context(aiohttp.ClientSession(connector=each)) for each in connectors
        ]
        places = [(session, f"{each.origin}/mcp") for session, each in zip(sessions, connectors, strict=True)]
        session, url = places.pop(0)
        try:
            yield Fellows(bridges, front, places, mcprev.http(url, session=session))
        finally:
            for app in apps:
                await app.aclose()
    for store in {id(each): each for each in made}.values():
        await store.aclose()


class ChoosingClient:
    """A client with a session over HTTP, which sends each message to the process that the test names."""

    def __init__(self, row: Revision, places: list[Place], headers: dict[str, str] | None = None) -> None:
        self.revision = row
        self.user = Downstream(row)
        """Answers what the client is asked."""
        self._places = places
        self._headers = {"Accept": "application/json, text/event-stream", **(headers or {})}
        self._numbers = 0
        self.told: list[Message] = []
        """The notifications that have come, in order."""
        self._news = asyncio.Event()

    async def post(self, at: int, message: Message) -> Message:
        """What is answered to a message; what is asked meanwhile is answered at the other process."""
        http, url = self._places[at]
        sent = {"jsonrpc": "2.0", **message}
        async with http.post(url, json=sent, headers=self._headers) as response:
            if "Mcp-Session-Id" in response.headers:
                self._headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
                self._headers["MCP-Protocol-Version"] = self.revision.version
            if response.content_type != "text/event-stream":
                body = await response.read()
                return cast("Message", json.loads(body)) if body else {}
            async for line in response.content:
                if line.startswith(b"data:") and line[5:].strip():
                    found = json.loads(line[5:])
                    if "method" not in found:
                        return cast("Message", found)
                    await self.heard(at, found)
        raise ConnectionError("the stream has ended without a response")

    async def heard(self, at: int, message: Message) -> None:
        """Take what comes on a stream of a process; answer what is asked at the other process."""
        if "id" not in message:
            self.told.append(message)
            self._news.set()
            return
        result = self.user.answer_to(message["method"], message.get("params"))
        await self.post((at + 1) % len(self._places), {"id": message["id"], "result": result})

    @property
    def session(self) -> str:
        """The id of the session."""
        return self._headers["Mcp-Session-Id"]

    async def begin(self, at: int) -> Message:
        """Begin the session at a process; what it says of itself."""
        said = {
            "protocolVersion": self.revision.version,
            "capabilities": self.user.capabilities,
            "clientInfo": INFO,
        }
        found = await self.request(at, "initialize", said)
        await self.notify(at, "notifications/initialized")
        return found

    async def asking(self, at: int, method: str, params: Any = None, *, id_: Any = None) -> Message:
        """The answer to a request."""
        self._numbers += 1
        message: Message = {"id": self._numbers if id_ is None else id_, "method": method}
        return await self.post(at, message | ({} if params is None else {"params": params}))

    async def request(self, at: int, method: str, params: Any = None) -> Message:
        """The result of a request."""
        found = await self.asking(at, method, params)
        assert "result" in found, found
        return cast("Message", found["result"])

    async def call_at(self, at: int, name: str, arguments: Any = None, **meta: Any) -> Message:
        """The result of a call of a tool."""
        params: Message = {"name": name, "arguments": arguments or {}}
        return await self.request(at, "tools/call", {**params, "_meta": meta} if meta else params)

    async def notify(self, at: int, method: str, params: Any = None) -> None:
        """Send a notification."""
        await self.post(at, {"method": method} | ({} if params is None else {"params": params}))

    @asynccontextmanager
    async def listening(self, at: int) -> AsyncGenerator[None, None]:
        """Read the session's own stream at a process."""
        http, url = self._places[at]
        opened = asyncio.Event()

        async def read() -> None:
            async with http.get(url, headers=self._headers) as response:
                assert response.status == 200, response.status
                opened.set()
                async for line in response.content:
                    if line.startswith(b"data:") and line[5:].strip():
                        await self.heard(at, json.loads(line[5:]))

        reading = asyncio.ensure_future(read())
        either: set[Awaitable[Any]] = {reading, asyncio.ensure_future(opened.wait())}
        await asyncio.wait(cast("Any", either), return_when=asyncio.FIRST_COMPLETED)
        assert opened.is_set(), reading
        try:
            yield
        finally:
            reading.cancel()
            await asyncio.wait({reading})

    async def hears(self, method: str) -> Message:
        """Wait for a notification, and take it; its params."""
        while True:
            for message in self.told:
                if message["method"] == method:
                    self.told.remove(message)
                    return cast("Message", message.get("params") or {})
            self._news.clear()
            await self._news.wait()

    async def end(self, at: int) -> None:
        """End the session."""
        http, url = self._places[at]
        async with http.delete(url, headers=self._headers) as response:
            assert response.status < 300, response.status
