"""CANC-*, PROG-*, PING-1, TIME-1, STDIO-8: what happens to a call while it runs, at each revision, on the wire."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import pytest

import mcprev
from api.authors import Everything, Helpful
from api.wire import HandClient, Message, Reply, served, serving
from fuzz.fuzzing import each_once
from helpers.requirements import req
from helpers.running import pass_time, run, until
from mcprev.client.options import Progress
from mcprev.errors import RequestTimeout
from mcprev.revisions import Revision
from mcprev_types.latest import models as m

TOKENS: list[Any] = ["t", "", 0, 7, 2**53, "7"]


class Slow(Everything):
    """Works until it is told to stop, and then still tries to say something."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.kept: list[mcprev.Context] = []

    async def do_hold(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        self.kept.append(ctx)
        self.started.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            await ctx.progress(99)
            await ctx.log("emergency", "too late")
            self.stopped.set()
            raise
        return m.CallToolResult(content=[])

    async def do_steps(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        for number in params.arguments["steps"]:
            await ctx.progress(number, 10, "step")
        self.kept.append(ctx)
        return m.CallToolResult(content=[])

    async def do_sample(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        message = m.SamplingMessage(role="user", content=m.TextContent(text="?"))
        asked = m.CreateMessageRequest(params=m.CreateMessageRequestParams(messages=[message], max_tokens=9))
        answer = asyncio.create_task(ctx.ask("s", asked))
        self.started.set()
        return m.CallToolResult(content=[m.TextContent(text=(await answer).model)])


def made(author: Slow) -> mcprev.Server:
    return mcprev.Server(author, "slow", "1")


async def begin(hand: HandClient, name: str, id_: Any, **arguments: Any) -> None:
    """Send a call without waiting for its answer."""
    meta = {**hand.stamp, "progressToken": id_, "io.modelcontextprotocol/logLevel": "debug"}
    params = {"name": name, "arguments": arguments, "_meta": meta}
    if hand.revision.handshake:
        del meta["io.modelcontextprotocol/logLevel"]
    hand.send({"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params})
    await asyncio.sleep(0)


def ignored(progress: float, total: float | None, message: str | None) -> None: ...


# -- cancelling ------------------------------------------------------------------------------------------


@req("CANC-2", "CANC-6", "STDIO-8")
@pytest.mark.parametrize("id_", [5, "5", "é"])
def test_a_cancelled_request_stops_and_nothing_more_comes_of_it(
    row: Revision, id_: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        author = Slow()
        async with served(made(author), row) as hand:
            await begin(hand, "hold", id_)
            await author.started.wait()
            hand.tell("notifications/cancelled", {"requestId": id_, "reason": "no longer needed"})
            await author.stopped.wait()
            author.gate.set()
            # A session logs whenever it likes; without one, a log message belongs to its request.
            logged = "notifications/message" if row.handshake else None
            assert [found for found in await hand.settle() if found["method"] != logged] == []
            assert all(message.get("id") != id_ for message in hand.got)
            assert (await hand.ask("tools/list")).result["tools"]

    with caplog.at_level(logging.DEBUG, logger="mcprev"):
        run(main())
    assert any("no longer needed" in record.getMessage() for record in caplog.records)


@req("CANC-1", "CANC-3")
def test_cancelling_nothing_has_no_effect(row: Revision) -> None:
    """Unknown, finished, malformed, of another kind of id, or a request of the other side's."""

    async def main() -> None:
        author = Slow()
        async with served(made(author), row) as hand:
            await hand.ask("tools/list", id_="done")
            await begin(hand, "hold", 5)
            await author.started.wait()
            nothing: list[Any] = [
                {"requestId": "done"}, {"requestId": 99}, {"requestId": "5"}, {"requestId": None}, {"requestId": True},
                {"requestId": [5]}, {}, None, {"requestId": {}}, {"reason": "x"},
            ]  # fmt: skip
            for params in nothing:
                hand.tell("notifications/cancelled", params)
            assert (await hand.ask("tools/list")).result["tools"]
            assert not author.stopped.is_set()
            author.gate.set()
            assert (await hand.get(lambda found: found.get("id") == 5))["result"]["content"] == []

    run(main())


@req("CANC-3", "CANC-7")
@pytest.mark.parametrize("how", ["caller", "timeout"])
def test_a_caller_that_gives_up_says_so_once_and_hears_no_late_answer(row: Revision, how: str) -> None:
    async def main() -> None:
        async with serving(row, {"tools/call": lambda _: None}) as (client, hand):
            waiting = asyncio.create_task(client.call_tool("x", timeout=0.02 if how == "timeout" else 9))
            message = await hand.get(lambda found: found.get("method") == "tools/call")
            if how == "caller":
                waiting.cancel()
            with pytest.raises(asyncio.CancelledError if how == "caller" else RequestTimeout):
                await waiting
            told = await hand.heard("notifications/cancelled")
            assert told["requestId"] == message["id"]
            assert isinstance(told["reason"], str)
            late: Message = {"jsonrpc": "2.0", "id": message["id"]}
            hand.send({**late, "result": {"content": []}}, {**late, "error": {"code": 1, "message": "m"}})
            hand.tell("notifications/progress", {"progressToken": message["id"], "progress": 1})
            hand.tell("notifications/cancelled", {"requestId": message["id"]})
            hand.replies["tools/call"] = {"content": []}
            assert (await client.call_tool("y")).content == []
            assert len([found for found in hand.got if found.get("method") == "notifications/cancelled"]) == 1

    run(main())


@req("CANC-1", "CANC-2")
def test_a_question_is_cancelled_by_whoever_asked(row: Revision) -> None:
    """The server gives up its question when its own work is cancelled; the client's handler then stops."""

    class Thinking(Helpful):
        def __init__(self) -> None:
            super().__init__()
            self.thinking, self.stopped = asyncio.Event(), asyncio.Event()

        async def create_message(
            self, ctx: mcprev.ClientContext, params: m.CreateMessageRequestParams
        ) -> m.CreateMessageResult:
            self.thinking.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.stopped.set()
            raise AssertionError

    async def main() -> None:
        author, thinker = Slow(), Thinking()
        async with mcprev.connect(mcprev.memory(made(author)), mode=row.name, handler=thinker) as client:
            waiting = asyncio.create_task(client.call_tool("sample"))
            await thinker.thinking.wait()
            waiting.cancel()
            await thinker.stopped.wait()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (await client.list_tools()).tools
        async with serving(row, handler=(other := Thinking())) as (_, hand):
            params: Message = {"messages": [], "maxTokens": 1}
            hand.send({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": params})
            await other.thinking.wait()
            hand.tell("notifications/cancelled", {"requestId": "q"})
            await other.stopped.wait()
            assert (await hand.ask("ping")).result == {}
            assert all(message.get("id") != "q" for message in hand.got)

    run(main())


@req("CANC-5")
def test_a_server_cancels_nothing(row: Revision) -> None:
    """Not when it is closed, nor when handlers time out or fail."""

    async def main() -> None:
        author = Slow()
        server = made(author)
        async with served(server, row, capabilities={"sampling": {}, "elicitation": {"form": {}}}) as hand:
            await begin(hand, "hold", 5)
            await author.started.wait()
            for name in ("crash", "sample", "ask", "error"):
                await hand.ask("tools/call", {"name": name})
            await hand.settle()
        assert [message for message in hand.got if message.get("method") == "notifications/cancelled"] == []

    run(main())


# -- progress --------------------------------------------------------------------------------------------


@req("PROG-1", "PROG-2", "PROG-3")
@pytest.mark.parametrize("token", TOKENS, ids=repr)
def test_progress_bears_the_token_increases_and_ends(row: Revision, token: Any) -> None:
    async def main() -> None:
        author = Slow()
        steps = [1, 1, 0, 2, 2.0, 1.9, 2.5, 10]
        async with served(made(author), row) as hand:
            params = {"name": "steps", "arguments": {"steps": steps}}
            answer = await hand.ask("tools/call", params, meta={"progressToken": token})
            said = answer.notified("notifications/progress")
            assert [found["progress"] for found in said] == [1, 2, 2.5, 10]
            assert [(found["progressToken"], type(found["progressToken"])) for found in said] == [
                (token, type(token))
            ] * 4
            # What it counts up to, and from the second revision on in words.
            assert {found["total"] for found in said} == {10}
            assert {found.get("message") for found in said} == {None if row.name < "2025" else "step"}
            seen = len(hand.got)
            await author.kept[0].progress(11)
            await hand.settle()
            assert [found for found in hand.got[seen:] if "method" in found] == []

    run(main())


@req("PROG-1", "PROG-5")
@pytest.mark.parametrize("token", [None, True, {}, [1]], ids=repr)
def test_without_a_token_there_is_no_progress(row: Revision, token: Any) -> None:
    async def main() -> None:
        async with served(made(Slow()), row) as hand:
            params = {"name": "steps", "arguments": {"steps": [1, 2]}}
            meta = {} if token is None else {"progressToken": token}
            hand.send(
                {
                    "jsonrpc": "2.0",
                    "id": "s",
                    "method": "tools/call",
                    "params": {**params, "_meta": {**hand.stamp, **meta}},
                }
            )
            await hand.get(lambda found: found.get("id") == "s")
            assert not [message for message in hand.got if "method" in message]

    run(main())


@req("PROG-1", "PROG-5")
def test_tokens_are_unique_and_belong_to_their_calls(row: Revision) -> None:
    """Reports reach the callback of their call; none after its end, and none of nobody's."""

    async def main() -> None:
        told: dict[str, list[float]] = {"a": [], "b": []}
        async with serving(row, {"tools/call": lambda _: None}) as (client, hand):

            def keep(name: str) -> Progress:
                return lambda progress, _total, _message: told[name].append(progress)

            calls = [asyncio.create_task(client.call_tool(name, progress=keep(name))) for name in "ab"]
            asked = [await hand.get(lambda found: found.get("method") == "tools/call") for _ in calls]
            tokens = {found["params"]["name"]: found["params"]["_meta"]["progressToken"] for found in asked}
            assert tokens["a"] != tokens["b"]
            assert all(isinstance(token, int | str) for token in tokens.values())
            for name, progress in (("a", 1), ("b", 5), ("a", 2)):
                hand.tell("notifications/progress", {"progressToken": tokens[name], "progress": progress})
            nobodys: list[Any] = ["nobody", 999, None, True, {}]
            for odd in nobodys:
                hand.tell("notifications/progress", {"progressToken": odd, "progress": 7})
            for message in asked:
                answer: Message = {"content": [], "resultType": "complete"}
                hand.send({"jsonrpc": "2.0", "id": message["id"], "result": answer})
            await asyncio.gather(*calls)
            hand.tell("notifications/progress", {"progressToken": tokens["a"], "progress": 9})
            hand.replies["tools/call"] = {"content": []}
            await client.call_tool("c", timeout=None)
            assert told == {"a": [1, 2], "b": [5]}
            assert "progressToken" not in hand.requests[-1]["params"].get("_meta", {})

    run(main())


SENT: Final[Mapping[str, Callable[[mcprev.Client, dict[str, Any]], Awaitable[object]]]] = {
    "call_tool": lambda client, options: client.call_tool("t", **options),
    "raw": lambda client, options: client.raw("tools/call", {"name": "t"}, **options),
    "raw, with a token of its own": lambda client, options: client.raw(
        "tools/call", {"name": "t", "_meta": {"progressToken": "mine"}}, **options
    ),
    "get_prompt": lambda client, options: client.get_prompt("p", **options),
    "read_resource": lambda client, options: client.read_resource("test://r", **options),
    "list_tools": lambda client, options: client.list_tools(**options),
}
"""Ways to make a call, none of which takes the progress."""
RESULTS: Final[Mapping[str, Message]] = {
    "tools/call": {"content": []}, "prompts/get": {"messages": []}, "resources/read": {"contents": []}, "tools/list": {"tools": []},
}  # fmt: skip


@each_once
@req("LIFE-18", "PROG-1", "TIME-1", everywhere=True)
@pytest.mark.parametrize("of_all", [True, False], ids=["all calls", "one call"])
@pytest.mark.parametrize("kind", SENT)
def test_progress_keeps_a_call_alive_that_does_not_take_it(row: Revision, kind: str, of_all: bool) -> None:
    """A server reports progress of requests with a token only: each call with a timeout has one."""
    limit = {"timeout": 10.0}

    async def main() -> None:
        silent: dict[str, Reply] = dict.fromkeys(RESULTS, lambda _: None)
        async with serving(row, silent, timeout=10.0 if of_all else 1.0) as (client, hand):
            call = asyncio.create_task(_call(SENT[kind](client, {} if of_all else limit)))
            asked = await hand.get(lambda found: found.get("method") in RESULTS)
            token = asked["params"]["_meta"]["progressToken"]
            assert token == ("mine" if "own" in kind else asked["id"])
            for number in range(1, 4):
                hand.tell("notifications/progress", {"progressToken": token, "progress": number})
                await _turns()
                pass_time(7)
                await _turns()
                assert not call.done()
            result: Message = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
            hand.send({"jsonrpc": "2.0", "id": asked["id"], "result": {**result, **RESULTS[asked["method"]]}})
            await call

    run(main(), limit=60)


async def _call(call: Awaitable[object]) -> object:
    return await call


async def _turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@req("PROG-3", "PROG-2")
def test_a_client_reports_on_what_it_is_asked(row: Revision) -> None:
    """Where servers ask at all; elsewhere nothing of a client's is a report."""

    class Reporting(Helpful):
        async def create_message(
            self, ctx: mcprev.ClientContext, params: m.CreateMessageRequestParams
        ) -> m.CreateMessageResult:
            for number in (1, 1, 2):
                await ctx.progress(number, 2)
            return await super().create_message(ctx, params)

    async def main() -> None:
        params: Message = {"messages": [], "maxTokens": 1, "_meta": {"progressToken": "mine"}}
        if row.handshake:
            async with serving(row, handler=Reporting()) as (_, hand):
                answer = await hand.ask("sampling/createMessage", params)
                said = answer.notified("notifications/progress")
                assert said == [
                    {"progressToken": "mine", "progress": number, "total": 2} for number in (1, 2)
                ]
            return
        question = {"method": "sampling/createMessage", "params": params}
        rounds: list[Message] = [
            {"resultType": "input_required", "inputRequests": {"q": question}},
            {"resultType": "complete", "content": []},
        ]

        def reply(_: Message) -> Message:
            return rounds.pop(0)

        async with serving(row, {"tools/call": reply}, handler=Reporting()) as (client, hand):
            await client.call_tool("x")
            assert [found["method"] for found in hand.got] == ["server/discover", "tools/call", "tools/call"]

    run(main())


# -- ping and time ---------------------------------------------------------------------------------------


@req("PING-1")
def test_ping_is_answered_whatever_else_goes_on(row: Revision) -> None:
    """By a server whose handlers are all busy, by a client whose handler is, and by both with a queue."""

    async def main() -> None:
        author = Slow()
        server = mcprev.Server(author, "slow", "1", max_handlers=2)
        async with served(server, row) as hand:
            for number in range(6):
                await begin(hand, "hold", number)
            await author.started.wait()
            assert (await hand.ask("ping")).result == {}
            assert (await hand.ask("ping", {"_meta": {"x": 1}})).result == {}
            author.gate.set()
            for number in range(6):
                await hand.get(lambda found, number=number: found.get("id") == number)  # type: ignore[misc]

        class Busy(Helpful):
            async def create_message(
                self, ctx: mcprev.ClientContext, params: m.CreateMessageRequestParams
            ) -> m.CreateMessageResult:
                await author.stopped.wait()
                return await super().create_message(ctx, params)

        async with serving(row, handler=Busy()) as (_, other):
            params: Message = {"messages": [], "maxTokens": 1}
            other.send({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": params})
            assert (await other.ask("ping")).result == {}
            author.stopped.set()
            await other.get(lambda found: found.get("id") == "q")

    run(main())


@req("PING-1")
def test_either_side_may_ping(row: Revision) -> None:
    async def main() -> None:
        async with serving(row, {"ping": {}}) as (client, hand):
            await client.ping()
            assert hand.requests[-1]["method"] == "ping"
            assert (await hand.ask("ping")).result == {}

    run(main())


@req("TIME-1")
def test_each_call_has_its_own_time(row: Revision) -> None:
    async def main() -> None:
        async with serving(row, {"tools/call": lambda _: None}, timeout=9, total_timeout=9) as (client, hand):
            calls = {
                "idle": client.call_tool("a", timeout=0.02),
                "total": client.call_tool("b", total_timeout=0.02, timeout=9),
            }
            for kind, call in calls.items():
                with pytest.raises(RequestTimeout) as caught:
                    await call
                assert caught.value.kind == kind
                assert 0.01 < caught.value.elapsed < 5  # since it was sent, a moment after its time began
                assert kind in str(caught.value)
            lost = [
                found["params"]["requestId"]
                for found in hand.got
                if found.get("method") == "notifications/cancelled"
            ]
            await until(lambda: len(hand.asked("notifications/cancelled")) == 2)
            assert len(set(lost)) <= 2
            patient = asyncio.create_task(client.call_tool("c", timeout=None, total_timeout=None))
            message = await hand.get(lambda found: found.get("params", {}).get("name") == "c")
            answer: Message = {"content": [], "resultType": "complete"}
            hand.send({"jsonrpc": "2.0", "id": message["id"], "result": answer})
            assert (await patient).content == []

    run(main())
