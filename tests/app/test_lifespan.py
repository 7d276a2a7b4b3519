"""The lifespan of a server: entered once before the first request, left after the last, on every transport."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

import mcprev
from api.transports import Reach, asgi, http, memory
from helpers.http_in_process import InProcess
from helpers.named import ROW_D, ROW_E
from helpers.running import Records, run
from mcprev.errors import LocalProtocolError
from mcprev.revisions import DEFAULT, Revision

ERAS = [ROW_D, ROW_E]


class Database:
    """Something that is open from the first request to the last."""

    def __init__(self) -> None:
        self.events: list[str] = []

    @asynccontextmanager
    async def lifespan(self, server: mcprev.Server) -> AsyncGenerator[Database, None]:
        self.events.append("open")
        try:
            yield self
        finally:
            self.events.append("closed")


def app_with(*lifespans: Any) -> mcprev.App:
    app = mcprev.App("a", "1", lifespan=lifespans)

    @app.tool
    async def use(ctx: mcprev.Context) -> str:
        ctx.lifespan(Database).events.append("used")
        return "ok"

    @app.tool
    def use_in_thread(ctx: mcprev.Context) -> str:
        ctx.lifespan(Database).events.append("used")
        return "ok"

    return app


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_handlers_reach_what_the_lifespan_yields_by_its_type(row: Revision) -> None:
    database = Database()

    async def main() -> None:
        async with mcprev.connect(app_with(database.lifespan), mode=row.name) as client:
            assert text_of(await client.call_tool("use", {})) == "ok"
            assert text_of(await client.call_tool("use_in_thread", {})) == "ok"

    run(main())
    assert database.events == ["open", "used", "used", "closed"]


@pytest.mark.parametrize("way", [memory, asgi(), http()], ids=["memory", "asgi", "http"])
@pytest.mark.parametrize("row", ERAS, ids=lambda row: row.name)
def test_it_is_entered_once_and_left_after_the_last_request(row: Revision, way: Reach) -> None:
    database = Database()

    async def main() -> None:
        async with (
            way(app_with(database.lifespan).server, row) as target,
            mcprev.connect(target, mode=row.name) as client,
        ):
            await asyncio.gather(*(client.call_tool("use", {}) for _ in range(3)))
        assert database.events == ["open", "used", "used", "used", "closed"]

    run(main())


SERVE = "from mcprev.cli import main; main()"
PROGRAM = """
import mcprev

class Database: pass

async def lifespan(server):
    print("open")
    {fails}
    try:
        yield Database()
    finally:
        print("closed")

app = mcprev.App("a", "1", lifespan=lifespan)

@app.tool
async def use(ctx: mcprev.Context) -> str:
    print("used", type(ctx.lifespan(Database)).__name__)
    return "ok"

if __name__ == "__main__":
    app.run_stdio()
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", [["app.py"], ["-c", SERVE, "serve", "app.py:app"]])
def test_on_stdio_it_is_left_before_the_process_ends(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PROGRAM.format(fails=""), encoding="utf-8")
    printed: list[bytes] = []

    async def main() -> None:
        python = mcprev.stdio(sys.executable, *command, cwd=tmp_path, stderr=printed.append)
        async with mcprev.connect(python) as client:
            assert text_of(await client.call_tool("use", {})) == "ok"

    run(main())
    assert b"".join(printed).decode().split("\n")[:3] == ["open", "used Database", "closed"]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], ["--http", "127.0.0.1:0"]], ids=["stdio", "http"])
