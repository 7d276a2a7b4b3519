"""What a step module is made of: rules as data, and the context they run in (CONV-*, SEAM-7).

A step changes JSON objects of one revision into those of a neighbour. Most of it follows from the generated
delta tables; a `Rules` value holds what the tables cannot know. Rules never change what they are given: they
return it, or a changed copy. What has no form at the neighbour raises `NotRepresentable`, which becomes a
`ConversionError` with the JSON path once it has reached `convert`.
"""

from __future__ import annotations

import copy
import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

from mcprev_types import Child, TypeDelta

Json: TypeAlias = Any
"""A decoded JSON value."""
JsonObject: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str | int, ...]
OnDowngrade: TypeAlias = Callable[[JsonObject, str, str], JsonObject | None]
"""Called with a value, a `Reason` and the revision that cannot express the value; what it returns takes the
value's place (in the form of the value's own revision, with a type that the other revision knows), and None
leaves it to the default."""
Rule: TypeAlias = Callable[[JsonObject, "ConversionContext"], JsonObject]
ErrorRule: TypeAlias = Callable[[JsonObject, str, "ConversionContext"], JsonObject]
"""Changes an error object; told the method that it answers."""

OBJECT: Final[Any] = dict
LIST: Final[Any] = list
"""What `isinstance` asks for. Typed so that checkers leave JSON values alone: each cast would be a call."""
logger: Final = logging.getLogger("mcprev.convert")


class Reason(StrEnum):
    """Why a value is about to lose something, as `on_downgrade` is told."""

    AUDIO = "audio"
    """The peer's revision has no audio content (CONV-1)."""
    RESOURCE_LINK = "resource_link"
    """The peer's revision has no links to resources (CONV-2, CONV-37)."""
    INPUT_REQUIRED = "input_required"
    """The peer's revision cannot be asked for input in a result (CONV-17)."""
    CONTENT = "content"
    """The peer's revision has no content of this type, and no step says what takes its place."""
    MULTI_SELECT = "multi_select"
    """The peer's revision has no form field for several choices (CONV-22)."""


class NotRepresentable(Exception):
    """A value has no form at the other revision; the path grows while the exception travels outwards."""

    def __init__(self, message: str, *path: str | int) -> None:
        super().__init__(message)
        self.message = message
        self.path: Path = path

    def inside(self, *steps: str | int) -> NotRepresentable:
        """Say where the value stands."""
        self.path = (*steps, *self.path)
        return self


