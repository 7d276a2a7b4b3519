"""TypeScript to IR: reads the subset of the language that schema.ts is written in.

tree-sitter parses; every node kind is then either known here or an error with its place in the file.
Nothing is guessed: a construct this module does not know could change the meaning of the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final, NoReturn

import tree_sitter_typescript
from tree_sitter import Language, Node, Parser

from mcprev_codegen import comments, ir
from mcprev_codegen.errors import SchemaError

_PRIMITIVES: Final = frozenset({"string", "number", "boolean", "unknown", "any", "object"})
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_KNOWN_NAMES: Final = {
    "enum_declaration": "an enum",
    "internal_module": "a namespace",
    "tuple_type": "a tuple type",
    "template_literal_type": "a template literal type",
    "mapped_type_clause": "a mapped type",
    "type_parameters": "a generic declaration",
    "conditional_type": "a conditional type",
    "index_type_query": "a keyof type",
    "lookup_type": "an indexed access type",
    "function_type": "a function type",
    "method_signature": "a method signature",
    "call_signature": "a call signature",
    "construct_signature": "a construct signature",
    "import_statement": "an import",
    "class_declaration": "a class",
    "function_declaration": "a function",
    "ambient_declaration": "an ambient declaration",
    "readonly_type": "a readonly type",
    "rest_type": "a rest type",
    "optional_type": "an optional tuple member",
    "infer_type": "an infer type",
    "binary_expression": "a computed constant",
    "nested_type_identifier": "a qualified name",
}


def parse(source: str, path: str) -> ir.Module:
    """Parse the text of a schema.ts; `path` is only named in errors.

    Raises `SchemaError` for a syntax error, an unknown construct, a name declared twice or a reference
    to a name that is not declared.
    """
    return _Reader(source.removeprefix("\ufeff"), path).module()


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_typescript.language_typescript()))


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8")


def _named(node: Node) -> list[Node]:
    """The named children without comments, which may stand anywhere."""
    return [child for child in node.named_children if child.type != "comment"]


def _span(node: Node) -> ir.Span:
    return ir.Span(node.start_point[0] + 1, node.end_point[0] + 1)


@dataclass
class _Leading:
    """The comments that stand above the next sibling, and those that trail the previous one."""

    above: list[Node] = field(default_factory=list[Node])
    trailing: list[Node] = field(default_factory=list[Node])


class _Reader:
    def __init__(self, source: str, path: str) -> None:
        self._path = path
        self._lines = source.split("\n")
        self._root = _parser().parse(source.encode("utf-8")).root_node
        self._mentions: list[tuple[str, Node, bool]] = []

    def module(self) -> ir.Module:
        self._reject_syntax_errors()
        section: str | None = None
        decls: list[ir.Decl] = []
        places: dict[str, Node] = {}
        for node, leading, trailing in self._siblings(self._root):
            above: list[Node] = []
            for comment in leading:
                if comments.is_heading(_text(comment)):
                    section = comments.body(_text(comment))
                    above.clear()
                else:
                    above.append(comment)
            decl = self._declaration(node, above, trailing, section)
            if decl.name in places:
                first = places[decl.name].start_point[0] + 1
                self._fail(node, f"'{decl.name}' is declared twice (first on line {first})")
            places[decl.name] = node
            decls.append(decl)
        module = ir.Module(tuple(decls))
        self._check_mentions(module)
        return module

    def fragment(self) -> ir.Field:
        self._reject_syntax_errors()
        declaration = self._root.named_children[0].named_children[0]
        members, index = self._members(_named(declaration)[-1])
        if len(self._root.named_children) != 1 or len(members) != 1 or index is not None:
            self._fail(declaration, "one member is expected here")
        return members[0]

    # -- places and comments -------------------------------------------------------------------------

    def _fail(self, node: Node, message: str, *, below: int = 0) -> NoReturn:
        row = node.start_point[0] + below
        line = self._lines[row].rstrip("\r")
        before = line.encode("utf-8")[: node.start_point[1]] if not below else b""
        column = len(before.decode("utf-8", "replace")) + 1
        if below:
            column = len(line) - len(line.lstrip(" *\t")) + 1
        raise SchemaError(message, path=self._path, line=row + 1, column=column, source_line=line)

    def _unknown(self, node: Node, where: str) -> NoReturn:
        what = _KNOWN_NAMES.get(node.type, f"'{node.type}'" if node.is_named else f"the token '{node.type}'")
        self._fail(node, f"{what} is not supported {where}; teach mcprev_codegen.typescript what it means")

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

    def _siblings(self, parent: Node) -> Iterator[tuple[Node, list[Node], list[Node]]]:
        """Each named child with the comments above it and those behind it on its last line."""
        items: list[tuple[Node, _Leading]] = []
        pending: list[Node] = []
        for child in parent.children:
            if child.type != "comment":
                if child.is_named:
                    items.append((child, _Leading(above=pending)))
                    pending = []
                continue
            if items and not pending and child.start_point[0] == items[-1][0].end_point[0]:
                items[-1][1].trailing.append(child)
            else:
                pending.append(child)
        for node, leading in items:
            yield node, leading.above, leading.trailing

    def _docs(self, above: Sequence[Node], section: str | None = None) -> tuple[ir.Tags, ir.Doc]:
        try:
            return comments.read([_text(c) for c in above], section)
        except comments.UnknownTag as error:
            comment = [c for c in above if comments.is_jsdoc(_text(c))][-1]
            self._fail(comment, f"{error}; teach mcprev_codegen.comments what it means", below=error.line)

    # -- declarations --------------------------------------------------------------------------------

    def _declaration(
        self, node: Node, above: Sequence[Node], trailing: Sequence[Node], section: str | None
    ) -> ir.Decl:
        inner = node.child_by_field_name("declaration") if node.type == "export_statement" else None
        if inner is None:
            shown = _named(node)[0] if node.type == "expression_statement" else node
            self._unknown(shown, "at the top level, where only exported declarations stand")
        tags, doc = self._docs(above, section)
        match inner.type:
            case "interface_declaration":
                return self._interface(inner, tags, doc)
            case "type_alias_declaration":
                return self._alias(inner, tags, doc, trailing)
            case "lexical_declaration":
                return self._const(inner, tags, doc)
            case _:
                self._unknown(inner, "as an exported declaration")

    def _interface(self, node: Node, tags: ir.Tags, doc: ir.Doc) -> ir.Interface:
        name, body = "", None
        bases: list[ir.Ref | ir.Omit] = []
        for child in _named(node):
            match child.type:
                case "type_identifier":
                    name = _text(child)
                case "extends_type_clause":
                    bases = [self._base(base) for base in _named(child)]
                case "interface_body":
                    body = child
                case _:
                    self._unknown(child, "in an interface")
        assert body is not None
        fields, index = self._members(body)
        return ir.Interface(name, tuple(bases), fields, index, tags, doc, _span(node))

    def _base(self, node: Node) -> ir.Ref | ir.Omit:
        if node.type == "type_identifier":
            return self._reference(node)
        if node.type == "generic_type":
            name, args = self._generic(node)
            if name == "Omit" and len(args) == 2 and args[0].type == "type_identifier":
                base = self._reference(args[0])
                keys = self._type(args[1])
                members = keys.members if isinstance(keys, ir.Union) else (keys,)
                if all(isinstance(m, ir.Lit) and isinstance(m.value, str) for m in members):
                    return ir.Omit(base.name, tuple(str(m.value) for m in members if isinstance(m, ir.Lit)))
        self._unknown(node, 'as the base of an interface; a name or Omit<Name, "key"> is')

    def _alias(self, node: Node, tags: ir.Tags, doc: ir.Doc, trailing: Sequence[Node]) -> ir.Alias:
        name, value = "", None
        for child in _named(node):
            if child == node.child_by_field_name("name"):
                name = _text(child)
            elif child == node.child_by_field_name("value"):
                value = child
            else:
                self._unknown(child, "in a type alias")
        assert value is not None
        members = self._member_remarks(value, trailing)
        return ir.Alias(name, self._type(value), tags, replace(doc, members=members), _span(node))

    def _member_remarks(self, value: Node, trailing: Sequence[Node]) -> tuple[tuple[int, str], ...]:
        """The remarks behind the members of a union, each with the index of its member."""
        if value.type != "union_type":
            return ()
        ends = {member.end_point[0]: n for n, member in enumerate(self._flatten(value, "union_type"))}
        remarks = [c for c in (*self._comments_in(value), *trailing) if c.start_point[0] in ends]
        return tuple((ends[c.start_point[0]], comments.body(_text(c))) for c in remarks)

    def _comments_in(self, node: Node) -> Iterator[Node]:
        for child in node.children:
            if child.type == "comment":
                yield child
            elif child.type == "union_type":
                yield from self._comments_in(child)

    def _const(self, node: Node, tags: ir.Tags, doc: ir.Doc) -> ir.Const:
        if node.children[0].type != "const":
            self._unknown(node.children[0], "as an exported declaration")
        declarators = _named(node)
        if len(declarators) != 1:
            self._fail(declarators[1], "one exported constant to a statement, please")
        for child in _named(declarators[0]):
            if child.type not in ("identifier", "string", "number", "unary_expression", "true", "false"):
                self._unknown(child, "in a constant; a string, number or boolean is")
        name, value = _named(declarators[0])
        return ir.Const(_text(name), self._literal(value), tags, doc, _span(node))

    # -- members -------------------------------------------------------------------------------------

    def _members(self, node: Node) -> tuple[tuple[ir.Field, ...], ir.IndexSig | None]:
        fields: dict[str, ir.Field] = {}
        index: ir.IndexSig | None = None
        for child, above, trailing in self._siblings(node):
            if child.type == "index_signature":
                if index is not None:
                    self._fail(child, "a second index signature in one type")
                index = self._index(child)
            elif child.type == "property_signature":
                member = self._property(child, above, trailing)
                if member.name in fields:
                    self._fail(child, f"member '{member.name}' is declared twice")
                fields[member.name] = member
            else:
                self._unknown(child, "as a member")
        return tuple(fields.values()), index

    def _property(self, node: Node, above: Sequence[Node], trailing: Sequence[Node]) -> ir.Field:
        optional, name, type_ = False, "", None
        for child in node.children:
            match child.type:
                case "property_identifier":
                    name = _text(child)
                case "string":
                    name = self._string(child)
                case "?":
                    optional = True
                case "type_annotation":
                    type_ = self._annotation(child)
                case "comment":
                    pass
                case _:
                    self._unknown(child, "on a member")
        if type_ is None:
            self._fail(node, f"member '{name}' has no type")
        tags, doc = self._docs(above)
        if trailing and doc.text is None and doc.notes is None:
            doc = replace(doc, notes=comments.body(_text(trailing[0])))
        return ir.Field(name, type_, optional, tags, doc, _span(node))

    def _index(self, node: Node) -> ir.IndexSig:
        named = _named(node)
        if [c.type for c in named] != ["identifier", "predefined_type", "type_annotation"]:
            self._unknown(named[0], "as an index signature")
        key, key_type, annotation = named
        if _text(key_type) != "string":
            self._fail(key_type, "only string keys are supported in an index signature")
        if any(c.type == "readonly" for c in node.children):
            self._unknown(node.children[0], "on an index signature")
        return ir.IndexSig(_text(key), self._annotation(annotation))

    # -- types ---------------------------------------------------------------------------------------

    def _annotation(self, node: Node) -> ir.TypeExpr:
        (inner,) = _named(node)
        return self._type(inner)

    def _type(self, node: Node) -> ir.TypeExpr:
        match node.type:
            case "predefined_type" if _text(node) in _PRIMITIVES:
                return ir.Prim(_text(node))
            case "type_identifier":
                return self._reference(node)
            case "literal_type" if _named(node)[0].type == "null":
                return ir.Prim("null")
            case "literal_type":
                return ir.Lit(self._literal(_named(node)[0]))
            case "union_type":
                members = [self._type(m) for m in self._flatten(node, "union_type")]
                return members[0] if len(members) == 1 else ir.Union(tuple(members))
            case "intersection_type":
                members = [self._type(m) for m in self._flatten(node, "intersection_type")]
                return members[0] if len(members) == 1 else ir.Intersection(tuple(members))
            case "array_type":
                return ir.Array(self._type(_named(node)[0]))
            case "parenthesized_type":
                (inner,) = _named(node)
                return self._type(inner)
            case "object_type":
                return ir.Obj(*self._members(node))
            case "type_query" if [c.type for c in _named(node)] == ["identifier"]:
                name = _text(_named(node)[0])
                self._mentions.append((name, node, True))
                return ir.ConstRef(name)
            case "generic_type":
                return self._generic_type(node)
            case "predefined_type":
                self._fail(node, f"the type '{_text(node)}' has no JSON counterpart")
            case _:
                self._unknown(node, "as a type")

    def _generic_type(self, node: Node) -> ir.TypeExpr:
        name, args = self._generic(node)
        if name == "Array" and len(args) == 1:
            return ir.Array(self._type(args[0]))
        if name == "Record" and len(args) == 2 and self._type(args[0]) == ir.Prim("string"):
            return ir.Record(self._type(args[1]))
        self._fail(
            node, f"the generic type '{name}' is not supported here; Array<T> and Record<string, T> are"
        )

    def _generic(self, node: Node) -> tuple[str, list[Node]]:
        name, args = _named(node)
        return _text(name), _named(args)

    def _flatten(self, node: Node, kind: str) -> Iterator[Node]:
        for child in _named(node):
            inner = child
            while inner.type == "parenthesized_type":
                (inner,) = _named(inner)
            if inner.type == kind:
                yield from self._flatten(inner, kind)
            else:
                yield child

    def _reference(self, node: Node) -> ir.Ref:
        self._mentions.append((_text(node), node, False))
        return ir.Ref(_text(node))

    def _check_mentions(self, module: ir.Module) -> None:
        types, consts = module.types, module.consts
        for name, node, is_const in self._mentions:
            if name not in (consts if is_const else types):
                what = "constant" if is_const else "type"
                self._fail(node, f"the {what} '{name}' is not declared in this file")

    # -- literals ------------------------------------------------------------------------------------

    def _literal(self, node: Node) -> ir.Literal:
        match node.type:
            case "string":
                return self._string(node)
            case "number":
                return self._number(node, _text(node))
            case "unary_expression" if node.children[0].type == "-" and node.children[1].type == "number":
                return self._number(node, "-" + _text(node.children[1]))
            case "true" | "false":
                return node.type == "true"
            case _:
                self._unknown(node, "as a literal")

    def _number(self, node: Node, text: str) -> int | float:
        if re.fullmatch(r"-?\d+", text):
            return int(text)
        if re.fullmatch(r"-?\d+\.\d+", text):
            return float(text)
        self._fail(node, f"the number {text} is written in a way that is not supported")

    def _string(self, node: Node) -> str:
        parts: list[str] = []
        for child in _named(node):
            if child.type == "string_fragment":
                parts.append(_text(child))
            else:
                parts.append(self._escape(child))
        # Two escapes may spell one character beyond the basic plane.
        return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

    def _escape(self, node: Node) -> str:
        code = _text(node)[1:]
        if code[0] in "xu":
            return chr(int(code[1:].strip("{}"), 16))
        return _ESCAPES.get(code, code)


def parse_fragment(member: str, path: str) -> ir.Field:
    """Parse one member such as `name?: Type;` that stands outside any file; names are not looked up.

    Raises `SchemaError` as `parse` does.
    """
    return _Reader(f"export interface Fragment {{\n{member}\n}}", path).fragment()
