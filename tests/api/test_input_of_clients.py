"""How a client answers what its server needs: results that ask, and requests of sessions (MRTR-5..12, ELIC-*, SAMP-*, ROOT-*)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

import pytest

import mcprev
from api.scripted import client as callbacks, giving, sampled, server
from api.wire import CLIENT_CAPABILITIES, HandServer, Json, Message, each_session, serving
from helpers.requirements import E, req
from helpers.running import Records, run
from mcprev.errors import InputDeclined, LocalProtocolError, RemoteProtocolError
from mcprev.protocol import mrtr
from mcprev.revisions import LATEST, Revision
from mcprev_types.latest import models as m

FIELDS: Final = {
    "type": "object",
    "properties": {"name": {"type": "string", "default": "bob"}},
    "required": ["name"],
}
FORM: Final[Message] = {"message": "who?", "requestedSchema": FIELDS}
URL: Final[Message] = {"mode": "url", "message": "go", "url": "https://example.com/x"}
SAMPLE: Final[Message] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "say it"}}],
    "maxTokens": 7,
}
ELICIT, CREATE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
DONE: Final[Message] = {"content": [{"type": "text", "text": "done"}]}
ACCEPT: Final = m.ElicitResult(action="accept", content={"name": "ann"})


def asking(state: str | None = None, **questions: tuple[str, Json]) -> Message:
    """A result that asks."""
    requests = {
        key: {"method": method} | ({} if params is None else {"params": params})
        for key, (method, params) in questions.items()
    }
    asked: Message = {"resultType": "input_required"}
    return (
        asked
        | ({"inputRequests": requests} if requests else {})
        | ({} if state is None else {"requestState": state})
    )


def rounds(*results: Message) -> dict[str, Any]:
    """A server whose tool answers with one result after the other."""
    left = iter(results)

    def following(_: Message) -> Message:
        return next(left)

    return {"tools/call": following}


def capable(**modes: Json) -> m.ClientCapabilities:
    return m.ClientCapabilities.from_wire(modes)


def elicit_at(row: Revision, params: Message) -> Message:
    """The params of an elicitation as a session has them."""
    return {**params, "elicitationId": "1"} if params.get("mode") == "url" else params


async def ask(
    row: Revision, method: str, params: Json, handler: Any, **options: Any
) -> tuple[Json, HandServer]:
    """Ask a client in the way of its revision; what it answers, or its error's code."""
    if row.handshake:
        async with serving(row, handler=handler, **options) as (_, server):
            given = elicit_at(row, params) if method == ELICIT else params
            message = (await server.ask(method, given)).message
            return message.get("result", message.get("error", {}).get("code")), server
    script = rounds(asking(q=(method, params)), DONE)
    async with serving(row, script, handler=handler, **options) as (client, server):
        try:
            await client.call_tool("t")
        except InputDeclined as declined:
            return declined, server
        return server.asked("tools/call")[1]["inputResponses"]["q"], server


# -- rounds ----------------------------------------------------------------------------------------------


@req("MRTR-5", "MRTR-12", at=E)
@pytest.mark.parametrize("state", [None, "", "s", " ü\u2028=.", "{}"])
def test_the_retry_is_the_same_request_with_answers_and_the_state_as_it_came(state: str | None) -> None:
    async def main() -> None:
        interim = asking(state, one=(ELICIT, FORM), two=(CREATE, SAMPLE), three=(ROOTS, None))
        handler = callbacks(
            elicit=giving(ACCEPT),
            create_message=giving(sampled()),
            list_roots=giving(m.ListRootsResult(roots=[m.Root(uri="file:///x")])),
        )
        async with serving(LATEST, rounds(interim, DONE), handler=handler) as (client, server):
            await client.call_tool("t", {"a": [None, 1.5]}, meta={"com.example/x": 1})
        first, second = server.requests
        assert first["id"] != second["id"]
        responses = second["params"].pop("inputResponses")
        assert responses.keys() == {"one", "two", "three"}
        assert responses["one"] == {"action": "accept", "content": {"name": "ann"}}
        assert ("requestState" in second["params"]) is (state is not None)
        assert second["params"].pop("requestState", None) == state
        tokens = [sent["params"]["_meta"].pop("progressToken") for sent in (first, second)]
        assert tokens[0] != tokens[1], "each request has progress of its own"
        assert first["params"] == second["params"]

    run(main())


