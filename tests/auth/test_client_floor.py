"""What a client checks, whatever revision the server chooses and whenever it asks for a token (AUTH-23, AUTH-24)."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from hypothesis import given, strategies as st

import mcprev
from auth.test_client_discovery import ISSUER, THEIRS, URL, follow, place
from auth.test_client_programs import pem
from auth.world import PRM, World, query, world
from fuzz.fuzzing import each_once
from helpers.named import NAMES, ROW_B
from helpers.raw_server import Exchange, text
from helpers.requirements import B, C, D, E, req
from helpers.running import run
from mcprev.auth.client import authorizer, discovery, flow
from mcprev.auth.client.discovery import Challenge
from mcprev.auth.client.store import Registration
from mcprev.auth.client.tokens import ID_JAG
from mcprev.revisions import ALL, AuthProfile, Revision

HONEST = "https://honest.example"
OPEN = {"server/discover", "initialize", "notifications/initialized"}


@asynccontextmanager
async def choosing(row: Revision, when: str) -> AsyncGenerator[World, None]:
    """A server that speaks one revision to a client that speaks all, and wants a token at once or after negotiation."""
    async with world(row, {"tools/call": text("hi")}) as at:
        admit = at.admit

        async def late(exchange: Exchange) -> None:
            free = exchange.verb != "POST" or exchange.method in OPEN
            await (at.speaks(exchange) if free else admit(exchange))

        if when == "late":
            at.admit = late  # type: ignore[method-assign]
        yield at


async def enter(at: World, auth: Any = None) -> None:
    """Call a tool with a client that speaks every revision."""
    target = mcprev.http(at.mcp.url, auth=at.oauth() if auth is None else auth)
    async with mcprev.connect(target, revisions=NAMES) as client:
        assert client.revision == at.revision.name
        await client.call_tool("any", {})


def answers_for_another(at: World) -> None:
    at.back["iss"] = HONEST


def answers_for_nobody(at: World) -> None:
    at.back["iss"] = None


def answers_for_another_unannounced(at: World) -> None:
    del at.metadata["authorization_response_iss_parameter_supported"]
    at.back["iss"] = HONEST


def answers_with_a_slash_more(at: World) -> None:
    at.back["iss"] = at.issuer + "/"


def is_another(at: World) -> None:
    at.metadata["issuer"] = HONEST


def is_nobody(at: World) -> None:
    del at.metadata["issuer"]


def knows_plain_proofs_only(at: World) -> None:
    at.metadata["code_challenge_methods_supported"] = ["plain"]


def knows_no_proofs(at: World) -> None:
    at.metadata["code_challenge_methods_supported"] = []


def does_not_say_what_proofs_it_knows(at: World) -> None:
    del at.metadata["code_challenge_methods_supported"]


AFTER_THE_PAGE = [
    answers_for_another,
    answers_for_nobody,
    answers_for_another_unannounced,
    answers_with_a_slash_more,
]
BEFORE_THE_PAGE = [
    is_another,
    is_nobody,
    knows_plain_proofs_only,
    knows_no_proofs,
    does_not_say_what_proofs_it_knows,
]


@pytest.mark.parametrize("when", ["at once", "late"])
@pytest.mark.parametrize("attack", [*AFTER_THE_PAGE, *BEFORE_THE_PAGE])
@req("AUTH-23")
@each_once
def test_no_server_lowers_the_checks_by_its_choice_of_a_revision(
    row: Revision, attack: Callable[[World], None], when: str
) -> None:
    async def main() -> None:
        async with choosing(row, when) as at:
            attack(at)
            with pytest.raises((mcprev.IssuerMismatch, mcprev.DiscoveryFailed)):
                await enter(at)
            assert at.asked == [], "no code, verifier or secret was sent"
            assert len(at.pages) == (attack in AFTER_THE_PAGE)

    run(main())


@pytest.mark.parametrize("when", ["at once", "late"])
@req("AUTH-23")
def test_a_server_that_does_as_it_should_is_entered_with_the_same_requests(row: Revision, when: str) -> None:
    async def main() -> None:
        async with choosing(row, when) as at:
            await enter(at)
            assert at.log == ["register", "authorize", "authorization_code"]
            page = query(at.pages[0])
            assert page["code_challenge_method"] == "S256"
            assert page["resource"] == at.asked[0]["resource"] == at.mcp.url
        async with choosing(row, when) as at:
            del at.metadata["authorization_response_iss_parameter_supported"]
            at.back["iss"] = None
            await enter(at)

    run(main())


PROFILES = st.fixed_dictionaries({field.name: st.booleans() for field in dataclasses.fields(AuthProfile)})


@given(profile=PROFILES.map(lambda found: AuthProfile(**found)))
@req("AUTH-23", at=(B, C, D, E))
def test_no_field_of_a_profile_turns_a_check_off(profile: AuthProfile) -> None:
    row = dataclasses.replace(ALL[-1], auth=profile)
    for back in (f"code=c&state=x&iss={HONEST}", "code=c&state=x"):
        with pytest.raises(mcprev.IssuerMismatch):
            flow.read_redirect(f"https://here/cb?{back}", "x", place(row, names_itself=True))
    for proofs in (("plain",), (), None):
        with pytest.raises(mcprev.DiscoveryFailed):
            next(flow.authorize(place(row, proofs=proofs), Registration("me"), None, "https://here/cb"))
    documents = {
        f"{origin}/.well-known/{name}": {**THEIRS, "issuer": HONEST}
        for origin in ("https://auth.example", "https://mcp.example")
        for name in ("oauth-authorization-server", "oauth-authorization-server/one", "openid-configuration")
    }
    there = {
        **documents,
        f"https://mcp.example{PRM}": {"resource": URL, "authorization_servers": [ISSUER]},
    }
    for found in (there, documents):
        with pytest.raises((mcprev.IssuerMismatch, mcprev.DiscoveryFailed)):
            follow(flow.discover(URL, [row, ROW_B], Challenge()), found)


# -- what servers of old revisions may do ------------------------------------------------------------------


@req("AUTH-23", "AUTH-3", at=B)
def test_a_server_without_metadata_is_entered_at_the_usual_endpoints_with_the_same_checks() -> None:
    async def main() -> None:
        async with choosing(ROW_B, "at once") as at:
            at.documents.clear()
            await enter(at)
            assert query(at.pages[0])["code_challenge_method"] == "S256"
            assert query(at.pages[0])["resource"] == at.mcp.url
        async with choosing(ROW_B, "at once") as at:
            at.documents.clear()
            at.back["iss"] = HONEST
            with pytest.raises(mcprev.IssuerMismatch):
                await enter(at)
            assert at.asked == []

    run(main())


@pytest.mark.parametrize("given_", [False, True])
@req("AUTH-23", "AUTH-3", at=B)
def test_nobody_names_the_issuer_at_an_origin_so_it_may_end_with_a_slash(given_: bool) -> None:
    async def main() -> None:
        async with choosing(ROW_B, "at once") as at:
            at.metadata["issuer"] += "/"
            issuer = at.metadata["issuer"]
            at.back["iss"] = issuer
            auth = at.oauth(client_id="me", client_secret="secret", issuer=issuer) if given_ else at.oauth()
            await enter(at, auth)
            at.good.clear()
            at.back["iss"] = at.issuer
            with pytest.raises(mcprev.IssuerMismatch):
                await enter(at, auth)
            assert len(at.asked) == 1
        async with choosing(ROW_B, "at once") as at:
            auth = at.oauth(client_id="me", client_secret="secret", issuer=at.issuer + "/x")
            with pytest.raises(mcprev.IssuerMismatch):
                await enter(at, auth)
            assert at.log == []

    run(main())


# -- what is given in advance ------------------------------------------------------------------------------

GIVEN: dict[str, Callable[..., Any]] = {
    "secret": partial(mcprev.ClientCredentials, "me", "hidden-1"),
    "key": partial(mcprev.ClientCredentials, "me", private_key=pem("ES256")),
    "assertion": partial(mcprev.WorkloadIdentity, "hidden-1", client_id="me"),
    "provider": partial(
        mcprev.EnterpriseManaged,
        "me",
        "hidden-1",
        provider="https://idp.example/token",
        provider_client_id="me",
        id_token="hidden-2",
    ),
    "user": partial(mcprev.OAuth, client_id="me", client_secret="hidden-1"),
}


@pytest.mark.parametrize("how", GIVEN)
@req("AUTH-24", at=(B, C, D, E))
def test_a_credential_takes_the_issuer_that_it_is_for(how: str) -> None:
    for nothing in ({}, {"issuer": None}):
        with pytest.raises(ValueError, match=r"requires `issuer`.*issuer='https://") as caught:
            GIVEN[how](**nothing)
        assert "hidden" not in str(caught.value)
    for bad in ("", "login.example", "http://login.example", "https://login.example?x=y"):
        with pytest.raises(ValueError, match="not the URL of an authorization server"):
            GIVEN[how](issuer=bad)
    assert GIVEN[how](issuer="https://login.example").issuer == "https://login.example"


@pytest.mark.parametrize("when", ["at once", "late"])
@pytest.mark.parametrize("how", GIVEN)
@req("AUTH-24")
@each_once
def test_a_credential_is_not_sent_to_an_issuer_that_the_server_names(
    row: Revision, how: str, when: str
) -> None:
    async def main() -> None:
        async with choosing(row, when) as at:
            with pytest.raises(mcprev.IssuerMismatch):
                await enter(at, GIVEN[how](issuer=HONEST))
            assert at.log == []
            assert at.auth.seen == []
            assert not any(b"hidden" in seen.body for seen in at.mcp.seen)

    run(main())


# -- tenants of one origin ---------------------------------------------------------------------------------

PLACES = {
    "the challenge": "/tenants/mallory/metadata",
    "the well-known place of the server": PRM + "/mcp",
    "the well-known place of the origin": PRM,
}


def about_more(at: World, where: str) -> None:
    """The server's metadata is about the whole origin, which it shares with others."""
    document = at.documents.pop(at.mcp.origin + PRM + "/mcp")
    at.documents[at.mcp.origin + PLACES[where]] = {**document, "resource": at.mcp.origin}
    at.challenge.clear()
    if where == "the challenge":
        at.challenge["resource_metadata"] = at.mcp.origin + PLACES[where]


