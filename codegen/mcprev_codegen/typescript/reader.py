"""Parses TypeScript to IR: the subset of the language that schema.ts uses.

tree-sitter parses. Every node kind is either supported here or an error with its place in the file: an unsupported
construct could change the meaning of the protocol, so none is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from tree_sitter import Node

from mcprev_codegen import ir
from mcprev_codegen.typescript.bounds import (
    MAX_ARGUMENT,
    MAX_DECLARATIONS,
    MAX_DEPTH,
    MAX_INSTANCES,
    MAX_NESTING,
)
from mcprev_codegen.typescript.jsdoc import comment_body, is_heading
from mcprev_codegen.typescript.nodes import (
    NodeReader,
    flatten,
    named_children,
    node_text,
    span,
    type_parameters,
)

_PRIMITIVES: Final = frozenset({"string", "number", "boolean", "unknown", "any", "object"})
_UTILITIES: Final = {"Pick": 2, "Omit": 2, "Partial": 1, "Required": 1}
"""The types that derive an object type from another one, with the number of their arguments."""


def parse(source: str, path: str) -> ir.Module:
    """Return the IR of the text of a schema.ts; `path` is used in errors only.

    A generic declaration becomes one declaration per use: `Page<Tool>` becomes the interface `PageTool`. An enum
    becomes the union of its values. `readonly` and `export` do not affect messages and are dropped. Raises
    `SchemaError` for a syntax error, an unsupported construct, a duplicate name or a reference to a name that is not
    declared.
    """
    return _Reader(source.removeprefix("\ufeff"), path).module()


@dataclass(frozen=True)
class _Statement:
    """A declaration that has not been read yet."""

    node: Node
    tags: ir.Tags
    doc: ir.Doc
    trailing: Sequence[Node]


class _Reader(NodeReader):
    """Reads declarations and types."""

    def __init__(self, source: str, path: str) -> None:
        super().__init__(source, path)
        self._references: list[tuple[str, Node, bool]] = []
        self._statements: dict[str, _Statement] = {}
        self._arguments: Mapping[str, ir.TypeExpr] = {}
        """The arguments of the type parameters of the generic that is being read."""
        self._instances: dict[str, tuple[tuple[str, tuple[ir.TypeExpr, ...]], ir.Decl | None]] = {}
        """The uses of generics by the name of each, with generic and arguments; None while one is being read."""
        self._made: dict[str, list[ir.Decl]] = {}
        """The declarations that the uses of each generic became."""
        self._depth = 0

    def module(self) -> ir.Module:
        self._reject_syntax_errors()
        self._collect()
        found: dict[str, ir.Decl | None] = {
            name: None if type_parameters(statement.node) else self._declaration(name, statement)
            for name, statement in self._statements.items()
        }
        decls: list[ir.Decl] = []
        for name, decl in found.items():
            decls += self._made.get(name, []) if decl is None else [decl]
        module = ir.Module(tuple(decls), tuple(dict.fromkeys(self._warnings)))
        self._check_references(module)
        return module

    def _collect(self) -> None:
        """Find every declaration first, so that declarations can refer to later ones."""
        section: str | None = None
        listed: list[Node] = []
        for node, leading, trailing in self._siblings(self._root):
            above: list[Node] = []
            for comment in leading:
                if is_heading(node_text(comment)):
                    section = comment_body(node_text(comment))
                    above.clear()
                else:
                    above.append(comment)
            if names := self._export_list(node):
                listed += names
                continue
            inner = self._exported(node)
            name = self._name(inner)
            if name in self._statements:
                first = self._statements[name].node.start_point[0] + 1
                self._fail(node, f"'{name}' is declared twice (first on line {first})")
            if len(self._statements) == MAX_DECLARATIONS:
                self._fail(node, f"more than {MAX_DECLARATIONS} declarations are not supported")
            self._statements[name] = _Statement(inner, *self._docs(above, section), trailing)
        for node in listed:
            if node_text(node) not in self._statements:
                self._fail(node, f"'{node_text(node)}' is not declared in this file")

    def fragment(self) -> ir.Field:
        self._reject_syntax_errors()
        declaration = self._root.named_children[0].named_children[0]
        members, index = self._members(named_children(declaration)[-1])
        if len(self._root.named_children) != 1 or len(members) != 1 or index is not None:
            self._fail(declaration, "exactly one member is expected here")
        return members[0]

    # -- declarations --------------------------------------------------------------------------------

    def _declaration(self, name: str, statement: _Statement) -> ir.Decl:
        node, tags, doc = statement.node, statement.tags, statement.doc
        match node.type:
            case "interface_declaration":
                return self._interface(name, node, tags, doc)
            case "type_alias_declaration":
                return self._alias(name, node, tags, doc, statement.trailing)
            case "enum_declaration":
                return self._enum(name, node, tags, doc)
            case _:
                return self._const(name, node, tags, doc)

    def _interface(self, name: str, node: Node, tags: ir.Tags, doc: ir.Doc) -> ir.Interface:
        body = node.child_by_field_name("body")
        assert body is not None
        extends = [c for c in named_children(node) if c.type == "extends_type_clause"]
        bases = tuple(self._base(base) for clause in extends for base in named_children(clause))
        fields, index = self._members(body)
        return ir.Interface(name, bases, fields, index, tags, doc, span(node))

    def _base(self, node: Node) -> ir.Ref | ir.Derived:
        if node.type in ("type_identifier", "generic_type"):
            base = self._type(node)
            if isinstance(base, ir.Ref | ir.Derived):
                return base
        self._unsupported(
            node, "as the base of an interface, which is a name or made from one, as in Partial<Name>"
        )

    def _alias(self, name: str, node: Node, tags: ir.Tags, doc: ir.Doc, trailing: Sequence[Node]) -> ir.Alias:
        value = node.child_by_field_name("value")
        assert value is not None
        members = self._member_remarks(value, trailing)
        return ir.Alias(name, self._type(value), tags, replace(doc, members=members), span(node))

    def _enum(self, name: str, node: Node, tags: ir.Tags, doc: ir.Doc) -> ir.Alias:
        values = self._enum_values(node)
        if not values:
            self._fail(node, f"the enum '{name}' has no member")
        remarks: list[tuple[int, str]] = []
        for n, (_, above, trailing) in enumerate(self._siblings(named_children(node)[-1])):
            remarks += [(n, comment_body(node_text(c))) for c in (*above[-1:], *trailing)][:1]
        literals = tuple(ir.Lit(value) for value in values.values())
        type_ = literals[0] if len(literals) == 1 else ir.Union(literals)
        return ir.Alias(name, type_, tags, replace(doc, members=tuple(remarks)), span(node))

    def _const(self, name: str, node: Node, tags: ir.Tags, doc: ir.Doc) -> ir.Const:
        (declarator,) = named_children(node)
        for child in named_children(declarator):
            if child.type not in ("identifier", "string", "number", "unary_expression", "true", "false"):
                self._unsupported(child, "in a constant; a string, number or boolean is")
        return ir.Const(name, self._literal(named_children(declarator)[1]), tags, doc, span(node))

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
                self._unsupported(child, "as a member")
        return tuple(fields.values()), index

    def _property(self, node: Node, above: Sequence[Node], trailing: Sequence[Node]) -> ir.Field:
        optional, name, type_ = False, "", None
        for child in node.children:
            match child.type:
                case "property_identifier":
                    name = self._short(child, node_text(child))
                case "string":
                    name = self._string(child)
                case "?":
                    optional = True
                case "readonly":
                    pass
                case "type_annotation":
                    type_ = self._annotation(child)
                case "comment":
                    pass
                case _:
                    self._unsupported(child, "on a member")
        if type_ is None:
            self._fail(node, f"member '{name}' has no type")
        tags, doc = self._docs(above)
        if trailing and doc.text is None and doc.notes is None:
            doc = replace(doc, notes=comment_body(node_text(trailing[0])))
        return ir.Field(name, type_, optional, tags, doc, span(node))

    def _index(self, node: Node) -> ir.IndexSig:
        named = named_children(node)
        if [c.type for c in named] != ["identifier", "predefined_type", "type_annotation"]:
            self._unsupported(named[0], "as an index signature")
        key, key_type, annotation = named
        if node_text(key_type) != "string":
            self._fail(key_type, "only string keys are supported in an index signature")
        return ir.IndexSig(node_text(key), self._annotation(annotation))

    # -- types ---------------------------------------------------------------------------------------

    def _annotation(self, node: Node) -> ir.TypeExpr:
        (inner,) = named_children(node)
        return self._type(inner)

    def _type(self, node: Node) -> ir.TypeExpr:
        self._count(node)
        if self._depth == MAX_DEPTH:
            self._fail(node, f"types are nested more than {MAX_DEPTH} deep; give the inner ones names")
        self._depth += 1
        try:
            return self._read_type(node)
        finally:
            self._depth -= 1

    def _read_type(self, node: Node) -> ir.TypeExpr:
        match node.type:
            case "predefined_type" if node_text(node) in _PRIMITIVES:
                return ir.Prim(node_text(node))
            case "type_identifier":
                return self._reference(node)
            case "literal_type":
                (value,) = named_children(node)
                return ir.Prim("null") if value.type == "null" else ir.Lit(self._literal(value))
            case "union_type":
                return self._joined(node, ir.Union)
            case "intersection_type":
                return self._joined(node, ir.Intersection)
            case "array_type":
                return ir.Array(self._type(named_children(node)[0]))
            case "parenthesized_type" | "readonly_type":
                (inner,) = named_children(node)
                return self._type(inner)
            case "object_type":
                return ir.Obj(*self._members(node))
            case kind if kind in _TYPE_READERS:
                return _TYPE_READERS[kind](self, node)
            case "type_query" if [c.type for c in named_children(node)] == ["identifier"]:
                name = node_text(named_children(node)[0])
                self._references.append((name, node, True))
                return ir.ConstRef(name)
            case "predefined_type":
                self._fail(node, f"the type '{node_text(node)}' has no equivalent in JSON")
            case _:
                self._unsupported(node, "as a type")

    def _joined(self, node: Node, kind: type[ir.Union | ir.Intersection]) -> ir.TypeExpr:
        """Return a union or intersection, with the unions or intersections that type parameters stand for opened."""
        found: list[ir.TypeExpr] = []
        for part in flatten(node, node.type):
            member = self._type(part)
            found += member.members if isinstance(member, kind) else [member]
        return found[0] if len(found) == 1 else kind(tuple(found))

    def tuple_type(self, node: Node) -> ir.Tuple:
        """Return a tuple, whose items may have names."""
        named = [
            named_children(item)[-1] if item.type == "required_parameter" else item
            for item in named_children(node)
        ]
        items = [self._annotation(i) if i.type == "type_annotation" else self._type(i) for i in named]
        return ir.Tuple(tuple(items))

    def enum_member(self, node: Node) -> ir.Lit:
        enum, member = (node_text(part) for part in named_children(node))
        statement = self._statements.get(enum)
        if statement is None or statement.node.type != "enum_declaration":
            self._unsupported(node, "as a type")
        values = self._enum_values(statement.node)
        if member not in values:
            self._fail(node, f"the enum '{enum}' has no member '{member}'")
        return ir.Lit(values[member])

    # -- generic types -------------------------------------------------------------------------------

    def generic_type(self, node: Node) -> ir.TypeExpr:
        name_node, args_node = named_children(node)
        name, args = node_text(name_node), named_children(args_node)
        if name in self._statements and type_parameters(self._statements[name].node):
            return self._instance(node, name, [self._type(arg) for arg in args])
        if name in ("Array", "ReadonlyArray") and len(args) == 1:
            return ir.Array(self._type(args[0]))
        if name == "Readonly" and len(args) == 1:
            return self._type(args[0])
        if name == "Record" and len(args) == 2:
            return self._record(args[0], self._type(args[1]))
        if len(args) == _UTILITIES.get(name):
            keys = self._keys(args[1]) if len(args) == 2 else ()
            return self._derived(node, name, self._type(args[0]), keys or ())
        known = ", ".join(["Array<T>", "Record<Keys, T>", *(f"{utility}<T>" for utility in _UTILITIES)])
        self._fail(
            node,
            f"the generic type '{name}' is not supported; supported are {known}, and those declared in this file",
        )

    def _record(self, keys_node: Node, value: ir.TypeExpr) -> ir.Record | ir.Obj:
        keys = self._keys(keys_node)
        return ir.Record(value) if keys is None else ir.Obj(tuple(ir.Field(key, value) for key in keys))

    def _keys(self, node: Node) -> tuple[str, ...] | None:
        """Return the member names in a type of keys; None for any string."""
        values = [self._key(node, member) for member in self._alternatives(self._type(node))]
        keys = [value for value in values if value is not None]
        return tuple(keys) if len(keys) == len(values) else None

    def _alternatives(self, type_: ir.TypeExpr) -> Iterator[ir.TypeExpr]:
        """Yield the members of a union, through aliases and enums, each of which is opened once."""
        pending, opened = [type_], set[str]()
        while pending:
            found = pending.pop()
            name = found.name if isinstance(found, ir.Ref) else ""
            if name in opened:
                continue
            decl = self._declaration("", statement) if (statement := self._statements.get(name)) else None
            if isinstance(found, ir.Union):
                pending += found.members[::-1]
            elif isinstance(decl, ir.Alias):
                opened.add(name)
                pending.append(decl.type)
            else:
                yield found

    def _derived(
        self, node: Node, kind: str, base: ir.TypeExpr, keys: tuple[str, ...]
    ) -> ir.Derived | ir.Obj | ir.Record:
        match base:
            case ir.Ref() | ir.Derived():
                return ir.Derived(kind, base, keys)
            case ir.Obj(fields, index):
                return ir.Obj(tuple(ir.derive_fields(kind, fields, keys)), index)
            case ir.Record():
                return base
            case _:
                self._fail(
                    node, f"{kind} is only supported for an interface or object; give this type a name"
                )

    def _instance(self, node: Node, generic: str, given: Sequence[ir.TypeExpr]) -> ir.Ref:
        """Return the declaration of a generic with its arguments; it is read at its first use."""
        statement = self._statements[generic]
        parameters = type_parameters(statement.node)
        outer, self._arguments = self._arguments, {}
        arguments: dict[str, ir.TypeExpr] = {}
        try:
            for n, parameter in enumerate(parameters):
                default = next(
                    (named_children(c)[0] for c in named_children(parameter) if c.type == "default_type"),
                    None,
                )
                if n < len(given):
                    arguments[node_text(named_children(parameter)[0])] = given[n]
                elif default is not None:
                    self._arguments = dict(arguments)
                    arguments[node_text(named_children(parameter)[0])] = self._type(default)
            if len(arguments) < len(parameters) or len(given) > len(parameters):
                self._fail(node, f"'{generic}' has {len(parameters)} type parameters, but gets {len(given)}")
            for argument in arguments.values():
                if len(list(islice(ir.walk(argument), MAX_ARGUMENT + 1))) > MAX_ARGUMENT:
                    self._fail(node, f"an argument of '{generic}' is too large; declare an alias for it")
            parts = [self._name_part(node, argument) for argument in arguments.values()]
            name = self._short(node, generic + "".join(parts))
            use = generic, tuple(arguments.values())
            if len(self._instances) == MAX_INSTANCES:
                self._fail(
                    node,
                    f"more than {MAX_INSTANCES} uses of generics with different arguments are not supported",
                )
            if name in self._statements or self._instances.get(name, (use, None))[0] != use:
                self._fail(node, f"this would be called '{name}', which is another type; rename one of them")
            if name not in self._instances:
                if sum(decl is None for _, decl in self._instances.values()) == MAX_NESTING:
                    self._fail(
                        node,
                        f"'{generic}' uses itself with different arguments without end; write its types out",
                    )
                self._instances[name] = use, None
                self._arguments = arguments
                decl = self._declaration(name, statement)
                self._instances[name] = use, decl
                self._made.setdefault(generic, []).append(decl)
        finally:
            self._arguments = outer
        return ir.Ref(name)

    def _reference(self, node: Node) -> ir.TypeExpr:
        name = node_text(node)
        if name in self._arguments:
            return self._arguments[name]
        if name in self._statements and type_parameters(self._statements[name].node):
            return self._instance(node, name, [])
        self._references.append((name, node, False))
        return ir.Ref(name)

    def _check_references(self, module: ir.Module) -> None:
        types, consts = module.types, module.consts
        for name, node, is_const in self._references:
            if name not in (consts if is_const else types):
                what = "constant" if is_const else "type"
                self._fail(node, f"the {what} '{name}' is not declared in this file")


_TYPE_READERS: Final[Mapping[str, Callable[[_Reader, Node], ir.TypeExpr]]] = {
    "tuple_type": _Reader.tuple_type,
    "template_literal_type": _Reader.template,
    "nested_type_identifier": _Reader.enum_member,
    "generic_type": _Reader.generic_type,
}
"""The functions that read types which take more than a line."""


def parse_fragment(member: str, path: str) -> ir.Field:
    """Return one member such as `name?: Type;` outside any file; names are not resolved.

    Raises `SchemaError` as `parse` does.
    """
    return _Reader(f"export interface Fragment {{\n{member}\n}}", path).fragment()