def _new_id() -> str:
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class ConversionContext:
    """What one conversion is told by its caller."""

    revision: str
    """The revision that the conversion ends at."""
    on_downgrade: OnDowngrade | None = None
    stamp: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Members of `_meta` that requests get where the revision wants to know who is asking."""
    mint: Callable[[], str] = _new_id
    """Makes ids that have to be unique (CONV-18)."""

    def downgrade(self, value: JsonObject, reason: Reason) -> JsonObject | None:
        """What the author wants in the place of a value, or None; the default is logged."""
        if self.on_downgrade is not None:
            # The author gets a copy: the payload belongs to someone else.
            found = self.on_downgrade(copy.deepcopy(value), reason.value, self.revision)
            if found is not None:
                return found
        logger.debug("%s has no %s: using the default", self.revision, reason.value)
        return None


@dataclass(frozen=True, slots=True)
class Rules:
    """What one direction of a step does beyond the generated deltas; every part is keyed by a type's name."""

    before: Mapping[str, Rule] = field(default_factory=dict[str, Rule])
    """Run on objects of a type before the mechanical part."""
    substitutes: Mapping[str, Rule] = field(default_factory=dict[str, Rule])
    """Turn members of a tagged union into other members of it, which are then converted like any other."""
    children: Mapping[str, tuple[Child, ...]] = field(default_factory=dict[str, tuple[Child, ...]])
    """Further places where objects stand that need work: untagged unions are in no generated table."""
    deltas: Mapping[str, TypeDelta | None] = field(default_factory=dict[str, "TypeDelta | None"])
    """Take the place of generated deltas, or stand for a type that has none."""
    missing: Mapping[str, Rule] = field(default_factory=dict[str, Rule])
    """By member: run after the mechanical part on objects of types whose delta lacks a value for it."""
    choose: Mapping[str, Callable[[JsonObject], str]] = field(
        default_factory=dict[str, Callable[[JsonObject], str]]
    )
    """Which member of an untagged union a value is."""
    roots: Mapping[tuple[str, str], str | None] = field(default_factory=dict[tuple[str, str], "str | None"])
    """By method and kind: the type to start from where it is not the one of the method table."""
    fresh: frozenset[str] = frozenset()
    """Members that the other revision is the first to have, and that are filled in: what came under such a
    name meant something else, and is replaced."""
    strip_meta: frozenset[str] = frozenset()
    """Keys of `_meta` that mean nothing at the neighbour; a `_meta` that they were all of goes too."""
    errors: ErrorRule | None = None
    accepted: Mapping[str, str] = field(default_factory=dict[str, str])
    """Members that the tables call missing or retyped and that need no rule, with the reason: `Type.member`, or
    `*.member` for every type."""
    undecided: Mapping[str, str] = field(default_factory=dict[str, str])
    """Such members that nobody has looked at yet, with what a peer would get: written by `mcprev generate`. A step
    that has any cannot be used."""

    def open_members(self, deltas: Mapping[str, TypeDelta]) -> list[str]:
        """The missing and retyped members of generated tables that the rules say nothing about, as `Type.member`."""
        found = [
            (name, member)
            for name, delta in deltas.items()
            if name not in self.before and name not in self.deltas
            for member in (*delta.missing, *delta.retyped)
            if member not in (self.missing if member in delta.missing else ())
            and not self._replaces(name, member, deltas)
        ]
        return [
            f"{n}.{m}" for n, m in dict.fromkeys(found) if not {f"{n}.{m}", f"*.{m}"} & self.accepted.keys()
        ]

    def _replaces(self, name: str, member: str, deltas: Mapping[str, TypeDelta]) -> bool:
        """Whether a rule takes care of the objects in a member, or of each that the neighbour does not have."""
        if any(child.member == member for child in self.children.get(name, ())):
            return True
        lost = [type_ for c in deltas[name].lost if c.member == member for _, type_ in c.types]
        return bool(lost) and all(type_ in self.substitutes or type_ in self.before for type_ in lost)


def without(value: JsonObject, *members: str) -> JsonObject:
    """The object without some members; the same object when it has none of them."""
    if any(member in value for member in members):
        return {name: item for name, item in value.items() if name not in members}
    return value


def as_object(value: Json) -> JsonObject:
    """The value when it is an object, else an empty one: what is malformed is left to the validation."""
    return value if isinstance(value, OBJECT) else {}


def as_list(value: Json) -> list[Json] | None:
    """The value when it is a list."""
    return value if isinstance(value, LIST) else None


def members_of(block: JsonObject, *members: str) -> None:
    """Raise `NotRepresentable` for a block that lacks what its own type needs: nothing is made of what is not valid."""
    for member in members:
        if not isinstance(block.get(member), str):
            raise NotRepresentable(f"the payload is not valid: '{member}' is missing or no text", member)


def tag_of(block: Json) -> str | None:
    """The `type` of a content block."""
    tag = as_object(block).get("type")
    return tag if isinstance(tag, str) else None


def replacement(
    value: JsonObject, reason: Reason, context: ConversionContext, allowed: frozenset[str]
) -> JsonObject | None:
    """What the author gives for a content block, with a type that the other revision has; None for the default."""
    found = context.downgrade(value, reason)
    if found is not None and tag_of(found) not in allowed:
        raise NotRepresentable(
            f"on_downgrade gave content of type {tag_of(found)!r}; possible are {', '.join(sorted(allowed))}"
        )
    return found
