"""Our own client, from nothing but a URL to a tool call: at the local authorization server, and in front of providers."""

from __future__ import annotations

from typing import Any

import pytest

import mcprev
from auth.guarded import ROWS
from authorization_server.town import (
    REDIRECT,
    RESOURCE,
    SERVER,
    Clock,
    FakeProvider,
    LikeEntra,
    LikeGitHub,
    Site,
    Town,
    connected,
)
from mcprev.authorization_server.login import Login
from mcprev.revisions import Revision
from mcprev.testing.authorization_server import LocalUsers
from requirements import req
from running import run

PROVIDERS: list[type[Any]] = [LikeGitHub, LikeEntra]


def local(**options: Any) -> Town:
    """A server whose users choose who they are."""
    login = Login(LocalUsers("alice", "bob"), resource=RESOURCE, **options)
    app = mcprev.App("local", "1", auth=login)

    @app.tool
    async def whoami(ctx: mcprev.Context) -> str:
        return f"{ctx.principal} {sorted(ctx.access.scopes if ctx.access else ())}"

    return Town({SERVER: app.asgi()})


@req("AUTH-6", "AUTH-7", "AUTH-8", "AUTH-9", "AUTH-12", "AUTH-15", "AUTH-20")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_client_of_each_revision_logs_in_with_the_url_alone(row: Revision) -> None:
    async def main() -> None:
        async with local(scopes=["read"]) as town:
            auth = mcprev.OAuth(redirect_uri=REDIRECT, open=town.new_browser("bob").open)
            async with connected(town, auth, mode=row.name) as client:
                assert (await client.call_tool("whoami")).text == "bob ['read']"

    run(main())


@pytest.mark.parametrize("kind", PROVIDERS)
def test_a_client_logs_in_at_a_provider_that_registers_nobody(kind: type[FakeProvider]) -> None:
    async def main() -> None:
        clock = Clock()
        idp = kind(clock)
        async with Site(idp, clock) as site, connected(site, site.user()) as client:
            found = (await client.call_tool("whoami")).data
            assert (await client.call_tool("upstream_token")).text == "idp-token-1"
        claims = {name: found["claims"].get(name) for name in ("login", "name", "email")}
        if kind is LikeGitHub:
            assert found["principal"] == "github:583231"
            assert claims == {"login": "octocat", "name": None, "email": "octocat@x.example"}
        else:
            assert found["principal"] == f"entra:{LikeEntra.tenant}:583231"
            assert claims == {"login": None, "name": "Ada", "email": None}
        asked = dict(idp.seen)["/authorize"]
        assert asked["redirect_uri"] == f"{SERVER}/callback"
        assert asked["client_id"] == "idp-client"

    run(main())


def test_a_client_refreshes_and_keeps_its_login() -> None:
    async def main() -> None:
        clock = Clock()
        idp = LikeEntra(clock)
        async with Site(idp, clock) as site, connected(site, site.user()) as client:
            assert (await client.call_tool("upstream_token")).text == "idp-token-1"
            clock.now += 4000  # both tokens have expired
            assert (await client.call_tool("upstream_token")).text == "idp-token-2"
        assert [said["grant_type"] for path, said in idp.seen if path == "/token"] == [
            "authorization_code",
            "refresh_token",
        ]

    run(main())
