"""What is told of a function that is registered with an app, and which arguments it is called with (TOOL-2, 3, 7)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import datetime as dt
import enum
import functools
import math
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NotRequired

import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict

import mcprev
from fuzz.fuzzing import sampled
from helpers.linear import Text, assert_linear
from helpers.requirements import D, E, req
from helpers.support import check_metaschema, same
from mcprev.app import uri_templates
from mcprev.app.arguments import ArgumentError
from mcprev.app.results import ToolReturns
from mcprev.app.signatures import Function
from mcprev.app.uri_templates import Template
from mcprev_types.latest import models as m

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForCheckers


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    """Where something is."""

    x: int
    y: float = 0.5


class Box(TypedDict):
    size: int
    label: NotRequired[str]


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Opaque:
    """Nothing that JSON has a form for."""


OPAQUE = Opaque()


def one(hint: Any) -> Function:
    """A function of one argument, `x`."""

    def takes(x: Any) -> Any:
        return x

    takes.__annotations__ = {"x": hint}
    return Function(takes)


# -- schemas ---------------------------------------------------------------------------------------------

EACH: list[tuple[Any, dict[str, Any]]] = [
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (str, {"type": "string"}),
    (bool, {"type": "boolean"}),
    (Any, {}),
    (list[str], {"type": "array", "items": {"type": "string"}}),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (dt.date, {"type": "string", "format": "date"}),
    (Annotated[int, Field(ge=1, lt=9, description="how many")], {"type": "integer", "minimum": 1, "exclusiveMaximum": 9, "description": "how many"}),
    (Annotated[str, Field(title="Name")], {"type": "string", "title": "Name"}),
    (Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})], {"type": "string", "x-mcp-header": "Region"}),
    (tuple[int, str], {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [{"type": "integer"}, {"type": "string"}]}),
]  # fmt: skip


@req("TOOL-7", "JSCH-4", at=(D, E))
@pytest.mark.parametrize(("hint", "schema"), EACH)
def test_the_schema_of_a_type(hint: Any, schema: dict[str, Any]) -> None:
    function = one(hint)
    assert function.schema == {
        "type": "object",
        "properties": {"x": schema},
        "required": ["x"],
        "additionalProperties": False,
    }
    check_metaschema(function.schema)


@req("TOOL-7", at=(D, E))
def test_the_schema_of_a_signature() -> None:
    def nothing() -> None: ...

    def several(
        a: int,
        b: str = "hi",
        *,
        ctx: mcprev.Context,
        c: Color = Color.RED,
        d: Annotated[int, Field(description="days")] = 3,
        e: Any = OPAQUE,
        f: Point | None = None,
        g: list[float] = [math.inf],  # noqa: B006
        json: Annotated[str, Field(alias="from")] = "x",
        model_config: int = 0,
    ) -> None: ...

    assert Function(nothing).schema == {"type": "object", "additionalProperties": False}
    schema = Function(several).schema
    assert schema["required"] == ["a"]
    assert schema["properties"] == {
        "a": {"type": "integer"},
        "b": {"type": "string", "default": "hi"},
        "c": {"$ref": "#/$defs/Color", "default": "red"},
        "d": {"type": "integer", "description": "days", "default": 3},
        "e": {},
        "f": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}], "default": None},
        "g": {"type": "array", "items": {"type": "number"}},
        "from": {"type": "string", "default": "x"},
        "model_config": {"type": "integer", "default": 0},
    }
    assert schema["$defs"]["Color"] == {"type": "string", "enum": ["red", "blue"]}
    assert schema["$defs"]["Point"]["description"] == "Where something is."
    check_metaschema(schema)


@req("TOOL-7", at=(D, E))
def test_no_title_is_made_up_and_nothing_that_the_dialect_lacks() -> None:
    schema = one(list[Tree] | Annotated[Cat | Dog, Field(discriminator="kind")] | Box).schema
    check_metaschema(schema)
    assert set(schema["$defs"]) == {"Tree", "Cat", "Dog", "Box"}
    assert "title" not in str(schema)
    assert "discriminator" not in str(schema)


@req("TOOL-2", at=E)
def test_a_string_beside_the_type_describes_the_argument() -> None:
    def take(
        count: Annotated[int, "how many"],
        size: Annotated[int, Field(ge=1), "how big"] = 2,
        both: Annotated[int, "one", "two"] = 1,
    ) -> None: ...

    properties = Function(take).schema["properties"]
    assert properties["count"] == {"type": "integer", "description": "how many"}
    assert (properties["size"]["description"], properties["size"]["minimum"]) == ("how big", 1)
    assert "description" not in properties["both"]


@req("TOOL-1", everywhere=True)
def test_names_and_descriptions() -> None:
    class Adder:
        def __call__(self, a: int) -> int:
            """Does it."""
            return a

        async def method(self, a: int) -> int:
            """Does it
            in two lines.

            And more that is for people.
            """
            return a

    def bare(a: int) -> None: ...

    @functools.wraps(bare)
    def wrapped(*args: Any, **kwargs: Any) -> None: ...

    for function, name, description in (
        (Adder(), "Adder", "Does it."),
        (Adder().method, "method", "Does it\nin two lines.\n\nAnd more that is for people."),
        (bare, "bare", None),
        (wrapped, "bare", None),
        (functools.partial(bare), "bare", None),
    ):
        read = Function(function)
        assert (read.name, read.description, read.names) == (name, description, ("a",))


# -- what cannot be --------------------------------------------------------------------------------------


def stars(a: int, *rest: int) -> None: ...
def options(**rest: int) -> None: ...
def positional(a: int, /) -> None: ...
def bare(a, b: int) -> None: ...  # type: ignore[no-untyped-def]  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
def opaque(fine: int, a: list[Opaque]) -> None: ...
def calls_back(a: Callable[[], int]) -> None: ...
def unknown(a: OnlyForCheckers) -> None: ...
def missing(a: dt.Datetime) -> None: ...  # type: ignore[name-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownParameterType]
def contexts(a: mcprev.Context, b: mcprev.Context) -> None: ...
def no_context(ctx) -> None: ...  # type: ignore[no-untyped-def]  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
def perhaps(a: mcprev.Context | None = None) -> None: ...
def pattern(a: Annotated[str, Field(pattern="(?=b)")]) -> None: ...
def field(a: int = Field(default=3)) -> None: ...
def yields() -> Iterator[int]:
    yield 1


async def streams() -> AsyncIterator[int]:
    yield 1


class Adder:
    def method(self, a: int) -> int:
        return a


REFUSED: list[tuple[Any, list[str]]] = [
    (stars, ["'rest'", "declare each one by name"]),
    (options, ["'rest'", "declare each one by name"]),
    (positional, ["'a'", "positional-only", "remove the '/'"]),
    (bare, ["'a'", "has no annotation"]),
    (no_context, ["'ctx'", "has no annotation", "mcprev.Context"]),
    (perhaps, ["'a'", "is a context or another type", "annotate it `mcprev.Context`"]),
    (Adder.method, ["'self'", "register the method of an instance"]),
    (Adder, ["it is a class"]),
    (max, ["its signature cannot be read"]),
    (missing, ["'Datetime'", "annotate each parameter"]),
    (pattern, ["'a'", "look-around, including look-ahead and look-behind, is not supported"]),
    (opaque, ["'a'", "no JSON Schema", "Opaque", "remove the parameter"]),
    (calls_back, ["'a'", "no JSON Schema"]),
    (unknown, ["'OnlyForCheckers'", "at the top of the module"]),
    (contexts, ["'b'", "second context"]),
    (field, ["'a'", "Annotated[T, Field(...)] = default"]),
    (yields, ["it is a generator", "return one value"]),
    (streams, ["it is a generator", "return one value"]),
]  # fmt: skip


@req("TOOL-7", at=(D, E))
@pytest.mark.parametrize(("function", "says"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_a_signature_that_cannot_be_told_is_refused_at_once(
    function: Callable[..., object], says: list[str]
) -> None:
    with pytest.raises(TypeError) as caught:
        mcprev.App("a", "1").tool(function)
    for text in (f"{function.__name__}(): ", *says):
        assert text in str(caught.value)


@req("TOOL-4", at=(D, E))
def test_a_return_type_without_a_schema_is_refused_at_once() -> None:
    def gives() -> Opaque:
        return OPAQUE

    with pytest.raises(
        TypeError, match=r"gives\(\): returns a type that has no JSON Schema .*leave the annotation out"
    ):
        mcprev.App("a", "1").tool(gives)


# -- arguments -------------------------------------------------------------------------------------------

GOOD: list[tuple[Any, Any, Any]] = [
    (int, 1.0, 1),
    (int, 10**30, 10**30),
    (float, 2, 2.0),
    (Any, 1.0, 1.0),
    (Any, {"a": [None, 1.5]}, {"a": [None, 1.5]}),
    (Color, "red", Color.RED),
    (dt.date, "2031-07-28", dt.date(2031, 7, 28)),
    (uuid.UUID, "12345678-1234-5678-1234-567812345678", uuid.UUID("12345678-1234-5678-1234-567812345678")),
    (Path, "a/b", Path("a/b")),
    (Point, {"x": 1.0}, Point(1)),
    (Box, {"size": 1}, {"size": 1}),
    (set[int], [1, 2], {1, 2}),
    (tuple[int, str], [1, "a"], (1, "a")),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    (int | str, "1", "1"),
    (int | float, 1.5, 1.5),
    (Tree, {"value": 1, "children": [{"value": 2}]}, Tree(value=1, children=[Tree(value=2)])),
    (Cat | Dog, {"kind": "dog"}, Dog(kind="dog")),
]  # fmt: skip
BAD: list[tuple[Any, Any]] = [
    (int, "1"), (int, True), (int, 1.5), (int, None), (float, "1"), (float, float("inf")), (bool, 1), (bool, "true"),
    (str, 1), (Color, "green"), (dt.date, 5), (Point, {}), (Point, {"x": "1"}), (Box, {"size": 1, "more": 1}),
    (tuple[int, str], [1]), (list[int], [1, "2"]), (Annotated[int, Field(ge=1)], 0), (list[int], {"0": 1}),
    (dt.date, "tomorrow"), (str, "\ud800"),
]  # fmt: skip


@req("TOOL-3", everywhere=True)
@pytest.mark.parametrize(("hint", "value", "wanted"), GOOD)
def test_arguments_arrive_as_what_the_annotation_says(hint: Any, value: Any, wanted: Any) -> None:
    found = one(hint).read({"x": value})["x"]
    assert found == wanted
    assert type(found) is type(wanted)


@req("TOOL-3", everywhere=True)
@pytest.mark.parametrize(("hint", "value"), BAD)
def test_arguments_of_another_json_type_do_not_arrive(hint: Any, value: Any) -> None:
    function = one(hint)
    for arguments in ({"x": value}, {}, {"x": value, "more": 1}):
        with pytest.raises(ArgumentError) as caught:
            function.read(arguments)
        assert "secret" not in str(caught.value.complaints)
    assert ((("more",), "is not known here") in caught.value.complaints) is (value != "\ud800")


@req("TOOL-3", everywhere=True)
def test_what_is_absent_is_left_to_the_function() -> None:
    """Its own default is taken and not a copy of it, but for one that a call could change for all later ones."""

    async def default(x: list[int] = [1], *, ctx: mcprev.Context, y: Any = OPAQUE) -> Any:  # noqa: B006
        x.append(2)
        return x, y, ctx

    function = Function(default)
    context: Any = object()
    assert function.read({}) == {}
    for _ in range(2):
        found: Any = asyncio.run(function(context, function.read({})))
        assert found[0] == [1, 2]
        assert found[1] is OPAQUE
        assert found[2] is context


@req("TOOL-3", everywhere=True)
def test_fractions_stay_what_they_are_where_another_argument_is_whole() -> None:
    def takes(a: int, b: Any) -> None: ...

    found = Function(takes).read({"a": 1.0, "b": [2.0]})
    assert [type(item) for item in (found["a"], *found["b"])] == [int, float]


AS_IT_IS: list[Any] = [
    str, int, float, bool, None, str | None, list[str], list[float] | None, dict[str, int], dict[int, str],
    dict[str, list[dict[str, bool | None]]], Annotated[str, Field(min_length=2, description="long")],
]  # fmt: skip
CONVERTED: list[Any] = [
    bytes, dt.date, Any, list[Any], dict[str, Any], list, Color, Point, Box, Literal["a"], int | str, set[str], Tree,
    tuple[str, str], Annotated[str, AfterValidator(str.upper)], dict[str, dt.date], dt.date | None,
]  # fmt: skip
ODD: Any = st.sampled_from(
    [math.inf, -math.inf, math.nan, "\ud800", 10**400, 1e300, True, "1", {"\udfff": 1}, {"1": "x"}]
)


@req("TOOL-3", everywhere=True)
@pytest.mark.parametrize(("hints", "plain"), [(AS_IT_IS, True), (CONVERTED, False)])
def test_only_types_whose_json_text_says_no_more_than_the_value_are_validated_as_they_are(
    hints: list[Any], plain: bool
) -> None:
    assert [hint for hint in hints if one(hint)._plain is not plain] == []


@pytest.mark.slow
@req("TOOL-3", everywhere=True)
@settings(max_examples=sampled(150))
@given(hint=st.sampled_from(AS_IT_IS), data=st.data())
def test_arguments_that_are_validated_as_they_are_arrive_as_from_their_text(hint: Any, data: Any) -> None:
    odd = st.one_of(
        ODD, ANYTHING, st.lists(ODD, max_size=2), st.dictionaries(st.sampled_from(["a", "1"]), ODD)
    )
    value = data.draw(odd if hint in (dict[int, str], AS_IT_IS[-1]) else st.one_of(values_of(hint), odd))
    function = one(hint)
    found: list[object] = []
    for function._plain in (True, False):
        try:
            found.append(function.read({"x": value}))
        except ArgumentError as error:
            found.append(error.complaints)
    assert same(*found)


@req("TOOL-3", everywhere=True)
def test_a_long_text_is_neither_written_nor_copied_to_be_validated() -> None:
    text = "a" * 1_000_000
    assert one(str).read({"x": text})["x"] is text


PLAIN: Any = st.sampled_from([int, float, str, bool, None, Literal["a", "b"], Color, Point, Box])
GENERIC: Any = {"list": list, "dict": dict, "tuple": tuple}


def either(one: Any, other: Any) -> Any:
    return one | other


def named(name: str, *args: Any) -> Any:
    return GENERIC[name][args]


def larger(inner: Any) -> Any:
    """Annotations made of others."""
    return st.one_of(
        st.builds(named, st.just("list"), inner),
        st.builds(named, st.just("dict"), st.just(str), inner),
        st.builds(named, st.just("tuple"), inner, inner),
        st.builds(either, inner, st.sampled_from([int, str, Point])),
    )


HINTS: Any = st.recursive(PLAIN, larger, max_leaves=4)
WHOLE = st.one_of(st.integers(-(10**20), 10**20), st.integers(-5, 5).map(float))
DOUBLES = st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False))
NUMBERS = st.one_of(WHOLE, DOUBLES)
LEAVES = st.one_of(
    st.none(), st.booleans(), NUMBERS, st.text(max_size=3), st.sampled_from(["a", "red", 1, 1.0])
)
ANYTHING: Any = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["x", "y", "size", "label", "a"]), inner, max_size=3),
    ),
    max_leaves=5,
)
VALUES: dict[Any, Any] = {
    int: WHOLE,
    float: DOUBLES,
    str: st.text(max_size=5),
    bool: st.booleans(),
    None: st.none(),
    type(None): st.none(),
    Color: st.sampled_from(["red", "blue"]),
    Point: st.fixed_dictionaries({"x": st.integers(-9, 9)}, optional={"y": st.floats(-9, 9)}),
    Box: st.fixed_dictionaries({"size": st.integers(-9, 9)}, optional={"label": st.text(max_size=3)}),
}


def values_of(hint: Any) -> Any:
    """JSON of an annotation."""
    if hint in VALUES:
        return VALUES[hint]
    args, origin = hint.__args__, getattr(hint, "__origin__", None)
    if origin is Literal:
        return st.sampled_from(args)
    inner: Any = [values_of(arg) for arg in args]
    if origin is list:
        return st.lists(inner[0], max_size=3)
    if origin is dict:
        return st.dictionaries(st.text(max_size=3), inner[1], max_size=3)
    return st.tuples(*inner).map(list) if origin is tuple else st.one_of(*inner)


def covers(found: Any, given_: Any) -> bool:
    """Whether JSON is what was given, but for members that have defaults."""
    if given_.__class__ is dict and found.__class__ is dict:
        return all(name in found and covers(found[name], value) for name, value in given_.items())
    if given_.__class__ is list and found.__class__ is list:
        return len(found) == len(given_) and all(map(covers, found, given_))
    return isinstance(found, bool) is isinstance(given_, bool) and bool(found == given_)


def allows(function: Function, value: Any) -> bool:
    """Whether the schema has nothing against an argument, as a library for JSON Schema sees it."""
    checker: Any = Draft202012Validator(function.schema)
    return bool(checker.is_valid({"x": value}))


@pytest.mark.slow
@req("TOOL-3", everywhere=True)
@settings(max_examples=150)
@given(data=st.data())
def test_what_the_schema_allows_arrives_as_it_was(data: st.DataObject) -> None:
    hint = data.draw(HINTS)
    function, value = one(hint), data.draw(values_of(hint))
    assert allows(function, value)
    assert covers(to_jsonable_python(function.read({"x": value})["x"]), value)


@pytest.mark.slow
@req("TOOL-3", everywhere=True)
@settings(max_examples=sampled(100))
@given(hint=HINTS, value=ANYTHING)
def test_what_arrives_is_what_the_schema_allows_and_nothing_else(hint: Any, value: Any) -> None:
    function = one(hint)
    try:
        function.read({"x": value})
        arrived = True
    except ArgumentError:
        arrived = False
    assert arrived is allows(function, value), function.schema


# -- results ---------------------------------------------------------------------------------------------

CONTENT: list[Any] = [
    None, str, str | None, m.TextContent, m.ContentBlock, list[m.ContentBlock], list[m.TextContent | str], tuple[m.TextContent, ...],
    m.CallToolResult, m.CallToolResult | m.InputRequiredResult, str | m.CallToolResult, Any, object, Annotated[str, "x"],
]  # fmt: skip
DATA: list[tuple[Any, dict[str, Any]]] = [
    (int, {"type": "integer"}),
    (bool | m.CallToolResult, {"type": "boolean"}),
    (list[str], {"type": "array", "items": {"type": "string"}}),
    (dict[str, Any], {"type": "object", "additionalProperties": True}),
    (Box, {"type": "object", "properties": {"size": {"type": "integer"}, "label": {"type": "string"}}, "required": ["size"]}),
    (Point, {"type": "object", "description": "Where something is.", "properties": {"x": {"type": "integer"}, "y": {"type": "number", "default": 0.5}}, "required": ["x"]}),
]  # fmt: skip


def returning(hint: Any) -> ToolReturns:
    def gives() -> Any: ...

    gives.__annotations__ = {"return": hint}
    return ToolReturns("t", Function(gives))


@req("TOOL-4", at=(D, E))
@pytest.mark.parametrize("hint", CONTENT)
def test_content_has_no_schema(hint: Any) -> None:
    assert returning(hint).schema is None


@req("TOOL-4", at=(D, E))
@pytest.mark.parametrize(("hint", "schema"), DATA)
def test_data_has_a_schema(hint: Any, schema: dict[str, Any]) -> None:
    assert returning(hint).schema == schema


@req("TOOL-4", at=(D, E))
def test_blocks_by_name_are_data() -> None:
    schema = returning(dict[str, m.TextContent]).schema
    assert schema is not None
    assert schema["type"] == "object"


@req("TOOL-4", at=(D, E))
def test_data_that_refers_to_itself_is_an_object_to_older_peers_too() -> None:
    schema = returning(Tree).schema
    assert schema is not None
    assert (schema["type"], schema["$ref"]) == ("object", "#/$defs/Tree")
    check_metaschema(schema)


@req("TOOL-4", at=(D, E))
def test_a_function_without_an_annotation_returns_content() -> None:
    def gives():  # type: ignore[no-untyped-def]  # pyright: ignore[reportUnknownParameterType]
        """Something."""

    assert ToolReturns("t", Function(gives)).schema is None  # pyright: ignore[reportUnknownArgumentType]


# -- templates -------------------------------------------------------------------------------------------


@req("RES-4", everywhere=True)
@pytest.mark.parametrize(
    ("template", "uri", "wanted"),
    [
        ("users://{user}/profile", "users://bob/profile", {"user": "bob"}),
        ("users://{user}/profile", "users://b%20o%2Fb/profile", {"user": "b o/b"}),
        ("users://{user}/profile", "users://jos\u00e9/profile", {"user": "jos\u00e9"}),
        ("users://{user}/profile", "users:///profile", None),
        ("users://{user}/profile", "users://a/b/profile", None),
        ("users://{user}/profile", "users://a/profile/x", None),
        ("users://{user}/profile", "Users://a/profile", None),
        ("a:{x}", "a:1", {"x": "1"}),
        ("a:{x}", "a:1?q", None),
        ("a:{x}.json", "a:x.json.json", {"x": "x.json"}),
        ("a:{x}-{y}", "a:1-2-3", {"x": "1", "y": "2-3"}),
        ("a:b?q={q}&n={n}", "a:b?q=1&n=2", {"q": "1", "n": "2"}),
        ("file:///{+path}", "file:///a/b%20c", {"path": "a/b c"}),
        ("a:{+path}/{name}.{end}", "a:x/y/z/n.t.x", {"path": "x/y/z", "name": "n", "end": "t.x"}),
        ("a:{x}.{+path}", "a:1.2/3?4", {"x": "1", "path": "2/3?4"}),
        ("a:{+x}-{y}", "a:b-c-", {"x": "b", "y": "c-"}),
        ("a:{+x}-{y}/{z}", "a:b-c-d/e", {"x": "b-c", "y": "d", "z": "e"}),
        ("a:{x}-{y}", "a:--b", {"x": "-", "y": "b"}),
        ("a:{x}-{+y}", "a:--b", {"x": "-", "y": "b"}),
        ("a:{x}!", "a:!!", {"x": "!"}),
        ("a:{x}.json", "a:x.yaml", None),
        ("a:(b)[c]", "a:(b)[c]", {}),
        ("a:x", "a:x\n", None),
    ],
)
def test_what_a_uri_says(template: str, uri: str, wanted: dict[str, str] | None) -> None:
    assert Template(template).match(uri) == wanted


@req("RES-4", everywhere=True)
@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("a:{x}{y}", "no text between"), ("a:{+x}/{+y}", "more than one"), ("a:{x}/{x}", "twice"), ("a:{?q:3}", "only {name}"),
        ("a:{x:3}", "only {name}"), ("a:{x", "only {name}"), ("a:{}", "only {name}"), ("notes/{x}", "begin with a scheme"),
        ("{x}", "begin with a scheme"), ("", "begin with a scheme"), ("a:{!x}", "only {name}"), ("a:{x y}", "only {name}"),
        ("a:b{?q}/c", "have to be last"), ("a:b{?q}#c", "have to be last"), ("a:b#c{?q}", "have to be last"),
        ("a:b{&q}", "goes on with"), ("a:b?c=d{?q}", "goes on with"), ("a:b{?q}{?r}", "goes on with"),
        ("a:b?c{&q}", "write name=value"), ("a:b?{c}{&q}", "write name=value"), ("a:b?c={d}e{&q}", "write name=value"),
        ("a:b{?q*}", "no list"), ("a:b{;q*}", "supported without"), ("a:b{#q*}", "supported without"), ("a:{x}{?x}", "twice"),
        ("a:{x*}{/y*}", "more than one"), ("a:{+x,y}{#z}", "more than one"), ("a:{/a*}{b}", "no text between"),
    ],
)  # fmt: skip
def test_templates_that_are_none(template: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Template(template)


@req("RES-4", everywhere=True)
@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_what_is_put_into_a_template_is_found_in_the_uri(one: str, other: str) -> None:
    from urllib.parse import quote

    uri = f"x://{quote(one, safe='')}/and/{quote(other, safe='')}"
    assert Template("x://{one}/and/{other}").match(uri) == {"one": one, "other": other}


TEMPLATES: Final = (
    "a:{x}-{y}-{z}!", "a:{+x}-{y}-{z}!", "a:{x}-{+y}-{z}!", "a:{x}-{y}-{+z}!", "a:{+x}", "a:{+x}aa{y}a-a{z}",
    "a:{x}/{+y}--{z}", "a:{+x}/{y}.{z}", "a:{x}?q={y}&{+z}", "a:-",
)  # fmt: skip


def by_regular_expression(template: str, uri: str) -> dict[str, str] | None:
    """What a URI says by a regular expression that tries every place for `{+name}`."""
    pattern = re.escape(template)
    pattern = re.sub(r"\\{\\\+(\w+)\\}", r"(?P<\1>.+)", pattern)
    pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/?#&]+?)", pattern)
    found = re.fullmatch(pattern, uri, re.DOTALL)
    return None if found is None else found.groupdict()


@req("RES-4", everywhere=True)
@pytest.mark.parametrize("template", TEMPLATES)
@given(st.text("a-/?.!&q=", max_size=12))
def test_a_uri_matches_as_a_regular_expression_does_that_takes_long(template: str, rest: str) -> None:
    assert Template(template).match(f"a:{rest}") == by_regular_expression(template, f"a:{rest}")


@req("RES-4", "SEC-6", everywhere=True)
@pytest.mark.parametrize("template", TEMPLATES)
@settings(max_examples=25)
@given(
    again=st.lists(st.sampled_from(["a", "-", "a-", "/", "?q=", "&", ".", "!"]), min_size=1, max_size=3).map(
        "".join
    ),
    end=st.sampled_from(["", "!", "-a!", "/a.b", "\n"]),
)
def test_the_steps_of_a_match_grow_with_the_uri(template: str, again: str, end: str) -> None:
    match = Template(template).match
    assert_linear(match, lambda size: Text("a:" + again * size + end), uri_templates)


@req("RES-4", everywhere=True)
def test_a_long_uri_matches() -> None:
    assert Template("a:{+x}-{y}").match("a:" + "-a" * 10**6) == {"x": ("-a" * 10**6)[:-2], "y": "a"}
