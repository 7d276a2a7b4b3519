"""`mcprev dev` as a whole: the command, a server of its own, and the page in Chromium."""

from __future__ import annotations

import json
import queue
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from browser.conftest import Open
from browser.recording import recording
from browser.test_page_flows import call, done, field, use
from helpers.named import A, E
from helpers.support import ROOT
from mcprev.dev.opening import BrowserPage
from mcprev.revisions import ALL

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HARBOUR = ROOT / "tests" / "browser" / "harbour.py"

WIDEST = """() => {
  window.widest = 0;
  const look = () => {
    for (const cell of document.querySelectorAll(".outcomes td")) window.widest = Math.max(window.widest, cell.getBoundingClientRect().right);
    requestAnimationFrame(look);
  };
  look();
}"""
"""Notes how far to the right the table of revisions reaches in any frame."""


@contextmanager
def dev(*arguments: str) -> Iterator[str]:
    """Run the command and give the URL that it prints."""
    command = [sys.executable, "-m", "mcprev", "dev", "--no-browser", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout
        lines: queue.SimpleQueue[str] = queue.SimpleQueue()

        def read() -> None:
            for line in process.stdout or ():
                lines.put(line)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            for _ in range(20):
                found = re.search(r"http://\S+#token=\S+", lines.get(timeout=60))
                if found:
                    break
            else:
                raise AssertionError("no URL was printed")
            yield found.group(0)
        finally:
            process.terminate()
            process.wait(60)
            reader.join(20)


@pytest.fixture(scope="module")
def harbour() -> Iterator[str]:
    with dev(f"{HARBOUR}:app") as url:
        yield url


def opened(open_page: Open, url: str, width: int = 1280, *, quiet: bool = True) -> Page:
    page = open_page(url, width=width, quiet=quiet)
    page.set_default_timeout(30_000)
    page.wait_for_selector(".nav .item >> text=forecast", state="attached")
    return page


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_a_call_is_made_and_seen_at_every_revision_computed_and_observed(
    harbour: str, open_page: Open, width: int
) -> None:
    page = opened(open_page, harbour, width)
    use(page, "forecast")
    field(page, "city").fill("Rome")
    field(page, "days").fill("2")
    call(page)
    done(page)
    page.locator(".view-place .result").get_by_role("button", name="Data").click()
    assert "21.0" in (page.locator(".view-place .result .json").first.text_content() or "")
    if width < 700:
        page.locator("#part-revisions").click()
    page.locator(f'.stop[data-revision="{E}"]').wait_for()
    page.locator(f'.stop[data-revision="{A}"]').click()
    page.locator(".change.lost").first.wait_for()
    text = page.locator(".comparison").inner_text()
    assert "computed" in text
    assert f"{E}/down" in text
    page.get_by_role("button", name=f"Ask the server again at {A}").click()
    page.locator(".observed .json").wait_for()
    assert "structuredContent" not in (page.locator(".observed .json").text_content() or "")


def test_the_server_is_shown_with_what_each_side_can_do(harbour: str, open_page: Open) -> None:
    page = opened(open_page, harbour)
    use(page, "Server")
    theirs = page.get_by_role("tree", name="Capabilities of the server")
    ours = page.get_by_role("tree", name="Capabilities of this client")
    assert '"completions"' in (theirs.text_content() or "")
    activity = page.locator(".view-place .facts-list").nth(1)
    activity.get_by_text("subscriptions/listen").wait_for()
    assert "last message" in activity.inner_text()
    assert all(f'"{name}"' in (ours.text_content() or "") for name in ("elicitation", "roots", "sampling"))


def test_a_question_is_answered_and_the_wrong_argument_is_held_back(harbour: str, open_page: Open) -> None:
    page = opened(open_page, harbour, quiet=False)  # Chromium logs that the wrong answer is refused
    use(page, "sail")
    field(page, "ship").fill("Aurora")
    call(page)
    card = page.locator(".view-place .card:not(.over)")
    card.wait_for()
    field(card, "sailors").fill("99")
    card.get_by_role("button", name="Accept").click()
    card.get_by_text("12").last.wait_for()
    field(card, "sailors").fill("5")
    card.get_by_role("button", name="Accept").click()
    done(page)
    assert "The Aurora sails with 5 sailors." in page.locator(".view-place .result").inner_text()
    use(page, "forecast")
    field(page, "city").fill("Oslo")
    field(page, "days").fill("9")
    call(page)
    page.get_by_role("button", name="Send it anyway").wait_for()
    assert field(page, "days").get_attribute("aria-invalid") == "true"


@pytest.mark.parametrize("width", [1280, 390])
def test_an_answer_is_kept_listed_and_forgotten(harbour: str, open_page: Open, width: int) -> None:
    page = opened(open_page, harbour, width)
    use(page, "sail")
    field(page, "ship").fill("Aurora")
    call(page)
    card = page.locator(".view-place .card:not(.over)")
    card.wait_for()
    field(card, "sailors").fill("3")
    card.get_by_label("Give this answer from now on").check()
    card.get_by_role("button", name="Accept").click()
    done(page)
    use(page, "Questions")
    page.get_by_role("tree", name="Saved answer to elicitation/create").get_by_text('"accept"').wait_for()
    page.get_by_role("button", name="Forget them").click()
    page.get_by_text("None: you are asked each question.").wait_for()
    use(page, "sail")
    call(page)
    card.wait_for()
    card.get_by_role("button", name="Decline").click()
    done(page)


@pytest.mark.parametrize("width", [1280, 390])
def test_a_tool_is_called_many_times_and_the_figures_are_shown(
    harbour: str, open_page: Open, width: int
) -> None:
    page = opened(open_page, harbour, width)
    use(page, "chart")
    page.get_by_text("Call it many times").click()
    page.get_by_label("Repeat: calls").fill("5")
    page.get_by_label("Repeat: at once").fill("x")
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_text("is not a valid number for “at once”").wait_for()
    page.get_by_label("Repeat: at once").fill("2")
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_text("5 of 5 succeeded in").wait_for()
    assert "p95 ms" in page.locator(".repeat .totals").inner_text()
    page.get_by_label("Repeat: seconds").fill("600")
    page.get_by_label("Repeat: calls").fill("")
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.locator(".repeat .figures").get_by_text("stopped").wait_for()
    use(page, "storm")
    assert page.locator(".repeat .figures").inner_text() == ""


@pytest.mark.parametrize("width", [1280, 390])
def test_a_call_at_every_revision_fits_the_window_while_it_waits_and_after(
    harbour: str, open_page: Open, width: int
) -> None:
    page = opened(open_page, harbour, width)
    use(page, "chart")
    page.get_by_label("At which revision").select_option(label="every revision")
    page.evaluate(WIDEST)
    call(page)
    page.locator(".at-others tr").nth(len(ALL) - 2).wait_for()
    page.wait_for_function("() => document.querySelectorAll('.at-others .s-open').length === 0")
    assert "differences" in page.locator(".at-others").inner_text()
    assert 100 < page.evaluate("() => window.widest") <= width


def test_content_of_all_kinds_resources_and_prompts_are_shown(harbour: str, open_page: Open) -> None:
    page = opened(open_page, harbour)
    use(page, "chart")
    call(page)
    done(page)
    page.wait_for_function("() => document.querySelector('.of-image img')?.naturalWidth === 320")
    page.wait_for_function("() => document.querySelector('.of-audio audio')?.duration > 0.4")
    assert page.locator(".of-text table").count() == 1
    page.get_by_role("button", name="Read it").click()
    call(page, "Read")
    done(page)
    assert page.locator(".markdown .heading").inner_text() == "Rome"
    use(page, "review")
    field(page, "topic").fill("the sea")
    field(page, "tone").fill("po")
    page.wait_for_function(
        "() => [...document.querySelectorAll('datalist option')].some((each) => each.value === 'poetic')"
    )
    call(page, "Get")
    done(page)
    assert "Review the sea in a po tone." in page.locator(".messages").inner_text()
    use(page, "storm")
    call(page)
    page.locator(".result.failed").wait_for()


def test_a_session_is_saved_and_opened_again(harbour: str, open_page: Open, tmp_path: Path) -> None:
    page = opened(open_page, harbour)
    field(page, "city").fill("Lima")
    call(page)
    done(page)
    number = page.locator(".timeline .bar .number").inner_text()
    page.get_by_text("Session", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save, secrets masked").click()
    saved = tmp_path / "saved.jsonl"
    shutil.copy(download.value.path(), saved)
    assert all(isinstance(json.loads(line), dict) for line in saved.read_text(encoding="utf-8").splitlines())
    page.locator("input[type=file]").set_input_files(saved)
    page.get_by_text("Nothing is sent.").wait_for()
    page.wait_for_function(
        "(number) => document.querySelector('.timeline .bar .number').textContent === number", arg=number
    )
    page.locator(".timeline .row", has_text="forecast").last.click()
    page.locator(".panel .json").wait_for()
    assert page.locator("button.go").is_disabled()
    page.get_by_role("button", name="Back to the server").click()
    page.get_by_text("Nothing is sent.").wait_for(state="hidden")


def test_a_session_that_is_longer_than_the_present_one_is_opened_from_its_beginning(
    harbour: str, open_page: Open, tmp_path: Path
) -> None:
    recording(tmp_path / "longer.jsonl", 2_000)
    page = opened(open_page, harbour)
    page.locator("input[type=file]").set_input_files(tmp_path / "longer.jsonl")
    page.wait_for_function("() => document.querySelector('.timeline .bar .number').textContent === '2,000'")
    page.locator(".timeline .list").press("Home")
    page.locator(".timeline .row .c-n", has_text=re.compile("^1$")).wait_for()
    page.get_by_role("button", name="Back to the server").click()
    page.get_by_text("Nothing is sent.").wait_for(state="hidden")


def test_the_server_starts_again_when_its_source_changes_and_the_page_goes_on(
    open_page: Open, tmp_path: Path
) -> None:
    source = tmp_path / "changing.py"
    text = HARBOUR.read_text(encoding="utf-8")
    source.write_text(text, encoding="utf-8")

    def changed(new: str, seen: Callable[[], None]) -> None:
        source.write_text(new, encoding="utf-8")
        seen()

    with dev(f"{source}:app") as url:
        page = opened(open_page, url)
        field(page, "city").fill("Rome")
        changed(text + "\n\n1 / 0\n", page.get_by_text("ZeroDivisionError").first.wait_for)
        changed(text.replace("def storm", "def calm"), page.locator(".nav .item", has_text="calm").wait_for)
        assert page.locator(".banner").is_hidden()
        assert field(page, "city").input_value() == "Rome"
        call(page)
        done(page)
        page.close()


def test_the_revision_in_use_is_switched(harbour: str, open_page: Open) -> None:
    page = opened(open_page, harbour)
    page.get_by_label("Revision in use").select_option(A)
    page.wait_for_function(
        "(revision) => document.querySelector('.calling select').options[0].textContent.startsWith(revision)",
        arg=A,
    )
    field(page, "city").fill("Rome")
    call(page)
    done(page)
    assert A in page.locator(".live .state").inner_text()
    page.get_by_label("Revision in use").select_option("")
    page.wait_for_function(
        "(revision) => document.querySelector('.calling select').options[0].textContent.startsWith(revision)",
        arg=E,
    )


def test_the_file_that_a_browser_is_given_leads_to_the_page(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: queue.SimpleQueue[str] = queue.SimpleQueue()
    monkeypatch.setattr("webbrowser.open", given.put)
    opening = BrowserPage()
    with dev(str(HARBOUR)) as url, browser.new_context() as context:
        opening.open(url)
        try:
            page = context.new_page()
            page.goto(given.get(timeout=10))
            page.wait_for_url(url.partition("#")[0])
            page.get_by_text("connected").first.wait_for()
        finally:
            opening.remove()


ODD: list[Any] = [
    5,
    None,
    True,
    [],
    {},
    "__proto__",
    "constructor",
    "\u202e<b>\x1b[31m",
    {"__proto__": {"a": 1}},
    1e300,
]


def test_a_session_of_odd_values_is_shown_and_the_page_stays_usable(open_page: Open, tmp_path: Path) -> None:
    lines: list[Any] = [
        {"format": 2, "target": {"server_info": {"name": {}, "title": [], "version": 5, "icons": 5},
                                 "capabilities": {"tools": 5, "prompts": {}, "__proto__": {}, "constructor": []},
                                 "error": {"text": 5, "traceback": {}, "kind": []}, "instructions": "__proto__",
                                 "revisions": ["__proto__", "constructor"], "revision": "constructor"}},
        {"http": 1, "verb": "__proto__", "url": "javascript:alert(1)", "sent": [["__proto__", "x"], [{}, []]],
         "status": 10**30, "received": [["constructor", "\u202e"]]},
        {"list": {"kind": "tools", "items": [{"name": f"t{n}", "title": odd, "inputSchema": odd} for n, odd in enumerate(ODD)]}},
        {"list": {"kind": "prompts", "items": [{"name": f"p{n}", "arguments": odd} for n, odd in enumerate(ODD)], "state": "__proto__"}},
    ]  # fmt: skip
    for odd in ODD:
        messages: list[dict[str, Any]] = [
            {"jsonrpc": "2.0", "id": odd, "method": "tools/call", "params": {"name": odd, "arguments": odd}},
            {"jsonrpc": "2.0", "id": odd, "result": odd},
            {"jsonrpc": "2.0", "id": odd, "error": odd},
            {"jsonrpc": "2.0", "method": odd, "params": odd},
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": odd, "progress": odd}},
        ]  # fmt: skip
        shown = {"exchange": 1, "call": odd, "revision": odd, "kind": "message", "at": odd}
        lines += [{"message": message, **shown} for message in messages]
    file = tmp_path / "odd.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with dev("--open", str(file)) as url:
        page = open_page(url)
        for view in ("Server", "Logs", "Tasks", "Questions"):
            use(page, view)
        for item in page.locator("nav .item").all():
            item.click()
        for _ in range(5 * len(ODD)):
            page.locator("body").press("j")
            for tab in "1234":
                page.locator("body").press(tab)
        page.locator("body").press("1")
        page.get_by_text("odd.jsonl").first.wait_for()
        assert page.evaluate(
            "() => ({}).a === undefined && document.querySelector('#message').textContent !== ''"
        )
        page.close()
