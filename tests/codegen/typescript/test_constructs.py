"""The constructs of schema.ts: each is parsed, printed, resolved, generated, validated and compared.

All rows are declared in one schema, from which one package is generated. The valid and invalid values of a row are
checked by its model and by the JSON Schema of the package.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import TypeAdapter, ValidationError

from helpers import mini
from helpers.support import check_metaschema, complaints, parse, same, validator
from mcprev_codegen import ir
from mcprev_codegen.build import packages as pipeline
from mcprev_codegen.diff import compare_revisions, table
from mcprev_codegen.emit.provenance import GENERATOR_VERSION
from mcprev_codegen.errors import SchemaError
from mcprev_codegen.facts import load as sources, revision
from mcprev_codegen.inputs import SchemaFolder
from mcprev_codegen.typescript.printer import print_module


@dataclass(frozen=True)
class Construct:
    """One construct: the type to judge, its source, how that is printed, and an edit with what a diff says of it."""

    type: str
    source: str
    printed: str
    takes: tuple[Any, ...]
    refuses: tuple[Any, ...]
    edit: tuple[str, str]
    told: frozenset[str]


def row(
    type_: str, source: str, printed: str, takes: tuple[Any, ...], refuses: tuple[Any, ...], edit: tuple[str, str],
    *told: str,
) -> Construct:  # fmt: skip
    return Construct(type_, source, printed, takes, refuses, edit, frozenset(told))


BASES: Final = ("base-added", "base-removed")
"""What is said, of the generated code alone, where a type is made from another one than before."""


def rows(*changes: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return tuple(ROWS | change for change in changes)


EMPTY: Final[dict[str, Any]] = {}
NONE: Final[list[Any]] = []
ROWS: Final[dict[str, Any]] = {
    "head": ["a"], "some": [{"text": "a"}], "none": [], "both": [1, 2, True], "far": ["far"],
}  # fmt: skip
CONSTRUCTS: Final = {
    "readonly": row(
        "Frozen",
        "export interface Frozen { readonly a: string; b: readonly string[]; c?: ReadonlyArray<Readonly<Names>>;"
        " readonly [key: string]: unknown }\nexport type Names = 'x' | 'y';",
        'export interface Frozen { a: string; b: string[]; c?: Names[]; [key: string]: unknown; }'
        ' export type Names = "x" | "y";',
        ({"a": "1", "b": []}, {"a": "1", "b": ["2"], "c": ["x"], "d": None}),
        ({"a": "1"}, {"a": "1", "b": [2]}, {"a": "1", "b": [], "c": ["z"]}),
        ("readonly a: string", "a: string"),
    ),
    "Pick": row(
        "Picked",
        'export type Picked = Pick<Thing, "name" | "size">;',
        'export type Picked = Pick<Thing, "name" | "size">;',
        ({"name": "a"}, {"name": "a", "size": 1.5}),
        ({}, {"name": "a", "size": "1"}),
        (' | "size"', ""),
        "field-removed",
        *BASES,
    ),
    "Omit": row(
        "Omitting",
        'export interface Omitting { thing: Omit<Thing, "kind"> }',
        'export interface Omitting { thing: Omit<Thing, "kind">; }',
        ({"thing": {"name": "a"}}, {"thing": {"name": "a", "size": 1}}),
        ({}, {"thing": {}}, {"thing": {"size": 1}}),
        ('"kind"', '"kind" | "size"'),
        "field-removed",
        *BASES,
    ),
    "Partial": row(
        "Patch",
        "export interface Patch extends Partial<Thing> { extra?: Partial<{ a: string }> }",
        "export interface Patch extends Partial<Thing> { extra?: { a?: string; }; }",
        ({}, {"kind": "thing"}, {"extra": {}}, {"extra": {"a": "1"}}),
        ({"kind": "other"}, {"extra": {"a": 1}}),
        ("extends Partial<Thing>", "extends Thing"),
        "field-became-required",
        *BASES,
    ),
    "Required": row(
        "Entire",
        'export type Entire = Required<Pick<Thing, "size">>;',
        'export type Entire = Required<Pick<Thing, "size">>;',
        ({"size": 1},),
        ({}, {"size": "1"}),
        ('Required<Pick<Thing, "size">>', 'Pick<Thing, "size">'),
        "field-became-optional",
        *BASES,
    ),
    "a union of inline objects": row(
        "Event",
        'export type Event = { kind: "started"; at: number } | { kind: "stopped"; why?: string };',
        'export type Event = { kind: "started"; at: number; } | { kind: "stopped"; why?: string; };',
        ({"kind": "started", "at": 1}, {"kind": "stopped"}),
        ({"kind": "started"}, {"kind": "paused"}, "started"),
        ("why?: string", "why: string"),
        "field-became-required",
    ),
    "inline objects that no literal tells apart": row(
        "Log",
        "export interface Log { lines: ({ text: string } | { code: number })[]; only: { a: string } | null }",
        "export interface Log { lines: ({ text: string; } | { code: number; })[]; only: { a: string; } | null; }",
        ({"lines": [{"text": "a"}, {"code": 1}], "only": None}, {"lines": [], "only": {"a": "b"}}),
        ({"lines": [{"text": 1}], "only": None}, {"lines": [], "only": "a"}),
        ("code: number", "code?: number"),
        "field-became-optional",
    ),
    "an inline object beside a value": row(
        "Choice",
        "export type Choice = string | { a: string }[];",
        "export type Choice = string | { a: string; }[];",
        ("a", [], [{"a": "b"}]),
        (1, {"a": "b"}, [{"a": 1}]),
        ("a: string", "a?: string"),
        "field-became-optional",
    ),
    "a generic interface": row(
        "Book",
        "export interface Book { pages: Page<Leaf>; notes: Page<string[], number> }\n"
        "export interface Leaf { text: string }\n"
        "interface Page<T, C = string> { items: T[]; cursor?: C }",
        "export interface Book { pages: PageLeafString; notes: PageStringListNumber; }"
        " export interface Leaf { text: string; }"
        " export interface PageLeafString { items: Leaf[]; cursor?: string; }"
        " export interface PageStringListNumber { items: string[][]; cursor?: number; }",
        ({"pages": {"items": [{"text": "a"}], "cursor": "c"}, "notes": {"items": [["a"]], "cursor": 1}},),
        (
            {"pages": {"items": [EMPTY]}, "notes": {"items": NONE}},
            {"pages": {"items": []}, "notes": {"items": [], "cursor": "c"}},
        ),
        ("cursor?: C", "cursor: C"),
        "field-became-required",
    ),
    "a generic that holds itself": row(
        "Forest",
        "interface Tree<T> { value: T; left?: Tree<T> | string; children: Tree<T>[] }\n"
        "export interface Forest extends Tree<boolean> { trees: Perhaps<Tree<boolean>> }\n"
        "type Perhaps<T extends object> = T | null;",
        "export interface TreeBoolean { value: boolean; left?: TreeBoolean | string; children: TreeBoolean[]; }"
        " export interface Forest extends TreeBoolean { trees: PerhapsTreeBoolean; }"
        " export type PerhapsTreeBoolean = TreeBoolean | null;",
        (
            {"value": True, "children": NONE, "trees": None},
            {"value": True, "children": NONE, "trees": {"value": False, "left": "x", "children": [{"value": True, "children": NONE}]}},
        ),
        ({"value": True, "children": NONE, "trees": {"value": 1, "children": NONE}}, {"value": True, "children": [EMPTY], "trees": None}),
        ("value: T", "value?: T"),
        "field-became-optional",
    ),
    "a generic of a union": row(
        "Shelf",
        "export interface Shelf { held: Maybe<string | number> }\ntype Maybe<T> = T | null;",
        "export interface Shelf { held: MaybeStringOrNumber; } export type MaybeStringOrNumber = string | number | null;",
        ({"held": "a"}, {"held": 1.5}, {"held": None}),
        (EMPTY, {"held": True}),
        ("T | null", "T"),
        "nullable-removed",
    ),
    "an enum": row(
        "Painted",
        'export enum Colour { Red = "red", "dark green" = "green" }\nexport const enum Code { Low = 1, High, Odd = -5 }\n'
        "export interface Painted { colour: Colour; only: Colour.Red; code: Code }",
        'export type Colour = "red" | "green"; export type Code = 1 | 2 | -5;'
        ' export interface Painted { colour: Colour; only: "red"; code: Code; }',
        ({"colour": "green", "only": "red", "code": 2}, {"colour": "red", "only": "red", "code": -5}),
        (
            {"colour": "Red", "only": "red", "code": 1},
            {"colour": "red", "only": "green", "code": 1},
            {"colour": "red", "only": "red", "code": 3},
            {"colour": "red", "only": "red", "code": "1"},
        ),
        ("High,", "High, Higher = 7,"),
        "literal-added",
    ),
    "a record of the names of an enum": row(
        "Counts",
        'export enum Size { S = "s", L = "l" }\n'
        'export interface Counts { by: Record<Size, number>; some?: Partial<Record<"x" | "y", string>>; all: Record<string, boolean> }',
        'export type Size = "s" | "l"; export interface Counts { by: { s: number; l: number; };'
        " some?: { x?: string; y?: string; }; all: Record<string, boolean>; }",
        ({"by": {"s": 1, "l": 2}, "all": {}}, {"by": {"s": 1, "l": 2}, "some": {"y": "1"}, "all": {"z": True}}),
        ({"by": {"s": 1}, "all": {}}, {"by": {"s": 1, "l": 2}, "some": {"y": 1}, "all": {}}),
        ('L = "l"', 'L = "l", M = "m"'),
        "literal-added",
        "field-added-required",
    ),
    "a tuple": row(
        "Placed",
        "export interface Placed { at: [x: number, y: number]; named: readonly [string, { n: number }][]; one?: [string] | null }",
        "export interface Placed { at: [number, number]; named: [string, { n: number; }][]; one?: [string] | null; }",
        (
            {"at": [1, 2.5], "named": []},
            {"at": [0, 0], "named": [["a", {"n": 1}], ["b", {"n": 2}]], "one": ["a"]},
            {"at": [0, 0], "named": [], "one": None},
        ),
        (
            {"at": [1], "named": []},
            {"at": [1, 2, 3], "named": []},
            {"at": ["1", 2], "named": []},
            {"at": [1, 2], "named": [["a"]]},
            {"at": [1, 2], "named": [], "one": []},
        ),
        ("y: number]", "y: number, z: number]"),
        "type-changed",
    ),
    "a tuple with further items": row(
        "Rows",
        "export interface Rows { head: [name: string, ...sizes: number[]]; some: [Cell, ...Cell[]]; none: []; maybe?: [a?: string]"
        " | null; both: [...Pair, on: boolean]; far: [kind: 'far', n?: number, ...rest: ({ m: number } | Rows)[]] }\n"
        "export interface Cell { text: string }\ntype Pair = readonly [x: number, y: number];",
        'export interface Rows { head: [string, ...number[]]; some: [Cell, ...Cell[]]; none: []; maybe?: [] | [string] | null;'
        ' both: [number, number, boolean]; far: ["far"] | ["far", number, ...({ m: number; } | Rows)[]]; }'
        " export interface Cell { text: string; } export type Pair = [number, number];",
        rows(
                EMPTY, {"head": ["a", 1, 2.5]}, {"some": [{"text": "a"}, {"text": "b"}]}, {"maybe": []}, {"maybe": ["a"]},
                {"maybe": None}, {"far": ["far", 1]}, {"far": ["far", 1, {"m": 1}, {"m": 2}]},
        ),
        rows(
                {"head": []}, {"head": ["a", [1]]}, {"head": ["a", 1, "b"]}, {"some": []}, {"some": [{"text": "a"}, EMPTY]},
                {"none": [1]}, {"maybe": ["a", "b"]}, {"both": [[1, 2], True]}, {"both": [1, 2]}, {"far": ["far", 1, 2]},
        ),
        ("...sizes: number[]", "...sizes: (number | string)[]"),
        "type-widened",
    ),
    "a template literal": row(
        "Keyed",
        'export type Key = `acme.${string}`;\nexport interface Keyed { key: Key; width: `${number}px` | "auto"; on?: `is-${boolean}` }',
        'export type Key = `acme.${string}`; export interface Keyed { key: Key; width: `${number}px` | "auto"; on?: `is-${boolean}`; }',
        ({"key": "acme.", "width": "auto"}, {"key": "acme.a\nb", "width": "-1.5px", "on": "is-true"}),
        ({"key": "acme-a", "width": "auto"}, {"key": "acme.a", "width": "px"}, {"key": "acme.a", "width": "1px", "on": "is-1"}),
        ("Key = `acme.${string}`", "Key = string"),
        "type-widened",
    ),
    "helpers that are not exported": row(
        "Uses",
        'interface Helper { a: Word }\ntype Word = typeof WORD;\nconst WORD = "w";\nexport { Helper };\nexport interface Uses { helper: Helper }',
        'export interface Helper { a: Word; } export type Word = typeof WORD; export const WORD = "w";'
        " export interface Uses { helper: Helper; }",
        ({"helper": {"a": "w"}},),
        ({"helper": {"a": "v"}}, {"helper": {}}),
        ("export { Helper };", ""),
    ),
    "limits": row(
        "Limited",
        "export interface Limited {\n  /** @minLength 2\n   * @maxLength 4\n   * @pattern ^[a-z]+$ */\n  word?: string;\n"
        "  /** @minItems 1\n   * @maxItems 2\n   * @uniqueItems */\n  list?: string[];\n"
        "  /** @exclusiveMinimum 0\n   * @exclusiveMaximum 10\n   * @multipleOf 0.5 */\n  size?: number;\n"
        "  /** @minLength 2 */\n  either?: string | number;\n}",
        "export interface Limited { /** * @minLength 2 * @maxLength 4 * @pattern ^[a-z]+$ */ word?: string;"
        " /** * @minItems 1 * @maxItems 2 * @uniqueItems */ list?: string[];"
        " /** * @exclusiveMinimum 0 * @exclusiveMaximum 10 * @multipleOf 0.5 */ size?: number;"
        " /** @minLength 2 */ either?: string | number; }",
        ({}, {"word": "abc", "list": ["a"], "size": 1.5}, {"either": 1}),
        ({"word": "a"}, {"word": "abcde"}, {"word": "AB"}, {"list": []}, {"list": ["a", "b", "c"]}, {"size": 0}, {"size": 10}, {"size": 1.3}),
        ("@pattern ^[a-z]+$", "@pattern ^[A-Z]+$"),
        "constraint-tightened",
        "constraint-loosened",
    ),
}  # fmt: skip


def declared(construct: Construct, source: str | None = None) -> ir.Module:
    thing = "export interface Thing { kind: 'thing'; name: string; size?: number }\n"
    return parse(thing + (source or construct.source))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A package made of every construct."""
    folder = tmp_path_factory.mktemp("constructs")
    schema = mini.write_folder(folder, mini.SOURCE + "\n".join(c.source for c in CONSTRUCTS.values()))
    pipeline.generate(SchemaFolder(schema), folder / "constructs")
    sys.path.insert(0, str(folder))
    yield folder / "constructs" / "v2099_01_01"
    sys.path.remove(str(folder))


