"""The plain part of JSON Schema against the library: whatever is compiled means the same in both dialects."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft7Validator, Draft202012Validator  # type: ignore[import-untyped]

from fuzz.fuzzing import sampled
from helpers.requirements import req
from mcprev.json_schema.bounds import canonical_json, pattern
from mcprev.json_schema.plain import ANNOTATIONS, compile_plain
from mcprev.json_schema.validation import compile_schema

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.0, 1.0, -2.0, 0.5, 10**30]),
    st.text("ab", max_size=3),
)
NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
TYPES = st.sampled_from(["object", "array", "string", "boolean", "null", "number", "integer"])
SIZES = st.integers(0, 3)
BOUNDS = st.one_of(st.integers(-3, 3), st.sampled_from([0.5, 1.0]))


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    some = st.lists(inner, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.one_of(TYPES, st.lists(TYPES, min_size=1, max_size=3, unique=True)),
            "enum": st.lists(VALUES, min_size=1, max_size=3),
            "const": VALUES,
            "anyOf": some,
            "oneOf": some,
            "allOf": some,
            "minimum": BOUNDS,
            "maximum": BOUNDS,
            "exclusiveMinimum": BOUNDS,
            "exclusiveMaximum": BOUNDS,
            "minLength": SIZES,
            "maxLength": SIZES,
            "minItems": SIZES,
            "maxItems": SIZES,
            "minProperties": SIZES,
            "maxProperties": SIZES,
            "pattern": st.sampled_from(["a", "^a", "b$", "^(a|b)+$"]),
            "items": inner,
            "uniqueItems": st.booleans(),
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, max_size=3, unique=True),
            "additionalProperties": st.one_of(st.booleans(), inner),
            "title": st.just("x"),
            "format": st.just("date"),
            "default": VALUES,
            "x-mcp-header": st.just("y"),
        },
    )


NO_KEYWORDS: list[Any] = [{}, True]
SCHEMAS = st.recursive(st.sampled_from(NO_KEYWORDS), schemas, max_leaves=5)


@pytest.mark.slow
@req("TOOL-3", "JSCH-1", everywhere=True)
@settings(max_examples=sampled(75))
@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=10))
def test_it_means_what_the_library_says(schema: Any, values: list[Any]) -> None:
    """Making a schema takes longer than making a value: each is tried with several."""
    check = compile_plain(schema)
    assert check is not None
    for validator in (Draft202012Validator, Draft7Validator):
        valid = cast("Any", validator(schema)).is_valid
        assert [check(value) == [] for value in values] == [valid(value) for value in values]


@req("TOOL-3", everywhere=True)
@given(SCHEMAS, VALUES)
def test_what_is_wrong_is_said_where(schema: Any, value: Any) -> None:
    check = compile_plain(schema)
    assert check is not None
    for path, text in check(value):
        inner = value
        for part in path[:-1]:
            inner = inner[part]
        assert not path or isinstance(inner, dict | list)
        assert text


OTHERS: list[Any] = [
        False, 5, None, [], {"$ref": "#/x"}, {"$id": "x"}, {"$schema": "y"}, {"not": {}}, {"if": {}},
        {"uniqueItems": 1}, {"patternProperties": {}}, {"propertyNames": {}}, {"prefixItems": []},
        {"unevaluatedProperties": False}, {"dependentRequired": {}}, {"contains": {}}, {"multipleOf": 2},
        {"$dynamicRef": "#x"}, {"items": [{}]}, {"anything": 1}, {"pattern": "(?=a)"}, {"pattern": 5},
        {"type": "any"}, {"type": []}, {"type": ["null", "null"]}, {"type": 5}, {"required": True},
        {"required": ["a", "a"]}, {"required": [5]}, {"properties": []}, {"enum": []}, {"minimum": "1"},
        {"minimum": True}, {"minLength": -1}, {"minLength": 0.5}, {"anyOf": []}, {"anyOf": {}},
        {"additionalProperties": {"not": {}}}, {"$ref": 5}, {"$ref": "#/$defs/a"}, {"$ref": "#/properties/a"},
        {"$defs": []}, {"$defs": {"a": {"not": {}}}}, {"$ref": "#/$defs/a~0b", "$defs": {"a~0b": {}}},
        {"$ref": "#/$defs/a/b", "$defs": {"a/b": {}}}, {"items": {"$defs": {}}}, {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}},
    ]  # fmt: skip


@req("JSCH-1", everywhere=True)
@pytest.mark.parametrize("schema", OTHERS)
def test_anything_else_is_left_to_the_library(schema: Any) -> None:
    assert compile_plain(schema) is None


def with_definitions(keyword: str) -> st.SearchStrategy[dict[str, Any]]:
    """Schemas whose parts are references to definitions and to the root."""

    def schema(root: dict[str, Any], definitions: list[Any]) -> dict[str, Any]:
        return {**root, keyword: dict(zip("abc", definitions, strict=True))}

    references: list[Any] = [{"$ref": to} for to in ("#", *(f"#/{keyword}/{name}" for name in "abc"))]
    leaves: list[Any] = [*references, {"type": "array"}, {"type": "object"}, {"type": "string"}]
    some: st.SearchStrategy[Any] = st.recursive(st.sampled_from(leaves), schemas, max_leaves=3)
    return st.builds(schema, some, st.lists(some, min_size=3, max_size=3))


@pytest.mark.slow
@req("TOOL-3", "JSCH-1", everywhere=True)
@pytest.mark.parametrize(("keyword", "latest"), [("$defs", True), ("definitions", False)])
def test_references_mean_what_the_library_says(keyword: str, latest: bool) -> None:
    dialect: Any = Draft202012Validator if latest else Draft7Validator
    compared = 0

    @settings(max_examples=sampled(80))
    @given(with_definitions(keyword), st.lists(VALUES, min_size=1, max_size=10))
    def compare(schema: Any, values: list[Any]) -> None:
        nonlocal compared
        check = compile_plain(schema, beside_references=latest)
        if (
            check is None
        ):  # references that lead to themselves, or with keywords beside them that draft-07 ignores
            return
        valid = dialect(schema).is_valid
        assert [check(value) == [] for value in values] == [valid(value) for value in values]
        compared += 1

    compare()
    assert compared > 20


@req("JSCH-1", everywhere=True)
def test_keywords_beside_a_reference_are_left_to_the_library_where_they_do_not_count() -> None:
    schema = {"$ref": "#/definitions/a", "minimum": 5, "definitions": {"a": {"type": "integer"}}}
    latest = compile_plain(schema)
    assert latest is not None
    assert [bool(latest(value)) for value in (5, 4, "5")] == [False, True, True]
    assert compile_plain(schema, beside_references=False) is None
    del schema["minimum"]
    assert compile_plain(schema, beside_references=False) is not None


@req("JSCH-3", everywhere=True)
def test_a_recursive_schema_bounds_how_deep_a_value_nests_and_how_long_it_takes() -> None:
    each = {"$ref": "#/$defs/list"}
    lists = {"$ref": "#/$defs/list", "$defs": {"list": {"type": "array", "items": each}}}
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    assert compile_schema(lists, trusted=False)(deep) == [((), "nests too deeply to be checked")]
    doubled = {**lists, "$defs": {"list": {"type": "array", "items": {"allOf": [each, each]}}}}
    wide: list[Any] = []
    for _ in range(60):
        wide = [wide]
    ticks = iter(range(10**9))
    ((_, said),) = compile_schema(doubled, trusted=False, clock=lambda: next(ticks) / 1_000)(wide)
    assert "takes longer than" in said


@req("JSCH-3", everywhere=True)
def test_depth_is_bounded() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100):
        schema = {"properties": {"a": schema}}
    assert compile_plain(schema) is None


@req("TOOL-3", everywhere=True)
@given(VALUES, VALUES)
def test_the_same_json(one: Any, other: Any) -> None:
    validator = cast("Any", Draft202012Validator({"const": one}))
    assert (canonical_json(one) == canonical_json(other)) is validator.is_valid(other)


@req("JSCH-3", everywhere=True)
def test_patterns_cost_linear_time() -> None:
    """A pattern that makes a backtracking matcher run for ages on a short text."""
    matches = pattern("^(a+)+$")
    assert matches("a" * 200_000 + "b") == "does not match '^(a+)+$'"
    assert matches("aaa") is None
    for expression in ("(?=a)", "(a)\\1", "(", "(?<!a)b"):
        with pytest.raises(ValueError, match="linear time"):
            pattern(expression)


@req("TOOL-3", everywhere=True)
def test_annotations_make_nothing_wrong() -> None:
    check = compile_plain(dict.fromkeys(ANNOTATIONS, "anything"))
    assert check is not None
    assert check(5) == []
