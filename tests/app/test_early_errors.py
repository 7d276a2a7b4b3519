"""Wrong arguments take no longer than right ones, however many there are: what stops at the first is right about valid values."""

from __future__ import annotations

from datetime import date
from typing import Any, Final

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

import mcprev
from helpers.requirements import req
from helpers.running import run
from mcprev.app.early_errors import MAX_ALL, MAX_UNKNOWN, early_validator, has_more_values

MANY: Final = 2 * MAX_ALL


class Point(BaseModel):
    x: int
    tags: list[str] = []


class Tree(BaseModel):
    children: list[Tree] = []


TYPES: Final[dict[str, tuple[Any, Any]]] = {
    "list": (list[int], ["x"] * MANY),
    "tuple": (tuple[int, ...], ["x"] * MANY),
    "set": (set[int], [f"{number}x" for number in range(MANY)]),
    "frozenset": (frozenset[date], ["x"] * MANY),
    "optional": (list[int] | None, ["x"] * MANY),
    "list of lists": (list[list[int]], [["x"] * 100] * (MANY // 100)),
    "list of models": (list[Point], [{}] * MANY),
    "in a model": (Point, {"x": 1, "tags": [1] * MANY}),
    "recursive": (Tree, {"children": [{"children": [7] * MANY}, 7]}),
    "union": (list[int | Point | None], ["x"] * MANY),
}


@req("TOOL-3", "SEC-6", everywhere=True)
@pytest.mark.parametrize("name", TYPES)
def test_a_list_is_refused_because_of_its_first_wrong_item(name: str) -> None:
    kind, wrong = TYPES[name]
    adapter = TypeAdapter[Any](kind)
    with pytest.raises(ValidationError) as all_of_them:
        adapter.validate_python(wrong)
    with pytest.raises(ValidationError) as first:
        early_validator(adapter).validate_python(wrong, strict=False)
    assert all_of_them.value.error_count() >= MANY // 2
    assert first.value.error_count() <= 5
    assert first.value.errors()[0]["loc"] == all_of_them.value.errors()[0]["loc"]


VALID: Final[list[tuple[Any, Any]]] = [
    (list[int] | list[str], ["x", "y"]),
    (list[Point] | dict[str, int], {"x": 1}),
    (tuple[int, str], [1, "x"]),
    (Tree, {"children": [{"children": []}]}),
    (list[date], ["2026-01-02"]),
]


@req("TOOL-3", everywhere=True)
@pytest.mark.parametrize(("kind", "value"), VALID, ids=str)
def test_a_valid_value_is_what_it_is_without(kind: Any, value: Any) -> None:
    adapter = TypeAdapter[Any](kind)
    assert early_validator(adapter).validate_python(value, strict=False) == adapter.validate_python(value)


@req("TOOL-3", "SEC-6", everywhere=True)
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"items": ["x"] * MANY}, ["arguments.items.0 is wrong"]),
        ({"items": [1] * (MANY - 1) + ["x"]}, [f"arguments.items.{MANY - 1} is wrong"]),
        ({"items": ["x", "y"]}, ["arguments.items.0 is wrong", "arguments.items.1 is wrong"]),
        ({"items": [], "a": 1, "b": 1}, ["arguments.a", "arguments.b"]),
        ({str(number): 1 for number in range(MAX_UNKNOWN + 2)}, ["arguments has 102 members, and add() takes 1"]),
    ],
    ids=["many", "the last of many", "few", "unknown", "many unknown"],
)  # fmt: skip
def test_what_a_model_is_told(given: dict[str, Any], says: list[str], strict: bool) -> None:
    app = mcprev.App("x", "1", strict_arguments=strict)

    @app.tool
    def add(items: list[int]) -> int:
        return sum(items)

    async def main() -> None:
        async with mcprev.connect(app, restart=False) as client:
            result = await client.call_tool("add", given)
            assert result.is_error
            assert all(each in result.text for each in says), result.text

    run(main())


@req("TOOL-3", everywhere=True)
@pytest.mark.parametrize("value", [1, 1.0, "1"])
def test_many_values_are_converted_as_few_are(value: Any) -> None:
    app = mcprev.App("x", "1")

    @app.tool
    def add(items: list[int]) -> int:
        return sum(items)

    async def main() -> None:
        async with mcprev.connect(app) as client:
            assert (await client.call_tool("add", {"items": [value] * MANY})).data == MANY

    run(main())


@pytest.mark.parametrize(
    "inside",
    [[1] * 99, [[1] * 98], {"x": {str(number): 1 for number in range(98)}}],
    ids=["list", "list of a list", "object"],
)
def test_values_are_counted_however_deep(inside: Any) -> None:
    assert not has_more_values(100, [inside])
    assert has_more_values(100, [inside, 1])
