"""Says which rule of the conversion ladder changed what in a payload (CONV-*, SEAM-4, 10).

The steps between two revisions run with rules that take notes: the id, the object before and the object after. Each
object is then found by its identity in the payload that the step got, which gives its path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

from mcprev.analysis.differences import Verb, differences, is_envelope
from mcprev.conversion.ladder import converter, json_path
from mcprev.conversion.rules import LIST, OBJECT, ConversionContext, Json, OnDowngrade, Path, new_id
from mcprev.conversion.walk import Convert
from mcprev.errors import ConversionError
from mcprev.revisions import Revision
from mcprev.wire.bounds import MAX_DEPTH

_Note: TypeAlias = tuple[str, Json, Json]
_Places: TypeAlias = dict[int, Path]
"""The paths of objects and lists, by their identities."""
_notes: Final = ContextVar[list[_Note]]("notes")


@dataclass(frozen=True, slots=True)
class ConversionChange:
    """One member or item that a rule dropped, added or changed."""

    rule: str
    """The id of the rule, which `catalog` describes."""
    verb: Verb
    path: str
    """Its JSON path in the payload that the rule's step got; of what was added, in the payload that the step returned."""
    origin: str | None
    """Its JSON path in the payload that was converted; None for what was made on the way."""
    old: Json
    """The value before; None for what was added."""
    new: Json
    """The value after; None for what was dropped."""
    envelope: bool = False
    """Whether it belongs to the envelope, such as the result type, which each revision has in its own form: it is no data."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A payload converted to another revision, with the reason of each change."""

    payload: Json
    """The payload at the other revision; None if it is refused."""
    changes: tuple[ConversionChange, ...]
    """The changes in the order of the steps; of a refused payload, those before the refusal."""
    error: ConversionError | None
    """Why the other revision cannot represent the payload, with the id of the rule; None if it can."""


def explain(
    payload: Json,
    method: str,
    kind: str,
    *,
    from_: str | Revision,
    to: str | Revision,
    on_downgrade: OnDowngrade | None = None,
    meta: Mapping[str, Json] | None = None,
    mint: Callable[[], str] | None = None,
) -> Explanation:
    """Convert a payload as `convert` does, and return the result with the changes and the rules that made them.

    The arguments are those of `convert`; the payload is not modified. Takes longer than `convert`: call it for what
    somebody looks at, not for each message. Raises `ValueError` for an unknown revision or kind, and for a payload that is
    nested deeper than any message may be.
    """
    _check_depth(payload)
    try:
        found = converter(method, kind, from_=from_, to=to, note=_noted)
    except ConversionError as error:
        return Explanation(None, (), error)
    context = ConversionContext(found.target.name, on_downgrade, meta or {}, mint or new_id)
    notes = _Notebook(payload)
    traced = replace(found, steps=tuple(partial(notes.run, step) for step in found.steps))
    try:
        value: Json = traced(payload, context)
    except ConversionError as error:
        return Explanation(None, tuple(notes.changes), error)
    return Explanation(value, tuple(notes.changes), None)


def _check_depth(payload: Json) -> None:
    """Raise `ValueError` for a payload that is nested deeper than the wire allows."""
    level: list[Json] = [payload]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for value in level
            if isinstance(value, OBJECT | LIST)
            for item in (value.values() if isinstance(value, OBJECT) else value)
        ]
        if not level:
            return
    if any(isinstance(value, OBJECT | LIST) for value in level):
        raise ValueError(f"the payload is nested deeper than {MAX_DEPTH}, deeper than any message may be")


def _noted(rule: str, run: Convert) -> Convert:
    """Return a rule that adds what it changes to the notes of the step that runs."""

    def noted(value: Json, context: ConversionContext) -> Json:
        new = run(value, context)
        if new is not value:
            _notes.get().append((rule, value, new))
        return new

    return noted


class _Notebook:
    """The changes of one conversion, and where its objects come from."""

    def __init__(self, payload: Json) -> None:
        self.changes: list[ConversionChange] = []
        self._origins: _Places = {}
        """The places of objects in the payload that is converted."""
        self._kept: list[object] = []
        """The objects of notes: an identity is one as long as its object is there."""
        _place(payload, (), self._origins)

    def run(self, step: Convert, value: Json, context: ConversionContext) -> Json:
        """Run a step and keep its changes."""
        notes: list[_Note] = []
        token = _notes.set(notes)
        try:
            new = step(value, context)
        finally:
            _notes.reset(token)
            self._take(notes, value)
        _follow(value, new, self._origins)
        self._kept.append(new)
        return new

    def _take(self, notes: list[_Note], value: Json) -> None:
        places: _Places = {}
        _place(value, (), places)
        self._kept += [value, notes]
        for rule, old, new in notes:
            # An object that nothing is known of was made on the way; the nearest place that is known is the whole.
            here, origin = places.get(id(old), ()), self._origins.get(id(old))
            for verb, path, before, after in differences(old, new) if rule else ():
                start = None if origin is None else json_path((*origin, *path))
                place = (*(here if origin is None else origin), *path)
                apart = is_envelope((verb, place, before, after))
                self.changes.append(
                    ConversionChange(rule, verb, json_path((*here, *path)), start, before, after, apart)
                )
            _place(new, here, places)
            if origin is not None:
                _place(new, origin, self._origins)


def _place(value: Json, path: Path, places: _Places) -> None:
    """Add the places of the objects and lists in a value at a path, but for those whose place is known."""
    waiting: list[tuple[Json, Path]] = [(value, path)]
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, OBJECT | LIST) and id(value) not in places:
            places[id(value)] = path
            items = value.items() if isinstance(value, OBJECT) else enumerate(value)
            waiting += [(item, (*path, key)) for key, item in items if isinstance(item, OBJECT | LIST)]


def _follow(before: Json, after: Json, places: _Places) -> None:
    """Give the copies that a step made the places of what they are copies of."""
    waiting: list[tuple[Json, Json]] = [(before, after)]
    while waiting:
        old, new = waiting.pop()
        if old is new or type(old) is not type(new) or not isinstance(old, OBJECT | LIST):
            continue
        if id(old) in places:
            places.setdefault(id(new), places[id(old)])
        if isinstance(old, OBJECT):
            waiting += [(old[name], item) for name, item in new.items() if name in old]
        elif len(old) == len(new):
            waiting += zip(old, new, strict=True)
