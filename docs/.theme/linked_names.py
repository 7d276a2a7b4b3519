"""An extension of Python-Markdown for the site: public names in backticks, such as `mcprev.App` or `App`, lead to the reference."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import re
from typing import Final

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor
from typing_extensions import override

import mcprev

NAMES: Final = frozenset(name for names in mcprev._HOMES.values() for name in names)  # noqa: SLF001 - the table of public names
NAMED: Final = re.compile(r"(?<![\[`])`(mcprev\.)?(\w+)(?:\.(\w+))?(?:\([^`]*\))?`(?![\]`])")
# Names that the guides also use for something else: a header, a scheme, a type of TypeScript, a class of another library or package.
OTHERS: Final = frozenset(
    {"Audio", "Authorization", "Bearer", "Client", "ClientHandler", "Context", "Depends", "File", "Image", "Middleware"}
    | {"Record", "ServerHandler", "ToolResult"}
)


def linked(line: str) -> str:
    """A line of Markdown whose public names are references; headings stay as they are, for the sake of their anchors."""
    return line if line.startswith("#") else NAMED.sub(reference, line)


def reference(found: re.Match[str]) -> str:
    """The reference to a name, if it is public; without `mcprev.`, only a capitalised name that means nothing else is one."""
    prefix, name, member = found[1], found[2], found[3]
    if name not in NAMES or (not prefix and (not name[0].isupper() or name in OTHERS)):
        return found[0]
    public = getattr(mcprev, name)
    if not member:
        return f"[{found[0]}][mcprev.{name}]"
    of_class = isinstance(public, type) and hasattr(public, member)
    return f"[{found[0]}][mcprev.{name}.{member}]" if of_class else found[0]


class LinkNames(Preprocessor):
    """Runs after code blocks have been taken out of the text."""

    @override
    def run(self, lines: list[str]) -> list[str]:
        return [linked(line) for line in lines]


class LinkedNames(Extension):
    """The extension."""

    @override
    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.register(LinkNames(md), "linked_names", 15)


def makeExtension(**options: object) -> LinkedNames:  # noqa: N802 - Markdown calls it so
    """Return the extension."""
    return LinkedNames(**options)
