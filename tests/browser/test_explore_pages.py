"""The site of `mcprev explore`, opened from `file:`: the search, the keyboard alone, a phone, both themes, nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

from browser.conftest import Open
from helpers.named import D, E
from mcprev.cli import main

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGES: Final = (
    "index.html", "type/Tool.html", "method/tools.call.html", f"diff/{D}..{E}.html", f"rules/{E}.html", "lives.html",
    "map.html", "constants.html", "search.html#q=tool",
)  # fmt: skip
FIRST_PAGE: Final = 1_000
"""Milliseconds in which the first page has to be usable."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a site of two revisions, one of each era."""
    out = tmp_path_factory.mktemp("explore") / "site"
    done = CliRunner().invoke(main, ["explore", D, E, "--out", str(out)])
    assert done.exit_code == 0, done.output
    return Path(out).as_uri()


def opened(open_page: Open, url: str, **options: object) -> Page:
    return open_page(url, wait=False, **options)


@pytest.mark.slow
def test_the_search_finds_and_opens_a_page_by_the_keyboard_alone(site: str, open_page: Open) -> None:
    page = opened(open_page, f"{site}/index.html")
    page.keyboard.press("/")
    page.keyboard.type("tool ann")
    page.wait_for_selector("#found a")
    assert page.locator("#found a .name").first.inner_text() == "ToolAnnotations"
    page.keyboard.press("ArrowDown")
    assert page.locator("#found a").nth(1).get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url("**/type/ToolAnnotations.html")
    page.keyboard.press("]")
    page.wait_for_function("() => location.hash.length > 1")
    assert page.locator(".version:has(> .anchor:target)").count() == 1
    page.keyboard.press("/")
    page.keyboard.type("no such thing")
    page.wait_for_selector("#found .none")
    page.keyboard.press("Escape")
    assert page.locator("#found").is_hidden()
    page.goto(f"{site}/search.html#q=tools/call")
    page.wait_for_selector("#search-page a")
    assert page.locator("#search-page .name").first.inner_text() == "tools/call"


def test_a_permalink_opens_what_is_folded_and_filters_leave_what_fits(site: str, open_page: Open) -> None:
    page = opened(open_page, f"{site}/diff/{D}..{E}.html")
    folded = page.locator("details .changes > li").first
    hidden = folded.get_attribute("id") or folded.locator(".fact").first.get_attribute("id")
    assert hidden
    assert not page.locator(f"[id='{hidden}']").is_visible()
    page.goto(f"{site}/index.html")
    page.goto(f"{site}/diff/{D}..{E}.html#{hidden}")
    page.wait_for_function("id => document.getElementById(id).checkVisibility()", arg=hidden)
    page.select_option("[data-filter-verdict]", "breaking")
    shown = page.locator(".changes > li:visible")
    assert {row.get_attribute("data-verdict") for row in shown.all()} == {"breaking"}
    page.fill("[data-filter]", "no such thing")
    assert shown.count() == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_a_sequence_is_drawn_and_said_in_words_and_its_types_lead_on(
    site: str, open_page: Open, width: int
) -> None:
    page = opened(open_page, f"{site}/method/tools.call.html#{E}", width=width)
    version = page.locator(".version:has(> .anchor:target)")
    drawing = version.get_by_role("img", name=f"Sequence of tools/call at {E}")
    assert drawing.is_visible()
    assert version.get_by_text("Recorded from a session of mcprev.").is_visible()
    version.get_by_text("The sequence in words").click()
    words = version.locator(".words li").all_inner_texts()
    assert len(words) == drawing.locator(".arrow").count() + drawing.locator(".note, .part-text").count()
    version.get_by_role("link", name="CallToolRequestParams").first.click()
    page.wait_for_url(f"**/type/CallToolRequestParams.html#{E}")
    page.go_back()
    page.wait_for_url("**/method/tools.call.html*")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_is_wider_than_its_window_or_fails_a_checker(
    site: str, open_page: Open, axe: Path, width: int, scheme: str
) -> None:
    page = opened(open_page, f"{site}/index.html", width=width, height=800, scheme=scheme)
    for name in PAGES:
        page.goto(f"{site}/{name}")
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        page.evaluate(axe.read_text(encoding="utf-8"))
        found = page.evaluate(
            "axe.run({ preload: false }).then(r => r.violations.map(v => [v.id, v.nodes.slice(0, 3).map(n => n.html)]))"
        )
        assert found == [], name


def test_the_theme_is_switched_and_the_first_page_is_usable_at_once(site: str, open_page: Open) -> None:
    page = opened(open_page, f"{site}/index.html")
    timing = "performance.getEntriesByType('navigation')[0]"
    page.wait_for_function(f"() => {timing}.domInteractive > 0")
    assert page.evaluate(f"{timing}.domInteractive") <= FIRST_PAGE
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.emulate_media(media="print")
    assert page.locator(".top").is_hidden()
