"""JSON Schemas of tools: dialects, references, bounds, and what happens without the library (JSCH-*)."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, strategies as st

from helpers.requirements import req
from mcprev.errors import SchemaError
from mcprev.json_schema.bounds import MAX_SECONDS
from mcprev.json_schema.validation import MAX_DEPTH, MAX_OBJECTS, compile_schema, describe

NEW = "https://json-schema.org/draft/2020-12/schema"
OLD = "http://json-schema.org/draft-07/schema"
NOT_PLAIN: dict[str, Any] = {"not": False}
"""Says nothing, but needs the library."""
TREE: dict[str, Any] = {
    "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}, "n": {"type": "integer"}}}},
    "$ref": "#/$defs/node",
}


def fits(schema: Any, value: Any, *, trusted: bool = False) -> bool:
    return compile_schema(schema, trusted=trusted)(value) == []


@req("JSCH-1", everywhere=True)
@pytest.mark.parametrize("extra", [{}, NOT_PLAIN])
@pytest.mark.parametrize(
    "dialect", [None, NEW, NEW + "#", OLD, OLD + "#", "https://json-schema.org/draft-07/schema"]
)
def test_dialects(dialect: str | None, extra: dict[str, Any]) -> None:
    """2020-12 and draft-07, by either spelling of their names; each means what it says."""
    named = {} if dialect is None else {"$schema": dialect}
    assert fits({**named, "type": "integer", **extra}, 1)
    assert not fits({**named, "type": "integer", **extra}, "1")
    new = dialect is None or "2020" in dialect
    tuples = {**named, "items": [{"type": "string"}]}
    if new:
        with pytest.raises(SchemaError, match="not a valid schema of"):
            compile_schema(tuples, trusted=True)
        assert not fits({**named, "prefixItems": [{"type": "string"}]}, [1])
    else:
        assert not fits(tuples, [1])
        assert fits({**named, "prefixItems": [{"type": "string"}]}, [1])


@req("JSCH-1", everywhere=True)
@pytest.mark.parametrize(
    "dialect",
    [
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-04/schema#",
        "x",
        "",
        5,
        None,
    ],
)
def test_other_dialects_are_an_error_that_names_what_is_spoken(dialect: Any) -> None:
    with pytest.raises(SchemaError, match=r"dialect.*2020-12.*draft-07"):
        compile_schema({"$schema": dialect, "type": "object"}, trusted=True)


@req("JSCH-1", everywhere=True)
def test_one_dialect_for_all_of_a_schema() -> None:
    inner = {"properties": {"a": {"$schema": NEW, "type": "string", "not": False}}}
    assert not fits({"$schema": NEW, **inner}, {"a": 1})
    with pytest.raises(SchemaError, match="in another dialect"):
        compile_schema({"$schema": OLD, **inner}, trusted=True)
    # What is a value and no schema may say anything.
    assert fits({"const": {"$schema": "x"}, **NOT_PLAIN}, {"$schema": "x"})


def places(reference: str) -> list[dict[str, Any]]:
    """Where a reference can stand."""
    there = {"$ref": reference}
    return [
        there,
        {"properties": {"a": there}},
        {"$dynamicRef": reference},
        {"allOf": [there]},
        {"$defs": {"a": {"not": there}}},
    ]


@req("JSCH-2", everywhere=True)
@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(
    "reference",
    ["http://127.0.0.1:9/x", "https://example.com/x#/y", "file:///etc/passwd", "other.json", "#/nope", "#x"],
)
@pytest.mark.parametrize("place", range(5))
def test_nothing_is_fetched(
    monkeypatch: pytest.MonkeyPatch, place: int, reference: str, trusted: bool
) -> None:
    """A reference that leads out of the schema is an error at once; no connection, no name lookup."""

    def no_network(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "create_connection", no_network)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    with pytest.raises(SchemaError, match="does not resolve within the schema"):
        compile_schema(places(reference)[place], trusted=trusted)


@req("JSCH-2", "JSCH-3", everywhere=True)
@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(
    ("target", "why"),
    [
        (["ab"], "leads to a value that is not a schema"),
        (3, "leads to a value that is not a schema"),
        (None, "leads to a value that is not a schema"),
        ({"type": 5}, "not a valid schema"),
        ({"not": {"$ref": 5}}, "not a valid schema"),
        ({"$ref": "https://example.com/x"}, "does not resolve"),
        ({"y": {"$ref": "#/nope"}, "$ref": "#/x/y"}, "does not resolve"),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "another dialect"),
        ({"pattern": "("}, "pattern"),
    ],
)
def test_what_a_reference_leads_to_is_a_schema_wherever_it_is(target: Any, why: str, trusted: bool) -> None:
    with pytest.raises(SchemaError, match=why):
        compile_schema({"x": target, "$ref": "#/x"}, trusted=trusted)


@req("JSCH-2", "JSCH-3", everywhere=True)
def test_what_a_reference_leads_to_is_bounded_wherever_it_is() -> None:
    slow = {"pattern": r"^(a+)+\1$"}
    for target in (slow, {"$schema": NEW, **slow}, {"y": slow, "$ref": "#/x/y"}):
        with pytest.raises(SchemaError):
            compile_schema({"x": target, "$ref": "#/x"}, trusted=False)
    same_items = {"x": {"$schema": NEW, "uniqueItems": True}, "$ref": "#/x"}
    assert "contains the same item twice" in str(compile_schema(same_items, trusted=False)([1, 1]))
    assert fits({"x": {"y": True, "$ref": "#/x/y"}, "$ref": "#/x"}, 1)
    assert (
        fits(
            {
                "x": {"$ref": "#/x/y", "y": {"$ref": "#"}},
                "type": "object",
                "not": {"$ref": "#/x"},
                **NOT_PLAIN,
            },
            1,
        )
        is False
    )


@req("JSCH-2", everywhere=True)
def test_references_within_a_schema() -> None:
    assert fits(TREE, {"next": {"next": {"n": 1}}})
    assert not fits(TREE, {"next": {"next": {"n": "1"}}})
    named = {"$defs": {"a": {"$id": "urn:x", "$anchor": "here", "type": "string"}}, "$ref": "urn:x#here"}
    assert not fits(named, 1)
    # Members may be called anything, and values may look like anything.
    assert fits(
        {"properties": {"$ref": {"type": "string"}}, "const": {"$ref": "x"}, **NOT_PLAIN}, {"$ref": "x"}
    )
    assert not fits({"$ref": NEW}, {"type": 5})


@req("JSCH-3", everywhere=True)
def test_bounds_of_schemas() -> None:
    many: dict[str, Any] = {"properties": {f"p{n}": {} for n in range(MAX_OBJECTS)}}
    with pytest.raises(SchemaError, match="more than"):
        compile_schema(many, trusted=True)
    deep: Any = {}
    for _ in range(MAX_DEPTH + 1):
        deep = {"not": deep}
    with pytest.raises(SchemaError, match="deeper"):
        compile_schema(deep, trusted=True)
    deeper: Any = {}
    for _ in range(100_000):
        deeper = {"not": deeper}
    with pytest.raises(SchemaError, match="deeper"):
        compile_schema(deeper, trusted=False)
    while deeper:  # taken apart by hand: the interpreter would do it recursively
        deeper = deeper.pop("not", None)


@pytest.mark.slow
@req("JSCH-3", everywhere=True)
def test_bound_in_time() -> None:
    """Two ways to fit at each level: a schema that a short value keeps busy for longer than anyone waits."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += MAX_SECONDS / 20_000
        return now

    both = {"type": "array", "items": {"$ref": "#/$defs/n"}}
    check = compile_schema(
        {"$defs": {"n": {"anyOf": [both, both]}}, "$ref": "#/$defs/n"}, trusted=False, clock=clock
    )
    value: Any = 1
    for _ in range(40):
        value = [value]
    assert "longer than" in describe(check(value), "x")
    assert check([]) == []  # the next check has its own time


