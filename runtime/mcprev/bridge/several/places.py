"""Where the payloads of a revision hold URIs, names and ids that lead to a server, as its schema says (SEAM-10).

The places are derived from the generated schema of each revision, by type. What only the prose says is in `_SAID`. Values
without a type, such as arguments, structured content, `_meta` and text, hold none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from importlib.resources import files
from typing import Final, TypeAlias

from mcprev.conversion.rules import OBJECT, JsonObject, as_list, as_object
from mcprev.errors import Json
from mcprev.revisions import Revision


class Mark(StrEnum):
    """What a string of a payload is."""

    URI = "uri"
    """The URI of a resource, or a template of such URIs."""
    TASK = "task"
    VISIT = "visit"
    """The id of an elicitation by URL."""
    NAME = "name"
    """The name of a tool or prompt. Only params and entries of lists have such names."""
    SKILL = "skill"
    """The URI of a skill or of a file or folder in it: below one folder all have the same beginning."""
    REFERENCE = "reference"
    """An object with the name of a prompt, or with the URI of a template."""


Change: TypeAlias = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Changes:
    """Functions that replace strings by what they are."""

    uri: Change
    task: Change
    visit: Change
    skill: Change

    def of(self, mark: Mark) -> Change:
        """Return the function for a mark."""
        return {Mark.URI: self.uri, Mark.TASK: self.task, Mark.VISIT: self.visit, Mark.SKILL: self.skill}[
            mark
        ]


Rewrite: TypeAlias = Callable[[Json, Changes], Json]
ObjectRewrite: TypeAlias = Callable[[JsonObject, Changes], JsonObject]
"""A rewrite of params, a result or an entry."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What the params of a method are about."""

    member: str
    mark: Mark
    kind: str
    """The kind of things that it names: `tools`, `prompts`, `resources` or `tasks`."""


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of a list that a method returns page by page."""

    member: str
    """The member of the result with the entries."""
    key: str
    """The member of an entry that identifies it."""
    mark: Mark
    kind: str


_SAID: Final[Mapping[tuple[str, str], Mark | None]] = {
    # Roots are the client's own, and lead to no server.
    ("Root", "uri"): None,
    ("SubscriptionFilter", "resourceSubscriptions"): Mark.URI,
}
"""What only the prose says of a member of a type."""
_IDS: Final = {"taskId": Mark.TASK, "elicitationId": Mark.VISIT}
_FORMATS: Final = frozenset({"uri", "uri-template"})
_HOLDS_RESULT: Final = "GetTaskPayloadResult"
"""The type that stands for the result of the request that became a task; in a server, that is a call of a tool."""
_TOOL_RESULT: Final = "tools/call"
_UNKNOWN: Final = frozenset({"uri", "uriTemplate"})
"""Members of content of an unknown type that hold URIs."""


class Places:
    """The places of one revision."""

    def __init__(self, revision: Revision) -> None:
        self._methods = revision.methods
        schema = json.loads(files(revision.package).joinpath("schema.json").read_text("utf-8"))
        self._types: Mapping[str, JsonObject] = schema["$defs"]
        self._touched = self._find_touched()
        self._compiled: dict[str, Rewrite | None] = {}
        self._roots: dict[tuple[str, str], Rewrite | None] = {}

    # -- what methods are about --------------------------------------------------------------------------------

    def subject(self, method: str) -> Subject | None:
        """Return what a request is about, or None."""
        if method in _OF_SKILLS:
            return _OF_SKILLS[method].subject
        spec = self._methods.get(method)
        if (
            spec is None
            or spec.params is None
            or (spec.capability is None and "ref" not in self._members(spec.params))
        ):
            return None
        kind = (spec.capability or "").partition(".")[0]
        members, required = self._members(spec.params), self._types[spec.params].get("required") or ()
        for member, schema in members.items():
            mark = self._mark(spec.params, member, schema)
            if mark is not None and member in required:
                return Subject(member, mark, kind)
        if "name" in required:
            return Subject("name", Mark.NAME, kind)
        return Subject("ref", Mark.REFERENCE, kind) if "ref" in required else None

    def entries(self, method: str) -> Entries | None:
        """Return what a list of a method consists of, or None for a method that is no list."""
        if method in _OF_SKILLS:
            return _OF_SKILLS[method].entries
        spec = self._methods.get(method)
        if spec is None or not spec.paginated or spec.result is None:
            return None
        for member, schema in self._members(spec.result).items():
            name = _referred(as_object(schema.get("items")))
            if name is not None:
                marked = {each: self._mark(name, each, of) for each, of in self._members(name).items()}
                key = next((each for each, mark in marked.items() if mark is not None), "name")
                kind = str(spec.capability).partition(".")[0]
                return Entries(member, key, marked.get(key) or Mark.NAME, kind)
        return None

    # -- rewriting -----------------------------------------------------------------------------------------------

    def params(self, method: str) -> ObjectRewrite | None:
        """Return the function that rewrites params of a method, or None if they hold nothing."""
        spec = self._methods.get(method)
        return None if spec is None or spec.params is None else self._root((method, "params"), (spec.params,))

    def result(self, method: str) -> ObjectRewrite | None:
        """Return the function that rewrites results of a method, or None if they hold nothing."""
        if method in _OF_SKILLS:
            return _OF_SKILLS[method].result
        spec = self._methods.get(method)
        if spec is None or spec.result is None:
            return None
        if spec.result == _HOLDS_RESULT:
            return self.result(_TOOL_RESULT)
        return self._root((method, "result"), (*spec.alternate_results, spec.result))

    def typed(self, name: str) -> Rewrite | None:
        """Return the function that rewrites values of a type, or None if they hold nothing or the type is unknown."""
        return self._of_type(name) if name in self._touched else None

    def _root(self, key: tuple[str, str], names: tuple[str, ...]) -> Rewrite | None:
        if key not in self._roots:
            choices: list[JsonObject] = [{"$ref": f"#/$defs/{name}"} for name in names]
            usual = self._compile("", choices[-1])
            self._roots[key] = usual if len(choices) == 1 else self._union("", choices, usual or _unchanged)
        return self._roots[key]

    def _members(self, name: str) -> Mapping[str, JsonObject]:
        found: Mapping[str, JsonObject] = as_object(self._types.get(name, {}).get("properties"))
        return found

    def _mark(self, owner: str, member: str, schema: JsonObject) -> Mark | None:
        if (owner, member) in _SAID:
            return _SAID[owner, member]
        if schema.get("format") in _FORMATS and member in _UNKNOWN:
            return Mark.URI
        return _IDS.get(member) if schema.get("type") == "string" else None

    def _find_touched(self) -> frozenset[str]:
        """Return the types whose values hold something, directly or in their members."""
        found = {
            name
            for name in self._types
            if any(self._mark(name, member, of) is not None for member, of in self._members(name).items())
        }
        refers = {name: _references(schema) for name, schema in self._types.items()}
        while more := {name for name, to in refers.items() if name not in found and to & found}:
            found |= more
        return frozenset(found)

    def _of_type(self, name: str) -> Rewrite | None:
        if name not in self._compiled:
            self._compiled[name] = partial(self._later, name)  # for a type that contains itself
            self._compiled[name] = self._compile(name, self._types[name])
        return self._compiled[name]

    def _later(self, name: str, value: Json, changes: Changes) -> Json:
        rewrite = self._compiled[name]
        return value if rewrite is None else rewrite(value, changes)

    def _compile(self, owner: str, schema: JsonObject) -> Rewrite | None:
        if not schema:
            return None  # any value
        name = _referred(schema)
        if name is not None:
            return self._of_type(name) if name in self._touched else None
        choices = as_list(schema.get("anyOf") or schema.get("oneOf"))
        if choices is not None:
            return self._union(owner, choices)
        if schema.get("type") == "array":
            return _each(self._compile(owner, as_object(schema.get("items"))))
        members: dict[str, Rewrite] = {}
        for member, of in as_object(schema.get("properties")).items():
            mark = self._mark(owner, member, as_object(of))
            found = self._compile(owner, as_object(of)) if mark is None else _marked(mark)
            if found is not None:
                members[member] = found
        others = self._compile(owner, as_object(schema.get("additionalProperties")))
        return _object(members, others) if members or others is not None else None

    def _union(
        self, owner: str, choices: list[JsonObject], otherwise: Rewrite | None = None
    ) -> Rewrite | None:
        alternatives = [(self._fits(choice), self._compile(owner, choice)) for choice in choices]
        if all(rewrite is None for _, rewrite in alternatives):
            return None

        def rewrite(value: Json, changes: Changes) -> Json:
            for fits, found in alternatives:
                if fits(value):
                    return value if found is None else found(value, changes)
            return (otherwise or _unknown)(value, changes)

        return rewrite

    def _fits(self, schema: JsonObject) -> Callable[[Json], bool]:
        """Return whether a value looks like one of a schema: by its constants and required members."""
        name = _referred(schema)
        if name is not None:
            schema = self._types[name]
        choices = as_list(schema.get("anyOf") or schema.get("oneOf"))
        if choices is not None:
            several = [self._fits(choice) for choice in choices]
            return lambda value: any(fits(value) for fits in several)
        if schema.get("type") != "object":
            wanted = list if schema.get("type") == "array" else str
            return lambda value: isinstance(value, wanted)
        required = frozenset[str](schema.get("required") or [])
        members: Mapping[str, JsonObject] = as_object(schema.get("properties"))
        constants = {member: of["const"] for member, of in members.items() if "const" in of}

        def fits(value: Json) -> bool:
            given = as_object(value)
            return (
                isinstance(value, dict)
                and required <= given.keys()
                and all(given.get(member, constant) == constant for member, constant in constants.items())
            )

        return fits


@cache
def places_of(revision: Revision) -> Places:
    """Return the places of a revision."""
    return Places(revision)


def _referred(schema: JsonObject) -> str | None:
    name = schema.get("$ref")
    return name.rpartition("/")[2] if isinstance(name, str) else None


def _references(schema: Json) -> set[str]:
    name = _referred(as_object(schema))
    if name is not None:
        return {name}
    parts = [*as_object(schema).values(), *(as_list(schema) or ())]
    return set[str]().union(*map(_references, parts))


def _marked(mark: Mark) -> Rewrite:
    def rewrite(value: Json, changes: Changes) -> Json:
        change = changes.of(mark)
        if isinstance(value, str):
            return change(value)
        items = as_list(value)
        return value if items is None else [change(item) if isinstance(item, str) else item for item in items]

    return rewrite


def _each(item: Rewrite | None) -> Rewrite | None:
    if item is None:
        return None

    def rewrite(value: Json, changes: Changes) -> Json:
        items = as_list(value)
        return value if items is None else [item(each, changes) for each in items]

    return rewrite


def _object(members: Mapping[str, Rewrite], others: Rewrite | None) -> Rewrite:
    def rewrite(value: Json, changes: Changes) -> Json:
        if not isinstance(value, OBJECT):
            return value
        given: JsonObject = value
        found = {name: members[name](given[name], changes) for name in members.keys() & given.keys()}
        if others is not None:
            found |= {name: others(each, changes) for name, each in given.items() if name not in members}
        return {**given, **found}

    return rewrite


def _unchanged(value: Json, _changes: Changes) -> Json:
    return value


def _unknown(value: Json, changes: Changes) -> Json:
    """Rewrite content of a type that the schema does not have: what it calls a URI leads somewhere, too."""
    if isinstance(value, OBJECT):
        return {
            name: changes.uri(item) if name in _UNKNOWN and isinstance(item, str) else _unknown(item, changes)
            for name, item in value.items()
        }
    items = as_list(value)
    return value if items is None else [_unknown(item, changes) for item in items]


@dataclass(frozen=True, slots=True)
class _OfSkills:
    """A method of the extension for skills, which no revision has and which is the same at all."""

    result: Rewrite | None
    subject: Subject | None = None
    entries: Entries | None = None


READ_FOLDER: Final = "resources/directory/read"
"""The method that lists a folder of a skill."""
_FILE: Final = _object({"uri": _marked(Mark.SKILL)}, None)
_SKILL: Final = _object({"uri": _marked(Mark.SKILL), "resources": _each(_FILE) or _unchanged}, None)
_BY_URI: Final = Subject("uri", Mark.SKILL, "resources")
_OF_SKILLS: Final[Mapping[str, _OfSkills]] = {
    "skills/list": _OfSkills(
        _object({"skills": _each(_SKILL) or _unchanged}, None),
        entries=Entries("skills", "uri", Mark.SKILL, "resources"),
    ),
    "skills/get": _OfSkills(_object({"skill": _SKILL}, None), subject=_BY_URI),
    READ_FOLDER: _OfSkills(_object({"resources": _each(_FILE) or _unchanged}, None), subject=_BY_URI),
}
"""What only the prose of the extension says: which of its texts lead to a server."""
SKILLS_LIST: Final = "skills/list"
"""The list that only servers have which declare the extension for skills."""
