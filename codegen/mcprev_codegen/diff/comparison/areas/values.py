"""Compares two types at one place: alternatives, literals, null, or the set of accepted values.

Types that are named on both sides are compared once, at their declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.diff.changes import Change, Effect
from mcprev_codegen.diff.comparison.context import Context, Scope, spelled_alike
from mcprev_codegen.diff.comparison.subtyping import relation, subtyping_of
from mcprev_codegen.diff.comparison.view import View
from mcprev_codegen.resolve import FlatType

_NULL: Final = ir.Prim("null")
_BY_EFFECT: Final = {
    Effect.EQUAL: "type-equivalent",
    Effect.WIDER: "type-widened",
    Effect.NARROWER: "type-narrowed",
    Effect.OTHER: "type-changed",
}

Descend = Callable[[Context, FlatType, FlatType, Scope], Iterator[Change]]


@dataclass(frozen=True)
class ComparisonSite:
    """A place, and the two types that are compared there."""

    context: Context
    scope: Scope
    before: ir.TypeExpr
    after: ir.TypeExpr
    descend: Descend
    """Compares the members of two objects here that no other comparison covers."""
    old_span: ir.Span | None = None
    new_span: ir.Span | None = None

    def of(self, before: ir.TypeExpr, after: ir.TypeExpr) -> ComparisonSite:
        """Return the same place with parts of the types."""
        return replace(self, before=before, after=after)

    def change(self, rule: str) -> Change:
        """Return a change of one type into the other."""
        return self.part(rule, self.before, self.after)

    def part(
        self, rule: str, before: ir.TypeExpr | None, after: ir.TypeExpr | None, case: str = "any"
    ) -> Change:
        """Return a change of a part of the types, which may have no counterpart."""
        context, scope = self.context, self.scope
        old = context.old.type_place(before, scope.old_path, self.old_span) if before else None
        new = context.new.type_place(after, scope.new_path, self.new_span) if after else None
        return context.change(rule, case, old, new, scope)

    def by_values(self) -> Change:
        """Return the change of the set of accepted values."""
        return self.change(_BY_EFFECT[relation(self.context.old, self.context.new, self.before, self.after)])


def compare_values(site: ComparisonSite) -> Iterator[Change]:
    """Yield every change between two types at one place."""
    context, before, after = site.context, site.before, site.after
    items = _item(before), _item(after)
    if context.paired(*items):
        yield from _extraction(site, *items)
    if context.same(before, after):
        return
    old, new = [*context.old.schema.members(before)], [*context.new.schema.members(after)]
    if _NULL in old and _NULL not in new and not ir.ANYTHING & set(new) and len(old) > 1:
        old.remove(_NULL)
        yield site.change("nullable-removed")
    elif _NULL in new and _NULL not in old and not ir.ANYTHING & set(old) and len(new) > 1:
        new.remove(_NULL)
        yield site.change("nullable-added")
    inner = site.of(ir.union_of(old), ir.union_of(new))
    if context.same(inner.before, inner.after):
        return
    if len(old) == len(new) == 1:
        yield from _one_to_one(inner)
    elif _literal_sets(inner):
        yield from _literals(inner)
    else:
        yield from _alternatives(inner, old, new)


def _extraction(site: ComparisonSite, old: ir.TypeExpr, new: ir.TypeExpr) -> Iterator[Change]:
    """Yield the change of an inline object that became a named type, or the reverse."""
    was_named, is_named = _is_named(site.context.old, old), _is_named(site.context.new, new)
    if is_named != was_named:
        yield site.change("field-extracted" if is_named else "field-inlined")


def _is_named(side: View, type_: ir.TypeExpr) -> bool:
    return isinstance(type_, ir.Ref) and not side.is_inline(type_.name)


def _item(type_: ir.TypeExpr) -> ir.TypeExpr:
    while isinstance(type_, ir.Array):
        type_ = type_.item
    return type_


# -- one type for another --------------------------------------------------------------------------------------


def _one_to_one(site: ComparisonSite) -> Iterator[Change]:
    context = site.context
    old, new = context.old.schema.follow(site.before), context.new.schema.follow(site.after)
    if isinstance(old, ir.Array) and isinstance(new, ir.Array):
        found = [*compare_values(site.of(old.item, new.item))]
        yield from found
        if not found and context.old.stable(site.before) != context.new.stable(site.after):
            yield site.change("type-equivalent")
        return
    old_flat, new_flat = context.old.flat_object(old), context.new.flat_object(new)
    if old_flat is None or new_flat is None:
        yield site.by_values()
        return
    old_value, new_value = _value(old_flat), _value(new_flat)
    if _is_compared_here(context, old, new, old_flat, new_flat):
        named = [*_extraction(site, old, new)]
        within = [*site.descend(context, old_flat, new_flat, site.scope)]
        yield from [*named, *within] or [site.change("type-equivalent")]  # which is then written otherwise
    elif old_value and new_value and relation(context.old, context.new, old, new) is not Effect.EQUAL:
        yield from compare_values(site.of(old_value, new_value))
    elif not context.paired(old, new):
        yield site.by_values()
    else:
        yield site.change("type-equivalent")


def _value(flat: FlatType) -> ir.TypeExpr | None:
    """Return the value type of a map; None for an object with members and for a map of any value."""
    if flat.fields or flat.index is None or flat.index.value in ir.ANYTHING:
        return None
    return flat.index.value


def _is_compared_here(
    context: Context, old: ir.TypeExpr, new: ir.TypeExpr, old_flat: FlatType, new_flat: FlatType
) -> bool:
    """Return whether these two objects are compared here, since no other comparison covers their members."""
    if not old_flat.fields and not new_flat.fields:
        return False
    if context.paired(old, new) or _value(old_flat) or _value(new_flat):
        return False
    names = [type_.name if isinstance(type_, ir.Ref) else None for type_ in (old, new)]
    if any(
        name and side.is_inline(name) for name, side in zip(names, (context.old, context.new), strict=True)
    ):
        return True
    anything = not (old_flat.fields and new_flat.fields)
    return anything and names[0] not in context.pairing.new_of and names[1] not in context.pairing.old_of


# -- literals --------------------------------------------------------------------------------------------------


def _literal_sets(site: ComparisonSite) -> bool:
    """Return whether both sides list literals, both closed or both open to any string."""
    old, new = site.context.old.schema, site.context.new.schema
    closed = bool(old.literals(site.before)) and bool(new.literals(site.after))
    return closed or (old.is_open_enum(site.before) and new.is_open_enum(site.after))


def _literals(site: ComparisonSite) -> Iterator[Change]:
    opened = site.context.old.schema.is_open_enum(site.before)
    old, new = _known(site.context.old, site.before), _known(site.context.new, site.after)
    prefix = "open-literal" if opened else "literal"
    before, after = {*map(_key, old)}, {*map(_key, new)}
    removed = [v for v in old if _key(v) not in after]
    added = [v for v in new if _key(v) not in before]
    if removed and not opened and len(removed) == len(old):
        yield site.by_values()
        return
    for value in removed:
        yield site.part(f"{prefix}-removed", ir.Lit(value), None)
    for value in added:
        yield site.part(f"{prefix}-added", None, ir.Lit(value))
    if not removed and not added:
        yield site.change("type-equivalent")


def _key(value: ir.Literal) -> tuple[bool, ir.Literal]:
    """Return what two literals with the same value have in common: 1 is 1.0, and not true."""
    return isinstance(value, bool), value


def _known(side: View, type_: ir.TypeExpr) -> list[ir.Literal]:
    values = [side.schema.literal(m) for m in side.schema.members(type_)]
    return [v for v in values if v is not None]


# -- alternatives ----------------------------------------------------------------------------------------------


def _alternatives(site: ComparisonSite, old: list[ir.TypeExpr], new: list[ir.TypeExpr]) -> Iterator[Change]:
    context = site.context
    before_by = {context.renamed(m): m for m in old}
    after_by = {spelled_alike(n): n for n in new}
    removed = [m for spelling, m in before_by.items() if spelling not in after_by]
    added = [n for spelling, n in after_by.items() if spelling not in before_by]
    for member in list(removed):
        counterpart = next((n for n in added if _respelled(context, member, n)), None)
        if counterpart is not None:
            removed.remove(member)
            added.remove(counterpart)
    if not removed and not added:
        yield from _reordered(site, new)
    elif all(_scalar(context.old, m) for m in removed) and all(_scalar(context.new, m) for m in added):
        yield site.by_values()
    else:
        for member in removed:
            covered = subtyping_of(context.old, context.new).accepts(member, site.after)
            yield site.part("union-member-removed", member, None, "covered" if covered else "any")
        for member in added:
            covered = subtyping_of(context.new, context.old).accepts(member, site.before)
            yield site.part("union-member-added", None, member, "covered" if covered else "any")


def _respelled(context: Context, before: ir.TypeExpr, after: ir.TypeExpr) -> bool:
    """Return whether two alternatives that are not both named objects accept the same values."""
    old, new = context.old.schema.follow(before), context.new.schema.follow(after)
    if _is_named(context.old, old) and _is_named(context.new, new):
        return False
    return relation(context.old, context.new, before, after) is Effect.EQUAL


def _scalar(side: View, type_: ir.TypeExpr) -> bool:
    return isinstance(side.schema.follow(type_), ir.Prim | ir.Lit | ir.ConstRef)


def _reordered(site: ComparisonSite, new: list[ir.TypeExpr]) -> Iterator[Change]:
    """Yield the change of alternatives that are spelled differently, or reordered although they overlap."""
    context, before = site.context, site.before
    written = before.members if isinstance(before, ir.Union) else (before,)
    if sorted(map(repr, map(context.renamed, written))) != sorted(map(repr, new)):
        yield site.change("type-equivalent")
    elif context.new.schema.discriminator(site.after) is None:
        yield site.change("union-member-reordered")
