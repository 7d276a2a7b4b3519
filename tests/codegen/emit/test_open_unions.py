"""Open unions under other names, in lists and in other unions: each use takes what the union takes, unknown objects too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import pytest
from pydantic import TypeAdapter, ValidationError

import mini
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


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The models of the schema above."""
    folder = tmp_path_factory.mktemp("open")
    path = folder / "schema.ts"
    path.write_text(SOURCE, encoding="utf-8")
    schema = SchemaFolder(mini.write_folder(folder))
    pipeline.generate_project(schema, path, folder / "opened-types", "1.0", overlay=False)
    sys.path.insert(0, str(folder / "opened-types"))
    yield import_module("opened_types.latest")
    sys.path.remove(str(folder / "opened-types"))


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
