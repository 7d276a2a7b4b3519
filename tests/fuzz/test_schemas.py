"""JSON Schemas of strangers: they compile or are refused, and both ways of checking find the same (JSCH-3)."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

import pytest

from fuzz.fuzzing import NUMBERS, TEXTS, fuzz, json_value, members, with_a_change
from helpers.requirements import req
from mcprev.errors import SchemaError
from mcprev.json_schema.validation import compile_schema, describe

TYPES: Final[tuple[Any, ...]] = (
    "string",
    "integer",
    "number",
    "boolean",
    "null",
    "array",
    "object",
    "any",
    ["string", "null"],
    [],
)
PATTERNS: Final = (
    "",
    "a",
    "^a*$",
    "(a+)+$",
    "(a|aa)*b",
    "[",
    "(?=a)",
    r"\1",
    r"\d{1,9999}",
    "(?i)é",
    "\ud800",
    "x" * 1001,
)
FORMATS: Final = ("date", "uri", "regex", "email", "none", 1)
REFERENCES: Final = (
    "#",
    "#/$defs/a",
    "#/properties/a",
    "#/x",
    "http://evil.example/x",
    "file:///etc/passwd",
    "%",
    "#a",
    "",
    1,
)
DIALECTS: Final = (
    "https://json-schema.org/draft/2020-12/schema",
    "http://json-schema.org/draft-07/schema#",
    "x",
    1,
)
LIBRARY: Final[dict[str, Any]] = {"not": False}
"""Says nothing, but has the schema checked by the library."""


@dataclass(frozen=True)
class Case:
    """A schema and values to check."""

    schema: Any
    values: tuple[Any, ...]


def schema(rng: Random, depth: int = 3) -> Any:
    """A schema whose keywords mostly have values that fit them."""
    if not depth or rng.random() < 0.05:
        return rng.choice((True, False, {}, {"type": "integer"}, {"type": "string"}, None, 1))

    def below() -> Any:
        return schema(rng, depth - 1)

    def some() -> list[Any]:
        return [below() for _ in range(rng.randint(1, 3))]

    def named() -> dict[str, Any]:
        return {rng.choice(TEXTS): below() for _ in range(rng.randint(1, 3))}

    keywords: dict[str, Any] = {
        "type": lambda: rng.choice(TYPES),
        "enum": lambda: [json_value(rng, 1) for _ in range(rng.randint(0, 3))],
        "const": lambda: json_value(rng, 1),
        "minimum": lambda: rng.choice(NUMBERS),
        "exclusiveMaximum": lambda: rng.choice(NUMBERS),
        "multipleOf": lambda: rng.choice(NUMBERS),
        "minLength": lambda: rng.choice((0, 1, 2, -1, 1.5)),
        "maxItems": lambda: rng.choice((0, 1, 2)),
        "minProperties": lambda: rng.choice((0, 1, 2)),
        "pattern": lambda: rng.choice(PATTERNS),
        "format": lambda: rng.choice(FORMATS),
        "uniqueItems": lambda: rng.choice((True, False)),
        "required": lambda: rng.choices(TEXTS, k=rng.randrange(3)),
        "items": below,
        "prefixItems": some,
        "properties": named,
        "patternProperties": lambda: {rng.choice(PATTERNS): below()},
        "additionalProperties": below,
        "propertyNames": below,
        "contains": below,
        "anyOf": some,
        "oneOf": some,
        "allOf": some,
        "if": below,
        "then": below,
        "$ref": lambda: rng.choice(REFERENCES),
        "$defs": lambda: {"a": below()},
        "$schema": lambda: rng.choice(DIALECTS),
        "x": lambda: json_value(rng, 1),
    }
    plain = rng.random() < 0.6
    names = PLAIN if plain else tuple(keywords)
    return {name: keywords[name]() for name in rng.sample(names, rng.randint(1, 4))}


PLAIN: Final = (
    "type", "enum", "const", "minimum", "minLength", "maxItems", "minProperties", "required", "items", "properties", "additionalProperties",
    "anyOf", "oneOf", "allOf", "x",
)  # fmt: skip


def draw(rng: Random) -> Case:
    found = schema(rng)
    if rng.random() < 0.3:
        found = with_a_change(found, rng, json_value)
    return Case(found, tuple(json_value(rng, 2) for _ in range(3)))


@pytest.mark.slow
@req("JSCH-2", "JSCH-3", "SEC-6", everywhere=True)
def test_a_schema_of_a_stranger_is_refused_or_checks_the_same_by_hand_and_by_the_library() -> None:
    def compiled(found: Any) -> Any:
        try:
            return compile_schema(found, trusted=False)
        except SchemaError:
            return None

    def check(case: Case) -> None:
        by_hand = compiled(case.schema)
        keywords = members(case.schema)
        if not keywords:
            return
        by_library = compiled({**LIBRARY, **keywords})
        # The library also refuses a `format` or title that is no text, which says nothing of values.
        assert by_hand is not None or by_library is None
        for value in case.values:
            if by_hand is not None and by_library is not None:
                wrong = by_hand(value)
                assert bool(wrong) is bool(by_library(value)), value
                assert not wrong or describe(wrong, "x").startswith("x")

    fuzz(draw, check, cases=400)
