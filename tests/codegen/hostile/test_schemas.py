"""No text of a schema becomes code: hostile strings in every place that holds text, in schemas, overlays, descriptions
and paths.

Each string is put into all places at once, and the package is compared with that of a harmless text: each Python file
has the same syntax tree but for names and the values of literals, each JSON and TOML file the same structure. The
packages are imported, and their models built, in a process that reports what is called or changed.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, cast, get_args, get_origin, get_type_hints

import pytest

import mcprev_codegen
from fuzz.fuzzing import sampled_of
from helpers import mini
from helpers.hostile import CALL, HOSTILE, MIXED
from mcprev_codegen.build import packages as pipeline
from mcprev_codegen.checkout import step_modules as steps
from mcprev_codegen.checkout.pinning import import_schema
from mcprev_codegen.emit import rendering
from mcprev_codegen.emit.targets import types_only
from mcprev_codegen.emit.targets.table import LIBRARIES
from mcprev_codegen.errors import CodegenError, InputError, SchemaError
from mcprev_codegen.facts import load as sources
from mcprev_codegen.facts.overlay_file import FACETS, load_overlay
from mcprev_codegen.inputs import (
    EXTENSIONS,
    EXTENSIONS_FILE,
    Pin,
    SchemaFolder,
    extension_folder,
    folder as folders,
    load_extensions,
)
from mcprev_codegen.inputs.folder import PINS
from mcprev_codegen.inputs.names_file import NAMES_FILE
from mcprev_codegen.inputs.tables import read_table
from mcprev_codegen.ir import nodes
from mcprev_codegen.typescript import parse

pytestmark = pytest.mark.usefixtures("in_one_process")

LARGE: Final = 1_000_000


def quoted(text: str) -> str:
    """A string literal of TypeScript."""
    return json.dumps(text)


def remark(text: str) -> str:
    """A text within a block comment, of which only the end cannot be part, and tags begin a line."""
    return text.replace("*/", "* /").replace("\n", "\n * ").replace("\0", "")


def line(text: str) -> str:
    return re.sub(r"[\n\r\u2028\u2029]", " ", remark(text))


def template(text: str) -> str:
    return re.sub(r"[`\\$\0]", "", text)  # which the parser refuses


def pattern(text: str) -> str:
    return re.sub(r"[!-/:-@\[-`{-~]", lambda m: m[0] if m[0] in "<>" else f"\\{m[0]}", line(text))


def signs(text: str) -> str:
    """What of a text a category may have: its other letters are those of the name of a module."""
    return re.sub(r"[A-Za-z0-9]", "", line(text))


def block(n: int, text: str, member: str) -> str:
    """Declarations that hold a text in every place, and another one in the names of members."""
    r, s, own = remark(text), quoted(text), quoted(f"{text}{n}")
    name: Callable[[str], str] = lambda place: quoted(f"{place}{member}/x")  # noqa: E731
    return f"""
/* {line(text)} */

/**
 * {r}
 *
 * @category Things {signs(text)}
 * @since {line(text)}
 * @deprecated {r}
 * @see {r}
 * @unheard {r}
 */
export interface Thing{n} {{
  /**
   * {r}
   * @default d{line(text)}
   * @format f{line(text)}
   * @pattern ^{pattern(text)}$
   */
  {name("m")}?: string; // {line(text)}
  /** @TJS-type t{line(text)} */
  typed?: string;
  /** @default {quoted(remark(text))} */
  other?: string;
  kind: {own};
  either?: {s} | {own} | number | null;
  {quoted(f"o/{member} z")}?: {{ a: {s}; {name("i")}: number }};
  /** @maxItems 3 */
  {name("l")}?: ({own} | boolean)[];
  open: OpenA{n} | OpenB{n};
  template: `T{template(text)}${{string}}`;
  pair: [{s}, "b"];
  wide: string | Enum{n};
}}
/** {r} */
export const CONSTANT{n} = {s};
export enum Enum{n} {{ {own} = {s}, Other = "other {n}" }} // {line(text)}
export interface OpenA{n} {{ type: {own}; value: typeof CONSTANT{n} }}
export interface OpenB{n} {{ type: "b {n}"; value: Record<{name("r")} | "key", string> }}
/*
 * {r}
 */
export interface Noted{n} {{ open?: Open{n} }}
export type Open{n} =
  | OpenA{n} // {line(text)}
  | OpenB{n};
