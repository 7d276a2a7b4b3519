"""Logins last: over restarts, workers and rotated secrets, as long as the store and the provider say (AUTH-12, AUTH-18, SEC-7)."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import logging
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
import pytest

import mcprev
from authorization_server.test_attacks import (
    Slow,
    assert_page,
    assert_refused,
    entra,
    github,
    sent_to_provider,
)
from authorization_server.town import (
    CHALLENGE,
    IDP,
    REDIRECT,
    RESOURCE,
    SECRET,
    SERVER,
    VERIFIER,
    ByHand,
    Clock,
    LikeCompany,
    LikeGitHub,
    Site,
    Town,
    connected,
)
from helpers.requirements import req
from helpers.running import run
from mcprev.auth.authorization_server import upstream
from mcprev.auth.authorization_server.keys import ServerKeys
from mcprev.auth.client.steps import HttpFetch, HttpReply
from mcprev.errors import StoreError
from mcprev.testing.authorization_server import RESOURCE_SERVER, Browser, LocalAuthorizationServer

NEW = "a new secret, which is also of 32 bytes or more"


# -- restarts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "lasts"),
    [
        ({}, True),
        ({"secrets": [NEW, SECRET]}, True),
        ({"secrets": NEW}, False),
        ({"store": mcprev.MemoryRecords()}, False),
    ],
    ids=["restarted", "a new secret first", "another secret", "the store was lost"],
)
def test_a_login_outlives_the_process_with_the_store_and_the_secret(
    options: dict[str, Any], lasts: bool
) -> None:
    async def main() -> None:
        async with entra(store=mcprev.MemoryRecords()) as site, connected(site, site.user()) as client:
            assert (await client.call_tool("upstream_token")).text == "idp-token-1"
            site.apps["8101"] = site.app(site.worker(**options))
            # A client that is refused registers again and logs in, without a word to anybody.
            async with connected(site, site.user()) as other:
                assert (await other.call_tool("whoami")).data["principal"].startswith("entra:")
            pages = [path for path, _ in site.idp.seen].count("/authorize")
            assert (await client.call_tool("upstream_token")).text == (
                "idp-token-1" if lasts else "idp-token-3"
            )
            assert [path for path, _ in site.idp.seen].count("/authorize") == pages + (not lasts)

    run(main())


@req("AUTH-12", everywhere=True)
@pytest.mark.parametrize("shared", [True, False], ids=["a store", "no store"])
def test_each_request_of_a_login_may_reach_another_worker_if_the_app_has_a_store(shared: bool) -> None:
    """The login has no store of its own: it takes that of the app, and is lost between workers that have none."""

    async def main() -> None:
        async with github() as site, AsyncExitStack() as stack:
            store = mcprev.MemoryStore() if shared else None
            workers = [mcprev.App("guarded", "1", auth=site.worker(), store=store).asgi() for _ in range(2)]
            for worker in workers:
                stack.push_async_callback(worker.aclose)
            turn = itertools.cycle(workers)

            async def alternately(scope: Any, receive: Any, send: Any) -> None:
                await next(turn)(scope, receive, send)

            site.apps["8101"] = alternately
            hand = ByHand(site)
            client = (await hand.register())["client_id"]
            if not shared:
                assert_page(await hand.ask(client))
                return
            for _ in range(2):  # each step is at each of them once, since the number of steps is odd
                tokens = (await hand.redeem(client, await hand.log_in(client))).json
                tokens = (await hand.refresh(client, tokens["refresh_token"])).json
                for _ in workers:
                    assert await hand.status(tokens["access_token"]) == 400  # let in

    run(main())


@req("AUTH-12")
def test_a_store_of_the_login_comes_before_that_of_the_app() -> None:
    own, of_app = mcprev.MemoryRecords(), mcprev.MemoryStore()

    async def main() -> None:
        async with github(store=own) as site:
            served = mcprev.App("guarded", "1", auth=site.login, store=of_app).asgi()
            site.apps["8101"] = served
            hand = ByHand(site)
            client = (await hand.register())["client_id"]
            await hand.redeem(client, await hand.log_in(client))
            site.apps["8101"] = site.app(site.worker(store=own))
            await hand.log_in(client)  # it is known where nothing but its own store is
            await served.aclose()

    run(main())


def test_who_has_a_store_of_a_server_and_no_secret_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = mcprev.open_store(f"sqlite:///{tmp_path}/app.db")
    for secrets, told in ((SECRET, False), (None, True)):
        caplog.clear()
        login = mcprev.Login(mcprev.Provider.github("id", "s"), resource=RESOURCE, secrets=secrets)
        mcprev.App("guarded", "1", auth=login, store=store).asgi()
        assert any("pass `secrets` to mcprev.Login" in text for text in caplog.messages) is told


def test_what_an_old_secret_has_sealed_is_read_until_it_is_removed() -> None:
    old, both, new = ServerKeys(SECRET), ServerKeys([NEW, SECRET]), ServerKeys(NEW)
    for keys, reads_old, reads_new in ((old, True, False), (both, True, True), (new, False, True)):
        for sealed, signed, reads in (
            (old.seal("use", "bound", {"x": 1}), old.sign({"sub": "a"}), reads_old),
            (both.seal("use", "bound", {"x": 1}), both.sign({"sub": "a"}), reads_new),
        ):
            assert keys.open("use", "bound", sealed) == ({"x": 1} if reads else None)
            assert keys.open("other use", "bound", sealed) is None
            assert keys.open("use", "elsewhere", sealed) is None
            assert keys.open("use", "bound", sealed + "A") is None
            assert (keys.verified(signed) or {}).get("sub") == ("a" if reads else None)
    assert len(both.key_set["keys"]) == 2
    assert all("d" not in key for key in both.key_set["keys"])
    with pytest.raises(ValueError, match="at least 32 random bytes"):
        ServerKeys("short")


class Written(mcprev.MemoryRecords):
    """A store that keeps what was ever written."""

    values: Final[list[str]] = []

    async def write(self, key: str, value: bytes, /, **options: Any) -> Any:
        self.values.append(f"{key} {value.decode()}")
        return await super().write(key, value, **options)


def test_the_store_and_the_log_show_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store, written = Written(), Written.values
        caplog.set_level(logging.DEBUG)
        async with entra(store=store) as site:
            hand = ByHand(site)
            client = (await hand.register(client_name="Visible"))["client_id"]
            code = await hand.log_in(client)
            tokens = (await hand.redeem(client, code)).json
            site.clock.now += 3600
            tokens2 = (await hand.refresh(client, tokens["refresh_token"])).json
            assert len(written) > 5
            held = json.dumps(written)
            body = json.loads(base64.urlsafe_b64decode(tokens["access_token"].split(".")[1] + "=="))
            said = json.dumps([body, tokens, tokens2])
            secrets = [
                code,
                client,
                tokens["access_token"],
                tokens["refresh_token"],
                tokens2["refresh_token"],
            ]
            for secret in (
                *secrets,
                "idp-token",
                "idp-refresh",
                "idp-secret",
                SECRET,
                "Visible",
                "Ada Lovelace",
            ):
                assert secret not in held
            for secret in (code, *secrets[2:], "idp-token", "idp-refresh", "idp-secret", SECRET):
                assert secret not in caplog.text
            assert "idp-" not in said, "what is the provider's never leaves"

    run(main())


def test_a_store_that_fails_costs_no_client_its_login() -> None:
    class Broken(mcprev.MemoryRecords):
        broken = False

        async def read(self, key: str, /) -> Any:
            if self.broken:
                raise StoreError("the store is down")
            return await super().read(key)

    async def main() -> None:
        store = Broken()
        async with github(store=store) as site:
            hand = ByHand(site)
            client = (await hand.register())["client_id"]
            tokens = (await hand.redeem(client, await hand.log_in(client))).json
            store.broken = True
            assert await hand.status(tokens["access_token"]) == 503
            assert_refused(
                await hand.refresh(client, tokens["refresh_token"]), "temporarily_unavailable", 503
            )
            store.broken = False
            assert (await hand.refresh(client, tokens["refresh_token"])).status == 200

    run(main())


# -- the provider's tokens ------------------------------------------------------------------------------------


def test_workers_refresh_the_tokens_of_a_provider_that_rotates_them_once() -> None:
    async def main() -> None:
        async with entra(store=Slow()) as site:
            hand = ByHand(site)
            client = (await hand.register())["client_id"]
            tokens = (await hand.redeem(client, await hand.log_in(client))).json
            workers = [site.worker() for _ in range(3)]
            access = await workers[0].server.verify(tokens["access_token"])
            site.clock.now += 3590
            found = await asyncio.gather(*(worker.provider_token(access) for worker in workers))
            assert found == ["idp-token-2"] * 3
            assert [said["grant_type"] for path, said in site.idp.seen if path == "/token"].count(
                "refresh_token"
            ) == 1

    run(main())


@pytest.mark.parametrize("kind", [entra, github])
def test_who_is_locked_out_at_the_provider_is_so_here(kind: Callable[[], Site]) -> None:
    async def main() -> None:
        async with kind() as site:
            site.idp.expires = 3600  # as the tokens of GitHub apps
            hand = ByHand(site)
            client = (await hand.register())["client_id"]
            tokens = (await hand.redeem(client, await hand.log_in(client))).json
            tokens = (
                await hand.refresh(client, tokens["refresh_token"])
            ).json  # the provider is not asked yet
            site.clock.now += 3590
            site.idp.locked_out = True
            assert await hand.status(tokens["access_token"]) == 400
            assert_refused(await hand.refresh(client, tokens["refresh_token"]))
            assert await hand.status(tokens["access_token"]) == 401

    run(main())


def test_a_provider_that_is_down_costs_nobody_the_login() -> None:
    async def down(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 502, "headers": []})
        await send({"type": "http.response.body", "body": b"<html>"})

    async def main() -> None:
        async with entra() as site:
            hand = ByHand(site)
            client = (await hand.register())["client_id"]
            tokens = (await hand.redeem(client, await hand.log_in(client))).json
            site.clock.now += 3700
            site.apps["8102"] = down
            assert_refused(
                await hand.refresh(client, tokens["refresh_token"]), "temporarily_unavailable", 503
            )
            site.apps["8102"] = site.idp
            assert (await hand.refresh(client, tokens["refresh_token"])).status == 200

    run(main())


def test_a_worker_that_dies_while_it_refreshes_keeps_others_waiting_for_a_time_only() -> None:
    async def main() -> None:
        async with entra() as site:
            hand = ByHand(site)
            client = (await hand.register())["client_id"]
            tokens = (await hand.redeem(client, await hand.log_in(client))).json
            login: Any = site.login
            access = await login.server.verify(tokens["access_token"])
            name = access.claims["sid"]
            site.clock.now += 3700
            held: Any = (await login.server.grants.find(name)).tokens
            from mcprev.auth.authorization_server.upstream import ProviderTokens

            assert await login._provider._leased(
                login.server.grants, name, ProviderTokens(**held), site.clock()
            )
            waiting = asyncio.ensure_future(login.provider_token(access))
            await asyncio.sleep(0.15)
            assert not waiting.done()
            site.clock.now += 61
            assert await waiting == "idp-token-2"

    run(main())


def test_no_redirect_takes_a_token_of_the_provider_elsewhere() -> None:
    class Moved(LikeGitHub):
        def user_(self, said: dict[str, str], headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
            return 302, {"location": "https://evil.example/user"}, b""

    seen: list[Any] = []

    async def evil(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b'{"id": 1}'})

    async def main() -> None:
        clock = Clock()
        async with Site(Moved(clock), clock) as site:
            site.apps["evil.example"] = evil
            hand = ByHand(site)
            answer = await hand.send("GET", (await sent_to_provider(site, hand)).location)
            assert answer.said["error"] == "access_denied"
            assert seen == []

    run(main())


@pytest.mark.parametrize(
    "access",
    [
        None,
        mcprev.Access("x", audience=RESOURCE),
        mcprev.Access("x", audience=RESOURCE, claims={"sid": "gone"}),
    ],
)
def test_there_is_no_token_of_a_provider_without_a_login(access: Any) -> None:
    async def main() -> None:
        async with github() as site:
            with pytest.raises(mcprev.AuthError, match=r"no token of an identity provider|login has ended"):
                await site.login.provider_token(access)

    run(main())


# -- clients --------------------------------------------------------------------------------------------------

DOCUMENT = "https://app.example/client.json"


def published(site: Town, found: object, status: int = 200, **headers: str) -> None:
    """Put a document where the client id says."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        sent = [(name.encode(), value.encode()) for name, value in headers.items()]
        first = scope["path"] == "/client.json"
        await send({"type": "http.response.start", "status": status if first else 200, "headers": sent})
        await send({"type": "http.response.body", "body": json.dumps(found).encode()})

    site.apps["app.example"] = serve


