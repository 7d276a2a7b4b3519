"""Input that a server needs: results that ask for it, and requests where results cannot (MRTR-1..4, 7, 8, 11)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any, Final

import pytest

import mcprev
from api.scripted import form, giving, sample, server, text, url
from api.wire import Error, Json, Message, Sender, each_session, served
from helpers.requirements import D, E, req
from helpers.running import Records, run
from mcprev.revisions import LATEST, Revision, revision_named
from mcprev_types.latest import models as m

EVERYTHING: Final[Message] = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
ACCEPTED: Final = {"action": "accept", "content": {"name": "bob"}}
ASKING: Final = ("tools/call", "prompts/get", "resources/read")
PARAMS: Final[dict[str, Message]] = {
    "tools/call": {"name": "t", "arguments": {"a": 1}},
    "prompts/get": {"name": "p"},
    "resources/read": {"uri": "a:b"},
}


async def who(ctx: mcprev.Context, params: Any) -> Any:
    """Ask one question, and say what was answered in the form of each method."""
    answer = await ctx.ask("who", form())
    said = f"{answer.action} {answer.content}"
    if isinstance(params, m.CallToolRequestParams):
        return text(said)
    if isinstance(params, m.ReadResourceRequestParams):
        return m.ReadResourceResult(contents=[m.TextResourceContents(uri="a:b", text=said)], ttl_ms=5)
    content = m.TextContent(text=said)
    return m.GetPromptResult(messages=[m.PromptMessage(role="user", content=content)])


def asking() -> mcprev.Server:
    return server(call_tool=who, get_prompt=who, read_resource=who)


@pytest.fixture
def logged() -> Iterator[Records]:
    """What the server logs."""
    records, log = Records(), logging.getLogger("mcprev.server")
    log.addHandler(records)
    yield records
    log.removeHandler(records)


# -- by results ------------------------------------------------------------------------------------------


@req("MRTR-1", "MRTR-2", "MRTR-8", "MRTR-9")
@pytest.mark.parametrize("method", ASKING)
def test_an_interim_result_asks_and_the_retry_brings_the_answer(method: str) -> None:
    """MRTR-8: nothing waits in between, so that the retry may come over another connection."""

    async def main() -> None:
        made = asking()
        async with served(made, LATEST, capabilities=EVERYTHING) as client:
            interim = (await client.ask(method, PARAMS[method])).result
        assert interim["resultType"] == "input_required"
        assert interim.keys() <= {
            "resultType",
            "inputRequests",
            "requestState",
            "_meta",
        }, "no hints for caches"
        assert interim["inputRequests"].keys() == {"who"}
        assert interim["inputRequests"]["who"].keys() == {"method", "params"}, "no id, no jsonrpc"
        async with served(made, LATEST, capabilities=EVERYTHING) as client:
            again = {**PARAMS[method], "inputResponses": {"who": ACCEPTED}}
            final = (await client.ask(method, again)).result
        assert final["resultType"] == "complete"
        assert "bob" in str(final)

    run(main())


@req("MRTR-1", "ERR-1", at=E)
@pytest.mark.parametrize(
    ("method", "stub"),
    [("tools/list", "list_tools"), ("completion/complete", "complete"), ("resources/list", "list_resources")],
)
def test_other_methods_cannot_ask(method: str, stub: str, logged: Records) -> None:
    async def main() -> None:
        asks = giving(m.InputRequiredResult(input_requests={"x": form()}))
        params: Json = None
        if method == "completion/complete":
            params = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}
        async with served(server(**{stub: asks}), LATEST, capabilities=EVERYTHING) as client:
            assert (await client.ask(method, params)).code == -32603
        assert "cannot ask for input" in str(logged.records[0].exc_info)

    run(main())


@req("MRTR-2")
@pytest.mark.parametrize("given", [{}, {"inputRequests": {}}, {"inputRequests": {}, "requestState": ""}])
def test_a_result_that_asks_for_nothing_does_not_go_out(given: Message, logged: Records) -> None:
    async def main() -> None:
        made = server(call_tool=giving({"resultType": "input_required", **given}))
        async with served(made, LATEST, capabilities=EVERYTHING) as client:
            assert (await client.ask("tools/call", {"name": "t"})).failure == "the tool 't' failed"

    run(main())
    assert "asks for none" in str(logged.records[0].exc_info)


@req("MRTR-2", "MRTR-6")
def test_a_result_may_carry_a_state_alone() -> None:
    async def main() -> None:
        made = server(call_tool=giving(m.InputRequiredResult(request_state="later")))
        async with served(made, LATEST) as client:
            interim = (await client.ask("tools/call", {"name": "t"})).result
            assert interim["requestState"]
            assert "inputRequests" not in interim

    run(main())


@req("MRTR-2")
@pytest.mark.parametrize("row", [revision_named(D), LATEST], ids=["in a session", "in a result"])
@pytest.mark.parametrize(
    "asked",
    [{"method": "tools/list"}, {"method": "no/such"}, {"method": "ping"}, {"method": "elicitation/create"}, {}, 5],
)  # fmt: skip
def test_only_questions_can_be_asked(asked: Json, row: Revision, logged: Records) -> None:
    async def main() -> None:
        made = server(call_tool=giving({"resultType": "input_required", "inputRequests": {"x": asked}}))
        async with served(made, row, capabilities=EVERYTHING) as client:
            assert (await client.ask("tools/call", {"name": "t"})).failure == "the tool 't' failed"

    run(main())
    assert len(logged.records) == 1


TOOL: Final = m.Tool(name="t", input_schema=m.ToolInputSchema())


@req("MRTR-3", "ELIC-1", "SAMP-2", "MOD-6", at=E)
@pytest.mark.parametrize("explicit", [True, False], ids=["result", "ask"])
@pytest.mark.parametrize(
    ("request_", "capabilities", "required"),
    [
        (form(), {}, {"elicitation": {"form": {}}}),
        (form(), {"elicitation": {"url": {}}}, {"elicitation": {"form": {}}}),
        (url(), {"elicitation": {}}, {"elicitation": {"url": {}}}),
        (url(), {"elicitation": {"form": {}}}, {"elicitation": {"url": {}}}),
        (sample(), {"elicitation": {}}, {"sampling": {}}),
        (sample(tools=[TOOL]), {"sampling": {}}, {"sampling": {"tools": {}}}),
        (sample(toolChoice={"mode": "auto"}), {"sampling": {}}, {"sampling": {"tools": {}}}),
        (m.ListRootsRequest(), {}, {"roots": {}}),
    ],
)
def test_what_was_not_declared_is_not_asked(
    request_: Any, capabilities: Message, required: Message, explicit: bool
) -> None:
    """Each request says anew what its client can do; the same question is asked of one that can."""

    async def by_asking(ctx: mcprev.Context, params: Any) -> Any:
        await ctx.ask("x", request_)

    asks = giving(m.InputRequiredResult(input_requests={"x": request_})) if explicit else by_asking

    async def main() -> None:
        async with served(server(call_tool=asks), LATEST, capabilities=capabilities) as client:
            refused = await client.ask("tools/call", {"name": "t"})
            assert (refused.code, refused.error["data"]) == (-32021, {"requiredCapabilities": required})
            able = {"io.modelcontextprotocol/clientCapabilities": EVERYTHING}
            asked = (await client.ask("tools/call", {"name": "t"}, meta=able)).result
            assert asked["inputRequests"].keys() == {"x"}

    run(main())


def asking_twice() -> mcprev.Server:
    async def twice(ctx: mcprev.Context, params: m.CallToolRequestParams) -> Any:
        first = await ctx.ask("one", form())
        second = await ctx.ask("two", form())
        return text([first.content, second.content])

    return server(call_tool=twice)


@req("MRTR-4", "SEC-5")
def test_a_state_is_taken_only_as_it_was_given_for_the_request_it_was_given_for() -> None:
    async def main() -> None:
        async with served(asking_twice(), LATEST, capabilities=EVERYTHING) as client:
            params = {"name": "t", "arguments": {"a": 1}}
            one = {"inputResponses": {"one": ACCEPTED}}
            asked = (await client.ask("tools/call", {**params, **one})).result
            state = asked["requestState"]
            assert asked["inputRequests"].keys() == {"two"}
            assert "bob" not in state
            two = {"inputResponses": {"two": {"action": "decline"}}, "requestState": state}
            done = (await client.ask("tools/call", {**params, **two})).result
            assert done["content"][0]["text"] == "[{'name': 'bob'}, None]"
            others: tuple[Message, ...] = (
                {"name": "u"}, {"arguments": {"a": 2}}, {"arguments": {}}, {"requestState": state[:-2] + "xx"},
                {"requestState": ""}, {"requestState": state + "="}, {"requestState": None, "name": 5},
            )  # fmt: skip
            for other in others:
                answer = await client.ask("tools/call", {**params, **two, **other})
                assert answer.code == -32602, other

    run(main())


@req("MRTR-7")
@pytest.mark.parametrize(
    ("responses", "then"),
    [
        ({}, "asked"),
        ({"other": ACCEPTED}, "asked"),
        ({"who": ACCEPTED, "other": {"action": "decline"}}, "done"),
        ({"who": {"action": "cancel"}}, "done"),
        ({"who": {"action": "nonsense"}}, -32602),
        ({"who": {}}, -32602),
        ({"who": {"roots": []}}, -32602),
        ({"who": 5}, -32602),
        (5, -32602),
        ([], -32602),
    ],
)
def test_answers_are_missing_superfluous_or_no_answers(responses: Json, then: Json) -> None:
    async def main() -> None:
        async with served(asking(), LATEST, capabilities=EVERYTHING) as client:
            answer = await client.ask("tools/call", {"name": "t", "inputResponses": responses})
            if isinstance(then, int):
                assert answer.code == then
            else:
                kind = "input_required" if then == "asked" else "complete"
                assert answer.result["resultType"] == kind

    run(main())


# -- by requests -----------------------------------------------------------------------------------------


def able(row: Revision) -> Message:
    """What a client of a revision can declare."""
    found: Message = {"sampling": {}, "roots": {}}
    if row.elicitation_modes:
        found["elicitation"] = {mode: {} for mode in row.elicitation_modes} if row.sampling_tools else {}
    return found


@each_session
@req("MRTR-11", "SEAM-10")
@pytest.mark.parametrize("explicit", [True, False], ids=["result", "ask"])
def test_sessions_are_asked_by_requests(row: Revision, explicit: bool) -> None:
    """The same handler; the question is a request of the server's, between the call and its answer."""
    question = form() if row.elicitation_modes else sample()

    async def by_asking(ctx: mcprev.Context, params: m.CallToolRequestParams) -> Any:
        answer = await ctx.ask("q", question)
        return text(answer.to_wire())

    async def by_result(ctx: mcprev.Context, params: m.CallToolRequestParams) -> Any:
        known = params.input_responses or {}
        if "q" not in known:
            return m.InputRequiredResult(input_requests={"q": question}, request_state="mine")
        assert params.request_state == "mine"
        answer: Any = known["q"]
        return text(answer.to_wire())

    sampled = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "bob"}}
    replies: dict[str, Any] = {"elicitation/create": ACCEPTED, "sampling/createMessage": sampled}

    async def main() -> None:
        made = server(call_tool=by_result if explicit else by_asking)
        async with served(made, row, capabilities=able(row), replies=replies) as client:
            answer = await client.ask("tools/call", {"name": "t"})
            assert [found["method"] for found in answer.before] == [question.method]
            assert "bob" in answer.result["content"][0]["text"]
            assert answer.result.keys() == {"content"}

    run(main())