@req("MRTR-5")
def test_a_state_is_of_its_own_round_and_request_only() -> None:
    async def main() -> None:
        script = rounds(asking("s", a=(ELICIT, FORM)), asking(None, b=(ELICIT, FORM)), DONE, DONE)
        async with serving(LATEST, script, handler=callbacks(elicit=giving(ACCEPT))) as (client, server):
            await client.call_tool("t")
            await client.call_tool("u")
        _, second, third, other = server.asked("tools/call")
        assert (second["requestState"], second["inputResponses"].keys()) == ("s", {"a"})
        assert third.keys() == {"name", "inputResponses"}
        assert third["inputResponses"].keys() == {"b"}
        assert other == {"name": "u"}

    run(main())


@req("MRTR-6")
def test_without_questions_it_is_asked_again_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with serving(LATEST, rounds(asking("1"), asking("2"), DONE)) as (client, server):
            await client.call_tool("t")
        assert [params.get("requestState") for params in server.asked("tools/call")] == [None, "1", "2"]
        monkeypatch.setattr(mrtr, "MAX_ROUNDS", 3)
        async with serving(LATEST, {"tools/call": asking("1")}) as (client, server):
            with pytest.raises(RemoteProtocolError, match="more than 3 times"):
                await client.call_tool("t")
        assert len(server.requests) == 3

    run(main())


@req("MRTR-10")
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_user_who_declines_has_answered(action: Any) -> None:
    async def main() -> None:
        handler = callbacks(elicit=giving(m.ElicitResult(action=action)))
        async with serving(LATEST, rounds(asking(q=(ELICIT, FORM)), DONE), handler=handler) as (
            client,
            server,
        ):
            await client.call_tool("t")
        assert server.asked("tools/call")[1]["inputResponses"] == {"q": {"action": action}}

    run(main())


@req("MRTR-10", "SAMP-1", "ROOT-1", at=E)
@pytest.mark.parametrize(("method", "params"), [(CREATE, SAMPLE), (ROOTS, None), (ELICIT, FORM)])
def test_a_callback_that_refuses_ends_the_call(method: str, params: Json) -> None:
    async def refuse(ctx: object, given: object) -> object:
        raise mcprev.RpcError("the user said no", code=-1)

    async def main() -> None:
        handler = callbacks(elicit=refuse, create_message=refuse, list_roots=refuse)
        async with serving(LATEST, rounds(asking(q=(method, params))), handler=handler) as (client, server):
            with pytest.raises(InputDeclined, match="the user said no"):
                await client.call_tool("t")
        async with serving(LATEST, rounds(asking(q=(method, params)))) as (client, other):
            with pytest.raises(InputDeclined, match="no handler"):
                await client.call_tool("t")
        assert len(server.requests) == len(other.requests) == 1

    run(main())


@req("MRTR-12")
def test_the_same_callbacks_answer_in_both_eras(row: Revision) -> None:
    seen: list[Json] = []

    async def sample(ctx: mcprev.ClientContext, params: m.CreateMessageRequestParams) -> Any:
        seen.append((ctx.revision, params.max_tokens, params.messages[0].content))
        return sampled()

    async def main() -> None:
        answer, _ = await ask(row, CREATE, SAMPLE, callbacks(create_message=sample))
        assert answer == {"role": "assistant", "model": "mm", "content": {"type": "text", "text": "it"}}

    run(main())
    assert seen == [(row.name, 7, m.TextContent(text="say it"))]


# -- what is declared ------------------------------------------------------------------------------------


