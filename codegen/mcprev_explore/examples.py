"""Makes example values of the types of a revision, from its schema alone; the same schema gives the same values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.facts import ENVELOPE_MEMBERS, VERSION_CONSTANT, Revision
from mcprev_codegen.ir import Json
from mcprev_codegen.resolve import FlatType

_TEXTS: Final = {
    "uri": "file:///report.txt", "url": "https://example.com/", "uriTemplate": "file:///{name}", "websiteUrl": "https://example.com/",
    "src": "https://example.com/icon.png", "mimeType": "text/plain", "name": "forecast", "title": "Forecast",
    "description": "Tells the weather.", "text": "Sunny, 24 °C", "message": "Which city?", "version": "1.0", "data": "aGVsbG8=",
    "blob": "aGVsbG8=", "cursor": "page-2", "nextCursor": "page-2", "taskId": "task-1", "requestState": "c3RhdGU=",
    "lastModified": "2025-01-12T15:00:58Z", "createdAt": "2025-01-12T15:00:58Z", "lastUpdatedAt": "2025-01-12T15:00:58Z",
    "pattern": "^[a-z]+$", "instructions": "Ask for a city first.", "logger": "weather", "model": "a-model", "reason": "no longer needed",
}  # fmt: skip
_FORMATS: Final = {"uri": "https://example.com/", "uri-template": "file:///{name}", "byte": "aGVsbG8="}
_NUMBERS: Final = {
    "code": -32603,
    "ttlMs": 60000,
    "ttl": 60000,
    "pollInterval": 1000,
    "size": 1024,
    "maxTokens": 100,
}
_DEPTH: Final = 12
"""How deep an example is at most."""
_FULL: Final = 7
"""How deep optional members are filled in."""
_VALUES: Final = 400
"""After how many values an example has required members only."""


@dataclass
class Sampler:
    """Makes examples of one revision's types."""

    revision: Revision
    variant: int = 0
    """Which member of each union is taken."""
    optional: bool = True
    """Whether optional members are filled in."""
    _made: int = 0

    def of(self, name: str, variant: int = 0, *, optional: bool = True) -> Json:
        """Return an example of a type; another variant takes other members of its unions."""
        self.variant, self.optional, self._made = variant, optional, 0
        return self._value(ir.Ref(name), "", ())

    def _value(self, type_: ir.TypeExpr, member: str, inside: tuple[str, ...]) -> Json:
        self._made += 1
        schema = self.revision.schema
        match type_:
            case ir.Prim(name):
                return _primitive(name, member)
            case ir.Lit(value):
                return value
            case ir.ConstRef(name):
                return schema.consts[name].value
            case ir.Ref(name):
                if len(inside) > _DEPTH:
                    return None
                decl = schema.types[name]
                if isinstance(decl, ir.Alias):
                    return self._value(decl.type, member, (*inside, name))
                return self._object(schema.flat(name), (*inside, name))
            case ir.Array(item):
                return self._items(item, member, inside)
            case ir.Tuple():
                return [self._value(part, member, inside) for part in type_.parts]
            case ir.Union():
                members = [m for m in schema.members(type_) if m != ir.Prim("null")] or [ir.Prim("null")]
                fresh = [m for m in members if not (isinstance(m, ir.Ref) and m.name in inside)] or members
                return self._value(fresh[self.variant % len(fresh)], member, inside)
            case ir.Record(value):
                return {} if value in ir.ANYTHING else {"key": self._value(value, "key", inside)}
            case ir.Template(text):
                return re.sub(r"\$\{(\w+)\}", lambda found: "1" if found[1] == "number" else "text", text)
            case ir.Obj() | ir.Derived() | ir.Intersection():
                return self._object(schema.flatten(type_), inside)

    def _items(self, item: ir.TypeExpr, member: str, inside: tuple[str, ...]) -> Json:
        """Return a list with an item of each kind of object, so that one example shows all of them."""
        kinds = [m for m in self.revision.schema.members(item) if self.revision.schema.is_object(m)]
        known = [m for m in kinds if not (isinstance(m, ir.Ref) and m.name in inside)]
        if kinds and not known:
            return []
        return [self._value(m, member, inside) for m in known or (item,)]

    def _object(self, flat: FlatType, inside: tuple[str, ...]) -> Json:
        found: dict[str, Json] = {}
        full = self.optional and len(inside) <= _FULL and self._made < _VALUES
        for each in flat.fields:
            one = each.field
            recursive = any(name in inside for name in ir.references(one.type))
            if one.optional and (not full or recursive or one.tags.internal):
                continue
            if one.name in ENVELOPE_MEMBERS and flat.get("jsonrpc") is not None and one.name == "id":
                found["id"] = 1
            elif one.name == "protocolVersion" and VERSION_CONSTANT in self.revision.schema.consts:
                found[one.name] = self.revision.protocol_version
            else:
                value = self._value(one.type, one.name, inside)
                found[one.name] = _fitting(value, one)
        return found


def _primitive(name: str, member: str) -> Json:
    match name:
        case "string":
            return _TEXTS.get(member, member or "text")
        case "number" | "integer":
            return _NUMBERS.get(member, 1)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return {}


def _fitting(value: Json, member: ir.Field) -> Json:
    """Return a value within the limits that the tags of its member set."""
    tags = member.tags
    if isinstance(value, str) and tags.format in _FORMATS and ":" not in value:
        return _FORMATS[tags.format]
    if isinstance(value, int) and not isinstance(value, bool):
        if tags.maximum is not None and value > tags.maximum:
            return tags.maximum
        if tags.minimum is not None and value < tags.minimum:
            return tags.minimum
    return value
