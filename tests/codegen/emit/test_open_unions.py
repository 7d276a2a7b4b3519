"""Unions that `type` tells apart are open in MCP's schemas, and in others where that is asked for; each use takes what the union takes."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import TypeAdapter, ValidationError

from helpers import mini
from mcprev_codegen.build import packages as pipeline
from mcprev_codegen.inputs import SchemaFolder

SOURCE: Final = """
export interface P { type: "p"; kind: "kp"; x: number }
export interface Q { type: "q"; kind: "kq"; y: string }
export interface R { kind: "r"; z: boolean }
export interface S { type: "s" | "t"; kind: "s" }
export type Open = P | Q;
export type Alias = Open;
export type AliasOfAlias = Alias;
export type WithAnother = Alias | R;
export type OrNull = AliasOfAlias | null;
export type OrText = string | Alias;
export type Wider = Alias | S;
export type Listed = (P | Q)[];
export type AliasOfListed = Listed;
export type ListOfAlias = Alias[];
export interface User { a: Alias; b?: WithAnother; c?: (Alias | R)[]; d?: AliasOfListed }
"""
P: Final[dict[str, Any]] = {"type": "p", "kind": "kp", "x": 1}
NEW: Final[dict[str, Any]] = {"type": "new", "kind": "k", "more": [1]}
BAD: Final[dict[str, Any]] = {"type": "p", "kind": "kp", "x": "one"}
R: Final[dict[str, Any]] = {"kind": "r", "z": True}
USES: Final[dict[str, list[tuple[Any, str]]]] = {
    "Alias": [(P, "P"), (NEW, "UnknownContent")],
    "AliasOfAlias": [(P, "P"), (NEW, "UnknownContent")],
    "WithAnother": [(P, "P"), (NEW, "UnknownContent"), (R, "R")],
    "OrNull": [(P, "P"), (NEW, "UnknownContent"), (None, "NoneType")],
    "OrText": [(P, "P"), (NEW, "UnknownContent"), ("text", "str")],
    "Wider": [(P, "P"), (NEW, "UnknownContent"), *(({"type": t, "kind": "s"}, "S") for t in "st")],
}
"""Values of each alias, with the class of what is read."""
LISTS: Final = ("Listed", "AliasOfListed", "ListOfAlias")


THEIRS: Final = """
export interface Note { type: "note" }
export interface Rest { type: "rest" }
export type Sound = Note | Rest;
export interface Bar { sounds: (Note | Rest)[] }
"""
"""What a pinned revision of MCP has."""
OWN: Final = """
import type { Sound, Bar } from "@modelcontextprotocol/sdk/types.js";
export interface P { type: "p" }
export interface Q { type: "q" }
export type Own = P | Q;
export type Told = P | Q | { type: string; [k: string]: unknown };
export interface User { own?: P | Q; sound?: Sound; bar?: Bar }
"""


def made(folder: Path, source: str, package: str, **options: Any) -> Any:
    """The models of a schema."""
    (folder / "schema.ts").write_text(source, encoding="utf-8")
    schema = SchemaFolder(mini.write_folder(folder, mini.SOURCE + THEIRS))
    pipeline.generate_project(schema, folder / "schema.ts", folder / package, "1.0", overlay=False, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(folder / package), *sys.path])
        return import_module(f"{package}.latest")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The models of the first schema above, whose unions are to be open."""
    return made(tmp_path_factory.mktemp("open"), SOURCE, "opened_types", open_unions=True)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The models of the same schema, of which nothing says that its unions are open."""
    return made(tmp_path_factory.mktemp("closed"), SOURCE, "closed_types")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The models of the other schema, with types of MCP."""
    return made(tmp_path_factory.mktemp("own"), OWN, "own_types")


def written(adapter: TypeAdapter[Any], value: object) -> object:
    return adapter.dump_python(adapter.validate_python(value), mode="json", exclude_unset=True)


@pytest.mark.parametrize(
    ("name", "value", "kind"), [(name, *row) for name, values in USES.items() for row in values]
)
def test_each_use_reads_what_the_union_reads_and_writes_it_back(
    name: str, value: object, kind: str, models: Any
) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(getattr(models, name))
    assert type(adapter.validate_python(value)).__name__ == kind
    assert written(adapter, value) == value


@pytest.mark.parametrize("name", USES)
def test_each_use_refuses_a_known_object_that_is_wrong(name: str, models: Any) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(getattr(models, name)).validate_python(BAD)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_under_a_name_holds_the_open_union(name: str, models: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(getattr(models, name))
    assert [type(item).__name__ for item in adapter.validate_python([P, NEW])] == ["P", "UnknownContent"]
    assert written(adapter, [P, NEW]) == [P, NEW]
    with pytest.raises(ValidationError):
        adapter.validate_python([BAD])


def test_members_have_them(models: Any) -> None:
    message = {"a": NEW, "b": R, "c": [P, NEW, R], "d": [NEW]}
    assert models.User.from_wire(message).to_wire() == message


@pytest.mark.parametrize(
    ("name", "value", "kind"), [(name, *row) for name, values in USES.items() for row in values]
)
def test_unions_of_other_schemas_are_closed(name: str, value: object, kind: str, closed: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(getattr(closed, name))
    if value == NEW:
        with pytest.raises(ValidationError):
            adapter.validate_python(value)
    else:
        assert type(adapter.validate_python(value)).__name__ == kind
        assert written(adapter, value) == value


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_closed_unions_refuse_an_unknown_object(name: str, closed: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(getattr(closed, name))
    assert written(adapter, [P]) == [P]
    with pytest.raises(ValidationError):
        adapter.validate_python([P, NEW])


def test_members_of_closed_unions_refuse_an_unknown_object(closed: Any) -> None:
    message: dict[str, Any] = {"a": P, "b": R, "c": [P, R], "d": [P]}
    assert closed.User.from_wire(message).to_wire() == message
    for name, value in (("a", NEW), ("b", NEW), ("c", [NEW]), ("d", [NEW])):
        with pytest.raises(ValidationError):
            closed.User.from_wire({**message, name: value})


def test_types_of_mcp_in_another_schema_stay_open(own: Any) -> None:
    for message in ({"sound": NEW}, {"bar": {"sounds": [NEW]}}, {"own": {"type": "p"}}):
        assert own.User.from_wire(message).to_wire() == message
    with pytest.raises(ValidationError):
        own.User.from_wire({"own": NEW})
    with pytest.raises(ValidationError):
        TypeAdapter(own.Own).validate_python(NEW)


def test_a_file_says_that_a_union_is_open_by_a_further_alternative(own: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(own.Told)
    assert type(adapter.validate_python({"type": "p"})).__name__ == "P"
    assert written(adapter, NEW) == NEW
