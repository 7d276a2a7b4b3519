"""A parsed TypeScript file: the places of errors, comments, and the number of types that are read.

tree-sitter parses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import NoReturn

import tree_sitter_typescript
from tree_sitter import Language, Node, Parser

from mcprev_codegen import ir
from mcprev_codegen.errors import SchemaError
from mcprev_codegen.typescript.bounds import MAX_TEXT, MAX_TYPES
from mcprev_codegen.typescript.jsdoc import BadTag, comment_body, is_jsdoc, read_comments
from mcprev_codegen.typescript.reader.text.faults import without_faults
from mcprev_codegen.typescript.reader.unsupported import CODE, PLAIN_DATA, UNSUPPORTED


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_typescript.language_typescript()))


def node_text(node: Node) -> str:
    """Return the source text of a node."""
    return (node.text or b"").decode("utf-8")


def named_children(node: Node) -> list[Node]:
    """Return the named children without comments, which may occur anywhere."""
    return [child for child in node.named_children if child.type != "comment"]


def flatten(node: Node, kind: str) -> list[Node]:
    """Return the members of nested unions or intersections, without their parentheses; `never` adds nothing to a union."""
    found = [*_flattened(node, kind)]
    return [one for one in found if kind != "union_type" or node_text(one) != "never"] or found


def _flattened(node: Node, kind: str) -> Iterator[Node]:
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


class Text:
    """The text of one file as tree-sitter's nodes."""

    def __init__(self, source: str, path: str) -> None:
        self.path = path
        self.lines = source.split("\n")
        data = source.encode("utf-8")
        self.root = _parser().parse(data).root_node
        self.hidden_names: Mapping[int, str] = {}
        if self.root.has_error:
            changed, self.hidden_names = without_faults(data, self.root)
            self.root = self.root if changed == data else _parser().parse(changed).root_node


class SourceFile:
    """The files of one schema, one of which is being read at a time. Errors name the place of a node in that one."""

    def __init__(self, source: str, path: str) -> None:
        self.text = self.first = Text(source, path)
        self.warnings: list[str] = []
        self._types = 0

    @property
    def root(self) -> Node:
        """The root of the file that is being read."""
        return self.text.root

    @contextmanager
    def reading(self, text: Text) -> Iterator[None]:
        """Read another file, until the context is left."""
        outer, self.text = self.text, text
        try:
            yield
        finally:
            self.text = outer

    def span(self, node: Node) -> ir.Span:
        """Return the lines of a node, counted from 1."""
        path = "" if self.text is self.first else self.text.path
        return ir.Span(node.start_point[0] + 1, node.end_point[0] + 1, path)

    # -- places and comments -------------------------------------------------------------------------

    def fail(self, node: Node, message: str, *, below: int = 0, code: str = "") -> NoReturn:
        """Raise `SchemaError` at a node, or at the start of a line below its first one.

        `code` says what describes no data there, and so may be left out.
        """
        row = node.start_point[0] + below
        line = self.text.lines[row].rstrip("\r")
        before = line.encode("utf-8")[: node.start_point[1]] if not below else b""
        column = len(before.decode("utf-8", "replace")) + 1
        if below:
            column = len(line) - len(line.lstrip(" *\t")) + 1
        error = SchemaError(message, path=self.text.path, line=row + 1, column=column, source_line=line)
        raise error.without_data(code) if code else error

    def unsupported(self, node: Node, where: str) -> NoReturn:
        """Raise `SchemaError` for a construct that is refused."""
        token = f"'{node.type}'" if node.is_named else f"the token '{node.type}'"
        what, instead = UNSUPPORTED.get(node.type, (token, PLAIN_DATA))
        self.fail(node, f"{what} is not supported {where}; {instead}", code=CODE.get(node.type, ""))

    def warn(self, node: Node, message: str, *, below: int = 0) -> None:
        """Record a warning at a node, or at a line below its first one."""
        self.warnings.append(f"{self.text.path}:{node.start_point[0] + below + 1}: {message}")

    def count(self, node: Node, times: int = 1) -> None:
        """Count a type or member. Raises `SchemaError` if there are too many in the file."""
        self._types += times
        if self._types > MAX_TYPES:
            self.fail(node, f"more than {MAX_TYPES} types and members are not supported")

    def reject_syntax_errors(self) -> None:
        """Raise `SchemaError` at the first syntax error, if there is one."""
        if not self.root.has_error:
            return
        stack = [self.root]
        while stack:
            node = stack.pop()
            if node.is_missing:
                self.fail(node, f"syntax error: '{node.type}' is missing")
            # The root is one if little of the file could be parsed.
            if node.type == "ERROR" and node != self.root:
                self.fail(node, "syntax error: this is not TypeScript")
            stack.extend(reversed([c for c in node.children if c.has_error or c.is_missing]))
        self.fail(self.root, "syntax error: this is not TypeScript")

    def siblings(self, parent: Node) -> list[tuple[Node, list[Node], list[Node]]]:
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

    def docs(self, above: Sequence[Node]) -> tuple[ir.Tags, ir.Doc]:
        """Return the tags and the prose of the comments above a declaration or member."""
        found = [c for c in above if is_jsdoc(node_text(c))]
        try:
            tags, doc, doubts = read_comments([node_text(c) for c in above])
        except BadTag as error:
            self.fail(found[-1], str(error), below=error.line)
        for doubt, below in doubts:
            self.warn(found[-1], doubt, below=below)
        return tags, doc

    def member_remarks(self, value: Node, trailing: Sequence[Node]) -> tuple[tuple[int, str], ...]:
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

    def name(self, node: Node) -> str:
        """Return the name of a member that is an identifier."""
        return self.short(node, self.text.hidden_names.get(node.start_byte, node_text(node)))

    def short(self, node: Node, text: str) -> str:
        """Return a name or literal. Raises `SchemaError` if it is too long."""
        if len(text) > MAX_TEXT:
            self.fail(node, f"a name or literal of more than {MAX_TEXT} characters is not supported")
        return text
