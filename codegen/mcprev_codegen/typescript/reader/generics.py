"""Uses of generic declarations: each becomes a declaration of its own, named after its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from tree_sitter import Node

from mcprev_codegen import ir
from mcprev_codegen.ir import pascal_case
from mcprev_codegen.typescript.bounds import MAX_ARGUMENT, MAX_INSTANCES, MAX_NESTING
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
        self.made: dict[str, list[ir.Decl]] = {}
        """The declarations that the uses of each generic became."""

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
        parts = [self._name_part(node, argument) for argument in arguments.values()]
        name = self._file.short(node, generic + "".join(parts))
        use = generic, tuple(arguments.values())
        if len(self._instances) == MAX_INSTANCES:
            self._file.fail(
                node, f"more than {MAX_INSTANCES} uses of generics with different arguments are not supported"
            )
        if self._is_taken(name) or (name in self._instances and self._instances[name].use != use):
            self._file.fail(node, f"the generated name '{name}' is that of another type; rename one of them")
        if name not in self._instances:
            if sum(instance.decl is None for instance in self._instances.values()) == MAX_NESTING:
                self._file.fail(
                    node, f"'{generic}' refers to itself with ever new arguments; write its types out"
                )
            instance = self._instances[name] = _Instance(use)
            try:
                decl = instance.decl = read(name, arguments)
            finally:
                if instance.decl is None:
                    del self._instances[name]
            self.made.setdefault(generic, []).append(decl)
        return ir.Ref(name)

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

    def _name_part(self, node: Node, argument: ir.TypeExpr) -> str:
        """Return the part that an argument adds to the name of the declaration for a use of a generic."""
        match argument:
            case ir.Ref(name):
                return name
            case ir.Prim(name):
                return name.capitalize()
            case ir.Lit(value):
                return pascal_case(str(value))
            case ir.Array(item):
                return f"{self._name_part(node, item)}List"
            case ir.Record(value):
                return f"{self._name_part(node, value)}Map"
            case ir.Union(members):
                return "Or".join(self._name_part(node, member) for member in members)
            case ir.Obj((), None):
                return "Empty"
            case _:
                self._file.fail(
                    node, "the name of the type cannot contain this argument; declare an alias for it"
                )
