"""Ways to reach a server, so that what a client and a server do together is tried over each of them.

`reach` is how tests get from a server to a target. It is memory, unless a module that runs the same tests over another
transport says otherwise with `over`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from types import ModuleType
from typing import Any, TypeAlias

import aiohttp

import mcprev
from helpers.http_in_process import InProcess
from helpers.running import until
from mcprev.core.connection import Connection
from mcprev.core.interfaces import RequestHandler
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.revisions import HttpShape, Revision
from mcprev.server.service import Service
from mcprev.transports.lines import LineConnection
from mcprev.transports.stdio.pipes import PipeTransport

Reach: TypeAlias = Callable[[Service, Revision], AbstractAsyncContextManager[mcprev.Target]]


@asynccontextmanager
async def memory(server: Service, row: Revision) -> AsyncGenerator[mcprev.Target, None]:
    """In this process, over lines."""
    yield mcprev.memory(server)


@asynccontextmanager
async def listening(server: Service, **options: Any) -> AsyncGenerator[str, None]:
    """Run a server on uvicorn, in this loop; its origin."""
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(server.serve_http(port=0, ready=port.set_result, **options))
    try:
        yield f"http://127.0.0.1:{await port}"
    finally:
        serving.cancel()
        await asyncio.wait({serving})


def http(**options: Any) -> Reach:
    """Over HTTP, in the way of the revision; the options are those of the server."""

    @asynccontextmanager
    async def reach(server: Service, row: Revision) -> AsyncGenerator[mcprev.Target, None]:
        async with listening(server, sse=True, **options) as origin:
            yield mcprev.http(origin + ("/sse" if row.http is HttpShape.SSE else "/mcp"))

    return reach


def asgi(**options: Any) -> Reach:
    """Over HTTP without a socket: the ASGI app as any server would run it, in the way of the revision."""

    @asynccontextmanager
    async def reach(server: Service, row: Revision) -> AsyncGenerator[mcprev.Target, None]:
        app = server.asgi(sse=True, **options)
        connector = InProcess(app)
        async with aiohttp.ClientSession(connector=connector) as session:
            path = "/sse" if row.http is HttpShape.SSE else "/mcp"
            yield mcprev.http(connector.origin + path, session=session)
        await app.aclose()
        await until(lambda: not connector.lanes)

    return reach


_reach: list[Reach] = [memory]


@asynccontextmanager
async def reach(server: Service, row: Revision) -> AsyncGenerator[mcprev.Target, None]:
    """A target for a server, over the transport of the day; afterwards nothing of it is left."""
    async with _reach[-1](server, row) as target:
        yield target
    await until(lambda: not server._connections)  # pyright: ignore[reportPrivateUsage]


@contextmanager
def over(way: Reach) -> Generator[None, None, None]:
    """Reach servers in another way."""
    _reach.append(way)
    try:
        yield
    finally:
        _reach.pop()


class _Pipes:
    """A server in this process at the other end of two pipes, as a process of its own would be."""

    def __init__(self, server: Service) -> None:
        self._server = server
        self._served: Connection | None = None

    async def open(self, side: ClientProtocol, desk: RequestHandler[Connection], /) -> Connection:
        up, down = os.pipe(), os.pipe()
        served = self._server.connection()
        connection = LineConnection(side, desk, logging.getLogger("mcprev.client"), linger=0)
        await PipeTransport(served).open(up[0], down[1])
        await PipeTransport(connection).open(down[0], up[1])
        self._served = served
        return connection

    async def close(self) -> None:
        if self._served is not None:
            await self._served.aclose()


@asynccontextmanager
async def pipes(server: Service, row: Revision) -> AsyncGenerator[mcprev.Target, None]:
    """Over pipes, as stdio is."""
    yield _Pipes(server)


def those_that_reach(module: ModuleType) -> dict[str, Any]:
    """The tests of a module that get to their server by its `at`, and so by whichever transport."""
    return {
        name: test
        for name, test in vars(module).items()
        if name.startswith("test_") and "at" in test.__code__.co_names
    }