@each_session
@req("MRTR-11", "CONV-17", "ELIC-1", "CONV-34")
def test_sessions_are_not_asked_what_they_did_not_declare(row: Revision) -> None:
    async def asks(ctx: mcprev.Context, params: m.CallToolRequestParams) -> Any:
        if params.name == "ask":
            await ctx.ask("q", form("which one?"))
        return m.InputRequiredResult(input_requests={"q": form("which one?")})

    async def main() -> None:
        async with served(server(call_tool=asks, get_prompt=asks), row) as client:
            by_result = await client.ask("tools/call", {"name": "result"})
            assert by_result.result["isError"] is True
            assert "which one?" in by_result.result["content"][0]["text"]
            assert (await client.ask("tools/call", {"name": "ask"})).code == -32602
            assert (await client.ask("prompts/get", {"name": "result"})).code == -32602
            assert [message for message in client.got if "id" in message and "method" in message] == []

    run(main())


@req("MRTR-11")
@pytest.mark.parametrize(
    ("reply", "code"), [(Error(-1, "rejected"), -1), (Error(-32603), -32603), ({"action": 5}, None)]
)
def test_what_a_session_answers_reaches_the_author(row: Revision, reply: Any, code: int | None) -> None:
    """An error of the client's is the author's to handle, or the client's own again."""
    question = form() if row.elicitation_modes else sample()
    seen: list[BaseException] = []

    async def asks(ctx: mcprev.Context, params: m.CallToolRequestParams) -> Any:
        try:
            await ctx.ask("q", question)
        except mcprev.McpError as error:
            seen.append(error)
            raise

    async def main() -> None:
        replies: dict[str, Any] = {question.method: reply}
        async with served(server(call_tool=asks), row, capabilities=able(row), replies=replies) as client:
            answer = await client.ask("tools/call", {"name": "t"})
            assert (answer.failure == "the tool 't' failed") if code is None else (answer.code == code)
        assert len(seen) == 1

    run(main())


