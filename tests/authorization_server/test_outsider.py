"""An attacker who knows the field, not the code: mixed and tampered flows, look-alikes, floods, and a provider of odd types.

AUTH-8, AUTH-9, AUTH-12, AUTH-15, AUTH-19, AUTH-20, SEC-6, SEC-7.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import pytest

import mcprev
from authorization_server.town import (
    IDP,
    REDIRECT,
    RESOURCE,
    SERVER,
    VERIFIER,
    ByHand,
    Clock,
    LikeEntra,
    LikeGitHub,
    Response,
    Site,
)
from fuzz.fuzzing import each_once
from helpers.requirements import req
from helpers.running import run
from mcprev.auth.authorization_server import clients

HONEST: Final = "https://honest.example/cb"
EVIL: Final = "https://evil.example/cb"
DOCUMENT: Final = "https://app.example/client.json"


class Honest(LikeGitHub):
    """A provider that refuses a wrong proof key."""

    def token(self, said: dict[str, str], headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        try:
            return super().token(said, headers)
        except AssertionError:
            return self.refused("bad_verification_code")


class Odd(LikeEntra):
    """A provider whose answers have some odd members."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.answer: dict[str, object] = {}

    def more(self, asked: dict[str, str] | None) -> dict[str, object]:
        return {**super().more(asked), **self.answer}


