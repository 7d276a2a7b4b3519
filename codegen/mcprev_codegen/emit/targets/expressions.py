"""Type expressions as Python, by datamodel-code-generator, which reads no text of a schema.

It is given a JSON Schema in which every name and string is a placeholder, and no description, default, format, limit or
pattern. What it writes is parsed: anything but classes, aliases and type expressions of placeholders is an error, and
each expression is written again by this module, with the names and strings in the places of the placeholders.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias, cast

from mcprev_codegen.emit.json_schema import DIALECT, JsonSchema
from mcprev_codegen.ir import Json
from mcprev_codegen.python import Code, PythonNames, code, identifier, joined, literal

Document: TypeAlias = dict[str, Any]
_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_BUILTINS: Final = {name: code(name) for name in ("bool", "float", "int", "str")}
_GENERIC: Final = {name: code(name) for name in ("dict", "list", "tuple")}


class UnexpectedCodeError(RuntimeError):
    """datamodel-code-generator wrote something else than expected: a mistake of ours or its own, never of a schema."""


@dataclass(frozen=True)
class Placeholders:
    """A JSON Schema with placeholders, and what they stand for."""

    definitions: JsonSchema
    """The faithful schema of every type; the type `T<index>` is the one at that index."""
    members: list[str] = field(default_factory=list[str])
    """The wire name of each member `m<index>`."""
    texts: list[str] = field(default_factory=list[str])
    """The value of each literal `text<index>`."""

    def document(self) -> Document:
        """Return the schema with placeholders."""
        found = {f"T{n}": self._schema(node) for n, node in enumerate(self.definitions.values())}
        return {"$schema": DIALECT, "$defs": found}

    @cached_property
    def names(self) -> list[str]:
        """The name of each type."""
        return [*self.definitions]

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {name: n for n, name in enumerate(self.names)}

    def _schema(self, value: Json) -> Document:
        match value:
            case {"$ref": str(path)}:
                return {"$ref": f"#/$defs/T{self._numbers[path.removeprefix('#/$defs/')]}"}
            case {"const": constant}:
                return self._literals([constant])
            case {"enum": list(constants)}:
                return self._literals(constants)
            case {"anyOf": list(members)}:
                return {"anyOf": [self._schema(member) for member in members]}
            case {"allOf": list(members)}:
                return {"allOf": [self._schema(member) for member in members]}
            case {"type": "array", "prefixItems": list(items)} if items:
                parts = [self._schema(item) for item in items]
                size = len(parts)
                return {
                    "type": "array",
                    "prefixItems": parts,
                    "items": False,
                    "minItems": size,
                    "maxItems": size,
                }
            case {"type": "array", "items": dict(item)}:
                return {"type": "array", "items": self._schema(cast("Json", item))}
            case {"type": "object", **rest}:
                return self._object(cast("JsonSchema", rest))
            case {"type": str(name)}:
                return self._simple([name])
            case {"type": list(names)}:
                return self._simple(names)
            case _:
                return {}

    def _literals(self, values: list[Json]) -> Document:
        shown: list[Json] = []
        for value in values:
            if isinstance(value, str):
                shown.append(f"text{len(self.texts)}")
                self.texts.append(value)
            elif isinstance(value, bool | int):
                shown.append(value)
            else:
                return {}
        return {"enum": shown}

    def _object(self, schema: JsonSchema) -> Document:
        """Return an object whose members are all required: whether they are, the module says in its own way."""
        properties = cast("JsonSchema", schema.get("properties", {}))
        if properties or ("properties" in schema and "additionalProperties" not in schema):
            shown: Document = {}
            for name, member in properties.items():
                shown[f"m{len(self.members)}"] = None
                self.members.append(name)
                shown[f"m{len(self.members) - 1}"] = self._schema(member)
            return {"type": "object", "properties": shown, "required": [*shown]}
        return {"type": "object", "additionalProperties": self._schema(schema.get("additionalProperties"))}

    def _simple(self, names: list[Json]) -> Document:
        if not all(name in _TYPES for name in names):
            return {}
        # `1` and `1.0` are numbers both, and remain two values.
        return {
            "type": [
                kind for name in names for kind in (("integer", "number") if name == "number" else (name,))
            ]
        }


@dataclass(frozen=True)
class Declared:
    """What a library's types look like, expressions still with placeholders."""

    placeholders: Placeholders
    names: PythonNames
    classes: Mapping[str, Mapping[str, ast.expr]]
    """The types of the members by wire name, of every class by name, in source order."""
    aliases: Mapping[str, ast.expr]
    """The aliases, each after those that it refers to, unless they refer to each other."""
    used: set[str] = field(default_factory=set[str])
    """The names in the expressions that were written."""

    def expression(self, node: ast.expr, defined: Collection[str] | None = None) -> tuple[Code, ...]:
        """Return the members of a union, or a type alone; types that are not yet `defined` are quoted."""
        match node:
            case ast.BinOp(left, ast.BitOr(), right):
                parts = [left, right]
            case ast.Subscript(ast.Name("Union"), ast.Tuple(elements)):
                parts = elements
            case ast.Subscript(ast.Name("Optional"), inner):
                parts = [inner, ast.Constant(None)]
            case _:
                return (self._single(node, defined),)
        return tuple(dict.fromkeys(found for part in parts for found in self.expression(part, defined)))

    def union(self, parts: Collection[Code]) -> Code:
        """Return a union; with `Union` if a part is quoted, which `|` does not support."""
        if len(parts) > 1 and any(part.startswith('"') for part in parts):
            self.used.add("Union")
            return code("Union[{}]", joined(", ", parts))
        return joined(" | ", parts)

    def _single(self, node: ast.expr, defined: Collection[str] | None) -> Code:
        match node:
            case ast.Constant(None):
                return code("None")
            case ast.Constant(str(quoted)):
                return self.union(self.expression(ast.parse(quoted, mode="eval").body, defined))
            case ast.Name("Any"):
                self.used.add("Any")
                return code("Any")
            case ast.Name(name) if name in _BUILTINS:
                self.used.add(name)
                return _BUILTINS[name]
            case ast.Name(name):
                found = _found(self.placeholders.names, "T", name)
                known = defined is None or found in defined
                shown = identifier(self.names.class_name(found))
                self.used.add(shown)
                return shown if known else code('"{}"', shown)
            case ast.Subscript(ast.Name("Literal"), inner):
                self.used.add("Literal")
                return code("Literal[{}]", joined(", ", map(self._literal, _elements(inner))))
            case ast.Subscript(ast.Name(name), inner) if name in _GENERIC:
                self.used.add(name)
                items = (self.union(self.expression(each, defined)) for each in _elements(inner))
                return code("{}[{}]", _GENERIC[name], joined(", ", items))
            case _:
                raise UnexpectedCodeError(ast.dump(node))

    def _literal(self, node: ast.expr) -> Code:
        match node:
            case ast.Constant(str(text)):
                return literal(_found(self.placeholders.texts, "text", text))
            case ast.Constant(bool() | int() as value):
                return literal(value)
            case ast.UnaryOp(ast.USub(), ast.Constant(int(value))):
                return literal(-value)
            case _:
                raise UnexpectedCodeError(ast.dump(node))


