"""How the text of a schema enters a generated file. There is no other way.

Generated source is of the type `Code`, which only this module constructs. The text of a schema becomes part of it as a
literal, a checked name, a docstring or a comment. A template or a pattern that is given anything else raises
`NotCodeError`.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, LiteralString, cast

from mcprev_codegen.errors import InputError
from mcprev_codegen.python.names import check_revision, is_identifier

if TYPE_CHECKING:
    import jinja2

LINE_LENGTH: Final = 110
"""The length of a line in generated Python."""
_AROUND_A_LINE: Final = 7
"""The number of characters around a docstring of one line: quotes, and a space if it ends in a quote."""
_TEMPLATES: Final = Path(__file__).parents[1] / "templates"
_SPACES: Final = {ord(sign): " " for sign in "\t\v\f\r"}
_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e\n]")


class NotCodeError(TypeError):
    """Plain text was to become source: a mistake of a template or module, never of a schema."""


class Code(str):
    """Source. Its parts are source themselves, or come from a literal, a checked name, a docstring or a comment."""

    __slots__ = ()


def _checked(part: object) -> Code:
    if type(part) is not Code:
        raise NotCodeError(
            f"{str(part)[:60]!r} is plain text: write it with `literal`, `identifier`, `docstring` or `comment`"
        )
    return part


def code(pattern: LiteralString, *parts: Code) -> Code:
    """Return a pattern of the generator's own, with parts in its `{}`. Raises `NotCodeError` for plain text."""
    return Code(pattern.format(*map(_checked, parts)))


def joined(separator: LiteralString, parts: Iterable[Code]) -> Code:
    """Return the parts with a separator between them. Raises `NotCodeError` for plain text."""
    return Code(separator.join(map(_checked, parts)))


def literal(value: object) -> Code:
    """Return a JSON value, a tuple or a member of an enum as Python writes it.

    Raises `NotCodeError` for a value without a literal: a number that is not finite, or an object of another type.
    """
    match value:
        case Enum():
            return code("{}.{}", identifier(type(value).__name__), identifier(value.name))
        case None | bool():
            return Code(repr(value))
        case str():
            return Code(str.__repr__(value))
        case int():
            return Code(int.__repr__(value))
        case float() if math.isfinite(value):
            return Code(float.__repr__(value))
        case tuple():
            items = joined(", ", map(literal, cast("tuple[object, ...]", value)))
            return code("({},)" if len(cast("tuple[object, ...]", value)) == 1 else "({})", items)
        case list():
            return code("[{}]", joined(", ", map(literal, cast("list[object]", value))))
        case dict():
            pairs = cast("dict[object, object]", value).items()
            return code(
                "{{{}}}", joined(", ", (code("{}: {}", literal(key), literal(item)) for key, item in pairs))
            )
        case _:
            raise NotCodeError(f"a {type(value).__name__} has no literal: {str(value)[:60]!r}")


def identifier(text: str) -> Code:
    """Return a name. Raises `InputError` for a text that `is_identifier` refuses."""
    if not is_identifier(text):
        raise InputError(f"{text[:60]!r} cannot be a name in Python")
    return Code(text)


def revision_name(text: str) -> Code:
    """Return the name of a revision. Raises `InputError` for a text that is not one."""
    check_revision(text)
    return Code(text)


def docstring(text: str, indent: int = 0) -> Code:
    """Return a text as a docstring with its quotes, wrapped; empty if there is no text.

    Blank lines separate paragraphs. The first line has `indent` spaces in front of it, the others are indented by them.
    The quotes close on the line of a text of one line, else on a line of their own.
    """
    paragraphs = [
        textwrap.wrap(
            _escaped(part.replace("\\", "\\\\").replace('"""', "'''").translate(_SPACES)),
            LINE_LENGTH - indent - (0 if n else _AROUND_A_LINE),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for n, part in enumerate(part for part in text.split("\n\n") if part.strip())
    ]
    lines = "\n\n".join(map("\n".join, paragraphs))
    end = "\n" if "\n" in lines else " " * lines.endswith('"')
    return Code(re.sub(r"\n(?!\n)", "\n" + " " * indent, f'"""{lines}{end}"""') if lines else "")


def comment(lines: Iterable[str]) -> Code:
    """Return comment lines, one for each text."""
    return Code("\n".join(f"# {_escaped(line.replace(chr(10), ' '))}" for line in lines))


def _escaped(text: str) -> str:
    """Return a text whose characters that are not printed, line feeds excepted, are written as escape sequences."""
    return _UNPRINTABLE.sub(
        lambda m: m[0] if m[0].isprintable() else m[0].encode("unicode_escape").decode(), text
    )


def json_document(value: object) -> str:
    """Return a JSON document for a file; characters that are not printed are escaped."""
    return _json(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)) + "\n"


def _json(text: str) -> str:
    return _UNPRINTABLE.sub(lambda m: m[0] if m[0].isprintable() else json.dumps(m[0])[1:-1], text)


def toml_string(text: str) -> Code:
    """Return a string of TOML. Raises `InputError` for a lone surrogate, which TOML cannot express."""

    def escape(match: re.Match[str]) -> str:
        return match[0] if match[0].isprintable() else f"\\U{ord(match[0]):08x}"

    if any("\ud800" <= sign <= "\udfff" for sign in text):
        raise InputError(f"{text[:60]!r} is not text: it has a lone surrogate")
    return Code(_UNPRINTABLE.sub(escape, json.dumps(text, ensure_ascii=False)))


# -- templates -------------------------------------------------------------------------------------------


def render(template: LiteralString, **values: object) -> Code:
    """Return a template filled in. Raises `NotCodeError` if it prints plain text."""
    return Code(environment().get_template(f"{template}.jinja2").render(**values))


@cache
def environment() -> jinja2.Environment:
    """Return the environment of all templates, which refuses to print anything but `Code`."""
    import jinja2

    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader([_TEMPLATES / "package", _TEMPLATES / "pydantic"]),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - Python, not HTML
        finalize=_checked,
    )
    filters: dict[str, Callable[..., Any]] = {
        "literal": literal,
        "identifier": identifier,
        "docstring": docstring,
        "toml": toml_string,
    }
    found.filters.update(filters)
    return found
