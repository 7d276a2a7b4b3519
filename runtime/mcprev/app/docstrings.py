"""Docstrings as descriptions: the whole text for the model, without the sections that describe arguments.

These go into the schema of each argument instead. Google, NumPy and Sphinx style are known; docstring-parser reads the
sections, and is imported only if there is one. It knows fewer headers, so the common one takes their place.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from docstring_parser import Docstring

_SECTION: Final = re.compile(
    r"""(?P<google>^(?:Args|Arguments|Parameters|Params|Keyword\ Args|Keyword\ Arguments|Other\ Parameters):[ ]*\n
          (?:[ ]+\S.*(?:\n|\Z)|[ ]*\n(?=(?:[ ]*\n)*[ ]))+)
      | (?P<numpy>^(?:Other\ )?Parameters[ ]*\n-{3,}[ ]*\n
          (?:(?!.+\n[-=]{3,}[ ]*$).*\n?)*?(?=\Z|^.+\n[-=]{3,}[ ]*$))
      | (?P<sphinx>(?:^:(?:param|parameter|arg|argument|key|keyword|type)\ [^:\n]+:.*(?:\n|\Z)(?:[ ]+\S.*(?:\n|\Z))*)+)""",
    re.MULTILINE | re.VERBOSE,
)
"""A section about arguments, in one of three styles, up to the line that no longer belongs to it."""
_INHERITED: Final = "Call self as a function."
"""What Python itself says of each object that can be called."""


class Description(NamedTuple):
    """What a docstring says."""

    text: str | None
    """The text for the model."""
    arguments: dict[str, str]
    """The descriptions of arguments, by name."""


def description_of(function: object, call: object, names: Collection[str]) -> Description:
    """Return what the docstring of a function says; `call` is the method that runs if it is another object.

    `names` are all parameters. A section that names others stays in the text as well, so that nothing is lost.
    """
    doc = inspect.getdoc(call)
    if doc == _INHERITED:
        doc = inspect.getdoc(type(function))
    found: dict[str, str] = {}
    kept, end = "", 0
    doc = doc or ""
    for section in _SECTION.finditer(doc):
        told = dict(_entries(section.lastgroup or "", section.group()))
        if told and told.keys() <= set(names):
            kept += doc[end : section.start()]
            end = section.end()
        found |= {name: text for name, text in told.items() if text and name in names}
    text = re.sub(r"\n{3,}", "\n\n", kept + doc[end:]) if end else doc
    return Description(text.strip() or None, found)


def _entries(style: str, section: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each entry of a section; none if it cannot be read."""
    from docstring_parser import ParseError, google, numpydoc, rest

    if style == "google":
        section = "Args:\n" + section.split("\n", 1)[1]
    elif style == "numpy":
        section = "Parameters\n----------\n" + section.split("\n", 2)[2]
    parsers: dict[str, Callable[[str], Docstring]] = {"google": google.parse, "numpy": numpydoc.parse}
    try:
        parsed = parsers.get(style, rest.parse)("Text.\n\n" + section)
    except ParseError:
        return
    for entry in parsed.params:
        for name in entry.arg_name.split(","):
            yield name.strip(), (entry.description or "").strip()
