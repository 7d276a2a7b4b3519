"""The order of a client's callbacks: that of the messages on the wire, whatever a callback takes or does (LIFE-18, LOG-5)."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any, Final

import pytest

import mcprev
from helpers.requirements import req
from helpers.running import run, until
from mcprev.client import callback_queue
from mcprev.client.callback_queue import CallbackQueue
from mcprev.revisions import DEFAULT, LATEST, Revision
from mcprev_types.latest import models as m

each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
ROUNDS: Final = 4


def told() -> mcprev.App:
    """An app whose tool logs, reports progress, and says that its tools changed, in turn."""
    app = mcprev.App("order", "1")

    @app.tool
    async def work(ctx: mcprev.Context) -> str:
        for number in range(ROUNDS):
            await ctx.log("error", f"log {number}")
            await ctx.progress(number + 1)
        return "done"

    @app.tool
    async def broken(ctx: mcprev.Context) -> str:
        await ctx.log("error", "log")
        raise mcprev.InvalidParams("no")

    @app.tool
    def echo(text: str) -> str:
        return text

    return app


WIRE: Final = [each for number in range(ROUNDS) for each in (f"log {number}", float(number + 1))]


@req("LIFE-18", "LOG-5")
@each_row
@pytest.mark.parametrize("pauses", [0, 1, 5])
def test_callbacks_run_in_the_order_of_the_wire_and_before_the_result(row: Revision, pauses: int) -> None:
    """Each ends before the next begins, and the call returns after the last one."""

    async def main() -> None:
        got: list[object] = []

        async def note(what: object) -> None:
            got.append(what)
            for _ in range(pauses):
                await asyncio.sleep(0)
            got.append(("end", what))

        async with mcprev.connect(told(), mode=row.name, logging=lambda params: note(params.data)) as client:
            await client.set_log_level("error")
            result = await client.call_tool("work", progress=lambda at, _total, _text: note(at))
            assert result.text == "done"
            assert got == [each for what in WIRE for each in (what, ("end", what))]

    run(main())


@req("LIFE-18", "LOG-5")
@each_row
def test_functions_that_are_not_async_run_in_order(row: Revision) -> None:
    async def main() -> None:
        got: list[object] = []
        async with mcprev.connect(
            told(), mode=row.name, logging=lambda params: got.append(params.data)
        ) as client:
            await client.set_log_level("error")
            await client.call_tool("work", progress=lambda at, _total, _text: got.append(at))
            assert got == WIRE

    run(main())


@req("LOG-5")
@each_row
def test_an_error_is_raised_after_the_callbacks_before_it(row: Revision) -> None:
    async def main() -> None:
        got: list[object] = []

        async def note(params: m.LoggingMessageNotificationParams) -> None:
            await asyncio.sleep(0.001)
            got.append(params.data)

        async with mcprev.connect(told(), mode=row.name, logging=note) as client:
            await client.set_log_level("error")
            try:
                await client.call_tool("broken")
            except mcprev.RpcError:
                got.append("raised")
            assert got[0] == "log"

    run(main())


@req("SEAM-1", "LOG-5")
@each_row
def test_a_callback_may_call_the_server(row: Revision, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer is read while later callbacks wait for it, and it does not wait for itself."""
    monkeypatch.setattr(callback_queue, "SLOW", 60.0)

    async def main() -> None:
        got: list[object] = []

        async def note(params: m.LoggingMessageNotificationParams) -> None:
            answers = await asyncio.gather(client.call_tool("echo", {"text": "a"}), client.raw("tools/list"))
            got.append((params.data, answers[0].text))

        async with mcprev.connect(told(), mode=row.name, logging=note) as client:
            await client.set_log_level("error")
            async with asyncio.timeout(10):
                await client.call_tool("work")
            assert got == [(f"log {number}", "a") for number in range(ROUNDS)]

    run(main())