@req("ROOT-1", "ROOT-2", "SAMP-1", "ELIC-1", "LIFE-12")
def test_what_there_is_a_callback_for_is_declared_and_nothing_else(row: Revision) -> None:
    every = {"elicit": giving(ACCEPT), "create_message": giving(sampled()), "list_roots": giving(None)}
    wanted: dict[str, Message] = {
        "elicit": (
            {"elicitation": {"form": {}} if row.sampling_tools else {}} if row.elicitation_modes else {}
        ),
        "create_message": {"sampling": {}},
        "list_roots": {"roots": {"listChanged": True} if row.handshake else {}},
    }

    async def declared(handler: Any) -> Json:
        async with serving(row, handler=handler) as (_, server):
            said = server.hello["capabilities" if row.handshake else CLIENT_CAPABILITIES]
            # Tasks are followed by the client itself, whatever callbacks there are (TASKX-4).
            return {name: value for name, value in said.items() if name != "extensions"}

    async def main() -> None:
        assert await declared(None) == {}
        for name, stub in every.items():
            assert await declared(callbacks(**{name: stub})) == wanted[name]

    run(main())


@req("ROOT-1")
def test_changes_of_roots_are_told_in_sessions(row: Revision) -> None:
    async def main() -> None:
        for handler, count in ((callbacks(list_roots=giving(None)), 1), (None, 0)):
            async with serving(row, handler=handler) as (client, server):
                client.roots_changed()
                await client.ping()
                told = server.asked("notifications/roots/list_changed")
                assert len(told) == (count if row.handshake else 0)

    run(main())


@pytest.fixture
def logged() -> Iterator[Records]:
    """What the client logs."""
    records, log = Records(), logging.getLogger("mcprev.client")
    log.addHandler(records)
    yield records
    log.removeHandler(records)


@req("ROOT-1")
@pytest.mark.parametrize("uri", ["http://example.com/", "/home", "", "files:///x"])
def test_roots_are_files(row: Revision, uri: str, logged: Records) -> None:
    roots = giving(m.ListRootsResult(roots=[m.Root(uri="FILE:///ok"), m.Root(uri=uri)]))

    async def main() -> None:
        if row.handshake:
            assert (await ask(row, ROOTS, None, callbacks(list_roots=roots)))[0] == -32603
            assert "file://" in str(logged.records[0].exc_info)
        else:
            with pytest.raises(LocalProtocolError, match="file://"):
                await ask(row, ROOTS, None, callbacks(list_roots=roots))

    run(main())


# -- sampling --------------------------------------------------------------------------------------------

TOOL: Final = {"name": "t", "inputSchema": {"type": "object"}}
USE: Final[Message] = {"type": "tool_use", "id": "1", "name": "t", "input": {}}
RESULT: Final[Message] = {"type": "tool_result", "toolUseId": "1", "content": []}


def refused(answer: Json, *words: str) -> bool:
    """Whether a client did not want to answer: with an error, or by ending its own call."""
    if isinstance(answer, InputDeclined):
        return all(word in str(answer) for word in words)
    return bool(answer == -32602)


@req("SAMP-2")
@pytest.mark.parametrize("more", [{"tools": [TOOL]}, {"tools": []}, {"toolChoice": {"mode": "auto"}}])
def test_tools_are_refused_by_clients_that_did_not_declare_them(row: Revision, more: Message) -> None:
    handler = callbacks(create_message=giving(sampled()))

    async def main() -> None:
        params = {**SAMPLE, **more}
        assert refused((await ask(row, CREATE, params, handler))[0], "has not declared")
        able = capable(sampling={"tools": {}})
        answer, _ = await ask(row, CREATE, params, handler, capabilities_of_client=able)
        assert answer["model"] == "mm"

    run(main())


