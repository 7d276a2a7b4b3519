"""A server that attacks the page: every text of it is HTML, script, an address that runs, an escape, or far too much.

Nothing may run, hang, ask another host or leave its place; and the page stays usable.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

from browser.conftest import Open
from browser.fake import DATED, OWN, Fake

if TYPE_CHECKING:
    from playwright.sync_api import Page

EVIL: Final = [
    "<script>window.hit=1;alert(1)</script>",
    '<img src=x onerror="window.hit=1;alert(1)">',
    "javascript:window.hit=1//",
    "[click](javascript:alert(1)) ![x](https://evil.example/x.png) <https://evil.example>",
    "\x1b[31m\x1b]8;;https://evil.example\x07red\x1b[0m",
    "\u202egnp.exe\u2066 \u200b\u2028",
    "{{constructor.constructor('alert(1)')()}} ${alert(1)}",
    "\"'><svg onload=alert(1)>",
    "__proto__",
    "a" * 2_000 + "\n" * 2_000,
]  # fmt: skip
DEEP: Final = '{"a":' * 10_000 + "1" + "}" * 10_000


def evil_schema() -> dict[str, Any]:
    properties: dict[str, Any] = {
        text: {"type": "string", "title": text, "description": text, "default": text, "enum": [text, "<b>"]}
        for text in EVIL
    }
    properties["constructor"] = {"$ref": "#/$defs/constructor"}
    properties["loop"] = {"$ref": "#/properties/loop"}
    properties["many"] = {"enum": [str(each) for each in range(50_000)]}
    properties["odd"] = {
        "type": 5,
        "properties": None,
        "required": "x",
        "items": [],
        "anyOf": {"a": 1},
        "enum": None,
        "allOf": [None, 1],
    }
    return {"type": "object", "properties": properties, "required": [*EVIL, None, 3], "description": EVIL[0]}


@pytest.fixture
def hostile() -> Iterator[Fake]:
    made = Fake()
    with made as api:
        api.target = {
            "label": EVIL[0], "state": "connected", "revision": OWN, "revisions": DATED, "transport": EVIL[1], "instructions": "\n\n".join(EVIL),
            "server_info": {"name": EVIL[1], "title": EVIL[0], "version": EVIL[5], "websiteUrl": EVIL[2], "description": EVIL[4], "icons": [{"src": "https://evil.example/i.svg"}]},
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, EVIL[0]: {}}, "server_revisions": EVIL,
        }  # fmt: skip
        items = [
            {
                "name": text,
                "title": text,
                "description": text,
                "inputSchema": evil_schema(),
                "annotations": {"title": text},
                "execution": {"taskSupport": text},
            }
            for text in EVIL
        ]
        api.list("tools", items)
        api.list(
            "resources", [{"uri": text, "name": text, "mimeType": text, "description": text} for text in EVIL]
        )
        api.list("templates", [{"uriTemplate": f"{{{text}}}", "name": text} for text in EVIL])
        api.list(
            "prompts",
            [
                {"name": text, "arguments": [{"name": text, "description": text, "required": True}]}
                for text in EVIL
            ],
        )
        api.revisions = lambda _n: [
            {
                "revision": each,
                "outcome": EVIL[0] if each == DATED[0] else "lost",
                "lost": 1,
                "counterpart": EVIL[1],
            }
            for each in DATED
        ]
        api.revision = lambda n, _revision: {
            "text": api.texts[n][:1000], "problems": [{"path": text, "text": text} for text in EVIL], "counterpart": EVIL[0],
            "changes": [{"step": text, "rule": text, "sentence": text, "path": text, "what": text, "old": text, "new": {"a": text}} for text in EVIL],
            "refusal": {"rule": EVIL[0], "sentence": EVIL[1], "path": EVIL[2], "text": EVIL[3]},
        }  # fmt: skip
        content: list[Any] = [
            *({"type": "text", "text": text} for text in EVIL),
            {"type": "image", "mimeType": "image/svg+xml", "data": base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(1)</script></svg>").decode()},
            {"type": "image", "mimeType": "image/png", "data": base64.b64encode(b"<script>alert(1)</script>").decode()},
            {"type": "image", "mimeType": "text/html", "data": base64.b64encode(b"<script>alert(1)</script>").decode()},
            {"type": "audio", "mimeType": EVIL[0], "data": "%%%"},
            {"type": "resource", "resource": {"uri": EVIL[2], "mimeType": "text/html", "text": EVIL[0]}},
            {"type": "resource_link", "uri": EVIL[2], "name": EVIL[0], "title": EVIL[1], "description": EVIL[3]},
            {"type": EVIL[0], EVIL[1]: EVIL[2]}, {"type": None}, 5, None, [],
        ]  # fmt: skip
        result = json.dumps(
            {
                "content": content,
                "structuredContent": {text: text for text in EVIL},
                "_meta": {EVIL[0]: EVIL[1]},
            }
        )

        def called(call: str, body: dict[str, Any]) -> None:
            n = api.wire(
                "out", {"jsonrpc": "2.0", "id": EVIL[0], "method": body["method"]}, label=EVIL[1], call=call
            )
            api.wire(
                "in",
                {"jsonrpc": "2.0", "method": EVIL[0], "params": {}},
                label=EVIL[0],
                event_id=EVIL[0],
                event_name=EVIL[1],
                call=call,
            )
            last = api.wire(
                "in",
                f'{{"jsonrpc":"2.0","id":1,"result":{result}}}',
                answers=n,
                call=call,
                label=EVIL[4],
                problems=3,
            )
            headers = [[text.replace("\n", " ")[:200], text[:200]] for text in EVIL]
            api.details[last] = {
                "problems": [{"path": text, "text": text} for text in EVIL], "type": EVIL[0],
                "exchange": {"n": 1, "verb": EVIL[0], "url": EVIL[2], "status": 200, "reason": EVIL[1], "request_headers": headers, "response_headers": headers},
            }  # fmt: skip
            api.state(
                "call",
                {
                    "call": call,
                    "state": "done",
                    "result": result,
                    "last": last,
                    "ended": api.now(),
                    "progress": {"progress": 1, "total": -1, "message": EVIL[0]},
                },
            )

        api.called = called
        for text in EVIL:
            api.log(level=text, logger=text, data={text: text})
        api.state("task", {"task": EVIL[0], "status": EVIL[1], "message": EVIL[2], "created": EVIL[3]})
        api.authorization.extend(
            {"step": step, "detail": {text: text for text in EVIL}, "url": EVIL[2]}
            for step in ("metadata", "registration", "consent", "tokens", "failed", EVIL[0])
        )
        api.state(
            "question",
            {
                "question": "q1",
                "method": "elicitation/create",
                "params": {"message": EVIL[0], "requestedSchema": evil_schema()},
                "state": "open",
            },
        )
        api.state(
            "question",
            {
                "question": "q2",
                "method": "elicitation/create",
                "params": {"mode": "url", "message": EVIL[1], "url": EVIL[2]},
                "state": "open",
            },
        )
        api.state(
            "question",
            {
                "question": "q3",
                "method": "sampling/createMessage",
                "params": {
                    "messages": [{"role": EVIL[0], "content": content}],
                    "systemPrompt": EVIL[1],
                    "maxTokens": EVIL[2],
                },
                "state": "open",
            },
        )
        api.state(
            "question", {"question": "q4", "method": EVIL[0], "params": {EVIL[1]: EVIL[2]}, "state": "open"}
        )
        yield made


def harmless(page: Page) -> None:
    """Nothing ran, and the page has only elements that it makes itself."""
    assert page.evaluate("() => window.hit") is None
    assert page.evaluate("() => ({}).polluted") is None
    names = set(
        page.evaluate("() => [...new Set([...document.querySelectorAll('*')].map((each) => each.localName))]")
    )
    assert not names & {"iframe", "object", "embed", "base", "foreignobject", "template", "use"}
    assert page.evaluate("() => document.querySelectorAll('script').length") == 1
    addresses = page.evaluate("() => [...document.querySelectorAll('a[href]')].map((each) => each.protocol)")
    assert set(addresses) <= {"http:", "https:"}
    sources = page.evaluate("() => [...document.querySelectorAll('img, audio')].map((each) => each.src)")
    assert all(source.startswith("blob:") for source in sources)
    assert page.evaluate(
        "() => [...document.querySelectorAll('*')].every((each) => [...each.attributes].every(({ name }) => !name.startsWith('on')))"
    )


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_of_a_hostile_server_runs_and_the_page_stays_usable(
    hostile: Fake, open_page: Open, width: int
) -> None:
    page = open_page(hostile.url, width=width, quiet=False)
    for fold in ("resources", "templates", "prompts"):
        if page.locator(f'[data-key="fold {fold}"][aria-expanded=false]').count():
            page.locator(f'[data-key="fold {fold}"]').click()
    items = page.locator(".nav .item")
    assert items.count() == 4 * len(EVIL) + 4
    for index in [*range(0, items.count() - 4, 3), *range(items.count() - 4, items.count())]:
        if page.get_by_role("button", name="‹ All").is_visible():
            page.get_by_role("button", name="‹ All").click()
        items.nth(index).click()
        harmless(page)
    if width < 700:
        page.get_by_role("button", name="‹ All").click()
    items.first.click()
    page.locator("button.go").click()
    page.wait_for_selector(".state.s-done")
    for words in ("Data", "Raw", "Result"):
        page.locator(".view-place .result").get_by_role("button", name=words, exact=True).click()
        harmless(page)
    for words in ("Markdown", "Text"):
        for each in (
            page.locator(".view-place .result").get_by_role("button", name=words, exact=True).all()[:6]
        ):
            each.click()
    harmless(page)
    if width < 700:
        page.locator("#part-revisions").click()
    for tab in ("Revisions", "HTTP", "Time", "Message"):
        page.locator(".detail").get_by_role("tab", name=tab).click()
        harmless(page)
    page.locator(".stop").first.click()
    page.wait_for_selector(".refusal")
    harmless(page)


def test_a_message_of_ten_megabytes_is_shown_cut_and_the_page_goes_on(hostile: Fake, open_page: Open) -> None:
    page = open_page(hostile.url, quiet=False)
    n = hostile.api.wire(
        "in",
        json.dumps(
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "\u202e<b>" * 2_500_000}}
        ),
    )
    page.wait_for_function(
        "(n) => document.querySelector('.timeline .row:last-child .c-n')?.textContent === String(n)", arg=n
    )
    took = page.evaluate("""async () => {
          const start = performance.now();
          document.querySelector('.timeline .row:last-child').click();
          while (!document.querySelector('.panel .json .more')) await new Promise((resolve) => setTimeout(resolve, 10));
          return performance.now() - start;
        }""")
    assert took < 8_000
    assert page.evaluate("() => document.querySelector('.panel').textContent.length") < 60_000
    page.locator(".panel .json .more").first.click()
    assert page.evaluate("() => document.querySelector('.panel').textContent.length") > 150_000
    harmless(page)


def test_a_message_ten_thousand_deep_and_one_that_is_no_json_are_shown(
    hostile: Fake, open_page: Open
) -> None:
    page = open_page(hostile.url, quiet=False)
    deep = hostile.api.wire("in", DEEP)
    broken = hostile.api.wire("in", '{"jsonrpc": "2.0", <script>alert(1)</script>', kind="invalid")
    for n, words in ((deep, '"a"'), (broken, "<script>alert(1)</script>")):
        page.wait_for_function(
            "(n) => [...document.querySelectorAll('.timeline .row .c-n')].some((each) => each.textContent === String(n))",
            arg=n,
        )
        page.locator(".timeline .row", has=page.locator(".c-n", has_text=str(n))).last.click()
        page.locator(".panel .json").wait_for()
        assert words in page.locator(".panel .json").inner_text()
        harmless(page)


def test_ten_thousand_tools_of_long_names_are_listed_and_found(hostile: Fake, open_page: Open) -> None:
    page = open_page(hostile.url, quiet=False)
    tools: list[dict[str, Any]] = [
        {"name": f"tool{each}" + "x" * 500, "inputSchema": {}} for each in range(10_000)
    ]
    hostile.api.list("tools", tools)
    page.get_by_role("button", name="Show all 10000").wait_for()
    page.locator("#find").fill("tool9999")
    page.wait_for_function("() => document.querySelectorAll('.nav section .item').length === 1")
    page.locator(".nav section .item").click()
    page.get_by_role("heading", name="tool9999").wait_for()
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
