"""Pairs the types of two revisions: by name, by the overlay's `#was`, by members and name, or by use.

A pair that the overlay does not state has the same kind and, for messages, the same method. In addition, it either
accepts the same values (envelope members excepted) and has the same description or a similar name; or it is used by
the same members, bases and methods and keeps half of its members, with any name. Only pairs in which each type is the
other's single best match are used. Common members alone are not enough, since all requests have similar members.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Container, Iterable, Mapping, MutableMapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Final, cast

from mcprev_codegen import ir
from mcprev_codegen.diff.changes import METHOD_PREFIX, Effect
from mcprev_codegen.diff.comparison.subtyping import relation
from mcprev_codegen.diff.comparison.view import View
from mcprev_codegen.facts import ENVELOPE_MEMBERS

MIN_SIMILARITY: Final = 0.5
"""The minimum share of words that two names have in common."""
MIN_KEPT: Final = 0.75
"""The minimum share of members that an object keeps to be recognised under another name."""
MIN_SHARED: Final = 0.5
"""The minimum share of uses, and of members, that a type keeps to be recognised by its uses."""
MAX_ALIKE: Final = 32
"""The maximum number of changed types with the same members that are compared with one another, each with each."""


@dataclass(frozen=True)
class Pairing:
    """The pairing of old types with new types, by hoisted names on both sides."""

    new_of: Mapping[str, str]

    @cached_property
    def old_of(self) -> Mapping[str, str]:
        """The inverse of `new_of`."""
        return {new: old for old, new in self.new_of.items()}


def with_inferred_results(side: View, other: View) -> View:
    """Return the view with results assigned to methods whose result names do not follow the naming convention.

    Only the name of a result states which request it answers. If the other side has a result for a method, and this
    side has no type of that name, then the result is a type that this side lists among the results, that no other
    method has, that the other side does not have, and that keeps half of the members.
    """
    types, methods = side.schema.types, side.revision.methods
    answers = {result for method in methods.values() for result in method.results}
    scores: Scores = {}
    for method in methods.values():
        counterpart = other.revision.methods.get(method.method)
        lost = counterpart.result if counterpart and method.result_source == "empty" else None
        if lost is None or lost in types:
            continue
        unions = [ir.references(types[union]) for union in method.result_unions if union in types]
        for name in {name for union in unions for name in union}:
            if name not in answers and name not in other.schema.types:
                share = _common_share(other, side, lost, name, {})
                if share >= MIN_SHARED:
                    scores[method.method, name] = share + _name_similarity(lost, name)
    found = {
        name: replace(methods[name], result=result, result_source="similarity")
        for name, result in _best(scores)
    }
    return replace(side, revision=replace(side.revision, methods={**methods, **found})) if found else side


def pair(old: View, new: View, was: Mapping[str, str]) -> Pairing:
    """Return the pairing of two views; `was` maps old names to the new names that the overlay states."""
    new_of: dict[str, str] = {}
    for before, after in was.items():
        fresh = after not in old.schema.types or before not in new.schema.types
        if before in old.schema.types and after in new.schema.types and fresh:
            new_of[before] = after
    taken = set(new_of.values())
    for name in old.schema.types:
        if name in new.schema.types and name not in new_of and name not in taken:
            new_of[name] = name
    _detect_swaps(old, new, new_of)
    _detect_renames(old, new, new_of)
    _pair_inline(old, new, new_of)
    while found := _best(_same_uses(old, new, new_of)):  # Each new pair may reveal further pairs.
        new_of.update(found)
        _pair_inline(old, new, new_of)
    return Pairing(new_of)


def _detect_swaps(old: View, new: View, new_of: dict[str, str]) -> None:
    """Pair the types that exchanged their names, two or several in a circle: each has the values of another one."""
    changed = [
        name
        for name, after in new_of.items()
        if name == after and old.declares(name) and new.declares(name) and _is_changed(old, new, name)
    ]
    like: dict[object, list[str]] = {}
    for name in changed:
        like.setdefault(_outline(new, name), []).append(name)
    found: dict[str, str] = {}
    for name in changed:
        alike = like.get(_outline(old, name), [])
        candidates = [other for other in alike if other != name] if len(alike) <= MAX_ALIKE else []
        same = [other for other in candidates if _have_same_values(old, name, new, other)]
        if len(same) == 1:
            found[name] = same[0]
    while lost := {n for n in found if found[n] not in found or [*found.values()].count(found[n]) > 1}:
        for name in lost:
            del found[name]
    new_of.update(found)


def _outline(side: View, name: str) -> object:
    """Return what two types with the same values have in common: the members of an object, the kind of another type."""
    return _members(side, name) if side.is_object(name) else side.schema.alias_kind(name)


def _is_changed(old: View, new: View, name: str) -> bool:
    mine, theirs = old.schema.types[name], new.schema.types[name]
    if isinstance(mine, ir.Alias) and isinstance(theirs, ir.Alias):
        alike = mine.type == theirs.type
    else:
        alike = _outline(old, name) == _outline(new, name) and all(
            (other := new.schema.flat(name).get(f.name)) is not None and f.field.type == other.type
            for f in old.schema.fields(name)
        )
    return not alike and not _have_same_values(old, name, new, name)


def _have_same_values(old: View, before: str, new: View, after: str) -> bool:
    return relation(old, new, ir.Ref(before), ir.Ref(after)) is Effect.EQUAL


def _detect_renames(old: View, new: View, new_of: dict[str, str]) -> None:
    """Add the renames detected by members and name, and find the new names of objects whose names were reused."""
    taken = set(new_of.values())
    added = [n for n in new.schema.types if n not in taken and not new.is_inline(n)]
    removed = [n for n in old.schema.types if n not in new_of and not old.is_inline(n)]
    new_of.update(_best(_similar_types(old, new, removed, added, new_of)))
    changed = [o for o, n in new_of.items() if o == n and old.is_object(o) and _is_unrelated(old, o, new)]
    new_of.update(_best(_kept_members(old, new, changed, [n for n in added if n not in new_of.values()])))
    inverse = [n for o, n in new_of.items() if o == n and new.is_object(n) and _is_unrelated(new, n, old)]
    gone = [o for o in removed if o not in new_of]
    for after, before in _best(_kept_members(new, old, inverse, gone)):
        del new_of[after]
        new_of[before] = after


def _pair_inline(old: View, new: View, new_of: dict[str, str]) -> None:
    """Pair the inline objects at the same member of two paired types."""
    pending = [(before, after) for before, after in new_of.items() if before != after]
    while pending:
        before, after = pending.pop()
        for one, other in _inline_pairs(old, before, new, after):
            if one not in new_of and other not in new_of.values():
                new_of[one] = other
                pending.append((one, other))


def _inline_pairs(old: View, before: str, new: View, after: str) -> list[tuple[str, str]]:
    """Return the inline objects at the same members of two objects, as pairs."""
    if not (old.is_object(before) and new.is_object(after)):
        return []
    flat = new.schema.flat(after)
    pairs: list[tuple[str, str]] = []
    for member in (f.field for f in old.schema.flat(before).fields):
        counterpart = flat.get(member.name)
        ours = [n for n in ir.references(member.type) if old.is_inline(n)]
        theirs = [n for n in ir.references(counterpart.type) if new.is_inline(n)] if counterpart else []
        pairs += zip(ours, theirs, strict=False)
    return pairs


Scores = dict[tuple[str, str], float]


def _similar_types(
    old: View, new: View, removed: Iterable[str], added: Sequence[str], new_of: Mapping[str, str]
) -> Scores:
    scores: Scores = {}
    for before in removed:
        for after in added:
            similarity = _name_similarity(before, after)
            alike = similarity >= MIN_SIMILARITY or _same_text(old, new, before, after)
            if alike and _same_shape(old, new, before, after, new_of):
                scores[before, after] = similarity
    return scores


def _same_uses(old: View, new: View, new_of: Mapping[str, str]) -> Scores:
    """Return the similarity of unpaired types by uses and members, if both shares are at least `MIN_SHARED`."""
    methods = old.revision.methods.keys() & new.revision.methods.keys()
    same = {f"{METHOD_PREFIX}{method}": f"{METHOD_PREFIX}{method}" for method in methods}
    paired = set(new_of.values())
    left = _unpaired(old, new_of.keys(), {**same, **new_of})
    right = _unpaired(new, paired, {**same, **{name: name for name in paired}})
    users: dict[tuple[str, str], list[str]] = {}
    for after, theirs in right.items():
        for use in theirs:
            users.setdefault(use, []).append(after)
    scores: Scores = {}
    for before, mine in left.items():
        for after in dict.fromkeys(after for use in mine for after in users.get(use, ())):
            uses = _share(mine, right[after])
            members = _common_share(old, new, before, after, new_of) if uses >= MIN_SHARED else 0.0
            if members >= MIN_SHARED:
                scores[before, after] = uses + members + _name_similarity(before, after)
    return scores


def _unpaired(
    side: View, paired: Container[str], owners: Mapping[str, str]
) -> dict[str, frozenset[tuple[str, str]]]:
    """Return the uses of each declared unpaired type, by the new names of the types and methods that use it."""
    names = [name for name in side.schema.types if name not in paired and not side.is_inline(name)]
    uses = {n: frozenset((owners[o], what) for o, what in side.uses[n] if o in owners) for n in names}
    return {name: found for name, found in uses.items() if found}


def _common_share(old: View, new: View, before: str, after: str, new_of: Mapping[str, str]) -> float:
    """Return the share of common members of two objects, or alternatives of two unions; 0 if they are no pair."""
    mine, theirs = old.schema.types[before], new.schema.types[after]
    names = {**new_of, before: after}
    if isinstance(mine, ir.Alias) and isinstance(theirs, ir.Alias):
        if _is_equivalent(old, new, mine.type, theirs.type, names):
            return 1.0
        unions = isinstance(mine.type, ir.Union) and isinstance(theirs.type, ir.Union)
        left = {_with_new_names(old, m, names) for m in old.schema.members(mine.type)}
        return _share(left, {new.inlined(m) for m in new.schema.members(theirs.type)}) if unions else 0.0
    if isinstance(mine, ir.Alias) or isinstance(theirs, ir.Alias):
        return 0.0
    ours, others = _own_members(old, before), _own_members(new, after)
    if not ours and not others:
        return float(relation(old, new, ir.Ref(before), ir.Ref(after)) is Effect.EQUAL)
    common = ours.keys() & others.keys()
    same = all(old.schema.literal(ours[n].type) == new.schema.literal(others[n].type) for n in common)
    return _share(ours.keys(), others.keys()) if same else 0.0


def _own_members(side: View, name: str) -> dict[str, ir.Field]:
    return {f.name: f.field for f in side.schema.flat(name).fields if f.name not in ENVELOPE_MEMBERS}


def _share(one: AbstractSet[object], other: AbstractSet[object]) -> float:
    return len(one & other) / len(one | other) if one | other else 0.0


def _kept_members(side: View, other: View, names: Iterable[str], among: Sequence[str]) -> Scores:
    """Return the share of common members of objects and candidates, if it is at least `MIN_KEPT`."""
    scores: Scores = {}
    for name in names:
        own = _members(side, name)
        for candidate in among:
            if other.is_object(candidate) and set(_words(name)) & set(_words(candidate)):
                share = _share(own, _members(other, candidate))
                if share >= MIN_KEPT:
                    scores[name, candidate] = share
    return scores


def _best(scores: Scores) -> list[tuple[str, str]]:
    """Return the pairs in which each is the other's single best match."""
    best: dict[tuple[int, str], list[float]] = {}
    for pair, score in scores.items():
        for place in enumerate(pair):
            best[place] = sorted([*best.get(place, []), score])[-2:]
    return [
        pair
        for pair, score in scores.items()
        if all(best[place].count(score) == 1 and best[place][-1] == score for place in enumerate(pair))
    ]


