"""A page of `mcprev dev` for tests: the process behind it, over real HTTP, and a client that asks as the page does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

import mcprev
from mcprev.client.targets import Target
from mcprev.dev.app import DevApp
from mcprev.dev.explore_site import ExploreSite
from mcprev.dev.inspector import Inspector
from mcprev.dev.launch import DirectLauncher, Launcher
from mcprev.serving.running import serve_http


@dataclass
class Page:
    """What a page knows: it follows the stream, and asks the API."""

    session: aiohttp.ClientSession
    url: str
    app: DevApp
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    told: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    """Everything that the stream told, in order."""
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.app.token}"}

    async def get(self, path: str) -> Any:
        async with self.session.get(f"{self.url}/api/{path}", headers=self.headers) as response:
            found = await response.json()
            return {**(found if isinstance(found, dict) else {"list": found}), "status": response.status}

    async def post(self, path: str, **members: Any) -> Any:
        async with self.session.post(
            f"{self.url}/api/{path}", headers=self.headers, json=members
        ) as response:
            return {**await response.json(), "status": response.status}

    async def call(
        self, method: str, params: Mapping[str, Any] | None = None, **members: Any
    ) -> dict[str, Any]:
        """Make a call and return its last state."""
        started = await self.post("call", method=method, params=params or {}, **members)
        assert started["status"] == 200, started
        return await self.ended(started["call"])

    async def ended(self, call: str) -> dict[str, Any]:
        found: dict[str, Any] = await self.until(
            "call", lambda one: one["call"] == call and one["ended"] is not None
        )
        return found

    async def verdict(self, number: int) -> int:
        """The number of problems of an event, which is told with the event or later."""
        while True:
            for channel, value in self.told:
                for one in value["events"] if channel == "wire" else [value] if channel == "verdict" else []:
                    if one["n"] == number and one["problems"] is not None:
                        found: int = one["problems"]
                        return found
            self.news.clear()
            await asyncio.wait_for(self.news.wait(), 15)

    async def until(self, channel: str, fits: Callable[[Any], bool]) -> Any:
        """The first thing that a channel has told, or will tell, that fits."""
        seen = 0
        while True:
            while seen < len(self.told):
                name, value = self.told[seen]
                seen += 1
                if name == channel and fits(value):
                    return value
            self.news.clear()
            if seen == len(self.told):
                await asyncio.wait_for(self.news.wait(), 15)

    async def follow(self) -> None:
        async with self.session.get(f"{self.url}/api/stream?since=1", headers=self.headers) as response:
            assert response.status == 200
            channel = ""
            async for raw in response.content:
                line = raw.decode().rstrip("\n")
                if line.startswith("event: "):
                    channel = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    value = json.loads(line.removeprefix("data: "))
                    if channel == "wire":
                        self.events += value["events"]
                    self.told.append((channel, value))
                    self.news.set()


def in_memory(server: mcprev.App | mcprev.Server) -> DirectLauncher:
    """A server of this process."""

    def make() -> Target:
        return mcprev.memory(server.server if isinstance(server, mcprev.App) else server)

    return DirectLauncher("here", ("server.py",), make, kind="command", transport="stdio")


@asynccontextmanager
async def opened(
    launcher: Launcher,
    *,
    revision: str | None = None,
    connected: bool = True,
    explore: ExploreSite | None = None,
    pages: bool = False,
) -> AsyncGenerator[Page, None]:
    """A page of a session, until the end of the block."""
    app = DevApp(Inspector(launcher, revision, pages=pages), explore)
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def ready(found: int) -> None:
        app.listens(found)
        port.set_result(found)

    serving = asyncio.ensure_future(serve_http(app, "127.0.0.1", 0, ready=ready))
    try:
        # The lines of a stream may be longer than a line of aiohttp's own.
        async with aiohttp.ClientSession(read_bufsize=2**26) as session:
            page = Page(session, f"http://127.0.0.1:{await port}", app)
            following = asyncio.create_task(page.follow())
            try:
                if connected:
                    await page.until("target", lambda one: one["state"] in ("connected", "failed"))
                yield page
            finally:
                following.cancel()
                await asyncio.wait({following})
    finally:
        serving.cancel()
        await asyncio.wait({serving})
