"""Pages served by the runtime's HTTP server: an app that is not MCP, on our connections and as an ASGI app."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec

import aiohttp
import pytest
from typing_extensions import override

import mcprev.serving.running
from helpers.running import run
from mcprev.protocol.http_request_class import HttpError
from mcprev.serving.running import serve_http
from mcprev.transports.http.security import OriginPolicy
from mcprev.transports.http.server.http_app import HttpApp
from mcprev.transports.http.server.options import HttpSettings
from mcprev.transports.http.server.request import HttpRequest

HTML = (b"content-type", b"text/html")


class Pages(HttpApp):
    """A page, a stream, and an address that says how much was posted."""

    def __init__(self) -> None:
        super().__init__(HttpSettings(max_body=1000, max_headers=4096))
        self.called: list[str] = []
        self.gone = asyncio.Event()
        self._policy = OriginPolicy((), None)

    @override
    async def start(self) -> None:
        self.called.append("start")

    @override
    async def stop(self) -> None:
        self.called.append("stop")

    @override
    async def aclose(self, *, linger: float = 0) -> None:
        self.called.append("aclose")

    @override
    async def serve(self, http_request: HttpRequest) -> None:
        refused = self._policy.refusal(http_request.headers, http_request.address)
        if refused is not None:
            await http_request.refuse(refused)
        elif http_request.verb == "POST":
            body = await http_request.read(self.settings.max_body, self.budget)
            if isinstance(body, HttpError):
                await http_request.refuse(body)
            else:
                await http_request.answer(200, (HTML,), b"%d bytes" % len(body))
        elif http_request.path == "/events":
            http_request.watch(self.gone.set)
            await http_request.begin(200, ((b"content-type", b"text/event-stream"),), b"data: 1\n\n")
            await http_request.write(b"data: 2\n\n")
            await self.gone.wait()
        else:
            await http_request.answer(200, (HTML,), f"<p>{http_request.path}".encode())


@asynccontextmanager
async def served(pages: Pages) -> AsyncGenerator[str, None]:
    """The address of an app that runs until the end of the block."""
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(serve_http(pages, "127.0.0.1", 0, ready=port.set_result))
    try:
        yield f"http://127.0.0.1:{await port}"
    finally:
        serving.cancel()
        await asyncio.wait({serving})


def without_httptools(name: str) -> object:
    """What `find_spec` says where httptools is not installed."""
    return None if name == "httptools" else find_spec(name)


@pytest.fixture(params=["httptools", "asgi"], autouse=True)
def connections(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of connections: our own, and those of uvicorn, which call an ASGI app."""
    if request.param == "asgi":
        monkeypatch.setattr(
            mcprev.serving.running,
            "find_spec",
            without_httptools,
        )


def test_pages_posts_and_streams_are_served() -> None:
    async def scenario() -> None:
        pages = Pages()
        async with served(pages) as url, aiohttp.ClientSession() as session:
            async with session.get(f"{url}/some/page") as page:
                assert (page.status, await page.text()) == (200, "<p>/some/page")
            async with session.post(url, data=b"x" * 10) as posted:
                assert await posted.text() == "10 bytes"
            async with session.get(f"{url}/events") as stream:
                received = b""
                while b"2" not in received:
                    received += await stream.content.readany()
                assert received == b"data: 1\n\ndata: 2\n\n"
                stream.close()
            await asyncio.wait_for(pages.gone.wait(), 10)
            assert pages.called == ["start"]
        assert pages.called == ["start", "aclose", "stop"]
        assert pages.budget.held == 0

    run(scenario())


@pytest.mark.parametrize(
    ("headers", "size", "status"),
    [
        ({"Origin": "https://evil.example"}, 1, 403),
        ({"Host": "rebound.example"}, 1, 403),
        ({}, 1001, 413),
        ({"X-Long": "x" * 5000}, 1, 431),
    ],
)
def test_the_limits_of_the_settings_and_the_policy_of_origins_hold(
    headers: dict[str, str], size: int, status: int
) -> None:
    async def scenario() -> None:
        async with (
            served(Pages()) as url,
            aiohttp.ClientSession() as session,
            session.post(url, data=b"x" * size, headers=headers) as refused,
        ):
            assert refused.status == status

    run(scenario())


def test_an_app_without_serve_is_no_app() -> None:
    with pytest.raises(NotImplementedError):
        run(HttpApp(HttpSettings()).serve(HttpRequest()))