def test_a_process_whose_lifespan_fails_serves_nothing_and_says_so(
    arguments: list[str], tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(PROGRAM.format(fails="1 / 0"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", SERVE, "serve", "app.py:app", *arguments],
        cwd=tmp_path, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "The lifespan of the server failed at its start, so nothing is served." in done.stderr


async def broken(server: mcprev.Server) -> AsyncGenerator[None, None]:
    raise OSError("no database")
    yield


def test_a_client_in_this_process_is_told_that_the_lifespan_failed() -> None:
    async def main() -> None:
        database = Database()
        with pytest.raises(OSError, match="no database") as caught:
            await mcprev.connect(app_with(database.lifespan, broken))
        assert caught.value.__notes__ == [
            "The lifespan of the server failed at its start, so nothing is served."
        ]
        assert database.events == ["open", "closed"]

    run(main())


async def cancelling(server: mcprev.Server) -> AsyncGenerator[None, None]:
    raise asyncio.CancelledError
    yield


def test_a_lifespan_that_is_cancelled_at_its_start_does_not_cancel_who_connects() -> None:
    async def main() -> None:
        with pytest.raises(LocalProtocolError, match="the lifespan of the server was cancelled at its start"):
            async with mcprev.connect(mcprev.App("a", "1", lifespan=cancelling)):
                pass

    run(main())


def test_a_function_that_is_no_lifespan_is_refused_at_once() -> None:
    async def returning(server: mcprev.Server) -> int:
        return 1

    def generating(server: mcprev.Server) -> Generator[int, None, None]:
        yield 1

    for function in (returning, generating):
        app = mcprev.App("a", "1", lifespan=function)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        with pytest.raises(TypeError, match="a lifespan is an `async def` function that yields once"):
            app.server  # noqa: B018  # pyright: ignore[reportUnusedExpression]


def test_an_asgi_server_is_told_that_the_lifespan_failed() -> None:
    sent: list[dict[str, Any]] = []

    async def main() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "lifespan.startup"}

        async def send(message: Any) -> None:
            sent.append(message)

        await app_with(broken).asgi()({"type": "lifespan"}, receive, send)

    run(main())
    text = "the lifespan of the server failed: OSError: no database"
    assert sent == [{"type": "lifespan.startup.failed", "message": text}]


PING = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": ROW_D.version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
}  # fmt: skip
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


async def initialize(session: aiohttp.ClientSession, origin: str) -> int:
    async with session.post(f"{origin}/mcp/", json=PING, headers=HEADERS) as response:
        await response.read()
        return response.status


def test_a_mounted_app_enters_it_with_the_first_request_and_leaves_it_with_the_loop() -> None:
    """Starlette and FastAPI do not forward lifespan events to what they mount."""
    database = Database()

    async def main() -> None:
        connector = InProcess(Starlette(routes=[Mount("/mcp", app_with(database.lifespan).asgi())]))
        async with aiohttp.ClientSession(connector=connector) as session:
            assert database.events == []
            assert (
                await asyncio.gather(*(initialize(session, connector.origin) for _ in range(3))) == [200] * 3
            )
        assert database.events == ["open"]

    asyncio.run(main())
    assert database.events == ["open", "closed"]


@pytest.mark.parametrize("kind", ["in the main thread", "in a thread", "with a task group", "after an error"])
def test_what_follows_the_yield_of_a_mounted_app_runs_when_the_event_loop_ends(kind: str) -> None:
    """Nobody tells the app: the loop cancels all tasks. No `try` is around the `yield`, and closing may take a while."""
    database = Database()

    async def outer(server: mcprev.Server) -> AsyncGenerator[Database]:
        yield database
        await asyncio.sleep(0)
        database.events.append("closed")

    async def inner(server: mcprev.Server) -> AsyncGenerator[int]:
        if kind == "with a task group":
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.Event().wait())
                yield 1
        else:
            yield 1
        database.events.append("left")
        if kind == "after an error":
            raise OSError("told, and the others are left")

    async def main() -> None:
        connector = InProcess(Starlette(routes=[Mount("/mcp", app_with(outer, inner).asgi())]))
        async with aiohttp.ClientSession(connector=connector) as session:
            assert await initialize(session, connector.origin) == 200
        database.events.append("open")

    if kind == "in a thread":
        thread = threading.Thread(target=lambda: asyncio.run(main()))
        thread.start()
        thread.join()
    else:
        asyncio.run(main())
    # A group is left by the cancellation of its tasks, with an error that ends what follows within it alone.
    closed = ["closed"] if kind != "after an error" else []
    assert database.events == ["open", "left", *closed]


