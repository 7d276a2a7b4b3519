"""Validates a payload with the models of a revision, and names the JSON path of each error (BASE-10).

Models fill in constants and defaults, read null as absent, and keep content of unknown types. Here all of these are
errors: what the schema requires must be there, null is only where the schema has it, and content is of a type that the
revision has.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from mcprev.analysis.schemas import TypedPackage, definitions_of
from mcprev.core.union_errors import meant
from mcprev.errors import Json
from mcprev.wire.json_values import is_json_object
from mcprev_types import details_of, locate

EXCERPT: Final = 100
"""The number of characters of a message that an error quotes."""
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOP: Final = re.compile(r"(?:\.\w+|\[[^\]]*\])?")
"""Matches the end of a path to the value itself or to a direct member."""
NO_BASE64: Final = "is not base64"
NO_NULL: Final = "null is not allowed here: leave the member out"
Place: TypeAlias = tuple[str, str]
"""A JSON path and its error."""


def quote(text: str) -> str:
    """Return the beginning of a text of a message in quotes."""
    return f"'{text[:EXCERPT]}{'…' if len(text) > EXCERPT else ''}'"


def judge_payload(revision: TypedPackage, names: Sequence[str | None], value: Json, root: str) -> list[Place]:
    """Return the errors of a value that must be of one of several types, for the type that fits best."""
    verdicts: list[list[Place]] = []
    for name in names:
        try:
            typed = value if name is None else _adapter(revision, name).validate_python(value)
        except ValidationError as error:
            verdicts.append(_places(error, value, root, revision))
        else:
            return list(_gaps(revision, typed, root))
    # A type fits better if the members exist: a wrong nested member says more than a missing one.
    return min(
        verdicts, key=lambda places: sum(bool(_TOP.fullmatch(path[len(root) :])) for path, _ in places)
    )


@cache
def _adapter(revision: TypedPackage, name: str) -> TypeAdapter[Any]:
    """Return what reads values of a type of a package."""
    found: Any = getattr(revision.models, name)
    is_model = isinstance(found, type) and issubclass(cast("Any", found), BaseModel)  # which is strict itself
    return TypeAdapter(cast("Any", found), config=None if is_model else ConfigDict(strict=True))


@cache
def _base64(revision: TypedPackage) -> Mapping[str, frozenset[str]]:
    """Return the members of each type of a revision that are base64, by the names of the wire."""
    types = definitions_of(revision).items()
    return {
        name: frozenset(
            member
            for member, schema in cast("dict[str, dict[str, Json]]", type_.get("properties", {})).items()
            if schema.get("format") == "byte"
        )
        for name, type_ in types
    }


def _is_base64(text: str) -> bool:
    try:
        b64decode(text, validate=True)
    except ValueError:
        return False
    return True


@cache
def _required(revision: TypedPackage) -> Mapping[str, frozenset[str]]:
    """Return the required members of each type of a revision, by the names of the wire."""
    types = definitions_of(revision).items()
    return {name: frozenset(cast("list[str]", type_.get("required", ()))) for name, type_ in types}


def _gaps(revision: TypedPackage, typed: object, root: str) -> Iterator[Place]:
    """Yield what models let through: missing members, null where the schema has none, what is not base64, and unknown content."""
    unknown: type[BaseModel] = revision.models.UnknownContent
    waiting: list[tuple[object, str]] = [(typed, root)]
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, unknown):
            yield f"{path}.type", f"{revision.name} has no content of the type {quote(cast('Any', value).type)}"
        elif isinstance(value, BaseModel):
            required = _required(revision).get(type(value).__name__, frozenset())
            encoded = _base64(revision).get(type(value).__name__, frozenset())
            for name, field in type(value).model_fields.items():
                alias = field.serialization_alias or field.alias or name
                if name in value.model_fields_set:
                    inner = getattr(value, name)
                    if isinstance(inner, str) and alias in encoded and not _is_base64(inner):
                        yield path + step(alias), NO_BASE64
                    if inner is None and field.default is None:  # models read null as absent
                        yield path + step(alias), NO_NULL
                    waiting.append((inner, path + step(alias)))
                elif alias in required:
                    yield path + step(alias), "Field required"
            waiting += [(item, path + step(name)) for name, item in (value.model_extra or {}).items()]
        elif isinstance(value, list | tuple):
            waiting += [(item, f"{path}[{i}]") for i, item in enumerate(cast("Sequence[object]", value))]
        elif is_json_object(value):
            waiting += [(item, path + step(name)) for name, item in value.items()]


def _places(error: ValidationError, value: Json, root: str, revision: TypedPackage) -> list[Place]:
    """Return the errors of a validator by JSON path; errors at the same path are merged."""
    found: dict[str, list[str]] = {}
    for one in meant(details_of(error), value):
        steps, skipped = locate(value, one["loc"], missing=one["type"] == "missing")
        types = [part for part in skipped if hasattr(revision.models, part)]
        said = f"{one['msg']} (as {types[-1]})" if types else one["msg"]
        texts = found.setdefault(root + "".join(map(step, steps)), [])
        if said not in texts:
            texts.append(said)
    return [(path, "; or ".join(texts)) for path, texts in found.items()]


def step(part: int | str) -> str:
    """Return the step of a JSON path into an array or an object."""
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if _WORD.fullmatch(part) else f"[{json.dumps(part)}]"
