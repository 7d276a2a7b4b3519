"""Reads a page of the site as a tree of elements, and fails for one that is not well formed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final

VOID: Final = {"meta", "link", "input", "br", "img"}


@dataclass
class Element:
    """One element with its attributes, texts and children."""

    tag: str
    attributes: dict[str, str]
    parent: Element | None = field(default=None, repr=False)
    parts: list[Element | str] = field(default_factory=list["Element | str"])

    def walk(self) -> Iterator[Element]:
        yield self
        for part in self.parts:
            if isinstance(part, Element):
                yield from part.walk()

    @property
    def text(self) -> str:
        """The text in it, with single spaces."""
        return re.sub(r"\s+", " ", self._raw()).strip()

    def _raw(self) -> str:
        return "".join(part if isinstance(part, str) else part._raw() for part in self.parts)

    def all(self, tag: str = "", class_: str = "") -> list[Element]:
        """The elements below with a tag and a class."""
        return [
            each
            for each in self.walk()
            if tag in {"", each.tag} and (not class_ or class_ in each.attributes.get("class", "").split())
        ]

    def around(self, tag: str, attribute: str = "") -> Element:
        """The nearest element around, itself included, with a tag and an attribute."""
        here: Element | None = self
        while here is not None and not (here.tag == tag and (not attribute or attribute in here.attributes)):
            here = here.parent
        assert here is not None, f"no {tag} around"
        return here


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.here = self.root

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice"
        made = Element(tag, {name: value or "" for name, value in attrs}, self.here)
        self.here.parts.append(made)
        if tag not in VOID:
            self.here = made

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.here.parts.append(Element(tag, {name: value or "" for name, value in attrs}, self.here))

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.here.tag, f"</{tag}> ends <{self.here.tag}>"
        assert self.here.parent is not None
        self.here = self.here.parent

    def handle_data(self, data: str) -> None:
        self.here.parts.append(data)


def read_page(text: str) -> Element:
    """The tree of a page."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.here is reader.root, f"<{reader.here.tag}> is not ended"
    return reader.root


def ids(page: Element) -> dict[str, Element]:
    """The elements with an id, which no two share."""
    found: dict[str, Element] = {}
    for each in page.walk():
        if (name := each.attributes.get("id")) is not None:
            assert name not in found, f"the id {name} is there twice"
            found[name] = each
    return found
