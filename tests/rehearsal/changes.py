"""Changes of a schema's declarations, as functions from one module of the IR to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from mcprev_codegen import ir

Change: TypeAlias = Callable[[ir.Module], ir.Module]


def in_turn(*changes: Change) -> Change:
    """Several changes, one after the other."""

    def apply(module: ir.Module) -> ir.Module:
        for change in changes:
            module = change(module)
        return module

    return apply


# -- declarations ------------------------------------------------------------------------------------------


def declaration(name: str, change: Callable[[ir.Decl], ir.Decl]) -> Change:
    """Change one declaration. Raises `ValueError` where there is none of that name."""

    def apply(module: ir.Module) -> ir.Module:
        if all(d.name != name for d in module.decls):
            raise ValueError(f"'{name}' is not declared")
        return ir.Module(tuple(change(d) if d.name == name else d for d in module.decls))

    return apply


def constant(name: str, value: ir.Literal) -> Change:
    """Give a constant another value."""

    def apply(decl: ir.Decl) -> ir.Decl:
        if not isinstance(decl, ir.Const):
            raise TypeError(f"'{name}' is no constant")
        return replace(decl, value=value)

    return declaration(name, apply)


def added(decls: Iterable[ir.Decl], unions: Mapping[str, str]) -> Change:
    """New declarations; `unions` says which of them joins which union."""

    def join(union: str, name: str) -> Change:
        def apply(decl: ir.Decl) -> ir.Decl:
            if not isinstance(decl, ir.Alias):
                raise TypeError(f"'{union}' is no union")
            members = decl.type.members if isinstance(decl.type, ir.Union) else (decl.type,)
            return replace(decl, type=ir.Union((*members, ir.Ref(name))))

        return declaration(union, apply)

    def declare(module: ir.Module) -> ir.Module:
        return ir.Module((*module.decls, *decls))

    return in_turn(declare, *(join(union, name) for union, name in unions.items()))


def removed(name: str) -> Change:
    """A type that is no longer declared, and no longer a member of any union."""

    def drop(node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Union) and ir.Ref(name) in node.members:
            first, *rest = (m for m in node.members if m != ir.Ref(name))
            return ir.Union((first, *rest)) if rest else first
        return node

    return lambda module: ir.map_nodes(ir.Module(tuple(d for d in module.decls if d.name != name)), drop)


def renamed(name: str, other: str) -> Change:
    """A type that has another name wherever it is mentioned."""

    def rename(node: ir.Node) -> ir.Node:
        if isinstance(node, ir.Ref | ir.Interface | ir.Alias) and node.name == name:
            return replace(node, name=other)
        return node

    return lambda module: ir.map_nodes(module, rename)


# -- members -----------------------------------------------------------------------------------------------


def _members(name: str, change: Callable[[tuple[ir.Field, ...]], tuple[ir.Field, ...]]) -> Change:
    def apply(decl: ir.Decl) -> ir.Decl:
        if not isinstance(decl, ir.Interface):
            raise TypeError(f"'{name}' is no interface")
        return replace(decl, fields=change(decl.fields))

    return declaration(name, apply)


def more_members(name: str, *members: ir.Field) -> Change:
    """An interface with further members."""
    return _members(name, lambda fields: (*fields, *members))


def without_member(name: str, member: str) -> Change:
    """An interface without one of its own members."""
    return _members(name, lambda fields: tuple(f for f in fields if f.name != member))


def member(name: str, place: str, change: Callable[[ir.Field], ir.Field]) -> Change:
    """Change one own member of an interface; a place with a dot leads into an inline object."""
    first, _, rest = place.partition(".")

    def inside(found: ir.Field) -> ir.Field:
        if not rest:
            return change(found)
        if not isinstance(found.type, ir.Obj):
            raise TypeError(f"'{name}.{first}' is no inline object")
        fields = tuple(change(f) if f.name == rest else f for f in found.type.fields)
        return replace(found, type=replace(found.type, fields=fields))

    return _members(name, lambda fields: tuple(inside(f) if f.name == first else f for f in fields))


def optional(*, optional: bool) -> Callable[[ir.Field], ir.Field]:
    """A member that may, or may not, be left out."""
    return lambda found: replace(found, optional=optional)


def at_most(most: int) -> Callable[[ir.Field], ir.Field]:
    """A number with an upper bound."""
    return lambda found: replace(found, tags=replace(found.tags, maximum=most))


def at_most_items(most: int) -> Callable[[ir.Field], ir.Field]:
    """A list with an upper bound on its length."""
    return lambda found: replace(found, tags=replace(found.tags, max_items=most))


# -- questions ---------------------------------------------------------------------------------------------


def text(name: str, *, optional: bool = False, format_: str | None = None) -> ir.Field:
    """A member that holds text."""
    return ir.Field(name, ir.Prim("string"), optional, ir.Tags(format=format_))


def own_member(module: ir.Module, owner: str, place: str) -> ir.Field | None:
    """An interface's own member, or one of an inline object; None where there is none."""
    decl = module.types.get(owner)
    fields = decl.fields if isinstance(decl, ir.Interface) else ()
    first, _, rest = place.partition(".")
    found = next((f for f in fields if f.name == first), None)
    if found is None or not rest:
        return found
    inner = found.type.fields if isinstance(found.type, ir.Obj) else ()
    return next((f for f in inner if f.name == rest), None)


def methods(module: ir.Module) -> set[ir.Literal]:
    """The methods that messages of a module are about."""
    fields = (f for d in module.decls if isinstance(d, ir.Interface) for f in d.fields if f.name == "method")
    return {f.type.value for f in fields if isinstance(f.type, ir.Lit)}
