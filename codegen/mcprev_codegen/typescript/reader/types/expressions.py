"""Reads types: each kind of node that is a type has one method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final

from tree_sitter import Node

from mcprev_codegen import ir
from mcprev_codegen.errors import NoDataError
from mcprev_codegen.typescript.bounds import MAX_DEPTH
from mcprev_codegen.typescript.jsdoc import comment_body
from mcprev_codegen.typescript.reader.text.literals import (
    read_literal,
    read_number,
    read_string,
    shown_number,
)
from mcprev_codegen.typescript.reader.text.source_file import (
    SourceFile,
    flatten,
    named_children,
    node_text,
)
from mcprev_codegen.typescript.reader.types.operators import UNDEFINED, Operators
from mcprev_codegen.typescript.reader.types.scope import TypeScope
from mcprev_codegen.typescript.reader.types.tuples import Items
from mcprev_codegen.typescript.reader.unsupported import CODE, NOT_JSON, PLAIN_DATA

_PRIMITIVES: Final = frozenset({"string", "number", "boolean", "unknown", "any", "object"})
_NO_DATA: Final = {
    "symbol": "symbols", "unique symbol": "symbols", "void": "what has no value", "never": "what has no value",
    "bigint": "values of bigint",
}  # fmt: skip
"""What has no values in JSON, in the plural, by its keyword."""
_ANY_VALUE: Final = ir.Obj()
"""`{}`, which beside a primitive type means any value of it: editors offer the literals beside `string & {}`."""
_KEYS: Final = (ir.Prim("string"), ir.Prim("number"))
_WITH_NULL: Final = ir.ANYTHING | {ir.Prim("null")}
"""The types of which `{}` leaves values out."""


class TypeReader:
    """Reads types and members in one file; a scope says what their names mean."""

    def __init__(
        self, file: SourceFile, scope: TypeScope, leave_out: Callable[[Node, str], None] | None = None
    ) -> None:
        self._file = file
        self._scope = scope
        self._leave_out = leave_out
        """Takes note of a member that describes no data, with its kind; None if such members are refused."""
        self._operators = Operators(file, scope, self.type, self._member_type)
        self._depth = 0
        self._absent = False
        """Whether `undefined` may be a part of the type that is being read."""
        self._readers: Mapping[str, Callable[[Node], ir.TypeExpr]] = {
            "predefined_type": self._predefined,
            "type_identifier": self._name_of_type,
            "nested_type_identifier": lambda node: scope.reference(node, node_text(node)),
            "literal_type": self._literal,
            "function_type": self._function,
            "constructor_type": self._function,
            "union_type": self._union,
            "intersection_type": self._intersection,
            "array_type": lambda node: ir.Array(self.type(named_children(node)[0])),
            "member_expression": self._import_type,
            "parenthesized_type": lambda node: self._nested(named_children(node)[0], absent=self._absent),
            "readonly_type": lambda node: self.type(named_children(node)[0]),
            "object_type": self._object,
            "tuple_type": self._tuple,
            "template_literal_type": self._operators.template,
            "generic_type": self._generic,
            "type_query": self._query,
            "index_type_query": self._operators.keyof,
            "lookup_type": lambda node: self._operators.lookup(node, absent=self._absent),
        }

    def type(self, node: Node) -> ir.TypeExpr:
        """Return a type. Raises `SchemaError` if it is not supported."""
        return self._nested(node, absent=False)

    def written_out(self, node: Node, type_: ir.TypeExpr) -> ir.TypeExpr:
        """Return a type that is repeated here. Raises `SchemaError` if that makes the file too large or deep."""
        return self._operators.written_out(node, type_)

    def member(self, node: Node, type_: ir.TypeExpr, name: str) -> ir.TypeExpr:
        """Return the type of a member of a type. Raises `SchemaError` if it has none of that name."""
        return self._operators.member_type(node, type_, name)

    def base(self, node: Node) -> ir.TypeExpr:
        """Return the type that an interface extends."""
        if node.type == "nested_identifier":  # as a base, `A.B` is parsed as an expression
            return self._scope.reference(node, node_text(node))
        return self.type(node)

    def annotation(self, node: Node) -> ir.TypeExpr:
        """Return the type behind a colon."""
        (inner,) = named_children(node)
        return self.type(inner)

    def member_annotation(self, node: Node) -> tuple[ir.TypeExpr, bool]:
        """Return the type of a member, and whether `undefined` is one of its values: the member may be absent."""
        (inner,) = named_children(node)
        return self._member_type(inner)

    def alias(self, node: Node) -> ir.TypeExpr:
        """Return the type of an alias, without `undefined`, which makes members of it optional."""
        inner = node
        while inner.type == "parenthesized_type":
            (inner,) = named_children(inner)
        if inner.type in ("function_type", "constructor_type"):
            return self.type(node)
        type_, _ = self._member_type(node)
        if type_ == ir.NEVER:
            self._file.fail(node, "this type has no value in JSON; leave it out", code="what has no value")
        return type_

    def _member_type(self, inner: Node) -> tuple[ir.TypeExpr, bool]:
        type_ = self._nested(inner, absent=True)
        parts = type_.members if isinstance(type_, ir.Union) else (type_,)
        kept = [part for part in parts if part != UNDEFINED]
        if not kept:
            return ir.NEVER, True
        return (type_, False) if len(kept) == len(parts) else (ir.union_of(kept), True)

    def _nested(self, node: Node, *, absent: bool) -> ir.TypeExpr:
        self._file.count(node)
        if self._depth == MAX_DEPTH:
            self._file.fail(node, f"types are nested more than {MAX_DEPTH} deep; give the inner ones names")
        reader = self._readers.get(node.type)
        if reader is None:
            self._file.unsupported(node, "as a type")
        outer, self._absent = self._absent, absent
        self._depth += 1
        try:
            return reader(node)
        finally:
            self._depth -= 1
            self._absent = outer

    def _name_of_type(self, node: Node) -> ir.TypeExpr:
        name = node_text(node)
        if self._absent and self._leave_out is not None and self._scope.is_function(name):
            self._leave_out(node, "functions")
            return UNDEFINED
        found = self._scope.reference(node, name)
        return ir.union_of((found, UNDEFINED)) if self._absent and self._scope.may_be_absent(name) else found

    def _import_type(self, node: Node) -> ir.TypeExpr:
        """Return `import("./file").Name`."""
        inner, names = node, list[str]()
        while inner.type == "member_expression":
            inner, name = named_children(inner)
            names.append(node_text(name))
        if inner.type != "call_expression" or inner.children[0].type != "import":
            self._file.unsupported(node, "as a type")
        source = node_text(named_children(inner)[-1])[2:-2]
        return self._scope.imported(node, source, ".".join(reversed(names)))

    def _function(self, node: Node) -> ir.TypeExpr:
        """Return the value that JSON has for a function: none, so that a member is absent."""
        if self._leave_out is None or not self._absent:
            self._file.unsupported(node, "as a type")
        self._leave_out(node, "functions")
        return UNDEFINED

    # -- kinds of types ------------------------------------------------------------------------------

    def _predefined(self, node: Node) -> ir.Prim:
        if node_text(node) in ("void", "never") and self._absent:
            return UNDEFINED
        if node_text(node) not in _PRIMITIVES:
            instead = NOT_JSON.get(node_text(node), PLAIN_DATA)
            code = _NO_DATA.get(node_text(node), "")
            self._file.fail(
                node, f"the type '{node_text(node)}' has no equivalent in JSON; {instead}", code=code
            )
        return ir.Prim(node_text(node))

    def _literal(self, node: Node) -> ir.TypeExpr:
        (value,) = named_children(node)
        if value.type == "undefined" and self._absent:
            return UNDEFINED
        if value.type == "undefined" and self._leave_out is not None:
            self._file.fail(node, "undefined has no value in JSON; leave it out", code="what has no value")
        return ir.Prim("null") if value.type == "null" else ir.Lit(read_literal(self._file, value))

    def _union(self, node: Node) -> ir.TypeExpr:
        return ir.union_of(self._nested(part, absent=self._absent) for part in flatten(node, node.type))

    def _intersection(self, node: Node) -> ir.TypeExpr:
        found: list[ir.TypeExpr] = []
        for part in flatten(node, node.type):
            member = self.type(part)
            found += member.members if isinstance(member, ir.Intersection) else [member]
        if any(isinstance(part, ir.Prim | ir.Lit | ir.Template) and part not in _WITH_NULL for part in found):
            found = [part for part in found if part != _ANY_VALUE]
        return found[0] if len(found) == 1 else ir.Intersection(tuple(found))

    def _object(self, node: Node) -> ir.TypeExpr:
        members = named_children(node)
        if len(members) == 1 and [c.type for c in named_children(members[0])[:1]] == ["mapped_type_clause"]:
            return self._operators.mapped(members[0], self.member_annotation)
        return ir.Obj(*self.members((node, None)))

    def _tuple(self, node: Node) -> ir.TypeExpr:
        """Return a tuple, whose items may have names; one with optional items is a union of tuples."""
        items = Items(self._file)
        for item in named_children(node):
            named = item.type in ("optional_parameter", "required_parameter")
            spread = item.type == "rest_type" or (named and named_children(item)[0].type == "rest_pattern")
            optional = item.type in ("optional_parameter", "optional_type")
            inner = named_children(item)[-1] if named or optional or spread else item
            type_ = self.annotation(inner) if inner.type == "type_annotation" else self.type(inner)
            if spread:
                items.spread(item, self._operators.alternatives(item, type_))
            elif optional:
                items.optional(item, type_)
            else:
                items.required(item, type_)
        return items.type()

    def _generic(self, node: Node) -> ir.TypeExpr:
        name_node, args_node = named_children(node)
        name, args = node_text(name_node), named_children(args_node)
        if self._scope.is_generic(name):
            return self._scope.use(node, name, [self.type(arg) for arg in args])
        return self._operators.utility(node, name, args)

    def _query(self, node: Node) -> ir.TypeExpr:
        (value,) = named_children(node)
        if value.type not in ("identifier", "member_expression"):
            self._file.unsupported(node, "as a type")
        return self.written_out(node, self._scope.constant(node, node_text(value)))

    # -- members -------------------------------------------------------------------------------------

    def members(
        self, *bodies: tuple[Node, AbstractContextManager[None] | None]
    ) -> tuple[tuple[ir.Field, ...], ir.IndexSig | None]:
        """Return the members between braces, and the index signature among them; further bodies are merged.

        The context of each lets errors in it name its file; None if that is being read.
        """
        fields: dict[str, ir.Field] = {}
        index: ir.IndexSig | None = None
        for body, context in bodies:
            if context is None:
                index = self._body(body, fields, index)
                continue
            with context:
                index = self._body(body, fields, index)
        return tuple(fields.values()), index

    def _body(self, body: Node, fields: dict[str, ir.Field], index: ir.IndexSig | None) -> ir.IndexSig | None:
        own: set[str] = set()
        for child, above, trailing in self._file.siblings(body):
            if child.type == "index_signature":
                found = self._index(child)
                if found is None:
                    continue
                if index is not None and found.value != index.value:
                    found = replace(found, value=ir.union_of(dict.fromkeys((index.value, found.value))))
                index = found
            elif child.type == "property_signature":
                member = self._property(child, above, trailing)
                if member is None:
                    continue
                first = fields.setdefault(member.name, member)
                if member.name in own or (first.type, first.optional) != (member.type, member.optional):
                    self._file.fail(child, f"member '{member.name}' is declared twice; leave one of them out")
                own.add(member.name)
            elif self._leave_out is not None and child.type in CODE:
                self._leave_out(child, CODE[child.type])
            else:
                self._file.unsupported(child, "as a member")
        return index

    def _property(self, node: Node, above: Sequence[Node], trailing: Sequence[Node]) -> ir.Field | None:
        """Return a member; None for one that describes no data, which is left out."""
        optional, absent, name, type_ = False, False, "", None
        for child in node.children:
            match child.type:
                case "property_identifier" | "string" | "number":
                    name = self.name(child)
                case "?":
                    optional = True
                case "readonly" | "comment":
                    pass
                case "computed_property_name" if self._leave_out is not None:
                    found = self._computed_name(child)
                    if found is None:
                        self._leave_out(node, CODE[child.type])
                        return None
                    name = found
                case "type_annotation":
                    (inner,) = named_children(child)
                    if self._is_function(inner):
                        return None
                    if node_text(inner) == "never" and not optional:
                        self._file.fail(
                            inner,
                            "no value has a member of the type 'never'; write `?` behind its name if it must be absent",
                            code="what has no value",
                        )
                    type_, absent = self.member_annotation(child)
                case _:
                    self._file.unsupported(child, "on a member")
        if type_ is None:
            self._file.fail(node, f"member '{name}' has no type; write a colon and the type")
        tags, doc = self._file.docs(above)
        if trailing and doc.text is None and doc.notes is None:
            doc = replace(doc, notes=comment_body(node_text(trailing[0])))
        return ir.Field(
            name, type_, optional or absent, tags, doc, self._file.span(node), absent and not optional
        )

    def _is_function(self, node: Node) -> bool:
        """Return whether the type of a member is a function, which is left out."""
        while node.type == "parenthesized_type":
            (node,) = named_children(node)
        functions = node.type in ("function_type", "constructor_type") or (
            node.type == "type_identifier" and self._scope.is_function(node_text(node))
        )
        if not functions or self._leave_out is None:
            return False
        self._leave_out(node, "functions")
        return True

    def _computed_name(self, node: Node) -> str | None:
        """Return the name of a member that a constant or a literal in brackets says; None for any other."""
        (inner,) = named_children(node)
        if inner.type in ("string", "number"):
            return self.name(inner)
        if inner.type not in ("identifier", "member_expression"):
            return None
        try:
            value = self._scope.constant_value(inner, node_text(inner))
        except NoDataError:
            return None
        return value if isinstance(value, str) else None

    def name(self, node: Node) -> str:
        """Return the name of a member."""
        if node.type == "string":
            return read_string(self._file, node)
        if node.type != "number":
            return self._file.name(node)
        text = shown_number(read_number(self._file, node, node_text(node)))
        if text is None:
            self._file.fail(node, "this number is not supported as a name; write it in quotes")
        return text

    def _index(self, node: Node) -> ir.IndexSig | None:
        named = named_children(node)
        kinds = [child.type for child in named]
        if self._leave_out is not None and "symbol" in map(node_text, named[1:2]):
            self._leave_out(node, "symbols")
            return None
        if kinds[:1] != ["identifier"] or kinds[2:] != ["type_annotation"]:
            mapped = kinds[0] == "mapped_type_clause"
            self._file.unsupported(named[0], "beside other members" if mapped else "as an index signature")
        key, key_type, annotation = named
        kinds_of_keys = [*self._operators.alternatives(key_type, self.type(key_type))]
        if not all(kind in _KEYS or isinstance(kind, ir.Template) for kind in kinds_of_keys):
            self._file.fail(
                key_type,
                "only string, number and template keys are supported in an index signature; write string, or name the members",
            )
        return ir.IndexSig(node_text(key), *self.member_annotation(annotation))
