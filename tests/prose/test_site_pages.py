"""The pages of docs/ as readers find them: titles and descriptions, llms.txt, and names that lead to the reference.

`make docs` builds the site, whose own tests are tests/browser/test_site.py; these need nothing but the pages.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Final

import drawings
import page_texts
import public_names
import pytest

import names_page
from helpers.support import ROOT
from mcprev.revisions import DEFAULT

ENTRIES: Final = [*page_texts.entries()]
GUIDES: Final = [entry for entry in ENTRIES if not entry.path.startswith(("reference/", "revisions/"))]
OF_THE_REPOSITORY: Final = "new-revision.md"
"""Its step module is one of the runtime's own, which uses what users do not."""


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.path)
def test_a_page_says_what_it_is_about(entry: page_texts.Entry) -> None:
    title, description = entry.said
    assert title
    assert 30 <= len(description) <= page_texts.LONGEST + 2
    assert not re.search(r"`|\*\*|\]\(|<!--", title + description)


def test_titles_and_descriptions_are_unique() -> None:
    for member in ("title", "description"):
        found = Counter(getattr(entry.said, member) for entry in ENTRIES)
        assert [each for each, times in found.items() if times > 1] == []


def test_llms_txt_lists_every_page_once_with_what_it_says() -> None:
    text = page_texts.index()
    assert text.startswith("# mcprev\n\n> Speak every dated revision")
    assert [*dict.fromkeys(re.findall(r"^## (.+)$", text, re.MULTILINE))] == [
        *dict.fromkeys(entry.section for entry in ENTRIES)
    ]
    listed = re.findall(r"^- \[(.+?)\]\((\S+?)\): (.+)$", text, re.MULTILINE)
    assert [(title, says) for title, _, says in listed] == [tuple(entry.said) for entry in ENTRIES]
    assert [Path(path).with_suffix(".md").as_posix() for _, path, _ in listed] == [
        entry.path for entry in ENTRIES
    ]


def test_what_llms_txt_names_is_written_into_the_site(tmp_path: Path) -> None:
    for entry in ENTRIES:
        (tmp_path / entry.path).parent.mkdir(exist_ok=True)
    page_texts.write(tmp_path)
    listed = (tmp_path / "llms.txt").read_text(encoding="utf-8")
    named, by_code = (re.findall(rf"\]\((\S+?\.{kind})\)", listed) for kind in ("md", "html"))
    assert len(named) > 30
    full = (tmp_path / "llms-full.txt").read_text(encoding="utf-8")
    for path in named:
        text = (tmp_path / path).read_text(encoding="utf-8")
        source = (ROOT / "docs" / path).read_text(encoding="utf-8")
        assert text in full
        assert text.replace(".html", ".md") == source.replace(".html", ".md")
        links = re.findall(r"\]\(([\w./-]+\.(?:md|html))[#)]", text)
        pages = [(Path(path).parent / link).as_posix() for link in links]
        missing = [page for page in pages if posixpath.normpath(page) not in {*named, *by_code}]
        assert missing == [], "what is written by code has no Markdown"


def without_code(text: str) -> list[str]:
    """The lines of a page outside of code blocks and headings, where names can be links."""
    return [
        line
        for line in re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL).splitlines()
        if line[:1] != "#"
    ]


@pytest.mark.parametrize("entry", GUIDES, ids=lambda entry: entry.path)
def test_every_public_name_in_a_guide_is_a_link(entry: page_texts.Entry) -> None:
    missed: list[str] = []
    for line in without_code(entry.text):
        left = public_names.linked(line, entry.path)
        for found in re.finditer(r"(?<!\[)`([^`\n]+)`(?!\]\[)", left):
            name = re.match(r"@?((?:mcprev\.)?\w+(?:\.\w+)*)(?:\(.*\))?$", found[1])
            if name and public_names.target(name[1]) and not excepted(entry.path, name[1], line, found[0]):
                missed.append(f"{found[0]} in {line[:80]}")
    assert missed == []