@req("JSCH-3", everywhere=True)
def test_endless_references_end() -> None:
    for schema in ({"$ref": "#"}, {"allOf": [{"$ref": "#"}]}):
        assert "too deeply" in describe(compile_schema(schema, trusted=False)(1), "x")


@req("JSCH-3", everywhere=True)
def test_patterns_of_strangers_cost_linear_time() -> None:
    schema = {"pattern": "^(a+)+$", **NOT_PLAIN}
    assert not fits(schema, "a" * 100_000 + "b")
    for stranger in (
        {"pattern": "(?=a)"},
        {"not": {"pattern": "(a)\\1"}},
        {"patternProperties": {"(a+)+$": True}},
    ):
        with pytest.raises(SchemaError, match="pattern"):
            compile_schema(stranger, trusted=False)
    assert not fits({"pattern": "^(?=a)"}, "b", trusted=True)
    assert fits({"pattern": "^(?=a)"}, "ab", trusted=True)
    assert not fits({"patternProperties": {"^a": {"type": "string"}}}, {"ab": 1}, trusted=True)


@req("JSCH-3", everywhere=True)
@given(
    st.lists(
        st.sampled_from([1, 1.0, True, "1", [1], [1.0], [True], {"a": 1}, {"a": 1.0}, {"a": True}, None])
    )
)
def test_unique_items(items: list[Any]) -> None:
    import jsonschema  # type: ignore[import-untyped]

    there: dict[str, Any] = {"uniqueItems": True}
    library: Any = jsonschema.Draft202012Validator(there)
    assert fits(there, items) is library.is_valid(items)


