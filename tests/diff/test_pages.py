"""The HTML page in a real browser, and the pages of `docs/revisions/`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typing_extensions import override

from diff.diffing import PAIRS, report
from helpers.support import DATED, FIFTH, FOLDER, FOURTH, load
from mcprev_codegen.build.pages import INDEX, MATRIX, OF_EXTENSIONS, comparison_pages
from mcprev_codegen.diff import Level, Report, Selection, Verdict, select
from mcprev_codegen.diff.render.html import report_html
from mcprev_codegen.diff.report import wording
from mcprev_codegen.diff.report.rows import Row, in_rows
from mcprev_codegen.facts import load_versions

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
in_browser = pytest.mark.skipif(
    CHROMIUM is None or "MCPREV_BROWSER" not in os.environ, reason="make browser runs it"
)
"""`make test` opens the page once."""
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report_html(_shown()), encoding="utf-8")
    return path


def _shown() -> Report:
    return select(report(FOURTH, FIFTH), Selection(Level.NOMINAL))


def _browse(page: Path, folder: Path, fragment: str, *flags: str) -> str:
    """What the browser makes of the page, as its DOM."""
    assert CHROMIUM is not None
    url = page.as_uri() + (f"#{fragment}" if fragment else "")
    done = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={folder}", *flags, url],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout


class _Items(HTMLParser):
    """The changes of a page that are not hidden, by fingerprint; a row may stand for several."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: set[str] = set()
        self.hidden: set[str] = set()
        self.anchors: list[str] = []
        self.links: set[str] = set()

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if "data-changes" in values:
            changes = str(values["data-changes"]).split()
            (self.hidden if "hidden" in values else self.shown).update(changes)
        if values.get("id"):
            self.anchors.append(str(values["id"]))
        if tag == "a" and str(values.get("href", "")).startswith("#"):
            self.links.add(str(values["href"])[1:])


def _items(dom: str) -> _Items:
    items = _Items()
    items.feed(dom)
    return items


def _wanted(fragment: str) -> set[str]:
    chosen = dict(part.split("=") for part in fragment.split("&") if part)
    words = chosen.pop("q", "").lower().split("+")

    def fits(row: Row) -> bool:
        one = row.first
        text = " ".join(
            [*row.places, *row.headlines, *row.methods, *wording.reasons(one), one.id, one.worst]
        ).lower()
        return (
            chosen.get("verdict", one.worst.value) == one.worst.value
            and ("direction" not in chosen or chosen["direction"] in one.senders)
            and ("method" not in chosen or chosen["method"] in row.methods)
            and all(word in text for word in words)
        )

    return {c.fingerprint for row in in_rows(_shown().changes) if fits(row) for c in row.changes}


@in_browser
@pytest.mark.parametrize(
    "fragment",
    [
        "",
        "verdict=breaking",
        "verdict=breaking&direction=client",
        "direction=server&method=tools/call",
        "q=cachescope",
        "q=result+added&verdict=dangerous",
        "verdict=nonsense",
    ],
)
def test_the_page_filters_by_words_verdict_direction_and_method(
    page: Path, tmp_path: Path, fragment: str
) -> None:
    dom = _browse(page, tmp_path, fragment, "--dump-dom")
    items = _items(dom)
    wanted = _wanted("" if "nonsense" in fragment else fragment)
    assert wanted
    assert items.shown == wanted
    assert items.shown | items.hidden == {c.fingerprint for c in _shown().changes}
    assert f"{len(wanted)} of {len(_shown().changes)} changes" in dom


@needs_browser
def test_a_permalink_opens_what_is_folded_around_its_change(page: Path, tmp_path: Path) -> None:
    harmless = next(c for c in _shown().changes if c.worst is Verdict.OK)
    dom = _browse(page, tmp_path, harmless.fingerprint, "--dump-dom")
    folds = re.findall(r'<details class="fold"[^>]*>', dom)
    assert [fold for fold in folds if " open" in fold] != []
    assert len([fold for fold in folds if " open" in fold]) == 1


def test_every_change_has_its_permalink_and_every_link_leads_somewhere(page: Path) -> None:
    items = _items(page.read_text(encoding="utf-8"))
    assert len(items.anchors) == len(set(items.anchors))
    assert {c.fingerprint for c in _shown().changes} <= items.links <= set(items.anchors)


def test_the_contents_list_every_method_that_is_concerned(page: Path) -> None:
    contents = page.read_text(encoding="utf-8").partition("<nav")[2].partition("</nav>")[0]
    named = re.findall(r'<a href="#in-[^"]+">([^<]+)</a>', contents)
    harmed = {m for c in _shown().changes if c.worst is not Verdict.OK for m in c.methods}
    assert harmed <= set(named)
    assert named[-3:] == ["Several methods", "No method", "Constants"]
    assert named[:-3] == sorted(named[:-3])


