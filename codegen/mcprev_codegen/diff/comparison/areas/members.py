"""Compares the members of two objects: presence, optionality, type, limits, deprecation and place of declaration.

An inherited change is reported once, at the base that changed, with the types that inherit it. Two changes are not
reported for members: whether a message requires params, which is a change of the method, and the envelope members,
which every message has wherever the schema declares them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.diff.changes import Change, Place
from mcprev_codegen.diff.comparison.areas.values import ComparisonSite, compare_values
from mcprev_codegen.diff.comparison.context import Context, Scope
from mcprev_codegen.diff.comparison.view import View
from mcprev_codegen.facts import ENVELOPE_MEMBERS
from mcprev_codegen.ir import Constraint, Limit
from mcprev_codegen.resolve import FlatField, FlatType
from mcprev_codegen.support import Transport

PARAMS: Final = "params"

Delta = tuple[FlatField | None, FlatField | None]


def compare_objects(context: Context, before: FlatType, after: FlatType, scope: Scope) -> Iterator[Change]:
    """Yield every change between two objects at one place."""
    scope = replace(scope, openness=_openness(before, after))
    for name, (old, new) in changed_members(before, after).items():
        yield from compare_member(context, old, new, scope, name)


def changed_members(before: FlatType, after: FlatType) -> dict[str, Delta]:
    """Return the old and new declaration of every member, old members first."""
    old = {f.name: f for f in before.fields}
    new = {f.name: f for f in after.fields}
    return {name: (old.get(name), new.get(name)) for name in {**old, **new}}


def compare_pair(
    context: Context, before: str, after: str, inheritors: Mapping[tuple[str, str], tuple[str, ...]]
) -> Iterator[Change]:
    """Yield every change of the members of two paired types, except for changes inherited from a common base.

    `inheritors` lists the types that inherit a change, by new type and member.
    """
    flats = context.old.schema.flat(before), context.new.schema.flat(after)
    scope = replace(context.scope(before, after), openness=_openness(*flats))
    for name, (old, new) in changed_members(*flats).items():
        if inherited_from(context, before, after, name) is None:
            affected = tuple(context.new.path(type_name) for type_name in inheritors.get((after, name), ()))
            own = replace(scope, affects=affected or scope.affects)
            yield from compare_member(context, old, new, own, name)
        elif old and new and (old.declared_in, new.declared_in) == (before, after):
            place = scope.at(name)
            yield from described(context, place, old.field, new.field, *_places(context, place, old, new))


def _places(context: Context, scope: Scope, old: FlatField, new: FlatField) -> tuple[Place, Place]:
    return context.old.member(old.field, scope.old_path), context.new.member(new.field, scope.new_path)


def _openness(before: FlatType, after: FlatType) -> str:
    """Return whether additional members of any value became allowed (`opened`) or ceased to be (`closed`)."""
    old = before.index is not None and before.index.value in ir.ANYTHING
    new = after.index is not None and after.index.value in ir.ANYTHING
    return "" if old == new else "opened" if new else "closed"


def inherited_from(context: Context, before: str, after: str, name: str) -> str | None:
    """Return the new name of the furthest common base with the same old and new member; None if there is none."""
    if name == PARAMS and after in context.new.message_types:
        return None
    own = _sides(context, before, after, name)
    old_of, new_of = context.pairing.old_of, context.pairing.new_of
    old_bases, places = context.old.schema.supertypes(before), context.new.schema.supertypes(after)
    if own[1] is None:
        bases = [new_of.get(base, "") for base in context.old.schema.supertypes_with(before, name)]
    else:
        bases = [*context.new.schema.supertypes_with(after, name)]
    shared = [b for b in bases if b in places and old_of.get(b) in old_bases and context.new.is_object(b)]
    found = [base for base in shared if _sides(context, old_of[base], base, name) == own]
    return max(found, key=places.__getitem__, default=None)


def _sides(context: Context, before: str, after: str, name: str) -> tuple[ir.Field | None, ir.Field | None]:
    old, new = context.old.schema.flat(before).get(name), context.new.schema.flat(after).get(name)
    return (
        replace(old, doc=ir.NO_DOC) if old is not None else None,
        replace(new, doc=ir.NO_DOC) if new is not None else None,
    )


# -- one member ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _MemberSite:
    context: Context
    scope: Scope
    """The scope of the member."""
    name: str
    message: bool
    """Whether the member belongs to a message type on both sides."""
    old: FlatField | None
    new: FlatField | None

    def change(self, rule: str, case: str = "any", *texts: str | None) -> Change:
        """Return a change of the member; with two texts, of what they say about it."""
        before = self.context.old.member(self.old.field, self.scope.old_path) if self.old else None
        after = self.context.new.member(self.new.field, self.scope.new_path) if self.new else None
        if texts and before and after:
            before, after = _with_text(before, texts[0]), _with_text(after, texts[1])
        return self.context.change(rule, case, before, after, self.scope)


def compare_member(
    context: Context, old: FlatField | None, new: FlatField | None, scope: Scope, name: str
) -> Iterator[Change]:
    """Yield every change of one member of an object; `scope` is that of the object."""
    on_base = name == PARAMS and (_is_base(context.old, scope.before) or _is_base(context.new, scope.after))
    message = _is_message(context.old, scope.before) and _is_message(context.new, scope.after)
    place = scope.at(name)
    if on_base and not place.override:
        place = replace(place, override="base")
    site = _MemberSite(context, place, name, message, old, new)
    if old and new:
        yield from _changed(site, old, new)
    elif new:
        yield _added(site, new)
    elif old:
        yield _removed(site, old)


def _is_base(side: View, name: str | None) -> bool:
    return name is not None and side.is_message_base(name)


def _is_message(side: View, name: str | None) -> bool:
    return name is not None and side.transport(name) is Transport.JSONRPC


def _added(site: _MemberSite, new: FlatField) -> Change:
    rule = "field-added-optional" if new.field.optional else "field-added-required"
    case = "any"
    if site.message and site.name in ENVELOPE_MEMBERS:
        case = "envelope"
    elif new.field.optional and _tolerated(site.context.old, site.scope.before, site.name):
        case = "declared"
    elif not new.field.optional and _has_default(site.context.new, new):
        case = "defaulted"
    elif new.field.optional and site.scope.openness == "closed" and new.field.type not in ir.ANYTHING:
        case = "singled-out"
    return site.change(rule, case)


def _removed(site: _MemberSite, old: FlatField) -> Change:
    case = "optional" if old.field.optional else "required"
    if site.message and site.name in ENVELOPE_MEMBERS:
        case = "envelope" if old.field.optional else "envelope-required"
    elif old.field.optional and _tolerated(site.context.new, site.scope.after, site.name):
        case = "declared"
    elif not old.field.optional and _has_default(site.context.old, old):
        case = "defaulted"
    elif old.field.optional and site.scope.openness == "opened" and old.field.type not in ir.ANYTHING:
        case = "absorbed"
    return site.change("field-removed", case)


def _tolerated(side: View, owner: str | None, name: str) -> bool:
    """Return whether the overlay adds the member to a type whose schema does not declare it."""
    return f"{owner}.{name}" in side.revision.facts.patched


def _has_default(side: View, member: FlatField) -> bool:
    """Return whether the specification gives a required member a default."""
    return f"{member.declared_in}.{member.name}" in side.revision.facts.default


def _changed(site: _MemberSite, old: FlatField, new: FlatField) -> Iterator[Change]:
    context = site.context
    yield from _optionality(site, old, new)
    types = context.old.effective(old.field), context.new.effective(new.field)
    spans = old.field.span, new.field.span
    yield from compare_values(ComparisonSite(context, site.scope, *types, compare_objects, *spans))
    yield from _limits(site, old.field.tags, new.field.tags)
    yield from _moves(site, old, new)
    places = _places(context, site.scope, old, new)
    yield from compare_metadata(context, site.scope, old.field, new.field, *places)


def _optionality(site: _MemberSite, old: FlatField, new: FlatField) -> Iterator[Change]:
    before, after = site.scope.before, site.scope.after
    methods = before in site.context.old.message_types and after in site.context.new.message_types
    if old.field.optional == new.field.optional or (site.name == PARAMS and methods):
        return
    side, required = (site.context.old, old) if new.field.optional else (site.context.new, new)
    rule = "field-became-optional" if new.field.optional else "field-became-required"
    yield site.change(rule, "defaulted" if _has_default(side, required) else "any")


def _limits(site: _MemberSite, old: ir.Tags, new: ir.Tags) -> Iterator[Change]:
    if old == new:
        return
    for row in ir.CONSTRAINTS:
        for was, is_now in _steps(row, row.of(old), row.of(new)):
            rule = "constraint-tightened" if row.tightened(was, is_now) else "constraint-loosened"
            yield site.change(rule, "any", row.text(was), row.text(is_now))
    for tag, none, written in (("format", "none", "{}"), ("default", "no default", "default {}")):
        was, is_now = getattr(old, tag), getattr(new, tag)
        if was != is_now:
            case = "removed" if is_now is None else "added" if was is None else "replaced"
            texts = (none if text is None else written.format(text) for text in (was, is_now))
            yield site.change(f"{tag}-changed", case, *texts)


def _steps(row: Constraint, old: Limit | None, new: Limit | None) -> list[tuple[Limit | None, Limit | None]]:
    """Return the changes of a limit; one without an order is removed and added again."""
    if old == new:
        return []
    if row.stricter or old is None or new is None:
        return [(old, new)]
    return [(old, None), (None, new)]


def _with_text(place: Place, text: str | None) -> Place:
    """Return a place with another text; `none` if there is none."""
    return replace(place, text=text or "none", stable=text or "none")


def _moves(site: _MemberSite, old: FlatField, new: FlatField) -> Iterator[Change]:
    before, after = site.scope.before, site.scope.after
    own_before, own_after = old.declared_in == before, new.declared_in == after
    envelope = site.message and site.name in ENVELOPE_MEMBERS
    if before is None or after is None or own_before == own_after or envelope:
        return
    rule = "field-moved-to-base" if own_before else "field-moved-from-base"
    declared = site.context.old.path(old.declared_in), site.context.new.path(new.declared_in)
    yield site.change(rule, "any", *declared)


# -- what members and types share --------------------------------------------------------------------------------


Described = ir.Field | ir.Decl


def compare_metadata(
    context: Context, scope: Scope, old: Described, new: Described, before: Place, after: Place
) -> Iterator[Change]:
    """Yield the changes of deprecation, visibility, category and description of a member or type."""

    def change(rule: str, was: str | None, is_now: str | None) -> Change:
        return context.change(rule, "any", _with_text(before, was), _with_text(after, is_now), scope)

    for tag, on, off in (("deprecated", "deprecated", "undeprecated"), ("internal", "internal", "public")):
        was, is_now = getattr(old.tags, tag), getattr(new.tags, tag)
        if was != is_now:
            yield change(on if is_now else off, *(tag if has else f"not {tag}" for has in (was, is_now)))
    if old.tags.category != new.tags.category:
        yield change("category-changed", old.tags.category, new.tags.category)
    yield from described(context, scope, old, new, before, after)


def described(
    context: Context, scope: Scope, old: Described, new: Described, before: Place, after: Place
) -> Iterator[Change]:
    """Yield the change of a description, if both sides have upstream's prose."""
    texts = _prose(old.doc), _prose(new.doc)
    if texts[0] != texts[1] and context.old.has_prose and context.new.has_prose:
        sides = _with_text(before, texts[0]), _with_text(after, texts[1])
        yield context.change("doc-changed", "any", *sides, scope)


def _prose(doc: ir.Doc) -> str:
    """Return the text of a comment without examples and line breaks."""
    tags = (f"@{name} {text}" for name, text in doc.tags if name != "example")
    members = (f"{index}: {text}" for index, text in doc.members)
    return " ".join(" ".join(filter(None, (doc.text, doc.notes, *tags, *members))).split())


def compare_index(context: Context, scope: Scope, before: FlatType, after: FlatType) -> Iterator[Change]:
    """Yield the changes of the index signature."""
    old, new = before.index, after.index
    if old and new:
        site = ComparisonSite(context, scope.at("*"), old.value, new.value, compare_objects)
        yield from compare_values(site)
    elif index := old or new:
        anything = index.value in ir.ANYTHING
        case = ("opened" if new else "closed") if anything else ("typed" if new else "untyped")
        sides = (context.old, old, scope.old_path), (context.new, new, scope.new_path)
        texts = [f"any of {side.text(own.value)}" if own else "none" for side, own, _ in sides]
        places = [Place(path, text, text) for (_, _, path), text in zip(sides, texts, strict=True)]
        yield context.change("openness-changed", case, places[0], places[1], scope)
