"""The page of `mcprev dev` used as its users do, on a desk and on a phone, against a scripted process."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from browser.conftest import Open
from browser.fake import DATED, OWN, TOKEN, Api, Fake
from browser.scenario import OLDEST, RESULT, Scenario

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

WIDTHS = [1280, 390]


@pytest.fixture
def fake() -> Iterator[Fake]:
    made = Fake()
    with made as api:
        Scenario(api)
        yield made


def use(page: Page, name: str) -> None:
    """Open a tool, resource, prompt or view."""
    back = page.get_by_role("button", name="‹ All")
    if page.locator("#part-use").is_visible():
        page.locator("#part-use").click()
    if back.is_visible():
        back.click()
    folded = page.locator('.nav [data-key^="fold "][aria-expanded="false"]')
    while folded.count() > 0:
        folded.first.click()
    page.locator("nav .item").filter(has_text=name).first.click()


def field(place: Page | Locator, name: str) -> Locator:
    """The field of an argument, required or not."""
    return place.get_by_label(re.compile(rf"^{name}( \*|$)")).and_(place.locator("input, textarea"))


def call(page: Page, button: str = "Call") -> None:
    page.locator(".calling").get_by_role("button", name=button, exact=True).click()


def until(holds: Callable[[], bool]) -> None:
    """Wait for what the process was asked."""
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def bodies(api: Api, path: str) -> list[str]:
    return [body for each, body in api.posted if each == path]


def done(page: Page) -> None:
    page.wait_for_selector(".state.s-done")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_tool_is_called_and_its_result_is_seen_at_every_revision(
    fake: Fake, open_page: Open, width: int
) -> None:
    page = open_page(fake.url, width=width)
    use(page, "forecast")
    field(page, "city").fill("Rome")
    field(page, "days").fill("2")
    call(page)
    done(page)
    assert bodies(fake.api, "/api/check") == ['{"tool":"forecast","arguments":{"city":"Rome","days":2}}']
    assert bodies(fake.api, "/api/call") == [
        '{"method":"tools/call","params":{"name":"forecast","arguments":{"city":"Rome","days":2}}}'
    ]
    result = page.locator(".view-place .result")
    assert "Rome: 21, 24 and 23.5 °C, mostly sunny." in (result.text_content() or "")
    result.get_by_role("button", name="Data").click()
    assert "21.0" in (result.get_by_role("tree", name="Structured content").text_content() or "")
    assert result.get_by_role("tree", name="Output schema").is_visible()
    result.get_by_role("button", name="Raw").click()
    assert '"celsius": [' in (result.locator(".way > .json").text_content() or "")
    if width < 700:
        page.get_by_role("tab", name="Revisions").first.click()
    stops = page.locator(".stop")
    assert [each.split("\n") for each in stops.all_inner_texts()] == [
        ["◔", revision, f"lost {len(DATED) - 1 - place}"] if revision != OWN else ["◆", OWN, "on the wire"]
        for place, revision in enumerate(DATED)
    ]
    stops.first.click()
    page.wait_for_selector(".pair .lost")
    text = page.locator(".comparison").inner_text()
    assert "computed" in text
    assert f"{DATED[2]}/down/substitute/ResourceLink" in text
    assert "A link to a resource becomes text with its address" in text
    assert page.locator(".pair section").nth(1).locator(".added, .changed").count() > 0
    page.get_by_role("button", name=f"Ask the server again at {OLDEST}").click()
    page.wait_for_selector(".observed .json")
    assert json.loads(bodies(fake.api, "/api/call")[-1])["revision"] == OLDEST
    assert "Differs from what was computed" in page.locator(".observed").inner_text()


@pytest.mark.parametrize("width", WIDTHS)
def test_a_question_is_a_card_in_its_call_and_is_answered(fake: Fake, open_page: Open, width: int) -> None:
    page = open_page(fake.url, width=width)
    use(page, "book")
    field(page, "place").fill("Da Nino")
    call(page)
    card = page.locator(".view-place .card")
    card.wait_for()
    assert page.locator("dialog[open]").count() == 0
    assert card.get_by_role("radio", name="true").is_checked(), "defaults of a question are filled in"
    field(card, "guests").fill("4")
    card.get_by_label("Give this answer from now on").check()
    card.get_by_role("button", name="Accept").click()
    done(page)
    assert [body for path, body in fake.api.posted if path.startswith("/api/question/")] == [
        '{"action":"accept","content":{"guests":4,"outside":true},"remember":true}'
    ]
    assert "A table for 4." in page.locator(".view-place .result").inner_text()
    use(page, "Questions")
    assert "Answered: accept" in page.locator(".card.over").inner_text()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_timeline_draws_a_call_with_its_question_between_two_lanes(
    fake: Fake, open_page: Open, width: int
) -> None:
    page = open_page(fake.url, width=width)
    use(page, "book")
    field(page, "place").fill("x")
    call(page)
    field(page.locator(".card"), "guests").fill("1")
    page.locator(".card").get_by_role("button", name="Accept").click()
    done(page)
    if width < 700:
        page.get_by_role("tab", name="Wire").click()
    page.wait_for_function("() => document.querySelectorAll('.timeline .row').length >= 8")
    grid = page.get_by_role("grid", name="Messages on the wire")
    assert grid.get_attribute("aria-rowcount") == "8"
    kinds = [(each.get_attribute("class") or "").split()[1] for each in page.locator(".timeline .row").all()][
        -4:
    ]
    assert kinds == ["k-request", "k-question", "k-reply", "k-response"]
    bars = [row.locator(".busy").count() for row in page.locator(".timeline .row").all()][-4:]
    assert bars == [1, 2, 2, 1]
    if width < 700:
        page.locator(".timeline .row").last.click()
    page.get_by_role("tab", name="Time").click()
    totals = page.locator(".totals").inner_text()
    assert "waiting for you" in totals
    assert page.locator(".waterfall .span.yours").count() == 2


def test_arguments_are_checked_before_they_are_sent(fake: Fake, open_page: Open) -> None:
    fake.api.problems = [{"path": "$.days", "text": "9 is greater than 7"}]
    page = open_page(fake.url)
    field(page, "city").fill("Rome")
    field(page, "days").fill("9")
    call(page)
    page.get_by_text("9 is greater than 7").wait_for()
    assert field(page, "days").get_attribute("aria-invalid") == "true"
    assert bodies(fake.api, "/api/call") == []
    page.get_by_role("button", name="Send it anyway").click()
    done(page)
    assert len(bodies(fake.api, "/api/call")) == 1


def test_a_union_is_a_choice_and_numbers_stay_as_they_are_typed(fake: Fake, open_page: Open) -> None:
    page = open_page(fake.url)
    use(page, "plan")
    field(page, "name").fill("Trip")
    page.get_by_role("combobox", name="way").select_option(label="kind: walk")
    field(page, "km").fill("12.50")
    page.get_by_role("button", name="Add stops").click()
    page.get_by_role("button", name="Add item to stops").click()
    field(page, "place").fill("Rome")
    page.get_by_label("scenic").check()
    call(page)
    done(page)
    assert bodies(fake.api, "/api/call") == [
        '{"method":"tools/call","params":{"name":"plan","arguments":{"name":"Trip","way":{"kind":"walk","km":12.50},"stops":[{"place":"Rome"}],"tags":["scenic"]}}}'
    ]


def test_resources_templates_and_prompts_are_read_with_completion(fake: Fake, open_page: Open) -> None:
    page = open_page(fake.url)
    use(page, "All notes")
    call(page, "Read")
    done(page)
    assert page.locator(".markdown .heading").inner_text() == "Notes"
    use(page, "note://{year}")
    field(page, "year").fill("2026")
    field(page, "name").fill("a b")
    assert "note://2026/a%20b" in page.locator(".view-place").inner_text()
    call(page, "Read")
    page.wait_for_selector(".view-place .state.s-done")
    use(page, "review")
    field(page, "topic").fill("x")
    field(page, "tone").fill("so")
    page.wait_for_function(
        "() => [...document.querySelectorAll('datalist option')].map((each) => each.value).join() === 'solemn,soft'"
    )
    call(page, "Get")
    done(page)
    assert "Review x" in page.locator(".messages").inner_text()
    assert {"/api/call"} <= {path for path, _ in fake.api.posted}
    asked = [json.loads(body)["params"] for body in bodies(fake.api, "/api/call")]
    of_tone = [params for params in asked if params.get("argument", {}).get("name") == "tone"]
    assert of_tone[-1] == {
        "ref": {"type": "ref/prompt", "name": "review"},
        "argument": {"name": "tone", "value": "so"},
        "context": {"arguments": {"topic": "x"}},
    }


def test_a_result_is_shown_as_what_it_is_and_svg_as_its_source(fake: Fake, open_page: Open) -> None:
    page = open_page(fake.url)
    use(page, "picture")
    call(page)
    done(page)
    image = page.locator(".of-image img")
    assert image.count() == 1
    assert (image.get_attribute("src") or "").startswith("blob:")
    page.wait_for_function("() => document.querySelector('.of-image img').naturalWidth === 160")
    assert "<svg onload='alert(1)'/>" in page.locator(".of-image").nth(1).inner_text()
    assert "1.0" in page.locator(".of-text .json").inner_text()
    page.locator(".detail-head").get_by_text("1 problem").wait_for()
    page.get_by_text("a number is wanted").first.wait_for()


def test_an_error_shows_its_code_message_and_data(fake: Fake, open_page: Open) -> None:
    page = open_page(fake.url)
    use(page, "broken")
    call(page)
    page.wait_for_selector(".state.s-failed")
    assert "-32603 The barometer is broken." in page.locator(".result.failed").inner_text()


def test_a_call_runs_at_every_revision_side_by_side(fake: Fake, open_page: Open) -> None:
    page = open_page(fake.url)
    field(page, "city").fill("Rome")
    page.get_by_label("At which revision").select_option(label="every revision")
    call(page)
    others = page.locator(".at-others")
    page.wait_for_function(
        "(count) => document.querySelectorAll('.at-others td.s-done').length === count", arg=len(DATED) - 1
    )
    assert [json.loads(body).get("revision") for body in bodies(fake.api, "/api/call")] == [None, *DATED[:-1]]
    assert "the same" in others.inner_text()
    others.get_by_role("button", name=OLDEST).click()
    assert others.get_by_role("region", name=f"Result at {OLDEST}").is_visible()
    assert "observed" in others.inner_text()


def test_a_call_goes_on_when_the_server_starts_again_with_another_schema(fake: Fake, open_page: Open) -> None:
    page = open_page(fake.url)
    field(page, "city").fill("Rome")
    fake.api.tell(
        "target",
        {
            **fake.api.target,
            "state": "failed",
            "error": {
                "text": "NameError: name 'x' is not defined",
                "traceback": 'File "server.py", line 3\n  x',
            },
        },
    )
    page.get_by_text("NameError").first.wait_for()
    assert "server.py" in page.locator(".banner").inner_text()
    fake.api.tell("target", fake.api.target)
    tools = [dict(each) for each in fake.api.lists["tools"]["items"]]
    tools[0]["inputSchema"] = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "country": {"type": "string"}},
    }
    fake.api.list("tools", tools)
    field(page, "country").wait_for()
    assert page.locator(".nav .news").all_inner_texts() == ["changed"]
    assert field(page, "city").input_value() == "Rome"
    assert page.locator(".banner").is_hidden()


@pytest.mark.parametrize(("kind", "told"), [("app", True), ("command", False), ("url", False)])
def test_only_a_server_whose_source_is_watched_is_said_to_start_again_by_itself(
    fake: Fake, open_page: Open, kind: str, told: bool
) -> None:
    page = open_page(fake.url)
    failed = {"state": "failed", "kind": kind, "error": {"text": "it ended", "traceback": ""}}
    fake.api.tell("target", {**fake.api.target, **failed})
    page.locator(".banner .crash").wait_for()
    assert (page.locator(".banner").get_by_text("Fix it and save").count() == 1) is told
    assert page.locator(".banner").get_by_role("button", name="Start it again").is_visible()


def test_the_wire_is_filtered_by_method_text_and_verdict(fake: Fake, open_page: Open) -> None:
    page = open_page(fake.url)
    use(page, "picture")
    call(page)
    done(page)
    rows = page.locator(".timeline .row")
    page.get_by_label("Which messages").select_option("problems")
    page.wait_for_function("() => document.querySelectorAll('.timeline .row').length === 1")
    page.get_by_label("Which messages").select_option("mine")
    page.wait_for_function("() => document.querySelectorAll('.timeline .row').length === 2")
    page.get_by_label("Which messages").select_option("all")
    rows.first.click()
    page.get_by_role("button", name="Pin", exact=True).click()
    page.locator(".timeline .row", has_text="★ pinned").wait_for()
    page.get_by_label("Which messages").select_option("pinned")
    page.wait_for_function("() => document.querySelectorAll('.timeline .row').length === 1")
    page.get_by_role("button", name="Pin", exact=True).click()
    page.wait_for_function("() => document.querySelectorAll('.timeline .row').length === 0")
    page.get_by_label("Which messages").select_option("all")
    page.get_by_label("Filter messages").fill("discover")
    page.wait_for_function("() => document.querySelectorAll('.timeline .row').length === 2")
    page.get_by_label("Filter messages").fill("image/svg")
    page.wait_for_function("() => document.querySelector('.timeline .bar .number').textContent === '1 of 6'")
    assert "result" in rows.first.inner_text()


def test_a_message_is_copied_a_session_saved_and_opened(fake: Fake, open_page: Open) -> None:
    page = open_page(fake.url)
    field(page, "city").fill("Rome")
    call(page)
    done(page)
    page.locator(".detail").get_by_text("Copy as").click()
    page.get_by_role("button", name="pytest").click()
    page.get_by_text("mcprev pytest").wait_for()
    assert json.loads(bodies(fake.api, "/api/copy")[-1]) == {"call": "k1", "as": "pytest"}
    page.get_by_text("Session", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save, secrets masked").click()
    assert download.value.suggested_filename == "harbour.jsonl"
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[-1])["result"] == json.loads(RESULT)
    page.locator("input[type=file]").set_input_files(
        {"name": "a.jsonl", "mimeType": "application/jsonl", "buffer": b'{"a":1}\n'}
    )
    page.wait_for_function("() => document.querySelector('input[type=file]').value === ''")
    until(lambda: any(path == "/api/open" for path, _ in fake.api.posted))
    assert ("/api/open", '{"a":1}\n') in fake.api.posted


def test_a_link_to_a_message_opens_it_and_the_token_leaves_the_address(fake: Fake, open_page: Open) -> None:
    page = open_page(f"{fake.origin}/#n=2&token={TOKEN}")
    page.get_by_role("heading", name="#2 server/discover").wait_for()
    assert TOKEN not in page.url
    assert "n=2" in page.url
    page.reload()
    page.get_by_role("heading", name="#2 server/discover").wait_for()


def test_without_its_token_the_page_asks_for_the_address_of_the_command(fake: Fake, open_page: Open) -> None:
    page = open_page(f"{fake.origin}/#token=wrong", quiet=False, wait=False)
    page.get_by_label("The address that mcprev dev printed").fill(fake.url)
    page.get_by_role("button", name="Go on").click()
    page.get_by_text("Harbour").first.wait_for()


def test_a_second_tab_gets_the_token_of_the_first(fake: Fake, open_page: Open) -> None:
    page = open_page(fake.url)
    second = page.context.new_page()
    second.goto(f"{fake.origin}/#n=1")
    second.get_by_text("Harbour").first.wait_for()


def test_logs_tasks_and_the_walk_of_authorization_are_followed(fake: Fake, open_page: Open) -> None:
    page = open_page(fake.url)
    use(page, "Logs")
    fake.api.log(level="error", logger="sea", data={"wave": 1.5})
    fake.api.log(level="debug", data="calm")
    fake.api.tell("stderr", {"at": 1.0, "text": "Traceback"})
    page.get_by_text("Traceback").wait_for()
    assert page.locator(".row.log").count() == 3
    page.get_by_label("Show from level").select_option(label="from error")
    page.wait_for_function("() => document.querySelectorAll('.row.log').length === 1")
    assert "✕ error" in page.locator(".row.log").inner_text()
    page.get_by_label("Ask the server for log messages").select_option("debug")
    use(page, "Tasks")
    fake.api.state("task", {"task": "t1", "status": "working", "message": "half"})
    page.get_by_role("button", name="Cancel it").click()
    result = {"taskId": "t1", "status": "completed", "result": {"content": [{"type": "text", "text": "all"}]}}
    n = fake.api.wire("in", {"jsonrpc": "2.0", "id": 9, "result": result}, method="tasks/get")
    fake.api.state("task", {"task": "t1", "status": "completed", "result": n})
    page.locator(".t-completed .result").get_by_text("all", exact=True).wait_for()
    assert ("/api/level", '{"level":"debug"}') in fake.api.posted
    assert ("/api/task/t1", '{"do":"cancel"}') in fake.api.posted
    use(page, "Server")
    fake.api.tell("authorization", {"step": "metadata", "detail": {"issuer": "https://login.example"}})
    fake.api.tell(
        "authorization", {"step": "consent", "detail": {}, "url": "https://login.example/authorize?x=1"}
    )
    page.get_by_text("Continue at").wait_for()
    assert page.locator(".walk .reached").count() == 2
    assert page.locator(".walk details.link a").is_hidden()


def test_sampling_and_roots_are_answered_by_hand(fake: Fake, open_page: Open) -> None:
    page = open_page(fake.url)
    use(page, "Questions")

    def ask(question: str, method: str, params: dict[str, Any]) -> None:
        fake.api.state(
            "question", {"question": question, "method": method, "params": params, "state": "open"}
        )

    fake.api.answered = lambda _question, _body: None
    ask(
        "s1",
        "sampling/createMessage",
        {
            "messages": [{"role": "user", "content": {"type": "text", "text": "Say **hi**"}}],
            "maxTokens": 10,
            "systemPrompt": "Be brief",
        },
    )
    page.get_by_label("Text of the answer").fill("hi")
    page.get_by_role("button", name="Answer", exact=True).click()
    fake.api.state("question", {"question": "s1", "state": "answered"})
    ask("r1", "roots/list", {})
    card = page.locator(".card:not(.over)")
    card.get_by_role("button", name="Add item to roots").click()
    field(card, "uri").fill("file:///srv")
    card.get_by_role("button", name="Answer", exact=True).click()
    ask("u1", "elicitation/create", {"mode": "url", "message": "Log in", "url": "https://login.example/x"})
    page.get_by_role("button", name="I agree").wait_for()
    page.get_by_role("button", name="Decline").click()
    until(lambda: any(path == "/api/question/u1" for path, _ in fake.api.posted))
    answers = {path: json.loads(body) for path, body in fake.api.posted if path.startswith("/api/question/")}
    assert answers == {
        "/api/question/s1": {
            "result": {
                "role": "assistant",
                "content": {"type": "text", "text": "hi"},
                "model": "by-hand",
                "stopReason": "endTurn",
            }
        },
        "/api/question/r1": {"result": {"roots": [{"uri": "file:///srv"}]}},
        "/api/question/u1": {"action": "decline"},
    }


def test_everything_is_reached_by_keyboard_alone(fake: Fake, open_page: Open) -> None:
    page = open_page(fake.url)
    keys = page.keyboard
    keys.press("g")
    keys.press("t")
    assert page.evaluate("() => document.activeElement.textContent") == "forecast"
    keys.press("ArrowDown")
    keys.press("ArrowDown")
    keys.press("Enter")
    page.get_by_role("heading", name="book").wait_for()
    keys.type("Da Nino")
    keys.press("Control+Enter")
    page.locator(".card").wait_for()
    for _ in range(12):
        keys.press("Tab")
        if page.evaluate(
            "() => document.activeElement.closest('.card') && document.activeElement.matches('input[inputmode=numeric]')"
        ):
            break
    keys.type("3")
    for _ in range(8):
        keys.press("Tab")
        if page.evaluate("() => document.activeElement.textContent") == "Accept":
            break
    keys.press("Enter")
    done(page)
    assert (
        json.loads(next(body for path, body in fake.api.posted if path.startswith("/api/question/")))[
            "content"
        ]["guests"]
        == 3
    )
    page.locator("body").press("Escape")
    keys.press("g")
    keys.press("w")
    keys.press("Home")
    page.get_by_role("heading", name="#1 server/discover").wait_for()
    keys.press("j")
    page.get_by_role("heading", name="#2 server/discover").wait_for()
    keys.press("[")
    page.wait_for_selector(".stop[aria-current]")
    assert page.locator(".stop[aria-current] .name").inner_text() == DATED[-2]
    keys.press("4")
    assert page.get_by_role("tab", name="Time").get_attribute("aria-selected") == "true"
    keys.press("/")
    keys.type("tools")
    page.wait_for_function(
        "() => document.querySelector('.timeline .bar .number').textContent.includes('of')"
    )
    keys.press("Enter")
    keys.press("ArrowUp")
    assert page.evaluate("() => document.activeElement.getAttribute('role')") == "grid"
    keys.press("?")
    assert page.locator("dialog[open]").is_visible()
    keys.press("Escape")
    keys.press("w")
    assert page.locator(".nav").is_hidden()


def test_results_questions_and_lost_connections_are_said_to_those_who_listen(
    fake: Fake, open_page: Open
) -> None:
    page = open_page(fake.url, quiet=False)
    said = page.locator("#said")
    assert said.get_attribute("aria-live") == "polite"
    field(page, "city").fill("Rome")
    call(page)
    done(page)
    page.wait_for_function(
        "() => document.getElementById('said').textContent.startsWith('forecast: done after')"
    )
    fake.__exit__()
    page.get_by_role("alert").filter(has_text="mcprev dev does not respond").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 800, 1280])
def test_nothing_is_wider_than_the_window(fake: Fake, open_page: Open, width: int, scheme: str) -> None:
    page = open_page(fake.url, width=width, scheme=scheme)
    use(page, "plan")
    assert page.evaluate(
        "() => [document.documentElement.scrollWidth, ...[...document.querySelectorAll('.view-place, .nav, .panel')].map((each) => each.scrollWidth - each.clientWidth)].every((each, index) => index ? each <= 1 : each <= innerWidth)"
    )
    columns = page.evaluate(
        "() => [...document.querySelectorAll('.nav, .use, .wire')].filter((each) => getComputedStyle(each).visibility === 'visible').length"
    )
    assert columns == (1 if width < 700 else 2 if width < 1100 else 3)
    dark = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert dark == ("rgb(21, 23, 27)" if scheme == "dark" else "rgb(250, 249, 246)")
