"""HDR-6, HDR-7: which arguments of a tool are repeated in headers, and which tools are not offered over HTTP."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, strategies as st

from helpers.requirements import req
from mcprev.wire.param_headers import MAX_SAFE, NONE, ParamHeader, find_annotations

KEY = "x-mcp-header"
MARK = {"type": "string", KEY: "Region"}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@req("HDR-6")
def test_annotations_are_found_through_properties() -> None:
    schema = of(
        region=MARK,
        plain={"type": "string"},
        box=of(size={"type": "integer", KEY: "Size"}, inner=of(dry={"type": "boolean", KEY: "Dry-Run"})),
    )
    assert find_annotations(schema).headers == (
        ParamHeader("Region", ("region",), "string"),
        ParamHeader("Size", ("box", "size"), "integer"),
        ParamHeader("Dry-Run", ("box", "inner", "dry"), "boolean"),
    )
    assert find_annotations(schema).problems == ()


@req("HDR-6")
@pytest.mark.parametrize(
    "schema", [{}, of(), of(a=True), {"type": "object"}, None, True, [], "x", {"properties": []}]
)
def test_most_schemas_have_none(schema: Any) -> None:
    assert find_annotations(schema) is NONE


@req("HDR-7")
@pytest.mark.parametrize("name", ["A", "a-b", "!#$%&'*+-.^_`|~09azAZ", "1"])
def test_names_that_are_tokens(name: str) -> None:
    assert find_annotations(of(a={"type": "string", KEY: name})).problems == ()


@req("HDR-7")
@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "a:b", "é", "a\r\nb", "a\n", "\x00", "a\x7f", "a,b", "a;b", '"a"', "a/b", "(a)", None, 1, True, ["a"]],
)  # fmt: skip
def test_names_that_are_not(name: Any) -> None:
    found = find_annotations(of(a={"type": "string", KEY: name}))
    assert found.headers == ()
    (problem,) = found.problems
    assert problem.startswith("'#/properties/a'")
    assert problem.isprintable()


@req("HDR-7")
@pytest.mark.parametrize(
    "kind", ["string", "integer", "boolean", ["string", "null"], ["null", "integer"], ["boolean"]]
)
def test_types_that_a_header_can_say(kind: Any) -> None:
    (header,) = find_annotations(of(a={"type": kind, KEY: "A"})).headers
    assert header.type in {"string", "integer", "boolean"}


@req("HDR-7")
@pytest.mark.parametrize(
    "kind",
    ["number", "object", "array", "null", None, ["string", "integer"], ["number", "null"], [], ["null"], "String", 1, {}],
)  # fmt: skip
def test_types_that_it_cannot(kind: Any) -> None:
    found = find_annotations(of(a={"type": kind, KEY: "A"}))
    assert found.headers == ()
    assert "not one of string, integer, boolean" in found.problems[0]


@req("HDR-7")
def test_a_type_has_to_be_there() -> None:
    assert find_annotations(of(a={"enum": ["x"], KEY: "A"})).problems
    assert find_annotations(of(a={KEY: "A"})).problems


@req("HDR-7")
@pytest.mark.parametrize(
    ("bounds", "good"),
    [
        ({}, True), ({"minimum": 0, "maximum": 10}, True), ({"maximum": 2**63 - 1, "minimum": -(2**63)}, True),
        ({"const": MAX_SAFE}, True), ({"const": MAX_SAFE + 1}, False), ({"enum": [1, -MAX_SAFE - 1]}, False),
        ({"enum": [1, None, "x", True]}, True), ({"default": 2**60}, False), ({"minimum": 2**53}, False),
        ({"exclusiveMinimum": 2**54}, False), ({"maximum": -(2**53)}, False), ({"exclusiveMaximum": -(2**60)}, False),
        ({"minimum": "x", "enum": "y"}, True), ({"exclusiveMinimum": True}, True),
    ],
)  # fmt: skip
def test_integers_are_safe(bounds: dict[str, Any], good: bool) -> None:
    found = find_annotations(of(a={"type": "integer", KEY: "A", **bounds}))
    assert bool(found.headers) is good
    assert bool(found.problems) is not good
    assert find_annotations(of(a={"type": "string", KEY: "A", **bounds})).headers


@req("HDR-7")
def test_names_are_unique_whatever_their_case() -> None:
    found = find_annotations(
        of(a=MARK, b={"type": "string", KEY: "rEGION"}, c={"type": "string", KEY: "Other"})
    )
    assert [header.name for header in found.headers] == ["Region", "Other"]
    assert [problem.split(":")[0] for problem in found.problems] == ["'#/properties/b'"]
    assert "another property has the same name" in found.problems[0]


@req("HDR-7")
def test_the_same_name_object_twice_is_twice() -> None:
    assert len(find_annotations(of(a=MARK, b=MARK)).problems) == 1


ELSEWHERE: list[tuple[dict[str, Any], str]] = [
    ({"additionalProperties": MARK}, "additionalProperties"),
    ({"patternProperties": {"^x": MARK}}, "patternProperties/^x"),
    ({"allOf": [of(a=MARK)]}, "allOf/0/properties/a"),
    ({"anyOf": [True, of(a=MARK)]}, "anyOf/1/properties/a"),
    ({"oneOf": [of(a=MARK)]}, "oneOf/0/properties/a"),
    ({"not": of(a=MARK)}, "not/properties/a"),
    ({"if": of(a=MARK)}, "if/properties/a"),
    ({"then": of(a=MARK)}, "then/properties/a"),
    ({"else": of(a=MARK)}, "else/properties/a"),
    ({"$defs": {"R": MARK}}, "$defs/R"),
    ({"definitions": {"R": MARK}}, "definitions/R"),
    ({"dependentSchemas": {"a": of(b=MARK)}}, "dependentSchemas/a/properties/b"),
    (of(a={"type": "array", "items": MARK}), "properties/a/items"),
    (of(a={"type": "array", "items": [MARK]}), "properties/a/items/0"),
    (of(a={"type": "array", "prefixItems": [MARK]}), "properties/a/prefixItems/0"),
    (of(a={"type": "array", "contains": MARK}), "properties/a/contains"),
    (of(a={"anyOf": [MARK]}), "properties/a/anyOf/0"),
    (of(a={"items": of(b=MARK)}), "properties/a/items/properties/b"),
    ({"propertyNames": MARK}, "propertyNames"),
    ({"unevaluatedProperties": MARK}, "unevaluatedProperties"),
]


@req("HDR-7")
@pytest.mark.parametrize(("schema", "where"), ELSEWHERE, ids=[where for _, where in ELSEWHERE])
def test_an_annotation_that_properties_do_not_lead_to(schema: dict[str, Any], where: str) -> None:
    found = find_annotations({"type": "object", **schema})
    assert found.headers == ()
    (problem,) = found.problems
    assert problem.startswith(f"'#/{where}'")
    assert "not reached through properties alone" in problem


@req("HDR-7")
def test_an_annotation_on_the_schema_itself() -> None:
    assert "not on a property" in find_annotations({"type": "string", KEY: "A"}).problems[0]


@req("HDR-7")
@pytest.mark.parametrize(
    "schema",
    [
        of(**{KEY: {"type": "string"}}),
        of(a={"type": "object", "default": {KEY: "A"}}),
        of(a={"const": {KEY: ""}}),
        of(a={"enum": [{KEY: ""}]}),
        {"examples": [{"properties": {"a": {KEY: ""}}}]},
        {"x-vendor": {"properties": {"a": {KEY: ""}}}},
        {"required": [KEY]},
    ],
)
def test_what_is_no_schema_is_not_searched(schema: dict[str, Any]) -> None:
    assert find_annotations(schema) is NONE


@req("HDR-7")
def test_problems_of_one_property_leave_others_alone_and_are_all_told() -> None:
    found = find_annotations(of(a=MARK, b={"type": "number", KEY: "B"}, c={"type": "string", KEY: ""}))
    assert [header.name for header in found.headers] == ["Region"]
    assert len(found.problems) == 2


schemas = st.recursive(
    st.booleans() | st.just(MARK) | st.none() | st.text(max_size=3),
    lambda inner: st.dictionaries(
        st.sampled_from(["properties", "items", "allOf", "$defs", "type", KEY, "enum", "not"]),
        inner | st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_size=4,
    ),
    max_leaves=20,
)


@req("HDR-7")
@given(schemas)
def test_whatever_a_server_sends_is_searched(schema: Any) -> None:
    found = find_annotations(schema)
    assert all(problem.isprintable() for problem in found.problems)
    assert len({header.key for header in found.headers}) == len(found.headers)
    for header in found.headers:
        place = schema
        for step in header.path:
            place = place["properties"][step]
        assert place[KEY] == header.name


@req("HDR-7")
def test_a_deep_schema_does_not_exhaust_the_stack() -> None:
    schema: dict[str, Any] = dict(MARK)
    for _ in range(3000):
        schema = of(a=schema)
    assert len(find_annotations(schema).headers[0].path) == 3000


@req("SEC-6", everywhere=True)
def test_what_is_below_a_long_name_does_not_repeat_it() -> None:
    def peak(size: int) -> int:
        below = {f"p{number}": {"type": "null", "x-mcp-header": "a"} for number in range(size)}
        schema: Any = {"properties": {"x" * 50 * size: {"properties": below}}}
        tracemalloc.start()
        try:
            found = find_annotations(schema)
            assert len(found.problems) == size
            assert max(map(len, found.problems)) < 400
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(800)  # what the interpreter keeps, such as its table of interned strings, grows here
    assert peak(800) < 2.5 * peak(400)
