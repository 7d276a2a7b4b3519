"""Compile a step to functions: one for each type that changes, none for the others (CONV-7 ff.).

A compiled function takes a JSON value and returns the same object if nothing changes, else a copy in which only the
changed paths are new. A value of another shape than the type is returned unchanged; validation reports it. Compilation
follows the delta tables and the rules once for each type and step; a conversion then costs one call for each object
that may change and none for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from mcprev.conversion.rules import (
    LIST,
    OBJECT,
    ConversionContext,
    Json,
    JsonObject,
    NotRepresentable,
    Reason,
    Rule,
    Rules,
)

if TYPE_CHECKING:
    from mcprev_types import Child, TypeDelta

Convert: TypeAlias = Callable[[Json, ConversionContext], Json]
Named: TypeAlias = tuple[str, Convert]
"""A rule with its id; without one, what contains rules."""
Note: TypeAlias = Callable[[str, Convert], Convert]
"""Returns a rule that does the same and takes notes; called with its id, empty for what converts the members of an object."""

_ABSENT: Final = object()
_LIST: Final = "[]"


class Compiled(NamedTuple):
    """The function that converts values of one type."""

    convert: Convert
    touches: frozenset[str] | None
    """An object without any of these members is returned unchanged; None if that depends on more."""
    only_stamped: frozenset[str] | None = None
    """An object without any of these members only gets the `_meta` of the context; None if that depends on more."""


@dataclass(frozen=True, slots=True)
class Step:
    """One direction between two adjacent revisions: its tables, its rules and the functions compiled from them."""

    deltas: Mapping[str, TypeDelta]
    rules: Rules
    name: str = ""
    """The beginning of the ids of its rules: its newer revision, a slash, and `down` or `up`."""
    note: Note | None = None
    """Wraps each rule to explain conversions; None: rules run as they are."""
    _compiled: dict[str, Compiled | None] = field(default_factory=dict[str, "Compiled | None"], repr=False)

    def compiled(self, type_name: str) -> Compiled | None:
        """Return the function that converts values of a type, or None if they do not change."""
        if type_name not in self._compiled:
            self._compiled[type_name] = self._compile(type_name)
        return self._compiled[type_name]

    def named(self, place: str, rule: Convert) -> Named:
        """Return a rule with its id; `place` says what it does to which type or member."""
        id_ = f"{self.name}/{place}"
        return id_, rule if self.note is None else self.note(id_, rule)

    def _compile(self, name: str) -> Compiled | None:
        choose = self.rules.choose.get(name)
        if choose is not None:
            return Compiled(_choice(choose, self.compiled), None)
        delta = self.rules.deltas[name] if name in self.rules.deltas else self.deltas.get(name)
        mechanical = self._mechanical(name, delta)
        before = self.rules.before.get(name)
        missing = [member for member in (delta.missing if delta else ()) if member in self.rules.missing]
        if before is None and not missing:
            return mechanical
        touches = mechanical.touches if mechanical else frozenset[str]()
        rules = [self.named(f"change/{name}", before)] if before else []
        rules += [("", mechanical.convert)] if mechanical else []
        rules += [self.named(f"missing/{name}.{member}", self.rules.missing[member]) for member in missing]
        return Compiled(
            sequence(rules),
            None,
            touches | {"_meta"} if before is None and missing == ["_meta"] and touches is not None else None,
        )

    def _mechanical(self, name: str, delta: TypeDelta | None) -> Compiled | None:
        lost = delta.lost if delta else ()
        children = self._children(
            (*lost, *(delta.children if delta else ()), *self.rules.children.get(name, ())), lost
        )
        strip = self.rules.strip_meta if delta else frozenset[str]()
        fill: dict[str, Json] = dict(delta.fill) if delta else {}
        drop = frozenset(delta.drop) | (fill.keys() & self.rules.fresh) if delta else frozenset[str]()
        if children and not children[0][0]:
            return Compiled(children[0][1], None)
        touches = drop | {member for member, _ in children} | frozenset(("_meta",) if strip else ())
        if not touches and not fill:
            return None
        convert = _object(drop, fill, children, strip)
        if self.note is not None:
            none = frozenset[str]()
            rules = [
                self.named(f"drop/{name}.{member}", _object(frozenset({member}), {}, (), none))
                for member in drop
            ]
            rules += [
                self.named(f"fill/{name}.{member}", _object(none, {member: fill[member]}, (), none))
                for member in fill
            ]
            rules += [self.named("strip/_meta", _object(none, {}, (), strip))] if strip else []
            convert = sequence([*rules, ("", self.note("", _object(none, {}, children, none)))])
        return Compiled(convert, None if fill else touches)

    def _children(
        self, places: tuple[Child, ...], lost: tuple[Child, ...]
    ) -> tuple[tuple[str, Convert], ...]:
        gone = {(p.member, p.through, p.tag): frozenset(tag for tag, _ in p.types) for p in lost}
        merged: dict[tuple[str, tuple[str, ...], str], dict[str, str]] = {}
        for place in places:
            key = place.member, place.through, place.tag
            if not place.tag or key not in merged:
                merged[key] = {}  # Without a tag, a rule replaces what is generated.
            merged[key].update(place.types)
        return tuple(
            (member, _through(through, tag, table))
            for (member, through, tag), types in merged.items()
            if (table := self._table(tag, types, gone.get((member, through, tag), frozenset())))
        )

    def _table(self, tag: str, types: Mapping[str, str], lost: frozenset[str]) -> dict[str, Compiled]:
        """Return the functions for the members of a union by tag; members that the other revision lacks raise."""
        plain = {value: found for value, name in types.items() if (found := self.compiled(name))}
        table = dict(plain)
        for value, name in types.items():
            substitute, does = self.rules.substitutes.get(name), "substitute"
            if substitute is None and value in lost:
                substitute, does = _replace_or_refuse(tag, lost), "refuse"
            if substitute is not None:
                run = sequence([self.named(f"{does}/{name}", substitute)])
                table[value] = Compiled(_substitute(run, tag, plain), None)
        return {"": Compiled(_by_member(table), None)} if table and not tag and "" not in table else table


def _through(containers: tuple[str, ...], tag: str, table: Mapping[str, Compiled]) -> Convert:
    """Return the function that converts the values inside nested lists and maps, outermost container first."""
    if not containers:
        return _by_tag(tag, table) if tag else table[""].convert
    container = LIST if containers[0] == _LIST else OBJECT
    if len(containers) == 1 and container is LIST:
        return _each(container, tag, table)
    inner = _through(containers[1:], tag, table)
    return _each(container, "", {"": Compiled(inner, None)})


def sequence(rules: list[Named]) -> Convert:
    """Return the function that applies rules one after the other; a refusal gets the id of its rule."""

    def convert(value: Json, context: ConversionContext) -> Json:
        if not isinstance(value, OBJECT):
            return value
        for name, rule in rules:
            try:
                value = rule(value, context)
            except NotRepresentable as error:
                error.rule = error.rule or name
                raise
        return value

    return convert


def _choice(choose: Callable[[JsonObject], str], compiled: Callable[[str], Compiled | None]) -> Convert:
    def convert(value: Json, context: ConversionContext) -> Json:
        if not isinstance(value, OBJECT):
            return value
        found = compiled(choose(value))
        return found.convert(value, context) if found else value

    return convert


def _object(
    drop: frozenset[str], fill: JsonObject, children: tuple[tuple[str, Convert], ...], strip: frozenset[str]
) -> Convert:
    def convert(value: Json, context: ConversionContext) -> Json:
        if not isinstance(value, OBJECT):
            return value
        out: JsonObject = value
        if drop and not drop.isdisjoint(value):
            out = value.copy()
            for name in drop:
                out.pop(name, None)
        if fill:
            out = {**fill, **out}
        if strip and "_meta" in out:
            meta = out["_meta"]
            if isinstance(meta, OBJECT) and not strip.isdisjoint(meta):
                out = _without_keys(out, meta, strip)
        for member, child in children:
            item = out.get(member, _ABSENT)
            if item is _ABSENT:
                continue
            try:
                new = child(item, context)
            except NotRepresentable as error:
                raise error.inside(member) from None
            if new is not item:
                if out is value:
                    out = out.copy()
                out[member] = new
        return out

    return convert


def _without_keys(value: JsonObject, meta: JsonObject, keys: frozenset[str]) -> JsonObject:
    """Remove keys from the `_meta` of an object, and the `_meta` itself if nothing is left."""
    kept = {key: item for key, item in meta.items() if key not in keys}
    out = {**value, "_meta": kept}
    if not kept:
        del out["_meta"]
    return out


def _each(container: Json, tag: str, table: Mapping[str, Compiled]) -> Convert:
    """Return the function that converts the items of a list or the members of an object."""
    always = table.get("") if not tag else None

    def convert(value: Json, context: ConversionContext) -> Json:
        if not isinstance(value, container):
            return value
        out: Json = value
        for index, item in enumerate(value) if container is LIST else value.items():
            found = always
            if tag and isinstance(item, OBJECT):
                name = item.get(tag)
                found = table.get(name) if isinstance(name, str) else None
            if found is None:
                continue
            run, touches, _ = found
            if touches is not None and isinstance(item, OBJECT) and touches.isdisjoint(item):
                continue
            try:
                new = run(item, context)
            except NotRepresentable as error:
                raise error.inside(index) from None
            if new is not item:
                if out is value:
                    out = out.copy()
                out[index] = new
        return out

    return convert


def _by_tag(tag: str, table: Mapping[str, Compiled]) -> Convert:
    def convert(value: Json, context: ConversionContext) -> Json:
        name = value.get(tag) if isinstance(value, OBJECT) else None
        found = table.get(name) if isinstance(name, str) else None
        return found.convert(value, context) if found else value

    return convert


def _by_member(table: Mapping[str, Compiled]) -> Convert:
    def convert(value: Json, context: ConversionContext) -> Json:
        if isinstance(value, OBJECT):
            for name, found in table.items():
                if name in value:
                    return found.convert(value, context)
        return value

    return convert


def _replace_or_refuse(tag: str, lost: frozenset[str]) -> Rule:
    """Return a rule that asks the author to replace a union member that the other revision lacks, and raises without
    one.
    """

    def refuse(value: JsonObject, context: ConversionContext) -> JsonObject:
        found = context.downgrade(value, Reason.CONTENT)
        if found is None or found.get(tag) in lost:
            raise NotRepresentable(
                f"the peer's revision has no '{value[tag]}' here: return a replacement from on_downgrade", tag
            )
        return found

    return refuse


def _substitute(substitute: Rule, tag: str, plain: Mapping[str, Compiled]) -> Convert:
    def convert(value: Json, context: ConversionContext) -> Json:
        new = substitute(value, context)
        then = plain.get(new[tag])
        return then.convert(new, context) if then else new

    return convert