def declared(definitions: JsonSchema, model: str, names: PythonNames) -> Declared:
    """Return the types of some definitions; `model` is the kind of model of datamodel-code-generator."""
    placeholders = Placeholders(definitions)
    classes: dict[str, dict[str, ast.expr]] = {}
    aliases: dict[str, ast.expr] = {}
    for node in ast.parse(_generated(placeholders.document(), model)).body:
        match node:
            case ast.ClassDef(name):
                classes[_found(placeholders.names, "T", name)] = dict(_members(node, placeholders))
            case ast.AnnAssign(ast.Name(name), ast.Name("TypeAlias"), ast.expr() as value):
                aliases[_found(placeholders.names, "T", name)] = value
            case _:
                raise UnexpectedCodeError(ast.dump(node))
    if missing := definitions.keys() - classes.keys() - aliases.keys():
        raise UnexpectedCodeError(f"nothing was written for {', '.join(sorted(missing))}")
    ordered = {name: classes[name] for name in definitions if name in classes}
    return Declared(placeholders, names, ordered, aliases)


def _members(node: ast.ClassDef, placeholders: Placeholders) -> Iterator[tuple[str, ast.expr]]:
    for line in node.body:
        match line:
            case ast.Pass():
                pass
            case ast.AnnAssign(ast.Name(name), annotation, None):
                yield _found(placeholders.members, "m", name), annotation
            case _:
                raise UnexpectedCodeError(ast.dump(line))


def _elements(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _found(items: Sequence[str], prefix: str, name: str) -> str:
    """Return what a placeholder stands for."""
    number = name.removeprefix(prefix)
    if name == number or not re.fullmatch(r"[0-9]{1,9}", number) or int(number) >= len(items):
        raise UnexpectedCodeError(name)
    return items[int(number)]


def _generated(document: Document, model: str) -> str:
    import datamodel_code_generator as dcg
    from datamodel_code_generator.enums import DataModelType
    from datamodel_code_generator.model import get_data_model_types
    from datamodel_code_generator.parser.jsonschema import JsonSchemaParser

    version = dcg.PythonVersion.PY_311
    types = get_data_model_types(DataModelType(model), target_python_version=version, use_type_alias=True)
    parser = JsonSchemaParser(
        json.dumps(document),
        data_model_type=types.data_model,
        data_model_root_type=types.root_model,
        data_model_field_type=types.field_model,
        data_type_manager_type=types.data_type_manager,
        target_python_version=version,
        naming_strategy=dcg.NamingStrategy.PrimaryFirst,
        enum_field_as_literal=dcg.LiteralType.All,
        use_type_alias=True,
        skip_root_model=True,
        use_union_operator=True,
        use_standard_collections=True,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of unions that msgspec cannot decode, which are no unions here
        found = parser.parse(with_import=False, format_=False)
    if not isinstance(found, str):
        raise UnexpectedCodeError("several modules")
    return found
