"""What the front of the conformance suite does: it gives each request to another process, and passes on all else as it is."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import pairwise

import aiohttp
from aiohttp import web

from helpers.running import run, until
from helpers.spreading_front import SpreadingFront


class Process:
    """A server that says what it was asked, and streams until its client goes."""

    def __init__(self) -> None:
        self.streams = 0

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.raw_path == "/lost":
            assert request.transport is not None
            request.transport.abort()
        if request.method != "GET":
            body = await request.text()
            said = f"{request.method} {request.raw_path} {request.headers['x-said']} {request.host} {body}"
            return web.Response(status=418, reason="Odd", text=said, headers={"x-answered": "yes"})
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        self.streams += 1
        try:
            await response.write(b"data: 1\n\n")
            await asyncio.Event().wait()
        finally:
            self.streams -= 1
        return response


def test_it_passes_on_each_request_to_another_process_and_what_is_streamed_at_once() -> None:
    async def main() -> None:
        process = Process()
        async with AsyncExitStack() as stack:
            ports: list[int] = []
            for _ in range(3):
                runner = web.ServerRunner(web.Server(process, handler_cancellation=True), shutdown_timeout=0)
                await runner.setup()
                stack.push_async_callback(runner.cleanup)
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                ports.append(runner.addresses[0][1])
            front = await stack.enter_async_context(SpreadingFront(ports).listening())
            http = await stack.enter_async_context(aiohttp.ClientSession())
            origin = f"http://127.0.0.1:{front.port}"
            for _ in range(30):
                headers = {"x-said": "so", "host": "mcp.example"}
                async with http.post(f"{origin}/a%20b?c=d", data="text", headers=headers) as got:
                    assert (got.status, got.reason, got.headers["x-answered"]) == (418, "Odd", "yes")
                    assert await got.text() == "POST /a%20b?c=d so mcp.example text"
            assert set(front.given) == {*ports}
            assert all(one != other for one, other in pairwise(front.given))
            async with http.get(origin) as got:
                assert await got.content.readline() == b"data: 1\n"
                assert process.streams == 1
                got.close()
            await until(lambda: process.streams == 0)
            try:
                async with http.post(f"{origin}/lost"):
                    raise AssertionError("a lost connection was answered")
            except aiohttp.ClientError:
                pass

    run(main())
