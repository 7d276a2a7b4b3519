"""Middleware against clients that choose names, ids and params to fill memory, forge records or multiply work."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, Final

import pydantic_core
import pytest
from prometheus_client import generate_latest

import mcprev
from helpers.asgi_bridge import Client
from helpers.named import ROW_D
from helpers.running import run
from mcprev.middleware import Audit, Caching, Logging, Metrics, Retries, SizeLimit, Timing
from mcprev.transforms import ToolCall, resources_as_tools, tools_by_search, transform_tool
from mcprev_types.latest import models as m

NAMES: Final = ("\ud800", 'a"}\nmcp_forged 5', "x" * 10_000, "\x1b[2J\u202e")


class Anything(mcprev.ServerHandler):
    """Serves a tool of every name, as a proxy does."""

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        if params.name.startswith("code"):
            raise mcprev.RpcError(params.name, code=int(params.name[4:]))
        return m.CallToolResult(content=[])

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        return m.ListToolsResult(tools=[])


def test_whatever_tools_are_called_the_numbers_can_be_read_and_each_is_its_own_line() -> None:
    async def test() -> None:
        metrics = Metrics()
        server = mcprev.Server(Anything(), "proxy", "1", middleware=[metrics])
        async with mcprev.connect(server) as client:
            for name in NAMES:
                await client.raw("tools/call", {"name": name, "arguments": {}})
            for code in range(150):
                with pytest.raises(mcprev.RpcError):
                    await client.raw("tools/call", {"name": f"code{code}", "arguments": {}})
        text = generate_latest(metrics.registry).decode()
        assert not any(line.startswith("mcp_forged") for line in text.splitlines())
        assert max(map(len, text.splitlines())) < 1000
        codes = [line for line in text.splitlines() if line.startswith("mcp_refused_requests_total{")]
        assert len(codes) == 101, "100 codes, and all others"
        assert any('code="other"' in line and line.endswith(" 50.0") for line in codes)

    run(test())


def test_a_record_of_a_call_is_short_however_long_its_id_and_name_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        lines: list[str] = []
        server = mcprev.Server(
            Anything(), "proxy", "1",
            middleware=[Logging(), Timing(slow=0), Audit(lambda line: lines.append(json.dumps(line)), params=False)],
        )  # fmt: skip
        client = await Client(server.asgi()).open(ROW_D)
        for name in NAMES:
            params: dict[str, Any] = {"name": name, "arguments": {}}
            assert (await client.request("tools/call", params, f"i\n{name}").done()).status == 200
        assert len(lines) == 2 * len(NAMES)
        assert len(caplog.messages) == 2 * len(NAMES)
        for line in (*lines, *caplog.messages):
            assert len(line) < 2000
            assert line.isprintable()

    with caplog.at_level(logging.INFO, "mcprev.calls"):
        run(test())


class Shop:
    """An app that counts how often it runs."""

    def __init__(self, *middleware: Any) -> None:
        self.runs: list[str] = []
        self.app = mcprev.App("shop", "1", middleware=middleware)

        @self.app.tool
        async def price(item: str) -> str:
            self.runs.append("price")
            return "5"

        @self.app.resource("notes://{+name}", name="notes")
        async def notes(name: str) -> str:
            self.runs.append("notes")
            raise ConnectionError if name == "down" else KeyError(name)


def test_params_count_towards_the_bound_of_a_cache() -> None:
    async def test() -> None:
        caching = Caching(60, tools=["price"], max_bytes=100_000)
        shop = Shop(caching)
        async with mcprev.connect(shop.app) as client:
            for item in ("a" * 40_000, "b" * 40_000, "a" * 40_000, "c" * 40_000, "b" * 40_000, "d" * 200_000):
                await client.call_tool("price", {"item": item})
            assert len(shop.runs) == 5, "two fit"
            await client.call_tool("price", {"item": "d" * 200_000})
            assert len(shop.runs) == 6, "this one does not"
            await client.call_tool("price", {"item": "b" * 40_000})
            assert len(shop.runs) == 6

    run(test())


def test_what_is_public_is_so_by_its_whole_uri() -> None:
    class Texts:
        runs = 0

        async def __call__(self, name: str) -> str:
            self.runs += 1
            return name

    async def test() -> None:
        public, texts = "notes://" + "x" * 248, Texts()
        app = mcprev.App("notes", "1", middleware=[Caching(60, public=[public])])
        app.resource("notes://{+name}", name="notes")(texts.__call__)
        for uri, runs in ((public, 1), (public + "/mine", 2)):
            texts.runs = 0
            for _ in range(2):
                async with mcprev.connect(app) as client:
                    await client.read_resource(uri)
            assert texts.runs == runs

    run(test())


@pytest.mark.parametrize("tool", ["read_resource", "call_tool"])
def test_a_call_within_a_call_is_not_tried_again_for_each_of_both(tool: str) -> None:
    async def test() -> None:
        shop = Shop(Retries(3, backoff=0.0))
        resources_as_tools(shop.app)
        tools_by_search(shop.app)
        arguments = {"uri": "notes://down"}
        async with mcprev.connect(shop.app) as client:
            if tool == "call_tool":
                await client.call_tool(tool, {"name": "read_resource", "arguments": arguments})
            else:
                await client.call_tool(tool, arguments)
            assert shop.runs == ["notes"] * 3
            await asyncio.gather(*(client.call_tool("read_resource", arguments) for _ in range(2)))
        assert shop.runs == ["notes"] * 9, "another call is tried as often"

    run(test())


def test_calls_after_one_another_are_each_tried_again() -> None:
    async def test() -> None:
        runs: list[str] = []
        inner, outer = mcprev.App("in", "1", middleware=[Retries(2, backoff=0.0)]), mcprev.App("out", "1")

        @inner.tool(annotations=m.ToolAnnotations(read_only_hint=True))
        async def reads() -> str:
            runs.append("reads")
            if len(runs) % 2:
                raise ConnectionError
            return "fine"

        async def twice(call: ToolCall) -> str:
            await call()
            await call()
            return "fine"

        outer.mount(inner)
        transform_tool(outer, "reads", wrap=twice)
        async with mcprev.connect(outer) as client:
            assert (await client.call_tool("reads")).text == "fine"
        assert len(runs) == 4

    run(test())


@pytest.mark.parametrize("truncate", [False, True])
@pytest.mark.parametrize("length", [400, 401, 10_000])
def test_the_text_of_a_failure_is_bounded_as_a_result_is(length: int, truncate: bool) -> None:
    text = "x" * length
    limit = 400 + len('{"content":[{"type":"text","text":""}],"isError":true}')
    app = mcprev.App("fails", "1", middleware=[SizeLimit(limit, truncate=truncate)])

    @app.tool
    async def fails() -> str:
        raise mcprev.ToolError(text)

    async def test() -> None:
        async with mcprev.connect(app) as client:
            found = await client.call_tool("fails")
        assert found.is_error
        if length == 400:
            assert found.text == text
        elif truncate:
            assert found.text.startswith("xxx")
            assert "[shortened: the result had" in found.text
            assert len(found.text) <= 400
        else:
            assert f"more than the {limit} that are allowed" in found.text

    run(test())


def test_a_question_that_is_too_large_is_an_error_that_says_so() -> None:
    app = mcprev.App("asks", "1", middleware=[SizeLimit(300, truncate=True)])

    @app.tool
    async def asks() -> m.InputRequiredResult:
        return m.InputRequiredResult(request_state="x" * 400)

    async def test() -> None:
        async with mcprev.connect(app) as client:
            found = await client.raw("tools/call", {"name": "asks", "arguments": {}})
            assert "more than the 300 that are allowed" in found["content"][0]["text"]

    run(test())


def test_the_steps_of_shortening_a_result_grow_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have any number of small blocks, as what a proxy passes on."""
    written = 0

    def to_json(value: Any, **options: Any) -> bytes:
        nonlocal written
        found = pydantic_core.to_json(value, **options)
        written += len(found)
        return found

    monkeypatch.setattr("mcprev.wire.text.to_json", to_json)

    async def cost(count: int) -> int:
        nonlocal written
        app = mcprev.App("a", "1", middleware=[SizeLimit(1_000, truncate=True)])
        app.tool(lambda: [m.TextContent(text="a short text")] * count, name="t")
        async with mcprev.connect(app) as client:
            written = 0
            assert (await client.call_tool("t", {})).is_error
            return written

    async def main() -> None:
        assert await cost(400) < 2.2 * await cost(200)

    run(main())
