"""Links from a message of `mcprev dev` to its type in a site of `mcprev explore`, which may not touch the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from browser.conftest import Open
from browser.fake import OWN, Fake
from browser.scenario import Scenario
from browser.test_dev_page import HARBOUR, dev
from browser.test_page_flows import call, done, field, use
from helpers.named import C, E
from mcprev.cli import main

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

STEAL = """() => new Promise((resolve) => {
  const channel = new BroadcastChannel("mcprev-dev");
  channel.addEventListener("message", ({ data }) => resolve(data));
  channel.postMessage("token?");
  setTimeout(() => resolve(null), 500);
})"""
"""How a page of the same origin asks another tab for the token."""


@pytest.fixture(scope="module")
def beside(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a page with a site of two revisions."""
    assert browser.is_connected()
    out = tmp_path_factory.mktemp("explore") / "site"
    done_ = CliRunner().invoke(main, ["explore", C, E, "--out", str(out)])
    assert done_.exit_code == 0, done_.output
    with dev(f"{HARBOUR}:app", "--explore", str(out)) as url:
        yield url


def followed(page: Page, name: str, place: str) -> Page:
    """The page that the link of a type opens."""
    with page.context.expect_page() as opening:
        page.locator(place).get_by_role("link", name=name).click()
    return opening.value


@pytest.mark.parametrize("width", [1280, 390])
def test_the_type_of_a_message_leads_to_its_page_at_the_revision(
    beside: str, browser: Browser, width: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    wrong: list[str] = []
    context.on("console", lambda message: wrong.append(message.text))
    context.on("weberror", lambda error: wrong.append(str(error.error)))
    page.goto(beside)
    page.wait_for_selector(".nav .item >> text=forecast", state="attached")
    use(page, "forecast")
    field(page, "city").fill("Rome")
    call(page)
    done(page)
    if width < 700:
        page.locator("#part-revisions").click()
    site = followed(page, "CallToolResult", ".detail-head")
    site.wait_for_url(f"**/explore/type/CallToolResult.html#{E}")
    assert site.locator("h1").inner_text() == "CallToolResult"
    assert site.locator(".version:has(> .anchor:target)").count() == 1
    site.keyboard.press("/")
    site.keyboard.type("tool ann")
    site.wait_for_selector("#found a")
    site.keyboard.press("Enter")
    site.wait_for_url("**/explore/type/ToolAnnotations.html")
    assert site.evaluate("() => origin") == "null"
    assert site.evaluate(STEAL) is None, "the site is told no token"
    page.locator(f'.stop[data-revision="{C}"]').click()
    older = followed(page, "CallToolResult", ".pair section >> nth=1")
    older.wait_for_url(f"**/explore/type/CallToolResult.html#{C}")
    assert older.locator(".version:has(> .anchor:target)").count() == 1
    assert wrong == []
    context.close()


@pytest.mark.parametrize(
    ("base", "href"),
    [
        ("https://docs.example/explore", f"https://docs.example/explore/type/CallToolResult.html#{OWN}"),
        ("/explore", f"/explore/type/CallToolResult.html#{OWN}"),
        (None, None),
        ("javascript:alert(1)//", None),
        ("//docs.example", None),
    ],
)
def test_only_a_site_of_the_web_or_of_the_process_is_linked(
    open_page: Open, base: str | None, href: str | None
) -> None:
    fake = Fake()
    with fake as api:
        api.explore = base
        Scenario(api)
        api.details[2] = {"type": "CallToolResult"}
        page = open_page(fake.url)
        page.locator(".timeline .row").nth(1).click()
        page.locator(".detail-head").get_by_text("CallToolResult").wait_for()
        links = page.locator(".detail-head a")
        assert [each.get_attribute("href") for each in links.all()] == ([] if href is None else [href])
        assert all("noopener" in (each.get_attribute("rel") or "") for each in links.all())
        page.context.close()  # before the server ends, which a page would ask again


@pytest.mark.parametrize("name", ["../../x", "<b>", "Tool?q", "a" * 101])
def test_what_is_no_name_of_a_type_is_no_part_of_a_link(open_page: Open, name: str) -> None:
    fake = Fake()
    with fake as api:
        api.explore = "/explore"
        Scenario(api)
        api.details[2] = {"type": name}
        page = open_page(fake.url)
        page.locator(".timeline .row").nth(1).click()
        page.locator(".detail-head code").get_by_text(name[:79]).wait_for()
        assert page.locator(".detail-head a").count() == 0
        page.context.close()  # before the server ends, which a page would ask again
