"""Arguments that do not have the types of a function at once: what models may have meant, and what is wrong with them.

Models send `"5"` for 5, JSON text for an object, and `""` for nothing. `reread` tries what keeps the meaning; what is
ambiguous stays as it was sent.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from math import isfinite
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, Union, cast, get_args, get_origin

from pydantic import AfterValidator, ValidationError
from pydantic_core import to_json

from mcprev.error_text import did_you_mean
from mcprev.errors import Json
from mcprev.json_schema.bounds import LIST, OBJECT
from mcprev.wire.bounds import check_values
from mcprev.wire.json_values import is_json_list, is_json_object
from mcprev_types import details_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from mcprev.json_schema.bounds import ValidationIssue

Place: TypeAlias = tuple[str | int, ...]
"""The members and indexes that lead to a value."""
ROUNDS: Final = 12
"""How often text within arguments is read as JSON, each time one level deeper."""
MAX_REREAD: Final = 1024 * 1024
"""The maximum number of bytes of JSON, of all times together, after which no text within arguments is read any more."""
_WORDS: Final = {"missing": "is missing"}
"""Replacements for pydantic's messages, in the words of the other checks of arguments."""
_BOOLEANS: Final = frozenset({"true", "false"})
_NOTHING: Final = ("", "null", "None")
"""Texts that models send for an optional argument that they leave out."""


class ArgumentError(Exception):
    """Arguments do not fit the signature."""

    def __init__(self, complaints: list[ValidationIssue]) -> None:
        super().__init__("arguments do not fit")
        self.complaints = complaints
        """The paths and the errors, without the values."""


def reread(
    read: Callable[[bytes], dict[str, Any]], given: Mapping[str, Json]
) -> tuple[dict[str, Any], frozenset[Place]]:
    """Return the arguments that a model may have meant, and the places of texts that were read as JSON or as null.

    `read` validates JSON text, with conversions that lose nothing. A text is looked at only where it is not valid as it
    is, so the value of a `str` stays. Raises the `ValidationError` of the arguments that remain.
    """
    value: Json = dict(given)
    places, size = frozenset[Place](), 0
    for _ in range(ROUNDS):
        # Numbers beyond a double become null, as on the wire.
        text = to_json(value, inf_nan_mode="null")
        size += len(text)
        try:
            return read(text), places
        except ValidationError as error:
            wrong = {
                _read_location(each, value)[0] for each in details_of(error) if each["type"] != "missing"
            }
            changed = frozenset(
                place for place in wrong if _at(value, place) is not reinterpreted(_at(value, place))
            )
            if not changed or size > MAX_REREAD:
                raise
            value = _replaced(value, changed)
            places |= changed
    return read(to_json(value, inf_nan_mode="null")), places


def reread_by_schema(
    check: Callable[[Json], list[ValidationIssue]], given: Mapping[str, Json]
) -> tuple[Mapping[str, Json], frozenset[Place]]:
    """Return the arguments that a model may have meant for a schema, and the places of the texts that were converted.

    `check` returns the places and errors of arguments. What remains wrong stays as it was sent.
    """
    value: Json = dict(given)
    places, size = frozenset[Place](), 0
    for _ in range(ROUNDS):
        wrong = {place for place, _ in check(value)}
        if not wrong:
            reread: Mapping[str, Json] = value
            return reread, places
        meant = {place: _by_words(_at(value, place)) for place in map(tuple, wrong)}
        changed = frozenset(place for place, found in meant.items() if found is not _at(value, place))
        size += len(to_json(value, inf_nan_mode="null"))
        if not changed or size > MAX_REREAD:
            break
        value = _replaced(value, changed, _by_words)
        places |= changed
    return given, frozenset()


def _by_words(value: Json) -> Json:
    """Return what a string says as JSON of any type but text, None for a text of nothing; any other value unchanged."""
    found = reinterpreted(value)
    if not isinstance(found, str):
        return found
    with suppress(ValueError, RecursionError):
        text = found.strip()
        number: Json = json.loads(text.lower() if text.lower() in _BOOLEANS else text, parse_constant=float)
        if isinstance(number, bool | int) or (isinstance(number, float) and isfinite(number)):
            return number
    return value