@req("AUTH-12")
def test_a_client_that_describes_itself_by_a_document_is_always_asked_for() -> None:
    async def main() -> None:
        async with github(remember=1000.0) as site:
            published(site, {"client_id": DOCUMENT, "client_name": "Doc", "redirect_uris": [REDIRECT]})
            open_ = mcprev.OAuth(redirect_uri=REDIRECT, open=site.browser.open, client_metadata_url=DOCUMENT)
            async with connected(site, open_) as client:
                assert (await client.call_tool("whoami")).data["principal"] == "github:583231"
            hand, code = ByHand(site), ""
            for _ in range(2):
                page = await hand.ask(DOCUMENT)
                assert "app.example" in page.text
                code = await hand.log_in(DOCUMENT)
            assert (await hand.redeem(DOCUMENT, code)).status == 200

    run(main())


@req("AUTH-12")
@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"client_id": "https://other.example/x"}, {}),
        ({"redirect_uris": ["https://app.example/other"]}, {}),
        ({"token_endpoint_auth_method": "client_secret_basic"}, {}),
        ({"redirect_uris": None}, {}),
        ({"client_name": "x" * 9000}, {}),
        ({}, {"status": 404}),
        ({}, {"status": 302, "location": "https://app.example/elsewhere"}),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_document_that_is_not_of_the_client_is_not_believed(found: Any, said: Any) -> None:
    async def main() -> None:
        async with github() as site:
            document = {"client_id": DOCUMENT, "client_name": "Doc", "redirect_uris": [REDIRECT], **found}
            published(site, document, **said)
            assert_page(await ByHand(site).ask(DOCUMENT))

    run(main())


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:1/client.json",
        "https://[::1]:1/client.json",
        "https://10.0.0.1/c",
        "https://2130706433/c",
    ],
)
def test_a_document_is_fetched_from_the_public_internet_only(url: str) -> None:
    async def main() -> None:
        async with github(session=None) as site:
            assert_page(await ByHand(site).ask(url))
            http = ByHand(site)
            assert_page(await http.ask(url.replace("https:", "http:")))

    run(main())


