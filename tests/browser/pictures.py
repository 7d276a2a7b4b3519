"""Makes the pictures of `mcprev dev` in README and docs: `make pictures`, with Chromium.

The server in `harbour.py` is started, used and photographed; what is on the wire is real.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from playwright.sync_api import sync_playwright

from browser.conftest import ARGUMENTS, CHROMIUM
from browser.test_dev_page import HARBOUR, dev
from browser.test_page_flows import call, done, field, use
from helpers.named import A, B
from helpers.support import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PICTURES: Final = ROOT / "docs" / "pictures"


def opened(browser: Browser, url: str, width: int, height: int, scheme: str) -> Page:
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.add_init_script(
        "localStorage.setItem('mcprev-divider', '32')"
    )  # more of the message, less of the wire
    page.goto(url)
    page.wait_for_selector(".nav .item >> text=forecast", state="attached")
    return page


def shoot(page: Page, name: str) -> None:
    page.mouse.move(0, 0)
    page.evaluate("() => document.activeElement?.blur()")
    page.wait_for_timeout(300)
    page.screenshot(path=PICTURES / f"{name}.png")


def forecast(page: Page) -> None:
    use(page, "forecast")
    field(page, "city").fill("Rome")
    field(page, "days").fill("2")
    call(page)
    done(page)


def sail(page: Page, *, answered: bool) -> None:
    use(page, "sail")
    field(page, "ship").fill("Aurora")
    call(page)
    card = page.locator(".view-place .card:not(.over)")
    field(card, "sailors").fill("5")
    if answered:
        card.get_by_role("button", name="Accept").click()
        done(page)


def make(browser: Browser, url: str) -> None:
    wide = opened(browser, url, 1280, 960, "light")
    forecast(wide)
    wide.locator(f'.stop[data-revision="{B}"]').click()
    wide.locator(".change").first.wait_for()
    shoot(wide, "dev")
    sail(wide, answered=False)
    wide.locator(".timeline .k-question").last.click()
    shoot(wide, "dev-question")
    wide.locator(".card:not(.over)").get_by_role("button", name="Accept").click()
    done(wide)
    dark = opened(browser, url, 1280, 800, "dark")
    sail(dark, answered=True)
    dark.get_by_role("tab", name="Time").click()
    shoot(dark, "dev-time")
    phone = opened(browser, url, 390, 844, "light")
    forecast(phone)
    phone.locator("#part-revisions").click()
    phone.locator(f'.stop[data-revision="{A}"]').click()
    phone.locator(".change").first.wait_for()
    shoot(phone, "dev-phone")


def main() -> None:
    Path(PICTURES).mkdir(parents=True, exist_ok=True)
    with dev(f"{HARBOUR}:app") as url, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, headless=True)
        make(browser, url)
        browser.close()


if __name__ == "__main__":
    main()