each = pytest.mark.parametrize("construct", CONSTRUCTS.values(), ids=CONSTRUCTS.keys())


@each
def test_it_is_printed_as_what_it_means_and_read_back(construct: Construct) -> None:
    module = ir.contract(declared(construct))
    text = print_module(ir.Module(module.decls[1:]))
    assert " ".join(text.split()) == construct.printed
    assert parse(print_module(module)) == module


@each
def test_its_model_and_its_json_schema_take_and_refuse_the_same_values(
    construct: Construct, package: Path
) -> None:
    document = json.loads((package / "schema.json").read_text(encoding="utf-8"))
    check_metaschema(document)
    judge = validator(document["$defs"], construct.type)
    models = import_module("constructs.v2099_01_01.models")
    adapter: TypeAdapter[Any] = TypeAdapter(getattr(models, construct.type))
    for value in construct.takes:
        assert complaints(judge, value) == []
        written = adapter.dump_python(adapter.validate_python(value), mode="json", exclude_unset=True)
        assert same(written, value)
    for value in construct.refuses:
        assert complaints(judge, value)
        with pytest.raises(ValidationError):
            adapter.validate_python(value)


OUTPUT: Final = (9, "4cfed3ae759644ca")
"""The generator's version, and what the files of all constructs are then."""