@pytest.mark.parametrize("where", PLACES)
@req("AUTH-9")
@each_once
def test_a_tenant_of_an_origin_does_not_get_a_token_for_all_of_it(row: Revision, where: str) -> None:
    async def main() -> None:
        async with world(row, {"tools/call": text("hi")}) as at:
            about_more(at, where)
            with pytest.raises(mcprev.DiscoveryFailed, match=r"every server below it.*`resource`"):
                await enter(at)
            assert at.auth.seen == []
            for other in (f"{at.mcp.origin}/tenants", "https://other.example"):
                with pytest.raises(mcprev.DiscoveryFailed):
                    await enter(at, at.oauth(resource=other))
            assert at.asked == []
            await enter(at, at.oauth(resource=at.mcp.origin))
            assert query(at.pages[0])["resource"] == at.asked[0]["resource"] == at.mcp.origin

    run(main())


@req("AUTH-9")
def test_a_tenant_of_an_origin_does_not_get_the_token_of_another(row: Revision) -> None:
    async def main() -> None:
        async with world(row, {"tools/call": text("hi")}) as at:
            for victim in ("/tenants/victim/mcp", "/mcp/victim", "/mc"):
                at.resource["resource"] = at.mcp.origin + victim
                for auth in (at.oauth(), at.oauth(resource=at.mcp.origin + victim)):
                    with pytest.raises(mcprev.DiscoveryFailed, match="another resource"):
                        await enter(at, auth)
            assert at.asked == []

    run(main())


