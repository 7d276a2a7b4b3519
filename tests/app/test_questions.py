"""`ctx.elicit` and `ctx.sample`: typed questions to the client, at every revision that can be asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, NotRequired, assert_type

import pytest
from pydantic import BaseModel, Field, model_validator
from typing_extensions import TypedDict

import mcprev
from mcprev.errors import InvalidParams, McpError
from mcprev.forms.questions import Form, form_of
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m
from named import C, rows_since
from running import run

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