@req("TOOL-3", "TOOL-4", everywhere=True)
@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("extra", [{}, NOT_PLAIN])
def test_what_json_has_no_form_for_is_no_number(number: float, extra: dict[str, Any]) -> None:
    """Infinity is what a number beyond a double is read as, and would be written as null."""
    for type_ in ("number", "integer"):
        assert not fits({"type": type_, **extra}, number)
        assert fits({"type": type_, **extra}, 10**400)


@req("TOOL-3", everywhere=True)
def test_what_is_no_schema() -> None:
    several: tuple[Any, ...] = (
        5,
        "x",
        None,
        [],
        {"type": 5, **NOT_PLAIN},
        {"required": "a"},
        {"properties": []},
    )
    for wrong in several:
        with pytest.raises(SchemaError):
            compile_schema(wrong, trusted=True)
    assert fits(True, 5)
    assert not fits(False, 5)


@req("TOOL-2", everywhere=True)
def test_complaints_are_short_and_say_where() -> None:
    check = compile_schema({"items": {"type": "string", "minLength": 3}}, trusted=True)
    text = describe(check([1, "x" * 10, "y", *range(50)]), "arguments")
    assert text.startswith("arguments.0 is not of type string; arguments.2 does not satisfy minLength 3")
    assert "more" in text
    long = compile_schema({"properties": {"a": {"enum": ["x" * 10_000]}}, **NOT_PLAIN}, trusted=True)
    assert len(describe(long({"a": "y" * 10_000}), "arguments")) < 600


@pytest.mark.slow
@req("TOOL-3", everywhere=True)
def test_without_the_library() -> None:
    """Plain schemas need nothing; the others say what to install. Nothing imports it before it is needed."""
    code = """
import sys
sys.modules["jsonschema.validators"] = None
from mcprev.errors import SchemaError
from mcprev.json_schema.validation import compile_schema
assert compile_schema({"type": "object", "required": ["a"]}, trusted=True)({}) != []
assert not any(name.startswith(("jsonschema", "referencing")) for name in sys.modules if sys.modules[name])
try:
    compile_schema({"not": {}}, trusted=True)
except SchemaError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert "pip install 'mcprev[schema]'" in done.stdout
