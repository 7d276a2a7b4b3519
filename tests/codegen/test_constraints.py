"""The table of limits: each row says the same as JSON Schema and pydantic do, and every reader of the table heeds it."""

from __future__ import annotations

import inspect
from dataclasses import fields
from fractions import Fraction
from typing import Any, Final

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field, ValidationError, create_model

from diff.diffing import revision_of
from helpers.mini import SOURCE
from helpers.support import complaints, parse, validator
from mcprev_codegen.checkout.step_modules import questions
from mcprev_codegen.diff import compare
from mcprev_codegen.emit.package import RevisionChain, package_files
from mcprev_codegen.ir.constraints import CONSTRAINTS, Constraint, exceeded, limits_of
from mcprev_codegen.ir.nodes import NO_TAGS, Interface, Tags

OTHER_TAGS: Final = {
    "format", "default", "tjs_type", "nullable", "deprecated", "internal", "category",
}  # fmt: skip
TYPES: Final = {"number": "number", "string": "string", "array": "string[]"}
SAMPLES: Final[dict[str, tuple[str, str]]] = {
    "number": ("2", "3"), "count": ("2", "3"), "text": ("^a", "^b"), "flag": ("", ""),
}  # fmt: skip
"""Two values of a tag, the second one higher."""
VALUES: Final[dict[str, list[Any]]] = {
    "number": [n / 2 for n in range(-2, 14)],
    "string": ["a" * n for n in range(6)] + ["b"],
    "array": [["a"] * n for n in range(6)] + [["a", "b"]],
}
each_row: Final = pytest.mark.parametrize("row", CONSTRAINTS, ids=lambda row: row.keyword)
each_bound: Final = pytest.mark.parametrize(
    "row", [row for row in CONSTRAINTS if row.whole], ids=lambda row: row.keyword
)


def tags_of(row: Constraint, text: str) -> Tags:
    module = parse(f"export interface A {{ /** @{row.keyword} {text} */ a: {TYPES[row.limits]}; }}")
    decl = module.types["A"]
    assert isinstance(decl, Interface)
    return decl.fields[0].tags


def accepted(row: Constraint, limit: object) -> list[Any]:
    return among(row, limit, VALUES[row.limits])


def among(row: Constraint, limit: object, values: list[Any]) -> list[Any]:
    checker = validator({"A": {row.keyword: limit}}, "A")
    return [value for value in values if not complaints(checker, value)]


def source(row: Constraint, tag: str) -> str:
    return SOURCE.replace("size?: number;", f"/** {tag} */ size?: {TYPES[row.limits]};")


def test_every_tag_that_limits_values_has_a_row() -> None:
    assert {row.attribute for row in CONSTRAINTS} == {f.name for f in fields(Tags)} - OTHER_TAGS
    assert len({row.keyword for row in CONSTRAINTS}) == len(CONSTRAINTS)


@each_row
def test_a_tag_is_read_as_the_limit_of_its_row(row: Constraint) -> None:
    for text in SAMPLES[row.value]:
        assert list(limits_of(tags_of(row, text))) == [row]
    assert limits_of(NO_TAGS) == {}


@each_row
def test_a_limit_is_one_of_json_schema_and_limits_the_values_that_it_says(row: Constraint) -> None:
    (limit,) = limits_of(tags_of(row, SAMPLES[row.value][1])).values()
    assert len(accepted(row, limit)) < len(VALUES[row.limits])
    others = [value for kind, values in VALUES.items() if kind != row.limits for value in values]
    assert among(row, limit, others) == others


@each_row
def test_the_stricter_limit_accepts_less(row: Constraint) -> None:
    low, high = (tags_of(row, text) for text in SAMPLES[row.value])
    for old, new in ((low, high), (high, low), (low, low), (low, NO_TAGS), (NO_TAGS, low)):
        before, after = row.of(old), row.of(new)
        kept = accepted(row, after) if after is not None else VALUES[row.limits]
        lost = [
            v for v in (accepted(row, before) if before is not None else VALUES[row.limits]) if v not in kept
        ]
        assert row.tightened(before, after) == bool(lost)
        assert exceeded(old, new) == ({row: after} if lost else {})


@each_row
def test_the_argument_of_a_row_limits_a_model_in_the_same_way(row: Constraint) -> None:
    (limit,) = limits_of(tags_of(row, SAMPLES[row.value][0])).values()
    if row.argument is None:
        assert row.value == "flag"  # pydantic has no such argument
        return
    assert row.argument in inspect.signature(Field).parameters
    python: Any = {"number": float, "string": str, "array": list[str]}[row.limits]
    model = limited(python, row.argument, limit)
    assert [v for v in VALUES[row.limits] if valid(model, v)] == accepted(row, limit)
    revision = revision_of(source(row, f"@{row.keyword} {SAMPLES[row.value][0]}"))
    files = package_files(revision, RevisionChain([revision], None, []))
    (models,) = [
        text for name, text in files.items() if name.startswith("models/") and "class Thing(" in text
    ]
    assert f"Field({row.argument}={limit!r})".replace("'", '"') in models


def limited(python: type, argument: str, limit: object) -> type[BaseModel]:
    options: dict[str, Any] = {argument: limit}
    return create_model("Limited", value=(python, Field(**options)))


def valid(model: type[BaseModel], value: object) -> bool:
    try:
        model(value=value)
    except ValidationError:
        return False
    return True


@each_bound
@given(st.fractions(min_value=Fraction(1, 8), max_value=20, max_denominator=8), st.integers(-30, 30))
def test_the_limit_of_whole_numbers_is_the_same_for_them(
    row: Constraint, limit: Fraction, value: int
) -> None:
    assert row.whole is not None
    held = {
        "ge": value >= limit, "gt": value > limit, "le": value <= limit, "lt": value < limit,
        "multiple_of": value % limit == 0,
    }  # fmt: skip
    assert row.argument is not None
    assert held[row.argument] == valid(limited(int, row.argument, row.whole(limit)), value)


@each_row
def test_the_question_of_a_step_names_the_limit_that_values_may_exceed(row: Constraint) -> None:
    tag = f"@{row.keyword} {SAMPLES[row.value][0]}".strip()
    free, limited = revision_of(source(row, "")), revision_of(source(row, tag))
    down, up = questions(free, limited)
    assert down == {}
    assert f" allows less ({tag.removeprefix('@')}): " in up["Thing.size"]


@each_row
def test_a_comparison_says_that_a_limit_was_added(row: Constraint) -> None:
    tag = f"@{row.keyword} {SAMPLES[row.value][0]}".strip()
    free, limited = revision_of(source(row, "")), revision_of(source(row, tag))
    (change,) = compare(free, limited).changes
    assert change.id == "constraint-tightened"
    assert change.new is not None
    assert change.new.text == tag.removeprefix("@")
    (change,) = compare(limited, free).changes
    assert change.id == "constraint-loosened"