class OddUser(LikeGitHub):
    """A provider whose userinfo and addresses are odd."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.said: object = {"id": 1}
        self.addresses: object = []

    def user_(self, said: dict[str, str], headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        return self.json(self.said)

    def emails(self, said: dict[str, str], headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        return self.json(self.addresses)


CHANGES: Final[dict[str, Callable[[str], str]]] = {
    "case": str.swapcase,
    "blank": lambda text: text + " ",
    "blank before": lambda text: " " + text,
    "nul": lambda text: text + "\x00",
    "zero width": lambda text: text + "\u200b",
    "full-width": lambda text: "".join(chr(ord(each) + 0xFEE0) for each in text),
    "cyrillic": lambda text: text.replace("c", "\u0441"),
    "encoded": lambda text: "%" + text[0].encode().hex() + text[1:],
    "padded": lambda text: text + "=",
    "cut": lambda text: text[:-1],
}
"""What makes a text look like another one."""


def site_of(kind: Any, **options: Any) -> Any:
    clock = Clock()
    return Site(kind(clock), clock, **options)


def leads_nowhere(response: Response) -> bool:
    """It is no success and no redirect."""
    return 400 <= response.status < 500 and "location" not in response.headers


# -- two clients ---------------------------------------------------------------------------------------------


@req("AUTH-20", "AUTH-8")
def test_an_evil_client_that_registers_the_address_of_an_honest_one_gets_nothing() -> None:
    """The code goes to the honest client, which neither knows its state nor may redeem it."""

    async def main() -> None:
        async with site_of(Honest) as site:
            user = ByHand(site)
            honest = (await user.register(redirect_uris=[HONEST]))["client_id"]
            evil = (await user.register(client_name="Honest", redirect_uris=[HONEST, EVIL]))["client_id"]
            code = await user.log_in(evil, redirect_uri=HONEST, state="of evil")
            assert (await user.redeem(honest, code, redirect_uri=HONEST)).status == 400
            assert (
                await user.redeem(evil, code, redirect_uri=HONEST)
            ).status == 400  # the attempt used it up
            code = await user.log_in(evil, redirect_uri=HONEST)
            assert (await user.redeem(evil, code, redirect_uri=EVIL)).status == 400

    run(main())


@req("AUTH-20")
def test_answers_of_two_logins_in_one_browser_cannot_be_exchanged() -> None:
    """The code that the provider issued for the one does not end the other (state and proof key)."""

    async def main() -> None:
        async with site_of(Honest) as site:
            user = ByHand(site)
            backs: list[Response] = []
            for uri in (HONEST, EVIL):
                client = (await user.register(redirect_uris=[uri]))["client_id"]
                sent = await user.consent(await user.ask(client, redirect_uri=uri, state=uri))
                backs.append(await user.send("GET", sent.location))
            first, second = (back.said for back in backs)
            mixed = {"code": second["code"], "state": first["state"]}
            answer = await user.send("GET", "/callback", query=mixed)
            assert answer.location.startswith(HONEST)
            assert answer.said["error"] == "access_denied"
            assert answer.said["iss"] == SERVER

    run(main())


@req("AUTH-20")
def test_a_request_that_names_two_clients_is_of_neither() -> None:
    async def main() -> None:
        async with site_of(Honest) as site:
            user = ByHand(site)
            victim = (await user.register())["client_id"]
            evil = await user.register(token_endpoint_auth_method="client_secret_basic")
            pair = f"{evil['client_id']}:{evil['client_secret']}".encode()
            headers = {"authorization": f"Basic {base64.b64encode(pair).decode()}"}
            code = await user.log_in(evil["client_id"])
            form = {
                "grant_type": "authorization_code", "code": code, "client_id": victim, "redirect_uri": REDIRECT,
                "code_verifier": VERIFIER,
            }  # fmt: skip
            answer = await user.send("POST", "/token", data=form, headers=headers)
            assert (answer.status, answer.json["error"]) == (401, "invalid_client")
            del form["client_id"]
            assert (await user.send("POST", "/token", data=form, headers=headers)).status == 200

    run(main())


@req("AUTH-20")
@pytest.mark.parametrize("way", ["flipped", "cut", "of another use", "empty", "longer", "of a stranger"])
def test_a_consent_form_that_was_changed_is_worth_nothing(way: str) -> None:
    async def main() -> None:
        async with site_of(Honest) as site:
            user, stranger = ByHand(site), ByHand(site)
            client = (await user.register())["client_id"]
            page = await user.ask(client)
            sealed = page.text.split('name="request" value="')[1].split('"')[0]
            tokens = (await user.redeem(client, await user.log_in(client))).json
            other = (await stranger.ask(client)).text.split('name="request" value="')[1].split('"')[0]
            wrong = {
                "flipped": sealed[:40] + ("A" if sealed[40] != "A" else "B") + sealed[41:],
                "cut": sealed[:-1],
                "of another use": tokens["refresh_token"],
                "empty": "",
                "longer": sealed + "==",
                "of a stranger": other,
            }[way]
            answer = await user.consent(page, request=wrong)
            assert answer.status == 403
            assert leads_nowhere(answer)

    run(main())


@req("AUTH-20", "SEC-7")
def test_the_consent_page_is_not_shown_in_frames_nor_kept_and_its_cookie_stays_with_its_host() -> None:
    async def main() -> None:
        async with site_of(Honest) as site:
            user = ByHand(site)
            client = (await user.register())["client_id"]
            page = await user.ask(client)
            assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
            assert (page.headers["x-frame-options"], page.headers["cache-control"]) == ("DENY", "no-store")
            for part in ("HttpOnly", "SameSite=Lax", "Path=/"):
                assert part in page.headers["set-cookie"]
            assert "access-control-allow-origin" not in page.headers
            # A page that posts the form without the cookie, or reads it by GET, gets nothing.
            form = {
                "request": page.text.split('name="request" value="')[1].split('"')[0],
                "decision": "allow",
            }
            assert (await ByHand(site).send("POST", "/authorize", data=form)).status == 403
            assert leads_nowhere(await user.send("GET", "/authorize", query=form))

    run(main())


# -- names and addresses that look alike ---------------------------------------------------------------------


@each_once
@req("AUTH-19", "AUTH-20")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("what", ["client_id", "redirect_uri", "code", "refresh_token"])
def test_what_looks_like_it_is_not_it(what: str, change: str) -> None:
    async def main() -> None:
        async with site_of(Honest) as site:
            user = ByHand(site)
            uri = "https://cdn.example/abcABC"
            client = (await user.register(redirect_uris=[uri]))["client_id"]
            code = await user.log_in(client, redirect_uri=uri)
            if what == "code":
                changed = CHANGES[change](code)
                answer = await user.redeem(client, changed, redirect_uri=uri)
            elif what == "refresh_token":
                token = (await user.redeem(client, code, redirect_uri=uri)).json["refresh_token"]
                changed, code = CHANGES[change](token), token
                answer = await user.refresh(client, changed)
            else:
                code = client if what == "client_id" else uri
                changed = CHANGES[change](code)
                asked: dict[str, str] = {"client_id": client, "redirect_uri": uri, what: changed}
                answer = await user.ask(asked.pop("client_id"), **asked)
            if changed != code:
                assert leads_nowhere(answer), changed

    run(main())


@req("AUTH-19")
@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1:1\\@evil.example/callback", "http://localhost.:1/callback", "http://127.1/callback",
        "http://[::ffff:127.0.0.1]/callback", "http://localhost%2eevil.example/callback", "http://LOCALHOST/callback",
        "http://127.0.0.1:/callback", "http://127.0.0.1\t/callback", "http:127.0.0.1/callback", "http:///127.0.0.1/callback",
        "http://127.0.0.1/callback?next=https://evil.example", "http://127.0.0.1//evil.example", "https://evil.example/http://127.0.0.1/callback",
        "http://127.0.0.1/call%62ack", "http://127.0.0.1/./callback", "http://127.0.0.1/callback;x", "http://127.0.0.1:80 /callback",
    ],
)  # fmt: skip
def test_no_spelling_of_this_machine_leads_elsewhere(uri: str) -> None:
    async def main() -> None:
        async with site_of(Honest) as site:
            user = ByHand(site)
            client = (await user.register())["client_id"]
            assert leads_nowhere(await user.ask(client, redirect_uri=uri)), uri

    run(main())


@req("AUTH-15", "AUTH-19")
def test_members_in_a_redirect_uri_do_not_take_the_place_of_the_answer() -> None:
    """What is registered stays in front; the answer follows, with the state as it was sent."""

    async def main() -> None:
        async with site_of(Honest) as site:
            user, uri = ByHand(site), "https://honest.example/cb?tenant=1"
            client = (await user.register(redirect_uris=[uri]))["client_id"]
            odd = "a&iss=https://evil.example#\r\nSet-Cookie: x=1\u2028\u202e"
            denied = await user.consent(await user.ask(client, redirect_uri=uri, state=odd), decision="deny")
            assert denied.location.startswith(uri + "&error=access_denied&")
            assert denied.said["state"] == odd
            assert (denied.said["iss"], "set-cookie" in denied.headers) == (SERVER, False)

    run(main())


# -- floods and documents ------------------------------------------------------------------------------------


@req("SEC-6")
def test_a_flood_of_registrations_from_everywhere_costs_nobody_who_is_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients, "ALL", 8)

    async def main() -> None:
        async with site_of(Honest) as site:
            user = ByHand(site)
            known = (await user.register())["client_id"]
            tokens = (await user.redeem(known, await user.log_in(known))).json
            flood = [await user.send("POST", "/register", json={"redirect_uris": [EVIL]}) for _ in range(10)]
            assert [each.status for each in flood] == [201] * 7 + [429] * 3
            assert (await user.refresh(known, tokens["refresh_token"])).status == 200
            assert await user.log_in(known)

    run(main())


@req("AUTH-12", "SEC-1")
@pytest.mark.parametrize(
    "way", ["redirected", "bomb", "not json", "list", "deep", "nan", "repeated", "another type"]
)
def test_a_document_that_is_a_trap_describes_nobody(way: str) -> None:
    good = {"client_id": DOCUMENT, "client_name": "Doc", "redirect_uris": [REDIRECT]}
    body, status, more = json.dumps(good).encode(), 200, dict[str, str]()
    match way:
        case "redirected":
            status, more = 302, {"location": f"{SERVER}/elsewhere"}
        case "bomb":
            padded = json.dumps({**good, "x": "x" * 50_000_000}).encode()
            body, more = gzip.compress(padded), {"content-encoding": "gzip"}
        case "not json":
            body = b"<html>"
        case "list":
            body = json.dumps([good]).encode()
        case "deep":
            body = b'{"client_id": ' + b"[" * 4000 + b"]" * 4000 + b"}"
        case "nan":
            body = b'{"client_id": NaN}'
        case "repeated":
            body = body[:-1] + b', "client_id": "https://app.example/other"}'
        case _:
            body = json.dumps({**good, "client_id": [DOCUMENT]}).encode()
    asked: list[str] = []

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        headers = [(name.encode(), value.encode()) for name, value in more.items()]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def main() -> None:
        async with site_of(Honest) as site:
            site.apps["app.example"] = serve
            assert leads_nowhere(await ByHand(site).ask(DOCUMENT))
            assert asked == ["/client.json"]

    run(main())


# -- workers that share a file -------------------------------------------------------------------------------


@req("AUTH-20")
def test_workers_that_refresh_at_once_with_one_file_keep_the_login_and_a_thief_ends_it(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        url = f"sqlite:///{tmp_path}/logins.db"
        stores = [mcprev.open_store(url) for _ in range(2)]
        async with site_of(Honest, store=stores[0]) as site:
            site.apps["8103"] = site.app(site.worker(store=stores[1]))
            one, two = ByHand(site), ByHand(site, "http://127.0.0.1:8103")
            client = (await one.register())["client_id"]
            old = first = (await one.redeem(client, await one.log_in(client))).json["refresh_token"]
            for _ in range(5):
                both = await asyncio.gather(*(hand.refresh(client, old) for hand in (one, two, one, two)))
                assert [each.status for each in both] == [200] * 4
                successors = {each.json["refresh_token"] for each in both}
                assert len(successors) == 4  # of one rotation, each sealed anew
                old = both[0].json["refresh_token"]
            site.clock.now += 11
            assert (await two.refresh(client, first)).status == 400  # stolen: the login ends everywhere
            assert (await one.refresh(client, old)).status == 400
        for store in stores:
            await store.aclose()

    run(main())


@req("AUTH-20")
@pytest.mark.parametrize("junk", [b"", b"[", b"\xff\xfe", b'"x"', b"{}", b"null", b"1e999", b"9" * 5000])
def test_a_store_whose_values_were_changed_lets_nobody_in_and_breaks_nothing(junk: bytes) -> None:
    async def main() -> None:
        store = mcprev.MemoryRecords()
        async with site_of(Honest, store=store) as site:
            user = ByHand(site)
            client = (await user.register())["client_id"]
            tokens = (await user.redeem(client, await user.log_in(client))).json
            names = list(store._held)
            for name in names:
                await store.write(name, junk)
            assert await user.status(tokens["access_token"]) == 401
            assert leads_nowhere(await user.refresh(client, tokens["refresh_token"]))
            assert leads_nowhere(await user.ask(client))

    run(main())


# -- a provider of odd types ---------------------------------------------------------------------------------


ODD: Final = cast("tuple[Any, ...]", (
    None, True, False, 0, -1, 1.5, float("nan"), float("inf"), 10**400, "", " ", "\ud800", "x" * 100_000, [], [[]],
    {}, {"a": 1}, "a\r\nb: c", "\u0000", ["a", None],
))  # fmt: skip


async def ends_well(site: Any) -> Response:
    """Log in; the answer leads back to the client, with a code or an error."""
    user = ByHand(site)
    client = (await user.register())["client_id"]
    sent = await user.consent(await user.ask(client))
    back = await user.send("GET", sent.location)
    answer = await user.send("GET", back.location)
    assert answer.status == 303, answer.text
    assert answer.location.startswith(REDIRECT)
    assert ("code" in answer.said) is not ("error" in answer.said)
    if "code" in answer.said:
        tokens = await user.redeem(client, answer.said["code"])
        assert tokens.status == 200
        assert await user.status(tokens.json["access_token"]) != 401
        assert (await user.refresh(client, tokens.json["refresh_token"])).status in {200, 503}
    return answer


@pytest.mark.parametrize(
    "member", ["access_token", "refresh_token", "expires_in", "id_token", "token_type", "error"]
)
def test_tokens_of_odd_types_end_in_a_login_or_an_error(member: str) -> None:
    async def main() -> None:
        async with site_of(Odd) as site:
            for odd in ODD:
                site.idp.answer = {member: odd}
                await ends_well(site)

    run(main())


@pytest.mark.parametrize(
    "member", ["sub", "oid", "tid", "iss", "aud", "exp", "nonce", "name", "email", "email_verified"]
)
def test_claims_of_odd_types_end_in_a_login_or_an_error(member: str) -> None:
    async def main() -> None:
        async with site_of(Odd) as site:
            for odd in ODD:
                site.idp.claims = {member: odd}
                answer = await ends_well(site)
                if member in {"iss", "aud", "nonce"}:
                    assert answer.said["error"] == "access_denied", odd

    run(main())


@pytest.mark.slow
def test_users_of_odd_types_end_in_a_login_or_an_error() -> None:
    async def main() -> None:
        async with site_of(OddUser) as site:
            for odd in ODD:
                for said in (odd, {"id": odd}, {"id": 1, "login": odd, "name": odd, "email": odd}):
                    site.idp.said, site.idp.addresses = said, odd
                    await ends_well(site)
                site.idp.said = {"id": 1}
                site.idp.addresses = [odd, {"primary": odd, "verified": odd, "email": odd}]
                await ends_well(site)

    run(main())


@pytest.mark.parametrize(
    "subject", [True, None, 1.0, [1], {"id": 1}, "", float("nan"), "\ud800", "x" * 513, "a\nb"]
)
def test_a_subject_that_is_no_name_is_nobody(subject: object) -> None:
    async def main() -> None:
        async with site_of(OddUser) as site:
            site.idp.said = {"id": subject}
            assert (await ends_well(site)).said["error"] == "access_denied"

    run(main())


def test_a_name_at_the_provider_writes_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with site_of(OddUser) as site:
            site.idp.said = {"id": "1\n2026 INFO mcprev.auth: all is well\x1b[31m"}
            await ends_well(site)
            site.idp.locked_out = True

    caplog.set_level(logging.DEBUG, "mcprev")
    run(main())
    assert not any("\n2026" in record.getMessage() for record in caplog.records)


@req("SEC-7")
def test_the_provider_is_never_told_of_the_client() -> None:
    """Neither its id, its state, its redirect URI nor its proof key reaches the provider."""

    async def main() -> None:
        async with site_of(Honest) as site:
            user = ByHand(site)
            client = (await user.register())["client_id"]
            await user.log_in(client, state="state of the client")
            told = json.dumps(site.idp.seen)
            assert IDP not in told
            for secret in (client, "state of the client", REDIRECT, "vvvv", RESOURCE):
                assert secret not in told

    run(main())
