"""Reads literals: strings, numbers and booleans."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from tree_sitter import Node

from mcprev_codegen import ir
from mcprev_codegen.typescript.bounds import MAX_DIGITS
from mcprev_codegen.typescript.reader.text.source_file import SourceFile, named_children, node_text

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0",
                   "\n": "", "\r\n": ""}  # fmt: skip
_DIGITS: Final = r"\d(?:_?\d)*"
_DECIMAL: Final = re.compile(
    rf"-?(?!0_?\d)(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][-+]?{_DIGITS})?", re.ASCII
)
_PREFIXED: Final = re.compile(
    r"-?0(?:[xX][\da-fA-F](?:_?[\da-fA-F])*|[oO][0-7](?:_?[0-7])*|[bB][01](?:_?[01])*)", re.ASCII
)
EXACT: Final = 2**53
"""The integer up to which JavaScript's numbers are exact."""


def read_literal(file: SourceFile, node: Node) -> ir.Literal:
    """Return the value of a literal. Raises `SchemaError` for any other expression."""
    match node.type:
        case "string":
            return read_string(file, node)
        case "template_string" if all(child.type == "string_fragment" for child in named_children(node)):
            return read_string(file, node)
        case "number":
            return read_number(file, node, node_text(node))
        case "unary_expression" if node.children[0].type == "-" and node.children[1].type == "number":
            return read_number(file, node, "-" + node_text(node.children[1]))
        case "true" | "false":
            return node.type == "true"
        case _:
            file.unsupported(node, "as a literal")


def read_number(file: SourceFile, node: Node, text: str) -> int | float:
    """Return the value of a number. One with a point is a float, and any other that is whole an integer."""
    if len(text) > MAX_DIGITS:
        file.fail(node, f"a number of more than {MAX_DIGITS} digits is not supported")
    if _PREFIXED.fullmatch(text):
        return int(text, 0)
    if _DECIMAL.fullmatch(text):
        plain = text.replace("_", "")
        if plain.lstrip("-").isdecimal():
            return int(plain)
        value = float(plain)
        if math.isfinite(value):
            whole = "." not in plain and value.is_integer() and abs(value) <= EXACT
            return int(value) if whole else value
    file.fail(node, f"the notation of the number {text} is not supported; write it in decimal digits")


def read_string(file: SourceFile, node: Node) -> str:
    """Return the text of a string. Raises `SchemaError` if it is too long, or no text."""
    return joined_texts(file, node, [string_piece(file, child) for child in named_children(node)])


def string_piece(file: SourceFile, node: Node) -> str:
    """Return a piece of a string: text as it stands, or what an escape stands for."""
    return node_text(node) if node.type == "string_fragment" else _escape(file, node)


def joined_texts(file: SourceFile, node: Node, parts: Sequence[str]) -> str:
    """Return the text that pieces make. Raises `SchemaError` if it is too long, or no text."""
    try:
        # Two escapes may encode one character outside the basic multilingual plane.
        text = "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        file.fail(node, "a lone surrogate is not text; write both of its escapes, or leave it out")
    return file.short(node, text)


def shown_number(value: float) -> str | None:
    """Return a number as JavaScript shows it; None where that would take an exponent."""
    text = str(int(value) if value == int(value) else value)
    return text if "e" not in text and abs(value) <= EXACT else None


def _escape(file: SourceFile, node: Node) -> str:
    code = node_text(node)[1:]
    if code[0] not in "xu":
        return _ESCAPES.get(code, code)
    try:
        return chr(int(code[1:].strip("{}"), 16))
    except (ValueError, OverflowError):
        file.fail(node, f"the escape sequence \\{code} is not a character")
