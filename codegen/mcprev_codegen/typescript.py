"""TypeScript to IR: reads the subset of the language that schema.ts is written in.

tree-sitter parses; every node kind is then either known here or an error with its place in the file.
Nothing is guessed: a construct this module does not know could change the meaning of the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final, NoReturn

import tree_sitter_typescript
from tree_sitter import Language, Node, Parser

from mcprev_codegen import comments, ir
from mcprev_codegen.errors import SchemaError
from mcprev_codegen.naming import pascal_case

_PRIMITIVES: Final = frozenset({"string", "number", "boolean", "unknown", "any", "object"})
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_UTILITIES: Final = {"Pick": 2, "Omit": 2, "Partial": 1, "Required": 1}
"""The types that derive an object type from another one, with the number of their arguments."""
_MAX_NESTING: Final = 20
"""How deep the uses of generics may stand in each other."""
_SPELL_OUT: Final = "write its members out in an interface"
_PLAIN_DATA: Final = "a schema describes plain data: use interfaces, type aliases, enums and constants"
_UNSUPPORTED: Final = {
    "import_statement": (
        "an import",
        "a schema is one file: put the declarations that it imports into this file",
    ),
    "internal_module": ("a namespace", "move its declarations to the top level"),
    "nested_type_identifier": ("a qualified name", "only members of an enum have one: `Enum.Member`"),
    "mapped_type_clause": ("a mapped type", f"{_SPELL_OUT}, or use Record<Keys, T>"),
    "conditional_type": ("a conditional type", "write the type out that it stands for"),
    "infer_type": ("an infer type", "write the type out that it stands for"),
    "index_type_query": ("a keyof type", "write the names out as a union of literals"),
    "lookup_type": ("an indexed access type", "declare the member's type as an alias and name that"),
    "function_type": ("a function type", _PLAIN_DATA),
    "method_signature": ("a method signature", _PLAIN_DATA),
    "call_signature": ("a call signature", _PLAIN_DATA),
    "construct_signature": ("a construct signature", _PLAIN_DATA),
    "class_declaration": ("a class", _PLAIN_DATA),
    "function_declaration": ("a function", _PLAIN_DATA),
    "ambient_declaration": ("an ambient declaration", "take the `declare` out"),
    "export_statement": ("this form of export", "put `export` before the declarations"),
    "rest_type": ("a rest item of a tuple", "use an array of a union, or a tuple of fixed length"),
    "optional_type": ("an optional item of a tuple", "write a union of tuples"),
    "optional_parameter": ("an optional item of a tuple", "write a union of tuples"),
    "binary_expression": ("a computed constant", "write the value out"),
}
"""What is not supported, by tree-sitter's name: the field's name for it, and what to write instead."""


def parse(source: str, path: str) -> ir.Module:
    """Parse the text of a schema.ts; `path` is only named in errors.

    Generic declarations become one declaration for each use, `Page<Tool>` the interface `PageTool`; an enum
    becomes the union of its values; `readonly` and `export` say nothing about messages and are dropped.
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


@dataclass(frozen=True)
class _Statement:
    """One declaration of the file that has not been read yet."""

    node: Node
    tags: ir.Tags
    doc: ir.Doc
    trailing: Sequence[Node]


