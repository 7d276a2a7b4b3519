"""`ctx.elicit` and `ctx.sample`: typed questions to the client, at every revision that can be asked."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NotRequired, assert_type

import pytest
from pydantic import BaseModel, Field, model_validator
from typing_extensions import TypedDict

import mcprev
from helpers.asgi_bridge import Client as RawClient
from helpers.named import C, rows_since
from helpers.running import run
from mcprev.core.questions import Form, form_of
from mcprev.errors import InvalidParams, McpError
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m

ASKABLE = rows_since(C)
"""The revisions with elicitation; sampling is older."""


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Person(BaseModel):
    name: Annotated[str, Field(description="As in the passport", min_length=1)]
    age: int | None = None
    born: date | None = None
    size: Size = Size.SMALL
    happy: bool = True


@dataclass
class Point:
    x: float
    y: float = 0.5


class Box(TypedDict):
    width: int
    label: NotRequired[str]


class Client(mcprev.ClientHandler):
    """Answers forms with what it is given, in order, and messages for its model with `it`."""

    def __init__(self, *answers: m.ElicitResult) -> None:
        self._answers = list(answers)
        self.forms: list[Any] = []
        self.sampled: list[m.CreateMessageRequestParams] = []

    async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
        self.forms.append(params.to_wire())
        return self._answers.pop(0)

    async def create_message(
        self, ctx: mcprev.ClientContext, params: m.CreateMessageRequestParams
    ) -> m.CreateMessageResult:
        self.sampled.append(params)
        return m.CreateMessageResult(
            role="assistant", model="mm", stop_reason="endTurn", content=m.TextContent(text="it")
        )


def accept(**content: Any) -> m.ElicitResult:
    return m.ElicitResult(action="accept", content=content)


def call(row: Revision, function: Callable[..., Any], handler: Client) -> str:
    """The text that a tool returns, or the error that its caller gets."""
    app = mcprev.App("a", "1", show_errors=True)
    app.tool(function, name="t")

    async def main() -> str:
        async with mcprev.connect(app, mode=row.name, handler=handler) as client:
            try:
                result = await client.call_tool("t", {})
            except McpError as error:
                return f"{type(error).__name__}: {error}"
        assert isinstance(result, m.CallToolResult)
        return "".join(block.text for block in result.content if isinstance(block, m.TextContent))

    return run(main())


@pytest.mark.parametrize("row", ASKABLE, ids=lambda row: row.name)
def test_a_form_is_answered_with_data_of_its_type(row: Revision) -> None:
    async def greet(ctx: mcprev.Context) -> str:
        person = await ctx.elicit("Who are you?", Person)
        if person.action != "accept":
            return person.action
        assert_type(person.data, Person)
        point = await ctx.elicit("Where?", Point)
        box = await ctx.elicit("How big?", Box)
        again = await ctx.elicit("How big?", Box)
        return repr([person.data, point, box.data, again.data])

    handler = Client(
        accept(name="Ann", age=4, born="2020-02-03", size="large"),
        accept(x=1),
        accept(width=2),
        accept(width=3),
    )
    expected = [
        Person(name="Ann", age=4, born=date(2020, 2, 3), size=Size.LARGE),
        mcprev.Accepted(Point(1.0)),
        {"width": 2},
        {"width": 3},
    ]
    assert call(row, greet, handler) == repr(expected)
    first = handler.forms[0]
    assert first["message"] == "Who are you?"
    fields = first["requestedSchema"]["properties"]
    assert fields["name"] == {"type": "string", "description": "As in the passport", "minLength": 1}
    assert fields["age"] == {"type": "integer"}
    assert fields["born"] == {"type": "string", "format": "date"}
    assert {**fields["size"], "default": "small"} == {
        "type": "string",
        "enum": ["small", "large"],
        "default": "small",  # not all of these revisions have defaults
    }
    assert first["requestedSchema"]["required"] == ["name"]


@pytest.mark.parametrize("row", ASKABLE, ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("kind", "field", "value", "data"),
    [
        (int, {"type": "integer"}, 4, 4),
        (bool, {"type": "boolean"}, False, False),
        (str, {"type": "string"}, "x", "x"),
        (["red", "green"], {"type": "string", "enum": ["red", "green"]}, "green", "green"),
        (Size, {"type": "string", "enum": ["small", "large"]}, "small", Size.SMALL),
    ],
    ids=["int", "bool", "str", "choice", "enum"],
)
def test_a_single_value_is_a_form_with_one_field(
    row: Revision, kind: Any, field: dict[str, Any], value: Any, data: Any
) -> None:
    async def ask(ctx: mcprev.Context) -> str:
        return repr((await ctx.elicit("What?", kind)).data)

    handler = Client(accept(value=value))
    assert call(row, ask, handler) == repr(data)
    assert handler.forms[0]["requestedSchema"]["properties"] == {"value": field}


@pytest.mark.parametrize("row", ASKABLE, ids=lambda row: row.name)
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_who_does_not_answer_is_told_apart_from_who_cannot(row: Revision, action: Any) -> None:
    async def ask(ctx: mcprev.Context) -> str:
        match await ctx.elicit("What?", int):
            case mcprev.Accepted(data):
                return str(data)
            case mcprev.Declined():
                return "declined"
            case mcprev.Cancelled():
                return "cancelled"

    handler = Client(m.ElicitResult(action=action))
    assert call(row, ask, handler) == ("declined" if action == "decline" else "cancelled")


def test_the_types_of_an_answer() -> None:
    async def ask(ctx: mcprev.Context) -> None:
        choice = await ctx.elicit("What?", ["a", "b"])
        assert_type(choice, mcprev.Accepted[str] | mcprev.Declined | mcprev.Cancelled)
        if choice.action == "accept":
            assert_type(choice.data, str)
        else:
            assert_type(choice.data, None)

    assert callable(ask)


class Even(BaseModel):
    number: int

    @model_validator(mode="after")
    def is_even(self) -> Even:
        if self.number % 2:
            raise ValueError("is odd")
        return self


@pytest.mark.parametrize("row", ASKABLE, ids=lambda row: row.name)
def test_data_that_the_form_cannot_rule_out_is_refused_with_the_reason(row: Revision) -> None:
    async def ask(ctx: mcprev.Context) -> str:
        with pytest.raises(InvalidParams, match="the answer to 'Which\\?': Value error, is odd"):
            await ctx.elicit("Which?", Even)
        return "refused"

    assert call(row, ask, Client(accept(number=3))) == "refused"


class Nested(BaseModel):
    point: Point


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (Nested, "point"),
        (object(), "cannot be used for a form"),
        ("a", "'a' is neither a type nor a list of choices"),
    ],
)
def test_what_has_no_form_is_refused_before_anything_is_sent(kind: Any, wrong: str) -> None:
    async def ask(ctx: mcprev.Context) -> str:
        await ctx.elicit("What?", kind)
        return "asked"

    handler = Client()
    assert wrong in call(DEFAULT[-1], ask, handler)
    assert handler.forms == []


def test_a_form_is_made_once_for_a_type() -> None:
    assert form_of(Person) is form_of(Person)
    assert isinstance(form_of(["a"]), Form)


@pytest.mark.parametrize("row", ASKABLE, ids=lambda row: row.name)
def test_a_handler_that_returns_its_own_request_for_input_may_ask_too(row: Revision) -> None:
    """It runs again from its start, and the question that it asked before is the same one."""

    async def ask(ctx: mcprev.Context, params: m.CallToolRequestParams) -> Any:
        first = await ctx.elicit("First?", int)
        if "second" not in (params.input_responses or {}):
            return m.InputRequiredResult(input_requests={"second": form_of(int).request("Second?")})
        return m.CallToolResult(content=[m.TextContent(text=str(first.data))])

    class Handler(mcprev.ServerHandler):
        async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> Any:
            return await ask(ctx, params)

    async def main() -> None:
        handler = Client(accept(value=1), accept(value=2))
        server = mcprev.Server(Handler(), "s", "1")
        async with mcprev.connect(server, mode=row.name, handler=handler) as client:
            result = await client.call_tool("t", {})
        assert isinstance(result, m.CallToolResult)
        assert result.content == [m.TextContent(text="1")]
        assert [form["message"] for form in handler.forms] == ["First?", "Second?"]

    run(main())


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_the_model_of_the_client_is_asked_with_a_text_or_with_messages(row: Revision) -> None:
    async def ask(ctx: mcprev.Context) -> str:
        one = await ctx.sample("Say it", system_prompt="Be brief", max_tokens=9, temperature=0.5)
        assistant = m.SamplingMessage(role="assistant", content=m.TextContent(text="Hm"))
        image = m.ImageContent(data="aGk=", mime_type="image/png")
        two = await ctx.sample(["Look", image, assistant])
        return f"{one.text} {one.result.model} {one.result.stop_reason} {two.text}"

    handler = Client()
    assert call(row, ask, handler) == "it mm endTurn it"
    first, second = handler.sampled
    assert (first.system_prompt, first.max_tokens, first.temperature) == ("Be brief", 9, 0.5)
    assert [(each.role, each.content) for each in first.messages] == [("user", m.TextContent(text="Say it"))]
    assert [each.role for each in second.messages] == ["user", "user", "assistant"]
    assert second.max_tokens == 1024


class Visit(BaseModel):
    name: str
    nick: str | None = None
    age: int | None = None
    count: int = 3
    note: str | None


async def visit(ctx: mcprev.Context) -> str:
    found = await ctx.elicit("Who?", Visit)
    return found.data.model_dump_json() if found.data is not None else found.action


async def answered_raw(row: Revision, answer: dict[str, Any]) -> str:
    """What a tool returns, or its error, to a client of other makers that answers the question so."""
    app = mcprev.App("a", "1", show_errors=True)
    app.tool(visit)
    declared: dict[str, Any] = {"elicitation": {}}
    async with app.server.running():
        client = await RawClient(app.server.asgi()).open(row, **declared)
        if row.handshake:
            call = client.call("visit")
            question = (await call.heard(1))[0]
            assert "note" not in question["params"]["requestedSchema"]["required"]
            await client.post({"jsonrpc": "2.0", "id": question["id"], "result": answer}).done()
        else:
            first = await client.call("visit", clientCapabilities=declared).done()
            ((key, _),) = first.result["inputRequests"].items()
            params = {"name": "visit", "arguments": {}, "inputResponses": {key: answer}}
            call = client.request("tools/call", params, clientCapabilities=declared)
        (message,) = (await call.done()).answers
    found = message.get("error") or message["result"]["content"][0]
    return str(found.get("message") or found["text"])


@pytest.mark.parametrize("row", ASKABLE, ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ({"name": "ann", "nick": None, "age": None, "count": None, "note": None},
         '{"name":"ann","nick":null,"age":null,"count":3,"note":null}'),
        ({"name": "ann", "age": 5}, '{"name":"ann","nick":null,"age":5,"count":3,"note":null}'),
    ],
)  # fmt: skip
def test_null_for_a_field_left_empty_is_no_answer_to_it(
    row: Revision, content: dict[str, Any], wanted: str
) -> None:
    assert run(answered_raw(row, {"action": "accept", "content": content})) == wanted


@pytest.mark.parametrize("row", ASKABLE, ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ({"name": None}, "content.name is missing"),
        ({}, "content.name is missing"),
        ({"name": "ann", "age": "old"}, "content.age is not of type integer"),
        ({"name": 5}, "content.name is not of type string"),
        ({"name": "ann", "age": [1]}, "content.age"),
        ({"name": "ann", "age": {"a": 1}}, "content.age"),
    ],
)
def test_a_bad_answer_is_told_by_its_field(row: Revision, content: dict[str, Any], wrong: str) -> None:
    found = run(answered_raw(row, {"action": "accept", "content": content}))
    assert wrong in found
    assert not any(name in found for name in ("roots", "model", "role", ".0", "content.text"))


@pytest.mark.parametrize("row", ASKABLE, ids=lambda row: row.name)
def test_an_answer_without_an_action_is_told_by_it(row: Revision) -> None:
    assert "action" in run(answered_raw(row, {"content": {"name": "ann"}}))


@pytest.mark.parametrize("row", ASKABLE, ids=lambda row: row.name)
def test_a_client_of_ours_leaves_empty_fields_out(row: Revision) -> None:
    def answer(_: object) -> Visit:
        return Visit(name="ann", note=None)

    app = mcprev.App("a", "1")
    app.tool(visit)

    async def main() -> str:
        async with mcprev.connect(app, mode=row.name, elicitation=answer) as client:
            return (await client.call_tool("visit", {})).text

    assert '"nick":null,"age":null,"count":3,"note":null' in run(main())


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (Decimal, {"type": "number"}),
        (dt.timedelta, {"type": "string"}),
        (uuid.UUID, {"type": "string"}),
        (dt.date, {"type": "string", "format": "date"}),
    ],
)
def test_types_that_are_sent_as_numbers_and_texts_are_fields(kind: Any, field: dict[str, Any]) -> None:
    asked = form_of(kind).request("What?").to_wire()["params"]["requestedSchema"]
    assert asked["properties"] == {"value": field}


def test_a_decimal_keeps_what_was_typed() -> None:
    found = form_of(Decimal).read("What?", accept(value=19.99))
    assert found == mcprev.Accepted(Decimal("19.99"))


def test_an_answer_without_the_value_is_refused() -> None:
    with pytest.raises(InvalidParams, match="value is missing"):
        form_of(int).read("What?", accept())


@pytest.mark.parametrize("kind", [[], (), set[str](), frozenset[str]()])
def test_a_list_without_a_choice_is_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match="there is no choice"):
        form_of(kind)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (["a", 1], "the choice 1 is no string"),
        (Nested, "the field 'point' cannot be part of a form, which is flat"),
        (int | str, "the value cannot be part of a form"),
        (list[str], "the value cannot be part of a form"),
    ],
)
def test_what_no_form_has_says_what_forms_have(kind: Any, wrong: str) -> None:
    with pytest.raises(TypeError, match=re.escape(wrong)) as found:
        form_of(kind).request("What?")
    assert "Field required" not in str(found.value)
