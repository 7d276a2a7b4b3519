"""What the readers of types ask of the declarations around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from tree_sitter import Node

from mcprev_codegen import ir


class TypeScope(Protocol):
    """The names that mean something at the place that is being read."""

    def reference(self, node: Node, name: str) -> ir.TypeExpr:
        """Return what a name stands for: an argument of a generic, a member of an enum, or a declared type."""
        ...

    def constant(self, node: Node, name: str) -> ir.TypeExpr:
        """Return the type of a constant: a reference to it, or the type of its values."""
        ...

    def constant_value(self, node: Node, name: str) -> ir.Literal | None:
        """Return the value of a constant, or of a member of an enum; None for one of several values."""
        ...

    def may_be_absent(self, name: str) -> bool:
        """Return whether a name is that of an alias with `undefined` among its values."""
        ...

    def imported(self, node: Node, source: str, name: str) -> ir.TypeExpr:
        """Return the type that another module exports under a name. Raises `SchemaError` if there is none."""
        ...

    def is_function(self, name: str) -> bool:
        """Return whether a name is that of a function's type."""
        ...

    def is_generic(self, name: str) -> bool:
        """Return whether the file declares a generic of that name."""
        ...

    def use(self, node: Node, name: str, arguments: Sequence[ir.TypeExpr]) -> ir.Ref:
        """Return the declaration that a generic becomes with these arguments."""
        ...

    def opened(self, node: Node, reference: ir.Ref) -> ir.Interface | ir.Alias | None:
        """Return the declaration that a reference names; None in a fragment, which has none."""
        ...

    def bound(self, arguments: Mapping[str, ir.TypeExpr]) -> AbstractContextManager[None]:
        """Let more names stand for types, until the context is left."""
        ...
