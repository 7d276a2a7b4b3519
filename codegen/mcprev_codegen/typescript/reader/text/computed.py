"""Values that TypeScript computes for the members of enums: flags, sums, and texts put together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tree_sitter import Node

from mcprev_codegen import ir
from mcprev_codegen.typescript.bounds import MAX_DEPTH
from mcprev_codegen.typescript.reader.text.literals import (
    EXACT,
    joined_texts,
    read_literal,
    read_string,
    shown_number,
    string_piece,
)
from mcprev_codegen.typescript.reader.text.source_file import SourceFile, named_children, node_text

_BITS: Final = 2**32


def _whole(value: float, bits: int = _BITS) -> int:
    """Return a number as JavaScript takes it for operators of bits: 32 of them, with a sign."""
    found = int(value) % bits
    return found - bits if found >= bits // 2 else found


def _bits(compute: Callable[[int, int], int]) -> Callable[[float, float], float]:
    return lambda left, right: _whole(compute(_whole(left), _whole(right)))


_OPERATORS: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
    "%": math.fmod,
    "**": math.pow,
    "|": _bits(lambda left, right: left | right),
    "&": _bits(lambda left, right: left & right),
    "^": _bits(lambda left, right: left ^ right),
    "<<": _bits(lambda left, right: left << (right % 32)),
    ">>": _bits(lambda left, right: left >> (right % 32)),
    ">>>": lambda left, right: (int(left) % _BITS) >> (_whole(right) % 32),
}
_SIGNS: Final[Mapping[str, Callable[[float], float]]] = {
    "-": lambda value: -value,
    "+": lambda value: value,
    "~": lambda value: ~_whole(value),
}


def _is_negative(node: Node) -> bool:
    """Return whether an expression is a number with a minus, which is a literal."""
    return node.children[0].type == "-" and node.children[1].type == "number"


@dataclass(frozen=True)
class Computed:
    """Reads the values of the members of an enum."""

    _file: SourceFile
    _known: Callable[[Node, str], ir.Literal | None]
    """Returns the value of a constant or of a member of an enum; None for any other name."""

    def value(self, node: Node, depth: int = 0) -> ir.Literal:
        """Return the value of an expression. Raises `SchemaError` for one that is no constant, or has no value in JSON."""
        self._file.count(node)
        if depth == MAX_DEPTH:
            self._file.fail(node, f"values are nested more than {MAX_DEPTH} deep; write the value out")
        match node.type:
            case "parenthesized_expression":
                return self.value(named_children(node)[0], depth + 1)
            case "binary_expression":
                return self._binary(node, depth)
            case "unary_expression" if node.children[0].type in _SIGNS and not _is_negative(node):
                sign, operand = node.children
                return self._number(node, _SIGNS[sign.type](self._operand(operand, depth)))
            case "template_string":
                return joined_texts(
                    self._file, node, [self._part(child, depth) for child in named_children(node)]
                )
            case "identifier" | "member_expression" | "subscript_expression":
                return self._named(node)
            case _:
                return read_literal(self._file, node)

    def _binary(self, node: Node, depth: int) -> ir.Literal:
        """Return the value of operands between operators, which nest to the left, of any number."""
        behind: list[tuple[Node, str, Node]] = []
        first = node
        while first.type == "binary_expression":
            left, between, right = first.children[0], first.children[1], first.children[-1]
            behind.append((first, between.type, right))
            first = left
        found = self.value(first, depth + 1)
        for place, sign, right in reversed(behind):
            self._file.count(place)
            other = self.value(right, depth + 1)
            if sign == "+" and (isinstance(found, str) or isinstance(other, str)):
                found = joined_texts(
                    self._file, place, [self._shown(place, found), self._shown(place, other)]
                )
                continue
            compute = _OPERATORS.get(sign)
            if compute is None or isinstance(found, str | bool) or isinstance(other, str | bool):
                self._file.unsupported(place, "as the value of a member of an enum")
            try:
                found = self._number(place, compute(float(found), float(other)))
            except (ArithmeticError, ValueError):
                self._file.fail(place, "this has no value that JSON has; write the value out")
        return found

    def _operand(self, node: Node, depth: int) -> float:
        value = self.value(node, depth + 1)
        if isinstance(value, str | bool):
            self._file.unsupported(node, "as a number")
        return value

    def _number(self, node: Node, value: float) -> int | float:
        """Return a number as one that is written out: an integer if it is whole and exact."""
        if not math.isfinite(value):
            self._file.fail(node, "this has no value that JSON has; write the value out")
        return int(value) if float(value).is_integer() and abs(value) <= EXACT else float(value)

    def _shown(self, node: Node, value: ir.Literal) -> str:
        """Return a value as JavaScript puts it into a text."""
        shown = value if isinstance(value, str) else None if isinstance(value, bool) else shown_number(value)
        if shown is None:
            self._file.fail(node, "this value has no short notation in a text; write the text out")
        return shown

    def _part(self, node: Node, depth: int) -> str:
        """Return a part of a template: text, or the value of what stands in `${}`."""
        if node.type == "template_substitution":
            return self._shown(node, self.value(named_children(node)[0], depth + 1))
        return string_piece(self._file, node)

    def _named(self, node: Node) -> ir.Literal:
        name = node_text(node)
        if node.type == "subscript_expression":
            owner, key = named_children(node)
            if key.type != "string":
                self._file.unsupported(key, "as the name of a member")
            name = f"{node_text(owner)}.{read_string(self._file, key)}"
        value = self._known(node, name)
        if value is None:
            self._file.fail(node, f"'{name}' is no constant that is known here; write the value out")
        return value
