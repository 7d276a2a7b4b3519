"""The checks of the chaos run find what they are there to find: each is tried with a server that makes one mistake."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

import mcprev
from chaos import clients
from chaos.clients import ChaosClient, IdleClient, Tally
from helpers.named import ROW_E
from helpers.raw_server import Exchange, serve
from helpers.running import run, until


def app_with(mistake: str) -> mcprev.App:
    """A server like that of the run, in one process, with one mistake."""
    app = mcprev.App("mistaken", "1", tasks=mcprev.Tasks({}, poll_interval=10), store=mcprev.MemoryStore())
    numbers = (
        [0, 2, 1]
        if mistake == "order"
        else [0, 0, 1, 2] if mistake == "doubled" else [0, 2] if mistake == "missing" else [0, 1, 2]
    )

    @app.tool
    async def echo(token: str) -> str:
        return f"{token}0" if mistake == "answer" else token

    @app.tool
    async def add(token: str) -> str:
        return token

    @app.tool
    async def count(token: str, numbers: int, ctx: mcprev.Context) -> str:
        for number in sent:
            await ctx.log(
                "info", {"token": f"other/{token}" if mistake == "message" else token, "number": number}
            )
        return token

    @app.tool
    async def ask(token: str, ctx: mcprev.Context) -> str:
        answer = await ctx.elicit(f"other/{token}" if mistake == "question" else token, str)
        assert isinstance(answer, mcprev.Accepted)
        return f"{token} {answer.data}"

    @app.tool
    async def visit(ctx: mcprev.Context, handle: str | None = None) -> tuple[int, str]:
        ctx.session.open(handle)
        step = 0 if mistake == "lost update" else 2 if mistake == "doubled update" else 1
        return await ctx.session.update("visits", lambda visits: visits + step, 0), ctx.session.handle

    @app.tool(task="optional")
    async def work(token: str, seconds: float, ctx: mcprev.Context) -> str:
        await ctx.detach()
        if mistake == "stuck":
            await asyncio.Event().wait()
        return token

    sent = numbers
    return app


MISTAKES = {
    "none": "",
    "answer": "got",
    "order": "messages of",
    "doubled": "messages of",
    "missing": "messages of",
    "message": "a message of another client",
    "question": "a question of another client",
    "lost update": "visits of",
    "doubled update": "visits of",
    "stuck": "is stuck",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_a_server_is_seen(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "NUMBERS", 3)
    monkeypatch.setattr(clients, "TASK_LIMIT", 0.3)

    async def main() -> None:
        tally = Tally()
        app = app_with(mistake)
        chaos = ChaosClient(7, ROW_E, "", tally)
        async with app.server.running(), mcprev.connect(app, mode=ROW_E.name, handler=chaos) as client:
            for tool in clients.TOOLS:
                await tool(chaos, client)
                await tool(chaos, client)
        if MISTAKES[mistake]:
            assert any(MISTAKES[mistake] in text for text in tally.wrong), tally.wrong
        else:
            assert tally.wrong == []
        assert set(tally.added.values()) == {(1, 1)}
        await app.server.aclose()

    run(main())


def test_an_error_that_does_not_say_whether_a_call_may_be_repeated_is_wrong() -> None:
    chaos = ChaosClient(7, ROW_E, "", tally := Tally())
    chaos.failed("echo", mcprev.ConnectionLost("cut", in_flight=True, retry_safe=False))
    chaos.failed("echo", mcprev.InternalError("no"))
    assert (tally.failed.total(), tally.wrong) == (2, [])
    chaos.failed("echo", mcprev.RequestTimeout("late", elapsed=1.0, kind="idle"))
    chaos.failed("task", mcprev.InternalError("Internal error"))
    assert len(tally.wrong) == 2


def test_a_call_that_happens_twice_or_was_made_by_nobody_is_seen(tmp_path: Path) -> None:
    from chaos.__main__ import MEGABYTE, Chaos

    chaos = Chaos("sqlite", tmp_path, 1.0, 1)
    chaos.tally.added = {"a": (1, 1), "b": (0, 1), "c": (0, 0), "d": (1, 1)}
    (tmp_path / "journal").write_text("a\nb\nb\nc\ne\n")
    chaos._check_journal()
    assert [text[:9] for text in chaos.tally.wrong] == ["b happene", "c happene", "d happene", "calls tha"]
    for at, size in ((0.4, 10), (0.9, 30)):
        chaos.memory["worker"].add(at, size * MEGABYTE)
    chaos._check_memory()
    assert "the memory of the worker grows from 10.0 to 30.0 MiB" in chaos.tally.wrong


@pytest.mark.parametrize(
    ("status", "killed", "wrong"),
    [(200, False, 0), (503, False, 0), (502, True, 0), (502, False, 2), (500, True, 2)],
)
def test_idle_clients_of_a_balancer_ask_at_the_end_too_and_have_a_502_only_when_a_process_was_killed(
    status: int, killed: bool, wrong: int
) -> None:
    asked = 0

    async def answer(exchange: Exchange) -> None:
        nonlocal asked
        asked += 1
        await exchange.respond(status)

    async def main() -> None:
        tally, stop = Tally(), asyncio.Event()
        tally.kills += [time.monotonic()] if killed else []
        async with serve(answer) as raw:
            running = asyncio.create_task(IdleClient(f"{raw.origin}/mcp", tally, 1).run(stop))
            await until(lambda: asked == 1)
            stop.set()
            await running
        assert (asked, len(tally.wrong)) == (2, wrong)

    run(main())
