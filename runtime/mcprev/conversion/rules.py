"""The parts of a step module: rules as data, and the context they run in (CONV-*, SEAM-7).

A step converts JSON objects from one revision to an adjacent one. The generated delta tables define most of it; a
`Rules` value adds the rest. Rules do not modify their input: they return it, or a changed copy. A value that the other
revision cannot represent raises `NotRepresentable`, which `convert` turns into a `ConversionError` with the JSON path.
"""

from __future__ import annotations

import copy
import json
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias, cast

from mcprev_types import Child, TypeDelta

Json: TypeAlias = Any
"""A decoded JSON value."""
JsonObject: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str | int, ...]
OnDowngrade: TypeAlias = Callable[[JsonObject, str, str], JsonObject | None]
"""Called with a value, a `Reason` and the revision that cannot represent the value. The returned value replaces it; it
has the form of the value's own revision and a type that the other revision knows. None selects the default.
"""
Rule: TypeAlias = Callable[[JsonObject, "ConversionContext"], JsonObject]
ErrorRule: TypeAlias = Callable[[JsonObject, str, "ConversionContext"], JsonObject]
"""Changes an error object; also takes the method that failed."""

OBJECT: Final[Any] = dict
LIST: Final[Any] = list
"""The types for `isinstance`, typed as `Any` so that type checkers do not narrow JSON values; a cast would cost a
call.
"""
logger: Final = logging.getLogger("mcprev.convert")


class Reason(StrEnum):
    """Why a value would lose information, as passed to `on_downgrade`."""

    AUDIO = "audio"
    """The peer's revision has no audio content."""
    RESOURCE_LINK = "resource_link"
    """The peer's revision has no resource links."""
    INPUT_REQUIRED = "input_required"
    """The peer's revision has no results that ask for input."""
    CONTENT = "content"
    """The peer's revision has no content of this type, and no step defines a replacement."""
    MULTI_SELECT = "multi_select"
    """The peer's revision has no form field for several choices."""


class NotRepresentable(Exception):
    """The other revision cannot represent a value. Each enclosing level prepends its step to the path."""

    def __init__(self, message: str, *path: str | int) -> None:
        super().__init__(message)
        self.message = message
        self.path: Path = path
        self.rule: str = ""
        """The id of the rule that refuses the value; empty if the validation does."""

    def inside(self, *steps: str | int) -> NotRepresentable:
        """Prepend steps to the path."""
        self.path = (*steps, *self.path)
        return self


def new_id() -> str:
    """Return a unique id."""
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class ConversionContext:
    """The parameters of one conversion, or of all conversions of a connection, set by the caller."""

    revision: str
    """The target revision of the conversion."""
    on_downgrade: OnDowngrade | None = None
    stamp: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Members added to `_meta` of requests at revisions whose requests carry the client's info and capabilities."""
    mint: Callable[[], str] = new_id
    """Creates unique ids."""

    def downgrade(self, value: JsonObject, reason: Reason) -> JsonObject | None:
        """Return the author's replacement for a value, or None; the use of the default is logged."""
        if self.on_downgrade is not None:
            # The author gets a copy, because the payload belongs to the caller.
            found = self.on_downgrade(copy.deepcopy(value), reason.value, self.revision)
            if not isinstance(cast("object", found), dict | None):
                raise NotRepresentable(f"on_downgrade returned {type(found).__name__}; return a dict or None")
            if found is not None:
                return found
        logger.debug("%s has no %s: using the default", self.revision, reason.value)
        return None


@dataclass(frozen=True, slots=True)
class Rules:
    """The changes of one direction of a step beyond the generated deltas, keyed by type name."""

    before: Mapping[str, Rule] = field(default_factory=dict[str, Rule])
    """Run on objects of a type before the generated changes."""
    substitutes: Mapping[str, Rule] = field(default_factory=dict[str, Rule])
    """Convert members of a tagged union to other members of it, which are then converted like any other."""
    children: Mapping[str, tuple[Child, ...]] = field(default_factory=dict[str, tuple[Child, ...]])
    """Further members with objects to convert, or other types for a place without a tag."""
    deltas: Mapping[str, TypeDelta | None] = field(default_factory=dict[str, "TypeDelta | None"])
    """Replace generated deltas, or add one for a type without."""
    missing: Mapping[str, Rule] = field(default_factory=dict[str, Rule])
    """By member: run after the generated changes on objects of types whose delta has no value for it."""
    choose: Mapping[str, Callable[[JsonObject], str]] = field(
        default_factory=dict[str, Callable[[JsonObject], str]]
    )
    """Select the member of a union for a value at the root, where the other revision has no such union."""
    roots: Mapping[tuple[str, str], str | None] = field(default_factory=dict[tuple[str, str], "str | None"])
    """By method and kind: the type to start from, if it differs from the method table."""
    fresh: frozenset[str] = frozenset()
    """Members that are new in the target revision and filled in; an existing value has another meaning and is
    replaced.
    """
    strip_meta: frozenset[str] = frozenset()
    """Keys of `_meta` that mean nothing at the target. A `_meta` that has no other keys is removed."""
    errors: ErrorRule | None = None
    accepted: Mapping[str, str] = field(default_factory=dict[str, str])
    """Members that the tables call missing or retyped but that need no rule, with the reason: `Type.member`, or
    `*.member` for every type.
    """
    undecided: Mapping[str, str] = field(default_factory=dict[str, str])
    """Members that nobody has decided on yet, with what a peer would get; written by `mcprev generate`. A step with
    any of them cannot be used.
    """

    def open_members(self, deltas: Mapping[str, TypeDelta]) -> list[str]:
        """Return the missing and retyped members of generated tables that no rule covers, as `Type.member`."""
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
        """Return whether rules convert the objects in a member, or all those that the other revision lacks."""
        if any(child.member == member for child in self.children.get(name, ())):
            return True
        lost = [type_ for c in deltas[name].lost if c.member == member for _, type_ in c.types]
        return bool(lost) and all(type_ in self.substitutes or type_ in self.before for type_ in lost)


