"""What others try at an authorization server: nothing gets through (AUTH-8, AUTH-9, AUTH-10, AUTH-15, AUTH-19, AUTH-20, SEC-7)."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from typing import Any

import pytest

import mcprev
from authorization_server.town import (
    CHALLENGE,
    IDP,
    REDIRECT,
    RESOURCE,
    SERVER,
    ByHand,
    Clock,
    LikeEntra,
    LikeGitHub,
    Response,
    Site,
    Town,
)
from helpers.requirements import req
from helpers.running import run
from mcprev.auth.authorization_server import clients, server
from mcprev.auth.authorization_server.grants import User
from mcprev.auth.authorization_server.keys import challenge_of_verifier
from mcprev.auth.authorization_server.login import Login
from mcprev.testing.authorization_server import LocalAuthorizationServer, LocalUsers

CALLBACK = f"{SERVER}/callback"
ELSEWHERE = "https://evil.example/cb"


class Slow:
    """A store that lets others run before each operation, as one over a network does."""

    def __init__(self) -> None:
        self.inner = mcprev.MemoryRecords()

    async def read(self, key: str, /) -> Any:
        await asyncio.sleep(0)
        return await self.inner.read(key)

    async def write(self, key: str, value: bytes, /, **options: Any) -> Any:
        await asyncio.sleep(0)
        return await self.inner.write(key, value, **options)

    async def remove(self, key: str, /, **options: Any) -> bool:
        await asyncio.sleep(0)
        return await self.inner.remove(key, **options)


def github(**options: Any) -> Site:
    clock = Clock()
    return Site(LikeGitHub(clock), clock, **options)


def entra(**options: Any) -> Site:
    clock = Clock()
    return Site(LikeEntra(clock), clock, **options)


def assert_page(response: Response, status: int = 400) -> None:
    """It is a page for the user, and leads nowhere."""
    assert (response.status, response.headers.get("location")) == (status, None), response.text
    assert response.headers["content-type"] == "text/html; charset=utf-8"


def assert_refused(response: Response, error: str = "invalid_grant", status: int = 400) -> None:
    assert (response.status, response.json["error"]) == (status, error)


# -- codes and tokens ----------------------------------------------------------------------------------------


@req("AUTH-8", "AUTH-9", "AUTH-20")
@pytest.mark.parametrize(
    "form",
    [
        {"client_id": "of another"},
        {"code_verifier": "w" * 43},
        {"code_verifier": None},
        {"code_verifier": CHALLENGE},
        {"redirect_uri": ELSEWHERE},
        {"redirect_uri": None},
        {"redirect_uri": REDIRECT + "/"},
        {"resource": "https://other.example/mcp"},
    ],
    ids=str,
)
def test_a_code_is_good_for_nobody_else_and_used_up_by_the_attempt(form: dict[str, str | None]) -> None:
    async def main() -> None:
        async with github() as site:
            hand = ByHand(site)
            client, other = (await hand.register())["client_id"], (await hand.register())["client_id"]
            code = await hand.log_in(client)
            wrong = {**form, "client_id": other} if "client_id" in form else form
            assert_refused(
                await hand.redeem(client_id=wrong.pop("client_id", None) or client, code=code, **wrong)
            )
            assert_refused(await hand.redeem(client, code))

    run(main())


@req("AUTH-8")
@pytest.mark.parametrize(
    ("verifier", "status"),
    [("~._-" * 11, 200), ("v" * 43, 200), ("v" * 128, 200)]
    + [
        (wrong, 400)
        for wrong in ("v" * 42, "v" * 129, "", "v" * 43 + "+", "v" * 43 + "\u00e9", "v" * 43 + "\n")
    ],
)
def test_a_proof_has_the_length_and_the_characters_of_one(verifier: str, status: int) -> None:
    """A short verifier can be guessed from its challenge, which the browser's history shows (RFC 7636, 4.1)."""

    async def main() -> None:
        async with github() as site:
            hand = ByHand(site)
            client = (await hand.register())["client_id"]
            code = await hand.log_in(client, code_challenge=challenge_of_verifier(verifier))
            assert (await hand.redeem(client, code, code_verifier=verifier)).status == status

    run(main())


