"""An extension of Python-Markdown for the site: public names in backticks lead to the reference, as public_names.py says."""

from __future__ import annotations

from described import page_of
from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor
from public_names import linked
from typing_extensions import override


class LinkNames(Preprocessor):
    """Runs after code blocks have been taken out of the text."""

    @override
    def run(self, lines: list[str]) -> list[str]:
        page = page_of(self.md)
        path = page.path if page is not None else ""
        return [linked(line, path) for line in lines]


class LinkedNames(Extension):
    """The extension."""

    @override
    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.register(LinkNames(md), "linked_names", 15)


def makeExtension(**options: object) -> LinkedNames:  # noqa: N802 - Markdown calls it so
    """Return the extension."""
    return LinkedNames(**options)