def without(value: JsonObject, *members: str) -> JsonObject:
    """Return the object without some members; the same object if it has none of them."""
    if any(member in value for member in members):
        return {name: item for name, item in value.items() if name not in members}
    return value


def as_object(value: Json) -> JsonObject:
    """Return the value if it is an object, else an empty object; validation reports malformed values."""
    return value if isinstance(value, OBJECT) else {}


def as_list(value: Json) -> list[Json] | None:
    """Return the value if it is a list, else None."""
    return value if isinstance(value, LIST) else None


def require_members(block: JsonObject, *members: str) -> None:
    """Raise `NotRepresentable` for a block without the string members that its own type requires."""
    for member in members:
        if not isinstance(block.get(member), str):
            raise NotRepresentable(f"the payload is not valid: '{member}' is missing or not a string", member)


def tag_of(block: Json) -> str | None:
    """Return the `type` of a content block."""
    tag = as_object(block).get("type")
    return tag if isinstance(tag, str) else None


def replacement(
    value: JsonObject, reason: Reason, context: ConversionContext, allowed: frozenset[str]
) -> JsonObject | None:
    """Return the author's replacement for a content block, or None for the default. Raises for a type not allowed."""
    found = context.downgrade(value, reason)
    if found is not None and tag_of(found) not in allowed:
        raise NotRepresentable(
            f"on_downgrade returned content of type {tag_of(found)!r}; return one of {', '.join(sorted(allowed))}"
        )
    return found


# -- rules of several steps, here so that a step module can be deleted without affecting the others ----------


def structured_as_text(result: JsonObject) -> JsonObject:
    """Return the result with a text block that holds the structured content as JSON in its place."""  # CONV-3, CONV-4, TOOL-5
    structured = result["structuredContent"]
    out = {name: item for name, item in result.items() if name != "structuredContent"}
    content = as_list(out.get("content"))
    if content is not None and not _says(content, structured):
        text = json.dumps(structured, ensure_ascii=False, separators=(",", ":"))
        out["content"] = [*content, {"type": "text", "text": text}]
    return out


def _says(content: Sequence[Json], structured: Json) -> bool:
    """Return whether blocks say a value as text: one its JSON or itself, or several the items of a list in their order.

    Servers of revisions whose structured content is an object put another value into the member `result`, and its text
    into a block.
    """
    values = [structured]
    if isinstance(structured, dict) and structured.keys() == {"result"}:
        values.append(structured["result"])
    for value in values:
        if any(_is_text_of(block, value) for block in content):
            return True
        if isinstance(value, LIST) and value and len(value) == len(content):
            return all(map(_is_text_of, content, value))
    return False


def _is_text_of(block: Json, structured: Json) -> bool:
    """Return whether a block is the JSON text of a value, or the text that the value is."""
    text = as_object(block).get("text") if tag_of(block) == "text" else None
    if not isinstance(text, str):
        return False
    if text == structured:
        return True
    try:
        found = json.loads(text)
        # Python's 1, 1.0 and True are equal, and their JSON is not.
        return bool(found == structured) and json.dumps(found, sort_keys=True) == json.dumps(
            structured, sort_keys=True
        )
    except (ValueError, RecursionError):
        return False


def no_task(result: JsonObject, _: ConversionContext) -> JsonObject:
    """Refuse a task in place of a result: the task id is valid only in the session that created it."""  # TASKX-6
    if isinstance(result.get("task"), dict) and not result.keys() & {"content", "action"}:
        raise NotRepresentable("a task cannot be converted: wait for its result and convert that")
    return result


def no_request_id(params: JsonObject, _: ConversionContext) -> JsonObject:
    """Refuse a cancellation without a request id, which one revision allows for tasks."""  # CANC-4, CANC-5
    if "requestId" not in params:
        raise NotRepresentable("a cancellation has to name its request; a task is ended by tasks/cancel")
    return params


def elicitation_params(params: JsonObject) -> str:
    """Return the type of elicitation params; form is the default mode."""  # ELIC-8
    return "ElicitRequestURLParams" if params.get("mode") == "url" else "ElicitRequestFormParams"
