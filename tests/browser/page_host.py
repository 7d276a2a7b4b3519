"""A small host of pages: it shows a page of an app in a frame of another origin, and speaks to it by `postMessage`.

All of it is answered by the test, which also keeps the address of every other request: nothing may be asked.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import mcprev
from mcprev.extensions import ui

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FrameLocator, Page, Route

HOST: Final = "https://host.example/"
SANDBOX: Final = "https://sandbox.example/"
DOCUMENT: Final = f"""<!doctype html>
<title>Host</title>
<iframe id="page" src="{SANDBOX}" width="800" height="500"></iframe>
<script>
  const frame = document.getElementById("page");
  const heard = [], strange = [];
  const answers = {{
    "ui/initialize": async ({{ protocolVersion }}) => ({{
      protocolVersion, hostInfo: {{ name: "host", version: "1" }}, hostCapabilities: {{ serverTools: {{}} }}, hostContext: {{}},
    }}),
    "tools/call": async (params) =>
      (await fetch("/call", {{ method: "POST", body: JSON.stringify(params) }})).json(),
  }};
  const tell = (message) => frame.contentWindow.postMessage({{ jsonrpc: "2.0", ...message }}, "*");
  const initialized = new Promise((done) => addEventListener("message", async ({{ source, data }}) => {{
    if (source !== frame.contentWindow) return strange.push(data);
    heard.push(data);
    if (data.method === "ui/notifications/initialized") done();
    if (data.method in answers) tell({{ id: data.id, result: await answers[data.method](data.params) }});
  }}));
</script>
"""


class PageHost:
    """The host, with one page that is shown in it."""

    def __init__(self, app: mcprev.App, page: Page) -> None:
        self.app, self.page = app, page
        self.asked: list[str] = []
        """The addresses of requests that the page made, and that were not answered."""

    @property
    def shown(self) -> FrameLocator:
        """What the page shows."""
        return self.page.frame_locator("#page")

    @property
    def heard(self) -> list[Any]:
        """The messages of the page."""
        found: list[Any] = self.page.evaluate("() => heard")
        return found

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification to the page."""
        self.page.evaluate("(message) => tell(message)", {"method": method, "params": params})

    def give(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Call a tool as a host does for the model, and tell the page its arguments and the result."""
        self.tell("ui/notifications/tool-input", {"arguments": arguments})
        self.tell("ui/notifications/tool-result", called(self.app, name, arguments, ui.for_model))


def called(app: mcprev.App, name: str, arguments: Mapping[str, Any], allowed: Any) -> dict[str, Any]:
    """The result of a tool for the model or for a page, each of which has its own tools."""

    async def call() -> dict[str, Any]:
        async with mcprev.connect(app, extensions=[ui.HOST]) as client:
            assert name in {tool.name for tool in allowed([tool async for tool in client.tools()])}
            return await client.raw("tools/call", {"name": name, "arguments": dict(arguments)})

    result: dict[str, Any] = alone(call)
    return result


def alone(function: Any) -> Any:
    """The result of a coroutine in a loop and thread of its own: playwright has a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, function()).result()


@contextmanager
def hosted(
    browser: Browser,
    app: mcprev.App,
    uri: str,
    *,
    allowed: str = "allow-scripts allow-same-origin",
    policy: bool = True,
) -> Iterator[PageHost]:
    """Show a page in a frame with this attribute `sandbox`; without `policy` the host has none of its own."""

    async def read() -> ui.Page:
        async with mcprev.connect(app, extensions=[ui.HOST]) as client:
            return await ui.read_page(client, uri)

    source = alone(read)
    headers = {"Content-Type": "text/html; charset=utf-8"}
    framed = headers | {"Content-Security-Policy": source.csp.policy()} if policy else headers

    def serve(route: Route) -> None:
        match route.request.url.removeprefix(HOST):
            case "":
                route.fulfill(
                    body=DOCUMENT.replace("<iframe", f'<iframe sandbox="{allowed}"'), headers=headers
                )
            case "call":
                said = json.loads(route.request.post_data or "")
                route.fulfill(json=called(app, said["name"], said["arguments"], ui.for_app))
            case url if url == SANDBOX:
                route.fulfill(body=source.html, headers=framed)
            case url:
                host.asked.append(url)
                route.abort()

    context = browser.new_context()
    context.set_default_timeout(30_000)  # a page of 7 MB is read
    host = PageHost(app, context.new_page())
    context.route("**/*", serve)
    try:
        host.page.goto(HOST)
        host.page.evaluate("() => initialized")
        yield host
    finally:
        context.close()
