"""`mcprev bridge` in several real processes that share a store, where no two requests in a row reach the same one."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

import mcprev
from helpers.redis_server import RedisServer
from helpers.requirements import E, req
from helpers.running import run
from helpers.served_workers import LISTENS, ServedWorkers, free_port
from helpers.spreading_front import SpreadingFront
from mcprev.revisions import DEFAULT, Revision

APP: Final = """
import mcprev

app = mcprev.App("counter", "1")
calls = 0


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
async def steps(ctx: mcprev.Context) -> str:
    for step in (1, 2, 3):
        await ctx.progress(step, 3)
    return "done"
"""
OLD: Final = [row for row in DEFAULT if row.handshake][-1]
MODERN: Final = DEFAULT[-1]
LIMIT: Final = 120.0
"""Seconds for a test: each connection to the server is a process that starts."""
ASKED: Final = [row for row in DEFAULT if "elicitation/create" in row.methods]
"""The revisions whose clients can be asked for input."""
STORES: Final = ("sqlite", "redis")
ALL: Final = os.environ.get("MCPREV_WORKERS") == "all"
CELLS: Final[list[tuple[Revision, Revision, str]]] = (
    [*product(ASKED, (OLD, MODERN), STORES)] if ALL else [(OLD, MODERN, "redis"), (MODERN, MODERN, "sqlite")]
)
"""Some pairs of revisions with one store; each with each, if MCPREV_WORKERS is all.

What is stored of a question or a session are records and logs, whatever the store: `tests/stores` has what stores do; and
`test_spread_matrix` has each pair of revisions at several processes in one.
"""


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a store."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/bridge.db"
        return
    server = RedisServer().start()
    yield server.url()
    server.end()


@asynccontextmanager
async def bridge(
    *arguments: str, store: str, workers: int | None = None
) -> AsyncGenerator[ServedWorkers, None]:
    """`mcprev bridge` over HTTP while it runs; None workers: one process without a supervisor."""
    port = free_port()
    count = () if workers is None else ("--workers", str(workers))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mcprev", "bridge", "--http", f"127.0.0.1:{port}", *count, "--log-level", "info", *arguments,
        stderr=asyncio.subprocess.PIPE, limit=1024 * 1024, env={**os.environ, "MCPREV_STORE": store},
    )  # fmt: skip
    made = ServedWorkers(process, port)
    try:
        await made.until(LISTENS, starts=workers or 0)
        yield made
    finally:
        await made.aclose()


@asynccontextmanager
async def two(*arguments: str, store: str) -> AsyncGenerator[str, None]:
    """The URL of a front of two processes of one bridge."""
    async with AsyncExitStack() as stack:
        made = [await stack.enter_async_context(bridge(*arguments, store=store)) for _ in range(2)]
        front = await stack.enter_async_context(SpreadingFront([each.port for each in made]).listening())
        yield f"http://127.0.0.1:{front.port}/mcp"


@pytest.fixture
def app(tmp_path: Path) -> str:
    """The file of a server."""
    file = tmp_path / "app.py"
    file.write_text(APP, encoding="utf-8")
    return str(file)


async def answer(_params: Any) -> dict[str, str]:
    return {"value": "Ada"}


@pytest.mark.slow
@req("SEAM-10", "HTTP-3", at=E)
def test_workers_of_the_command_are_replaced_while_clients_call(app: str, tmp_path: Path) -> None:
    """One is killed: calls of both eras go on."""

    async def main() -> None:
        url = f"sqlite:///{tmp_path}/bridge.db"
        async with bridge("--health", app, store=url, workers=2) as served:
            assert "; workers: 2; store: sqlite:///" in served.said
            for killed in (False, True):
                if killed:
                    served.kill(1)
                    await served.until(starts=3)
                for row in (OLD, MODERN) if killed else (DEFAULT[0], MODERN):
                    async with mcprev.connect(served.url, mode=row.name) as client:
                        assert (await client.call_tool("steps", {})).text == "done"

    run(main(), limit=LIMIT)


@pytest.mark.slow
@req("SEAM-10", "MRTR-4", at=E)
@pytest.mark.parametrize(
    ("row", "there", "store"), CELLS, indirect=["store"], ids=lambda each: getattr(each, "name", each)
)
def test_a_question_in_a_call_is_answered_at_another_process(
    row: Revision, there: Revision, app: str, store: str
) -> None:
    async def main() -> None:
        command = "--server-revision", there.name, "--", sys.executable, "-m", "mcprev", "serve", app
        async with (
            two(*command, store=store) as url,
            mcprev.connect(url, mode=row.name, elicitation=answer) as client,
        ):
            told: list[float] = []
            calls = (client.call_tool("ask", {}) for _ in range(2))
            assert [found.text for found in await asyncio.gather(*calls)] == ["Ada"] * 2

            def progress(value: float, _total: float | None, _message: str | None) -> None:
                told.append(value)

            assert (await client.call_tool("steps", {}, progress=progress)).text == "done"
            assert told == [1, 2, 3]

    run(main(), limit=LIMIT)


@pytest.mark.slow
@req("SEAM-10", "HTTP-9", at=OLD.name)
def test_a_session_has_one_connection_to_the_server(app: str, store: str) -> None:
    """What the server keeps of a session is found by its next request at another process."""

    async def main() -> None:
        command = "--server-revision", OLD.name, "--", sys.executable, "-m", "mcprev", "serve", app
        async with two(*command, store=store) as url, mcprev.connect(url, mode=OLD.name) as client:
            assert [(await client.call_tool("count", {})).text for _ in range(4)] == list("1234")

    run(main(), limit=LIMIT)


@pytest.mark.slow
@req("SEAM-10", "LIFE-16", at=OLD.name)
def test_a_session_goes_on_when_the_process_that_holds_it_was_killed(app: str, tmp_path: Path) -> None:
    """The server has a new session then, as when it was started again itself."""

    async def main() -> None:
        url = f"sqlite:///{tmp_path}/bridge.db"
        command = "--server-revision", OLD.name, "--", sys.executable, "-m", "mcprev", "serve", app
        async with (
            bridge(*command, store=url, workers=2) as served,
            mcprev.connect(served.url, mode=OLD.name) as client,
        ):
            assert [(await client.call_tool("count", {})).text for _ in range(2)] == list("12")
            for number in (1, 2):
                served.kill(number)
                await served.until(starts=2 + number)
            assert [(await client.call_tool("count", {})).text for _ in range(2)] == list("12")
            assert served.said.count(" initialize 200") == 1

    run(main(), limit=LIMIT)
