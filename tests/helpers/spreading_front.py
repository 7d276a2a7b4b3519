"""An HTTP proxy in front of several processes of one server: it gives no two requests in a row to the same one."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

HOP: Final = ("connection", "keep-alive", "transfer-encoding")
"""The headers of one connection, which are not passed on."""
ADDED: Final = ("accept", "accept-encoding", "content-type", "user-agent")
"""The headers that aiohttp would add by itself."""


class SpreadingFront:
    """Passes each request on as it is, on a connection of its own, and its response as it comes."""

    def __init__(self, ports: Sequence[int], seed: int = 0) -> None:
        self.port = 0
        self.given: list[int] = []
        """The port that each request was given to."""
        self._ports = ports
        self._random = random.Random(seed)  # noqa: S311 - tests only
        self._http: aiohttp.ClientSession

    def next(self) -> int:
        """The port for the next request."""
        self.given.append(self._random.choice([port for port in self._ports if port not in self.given[-1:]]))
        return self.given[-1]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Pass on one request. If its client goes, or the process, so does the other connection."""
        url = URL(f"http://127.0.0.1:{self.next()}{request.raw_path}", encoded=True)
        body = await request.read()
        response = web.StreamResponse()
        try:
            async with self._http.request(
                request.method, url, headers=_passed_on(request.headers), data=body or None,
                allow_redirects=False, skip_auto_headers=ADDED,
            ) as got:  # fmt: skip
                response.headers.update(_passed_on(got.headers))
                response.set_status(got.status, got.reason)
                await response.prepare(request)
                async for data in got.content.iter_any():
                    await response.write(data)
                await response.write_eof()
        except (aiohttp.ClientError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()
        return response

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[SpreadingFront, None]:
        """Listen at a free port of this machine."""
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        ) as self._http:
            runner = web.ServerRunner(web.Server(self.handle, handler_cancellation=True), shutdown_timeout=0)
            await runner.setup()
            try:
                site = web.TCPSite(runner, "127.0.0.1", 0)
                await site.start()
                self.port = int(runner.addresses[0][1])
                yield self
            finally:
                await runner.cleanup()


def _passed_on(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    found = headers.copy()
    for name in HOP:
        found.popall(name, None)
    return found