def test_a_lifespan_that_is_never_left_does_not_hold_the_end_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcprev.server.lifespan.LEAVING", 0.0)

    async def endless(server: mcprev.Server) -> AsyncGenerator[int]:
        yield 1
        await asyncio.Event().wait()

    async def main() -> None:
        connector = InProcess(Starlette(routes=[Mount("/mcp", app_with(endless).asgi())]))
        async with aiohttp.ClientSession(connector=connector) as session:
            assert await initialize(session, connector.origin) == 200

    asyncio.run(main())


def test_a_mounted_app_whose_lifespan_fails_refuses_requests_until_it_does_not() -> None:
    database, works = Database(), False

    async def sometimes(server: mcprev.Server) -> AsyncGenerator[None, None]:
        if not works:
            raise OSError("no database")
        yield

    mounted = app_with(database.lifespan, sometimes).asgi()
    records = Records()
    logging.getLogger("mcprev.transport.http").addHandler(records)

    async def main() -> None:
        nonlocal works
        connector = InProcess(Starlette(routes=[Mount("/mcp", mounted)]))
        async with aiohttp.ClientSession(connector=connector) as session:
            async with session.get(f"{connector.origin}/mcp/", headers=HEADERS) as response:
                assert response.status == 503
            works = True
            assert await initialize(session, connector.origin) == 200
        await mounted.aclose()

    try:
        run(main())
    finally:
        logging.getLogger("mcprev.transport.http").removeHandler(records)
    assert [record.getMessage() for record in records.records] == [
        "the lifespan of the server failed, so its request is refused"
    ]
    assert database.events == ["open", "closed", "open", "closed"]


def test_it_can_be_kept_over_several_clients() -> None:
    database = Database()
    app = app_with(database.lifespan)

    async def main() -> None:
        async with app.server.running():
            for _ in range(2):
                async with mcprev.connect(app) as client:
                    await client.call_tool("use", {})
        assert database.events == ["open", "used", "used", "closed"]

    run(main())


def test_a_task_that_still_runs_is_cancelled_before_it_is_left() -> None:
    database = Database()
    app = mcprev.App("a", "1", lifespan=database.lifespan, tasks=mcprev.Tasks({"work": "required"}))

    @app.tool
    async def work(ctx: mcprev.Context) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ctx.lifespan(Database).events.append("cancelled")
        return ""

    async def main() -> None:
        async with mcprev.connect(app, mode=ROW_D.name) as client:
            await client.start_tool("work", {})

    run(main())
    assert database.events == ["open", "cancelled", "closed"]


def test_an_error_at_its_end_is_logged() -> None:
    async def closes_badly(server: mcprev.Server) -> AsyncGenerator[None, None]:
        yield
        raise OSError("cannot close")

    records = Records()
    logging.getLogger("mcprev.server").addHandler(records)

    async def main() -> None:
        async with app_with(closes_badly).server.running():
            pass

    try:
        run(main())
    finally:
        logging.getLogger("mcprev.server").removeHandler(records)
    assert [record.getMessage() for record in records.records] == [
        "the lifespan of the server failed at its end"
    ]


def test_a_value_that_is_not_there_is_named() -> None:
    database = Database()

    async def main() -> None:
        plain = mcprev.App("a", "1")

        @plain.tool
        async def use(ctx: mcprev.Context) -> str:
            with pytest.raises(LocalProtocolError, match="the server has no lifespan"):
                ctx.lifespan(Database)
            return ""

        async with mcprev.connect(plain) as client:
            assert text_of(await client.call_tool("use", {})) == ""
        server = app_with(database.lifespan).server
        assert server.lifespan is not None
        with pytest.raises(LocalProtocolError, match="is not running"):
            server.lifespan.value(Database)
        async with server.running():
            with pytest.raises(LocalProtocolError, match="0 values of the type dict; it yields Database"):
                server.lifespan.value(dict[str, int])

    run(main())