def reinterpreted(value: Json) -> Json:
    """Return the object or list that a string holds as JSON text, None for a text of nothing; any other value unchanged."""
    if not isinstance(value, str):
        return value
    if value in _NOTHING:
        return None
    with suppress(ValueError, RecursionError):
        check_values(value.encode(errors="replace"))
        found: Json = json.loads(value)
        if is_json_object(found) or is_json_list(found):
            return found
    return value


def complaints_of(error: ValidationError, given: Json, known: Collection[str] = ()) -> list[ValidationIssue]:
    """Return what is wrong with arguments, by the places of the values; `known` are the names of the arguments.

    Where a value may have one of several types, there is one complaint that says what each of them lacks.
    """
    found: dict[Place, list[str]] = {}
    unions: dict[Place, dict[str | int, list[str]]] = {}
    for each in details_of(error):
        place, before, label = _read_location(each, given)
        # What pydantic adds of its conversions says nothing of the schema.
        text = _WORDS.get(each["type"]) or f"is wrong: {each['msg'].partition(', unable to')[0]}"
        if each["type"] == "extra_forbidden":
            text = "is not known here" + (did_you_mean(str(place[-1]), known) if len(place) == 1 else "")
        if label is None:
            found.setdefault(place, []).append(text)
        else:
            within = ".".join(map(str, place[before:]))
            text = f"{within} {text}" if within else text.removeprefix("is wrong: ")
            unions.setdefault(place[:before], {}).setdefault(label, []).append(text)
    for place, alternatives in unions.items():
        lacks = dict.fromkeys(", ".join(texts) for texts in alternatives.values())
        found.setdefault(place, []).append(f"is wrong: {'; or '.join(lacks)}")
    return [(place, text) for place, texts in found.items() for text in texts]


def _read_location(error: Mapping[str, Any], value: Json) -> tuple[Place, int, str | int | None]:
    """Return the place of an error, how much of it leads to the first union, and the alternative there, if any.

    Pydantic writes the names of types among those of members, as in `("pets", 0, "Cat", "name")`: what the value does
    not have is one of them. The last name of a missing member is an exception.
    """
    location = error["loc"]
    place: Place = ()
    before, label = 0, None
    for position, part in enumerate(location):
        inside = _member(value, part)
        if inside is not _ABSENT:
            place, value = (*place, part), inside
        elif error["type"] == "missing" and position == len(location) - 1:
            place = (*place, part)
        elif label is None:
            before, label = len(place), part
    return place, before, label


_ABSENT: Final = object()


def _member(value: Any, part: str | int) -> Any:  # noqa: ANN401 - JSON, or `_ABSENT`
    """Return the member or item of a value."""
    if isinstance(value, OBJECT):
        return value.get(part, _ABSENT)
    if isinstance(value, LIST) and isinstance(part, int) and part < len(value):
        return value[part]
    return _ABSENT


def _at(value: Json, place: Place) -> Json:
    for part in place:
        value = _member(value, part)
    return value


def _replaced(value: Json, places: Collection[Place], meant: Callable[[Json], Json] = reinterpreted) -> Json:
    """Return a copy in which what is meant stands at each place; what is around several is copied once."""
    if () in places:
        return meant(value)
    inside: defaultdict[str | int, list[Place]] = defaultdict(list)
    for part, *rest in places:
        inside[part].append(tuple(rest))
    copy: Any = dict(value) if isinstance(value, OBJECT) else list(value)
    for part, rests in inside.items():
        copy[part] = _replaced(copy[part], rests, meant)
    return copy


def enum_values(hint: Any) -> Any:  # noqa: ANN401 - an annotation
    """Return an annotation in which a `Literal` of enum members accepts their values, as its schema says."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal and any(isinstance(each, Enum) for each in inner):
        members = {each.value if isinstance(each, Enum) else each: each for each in inner}
        return Annotated[Literal[tuple(members)], AfterValidator(members.__getitem__)]
    changed = tuple(enum_values(each) for each in inner) if origin is not Literal else inner
    if changed == inner:
        return hint
    if origin is Annotated:
        return Annotated[changed[0], *hint.__metadata__]
    return cast("Any", Union if origin is UnionType else origin)[changed]
