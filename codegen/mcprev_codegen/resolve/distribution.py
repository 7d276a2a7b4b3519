"""Writes out intersections with unions, and what utility types make of unions.

`A & (B | C)` has the values of `(A & B) | (A & C)`; what no value can be is left out. A string or number in an intersection with an object
is branded, which JSON does not show. `Partial` and `Required` are those of each member of a union; `Pick` and `Omit`
see the members that all of them have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.errors import SchemaError
from mcprev_codegen.resolve.schema import Schema

_MAX_PRODUCT: Final = 1_000
"""The maximum number of intersections that one with unions stands for."""
_OBJECT: Final = ir.Prim("object")
_VALUES: Final = (ir.Prim, ir.Lit, ir.ConstRef, ir.Template, ir.Array, ir.Tuple)
_MOST: Final = 50
"""The maximum number of aliases that are opened one in the other."""


def distribute(schema: Schema) -> Schema:
    """Return the schema without intersections with unions and values, and without utility types of unions.

    Raises `SchemaError` for an intersection whose values cannot be determined.
    """
    known: dict[str, list[ir.TypeExpr]] = {}
    decls = [ir.map_nodes(decl, _Distribution(schema, decl, known).change) for decl in schema.module.decls]
    if all(one is other for one, other in zip(decls, schema.module.decls, strict=True)):
        return schema
    return replace(schema, module=replace(schema.module, decls=tuple(decls)))


@dataclass
class _Distribution:
    schema: Schema
    owner: ir.Decl
    known: dict[str, list[ir.TypeExpr]]
    """The alternatives of aliases."""
    opened: list[str] = field(default_factory=list[str])
    """The aliases whose alternatives are being collected."""
    circles: int = 0
    """How often one of these was met again."""

    def change(self, node: ir.Node) -> ir.Node:
        match node:
            case ir.Intersection(members):
                return self._intersection(node, members)
            case ir.Derived(kind, base, keys):
                return self._derived(node, kind, base, keys)
            case _:
                return node

    def _intersection(self, node: ir.Intersection, members: tuple[ir.TypeExpr, ...]) -> ir.TypeExpr:
        choices = [self._alternatives(member) for member in members]
        if all(len(found) == 1 and not self._is_value(found[0]) for found in choices):
            return node
        if math.prod(map(len, choices)) > _MAX_PRODUCT:
            raise self.schema.fail(
                self.owner, f"an intersection stands for more than {_MAX_PRODUCT} others; write it out"
            )
        found = [self._joined(parts) for parts in product(*choices)]
        kept = [type_ for type_ in found if type_ is not None]
        if not kept:
            raise self.schema.fail(self.owner, "an intersection has no values; write out what it stands for")
        return ir.union_of(dict.fromkeys(kept))

    def _alternatives(self, type_: ir.TypeExpr) -> list[ir.TypeExpr]:
        """Return the members of a union, those of unions in it included; any other type is its only one."""
        if isinstance(type_, ir.Ref) and type_.name in self.known:
            return self.known[type_.name]
        before = self.circles
        found = self._collected(type_)
        if isinstance(type_, ir.Ref) and (self.circles == before or not self.opened):
            self.known[type_.name] = found
        return found

    def _collected(self, type_: ir.TypeExpr) -> list[ir.TypeExpr]:
        name = type_.name if isinstance(type_, ir.Ref) else ""
        if name and (name in self.opened or len(self.opened) == _MOST):
            self.circles += 1
            return [type_]
        decl = self.schema.types[name] if name else None
        inner: ir.TypeExpr = decl.type if isinstance(decl, ir.Alias) else type_
        self.opened.append(name)
        try:
            if isinstance(inner, ir.Intersection | ir.Derived):
                changed = self.change(inner)
                assert not isinstance(
                    changed, ir.IndexSig | ir.Field | ir.Interface | ir.Alias | ir.Const | ir.Module
                )
                inner = inner if changed is inner else changed
            if isinstance(inner, ir.Union):
                return [one for member in inner.members for one in self._alternatives(member)]
            if isinstance(inner, ir.Ref) and inner is not type_:
                return self._alternatives(inner)
            return [type_ if isinstance(inner, ir.Intersection | ir.Obj | ir.Derived | ir.Record) else inner]
        finally:
            self.opened.pop()

    def _is_value(self, type_: ir.TypeExpr) -> bool:
        return isinstance(type_, _VALUES)

    def _joined(self, parts: tuple[ir.TypeExpr, ...]) -> ir.TypeExpr | None:
        """Return the values that all of several types have; None if there are none."""
        parts = tuple(dict.fromkeys(part for part in parts if part not in ir.ANYTHING)) or parts[:1]
        values = [part for part in parts if self._is_value(part) and part != _OBJECT]
        objects = [part for part in parts if not self._is_value(part)]
        if values:
            nothing = objects and ir.Prim("null") in values
            found: ir.TypeExpr | None = values[0]
            for value in values[1:]:
                found = found and self.schema.common_value(found, value, self.owner)
            return None if nothing else found
        if len(objects) > 1 and self._contradict(objects):
            return None
        flat = tuple(
            part for one in objects for part in (one.members if isinstance(one, ir.Intersection) else (one,))
        )
        return ir.Intersection(flat) if len(flat) > 1 else (*flat, _OBJECT)[0]

    def _contradict(self, objects: list[ir.TypeExpr]) -> bool:
        """Return whether two objects require different values of one member."""
        seen: dict[str, set[str]] = {}
        for type_ in objects:
            try:
                fields = self.schema.flatten(type_, self.owner.name).fields
            except SchemaError:  # which is raised where it matters
                continue
            for f in fields:
                values = {repr(value) for value in self.schema.literals(f.field.type)}
                if values and not f.field.optional:
                    seen[f.name] = seen.get(f.name, values) & values
        return not all(seen.values())

    def _derived(self, node: ir.Derived, kind: str, base: ir.TypeExpr, keys: tuple[str, ...]) -> ir.TypeExpr:
        members = [one for one in self._alternatives(base) if one not in (ir.Prim("null"), ir.NEVER)]
        if len(members) == 1 and members[0] is base:
            return node
        if not all(
            isinstance(one, ir.Ref | ir.Derived | ir.Obj | ir.Record | ir.Intersection) for one in members
        ):
            raise self.schema.fail(
                self.owner, f"{kind} of what is no object is not supported; write the type out"
            )
        if len(members) == 1 and isinstance(members[0], ir.Ref | ir.Derived):
            return replace(node, base=members[0])
        flats = [self.schema.flatten(one, self.owner.name) for one in members]
        if kind in ("Partial", "Required"):
            found = (ir.derive(kind, [f.field for f in flat.fields], flat.index, keys) for flat in flats)
            return ir.union_of(ir.Obj(*one) for one in found)
        shared: list[ir.Field] = []
        for f in flats[0].fields:
            others = [flat.get(f.name) for flat in flats]
            present = [one for one in others if one is not None]
            if len(present) == len(flats):
                types = dict.fromkeys(one.type for one in present)
                optional = any(one.optional for one in present)
                shared.append(replace(f.field, type=ir.union_of(types), optional=optional))
        return ir.Obj(*ir.derive(kind, shared, None, keys))
