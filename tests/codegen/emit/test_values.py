"""Values that a type takes and refuses: its model and the JSON Schema of the package say the same, and keep what they take."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from helpers import mini
from helpers.first_use import problems
from helpers.support import complaints, same, validator
from mcprev_codegen.build import packages as pipeline
from mcprev_codegen.inputs import SchemaFolder

SCALARS: Final[list[Any]] = [
    True, False, 0, 0.0, 1, 1.0, 2, 2.0, -1, -1.0, 0.5, 1.5, "", "a", "1", "true", None, [], {},
]  # fmt: skip
LITERALS: Final = """
export type Yes = true;
export type One = 1;
export type Point = 1.0;
export type Half = 0.5 | "a";
export type Mixed = 1 | true | "a" | "1" | 0 | null;
export type BooleanOrOne = boolean | 1;
export type NumberOrTrue = number | true;
export enum Level { None, Low, Some = -1 }
export const ONE = 1;
export interface Const { it: typeof ONE; ok?: true }
export type Listed = (1 | false)[];
export type Named = Record<string, true | 2>;
export type Pair = [1, true];
export interface Good { ok: true; it: 1 }
export interface Bad { ok: false; it: "a" }
export type Result = Good | Bad;
export interface ByTrue { tag: true; it: 1 }
export interface ByOne { tag: 1 | 2; it: true }
export interface ByHalf { tag: 0.5; it: string }
export interface ByText { tag: "1"; it: null }
export type Tagged = ByTrue | ByOne | ByHalf | ByText;
export interface Holds { result: Good | Bad; tagged?: Tagged }
"""
FURTHER: Final = """
export interface Item { itemId: number }
export interface Shelf { first: Item; [k: string]: Item }
export interface Wide extends Shelf { second: Item }
export type Counted = { x: 1 | "a" } & { [k: string]: number };
export type Mapped = Item & Record<string, number>;
export type Both = Base & { [k: string]: 1 | "t" } & { n: number };
export interface Base { [k: string]: string | number }
export interface Tree { kids: Tree[]; [k: string]: Tree | Tree[] }
export interface ByU { t: "u"; [k: string]: "u" | 1 }
export interface ByV { t: "v"; [k: string]: "v" | number[] }
export type Either = ByU | ByV;
export interface Inside { of: { id: number } & { [k: string]: number | null }; [k: string]: { id: number } }
export interface Anything { id: number; [k: string]: unknown }
"""
LIMITS: Final = r"""
/**
 * @TJS-type integer
 * @minimum 0
 */
export type Natural = number;
/** @pattern ^[a-z]\d$ */
export type Short = string;
/** @pattern ^(?!-)(?=.*b)[a-z-]+(?<!-)$ */
export type Label = string;
/** @pattern ^(?!x) */
export type LabelOrNumber = Label | number;
/** @pattern ^((?!x).)*$ */
export type Unchecked = string;
/**
 * @uniqueItems
 * @minItems 1
 */