@pytest.mark.parametrize("way", ["basic", "form"])
def test_a_client_with_a_secret_proves_itself(way: str) -> None:
    async def main() -> None:
        async with github() as site:
            hand = ByHand(site)
            client = await hand.register(
                token_endpoint_auth_method=f"client_secret_{'basic' if way == 'basic' else 'post'}"
            )

            async def redeem(code: str, secret: str) -> Any:
                form = {
                    "grant_type": "authorization_code",
                    "code": code,
                    "redirect_uri": REDIRECT,
                    "code_verifier": VERIFIER,
                }
                if way == "form":
                    return await hand.token(**form, client_id=client["client_id"], client_secret=secret)
                basic = aiohttp.encode_basic_auth(client["client_id"], secret)
                return await hand.send("POST", "/token", data=form, headers={"authorization": basic})

            for wrong in ("", "wrong"):
                refused = await redeem("any", wrong)
                assert_refused(refused, "invalid_client", 401)
                assert refused.headers["www-authenticate"] == "Basic"
            assert (
                await redeem(await hand.log_in(client["client_id"]), client["client_secret"])
            ).status == 200

    run(main())


# -- describing and revoking tokens ----------------------------------------------------------------------------


def test_tokens_are_described_to_resource_servers_and_revoked_for_their_client() -> None:
    async def main() -> None:
        clock = Clock()
        server = LocalAuthorizationServer(SERVER, optional_scopes=["read"], clock=clock)
        async with Town({SERVER: server}) as town:
            hand = ByHand(town)
            client, other = (await hand.register())["client_id"], (await hand.register())["client_id"]
            basic = aiohttp.encode_basic_auth(*RESOURCE_SERVER)

            async def described(token: str, auth: str = basic) -> Any:
                return (
                    await hand.send(
                        "POST", "/introspect", data={"token": token}, headers={"authorization": auth}
                    )
                ).json

            for kind in ("access_token", "refresh_token"):
                code = await hand.log_in(client, scope="read unknown")
                tokens = (await hand.redeem(client, code)).json
                assert tokens["scope"] == "read"
                found = await described(tokens["access_token"])
                assert [found[name] for name in ("active", "sub", "aud", "scope", "client_id")] == [
                    True,
                    "alice",
                    RESOURCE,
                    "read",
                    client,
                ]
                assert await described(tokens["refresh_token"]) == {"active": False}
                assert (await described(tokens["access_token"], "Basic eDp5"))["error"] == "invalid_client"
                assert (
                    await hand.send("POST", "/revoke", data={"token": tokens[kind], "client_id": other})
                ).status == 200
                assert (await described(tokens["access_token"]))["active"] is True
                assert (
                    await hand.send("POST", "/revoke", data={"token": tokens[kind], "client_id": client})
                ).status == 200
                assert await described(tokens["access_token"]) == {"active": False}
                assert_refused(await hand.refresh(client, tokens["refresh_token"]))

    run(main())


