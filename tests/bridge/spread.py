"""A client by hand over HTTP, none of whose messages reaches the same process of a bridge as the one before it."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final, cast

import aiohttp
from typing_extensions import override

import mcprev
from api.wire import VERSION, HandClient, Message
from bridge.hands import Servers
from bridge.insides import front_of
from helpers.http_in_process import InProcess
from helpers.several_workers import kill as kill_sessions, memory
from mcprev.bridge.bridge import Bridge
from mcprev.errors import StoreError
from mcprev.revisions import HttpShape, Revision

ACCEPT: Final = "application/json, text/event-stream"
NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The param that a header repeats, by method."""
GET: Final = object()
"""What stands for the GET stream among the ids of requests."""


class Line(mcprev.MemoryStore):
    """The connection of one process to the store of all, which ends with the process."""

    def __init__(self, store: mcprev.Store) -> None:
        super().__init__()
        self.cut = False
        self._store = store

    @property
    def _there(self) -> mcprev.Store:
        if self.cut:
            raise StoreError("this process is dead")
        return self._store

    @override
    async def read(self, *args: Any) -> Any:
        return await self._there.read(*args)

    @override
    async def write(self, *args: Any, **options: Any) -> Any:
        return await self._there.write(*args, **options)

    @override
    async def remove(self, *args: Any, **options: Any) -> Any:
        return await self._there.remove(*args, **options)

    @override
    async def listed(self, *args: Any, **options: Any) -> Any:
        return await self._there.listed(*args, **options)

    @override
    async def append(self, *args: Any, **options: Any) -> Any:
        return await self._there.append(*args, **options)

    @override
    async def tail(self, *args: Any, **options: Any) -> Any:
        return await self._there.tail(*args, **options)

    @override
    async def complete(self, *args: Any, **options: Any) -> Any:
        return await self._there.complete(*args, **options)


class Processes:
    """Bridges to one server that share a store, each as a process of its own is."""

    def __init__(
        self, servers: Servers, there: Revision, count: int = 3, *, store: Any = None, **options: Any
    ) -> None:
        self.store: Any = memory() if store is None else store
        self.lines = [Line(self.store) for _ in range(count)]
        self.bridges = [
            Bridge(
                mcprev.memory(cast("Any", servers)),
                "b",
                server_revisions=[there.name],
                store=line,
                **options,
            )
            for line in self.lines
        ]
        self.apps: list[Any] = []
        self.ways: list[InProcess] = []
        self.alive: list[int] = []
        self._random = random.Random(0)  # noqa: S311 - tests only
        self._last = -1
        self._running: list[AsyncExitStack] = []

    def next(self) -> int:
        """The number of a process for the next message."""
        others = [number for number in self.alive if number != self._last] or self.alive
        self._last = self._random.choice(others)
        return self._last

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Processes, None]:
        """Serve in all of them."""
        try:
            for number, bridge in enumerate(self.bridges):
                stack = AsyncExitStack()
                await stack.enter_async_context(bridge.running())
                self._running.append(stack)
                self.apps.append(bridge.asgi(sse=True))
                self.ways.append(InProcess(self.apps[-1]))
                self.alive.append(number)
            yield self
        finally:
            for app in self.apps:
                await app.aclose()
            for stack in self._running:
                await stack.aclose()
            for way in self.ways:
                await way.close()

    async def kill(self, number: int) -> None:
        """End one as a process that is killed: nothing more of it reaches the store or a client."""
        self.alive.remove(number)
        self.lines[number].cut = True
        workers = self.peers(number)._worker, self.apps[number].dispatcher.directory.worker
        serving = set(workers[0]._serving)
        for worker in workers:
            worker.abandon()
        await kill_sessions(self.apps[number])
        if serving:
            await asyncio.wait(serving)
        await front_of(self.bridges[number]).state.aclose()
        self.bridges[number]._clients.shared = None
        self.lines[number].cut = False
        for worker in workers:
            if worker._lease is not None:
                await worker._lease.end()  # the store knows of a process of this machine that has ended
        self.lines[number].cut = True

    def peers(self, number: int) -> Any:
        """What a process knows of the others."""
        return front_of(self.bridges[number]).peers

    def shared(self, number: int) -> Any:
        """The sessions of a process that it shares."""
        return self.bridges[number]._clients.shared

    def holders(self) -> list[int]:
        """The processes that hold a session, once for each."""
        return [
            number
            for number in range(len(self.bridges))
            if self.shared(number)
            for _ in self.shared(number)._held
        ]


