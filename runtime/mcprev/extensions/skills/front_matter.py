"""The front matter of a SKILL.md: YAML between two lines of dashes, read as JSON within bounds.

PyYAML splits the text into events; what becomes of them is decided here, so that nothing is built that JSON does not have:
no dates, sets, bytes or objects, no keys but texts, no numbers that JSON readers round. It is loaded with the first skill.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from mcprev.conversion.rules import as_list
from mcprev.errors import Json, MissingExtra
from mcprev.extensions.skills.rules import FrontMatterError

try:
    import yaml as _yaml  # type: ignore[import-untyped] # pyright: ignore[reportMissingModuleSource]
except ImportError as _error:
    raise MissingExtra("reading skills", "PyYAML", "skills") from _error

MAX_FRONT_MATTER: Final = 32 * 1024
"""The maximum number of characters of the front matter of a skill."""
MAX_FRONT_MATTER_VALUES: Final = 2_000
"""The maximum number of values in it, those that aliases repeat counted each time."""
MAX_FRONT_MATTER_DEPTH: Final = 16
"""How deep lists and mappings may be in each other."""
_TAG: Final = "tag:yaml.org,2002:"
_TEXTS: Final = frozenset({"str", "timestamp", "value"})
"""The types of YAML that are text in JSON."""
_SAFE: Final = 2**53
"""Integers from here on are not the same in all JSON readers."""
_OTHER_WORDS: Final[Mapping[str, Json]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_OTHER_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,16}|0o[0-7]{1,18}|0x[0-9A-Fa-f]{1,14}")
_OTHER_NUMBER: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,4})?")
yaml: Any = _yaml


@dataclass(frozen=True, slots=True)
class Plain:
    """A value without quotes, which readers of YAML 1.1 and 1.2 may take for different things."""

    text: str
    value: Json

    def may_be(self, other: Json) -> bool:
        """Return whether some reader takes it for this value."""
        return any(same_json(each, other) for each in (self.value, self.text, _of_core_schema(self.text)))


Read: TypeAlias = "Plain | str | list[Read] | dict[str, Read]"
"""Front matter as it was written; texts are those in quotes or blocks."""


def read_front_matter(data: bytes) -> dict[str, Read]:
    """Return the front matter of a SKILL.md as it was written. Raises `FrontMatterError`."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FrontMatterError("it is not text in UTF-8") from None
    first, _, rest = text[:MAX_FRONT_MATTER].partition("\n")
    if first.rstrip() != "---":
        raise FrontMatterError("it does not begin with a line '---', after which front matter follows")
    end = re.search(r"^---[ \t\r]*$", rest, re.MULTILINE)
    if end is None:
        raise FrontMatterError(
            f"its front matter does not end with a line '---' within {MAX_FRONT_MATTER} characters"
        )
    try:
        found = _Reader(rest[: end.start()]).document()
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        at = "" if mark is None else f"line {mark.line + 2}: "
        raise FrontMatterError(
            f"its front matter is not YAML: {at}{problem or type(error).__name__}"
        ) from None
    if not isinstance(found, dict):
        raise FrontMatterError("its front matter is not a mapping, such as 'name: git-workflow'")
    return found


def plain_json(read: Read) -> Json:
    """Return front matter as JSON."""
    if isinstance(read, Plain):
        return read.value
    if isinstance(read, dict):
        return {name: plain_json(item) for name, item in read.items()}
    return [plain_json(item) for item in read] if isinstance(read, list) else read


def says_the_same(read: Read, other: Json) -> bool:
    """Return whether a value of JSON is the same as what was read, member by member."""
    if isinstance(read, Plain):
        return read.may_be(other)
    if isinstance(read, dict):
        members = cast("dict[str, Json]", other) if isinstance(other, dict) else None
        return (
            members is not None
            and members.keys() == read.keys()
            and all(says_the_same(item, members[name]) for name, item in read.items())
        )
    if isinstance(read, list):
        items = as_list(other)
        return (
            items is not None
            and len(items) == len(read)
            and all(says_the_same(one, two) for one, two in zip(read, items, strict=True))
        )
    return same_json(read, other)


def same_json(one: Json, other: Json) -> bool:
    """Return whether two values that are no lists and objects are the same in JSON: true is not 1, and 1.0 is."""
    return isinstance(one, bool) is isinstance(other, bool) and one == other


def is_ambiguous(read: Read) -> list[str]:
    """Return the values without quotes that readers of YAML 1.1 and 1.2 take for different things, such as `yes`."""
    if isinstance(read, Plain):
        return [] if same_json(read.value, _of_core_schema(read.text)) else [read.text]
    inner = read.values() if isinstance(read, dict) else read if isinstance(read, list) else ()
    return [text for each in inner for text in is_ambiguous(each)]


