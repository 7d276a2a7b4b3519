"""The options of a command for the arguments of a tool, made from its input schema.

Names and texts of a server become words of letters, digits and dashes, and lines of help without control characters.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import click
from typing_extensions import override

from mcprev.cli.arguments import typed_value, types_of
from mcprev.cli.table import clean
from mcprev.errors import Json
from mcprev.json_schema.bounds import LIST, OBJECT
from mcprev.platforms import HERE

MAX_WORD: Final = 64
"""The maximum length of a subcommand or an option that is made from a name of a server."""
MAX_HELP: Final = 2_000
"""The maximum number of characters of a description that help shows."""
MAX_CHOICES: Final = 300
"""The maximum number of characters of the values of an enum that an option takes as choices."""
MAX_STEPS: Final = 8
"""The maximum number of references and choices that lead to the schema of an argument."""
_ODD: Final = re.compile(r"[^\w.]+")
_UNIONS: Final = ("anyOf", "oneOf", "allOf")
_NULL: Final = "null"
_KINDS: Final = {"string": "text", "integer": "integer", "number": "number"}
_EXAMPLES: Final = {
    "text": ("one", "two"),
    "integer": ("1", "2"),
    "number": ("1.5", "2"),
    "json": ("JSON", "JSON"),
}


def words_for(names: Iterable[str], taken: Iterable[str], *, default: str, dashes: bool) -> dict[str, str]:
    """Return a word to type for each name, all different and none of those that are taken.

    A name that is such a word already keeps it; of others the order does not matter. `dashes` replaces each `_`.
    """
    plain = {name: _word(name, dashes=dashes) or default for name in names}
    words, used, numbers = dict[str, str](), set(taken), Counter[str]()
    for name in sorted(plain, key=lambda each: (plain[each] != each, each)):
        word = plain[name]
        while word in used:
            numbers[plain[name]] += 1
            word = f"{plain[name]}-{numbers[plain[name]] + 1}"
        used.add(word)
        words[name] = word
    return words


def _word(name: str, *, dashes: bool) -> str:
    text = _ODD.sub("-", name.replace("_", "-") if dashes else name)
    return text.strip("-.")[:MAX_WORD]


def help_text(text: Json) -> str:
    """Return a text of a server for the help of a command: its paragraphs, without control characters."""
    paragraphs = re.split(r"\n\s*\n", text[:MAX_HELP]) if isinstance(text, str) else []
    return "\n\n".join(clean(" ".join(each.split())) for each in paragraphs if each.strip())


class ArgumentOption(click.Option):
    """An option for an argument of a tool: a flag for a boolean, repeated for the items of a list, else a value."""

    def __init__(
        self, number: int, argument: str, word: str, schema: Mapping[str, Json], *, required: bool, no: bool
    ) -> None:
        """`schema` has no reference at its root; `no` says whether the option for false has its name for itself."""
        self.argument = argument
        types = types_of(schema, 0) - {_NULL}
        items: Json = schema.get("items")
        repeats = types == {"array"} and isinstance(items, OBJECT) and bool(types_of(items, 0))
        self._value: dict[str, Json] = dict(items) if repeats and isinstance(items, OBJECT) else dict(schema)
        is_flag = types == {"boolean"}
        self._choices = {} if is_flag else _choices(self._value)
        default: dict[str, Any] = {} if repeats else {"default": None}
        super().__init__(
            [f"argument_{number}", f"--{word}/--no-{word}" if is_flag and no else f"--{word}"],
            type=None if is_flag else self._type(),
            is_flag=is_flag,
            multiple=repeats,
            required=required,
            metavar=None if is_flag else self._metavar() + (" ..." if repeats else ""),
            help=self._about(schema, word, repeats=repeats),
            **default,
        )

    def _type(self) -> click.ParamType[Any]:
        if self._choices:
            return click.Choice([*self._choices])
        kind = types_of(self._value, 0) - {_NULL}
        found = click.types.StringParamType()
        found.name = _KINDS.get(next(iter(kind)), "json") if len(kind) == 1 else "json" if kind else "text"
        return found

    def _about(self, schema: Mapping[str, Json], word: str, *, repeats: bool) -> str:
        parts = [help_text(schema.get("description") or schema.get("title"))]
        if repeats:
            parts.append(f"For several, repeat the option: {self._example(word)}.")
        if "default" in schema and schema["default"] is not None:
            parts.append(f"Default: {clean(json.dumps(schema['default'], ensure_ascii=False)[:80])}.")
        if self.argument.replace("_", "-") != word:
            parts.append(f"The argument '{clean(self.argument[:80])}'.")
        return " ".join(" ".join(filter(None, parts)).split())  # zsh reads a line for each option

    def _metavar(self) -> str:
        return f"[{'|'.join(self._choices)}]" if self._choices else self._type().name.upper()

    def _example(self, word: str) -> str:
        """Return how two items are written."""
        items = tuple(self._choices) * 2 or _EXAMPLES[self._type().name]
        return " ".join(f"--{word} {HERE.joined([item])}" for item in items[:2])

    @override
    def value_is_missing(self, value: Any) -> bool:
        return False  # the argument may be among the words after the options

    def value_of(self, given: Any) -> Json:  # noqa: ANN401 - as click hands it over
        """Return the value of the argument that was given on the command line."""
        if self.is_flag:
            return given
        if self.multiple:
            return [self._read(each) for each in given]
        return self._read(given)

    def _read(self, text: str) -> Json:
        return self._choices[text] if self._choices else typed_value(text, self._value)


def tool_options(schema: Json) -> list[ArgumentOption]:
    """Return an option for each argument of a tool, those that are required first."""
    root: dict[str, Json] = schema if isinstance(schema, OBJECT) else {}
    members: Json = root.get("properties")
    properties: dict[str, Json] = members if isinstance(members, OBJECT) else {}
    given: Json = root.get("required")
    required = {each for each in given if isinstance(each, str)} if isinstance(given, LIST) else set[str]()
    words = words_for(properties, ("help", "help-all"), default="argument", dashes=True)
    taken = set(words.values())
    return [
        ArgumentOption(
            number,
            name,
            words[name],
            _plain_schema(properties[name], root),
            required=name in required,
            no=f"no-{words[name]}" not in taken,
        )
        for number, name in enumerate(sorted(properties, key=lambda name: name not in required))
    ]


def _plain_schema(schema: Json, root: Mapping[str, Json]) -> dict[str, Json]:
    """Return the schema that references and a choice between a schema and null lead to, also that of its items."""
    found = _followed(schema, root)
    items: Json = found.get("items")
    return {**found, "items": _followed(items, root)} if isinstance(items, OBJECT) else found


def _followed(schema: Json, root: Mapping[str, Json]) -> dict[str, Json]:
    here: dict[str, Json] = schema if isinstance(schema, OBJECT) else {}
    for _ in range(MAX_STEPS):
        name = next((each for each in ("$ref", *_UNIONS) if each in here), None)
        if name is None:
            break
        inner: Json = _target(here[name], root) if name == "$ref" else _only(here[name])
        if not isinstance(inner, OBJECT):
            break
        here = {**inner, **{key: value for key, value in here.items() if key != name}}
    return here


def _target(reference: Json, root: Mapping[str, Json]) -> Json:
    """Return what a reference within the schema leads to; None for any other."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    here: Json = dict(root)
    for part in reference[2:].split("/")[:MAX_STEPS]:
        here = here.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(here, OBJECT) else None
    return here


def _only(options: Json) -> Json:
    """Return the one of several schemas that is not that of null; None if there are more."""
    found: list[Json] = options if isinstance(options, LIST) else []
    rest: list[Json] = [each for each in found if not isinstance(each, OBJECT) or each.get("type") != _NULL]
    return rest[0] if len(rest) == 1 else None


def _choices(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return the values of an enum as they are typed; empty if they cannot be."""
    given: Json = [schema["const"]] if "const" in schema else schema.get("enum")
    values: list[Json] = [value for value in given if value is not None] if isinstance(given, LIST) else []
    found = {value if isinstance(value, str) else json.dumps(value): value for value in values}
    plain = all(text.isprintable() and text and not text[0].isspace() for text in found)
    return found if plain and len(found) == len(values) and sum(map(len, found)) <= MAX_CHOICES else {}
