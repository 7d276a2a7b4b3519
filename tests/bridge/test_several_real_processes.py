"""`mcprev bridge --workers 3 --store` with real stores, before a command and before a URL: clients of both eras, and losses.

Each request is a connection of its own, so the kernel chooses the process that gets it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

import mcprev
from bridge.test_processes import LIMIT, MODERN, OLD, answer, bridge
from helpers.redis_server import RedisServer
from helpers.requirements import req
from helpers.running import run
from helpers.served_workers import ServedWorkers, served
from mcprev.errors import WORKER_LOST
from mcprev.revisions import Revision

WORKERS: Final = 3
APP: Final = """
import asyncio
import os
import pathlib

import mcprev

app = mcprev.App("all", "1")
calls = 0


def note(file: str, what: str) -> None:
    with pathlib.Path(file).open("a") as notes:
        notes.write(what + "\\n")


@app.tool
def count() -> int:
    global calls
    calls += 1
    return calls


@app.tool
async def ask(ctx: mcprev.Context) -> str:
    found = await ctx.elicit("who?", str)
    return found.data if isinstance(found, mcprev.Accepted) else "nobody"


@app.tool
async def hang(file: str, ctx: mcprev.Context) -> str:
    await ctx.progress(1)
    note(file, "begun")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        note(file, "cancelled")
        raise
    return ""


@app.tool
async def change(ctx: mcprev.Context) -> str:
    ctx.changed("tools")
    ctx.changed("resource", "a://x")
    return "changed"


@app.resource("a://x")
def x() -> str:
    return "x"


@app.tool(task="optional")
async def build(seconds: float, ctx: mcprev.Context) -> str:
    await ctx.detach()
    await asyncio.sleep(seconds)
    return "built"
