"""`mcprev dev` and a process that attacks its page: every text is 10 MB long, or 1 MB in a list, or nests 10,000 deep, or ends nowhere.

The process is a real one, over stdio, so that what the command itself makes of such messages is tried too; `test_page_hostile.py`
has texts that would run. After each attack a plain tool is called: nothing hangs, and the page stays usable.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from browser.conftest import Open
from browser.test_dev_page import dev
from browser.test_page_flows import done, use
from helpers.named import D

if TYPE_CHECKING:
    from playwright.sync_api import Page

SERVER: Final = """
import json, sys

out = sys.stdout.buffer
KIND, REVISION = sys.argv[1:]
LONG = "<script>window.hit=1</script>\\u202e<b>" * 270_000  # 10 MB
DEEP = b'{"a":' * 10_000 + b"1" + b"}" * 10_000
LONG_BYTES = json.dumps(LONG, ensure_ascii=False).encode()
LISTED = json.dumps(LONG[:1_000_000], ensure_ascii=False).encode()  # all of them together are a list that is read
EVIL = LONG_BYTES if KIND == "long" else DEEP
PLAIN = {"name": "plain", "inputSchema": {"type": "object"}}

def say(data):
    out.write(data if isinstance(data, bytes) else json.dumps(data).encode())
    out.write(b"\\n")
    out.flush()

def answer(i, result):
    say(b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(i).encode(), result if isinstance(result, bytes) else json.dumps(result).encode()))

def note(method, params):
    say(b'{"jsonrpc":"2.0","method":"%s","params":%s}' % (method.encode(), params))

def pages(member, items, message):
    at = int((message.get("params") or {}).get("cursor") or 0)
    more = b',"nextCursor":"%d"' % (at + 1) if at + 1 < len(items) else b""
    answer(message["id"], b'{"%s":[%s]%s}' % (member.encode(), items[at], more))

def nested(depth):
    return b'{"type":"object","properties":{"a":' * depth + b'{"type":"string"}' + b"}}" * depth

TOOLS = [json.dumps(PLAIN).encode()] + [
    b'{"name":"%s","inputSchema":{"type":"object"}}' % name for name in (b"result", b"data", b"error", b"log", b"progress", b"ask", b"stderr", b"sample")
]
if KIND == "long":
    TOOLS += [
        b'{"name":%s,"inputSchema":{"type":"object"}}' % LISTED,
        b'{"name":"described","description":%s,"inputSchema":{"type":"object"}}' % LISTED,
        b'{"name":"titled","title":%s,"inputSchema":{"type":"object"}}' % LISTED,
        b'{"name":"icon","icons":[{"src":%s}],"inputSchema":{"type":"object"}}' % LISTED,
        b'{"name":"schema","inputSchema":{"type":"object","properties":{%s:{"type":"string"}}}}' % LONG_BYTES,
    ]
else:
    TOOLS += [b'{"name":"schema","inputSchema":%s}' % nested(60), b'{"name":"recursive","inputSchema":{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}}']
RESOURCES = [b'{"uri":"memo://a","name":"a"}', b'{"uri":%s,"name":"b"}' % LISTED]
asked = 0

for line in sys.stdin.buffer:
    message = json.loads(line)
    method, i = message.get("method"), message.get("id")
    name = (message.get("params") or {}).get("name")
    if method == "initialize":
        info = b'{"name":"attacker","version":"1"%s}' % (b',"title":%s' % LONG_BYTES if KIND == "long" else b"")
        answer(i, b'{"protocolVersion":"%s","capabilities":{"tools":{},"resources":{},"logging":{},"prompts":{}},"serverInfo":%s}' % (REVISION.encode(), info))
    elif method == "tools/list":
        pages("tools", TOOLS, message)
    elif method == "resources/list":
        pages("resources", RESOURCES, message)
    elif method == "resources/read":
        answer(i, b'{"contents":[{"uri":%s,"text":%s}]}' % (json.dumps(message["params"]["uri"]).encode(), LONG_BYTES))
    elif method == "resources/templates/list":
        answer(i, {"resourceTemplates": []})
    elif method == "prompts/list":
        answer(i, b'{"prompts":[{"name":"p","description":%s}]}' % LISTED)
    elif method == "tools/call":
        text = b'{"content":[{"type":"text","text":"well"}]}'
        if name == "result":
            answer(i, b'{"content":[{"type":"text","text":%s}]}' % EVIL if KIND == "long" else b'{"content":[],"structuredContent":%s}' % DEEP)
            continue
        if name == "data":
            answer(i, b'{"content":[],"structuredContent":{"a":%s,%s:1}}' % (EVIL if KIND == "long" else b"1", b'"b"' if KIND == "long" else LONG_BYTES))
            continue
        if name == "error":
            say(b'{"jsonrpc":"2.0","id":%d,"error":{"code":1,"message":%s,"data":%s}}' % (i, LONG_BYTES if KIND == "long" else b'"deep"', b"null" if KIND == "long" else DEEP))
            continue
        if name == "log":
            for _ in range(3):
                note("notifications/message", b'{"level":"error","logger":%s,"data":%s}' % (b'"x"', EVIL))
        if name == "progress":
            token = json.dumps(message["params"]["_meta"]["progressToken"]).encode()
            note("notifications/progress", b'{"progressToken":%s,"progress":1,"total":2,"message":%s}' % (token, LONG_BYTES if KIND == "long" else DEEP))
        if name == "stderr":
            sys.stderr.write(LONG)
            sys.stderr.flush()
        if name in ("ask", "sample"):
            asked = i
            ask = b'"method":"elicitation/create","params":{"message":%s,"requestedSchema":{"type":"object","properties":{}}}' % LONG_BYTES
            if name == "sample":
                ask = b'"method":"sampling/createMessage","params":{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":%s}}]}' % LONG_BYTES
            say(b'{"jsonrpc":"2.0","id":"q%d",%s}' % (i, ask))
            continue
        answer(i, text)
    elif method is None:
        answer(asked, {"content": [{"type": "text", "text": "answered"}]})
    elif i is not None:
        say({"jsonrpc": "2.0", "id": i, "error": {"code": -32601, "message": "none"}})
