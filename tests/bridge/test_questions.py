"""What a server asks reaches the client whose call it belongs to, in each of the four cells (MRTR-*, SEC-5)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import pytest

from api.test_principals import sent_by
from api.wire import LOG_LEVEL, Error, Message
from bridge.hands import (
    ELICIT,
    LIST_ROOTS,
    SAMPLE,
    SAMPLED,
    SAMPLING,
    URL,
    Downstream,
    Servers,
    Upstream,
    Work,
    bridge_to,
    bridged,
    question,
    said,
    text,
)
from helpers.requirements import E, req
from helpers.running import run, until
from mcprev.bridge.upstreams import Bounds
from mcprev.revisions import DEFAULT, Revision

SESSION: Final = [row for row in DEFAULT if row.handshake][-1]
MODERN: Final = DEFAULT[-1]
CELLS: Final = [(row, there) for row in (SESSION, MODERN) for there in (SESSION, MODERN)]
in_each_cell = pytest.mark.parametrize(
    ("row", "there"), CELLS, ids=lambda row: row.name if isinstance(row, Revision) else str(row)
)
MANY: Final = 24


async def three(up: Upstream, request: Message) -> Message:
    number = request["params"]["arguments"]["n"]
    return await up.asking(
        request,
        question(up.revision, "form", f" {number}a"),
        question(up.revision, "sampling", f" {number}b"),
        question(up.revision, "form", f" {number}c"),
    )


async def one(up: Upstream, request: Message) -> Message:
    return await up.asking(request, question(up.revision, "form", " once"))


async def plain(_: Upstream, request: Message) -> Message:
    return text("plain")


async def two_at_once(up: Upstream, request: Message) -> Message:
    """Asks two questions at the same time, in a session."""
    asked = [question(up.revision, "form", " first"), question(up.revision, "sampling", " second")]
    answers = await asyncio.gather(*(up.ask(*each) for each in asked))
    return text([answer.result for answer in answers])


async def needs_url(up: Upstream, request: Message) -> Error:
    return Error(-32042, "visit first", {"elicitations": [URL]})


async def failing(up: Upstream, request: Message) -> Message:
    """Returns what its question was answered with, whatever that is."""
    answer = (await up.ask(*question(up.revision, "sampling"))).message
    return text(answer.get("error", answer.get("result")))


TOOLS: Final[Mapping[str, Work]] = {
    function.__name__: function for function in (three, one, plain, two_at_once, needs_url, failing)
}


def ends(row: Revision, there: Revision) -> tuple[Downstream, Servers]:
    return Downstream(row), Servers(lambda: Upstream(there, TOOLS, {"resources/subscribe": {}}))


@pytest.mark.slow
@req("MRTR-5", "MRTR-11", "MRTR-12", at=(SESSION.name, E))
@in_each_cell
def test_many_calls_at_once_get_their_own_answers(row: Revision, there: Revision) -> None:
    client, servers = ends(row, there)

    async def main() -> None:
        async with bridged(bridge_to(servers, there), client):
            found = await asyncio.gather(*(client.call("three", {"n": n}) for n in range(MANY)))
            for number, result in enumerate(found):
                arguments, answers = said(result)
                assert arguments == {"n": number}
                for answer, letter in zip(answers, "abc", strict=True):
                    assert f" {number}{letter}" in str(answer)
            assert len(client.asked_for) == 3 * MANY
            assert len(servers.made) < MANY, "a connection serves one call after the other"
            servers.check()

    run(main())


@req("MRTR-2", "MRTR-5", at=E)
def test_two_questions_at_once_are_in_one_result_or_the_next() -> None:
    client, servers = ends(MODERN, SESSION)

    async def main() -> None:
        async with bridged(bridge_to(servers, SESSION), client):
            first, second = said(await client.call("two_at_once"))
            assert " first" in first["content"]["name"]
            assert " second" in second["content"]["text"]

    run(main())


@req("ELIC-1", "CONV-17", at=E)
def test_an_error_that_asks_for_a_visit_becomes_a_result_that_does() -> None:
    client, servers = ends(MODERN, SESSION)

    async def main() -> None:
        async with bridged(bridge_to(servers, SESSION), client):
            result = (await client.ask("tools/call", {"name": "needs_url"})).result
            (asked,) = result["inputRequests"].values()
            assert (asked["method"], asked["params"]["url"]) == (ELICIT, URL["url"])
            client.capabilities = {}
            error = (await client.ask("tools/call", {"name": "needs_url"})).error
            assert error["code"] == -32603
            assert URL["url"] in error["message"]
            assert "BR-2" in error["message"]

    run(main())


@req("ELIC-1", "MRTR-3", at=(SESSION.name, E))
@pytest.mark.parametrize("row", [SESSION, MODERN], ids=lambda row: row.name)
def test_a_client_that_declares_nothing_is_not_asked(row: Revision) -> None:
    """The server is told so; one that asks all the same gets an error."""
    client, servers = Downstream(row, {}), Servers(lambda: Upstream(SESSION, TOOLS))
    client.replies[SAMPLE] = Error(-32601, "no such method")

    async def main() -> None:
        async with bridged(bridge_to(servers, SESSION), client):
            found = said(await client.call("failing"))
            assert found["code"] == -32601
            assert servers.made[-1].hello["capabilities"] == {}

    run(main())


@req("MRTR-4", "SEC-5", at=E)
def test_a_forged_state_is_refused() -> None:
    client, servers = ends(MODERN, SESSION)

    async def main() -> None:
        async with bridged(bridge_to(servers, SESSION), client):
            first = (await client.ask("tools/call", {"name": "one"})).result
            for state in ("x", first["requestState"] + "x", first["requestState"][:-4]):
                answer = await client.ask("tools/call", {"name": "one", "requestState": state})
                assert answer.error["code"] == -32602
            other = await client.ask("tools/call", {"name": "three", "requestState": first["requestState"]})
            assert other.error["code"] == -32602
            assert sum(m.get("method") == "tools/call" for m in servers.made[0].got) == 1

    run(main())


@req("MRTR-4", "SEC-5", at=E)
@pytest.mark.parametrize("there", [SESSION, MODERN], ids=lambda row: row.name)
def test_a_principal_cannot_continue_the_call_of_another(there: Revision) -> None:
    client, servers = ends(MODERN, there)

    async def main() -> None:
        bridge = bridge_to(servers, there)
        async with bridged(bridge, client):
            with sent_by(bridge, "ann") as sender:
                first = (await client.ask("tools/call", {"name": "one"})).result
                state = first["requestState"]
                assert state != "[]", "the state of the server is sealed for the principal"
                answers = {
                    key: {"action": "accept", "content": {"name": "x"}} for key in first["inputRequests"]
                }
                again = {"name": "one", "requestState": state, "inputResponses": answers}
                for other in ("bob", None):
                    sender.principal = other
                    refused = await client.ask("tools/call", again)
                    assert refused.error["code"] == -32602 or (other is None and there.input_in_results)
                sender.principal = "ann"
                done = (await client.ask("tools/call", again)).result
                assert said(done)[1][0]["content"] == {"name": "x"}

    run(main())


@req("SEC-5", at=E)
def test_principals_have_sessions_of_their_own_at_the_server() -> None:
    client, servers = ends(MODERN, SESSION)

    async def main() -> None:
        bridge = bridge_to(servers, SESSION)
        async with bridged(bridge, client):
            with sent_by(bridge, "ann") as sender:
                for name in ("ann", "bob", "ann", "bob"):
                    sender.principal = name
                    await client.call("plain")
            assert (
                len(servers.made) == 3
            ), "one of the pipe's client, which discovered, and one of each principal"

    run(main())


@req("MRTR-4", at=E)
def test_a_held_call_ends_when_nobody_answers() -> None:
    client, servers = ends(MODERN, SESSION)

    async def main() -> None:
        bounds = Bounds(user=5)
        async with bridged(bridge_to(servers, SESSION, bounds=bounds), client):
            first = (await client.ask("tools/call", {"name": "one"})).result
            await asyncio.sleep(6)
            await until(lambda: servers.made[0].cancelled)  # type: ignore[attr-defined]
            params: Message = {"name": "one", "requestState": first["requestState"], "inputResponses": {}}
            assert (await client.ask("tools/call", params)).error["code"] == -32602
            assert said(await client.call("one"))[1], "and its connection serves the next call"
            assert len(servers.made) == 1

    run(main())


@req("MRTR-4", at=E)
def test_held_calls_are_bounded() -> None:
    client, servers = ends(MODERN, SESSION)

    async def main() -> None:
        bounds = Bounds(held=2, per_key=3)
        async with bridged(bridge_to(servers, SESSION, bounds=bounds), client):
            for _ in range(2):
                await client.ask("tools/call", {"name": "one"})
            third = (await client.ask("tools/call", {"name": "one"})).error
            assert third["code"] == -32603
            assert "too many calls are waiting" in third["message"]

    run(main())


@req("TIME-1", at=E)
def test_a_call_that_gets_no_connection_in_time_is_refused() -> None:
    client, servers = ends(MODERN, SESSION)

    async def main() -> None:
        bounds = Bounds(upstreams=1, wait=5)
        async with bridged(bridge_to(servers, SESSION, bounds=bounds), client):
            await client.ask("tools/call", {"name": "one"})
            error = (await client.ask("tools/call", {"name": "one"})).error
            assert error["code"] == -32603
            assert "within 5 s" in error["message"]
            assert (await client.ask("tools/list", {})).error[
                "code"
            ] == -32601, "what cannot be asked shares it"

    run(main())


@req("TIME-1", "MRTR-4", at=E)
def test_calls_that_wait_for_a_user_make_room_after_some_time() -> None:
    """Users who never come back do not keep a bridge from serving others."""
    client, servers = ends(MODERN, SESSION)

    async def main() -> None:
        bounds = Bounds(upstreams=2, per_key=1, grace=3, wait=10)
        async with bridged(bridge_to(servers, SESSION, bounds=bounds), client):
            first, second = [(await client.ask("tools/call", {"name": "one"})).result for _ in range(2)]
            third = await client.ask("tools/call", {"name": "one"})
            assert third.result["inputRequests"]
            lost = {"name": "one", "requestState": first["requestState"]}
            assert (await client.ask("tools/call", lost)).error["code"] == -32602
            answers = {key: {"action": "decline"} for key in second["inputRequests"]}
            kept = {"name": "one", "requestState": second["requestState"], "inputResponses": answers}
            assert said((await client.ask("tools/call", kept)).result)[1] == [{"action": "decline"}]

    run(main())


@req("MRTR-5", at=E)
def test_a_repeated_request_takes_the_call_over() -> None:
    client, servers = ends(MODERN, SESSION)

    async def slow(up: Upstream, request: Message) -> Message:
        answers = await up.asking(request, question(up.revision, "form", " x"))
        await gate.wait()
        return answers

    gate = asyncio.Event()
    servers = Servers(lambda: Upstream(SESSION, {"slow": slow}))

    async def main() -> None:
        async with bridged(bridge_to(servers, SESSION), client):
            first = (await client.ask("tools/call", {"name": "slow"})).result
            answers = {key: {"action": "decline"} for key in first["inputRequests"]}
            params = {"name": "slow", "requestState": first["requestState"], "inputResponses": answers}
            earlier = asyncio.ensure_future(client.ask("tools/call", params))
            later = asyncio.ensure_future(client.ask("tools/call", params))
            refused = await earlier
            assert "another request already continues this call" in refused.error["message"]
            gate.set()
            assert said((await later).result)[1] == [{"action": "decline"}]

    run(main())


@req("CANC-2", "MRTR-4", at=E)
def test_cancelling_a_request_cancels_its_held_call() -> None:
    client = Downstream(MODERN)

    async def slow(up: Upstream, request: Message) -> Message:
        await up.ask(*question(up.revision, "form"))
        asked.set()
        await asyncio.Event().wait()
        return text("never")

    asked = asyncio.Event()
    servers = Servers(lambda: Upstream(SESSION, {"slow": slow}))

    async def main() -> None:
        async with bridged(bridge_to(servers, SESSION), client):
            first = (await client.ask("tools/call", {"name": "slow"})).result
            answers = {key: {"action": "cancel"} for key in first["inputRequests"]}
            params = {"name": "slow", "requestState": first["requestState"], "inputResponses": answers}
            again = asyncio.ensure_future(client.ask("tools/call", params, id_="again"))
            await asked.wait()
            client.tell("notifications/cancelled", {"requestId": "again", "reason": "enough"})
            await until(lambda: servers.made[0].cancelled)  # type: ignore[attr-defined]
            assert servers.made[0].cancelled == ["enough"]  # type: ignore[attr-defined]
            again.cancel()

    run(main())


@req("MRTR-7", at=E)
def test_an_answer_that_is_none_is_refused_and_the_call_goes_on() -> None:
    client, servers = ends(MODERN, SESSION)

    async def main() -> None:
        async with bridged(bridge_to(servers, SESSION), client):
            first = (await client.ask("tools/call", {"name": "one"})).result
            (key,) = first["inputRequests"]
            params = {"name": "one", "requestState": first["requestState"]}
            wrong = await client.ask("tools/call", {**params, "inputResponses": {key: {"action": "maybe"}}})
            assert wrong.error["code"] == -32602
            right = {key: {"action": "accept", "content": {"name": "y"}}}
            done = await client.ask("tools/call", {**params, "inputResponses": right})
            assert said(done.result)[1][0]["content"] == {"name": "y"}

    run(main())


@req("SUB-7", "MRTR-3", at=E)
def test_a_question_outside_of_a_call_is_refused_by_its_rule() -> None:
    client, servers = ends(MODERN, SESSION)

    async def main() -> None:
        async with bridged(bridge_to(servers, SESSION), client):
            answer = (await servers.made[0].ask(LIST_ROOTS)).message
            assert answer["error"]["code"] == -32601
            assert "BR-3" in answer["error"]["message"]

    run(main())


CAPABILITIES: Final[dict[str, Message]] = {"none": {}, "another one": {"roots": {}}}


@req("MRTR-3", "SAMP-2", at=E)
@pytest.mark.parametrize("level", [None, "info"], ids=["", "with a log level"])
@pytest.mark.parametrize("declared", CAPABILITIES.values(), ids=CAPABILITIES)
def test_a_question_that_the_client_of_a_call_has_not_declared_says_so(
    declared: Message, level: str | None
) -> None:
    client = Downstream(MODERN, declared)
    servers = Servers(lambda: Upstream(SESSION, TOOLS))

    async def main() -> None:
        async with bridged(bridge_to(servers, SESSION), client):
            meta = {} if level is None else {LOG_LEVEL: level}
            found = said(await client.call("failing", **meta))
            assert found["code"] == -32601
            assert found["message"] == f"{SAMPLE}: the client has not declared the capability sampling"
            assert client.asked_for == []

    run(main())


@req("MRTR-11", "CONV-17", at=(SESSION.name, E))
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_user_who_declines_is_no_error(action: str) -> None:
    client, servers = ends(SESSION, MODERN)
    client.replies[ELICIT] = {"action": action}

    async def main() -> None:
        async with bridged(bridge_to(servers, MODERN), client):
            assert said(await client.call("one"))[1] == [{"action": action}]

    run(main())


@req("MRTR-11", at=(SESSION.name, E))
def test_an_error_of_the_client_ends_the_call() -> None:
    client, servers = ends(SESSION, MODERN)
    client.replies[ELICIT] = Error(-1, "the user has gone")

    async def main() -> None:
        async with bridged(bridge_to(servers, MODERN), client):
            assert await client.call("one") == {"code": -1, "message": "the user has gone"}

    run(main())


@req("MRTR-6", "MRTR-11", at=(SESSION.name, E))
def test_a_server_that_asks_for_ever_is_stopped() -> None:
    async def endless(up: Upstream, request: Message) -> Message:
        return {
            "resultType": "input_required",
            "inputRequests": {"q": {"method": SAMPLE, "params": SAMPLING}},
        }

    client, servers = Downstream(SESSION), Servers(lambda: Upstream(MODERN, {"endless": endless}))

    async def main() -> None:
        async with bridged(bridge_to(servers, MODERN), client):
            found = await client.call("endless")
            assert "more than 10 times" in found["message"]

    run(main())


@req("PROG-1", "CANC-2", at=(SESSION.name,))
def test_progress_and_cancellation_of_a_question_in_sessions() -> None:
    client = Downstream(SESSION)
    heard: list[Message] = []

    async def asks(up: Upstream, request: Message) -> Message:
        _, params = question(up.revision, "sampling")
        asked = await up.ask(SAMPLE, {**(params or {}), "_meta": {"progressToken": "theirs"}})
        heard.extend(asked.notified("notifications/progress"))
        return text(asked.result["model"])

    servers = Servers(lambda: Upstream(SESSION, {"asks": asks}))

    def slowly(request: Message) -> Message:
        token = request["params"]["_meta"]["progressToken"]
        client.tell("notifications/progress", {"progressToken": token, "progress": 1})
        return SAMPLED

    client.replies[SAMPLE] = slowly

    async def main() -> None:
        async with bridged(bridge_to(servers, SESSION), client):
            assert said(await client.call("asks")) == "m"
            assert heard == [{"progressToken": "theirs", "progress": 1}]

    run(main())


@req("CANC-3", "MRTR-4", at=E)
@pytest.mark.parametrize("answers_pings", [True, False])
def test_a_question_of_a_cancelled_call_is_not_that_of_the_next(*, answers_pings: bool) -> None:
    """What a server still says of a call that was cancelled may come when the connection serves another."""
    reached = asyncio.Event()

    async def late(up: Upstream, request: Message) -> Message:
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            method, params = question(up.revision, "form", " too late")
            up.send({"jsonrpc": "2.0", "id": "late", "method": method, "params": params})
            raise
        return text("never")

    class Pinged(Upstream):
        def reply(self, request: Message) -> Message | Error | None:
            return None if request["method"] == "ping" and not answers_pings else super().reply(request)

    client, servers = Downstream(MODERN), Servers(lambda: Pinged(SESSION, {**TOOLS, "late": late}))

    async def main() -> None:
        async with bridged(bridge_to(servers, SESSION), client):
            cancelled = asyncio.ensure_future(client.ask("tools/call", {"name": "late"}, id_="late"))
            await reached.wait()
            client.tell("notifications/cancelled", {"requestId": "late"})
            assert said(await client.call("plain")) == "plain"
            assert client.asked_for == []
            (refused,) = [m for m in servers.made[0].got if m.get("id") == "late"]
            assert refused["error"]["code"] == -32601
            assert len(servers.made) == (1 if answers_pings else 2)
            cancelled.cancel()

    run(main())