@req("SAMP-3")
@pytest.mark.parametrize(
    ("messages", "good"),
    [
        ([("assistant", USE), ("user", RESULT)], True),
        ([("assistant", [USE]), ("user", [RESULT])], True),
        ([("assistant", USE)], False),
        ([("assistant", USE), ("user", {"type": "text", "text": "x"})], False),
        ([("user", RESULT)], False),
        ([("assistant", USE), ("user", [RESULT, {"type": "text", "text": "x"}])], False),
        ([("assistant", [USE, {**USE, "id": "2"}]), ("user", RESULT)], False),
        ([("assistant", [USE, {**USE, "id": "2"}]), ("user", [{**RESULT, "toolUseId": "2"}, RESULT])], True),
    ],
)
def test_tool_uses_and_results_stand_together(row: Revision, messages: Json, good: bool) -> None:
    handler, able = callbacks(create_message=giving(sampled())), capable(sampling={"tools": {}})
    said = [{"role": role, "content": content} for role, content in messages]

    async def main() -> None:
        params = {"messages": said, "maxTokens": 1}
        answer, _ = await ask(row, CREATE, params, handler, capabilities_of_client=able)
        assert (answer["model"] == "mm") if good else refused(answer, "tool")

    run(main())


@req("SAMP-4")
def test_sampled_content_is_a_list_where_the_revision_has_lists(row: Revision) -> None:
    blocks: list[Any] = [m.TextContent(text="a"), m.TextContent(text="b")]

    async def main() -> None:
        one = m.CreateMessageResult(role="assistant", model="mm", content=blocks[:1])
        several = m.CreateMessageResult(role="assistant", model="mm", content=blocks)
        first, _ = await ask(row, CREATE, SAMPLE, callbacks(create_message=giving(one)))
        second, _ = await ask(row, CREATE, SAMPLE, callbacks(create_message=giving(several)))
        if hasattr(row.models, "SamplingMessageContentBlock"):
            assert [len(first["content"]), len(second["content"])] == [1, 2]
        else:
            assert first["content"] == {"type": "text", "text": "a"}
            assert second == -32603

    run(main())


# -- elicitation -----------------------------------------------------------------------------------------


@req("ELIC-1", "ELIC-8", "ERR-9")
@pytest.mark.parametrize(
    ("modes", "served"),
    [
        (None, {"form"}),
        ({"form": {}}, {"form"}),
        ({"form": {}, "url": {}}, {"form", "url"}),
        ({"url": {}}, {"form", "url"}),
    ],
)
def test_a_mode_that_was_not_declared_is_refused(row: Revision, modes: Json, served: set[str]) -> None:
    """No mode means a form; the callback is there for forms, so `capabilities` can only add to it."""
    seen: list[Json] = []

    async def elicit(ctx: object, params: m.ElicitRequestParams) -> m.ElicitResult:
        seen.append(params.mode)
        return m.ElicitResult(action="decline")

    async def main() -> None:
        able = None if modes is None else capable(elicitation=modes)
        for mode, params in (("form", FORM), ("form", {**FORM, "mode": "form"}), ("url", URL)):
            if not (row.elicitation_modes and row.sampling_tools) and params is not FORM:
                continue
            answer, _ = await ask(row, ELICIT, params, callbacks(elicit=elicit), capabilities_of_client=able)
            if mode in served:
                assert answer == {"action": "decline"}
            else:
                assert refused(answer, "has not declared")
        answer, _ = await ask(row, ELICIT, FORM, None) if row.handshake else (-32601, None)
        assert answer == -32601

    if row.elicitation_modes:
        run(main())
        assert seen


@req("ELIC-3")
@pytest.mark.parametrize("content", [{}, {"name": 5}, {"name": True}, None])
def test_an_answer_that_does_not_fit_the_form_is_not_given(
    row: Revision, content: Json, logged: Records
) -> None:
    answer = m.ElicitResult.from_wire(
        {"action": "accept"} | ({} if content is None else {"content": content})
    )

    async def main() -> None:
        if row.handshake:
            assert (await ask(row, ELICIT, FORM, callbacks(elicit=giving(answer))))[0] == -32603
            assert "content.name" in str(logged.records[0].exc_info)
        else:
            with pytest.raises(LocalProtocolError, match=r"content\.name"):
                await ask(row, ELICIT, FORM, callbacks(elicit=giving(answer)))

    run(main())


