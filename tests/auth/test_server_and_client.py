"""Our client finds its own way into our server (AUTH-1, AUTH-4, AUTH-5, AUTH-10, AUTH-16)."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Final

import aiohttp
import pytest

import mcprev
from auth.guarded import ROWS, Guarded
from auth.world import query, world
from http_in_process import InProcess
from mcprev.revisions import HttpShape, Revision
from mcprev_types.latest import models as m
from requirements import req
from running import run

NEEDS: Final = {"tools/call": "write"}


@req("AUTH-1", "AUTH-4", "AUTH-5", "AUTH-10", "AUTH-16")
@pytest.mark.parametrize("row", ROWS[1:], ids=lambda row: row.name)
def test_a_client_that_knows_nothing_but_the_url_logs_in_and_asks_for_more_when_it_has_to(
    row: Revision,
) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        url = f"http://127.0.0.1:{port}/mcp"
        async with world(row) as at:

            async def verify(token: str) -> mcprev.Access | None:
                scopes = at.good.get(token)
                return None if scopes is None else mcprev.Access("alice", audience=url, scopes=scopes)

            auth = mcprev.Bearer(
                verify,
                resource=url,
                authorization_servers=[at.auth.origin],
                scopes=["read"],
                needs=lambda method, _: NEEDS.get(method),
            )
            ready = asyncio.Event()
            server = mcprev.Server(Guarded(), "s", "1")
            serving = asyncio.ensure_future(
                server.serve_http(port=port, ready=lambda _: ready.set(), auth=auth)
            )
            await ready.wait()
            async with mcprev.connect(mcprev.http(url, auth=at.oauth()), mode=row.name) as client:
                assert [query(page)["scope"] for page in at.pages] == ["read"]
                (block,) = (await client.call_tool("access")).content
                assert isinstance(block, m.TextContent)
                assert json.loads(block.text)[2] == ["read", "write"]
            assert [sorted(query(page)["scope"].split()) for page in at.pages] == [
                ["read"],
                ["read", "write"],
            ]
            assert {query(page)["resource"] for page in at.pages} == {url}
            serving.cancel()
            await asyncio.wait({serving})

    run(main())


@req("AUTH-1", "AUTH-2")
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer old"}], ids=["no token", "an old token"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_client_without_a_login_learns_that_it_needs_one(row: Revision, headers: dict[str, str]) -> None:
    async def verify(token: str) -> None:
        assert token == "old"

    async def main() -> None:
        auth = mcprev.Bearer(verify, resource="http://x.test/mcp", authorization_servers=["https://as.test"])
        app = mcprev.Server(Guarded(), "s", "1").asgi(sse=True, auth=auth)
        connector = InProcess(app)
        async with aiohttp.ClientSession(connector=connector) as session:
            path = "/sse" if row.http is HttpShape.SSE else "/mcp"
            target = mcprev.http(connector.origin + path, session=session, headers=headers)
            with pytest.raises(mcprev.TokenRejected, match=r"^HTTP 401.*token.*mcprev\.OAuth\(\)"):
                await mcprev.connect(target, mode=row.name)
        await app.aclose()

    run(main())
