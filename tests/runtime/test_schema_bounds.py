"""What a schema and a value of a stranger's can cost: steps that grow with their sizes only, and a deadline (JSCH-3)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from fuzz.fuzzing import each_once
from helpers.linear import add, assert_linear
from helpers.requirements import req
from mcprev.errors import SchemaError
from mcprev.json_schema import bounds as schemabounds, plain as plainschema, validation
from mcprev.json_schema.bounds import MAX_PATTERN, MAX_SECONDS, canonical_json, pattern
from mcprev.json_schema.validation import MAX_VALUES, compile_schema, describe
from mcprev.wire import bounds
from mcprev.wire.jsonrpc import MAX_LINE

METASCHEMA = "https://json-schema.org/draft/2020-12/schema"
LIBRARY: Final[dict[str, Any]] = {"not": False}
"""Says nothing, but needs the library."""


class Counted(int):
    """A number whose comparisons are steps."""

    def __eq__(self, other: object) -> bool:
        add(1)
        return int(self) == other

    def __hash__(self) -> int:
        return hash(int(self))


def texts(size: int) -> list[Any]:
    return [f"o{number}" for number in range(size)]


def colliding(size: int) -> list[Any]:
    """Numbers of one hash."""
    return [Counted(number * (2**61 - 1)) for number in range(1, size + 1)]


def objects(size: int) -> list[Any]:
    return [{"a": number, "b": [str(number)]} for number in range(size)]


def wide(size: int) -> dict[str, Any]:
    return dict.fromkeys(texts(size), 0)


COSTS: Final[dict[str, Callable[[int], tuple[Any, Any]]]] = {
    "enum of texts": lambda size: ({"items": {"enum": texts(size)}}, texts(size)),
    "enum of numbers": lambda size: ({"items": {"enum": colliding(size)}}, colliding(size)),
    "enum of objects": lambda size: ({"items": {"enum": objects(size)}}, objects(size)),
    "enum, not in it": lambda size: ({"items": {"enum": texts(size)}}, [*range(size)]),
    "const": lambda size: ({"const": objects(size)}, objects(size)),
    "uniqueItems": lambda size: ({"uniqueItems": True}, colliding(size)),
    "uniqueItems of objects": lambda size: ({"uniqueItems": True}, objects(size)),
    "required, missing": lambda size: ({"required": texts(size)}, {}),
    "required": lambda size: ({"required": texts(size)}, wide(size)),
    "properties": lambda size: ({"properties": {name: {"type": "null"} for name in texts(size)}}, wide(size)),
    "properties of true": lambda size: ({"properties": dict.fromkeys(texts(size), True), **LIBRARY}, {}),
    "additionalProperties": lambda size: ({"additionalProperties": False}, wide(size)),
    "allOf, wrong": lambda size: ({"allOf": [{"required": ["x"]}] * size}, {}),
    "patterns": lambda size: ({"items": {"pattern": "^(a+)+$"}}, ["a" * 10] * size),
    "items": lambda size: ({"items": {"type": "integer"}}, [1.5] * size),
    "references": lambda size: (
        {"$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(size)} | {f"d{size}": {}}}, 0,
    ),
}  # fmt: skip


@req("JSCH-3", "SEC-6", everywhere=True)
@pytest.mark.parametrize("make", COSTS.values(), ids=COSTS)
def test_steps_grow_with_schema_and_value_only(make: Callable[[int], tuple[Any, Any]]) -> None:
    def work(given: tuple[Any, Any]) -> None:
        compile_schema(given[0], trusted=False, clock=lambda: 0.0)(given[1])

    work(make(8))  # the library is imported
    assert_linear(work, make, plainschema, schemabounds, validation, sizes=(64, 128, 256))


@req("JSCH-3", everywhere=True)
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
@pytest.mark.parametrize("extra", [{}, LIBRARY])
def test_many_schemas_for_one_value_keep_to_the_deadline(keyword: str, extra: dict[str, Any]) -> None:
    asked = 0

    def clock() -> float:
        nonlocal asked
        asked += 1
        return asked * MAX_SECONDS / 20_000

    fitting = {"maximum": 5} if keyword == "allOf" else {"const": 0}
    branches = [fitting] * 300 if keyword == "allOf" else [*({"const": n} for n in range(1, 300)), fitting]
    schema = {"items": {keyword: branches}, **extra}
    check = compile_schema(schema, trusted=True, clock=clock)
    asked = 0
    assert check([0] * 20) == []
    asked = 0
    assert describe(check([0] * 10_000), "x") == "x takes longer than 1 s to be checked"
    assert asked < 25_000


@pytest.mark.slow
@req("JSCH-3", everywhere=True)
def test_a_metaschema_keeps_to_the_deadline_too() -> None:
    """The library takes its own class for what says `$schema`, and that has no deadline."""
    ticks = iter(range(1_000_000))
    schema = {"items": {"$ref": METASCHEMA}}
    check = compile_schema(schema, trusted=False, clock=lambda: next(ticks) * MAX_SECONDS / 20_000)
    assert check([{"type": "null"}]) == []
    assert "is invalid" in describe(check([{"type": 5}]), "x")
    assert "longer than" in describe(check([{"properties": {"a": {"type": "null"}}}] * 2000), "x")
    # The same for whoever uses it to say that a schema is none.
    ticks = iter(range(1_000_000))
    large = {"properties": {f"p{n}": {"type": "null"} for n in range(1500)}, **LIBRARY}
    with pytest.raises(SchemaError, match="takes longer than 1 s to be compiled"):
        compile_schema(large, trusted=False, clock=lambda: next(ticks) * MAX_SECONDS / 2_000)
    compile_schema(large, trusted=True, clock=lambda: next(ticks) * MAX_SECONDS / 2_000)


@req("JSCH-3", everywhere=True)
@pytest.mark.parametrize(
    "schema",
    [
        {"enum": [*range(MAX_VALUES + 1)]},
        {"required": [str(n) for n in range(MAX_VALUES + 1)]},
        {"properties": {str(n): True for n in range(MAX_VALUES + 1)}},
        {"properties": {str(n): {"enum": [*range(500)]} for n in range(150)}},
    ],
)
def test_bounds_of_what_is_in_a_schema(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match=f"more than {MAX_VALUES} values"):
        compile_schema(schema, trusted=True)


@each_once
@req("JSCH-3", everywhere=True)
@pytest.mark.parametrize(
    ("expression", "text", "wrong"),
    [
        ("1.{10000}[2-9]", "10" * 25_000, "too long"),
        ("1[01]{20000}[2-9]", "10" * 25_000, "too long"),
        ("1[01]{0000000000020000}[2-9]", "10" * 25_000, "too long"),
        ("1[01]{ 1 , 20000 }[2-9]", "10" * 25_000, "too long"),
        ("(?:[01]{1,9}1){30}[01]{99}[2-9]", "10" * 50_000, "too long"),
        ("1" + "[01]" * 240 + "[2-9]", "10" * 1_000_000, "too long"),
        ("1[01]{20000}[2-9]", "10" * 500, "does not match"),
        ("^[A-Za-z0-9+/]*={0,2}$", "QUJD" * 1_250_000, None),
        (r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", "00000000-0000-4000-8000-000000000000", None),
        (r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", "0" * 1000, "does not match"),
        (r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?Z$", "2026-01-01T00:00:00.5Z", None),
    ],
)
@pytest.mark.parametrize("extra", [{}, LIBRARY])
def test_a_pattern_is_not_tried_on_what_takes_too_long(
    expression: str, text: str, wrong: str | None, extra: dict[str, Any]
) -> None:
    found = compile_schema({"pattern": expression, **extra}, trusted=False, clock=lambda: 0.0)(text)
    assert (wrong in describe(found, "x")) if wrong else found == []


@req("JSCH-3", everywhere=True)
def test_patterns_of_strangers_are_short_and_few() -> None:
    for hidden in ("(?x)1[01]{#}\n20000}[2-9]", "(?ix:1{#}\n20000})"):
        with pytest.raises(ValueError, match="white space"):
            pattern(hidden)
    assert pattern("(?P<x>a)(?i)x")("aX") is None
    long = "a" * (MAX_PATTERN + 1)
    with pytest.raises(ValueError, match="more than 1000 characters"):
        pattern(long)
    with pytest.raises(SchemaError, match="more than 1000 characters"):
        compile_schema({"pattern": long}, trusted=False)
    assert compile_schema({"pattern": long}, trusted=True)(long) == []
    schema = {"properties": {f"p{n}": {"pattern": r"\w{100}"} for n in range(200)}}
    ticks = iter(range(1_000_000))
    with pytest.raises(SchemaError, match="takes longer than 1 s to be compiled"):
        compile_schema(schema, trusted=False, clock=lambda: next(ticks) * MAX_SECONDS / 100)


@req("TOOL-3", "JSCH-3", everywhere=True)
def test_no_two_values_are_spelled_alike() -> None:
    values: list[Any] = [
        None, True, False, 0, 1, -1, 10**5000, 0.5, -0.5, 1e300, "", "1", "1,", "None,", "a", "1'a", "{", [], {}, [[]], [{}],
        [1, 2], [12], ["12"], ["1", "2"], ["1'2"], {"": []}, {"a": 1, "b": 2}, {"a": {"b": 1}}, {"a": "b1,"}, [None], [True],
    ]  # fmt: skip
    assert len({canonical_json(value) for value in values}) == len(values)
    for one, other in ((1, 1.0), (0, -0.0), (10**22, 1e22), ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0})):
        assert canonical_json(one) == canonical_json(other)


@req("JSCH-3", "BASE-10", everywhere=True)
def test_the_documentation_tells_the_bounds() -> None:
    told = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    sizes = f"{validation.MAX_OBJECTS:,}, {MAX_VALUES:,}, {validation.MAX_DEPTH}"
    for row in (
        f"| JSON values, keys counted too | {bounds.json_bounds.max_values:,} |",
        f"| bytes of the longest name of a member, times the number of values | {bounds.MAX_NAMES >> 20} MiB |",
        f"| depth of arrays and objects | {bounds.MAX_DEPTH} |",
        f"| bytes of a line | {MAX_LINE >> 20} MiB |",
        f"| objects, items and members, depth | {sizes} |",
        f"| compiling a schema of a server's, in a client | {MAX_SECONDS:g} s |",
        f"| `pattern` | {MAX_PATTERN:,} characters,",
    ):
        assert row in told
