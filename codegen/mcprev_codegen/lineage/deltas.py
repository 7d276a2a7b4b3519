"""The changes that objects of one revision need in a neighbouring one, found member by member."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from mcprev_codegen import ir
from mcprev_codegen.facts import ENVELOPE_MEMBERS, Revision
from mcprev_codegen.lineage.normal_form import NormalForm, normalised
from mcprev_codegen.lineage.object_places import object_children, untagged_types
from mcprev_codegen.resolve import Schema
from mcprev_codegen.support import Child, TypeDelta

_PAYLOADS: Final = (
    "ClientCapabilities",
    "ServerCapabilities",
    "Implementation",
    "Error",
    "JSONRPCErrorError",
)
"""Types that are converted although they are neither params nor results of a method."""


def conversion_deltas(here: Revision, there: Revision, names: Mapping[str, str]) -> dict[str, TypeDelta]:
    """Return the changes that objects of each type need in a neighbouring revision.

    Only types that need changes, or that contain such types, have an entry: object types, and params that are unions.
    `names` maps the names of the types of `here` to their names in `there`. Whole messages and their bases are left
    out, since only params, results, errors and capabilities are converted.
    """
    found: dict[str, TypeDelta] = {}
    untagged: dict[str, list[tuple[str, str]]] = {}
    params = {method.params for method in here.methods.values()}
    for name in payloads(here):
        other = names.get(name)
        if other is None:
            continue
        if here.schema.is_object(ir.Ref(name)):
            if there.schema.is_object(ir.Ref(other)):
                found[name] = _delta(here, there, name, names)
                untagged[name] = _untagged_members(here, there, found[name], name)
        elif name in params:
            children = object_children(here.schema, ir.Field("", ir.Ref(name)))
            found[name] = TypeDelta(other, children=tuple(children))
    return _pruned(found, untagged)


def payloads(revision: Revision) -> list[str]:
    """Return the payload types and the types that they contain, in source order."""
    types = revision.schema.types
    pending = [name for name in _PAYLOADS if name in types]
    for method in revision.methods.values():
        pending += [*([method.params] if method.params else []), *method.results]
    reached = ir.reachable(pending, lambda name: ir.references(types[name]))
    return [name for name in types if name in reached]


def _delta(here: Revision, there: Revision, name: str, names: Mapping[str, str]) -> TypeDelta:
    other = names[name]
    mine, theirs = here.schema.flat(name), there.schema.flat(other)
    message = mine.get("method") is not None
    ignored = ENVELOPE_MEMBERS if message else frozenset[str]()
    known = {f.name for f in theirs.fields}
    # A member that the index signature of the other type covers is kept, although that type does not declare it.
    taken_over = theirs.index is not None and mine.index is None
    unknown = () if taken_over else tuple(f.name for f in mine.fields if f.name not in known)
    drop = tuple(name for name in unknown if name not in ignored)
    fill: list[tuple[str, ir.Literal]] = []
    missing: list[str] = []
    retyped: list[str] = []
    for f in theirs.fields:
        own = mine.get(f.name)
        if f.name in ignored:
            continue
        if not f.field.optional and (own is None or own.optional):
            value = _known_value(there, other, f.field)
            if value is None:
                missing.append(f.name)
            else:
                fill.append((f.name, value))
        if own is not None:
            types = normalised(here.schema, own.type, names), normalised(there.schema, f.field.type, {})
            if not _fits(*types) or ir.exceeded(own.tags, f.field.tags):
                retyped.append(f.name)
    children: list[Child] = []
    lost: list[Child] = []
    for f in mine.fields:
        inside, counterpart = object_children(here.schema, f.field), theirs.get(f.name)
        children += inside if f.name not in drop else []
        if counterpart is not None:
            lost += _lost(inside, there.schema, object_children(there.schema, counterpart))
    return TypeDelta(other, drop, tuple(fill), tuple(missing), tuple(retyped), tuple(lost), tuple(children))


def _untagged_members(here: Revision, there: Revision, delta: TypeDelta, name: str) -> list[tuple[str, str]]:
    """Return the unconverted members with types that cannot be distinguished, paired with each such type."""
    theirs = there.schema.flat(delta.there)
    return [
        (f.name, type_)
        for f in here.schema.flat(name).fields
        if theirs.get(f.name) is not None and f.name not in delta.retyped
        for type_ in untagged_types(here.schema, f.field)
    ]


def _lost(mine: Sequence[Child], schema: Schema, theirs: Sequence[Child]) -> Iterator[Child]:
    """Yield the members that are tagged unions with tags that the neighbour's union does not have."""
    for child in mine:
        others = [other for other in theirs if other.through == child.through]
        if not child.tag or not others:
            continue
        known = {tag for other in others for tag in _tags(schema, other, child.tag)}
        lost = tuple(pair for pair in child.types if pair[0] not in known)
        if lost:
            yield Child(child.member, child.through, lost, child.tag)


