"""No text of a peer writes control sequences, lines of its own or another order of characters into a log or an error."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from typing import Any, Final

import aiohttp
import pytest

import mcprev
from helpers.http_in_process import InProcess
from helpers.named import NAMED, D
from helpers.raw_server import Exchange, serve
from helpers.requirements import req
from helpers.running import run

EVIL: Final = "\x1b[2J\x1b]0;title\x07\r\nforged\u202e\u2028\x9b31m"
CAPABILITIES: Final = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}}
LISTED: Final = {"name": EVIL, "inputSchema": {"properties": {"a": {"type": "string", "x-mcp-header": EVIL}}}}


def assert_clean(caplog: pytest.LogCaptureFixture, *failures: str) -> None:
    found = [record for record in caplog.records if record.name.startswith("mcprev")]
    strange = [record for record in found if not record.getMessage().isprintable()]
    assert not [(record.name, record.lineno, record.getMessage()[:200]) for record in strange]
    assert "forged" in " ".join([*failures, *(record.getMessage() for record in found)])


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("mode", [D, NAMED[4]])
@pytest.mark.parametrize("how", ["opens", "refuses", "breaks"])
def test_no_log_and_no_error_of_a_client_shows_what_a_server_writes_as_it_is(
    mode: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[str] = []

    async def answer(exchange: Exchange) -> None:
        method = exchange.method if exchange.verb == "POST" else ""
        if how == "opens" and method in {"initialize", "server/discover"}:
            info = {"name": EVIL, "version": EVIL}
            found: dict[str, Any] = {"capabilities": CAPABILITIES, "serverInfo": info, "instructions": EVIL}
            found |= {"protocolVersion": mode} if method == "initialize" else {"supportedVersions": [mode]}
            await exchange.result({**found, "resultType": "complete"}, {"Mcp-Session-Id": "one"})
        elif method == "tools/list":
            await exchange.result({"tools": [LISTED], "resultType": "complete"})
        elif method and exchange.message.get("id") is not None and how != "breaks":
            await exchange.error(-32000, message=EVIL, data=EVIL)
        else:
            await exchange.raw(
                b"HTTP/1.1 500 a\x9b b\r\ncontent-length: 300\r\n\r\n" + EVIL.encode().ljust(300)
            )

    async def main() -> None:
        async with serve(answer) as at:
            try:
                async with mcprev.connect(mcprev.http(at.url), revisions=[mode], validate="off") as client:
                    with suppress(mcprev.McpError):
                        await client.call_tool("any", {})
                    with suppress(mcprev.McpError):
                        _ = [tool async for tool in client.tools()]
            except mcprev.McpError as error:
                failures.append(str(error))

    with caplog.at_level(logging.DEBUG, logger="mcprev"):
        run(main())
    assert bool(failures) is (how != "opens")
    assert "".join(failures).replace("\n", "").isprintable()
    assert_clean(caplog, *failures)


@req("SEC-6", everywhere=True)
def test_no_log_of_a_server_shows_what_a_client_writes_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    app = mcprev.App("a", "1")

    @app.tool
    async def fails() -> str:
        raise mcprev.ToolError(EVIL)

    messages: list[dict[str, Any]] = [
        {"method": EVIL, "id": EVIL},
        {"method": f"notifications/{EVIL}"},
        {"method": "notifications/cancelled", "params": {"requestId": EVIL, "reason": EVIL}},
        {"method": "tools/call", "id": EVIL, "params": {"name": EVIL}},
        {"method": "tools/call", "id": EVIL, "params": {"name": "fails", "arguments": {EVIL: EVIL}}},
        {"method": "tools/call", "id": EVIL, "params": {"name": "fails"}},
        {"method": "resources/read", "id": EVIL, "params": {"uri": EVIL}},
        {"method": "logging/setLevel", "id": EVIL, "params": {"level": EVIL}},
        {"id": EVIL, "result": {EVIL: EVIL}},
        {"id": 7, "error": {"code": 1, "message": EVIL, "data": EVIL}},
        {EVIL: EVIL},
    ]
    opening = {"protocolVersion": D, "capabilities": {EVIL: {EVIL: EVIL}}, "clientInfo": {"name": EVIL, "version": EVIL}}  # fmt: skip

    async def main() -> None:
        async with aiohttp.ClientSession(connector=InProcess(app.server.asgi())) as session:
            headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}

            async def post(message: dict[str, Any]) -> None:
                data = json.dumps({"jsonrpc": "2.0", **message})
                async with session.post("http://localhost/mcp", data=data, headers=headers) as response:
                    await response.read()
                    headers["Mcp-Session-Id"] = response.headers.get(
                        "Mcp-Session-Id", headers.get("Mcp-Session-Id", "")
                    )

            await post({"method": "initialize", "id": 1, "params": opening})
            headers["MCP-Protocol-Version"] = D
            await post({"method": "notifications/initialized"})
            for message in messages:
                await post(message)

    with caplog.at_level(logging.DEBUG, logger="mcprev"):
        run(main())
    assert_clean(caplog)