export type Closed{n}Union = {{ {name("k")}: {s}; only: Pick<Thing{n}, {name("m")}> }} | {{ {name("k")}: {quoted(f"{text}b")} }};
/** {r} */
export type Tree{n} = {s} | Tree{n}[];
/** {r} */
export interface Run{n}Request {{
  method: {quoted(f"run{text}/{n}")};
  params: {{ {name("p")}: {s}; things: Thing{n}[]; open?: Open{n}; closed?: Closed{n}Union }};
}}
export interface Run{n}Result {{ value: {s}; tree?: Tree{n}; maps?: {{ [key: string]: Thing{n} }} }}
export interface Told{n}Notification {{ method: {quoted(f"told{text}/{n}")}; params?: {{ {name("p")}: {s} }} }}
"""


def capability(n: int, member: str) -> str:
    return f"c{n}{member}/x"


def schema(
    texts: Sequence[str], revision: str = mini.REVISION, more: str = "", members: Sequence[str] | None = None
) -> str:
    """A schema.ts that holds each of the texts in every place; or others in the names of members."""
    numbers = range(len(texts))
    requests, results, notifications = (
        " | ".join(f"{part}{n}{kind}" for n in numbers)
        for part, kind in (("Run", "Request"), ("Run", "Result"), ("Told", "Notification"))
    )
    return f"""
export const LATEST_PROTOCOL_VERSION = "{revision}";
export type ClientRequest = {requests};
export type ServerResult = {results} | EmptyResult;
export type ServerNotification = {notifications};
export interface EmptyResult {{ [key: string]: unknown }}
export interface ServerCapabilities {{ {" ".join(f"{quoted(capability(n, (members or texts)[n]))}?: {{}};" for n in numbers)} }}
""" + "".join(block(n, text, (members or texts)[n]) for n, text in enumerate(texts)) + more  # fmt: skip


def harmless(texts: Sequence[str]) -> list[str]:
    return [f"harmless text {chr(97 + n)}" for n in range(len(texts))]


# -- what is generated -----------------------------------------------------------------------------------

Files: TypeAlias = "dict[str, str]"
LATER: Final = "2099-01-02"
EXTENSION: Final = "shelves"
GIVEN: Final = """
[types]
{text} = "Other"
[members]
{given} = "given"
"""
PINNED: Final = ("location", "commit", "sha256", "spec")
"""What a pin says, but for the digest of the contract beside it."""
OVERLAY: Final = """
[[entry]]
pointer = "Thing0.other"
expected = "other?: string;"
new = {fragment}
why = {text}

[[entry]]
pointers = [{member_pointer}]
expected = {member}
new = {member}
why = "a pointer"

[[entry]]
pointer = "Run0Result.value#default"
expected = {value}
new = {text}
why = "a default"

[[entry]]
pointer = "Closed0Union#closed"
expected = {tag}
new = {tag}
why = "a union"

[[entry]]
pointer = "Thing0#was"
expected = "interface"
new = {text}
why = "a type"

[[entry]]
pointer = {capability_pointer}
expected = ""
new = {capability}
why = "a capability"