def test_what_harms_stands_in_the_open_and_what_does_not_is_folded(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for opened, verdicts in ((True, {"breaking", "dangerous"}), (False, {"ok"})):
        parts = re.split(r'<details class="fold".*?\n</details>\n</section>', text, flags=re.DOTALL)
        folds = re.findall(r'<details class="fold".*?\n</details>\n</section>', text, flags=re.DOTALL)
        shown = "".join(parts if opened else folds)
        assert set(re.findall(r'data-verdict="(\w+)"', shown)) == verdicts


def test_before_and_after_mark_what_differs() -> None:
    shown = report_html(select(report(FOURTH, FIFTH), Selection(only=("params-required",))))
    assert "<del>?</del>" in shown
    assert shown.count("<dt>before</dt>") == shown.count("<dt>after</dt>") > 0


def test_ten_changes_of_one_kind_are_one_row() -> None:
    """Two members came to each of five results: two headlines, five places."""
    (row,) = [row for row in in_rows(_shown().changes) if "ListToolsResult" in row.places]
    assert (len(row.changes), len(row.headlines), len(row.places)) == (10, 2, 5)
    assert {place.removesuffix("Result") for place in row.places} == {
        "ListPrompts", "ListResourceTemplates", "ListResources", "ListTools", "ReadResource",
    }  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS)
def test_rows_hold_every_change_once_and_mix_no_verdicts(pair: tuple[str, str]) -> None:
    changes = report(*pair).changes
    made = in_rows(changes)
    assert sorted(c.fingerprint for row in made for c in row.changes) == sorted(
        c.fingerprint for c in changes
    )
    for row in made:
        assert len({(c.id, c.old_to_new, c.new_to_old, c.senders) for c in row.changes}) == 1
        for change in row.changes:
            assert any((change.method or change.path).startswith(place) for place in row.places)


@in_browser
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_of_the_page_is_wider_than_the_window(page: Path, tmp_path: Path, width: int) -> None:
    """A frame of that width: headless windows have a least width of their own."""
    probe = tmp_path / "probe.html"
    probe.write_text(
        f'<iframe id="f" src="{page.as_uri()}" width="{width}" height="800"></iframe><script>'
        'window.onload = function () { var d = document.getElementById("f").contentDocument.documentElement;'
        'document.title = d.scrollWidth + " in " + d.clientWidth; };</script>',
        encoding="utf-8",
    )
    dom = _browse(probe, tmp_path / "profile", "", "--allow-file-access-from-files", "--dump-dom")
    measured = re.search(r"<title>(\d+) in (\d+)</title>", dom)
    assert measured is not None
    assert int(measured[1]) <= int(measured[2]) <= width


def test_the_page_needs_no_network_and_holds_every_change(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"""(?:src|href|action|url)\s*[=(]\s*["']?(?!#)[^"')\s>]+""", text) == []
    assert "import " not in text.partition("<script>")[2]
    items = _items(text)
    assert items.shown == {c.fingerprint for c in _shown().changes}
    assert items.hidden == set()


def test_the_page_without_javascript_shows_everything_but_the_search(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"<(\w+)[^>]* hidden", text.partition("<script>")[0]) == ["form"]


def test_a_page_about_nothing_says_so() -> None:
    assert "Nothing changed." in report_html(report(FIFTH, FIFTH))


def test_texts_of_a_schema_are_escaped_on_the_page() -> None:
    assert "<script>alert" not in report_html(report(FOURTH, FIFTH)).replace("<script>\n", "")


# -- docs/revisions ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return comparison_pages(FOLDER, [load(name) for name in DATED], [*load_versions(FOLDER).values()])


def test_there_is_a_page_for_each_pair_a_matrix_and_an_index(pages: dict[str, str]) -> None:
    of_extensions = {name for name in pages if name != INDEX and f"({name})" in pages[OF_EXTENSIONS]}
    assert set(pages) - of_extensions == {
        INDEX,
        MATRIX,
        OF_EXTENSIONS,
        *(f"{old}_{new}.md" for old, new in PAIRS),
    }
    assert all(f"({name})" in pages[INDEX] for name in pages if name not in {INDEX, *of_extensions})
    assert all(text.endswith("\n") and not text.endswith("\n\n") for text in pages.values())


def test_the_pages_are_the_same_every_time(pages: dict[str, str]) -> None:
    again = comparison_pages(FOLDER, [load(name) for name in DATED], [*load_versions(FOLDER).values()])
    assert again == pages


def test_the_page_of_extensions_has_every_version_its_changes_and_its_methods(pages: dict[str, str]) -> None:
    text = pages[OF_EXTENSIONS]
    for label, version in load_versions(FOLDER).items():
        assert f"| `{label}` |" in text
        assert all(f"| `{method}` |" in text for method in version.methods)
    changed = [name for name in pages if f"({name})" in text and name != INDEX]
    assert changed == ["tasks_2026-07-28_draft.md"]
    assert "`RelatedTaskIds`" in pages[changed[0]]


def test_the_matrix_has_every_method_of_every_revision_with_its_direction(pages: dict[str, str]) -> None:
    arrows: dict[tuple[str, ...], str] = {
        ("client",): "→",
        ("server",): "←",
        ("client", "server"): "↔",
    }
    rows = {
        cells[1].strip().strip("`"): [cell.strip() for cell in cells[2:-1]]
        for cells in (line.split("|") for line in pages[MATRIX].splitlines() if line.startswith("| `"))
    }
    for column, revision in enumerate(DATED):
        methods = load(revision).methods
        for name, cells in rows.items():
            assert cells[column][:1] == (arrows[methods[name].senders] if name in methods else "")
        assert set(methods) <= set(rows)
