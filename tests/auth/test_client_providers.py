"""Authorization servers as they are in the field, each a row of data: how often the browser opens.

What a row says is what the provider documents, or users have reported, of its metadata, challenges, registrations and
answers of the token endpoint; hosts are those of the tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

import mcprev
from auth.test_client_reports import drop
from auth.world import OAUTH, PRM, World, form, query, world
from helpers.raw_server import Exchange, text
from helpers.requirements import req
from helpers.running import run
from mcprev.revisions import DEFAULT, Revision

OPENID: Final = "/.well-known/openid-configuration"
SECURED: Final = [row for row in DEFAULT if row.auth is not None and row.auth.openid]
"""The revisions whose clients read both kinds of metadata."""
REPLIES: Final[dict[str, Any]] = {"tools/call": text("hi"), "tools/list": {"tools": []}}


@dataclass(frozen=True)
class Provider:
    """An authorization server and an MCP server that uses it."""

    named: str = "{}"
    """The issuer in the metadata of the MCP server; `{}` is the origin."""
    issuer: str = "{}"
    """The issuer in its own metadata."""
    place: str = OAUTH
    """Where that is."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Members of it that differ; None: it has no such member."""
    resource: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Members of the metadata of the MCP server."""
    challenge: Mapping[str, str] = field(default_factory=dict[str, str])
    """Parameters of its challenges."""
    registration: Mapping[str, Any] | None = None
    """Members of the response to a registration that differ; None: it registers nobody."""
    secret: str | None = None
    """How the secret of the client is read: in the `form` or the `header`; None: it has none."""
    tokens: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Members of the response with a token that differ."""
    refreshes: bool = True
    """Whether there are refresh tokens; with `offline_access` in the scopes only, where that is listed."""
    names_operation: bool = False
    """Whether a refusal for missing scopes names only those of the operation."""