def test_another_output_for_the_same_schema_is_another_version_of_the_generator(package: Path) -> None:
    digest = hashlib.sha256()
    for path in sorted(package.parent.rglob("*.*")):
        if "__pycache__" not in path.parts:
            text = path.read_text(encoding="utf-8").replace(f'"generator": {GENERATOR_VERSION},', "")
            digest.update(f"{path.relative_to(package.parent).as_posix()}\n{text}".encode())
    found = digest.hexdigest()[:16]
    assert (GENERATOR_VERSION, found) == OUTPUT, "count GENERATOR_VERSION up and write down both here"


@each
def test_an_edit_of_it_is_told_and_told_back(construct: Construct, tmp_path: Path) -> None:
    schema = mini.write_folder(tmp_path)
    edited = construct.source.replace(*construct.edit)
    assert edited != construct.source
    sides: list[revision.Revision] = []
    for name, source in (("old", construct.source), ("new", edited)):
        path = tmp_path / f"{name}.ts"
        path.write_text(mini.SOURCE + source, encoding="utf-8")
        sides.append(sources.load_file(SchemaFolder(schema), path, name))
    old, new = sides
    told, back = (
        compare_revisions(SchemaFolder(schema), old, new).changes,
        compare_revisions(SchemaFolder(schema), new, old).changes,
    )
    assert {change.id for change in told} == construct.told
    mirrors = {
        f"{rule.id}:{case.name}": case.mirror
        for rule in table().rules.values()
        for case in rule.cases.values()
    }
    assert {mirrors[f"{change.id}:{change.case}"] for change in told} == {f"{c.id}:{c.case}" for c in back}
    assert not compare_revisions(SchemaFolder(schema), old, old).changes


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("export interface A { /** @pattern ( */ a: string }", 1, "the @pattern of member 'a' of 'A'"),
        ("export interface B { a: string }\nexport interface A { p: Pick<B, 'c'> }", 2, "there is no member 'c'"),
        ('export interface DoRequest { method: "do" }\nexport type ServerRequest = DoRequest;', 1, "declare DoResult"),
    ],
)  # fmt: skip
def test_what_python_or_the_schema_cannot_mean_is_refused_with_its_line(
    source: str, line: int, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "schema.ts"
    request = '\nexport type ClientRequest = RunRequest;\nexport interface RunRequest { method: "run" }\nexport interface RunResult {}'
    path.write_text(source + request, encoding="utf-8")
    with pytest.raises(SchemaError) as caught:
        pipeline.generate_project(
            SchemaFolder(mini.write_folder(tmp_path)), path, tmp_path / "out", "acme", overlay=False
        )
    assert (caught.value.line, words in caught.value.message) == (line, True), str(caught.value)
    assert not (tmp_path / "out").exists()
