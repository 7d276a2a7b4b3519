"""Our own client, from nothing but a URL to a tool call: at the local authorization server, and in front of providers."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace
from typing import Any, cast
from urllib.parse import parse_qsl

import pytest

import mcprev
from auth.guarded import ROWS
from authorization_server.town import (
    REDIRECT,
    RESOURCE,
    SERVER,
    Clock,
    FakeProvider,
    LikeCompany,
    LikeEntra,
    LikeGitHub,
    Site,
    Town,
    connected,
)
from helpers.requirements import req
from helpers.running import run
from mcprev.auth.authorization_server import upstream
from mcprev.auth.authorization_server.login import Login
from mcprev.auth.authorization_server.requests import PageError
from mcprev.auth.authorization_server.upstream import ProviderRefused, ProviderTokens
from mcprev.auth.client.steps import HttpFetch, HttpReply
from mcprev.errors import AuthError
from mcprev.revisions import Revision
from mcprev.testing.authorization_server import LocalUsers

PROVIDERS: list[type[Any]] = [LikeGitHub, LikeEntra, LikeCompany]


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


def test_a_name_that_no_user_has_logs_nobody_in() -> None:
    """Neither by the page, nor by a form that somebody else sends."""

    async def main() -> None:
        async with local() as town:
            auth = mcprev.OAuth(redirect_uri=REDIRECT, open=town.new_browser("mallory").open)
            with pytest.raises(mcprev.AuthError, match="no user 'mallory' here; the users are alice, bob"):
                async with connected(town, auth):
                    pass
        with pytest.raises(PageError, match="no user 'mallory'"):
            await LocalUsers("alice").start("", "", cast("Any", None), "mallory")

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
        elif kind is LikeCompany:
            assert found["principal"] == "company:583231"
            assert found["claims"]["username"] == "ada"
            assert claims["email"] == "ada@x.example"
            assert [path for path, _ in idp.seen].count("/.well-known/openid-configuration") == 1
        else:
            assert found["principal"] == f"entra:{LikeEntra.tenant}:583231"
            assert claims == {"login": None, "name": "Ada Lovelace", "email": None}
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


@pytest.mark.parametrize("basic", [False, True])
def test_the_secret_goes_to_the_provider_as_it_was_agreed(basic: bool) -> None:
    """In a header or in the form, and never in both; what the form says is not trusted to be plain."""
    provider = replace(mcprev.Provider.github("id:1", "a b&c"), basic=basic)
    flow = upstream.refresh(provider, ProviderTokens("old", "r"), 0.0)
    sent = next(flow)
    assert isinstance(sent, HttpFetch)
    form, headers = dict(parse_qsl((sent.body or b"").decode())), dict(sent.headers)
    assert form.pop("grant_type") == "refresh_token"
    assert form.pop("refresh_token") == "r"
    if basic:
        assert b64decode(headers["Authorization"].removeprefix("Basic ")) == b"id%3A1:a%20b%26c"
        assert form == {}
    else:
        assert "Authorization" not in headers
        assert form == {"client_id": "id:1", "client_secret": "a b&c"}


@pytest.mark.parametrize(
    ("status", "said", "raised"),
    [
        (200, b'{"error":"bad_refresh_token"}', ProviderRefused),  # as GitHub answers
        (400, b'{"error":"invalid_grant"}', ProviderRefused),
        (400, b'{"error":"invalid_client"}', AuthError),
        (503, b'{"error":"invalid_grant"}', AuthError),
        (200, b'{"access_token":"two words"}', AuthError),
        (200, b'{"access_token":"' + b"x" * (upstream.MAX_TOKEN + 1) + b'"}', AuthError),
        (200, b"", AuthError),
    ],
    ids=["github", "invalid_grant", "invalid_client", "unavailable", "unsendable", "too large", "nothing"],
)
def test_only_what_the_provider_says_of_a_login_ends_it(
    status: int, said: bytes, raised: type[AuthError]
) -> None:
    provider = mcprev.Provider.github("id", "secret")
    flow = upstream.refresh(provider, ProviderTokens("old", "r"), 0.0)
    next(flow)
    with pytest.raises(AuthError, match=r"github (issued no|returned no usable) token") as error:
        flow.send(HttpReply(status, said))
    assert isinstance(error.value, ProviderRefused) is (raised is ProviderRefused)