PROVIDERS: Final[dict[str, Provider]] = {
    # PRM with a slash, issuer without; scopes are URLs; no registration, refresh tokens keep.
    "Google": Provider(
        named="{}/",
        metadata={"scopes_supported": ["openid", "email"], "authorization_response_iss_parameter_supported": None},
        resource={"scopes_supported": ["https://www.googleapis.com/auth/calendar.readonly"]},
        secret="form",
        tokens={"scope": "https://www.googleapis.com/auth/calendar.readonly openid", "refresh_token_expires_in": 604799},
    ),
    # OpenID metadata at the end of a path; a refresh token for offline_access only. As for Cognito, this is with the PKCE
    # methods listed, as proxies in front of both do: what they publish themselves is in the last test.
    "Entra": Provider(
        named="{}/tenant/v2.0",
        issuer="{}/tenant/v2.0",
        place="/tenant/v2.0" + OPENID,
        metadata={
            "scopes_supported": ["openid", "profile", "email", "offline_access"],
            "authorization_response_iss_parameter_supported": None,
            "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt", "client_secret_basic"],
        },
        resource={"scopes_supported": ["api://shop/read"]},
        tokens={"scope": "api://shop/read", "ext_expires_in": 3599},
    ),
    # OpenID metadata below the pool; reads secrets in a header.
    "Cognito": Provider(
        named="{}/eu-west-1_pool",
        issuer="{}/eu-west-1_pool",
        place="/eu-west-1_pool" + OPENID,
        metadata={
            "scopes_supported": ["openid", "email", "phone", "profile"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
            "authorization_response_iss_parameter_supported": None,
        },
        secret="header",
    ),
    # Errors with status 200, scopes with commas, tokens that do not expire and are not refreshed.
    "GitHub": Provider(
        named="{}/login/oauth",
        issuer="{}/login/oauth",
        place=OAUTH + "/login/oauth",
        metadata={"scopes_supported": None, "authorization_response_iss_parameter_supported": None},
        challenge={"scope": "repo gist"},
        secret="form",
        tokens={"scope": "repo,gist", "expires_in": None},
        refreshes=False,
    ),
    # An issuer that ends with a slash; registers public clients.
    "Auth0": Provider(
        named="{}/",
        issuer="{}/",
        metadata={"scopes_supported": ["openid", "profile", "offline_access"]},
        challenge={"scope": "shop:read"},
        registration={"token_endpoint_auth_method": "none", "client_secret_expires_at": 0},
        tokens={"scope": "shop:read offline_access", "expires_in": 86400},
    ),
    # A realm in the path; a scope that each token has is not asked for; refresh tokens rotate.
    "Keycloak": Provider(
        named="{}/realms/shop",
        issuer="{}/realms/shop",
        place=OAUTH + "/realms/shop",
        metadata={"scopes_supported": ["openid", "shop", "offline_access"]},
        registration={"client_secret": "s", "token_endpoint_auth_method": "client_secret_post", "registration_access_token": "r"},
        secret="form",
        tokens={"scope": "shop profile email", "not-before-policy": 0, "refresh_expires_in": 1800},
        challenge={"scope": "shop"},
    ),
    # An authorization server of its own in the path; names the scope of the operation.
    "Okta": Provider(
        named="{}/oauth2/default",
        issuer="{}/oauth2/default",
        place="/oauth2/default" + OPENID,
        metadata={"scopes_supported": ["openid", "offline_access", "read", "write"], "authorization_response_iss_parameter_supported": None},
        challenge={"scope": "read"},
        names_operation=True,
    ),
    # No registration, scopes with commas, an ok beside the token.
    "Slack": Provider(
        metadata={"scopes_supported": ["search:read", "chat:write"], "authorization_response_iss_parameter_supported": None},
        resource={"scopes_supported": ["search:read", "chat:write"]},
        tokens={"ok": True, "scope": "search:read,chat:write", "expires_in": 43200},
    ),
    # Registers with a secret that it says to read in a header, and drops registrations.
    "Atlassian": Provider(
        metadata={"scopes_supported": None, "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"]},
        registration={},
        tokens={"expires_in": 3300},
    ),
    # Registers with a secret, and does not say how it is read; names an empty list of scopes.
    "Canny": Provider(
        metadata={"scopes_supported": [], "token_endpoint_auth_methods_supported": None},
        resource={"scopes_supported": []},
        registration={"client_secret": "s", "token_endpoint_auth_method": None},
        secret="form",
        tokens={"expires_in": 0},
    ),
}  # fmt: skip


def changed(members: Mapping[str, Any], **usual: Any) -> dict[str, Any]:
    return {name: value for name, value in {**usual, **members}.items() if value is not None}


def become(at: World, provider: Provider) -> None:
    """Make the servers of the tests those of a row."""
    origin, named = at.auth.origin, provider.named.format(at.auth.origin)
    issuer = provider.issuer.format(origin)
    usual = at.documents.pop(origin + OAUTH)
    if provider.registration is None:
        del usual["registration_endpoint"]
    at.documents[origin + provider.place] = changed(provider.metadata, **{**usual, "issuer": issuer})
    at.documents[at.mcp.origin + PRM + "/mcp"] |= {"authorization_servers": [named], **provider.resource}
    at.challenge |= provider.challenge
    listed: list[str] = provider.metadata.get("scopes_supported") or []
    knows = provider.metadata.get("authorization_response_iss_parameter_supported", True)
    at.back["iss"] = issuer if knows else None
    at.expires = provider.tokens.get("expires_in", 3600)
    at.grants = {
        name: value for name, value in provider.tokens.items() if name not in ("expires_in", "scope")
    }
    at.needs = {"tools/call": "write"}
    give = at.give

    async def tokens(exchange: Exchange) -> None:
        said = form(exchange)
        header = exchange.headers.get("authorization", "")
        how = "header" if header else "form" if "client_secret" in said else None
        if how != provider.secret:
            await exchange.json({"error": "invalid input"}, 400)
            return
        await at.token(exchange)

    async def given(exchange: Exchange, *scopes: str) -> None:
        offline = "offline_access" not in listed or "offline_access" in scopes
        at.refreshes = provider.refreshes and (offline or form(exchange)["grant_type"] == "refresh_token")
        said = provider.tokens.get("scope")
        if said is not None:
            more = [name for name in scopes if name == "write"]
            at.grants["scope"] = ("," if "," in said else " ").join([said, *more])
        await give(exchange, *scopes)

    async def register(exchange: Exchange) -> None:
        at.registered.append(exchange.message)
        at.log.append("register")
        client = {**exchange.message, "client_id": f"client-{len(at.registered)}"}
        client.pop("client_secret", None)
        await exchange.json(changed(provider.registration or {}, **client), 201)

    at.tokens, at.give, at.register = tokens, given, register  # type: ignore[method-assign]


