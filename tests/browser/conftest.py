"""Fixtures for tests in Chromium: a browser for each module, and pages that tell what they should not do.

`make browser` runs them, with Debian's Chromium; elsewhere, and without it or playwright, they are skipped.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pytest

from helpers.support import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request

CHROMIUM: Final = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
ARGUMENTS: Final = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
AXE: Final = ROOT / ".browser" / "node_modules" / "axe-core" / "axe.min.js"
WANTED: Final = os.environ.get("MCPREV_BROWSER")
"""Set by `make browser`, to "once" by `make browser WIDTHS=one`, and to "speed" by `make browser-speed`."""

Open = Callable[..., "Page"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave each case in a window of one width if that is wanted: of a phone and of a screen, and light and dark, in turn."""
    if WANTED != "once":
        return
    kept: list[pytest.Item] = []
    cases: dict[tuple[object, ...], list[pytest.Item]] = {}
    for item in items:
        call: Any = getattr(item, "callspec", None)
        if item.path.parent != Path(__file__).parent or call is None or "width" not in call.params:
            kept.append(item)
            continue
        others = (f"{name}={value!r}" for name, value in call.params.items() if name != "width")
        cases.setdefault((item.nodeid.partition("[")[0], *others), []).append(item)
    kept += [case[number % len(case)] for number, case in enumerate(cases.values())]
    chosen = {*kept}
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, for one module: its loop must end before tests that have loops of their own."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if WANTED is None:
        pytest.skip("make browser runs it")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, headless=True)
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens pages; at the end none may have logged anything, thrown, or asked another host."""
    wrong: list[str] = []
    opened: list[Page] = []

    def open_(
        url: str,
        *,
        width: int = 1280,
        height: int = 800,
        scheme: str = "light",
        quiet: bool = True,
        wait: bool = True,
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
        )
        context.set_default_timeout(10_000)
        page = context.new_page()
        opened.append(page)
        if quiet:
            page.on("console", lambda message: wrong.append(logged(message)))
        page.on("pageerror", lambda error: wrong.append(f"thrown: {error}"))
        page.on("dialog", dismissed)
        page.on("popup", lambda popup: wrong.append(f"window: {popup.url}"))
        page.on("request", lambda request: asked(request, urlsplit(url).netloc))
        page.goto(url)
        if wait:
            page.wait_for_selector(".target-state >> nth=0")
            page.wait_for_function(
                "() => !document.body.classList.contains('unlinked') && document.querySelector('.target-name').textContent !== ''"
            )
        return page

    def dismissed(dialog: Dialog) -> None:
        wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def logged(message: ConsoleMessage) -> str:
        return f"console {message.type}: {message.text}"

    def asked(request: Request, host: str) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in {"blob", "data"} and parts.netloc != host:
            wrong.append(f"asked {request.url}")

    yield open_
    for page in opened:
        page.context.close()
    assert wrong == []


@pytest.fixture(scope="session")
def axe() -> Path:
    """The accessibility checker of npm, which `make browser` installs."""
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: make browser")
    return AXE
