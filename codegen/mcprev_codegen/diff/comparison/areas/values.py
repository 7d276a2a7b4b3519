"""Compares two types at one place: alternatives, literals, null, or the set of accepted values.

Types that are named on both sides are compared once, at their declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
    """A place at which two types are compared."""

    context: Context
    scope: Scope
    old_span: ir.Span | None
    new_span: ir.Span | None
    descend: Descend
    """Compares the members of two objects here that no other comparison covers."""

    def change(
        self, rule: str, before: ir.TypeExpr | None, after: ir.TypeExpr | None, case: str = "any"
    ) -> Change:
        """Return a change here, between two types or of one that has no counterpart."""
        context, scope = self.context, self.scope
        old = context.old.type_place(before, scope.old_path, self.old_span) if before else None
        new = context.new.type_place(after, scope.new_path, self.new_span) if after else None
        return context.change(rule, case, old, new, scope)


def compare_values(site: ComparisonSite, before: ir.TypeExpr, after: ir.TypeExpr) -> Iterator[Change]:
    """Yield every change between two types at one place."""
    context = site.context
    yield from _naming(site, before, after)
    if context.same(before, after):
        return
    old = list(context.old.schema.members(before))
    new = list(context.new.schema.members(after))
    if _NULL in old and _NULL not in new and not ir.ANYTHING & set(new) and len(old) > 1:
        old.remove(_NULL)
        yield site.change("nullable-removed", before, after)
    elif _NULL in new and _NULL not in old and not ir.ANYTHING & set(old) and len(new) > 1:
        new.remove(_NULL)
        yield site.change("nullable-added", before, after)
    yield from _compare(site, ir.union_of(old), ir.union_of(new), old, new)


def _compare(
    site: ComparisonSite,
    before: ir.TypeExpr,
    after: ir.TypeExpr,
    old: list[ir.TypeExpr],
    new: list[ir.TypeExpr],
) -> Iterator[Change]:
    context = site.context
    if context.same(before, after):
        return
    if len(old) == len(new) == 1:
        yield from _one_to_one(site, old[0], new[0])
    elif _literal_sets(context, before, after):
        yield from _literals(site, before, after)
    else:
        yield from _alternatives(site, before, after, old, new)


# -- names ---------------------------------------------------------------------------------------------------


def _naming(site: ComparisonSite, before: ir.TypeExpr, after: ir.TypeExpr) -> Iterator[Change]:
    """Yield the change of an inline object that became a named type, or the reverse, and is paired."""
    context = site.context
    old, new = _item(before), _item(after)
    if context.paired(old, new):
        yield from _extraction(site, before, after, old, new)


def _extraction(
    site: ComparisonSite, before: ir.TypeExpr, after: ir.TypeExpr, old: ir.TypeExpr, new: ir.TypeExpr
) -> Iterator[Change]:
    """Yield the change of an inline object that became a named type, or the reverse."""
    was_named, is_named = _is_named(site.context.old, old), _is_named(site.context.new, new)
    if is_named != was_named:
        rule = "field-extracted" if is_named else "field-inlined"
        yield site.change(rule, before, after)


def _is_named(side: View, type_: ir.TypeExpr) -> bool:
    return isinstance(type_, ir.Ref) and not side.is_inline(type_.name)


def _item(type_: ir.TypeExpr) -> ir.TypeExpr:
    while isinstance(type_, ir.Array):
        type_ = type_.item
    return type_


# -- one type for another --------------------------------------------------------------------------------------


def _one_to_one(site: ComparisonSite, before: ir.TypeExpr, after: ir.TypeExpr) -> Iterator[Change]:
    context = site.context
    old, new = context.old.schema.follow(before), context.new.schema.follow(after)
    if isinstance(old, ir.Array) and isinstance(new, ir.Array):
        yield from _items(site, before, after, old, new)
        return
    old_flat, new_flat = context.old.flat_object(old), context.new.flat_object(new)
    if old_flat is None or new_flat is None:
        yield _type_change(site, before, after)
    elif _is_compared_here(context, old, new, old_flat, new_flat):
        within = list(site.descend(context, old_flat, new_flat, site.scope))
        yield from _renaming(site, before, after, old, new, reported=bool(within))
        yield from within
    elif (
        _value(old_flat)
        and _value(new_flat)
        and relation(context.old, context.new, old, new) is not Effect.EQUAL
    ):
        yield from compare_values(site, _value(old_flat) or old, _value(new_flat) or new)
    elif not context.paired(old, new):
        yield _type_change(site, before, after)
    else:
        yield site.change("type-equivalent", before, after)


def _items(
    site: ComparisonSite, before: ir.TypeExpr, after: ir.TypeExpr, old: ir.Array, new: ir.Array
) -> Iterator[Change]:
    found = list(compare_values(site, old.item, new.item))
    yield from found
    if not found and site.context.old.stable(before) != site.context.new.stable(after):
        yield site.change("type-equivalent", before, after)


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
    if context.paired(old, new):
        return False
    if _value(old_flat) or _value(new_flat):
        return False
    inline_old = isinstance(old, ir.Ref) and context.old.is_inline(old.name)
    inline_new = isinstance(new, ir.Ref) and context.new.is_inline(new.name)
    anything = not (old_flat.fields and new_flat.fields)
    free = _is_free(context, old, of_old=True) and _is_free(context, new, of_old=False)
    return inline_old or inline_new or (anything and free)


def _is_free(context: Context, type_: ir.TypeExpr, *, of_old: bool) -> bool:
    """Return whether a type has no counterpart on the other side."""
    if not isinstance(type_, ir.Ref):
        return True
    known = context.pairing.new_of if of_old else context.pairing.old_of
    return type_.name not in known


def _renaming(
    site: ComparisonSite,
    before: ir.TypeExpr,
    after: ir.TypeExpr,
    old: ir.TypeExpr,
    new: ir.TypeExpr,
    *,
    reported: bool,
) -> Iterator[Change]:
    """Yield the change of how an object is written; none if only members changed, which are reported."""
    found = list(_extraction(site, before, after, old, new))
    yield from found
    if not found and not reported:
        yield site.change("type-equivalent", before, after)


def _type_change(site: ComparisonSite, before: ir.TypeExpr, after: ir.TypeExpr) -> Change:
    effect = relation(site.context.old, site.context.new, before, after)
    return site.change(_BY_EFFECT[effect], before, after)


# -- literals --------------------------------------------------------------------------------------------------


def _literal_sets(context: Context, before: ir.TypeExpr, after: ir.TypeExpr) -> bool:
    """Return whether both sides list literals, both closed or both open to any string."""
    old, new = context.old.schema, context.new.schema
    closed = bool(old.literals(before)) and bool(new.literals(after))
    return closed or (old.is_open_enum(before) and new.is_open_enum(after))


def _literals(site: ComparisonSite, before: ir.TypeExpr, after: ir.TypeExpr) -> Iterator[Change]:
    opened = site.context.old.schema.is_open_enum(before)
    old, new = _known(site.context.old, before), _known(site.context.new, after)
    prefix = "open-literal" if opened else "literal"
    before_set, after_set = set(old), set(new)
    removed = [v for v in old if v not in after_set]
    added = [v for v in new if v not in before_set]
    if removed and not opened and len(removed) == len(old):
        yield _type_change(site, before, after)
        return
    for value in removed:
        yield site.change(f"{prefix}-removed", ir.Lit(value), None)
    for value in added:
        yield site.change(f"{prefix}-added", None, ir.Lit(value))
    if not removed and not added:
        yield site.change("type-equivalent", before, after)


def _known(side: View, type_: ir.TypeExpr) -> list[ir.Literal]:
    values = [side.schema.literal(m) for m in side.schema.members(type_)]
    return [v for v in values if v is not None]


# -- alternatives ----------------------------------------------------------------------------------------------


def _alternatives(
    site: ComparisonSite,
    before: ir.TypeExpr,
    after: ir.TypeExpr,
    old: list[ir.TypeExpr],
    new: list[ir.TypeExpr],
) -> Iterator[Change]:
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
        yield from _reordered(site, before, after, new)
    elif all(_scalar(context.old, m) for m in removed) and all(_scalar(context.new, m) for m in added):
        yield _type_change(site, before, after)
    else:
        for member in removed:
            covered = subtyping_of(context.old, context.new).accepts(member, after)
            yield site.change("union-member-removed", member, None, "covered" if covered else "any")
        for member in added:
            covered = subtyping_of(context.new, context.old).accepts(member, before)
            yield site.change("union-member-added", None, member, "covered" if covered else "any")


def _respelled(context: Context, before: ir.TypeExpr, after: ir.TypeExpr) -> bool:
    """Return whether two alternatives that are not both named objects accept the same values."""
    old, new = context.old.schema.follow(before), context.new.schema.follow(after)
    if _is_named(context.old, old) and _is_named(context.new, new):
        return False
    return relation(context.old, context.new, before, after) is Effect.EQUAL


def _scalar(side: View, type_: ir.TypeExpr) -> bool:
    return isinstance(side.schema.follow(type_), ir.Prim | ir.Lit | ir.ConstRef)


def _reordered(
    site: ComparisonSite, before: ir.TypeExpr, after: ir.TypeExpr, new: list[ir.TypeExpr]
) -> Iterator[Change]:
    """Yield the change of alternatives that are spelled differently, or reordered although they overlap."""
    context = site.context
    written = list(before.members) if isinstance(before, ir.Union) else [before]
    if sorted(map(repr, map(context.renamed, written))) != sorted(map(repr, new)):
        yield site.change("type-equivalent", before, after)
    elif context.new.schema.discriminator(after) is None:
        yield site.change("union-member-reordered", before, after)