def excepted(path: str, name: str, line: str, found: str) -> bool:
    """Whether a name is another's: listed with what it means there, the text of a link, or in the column of other libraries."""
    own_link = re.search(rf"\[[^\]]*{re.escape(found)}[^\]]*\]\(", line) is not None
    theirs = path in public_names.THEIRS and found in line.partition(" | ")[0]
    return (path, name) in public_names.ELSEWHERE or own_link or theirs


@pytest.mark.parametrize(("path", "name"), public_names.ELSEWHERE)
def test_an_exception_is_a_public_name_that_stands_on_its_page(path: str, name: str) -> None:
    assert public_names.ELSEWHERE[path, name]
    assert public_names.target(name)
    text = (ROOT / "docs" / path).read_text(encoding="utf-8")
    assert re.search(rf"`{re.escape(name)}[`(]", text)


@pytest.mark.parametrize(
    ("written", "leads_to"),
    [
        ("`mcprev.App`", "mcprev.App"),
        ("`App(visible=...)`", "mcprev.App"),
        ("`@app.tool`", "mcprev.App.tool"),
        ("`ctx.session.update`", "mcprev.server.session_state.SessionState.update"),
        ("`mcprev.middleware.Logging`", "mcprev.middleware.Logging"),
        ("`Hooks`", "mcprev.middleware.Hooks"),
        ("`mcprev.convert`", "mcprev.convert"),
        ("`EventTooLarge`", "mcprev.errors.EventTooLarge"),
    ],
)
def test_a_name_leads_to_its_place(written: str, leads_to: str) -> None:
    assert public_names.linked(f"Use {written} here.") == f"Use [{written}][{leads_to}] here."


@pytest.mark.parametrize(
    "written",
    [
        "`tool`",
        "`mcprev`",
        "`models.Tool`",
        "`App.nothing`",
        "`app.__init__`",
        "[`App`](clients.md)",
        "[the `App` page](clients.md)",
    ],
)
def test_other_names_stay_as_they_are(written: str) -> None:
    assert public_names.linked(f"Use {written} here.") == f"Use {written} here."


def test_the_guides_import_only_names_of_the_reference() -> None:
    imported = {
        f"{module}.{name.split(' as ')[0]}".removeprefix("mcprev.")
        for entry in GUIDES
        if entry.path != OF_THE_REPOSITORY
        for module, names in re.findall(r"^from (mcprev\.[\w.]+) import ([\w, ]+)$", entry.text, re.MULTILINE)
        for name in names.split(", ")
    }
    assert len(imported) > 20
    short = {name.rpartition(".")[2] for name in public_names.NAMES}
    assert (
        sorted(
            name
            for name in imported
            if name not in public_names.NAMES and name.rpartition(".")[2] not in short
        )
        == []
    )


def test_the_table_from_ours_to_theirs_is_what_the_other_tables_say() -> None:
    assert names_page.PAGE.read_text(encoding="utf-8") == names_page.page(), "run `make reference`"


@pytest.mark.parametrize(
    ("ours", "fastmcp", "mcp"),
    [
        ("Accepted", "AcceptedElicitation", "AcceptedElicitation"),
        ("Audio", "Audio", "Audio"),
        ("App.remove_tool", None, "MCPServer.remove_tool"),
        ("Client.prompts", "Client.list_prompts", "Client.list_prompts"),
        ("Client.resources", "Client.list_resources", "Client.list_resources"),
        ("Client.resource_templates", "Client.list_resource_templates", "Client.list_resource_templates"),
        ("Client.revision", "Client.protocol_version", "Client.protocol_version"),
        ("Client.capabilities", "Client.server_capabilities", "Client.server_capabilities"),
    ],
)
def test_a_name_of_ours_leads_to_what_does_the_same(ours: str, fastmcp: str | None, mcp: str) -> None:
    """Rows of the tables whose names are paired by their places have them in the same order."""
    row = next(
        line
        for line in names_page.PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith(f"| `mcprev.{ours}` |")
    )
    first, second = (set(re.findall(r"`([^`]+)`", cell)) for cell in row.split(" | ")[1:])
    assert (fastmcp in first) if fastmcp else not first
    assert mcp in second
    assert not {name for name in first | second if "list_" in name} - {fastmcp, mcp, *WHOLE}