[[entry]]
pointer = {name_pointer}
expected = ""
new = {parameter}
why = "a parameter"
"""
DESCRIPTIONS: Final = """
[types.Thing0]
doc = {text}
[types.Thing0.fields]
kind = {text}
[constants]
CONSTANT0 = {text}
{text} = {text}
[fields]
other = {text}
{text} = {text}
[revisions."2099-01-02".types.OpenA0]
doc = {text}
[revisions."2099-01-02".types.OpenA0.fields]
value = {text}
{text} = {text}
[types.{text}.fields]
{text} = {text}
[revisions.{text}.types.{text}]
doc = {text}
"""


def project(out: Path, text: str, folder: str = "upstream", target: str = "pydantic") -> Path:
    """The package of a schema.ts that is not pinned."""
    inputs = out.with_name(f"{out.name}_inputs")
    pins = mini.write_folder(inputs)
    path = inputs / folder / "schema.ts"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    pipeline.generate_project(SchemaFolder(pins), path, out, "acme", overlay=False, target=target)
    return out


def free(out: Path, texts: Sequence[str]) -> Path:
    return project(out, schema(texts))


def pinned(out: Path, texts: Sequence[str]) -> Path:
    """The packages of two pinned revisions, with overlay, descriptions, and what is asked in the step between them."""
    inputs = pins(out, texts)
    pipeline.generate(SchemaFolder(inputs), out / out.name)
    older, newer = (sources.load_revision(SchemaFolder(inputs), name) for name in (mini.REVISION, LATER))
    (out / "step.py").write_text(steps.skeleton(older, newer), encoding="utf-8", newline="\n")
    return out


def pins(out: Path, texts: Sequence[str], members: Sequence[str] | None = None) -> Path:
    """A schema folder whose files hold texts in every place."""
    member = (members or texts)[0]
    folder = out.with_name(f"{out.name}_inputs")
    old = [f"older text {chr(97 + n)}" for n in range(len(texts))]
    inputs = mini.write_folder(folder, schema(old))
    source = schema(texts, LATER, members=members)
    import_schema(SchemaFolder(inputs), str(mini.write_source(folder, source)), LATER, commit=mini.COMMIT)
    values = {
        "text": toml(texts[0]),
        "value": toml(json.dumps(texts[0], ensure_ascii=False)),
        "fragment": toml(f"other?: {quoted(texts[0])};"),
        "member": toml(f"{quoted(f'm{member}/x')}?: string;"),
        "member_pointer": toml(f"Thing0.m{member}/x"),
        "given": toml(f"m{member}/x"),
        "tag": toml(f"k{member}/x"),
        "capability": toml(capability(0, member)),
        "capability_pointer": toml(f"run{texts[0]}/0#capability"),
        "parameter": toml(f"p{member}/x"),
        "name_pointer": toml(f"run{texts[0]}/0#name_param"),
    }
    overlay = OVERLAY.replace("[[entry]]\n", f'[[entry]]\nsince = "{LATER}"\n')
    (inputs / "overlay.toml").write_text(overlay.format(**values), encoding="utf-8")
    (inputs / "descriptions.toml").write_text(DESCRIPTIONS.format(**values), encoding="utf-8")
    (inputs / NAMES_FILE).write_text(GIVEN.format(**values), encoding="utf-8")
    extension(inputs, texts[0])
    for file in (inputs / PINS, inputs / EXTENSIONS / EXTENSION / PINS):
        found = file.read_text(encoding="utf-8")
        changed = re.sub(
            rf"^({'|'.join(PINNED)}) = .*$", lambda m: f"{m[1]} = {toml(texts[0])}", found, flags=re.MULTILINE
        )
        file.write_text(changed, encoding="utf-8")
    return inputs


def extension(inputs: Path, text: str) -> None:
    """Add an extension with a text in its row of the table, and one version of it."""
    row = f"[{EXTENSION}]\nid = {toml(text)}\ntitle = {toml(text)}\n"
    (inputs / EXTENSIONS_FILE).write_text(row, encoding="utf-8")
    source = mini.write_source(
        inputs.with_name(f"{inputs.name}_{EXTENSION}"), "export interface Shelf { name: string }\n"
    )
    import_schema(
        extension_folder(SchemaFolder(inputs), EXTENSION), str(source), "1", commit=mini.COMMIT,
        location="https://example.com/1.ts", base=mini.REVISION, spec="https://example.com/1",
    )  # fmt: skip


def toml(text: str) -> str:
    return '"' + "".join(f"\\U{ord(c):08x}" for c in text) + '"'


def files(out: Path) -> Files:
    """The files of an output folder, with the same name for the package in it."""
    found = [p for p in out.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    return {
        str(p.relative_to(out)).replace(out.name, "package"): p.read_bytes().decode("utf-8") for p in found
    }


# -- the shape of a file ---------------------------------------------------------------------------------


def words(text: str) -> set[str]:
    """The names in a syntax tree."""
    values = (value for node in ast.walk(ast.parse(text)) for _, value in ast.iter_fields(node))
    return {
        item
        for value in values
        for item in (cast("list[object]", value) if isinstance(value, list) else [value])
        if isinstance(item, str)
    }


def shape(node: Any, known: set[str]) -> Any:
    """A syntax tree without the values of literals, and without the names that come from the text."""
    if isinstance(node, ast.Constant):
        return type(node.value).__name__
    if isinstance(node, ast.AST):
        return (type(node).__name__, *(shape(value, known) for _, value in ast.iter_fields(node)))
    if isinstance(node, list):
        found = [shape(item, known) for item in cast("list[object]", node)]
        return tuple(sorted(found, key=repr) if node and isinstance(node[0], ast.alias) else found)
    if isinstance(node, str):
        return node if node in known else "?"
    return repr(node)


def structure(value: Any) -> Any:
    """A document without its texts."""
    if isinstance(value, dict):
        return sorted(repr(structure(item)) for item in cast("dict[str, object]", value).values())
    if isinstance(value, list):
        return [structure(item) for item in cast("list[object]", value)]
    return type(value).__name__


def declared(out: Path, part: str) -> set[str]:
    """The classes, attributes and constants in a module, or in the modules of a folder."""
    found: set[str] = set()
    for path in out.rglob("*.py"):
        if part in (path.stem, path.parent.name):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    found.add(node.name)
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    found.add(node.target.id)
    return found


def compare(hostile: Files, plain: Files) -> None:
    assert hostile.keys() == plain.keys()
    for name, text in hostile.items():
        strange = {c for c in text if not c.isprintable() and c != "\n"}
        assert not strange, (name, strange)
        if name.endswith(".py"):
            known = {word for word in words(plain[name]) if "harmless" not in word.lower()}
            found, expected = (shape(ast.parse(t), known) for t in (text, plain[name]))
            assert found == expected, name
        elif name.endswith((".json", ".toml")):
            read: Callable[[str], Any] = json.loads if name.endswith(".json") else tomllib.loads
            data, other = read(text), read(plain[name])
            # Only names that differ in Python are there.
            assert all(map(str.isidentifier, data.pop("classes", {}).values()))
            other.pop("classes", None)
            assert structure(data) == structure(other), name


IMPORTING: Final = """
import builtins, importlib, pkgutil, sys, typing
import msgspec, pydantic
reported = []
builtins.CANARY = lambda *_: reported.append("the canary was called")
HARMLESS = ("import", "compile", "exec", "marshal.", "object.", "os.listdir", "os.scandir", "sys._getframe", "code.", "builtins.id", "types.")
watching = False
def watch(event, args):
    if not watching or event.startswith(HARMLESS):
        return
    if event == "open" and args[1] in ("r", "rb", None) and not args[2] & 3:
        return
    reported.append(f"{event} {args!r}"[:300])