class _Reader:
    def __init__(self, source: str, path: str) -> None:
        self._path = path
        self._lines = source.split("\n")
        self._root = _parser().parse(source.encode("utf-8")).root_node
        self._mentions: list[tuple[str, Node, bool]] = []
        self._statements: dict[str, _Statement] = {}
        self._arguments: Mapping[str, ir.TypeExpr] = {}
        """What the type parameters of the generic that is being read stand for."""
        self._instances: dict[str, tuple[tuple[str, tuple[ir.TypeExpr, ...]], ir.Decl | None]] = {}
        """The uses of generics by the name of each, with generic and arguments; None while one is being read."""
        self._warnings: list[str] = []

    def module(self) -> ir.Module:
        self._reject_syntax_errors()
        self._collect()
        found: dict[str, ir.Decl | None] = {
            name: None if self._parameters(statement.node) else self._declaration(name, statement)
            for name, statement in self._statements.items()
        }
        decls: list[ir.Decl] = []
        for name, decl in found.items():
            made = [d for (generic, _), d in self._instances.values() if generic == name and d is not None]
            decls += made if decl is None else [decl]
        module = ir.Module(tuple(decls), tuple(dict.fromkeys(self._warnings)))
        self._check_mentions(module)
        return module

    def _collect(self) -> None:
        """Find every declaration, so that one can be read before those above it."""
        section: str | None = None
        listed: list[Node] = []
        for node, leading, trailing in self._siblings(self._root):
            above: list[Node] = []
            for comment in leading:
                if comments.is_heading(_text(comment)):
                    section = comments.body(_text(comment))
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
            self._statements[name] = _Statement(inner, *self._docs(above, section), trailing)
        for node in listed:
            if _text(node) not in self._statements:
                self._fail(node, f"'{_text(node)}' is not declared in this file")

    def _export_list(self, node: Node) -> list[Node]:
        """The names in `export { A, B };`; none for another statement."""
        clauses = (
            [c for c in _named(node) if c.type == "export_clause"] if node.type == "export_statement" else []
        )
        if not clauses or len(_named(node)) != 1:
            return []
        specifiers = [_named(specifier) for specifier in _named(clauses[0])]
        return [s[0] for s in specifiers] if all(len(s) == 1 for s in specifiers) else []

    def _exported(self, node: Node) -> Node:
        """The declaration in a statement, exported or not."""
        if node.type != "export_statement":
            inner = _named(node)[0] if node.type == "expression_statement" else node
            if inner.type not in _DECLARATIONS:
                self._unknown(inner, "at the top level")
            return inner
        declaration = node.child_by_field_name("declaration")
        if declaration is None or any(child.type == "default" for child in node.children):
            self._unknown(node, "at the top level")
        if declaration.type not in _DECLARATIONS:
            self._unknown(declaration, "as an exported declaration")
        return declaration

    def _name(self, node: Node) -> str:
        if node.type != "lexical_declaration":
            name = node.child_by_field_name("name")
            assert name is not None
            return _text(name)
        if node.children[0].type != "const":
            self._unknown(node.children[0], "as a declaration")
        declarators = _named(node)
        if len(declarators) != 1:
            self._fail(declarators[1], "one constant to a statement, please")
        return _text(_named(declarators[0])[0])

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
        token = f"'{node.type}'" if node.is_named else f"the token '{node.type}'"
        what, instead = _UNSUPPORTED.get(node.type, (token, _PLAIN_DATA))
        self._fail(node, f"{what} is not supported {where}; {instead}")

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
        found = [c for c in above if comments.is_jsdoc(_text(c))]
        try:
            tags, doc, unknown = comments.read([_text(c) for c in above], section)
        except comments.BadTag as error:
            self._fail(found[-1], str(error), below=error.line)
        for name, below in unknown:
            row = found[-1].start_point[0] + below + 1
            self._warnings.append(
                f"{self._path}:{row}: the JSDoc tag '@{name}' is not known; it is kept as prose"
            )
        return tags, doc

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
        extends = [c for c in _named(node) if c.type == "extends_type_clause"]
        bases = tuple(self._base(base) for clause in extends for base in _named(clause))
        fields, index = self._members(body)
        return ir.Interface(name, bases, fields, index, tags, doc, _span(node))

    def _base(self, node: Node) -> ir.Ref | ir.Derived:
        if node.type in ("type_identifier", "generic_type"):
            base = self._type(node)
            if isinstance(base, ir.Ref | ir.Derived):
                return base
        self._unknown(
            node, "as the base of an interface, which is a name or made from one, as in Partial<Name>"
        )

    def _alias(self, name: str, node: Node, tags: ir.Tags, doc: ir.Doc, trailing: Sequence[Node]) -> ir.Alias:
        value = node.child_by_field_name("value")
        assert value is not None
        members = self._member_remarks(value, trailing)
        return ir.Alias(name, self._type(value), tags, replace(doc, members=members), _span(node))

    def _enum(self, name: str, node: Node, tags: ir.Tags, doc: ir.Doc) -> ir.Alias:
        values = self._enum_values(node)
        if not values:
            self._fail(node, f"the enum '{name}' has no member")
        remarks: list[tuple[int, str]] = []
        for n, (_, above, trailing) in enumerate(self._siblings(_named(node)[-1])):
            remarks += [(n, comments.body(_text(c))) for c in (*above[-1:], *trailing)][:1]
        literals = tuple(ir.Lit(value) for value in values.values())
        type_ = literals[0] if len(literals) == 1 else ir.Union(literals)
        return ir.Alias(name, type_, tags, replace(doc, members=tuple(remarks)), _span(node))

    def _enum_values(self, node: Node) -> dict[str, ir.Literal]:
        """The value of each member of an enum; one without a value counts on from the one before."""
        values: dict[str, ir.Literal] = {}
        following: ir.Literal | None = 0
        for member in _named(_named(node)[-1]):
            key, *given = _named(member) if member.type == "enum_assignment" else [member]
            name = self._string(key) if key.type == "string" else _text(key)
            if not given and following is None:
                self._fail(member, f"the enum's member '{name}' needs a value: the one before is no number")
            value = self._literal(given[0]) if given else following
            assert value is not None
            values[name] = value
            following = None if isinstance(value, str) else value + 1
        return values

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

    def _const(self, name: str, node: Node, tags: ir.Tags, doc: ir.Doc) -> ir.Const:
        (declarator,) = _named(node)
        for child in _named(declarator):
            if child.type not in ("identifier", "string", "number", "unary_expression", "true", "false"):
                self._unknown(child, "in a constant; a string, number or boolean is")
        return ir.Const(name, self._literal(_named(declarator)[1]), tags, doc, _span(node))

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
                case "readonly":
                    pass
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
            case "literal_type":
                (value,) = _named(node)
                return ir.Prim("null") if value.type == "null" else ir.Lit(self._literal(value))
            case "union_type":
                return self._joined(node, ir.Union)
            case "intersection_type":
                return self._joined(node, ir.Intersection)
            case "array_type":
                return ir.Array(self._type(_named(node)[0]))
            case "parenthesized_type" | "readonly_type":
                (inner,) = _named(node)
                return self._type(inner)
            case "object_type":
                return ir.Obj(*self._members(node))
            case kind if kind in _OWN_READERS:
                return _OWN_READERS[kind](self, node)
            case "type_query" if [c.type for c in _named(node)] == ["identifier"]:
                name = _text(_named(node)[0])
                self._mentions.append((name, node, True))
                return ir.ConstRef(name)
            case "predefined_type":
                self._fail(node, f"the type '{_text(node)}' has no JSON counterpart")
            case _:
                self._unknown(node, "as a type")

    def _joined(self, node: Node, kind: type[ir.Union | ir.Intersection]) -> ir.TypeExpr:
        """A union or intersection; one that a type parameter stands for in it is opened, too."""
        members: list[ir.TypeExpr] = []
        for part in self._flatten(node, node.type):
            member = self._type(part)
            members += member.members if isinstance(member, kind) else [member]
        return members[0] if len(members) == 1 else kind(tuple(members))

    def tuple_type(self, node: Node) -> ir.Tuple:
        """A tuple, whose items may have names."""
        named = [_named(item)[-1] if item.type == "required_parameter" else item for item in _named(node)]
        items = [self._annotation(i) if i.type == "type_annotation" else self._type(i) for i in named]
        return ir.Tuple(tuple(items))

    def template(self, node: Node) -> ir.Template:
        for part in _named(node):
            if part.type == "template_type" and _text(_named(part)[0]) not in ir.PLACEHOLDERS:
                shown = ", ".join(f"${{{name}}}" for name in ir.PLACEHOLDERS)
                self._fail(
                    part, f"only {shown} are supported in a template literal type; write a union of them"
                )
        return ir.Template(_text(node)[1:-1])

    def enum_member(self, node: Node) -> ir.Lit:
        enum, member = (_text(part) for part in _named(node))
        statement = self._statements.get(enum)
        if statement is None or statement.node.type != "enum_declaration":
            self._unknown(node, "as a type")
        values = self._enum_values(statement.node)
        if member not in values:
            self._fail(node, f"the enum '{enum}' has no member '{member}'")
        return ir.Lit(values[member])

    # -- generic types -------------------------------------------------------------------------------

    def generic_type(self, node: Node) -> ir.TypeExpr:
        name_node, args_node = _named(node)
        name, args = _text(name_node), _named(args_node)
        if name in self._statements and self._parameters(self._statements[name].node):
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
            node, f"the generic type '{name}' is not supported here; {known} are, and those of this file"
        )

    def _record(self, keys_node: Node, value: ir.TypeExpr) -> ir.Record | ir.Obj:
        keys = self._keys(keys_node)
        return ir.Record(value) if keys is None else ir.Obj(tuple(ir.Field(key, value) for key in keys))

    def _keys(self, node: Node) -> tuple[str, ...] | None:
        """The member names that a type of keys stands for; None for any string."""
        values = [self._key(node, member) for member in self._alternatives(self._type(node), 0)]
        keys = [value for value in values if value is not None]
        return tuple(keys) if len(keys) == len(values) else None

    def _key(self, node: Node, type_: ir.TypeExpr) -> str | None:
        if type_ == ir.Prim("string"):
            return None
        if isinstance(type_, ir.Lit) and isinstance(type_.value, str):
            return type_.value
        self._fail(
            node,
            "the names of members are expected here: string literals, an alias or enum of such, or string",
        )

    def _alternatives(self, type_: ir.TypeExpr, depth: int) -> Iterator[ir.TypeExpr]:
        """The members of a union, through aliases and enums."""
        if isinstance(type_, ir.Union):
            for member in type_.members:
                yield from self._alternatives(member, depth)
        elif isinstance(type_, ir.Ref) and depth < len(self._statements) and type_.name in self._statements:
            decl = self._declaration(type_.name, self._statements[type_.name])
            yield from self._alternatives(decl.type, depth + 1) if isinstance(decl, ir.Alias) else [type_]
        else:
            yield type_

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
                self._fail(node, f"{kind} is supported of an interface or object only; give this type a name")

    def _parameters(self, node: Node) -> list[Node]:
        """The type parameters of a generic declaration."""
        found = node.child_by_field_name("type_parameters")
        return [] if found is None else _named(found)

    def _instance(self, node: Node, generic: str, given: Sequence[ir.TypeExpr]) -> ir.Ref:
        """The declaration that a generic with its arguments stands for; it is read when it is first used."""
        statement = self._statements[generic]
        parameters = self._parameters(statement.node)
        outer, self._arguments = self._arguments, {}
        arguments: dict[str, ir.TypeExpr] = {}
        try:
            for n, parameter in enumerate(parameters):
                default = next((_named(c)[0] for c in _named(parameter) if c.type == "default_type"), None)
                if n < len(given):
                    arguments[_text(_named(parameter)[0])] = given[n]
                elif default is not None:
                    self._arguments = dict(arguments)
                    arguments[_text(_named(parameter)[0])] = self._type(default)
            if len(arguments) < len(parameters) or len(given) > len(parameters):
                self._fail(
                    node, f"'{generic}' has {len(parameters)} type parameters, and {len(given)} are given"
                )
            name = generic + "".join(self._spelled(node, argument) for argument in arguments.values())
            use = generic, tuple(arguments.values())
            if name in self._statements or self._instances.get(name, (use, None))[0] != use:
                self._fail(node, f"this would be called '{name}', and another type is; rename one of them")
            if name not in self._instances:
                if sum(decl is None for _, decl in self._instances.values()) == _MAX_NESTING:
                    self._fail(
                        node, f"'{generic}' is used by itself with ever new arguments; write its types out"
                    )
                self._instances[name] = use, None
                self._arguments = arguments
                self._instances[name] = use, self._declaration(name, statement)
        finally:
            self._arguments = outer
        return ir.Ref(name)

    def _spelled(self, node: Node, argument: ir.TypeExpr) -> str:
        """What an argument adds to the name of the declaration that is made for it."""
        match argument:
            case ir.Ref(name):
                return name
            case ir.Prim(name):
                return name.capitalize()
            case ir.Lit(str() as value):
                return pascal_case(value)
            case ir.Array(item):
                return f"{self._spelled(node, item)}List"
            case ir.Record(value):
                return f"{self._spelled(node, value)}Map"
            case ir.Union(members):
                return "Or".join(self._spelled(node, member) for member in members)
            case _:
                self._fail(
                    node, "this argument has no name to call the type by; declare an alias and use that"
                )

    def _flatten(self, node: Node, kind: str) -> Iterator[Node]:
        for child in _named(node):
            inner = child
            while inner.type == "parenthesized_type":
                (inner,) = _named(inner)
            if inner.type == kind:
                yield from self._flatten(inner, kind)
            else:
                yield child

    def _reference(self, node: Node) -> ir.TypeExpr:
        name = _text(node)
        if name in self._arguments:
            return self._arguments[name]
        if name in self._statements and self._parameters(self._statements[name].node):
            return self._instance(node, name, [])
        self._mentions.append((name, node, False))
        return ir.Ref(name)

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


_OWN_READERS: Final[Mapping[str, Callable[[_Reader, Node], ir.TypeExpr]]] = {
    "tuple_type": _Reader.tuple_type,
    "template_literal_type": _Reader.template,
    "nested_type_identifier": _Reader.enum_member,
    "generic_type": _Reader.generic_type,
}
"""What reads the types that take more than a line."""
_DECLARATIONS: Final = (
    "interface_declaration",
    "type_alias_declaration",
    "enum_declaration",
    "lexical_declaration",
)


def parse_fragment(member: str, path: str) -> ir.Field:
    """Parse one member such as `name?: Type;` that stands outside any file; names are not looked up.

    Raises `SchemaError` as `parse` does.
    """
    return _Reader(f"export interface Fragment {{\n{member}\n}}", path).fragment()
