"""A normal form in which two JSON Schemas that say the same are equal, for the subset that MCP's use.

A schema becomes the set of alternatives it allows. That levels what carries no meaning:

- the order of `anyOf`, `enum`, `required`, `properties` and lists of types (all are sets);
- `const` against an `enum` of one, `type: [a, b]` against `anyOf` of both, `type` beside an `enum` that it
  repeats, nested `anyOf`;
- a `$ref` to a definition that only names something else (a value, a list, a map, a union): upstream's
  generator inlines some of these and refers to others. References to objects with members stay references,
  so that a difference counts once, where it is made. A union that leads back to itself is opened once;
- `additionalProperties: true`, `{}` or absent (schemas are open), `properties: {}` or absent;
- descriptions and deprecation, which say nothing about which values are valid.

What stays apart: an open enum is not folded into `string`, integers are not folded into numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain
from typing import Any, Final, TypeAlias

Alternatives: TypeAlias = frozenset[tuple[object, ...]]
Definitions: TypeAlias = Mapping[str, Any]

ANY: Final[Alternatives] = frozenset({("any",)})
_NOTES: Final = frozenset({"description", "deprecated"})
_SHAPE: Final = frozenset({"type", "properties", "required", "additionalProperties", "items"})


def definition(name: str, definitions: Definitions) -> Alternatives:
    """The normal form of one definition, its body opened even when it is only a reference."""
    node = definitions[name]
    while "$ref" in node:
        node = definitions[_target(node)]
    return schema(node, definitions)


def schema(node: Any, definitions: Definitions, inside: frozenset[str] = frozenset()) -> Alternatives:
    """The alternatives of one schema; `inside` are the unions that are being opened."""
    if node is True:
        return ANY
    node = {key: value for key, value in node.items() if key not in _NOTES}
    if "$ref" in node:
        return _reference(_target(node), definitions, inside)
    if "anyOf" in node:
        assert set(node) == {"anyOf"}, f"beside anyOf: {set(node)}"
        branches = (schema(branch, definitions, inside) for branch in node["anyOf"])
        return frozenset(chain.from_iterable(branches))
    if "allOf" in node:
        assert set(node) == {"allOf"}, f"beside allOf: {set(node)}"
        parts = frozenset(schema(branch, definitions, inside) for branch in node["allOf"])
        return frozenset({("all", parts)})
    values = [node["const"]] if "const" in node else node.get("enum")
    if values is not None:
        assert all(_kind(value) == node.get("type", _kind(value)) for value in values)
        return frozenset({("value", json.dumps(value)) for value in values})
    if "type" not in node:
        assert not node, f"no type: {node}"
        return ANY
    types = node["type"] if isinstance(node["type"], list) else [node["type"]]
    return frozenset(_typed(type_, node, definitions, inside) for type_ in types)


def _typed(
    type_: str, node: Mapping[str, Any], definitions: Definitions, inside: frozenset[str]
) -> tuple[object, ...]:
    limits = frozenset((key, json.dumps(value)) for key, value in node.items() if key not in _SHAPE)
    if type_ == "array":
        return ("array", schema(node.get("items", {}), definitions, inside), limits)
    if type_ == "object":
        members = frozenset(
            (name, schema(member, definitions, inside)) for name, member in node.get("properties", {}).items()
        )
        others = schema(node.get("additionalProperties", True), definitions, inside)
        return ("object", members, frozenset(node.get("required", ())), others, limits)
    return (type_, limits)


def _reference(name: str, definitions: Definitions, inside: frozenset[str]) -> Alternatives:
    target = definitions[name]
    if target.get("type") == "object" and target.get("properties"):
        return frozenset({("ref", name)})
    if "anyOf" not in target:
        return schema(target, definitions, inside)
    if name in inside:
        return frozenset({("ref", name)})
    return schema(target, definitions, inside | {name})


def _target(node: Mapping[str, Any]) -> str:
    return str(node["$ref"]).rpartition("/")[2]


def _kind(value: object) -> str:
    kinds: dict[type, str] = {bool: "boolean", str: "string", int: "integer", float: "number"}
    return kinds[type(value)]