def test_a_code_that_is_shown_again_ends_the_login() -> None:
    async def main() -> None:
        async with github() as site:
            hand = ByHand(site)
            client = (await hand.register())["client_id"]
            code = await hand.log_in(client)
            tokens = (await hand.redeem(client, code)).json
            assert await hand.status(tokens["access_token"]) == 400  # it is let in, with a body that is none
            assert_refused(await hand.redeem(client, code))
            assert await hand.status(tokens["access_token"]) == 401
            assert_refused(await hand.refresh(client, tokens["refresh_token"]))

    run(main())


@pytest.mark.parametrize("workers", [2, 5])
def test_one_code_at_several_workers_at_once_is_redeemed_at_most_once(workers: int) -> None:
    async def main() -> None:
        async with github(store=Slow()) as site:
            hands = [ByHand(site)]
            for port in range(8110, 8109 + workers):
                site.apps[str(port)] = site.app(site.worker())
                hands.append(ByHand(site, f"http://127.0.0.1:{port}"))
            client = (await hands[0].register())["client_id"]
            code = await hands[0].log_in(client)
            answers = await asyncio.gather(*(hand.redeem(client, code) for hand in hands))
            good = [answer for answer in answers if answer.status == 200]
            assert len(good) <= 1
            for answer in good:  # whoever was late has ended it
                assert await hands[0].status(answer.json["access_token"]) == 401

    run(main())


def test_a_stolen_refresh_token_ends_the_login_and_a_repeated_request_does_not() -> None:
    async def main() -> None:
        async with github() as site:
            hand = ByHand(site)
            client = (await hand.register())["client_id"]
            first = (await hand.redeem(client, await hand.log_in(client))).json["refresh_token"]
            second = (await hand.refresh(client, first)).json["refresh_token"]
            assert second != first
            site.clock.now += 9
            again = await hand.refresh(client, first)  # the response was lost
            assert again.json["refresh_token"].__class__ is str
            third = await hand.refresh(client, second)
            assert third.status == 200
            site.clock.now += 9
            assert_refused(await hand.refresh(client, first))  # the last but two
            assert_refused(await hand.refresh(client, third.json["refresh_token"]))
            assert await hand.status(third.json["access_token"]) == 401

    run(main())


@pytest.mark.parametrize("seconds", [11, -11], ids=["later", "clock set back"])
def test_the_last_refresh_token_is_good_for_seconds_only(seconds: float) -> None:
    async def main() -> None:
        async with github() as site:
            hand = ByHand(site)
            client = (await hand.register())["client_id"]
            first = (await hand.redeem(client, await hand.log_in(client))).json["refresh_token"]
            tokens = (await hand.refresh(client, first)).json
            site.clock.now += seconds
            assert_refused(await hand.refresh(client, first))
            assert_refused(await hand.refresh(client, tokens["refresh_token"]))

    run(main())


def test_two_workers_that_refresh_at_once_keep_the_login() -> None:
    async def main() -> None:
        async with github(store=Slow()) as site:
            site.apps["8110"] = site.app(site.worker())
            hands = ByHand(site), ByHand(site, "http://127.0.0.1:8110")
            client = (await hands[0].register())["client_id"]
            first = (await hands[0].redeem(client, await hands[0].log_in(client))).json["refresh_token"]
            answers = await asyncio.gather(*(hand.refresh(client, first) for hand in hands))
            assert [answer.status for answer in answers] == [200, 200]
            for answer in answers:
                assert await hands[0].status(answer.json["access_token"]) == 400
            assert (await hands[1].refresh(client, answers[0].json["refresh_token"])).status == 200

    run(main())


def test_a_refresh_token_is_of_one_client_and_one_resource() -> None:
    async def main() -> None:
        async with github() as site:
            hand = ByHand(site)
            client, other = (await hand.register())["client_id"], (await hand.register())["client_id"]
            token = (await hand.redeem(client, await hand.log_in(client))).json["refresh_token"]
            wrong = await hand.refresh(client, token, resource="https://other.example")
            assert_refused(wrong, "invalid_target")
            assert_refused(await hand.refresh(client, token[:-2] + "AA"))
            assert_refused(await hand.refresh(other, token))
            assert_refused(await hand.refresh(client, token))  # it was stolen

    run(main())