WHOLE: Final = {"Client.list_skills", "Client.list_skills_mcp"}
"""Methods for lists that ours have among their resources."""


def test_every_name_of_ours_in_the_tables_for_other_libraries_is_public() -> None:
    cells = [(row.theirs, row.ours) for row in names_page.rows(names_page.PAGE.read_text(encoding="utf-8"))]
    assert len(cells) > 100
    wrong = [
        (written, theirs)
        for theirs, ours in cells
        for written in re.findall(r"`((?:app|ctx|client|server|mcprev)\.[\w.]+)", ours)
        if not public_names.target(written)
        and written != "mcprev.transforms"
        and not written.startswith("mcprev.connect_")
    ]
    assert wrong == []
    assert [theirs for theirs, ours in cells if not ours.strip()] == []


TOPICS: Final[dict[str, dict[str, str]]] = tomllib.loads(
    (ROOT / "tools" / "documentation_topics.toml").read_text(encoding="utf-8")
)
SITES: Final = [
    line.strip("| ").split(" | ")
    for line in (ROOT / "docs" / "sites.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| topic", "|---"))
]
"""The rows of docs/sites.md: those of four columns compare, those of three say what is not there."""


@pytest.mark.parametrize(("column", "whose"), [(1, "FastMCP"), (2, "official SDK")])
def test_each_topic_of_another_documentation_is_compared(column: int, whose: str) -> None:
    cells = [row[column] for row in SITES if len(row) == 4]
    elsewhere = [
        part.removeprefix(f"{whose}: ")
        for row in SITES
        if len(row) == 3
        for part in row[1].split("; ")
        if part.startswith(f"{whose}: ")
    ]
    there = ", ".join(cells + elsewhere)
    assert [
        name for name in TOPICS[whose].values() if not re.search(rf"\b{re.escape(name)}(?!\w)", there)
    ] == []


def test_each_topic_says_where_ours_is() -> None:
    assert len(SITES) > 80
    assert [row[0] for row in SITES if row[-1].strip() in {"", "–"}] == []
    assert [row for row in SITES if len(row) not in {3, 4}] == []


def test_the_drawings_are_what_their_texts_say() -> None:
    found = [*drawings.drawings()]
    assert len(found) == len([*drawings.FOLDER.glob("*.svg")]) > 3
    assert [
        path.name for path, text in found if path.read_text(encoding="utf-8") != text
    ] == [], "run `make reference`"


def test_a_drawing_stands_on_a_page_with_words_for_those_who_do_not_see_it() -> None:
    pages = "".join(entry.text for entry in ENTRIES)
    shown = re.findall(r"!\[(.+?)\]\(drawings/([\w-]+\.svg)\)", pages)
    assert sorted(name for _, name in shown) == sorted(path.name for path, _ in drawings.drawings())
    assert all(len(words) > 40 for words, _ in shown)


def test_the_ladder_has_every_revision_in_order() -> None:
    text = (drawings.FOLDER / "ladder.txt").read_text(encoding="utf-8")
    assert re.findall(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) == [row.name for row in reversed(DEFAULT)]


@pytest.mark.parametrize(
    ("text", "drawn"),
    [("a | b", 2), ("<b> : note", 1), ("a\n-> go\nb", 2)],
)
def test_a_text_becomes_boxes_with_escaped_words(text: str, drawn: int) -> None:
    picture = drawings.drawing(text)
    assert picture.count('class="b"') == drawn
    assert "<b>" not in picture
    assert ("&lt;b&gt;" in picture) == ("<b>" in text)