@req("MRTR-11")
def test_a_session_is_asked_so_many_times_and_no_more(row: Revision, logged: Records) -> None:
    runs = 0

    async def forever(ctx: mcprev.Context, params: Any) -> Any:
        nonlocal runs
        runs += 1
        return m.InputRequiredResult(input_requests={f"q{runs}": m.ListRootsRequest()})

    async def main() -> None:
        replies: dict[str, Any] = {"roots/list": {"roots": []}}
        async with served(server(call_tool=forever), row, capabilities=able(row), replies=replies) as client:
            assert (await client.ask("tools/call", {"name": "t"})).failure == "the tool 't' failed"
            assert len([found for found in client.got if found.get("method") == "roots/list"]) == 10

    run(main())


# -- whose input it is -----------------------------------------------------------------------------------


@req("ELIC-9", "MRTR-4", at=E)
def test_a_state_is_of_the_user_it_was_given_to() -> None:
    made = asking_twice()

    async def main() -> None:
        async with served(made, LATEST, capabilities=EVERYTHING) as client:
            (connection,) = made._connections
            side: Any = connection.protocol
            receive, user = side.receive, Sender("ann")

            def received(message: Any, now: float) -> None:
                object.__setattr__(message, "origin", user)
                receive(message, now)

            side.receive = received
            one = {"name": "t", "inputResponses": {"one": ACCEPTED}}
            state = (await client.ask("tools/call", one)).result["requestState"]
            two = {"name": "t", "inputResponses": {"two": {"action": "cancel"}}, "requestState": state}
            user.principal = "bob"
            assert (await client.ask("tools/call", two)).code == -32602
            user.principal = "ann"
            assert (await client.ask("tools/call", two)).result["resultType"] == "complete"

    run(main())


@req("ELIC-9", at=D)
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
def test_a_question_is_of_the_session_that_called(action: str) -> None:
    """No other is asked, and none can answer; whatever the user does about it, the handler learns of it."""

    async def visit(ctx: mcprev.Context, params: Any) -> Any:
        return text((await ctx.ask("visit", url())).action)

    async def main() -> None:
        made = server(call_tool=visit)
        async with (
            served(made, D, capabilities=EVERYTHING) as other,
            served(
                made, D, capabilities=EVERYTHING, replies={"elicitation/create": lambda _: None}
            ) as client,
        ):
            call = asyncio.create_task(client.ask("tools/call", {"name": "t"}))
            asked = await client.get(lambda found: found.get("method") == "elicitation/create")
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}}
            other.send(answer)
            assert await other.settle() == []
            assert not call.done()
            client.send({**answer, "result": {"action": action}})
            assert (await call).result["content"][0]["text"] == action

    run(main())
