"""A login at a server, step by step as the page shows it, with no secret in it (SEC-6)."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import mcprev
from dev.inspected import Page, opened
from helpers.running import run
from mcprev.dev.authorization import LoginSteps, claims_of
from mcprev.dev.launch import DirectLauncher
from mcprev.testing.authorization_server import Browser, LocalUsers


@asynccontextmanager
async def guarded(*, login: bool) -> AsyncGenerator[tuple[Page, mcprev.MemoryTokens], None]:
    """A page of a server that issues its own tokens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/mcp"
    app = mcprev.App("vault", "1.0", auth=mcprev.Login(LocalUsers("alice"), resource=url))

    @app.tool
    def open_it(ctx: mcprev.Context) -> str:
        return f"open for {ctx.principal}"

    ready = asyncio.Event()
    serving = asyncio.ensure_future(app.server.serve_http("127.0.0.1", port, ready=lambda _: ready.set()))
    logins, tokens = LoginSteps(), mcprev.MemoryTokens()

    def make(*, asks: bool, **options: Any) -> mcprev.OAuth:
        assert asks
        return mcprev.OAuth(**options)

    auth = logins.oauth(tokens, make) if login else None
    target = mcprev.http(url, auth=auth)
    try:
        await ready.wait()
        launcher = DirectLauncher(url, (url,), lambda: target, kind="url", transport="http", logins=logins)
        async with opened(launcher, connected=False) as page:
            yield page, tokens
    finally:
        serving.cancel()
        await asyncio.wait({serving})


def test_the_user_logs_in_from_the_page_and_no_secret_is_shown() -> None:
    async def scenario() -> None:
        async with guarded(login=True) as (page, store):
            consent = await page.until("authorization", lambda one: one["step"] == "consent")
            assert await consented(page, consent["url"]) == 200
            await page.until("target", lambda one: one["state"] == "connected")
            call = await page.call("tools/call", {"name": "open_it", "arguments": {}})
            assert "open for alice" in call["result"]
            state = await page.get("state")
            steps: list[dict[str, Any]] = state["authorization"]
            assert state["target"]["requires_authorization"] is True
            assert [one["step"] for one in steps if one["step"] != "metadata"][:3] == [
                "registration", "consent", "tokens",
            ]  # fmt: skip
            challenge = next(one for one in steps if one["detail"].get("status") == 401)
            assert "resource_metadata" in challenge["detail"]["www-authenticate"]
            assert sum("/.well-known/" in str(one["detail"].get("url")) for one in steps) >= 2
            shown = next(one["detail"] for one in steps if one["step"] == "tokens")
            assert (shown["access_token"], shown["form"]) == ("[...]", "JWT")
            assert shown["claims"]["sub"] == "alice"
            key = mcprev.TokenKey(*(shown[name] for name in ("issuer", "resource", "client_id")))
            tokens = await store.tokens(key)
            assert tokens is not None
            everything = json.dumps(steps) + await saved(page)
            for secret in (tokens.access_token, tokens.refresh_token):
                assert secret is not None
                assert secret not in everything
                assert secret.rpartition(".")[2] not in everything

    run(scenario())


def test_without_a_login_the_page_says_that_the_server_wants_one() -> None:
    async def scenario() -> None:
        async with guarded(login=False) as (page, _):
            failed = await page.until("target", lambda one: one["state"] == "failed")
            assert (failed["requires_authorization"], failed["error"]["kind"]) == (True, "TokenRejected")
            assert (await page.until("authorization", lambda one: one["step"] == "failed"))["detail"]["text"]

    run(scenario())


async def saved(page: Page) -> str:
    async with page.session.get(f"{page.url}/api/save", headers=page.headers) as response:
        return await response.text()


async def consented(page: Page, url: str) -> int:
    """Let a user consent at a page, and follow the last redirect."""
    browser = Browser("alice")
    browser.redirect_uri = parse_qs(urlsplit(url).query)["redirect_uri"][0]
    async with page.session.get(await browser.open(url)) as response:
        return response.status


def jwt(header: object, claims: object) -> str:
    parts = (
        base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in (header, claims)
    )
    return ".".join([*parts, "signature"])


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (
            jwt({"alg": "RS256"}, {"sub": "ann"}),
            {"form": "JWT", "header": {"alg": "RS256"}, "claims": {"sub": "ann"}},
        ),
        ("opaque-token", {"form": "opaque"}),
        ("a.b.c", {"form": "opaque"}),
        ("e30.e30.", {"form": "JWT", "header": {}, "claims": {}}),
        (jwt({}, {"x": "y" * 100_000}), {"form": "opaque"}),
        ("W1tb" * 2000 + ".e30.x", {"form": "opaque"}),
    ],
)
def test_the_claims_of_a_token_are_read_within_bounds(token: str, shown: dict[str, Any]) -> None:
    assert claims_of(token) == shown