sys.addaudithook(watch)
sys.dont_write_bytecode = True
loaded = {}
for path, package in zip(sys.argv[1::2], sys.argv[2::2]):
    sys.path.insert(0, path)
    before = set(sys.modules)
    watching = True
    names = [package, *(m.name for m in pkgutil.walk_packages([f"{path}/{package}"], f"{package}."))]
    for name in names:
        module = importlib.import_module(name)
        for exported in getattr(module, "__all__", ()):
            getattr(module, exported)
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == name and issubclass(value, pydantic.BaseModel):
                value.model_rebuild()
                repr(value.model_fields)
            elif isinstance(value, type) and value.__module__ == name and not any(".models" in n for n in names):
                typing.get_type_hints(value, include_extras=True)
                if issubclass(value, msgspec.Struct):
                    msgspec.json.Decoder(value)
    watching = False
    loaded[package] = sorted(m.partition(".")[0] for m in set(sys.modules) - before if m.partition(".")[0] != package)
print(*reported, sep="\\n")
known = {"annotated_types", "msgspec", "pydantic", "pydantic_core", "typing_extensions", "typing_inspection", *sys.stdlib_module_names}
print({m for found in loaded.values() for m in found if not m.startswith("_sysconfigdata")} - known)
"""


def report(*packages: Path) -> str:
    """What a process that imports packages has to say about calls that none of them should make."""
    pairs = [part for path in packages for part in (str(path.parent), path.name)]
    done = subprocess.run(
        [sys.executable, "-c", IMPORTING, *pairs],
        cwd=packages[0].parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


NOTHING: Final = "\nset()\n"


@pytest.mark.slow
def test_a_text_of_a_schema_is_text_in_every_generated_file_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = pinned(tmp_path / "hostile", MIXED)
    monkeypatch.setattr(
        rendering, "format_python", str
    )  # the tests of the writers have it format all strings
    made = [(mixed, pinned(tmp_path / "harmless", harmless(MIXED)))]
    plain = free(tmp_path / "plain", harmless(HOSTILE[0]))
    made += [(free(tmp_path / f"hostile_{n}", texts), plain) for n, texts in enumerate(HOSTILE)]
    for hostile, other in made:
        compare(files(hostile), files(other))
    assert report(*(hostile / hostile.name for hostile, _ in made)) == NOTHING


TABLE: Final = {library.name: library for library in LIBRARIES}


@pytest.mark.slow
def test_nor_does_it_in_the_types_for_another_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The libraries together have all schemas; in `make fuzz`, each has all."""
    monkeypatch.setattr(types_only, "format_python", str)
    made: list[Path] = []
    tried: set[int] = set()
    for place, target in enumerate(TABLE):
        plain = project(tmp_path / f"{target}_plain", schema(harmless(HOSTILE[0])), target=target)
        numbers = range(len(HOSTILE))
        for n in sampled_of(numbers, numbers[place :: len(TABLE)]):
            tried.add(n)
            texts = HOSTILE[n]
            allowed = [re.sub(TABLE[target].unsupported or "$^", "", text) or "a" for text in texts]
            source = schema(texts, members=allowed)
            hostile = project(tmp_path / f"{target}_hostile_{n}", source, target=target)
            compare(files(hostile), files(plain))
            made.append(hostile / hostile.name)
        names = [re.sub(TABLE[target].unsupported or "$^", "", text) or "a" for text in MIXED]
        both = tmp_path / f"{target}_pinned", tmp_path / f"{target}_pinned_plain"
        for out, texts, members in ((both[0], MIXED, names), (both[1], harmless(MIXED), None)):
            pipeline.generate(SchemaFolder(pins(out, texts, members)), out / out.name, target=target)
        compare(*map(files, both))
        made.append(both[0] / both[0].name)
    assert report(*made) == NOTHING
    assert len(tried) == len(HOSTILE)


# -- every place -------------------------------------------------------------------------------------------

MARK: Final = "«»"
NO_TEXT: Final = {
    "Alias.name": "type", "Alias.parameters": "type", "Interface.name": "type", "Interface.parameters": "type", "Ref.name": "type", "Const.name": "constant", "ConstRef.name": "constant",
}  # fmt: skip
"""Where a name must be: the kind of `CHOSEN` that shows what becomes of any other text."""
WORDS: Final = {
    "Prim.name": "one of the keywords", "Derived.kind": "one of the generic types of TypeScript",
    "IndexSig.key": "a name of TypeScript that is used nowhere", "Module.warnings": "printed; see test_text.py",
    "Module.texts": "the lines of other files, which errors quote", "Span.path": "one of these files, named in errors",
    "overlay.toml:entry.since": "the name of a revision", "overlay.toml:entry.until": "the name of a revision",
    "names.toml:types.KEY": "a name in Python",
    "names.toml:members.KEY": "a name in Python",
    "revisions.toml:KEY.contract": "a digest that is compared",
    "revisions.toml:KEY.base": "the name of a revision",
    "revisions.toml:KEY.origin": "compared with one word",
    "extensions.toml:KEYS": "the name of a package",
    "extensions.toml:KEY.name": "the key, whatever the file says",
    "extensions.toml:KEY.numbers": "compared with one word",
    "#alternate": "the name of a type",
    "#sender": "one of two words",
}  # fmt: skip
"""Where no text of a schema gets to, and why."""


