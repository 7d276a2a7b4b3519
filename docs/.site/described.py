"""An extension of Python-Markdown for the site: gives the theme the title of each page and a description, from its first lines."""

from __future__ import annotations

from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor
from page_texts import about
from typing_extensions import override


class Describe(Preprocessor):
    """Gives the theme what the page says of itself."""

    @override
    def run(self, lines: list[str]) -> list[str]:
        page = page_of(self.md)
        if page is not None and "description" not in page.meta:
            page.meta["description"] = ""  # an inner text, such as a docstring, comes after that of the page
            title, description = about(page.path, "\n".join(lines))
            page.meta["description"] = description
            if page.path != "index.md":  # its title is the name of the site
                page.rendered_metadata_title = title
        return lines


def page_of(md: Markdown) -> Any:  # noqa: ANN401 - a class of Zensical, which has no types
    """The page that Zensical renders, or None."""
    return next(
        (found for each in md.preprocessors if (found := getattr(each, "page", None)) is not None), None
    )


class Described(Extension):
    """The extension."""

    @override
    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.register(Describe(md), "described", 1000)


def makeExtension(**options: object) -> Described:  # noqa: N802 - Markdown calls it so
    """Return the extension."""
    return Described(**options)
