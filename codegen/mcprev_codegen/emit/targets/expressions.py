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
from typing import Final

from typing_extensions import override

from mcprev_codegen import ir
from mcprev_codegen.emit.json_schema import DIALECT, JsonSchema, Renderer
from mcprev_codegen.python import Code, PythonNames, code, identifier, joined, literal
from mcprev_codegen.resolve import Schema

_BUILTINS: Final = {name: code(name) for name in ("bool", "float", "int", "str")}
_GENERIC: Final = {name: code(name) for name in ("dict", "list", "tuple")}


class UnexpectedCodeError(RuntimeError):
    """datamodel-code-generator wrote something else than expected: a mistake of ours or its own, never of a schema."""


@dataclass(frozen=True)
class Placeholders:
    """What the placeholders in a schema stand for."""

    schema: Schema
    types: list[str]
    """The name of each type `T<index>`."""
    members: list[str] = field(default_factory=list[str])
    """The wire name of each member `m<index>`."""
    texts: list[str] = field(default_factory=list[str])
    """The value of each literal `text<index>`."""

    def document(self) -> JsonSchema:
        """Return the schema with placeholders as JSON Schema.

        All members are required: whether they are, the module says in its own way.
        """
        decls = tuple(self._declaration(n, name) for n, name in enumerate(self.types))
        return {"$schema": DIALECT, "$defs": _Rendered(Schema(ir.Module(decls))).definitions()}

    def _declaration(self, number: int, name: str) -> ir.Decl:
        decl = self.schema.types[name]
        if isinstance(decl, ir.Alias):
            return ir.Alias(f"T{number}", self._type(decl.type, decl.tags))
        flat = self.schema.flat(name)
        index = flat.index and ir.IndexSig("key", self._type(flat.index.value, ir.NO_TAGS))
        fields = tuple(self._member(f.field) for f in flat.fields)
        return ir.Interface(f"T{number}", fields=fields, index=None if fields else index)

    def _member(self, member: ir.Field) -> ir.Field:
        self.members.append(member.name)
        return ir.Field(f"m{len(self.members) - 1}", self._type(member.type, member.tags))

    def _type(self, type_: ir.TypeExpr, tags: ir.Tags) -> ir.TypeExpr:
        return ir.map_nodes(ir.stated_type(type_, tags), self._placeholder)

    def _placeholder(self, node: ir.Node) -> ir.Node:
        assert not isinstance(node, ir.Field), "in a hoisted schema, types have no members"
        if isinstance(node, ir.Lit | ir.ConstRef):
            value = self.schema.literal(node)
            if isinstance(value, str):
                self.texts.append(value)
                return ir.Lit(f"text{len(self.texts) - 1}")
            return ir.Prim("unknown") if value is None or isinstance(value, float) else ir.Lit(value)
        match node:
            case ir.Ref(name):
                return ir.Ref(f"T{self._numbers[name]}")
            case ir.Prim("number"):  # `1` and `1.0` are numbers both, and remain two values
                return ir.Union((ir.Prim("integer"), node))
            case ir.Prim("never"):
                return ir.Prim("null")
            case ir.Prim("object"):
                return ir.Obj((), ir.IndexSig("key", ir.Prim("unknown")))
            case ir.Record(held):
                return ir.Obj((), ir.IndexSig("key", held))
            case ir.Template():
                return ir.Prim("string")
            case ir.Tuple(()):
                return ir.Array(ir.Prim("unknown"))
            case ir.Union(members):
                return ir.union_of(members)
            case _:
                return node

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {name: n for n, name in enumerate(self.types)}


class _Rendered(Renderer):
    """Writes a literal and a tuple as datamodel-code-generator understands them."""

    @override
    def type(self, type_: ir.TypeExpr) -> JsonSchema:
        if isinstance(type_, ir.Lit):
            return {"enum": [type_.value]}
        found = super().type(type_)
        return {**found, "maxItems": len(type_.items)} if isinstance(type_, ir.Tuple) else found


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
                found = _found(self.placeholders.types, "T", name)
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


def declared(schema: Schema, model: str, names: PythonNames) -> Declared:
    """Return the types of a schema; `model` is the kind of model of datamodel-code-generator."""
    placeholders = Placeholders(schema, [*schema.types])
    classes: dict[str, dict[str, ast.expr]] = {}
    aliases: dict[str, ast.expr] = {}
    for node in ast.parse(_generated(placeholders.document(), model)).body:
        match node:
            case ast.ClassDef(name):
                classes[_found(placeholders.types, "T", name)] = dict(_members(node, placeholders))
            case ast.AnnAssign(ast.Name(name), ast.Name("TypeAlias"), ast.expr() as value):
                aliases[_found(placeholders.types, "T", name)] = value
            case _:
                raise UnexpectedCodeError(ast.dump(node))
    if missing := schema.types.keys() - classes.keys() - aliases.keys():
        raise UnexpectedCodeError(f"nothing was written for {', '.join(sorted(missing))}")
    ordered = {name: classes[name] for name in schema.types if name in classes}
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


def _generated(document: JsonSchema, model: str) -> str:
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
