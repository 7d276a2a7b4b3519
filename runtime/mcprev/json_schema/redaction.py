"""Masks the secrets in recorded messages; schemas in them show which values are secrets (SEC-6)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from mcprev.errors import Json
from mcprev.json_schema.bounds import LIST, OBJECT
from mcprev.wire.json_values import is_json_list, is_json_object
from mcprev.wire.payloads import MASK, VALUES_OF, is_secret, mask_arguments, mask_text

MAX_LEARNED: Final = 1000
"""The maximum number of names that a `Redactor` learns from schemas."""
_SCHEMAS: Final = frozenset({"inputSchema", "outputSchema", "requestedSchema"})
_FREE: Final = frozenset(
    {"arguments", "structuredContent", "content", "_meta", "inputResponses", "data", "metadata"}
)
"""Members with values of users, in which no member is a schema."""
_PROPERTIES: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_EXAMPLES: Final = frozenset({"default", "const", "enum", "examples", "example"})


class Redactor:
    """Masks the secrets of messages that belong together: schemas name some of the secrets of later messages."""

    def __init__(self) -> None:
        self._learned: set[str] = set()
        """The names of properties that are passwords, or only written."""

    def message(self, message: bytes) -> bytes:
        """Return JSON with its secrets masked; what is valid JSON stays valid, and without secrets it stays the same."""
        try:
            found: Json = json.loads(message)
            masked = self.json(found)
        except (ValueError, RecursionError):
            return mask_text(message.decode(errors="replace")).encode(errors="replace")
        return message if masked == found else json.dumps(masked, separators=(",", ":")).encode()

    def json(self, value: Json) -> Json:
        """Return a JSON value with its secrets masked, and learn from the schemas in it."""
        return self._mask(value, is_free=False)

    def _mask(self, value: Json, *, is_free: bool) -> Json:
        if isinstance(value, str):
            return mask_text(value)
        if isinstance(value, LIST):
            return self._list(value, is_free=is_free)
        if not isinstance(value, OBJECT):
            return value
        named = {
            each
            for name, item in value.items()
            if isinstance(item, str) and name.lower() in VALUES_OF and is_secret(item)
            for each in VALUES_OF[name.lower()]
        }
        return _members(
            (name, _hidden(item) if name.lower() in named else self._member(name, item, is_free=is_free))
            for name, item in value.items()
        )

    def _list(self, items: list[Json], *, is_free: bool) -> Json:
        """Return a list, which may hold the words of a command, or pairs of names and values."""
        words = mask_arguments([item if isinstance(item, str) else "" for item in items])
        return [
            (
                word
                if isinstance(item, str)
                else _hidden(item) if word == MASK else self._item(item, is_free=is_free)
            )
            for word, item in zip(words, items, strict=True)
        ]

    def _item(self, item: Json, *, is_free: bool) -> Json:
        """Return an item of a list, which may be a pair of a name and a value."""
        if isinstance(item, LIST) and len(item) == 2 and isinstance(item[0], str):
            return [mask_text(item[0]), self._member(item[0], item[1], is_free=is_free)]
        return self._mask(item, is_free=is_free)

    def _member(self, name: str, value: Json, *, is_free: bool) -> Json:
        if not is_free and name in _SCHEMAS:
            return self._schema(value, is_hidden=False)
        if is_secret(name) or (is_free and name in self._learned):
            return _hidden(value)
        return self._mask(value, is_free=is_free or name in _FREE)

    def _schema(self, value: Json, *, is_hidden: bool) -> Json:
        """Return a JSON schema; its properties have names of secrets, but no values except for examples."""
        if is_json_list(value):
            return [self._schema(item, is_hidden=is_hidden) for item in value]
        if not is_json_object(value):
            return self._mask(value, is_free=True)
        return _members(
            (name, self._in_schema(name, item, is_hidden=is_hidden)) for name, item in value.items()
        )

    def _in_schema(self, name: str, item: Json, *, is_hidden: bool) -> Json:
        if name in _PROPERTIES and is_json_object(item):
            return _members((each, self._property(each, inner)) for each, inner in item.items())
        if name in _EXAMPLES:
            return _hidden(item) if is_hidden else self._mask(item, is_free=True)
        if is_json_object(item) or is_json_list(item):
            return self._schema(item, is_hidden=is_hidden)
        return self._member(name, item, is_free=True)

    def _property(self, name: str, schema: Json) -> Json:
        if not is_json_object(schema):
            return self._member(name, schema, is_free=True)
        is_hidden = _is_write_only(schema)
        if is_hidden and len(self._learned) < MAX_LEARNED:
            self._learned.add(name)
        return self._schema(schema, is_hidden=is_hidden or is_secret(name))


def _is_write_only(schema: Mapping[str, Json]) -> bool:
    return schema.get("format") == "password" or schema.get("writeOnly") is True


def _members(members: Iterable[tuple[str, Json]]) -> dict[str, Json]:
    """Return an object; its names may be or hold secrets themselves, and those that become equal are numbered."""
    shown: dict[str, Json] = {}
    numbers: dict[str, int] = {}
    for name, value in members:
        masked = unique = mask_text(name)
        while unique in shown:
            numbers[masked] = numbers.get(masked, 1) + 1
            unique = f"{masked} {numbers[masked]}"
        shown[unique] = value
    return shown


def _hidden(value: Json) -> Json:
    """Return a mask of the same kind as a value; empty values, null and booleans are no secrets."""
    found: object = value
    if found is None or isinstance(found, bool) or found in ("", [], {}):
        return value
    return {MASK: MASK} if isinstance(found, dict) else [MASK] if isinstance(found, list) else MASK