@req("AUTH-10")
def test_a_token_of_another_resource_server_or_kind_is_refused() -> None:
    async def main() -> None:
        async with github() as site:
            other = "http://127.0.0.1:8111/mcp"
            neighbour = LikeGitHub(site.clock)
            shared: dict[str, Any] = {
                "secrets": "a secret of the operator, 32 bytes or more",
                "clock": site.clock,
                "session": site.session,
            }
            login: Any = Login(neighbour.provider(), resource=other, **shared)
            site.apps["8111"] = site.app(login)
            hand = ByHand(site)
            client = (await hand.register())["client_id"]
            tokens = (await hand.redeem(client, await hand.log_in(client))).json
            there = ByHand(site, "http://127.0.0.1:8111")
            for token in (tokens["access_token"], tokens["refresh_token"], "idp-token-1"):
                assert await there.status(token) == 401
            page = await hand.ask(client)
            there.cookies = hand.cookies  # browsers send cookies to all ports of a host
            assert_page(await there.consent(page), 403)  # nor a form that the user was shown elsewhere
            assert await hand.status(tokens["refresh_token"]) == 401
            assert await hand.status("idp-token-1") == 401  # a provider's token opens nothing

    run(main())


@req("AUTH-10")
@pytest.mark.parametrize(
    "header", [[], "x", 1, None, {}, {"alg": []}, {"alg": "none"}, {"alg": "ES384", "kid": []}, "[" * 5000], ids=lambda value: str(value)[:30]
)  # fmt: skip
def test_a_token_whose_header_is_none_is_refused(header: Any) -> None:
    async def main() -> None:
        async with github() as site:
            text = header if isinstance(header, str) and header[0] == "[" else json.dumps(header)
            token = f"{base64.urlsafe_b64encode(text.encode()).rstrip(b'=').decode()}.e30.c2ln"
            assert await ByHand(site).status(token) == 401

    run(main())


@req("AUTH-10")
def test_a_token_of_an_authorization_server_for_several_resources_is_for_one() -> None:
    async def main() -> None:
        local = LocalAuthorizationServer(SERVER)
        async with Town({SERVER: local}) as town:
            hand = ByHand(town)
            client = (await hand.register())["client_id"]
            code = await hand.log_in(client, resource="https://One.example:443/mcp/")
            token = (await hand.redeem(client, code, resource="https://one.example/mcp")).json["access_token"]
            access = await local.verify(token)
            assert access.audience == ("https://one.example/mcp",)

    run(main())


# -- the authorization request -------------------------------------------------------------------------------


@req("AUTH-8", "AUTH-19", "AUTH-20")
@pytest.mark.parametrize(
    "said",
    [
        {"redirect_uri": ELSEWHERE},
        {"redirect_uri": None},
        {"redirect_uri": "https://app.example/cb/../x"},
        {"redirect_uri": "https://app.example/cb?x=1"},
        {"redirect_uri": "https://app.example/CB"},
        {"redirect_uri": "https://app.example:444/cb"},
        {"redirect_uri": "https://app.example/cb#x"},
        {"redirect_uri": "https://app.example@evil.example/cb"},
        {"redirect_uri": "//app.example/cb"},
        {"redirect_uri": "http://app.example/cb"},
        {"redirect_uri": "http://127.0.0.1:1@evil.example/callback"},
        {"redirect_uri": "http://127.0.0.1:99999999/callback"},
        {"redirect_uri": "http://localhost/callback"},
        {"redirect_uri": "http://127.0.0.1.evil.example/callback"},
        {"redirect_uri": "https://127.0.0.1/callback"},
        {"redirect_uri": "http://127.0.0.1/callback/x"},
        {"client_id": "unknown"},
        {"client_id": None},
        {"response_type": "token"},
        {"response_type": None},
        {"code_challenge": None},
        {"code_challenge": "short"},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": None},
        {"resource": "https://other.example/mcp"},
        {"resource": "not a URL"},
        {"state": "x" * 3000},
    ],
    ids=str,
)
def test_a_bad_request_ends_in_a_page_and_never_at_another_address(said: dict[str, str | None]) -> None:
    async def main() -> None:
        async with github() as site:
            hand = ByHand(site)
            uris = ["https://app.example/cb", REDIRECT]
            client = (await hand.register(redirect_uris=uris))["client_id"]
            wanted: dict[str, Any] = {"client_id": client, **said}
            assert_page(await hand.ask(**wanted))

    run(main())