"""
PAIRS: Final = [*product((OLD, MODERN), (OLD, MODERN))]
WAYS: Final = [
    (*pair, *way)
    for number, pair in enumerate(PAIRS)
    for place, way in enumerate((("command", "sqlite"), ("url", "redis")))
    if os.environ.get("MCPREV_WORKERS") == "all" or place != (number + number // 2) % 2
]
"""Each pair of revisions in front of a server of a kind; in front of each kind if MCPREV_WORKERS is all."""

LOSSES: Final = (
    [(row, there, store) for row in (OLD, MODERN) for there in (OLD, MODERN) for store in ("sqlite", "redis")]
    if os.environ.get("MCPREV_WORKERS") == "all"
    else [(OLD, MODERN, "sqlite")]
)
"""The cells whose processes are killed: one of them in the suite, all with MCPREV_WORKERS=all in the environment."""


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a store."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/bridge.db"
        return
    server = RedisServer().start()
    yield server.url()
    server.end()


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """The file of a server."""
    file = tmp_path / "app.py"
    file.write_text(APP, encoding="utf-8")
    return file


@asynccontextmanager
async def bridged(app: Path, there: Revision, store: str, way: str) -> AsyncGenerator[ServedWorkers, None]:
    """A bridge in three processes before a server that is a command, or is reached at a URL."""
    async with AsyncExitStack() as stack:
        behind = ["--", sys.executable, "-m", "mcprev", "serve", str(app)]
        if way == "url":
            behind = [(await stack.enter_async_context(served(app, None))).url]
        options = "--server-revision", there.name, *behind
        yield await stack.enter_async_context(bridge(*options, store=store, workers=WORKERS))


@asynccontextmanager
async def connected(url: str, row: Revision, **options: Any) -> AsyncGenerator[mcprev.Client, None]:
    """A client whose requests are connections of their own."""
    connector = aiohttp.TCPConnector(force_close=True)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        mcprev.connect(
            mcprev.http(url, session=session), mode=row.name, elicitation=answer, **options
        ) as client,
    ):
        yield client


async def written(file: Path, what: str) -> None:
    """Wait until a server has noted something."""

    def is_there() -> bool:
        return file.exists() and what in file.read_text(encoding="utf-8")

    while not await asyncio.to_thread(is_there):  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.02)


@pytest.mark.slow
@req("SEAM-10", "CANC-7", "SUB-5", "TASK-5", "TASKX-2", "MRTR-4", at=(OLD.name, MODERN.name))
@pytest.mark.parametrize(
    ("row", "there", "way", "store"), WAYS, indirect=["store"], ids=lambda each: getattr(each, "name", each)
)
def test_everything_passes_through_three_processes(
    row: Revision, there: Revision, way: str, app: Path, store: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with bridged(app, there, store, way) as made, connected(made.url, row) as client:
            if row.handshake and there.handshake:
                assert [(await client.call_tool("count", {})).text for _ in range(6)] == list("123456")
            asked = (client.call_tool("ask", {}) for _ in range(6))
            assert [found.text for found in await asyncio.gather(*asked)] == ["Ada"] * 6

            for number in range(WORKERS):
                notes = tmp_path / f"cancelled {number}"
                call = asyncio.ensure_future(client.call_tool("hang", {"file": str(notes)}))
                await written(notes, "begun")
                call.cancel()
                await written(notes, "cancelled")

            if (
                way == "url" or row.handshake
            ):  # else each call has a server of its own, which tells nobody else
                async with client.listen(tools=True, uris="a://x") as changes:
                    assert (await client.call_tool("change", {})).text == "changed"
                    told = {(await anext(changes)).what for _ in range(2)}
                    assert told == {"tools", "resource"}

            if way == "url" or row.handshake or there.handshake:  # else each process has a server of its own
                built = await client.start_tool("build", {"seconds": 0.5})
                assert (await built.result()).text == "built"
                hanging = await client.start_tool("build", {"seconds": 600})
                assert await hanging.refresh() == "working"
                await hanging.cancel()
                assert hanging.status == "cancelled"

    run(main(), limit=LIMIT)


@pytest.mark.slow
@req("SEAM-10", "LIFE-16", at=(OLD.name, MODERN.name))
@pytest.mark.parametrize(
    ("row", "there", "store"), LOSSES, indirect=["store"], ids=lambda each: getattr(each, "name", each)
)
def test_clients_go_on_while_every_process_is_killed(
    row: Revision, there: Revision, app: Path, store: str, tmp_path: Path
) -> None:
    """What is in progress at a process ends with it, with an error of its type; whoever calls again is served."""

    async def main() -> None:
        async with bridged(app, there, store, "url") as made, connected(made.url, row) as client:
            for number in range(1, WORKERS + 1):
                notes = [tmp_path / f"{number} {each}" for each in range(4)]
                calls = [
                    asyncio.ensure_future(client.call_tool("hang", {"file": str(file)})) for file in notes
                ]
                for file in notes:
                    await written(file, "begun")
                made.kill(number)
                await made.until(starts=WORKERS + number)
                ended, _ = await asyncio.wait(calls, timeout=8)
                for call in ended:
                    error = call.exception()
                    if isinstance(error, mcprev.RpcError):
                        data: Any = error.data
                        assert (data["reason"], data["mayHaveRun"]) == (WORKER_LOST, True), error
                    else:
                        assert isinstance(error, mcprev.ConnectionLost), error
                for call in calls:
                    call.cancel()
                await asyncio.wait(calls)
                for call, file in zip(calls, notes, strict=True):
                    if (
                        call not in ended or not there.handshake
                    ):  # a lost connection cancels nothing in a session
                        await written(file, "cancelled")
                await client.list_tools()
                assert (await client.call_tool("ask", {})).text == "Ada"

    run(main(), limit=LIMIT)


@pytest.mark.slow
@req("SEAM-10", "HTTP-24", at=OLD.name)
@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_session_ends_at_every_process(app: Path, store: str, tmp_path: Path) -> None:
    """Its end reaches the process that holds it, whichever is told, and with it the server."""

    async def main() -> None:
        async with bridged(app, OLD, store, "command") as made:
            for number in range(4):
                notes = tmp_path / str(number)
                async with connected(made.url, OLD) as client:
                    call = asyncio.ensure_future(client.call_tool("hang", {"file": str(notes)}))
                    await written(notes, "begun")
                with pytest.raises(mcprev.ConnectionLost):
                    await call
                await written(notes, "cancelled")

    run(main(), limit=LIMIT)
