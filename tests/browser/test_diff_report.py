"""The report of `mcprev diff --format html`, opened from `file:`: filters, links, the keyboard alone, a phone, both themes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from browser.conftest import Open
from helpers.named import A, D, E
from mcprev.cli import main

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOSTILE = """
export const LATEST_PROTOCOL_VERSION = "2026-01-01";
export const JSONRPC_VERSION = "2.0";
/** <img src=x onerror="document.title='run'"><script>document.title='run'</script> */
export interface Evil {
  %s
}
"""
MEMBER = """/** `</script><script>document.title='run'</script>` [x](javascript:alert(1)) */
  "<b onclick=alert(1)>"?: string;"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of the report on the step with the most changes."""
    return made(tmp_path_factory.mktemp("diff") / "report.html", D, E)


def made(out: Path, *words: str) -> str:
    done = CliRunner().invoke(main, ["diff", *words, "--format", "html", "-o", str(out)])
    assert done.exit_code == 0, done.output
    return out.as_uri()


def shown(page: Page) -> int:
    return page.locator("[data-changes]:visible").count()


@pytest.mark.parametrize("width", [1280, 390])
def test_changes_are_filtered_by_text_verdict_side_and_method(
    report: str, open_page: Open, width: int
) -> None:
    page = open_page(report, width=width, wait=False)
    every = shown(page)
    told = page.locator("#shown")
    assert told.inner_text().endswith("changes")
    page.get_by_label("Verdict").select_option("breaking")
    breaking = shown(page)
    assert 0 < breaking < every
    assert {row.get_attribute("data-verdict") for row in page.locator("[data-changes]:visible").all()} == {
        "breaking"
    }
    page.get_by_label("Method").select_option("tools/call")
    assert 0 < shown(page) < breaking
    page.get_by_label("Search").fill("no such thing")
    page.wait_for_function("() => document.getElementById('shown').textContent.startsWith('0 ')")
    assert shown(page) == 0
    page.get_by_role("button", name="Show all").click()
    page.wait_for_function(
        "every => [...document.querySelectorAll('[data-changes]')].filter(each => each.checkVisibility()).length === every",
        arg=every,
    )


def test_a_link_leads_to_its_change_by_the_keyboard_alone(report: str, open_page: Open) -> None:
    page = open_page(report, wait=False)
    keys = page.keyboard
    reached: list[str] = []
    for _ in range(60):
        keys.press("Tab")
        reached.append(
            page.evaluate("() => document.activeElement.name || document.activeElement.textContent.trim()")
        )
        if page.evaluate("() => document.activeElement.matches('.shared a')"):
            break
    assert {"q", "verdict", "direction", "method", "Show all"} <= set(reached)
    assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle") != "none"
    goal = page.evaluate("() => document.activeElement.hash.slice(1)")
    keys.press("Enter")
    page.wait_for_function(
        "id => { const {top, bottom} = document.getElementById(id).getBoundingClientRect(); return bottom > 0 && top < innerHeight; }",
        arg=goal,
    )
    page.get_by_label("Search").focus()
    keys.type("resultType")
    assert shown(page) > 0
    keys.press("Tab")
    keys.press("b")
    assert page.get_by_label("Verdict").input_value() == "breaking"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_its_window_and_passes_a_checker(
    report: str, open_page: Open, axe: Path, width: int, scheme: str
) -> None:
    page = open_page(report, width=width, scheme=scheme, wait=False)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(axe.read_text(encoding="utf-8"))
    found = page.evaluate(
        "axe.run({ preload: false }).then(r => r.violations.map(v => [v.id, v.nodes.slice(0, 3).map(n => n.html)]))"
    )
    assert found == []


def test_all_revisions_at_once_fit_a_phone(open_page: Open, tmp_path: Path) -> None:
    page = open_page(made(tmp_path / "all.html", A, E), width=390, wait=False)
    assert shown(page) > 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_what_a_schema_says_is_text_and_nothing_of_it_runs(open_page: Open, tmp_path: Path) -> None:
    old, new = tmp_path / "old.ts", tmp_path / "new.ts"
    old.write_text(HOSTILE % "a: string;", encoding="utf-8")
    new.write_text(HOSTILE % MEMBER, encoding="utf-8")
    page = open_page(made(tmp_path / "own.html", str(old), str(new), "--docs"), wait=False)
    page.get_by_label("Search").fill("evil")
    assert "<b onclick=alert(1)>" in " ".join(page.locator("[data-changes]:visible").all_inner_texts())
    assert page.title() != "run"
    assert page.locator("main img, main script, main b[onclick], a[href^='javascript:']").count() == 0
