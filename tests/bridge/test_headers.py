"""What a bridge over HTTP refuses with a status of its own: calls whose headers differ from the body, unknown methods."""

from __future__ import annotations

import json
from typing import Any, Final

import aiohttp
import pytest

import mcprev
from api.wire import CLIENT_CAPABILITIES, VERSION, Error, HandServer, Message
from bridge.hands import Servers, bridge_to, text
from helpers.http_in_process import InProcess
from helpers.requirements import E, req
from helpers.running import run
from mcprev.errors import HEADER_MISMATCH
from mcprev.revisions import DEFAULT, Revision

MODERN: Final = DEFAULT[-1]
SCHEMA: Final[Message] = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
}


class Changing(HandServer):
    """A server whose tool gets the header when it is told to, without saying so."""

    marked = True
    lists = 0

    def list_tools(self, _: Message) -> Message | Error:
        self.lists += 1
        schema = SCHEMA if self.marked else {"type": "object"}
        return {"tools": [{"name": "where", "inputSchema": schema}]}


def servers_of(there: Revision) -> Servers:
    def make() -> Changing:
        made = Changing(there, {"tools/call": text("done")})
        made.replies["tools/list"] = made.list_tools
        return made

    return Servers(make)


async def post(session: aiohttp.ClientSession, url: str, method: str, params: Message, **more: str) -> Any:
    """The status of a request and its error code, if it has one."""
    meta: Message = {VERSION: MODERN.version, CLIENT_CAPABILITIES: {}}
    body: Message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": MODERN.version,
        "Mcp-Method": method,
        **({"Mcp-Name": params["name"]} if "name" in params else {}),
        **more,
    }
    async with session.post(url, data=json.dumps(body), headers=headers) as response:
        found = (await response.text()).removeprefix("event: message\n").strip()
        answer = json.loads(found.removeprefix("data: "))
        return response.status, answer.get("error", {}).get("code")


@req("HDR-8", "HDR-6", "SEAM-10", at=E)
@pytest.mark.parametrize("there", DEFAULT, ids=lambda row: row.name)
def test_the_headers_of_a_call_have_to_repeat_its_arguments(there: Revision) -> None:
    async def main() -> None:
        servers = servers_of(there)
        bridge = bridge_to(servers, there)
        app = bridge.asgi()
        connector = InProcess(app)
        url = connector.origin + "/mcp"
        call: Message = {"name": "where", "arguments": {"region": "north"}}
        async with bridge.running(), aiohttp.ClientSession(connector=connector) as session:
            right = {"Mcp-Param-Region": "north"}
            assert await post(session, url, "tools/call", call, **right) == (200, None)
            for wrong in ({}, {"Mcp-Param-Region": "south"}, {"Mcp-Param-Region": "=?base64?!?="}):
                assert await post(session, url, "tools/call", call, **wrong) == (400, HEADER_MISMATCH)
            assert await post(session, url, "tools/call", call, **right) == (200, None)
            made = [each for each in servers.made if isinstance(each, Changing)]
            assert sum(each.lists for each in made) == 1, "the list is read once"
            assert sum(len(each.asked("tools/call")) for each in made) == 2, "no refused call goes further"
        await app.aclose()

    run(main())


@req("HDR-8", at=E)
def test_the_list_is_read_again_before_a_call_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcprev.bridge.tools.AGAIN", 0.0)

    async def main() -> None:
        servers = servers_of(MODERN)
        bridge = bridge_to(servers, MODERN)
        app = bridge.asgi()
        connector = InProcess(app)
        url = connector.origin + "/mcp"
        call: Message = {"name": "where", "arguments": {"region": "north"}}
        async with bridge.running(), aiohttp.ClientSession(connector=connector) as session:
            assert await post(session, url, "tools/call", call) == (400, HEADER_MISMATCH)
            (made,) = servers.made
            assert isinstance(made, Changing)
            made.marked = False
            assert await post(session, url, "tools/call", call) == (200, None)
        await app.aclose()

    run(main())


@req("ERR-6", "SEAM-10", at=E)
@pytest.mark.parametrize("there", DEFAULT, ids=lambda row: row.name)
def test_a_method_that_no_server_has_is_not_found(there: Revision) -> None:
    async def main() -> None:
        behind = mcprev.Server(mcprev.ServerHandler(), "behind", "1")
        bridge = mcprev.Bridge(behind, server_revisions=[there.name])
        app = bridge.asgi()
        connector = InProcess(app)
        url = connector.origin + "/mcp"
        async with bridge.running(), aiohttp.ClientSession(connector=connector) as session:
            for method in ("initialize", "ping", "logging/setLevel", "com.example/none"):
                assert await post(session, url, method, {}) == (404, -32601)
        await app.aclose()

    run(main())


@req("SEAM-10", "HTTP-5", at=E)
@pytest.mark.parametrize("there", DEFAULT, ids=lambda row: row.name)
def test_a_notification_of_a_vendor_without_a_session_ends_at_the_bridge(there: Revision) -> None:
    """It is accepted and dropped (BR-7), whatever its headers say."""

    async def main() -> None:
        servers = servers_of(there)
        bridge = bridge_to(servers, there)
        app = bridge.asgi()
        connector = InProcess(app)
        url = connector.origin + "/mcp"
        async with bridge.running(), aiohttp.ClientSession(connector=connector) as session:
            await post(session, url, "tools/call", {"name": "where"}, **{"Mcp-Param-Region": ""})
            body = json.dumps({"jsonrpc": "2.0", "method": "com.example/note", "params": {"a": 1}})
            headers = {
                "Accept": "application/json, text/event-stream",
                "Content-Type": "application/json",
                "MCP-Protocol-Version": MODERN.version,
                "Mcp-Method": "com.example/note",
            }
            async with session.post(url, data=body, headers=headers) as response:
                assert response.status == 202
            await post(session, url, "tools/list", {})
            assert "com.example/note" not in {
                found.get("method") for made in servers.made for found in made.got
            }
        await app.aclose()

    run(main())
