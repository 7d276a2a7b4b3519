"""Tasks that are started at one worker and asked about at others of its store, on the wire (TASK-4, TASK-5, TASKX-3, SUB-9)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
import random
from contextlib import suppress
from typing import Any

import pytest

import mcprev
from api.wire import Message, served
from api.workers import loop_records
from fuzz.fuzzing import each_once
from helpers.named import ROW_D as CORE, ROW_E as MODERN
from mcprev.protocol.tasks import STATUS
from mcprev.revisions import Revision
from mcprev.sharing.tasks import LEASE
from stores.fellows import ACCEPT, KNOWS, each_kind, fellows, run
from stores.test_session_state import client_of

ELICIT = "elicitation/create"


@each_kind
@pytest.mark.parametrize("at", [0, 1])
def test_a_task_is_seen_and_waited_for_from_anywhere(row: Revision, at: int) -> None:
    async def main() -> None:
        async with fellows(row) as made:
            task = await made.start(0, "slow")
            assert (await made.get(at, task))["status"] == "working"
            if row is CORE:
                waiting = asyncio.ensure_future(made.hands[at].ask("tasks/result", {"taskId": task}))
                await asyncio.sleep(30)
                assert not waiting.done()
                made.author.gate.set()
                assert (await waiting).result["content"][0]["text"] == "done"
            made.author.gate.set()
            found = await made.comes_to(at, task, "completed")
            if row is MODERN:
                assert found["result"]["content"][0]["text"] == "done"

    run(main())


@pytest.mark.parametrize("many", [1, 3])
def test_each_question_is_asked_once_however_many_wait_for_the_result_and_wherever(many: int) -> None:
    """In sessions it is asked by the worker that serves `tasks/result`."""

    async def main() -> None:
        async with fellows(CORE, 3, replies={ELICIT: ACCEPT}) as made:
            task = await made.start(0, "ask")
            await asyncio.sleep(5)
            assert [made.asked(at) for at in range(3)] == [0, 0, 0], "nobody waits for the result"
            waiting = [
                made.hands[at].ask("tasks/result", {"taskId": task}) for at in range(3) if at > 0 or many == 3
            ]
            for answer in await asyncio.gather(*waiting[:many]):
                assert answer.result["content"][0]["text"] == "['accept', 'accept']"
            for rest in waiting[many:]:
                rest.close()
            assert sum(made.asked(at) for at in range(3)) == 2
            if many == 1:
                assert made.asked(1) == 2

    run(main())


def test_a_question_that_was_answered_before_it_was_claimed_is_not_asked_again() -> None:
    """What a worker has read of the task is old by the time that it may ask."""

    async def main() -> None:
        async with fellows(CORE, 3, replies={ELICIT: ACCEPT}) as made:
            task = await made.start(0, "ask")
            claiming, answered = asyncio.Event(), asyncio.Event()

            async def late(name: str, key: str) -> None:
                if name == "write" and "/claim/" in key:
                    claiming.set()
                    await answered.wait()

            made.stores[2].before = late
            waiting = asyncio.ensure_future(made.hands[2].ask("tasks/result", {"taskId": task}))
            await claiming.wait()
            await made.hands[1].ask("tasks/result", {"taskId": task})
            answered.set()
            assert (await waiting).result["content"][0]["text"] == "['accept', 'accept']"
            assert (made.asked(1), made.asked(2)) == (2, 0)

    run(main())


@pytest.mark.parametrize("how", ["cancel", "close", "killed"])
def test_a_question_is_taken_over_at_another_worker_when_the_one_who_was_asked_is_gone(how: str) -> None:
    async def main() -> None:
        async with fellows(CORE, 3, replies={ELICIT: lambda _: None}) as made:
            task = await made.start(0, "ask")
            request: Message = {
                "jsonrpc": "2.0",
                "id": "r",
                "method": "tasks/result",
                "params": {"taskId": task},
            }
            made.hands[1].send(request)
            await made.hands[1].heard(ELICIT)
            made.hands[2].replies[ELICIT] = ACCEPT
            waiting = asyncio.ensure_future(made.hands[2].ask("tasks/result", {"taskId": task}))
            await asyncio.sleep(3 * LEASE)
            assert made.asked(2) == 0, "the client takes its time, and is not asked again"
            begun = asyncio.get_running_loop().time()
            if how == "cancel":
                made.hands[1].tell("notifications/cancelled", {"requestId": "r"})
            elif how == "close":
                await made.hands[1].aclose()
            else:
                made.kill(1)
            answer = await waiting
            assert answer.result["content"][0]["text"] == "['accept', 'accept']"
            assert asyncio.get_running_loop().time() - begun <= (LEASE + 3 if how == "killed" else 3)
            assert made.asked(2) == 2

    run(main())


@pytest.mark.parametrize("at", [0, 1])
def test_answers_by_update_reach_the_handler_wherever_it_runs_and_none_is_dropped(at: int) -> None:
    async def main() -> None:
        async with fellows(MODERN, 2) as made:
            task = await made.start(0, "ask")
            assert list((await made.comes_to(at, task, "input_required"))["inputRequests"]) == ["one"]
            refused = await made.update(at, task, one={"action": 7})
            assert refused.code == -32602
            await made.update(at, task, nobody=ACCEPT)
            assert list((await made.get(at, task))["inputRequests"]) == ["one"]
            await made.update(at, task, one={"action": "decline"})
            for there in range(2):
                # Nobody reads a question that was answered, wherever that was.
                assert list((await made.get(there, task)).get("inputRequests", ())) in ([], ["two"])
                await made.update(there, task, one=ACCEPT)
            await made.asks(at, task, "two")
            written = [json.loads(value) for key, value, _ in made.stores[0].writes if "/task/" in key]
            assert (list(written[-1]["asked"]), written[-1]["given"]) == (
                ["two"],
                {},
            ), "what was taken is not kept"
            await made.update(at, task, two=ACCEPT)
            found = await made.comes_to(1 - at, task, "completed")
            assert found["result"]["content"][0]["text"] == "['decline', 'accept']"
            assert made.author.ends == [["decline", "accept"]]

    run(main())


@pytest.mark.parametrize("seed", range(5))
def test_of_several_answers_at_once_one_is_taken_and_the_handler_goes_on(seed: int) -> None:
    async def main() -> None:
        choose = random.Random(seed)  # noqa: S311 - no secret
        async with fellows(MODERN, 3) as made:

            async def pause(_name: str, _key: str) -> None:
                await asyncio.sleep(choose.choice([0, 0.001, 0.01]))

            made.all(lambda store: setattr(store, "before", pause))
            task = await made.start(0, "ask")
            for key in ("one", "two"):
                await made.asks(1, task, key)
                actions = choose.sample(["accept", "decline", "cancel"], 3)
                answers: list[Message] = [
                    ACCEPT if each == "accept" else {"action": each} for each in actions
                ]
                await asyncio.gather(*(made.update(at, task, **{key: answers[at]}) for at in range(3)))
            await made.comes_to(2, task, "completed")
            assert len(made.author.ends) == 1

    run(main())


@each_kind
@pytest.mark.parametrize("seed", range(8))
@each_once
def test_a_cancellation_elsewhere_is_not_overwritten_and_overwrites_nothing(row: Revision, seed: int) -> None:
    """The handler returns at about the same time: whichever was first stays, at all workers."""

    async def main() -> None:
        choose = random.Random(seed)  # noqa: S311 - no secret
        async with fellows(row, 3) as made:

            async def pause(_name: str, _key: str) -> None:
                await asyncio.sleep(choose.choice([0, 0.001, 0.01]))

            task = await made.start(0, "slow")
            made.all(lambda store: setattr(store, "before", pause))
            cancelling = asyncio.ensure_future(made.hands[1].ask("tasks/cancel", {"taskId": task}))
            await asyncio.sleep(choose.choice([0, 0.002, 0.02, 1]))
            made.author.gate.set()
            answer = await cancelling
            first = (await made.get(2, task))["status"]
            assert first in ("cancelled", "completed")
            if row is CORE:
                assert ("error" in answer.message) is (first == "completed")
            for _ in range(20):
                for at in range(3):
                    status = (await made.get(at, task))["status"]
                    assert status == first or (at == 0 and status == "working")
                await asyncio.sleep(0.2)
            assert {(await made.get(at, task))["status"] for at in range(3)} == {first}

    run(main())


@each_kind
def test_a_cancellation_elsewhere_ends_the_handler(row: Revision) -> None:
    async def main() -> None:
        async with fellows(row) as made:
            task = await made.start(0, "slow")
            answer = await made.hands[1].ask("tasks/cancel", {"taskId": task})
            assert answer.result.get("status") == ("cancelled" if row is CORE else None)
            await asyncio.sleep(2)
            (end,) = made.author.ends
            assert isinstance(end, asyncio.CancelledError)
            for at in range(2):
                assert (await made.get(at, task))["status"] == "cancelled"
                assert made.servers[at].tasks is not None
                assert not made.servers[at].tasks.running  # type: ignore[union-attr]

    run(main())


def test_a_listen_stream_follows_the_tasks_of_other_workers_to_their_end() -> None:
    async def main() -> None:
        async with fellows(MODERN, 2) as made:
            task = await made.start(0, "step")
            await made.listen(1, task)
            for step in ("one", "two", "end"):
                made.author.steps.put_nowait(step)
                await asyncio.sleep(3)
            messages = [each.get("statusMessage") for each in made.told(1)]
            assert messages == [None, "one", "two", "two"]
            assert made.told(1)[-1]["result"]["content"][0]["text"] == "done"
            before = len(made.stores[1].reads)
            await asyncio.sleep(30)
            assert len([key for key in made.stores[1].reads[before:] if "task" in key]) == 0

    run(main())


def test_an_answer_elsewhere_stays_one_though_the_runner_stores_something_else_at_that_moment() -> None:
    async def main() -> None:
        async with fellows(MODERN, 2) as made:
            task = await made.start(0, "busy")
            await made.asks(1, task, "one")
            answered = False

            async def answer(name: str, key: str) -> None:
                nonlocal answered
                if name == "write" and "/task/" in key and not answered:
                    answered = True
                    await made.update(1, task, one=ACCEPT)

            made.stores[0].before = answer
            made.author.steps.put_nowait("busy")
            for _ in range(20):
                await asyncio.sleep(0.2)
                for at in range(2):
                    assert "inputRequests" not in await made.get(at, task)
            assert answered
            written = [json.loads(value) for key, value, _ in made.stores[0].writes if "/task/" in key]
            assert [list(each["asked"]) for each in written[2:]] == [[]], "nor for a moment"
            assert (await made.get(1, task))["statusMessage"] == "busy"
            made.author.gate.set()
            await made.comes_to(1, task, "completed")

    run(main())


@each_kind
def test_the_worker_of_a_task_tells_its_streams_and_its_session_what_others_did(row: Revision) -> None:
    async def main() -> None:
        async with fellows(row, 2) as made:
            task = await made.start(0, "slow")
            if row is MODERN:
                await made.listen(0, task)
            await made.hands[1].ask("tasks/cancel", {"taskId": task})
            await asyncio.sleep(3)
            if row is MODERN:
                assert [each["status"] for each in made.told(0)] == ["working", "cancelled"]
            else:
                told = [each["params"] for each in made.hands[0].got if each.get("method") == STATUS]
                assert [each["status"] for each in told] == ["cancelled"]

    run(main())


def test_the_worker_of_a_task_tells_its_streams_of_answers_elsewhere() -> None:
    async def main() -> None:
        async with fellows(MODERN, 2) as made:
            task = await made.start(0, "busy")
            made.author.steps.put_nowait("busy")
            await made.asks(1, task, "one")
            await made.listen(0, task)
            await made.update(1, task, one=ACCEPT)
            await asyncio.sleep(3)
            assert [each["status"] for each in made.told(0)] == ["input_required", "working"]

    run(main())


def test_a_listen_stream_that_its_client_has_left_follows_nothing() -> None:
    async def main() -> None:
        async with fellows(MODERN, 2) as made:
            task = await made.start(0, "slow")
            await made.listen(1, task)
            made.hands[1].tell("notifications/cancelled", {"requestId": "l"})
            await asyncio.sleep(3)
            before = len(made.stores[1].reads)
            await asyncio.sleep(30)
            assert len([key for key in made.stores[1].reads[before:] if "task/" in key]) == 0

    run(main())


@each_kind
def test_a_task_that_is_gone_is_unknown_everywhere_also_when_it_goes_meanwhile(row: Revision) -> None:
    async def main() -> None:
        async with fellows(row, ttl=1000) as made:
            made.author.gate.set()
            task = await made.start(0, "slow")
            await made.comes_to(1, task, "completed")
            await asyncio.sleep(10)
            methods = ["get", "cancel", "result" if row is CORE else "update"]
            for at in range(2):
                for method in methods:
                    assert (await made.hands[at].ask(f"tasks/{method}", {"taskId": task})).code == -32602
            made.author.gate.clear()
            for method in methods[1:]:
                task = await made.start(0, "ask")
                params: Message = {"taskId": task, "inputResponses": {"one": ACCEPT}}
                await made.comes_to(1, task, "input_required")
                found = [key for key, _, _ in made.stores[0].writes if "/task/" in key][-1]
                reads = 0

                async def lose(name: str, key: str, found: str = found, method: str = method) -> None:
                    nonlocal reads
                    reads += name == "read" and key == found
                    if reads == 2 or (method == "result" and reads == 1):
                        with suppress(KeyError):
                            await made.stores[1].held.remove(found)

                made.stores[1].before = lose
                assert (await made.hands[1].ask(f"tasks/{method}", params)).code == -32602, method
                made.stores[1].before = None

    run(main())


def test_the_tasks_of_one_client_are_bounded_at_all_workers_together() -> None:
    async def main() -> None:
        async with fellows(CORE, 3, max_running_each=2) as made:
            for server in made.servers:
                for connection in server._connections:
                    vars(connection._connection_state)["key"] = "one session"
            call: dict[str, Any] = {"name": "slow", "task": {}}
            await made.start(0, "slow")
            task = await made.start(1, "slow")
            refused = await made.hands[2].ask("tools/call", call)
            assert refused.code == -32603
            assert "too many tasks of this client" in refused.error["message"]
            listed = (await made.hands[2].ask("tasks/list")).result["tasks"]
            assert [each["taskId"] for each in listed][1:] == [task]
            await made.hands[2].ask("tasks/cancel", {"taskId": task})
            await asyncio.sleep(2)
            await made.start(2, "slow")
            async with served(made.servers[0], CORE, capabilities=KNOWS) as other:
                assert "task" in (await other.ask("tools/call", call)).result
                assert len((await other.ask("tasks/list")).result["tasks"]) == 1

    run(main())


@each_kind
def test_a_runner_reads_from_the_store_what_others_did_before_it_answers(row: Revision) -> None:
    async def main() -> None:
        async with fellows(row, 2) as made:
            task = await made.start(0, "slow")
            await asyncio.sleep(5)
            await made.hands[1].ask("tasks/cancel", {"taskId": task})
            assert (await made.get(0, task))["status"] == "cancelled"

    run(main())


@each_kind
def test_over_http_a_task_is_its_principal_s_at_every_worker_and_of_no_other(row: Revision) -> None:
    """Each client is at a worker of its own; ann has one at two."""

    async def main() -> None:
        store, gate = loop_records(), asyncio.Event()

        def worker() -> mcprev.App:
            app = mcprev.App("s", "1", store=store)

            @app.tool(task="optional")
            async def slow(ctx: mcprev.Context) -> str:
                await ctx.detach()
                await gate.wait()
                return "done"

            return app

        async with (
            client_of(worker().server, row, "a") as ann,
            client_of(worker().server, row, "a") as also_ann,
            client_of(worker().server, row, "b") as bob,
        ):
            task_id = (await ann.start_tool("slow")).id
            theirs = await bob.start_tool("slow")
            assert (await also_ann.task(task_id)).status == "working"
            for method in ("tasks/get", "tasks/cancel", "tasks/result" if row is CORE else "tasks/update"):
                with pytest.raises(mcprev.InvalidParams, match="Unknown task"):
                    await bob.raw(method, {"taskId": task_id})
            if row is CORE:
                for client, own in ((ann, task_id), (also_ann, task_id), (bob, theirs.id)):
                    listed = (await client.raw("tasks/list"))["tasks"]
                    assert [each["taskId"] for each in listed] == [own]
            gate.set()
            assert (await (await also_ann.task(task_id)).result(30)).content[0].to_wire()["text"] == "done"

    run(main(), has_both_ends=True)
