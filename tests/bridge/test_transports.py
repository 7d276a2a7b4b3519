"""The four cells over HTTP and over pipes, on both sides of the bridge: calls, progress, logs, questions, changes."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import pytest

import mcprev
from api.authors import Helpful
from api.scripted import form, sample, server, text
from api.test_proxy import said
from api.transports import Reach, asgi, http, memory, pipes
from fuzz.fuzzing import each_once
from helpers.http_in_process import InProcess
from helpers.requirements import E, req
from helpers.running import run, until
from mcprev.bridge.bridge import Bridge
from mcprev.revisions import DEFAULT, HttpShape, Revision
from mcprev_types.latest import models as m

SESSION: Final = [row for row in DEFAULT if row.handshake][-1]
OLDEST: Final = DEFAULT[0]
MODERN: Final = DEFAULT[-1]
MANY: Final = 24
WAYS: Final[dict[str, Reach]] = {"http": asgi(), "pipes": pipes, "sockets": http()}
BEHIND: Final[dict[str, Reach]] = {**WAYS, "pipes": memory}
"""How the server is reached: pipes in this process are for one connection."""
each_cell = pytest.mark.parametrize(
    ("row", "there"),
    [(row, there) for row in (SESSION, MODERN) for there in (SESSION, MODERN)],
    ids=lambda row: row.name,
)


class Tools:
    """What the server's tools do, and what they have seen."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.ended = asyncio.Event()

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        names = ("three", "busy", "hang", "who")
        return m.ListToolsResult(tools=[m.Tool(name=n, input_schema=m.ToolInputSchema()) for n in names])

    async def read_resource(self, ctx: mcprev.Context, params: Any) -> m.ReadResourceResult:
        return m.ReadResourceResult(contents=[m.TextResourceContents(uri=params.uri, text="x")])

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        match params.name:
            case "three":
                number = (params.arguments or {})["n"]
                await ctx.ask("one", form())
                await ctx.ask("two", sample())
                roots = await ctx.ask("three", m.ListRootsRequest())
                return text([number, roots.roots[0].uri])
            case "busy":
                for number in (1, 2, 3):
                    await ctx.progress(number, 3)
                    await ctx.log("error", (params.arguments or {}).get("n", number))
                return text("done")
            case "who":
                return text([ctx.client_info and ctx.client_info.name, dict(ctx.headers)])
            case _:
                self.began.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    self.ended.set()
                return text("never")


@asynccontextmanager
async def through(
    way: str, row: Revision, there: Revision, tools: Tools, **options: Any
) -> AsyncGenerator[tuple[mcprev.Client, mcprev.Server, Helpful], None]:
    """A client of one revision, and the server of another one behind the bridge, both reached in the same way."""
    made = server(
        {"validate": False, "revisions": [there.name]},
        list_tools=tools.list_tools,
        call_tool=tools.call_tool,
        read_resource=tools.read_resource,
    )
    helpful = Helpful()
    async with BEHIND[way](made, there) as target:
        bridge = Bridge(target, server_revisions=[there.name])
        async with (
            bridge.running(),
            WAYS[way](bridge, row) as mine,
            mcprev.connect(mine, mode=row.name, handler=helpful, **options) as client,
        ):
            yield client, made, helpful
        await until(lambda: not bridge._connections)


@pytest.mark.slow
@req("SEAM-10", "MRTR-11", "MRTR-12", at=(SESSION.name, E))
@pytest.mark.parametrize("way", ["http", "pipes"])
@each_cell
@each_once
def test_calls_at_once_with_three_questions_each(way: str, row: Revision, there: Revision) -> None:
    async def main() -> None:
        async with through(way, row, there, Tools()) as (client, _, helpful):
            assert [tool.name async for tool in client.tools()] == ["three", "busy", "hang", "who"]
            several = [client.call_tool("three", {"n": n}) for n in range(MANY)]
            found = await asyncio.gather(*several)
            assert [said(result) for result in found] == [f"[{n}, 'file:///x']" for n in range(MANY)]
            assert len(helpful.asked) == 3 * MANY

    run(main())


@req("SEAM-10", "PROG-1", "LOG-3", at=(SESSION.name, E))
@pytest.mark.parametrize("way", ["http", "pipes"])
@each_cell
def test_progress_and_logs_in_the_order_of_the_server(way: str, row: Revision, there: Revision) -> None:
    async def main() -> None:
        heard: list[float] = []
        async with through(way, row, there, Tools()) as (client, _, helpful):
            await client.set_log_level("error")
            result = await client.call_tool("busy", {}, progress=lambda done, _, __: heard.append(done))
            assert said(result) == "done"
            assert heard == [1, 2, 3]
            assert helpful.logs == [("error", 1), ("error", 2), ("error", 3)]

    run(main())


@req("SEAM-10", "CANC-2", "HTTPM-6", at=(SESSION.name, E))
@pytest.mark.parametrize("way", ["http", "pipes"])
@each_cell
def test_a_call_that_is_cancelled_ends_at_the_server(way: str, row: Revision, there: Revision) -> None:
    async def main() -> None:
        tools = Tools()
        async with through(way, row, there, tools) as (client, _, _):
            call = asyncio.ensure_future(client.call_tool("hang", {}))
            await tools.began.wait()
            call.cancel()
            await tools.ended.wait()

    run(main())