@cache
def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name))


def _is_unrelated(side: View, name: str, other: View) -> bool:
    """Return whether an object has no member in common with the type of the same name on the other side."""
    if not other.is_object(name):
        return True
    own, theirs = _members(side, name), _members(other, name)
    return bool(own) and bool(theirs) and {n for n, _ in own}.isdisjoint(n for n, _ in theirs)


def _name_similarity(one: str, other: str) -> float:
    return _share(frozenset(_words(one)), frozenset(_words(other)))


def _same_text(old: View, new: View, before: str, after: str) -> bool:
    text = old.schema.types[before].doc.text
    return text is not None and text == new.schema.types[after].doc.text


def _members(side: View, name: str) -> frozenset[tuple[str, bool]]:
    """Return the members without the envelope, each with whether it is optional."""
    return frozenset((member, f.optional) for member, f in _own_members(side, name).items())


def _same_shape(old: View, new: View, before: str, after: str, new_of: Mapping[str, str]) -> bool:
    if old.is_object(before) != new.is_object(after):
        return False
    names = ChainMap({before: after}, cast("MutableMapping[str, str]", new_of))
    mine, theirs = old.schema.types[before], new.schema.types[after]
    if isinstance(mine, ir.Alias) and isinstance(theirs, ir.Alias):
        return _is_equivalent(old, new, mine.type, theirs.type, names)
    ours, others = _own_members(old, before), _own_members(new, after)
    if _members(old, before) != _members(new, after) or all(member.optional for member in ours.values()):
        return False
    for name, member in ours.items():
        if not _is_equivalent(old, new, old.effective(member), new.effective(others[name]), names):
            return False
    return _method(old, before) == _method(new, after)


def _is_equivalent(
    old: View, new: View, before: ir.TypeExpr, after: ir.TypeExpr, names: Mapping[str, str]
) -> bool:
    """Return whether two types have the same spelling after renames, or accept the same values."""
    same = _with_new_names(old, before, names) == new.inlined(after)
    return same or relation(old, new, before, after) is Effect.EQUAL


def _with_new_names(old: View, type_: ir.TypeExpr, names: Mapping[str, str]) -> ir.TypeExpr:
    """Return an old type with new names."""

    def rename(node: ir.Node) -> ir.Node:
        return ir.Ref(names.get(node.name, node.name)) if isinstance(node, ir.Ref) else node

    return ir.map_nodes(old.inlined(type_), rename)


def _method(side: View, name: str) -> ir.Literal | None:
    member = side.schema.flat(name).get("method")
    return side.schema.literal(member.type) if member else None