export type Different = unknown[];
/** @maxLength 1 */
export type ShortOrYes = string | true;
export interface Limited {
  /** @TJS-type integer */
  whole?: number | null;
  /** @TJS-type integer */
  wholes?: number[];
  /** @minimum 5 */
  natural?: Natural;
  /**
   * @minimum 2
   * @maxLength 2
   */
  mixed?: string | number;
  /** @minimum 2 */
  literal?: 1 | 2 | "a";
  /** @minItems 2 */
  some?: string | string[];
  /** @maxItems 2 */
  pair?: [1, ...1[]];
  /** @uniqueItems */
  objects?: { a: unknown }[];
  /** @exclusiveMinimum 0 */
  anything?: unknown;
  short?: Short[];
  /** @pattern ^(?!a) */
  label?: string | null;
  /**
   * @deprecated since 2
   * @pattern ^a(?!b)
   */
  old?: string | null;
}
"""
NEVER: Final = """
export interface ByWord { word: string; parts?: never }
export interface ByParts { parts: Said[]; word?: never }
export type Said = ByWord | ByParts;
export type Closed = Record<string, never>;
"""
ONE: Final[list[Any]] = [1, 1.0]
ITEM: Final = {"itemId": 1}
TAKEN: Final[dict[str, list[Any]]] = {
    "Yes": [True],
    "One": ONE,
    "Point": ONE,
    "Half": [0.5, "a"],
    "Mixed": [*ONE, True, "a", "1", 0, 0.0, None],
    "BooleanOrOne": [*ONE, True, False],
    "NumberOrTrue": [0, 0.0, *ONE, 2, 2.0, -1, -1.0, 0.5, 1.5, True],
    "Level": [0, 0.0, *ONE, -1, -1.0],
}
"""Of the scalars, those that each type of literals takes."""
WITHIN: Final[dict[str, tuple[list[Any], list[Any]]]] = {
    "Const": ([{"it": it} for it in ONE] + [{"it": 1, "ok": True}], [{"it": True}, {"it": 1, "ok": 1}]),
    "Listed": ([[1, 1.0, False]], [[0], [True]]),
    "Named": ([{"a": True, "b": 2.0}], [{"a": 1}, {"a": False}]),
    "Pair": ([[1.0, True]], [[True, 1], [1, 1]]),
    "Result": (
        [{"ok": True, "it": 1.0}, {"ok": False, "it": "a"}],
        [{"ok": 1, "it": 1}, {"ok": 0, "it": "a"}, {"ok": 0.0, "it": "a"}, {"ok": False, "it": 1}, {"ok": None}],
    ),
    "Tagged": (
        [
            {"tag": True, "it": 1}, {"tag": 1, "it": True}, {"tag": 2.0, "it": True}, {"tag": 0.5, "it": ""},
            {"tag": "1", "it": None},
        ],
        [{"tag": True, "it": True}, {"tag": 1, "it": 1}, {"tag": 0, "it": 1}, {"tag": "true", "it": 1}, {}, 1],
    ),
    "Shelf": (
        [{"first": ITEM}, {"first": ITEM, "b": {"itemId": 2, "more": 1}}],
        [{"first": ITEM, "b": {"itemId": "2"}}, {"first": ITEM, "b": 1}, {"first": ITEM, "b": None}, {"b": ITEM}],
    ),
    "Wide": ([{"first": ITEM, "second": ITEM, "c": ITEM}], [{"first": ITEM, "second": ITEM, "c": {}}]),
    "Counted": ([{"x": 1}, {"x": 1.0, "y": 2.0}], [{"x": "a"}, {"x": 1, "y": "2"}, {"x": 1, "y": True}]),
    "Mapped": ([ITEM, {"itemId": 1, "b": 1.5}], [{"itemId": 1, "b": "1"}, {"itemId": 1, "b": None}]),
    "Both": ([{"n": 1, "a": "t", "b": 1}], [{"n": 2}, {"n": 1, "a": "s"}, {"n": 1, "a": 2}]),
    "Tree": (
        [{"kids": [], "a": {"kids": [], "b": []}}],
        [{"kids": [], "a": {}}, {"kids": [], "a": {"kids": [], "b": [1]}}],
    ),
    "Either": (
        [{"t": "u", "x": 1}, {"t": "v", "x": [1, 2.0]}, {"t": "v", "x": "v"}],
        [{"t": "u", "x": "v"}, {"t": "u", "x": True}, {"t": "v", "x": ["1"]}],
    ),
    "Inside": (
        [{"of": {"id": 1, "a": None}, "b": {"id": 2}}],
        [{"of": {"id": None}}, {"of": {"id": 1, "a": "1"}}, {"of": {"id": 1}, "b": {"id": "2"}}],
    ),
    "Natural": ([0, 1.0, 7], [-1, 0.5, "1", True]),
    "Short": (["a1"], ["a\u0663", "é1", "a12"]),
    "Label": (["b", "a-b"], ["-b", "b-", "a", "b ", 1]),
    "LabelOrNumber": (["b", 1], ["xb", "a-"]),
    "Unchecked": (["a"], [1]),
    "Different": (
        [[1], [1, True, "1", None], [0, False], [{"a": 1}, {"a": True}], [[1], [1.5]]],
        [[], [1, 1.0], [None, None], [{"a": [1]}, {"a": [1.0]}], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], [[], []]],
    ),
    "ShortOrYes": (["", "a", True], ["ab", False]),
    "Limited": (
        [
            {"whole": 1.0}, {"whole": None}, {"wholes": [1, 2.0]}, {"natural": 5}, {"mixed": "ab"}, {"mixed": 2.5},
            {"literal": 2}, {"literal": "a"}, {"some": ""}, {"some": ["a", "b"]}, {"pair": [1, 1]},
            {"objects": [{"a": 1}, {"a": True}]}, {"anything": "0"}, {"anything": 0.5}, {"short": ["a1"]},
            {"label": "b"}, {"label": None}, {"old": None}, {"old": "ac"},
        ],
        [
            {"whole": 1.5}, {"wholes": [1.5]}, {"natural": 4}, {"natural": 5.5}, {"mixed": "abc"}, {"mixed": 1},
            {"literal": 1}, {"some": ["a"]}, {"pair": [1, 1, 1]}, {"objects": [{"a": 1}, {"a": 1.0}]},
            {"anything": 0}, {"short": ["1"]}, {"label": "a"}, {"old": 1},
        ],
    ),
    "Anything": ([{"id": 1, "a": [None, {"b": 1.0}]}], [{"id": "1"}]),
    "Said": (
        [{"word": "a"}, {"parts": [{"word": "a", "more": 1}, {"parts": []}]}],
        [{"word": "a", "parts": []}, {"parts": [{"word": "a", "parts": 1}]}, {}],
    ),
    "Closed": ([{}], [{"a": 1}, {"a": None}, []]),
    "Holds": (
        [{"result": {"ok": True, "it": 1}, "tagged": {"tag": 1.0, "it": True}}],
        [{"result": {"ok": 1, "it": 1}}, {"result": {"ok": True, "it": 1}, "tagged": {"tag": "1.0", "it": None}}],
    ),
}  # fmt: skip
"""Other types, each with values that it takes and values that it refuses."""
CASES: Final = [
    *((name, taken, [v for v in SCALARS if not any(same(v, t) for t in taken)]) for name, taken in TAKEN.items()),
    *((name, *values) for name, values in WITHIN.items()),
]  # fmt: skip


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The package of the schema above."""
    folder = tmp_path_factory.mktemp("values")
    path = folder / "schema.ts"
    path.write_text(LITERALS + FURTHER + LIMITS + NEVER, encoding="utf-8")
    schema = SchemaFolder(mini.write_folder(folder))
    pipeline.generate_project(schema, path, folder / "values-types", "1.0", overlay=False)
    sys.path.insert(0, str(folder / "values-types"))
    yield folder / "values-types" / "values_types"
    sys.path.remove(str(folder / "values-types"))