@req("SUB-7", "LOG-5")
@each_row
def test_changes_come_in_order_with_log_messages(row: Revision) -> None:
    """A change is reported before what was sent later, even if that is a log message."""

    async def main() -> None:
        got: list[object] = []

        async def changed(change: mcprev.Change) -> None:
            got.append(change.what)
            await asyncio.sleep(0.001)
            got.append("end")

        server = mcprev.Server(Tells(), "s", "1")
        Tells.server = server
        async with mcprev.connect(
            server, mode=row.name, on_change=changed, logging=lambda params: got.append(params.data)
        ) as client:
            await client.set_log_level("error")
            await client.call_tool("t")
            await until(lambda: len(got) == 3)
            assert got in (["tools", "end", "log"], ["log", "tools", "end"]), "one after the other"
        await server.aclose()

    run(main())


class Tells(mcprev.ServerHandler):
    server: mcprev.Server

    async def list_tools(self, ctx: mcprev.Context, params: Any) -> m.ListToolsResult:
        return m.ListToolsResult(tools=[m.Tool(name="t", input_schema=m.ToolInputSchema())])

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        self.server.changed("tools")
        await ctx.log("error", "log")
        return m.CallToolResult(content=[])


@req("LIFE-18", everywhere=True)
def test_a_callback_that_does_not_end_delays_the_others_for_a_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """So does the result; the callback continues, and the end of the client cancels it."""
    monkeypatch.setattr(callback_queue, "SLOW", 0.05)
    monkeypatch.setattr("mcprev.client.session.LINGER", 0.05)

    async def main() -> None:
        got: list[object] = []

        async def note(at: float, *_: object) -> None:
            got.append(at)
            if at == 1:
                try:
                    await asyncio.Event().wait()
                finally:
                    got.append("cancelled")

        async with mcprev.connect(told(), mode=LATEST.name) as client:
            assert (await client.call_tool("work", progress=note)).text == "done"
            await until(lambda: len(got) == ROUNDS)
            assert got == [1, 2, 3, 4]
            assert (await client.call_tool("echo", {"text": "a"})).text == "a", "it waits no more"
        assert got[-1] == "cancelled"

    with caplog.at_level(logging.ERROR, logger="mcprev"):
        run(main())


@req("LIFE-18", everywhere=True)
def test_several_slow_callbacks_delay_a_result_no_longer_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callback_queue, "SLOW", 0.1)

    async def main() -> None:
        queue, never = CallbackQueue(), asyncio.Event()

        async def slow() -> None:
            await never.wait()

        for _ in range(20):
            assert queue.put(slow)
        async with asyncio.timeout(1.0):
            await queue.settled()
        assert queue.runner is not None, "there are still callbacks to run"
        await queue.aclose(0.0)

    run(main())


@req("LIFE-18", everywhere=True)
def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(callback_queue, "CALLBACKS", 2)

    async def main() -> None:
        queue, gate, got = CallbackQueue(), asyncio.Event(), list[int]()

        async def work(number: int) -> None:
            await gate.wait()
            got.append(number)

        assert queue.put(partial(work, 0))
        await asyncio.sleep(0)
        assert [queue.put(partial(work, number)) for number in (1, 2, 3, 4)] == [True, True, False, False]
        gate.set()
        await queue.settled()
        assert got == [0, 1, 2]
        await queue.aclose(1)
        assert not queue.put(partial(work, 4)), "a closed client calls nothing"

    with caplog.at_level(logging.WARNING, logger="mcprev.client"):
        run(main())
    assert caplog.text.count("too many messages wait for slow callbacks") == 1, "once for a burst"
    caplog.clear()