@req("SEAM-10", "SUB-3", "SUB-5", at=(SESSION.name, E))
@pytest.mark.parametrize("way", ["http", "pipes"])
@each_cell
def test_changes_reach_the_client(way: str, row: Revision, there: Revision) -> None:
    async def main() -> None:
        async with (
            through(way, row, there, Tools()) as (client, made, _),
            client.listen(tools=True, uris="a:x") as changes,
        ):
            made.changed("tools")
            made.changed("resource", "a:x")
            found = {await anext(changes) for _ in range(2)}
            assert {change.what for change in found} == {"tools", "resource"}

    run(main())


@req("SEAM-10", at=(OLDEST.name, SESSION.name, E))
@pytest.mark.parametrize(
    ("row", "there"), [(OLDEST, MODERN), (MODERN, OLDEST), (SESSION, MODERN)], ids=lambda row: row.name
)
def test_over_sockets(row: Revision, there: Revision) -> None:
    """Real HTTP on both sides, and HTTP+SSE where the revision has no other transport."""

    async def main() -> None:
        assert OLDEST.http is HttpShape.SSE
        async with through("sockets", row, there, Tools()) as (client, _, _):
            assert said(await client.call_tool("busy", {})) == "done"

    run(main())


@req("SEC-6", at=(SESSION.name, E))
@pytest.mark.parametrize("row", [SESSION, MODERN], ids=lambda row: row.name)
def test_no_header_of_a_client_reaches_the_server(row: Revision) -> None:
    """A client's token is for the bridge alone."""

    async def main() -> None:
        tools = Tools()
        made = server({"validate": False}, call_tool=tools.call_tool, list_tools=tools.list_tools)
        async with asgi()(made, MODERN) as target:
            bridge = Bridge(target)
            app = bridge.asgi()
            connector = InProcess(app)
            async with bridge.running(), aiohttp.ClientSession(connector=connector) as session:
                secret = {"Authorization": "Bearer secret", "Cookie": "a=secret", "X-Other": "secret"}
                mine = mcprev.http(connector.origin + "/mcp", session=session, headers=secret)
                async with mcprev.connect(mine, mode=row.name) as client:
                    shown = said(await client.call_tool("who", {}))
                assert "content-type" in shown
                assert "secret" not in shown
            await app.aclose()

    run(main())


@req("SEC-5", at=E)
@pytest.mark.parametrize("shared", [False, True])
def test_clients_without_a_principal_share_a_session_only_if_told_to(*, shared: bool) -> None:
    async def main() -> None:
        tools, sessions = Tools(), list[object]()
        made = server(
            {"validate": False, "revisions": [SESSION.name]},
            call_tool=tools.call_tool,
            list_tools=tools.list_tools,
        )
        connection = made.connection

        def counted() -> Any:
            sessions.append(connection())
            return sessions[-1]

        made.connection = counted  # type: ignore[method-assign]
        bridge = Bridge(mcprev.memory(made), shared=shared)
        async with (
            bridge.running(),
            asgi()(bridge, MODERN) as mine,
            mcprev.connect(mine, mode=MODERN.name) as client,
        ):
            for _ in range(3):
                assert said(await client.call_tool("busy", {})) == "done"
            await until(lambda: len(made._connections) == int(shared))
            assert len(sessions) == (
                1 if shared else 6
            ), "for discovery, list, each call, and what tools repeat"

    run(main())


class Slow:
    """A target that takes its time to be reached, longer than an answer over HTTP stays JSON."""

    def __init__(self, target: mcprev.Target) -> None:
        self._target = target

    async def open(self, *args: Any) -> Any:
        await asyncio.sleep(5)
        return await self._target.open(*args)

    async def close(self) -> None:
        await self._target.close()


@req("HTTP-19", "SEAM-10", at=SESSION.name)
def test_a_session_is_named_however_long_its_server_takes_to_start() -> None:
    async def main() -> None:
        tools = Tools()
        made = server({"validate": False}, call_tool=tools.call_tool, list_tools=tools.list_tools)
        bridge = Bridge(Slow(mcprev.memory(made)))
        async with (
            bridge.running(),
            asgi()(bridge, SESSION) as mine,
            mcprev.connect(mine, mode=SESSION.name) as client,
        ):
            assert said(await client.call_tool("busy", {})) == "done"

    run(main())


@req("HTTP-23", "SEAM-10", at=(SESSION.name, E))
@pytest.mark.parametrize("row", [SESSION, MODERN], ids=lambda row: row.name)
def test_calls_are_made_again_when_the_server_has_forgotten_its_session(row: Revision) -> None:
    async def main() -> None:
        tools = Tools()
        made = server(
            {"validate": False, "revisions": [SESSION.name]},
            call_tool=tools.call_tool,
            list_tools=tools.list_tools,
        )
        app = made.asgi()
        connector = InProcess(app)
        async with aiohttp.ClientSession(connector=connector) as session:
            bridge = Bridge(mcprev.http(connector.origin + "/mcp", session=session), shared=True)
            async with (
                bridge.running(),
                asgi()(bridge, row) as mine,
                mcprev.connect(mine, mode=row.name) as client,
            ):
                for _ in range(2):
                    several = [client.call_tool("busy", {}) for _ in range(3)]
                    assert [said(result) for result in await asyncio.gather(*several)] == ["done"] * 3
                    sessions = app.dispatcher.sessions
                    for each in list(sessions.all()):
                        sessions.end(each, "idle for too long")
        await app.aclose()
        await until(lambda: not connector.lanes)

    run(main())