def test_a_narrower_token_is_issued_on_request_and_a_token_ends() -> None:
    async def main() -> None:
        clock = Clock()
        server = LocalAuthorizationServer(
            SERVER, optional_scopes=["read", "write"], clock=clock, access_lifetime=60, session_lifetime=600
        )
        async with Town({SERVER: server}) as town:
            hand = ByHand(town)
            client = (await hand.register())["client_id"]
            tokens = (await hand.redeem(client, await hand.log_in(client, scope="read write"))).json
            tokens = (await hand.refresh(client, tokens["refresh_token"], scope="read admin")).json
            assert tokens["scope"] == "read"
            tokens = (await hand.refresh(client, tokens["refresh_token"])).json
            assert (tokens["scope"], tokens["expires_in"]) == ("read write", 60)
            clock.now += 61
            with pytest.raises(Exception, match="it has expired"):
                await server.verify(tokens["access_token"])
            clock.now += 540
            assert_refused(await hand.refresh(client, tokens["refresh_token"]))

    run(main())


def test_a_verifier_elsewhere_checks_the_tokens_by_the_published_keys() -> None:
    async def main() -> None:
        server = LocalAuthorizationServer(SERVER)
        async with Town({SERVER: server}) as town:
            hand = ByHand(town)
            client = (await hand.register())["client_id"]
            token = (await hand.redeem(client, await hand.log_in(client))).json["access_token"]
            verify = mcprev.JwtVerifier(f"{SERVER}/jwks", issuer=SERVER, session=town.session)
            access = await verify(token)
            assert access is not None
            assert (access.subject, access.audience) == ("alice", (RESOURCE,))

    run(main())