@pytest.mark.parametrize("uri", ["http://127.0.0.1:51234/callback", REDIRECT])
def test_the_port_of_this_machine_may_vary(uri: str) -> None:
    async def main() -> None:
        async with github() as site:
            hand = ByHand(site)
            client = (await hand.register())["client_id"]
            code = await hand.log_in(client, redirect_uri=uri)
            assert (await hand.redeem(client, code, redirect_uri=uri)).status == 200

    run(main())


# -- consent --------------------------------------------------------------------------------------------------


def test_the_page_shows_foreign_text_as_text_and_is_framed_by_nobody() -> None:
    async def main() -> None:
        async with github() as site:
            hand = ByHand(site)
            name = "<script>alert(1)</script>\"'><img src=x>\u202e\n"
            uri = "https://app.example/'\"<b>"
            assert (await hand.send("POST", "/register", json={"redirect_uris": [uri]})).status == 400
            client = (await hand.register(client_name=name))["client_id"]
            page = await hand.ask(client, state="<b>'\"")
            assert page.status == 200
            assert "&lt;script&gt;alert(1)&lt;/script&gt;&quot;" in page.text
            assert not re.search(r"<script|<img|<b>|\u202e", page.text)
            assert "127.0.0.1" in page.text
            policy = page.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert page.headers["x-frame-options"] == "DENY"
            assert page.headers["cache-control"] == "no-store"

    run(main())


@pytest.mark.parametrize("way", ["no cookie", "another browser", "forged", "none", "old", "another server"])
def test_nobody_consents_but_the_user_to_whom_the_page_was_shown(way: str) -> None:
    async def main() -> None:
        async with github() as site:
            hand, victim = ByHand(site), ByHand(site)
            client = (await hand.register())["client_id"]
            page = await hand.ask(client)
            await victim.ask(client)
            match way:
                case "no cookie":
                    victim.cookies.clear()
                    answer = await victim.consent(page)
                case "another browser":
                    answer = await victim.consent(page)
                case "forged":
                    answer = await hand.consent(page, request="eyJyZXF1ZXN0Ijp7fX0")
                case "none":
                    answer = await hand.send("POST", "/authorize", data={"decision": "allow"})
                case "old":
                    site.clock.now += 601
                    answer = await hand.consent(page)
                case _:
                    site.apps["8101"] = site.app(site.worker(secrets="another secret of 32 bytes or more"))
                    answer = await hand.consent(page)
            assert_page(answer, 403)
            assert [path for path, _ in site.idp.seen] == []

    run(main())


@req("AUTH-15")
@pytest.mark.parametrize("decision", ["deny", "", "Allow"])
def test_what_is_no_consent_is_told_to_the_client(decision: str) -> None:
    async def main() -> None:
        async with github() as site:
            hand = ByHand(site)
            client = (await hand.register())["client_id"]
            answer = await hand.consent(await hand.ask(client), decision=decision)
            assert answer.location.startswith(REDIRECT + "?")
            said = {name: answer.said.get(name) for name in ("error", "state", "iss", "code")}
            assert said == {"error": "access_denied", "state": "s1", "iss": SERVER, "code": None}

    run(main())