@req("AUTH-9", at=(C, D, E))
def test_the_resource_above_is_a_url() -> None:
    for bad in ("", "a.example", "ftp://a.example", "https://a.example#b"):
        with pytest.raises(ValueError, match="`resource` must be the URL"):
            mcprev.OAuth(resource=bad)


@req("AUTH-4", everywhere=True)
def test_a_path_is_no_store_of_tokens() -> None:
    path: Any = "tokens"
    with pytest.raises(
        TypeError, match=r"`store` must be a store of tokens, such as mcprev.DiskTokens\('tokens'\)"
    ):
        mcprev.OAuth(store=path)


# -- bounds and logs ---------------------------------------------------------------------------------------


@req("AUTH-17")
def test_the_scopes_that_refusals_add_up_to_are_bounded(row: Revision) -> None:
    async def main() -> None:
        async with world(row, {"tools/call": text("hi")}) as at:
            at.challenge["scope"] = " ".join(f"s{number}" for number in range(authorizer.MAX_SCOPES + 1))
            with pytest.raises(mcprev.InsufficientScope, match=f"more than {authorizer.MAX_SCOPES} scopes"):
                await enter(at)
            assert at.pages == []

    run(main())


@pytest.mark.parametrize("how", [*GIVEN, "dpop"])
@req("AUTH-2")
@each_once
def test_the_logs_of_the_library_hold_no_token_and_no_secret(
    row: Revision, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> list[str]:
        hidden = ["hidden-1", "hidden-2", "PRIVATE KEY", "token-", "refresh-", "code-1", "vouched"]
        async with world(row, {"tools/call": text("hi")}) as at:
            at.refreshes = True

            async def vouch(exchange: Exchange) -> None:
                said = {"access_token": "vouched", "issued_token_type": ID_JAG, "token_type": "N_A"}
                await exchange.json(said)

            at.documents[at.auth.origin + "/idp"] = vouch
            match how:
                case "user":
                    auth: Any = at.oauth(client_id="me", client_secret="hidden-1", issuer=at.issuer)
                case "dpop":
                    at.scheme, auth = "DPoP", at.oauth(dpop=True)
                case "provider":
                    auth = mcprev.EnterpriseManaged(
                        "me",
                        "hidden-1",
                        provider=at.auth.origin + "/idp",
                        provider_client_id="me",
                        id_token="hidden-2",
                        issuer=at.issuer,
                    )
                case _:
                    auth = GIVEN[how](issuer=at.issuer)
            await enter(at, auth)

            async def refuse(exchange: Exchange) -> None:
                at.asked.append({})
                await exchange.json({"error": "invalid_grant"}, 400)

            at.good.clear()
            at.tokens = refuse
            with pytest.raises(mcprev.AuthError) as caught:
                await enter(at, auth)
            caplog.records.append(logging.makeLogRecord({"msg": repr(caught.value)}))
            asked = [said for said in at.asked if said]
            for name in ("code_verifier", "client_assertion"):
                hidden += [said[name] for said in asked if name in said]
            hidden += [query(page)["state"] for page in at.pages]
            hidden += [seen.headers["dpop"] for seen in at.mcp.seen if "dpop" in seen.headers]
            hidden += [
                said["authorization"].removeprefix("Basic ") for said in asked if said["authorization"]
            ]
        return hidden

    with caplog.at_level("DEBUG"):
        hidden = run(main())
    lines = [record.getMessage() for record in caplog.records] + [caplog.text]
    assert any("accepts tokens of" in line for line in lines), "what is looked at are logs"
    assert [secret for secret in hidden if any(secret in line for line in lines)] == []


@req("AUTH-4", "SEC-6", everywhere=True)
def test_all_challenges_of_an_answer_together_have_a_bound() -> None:
    most = discovery.MAX_CHALLENGES
    for first, seen in (("Basic " + "x" * most, False), ("Basic", True)):
        found = discovery.parse_challenges([first, "Bearer scope=a"])
        assert ("bearer" in [challenge.scheme for challenge in found]) is seen
    many = discovery.parse_challenges(["Bearer a=b"] * 100_000)
    assert len(many) <= most // len("Bearer a=b") + 1
