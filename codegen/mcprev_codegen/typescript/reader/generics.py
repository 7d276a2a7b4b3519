"""Uses of generic declarations: each becomes a declaration of its own, named after its arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from tree_sitter import Node

from mcprev_codegen import ir
from mcprev_codegen.ir import pascal_case
from mcprev_codegen.typescript.bounds import MAX_ARGUMENT, MAX_INSTANCES, MAX_NESTING
from mcprev_codegen.typescript.reader.files.modules import Statement
from mcprev_codegen.typescript.reader.text.source_file import (
    SourceFile,
    named_children,
    node_text,
    type_parameters,
)

Arguments: TypeAlias = Mapping[str, ir.TypeExpr]


@dataclass
class _Instance:
    """What a use of a generic became."""

    use: tuple[str, tuple[ir.TypeExpr, ...]]
    decl: ir.Decl | None = None
    """None while it is being read."""


def is_exported(statement: Statement) -> bool:
    """Return whether a declaration is exported: by a keyword, by a list, or as all of a file of declarations are."""
    node: Node | None = statement.node
    while node is not None:
        if node.type == "export_statement":
            return True
        node = node.parent
    if statement.text.path.endswith((".d.ts", ".d.mts", ".d.cts")):
        return True
    listed = (
        named_children(specifier)[0]
        for one in named_children(statement.text.root)
        if one.type == "export_statement"
        for clause in named_children(one)
        if clause.type == "export_clause"
        for specifier in named_children(clause)
    )
    return any(node_text(name) == statement.own_name for name in listed)


def is_parametric(decl: ir.Decl, parameters: Collection[str]) -> bool:
    """Return whether each type parameter stands for values, and is no type that others are made from or extend."""
    if isinstance(decl, ir.Alias) and isinstance(decl.type, ir.Ref):
        return False
    if isinstance(decl, ir.Alias) and decl.name in ir.references(decl):
        return False
    for node in ir.walk(decl):
        bases = node.bases if isinstance(node, ir.Interface) else ()
        parts = node.members if isinstance(node, ir.Intersection) else ()
        made_from = (*bases, *parts, *((node.base,) if isinstance(node, ir.Derived) else ()))
        if any(isinstance(one, ir.Ref) and one.name in parameters for one in made_from):
            return False
    return True


class Generics:
    """The uses of generics in one file, read at the first use of each."""

    def __init__(
        self,
        file: SourceFile,
        is_taken: Callable[[str], bool],
    ) -> None:
        self._file = file
        self._is_taken = is_taken
        self._instances: dict[str, _Instance] = {}
        self._reading = 0
        self._named: dict[tuple[str, tuple[str, tuple[ir.TypeExpr, ...]]], str] = {}
        """The names of the uses, by the wanted name too: many types have the same hash."""
        self.made: dict[str, list[ir.Decl]] = {}
        """The declarations that the uses of each generic became."""

    def add(self, generic: str, decls: list[ir.Decl]) -> list[ir.Decl]:
        """Add what a generic is by itself, and return it."""
        self.made[generic] = [*decls, *self.made.get(generic, [])]
        return decls

    def free(self, name: str) -> str:
        """Return a name that no declaration has: this one, or else with the next number behind it, from 2 on."""
        found, number = name, 1
        while self._is_taken(found) or found in self._instances:
            number += 1
            found = f"{name}{number}"
        return found

    @contextmanager
    def nested(self, node: Node, generic: str) -> Iterator[None]:
        """Read a generic within others, until the context is left. Raises `SchemaError` for too many of them."""
        if self._reading == MAX_NESTING:
            self._file.fail(
                node, f"'{generic}' refers to itself with ever new arguments; write its types out"
            )
        self._reading += 1
        try:
            yield
        finally:
            self._reading -= 1

    def instance(self, name: str) -> ir.Decl | None:
        """Return the declaration with a name that a use of a generic became; None if it is not finished."""
        return self._instances[name].decl if name in self._instances else None

    def use(
        self,
        node: Node,
        generic: str,
        declaration: Node,
        given: Sequence[ir.TypeExpr],
        read: Callable[[str, Arguments], ir.Decl],
        read_default: Callable[[Node, Arguments], ir.TypeExpr],
    ) -> ir.Ref:
        """Return the declaration of a generic with its arguments.

        `read` reads it under a name, `read_default` the default of a parameter.
        """
        arguments = self._arguments(node, generic, declaration, given, read_default)
        for argument in arguments.values():
            if len(list(islice(ir.walk(argument), MAX_ARGUMENT + 1))) > MAX_ARGUMENT:
                self._file.fail(node, f"an argument of '{generic}' is too large; declare an alias for it")
        parts = [self._name_part(argument) for argument in arguments.values()]
        name = self._file.short(node, generic + "".join(parts))
        use = generic, tuple(arguments.values())
        if len(self._instances) == MAX_INSTANCES:
            self._file.fail(
                node, f"more than {MAX_INSTANCES} uses of generics with different arguments are not supported"
            )
        name = self._free(name, use)
        if name not in self._instances:
            with self.nested(node, generic):
                instance = self._instances[name] = _Instance(use)
                try:
                    decl = instance.decl = read(name, arguments)
                finally:
                    if instance.decl is None:
                        del self._instances[name]
            self.made.setdefault(generic, []).append(decl)
        return ir.Ref(name)

    def _free(self, name: str, use: tuple[str, tuple[ir.TypeExpr, ...]]) -> str:
        """Return the name of a use: this one, or else with the next number behind it that is free, from 2 on."""
        known = self._named.get((name, use))
        if known is None:
            known = self._named[name, use] = self.free(name)
        return known

    def _arguments(
        self,
        node: Node,
        generic: str,
        declaration: Node,
        given: Sequence[ir.TypeExpr],
        read_default: Callable[[Node, Arguments], ir.TypeExpr],
    ) -> dict[str, ir.TypeExpr]:
        """Return the type of each parameter: the given one or its default, which may name parameters before it."""
        parameters = type_parameters(declaration)
        arguments: dict[str, ir.TypeExpr] = {}
        for n, parameter in enumerate(parameters):
            name = node_text(named_children(parameter)[0])
            defaults = [named_children(c)[0] for c in named_children(parameter) if c.type == "default_type"]
            if n < len(given):
                arguments[name] = given[n]
            elif defaults:
                arguments[name] = read_default(defaults[0], dict(arguments))
        if len(arguments) < len(parameters) or len(given) > len(parameters):
            self._file.fail(
                node, f"'{generic}' has {len(parameters)} type parameters, but {len(given)} arguments"
            )
        return arguments

    def _name_part(self, argument: ir.TypeExpr) -> str:
        """Return the part that an argument adds to the name of the declaration for a use of a generic."""
        match argument:
            case ir.Ref(name):
                return name
            case ir.Prim(name):
                return name.capitalize()
            case ir.Lit(value):
                return pascal_case(str(value))
            case ir.Array(item):
                return f"{self._name_part(item)}List"
            case ir.Record(value):
                return f"{self._name_part(value)}Map"
            case ir.Union(members):
                return "Or".join(self._name_part(member) for member in members)
            case ir.Obj((), None):
                return "Empty"
            case ir.Derived(kind, base):
                return f"{kind}{self._name_part(base)}"
            case ir.Tuple(items, rest):
                return f"{''.join(map(self._name_part, items))}{'Rest' if rest else 'Tuple'}"
            case ir.Intersection(members):
                return "And".join(map(self._name_part, members))
            case ir.ConstRef(name):
                return pascal_case(name)
            case ir.Obj() | ir.Template():
                return type(argument).__name__.replace("Obj", "Object")