def has_text(hint: Any) -> bool:
    """Whether a value of a type may be a text, or a union or tuple with texts."""
    return hint is str or any(map(has_text, () if get_origin(hint) is Callable else get_args(hint)))


def declared_places(hint: Any, at: str) -> Iterator[str]:
    """The places of texts in a TOML file of a kind."""
    if dataclasses.is_dataclass(hint):
        for name, inner in get_type_hints(hint).items():
            yield from declared_places(inner, f"{at}.{name}" if at[-1] != ":" else f"{at}{name}")
    elif get_origin(hint) in (dict, Mapping):
        within = at if at[-1] == ":" else f"{at}."
        yield f"{within}KEYS"
        yield from declared_places(get_args(hint)[1], f"{within}KEY")
    elif get_args(hint):  # a tuple of any length, or a key that may be missing
        yield from declared_places(get_args(hint)[0], at)
    else:
        yield at


def marked_places(value: Any, at: str) -> Iterator[str]:
    """The places of the marked text in a value that has been read, called as `declared_places` calls them."""
    if isinstance(value, str):
        yield from [at] if MARK in value else []
    elif dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            of_file = f"{at}.{each.name}" if at[-1:] != ":" else f"{at}{each.name}"
            place = of_file if ".toml:" in at else f"{type(value).__name__}.{each.name}"
            yield from marked_places(getattr(value, each.name), place)
    elif isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            yield from marked_places(key, f"{at}.KEYS")
            for name in (key, "KEY"):
                yield from marked_places(item, f"{at}.{name}" if at[-1:] != ":" else f"{at}{name}")
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[object]", value):
            yield from marked_places(item, at)


def tables() -> Iterator[str]:
    """The names of all files of a schema folder that some module reads."""
    room = Path(mcprev_codegen.__file__).parent
    for path in room.rglob("*.py"):
        for found in re.finditer(r"folder\.table\((\w+),", path.read_text(encoding="utf-8")):
            module = ".".join(("mcprev_codegen", *path.relative_to(room).with_suffix("").parts))
            yield getattr(importlib.import_module(module), found[1])


def test_the_hostile_texts_are_in_every_place_that_holds_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new member of the IR, key of a file or facet of the overlay fails here until the texts are put there."""
    kinds: list[tuple[str, Any]] = []
    found: set[str] = set()

    def reading(path: Path, kind: Any, *more: Any) -> Any:
        table = read_table(path, kind, *more)
        kinds.append((path.name, kind))
        found.update(marked_places(table.values, f"{path.name}:"))
        return table

    monkeypatch.setattr(folders, "read_table", reading)
    inputs = pins(tmp_path / "marked", [MARK])
    sources.load_pinned(SchemaFolder(inputs))
    load_extensions(SchemaFolder(inputs))
    found.update(marked_places(parse(schema([MARK]), "schema.ts"), ""))
    found.update(
        f"#{pointer.partition('#')[2]}"
        for each in load_overlay(SchemaFolder(inputs))
        for pointer in each.pointers
        if "#" in pointer and MARK in json.dumps(each.new, ensure_ascii=False)
    )
    expected = {
        f"{kind.__name__}.{name}"
        for kind in vars(nodes).values()
        if isinstance(kind, type) and dataclasses.is_dataclass(kind)
        for name, hint in get_type_hints(kind).items()
        if has_text(hint)
    }
    expected |= {f"#{facet}" for facet in FACETS}
    expected |= {f"{PINS}:KEY.{name}" for name in Pin.__dataclass_fields__ if name != "revision"}
    expected |= {place for name, kind in kinds if name != PINS for place in declared_places(kind, f"{name}:")}
    assert {name for name, _ in kinds} == set(tables())
    assert expected - found == NO_TEXT.keys() | WORDS.keys()
    assert set(NO_TEXT.values()) <= CHOSEN.keys()


@pytest.mark.parametrize(
    "line",
    ["CANARY()", "import os; os.system('true')", "open('made', 'w')", "import socket; socket.socket()", "import os; os.mkdir('made')"],
)  # fmt: skip
def test_the_process_reports_what_a_package_does(tmp_path: Path, line: str) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text(line, encoding="utf-8")
    assert report(tmp_path / "package") != NOTHING


@pytest.mark.slow
def test_a_folder_can_be_called_anything(tmp_path: Path) -> None:
    source = schema(harmless(["1"]))
    found = [
        project(tmp_path / name, source, folder)
        for name, folder in (("plain", "harmless"), ("hostile", f'a"\n{CALL}\n\x1b[2J\u2028\'"""'))
    ]
    compare(files(found[1]), files(found[0]))