class Spread(asyncio.Transport):
    """What a client by hand has in place of a pipe: each of its messages is a request to another process."""

    def __init__(self, client: HandClient, processes: Processes) -> None:
        super().__init__()
        self.to: list[int] = []
        """The processes that the next messages go to; those after them to any."""
        self.given: list[int] = []
        """The process of each message."""
        self._client, self._processes = client, processes
        self._http = [aiohttp.ClientSession(connector=way, connector_owner=False) for way in processes.ways]
        self._headers: dict[str, str] = {}
        self._path = "/mcp"
        self._waiting: asyncio.Queue[Message] = asyncio.Queue()
        self._open: dict[Any, asyncio.Task[None]] = {}
        """The requests that are not answered, by the ids of their messages; that of the GET stream is `GET`."""
        self._endpoint = asyncio.Event()
        self._posting = asyncio.get_running_loop().create_task(self._run())
        client.connection_made(self)

    @property
    def session(self) -> str | None:
        """The id of the session."""
        return self._headers.get("Mcp-Session-Id")

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._waiting.put_nowait(json.loads(bytes(data)))

    @override
    def close(self) -> None:
        self._posting.cancel()
        for task in self._open.values():
            task.cancel()

    def _next(self) -> int:
        self.given.append(self.to.pop(0) if self.to else self._processes.next())
        return self.given[-1]

    def url(self, number: int) -> str:
        """The endpoint of a process."""
        return self._processes.ways[number].origin + self._path

    async def _run(self) -> None:
        """Send messages in their order; what is no request is taken before the next one is sent."""
        if self._client.revision.http is HttpShape.SSE:
            self._start(GET, self._get("/sse"))
            await self._endpoint.wait()
        while True:
            message = await self._waiting.get()
            method, id_ = message.get("method"), message.get("id")
            if method == "notifications/cancelled" and not self._client.revision.handshake:
                self.hang_up(message["params"]["requestId"])
            elif method is not None and id_ is not None:
                self._start(id_, self._post(message))
            else:
                await self._post(message)
                if method == "notifications/initialized" and self.session is not None:
                    self.listen()

    def listen(self) -> None:
        """Open a GET stream, in place of that before it."""
        self.hang_up(GET)
        self._start(GET, self._get(self._path))

    def hang_up(self, id_: Any) -> None:
        """Close the stream of a request, as clients of stateless revisions cancel it."""
        task = self._open.pop(id_, None)
        if task is not None:
            task.cancel()

    def _start(self, id_: Any, work: Coroutine[Any, Any, None]) -> None:
        task = self._open[id_] = asyncio.get_running_loop().create_task(work)

        def ended(_: object) -> None:
            if self._open.get(id_) is task:
                del self._open[id_]

        task.add_done_callback(ended)

    async def _post(self, message: Message) -> None:
        number, headers = self._next(), {"Accept": ACCEPT, **self._headers}
        if not self._client.revision.handshake:
            headers |= {
                "MCP-Protocol-Version": message["params"]
                .get("_meta", {})
                .get(VERSION, self._client.revision.name),
                "Mcp-Method": message["method"],
            }
            if message["method"] in NAMED:
                headers["Mcp-Name"] = message["params"][NAMED[message["method"]]]
            elif message["method"].startswith("tasks/") and "taskId" in message["params"]:
                headers["Mcp-Name"] = message["params"]["taskId"]
        async with self._http[number].post(self.url(number), json=message, headers=headers) as response:
            if "Mcp-Session-Id" in response.headers:
                self._headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
                self._headers["MCP-Protocol-Version"] = self._client.revision.version
            await self._read(response)

    async def _get(self, path: str) -> None:
        """Read a stream; it is opened again when it has ended, as that of a process which is killed does."""
        while True:
            number = self._next()
            url = self._processes.ways[number].origin + path
            with suppress(aiohttp.ClientError):
                async with self._http[number].get(
                    url, headers={"Accept": ACCEPT, **self._headers}
                ) as response:
                    assert response.status == 200, await response.text()
                    await self._read(response)

    async def _read(self, response: aiohttp.ClientResponse) -> None:
        """Give the client what a response carries."""
        if response.content_type != "text/event-stream":
            text = await response.text()
            if text and response.content_type == "application/json":
                self._client.data_received(text.encode() + b"\n")
            return
        event, data = "message", ""
        async for line in response.content:
            name, _, value = line.decode().rstrip("\r\n").partition(": ")
            if name == "event":
                event = value
            elif name == "data":
                data = value
            elif not name and data:
                if event == "endpoint":
                    self._path = data
                    self._endpoint.set()
                else:
                    self._client.data_received(data.encode() + b"\n")
                event, data = "message", ""

    def forget(self) -> None:
        """Take the session for ended."""
        self._headers.clear()

    async def delete(self) -> None:
        """End the session."""
        number = self._next()
        async with self._http[number].delete(self.url(number), headers=self._headers) as response:
            assert response.status in (200, 202, 204), response.status

    async def aclose(self) -> None:
        """Leave, with the end of the session."""
        self.hang_up(GET)
        if self.session is not None:
            await self.delete()
        tasks = {self._posting, *self._open.values()}
        self.close()
        await asyncio.wait(tasks)
        for http in self._http:
            await http.close()


@asynccontextmanager
async def spread(processes: Processes, *clients: HandClient) -> AsyncGenerator[list[Spread], None]:
    """Clients by hand of a bridge in several processes that runs."""
    async with processes.running():
        ways = [Spread(client, processes) for client in clients]
        try:
            for client in clients:
                await client.open()
            yield ways
            for client in clients:
                client.check()
        finally:
            for way in ways:
                await way.aclose()