@pytest.mark.parametrize(("name", "takes", "refuses"), CASES)
def test_the_model_takes_and_keeps_what_the_json_schema_takes(
    name: str, takes: list[Any], refuses: list[Any], package: Path
) -> None:
    document = json.loads((package / "v1_0" / "schema.json").read_text(encoding="utf-8"))
    judge = validator(document["$defs"], name)
    type_: Any = getattr(import_module("values_types.latest"), name)
    named = isinstance(type_, type(BaseModel))
    adapter = TypeAdapter[Any](type_, config=None if named else ConfigDict(strict=True))
    for value in takes:
        assert complaints(judge, value) == []
        written = adapter.dump_python(adapter.validate_python(value), mode="json", exclude_unset=True)
        assert same(written, value)
        assert same(json.loads(adapter.dump_json(adapter.validate_python(value), exclude_unset=True)), value)
    for value in refuses:
        assert (
            complaints(judge, value) or value == "a\u0663"
        )  # which the pattern of Python, not of ECMAScript, takes
        with pytest.raises(ValidationError):
            adapter.validate_python(value)


def test_every_type_can_be_used_and_says_what_its_json_schema_is(package: Path) -> None:
    models: Any = import_module("values_types.v1_0.models")
    assert problems(models) == []
    label: Any = TypeAdapter[Any](models.Label).json_schema()
    assert label["allOf"][-1] == {"not": {"pattern": "(?:-)$", "type": "string"}}
    old: Any = models.Limited.model_json_schema()["properties"]["old"]
    assert (old["deprecated"], "default" in old) == (True, False)


def test_a_pattern_that_no_engine_matches_in_linear_time_is_told(tmp_path: Path) -> None:
    path = tmp_path / "schema.ts"
    path.write_text(LIMITS, encoding="utf-8")
    made = pipeline.generate_project(
        SchemaFolder(mini.write_folder(tmp_path)),
        path,
        tmp_path / "told-types",
        "1.0",
        overlay=False,
        write=False,
    )
    told = [re.search(r"pattern of (.*) looks around", warning) for warning in made.warnings]
    assert [found and found[1] for found in told] == ["'Unchecked'", "member 'old' of 'Limited'"]


def test_constructors_fill_in_literals_of_every_kind(package: Path) -> None:
    models: Any = import_module("values_types.latest")
    made: Any
    for made in (models.Good(), models.ByHalf(it=""), models.ByText(it=None), models.Const()):
        assert same(made.from_wire(made.to_wire()).to_wire(), made.to_wire())
    assert same(models.Good().to_wire(), {"ok": True, "it": 1})
    assert same(models.ByHalf(it="").to_wire(), {"tag": 0.5, "it": ""})


def test_members_of_an_index_signature_are_models(package: Path) -> None:
    models: Any = import_module("values_types.latest")
    read = models.Wide.from_wire({"first": ITEM, "second": ITEM, "third": ITEM})
    assert read.third == models.Item(item_id=1)
    made = models.Wide(first=read.third, second=read.third, third=models.Item(item_id=1))
    assert made.to_wire() == {"first": ITEM, "second": ITEM, "third": ITEM}
    with pytest.raises(ValidationError, match="third"):
        models.Wide(first=read.third, second=read.third, third=1)
