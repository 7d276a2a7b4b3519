"""JSON Schemas of the types of a revision or of a schema of one's own, from the document of its generated package (BASE-10)."""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from types import ModuleType
from typing import Any, Final, TypeAlias

from mcprev.errors import Json
from mcprev.revisions import Revision, revision_named
from mcprev.wire.json_values import is_json_list, is_json_object

_REF: Final = "#/$defs/"
_DICT: Final[Any] = dict
_LIST: Final[Any] = list


@dataclass(frozen=True, slots=True)
class OwnPackage:
    """What `mcprev generate --schema` made of a schema of one's own."""

    name: str
    """What errors call it."""
    package: str
    """The name of its module, such as `acme_types.v1`."""
    revision: str
    """The revision of MCP that it extends, or else the version that it was given."""

    @property
    def models(self) -> ModuleType:
        """The module of its models."""
        return import_module(f"{self.package}.models")


TypedPackage: TypeAlias = Revision | OwnPackage
"""A generated package: that of a row of the table of revisions, or of a schema of one's own."""


def own_package(module: ModuleType, name: str | None = None) -> OwnPackage:
    """Return the package of a module: `acme_types`, `acme_types.latest`, or that of one version. `name` is for errors.

    Raises `TypeError` for another module.
    """
    found: Any = module
    try:
        if not hasattr(module, "REVISION"):
            found = import_module(f"{module.__name__}.latest")
        package: str = found.ClientCalls.__module__.rpartition(".")[0]
        version: str = found.REVISION
    except (AttributeError, ImportError):
        raise TypeError(
            f"{module.__name__} is no package of pydantic models that `mcprev generate` made"
        ) from None
    return OwnPackage(name or f"{package.partition('.')[0]} {version}", package, version)


def class_of(package: TypedPackage, type_name: str) -> str:
    """Return the name in Python of a type. Raises `ValueError` for a type that the package does not have."""
    classes = _classes_of(package)
    found = classes.get(type_name, type_name)
    if type_name not in definitions_of(package) and found not in classes.values():
        raise unknown_type(package, type_name)
    if not hasattr(package.models, found):
        raise ValueError(
            f"the type {type_name[:100]!r} of {package.name} has another name in Python: pass that"
        )
    return found


def unknown_type(package: TypedPackage, type_name: str) -> ValueError:
    """Return the error for a type that a package does not have, with those of similar names."""
    near = difflib.get_close_matches(type_name, definitions_of(package), 3)
    hint = f"; there are {', '.join(near)}" if near else ""
    return ValueError(f"{package.name} has no type {type_name[:100]!r}{hint}")


@cache
def _classes_of(package: TypedPackage) -> Mapping[str, str]:
    """Return the names in Python of types whose own names cannot be used there, by those names."""
    text = files(package.package).joinpath("meta.json").read_text("utf-8")
    classes: Mapping[str, str] = json.loads(text).get("classes", {})
    return classes


@cache
def document_of(revision: TypedPackage) -> Mapping[str, Json]:
    """Return the JSON Schema document of a revision; do not change it."""
    text = files(revision.package).joinpath("schema.json").read_text("utf-8")
    document: Mapping[str, Json] = json.loads(text)
    return document


def definitions_of(revision: TypedPackage) -> Mapping[str, dict[str, Json]]:
    """Return the schema of each type of a revision; do not change them."""
    definitions: Mapping[str, dict[str, Json]] = document_of(revision)["$defs"]
    return definitions


def package_of(revision: str | Revision | ModuleType) -> TypedPackage:
    """Return the package of a revision, by its name or row, or that of a schema of one's own, by its module."""
    if isinstance(revision, ModuleType):
        return own_package(revision)
    return revision_named(revision) if isinstance(revision, str) else revision


def schema_of(revision: str | Revision | ModuleType, type_name: str) -> dict[str, Json]:
    """Return the JSON Schema of a type at a revision, with the `$defs` that it needs; the caller may change it.

    `revision` may also be the package of a schema of one's own, such as `acme_types`. Raises `ValueError` for an unknown
    revision or type.
    """
    row = package_of(revision)
    definitions = definitions_of(row)
    if type_name not in definitions:
        raise unknown_type(row, type_name)
    needed: dict[str, Json] = {}
    waiting = [type_name]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed[name] = copy.deepcopy(definitions[name])
            waiting += _referred(needed[name])
    own: dict[str, Json] = {"$schema": document_of(row)["$schema"], "$ref": f"{_REF}{type_name}"}
    return {**own, "$defs": {name: needed[name] for name in definitions if name in needed}}


def _referred(schema: Json) -> Iterator[str]:
    """Yield the names of the types that a schema refers to."""
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if is_json_object(value):
            reference = value.get("$ref")
            if isinstance(reference, str) and reference.startswith(_REF):
                yield reference.removeprefix(_REF)
            waiting += value.values()
        elif is_json_list(value):
            waiting += value
