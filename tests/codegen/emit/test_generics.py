"""Exported generics are generics in Python; without arguments they have their defaults, and none is left out unsaid."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from types import NoneType
from typing import Any, Final

import pytest
from pydantic import TypeAdapter, ValidationError

from helpers import mini
from helpers.support import same
from mcprev_codegen.build import packages as pipeline
from mcprev_codegen.inputs import SchemaFolder

SOURCE: Final = """
export interface Page<T = string> { items: T[]; next?: T }
export interface Other { a: 1 }
interface Pair<A, B extends string | number = "x"> { a: A; b: B; inner?: { of: A; n: 1 } }
export { Pair };
export interface Tree<T> { value: T; kids: Tree<T>[] }
export type Maybe<T> = T | null;
export interface Wraps<T> { page: Page<T>; maybe: Maybe<T>; all?: Record<string, T>; pair?: [T, number] }
export interface Longer<T = Other> extends Page<T> { more: T; [k: string]: unknown }
export type Either<T> = { k: "a"; v: T } | { k: "b"; w: T[] };
export interface Indexed<T = number> { a: string; [k: string]: T | string }
export type Part<T extends Other = Other> = Partial<T>;
export type Listed<T = 1> = T | Listed<T>[];
export type Keys<T> = keyof T;
export type When<T> = T extends string ? 1 : 2;
export interface Uses { page: Page<number>; tree: Tree<boolean> }
export interface Point { type: "point"; x: number }
export interface Group<G extends Shape = Shape> { type: "group"; shapes: G[] }
export type Shape = Point | Group;
export interface Feature<G extends Shape | null = Shape, P = { [k: string]: unknown } | null> { shape: G; properties: P }
export interface Features<G extends Shape | null = Shape, P = { [k: string]: unknown } | null> { features: Feature<G, P>[] }
export interface First<A = string, B = number> { a: A; b: B }
export interface Second<B = number, A = string> extends First<A, B> { c: B; firsts?: First<B, A>[] }
export interface PageT { a: 2 }
"""
POINT: Final = {"type": "point", "x": 1}
GROUP: Final[dict[str, Any]] = {"type": "group", "shapes": [POINT]}
CASES: Final[list[tuple[str, tuple[str, ...], list[Any], list[Any]]]] = [
    ("Page", (), [{"items": ["a"], "next": "b"}], [{"items": [1]}]),
    ("Page", ("int",), [{"items": [1], "next": 2}], [{"items": ["a"]}, {"items": [], "next": "b"}]),
    ("Page", ("Other",), [{"items": [{"a": 1}]}], [{"items": [{"a": 2}]}]),
    ("Pair", ("int",), [{"a": 1, "b": "x", "inner": {"of": 2, "n": 1}}], [{"a": 1, "b": "y"}]),
    ("Pair", ("int", "str"), [{"a": 1, "b": "y"}], [{"a": 1, "b": "y", "inner": {"of": "2", "n": 1}}]),
    ("Tree", ("int",), [{"value": 1, "kids": [{"value": 2, "kids": []}]}], [{"value": 1, "kids": [{"value": "2", "kids": []}]}]),
    ("Maybe", ("Other",), [None, {"a": 1}], [{"a": 2}]),
    ("Wraps", ("int",), [{"page": {"items": [1]}, "maybe": None, "all": {"x": 2}, "pair": [1, 2]}], [{"page": {"items": ["1"]}, "maybe": 1}]),
    ("Longer", (), [{"items": [{"a": 1}], "more": {"a": 1}}], [{"items": [1], "more": {"a": 1}}]),
    ("Longer", ("int",), [{"items": [1], "more": 2, "x": "y"}], [{"items": ["1"], "more": 2}]),
    ("Either", ("int",), [{"k": "a", "v": 1}, {"k": "b", "w": [2]}], [{"k": "a", "v": "1"}, {"k": "b", "w": ["2"]}]),
    ("Indexed", (), [{"a": "", "b": 1.5}], [{"a": "", "b": True}]),
    ("Indexed", ("bool",), [{"a": "", "b": True}], [{"a": "", "b": 1}]),
    ("Part", (), [{}, {"a": 1}], [{"a": 2}]),
    ("Listed", (), [1, [1, [1]]], [2, [[2]]]),
    ("Uses", (), [{"page": {"items": [1]}, "tree": {"value": True, "kids": []}}], [{"page": {"items": ["1"]}, "tree": {"value": True, "kids": []}}]),
    ("Feature", (), [{"shape": POINT, "properties": {"a": 1}}, {"shape": GROUP, "properties": None}], [{"shape": None, "properties": None}]),
    ("Second", ("bool", "str"), [{"a": "x", "b": True, "c": False, "firsts": [{"a": True, "b": "x"}]}], [{"a": True, "b": "x", "c": "y"}, {"a": "x", "b": True, "c": True, "firsts": [{"a": "x", "b": True}]}]),
    ("Feature", ("Point", "NoneType"), [{"shape": POINT, "properties": None}], [{"shape": GROUP, "properties": None}]),
    ("Features", ("Point", "NoneType"), [{"features": [{"shape": POINT, "properties": None}]}], [{"features": [{"shape": GROUP, "properties": None}]}]),
]  # fmt: skip
"""A generic, its arguments, and values that it takes and refuses with them."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """The models of the schema above, and what generating them warned of."""
    folder = tmp_path_factory.mktemp("generic")
    path = folder / "schema.ts"
    path.write_text(SOURCE, encoding="utf-8")
    schema = SchemaFolder(mini.write_folder(folder))
    result = pipeline.generate_project(schema, path, folder / "generic-types", "1.0", overlay=False)
    sys.path.insert(0, str(folder / "generic-types"))
    yield import_module("generic_types.latest"), result.warnings
    sys.path.remove(str(folder / "generic-types"))


@pytest.mark.parametrize(("name", "arguments", "takes", "refuses"), CASES)
def test_a_generic_takes_what_its_arguments_take(
    name: str, arguments: tuple[str, ...], takes: list[Any], refuses: list[Any], made: tuple[Any, Any]
) -> None:
    models, _ = made
    plain: dict[str, Any] = {"int": int, "str": str, "bool": bool, "NoneType": NoneType}
    given = tuple(plain.get(one) or getattr(models, one) for one in arguments)
    adapter = TypeAdapter[Any](getattr(models, name)[given] if given else getattr(models, name))
    for value in takes:
        written = adapter.dump_python(adapter.validate_python(value), mode="json", exclude_unset=True)
        assert same(written, value)
    for value in refuses:
        with pytest.raises(ValidationError):
            adapter.validate_python(value)


def test_a_model_of_a_generic_is_made_like_any_other(made: tuple[Any, Any]) -> None:
    models, _ = made
    assert models.Page[int](items=[1]).to_wire() == {"items": [1]}
    assert not models.Page[int].from_wire({"items": [1]}).next
    with pytest.raises(ValidationError):
        models.Page[int](items=["a"])


def test_what_has_no_members_without_its_arguments_is_told(made: tuple[Any, tuple[str, ...]]) -> None:
    models, warnings = made
    assert not hasattr(models, "Keys")
    assert not hasattr(models, "When")
    (told,) = warnings
    assert "generics whose members depend on their arguments do not describe data: 2 are left out" in told


def test_generics_with_the_same_type_parameters_share_these_and_need_no_declaration_of_their_own(
    made: tuple[Any, Any],
) -> None:
    models, _ = made
    named = [
        name for name in dir(models) if name.startswith(("First", "Feature", "PageT")) and "Tree" not in name
    ]
    # `Second` has one of `First` with its arguments the other way round
    assert named == [
        "Feature",
        "FeatureG",
        "FeatureP",
        "Features",
        "First",
        "FirstA",
        "FirstB",
        "FirstFirstBFirstA",
        "PageT",
        "PageT2",
    ]