def identity(at: World, provider: Provider) -> dict[str, Any]:
    """What a user passes where the provider registers nobody."""
    if provider.registration is not None:
        return {}
    if provider.secret is None:
        return {"client_id": "me"}
    return {"client_id": "me", "client_secret": "s", "issuer": provider.issuer.format(at.auth.origin)}


@pytest.mark.parametrize("row", SECURED, ids=lambda row: row.name)
@pytest.mark.parametrize("name", PROVIDERS)
@req("AUTH-5", "AUTH-6", "AUTH-7", "AUTH-12", "AUTH-17", "AUTH-18", "AUTH-22", everywhere=True)
def test_the_browser_opens_no_more_often_than_it_must(name: str, row: Revision) -> None:
    provider, visits = PROVIDERS[name], dict[str, int]()

    async def main() -> None:
        async with world(row, REPLIES) as at:
            become(at, provider)
            store, who = mcprev.MemoryTokens(), identity(at, provider)

            def connect() -> mcprev.connect:
                auth = at.oauth(store=store, **who)
                return mcprev.connect(
                    mcprev.http(at.mcp.url, auth=auth), revisions=[row.name], validate="off"
                )

            def count(what: str) -> None:
                visits[what] = len(at.pages)
                at.pages.clear()

            at.needs.clear()
            async with connect() as client:
                count("first login")
                await client.call_tool("any", {})
                count("second call")
                at.needs["tools/call"] = "write"
                before = len(at.registered)
                await client.call_tool("any", {})
                last = query(at.pages[0])["scope"].split() if at.pages else []
                asked = {
                    "write",
                    *provider.challenge.get("scope", "").split(),
                    *provider.resource.get("scopes_supported", []),
                }
                assert asked <= set(last), "what was granted before is asked for again"
                count("step-up")
                await client.call_tool("any", {})
                await client.list_tools()
                count("later calls")
                assert len(at.registered) == before
            async with connect() as client:
                await client.call_tool("any", {})
            count("restart")
            at.good.clear()
            async with connect() as client:
                await client.list_tools()
            count("expiry")
            if provider.registration is not None:
                at.good.clear()
                at.refreshes = False
                if provider.secret is None:
                    drop(at, "invalid_client", "the page")
                    async with connect() as client:
                        await client.list_tools()
                    count("dropped registration")
                    assert len(at.registered) == 2

    run(main())
    expected = {
        "first login": 1, "second call": 0, "step-up": 1, "later calls": 0, "restart": 0, "expiry": 0 if provider.refreshes else 1,
    }  # fmt: skip
    if "dropped registration" in visits:
        expected["dropped registration"] = 1
    assert visits == expected


@pytest.mark.parametrize("row", SECURED, ids=lambda row: row.name)
@pytest.mark.parametrize("name", ["Entra", "Cognito"])
@req("AUTH-8", everywhere=True)
def test_a_provider_that_lists_no_proof_keys_is_refused_with_the_reason(name: str, row: Revision) -> None:
    """The specification demands it of clients, although both know proof keys."""

    async def main() -> None:
        async with world(row, REPLIES) as at:
            provider = PROVIDERS[name]
            become(at, provider)
            del at.documents[at.auth.origin + provider.place]["code_challenge_methods_supported"]
            target = mcprev.http(at.mcp.url, auth=at.oauth(**identity(at, provider)))
            with pytest.raises(
                mcprev.DiscoveryFailed, match="does not declare support for PKCE: enable it there"
            ):
                await mcprev.connect(target, revisions=[row.name])
            assert at.log == []

    run(main())
