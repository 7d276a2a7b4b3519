"""Helpers for the nodes of a parsed TypeScript file: error places, comments, statements and literals.

tree-sitter parses. One table lists the unsupported kinds of nodes, each with its replacement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, NoReturn

import tree_sitter_typescript
from tree_sitter import Language, Node, Parser

from mcprev_codegen import ir
from mcprev_codegen.errors import SchemaError
from mcprev_codegen.ir import pascal_case
from mcprev_codegen.typescript.bounds import MAX_DIGITS, MAX_TEXT, MAX_TYPES
from mcprev_codegen.typescript.jsdoc import BadTag, comment_body, is_jsdoc, read_comments
from mcprev_codegen.typescript.unsupported import PLAIN_DATA, UNSUPPORTED

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_DECLARATIONS: Final = (
    "interface_declaration",
    "type_alias_declaration",
    "enum_declaration",
    "lexical_declaration",
)


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_typescript.language_typescript()))


def node_text(node: Node) -> str:
    """Return the source text of a node."""
    return (node.text or b"").decode("utf-8")


def named_children(node: Node) -> list[Node]:
    """Return the named children without comments, which may occur anywhere."""
    return [child for child in node.named_children if child.type != "comment"]


def span(node: Node) -> ir.Span:
    """Return the lines of a node, counted from 1."""
    return ir.Span(node.start_point[0] + 1, node.end_point[0] + 1)


def flatten(node: Node, kind: str) -> Iterator[Node]:
    """Yield the members of nested unions or intersections, without their parentheses."""
    pending = named_children(node)[::-1]
    while pending:  # A union of a thousand members is nested a thousand deep.
        child = inner = pending.pop()
        while inner.type == "parenthesized_type":
            (inner,) = named_children(inner)
        if inner.type == kind:
            pending += named_children(inner)[::-1]
        else:
            yield child


def type_parameters(node: Node) -> list[Node]:
    """Return the type parameters of a generic declaration."""
    found = node.child_by_field_name("type_parameters")
    return [] if found is None else named_children(found)


def _followed(children: Sequence[Node]) -> list[bool]:
    """Return whether the line on which each node ends continues with a named one that is no comment."""
    found: list[bool] = []
    row = -1
    for child in reversed(children):
        found.append(row == child.end_point[0])
        if child.is_named and child.type != "comment":
            row = child.start_point[0]
    return found[::-1]


class NodeReader:
    """Reads one file as tree-sitter's nodes. Errors name the place of a node."""

    def __init__(self, source: str, path: str) -> None:
        self._path = path
        self._lines = source.split("\n")
        self._root = _parser().parse(source.encode("utf-8")).root_node
        self._warnings: list[str] = []
        self._enums: dict[str, dict[str, ir.Literal]] = {}
        self._types = 0

    # -- places and comments -------------------------------------------------------------------------

    def _fail(self, node: Node, message: str, *, below: int = 0) -> NoReturn:
        row = node.start_point[0] + below
        line = self._lines[row].rstrip("\r")
        before = line.encode("utf-8")[: node.start_point[1]] if not below else b""
        column = len(before.decode("utf-8", "replace")) + 1
        if below:
            column = len(line) - len(line.lstrip(" *\t")) + 1
        raise SchemaError(message, path=self._path, line=row + 1, column=column, source_line=line)

    def _unsupported(self, node: Node, where: str) -> NoReturn:
        token = f"'{node.type}'" if node.is_named else f"the token '{node.type}'"
        what, instead = UNSUPPORTED.get(node.type, (token, PLAIN_DATA))
        self._fail(node, f"{what} is not supported {where}; {instead}")

    def _count(self, node: Node) -> None:
        """Count a type or member. Raises `SchemaError` if there are too many in the file."""
        self._types += 1
        if self._types > MAX_TYPES:
            self._fail(node, f"more than {MAX_TYPES} types and members are not supported")

    def _reject_syntax_errors(self) -> None:
        if not self._root.has_error:
            return
        stack = [self._root]
        while stack:
            node = stack.pop()
            if node.is_missing:
                self._fail(node, f"syntax error: '{node.type}' is missing")
            if node.type == "ERROR":
                self._fail(node, "syntax error: this is not TypeScript")
            stack.extend(reversed([c for c in node.children if c.has_error or c.is_missing]))

    def _siblings(self, parent: Node) -> list[tuple[Node, list[Node], list[Node]]]:
        """Return each named child with the comments before it, and the comments behind it on the same line."""
        items: list[tuple[Node, list[Node], list[Node]]] = []
        pending: list[Node] = []
        children = parent.children
        for child, followed in zip(children, _followed(children), strict=True):
            if child.type != "comment":
                if child.is_named:
                    items.append((child, pending, []))
                    pending = []
                continue
            behind = items and not pending and child.start_point[0] == items[-1][0].end_point[0]
            if behind and not followed:
                items[-1][2].append(child)
            else:
                pending.append(child)
        return items

    def _docs(self, above: Sequence[Node], section: str | None = None) -> tuple[ir.Tags, ir.Doc]:
        found = [c for c in above if is_jsdoc(node_text(c))]
        try:
            tags, doc, unknown = read_comments([node_text(c) for c in above], section)
        except BadTag as error:
            self._fail(found[-1], str(error), below=error.line)
        for name, below in unknown:
            row = found[-1].start_point[0] + below + 1
            self._warnings.append(
                f"{self._path}:{row}: the JSDoc tag '@{name}' is not known; it is kept as prose"
            )
        return tags, doc

    def _member_remarks(self, value: Node, trailing: Sequence[Node]) -> tuple[tuple[int, str], ...]:
        """Return the remarks behind the members of a union, each with the index of its member."""
        if value.type != "union_type":
            return ()
        ends = {member.end_point[0]: n for n, member in enumerate(flatten(value, "union_type"))}
        remarks = [c for c in (*self._comments_in(value), *trailing) if c.start_point[0] in ends]
        return tuple((ends[c.start_point[0]], comment_body(node_text(c))) for c in remarks)

    def _comments_in(self, node: Node) -> Iterator[Node]:
        pending = node.children[::-1]
        while pending:
            child = pending.pop()
            if child.type == "comment":
                yield child
            elif child.type == "union_type":
                pending += child.children[::-1]

    # -- statements --------------------------------------------------------------------------------------

    def _export_list(self, node: Node) -> list[Node]:
        """Return the names in `export { A, B };`; empty for any other statement."""
        clauses = (
            [c for c in named_children(node) if c.type == "export_clause"]
            if node.type == "export_statement"
            else []
        )
        if not clauses or len(named_children(node)) != 1:
            return []
        specifiers = [named_children(specifier) for specifier in named_children(clauses[0])]
        return [s[0] for s in specifiers] if all(len(s) == 1 for s in specifiers) else []

    def _exported(self, node: Node) -> Node:
        """Return the declaration in a statement, exported or not."""
        if node.type != "export_statement":
            inner = named_children(node)[0] if node.type == "expression_statement" else node
            if inner.type not in _DECLARATIONS:
                self._unsupported(inner, "at the top level")
            return inner
        declaration = node.child_by_field_name("declaration")
        if declaration is None or any(child.type == "default" for child in node.children):
            self._unsupported(node, "at the top level")
        if declaration.type not in _DECLARATIONS:
            self._unsupported(declaration, "as an exported declaration")
        return declaration

    def _name(self, node: Node) -> str:
        if node.type != "lexical_declaration":
            name = node.child_by_field_name("name")
            assert name is not None
            return self._short(name, node_text(name))
        if node.children[0].type != "const":
            self._unsupported(node.children[0], "as a declaration")
        declarators = named_children(node)
        if len(declarators) != 1:
            self._fail(declarators[1], "only one constant per statement is supported")
        return self._short(node, node_text(named_children(declarators[0])[0]))

    # -- literals ----------------------------------------------------------------------------------------

    def _literal(self, node: Node) -> ir.Literal:
        match node.type:
            case "string":
                return self._string(node)
            case "number":
                return self._number(node, node_text(node))
            case "unary_expression" if node.children[0].type == "-" and node.children[1].type == "number":
                return self._number(node, "-" + node_text(node.children[1]))
            case "true" | "false":
                return node.type == "true"
            case _:
                self._unsupported(node, "as a literal")

    def _number(self, node: Node, text: str) -> int | float:
        if len(text) > MAX_DIGITS:
            self._fail(node, f"a number of more than {MAX_DIGITS} digits is not supported")
        if re.fullmatch(r"-?\d+", text):
            return int(text)
        if re.fullmatch(r"-?\d+\.\d+", text):
            return float(text)
        self._fail(node, f"the notation of the number {text} is not supported")

    def _short(self, node: Node, text: str) -> str:
        """Return a name or literal. Raises `SchemaError` if it is too long."""
        if len(text) > MAX_TEXT:
            self._fail(node, f"a name or literal of more than {MAX_TEXT} characters is not supported")
        return text

    def _string(self, node: Node) -> str:
        parts: list[str] = []
        for child in named_children(node):
            if child.type == "string_fragment":
                parts.append(node_text(child))
            else:
                parts.append(self._escape(child))
        try:
            # Two escapes may encode one character outside the basic multilingual plane.
            text = "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._fail(node, "a lone surrogate is not text; write both of its escapes, or leave it out")
        return self._short(node, text)

    def _escape(self, node: Node) -> str:
        code = node_text(node)[1:]
        if code[0] not in "xu":
            return _ESCAPES.get(code, code)
        try:
            return chr(int(code[1:].strip("{}"), 16))
        except (ValueError, OverflowError):
            self._fail(node, f"the escape sequence \\{code} is not a character")

    def template(self, node: Node) -> ir.Template:
        """Return a template literal type."""
        for part in named_children(node):
            if part.type == "template_type" and node_text(named_children(part)[0]) not in ir.PLACEHOLDERS:
                shown = ", ".join(f"${{{name}}}" for name in ir.PLACEHOLDERS)
                self._fail(
                    part, f"only {shown} are supported in a template literal type; write a union of them"
                )
        return ir.Template(self._short(node, node_text(node)[1:-1]))

    def _key(self, node: Node, type_: ir.TypeExpr) -> str | None:
        if type_ == ir.Prim("string"):
            return None
        if isinstance(type_, ir.Lit) and isinstance(type_.value, str):
            return type_.value
        self._fail(
            node,
            "names of members are expected here: string literals, an alias or enum of them, or string",
        )

    # -- enums and generics ------------------------------------------------------------------------------

    def _enum_values(self, node: Node) -> dict[str, ir.Literal]:
        """Return the value of each member of an enum; a member without a value has the previous value plus one."""
        enum = self._name(node)
        if enum in self._enums:
            return self._enums[enum]
        values = self._enums[enum] = {}
        following: ir.Literal | None = 0
        for member in named_children(named_children(node)[-1]):
            self._count(member)
            key, *given = named_children(member) if member.type == "enum_assignment" else [member]
            name = self._string(key) if key.type == "string" else self._short(key, node_text(key))
            if not given and following is None:
                self._fail(
                    member, f"the enum's member '{name}' needs a value, since the one before is not a number"
                )
            value = self._literal(given[0]) if given else following
            assert value is not None
            values[name] = value
            following = None if isinstance(value, str) else value + 1
        return values

    def _name_part(self, node: Node, argument: ir.TypeExpr) -> str:
        """Return the part that an argument adds to the name of the declaration for a use of a generic."""
        match argument:
            case ir.Ref(name):
                return name
            case ir.Prim(name):
                return name.capitalize()
            case ir.Lit(str() as value):
                return pascal_case(value)
            case ir.Array(item):
                return f"{self._name_part(node, item)}List"
            case ir.Record(value):
                return f"{self._name_part(node, value)}Map"
            case ir.Union(members):
                return "Or".join(self._name_part(node, member) for member in members)
            case _:
                self._fail(node, "the name of the type cannot contain this argument; declare an alias for it")