@req("ELIC-3")
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
def test_content_goes_with_an_accepted_form_only(row: Revision, action: Any) -> None:
    given = m.ElicitResult(action=action, content={"name": "ann"})
    able = capable(elicitation={"form": {}, "url": {}})

    async def main() -> None:
        for params in (FORM, URL) if row.sampling_tools else (FORM,):
            answer, _ = await ask(
                row, ELICIT, params, callbacks(elicit=giving(given)), capabilities_of_client=able
            )
            filled = action == "accept" and params is FORM
            assert answer == {"action": action} | ({"content": {"name": "ann"}} if filled else {})

    run(main())


@req("ELIC-6")
def test_a_completed_elicitation_that_nobody_knows_has_no_effect(row: Revision) -> None:
    """Ids exist in one revision only; there the client hears of the end of what it never began, and goes on."""

    async def main() -> None:
        able = capable(elicitation={"url": {}})
        handler = callbacks(elicit=giving(m.ElicitResult(action="accept")))
        async with serving(row, {"tools/list": {"tools": []}}, handler=handler, capabilities_of_client=able) as (
            client, server,
        ):  # fmt: skip
            if "notifications/elicitation/complete" in row.methods:
                server.tell("notifications/elicitation/complete", {"elicitationId": "unknown"})
                server.tell("notifications/elicitation/complete", {})
                assert (await server.ask(ELICIT, {**URL, "elicitationId": "1"})).result == {
                    "action": "accept"
                }
                server.tell("notifications/elicitation/complete", {"elicitationId": "1"})
            assert (await client.list_tools()).tools == []

    run(main())


@req("ELIC-7")
def test_a_callback_learns_the_defaults_of_a_form(row: Revision) -> None:
    async def elicit(ctx: object, params: m.ElicitRequestFormParams) -> m.ElicitResult:
        return m.ElicitResult(action="accept", content=mcprev.form_defaults(params))

    async def main() -> None:
        answer, _ = await ask(row, ELICIT, FORM, callbacks(elicit=elicit))
        assert answer == {"action": "accept", "content": {"name": "bob"}}

    run(main())


@each_session
@req("SAMP-1", "ERR-9")
def test_a_rejected_sampling_is_an_error_of_its_own(row: Revision) -> None:
    async def reject(ctx: object, params: object) -> object:
        raise mcprev.RpcError("User rejected sampling request", code=-1)

    async def main() -> None:
        async with serving(row, handler=callbacks(create_message=reject)) as (_, server):
            answer = await server.ask(CREATE, SAMPLE)
            assert (answer.code, answer.error["message"]) == (-1, "User rejected sampling request")

    run(main())


@req("ROOT-1", "SEAM-1")
@each_session
def test_each_client_of_one_connect_is_asked_as_itself(row: Revision) -> None:
    async def who(ctx: mcprev.Context, _params: Any) -> Message:
        await ctx.ask("roots", m.ListRootsRequest())
        return DONE

    asked: list[mcprev.Client] = []

    class Hand(mcprev.ClientHandler):
        async def list_roots(self, ctx: mcprev.ClientContext, params: Any) -> m.ListRootsResult:
            asked.append(ctx.client)
            return m.ListRootsResult(roots=[])

    async def main() -> None:
        opening = mcprev.connect(server(call_tool=who), handler=Hand(), revisions=[row.name])
        clients = [await opening, await opening]
        for client in clients:
            await client.call_tool("t")
            await client.aclose()
        assert asked == clients

    run(main())


@req("SEAM-1", at=E)
def test_each_block_of_one_connect_closes_its_own_client() -> None:
    async def main() -> None:
        opening = mcprev.connect(server())
        async with opening as outer:
            async with opening as inner:
                assert inner is not outer
            assert inner.connection.error is not None
            await outer.ping()
        assert outer.connection.error is not None

    run(main())
