"""What servers may ask of clients, and what fits as an answer: the rules themselves, and authors who break them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

import mcprev
from api.scripted import form, sample, server, text
from api.wire import Json, Message, served
from conversion.peers import instead
from helpers.requirements import C, req
from helpers.running import Records, run
from mcprev.core import input_requests as asking
from mcprev.errors import ConversionError, LocalProtocolError
from mcprev.revisions import Revision
from mcprev_types.latest import models as m

ELICIT: Final = "elicitation/create"


def able(row: Revision) -> Message:
    """What a client of a revision can declare."""
    modes: Message = {"form": {}, "url": {}} if row.sampling_tools else {}
    return {"elicitation": modes, "sampling": {"tools": {}} if row.sampling_tools else {}}


@pytest.fixture
def logged() -> Iterator[Records]:
    """What the server logs."""
    records, log = Records(), logging.getLogger("mcprev.server")
    log.addHandler(records)
    yield records
    log.removeHandler(records)


# -- forms -----------------------------------------------------------------------------------------------

NESTED: Final[tuple[Json, ...]] = (
    {"type": "object", "properties": {}},
    {"type": "array", "items": {"type": "object"}},
    {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
    {"type": "array"},
    {"type": "null"},
    {"anyOf": [{"type": "string"}]},
    {},
    5,
)
FLAT: Final = (
    {"type": "string", "format": "email", "minLength": 3},
    {"type": "number", "minimum": 0},
    {"type": "integer"},
    {"type": "boolean", "default": True},
    {"type": "string", "enum": ["a", "b"]},
    {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
    {"type": "array", "items": {"type": "string", "enum": ["a"]}},
    {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
)


def form_of(field: Json) -> Message:
    return {"message": "?", "requestedSchema": {"type": "object", "properties": {"f": field}}}


@req("ELIC-2", everywhere=True)
def test_forms_are_flat() -> None:
    for field in NESTED:
        assert "requestedSchema.properties.f" in str(asking.request_error(ELICIT, form_of(field))), field
    for field in FLAT:
        assert asking.request_error(ELICIT, form_of(field)) is None
    assert asking.request_error(ELICIT, {"mode": "url", "message": "?", "url": "https://x.test"}) is None
    others: tuple[Json, ...] = (None, {}, {"requestedSchema": None}, {"requestedSchema": {"properties": []}})
    for other in others:
        assert asking.request_error(ELICIT, other) is None, "another shape is for the models to refuse"
    assert asking.request_error("roots/list", None) is None


@req("ELIC-2", everywhere=True)
@pytest.mark.parametrize("field", NESTED)
def test_the_types_of_an_author_have_no_nested_fields(field: Json) -> None:
    with pytest.raises(ValidationError):
        m.ElicitRequestFormParamsRequestedSchema.from_wire({"type": "object", "properties": {"f": field}})


class Untyped:
    """A question of an author who goes round the types."""

    def to_wire(self) -> Message:
        return {"method": ELICIT, "params": form_of({"type": "object", "properties": {}})}


@req("ELIC-2")
@pytest.mark.parametrize("explicit", [True, False], ids=["result", "ask"])
def test_an_author_who_asks_for_what_is_nested_learns_where(
    row: Revision, explicit: bool, logged: Records
) -> None:
    """An author learns of it when asking; the client sees neither question nor reason."""
    caught: list[str] = []

    async def call(ctx: mcprev.Context, params: Any) -> Any:
        nested = form_of({"type": "object", "properties": {"city": {"type": "string"}}})
        if explicit:
            return {
                "resultType": "input_required",
                "inputRequests": {"q": {"method": ELICIT, "params": nested}},
            }
        question: Any = Untyped()
        try:
            await ctx.ask("q", question)
        except LocalProtocolError as error:
            caught.append(str(error))
            raise

    async def main() -> None:
        async with served(server(call_tool=call), row, capabilities=able(row)) as client:
            answer = await client.ask("tools/call", {"name": "t"})
            assert (answer.failure, answer.before) == ("the tool 't' failed", [])
        said = str(logged.records[0].exc_info)
        assert "requestedSchema.properties.f" in said
        assert "flat" in said
        assert explicit or caught

    run(main())


@req("CONV-22", "ELIC-2", at=C)
def test_a_field_that_a_revision_lacks_is_told_the_author_or_replaced() -> None:
    several = m.UntitledMultiSelectEnumSchema(items=m.UntitledMultiSelectEnumSchemaItems(enum=["a", "b"]))

    async def call(ctx: mcprev.Context, params: Any) -> Any:
        try:
            return text((await ctx.ask("q", form(f=several))).content)
        except ConversionError as error:
            return text(f"{error.path} {error.revision}")

    as_text = instead({"type": "string", "description": "a, b or both"}, of="multi_select")

    async def main() -> None:
        replies: Any = {ELICIT: {"action": "accept", "content": {"f": "a, b"}}}
        for options, said in (
            (None, f"$.requestedSchema.properties.f {C}"),
            ({"on_downgrade": as_text}, "{'f': 'a, b'}"),
        ):
            made = server(options, call_tool=call)
            async with served(made, C, capabilities={"elicitation": {}}, replies=replies) as client:
                answer = await client.ask("tools/call", {"name": "t"})
                assert said in answer.result["content"][0]["text"]

    run(main())


FITTING: Final[list[tuple[Message, list[Json], list[Json]]]] = [
    ({"type": "string"}, ["", "x"], [1, None, True, ["x"], {}]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "abc"], ["a", "abcd"]),
    ({"type": "number", "minimum": 0, "maximum": 1}, [0, 1, 0.5], [-1, 1.5, "0", True]),
    ({"type": "integer"}, [0, 10**400, 2.0], [1.5, float("inf"), "1", False]),
    ({"type": "boolean"}, [True, False], [0, "true", None]),
    ({"type": "string", "enum": ["a", "b"]}, ["a"], ["c", "", 5]),
    ({"type": "string", "enum": ["a"], "enumNames": ["A"]}, ["a"], ["A"]),
    ({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, ["a"], ["A", "b"]),
    (
        {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "maxItems": 2},
        [["a"], ["a", "b"]], [[], ["c"], ["a", "b", "a"], "a", [["a"]], [5]],
    ),
    ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}, [[], ["a"]], [["A"], [None]]),
]  # fmt: skip


@req("ELIC-3", everywhere=True)
@pytest.mark.parametrize(("field", "good", "bad"), FITTING)
def test_what_fits_a_field(field: Message, good: list[Json], bad: list[Json]) -> None:
    schema: Message = {"type": "object", "properties": {"f": field}, "required": ["f"]}
    for value in good:
        assert asking.form_error(schema, {"f": value, "unasked": object()}) is None, value
    for value in bad:
        assert str(asking.form_error(schema, {"f": value})).startswith("content.f "), value
    assert asking.form_error(schema, {}) == "content.f is missing"
    assert asking.form_error({**schema, "required": []}, {}) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
        st.sampled_from(["properties", "f", "type", "items", "enum", "required", "content", "messages"]), inner, max_size=3
    ),
    max_leaves=8,
)  # fmt: skip


@req("ELIC-2", "ELIC-3", "SAMP-3", "ROOT-1", everywhere=True)
@given(params=JSON, answer=st.dictionaries(st.sampled_from(["action", "content", "roots"]), JSON, max_size=2))
def test_whatever_comes_is_judged_and_nothing_raised(params: Json, answer: Message) -> None:
    for method in (ELICIT, "sampling/createMessage", "roots/list"):
        asking.request_error(method, params)
        asking.check_askable({"method": method, "params": params}, answer)
        asking.response_error(method, params, answer)
        asking.without_unaccepted_content(method, params, answer)


@req("ELIC-7", everywhere=True)
def test_defaults() -> None:
    fields: Message = {
        "a": {"type": "string", "default": "x"},
        "b": {"type": "boolean", "default": False},
        "c": {},
    }
    assert asking.defaults({"properties": fields}) == {"a": "x", "b": False}
    assert asking.defaults({}) == {}


@req("ELIC-3", "MRTR-7")
@pytest.mark.parametrize(
    ("answer", "then"),
    [
        ({"action": "accept", "content": {"name": "bob"}}, "accept {'name': 'bob'}"),
        ({"action": "decline", "content": {"name": 5}}, "decline None"),
        ({"action": "cancel"}, "cancel None"),
        ({"action": "accept", "content": {"name": 5}}, None),
    ],
)
def test_a_handler_gets_only_answers_that_fit_its_form(
    row: Revision, answer: Message, then: str | None
) -> None:
    """One that does not is the client's mistake: -32602 for what its request brought, else the tool fails."""

    async def call(ctx: mcprev.Context, params: Any) -> Any:
        found = await ctx.ask("q", form())
        return text(f"{found.action} {found.content}")

    async def main() -> None:
        made = server(call_tool=call)
        async with served(made, row, capabilities=able(row), replies={ELICIT: answer}) as client:
            params = {"name": "t"} if row.handshake else {"name": "t", "inputResponses": {"q": answer}}
            found = await client.ask("tools/call", params)
            if then is None:
                assert (found.failure == "the tool 't' failed") if row.handshake else (found.code == -32602)
            else:
                assert found.result["content"][0]["text"] == then

    if row.elicitation_modes:
        run(main())


