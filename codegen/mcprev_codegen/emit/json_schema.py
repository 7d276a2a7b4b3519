"""Renders the IR as JSON Schema, with all that it says: real numbers, null, open enums, inherited index signatures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.ir import Json
from mcprev_codegen.resolve import FlatType, Schema
from mcprev_codegen.typescript import plain_text

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
JsonSchema = dict[str, Json]


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders the types of one schema."""

    schema: Schema

    def definitions(self) -> JsonSchema:
        """Return every interface and alias as a schema, by name."""
        return {name: self.definition(name) for name in self.schema.types}

    def definition(self, name: str) -> JsonSchema:
        """Return the schema of one declared type, inherited members included."""
        decl = self.schema.types[name]
        if isinstance(decl, ir.Interface):
            return _described(self._object(self.schema.flat(name)), decl.doc)
        return _described(self._tagged(self.type(ir.stated_type(decl.type, decl.tags)), decl.tags), decl.doc)

    def type(self, type_: ir.TypeExpr) -> JsonSchema:
        """Return the schema of a type expression; named types become `$ref`s."""
        match type_:
            case ir.Prim(name):
                return self._primitive(name)
            case ir.Lit(value):
                return {"type": _json_type(value), "const": value}
            case ir.ConstRef(name):
                return self.type(ir.Lit(self.schema.consts[name].value))
            case ir.Ref(name):
                return {"$ref": f"#/$defs/{name}"}
            case ir.Array(item):
                return {"type": "array", "items": self.type(item)}
            case ir.Union(members):
                return self._union(members)
            case ir.Record(value):
                extra = {} if value in ir.ANYTHING else {"additionalProperties": self.type(value)}
                return {"type": "object", **extra}
            case ir.Intersection(members):
                return {"allOf": [self.type(member) for member in members]}
            case ir.Tuple((), None):
                return {"type": "array", "maxItems": 0}
            case ir.Tuple(items, rest):
                return {
                    "type": "array",
                    "prefixItems": [self.type(item) for item in items],
                    "items": False if rest is None else self.type(rest),
                    "minItems": len(items),
                }
            case ir.Template():
                return {"type": "string", "pattern": type_.pattern}
            case ir.Obj() | ir.Derived():
                return self._object(self.schema.flatten(type_))

    def _primitive(self, name: str) -> JsonSchema:
        match name:
            case "unknown" | "any":
                return {}
            case "never":
                return {"not": {}}
            case "object":
                return {"type": "object", "properties": {}, "additionalProperties": True}
            case _:
                return {"type": name}

    def _object(self, flat: FlatType) -> JsonSchema:
        properties: dict[str, Json] = {}
        for f in flat.fields:
            member = self._tagged(self.type(ir.stated_type(f.field.type, f.field.tags)), f.field.tags)
            properties[f.name] = _described(member, f.field.doc)
        node: JsonSchema = {"type": "object"}
        if properties or flat.index is None:
            node["properties"] = properties
        required: list[Json] = [f.name for f in flat.fields if not f.field.optional]
        if required:
            node["required"] = required
        if flat.index is not None:
            node["additionalProperties"] = self.type(flat.index.value)
        return node

    def _union(self, members: tuple[ir.TypeExpr, ...]) -> JsonSchema:
        values = [self.schema.literal(m) for m in members]
        if values and all(isinstance(v, str) for v in values):
            return {"type": "string", "enum": list(values)}
        if all(
            isinstance(m, ir.Prim) and m.name not in ("unknown", "any", "object", "never") for m in members
        ):
            names = [str(self.type(m)["type"]) for m in members]
            return {"type": names[0] if len(names) == 1 else list(dict.fromkeys(names))}
        strings: list[Json] = [v for v in values if isinstance(v, str)]
        if len(strings) < 2:
            return {"anyOf": [self.type(m) for m in members]}
        others = [self.type(m) for m, v in zip(members, values, strict=True) if not isinstance(v, str)]
        return {"anyOf": [{"type": "string", "enum": strings}, *others]}

    def _tagged(self, node: JsonSchema, tags: ir.Tags) -> JsonSchema:
        """Return the schema of a type with the constraints of its JSDoc tags."""
        node = dict(node)
        if tags.format is not None:
            node["format"] = tags.format
        node |= {row.keyword: limit for row, limit in ir.limits_of(tags).items()}
        if tags.default is not None:
            node["default"] = json.loads(tags.default)
        if tags.deprecated:
            node["deprecated"] = True
        return node


def schema_document(schema: Schema, comment: str, identifier: str) -> JsonSchema:
    """Return the faithful schema of a revision."""
    return {
        "$schema": DIALECT,
        "$id": identifier,
        "$comment": comment,
        "$defs": Renderer(schema).definitions(),
    }


def _json_type(value: ir.Literal) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    return "number" if isinstance(value, float) else "string"


def _described(node: JsonSchema, doc: ir.Doc) -> JsonSchema:
    return {"description": plain_text(doc.text), **node} if doc.text else node
