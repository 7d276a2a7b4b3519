"""Compares declared types: names, kinds, bases, openness, aliases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mcprev_codegen import ir
from mcprev_codegen.diff.changes import Change, Place
from mcprev_codegen.diff.comparison.areas import members
from mcprev_codegen.diff.comparison.areas.values import ComparisonSite, compare_values
from mcprev_codegen.diff.comparison.context import Context, Scope
from mcprev_codegen.diff.comparison.subtyping import relation
from mcprev_codegen.diff.comparison.view import View
from mcprev_codegen.facts import LISTING_UNIONS
from mcprev_codegen.typescript import print_type


def compare_declarations(context: Context) -> Iterator[Change]:
    """Yield every change of types, from their names to their members."""
    yield from _names(context)
    inheritors = _inheritors(context)
    for before, after in context.pairing.new_of.items():
        old, new = context.old.schema.types[before], context.new.schema.types[after]
        scope = context.scope(before, after)
        if isinstance(old, ir.Interface) and isinstance(new, ir.Interface):
            yield from _bases(context, scope, old, new)
            if not _index_inherited(context, before, after):
                flats = context.old.schema.flat(before), context.new.schema.flat(after)
                yield from members.compare_index(context, scope, *flats)
            yield from members.compare_pair(context, before, after, inheritors)
        elif isinstance(old, ir.Alias) and isinstance(new, ir.Alias):
            used = replace(scope, override="direction") if after in LISTING_UNIONS else scope
            site = ComparisonSite(
                context, used, old.type, new.type, members.compare_objects, old.span, new.span
            )
            yield from compare_values(site)
        if context.old.declares(before) and context.new.declares(after):
            places = context.old.decl_place(before, before), context.new.decl_place(after, after)
            yield from members.compare_metadata(context, scope, old, new, *places)


def _inheritors(context: Context) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the declared types that inherit a change of a base's member, by the base's new name and the member."""
    found: dict[tuple[str, str], list[str]] = {}
    for before, after in context.pairing.new_of.items():
        if not (context.old.is_object(before) and context.new.is_object(after)):
            continue
        old, new = context.old.schema.flat(before), context.new.schema.flat(after)
        for name in sorted({f.name for f in (*old.fields, *new.fields)}):
            base = members.inherited_from(context, before, after, name)
            if base is not None and context.new.declares(after):
                found.setdefault((base, name), []).append(after)
    return {place: tuple(names) for place, names in found.items()}


# -- names -------------------------------------------------------------------------------------------------------


def _names(context: Context) -> Iterator[Change]:
    """Yield the types that were added, removed or renamed, and the names that now mean another type."""
    old, new, pairing = context.old, context.new, context.pairing
    for before in filter(old.declares, old.schema.types):
        after = pairing.new_of.get(before)
        if new.declares(before) and after != before:
            yield _reused(context, before)
            decls = old.schema.types[before], new.schema.types[before]
            yield from members.described(
                context, context.scope(before, before), *decls, *_kinds(context, before)
            )
        elif after is None or not new.declares(after) or (after != before and old.declares(after)):
            place = old.decl_place(before, kind_text(old, before))
            yield context.change("type-removed", "any", place, None, context.scope(before, None))
        elif after != before:
            places = old.decl_place(before, before), new.decl_place(after, after)
            yield context.change("type-renamed", "any", *places, context.scope(before, after))
        elif old.is_object(before) != new.is_object(after):
            effect = relation(old, new, ir.Ref(before), ir.Ref(after))
            yield _kind_changed(context, before, effect.value, "")
    for after in filter(new.declares, new.schema.types):
        origin_name = pairing.old_of.get(after)
        renamed = origin_name is not None and old.declares(origin_name) and not new.declares(origin_name)
        if not old.declares(after) and not renamed:
            place = new.decl_place(after, kind_text(new, after))
            yield context.change("type-added", "any", None, place, context.scope(None, after))


def _reused(context: Context, name: str) -> Change:
    """Return the change of a name that means different types on the two sides."""
    now, once = context.pairing.new_of.get(name), context.pairing.old_of.get(name)
    notes = [f"The old type is {context.new.path(now)} now."] if now else []
    notes += [f"The new type was {context.old.path(once)}."] if once else []
    if context.old.is_object(name) != context.new.is_object(name):
        return _kind_changed(context, name, "moved", " ".join(notes))
    places = _kinds(context, name)
    return context.change("name-reused", "any", *places, context.scope(name, name), note=" ".join(notes))


def _kind_changed(context: Context, name: str, case: str, note: str) -> Change:
    return context.change(
        "type-kind-changed", case, *_kinds(context, name), context.scope(name, name), note=note
    )


def _kinds(context: Context, name: str) -> tuple[Place, Place]:
    return (
        context.old.decl_place(name, kind_text(context.old, name)),
        context.new.decl_place(name, kind_text(context.new, name)),
    )


def kind_text(side: View, name: str) -> str:
    """Return a short description of a type: `interface`, `union of A, B`, ..."""
    decl = side.schema.types[name]
    if isinstance(decl, ir.Interface):
        return " extends ".join(filter(None, ["interface", ", ".join(print_type(b) for b in decl.bases)]))
    kind = side.schema.alias_kind(name).replace("_", " ")
    parts = [side.text(m) for m in (decl.type.members if isinstance(decl.type, ir.Union) else (decl.type,))]
    return f"{kind} of {', '.join(parts)}" if kind == "union" else f"{kind} {side.text(decl.type)}"


# -- bodies --------------------------------------------------------------------------------------------------------


def _index_inherited(context: Context, before: str, after: str) -> bool:
    """Return whether a common base has the same change of openness."""
    old, new = context.old.schema, context.new.schema
    old_bases = set(old.supertypes(before))
    own = old.flat(before).index, new.flat(after).index
    for base in filter(context.new.is_object, new.supertypes(after)):
        base_before = context.pairing.old_of.get(base)
        if base_before in old_bases and (old.flat(base_before).index, new.flat(base).index) == own:
            return True
    return False


def _bases(context: Context, scope: Scope, old: ir.Interface, new: ir.Interface) -> Iterator[Change]:
    before = {print_type(context.renamed(base)): print_type(base) for base in old.bases}
    after = dict.fromkeys(map(print_type, new.bases))
    for key, text in before.items():
        if key not in after:
            place = Place(scope.old_path, text, text, old.span)
            yield context.change("base-removed", "any", place, None, scope)
    for text in after:
        if text not in before:
            place = Place(scope.new_path, text, text, new.span)
            yield context.change("base-added", "any", None, place, scope)