# -- sampling --------------------------------------------------------------------------------------------

USE: Final = m.ToolUseContent(id="1", name="t", input={})
DONE: Final = m.ToolResultContent(tool_use_id="1", content=[])


def said(role: Any, *blocks: Any) -> m.SamplingMessage:
    return m.SamplingMessage(role=role, content=list(blocks))


@req("SAMP-3")
def test_an_author_cannot_ask_with_tools_out_of_order(row: Revision, logged: Records) -> None:
    good = sample(said("assistant", USE), said("user", DONE), tools=[])
    bad = sample(said("assistant", USE), said("user", DONE, m.TextContent(text="x")), tools=[])

    async def call(ctx: mcprev.Context, params: m.CallToolRequestParams) -> Any:
        return text((await ctx.ask("q", good if params.name == "good" else bad)).model)

    async def main() -> None:
        sampled: Any = {"role": "assistant", "model": "mm", "content": {"type": "text", "text": "x"}}
        replies = {"sampling/createMessage": sampled}
        async with served(server(call_tool=call), row, capabilities=able(row), replies=replies) as client:
            answer = (await client.ask("tools/call", {"name": "good"})).result
            assert "mm" in str(answer) or answer["resultType"] == "input_required"
            assert (await client.ask("tools/call", {"name": "bad"})).failure == "the tool 'bad' failed"
        assert "may contain nothing else" in str(logged.records[0].exc_info)

    run(main())


@req("SAMP-2")
@pytest.mark.parametrize("context", ["none", "thisServer", "allServers", None])
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "undeclared"])
def test_context_is_asked_of_those_who_can_give_it(row: Revision, context: Any, declared: bool) -> None:
    question = sample() if context is None else sample(include_context=context)

    async def call(ctx: mcprev.Context, params: Any) -> Any:
        return text((await ctx.ask("q", question)).model)

    async def main() -> None:
        sampled: Any = {"role": "assistant", "model": "mm", "content": {"type": "text", "text": "x"}}
        capabilities: Message = {"sampling": {"context": {}} if declared else {}}
        replies = {"sampling/createMessage": sampled}
        async with served(server(call_tool=call), row, capabilities=capabilities, replies=replies) as client:
            answer = await client.ask("tools/call", {"name": "t"})
            if row.handshake:
                asked = answer.before[0]["params"]
            else:
                asked = answer.result["inputRequests"]["q"]["params"]
            assert asked.get("includeContext") == (context if declared else None)

    run(main())