"""
"""A server of the newest revision with sessions; its first tool is a plain one."""
READ: Final = """async () => {
  const { state } = await import("/page/store.js");
  return ["tools", "resources", "templates", "prompts"].every((kind) => ["ready", "failed"].includes(state.lists[kind]?.state));
}"""
"""Whether all lists were read."""
COPIED: Final = """() => Math.max(location.href.length,
  ...[...document.querySelectorAll(".nav .item")].flatMap((item) => [...item.attributes].map(({ value }) => value.length)))"""
"""The length of the longest text that is copied whenever the list is drawn: each view took half a second with names of 10 MB."""
SLOW: Final = 60_000
"""Milliseconds that a single step may take on a busy machine; each takes well below a second on an idle one."""


@contextmanager
def attacked(open_page: Open, folder: Path, kind: str, width: int) -> Iterator[Page]:
    file = folder / "attacker.py"
    file.write_text(SERVER, encoding="utf-8")
    with dev("--", sys.executable, str(file), kind, D) as url:
        page = open_page(url, width=width, quiet=False)
        page.set_default_timeout(SLOW)
        page.locator('[data-key="fold prompts"]').wait_for(state="attached")
        use(page, "plain")
        yield page
        page.close()


def run(page: Page, button: str = "Call") -> None:
    page.locator(".calling").get_by_role("button", name=button, exact=True).click()


def usable(page: Page) -> None:
    """Nothing ran, the page is as wide as its window, and a plain call works."""
    assert page.evaluate("() => window.hit") is None
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    begun = time.monotonic()
    use(page, "plain")
    run(page)
    done(page)
    page.locator(".view-place .result").get_by_text("well").wait_for()
    assert time.monotonic() - begun < SLOW / 1000


def over(page: Page) -> None:
    page.locator(".live > .state").and_(page.locator(".s-done, .s-failed")).wait_for()


@pytest.mark.parametrize(("kind", "width"), [("long", 1280), ("deep", 390)])
def test_no_answer_of_an_attacker_hangs_the_page(
    open_page: Open, tmp_path: Path, kind: str, width: int
) -> None:
    with attacked(open_page, tmp_path, kind, width) as page:
        for tool in ("result", "data", "error", "log", "progress", "stderr"):
            use(page, tool)
            run(page)
            over(page)
            for words in ("Data", "Raw"):
                button = page.locator(".view-place .result").get_by_role("button", name=words, exact=True)
                if button.count() > 0:
                    button.click()
            usable(page)
        for tool in ("ask", "sample"):
            use(page, tool)
            run(page)
            card = page.locator(".view-place .live .card:not(.over)")
            card.wait_for()
            card.get_by_role("button", name="Decline" if tool == "ask" else "Refuse").click()
            done(page)
            usable(page)


@pytest.mark.parametrize(("kind", "width"), [("long", 1280), ("deep", 390)])
def test_no_entry_of_a_list_hangs_the_page(open_page: Open, tmp_path: Path, kind: str, width: int) -> None:
    with attacked(open_page, tmp_path, kind, width) as page:
        entries = page.locator(".nav .item")
        end = time.monotonic() + 2 * SLOW / 1000
        while not page.evaluate(READ):
            assert time.monotonic() < end
            page.wait_for_timeout(50)
        count = entries.count()
        assert count == {"long": 13, "deep": 11}[kind] + 2 + 1 + 4  # tools, resources, the prompt, the views
        if kind == "long":  # its last page is larger than a list may be, and the list says so
            page.locator(".nav .error").wait_for(state="attached")
        for index in range(9, count):
            back = page.get_by_role("button", name="‹ All")
            if back.is_visible():
                back.click()
            entries.nth(index).click()
            page.locator(".view-place .view").wait_for()
            assert page.evaluate("() => document.querySelector('.view-place').textContent.length") < 2_000_000
            assert page.evaluate(COPIED) < 10_000
        usable(page)
        use(page, "memo://a" if page.locator(".nav .item", has_text="memo://a").count() else "a")
        usable(page)


@pytest.mark.parametrize(("kind", "width"), [("long", 1280), ("deep", 390)])
def test_each_message_of_an_attacker_is_shown_on_the_wire(
    open_page: Open, tmp_path: Path, kind: str, width: int
) -> None:
    with attacked(open_page, tmp_path, kind, width) as page:
        for tool in ("result", "error", "log"):
            use(page, tool)
            run(page)
            over(page)
        if width < 700:
            page.locator("#part-wire").click()
        grid = page.get_by_role("grid", name="Messages on the wire")
        for number in range(int(grid.get_attribute("aria-rowcount") or 0)):
            page.evaluate("async (n) => (await import('/page/store.js')).select(n)", number + 1)
            page.locator(".detail-head", has_text=f"#{number + 1} ").wait_for()
            for tab in ("Revisions", "Time", "Message"):
                page.evaluate("(name) => document.getElementById(`tab-${name}`).click()", tab.lower())
            assert page.evaluate("() => document.querySelector('.panel').textContent.length") < 2_000_000
        if width < 700:
            page.locator("#part-wire").click()
        page.locator("#filter").fill("window.hit" if kind == "long" else '"a":')
        page.wait_for_function("() => / of /.test(document.querySelector('.timeline .number').textContent)")
        page.locator("#filter").fill("")
        if width < 700:
            page.locator("#part-use").click()
        usable(page)