@req("LIFE-18", "LOG-5")
@each_row
def test_a_flood_of_messages_has_a_bound_and_delays_no_result(
    row: Revision, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(callback_queue, "CALLBACKS", 20)
    monkeypatch.setattr(callback_queue, "SLOW", 0.01)
    app = mcprev.App("flood", "1")

    @app.tool
    async def flood(ctx: mcprev.Context) -> str:
        for number in range(500):
            await ctx.log("error", str(number))
        return "done"

    async def main() -> None:
        gate, got = asyncio.Event(), list[object]()

        async def note(message: m.LoggingMessageNotificationParams) -> None:
            await gate.wait()
            got.append(message.data)

        async with mcprev.connect(app, mode=row.name, logging=note) as client:
            assert (await client.call_tool("flood", log_level="error")).text == "done"
            gate.set()
            await until(lambda: len(got) >= 15)
        assert len(got) <= 40

    with caplog.at_level(logging.WARNING, logger="mcprev.client"):
        run(main())
    told = caplog.text.count("too many messages wait for slow callbacks")
    assert 1 <= told <= 500 / 20, "once for each burst, however slow the machine is"
    caplog.clear()


@req("LIFE-18", everywhere=True)
@pytest.mark.parametrize("error", [ValueError("oops"), asyncio.CancelledError()], ids=repr)
def test_what_a_callback_raises_stops_no_other(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        queue, got = CallbackQueue(), list[int]()

        async def fail() -> None:
            raise error

        async def work() -> None:
            got.append(1)

        queue.put(fail)
        queue.put(work)
        await queue.settled()
        assert got == [1]
        await until(lambda: queue.runner is None)

    with caplog.at_level(logging.CRITICAL + 1, logger="mcprev.client"):
        run(main())


@req("LIFE-18", everywhere=True)
def test_the_end_lets_callbacks_end() -> None:
    """Those that wait are called too, if there is time."""

    async def main() -> None:
        queue, got = CallbackQueue(), list[int]()

        async def work(number: int) -> None:
            await asyncio.sleep(0.001)
            got.append(number)

        for number in range(3):
            queue.put(partial(work, number))
        await queue.aclose(5)
        assert got == [0, 1, 2]

    run(main())


@req("LIFE-18", everywhere=True)
def test_a_slow_callback_that_ends_at_last_calls_no_other_beside_those_that_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(callback_queue, "SLOW", 0.02)

    async def main() -> None:
        queue, got = CallbackQueue(), list[str]()
        first, second = asyncio.Event(), asyncio.Event()

        async def slow() -> None:
            await first.wait()
            got.append("slow")

        async def next_one() -> None:
            monkeypatch.setattr(callback_queue, "SLOW", 20.0)
            first.set()
            await until(lambda: bool(got))  # the slow one has ended
            queue.put(last)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            got.append("next")
            second.set()

        async def last() -> None:
            got.append("last")

        queue.put(slow)
        queue.put(next_one)
        await second.wait()
        await queue.settled()
        assert got == ["slow", "next", "last"]
        await queue.aclose(1)

    run(main())


@req("LIFE-18", everywhere=True)
def test_slow_callbacks_that_run_beside_each_other_have_a_bound(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(callback_queue, "SLOW", 0.005)
    monkeypatch.setattr(callback_queue, "MAX_HANDLERS", 3)

    async def main() -> None:
        queue, running = CallbackQueue(), list[int]()

        async def hang(number: int) -> None:
            running.append(number)
            await asyncio.Event().wait()

        for number in range(3):
            assert queue.put(partial(hang, number))
        await until(lambda: running == [0, 1, 2])
        assert not queue.put(partial(hang, 3))
        await queue.aclose(0)

    with caplog.at_level(logging.CRITICAL + 1, logger="mcprev.client"):
        run(main())


@req("LIFE-18", everywhere=True)
def test_the_end_calls_nothing_more_whatever_a_callback_does_with_its_cancellation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        queue, got = CallbackQueue(), list[str]()

        async def stubborn() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                got.append("cancelled")

        async def plain() -> None:
            await asyncio.Event().wait()

        async def later() -> None:
            got.append("called")

        queue.put(stubborn)
        queue.put(later)
        await asyncio.sleep(0)
        await queue.aclose(0.01)
        await asyncio.sleep(0)
        assert got == ["cancelled"]
        other = CallbackQueue()
        other.put(plain)
        await asyncio.sleep(0)
        await other.aclose(0.01)

    with caplog.at_level(logging.DEBUG, logger="mcprev.client"):
        run(main())
    assert not caplog.records, "to cancel a callback at the end is no failure of it"