@pytest.mark.parametrize(
    "name", ["pydantic", "typing", "typing-extensions", "enum", "\ufb01", "é", "class", "a b"]
)
def test_a_package_hides_none_that_it_imports_and_has_the_name_that_is_imported(
    tmp_path: Path, name: str
) -> None:
    pins, path = mini.write_folder(tmp_path), mini.write_source(tmp_path)
    with pytest.raises(InputError, match="the package is named after this folder"):
        pipeline.generate_project(SchemaFolder(pins), path, tmp_path / name, overlay=False)
    assert not (tmp_path / name).exists()


@pytest.mark.slow
def test_a_large_text_is_a_text(tmp_path: Path) -> None:
    """A comment may be as large as a schema; the length of a literal has a bound."""
    large = f'/** {"x" * (LARGE // 2)} {CALL}"""{"{@link " * (LARGE // 14)} */\nexport type Large = {{text}};'
    texts = ["harmless", '"' * 500 + "x" * 500]
    plain, hostile = (
        project(tmp_path / f"large_{n}", mini.SOURCE + large.replace("{text}", quoted(text)))
        for n, text in enumerate(texts)
    )
    compare(files(hostile), files(plain))


# -- what is refused -------------------------------------------------------------------------------------

NAMES: Final = (
    "", " ", "..", "../../evil", "/etc", "a/b", "a\\b", "a b", "a\n", "\n", "a\0b", "-a", "a-", "a--b", ".a", "é", "a" * 61, '"', "'",
    f"x;{CALL}", "C:", "~", "\u2028", "__init__", "_a", "$a", "{a}", "a..b", "a.", "con", "NUL", "aux.1", "Com1",
)  # fmt: skip
OUT: Final = "out"


