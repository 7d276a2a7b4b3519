"""Types for other libraries than pydantic: `mcprev generate --target`.

Each target is generated for one pinned revision (for all with MCPREV_ALL_TARGETS=1) and for a schema of constructs; what
docs/types.md says of it holds.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import subprocess
import sys
import typing
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec
import pytest
from click.testing import CliRunner, Result

from helpers import mini
from helpers.corpus import Corpus
from helpers.support import DATED, PYTHON_NAMES, REVISIONS, ROOT, load, same
from mcprev.cli import main
from mcprev_codegen import ir
from mcprev_codegen.emit import TARGETS, RevisionChain
from mcprev_codegen.emit.package import public_names
from mcprev_codegen.emit.targets import expressions
from mcprev_codegen.emit.targets.table import LIBRARIES
from mcprev_codegen.emit.targets.types_only import LOST_BY_ALL
from mcprev_codegen.python import PythonNames, code, module_name
from mcprev_codegen.resolve import Schema, hoist
from mcprev_codegen.typescript import parse

NAMES: Final = tuple(library.name for library in LIBRARIES)
PAIRS: Final = (
    [(name, revision) for name in NAMES for revision in REVISIONS]
    if os.environ.get("MCPREV_ALL_TARGETS")
    else [*zip(NAMES, reversed(DATED), strict=False)]
)
each_pair: Final = pytest.mark.parametrize(("target", "revision"), PAIRS)
TRIES: Final = 3

pytestmark = pytest.mark.usefixtures("in_one_process")


def write(out: Path, files: typing.Mapping[str, str]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (out / name).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> typing.Iterator[Path]:
    """A folder on the path with a package for each target, `<target>_types`."""
    out = tmp_path_factory.mktemp("targets")
    for target, name in PAIRS:
        revision, row = load(name), TARGETS[target]
        write(out / f"{target}_types", row.shared([revision], (), revision, "types"))
        write(out / f"{target}_types", row.files(revision, RevisionChain([revision], None, ())))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(out), *sys.path])
        yield out


def module(target: str, revision: str) -> ModuleType:
    return import_module(f"{target}_types.{module_name(revision)}")


def interfaces(revision: str, found: ModuleType) -> typing.Iterator[tuple[str, Any]]:
    """The classes of a module, by the name of their type."""
    for name in load(revision).schema.types:
        one = getattr(found, PYTHON_NAMES.class_name(name))
        if (
            isinstance(one, type)
            and one.__module__ == found.__name__
            and one.__name__ == PYTHON_NAMES.class_name(name)
        ):
            yield name, one


# -- all targets -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_types_pass_the_strict_type_checkers(folder: Path, constructs: Path, tmp_path: Path) -> None:
    folders = [str(folder), *(str(constructs / f"odd-{target}") for target in NAMES)]
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "include": folders}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    commands = [
        ["mypy", "--strict", "--config-file=", "--cache-dir", str(tmp_path / "cache"), *folders],
        ["pyright", "-p", str(tmp_path), "--pythonpath", sys.executable],
    ]
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:]


@each_pair
def test_the_names_are_those_of_the_pydantic_package_and_resolve(
    folder: Path, target: str, revision: str
) -> None:
    found = module(target, revision)
    names = {*public_names(load(revision))[code(".models")]} - {"UnknownContent"}
    own = {n for n in vars(found) if not n.startswith("_")} - {
        "annotations",
        "TypeAlias",
        "Any",
        "Literal",
        "Union",
    }
    library = next(one for one in LIBRARIES if one.name == target)
    assert own - {"ClassVar", *library.imports} == names
    for _, one in interfaces(revision, found):
        typing.get_type_hints(one, include_extras=True)


@each_pair
def test_the_header_says_what_the_types_cannot_keep(folder: Path, target: str, revision: str) -> None:
    found = module(target, revision)
    library = next(one for one in LIBRARIES if one.name == target)
    assert found.__doc__ is not None
    assert " ".join((*library.lost, *LOST_BY_ALL)) in " ".join(found.__doc__.split())


def test_the_page_and_the_help_tell_of_every_target() -> None:
    page = " ".join((ROOT / "docs" / "types.md").read_text(encoding="utf-8").split())
    shown = " ".join(CliRunner().invoke(main, ["generate", "--help"]).output.split())
    for library in LIBRARIES:
        assert f"`{library.name}`" in page
        assert all(sentence in page for sentence in (*library.lost, *LOST_BY_ALL))
    assert all(name in shown for name in TARGETS)


# -- one target each -------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", [r for t, r in PAIRS if t == "msgspec"])
def test_msgspec_reads_and_writes_every_example(folder: Path, revision: str) -> None:
    found, corpus = module("msgspec", revision), Corpus(load(revision))
    tried = 0
    for name in load(revision).schema.types:
        decoder = msgspec.json.Decoder(getattr(found, PYTHON_NAMES.class_name(name)))
        for seed in range(TRIES):
            value = corpus.drawn(ir.Ref(name), random.Random(seed))  # noqa: S311
            read, refused = None, ""
            try:
                read = decoder.decode(json.dumps(value))
            except msgspec.ValidationError as error:
                refused = str(error)
            assert not refused or "got `float`" in refused, (name, value)
            assert refused or same(json.loads(msgspec.json.encode(read)), value), (name, value)
            tried += not refused
    assert tried > 2 * len(load(revision).schema.types)


@pytest.mark.parametrize("revision", [r for t, r in PAIRS if t == "dataclass"])
def test_dataclasses_hold_every_member(folder: Path, revision: str) -> None:
    schema, corpus = load(revision).schema, Corpus(load(revision))
    for name, one in interfaces(revision, module("dataclass", revision)):
        names = {f.metadata.get("name", f.name): f.name for f in dataclasses.fields(one)}
        assert [*names] == [f.name for f in schema.flat(name).fields]
        for full in (False, True):
            value: Any = corpus.sample(ir.Ref(name), full=full)
            built = one(**{names[wire]: item for wire, item in value.items() if wire in names})
            kept = {wire: getattr(built, names[wire]) for wire in names}
            assert {wire: item for wire, item in kept.items() if item is not None or wire in value} == value


@pytest.mark.parametrize("revision", [r for t, r in PAIRS if t == "typeddict"])
def test_typed_dicts_have_the_keys_of_json(folder: Path, revision: str) -> None:
    schema = load(revision).schema
    for name, one in interfaces(revision, module("typeddict", revision)):
        optional = {f.name: f.field.optional for f in schema.flat(name).fields}
        hints = typing.get_type_hints(one, include_extras=True)
        assert {key: typing.get_origin(hint) is typing.NotRequired for key, hint in hints.items()} == optional


# -- a schema of one's own -------------------------------------------------------------------------------

CONSTRUCTS: Final = """
/** Says `"what"`. */
export interface Odd {
  "class": string; "x-y"?: number; "$z/a": Tree | null; list?: string[]; more?: string[]; field: "f"; UNSET?: boolean;
  _meta?: Empty; Thing?: Thing; nothing?: Nothing; nullable?: string | null; yes: true; minus?: -3 | 4; pair?: [string, Thing];
}
export interface Empty { }
export type Nothing = null;
export type Anything = Record<string, unknown>;
export type Tree = string | Branch | Tree[];
export type Branch = { [key: string]: Tree };
export interface Cat { type: "cat"; lives: number }
export interface Dog { type: "dog" | "hound"; name: string }
export interface Cow { type: "cow"; name: string }
export type Pet = Cat | Cow;
export type Animal = Cat | Dog;
export interface Zoo { pet: Pet; animal?: Animal; some?: Array<Pet | Cow>; word: "a" | "b" | string; either: Cat | string[] | null }
"""


@pytest.fixture(scope="module")
def constructs(tmp_path_factory: pytest.TempPathFactory) -> typing.Iterator[Path]:
    """A folder on the path with a project for each target, made from a schema of constructs."""
    out = tmp_path_factory.mktemp("constructs")
    schema = mini.write_folder(out)
    path = mini.write_source(out, mini.SOURCE + CONSTRUCTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "msgspec", None)  # types for a library are made without it
        for target in NAMES:
            invoke(
                schema,
                "--schema",
                str(path),
                "--no-overlay",
                "--target",
                target,
                "--out",
                str(out / f"odd-{target}"),
            )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*(str(out / f"odd-{target}") for target in NAMES), *sys.path])
        yield out


def invoke(schema: Path, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(
        main, ["generate", *arguments], env={"MCPREV_SCHEMA": str(schema)}, catch_exceptions=False
    )
    assert result.exit_code == code, result.output
    return result


def odd(target: str) -> Any:
    return import_module(f"odd_{target}.v2099_01_01")


def test_a_project_depends_on_the_library_only(constructs: Path) -> None:
    wanted = {"dataclass": "[]", "typeddict": "[]", "msgspec": '["msgspec>=0.19"]'}
    for target, dependencies in wanted.items():
        text = (constructs / f"odd-{target}" / "pyproject.toml").read_text(encoding="utf-8")
        assert f"\ndependencies = {dependencies}\n" in text


def test_odd_names_in_dataclasses(constructs: Path) -> None:
    types = odd("dataclass")
    names = {f.name: f.metadata.get("name", f.name) for f in dataclasses.fields(types.Odd)}
    assert names == {
        "class_": "class", "x_y": "x-y", "z_a": "$z/a", "list_": "list", "more": "more", "field_": "field",
        "UNSET": "UNSET", "_meta": "_meta", "Thing_": "Thing", "nothing": "nothing",
        "nullable": "nullable", "yes": "yes", "minus": "minus", "pair": "pair",
    }  # fmt: skip
    made = types.Odd(class_="a", z_a=None)
    assert (made.field_, made.yes, made.nullable, made.x_y) == ("f", True, None, None)
    assert types.Cow(name="c").type == "cow"


def test_odd_names_in_typed_dicts(constructs: Path) -> None:
    hints = typing.get_type_hints(odd("typeddict").Odd, include_extras=True)
    assert [*hints][:5] == ["class", "x-y", "$z/a", "list", "more"]
    assert hints["x-y"] == typing.NotRequired[int | float]
    assert hints["list"] == hints["more"] == typing.NotRequired[list[str]]


def test_odd_names_absence_and_unions_in_structs(constructs: Path) -> None:
    types = odd("msgspec")
    sent = b'{"class":"a","$z/a":["x"],"list":["y"],"field":"f","Thing":{"kind":"thing","name":"n"},"nullable":null,"yes":true}'
    read = msgspec.json.decode(sent, type=types.Odd)
    assert msgspec.json.encode(read) == sent
    assert (read.class_, read.nullable, read.x_y, type(read.thing)) == ("a", None, msgspec.UNSET, types.Thing)
    zoo = b'{"pet":{"type":"cow","name":"c"},"animal":{"type":"hound","name":"h"},"word":"c","either":null}'
    read = msgspec.json.decode(zoo, type=types.Zoo)
    assert (type(read.pet), type(read.animal)) == (types.Cow, dict)
    assert msgspec.convert(read.animal, types.Dog).name == "h"
    assert msgspec.json.encode(read) == zoo
    assert types.Cow.type == "cow"
    assert types.Tree is Any
    assert types.Anything == dict[str, Any]
    with pytest.raises(msgspec.ValidationError, match="type"):
        msgspec.json.decode(zoo.replace(b"cow", b"new"), type=types.Zoo)


@pytest.mark.parametrize("target", NAMES)
def test_a_type_called_as_what_the_module_needs_gets_another_name(tmp_path: Path, target: str) -> None:
    library = next(one for one in LIBRARIES if one.name == target)
    name = next(name for name in [*library.imports, "TypeAlias"] if name[0].isupper() and not name.isupper())
    path = mini.write_source(tmp_path, f"{mini.SOURCE}export interface {name} {{ a: string }}\n")
    out = tmp_path / "out"
    invoke(
        mini.write_folder(tmp_path / "pins"), "--schema", str(path), "--no-overlay", "--target", target,
        "--out", str(out),
    )  # fmt: skip
    (module,) = (out / "out").glob("v*.py")
    assert f"class {name}_" in module.read_text()


@pytest.mark.parametrize("sign", ["\\", '"', "\n", "\0", "\x1f"])
def test_a_name_that_msgspec_does_not_support_is_refused_where_it_stands(tmp_path: Path, sign: str) -> None:
    path = mini.write_source(
        tmp_path, f"{mini.SOURCE}export interface New {{ {json.dumps(f'a{sign}b')}: string }}\n"
    )
    schema, out = mini.write_folder(tmp_path / "pins"), tmp_path / "out"
    arguments = ["--schema", str(path), "--no-overlay", "--out", str(out)]
    refused = invoke(schema, *arguments, "--target", "msgspec", code=3)
    assert refused.stderr.startswith(f"{path}:{mini.SOURCE.count(chr(10)) + 1}:")
    assert "pass another --target" in refused.stderr
    assert not out.exists()
    invoke(schema, *arguments, "--target", "dataclass")


# -- the folder ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_folder_belongs_to_one_target(tmp_path: Path) -> None:
    schema, out = mini.write_folder(tmp_path), tmp_path / "out"
    for target in TARGETS:
        mine = ["--target", target, "--out", str(out / target)]
        invoke(schema, *mine)
        before = mini.snapshot(out)
        assert "up to date" in invoke(schema, *mine, "--check").output
        for other in TARGETS.keys() - {target}:
            refused = invoke(schema, mini.REVISION, "--target", other, "--out", str(out / target), code=3)
            assert f"neither empty nor written by `mcprev generate` for the target {other}" in refused.stderr
        assert mini.snapshot(out) == before


@pytest.mark.parametrize("target", NAMES)
def test_a_module_that_is_edited_obsolete_or_not_ours(tmp_path: Path, target: str) -> None:
    schema, out = mini.write_folder(tmp_path), tmp_path / "out"
    arguments = ["--target", target, "--out", str(out)]
    invoke(schema, *arguments)
    old = out / "v2098_01_01.py"
    (out / "v2099_01_01.py").rename(old)
    (out / "mine.py").write_text("theirs", encoding="utf-8")
    assert "1 to be deleted" in invoke(schema, *arguments, "--check", code=1).output
    invoke(schema, mini.REVISION, *arguments)
    assert old.exists()
    assert "kept, because it is not generated" in invoke(schema, *arguments).output
    assert {p.name for p in out.iterdir()} == {"__init__.py", "py.typed", "v2099_01_01.py", "mine.py"}


@pytest.mark.parametrize("target", NAMES)
def test_the_packages_of_a_checkout_are_pydantic(tmp_path: Path, target: str) -> None:
    schema = mini.write_folder(tmp_path)
    place = tmp_path / "generated" / "mcprev_types"
    assert "requires --out" in invoke(schema, "--target", target, code=2).output
    assert "is for the packages" in invoke(schema, "--target", target, "--out", str(place), code=3).output
    assert not place.exists()
    assert invoke(schema, "--target", "pydantic").exit_code == 0
    assert place.is_dir()


def test_another_target_is_none(tmp_path: Path) -> None:
    shown = invoke(mini.write_folder(tmp_path), "--target", "attrs", "--out", "out", code=2).output
    assert f"'attrs' is not a target; use one of {', '.join(TARGETS)}" in shown


def test_a_folder_with_an_empty_marker_only_is_not_generated(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "py.typed").touch()
    (tmp_path / "out" / "mine.py").touch()
    for target in TARGETS:
        invoke(
            mini.write_folder(tmp_path / target), "--target", target, "--out", str(tmp_path / "out"), code=3
        )


# -- what datamodel-code-generator writes ----------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        "import os", "CANARY()", "T0: TypeAlias = CANARY()", "T0 = str", "T0: TypeAlias", "T0: Any = str", "T0: TypeAlias = os",
        "T0: TypeAlias = T9", "T0: TypeAlias = T-1", "T0: TypeAlias = T٠", "T0: TypeAlias = Literal['x']", "T0: TypeAlias = Literal['text9']",
        "T0: TypeAlias = Literal[CANARY]", "T0: TypeAlias = Literal[-text0]", "T0: TypeAlias = list[CANARY()]", "T0: TypeAlias = set[str]",
        "T0: TypeAlias = 'CANARY()'", "T0: TypeAlias = str if 1 else 2", "T0: TypeAlias = str & int", "T0: TypeAlias = 1",
        "class T0:\n    CANARY()", "class T0:\n    m0: str = CANARY()", "class T0:\n    m9: str", "class T0:\n    m: str", "class T0:\n    def m0(self): ...",
        "class T9:\n    pass", "class Other:\n    pass", "",
    ],
)  # fmt: skip
def test_anything_else_than_types_of_placeholders_is_an_error(
    monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    def generated(document: object, model: str) -> str:
        return written

    def expressed() -> None:
        decl = ir.Interface("A", fields=(ir.Field("a", ir.Lit("b")),))
        found = expressions.declared(Schema(ir.Module((decl,))), "", PythonNames())
        for node in (*found.aliases.values(), *(n for c in found.classes.values() for n in c.values())):
            found.expression(node)

    monkeypatch.setattr(expressions, "_generated", generated)
    with pytest.raises(expressions.UnexpectedCodeError):
        expressed()


def test_no_text_of_a_schema_reaches_datamodel_code_generator() -> None:
    hostile = "CANARY"
    source = f"""
    /** {hostile}. @category {hostile} */
    export interface {hostile} {{
      /** {hostile}. @format {hostile} @pattern {hostile} @default "{hostile}" */
      {hostile}: "{hostile}" | "{hostile}2"; // {hostile}
      /** @TJS-type {hostile} */
      b: string; c: typeof {hostile}_C; d: "{hostile}" | number; e?: {hostile}; f: {hostile} | "{hostile}"; g: {hostile}[];
      h: `{hostile}${{string}}`; i: {{ {hostile}?: string }}; j: {{ [{hostile}: string]: "{hostile}" }}; k: Record<string, {hostile}>;
      l: ["{hostile}", {hostile}]; m: Partial<{hostile}>;
    }}
    export interface B extends {hostile} {{ [{hostile}: string]: unknown }}
    /** {hostile}. @TJS-type {hostile} */
    export type A{hostile} = {hostile} | "{hostile}";
    export const {hostile}_C = "{hostile}";
    """
    schema = hoist(Schema(parse(source, hostile)))
    placeholders = expressions.Placeholders(schema, [*schema.types])
    assert hostile not in json.dumps(placeholders.document())
    assert hostile in placeholders.types
    assert hostile in placeholders.members
    assert hostile in placeholders.texts
