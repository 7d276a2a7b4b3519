"""JSON Schemas of the types of a revision, from the document of its generated package (BASE-10)."""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, cast

from mcprev.errors import Json
from mcprev.revisions import Revision, revision_named

_REF: Final = "#/$defs/"
_DICT: Final[Any] = dict
_LIST: Final[Any] = list


@cache
def document_of(revision: Revision) -> Mapping[str, Json]:
    """Return the JSON Schema document of a revision; do not change it."""
    text = files(revision.package).joinpath("schema.json").read_text("utf-8")
    return cast("dict[str, Json]", json.loads(text))


def definitions_of(revision: Revision) -> Mapping[str, dict[str, Json]]:
    """Return the schema of each type of a revision; do not change them."""
    return cast("dict[str, dict[str, Json]]", document_of(revision)["$defs"])


def schema_of(revision: str | Revision, type_name: str) -> dict[str, Json]:
    """Return the JSON Schema of a type at a revision, with the `$defs` that it needs; the caller may change it.

    Raises `ValueError` for an unknown revision or type.
    """
    row = revision_named(revision) if isinstance(revision, str) else revision
    definitions = definitions_of(row)
    if type_name not in definitions:
        near = difflib.get_close_matches(type_name, definitions, 3)
        hint = f"; there are {', '.join(near)}" if near else ""
        raise ValueError(f"{row.name} has no type {type_name[:100]!r}{hint}")
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
        if isinstance(value, _DICT):
            members = cast("dict[str, Json]", value)
            reference = members.get("$ref")
            if isinstance(reference, str) and reference.startswith(_REF):
                yield reference.removeprefix(_REF)
            waiting += members.values()
        elif isinstance(value, _LIST):
            waiting += cast("list[Json]", value)
