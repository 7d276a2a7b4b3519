"""Constants of several values: `as const` and declared ones, which describe data only by the types of their values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tree_sitter import Node

from mcprev_codegen import ir
from mcprev_codegen.typescript.bounds import MAX_DEPTH
from mcprev_codegen.typescript.reader.text.literals import read_literal
from mcprev_codegen.typescript.reader.text.source_file import SourceFile, named_children, node_text
from mcprev_codegen.typescript.reader.types.expressions import TypeReader

_VALUES: Final = ("array", "object")
_TYPES: Final = (
    "array_type", "generic_type", "intersection_type", "lookup_type", "nested_type_identifier", "object_type", "parenthesized_type",
    "predefined_type", "readonly_type", "template_literal_type", "tuple_type", "type_identifier", "type_query", "union_type",
)  # fmt: skip


def bare_value(value: Node) -> tuple[Node, bool]:
    """Return a value without `as const` and `satisfies` behind it, and whether there is `as const`."""
    exact = False
    while value.type == "satisfies_expression" or (
        value.type == "as_expression" and value.children[-1].type == "const"
    ):
        exact = exact or value.type == "as_expression"
        value = named_children(value)[0]
    return value, exact


def is_composite(declaration: Node) -> bool:
    """Return whether a constant is no single value: a list or object `as const`, or one that has its type instead of a value."""
    return _declared_type(declaration) is not None or _composite_value(declaration) is not None


def _declared_type(declaration: Node) -> Node | None:
    type_ = named_children(declaration)[0].child_by_field_name("type")
    value = named_children(declaration)[0].child_by_field_name("value")
    inner = named_children(type_)[0] if type_ is not None and value is None else None
    is_data = inner is not None and inner.type in _TYPES and not node_text(inner).endswith("symbol")
    return inner if is_data else None


def _composite_value(declaration: Node) -> Node | None:
    value = named_children(declaration)[0].child_by_field_name("value")
    if value is None:
        return None
    plain, exact = bare_value(value)
    return plain if exact and plain.type in _VALUES else None


@dataclass(frozen=True)
class Values:
    """Reads the types of such constants in one file."""

    _file: SourceFile
    _types: TypeReader
    _constant: Callable[[Node, str], ir.TypeExpr]
    """Returns the type of another constant."""

    def type(self, declaration: Node) -> ir.TypeExpr:
        """Return the type of a constant of several values. Raises `SchemaError` for values that JSON does not have."""
        declared = _declared_type(declaration)
        if declared is not None:
            return self._types.type(declared)
        value = _composite_value(declaration)
        assert value is not None
        return self._value(value, 0)

    def _value(self, node: Node, depth: int) -> ir.TypeExpr:
        self._file.count(node)
        if depth == MAX_DEPTH:
            self._file.fail(node, f"values are nested more than {MAX_DEPTH} deep; give the inner ones names")
        node, _ = bare_value(node)
        match node.type:
            case "array":
                return ir.Tuple(tuple(self._value(item, depth + 1) for item in named_children(node)))
            case "object":
                members = [self._member(pair, depth + 1) for pair in named_children(node)]
                return ir.Obj(tuple({member.name: member for member in members}.values()))
            case "identifier" | "member_expression":
                return self._types.written_out(node, self._constant(node, node_text(node)))
            case "null":
                return ir.Prim("null")
            case _:
                return ir.Lit(read_literal(self._file, node))

    def _member(self, node: Node, depth: int) -> ir.Field:
        if node.type == "shorthand_property_identifier":
            return ir.Field(
                node_text(node), self._types.written_out(node, self._constant(node, node_text(node)))
            )
        if node.type != "pair":
            self._file.unsupported(node, "as a member of a constant")
        key, value = named_children(node)
        if key.type not in ("property_identifier", "string", "number"):
            self._file.unsupported(key, "on a member")
        return ir.Field(self._types.name(key), self._value(value, depth))
