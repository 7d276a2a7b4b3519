"""Extensions: a schema.ts that imports types of a pinned revision becomes a package that imports them from the revision's."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from helpers.mini import COMMIT, REVISION, snapshot, write_folder
from helpers.support import FOLDER
from mcprev_codegen.build import generate
from mcprev_codegen.checkout import import_schema
from mcprev_codegen.errors import CodegenError, InputError
from mcprev_codegen.facts import load_versions
from mcprev_codegen.inputs import SchemaFolder, extension_folder, load_extensions, load_pins
from mcprev_types.extensions.index import EXTENSIONS

ID: Final = "com.acme/shelves"
TABLE: Final = f'[shelves]\nid = "{ID}"\ntitle = "Shelves"\n'
SOURCE: Final = """\
import type { EmptyResult, Thing as AnyThing } from "./core.js";

/** Upstream's words. */
export interface Shelf extends AnyThing { things: AnyThing[]; inner?: { best: AnyThing } }
export interface ListShelvesRequest { method: "shelves/list"; params: { above?: Shelf } }
export interface ListShelvesResult { shelves: Shelf[] }
export interface ClearShelvesRequest { method: "shelves/clear" }
export type ClearShelvesResult = EmptyResult;
export type ClientRequest = ListShelvesRequest | ClearShelvesRequest;
export type ServerResult = ListShelvesResult | ClearShelvesResult;
"""
PLACE: Final = "https://example.com/shelves/{}.ts"
SPEC: Final = "https://example.com/shelves"
TOLD: Final = ("method", "params", "jsonrpc", "id")
"""Members that the type of their message says all about; CSS variables say it by their names."""


def write_extension(schema: Path, source: str = SOURCE, version: str = "1", **options: bool) -> SchemaFolder:
    """Add a version of the extension to a schema folder; return the folder of the extension."""
    (schema / "extensions.toml").write_text(TABLE, encoding="utf-8")
    file = schema.parent / "shelves.ts"
    file.write_text(source, encoding="utf-8", newline="\n")
    folder = extension_folder(SchemaFolder(schema), "shelves")
    where = PLACE.format(version)
    import_schema(
        folder, str(file), version, commit=COMMIT, location=where, base=REVISION, spec=SPEC, **options
    )
    return folder


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ModuleType]]:
    """Imports modules of packages that were generated from a schema folder with two versions of an extension."""
    folder = tmp_path_factory.mktemp("extension")
    schema = write_folder(folder)
    write_extension(schema)
    write_extension(schema, SOURCE.replace("above?: Shelf", "above?: Shelf; below?: Shelf"), "draft")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.cpu_count", lambda: 1)
        generate(SchemaFolder(schema), folder / "shelf_types")
        patch.setattr(sys, "path", [str(folder), *sys.path])
        yield lambda name: importlib.import_module(f"shelf_types.{name}")
        for name in [name for name in sys.modules if name.partition(".")[0] == "shelf_types"]:
            del sys.modules[name]


def test_its_types_are_generated_and_those_that_it_imports_are_the_revisions(
    packages: Callable[[str], ModuleType],
) -> None:
    core, models = packages("v2099_01_01.models"), packages("extensions.shelves.v1.models")
    assert issubclass(models.Shelf, core.Thing)
    shelf = models.Shelf.from_wire(
        {
            "kind": "thing",
            "name": "s",
            "things": [{"kind": "thing", "name": "a"}],
            "inner": {"best": {"kind": "thing", "name": "b"}},
        }
    )
    assert type(shelf.things[0]) is core.Thing
    assert type(shelf.inner.best) is core.Thing
    assert "Thing" not in vars(packages("extensions.shelves.v1")).get("__all__", ())


def test_its_methods_have_tables_stubs_and_callers(packages: Callable[[str], ModuleType]) -> None:
    package = packages("extensions.shelves.v1")
    methods = {name: (m.attr, m.params, m.result) for name, m in package.METHODS.items()}
    assert methods == {
        "shelves/list": ("list_shelves", "ListShelvesRequestParams", "ListShelvesResult"),
        "shelves/clear": ("clear_shelves", None, "ClearShelvesResult"),
    }
    assert hasattr(package.ServerHandler, "list_shelves")
    assert hasattr(package.ClientCalls, "clear_shelves")
    assert (package.EXTENSION, package.VERSION, package.REVISION) == (ID, "1", REVISION)


def test_the_package_of_an_extension_has_the_newest_final_version_and_the_index_lists_all(
    packages: Callable[[str], ModuleType],
) -> None:
    info = packages("extensions").EXTENSIONS["shelves"]
    assert (info.id, info.latest, list(info.versions)) == (ID, "1", ["1", "draft"])
    assert (info.versions["draft"].status, info.versions["draft"].base) == ("draft", REVISION)
    latest = packages("extensions.shelves")
    assert latest.Shelf is packages("extensions.shelves.v1").Shelf
    assert "below" in packages("extensions.shelves.draft").ListShelvesRequestParams.model_fields


def test_nothing_is_imported_before_it_is_used(packages: Callable[[str], ModuleType]) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "shelf_types"]:
        del sys.modules[name]
    packages("extensions.shelves")
    loaded = {name for name in sys.modules if name.startswith("shelf_types.")}
    assert loaded == {"shelf_types._lazy", "shelf_types.extensions", "shelf_types.extensions.shelves"}


def test_a_contract_keeps_the_import_and_no_prose(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    folder = write_extension(schema)
    text = (folder.path / "1" / "schema.ts").read_text(encoding="utf-8")
    assert f'import type {{\n  EmptyResult,\n  Thing,\n}} from "../../../{REVISION}/schema.js";' in text
    assert "interface Shelf extends Thing" in text
    assert "interface Thing" not in text
    assert "Upstream's words" not in text
    assert load_pins(folder)["1"].base == REVISION


def test_what_was_written_from_a_text_says_so(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    folder = write_extension(schema, written=True)
    pin = load_pins(folder)["1"]
    assert (pin.origin, pin.sha256) == ("text", pin.contract)
    head = (folder.path / "1" / "schema.ts").read_text(encoding="utf-8").split("\n")[0]
    assert head == f"// Written from the text of {PLACE.format(1)}, which has no schema.ts."


REFUSED: Final = {
    "a type that the revision does not have": (SOURCE.replace("Thing as", "Nothing as"), "AnyThing"),
    "a name that both have": (
        SOURCE.replace("ClearShelvesResult = EmptyResult", "ClearShelvesResult = Thing")
        + "export interface Thing { other: string }\n",
        "rename the type of this file",
    ),
    "another version than it declares": (
        f'export const LATEST_PROTOCOL_VERSION = "2";\n{SOURCE}',
        "LATEST_PROTOCOL_VERSION",
    ),
}


@pytest.mark.parametrize(("source", "told"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_an_extension_is_refused(source: str, told: str, tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    with pytest.raises(CodegenError, match=told):
        write_extension(schema, source)


def test_a_contract_that_was_edited_is_refused(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    path = write_extension(schema).path / "1" / "schema.ts"
    path.write_text(path.read_text(encoding="utf-8").replace("things:", "thing:"), encoding="utf-8")
    with pytest.raises(InputError, match="sha256"):
        load_versions(SchemaFolder(schema))


def test_a_pin_without_the_revision_that_it_is_based_on_is_refused(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    pins = write_extension(schema).path / "revisions.toml"
    pins.write_text(pins.read_text(encoding="utf-8").replace("base =", "origin ="), encoding="utf-8")
    with pytest.raises(CodegenError, match="--extension shelves --base REV"):
        load_versions(SchemaFolder(schema))


def test_an_extension_that_the_table_does_not_have_is_refused(tmp_path: Path) -> None:
    schema = write_folder(tmp_path)
    write_extension(schema)
    with pytest.raises(InputError, match="known are shelves"):
        extension_folder(SchemaFolder(schema), "shelf")


def test_a_check_sees_a_changed_description_and_a_version_that_is_gone(
    tmp_path: Path, in_one_process: None
) -> None:
    schema = write_folder(tmp_path)
    folder = write_extension(schema)
    write_extension(schema, version="2")
    out = tmp_path / "shelf_types"
    generate(SchemaFolder(schema), out)
    assert not generate(SchemaFolder(schema), out, write=False).changed
    before = snapshot(out)
    (folder.path / "descriptions.toml").write_text('[types.Shelf]\ndoc = "A board."\n', encoding="utf-8")
    changed = generate(SchemaFolder(schema), out, write=False).changed
    assert {path.relative_to(out).parts[:2] for path in changed} == {("extensions", "shelves")}
    assert snapshot(out) == before
    pins = (folder.path / "revisions.toml").read_text(encoding="utf-8")
    (folder.path / "revisions.toml").write_text(pins[: pins.index('["2"]')], encoding="utf-8")
    assert generate(SchemaFolder(schema), out).deleted
    assert not (out / "extensions" / "shelves" / "v2").exists()
    assert (out / "extensions" / "shelves" / "v1" / "methods.py").is_file()


# -- those of MCP ------------------------------------------------------------------------------------------


def test_every_extension_of_the_table_has_a_package_with_its_id() -> None:
    table = load_extensions(FOLDER)
    assert {name: row.id for name, row in table.items()} == {name: e.id for name, e in EXTENSIONS.items()}
    assert all(info.versions for info in EXTENSIONS.values())


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_every_type_and_member_of_an_extension_is_described(extension: str) -> None:
    for name, version in load_versions(FOLDER).items():
        if version.extension is not None and version.extension.name == extension:
            own = [n for n in version.declared.types if version.owns(n)]
            bare = [n for n in own if not version.declared.types[n].doc.text]
            bare += [
                f"{n}.{f.name}"
                for n in version.schema.types
                if version.owns(n)
                for f in version.schema.fields(n)
                if f.declared_in == n
                and f.name not in TOLD
                and not f.name.startswith("--")
                and not f.field.doc.text
            ]
            assert not bare, name
