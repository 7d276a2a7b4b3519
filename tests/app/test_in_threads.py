"""Functions without `async` use what has to be awaited, from their threads; the names that others use are there."""

from __future__ import annotations

from typing import Any

import pytest

import mcprev
from helpers.running import run
from mcprev.errors import LocalProtocolError
from mcprev.revisions import DEFAULT, Revision

each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)


@each_row
def test_a_function_in_a_thread_reports_logs_and_asks(row: Revision) -> None:
    app = mcprev.App("threads")
    order = list[object]()

    @app.tool
    def work(ctx: mcprev.Context) -> str:
        if ctx.client_capabilities.elicitation is not None:
            order.append(ctx.wait(ctx.elicit("Sure?", bool)))
        ctx.wait(ctx.progress(1, 2))
        ctx.wait(ctx.info("half"))
        return "done"

    async def main() -> None:
        steps, lines = list[float](), list[object]()

        def told(done: float, *_: object) -> None:
            steps.append(done)

        async with mcprev.connect(
            app,
            mode=row.name,
            logging=lambda it: lines.append(it.data),
            elicitation=lambda _: mcprev.Accepted(True),
        ) as client:
            await client.set_log_level("info")
            result = await client.call_tool("work", progress=told)
        assert (result.text, steps, lines) == ("done", [1], ["half"])

    run(main())
    assert all(found == mcprev.Accepted(True) for found in order)


def test_what_is_raised_there_is_raised_here() -> None:
    app = mcprev.App("threads")

    async def fails() -> None:
        raise TimeoutError("mine")

    @app.tool
    def work(ctx: mcprev.Context) -> str:
        with pytest.raises(TimeoutError, match="mine"):
            ctx.wait(fails())
        return "done"

    @app.tool
    async def awaits(ctx: mcprev.Context) -> str:
        with pytest.raises(LocalProtocolError, match="in a coroutine, write `await`"):
            ctx.wait(fails())
        return "done"

    async def main() -> None:
        async with mcprev.connect(app) as client:
            for name in ("work", "awaits"):
                assert (await client.call_tool(name)).text == "done"

    run(main())


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_each_common_level_has_a_method(level: str) -> None:
    app = mcprev.App("levels")

    @app.tool
    async def work(ctx: mcprev.Context) -> None:
        await getattr(ctx, level)({"a": 1}, logger="mine")

    async def main() -> None:
        found = list[Any]()
        async with mcprev.connect(app, logging=found.append) as client:
            await client.set_log_level("debug")
            await client.call_tool("work")
        assert [(it.level, it.data, it.logger) for it in found] == [(level, {"a": 1}, "mine")]

    run(main())


def test_run_serves_over_the_transport_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    served = list[object]()

    def over_stdio(_: mcprev.App) -> None:
        served.append("stdio")

    def over_http(_: mcprev.App, host: str, port: int, **options: object) -> None:
        served.append((host, port, options))

    monkeypatch.setattr(mcprev.App, "run_stdio", over_stdio)
    monkeypatch.setattr(mcprev.App, "run_http", over_http)
    app = mcprev.App("runs")
    app.run()
    app.run("stdio")
    app.run("http", port=1234, drain=5)
    app.run(transport="streamable-http", host="127.0.0.9")
    assert served == [
        "stdio",
        "stdio",
        ("127.0.0.1", 1234, {"drain": 5}),
        ("127.0.0.9", 8000, {}),
    ]
    with pytest.raises(ValueError, match="no transport 'sse'; use 'stdio', or 'http'"):
        app.run("sse")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="pass transport='http'"):
        app.run(port=1234)
