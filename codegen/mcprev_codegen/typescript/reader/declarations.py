"""Reads the declarations of a file, in namespaces or not; they are the scope in which types are read.

All declarations are found before the first is read, so that they can refer to later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from tree_sitter import Node

from mcprev_codegen import ir
from mcprev_codegen.typescript.bounds import MAX_DECLARATIONS, MAX_DEPTH
from mcprev_codegen.typescript.jsdoc import comment_body, is_heading
from mcprev_codegen.typescript.reader.generics import Arguments, Generics
from mcprev_codegen.typescript.reader.text.literals import read_literal
from mcprev_codegen.typescript.reader.text.source_file import (
    SourceFile,
    named_children,
    node_text,
    span,
    type_parameters,
)
from mcprev_codegen.typescript.reader.types import TypeReader
from mcprev_codegen.typescript.reader.unsupported import NOT_JSON
from mcprev_codegen.typescript.reader.values import Values, is_composite, plain_value

_TYPES: Final = ("interface_declaration", "type_alias_declaration", "enum_declaration")
_CONSTANTS: Final = ("string", "template_string", "number", "unary_expression", "true", "false")
_NAMESPACES: Final = ("internal_module", "module")


@dataclass(frozen=True)
class _Statement:
    """A declaration before it is read."""

    name: str
    """The name in the IR: `AB` for the type B of the namespace A, `A_B` for a constant."""
    namespace: str
    """The path of the namespace, with a dot at its end; empty at the top level."""
    node: Node
    tags: ir.Tags
    doc: ir.Doc
    trailing: Sequence[Node]
    more: tuple[Node, ...] = ()
    """The further declarations of an interface, which TypeScript merges with the first."""

    @property
    def is_constant(self) -> bool:
        """Whether this declares a constant rather than a type."""
        return self.node.type == "lexical_declaration"


class Declarations:
    """The declarations of one file, each read once; the `TypeScope` of its types."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._types = TypeReader(file, self)
        self._generics = Generics(file, self._default_type, lambda name: name in self._named)
        self._statements: dict[str, _Statement] = {}
        """The types by path: `A.B` in a namespace."""
        self._constants: dict[str, _Statement] = {}
        """The constants by path, which may have the names of types."""
        self._values = Values(file, self._types, self.constant)
        self._value_types: dict[str, ir.TypeExpr | None] = {}
        """The types of the constants of several values, by name; None while one is being read."""
        self._named: dict[str, _Statement] = {}
        """The statements by name in the IR."""
        self._namespaces: set[str] = set()
        self._read: dict[str, ir.Decl | None] = {}
        """The declarations by name in the IR; None while one is being read."""
        self._enums: dict[str, dict[str, ir.Literal]] = {}
        self._namespace = ""
        self._arguments: Arguments = {}
        """What the type parameters stand for that are known here."""
        self._is_fragment = False
        self._functions: list[Node] = []

    def module(self) -> ir.Module:
        """Return the declarations of the file."""
        self._file.reject_syntax_errors()
        self._collect(self._file.root, "")
        found: dict[str, ir.Decl | None] = {
            name: None if type_parameters(statement.node) else self._declared(statement.node, statement)
            for name, statement in self._named.items()
        }
        decls: list[ir.Decl] = []
        for name, decl in found.items():
            decls += self._generics.made.get(name, []) if decl is None else [decl]
        if values := [one.node for one in self._constants.values() if is_composite(one.node)]:
            self._file.warn(
                values[0],
                f"constants of several values stand for their types alone, behind `typeof`: {len(values)} are left out, "
                "of which this is the first",
            )
        if self._functions:
            self._file.warn(
                self._functions[0],
                f"functions do not describe data: {len(self._functions)} are left out, of which this is the first",
            )
        return ir.Module(tuple(decls), tuple(dict.fromkeys(self._file.warnings)))

    def fragment(self) -> ir.Field:
        """Return the only member of the only interface; names in it are not resolved."""
        self._file.reject_syntax_errors()
        self._is_fragment = True
        declaration = self._file.root.named_children[0].named_children[0]
        members, index = self._types.members(named_children(declaration)[-1])
        if len(self._file.root.named_children) != 1 or len(members) != 1 or index is not None:
            self._file.fail(declaration, "exactly one member is expected here")
        return members[0]

    # -- statements ----------------------------------------------------------------------------------

    def _collect(self, body: Node, namespace: str) -> None:
        """Find the declarations in a file or namespace."""
        listed: list[Node] = []
        for node, leading, trailing in self._file.siblings(body):
            if (names := _export_list(node)) is not None:
                listed += names
                continue
            inner = self._exported(node)
            if inner.type in _NAMESPACES:
                self._collect_namespace(inner, namespace)
            elif inner.type == "function_signature":
                self._functions.append(inner)
            else:
                self._add(node, namespace, inner, leading, trailing)
        for node in listed:
            path = f"{namespace}{node_text(node)}"
            if path not in self._statements | self._constants and path not in self._namespaces:
                self._file.fail(node, f"'{node_text(node)}' is not declared in this file")

    def _add(
        self, node: Node, namespace: str, inner: Node, leading: Sequence[Node], trailing: Sequence[Node]
    ) -> None:
        own_name = self._name(inner)
        path = f"{namespace}{own_name}"
        constant = inner.type == "lexical_declaration"
        declared = self._constants if constant else self._statements
        if path in declared:
            self._merge(node, declared[path], path, own_name, inner)
            return
        if len(self._statements) + len(self._constants) == MAX_DECLARATIONS:
            self._file.fail(node, f"more than {MAX_DECLARATIONS} declarations are not supported")
        separator = "_" if namespace and constant else ""
        name = self._file.short(node, f"{namespace.replace('.', '')}{separator}{own_name}")
        headings = [n for n, comment in enumerate(leading, 1) if is_heading(node_text(comment))]
        above = leading[headings[-1] :] if headings else leading
        statement = _Statement(name, namespace, inner, *self._file.docs(above), trailing)
        declared[path] = statement
        if not (constant and is_composite(inner)):
            self._give_name(node, path, statement)

    def _give_name(self, node: Node, path: str, statement: _Statement) -> None:
        """Give a declaration its name in the IR; a constant that has the name of a type gets a `_` behind it."""
        first = self._named.get(statement.name)
        if first is not None and not first.is_constant and statement.is_constant:
            statement = self._constants[path] = replace(statement, name=f"{statement.name}_")
        elif first is not None and first.is_constant and not statement.is_constant:
            renamed = replace(first, name=f"{first.name}_")
            self._refuse_taken(node, renamed.name)
            self._constants = {p: renamed if one is first else one for p, one in self._constants.items()}
            named = (renamed if one is first else one for one in self._named.values())
            self._named = {one.name: one for one in named}
        self._refuse_taken(node, statement.name)
        self._named[statement.name] = statement

    def _refuse_taken(self, node: Node, name: str) -> None:
        if name in self._named:
            self._file.fail(node, f"the generated name '{name}' is that of another type; rename one of them")

    def _merge(self, node: Node, first: _Statement, path: str, own_name: str, inner: Node) -> None:
        """Add a further declaration of an interface. Raises `SchemaError` for any other second declaration."""
        if any(n.type != "interface_declaration" or type_parameters(n) for n in (first.node, inner)):
            line = first.node.start_point[0] + 1
            self._file.fail(
                node, f"'{own_name}' is declared twice (first on line {line}); rename one of them"
            )
        self._statements[path] = self._named[first.name] = replace(first, more=(*first.more, inner))

    def _collect_namespace(self, node: Node, outer: str) -> None:
        name, *body = named_children(node)
        if name.type == "string":
            self._file.unsupported(node, "at the top level")
        namespace = self._file.short(name, f"{outer}{node_text(name)}.")
        if namespace.count(".") > MAX_DEPTH:
            self._file.fail(name, f"namespaces are nested more than {MAX_DEPTH} deep")
        parts = namespace.split(".")
        self._namespaces |= {".".join(parts[:n]) for n in range(1, len(parts))}
        if body:
            self._collect(body[0], namespace)

    def _exported(self, node: Node) -> Node:
        """Return the declaration in a statement, exported, ambient or not."""
        where, inner = "at the top level", node
        if inner.type == "export_statement":
            declaration = inner.child_by_field_name("declaration")
            if declaration is None or any(child.type == "default" for child in inner.children):
                self._file.unsupported(inner, where)
            where, inner = "as an exported declaration", declaration
        if inner.type == "ambient_declaration":
            if inner.children[1].type == "global":
                self._file.unsupported(inner, where)
            inner = named_children(inner)[0]
        elif inner.type == "expression_statement":
            inner = named_children(inner)[0]
        if inner.type not in (*_TYPES, *_NAMESPACES, "lexical_declaration", "function_signature"):
            self._file.unsupported(inner, where)
        return inner

    def _name(self, node: Node) -> str:
        if node.type != "lexical_declaration":
            name = node.child_by_field_name("name")
            assert name is not None
            return self._file.short(name, node_text(name))
        if node.children[0].type != "const":
            self._file.unsupported(node.children[0], "as a declaration")
        declarators = named_children(node)
        if len(declarators) != 1:
            self._file.fail(
                declarators[1], "only one constant per statement is supported; write a statement for each"
            )
        name = named_children(declarators[0])[0]
        if name.type != "identifier":
            self._file.unsupported(name, "as a declaration")
        return self._file.short(node, node_text(name))

    # -- the scope of types --------------------------------------------------------------------------

    def reference(self, node: Node, name: str) -> ir.TypeExpr:
        """Return what a name stands for: an argument of a generic, a member of an enum, or a declared type."""
        if name in self._arguments:
            return self._arguments[name]
        statement = self._find(name)
        if statement is None and "." in name:
            return self._enum_member(node, name)
        if statement is not None and type_parameters(statement.node):
            return self._use(node, statement, [])
        if statement is None and name in NOT_JSON:
            self._file.fail(node, f"the type '{name}' has no equivalent in JSON; {NOT_JSON[name]}")
        if not self._is_fragment and statement is None:
            self._file.fail(
                node, f"the type '{name}' is not declared in this file; declare it, or correct the name"
            )
        return ir.Ref(statement.name if statement else name)

    def constant(self, node: Node, name: str) -> ir.TypeExpr:
        """Return the type of a constant: a reference to it, or the type of its values; or that of an enum."""
        if self._is_fragment:
            return ir.ConstRef(name)
        statement = self._find(name, self._constants)
        if statement is not None:
            return self._constant_type(node, statement)
        enum = self._find(name)
        if enum is not None and enum.node.type == "enum_declaration":
            values = self._enum_values(enum).items()
            return ir.Obj(tuple(ir.Field(key, ir.Lit(value, of_enum=True)) for key, value in values))
        self._file.fail(
            node, f"the constant '{name}' is not declared in this file; declare it, or correct the name"
        )

    def _constant_type(self, node: Node, statement: _Statement) -> ir.TypeExpr:
        """Return a reference to a constant, or the type of one of several values."""
        if not is_composite(statement.node):
            return ir.ConstRef(statement.name)
        path = f"{statement.namespace}{statement.name}"
        if path not in self._value_types:
            self._value_types[path] = None
            with self._within(statement.namespace, {}):
                self._value_types[path] = self._values.type(statement.node)
        type_ = self._value_types[path]
        if type_ is None:
            self._refuse_circle(node, statement.name)
        return type_

    def is_generic(self, name: str) -> bool:
        """Return whether the file declares a generic of that name."""
        statement = self._find(name)
        return statement is not None and bool(type_parameters(statement.node))

    def use(self, node: Node, name: str, arguments: Sequence[ir.TypeExpr]) -> ir.Ref:
        """Return the declaration that a generic becomes with these arguments."""
        statement = self._find(name)
        assert statement is not None
        return self._use(node, statement, arguments)

    def opened(self, node: Node, reference: ir.Ref) -> ir.Interface | ir.Alias | None:
        """Return the declaration that a reference names; None in a fragment, which has none."""
        statement = self._named.get(reference.name)
        decl = self._declared(node, statement) if statement else self._generics.instance(reference.name)
        if decl is None and not self._is_fragment:
            self._refuse_circle(node, reference.name)
        assert not isinstance(decl, ir.Const)
        return decl

    def bound(self, arguments: Mapping[str, ir.TypeExpr]) -> AbstractContextManager[None]:
        """Let more names stand for types, until the context is left."""
        return self._within(self._namespace, {**self._arguments, **arguments})

    @contextmanager
    def _within(self, namespace: str, arguments: Arguments) -> Iterator[None]:
        outer = self._namespace, self._arguments
        self._namespace, self._arguments = namespace, arguments
        try:
            yield
        finally:
            self._namespace, self._arguments = outer

    def _find(self, path: str, declared: Mapping[str, _Statement] | None = None) -> _Statement | None:
        """Return the type, or another declaration, that a path names here: in the innermost namespace with its first name."""
        declared = self._statements if declared is None else declared
        first, dot, _ = path.partition(".")
        outer = self._namespace
        while True:
            if f"{outer}{path}" in declared:
                return declared[f"{outer}{path}"]
            if not outer or (dot and f"{outer}{first}" in self._namespaces):
                return None
            outer = outer[: outer.rfind(".", 0, -1) + 1]

    def _enum_member(self, node: Node, name: str) -> ir.Lit:
        enum, _, member = name.rpartition(".")
        statement = self._find(enum)
        if statement is None or statement.node.type != "enum_declaration":
            self._file.unsupported(node, "as a type")
        values = self._enum_values(statement)
        if member not in values:
            self._file.fail(node, f"the enum '{enum}' has no member '{member}'")
        return ir.Lit(values[member], of_enum=True)

    def _default_type(self, node: Node, arguments: Arguments) -> ir.TypeExpr:
        with self._within(self._namespace, arguments):
            return self._types.type(node)

    def _use(self, node: Node, statement: _Statement, given: Sequence[ir.TypeExpr]) -> ir.Ref:
        def read(name: str, arguments: Arguments) -> ir.Decl:
            with self._within(statement.namespace, arguments):
                return self._declaration(replace(statement, name=name))

        with self._within(statement.namespace, {}):
            return self._generics.use(node, statement.name, statement.node, given, read)

    def _refuse_circle(self, node: Node, name: str) -> NoReturn:
        self._file.fail(node, f"'{name}' is defined in terms of itself here; write the type out")

    # -- declarations --------------------------------------------------------------------------------

    def _declared(self, node: Node, statement: _Statement) -> ir.Decl:
        """Return a declaration that is no generic; it is read at its first use."""
        if statement.name not in self._read:
            self._read[statement.name] = None
            with self._within(statement.namespace, {}):
                self._read[statement.name] = self._declaration(statement)
        decl = self._read[statement.name]
        if decl is None:
            self._refuse_circle(node, statement.name)
        return decl

    def _declaration(self, statement: _Statement) -> ir.Decl:
        readers: dict[str, Callable[[_Statement], ir.Decl]] = {
            "interface_declaration": self._interface,
            "type_alias_declaration": self._alias,
            "enum_declaration": self._enum,
        }
        return readers.get(statement.node.type, self._const)(statement)

    def _interface(self, statement: _Statement) -> ir.Interface | ir.Alias:
        tags, doc, lines = statement.tags, statement.doc, span(statement.node)
        bases: list[ir.Ref | ir.Derived] = []
        bodies: list[Node] = []
        for node in (statement.node, *statement.more):
            body = node.child_by_field_name("body")
            assert body is not None
            bodies.append(body)
            clauses = (c for c in named_children(node) if c.type == "extends_type_clause")
            extended = [base for clause in clauses for base in named_children(clause)]
            for base in extended:
                type_ = self._types.base(base)
                alone = len(extended) == 1 and not (statement.more or named_children(body))
                if alone and isinstance(type_, ir.Array):  # an array by another name
                    return ir.Alias(statement.name, type_, tags, doc, lines)
                if not isinstance(type_, ir.Ref | ir.Derived):
                    self._file.unsupported(
                        base,
                        "as the base of an interface, which is a name or made from one, as in Partial<Name>",
                    )
                bases.append(type_)
        fields, index = self._types.members(*bodies)
        return ir.Interface(statement.name, tuple(bases), fields, index, tags, doc, lines)

    def _alias(self, statement: _Statement) -> ir.Alias:
        node = statement.node
        value = node.child_by_field_name("value")
        assert value is not None
        doc = replace(statement.doc, members=self._file.member_remarks(value, statement.trailing))
        return ir.Alias(statement.name, self._types.type(value), statement.tags, doc, span(node))

    def _enum(self, statement: _Statement) -> ir.Alias:
        node = statement.node
        values = self._enum_values(statement)
        if not values:
            self._file.fail(node, f"the enum '{statement.name}' has no member")
        remarks: list[tuple[int, str]] = []
        for n, (_, above, trailing) in enumerate(self._file.siblings(named_children(node)[-1])):
            remarks += [(n, comment_body(node_text(c))) for c in (*above[-1:], *trailing)][:1]
        type_ = ir.union_of(ir.Lit(value, of_enum=True) for value in values.values())
        doc = replace(statement.doc, members=tuple(remarks))
        return ir.Alias(statement.name, type_, statement.tags, doc, span(node))

    def _enum_values(self, statement: _Statement) -> dict[str, ir.Literal]:
        """Return the value of each member of an enum; a member without a value has the previous value plus one."""
        if statement.name in self._enums:
            return self._enums[statement.name]
        values = self._enums[statement.name] = {}
        following: ir.Literal | None = 0
        for member in named_children(named_children(statement.node)[-1]):
            self._file.count(member)
            key, *given = named_children(member) if member.type == "enum_assignment" else [member]
            name = self._types.name(key)
            if not given and following is None:
                self._file.fail(
                    member,
                    f"the enum's member '{name}' requires a value, because the previous member is not a number",
                )
            value = read_literal(self._file, given[0]) if given else following
            assert value is not None
            values[name] = value
            following = None if isinstance(value, str) else value + 1
        return values

    def _const(self, statement: _Statement) -> ir.Const:
        (declarator,) = named_children(statement.node)
        value = declarator.child_by_field_name("value")
        type_ = declarator.child_by_field_name("type")
        if type_ is not None:
            (literal,) = named_children(type_)
            if value is not None or literal.type != "literal_type":
                self._file.unsupported(type_, "on a constant")
            (value,) = named_children(literal)
        elif value is None:
            self._file.fail(
                declarator, "a constant requires a value; write `= ` and the value after its name"
            )
        else:
            value, _ = plain_value(value)
        if value.type not in _CONSTANTS:
            self._file.unsupported(value, "as the value of a constant")
        literal_value = read_literal(self._file, value)
        return ir.Const(statement.name, literal_value, statement.tags, statement.doc, span(statement.node))


def _is_directive(node: Node) -> bool:
    """Return whether a statement is a string, such as "use strict"."""
    return node.type == "expression_statement" and [c.type for c in named_children(node)] == ["string"]


def _export_list(node: Node) -> list[Node] | None:
    """Return the names in `export { A, B };`, or none in a statement without effect; None for any other statement."""
    if node.type == "empty_statement" or _is_directive(node):
        return []
    if node.type != "export_statement":
        return None
    if [child.type for child in node.children[1:3]] == ["as", "namespace"]:
        return []
    clauses = [child for child in named_children(node) if child.type == "export_clause"]
    if not clauses or len(named_children(node)) != 1:
        return None
    specifiers = [named_children(specifier) for specifier in named_children(clauses[0])]
    return [s[0] for s in specifiers] if all(len(s) == 1 for s in specifiers) else None
