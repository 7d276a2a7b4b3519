"""The server that the HTTP tests talk to: tools that are slow, talk, ask, let their clients hang up, or never end."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

import mcprev
from api.authors import Everything, text
from helpers.running import run, until
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev_types.latest import models as m

QUICK = 0.02
"""Seconds after which an answer becomes a stream, for tests that wait for that."""
REGION = m.ToolInputSchema.from_wire(
    {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "size": {"type": "integer", "x-mcp-header": "Size"},
        },
    }
)


class Served(Everything):
    """What `Everything` does, and what matters over HTTP only."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.notes: list[Any] = []
        self.tools: list[m.Tool] = [m.Tool(name="region", input_schema=REGION)]
        self.running = 0
        self.lists = 0

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        """The tools that a test is about; for a principal, who could not call others, all."""
        self.lists += 1
        others = sorted(
            {name[3:] for name in dir(self) if name[:3] == "do_"} - {tool.name for tool in self.tools}
        )
        more = [
            m.Tool(name=name, input_schema=m.ToolInputSchema())
            for name in others
            if ctx.principal is not None
        ]
        return m.ListToolsResult(tools=[*self.tools, *more])

    async def do_region(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        return text(params.arguments)

    async def do_hold(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        """Say something, then wait for the gate."""
        self.running += 1
        try:
            await ctx.log("error", {"holding": params.arguments})
            await self.gate.wait()
        finally:
            self.running -= 1
        return text(params.arguments)

    async def do_quiet(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        """Wait for the gate without a word."""
        self.running += 1
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
        return text("quiet")

    async def do_stubborn(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        """End well although it was cancelled."""
        self.started.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.stopped.set()
        return text("stubborn")

    async def do_hang_up(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        """Let the client hang up, then wait for the gate."""
        self.notes.append(await ctx.close_stream(retry=(params.arguments or {}).get("retry")))
        self.notes.append(await ctx.close_stream())
        await ctx.log("error", "afterwards")
        await self.gate.wait()
        return text("come back")

    async def do_flood(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        """Say a great deal."""
        for number in range(2000):
            await ctx.log("error", "x" * 1000)
            self.notes.append(number)
        return text("flood")

    async def do_more(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        """Say something, wait for the gate, then say more than a client may leave unread."""
        await ctx.log("error", "first")
        await self.gate.wait()
        for number in range(8_000):
            await ctx.log("error", f"{number} " + "x" * 1000)
            self.notes.append(number)
        return text("more")

    async def do_endless(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        """Say something again and again, until cancelled."""
        self.running += 1
        try:
            while True:
                await ctx.log("error", "again")
        finally:
            self.running -= 1

    async def do_whose(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        return text(ctx.principal)

    async def do_tries(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        """Ask, and tell what came of it."""
        try:
            found = await ctx.ask("roots", m.ListRootsRequest())
        except mcprev.McpError as error:
            return text(type(error).__name__)
        return text([root.uri for root in found.roots])


@asynccontextmanager
async def listening(
    server: mcprev.Server, host: str = "127.0.0.1", **options: Any
) -> AsyncGenerator[str, None]:
    """A server on a free port of this machine; gives its URL."""
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(server.serve_http(host, 0, ready=port.set_result, **options))
    try:
        yield f"http://127.0.0.1:{await port}"
    finally:
        task.cancel()
        await asyncio.wait({task})


def who(scope: Mapping[str, Any]) -> str | None:
    """Who sends a request, as a header has it: stands for an authentication."""
    pairs: list[tuple[bytes, bytes]] = scope["headers"]
    return dict(pairs).get(b"who", b"").decode() or None


def work(
    test: Callable[[Served, Callable[..., AsgiApp]], Any],
    *,
    run: Callable[[Coroutine[Any, Any, None]], object] = run,
    **server_options: Any,
) -> None:
    """Run a test with a handler and a way to make apps of its server, which are closed in the end."""

    async def main() -> None:
        handler = Served()
        server = mcprev.Server(handler, "served", "1", **server_options)
        apps: list[AsgiApp] = []

        def make(**options: Any) -> AsgiApp:
            apps.append(server.asgi(**options))
            return apps[-1]

        try:
            await test(handler, make)
        finally:
            handler.gate.set()
            for app in apps:
                await app.aclose()

    run(main())


def server_of(app: AsgiApp) -> mcprev.Server:
    """The server of an app, which the app knows by its interface alone."""
    assert isinstance(app.server, mcprev.Server)
    return app.server


async def announced(app: Any) -> None:
    """Wait until every worker knows of all changes; the only process of a server knows of them at once.

    Until then a worker may tell its client of a change with those that it knows, and again when it learns of a later one.
    """
    every = [server.changes for server in getattr(app, "servers", ()) if server.changes is not None]

    def known() -> bool:
        numbers = {each.log and each.log.number for each in every}
        return not any(each._own for each in every) and len(numbers) <= 1

    await until(known)