def test_a_remembered_consent_is_for_one_browser_client_user_and_never_for_a_public_id() -> None:
    async def main() -> None:
        async with github(remember=1000.0, optional_scopes=["write"]) as site:
            hand, other = ByHand(site), ByHand(site)
            client, second = (await hand.register())["client_id"], (await hand.register())["client_id"]
            await hand.log_in(client)
            straight = await hand.ask(client)
            assert straight.location.startswith(f"{IDP}/authorize")
            assert (await hand.ask(client, redirect_uri="http://127.0.0.1:5/callback")).status == 303
            assert (await hand.ask(second)).status == 200
            assert (await other.ask(client)).status == 200
            assert (await hand.ask(client, scope="write")).status == 200
            site.idp.user = "99"  # who is logged in at the provider now
            back = await hand.send("GET", straight.location)
            asked = await hand.send("GET", back.location)
            assert asked.status == 200, "this user has consented to nothing"
            assert (await hand.ask(client)).status == 200
            site.idp.user = "583231"
            await hand.log_in(client)
            site.clock.now += 1001
            assert (await hand.ask(client)).status == 200

    run(main())


def test_by_default_each_login_is_asked_for() -> None:
    async def main() -> None:
        async with github() as site:
            hand = ByHand(site)
            client = (await hand.register())["client_id"]
            await hand.log_in(client)
            assert (await hand.ask(client)).status == 200

    run(main())


# -- the answer of the provider -------------------------------------------------------------------------------


async def sent_to_provider(site: Site, hand: ByHand) -> Response:
    """The answer of the provider, which leads back."""
    client = (await hand.register())["client_id"]
    sent = await hand.consent(await hand.ask(client))
    return await hand.send("GET", sent.location)


@pytest.mark.parametrize("way", ["replayed", "another browser", "no cookie", "unknown", "late"])
def test_the_answer_of_the_provider_counts_once_and_in_the_browser_that_consented(way: str) -> None:
    async def main() -> None:
        async with github() as site:
            hand, victim = ByHand(site), ByHand(site)
            back = await sent_to_provider(site, hand)
            await victim.ask((await victim.register())["client_id"])
            status = 400
            match way:
                case "replayed":
                    assert (await hand.send("GET", back.location)).said["code"]
                    answer = await hand.send("GET", back.location)
                case "another browser":
                    answer, status = await victim.send("GET", back.location), 403
                case "no cookie":
                    answer, status = await ByHand(site).send("GET", back.location), 403
                case "late":
                    site.clock.now += 601
                    answer = await hand.send("GET", back.location)
                case _:
                    answer = await hand.send("GET", f"{CALLBACK}?code=c&state=unknown")
            assert_page(answer, status)
            if status == 403:  # the user is not kept from going on
                assert (await hand.send("GET", back.location)).said["code"]

    run(main())


@pytest.mark.parametrize(
    ("back", "claims"),
    [
        ({"iss": "https://evil.example"}, {}),
        ({"error": "access_denied"}, {}),
        ({"code": ""}, {}),
        ({"code": "unknown"}, {}),
        ({}, {"aud": "another client"}),
        ({}, {"aud": ["idp-client", "another"]}),
        ({}, {"iss": "https://evil.example"}),
        ({}, {"tid": "another tenant"}),
        ({}, {"nonce": "of another login"}),
        ({}, {"exp": 1}),
        ({}, {"exp": None}),
        ({}, {"oid": None}),
        ({}, {"oid": ""}),
    ],
    ids=str,
)
def test_a_wrong_answer_of_the_provider_logs_nobody_in(back: dict[str, str], claims: dict[str, Any]) -> None:
    async def main() -> None:
        async with entra() as site:
            idp: Any = site.idp
            idp.back, idp.claims = back, claims
            if "iss" in back:
                idp.fixed = True
                site.apps["8101"] = site.app(site.worker())
            hand = ByHand(site)
            answer = await hand.send("GET", (await sent_to_provider(site, hand)).location)
            assert answer.said["error"] == "access_denied"
            assert "code" not in answer.said
            assert answer.location.startswith(REDIRECT)

    run(main())


def says_no(_: mcprev.User) -> bool:
    return False


def says_one(_: mcprev.User) -> int:
    return 1


def raises(user: mcprev.User) -> Any:
    return user.claims["missing"]


async def knows(user: mcprev.User) -> bool:
    return bool(user.claims["login"] == "octocat")


@pytest.mark.parametrize("allow", [says_no, says_one, raises])
def test_only_users_that_are_allowed_log_in(allow: Any) -> None:
    async def main() -> None:
        async with github(allow=allow) as site:
            hand = ByHand(site)
            answer = await hand.send("GET", (await sent_to_provider(site, hand)).location)
            assert answer.said["error"] == "access_denied"
        async with github(allow=knows) as site:
            hand = ByHand(site)
            assert await hand.log_in((await hand.register())["client_id"])

    run(main())


