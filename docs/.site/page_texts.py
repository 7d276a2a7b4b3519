"""What each page is called and about, for its head in the site and for readers that are models.

`python page_texts.py SITE` writes llms.txt, an index of all pages as llmstxt.org describes it, llms-full.txt, the guides in one file, and
a copy of each page's Markdown beside the page.
"""

from __future__ import annotations

import posixpath
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

DOCS: Final = Path(__file__).parents[1]
LONGEST: Final = 220
"""Letters of a description: about what a search engine shows."""
WRITTEN_BY_CODE: Final = re.compile(r"^::: ", re.MULTILINE)
"""In a page whose text is made of docstrings while the site is built."""
LINK: Final = re.compile(r"\]\(([\w./-]+\.md)(?=[#)])")
"""A link to a page, up to its fragment."""


class Said(NamedTuple):
    """The title of a page and a sentence or two about it, without marks."""

    title: str
    description: str


def about(path: str, text: str) -> Said:
    """What the first heading and the first paragraph of a page say; `path` is below docs."""
    text = re.sub(r"^<!--.*?-->\n+", "", text)
    heading = re.match(r"# (.+)\n", text)
    first = re.search(
        r"^(?!#|<|\||!|```|:::|- |\d+\. )\S.*?(?=\n\n|\n[|`-]|\Z)",
        text[heading.end() :] if heading else text,
        re.MULTILINE | re.DOTALL,
    )
    title = plain(heading[1]) if heading else path
    return Said(
        f"{title}: reference" if path.startswith("reference/") else title,
        shortened(plain(first[0])) if first else "",
    )


def plain(text: str) -> str:
    """Markdown in one line without links, code marks and emphasis."""
    return " ".join(re.sub(r"`|\*\*", "", re.sub(r"\[([^]]*)\](?:\([^)]*\)|\[[^]]*\])", r"\1", text)).split())


def shortened(text: str) -> str:
    """As many sentences as fit; of a single long one, as many words."""
    kept = ""
    for sentence in re.split(r"(?<=[.:]) (?=[A-Z`\[])", text):
        if len(kept) + len(sentence) >= LONGEST:
            break
        kept = f"{kept} {sentence}".strip()
    return (
        kept.removesuffix(":") + "." * kept.endswith(":")
        if kept
        else text[:LONGEST].rpartition(" ")[0] + " …"
    )


class Entry(NamedTuple):
    """A page of the navigation."""

    section: str
    path: str
    said: Said
    text: str


def entries() -> Iterator[Entry]:
    """The pages of the navigation in their order."""
    nav: list[dict[str, list[dict[str, Any]]]] = tomllib.loads(
        (DOCS.parent / "zensical.toml").read_text(encoding="utf-8")
    )["project"]["nav"]
    for section, pages in (item for group in nav for item in group.items()):
        for path in (path for page in pages for path in page.values()):
            text = (DOCS / path).read_text(encoding="utf-8")
            yield Entry(section, path, about(path, text), text)


def index() -> str:
    """The text of llms.txt."""
    lines = [
        "# mcprev",
        "",
        f"> {about('index.md', (DOCS / 'index.md').read_text(encoding='utf-8')).description}",
    ]
    section = ""
    for entry in entries():
        if entry.section != section:
            section = entry.section
            lines += ["", f"## {section}", ""]
        lines.append(f"- [{entry.said.title}]({target(entry)}): {entry.said.description}")
    return "\n".join(lines) + "\n"


def target(entry: Entry) -> str:
    """Where a model reads a page: its Markdown, or the page itself where the Markdown only names what to show."""
    if WRITTEN_BY_CODE.search(entry.text):
        return entry.path.removesuffix(".md") + ".html"
    return entry.path


def copied(entry: Entry) -> str:
    """The Markdown of a page whose links lead to what is beside it: a page written by code has no copy."""
    made = {each.path for each in entries() if WRITTEN_BY_CODE.search(each.text)}

    def to_page(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(entry.path), link[1]))
        return f"]({link[1].removesuffix('.md')}.html" if path in made else link[0]

    return LINK.sub(to_page, entry.text)


def in_full() -> str:
    """The text of llms-full.txt: every page that says something in Markdown."""
    return "\n".join(
        f"<!-- {entry.path} -->\n\n{copied(entry)}"
        for entry in entries()
        if not WRITTEN_BY_CODE.search(entry.text)
    )


def write(site: Path) -> None:
    """Write all of it into a built site."""
    (site / "llms.txt").write_text(index(), encoding="utf-8")
    (site / "llms-full.txt").write_text(in_full(), encoding="utf-8")
    for entry in entries():
        if not WRITTEN_BY_CODE.search(entry.text):
            (site / entry.path).write_text(copied(entry), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
