"""What models send instead of what the schema wants is what the guide says; what is wrong is said in the schema's words."""

from __future__ import annotations

import datetime as dt
import functools
import json
import logging
import re
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Final, Literal

import pytest
from pydantic import BaseModel, Field

import mcprev
from helpers.running import run
from helpers.support import ROOT
from mcprev.app.arguments import ROUNDS, ArgumentError
from mcprev.app.signatures import Function


class Item(BaseModel):
    name: str
    price: float


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


NAMES: Final = {"Item": Item, "Colour": Colour, "Decimal": Decimal, "date": dt.date, "Literal": Literal}
ROW: Final = re.compile(
    r"^\| `(?P<hint>.+?)` \| `(?P<sent>.+?)` \| (?:`(?P<gets>.+?)`|refused) \|$", re.MULTILINE
)
ROWS: Final = [
    tuple(part and part.replace("\\|", "|") for part in found.groups())
    for found in ROW.finditer((ROOT / "docs/arguments.md").read_text(encoding="utf-8"))
]


def taking(hint: Any, **options: Any) -> Function:
    def take(value: Any) -> None: ...

    take.__annotations__["value"] = hint
    return Function(take, **options)


def read(function: Function, value: Any) -> Any:
    """What the function gets; the complaints if it is refused."""
    try:
        return function.read({"value": value})["value"]
    except ArgumentError as error:
        return error.complaints


def test_the_page_has_rows() -> None:
    assert len(ROWS) >= 35


@pytest.mark.parametrize(("hint", "sent", "gets"), ROWS, ids=lambda part: str(part)[:60])
def test_a_row_of_the_guide_is_what_happens(hint: str, sent: str, gets: str | None) -> None:
    function = taking(eval(hint, NAMES), lenient=True)  # noqa: S307 - our own page
    got = read(function, json.loads(sent))
    if gets is None:
        assert isinstance(got, list)
        assert got[0][0] == ("value",)
    else:
        assert repr(got) == gets


@pytest.mark.parametrize("sent", ["5", "[5]", "", "null", "true"])
def test_strict_arguments_convert_no_text(sent: str) -> None:
    assert read(taking(int | list[int] | None), sent)[0][0] == ("value",)


def test_text_within_text_is_read_up_to_a_bound() -> None:
    def nested(depth: int) -> str:
        text = "[1]"
        for _ in range(depth - 1):
            text = json.dumps([text])
        return text

    def lists(depth: int) -> Any:
        hint: Any = int
        for _ in range(depth):
            hint = list[hint]
        return hint

    assert read(taking(lists(ROUNDS), lenient=True), nested(ROUNDS)) != []
    assert read(taking(lists(ROUNDS + 1), lenient=True), nested(ROUNDS + 1))[0][1].startswith("is wrong")


def test_the_log_says_what_was_converted_without_the_values(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcprev.server")
    taking(list[Item], lenient=True).read({"value": ['{"name": "secret", "price": 1}']})
    text = caplog.messages[-1]
    assert "value.0" in text
    assert "secret" not in text


class Cat(BaseModel):
    meows: int


class Dog(BaseModel):
    barks: int


COMPLAINTS: Final[dict[str, tuple[Any, Any, str]]] = {
    "alternatives": (Cat | Dog, {"x": 1}, "value is wrong: meows is missing; or barks is missing"),
    "one of them is near": (
        Cat | Dog,
        {"meows": "x"},
        "value is wrong: meows is wrong: Input should be a valid integer; or barks is missing",
    ),
    "deeper": (list[Cat | Dog], [{"meows": 1}, {}], "value.1 is wrong: meows is missing; or barks is missing"),
    "constrained": (
        list[Annotated[str, Field(min_length=2)]] | int,
        "x",
        "value is wrong: Input should be a valid array; or Input should be a valid integer",
    ),
    "a member with the name of a type": (dict[str, list[int]], {"int": ["x"]}, "value.int.0 is wrong: Input should be a valid integer"),
}  # fmt: skip


@pytest.mark.parametrize("lenient", [True, False])
@pytest.mark.parametrize("case", COMPLAINTS)
def test_what_is_wrong_is_said_of_each_alternative_in_the_words_of_the_schema(
    case: str, lenient: bool
) -> None:
    hint, sent, text = COMPLAINTS[case]
    found = read(taking(hint, lenient=lenient), sent)
    assert [f"{'.'.join(map(str, place))} {said}" for place, said in found] == [text]


def test_an_unknown_argument_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ArgumentError) as caught:
        taking(int, lenient=True).read({"vlaue": 1})
    assert (("vlaue",), "is not known here; did you mean 'value'?") in caught.value.complaints


# -- signatures --------------------------------------------------------------------------------------------


def test_what_is_bound_stays_bound_where_a_partial_looks_like_its_function() -> None:
    def add(x: int, y: int) -> int:
        return x + y

    bound = functools.partial(add, 1)
    functools.update_wrapper(bound, add)
    assert (Function(bound).name, Function(bound).names) == ("add", ("y",))


def test_a_literal_of_enum_members_takes_what_its_schema_says() -> None:
    hint = dict[str, list[Literal[Colour.RED, 1] | None]]
    assert taking(hint).schema["properties"]["value"]["additionalProperties"]["items"]["anyOf"][0] == {
        "enum": ["red", 1]
    }
    assert read(taking(hint), {"a": ["red", 1, None]}) == {"a": [Colour.RED, 1, None]}
    assert read(taking(hint), {"a": ["blue"]})[0][0] == ("value", "a", 0)


def test_a_mutable_default_is_new_for_each_call() -> None:
    app = mcprev.App("a", "1")

    @app.tool
    def add(item: str, items: list[str] = []) -> list[str]:  # noqa: B006
        items.append(item)
        return items

    async def main() -> None:
        async with mcprev.connect(app) as client:
            for item in "ab":
                assert (await client.call_tool("add", {"item": item})).data == [item]

    run(main())


@pytest.mark.parametrize("blocks", [False, True])
def test_a_tool_that_raises_generator_exit_is_answered(blocks: bool) -> None:
    app = mcprev.App("a", "1", show_errors=True)

    def plain() -> None:
        raise GeneratorExit

    async def waiting() -> None:
        raise GeneratorExit

    app.tool(plain if blocks else waiting, name="t")

    async def main() -> None:
        async with mcprev.connect(app) as client:
            result = await client.call_tool("t")
            assert result.is_error
            assert "raised GeneratorExit" in result.text

    run(main())


def test_text_that_is_not_unicode_is_refused() -> None:
    for lenient in (False, True):
        assert read(taking(str, lenient=lenient), "\ud800") == [((), "holds text that is not Unicode")]