def _of_core_schema(text: str) -> Json:
    """Return what a value without quotes is by the core schema of YAML 1.2."""
    if text in _OTHER_WORDS:
        return _OTHER_WORDS[text]
    if _OTHER_INTEGER.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if len(text) <= 100 and _OTHER_NUMBER.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else text
    return text


class _Reader:
    """Makes values of the events of one document; `values` and `depth` are bounded before anything is built."""

    def __init__(self, text: str) -> None:
        self._loader = yaml.SafeLoader(text)
        self._scalars = yaml.constructor.SafeConstructor()
        self._anchors: dict[str, tuple[Read, int]] = {}
        self._values = 0

    def document(self) -> Read:
        """Return the only document; None of an empty text becomes an empty text."""
        loader = self._loader
        loader.get_event()  # the beginning of the stream
        if loader.check_event(yaml.StreamEndEvent):
            return ""
        loader.get_event()  # the beginning of the document
        found = self._value(1)
        loader.get_event()  # its end
        if not loader.check_event(yaml.StreamEndEvent):
            raise FrontMatterError("its front matter has more than one document")
        return found

    def _count(self, more: int) -> None:
        self._values += more
        if self._values > MAX_FRONT_MATTER_VALUES:
            raise FrontMatterError(f"its front matter has more than {MAX_FRONT_MATTER_VALUES} values")

    def _value(self, depth: int) -> Read:
        event, before = self._loader.get_event(), self._values
        self._count(1)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise self._wrong(event, f"the alias '*{event.anchor:.40}' has no value yet")
            found, size = self._anchors[event.anchor]
            self._count(size)
            return found
        if depth > MAX_FRONT_MATTER_DEPTH:
            raise self._wrong(event, f"values are more than {MAX_FRONT_MATTER_DEPTH} deep in each other")
        made: Read
        if isinstance(event, yaml.ScalarEvent):
            made = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._check_tag(event, "seq")
            made = []
            while not self._loader.check_event(yaml.SequenceEndEvent):
                made.append(self._value(depth + 1))
            self._loader.get_event()
        else:
            self._check_tag(event, "map")
            made = self._mapping(depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = made, self._values - before
        return made

    def _mapping(self, depth: int) -> dict[str, Read]:
        made: dict[str, Read] = {}
        while not self._loader.check_event(yaml.MappingEndEvent):
            event = self._loader.peek_event()
            if not isinstance(event, yaml.ScalarEvent):
                raise self._wrong(event, "a key is not a text")
            self._loader.get_event()
            self._count(1)
            key = self._text(event, event.value)
            if key in made or (key == "<<" and event.implicit[0]):
                why = "is there twice" if key in made else "merges mappings, which not every reader does"
                raise self._wrong(event, f"the key '{key:.40}' {why}")
            made[key] = self._value(depth + 1)
        self._loader.get_event()
        return made

    def _scalar(self, event: Any) -> Read:  # noqa: ANN401 - of the library
        text = self._text(event, event.value)
        if not event.implicit[0] and event.tag is None:
            return text  # in quotes or a block
        tag = (
            event.tag if event.tag is not None else self._loader.resolve(yaml.ScalarNode, text, (True, False))
        )
        kind = str(tag).removeprefix(_TAG) if str(tag).startswith(_TAG) else ""
        if kind == "str" and event.tag is not None:
            return text
        if kind in _TEXTS or kind == "merge":
            return Plain(text, text)
        if kind not in {"null", "bool", "int", "float"}:
            raise self._wrong(event, f"it has the type '{tag!s:.60}', which JSON does not have")
        try:
            node = yaml.ScalarNode(tag, text)
            value: Json = getattr(self._scalars, f"construct_yaml_{kind}")(node)
        except (ValueError, KeyError, ArithmeticError, yaml.YAMLError):
            raise self._wrong(event, f"'{text:.40}' is no {kind}") from None
        rounded = isinstance(value, int) and abs(value) >= _SAFE
        if rounded or (isinstance(value, float) and not math.isfinite(value)):
            raise self._wrong(event, f"the number {text:.40} is not one in JSON: put it in quotes")
        return Plain(text, value)

    def _text(self, event: Any, text: str) -> str:  # noqa: ANN401 - of the library
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise self._wrong(event, "it holds half of a character")
        return text

    def _check_tag(self, event: Any, kind: str) -> None:  # noqa: ANN401 - of the library
        if event.tag not in (None, "!", f"{_TAG}{kind}"):
            raise self._wrong(event, f"it has the type '{event.tag!s:.60}', which JSON does not have")

    def _wrong(self, event: Any, why: str) -> FrontMatterError:  # noqa: ANN401 - of the library
        return FrontMatterError(f"its front matter cannot be used: line {event.start_mark.line + 2}: {why}")
