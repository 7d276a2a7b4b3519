"""The accessibility checker of npm, axe-core, finds nothing wrong in any view of the page, dark or light, wide or narrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser.conftest import Open
from browser.fake import Fake
from browser.scenario import Scenario
from browser.test_page_flows import call, done, field, use

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture
def fake() -> Iterator[Fake]:
    made = Fake()
    with made as api:
        Scenario(api)
        api.log(level="error", logger="sea", data="high waves")
        api.state("task", {"task": "t1", "status": "working", "message": "half"})
        api.authorization.append({"step": "metadata", "detail": {"issuer": "https://login.example"}})
        yield made


def violations(page: Page, axe: Path) -> list[str]:
    """What the checker finds; it is read as a script of the inspector, which the policy of the page lets through."""
    page.evaluate(axe.read_text(encoding="utf-8"))
    found: list[str] = page.evaluate("""async () => {
          const found = await axe.run(document, { resultTypes: ["violations"] });
          return found.violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.any[0]?.message ?? ""}`).join(" | ")}`);
        }""")
    return found


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (1280, "dark"), (800, "light"), (390, "light"), (390, "dark")]
)
def test_axe_finds_no_violation(fake: Fake, open_page: Open, axe: Path, width: int, scheme: str) -> None:
    page = open_page(fake.url, width=width, scheme=scheme)
    found: dict[str, list[str]] = {}

    def look(name: str) -> None:
        wrong = violations(page, axe)
        if wrong:
            found[name] = wrong

    look("start")
    use(page, "forecast")
    field(page, "city").fill("Rome")
    call(page)
    done(page)
    look("a result")
    page.locator(".view-place .result").get_by_role("button", name="Data").click()
    if width < 700:
        page.locator("#part-wire").click()
        look("the wire")
        page.locator("#part-revisions").click()
    for tab in ("Message", "HTTP", "Time", "Revisions"):
        page.locator(".detail").get_by_role("tab", name=tab).click()
        look(tab)
    page.locator(".stop").first.click()
    page.wait_for_selector(".pair .lost")
    look("one revision")
    use(page, "forecast")
    page.get_by_text("Call it many times").click()
    figures = {"calls": 5, "succeeded": 4, "failed": 1, "seconds": 1.5, "errors": {"the tool failed": 1}}
    fake.api.tell("repeat", {"tool": "forecast", "state": "done", **figures, "milliseconds": {"p95": 2.5}})
    page.get_by_text("4 of 5 succeeded").wait_for()
    look("many calls")
    use(page, "plan")
    page.get_by_role("button", name="Add stops").click()
    page.get_by_role("button", name="Add item to stops").click()
    page.get_by_role("combobox", name="way").select_option(label="kind: walk")
    look("a nested form")
    page.get_by_role("button", name="JSON", exact=True).click()
    look("its JSON")
    use(page, "picture")
    call(page)
    done(page)
    look("a picture")
    use(page, "book")
    field(page, "place").fill("x")
    call(page)
    page.locator(".view-place .card").wait_for()
    look("a question")
    for view in ("Questions", "Tasks", "Logs", "Server"):
        use(page, view)
        look(view)
    use(page, "note://")
    look("a template")
    page.keyboard.press("Escape")
    page.locator("body").press("?")
    look("the keys")
    assert found == {}