def test_a_user_who_may_not_use_the_server_any_more_is_locked_out_by_the_next_refresh() -> None:
    async def main() -> None:
        may = True

        def allow(user: User) -> bool:
            return may and user.subject.startswith("github:")

        async with github(allow=allow) as site:
            hand = ByHand(site)
            client = (await hand.register())["client_id"]
            tokens = (await hand.redeem(client, await hand.log_in(client))).json
            tokens = (await hand.refresh(client, tokens["refresh_token"])).json
            may = False
            assert_refused(await hand.refresh(client, tokens["refresh_token"]))
            assert await hand.status(tokens["access_token"]) == 401
            may = True
            assert_refused(await hand.refresh(client, tokens["refresh_token"]))

    run(main())


# -- registration ---------------------------------------------------------------------------------------------


@req("AUTH-19", "AUTH-20")
@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        (b"no JSON", "invalid_client_metadata"),
        (b"[" * 20_000, "invalid_client_metadata"),
        ([], "invalid_client_metadata"),
        ({}, "invalid_redirect_uri"),
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": "https://a.example"}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://a.example"] * 11}, "invalid_redirect_uri"),
        *(
            ({"redirect_uris": [uri]}, "invalid_redirect_uri")
            for uri in (
                "http://a.example/cb", "http://127.0.0.1.a.example/", "http://2130706433/", "javascript:alert(1)",
                "data:text/html,x", "cursor://x", "https://a.example/#x", "https://u@a.example/", "https://a.example/\r\nx: y",
                "https:///x", "https://a.example/" + "x" * 3000, "HTTPS://", 1, None, "file:///etc/passwd", "https://a\\@b/",
            )
        ),
        ({"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
        ({"redirect_uris": [REDIRECT], "grant_types": ["client_credentials"]}, "invalid_client_metadata"),
        ({"redirect_uris": [REDIRECT], "response_types": ["token"]}, "invalid_client_metadata"),
        ({"redirect_uris": [REDIRECT], "client_name": 1}, "invalid_client_metadata"),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_a_registration_that_is_none_is_refused(metadata: Any, error: str) -> None:
    async def main() -> None:
        async with github() as site:
            body: dict[str, Any] = {"data": metadata} if isinstance(metadata, bytes) else {"json": metadata}
            assert_refused(await ByHand(site).send("POST", "/register", **body), error)

    run(main())


def test_registrations_are_bounded_in_size_number_and_time() -> None:
    async def main() -> None:
        async with github(registrations=3) as site:
            hand = ByHand(site)
            assert (await hand.send("POST", "/register", data=b"x" * 40_000)).status == 413
            used, unused = (await hand.register())["client_id"], (await hand.register())["client_id"]
            await hand.redeem(used, await hand.log_in(used))
            await hand.register()
            refused = await hand.send("POST", "/register", json={"redirect_uris": [REDIRECT]})
            assert_refused(refused, "temporarily_unavailable", 429)
            site.clock.now += int(refused.headers["retry-after"]) - 1
            assert (await hand.send("POST", "/register", json={"redirect_uris": [REDIRECT]})).status == 429
            site.clock.now += 1
            assert (await hand.register())["client_id"]
            site.clock.now += 3601
            assert (await hand.ask(used)).status == 200
            assert_page(await hand.ask(unused))
            assert (await hand.register())["client_id"]

    run(main())


def test_whoever_has_no_login_cannot_fill_the_store_of_those_who_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert clients.MAX_UNUSED + server.MAX_ATTEMPTS < 32 * 1024 * 1024  # half of a store in memory
    monkeypatch.setattr(clients, "MAX_UNUSED", 20_000)
    monkeypatch.setattr(server, "MAX_ATTEMPTS", 20_000)

    async def main() -> None:
        async with github() as site:
            hand = ByHand(site)
            client = (await hand.register())["client_id"]
            tokens = (await hand.redeem(client, await hand.log_in(client))).json
            long = [f"https://a.example/{'x' * 1900}{n}" for n in range(2)]
            refused = await hand.send("POST", "/register", json={"redirect_uris": long})
            for _ in range(8):
                if refused.status != 201:
                    break
                refused = await hand.send("POST", "/register", json={"redirect_uris": long})
            assert_refused(refused, "temporarily_unavailable", 429)
            assert 0 < int(refused.headers["retry-after"]) <= clients.UNUSED
            sent = await hand.consent(await hand.ask(client, state="x" * 2000))
            for _ in range(29):
                if sent.status != 303:
                    break
                sent = await hand.consent(await hand.ask(client, state="x" * 2000))
            assert_page(sent, 503)
            assert 0 < int(sent.headers["retry-after"]) <= server.LOGIN_TIME
            assert (await hand.refresh(client, tokens["refresh_token"])).status == 200
            site.clock.now += 3601
            assert await hand.log_in((await hand.register())["client_id"])

    run(main())


def test_redirect_uris_are_bounded_together() -> None:
    async def main() -> None:
        async with github() as site:
            uris = [f"https://a.example/{n}{'x' * 1500}" for n in range(3)]
            assert_refused(
                await ByHand(site).send("POST", "/register", json={"redirect_uris": uris}),
                "invalid_redirect_uri",
            )

    run(main())


def test_apps_are_redirected_to_if_the_operator_lists_their_scheme() -> None:
    async def main() -> None:
        async with github(redirect_schemes=["cursor"]) as site:
            hand = ByHand(site)
            uri = "cursor://anysphere.cursor-retrieval/oauth/callback"
            client = (await hand.register(redirect_uris=[uri]))["client_id"]
            page = await hand.ask(client, redirect_uri=uri)
            assert "cursor-retrieval" in page.text
            denied = await hand.consent(page, decision="deny")
            assert denied.location.startswith(uri + "?error=access_denied")
        for scheme in ("javascript", "https", "data"):
            with pytest.raises(ValueError, match="scheme of an app"):
                Login(LikeGitHub(Clock()).provider(), resource=RESOURCE, redirect_schemes=[scheme])

    run(main())


@pytest.mark.parametrize(
    "resource", ["mcp.example", "ftp://mcp.example/mcp", "https://mcp.example/mcp#a", ""]
)
def test_what_is_no_url_of_an_endpoint_is_refused(resource: str) -> None:
    with pytest.raises(ValueError, match="`resource` must be the URL of the endpoint, such as https://"):
        Login(LikeGitHub(Clock()).provider(), resource=resource)


def test_the_url_of_a_store_is_no_store() -> None:
    url: Any = "sqlite:///logins.db"
    with pytest.raises(TypeError, match="`store` must not be a str; pass a store"):
        Login(LikeGitHub(Clock()).provider(), resource=RESOURCE, store=url)


# -- users without passwords ----------------------------------------------------------------------------------


def test_users_without_passwords_stay_on_this_machine() -> None:
    with pytest.raises(ValueError, match="not on this machine"):
        LocalAuthorizationServer("https://as.example")
    with pytest.raises(ValueError, match="not on this machine"):
        Login(LocalUsers("alice"), resource="https://mcp.example/mcp")


@pytest.mark.parametrize("mounted", [True, False])
@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "https://evil.example"}], ids=str)
def test_a_page_of_another_site_cannot_consent_for_them(headers: dict[str, str], mounted: bool) -> None:
    async def main() -> None:
        login = Login(LocalUsers("alice"), resource=RESOURCE)
        app: Any = mcprev.App("x", "1", auth=login).asgi() if mounted else LocalAuthorizationServer(SERVER)
        async with Town({SERVER: app}) as town:
            town.apps["evil.example"] = app
            hand = ByHand(town)
            client = (await hand.register())["client_id"]
            page = await hand.ask(client)
            form = {
                "request": page.text.split('name="request" value="')[1].split('"')[0],
                "decision": "allow",
            }
            answer = await hand.send("POST", "/authorize", headers=headers, data=form)
            assert (answer.status, answer.headers.get("location")) == (403, None)
            assert (await hand.consent(page)).status == 303

    run(main())