@req("AUTH-6")
@pytest.mark.parametrize(
    "path", ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]
)
def test_pages_of_other_origins_may_use_what_reads_no_cookie(path: str) -> None:
    async def main() -> None:
        async with github() as site:
            hand = ByHand(site)
            answer = await hand.send("GET", path, headers={"origin": "https://inspector.example"})
            assert answer.headers["access-control-allow-origin"] == "*"
            assert answer.json["issuer"] == SERVER
            asked = await hand.send("OPTIONS", "/token", headers={"origin": "https://inspector.example"})
            assert (asked.status, asked.headers["access-control-allow-origin"]) == (204, "*")
            client = (await hand.register())["client_id"]
            page = await hand.ask(client)
            assert "access-control-allow-origin" not in page.headers
            assert (await hand.send("GET", "/token")).status == 405
            repeated = await hand.send("POST", "/token", data=b"grant_type=x&grant_type=y")
            assert_refused(repeated, "invalid_request")
            assert_refused(
                await hand.token(client_id=client, grant_type="password"), "unsupported_grant_type"
            )

    run(main())


# -- providers ------------------------------------------------------------------------------------------------

P = mcprev.Provider
PRESETS = [
    (P.github("i", "s"), "https://github.com/login/oauth/authorize", "https://github.com/login/oauth/access_token", None),
    (P.google("i", "s"), "https://accounts.google.com/o/oauth2/v2/auth", "https://oauth2.googleapis.com/token", "https://accounts.google.com"),
    (P.entra("i", "s", tenant="t"), "https://login.microsoftonline.com/t/oauth2/v2.0/authorize", "https://login.microsoftonline.com/t/oauth2/v2.0/token", "https://login.microsoftonline.com/t/v2.0"),
    (P.entra("i", "s", tenant="organizations"), "https://login.microsoftonline.com/organizations/oauth2/v2.0/authorize", "https://login.microsoftonline.com/organizations/oauth2/v2.0/token", "https://login.microsoftonline.com/{tid}/v2.0"),
    (P.auth0("i", "s", domain="x.auth0.com"), "https://x.auth0.com/authorize", "https://x.auth0.com/oauth/token", "https://x.auth0.com/"),
    (P.okta("i", "s", domain="x.okta.com"), "https://x.okta.com/oauth2/default/v1/authorize", "https://x.okta.com/oauth2/default/v1/token", "https://x.okta.com/oauth2/default"),
    (P.keycloak("i", "s", url="https://k.example/", realm="r"), "https://k.example/realms/r/protocol/openid-connect/auth", "https://k.example/realms/r/protocol/openid-connect/token", "https://k.example/realms/r"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("provider", "authorize", "token", "issuer"), PRESETS, ids=lambda value: getattr(value, "name", "")
)
def test_the_table_of_providers(
    provider: mcprev.Provider, authorize: str, token: str, issuer: str | None
) -> None:
    assert (provider.authorize_url, provider.token_url, provider.issuer) == (authorize, token, issuer)
    assert provider.user_from == ("id_token" if provider.name == "entra" else "userinfo")
    assert "'s'" not in repr(provider)
    login = mcprev.Login(provider, resource="https://mcp.example/mcp", secrets=SECRET)
    assert login.metadata()["authorization_servers"] == ["https://mcp.example"]
    assert "/callback" in login.routes


def test_users_of_several_claims_are_told_apart_whatever_these_contain() -> None:
    given: Any = {
        "name": "x", "client_id": "i", "client_secret": "s", "authorize_url": f"{IDP}/a", "token_url": f"{IDP}/t", "userinfo_url": f"{IDP}/u",
    }  # fmt: skip

    def subject(claims: dict[str, Any], *members: str) -> str:
        flow = upstream.log_in(mcprev.Provider(**given, subject=members), "cb", "code", "v", "n", 0.0)
        next(flow)
        flow.send(HttpReply(200, b'{"access_token": "t"}'))
        with pytest.raises(StopIteration) as done:
            flow.send(HttpReply(200, json.dumps(claims).encode()))
        user: mcprev.User = done.value.value
        return user.subject

    pairs = [("a:b", "c"), ("a", "b:c"), ("a%3Ab", "c"), ("a", "b%3Ac")]
    assert len({subject({"org": org, "id": id_}, "org", "id") for org, id_ in pairs}) == len(pairs)
    assert subject({"org": "a:b", "id": 3}, "org", "id") == "x:a%3Ab:3"
    assert subject({"sub": "auth0|a:b%"}, "sub") == "x:auth0|a:b%"
    for wrong in ({"org": "a"}, {"org": "a", "id": ""}, {"org": "a", "id": True}, {"org": "a", "id": [1]}):
        with pytest.raises(mcprev.AuthError, match="did not identify the user"):
            subject(wrong, "org", "id")


@pytest.mark.parametrize(
    "wrong",
    [
        {"token_url": "http://idp.example/token"},
        {"client_secret": ""},
        {"private_key": "a key beside a secret"},
        {"token_url": ""},
        {"authorize_url": "", "token_url": ""},
        {"authorize_url": "", "token_url": "", "issuer": "https://login.example/{tid}/?q"},
        {"userinfo_url": None},
        {"user_from": "id_token", "issuer": None},
    ],
    ids=str,
)
def test_a_provider_that_cannot_be_is_refused(wrong: Any) -> None:
    given: Any = {
        "name": "x", "client_id": "i", "client_secret": "s", "authorize_url": f"{IDP}/a", "token_url": f"{IDP}/t", "userinfo_url": f"{IDP}/u",
    }  # fmt: skip
    mcprev.Provider(**given)
    with pytest.raises(ValueError, match=r"https|requires"):
        mcprev.Provider(**{**given, **wrong})


# -- providers that publish their metadata --------------------------------------------------------------------

AT = "https://login.example/realms/x"
ENDPOINTS: Final = {
    "issuer": AT,
    "authorization_endpoint": f"{AT}/auth",
    "token_endpoint": f"{AT}/token",
    "userinfo_endpoint": f"{AT}/me",
}


def complete(provider: mcprev.Provider, documents: dict[str, Any]) -> mcprev.Provider:
    """The provider with what it publishes at some URLs; there is nothing at others."""
    flow = upstream.with_metadata(provider)
    try:
        ask = next(flow)
        while True:
            assert isinstance(ask, HttpFetch)
            found = documents.get(ask.url)
            ask = flow.send(
                HttpReply(404, b"<html>") if found is None else HttpReply(200, json.dumps(found).encode())
            )
    except StopIteration as done:
        result: mcprev.Provider = done.value
        return result


@pytest.mark.parametrize(
    "place",
    [
        f"{AT}/.well-known/openid-configuration",
        "https://login.example/.well-known/oauth-authorization-server/realms/x",
        "https://login.example/.well-known/openid-configuration/realms/x",
    ],
)
def test_one_url_is_enough_where_a_provider_publishes_the_others(place: str) -> None:
    for url in (AT, place):
        provider = P.discovered(url, "i", "s")
        assert (provider.issuer, provider.name, provider.is_complete) == (AT, "login.example", False)
        found = complete(provider, {place: ENDPOINTS})
        assert (found.authorize_url, found.token_url, found.userinfo_url) == (
            f"{AT}/auth",
            f"{AT}/token",
            f"{AT}/me",
        )
        assert found.is_complete
        assert "'s'" not in repr(found)


@pytest.mark.parametrize(
    ("said", "given", "expected"),
    [
        ({}, {}, {"basic": True, "pkce": True, "user_from": "userinfo"}),  # the default of RFC 8414
        ({"token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"]}, {}, {"basic": False}),
        ({"token_endpoint_auth_methods_supported": ["client_secret_basic"]}, {}, {"basic": True}),
        ({"token_endpoint_auth_methods_supported": ["client_secret_post"]}, {"basic": True}, {"basic": True}),
        ({"code_challenge_methods_supported": ["plain"]}, {}, {"pkce": False}),
        ({"code_challenge_methods_supported": ["S256"]}, {}, {"pkce": True}),
        ({"userinfo_endpoint": None}, {}, {"user_from": "id_token", "userinfo_url": None}),
        ({"userinfo_endpoint": None}, {"userinfo_url": f"{AT}/api/user"}, {"user_from": "userinfo", "userinfo_url": f"{AT}/api/user"}),
        ({}, {"user_from": "id_token"}, {"user_from": "id_token"}),
        ({"issuer": f"{AT}"}, {"claims": ("a",), "subject": ("id",)}, {"claims": ("a",), "subject": ("id",)}),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_provider_publishes_and_what_is_passed_beside(
    said: dict[str, Any], given: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = complete(
        P.discovered(AT, "i", "s", **given), {f"{AT}/.well-known/openid-configuration": {**ENDPOINTS, **said}}
    )
    assert {name: getattr(found, name) for name in expected} == expected


def test_a_template_of_tenants_is_the_issuer_of_those_of_all() -> None:
    at = "https://login.microsoftonline.com/organizations/v2.0"
    document = {**ENDPOINTS, "issuer": "https://login.microsoftonline.com/{tenantid}/v2.0"}
    found = complete(P.discovered(at, "i", "s"), {f"{at}/.well-known/openid-configuration": document})
    assert found.issuer == "https://login.microsoftonline.com/{tid}/v2.0"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (None, "HTTP 404"),
        ([], "no JSON object"),
        ({**ENDPOINTS, "issuer": "https://evil.example"}, "names the issuer https://evil.example instead of"),
        ({**ENDPOINTS, "issuer": None}, "names the issuer nobody"),
        ({**ENDPOINTS, "token_endpoint": None}, "no authorization_endpoint and token_endpoint"),
        ({**ENDPOINTS, "token_endpoint": "http://login.example/token"}, "neither an https URL"),
    ],
    ids=["missing", "a list", "another issuer", "no issuer", "no endpoint", "not encrypted"],
)
def test_metadata_that_is_not_of_the_provider_is_not_used(document: Any, words: str) -> None:
    with pytest.raises(mcprev.AuthError, match=words) as error:
        complete(P.discovered(AT, "i", "s"), {f"{AT}/.well-known/openid-configuration": document})
    assert "pass mcprev.Provider its `authorize_url`" in str(error.value)


def test_a_provider_whose_metadata_cannot_be_read_is_a_page_and_asked_again() -> None:
    async def main() -> None:
        clock = Clock()
        idp = LikeCompany(clock)
        async with Site(idp, clock) as site:
            site.apps["8102"] = missing
            hand = ByHand(site)
            client = (await hand.register())["client_id"]
            assert_page(await hand.consent(await hand.ask(client)), 503)
            login: Any = site.login
            login._provider._failed = 0.0, ""  # some seconds later
            site.apps["8102"] = idp
            assert await hand.log_in(client)

    async def missing(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    run(main())


def test_a_user_that_is_not_found_is_told_with_the_names_that_are_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As at GitHub or Discord, whose users have an `id` and no `sub`."""

    class Other(LikeGitHub):
        def provider(self) -> mcprev.Provider:
            return replace(super().provider(), subject=("sub",))

    async def main() -> None:
        clock = Clock()
        async with Site(Other(clock), clock) as site:
            hand = ByHand(site)
            answer = await hand.send("GET", (await sent_to_provider(site, hand)).location)
            assert answer.said["error"] == "access_denied"

    run(main())
    (told,) = [text for text in caplog.messages if "did not identify the user" in text]
    assert "it says no sub, but id, login, name, email" in told
    assert "subject=('id',)" in told
    assert "octocat" not in told


def test_a_cookie_of_a_server_on_the_web_is_of_its_host_alone() -> None:
    async def main() -> None:
        login = mcprev.Login(
            LikeGitHub(Clock()).provider(), resource="https://mcp.example/mcp", secrets=SECRET
        )
        async with Town({}) as town:
            town.apps["mcp.example"] = mcprev.App("x", "1", auth=login).asgi()
            hand = ByHand(town, "https://mcp.example")
            client = (await hand.register())["client_id"]
            page = await hand.send(
                "GET", "/authorize", query=hand.query(client, resource="https://mcp.example/mcp")
            )
            assert re.fullmatch(
                r"__Host-mcprev-login=[\w-]{43}; Path=/; HttpOnly; SameSite=Lax; Max-Age=600; Secure",
                page.headers["set-cookie"],
            )
            sent = await hand.send(
                "POST", "/authorize", headers={"origin": "https://mcp.example"}, data={"request": "x"}
            )
            assert_page(sent, 403)

    run(main())


# -- the command ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_serves_users_of_this_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "mcprev.testing.authorization_server",
        "--port",
        str(port),
        "--user",
        "bob",
        "--scope",
        "read",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            issuer = f"http://127.0.0.1:{port}"
            assert process.stdout.readline().decode().strip() == f"issuer {issuer}"
            assert any(b"Uvicorn running" in line for line in process.stderr)

            async def main() -> None:
                async with aiohttp.ClientSession() as session:
                    async with session.get(f"{issuer}/.well-known/oauth-authorization-server") as found:
                        assert (await found.json())["scopes_supported"] == ["read", "offline_access"]
                    async with session.post(
                        f"{issuer}/register", json={"redirect_uris": [REDIRECT, "http://127.0.0.1:1/back"]}
                    ) as found:
                        client = (await found.json())["client_id"]
                query = {
                    "response_type": "code", "client_id": client, "redirect_uri": REDIRECT, "resource": RESOURCE,
                    "code_challenge": CHALLENGE, "code_challenge_method": "S256",
                }  # fmt: skip
                assert "code=" in await Browser("bob").open(f"{issuer}/authorize?{urlencode(query)}")
                query["redirect_uri"] = (
                    "http://127.0.0.1:1/back"  # as that of a command, where nobody is asked
                )
                back = await Browser("bob").open(f"{issuer}/authorize?{urlencode(query)}")
                assert back.startswith("http://127.0.0.1:1/back?")

            asyncio.run(main())
        finally:
            process.terminate()
