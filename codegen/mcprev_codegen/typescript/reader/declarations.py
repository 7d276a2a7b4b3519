"""Reads the declarations of a file, in namespaces or not; they are the scope in which types are read.

All declarations are found before the first is read, so that they can refer to later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Final, NoReturn

from tree_sitter import Node

from mcprev_codegen import ir
from mcprev_codegen.errors import NoDataError, SchemaError
from mcprev_codegen.typescript.bounds import MAX_DEPTH
from mcprev_codegen.typescript.jsdoc import comment_body
from mcprev_codegen.typescript.reader.files.collecting import Collector
from mcprev_codegen.typescript.reader.files.lookup import Lookup, NameScope
from mcprev_codegen.typescript.reader.files.modules import Sources, Statement
from mcprev_codegen.typescript.reader.generics import Arguments, Generics, is_exported, is_parametric
from mcprev_codegen.typescript.reader.naming import DeclarationNames
from mcprev_codegen.typescript.reader.needed import Needed
from mcprev_codegen.typescript.reader.text.computed import Computed
from mcprev_codegen.typescript.reader.text.literals import read_literal
from mcprev_codegen.typescript.reader.text.source_file import (
    SourceFile,
    flatten,
    named_children,
    node_text,
    type_parameters,
)
from mcprev_codegen.typescript.reader.types.expressions import TypeReader
from mcprev_codegen.typescript.reader.types.values import Values, bare_value, is_composite
from mcprev_codegen.typescript.reader.unsupported import NOT_JSON, no_json

_CONSTANTS: Final = ("string", "template_string", "number", "unary_expression", "true", "false")
_NOT_FOUND: Final = "what is imported from packages that cannot be found"


class Declarations:
    """The declarations of a schema, each read once; the `TypeScope` of its types."""

    def __init__(
        self,
        file: SourceFile,
        sources: Sources | None = None,
        *,
        strict: bool = True,
        roots: Sequence[str] = (),
    ) -> None:
        self._file = file
        self._strict = strict
        self._roots = roots
        self._collector = Collector(file, sources, strict=strict)
        self._lookup = Lookup(self._collector)
        self._names = DeclarationNames(file, self._collector, self._lookup, strict=strict)
        self._types = TypeReader(file, self, self._collector.leave_out if not strict else None)
        self._generics = Generics(file, self._is_taken)
        self._by_themselves: dict[str, list[ir.Decl] | None] = {}
        """What each exported generic is by itself; None while it is being read."""
        self._stand_ins_of: dict[str, list[ir.Alias]] = {}
        self._shared: dict[str, ir.Alias] = {}
        """The type parameters, by their name and what they are by default and extend."""
        self._stand_in_names: set[str] = set()
        self._values = Values(file, self._types, self.constant)
        self._value_types: dict[str, ir.TypeExpr | None] = {}
        """The types of the constants of several values, by name; None while one is being read."""
        self._read: dict[str, ir.Decl | None] = {}
        """The declarations by name in the IR; None while one is being read."""
        self._enums: dict[str, dict[str, ir.Literal]] = {}
        self._scope = NameScope(self._collector.first)
        self._arguments: Arguments = {}
        """What the type parameters stand for that are known here."""
        self._is_fragment = False

    def module(self) -> ir.Module:
        """Return the declarations of the first file, or its roots, and all that they need of others."""
        self._file.reject_syntax_errors()
        self._collector.collect()
        self._names.give_first()
        needed = Needed(
            self._file,
            self._names,
            self._declaration_of,
            self._parametric,
            self._generics,
            strict=self._strict,
        )
        decls = needed.decls(self._roots)
        self._tell(needed)
        return ir.Module(decls, tuple(dict.fromkeys(self._file.warnings)), self._collector.lines)

    def _declaration_of(self, statement: Statement) -> ir.Decl | None:
        """Return a declaration; None for a generic, which is one for each use, and for constants of several values."""
        if type_parameters(statement.node) or (statement.is_constant and is_composite(statement.node)):
            return None
        return self._declared(statement.node, statement)

    def _tell(self, needed: Needed) -> None:
        """Warn of what is left out, once for each kind."""
        values = [one for one in self._collector.first.constants.values() if is_composite(one.node)]
        if values:
            self._file.warn(
                values[0].node,
                f"constants of several values, or with a type instead of one, stand for their types alone, behind `typeof`: {len(values)} are left out, "
                "of which this is the first",
            )
        for kind, places in self._collector.left_out.items():
            text, node = places[0]
            with self._file.reading(text):
                self._file.warn(
                    node,
                    f"{kind} do not describe data: {len(places)} are left out, of which this is the first",
                )
        self._file.warnings += needed.told

    def fragment(self) -> ir.Field:
        """Return the only member of the only interface; names in it are not resolved."""
        self._file.reject_syntax_errors()
        self._is_fragment = True
        declaration = self._file.root.named_children[0].named_children[0]
        members, index = self._types.members((named_children(declaration)[-1], None))
        if len(self._file.root.named_children) != 1 or len(members) != 1 or index is not None:
            self._file.fail(declaration, "exactly one member is expected here")
        return members[0]

    # -- the scope of types --------------------------------------------------------------------------

    def reference(self, node: Node, name: str) -> ir.TypeExpr:
        """Return what a name stands for: an argument of a generic, a member of an enum, or a declared type."""
        if name in self._arguments:
            return self._arguments[name]
        if self._is_fragment:
            return ir.Ref(name)
        statement = self._find(name)
        if statement is None:
            return self._other_name(node, name)
        if type_parameters(statement.node):
            return self._use(node, statement, [])
        return ir.Ref(self._names.of(statement))

    def _other_name(self, node: Node, name: str) -> ir.TypeExpr:
        """Return what a name stands for that is no type: a member of an enum. Raises `SchemaError` for any other."""
        source = self._lookup.missing(self._scope, name)
        if source is not None:
            self._file.fail(
                node,
                f"'{name}' is imported from '{source}', which cannot be found; install that package, or correct the name",
                code=_NOT_FOUND,
            )
        if self._lookup.is_code(self._scope, name):
            self._file.fail(node, f"'{name}' is a class or function, which describes no data", code="classes")
        if "." in name:
            return self._enum_member(node, name)
        if name in NOT_JSON:
            self._file.fail(node, no_json(name), code=f"values of {name}")
        self._file.fail(
            node,
            f"the type '{name}' is not declared in this file; declare it, or correct the name",
            code=self._elsewhere(),
        )

    def _elsewhere(self) -> str:
        """Return what names are that no file declares: of the platform, in files that a compiler has written."""
        path = self._file.text.path
        compiled = self._file.text is not self._file.first or path.endswith((".d.ts", ".d.mts", ".d.cts"))
        return "types of the platform" if compiled else ""

    def may_be_absent(self, name: str) -> bool:
        """Return whether a name is that of an alias with `undefined` among its values."""
        return not self._strict and name not in self._arguments and self._has_undefined(name, self._scope, 0)

    def _has_undefined(self, name: str, scope: NameScope, depth: int) -> bool:
        statement = self._lookup.find(scope, name)
        value = None if statement is None else statement.node.child_by_field_name("value")
        if statement is None or value is None or statement.node.type != "type_alias_declaration":
            return False
        inner = NameScope(statement.module, statement.namespace)
        parts = flatten(value, "union_type") if value.type == "union_type" else [value]
        return any(
            node_text(part) in ("undefined", "void")
            or (
                part.type == "type_identifier"
                and depth < MAX_DEPTH
                and self._has_undefined(node_text(part), inner, depth + 1)
            )
            for part in parts
        )

    def imported(self, node: Node, source: str, name: str) -> ir.TypeExpr:
        """Return the type that another module exports under a name. Raises `SchemaError` if there is none."""
        module = self._collector.find(source, self._scope.module)
        statement = self._lookup.exported_as(module, name, constants=False) if module else None
        if statement is None and self._strict:
            self._file.unsupported(node, "as a type")
        if statement is None:
            self._file.fail(
                node,
                f"'{name}' is imported from '{source}', which cannot be found, or does not export it",
                code=_NOT_FOUND,
            )
        if type_parameters(statement.node):
            return self._use(node, statement, [])
        return ir.Ref(self._names.of(statement))

    def is_function(self, name: str) -> bool:
        """Return whether a name is that of a function's type."""
        statement = None if name in self._arguments or self._is_fragment else self._find(name)
        value = None if statement is None else statement.node.child_by_field_name("value")
        while value is not None and value.type == "parenthesized_type":
            (value,) = named_children(value)
        return value is not None and value.type in ("function_type", "constructor_type")

    def constant(self, node: Node, name: str) -> ir.TypeExpr:
        """Return the type of a constant: a reference to it, or the type of its values; or that of an enum."""
        if self._is_fragment:
            return ir.ConstRef(name)
        statement = self._lookup.find(self._scope, name, constants=True)
        if statement is not None:
            return self._constant_type(node, statement)
        enum = self._find(name)
        if enum is not None and enum.node.type == "enum_declaration":
            values = self._enum_values(enum).items()
            return ir.Obj(tuple(ir.Field(key, ir.Lit(value, of_enum=True)) for key, value in values))
        owner, dot, member = name.rpartition(".")
        if dot and self._lookup.find(self._scope, owner.partition(".")[0], constants=True):
            return self._types.member(node, self.constant(node, owner), member)
        code = self._elsewhere() or (
            "functions and classes" if self._lookup.is_code(self._scope, name) else ""
        )
        self._file.fail(
            node,
            f"the constant '{name}' is not declared in this file; declare it, or correct the name",
            code=code,
        )

    def constant_value(self, node: Node, name: str) -> ir.Literal | None:
        """Return the value of a constant, or of a member of an enum; None for one of several values."""
        statement = self._lookup.find(self._scope, name, constants=True)
        if statement is None or is_composite(statement.node):
            enum = self._find(name.rpartition(".")[0]) if statement is None else None
            known = self._enum_values(enum) if enum and enum.node.type == "enum_declaration" else {}
            return known.get(name.rpartition(".")[2])
        decl = self._declared(node, statement)
        return decl.value if isinstance(decl, ir.Const) else None

    def _constant_type(self, node: Node, statement: Statement) -> ir.TypeExpr:
        """Return a reference to a constant, or the type of one of several values."""
        if not is_composite(statement.node):
            self._declared(node, statement)
            return ir.ConstRef(self._names.of(statement))
        path = f"{id(statement.module)}:{statement.path}"
        if path not in self._value_types:
            self._value_types[path] = None
            try:
                with self._within(statement, {}):
                    self._value_types[path] = self._values.type(statement.node)
            finally:
                if self._value_types[path] is None:
                    del self._value_types[path]
        type_ = self._value_types[path]
        if type_ is None:
            self._refuse_circle(node, statement.own_name)
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

    def _find(self, name: str) -> Statement | None:
        return self._lookup.find(self._scope, name)

    def opened(self, node: Node, reference: ir.Ref) -> ir.Interface | ir.Alias | None:
        """Return the declaration that a reference names; None in a fragment, which has none."""
        statement = self._names.taken.get(reference.name)
        decl: ir.Decl | None
        if statement is None:
            decl = self._generics.instance(reference.name)
        elif type_parameters(statement.node):
            decl = next(reversed(self._parametric(statement)), None)
        else:
            decl = self._declared(node, statement)
        if decl is None and not self._is_fragment:
            self._refuse_circle(node, reference.name)
        assert not isinstance(decl, ir.Const)
        return decl

    def bound(self, arguments: Mapping[str, ir.TypeExpr]) -> AbstractContextManager[None]:
        """Let more names stand for types, until the context is left."""
        return self._at(self._scope, {**self._arguments, **arguments})

    @contextmanager
    def _within(self, statement: Statement, arguments: Arguments) -> Iterator[None]:
        """Read what stands in a declaration, with these arguments."""
        with (
            self._file.reading(statement.text),
            self._at(NameScope(statement.module, statement.namespace), arguments),
        ):
            yield

    @contextmanager
    def _at(self, scope: NameScope, arguments: Arguments) -> Iterator[None]:
        outer = self._scope, self._arguments
        self._scope, self._arguments = scope, arguments
        try:
            yield
        finally:
            self._scope, self._arguments = outer

    def _enum_member(self, node: Node, name: str) -> ir.Lit:
        enum, _, member = name.rpartition(".")
        statement = self._find(enum)
        if statement is None or statement.node.type != "enum_declaration":
            self._file.unsupported(node, "as a type")
        values = self._enum_values(statement)
        if member not in values:
            self._file.fail(node, f"the enum '{enum}' has no member '{member}'")
        return ir.Lit(values[member], of_enum=True)

    def _is_taken(self, name: str) -> bool:
        return self._names.is_taken(name) or name in self._stand_in_names

    def _use(self, node: Node, statement: Statement, given: Sequence[ir.TypeExpr]) -> ir.Ref:
        def read(name: str, arguments: Arguments) -> ir.Decl:
            with self._within(statement, arguments):
                return self._declaration(statement, name)

        def default(default: Node, arguments: Arguments) -> ir.TypeExpr:
            with self._within(statement, arguments):
                return self._types.type(default)

        name = self._names.of(statement)
        if self._is_by_itself(node, statement, given):
            return ir.Ref(name)
        return self._generics.use(node, name, statement.node, given, read, default)

    def _is_by_itself(self, node: Node, statement: Statement, given: Sequence[ir.TypeExpr]) -> bool:
        """Return whether a generic is used with its own type parameters, within itself or one with the same ones."""
        if not given or not all(
            isinstance(one, ir.Ref) and one.name in self._stand_in_names for one in given
        ):
            return False
        name = self._names.of(statement)
        if self._own_parameters(statement) != [*given]:
            return False
        if self._by_themselves.get(name, ()) is None:
            return True  # it is being read
        with self._generics.nested(node, name):
            return bool(self._parametric(statement))

    def _parametric(self, statement: Statement) -> list[ir.Decl]:
        """Return an exported generic as one declaration, behind an alias for each of its type parameters.

        One whose members depend on what its arguments are is made of the defaults; without these it is left out.
        """
        name = self._names.of(statement)
        if name not in self._by_themselves:
            self._by_themselves[name] = None
            found = self._read_by_itself(statement) if is_exported(statement) else []
            self._by_themselves[name] = self._generics.add(name, found)
        return self._by_themselves[name] or []

    def _read_by_itself(self, statement: Statement) -> list[ir.Decl]:
        parameters = [node_text(named_children(one)[0]) for one in type_parameters(statement.node)]
        try:
            defaults = self._defaults(statement)
            if not self._is_other_generic(statement):
                stand_ins = self._stand_ins(statement, defaults)
                own: Arguments = {p: ir.Ref(one.name) for p, one in zip(parameters, stand_ins, strict=True)}
                with suppress(SchemaError):
                    found = self._read_with(statement, own)
                    if is_parametric(found, {one.name for one in stand_ins}):
                        return [*stand_ins, found]
            return [self._read_with(statement, {p: default.type for p, default in defaults.items()})]
        except SchemaError:
            kind = "generics whose members depend on their arguments"
            self._collector.left_out.setdefault(kind, []).append((statement.text, statement.node))
            return []

    def _is_other_generic(self, statement: Statement) -> bool:
        """Return whether a generic is another one by another name, which then is of the defaults."""
        value = statement.node.child_by_field_name("value")
        if value is None or value.type != "generic_type":
            return False
        with self._within(statement, {}):
            return self.is_generic(node_text(named_children(value)[0]))

    def _own_parameters(self, statement: Statement) -> list[ir.Ref]:
        """Return the type parameters of a generic; none if they cannot be read."""
        try:
            return [ir.Ref(one.name) for one in self._stand_ins(statement, None)]
        except SchemaError:
            return []

    def _stand_ins(self, statement: Statement, defaults: Mapping[str, ir.Alias] | None) -> list[ir.Alias]:
        """Return an alias for each type parameter. Generics share those of one name, default and bound.

        So a generic that passes its own on to another one names that, instead of a declaration made for it alone.
        """
        name = self._names.of(statement)
        if name not in self._stand_ins_of:
            found: list[ir.Alias] = []
            for one, alias in (self._defaults(statement) if defaults is None else defaults).items():
                alike = repr((one, alias.type, alias.bound))
                if alike not in self._shared:
                    self._shared[alike] = replace(alias, name=self._generics.free(f"{name}{one}"))
                    self._stand_in_names.add(self._shared[alike].name)
                found.append(self._shared[alike])
            self._stand_ins_of[name] = found
        return self._stand_ins_of[name]

    def _read_with(self, statement: Statement, arguments: Arguments) -> ir.Decl:
        with self._within(statement, arguments):
            return self._declaration(statement, self._names.of(statement))

    def _defaults(self, statement: Statement) -> dict[str, ir.Alias]:
        """Return what each type parameter is without an argument: its default, what it extends, or any value."""
        found: dict[str, ir.Alias] = {}
        for parameter in type_parameters(statement.node):
            name, *others = named_children(parameter)
            kinds = {one.type: named_children(one)[0] for one in others}
            known = {one: alias.type for one, alias in found.items()}
            types: dict[str, ir.TypeExpr] = {}
            for kind, node in kinds.items():
                ignored = suppress(SchemaError) if kind == "constraint" else nullcontext()
                with ignored, self._within(statement, known):
                    types[kind] = self._types.type(node)
            bound, default = types.get("constraint"), types.get("default_type")
            doc = ir.Doc(text=f"The type parameter {node_text(name)}.")
            found[node_text(name)] = ir.Alias(
                node_text(name), default or bound or ir.Prim("unknown"), doc=doc,
                span=self._file.span(statement.node), parameter=True, bound=bound,
            )  # fmt: skip
        return found

    def _refuse_circle(self, node: Node, name: str) -> NoReturn:
        self._file.fail(node, f"'{name}' is defined in terms of itself here; write the type out")

    # -- declarations --------------------------------------------------------------------------------

    def _declared(self, node: Node, statement: Statement) -> ir.Decl:
        """Return a declaration that is no generic; it is read at its first use."""
        name = self._names.of(statement)
        if name not in self._read:
            self._read[name] = None
            try:
                with self._within(statement, {}):
                    self._read[name] = self._declaration(statement, name)
            except SchemaError as error:
                if not statement.is_constant or isinstance(error, NoDataError):
                    raise
                raise error.without_data("constants without a value that is written out") from None
            finally:
                if self._read[name] is None:
                    del self._read[name]
        decl = self._read[name]
        if decl is None:
            self._refuse_circle(node, name)
        return decl

    def _declaration(self, statement: Statement, name: str) -> ir.Decl:
        readers: dict[str, Callable[[Statement, str], ir.Decl]] = {
            "interface_declaration": self._interface,
            "type_alias_declaration": self._alias,
            "enum_declaration": self._enum,
        }
        return readers.get(statement.node.type, self._const)(statement, name)

    def _interface(self, statement: Statement, name: str) -> ir.Interface | ir.Alias:
        tags, doc, lines = statement.tags, statement.doc, self._file.span(statement.node)
        parts = (statement, *statement.more)
        bodies = [
            (part, body) for part in parts if (body := part.node.child_by_field_name("body")) is not None
        ]
        bases: list[ir.Ref | ir.Derived] = []
        for part in parts:
            clauses = [c for c in named_children(part.node) if c.type == "extends_type_clause"]
            extended = [base for clause in clauses for base in named_children(clause)]
            if not extended:
                continue
            with (
                self._file.reading(part.text),
                self._at(NameScope(part.module, part.namespace), self._arguments),
            ):
                types = [self._types.base(base) for base in extended]
                alone = len(extended) == 1 and not (statement.more or named_children(bodies[0][1]))
                if alone and isinstance(types[0], ir.Array):  # an array by another name
                    return ir.Alias(name, types[0], tags, doc, lines)
                bases += [self._base(base, type_) for base, type_ in zip(extended, types, strict=True)]
        contexts = (
            (body, None if part.text is statement.text else self._file.reading(part.text))
            for part, body in bodies
        )
        fields, index = self._types.members(*contexts)
        return ir.Interface(name, tuple(bases), fields, index, tags, doc, lines, self._parameters(name))

    def _base(self, node: Node, type_: ir.TypeExpr) -> ir.Ref | ir.Derived:
        if not isinstance(type_, ir.Ref | ir.Derived):
            self._file.unsupported(
                node, "as the base of an interface, which is a name or made from one, as in Partial<Name>"
            )
        return type_

    def _alias(self, statement: Statement, name: str) -> ir.Alias:
        node = statement.node
        value = node.child_by_field_name("value")
        assert value is not None
        doc = replace(statement.doc, members=self._file.member_remarks(value, statement.trailing))
        type_ = self._types.type(value) if self._strict else self._types.alias(value)
        return ir.Alias(
            name, type_, statement.tags, doc, self._file.span(node), parameters=self._parameters(name)
        )

    def _parameters(self, name: str) -> tuple[str, ...]:
        return tuple(one.name for one in self._stand_ins_of.get(name, ()))

    def _enum(self, statement: Statement, name: str) -> ir.Alias:
        node = statement.node
        values = self._enum_values(statement)
        if not values:
            self._file.fail(node, f"the enum '{statement.own_name}' has no member")
        members = [ir.Lit(value, of_enum=True) for value in values.values()]
        union = [*dict.fromkeys(members)]  # several members may have one value
        remarks: dict[int, str] = {}
        siblings = self._file.siblings(named_children(node)[-1])
        for member, (_, above, trailing) in zip(members, siblings, strict=False):
            for comment in [*above[-1:], *trailing][:1]:
                remarks.setdefault(union.index(member), comment_body(node_text(comment)))
        type_ = ir.union_of(union)
        doc = replace(statement.doc, members=tuple(sorted(remarks.items())))
        return ir.Alias(name, type_, statement.tags, doc, self._file.span(node))

    def _enum_values(self, statement: Statement) -> dict[str, ir.Literal]:
        """Return the value of each member of an enum; a member without a value has the previous value plus one."""
        place = f"{id(statement.module)}:{statement.path}"
        if place in self._enums:
            return self._enums[place]
        values = self._enums[place] = {}
        following: ir.Literal | None = 0

        def known(node: Node, name: str) -> ir.Literal | None:
            return values[name] if name in values else self.constant_value(node, name)

        for member in named_children(named_children(statement.node)[-1]):
            self._file.count(member)
            key, *given = named_children(member) if member.type == "enum_assignment" else [member]
            own = self._types.name(key)
            if not given and following is None:
                self._file.fail(
                    member,
                    f"the enum's member '{own}' requires a value, because the previous member is not a number",
                )
            with self._within(statement, {}):
                value = Computed(self._file, known).value(given[0]) if given else following
            assert value is not None
            values[own] = value
            following = None if isinstance(value, str) else value + 1
        return values

    def _const(self, statement: Statement, name: str) -> ir.Const:
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
            value, _ = bare_value(value)
        if value.type not in _CONSTANTS:
            self._file.unsupported(value, "as the value of a constant")
        literal_value = read_literal(self._file, value)
        return ir.Const(name, literal_value, statement.tags, statement.doc, self._file.span(statement.node))