def _tags(schema: Schema, child: Child, tag: str) -> Iterator[str]:
    """Yield the possible tags at one place, also if only one type is possible."""
    for value, name in child.types:
        if child.tag:
            yield value
        elif (member := schema.flat(name).get(tag)) is not None:
            yield str(schema.literal(member.type))


def _fits(mine: NormalForm, theirs: NormalForm) -> bool:
    """Return whether every value of one type has the same meaning in another; both types are in normal form.

    A type that becomes `unknown` does not fit: null may then be a value of its own.
    """
    if mine == theirs:
        return True
    match mine, theirs:
        case ("union", *members), _:
            return all(_fits(cast("NormalForm", member), theirs) for member in members)
        case _, ("union", *members):
            return any(_fits(mine, cast("NormalForm", member)) for member in members)
        case ("list" | "map" as kind, item), (other_kind, other) if kind == other_kind:
            return _fits(cast("NormalForm", item), cast("NormalForm", other))
        case ("lit", str() as text), ("prim", "string"):
            return text[0] in "'\""
        case ("template", _), ("prim", "string"):
            return True
        case ("tuple", *items), ("list", other):
            return all(_fits(cast("NormalForm", item), cast("NormalForm", other)) for item in items)
        case _:
            return False


def _known_value(revision: Revision, owner: str, member: ir.Field) -> ir.Literal | None:
    """Return the only or default value of a required member; None if it has neither."""
    literal = revision.schema.literal(member.type)
    value = revision.default(owner, member.name) if literal is None else literal
    return value if isinstance(value, str | int | float) else None


def _pruned(
    found: Mapping[str, TypeDelta], untagged: Mapping[str, Sequence[tuple[str, str]]]
) -> dict[str, TypeDelta]:
    """Return only the types that change or contain a type that changes, each with only such children.

    A member that contains such a type among types that cannot be distinguished counts as retyped.
    """

    def kept(child: Child) -> tuple[tuple[str, str], ...]:
        return tuple(pair for pair in child.types if pair[1] in alive)

    alive = {n for n, d in found.items() if d.drop or d.fill or d.missing or d.retyped or d.lost}
    grown = True
    while grown:
        more = {
            n
            for n, d in found.items()
            if any(kept(c) for c in d.children) or any(type_ in alive for _, type_ in untagged.get(n, ()))
        }
        grown = not more <= alive
        alive |= more
    pruned: dict[str, TypeDelta] = {}
    for name, delta in found.items():
        if name in alive:
            children = tuple(replace(c, types=kept(c)) for c in delta.children if kept(c))
            further = (member for member, type_ in untagged.get(name, ()) if type_ in alive)
            retyped = tuple(dict.fromkeys((*delta.retyped, *further)))
            pruned[name] = replace(delta, children=children, retyped=retyped)
    return pruned
