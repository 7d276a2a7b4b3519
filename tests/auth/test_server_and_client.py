"""Our client finds its own way into our server (AUTH-1, AUTH-4, AUTH-5, AUTH-10, AUTH-16)."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import pytest

import mcprev
from auth.guarded import ROWS, Guarded
from auth.world import query, world
from fuzz.fuzzing import each_once
from helpers.http_in_process import InProcess
from helpers.requirements import req
from helpers.running import run
from mcprev.client.targets import Target
from mcprev.revisions import DEFAULT, HttpShape, Revision
from mcprev.transports.http.client.authorization import AuthorizedRequest
from mcprev_types.latest import models as m

NEEDS: Final = {"tools/call": "write"}
SCOPES_TOLD: Final = (
    r"^HTTP 403: Forbidden: the token has too few scopes; the token lacks some of the scopes read write: send one that has them$"
)


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


def few_scopes(row: Revision, *, always: bool) -> tuple[mcprev.Server, mcprev.Bearer]:
    """A server whose every request, or whose calls alone, require a scope that no token of it has."""

    async def verify(_: str) -> mcprev.Access:
        return mcprev.Access("ann", audience="http://x.test/mcp", scopes=["read"])

    auth = mcprev.Bearer(
        verify,
        resource="http://x.test/mcp",
        authorization_servers=["https://as.test"],
        scopes=["read", "write"] if always else ["read"],
        needs=lambda method, _: NEEDS.get(method),
    )
    return mcprev.Server(Guarded(), "s", "1", revisions=[row.name]), auth


async def connect_and_call(target: Target, mode: str, *, always: bool) -> None:
    async with mcprev.connect(target, mode=mode) as client:
        assert not always
        await client.call_tool("access")


class HeaderOfMine(mcprev.Authorization):
    async def headers(self, _request: AuthorizedRequest, /) -> Mapping[str, str]:
        return {"Authorization": "Bearer ann"}


@req("ERR-7")
@pytest.mark.parametrize(
    "options",
    [{"headers": {"Authorization": "Bearer ann"}}, {"auth": HeaderOfMine()}],
    ids=["headers", "auth"],
)
@pytest.mark.parametrize("named", [True, False], ids=["one revision", "negotiated"])
@pytest.mark.parametrize("always", [True, False], ids=["connect", "call"])
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
@each_once
def test_a_token_of_ones_own_with_too_few_scopes_is_told_with_those_that_are_required(
    row: Revision, always: bool, named: bool, options: dict[str, Any]
) -> None:
    async def main() -> None:
        server, auth = few_scopes(row, always=always)
        app = server.asgi(sse=True, auth=auth)
        async with aiohttp.ClientSession(connector=InProcess(app)) as session:
            path = "/sse" if row.http is HttpShape.SSE else "/mcp"
            target = mcprev.http(f"{InProcess(app).origin}{path}", session=session, **options)
            with pytest.raises(mcprev.InsufficientScope, match=SCOPES_TOLD) as caught:
                await connect_and_call(target, row.name if named else "auto", always=always)
            assert (caught.value.required, caught.value.requested) == (("read", "write"), ())
            reason = caught.value.__cause__
            assert isinstance(reason, mcprev.InvalidRequest)
            assert reason.http_status == 403
        await app.aclose()

    run(main())