def entries(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*")}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_a_revision_that_is_none_is_refused_where_it_stands(tmp_path: Path, name: str) -> None:
    pins = mini.write_folder(tmp_path)
    path = mini.write_source(tmp_path, mini.SOURCE.replace(f'"{mini.REVISION}"', quoted(name)))
    before = entries(tmp_path)
    with pytest.raises(SchemaError, match="is not a valid name of a revision") as caught:
        pipeline.generate_project(SchemaFolder(pins), path, tmp_path / OUT, overlay=False)
    assert (caught.value.path, caught.value.line) == (str(path), 6)
    with pytest.raises(InputError, match="is not a valid name of a revision"):
        pipeline.generate_project(SchemaFolder(pins), path, tmp_path / OUT, name or "/", overlay=False)
    pinned_names = (pins / "revisions.toml").read_text(encoding="utf-8")
    (pins / "revisions.toml").write_text(
        pinned_names.replace(f'"{mini.REVISION}"]', f"{toml(name)}]"), encoding="utf-8"
    )
    with pytest.raises(SchemaError, match="is not a valid name of a revision") as caught:
        pipeline.generate(SchemaFolder(pins), tmp_path / OUT)
    assert caught.value.path == str(pins / "revisions.toml")
    assert entries(tmp_path) == before


@pytest.mark.parametrize(
    "name", ["index", "latest", "str", "list", "wire", "class", "None", "Model", "lazy", "type"]
)
def test_a_revision_whose_package_would_hide_a_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot be the name of a revision"):
        pipeline.generate_project(
            SchemaFolder(mini.write_folder(tmp_path)),
            mini.write_source(tmp_path),
            tmp_path / OUT,
            name,
            overlay=False,
        )
    assert not (tmp_path / OUT).exists()


REFUSED: Final = {
    "stub": ['export interface Request { method: "a" } export type ServerRequest = Request; export interface Result {}'],
    "category": [
        f"/** @category {text} */\nexport interface New {{ a: string }}" for text in ("日本", "1 a", "import", "/", "a" * 61, '"""', "Con", "LPT9")
    ],
    "tag": [
        f"export interface New {{\n/** @{tag} {text} */\na: number }}"
        for tag in ("minimum", "maximum", "multipleOf", "exclusiveMinimum", "minLength", "maxLength", "minItems", "maxItems")
        for text in (CALL, "1e999", "nan", "-inf", "9" * 5000, '"', "1)")
    ] + [f"export interface New {{ /** @uniqueItems {CALL} */ a: string[] }}", "export interface New { /** @pattern ( */ a: string }"],
    "number": [f"export type New = {'9' * digits}{end};" for digits in (400, 5000) for end in ("", ".5")],
    "surrogate": [
        'export type New = "\\ud800";', 'export type New = "a\\udfffb";', 'export interface New { "a\\ud800": string }',
        '/** @default "\\ud800" */\nexport interface New { a: string }', 'export type New = "\\u{110000}";',
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    "source", [pytest.param(s, id=f"{k}-{n}") for k, v in REFUSED.items() for n, s in enumerate(v)]
)
def test_what_can_be_no_module_number_or_text_is_refused_where_it_stands(tmp_path: Path, source: str) -> None:
    path = mini.write_source(tmp_path, f"{mini.SOURCE}{source}")
    with pytest.raises(SchemaError) as caught:
        pipeline.generate_project(
            SchemaFolder(mini.write_folder(tmp_path / "pins")), path, tmp_path / OUT, "acme", overlay=False
        )
    lines = path.read_text(encoding="utf-8").split("\n")
    assert caught.value.source_line == lines[caught.value.line - 1]
    assert caught.value.line >= mini.SOURCE.count("\n")
    assert not (tmp_path / OUT).exists()


CHOSEN: Final = {
    "constant": {
        "class": "class_", "Final": "Final_", "METHODS": "METHODS_", "models": "models_", "str": "str_",
        "__path__": "_path", "$x": "x", "é": "é",
    },
    "type": {
        "thing": "thing_", "$T": "T", "Été": "Été", "None": "None_", "Model": "Model_", "T_": "T_", "__A": "_A",
        "Annotated": "Annotated_", "AnnotatedModel": "AnnotatedModel", "__class__": "_class",
    },
    "member": {
        "": "field", " ": "field_2", '"': "field_3", "1": "field_1", "日 本": "日_本", "__": "field_4",
        "model_dump": "model_dump_", "\0": "field_5", "__class__": "class_", f"x\n{CALL}": "x_canary",
        f"{CALL}: str = {CALL}": "canary_str_canary", "\u2028import os": "import_os", "self.x": "self_x",
    },
}  # fmt: skip
"""Names that Python cannot have, or that the package uses itself, and those that a file which is not pinned gets."""


@pytest.mark.slow
def test_what_can_be_no_name_gets_one_that_is_no_harm(tmp_path: Path) -> None:
    members = [quoted(name) for name in CHOSEN["member"]]
    made: list[Path] = []
    for out, constants, types, attributes in (
        ("chosen", CHOSEN["constant"], CHOSEN["type"], members),
        (
            "plain",
            [f"harmless_{n}" for n, _ in enumerate(CHOSEN["constant"])],
            [f"Harmless{n}" for n, _ in enumerate(CHOSEN["type"])],
            [quoted(f"harmless {n}") for n, _ in enumerate(members)],
        ),
    ):
        constant = "".join(f"export const {name} = {n};\n" for n, name in enumerate(constants))
        type_ = "".join(f"export interface {name} {{ a: string }}\n" for name in types)
        member = f"export interface New {{ {' '.join(f'{name}: string;' for name in attributes)} }}"
        made.append(project(tmp_path / out, f"{mini.SOURCE}{constant}{type_}{member}"))
    compare(*map(files, made))
    assert report(made[0] / "chosen") == NOTHING
    for kind, names in CHOSEN.items():
        assert {*names.values()} <= declared(made[0], "constants" if kind == "constant" else "models")


LEFT_OUT: Final = [
    *(f"export const NEW = {'9' * digits}{end};" for digits in (400, 5000) for end in ("", ".5")),
    'export const NEW = "\\ud800";', 'export const NEW = "\\u{110000}";',
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("source", [pytest.param(s, id=str(n)) for n, s in enumerate(LEFT_OUT)])
def test_a_constant_that_can_be_no_number_or_text_is_left_out_with_a_warning(
    tmp_path: Path, source: str
) -> None:
    pins, path = mini.write_folder(tmp_path / "pins"), mini.write_source(tmp_path, f"{mini.SOURCE}{source}")
    done = pipeline.generate_project(SchemaFolder(pins), path, tmp_path / "left", "acme", overlay=False)
    compare(files(tmp_path / "left"), files(project(tmp_path / "plain", mini.SOURCE)))
    (told,) = done.warnings
    line = mini.SOURCE.count("\n") + 1
    assert told.startswith(f"{path}:{line}:")
    assert told.endswith("'NEW'")


@pytest.mark.parametrize("kind", ["types", "members"])
@pytest.mark.parametrize(
    "name", ["a b", '"', f"x; {CALL}", f"x\n{CALL}", "class", "e\u0301", "__init__", "self.x", "\ufb01"]
)
def test_what_can_be_no_name_is_refused_among_those_that_are_given_too(
    tmp_path: Path, kind: str, name: str
) -> None:
    pins = mini.write_folder(tmp_path)
    given = {"types": "Thing", "members": "size"}[kind]
    (pins / NAMES_FILE).write_text(f"[{kind}]\n{given} = {toml(name)}\n", encoding="utf-8")
    with pytest.raises(CodegenError):
        pipeline.generate(SchemaFolder(pins), tmp_path / OUT)
    assert not (tmp_path / OUT).exists()


HIDING: Final = """
/** @category Tools/List */
export interface First { constant: "a"; fallback?: "b"; wire: "c"; acme: "d"; "x-y": "e"; again: Second; str: string; import: "f" }
/** @category tools list */
export interface Second { fallback: "a"; constant: "b"; more?: First[] }
export type ServerNotification = ImportNotification;
export interface ImportNotification { method: "import" }
"""


@pytest.mark.slow
@pytest.mark.parametrize("tag", ["constant", "str", "acme"])
def test_a_union_may_be_told_apart_by_a_member_with_any_name(tmp_path: Path, tag: str) -> None:
    """The attribute of such a member has another name, in all classes or in some."""
    source = f"""
export interface One {{ {tag}: "a"; text: string; numbers: number[] }}
export interface Two {{ {tag}: "b"; inner?: Either }}
export type Either = One | Two;
export interface Both {{ all: Either[] }}
"""
    pins, path = mini.write_folder(tmp_path), mini.write_source(tmp_path, mini.SOURCE + source)
    pipeline.generate_project(SchemaFolder(pins), path, tmp_path / "told", "acme", overlay=False)
    code = (
        "from told.acme import models as m\n"
        f"sent = {{'all': [{{'{tag}': 'b', 'inner': {{'{tag}': 'a', 'text': 'x', 'numbers': [1]}}}}]}}\n"
        "found = m.Both.from_wire(sent)\n"
        "print(type(found.all[0]).__name__, type(found.all[0].inner).__name__, found.to_wire() == sent)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "told", capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("Two One True\n", "")


@pytest.mark.slow
def test_names_that_the_package_uses_itself_are_no_harm(tmp_path: Path) -> None:
    pins, path = mini.write_folder(tmp_path), mini.write_source(tmp_path, mini.SOURCE + HIDING)
    pipeline.generate_project(SchemaFolder(pins), path, tmp_path / "hiding", "acme", overlay=False)
    assert report(tmp_path / "hiding" / "hiding") == NOTHING
    code = (
        "from hiding.acme import First, Second, models, dispatch\n"
        "print(First(again=Second(), str='').to_json().decode(), First.__module__ == Second.__module__)\n"
        "print(dispatch.ServerCalls.import_.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "hiding", capture_output=True, text=True, check=False
    )
    sent = '{"constant":"a","wire":"c","acme":"d","x-y":"e","again":{"fallback":"a","constant":"b"},"str":"","import":"f"}'
    assert (done.stdout, done.stderr) == (f"{sent} True\nimport_\n", "")


# -- what is written stays below the folder --------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "link", ["out", "out/v2099_01_01", "out/v2099_01_01/models", "out/v2099_01_01/models/things.py", "out/index.py"]
)  # fmt: skip
def test_a_link_in_the_folder_leads_nothing_out_of_it(tmp_path: Path, link: str) -> None:
    pins = mini.write_folder(tmp_path)
    place, away = tmp_path / link, tmp_path / "away"
    pipeline.generate(SchemaFolder(pins), tmp_path / OUT)
    place.rename(away)
    place.symlink_to(away)
    old = mini.snapshot(away) if away.is_dir() else away.read_bytes()
    import_schema(
        SchemaFolder(pins),
        str(mini.write_source(tmp_path, mini.SOURCE.replace("size?: number;", "sizes?: number[];"))),
        mini.REVISION,
        commit=mini.COMMIT,
        repin=True,
    )
    with pytest.raises(InputError, match=r"this is a symbolic link|this path is needed"):
        pipeline.generate(SchemaFolder(pins), tmp_path / OUT)
    assert (mini.snapshot(away) if away.is_dir() else away.read_bytes()) == old


@pytest.mark.parametrize("link", ["acme", "pyproject.toml", ".pyproject.toml.new", ".acme.new"])
@pytest.mark.parametrize("exists", [True, False])
def test_a_link_in_a_project_is_refused_or_replaced(tmp_path: Path, link: str, exists: bool) -> None:
    pins, path, out = mini.write_folder(tmp_path), mini.write_source(tmp_path), tmp_path / "acme"
    away = tmp_path / "away"
    if exists:
        away.write_text("theirs", encoding="utf-8") if "toml" in link else away.mkdir()
    out.mkdir()
    (out / link).symlink_to(away)
    before = entries(tmp_path)
    try:
        pipeline.generate_project(SchemaFolder(pins), path, out, overlay=False)
    except InputError:
        assert entries(tmp_path) == before
    else:
        assert link == ".pyproject.toml.new"
    assert away.exists() == exists
    assert not exists or not away.is_file() or away.read_text(encoding="utf-8") == "theirs"
    assert not away.is_dir() or not [*away.iterdir()]


def test_bytecode_is_not_deleted_through_a_link(tmp_path: Path) -> None:
    out, away = tmp_path / OUT, tmp_path / "away"
    pipeline.generate(SchemaFolder(mini.write_folder(tmp_path)), out)
    away.mkdir()
    (away / "things.cpython-311.pyc").write_text("theirs", encoding="utf-8")
    (out / "v2099_01_01" / "models" / "__pycache__").symlink_to(away)
    pins = mini.write_folder(tmp_path / "other", mini.SOURCE.replace("@category Things", "@category Items"))
    result = pipeline.generate(SchemaFolder(pins), out)
    assert out / "v2099_01_01" / "models" / "things.py" in result.deleted
    assert entries(away) == {"things.cpython-311.pyc"}
