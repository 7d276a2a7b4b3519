"""A client that is let in over HTTP: what is sent with each request, and how it comes by that, at every revision."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
import traceback
from typing import Any, Final

import aiohttp
import pytest

import mcprev
from auth.world import CALLBACK, OAUTH, PRM, World, basic, form, query, world
from fuzz.fuzzing import each_once
from helpers.lanes import turns
from helpers.named import NAMES as SPOKEN
from helpers.raw_server import Exchange, Mcp, Raw, text
from helpers.requirements import A, B, D, E, req
from helpers.running import pass_time, run, until
from mcprev.revisions import DEFAULT, Revision
from mcprev.transports.http.client.connection import GRACE

EARLIER: Final = [name for name in SPOKEN if name == A]
"""The revision of another transport, where it is spoken."""


def connect(world: World, auth: Any = None, **options: Any) -> mcprev.connect:
    """A client of the revision of the servers, and of older ones where it asks for nothing newer."""
    target = mcprev.http(world.mcp.url, auth=world.oauth() if auth is None else auth)
    options.setdefault("revisions", [world.revision.name])
    return mcprev.connect(target, **options)


# -- where the token goes ----------------------------------------------------------------------------------


@req("AUTH-2", "AUTH-8", "AUTH-12")
def test_the_token_is_in_a_header_of_every_request_and_nowhere_else(row: Revision) -> None:
    async def main() -> None:
        async with world(row, {"tools/call": text("hi")}) as at:
            async with connect(at) as client:
                assert client.revision == row.name
                result = await client.call_tool("any", {})
                assert result.to_wire()["content"] == text("hi")["content"]
            protocol = [seen for seen in at.mcp.seen if seen.path.startswith("/mcp")]
            first, *rest = protocol
            assert "authorization" not in first.headers
            assert {seen.headers["authorization"] for seen in rest} == {"Bearer token-1"}
            assert all(seen.path == "/mcp" for seen in protocol)
            assert {seen.verb for seen in rest} == ({"POST", "GET", "DELETE"} if row.handshake else {"POST"})
            assert first.body == rest[0].body, "the same request is sent again"
            assert at.log == ["register", "authorize", "authorization_code"]

    run(main())


@req("AUTH-2", at=B)
def test_the_stream_and_the_endpoint_of_the_oldest_transport_get_it_too() -> None:
    async def main() -> None:
        row = next(row for row in DEFAULT if row.name == B)
        async with world(row, {"tools/call": text("hi")}, old=True) as at:
            async with connect(at, revisions=[*EARLIER, B]) as client:
                await client.call_tool("any", {})
            entered = [seen for seen in at.mcp.seen if "authorization" in seen.headers]
            assert {seen.verb for seen in entered} == {"POST", "GET"}
            assert {seen.headers["authorization"] for seen in entered} == {"Bearer token-1"}
            assert any(seen.path.startswith("/messages") for seen in entered)
            assert at.log == ["register", "authorize", "authorization_code"]

    run(main())


@req("AUTH-2", at=D)
def test_the_oldest_transport_can_want_it_for_its_stream_alone() -> None:
    async def main() -> None:
        row = next(row for row in DEFAULT if row.name == D)
        async with world(row, {"tools/call": text("hi")}, old=True) as at:
            usual = at.admit

            async def admit(exchange: Exchange) -> None:
                await (
                    exchange.respond(405)
                    if exchange.verb == "POST" and exchange.path == "/mcp"
                    else usual(exchange)
                )

            at.admit = admit  # type: ignore[method-assign]
            async with connect(at, revisions=[*EARLIER, D]) as client:
                await client.call_tool("any", {})
            assert at.log == ["register", "authorize", "authorization_code"]

    run(main())


@req("AUTH-2", at=E)
def test_neither_tokens_nor_secrets_are_shown(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with world(DEFAULT[-1]) as at:
            auth = at.oauth(client_id="mine", client_secret="s3cret", issuer=at.issuer)
            at.refreshes = True
            with caplog.at_level("DEBUG"):
                async with connect(at, auth) as client:
                    shown = [repr(auth), repr(client), repr(auth.authorizers), repr(vars(auth.store))]
                    at.good.clear()
                    at.refreshes = False
                    at.documents[at.issuer + "/token"] = {}
                    with pytest.raises(mcprev.AuthError) as caught:
                        await client.raw("tools/list")
                    shown += [str(caught.value), repr(caught.value)]
            for secret in ("token-1", "refresh-1", "s3cret", "code-1"):
                assert not any(secret in line for line in shown)
                assert secret not in caplog.text

    run(main())


# -- discovery ---------------------------------------------------------------------------------------------


@req("AUTH-3")
def test_the_server_is_its_own_authorization_server_with_metadata_or_without(row: Revision) -> None:
    async def main() -> None:
        async with world(row) as at, connect(at):
            assert at.looked == [at.mcp.origin + OAUTH]
            looked = next(seen for seen in at.mcp.seen if seen.path == OAUTH)
            assert looked.headers["mcp-protocol-version"] == row.version
        async with world(row) as at:
            at.documents.clear()
            async with connect(at):
                assert at.pages[0].startswith(f"{at.mcp.origin}/authorize?")
                assert len(at.registered) == 1

    run(main())


@req("AUTH-3", at=B)
def test_the_old_way_is_tried_where_the_new_one_finds_nothing_and_only_there() -> None:
    async def main() -> None:
        row = next(row for row in DEFAULT if row.name == B)
        async with world(row) as at:
            async with connect(at, revisions=[row.name for row in DEFAULT]) as client:
                assert client.revision == B
            assert at.looked == [at.mcp.origin + path for path in (f"{PRM}/mcp", PRM, OAUTH)]
            assert query(at.pages[0])["resource"] == at.mcp.url

        async def broken(exchange: Exchange) -> None:
            await exchange.respond(503)

        async with world(row) as at:
            at.documents[at.mcp.origin + PRM] = broken
            with pytest.raises(mcprev.DiscoveryFailed, match="HTTP 503") as caught:
                await connect(at, revisions=[row.name for row in DEFAULT])
            assert len(caught.value.tried) == 2
            assert at.log == []

    run(main())


@req("AUTH-4", "AUTH-5", "AUTH-6", "AUTH-7", "AUTH-9", "AUTH-11")
def test_whom_to_ask_is_found_by_the_challenge_and_for_what(row: Revision) -> None:
    async def main() -> None:
        async with world(row) as at:
            place = f"{at.mcp.origin}/somewhere"
            at.documents[place] = at.documents.pop(at.mcp.origin + PRM + "/mcp")
            at.challenge["resource_metadata"] = place
            async with connect(at):
                page = query(at.pages[0])
                assert page["resource"] == at.asked[0]["resource"] == at.mcp.url
                assert len(page["state"]) > 20
                assert at.looked == [at.auth.origin + OAUTH]

    run(main())


@req("AUTH-5", at=(D, E))
@pytest.mark.parametrize("where", [PRM + "/mcp", PRM])
def test_it_is_found_at_well_known_places_where_the_challenge_does_not_say(where: str) -> None:
    async def main(row: Revision) -> None:
        async with world(row) as at:
            del at.challenge["resource_metadata"]
            at.documents[at.mcp.origin + where] = at.documents.pop(at.mcp.origin + PRM + "/mcp")
            async with connect(at):
                assert at.looked[-2:] == [at.mcp.origin + where, at.auth.origin + OAUTH]

    for row in DEFAULT:
        if row.name in (D, E):
            run(main(row))


@req("AUTH-9")
def test_the_metadata_of_another_server_is_not_followed(row: Revision) -> None:
    async def main() -> None:
        async with world(row) as at:
            at.resource["resource"] = "https://example.com/mcp"
            with pytest.raises(mcprev.DiscoveryFailed, match=r"example\.com"):
                await connect(at)
            assert at.auth.seen == []
            assert at.log == []

    run(main())


@req("AUTH-7", "AUTH-15")
def test_an_authorization_server_that_says_it_is_another_is_not_used(row: Revision) -> None:
    async def main() -> None:
        async with world(row) as at:
            at.metadata["issuer"] += "/another"
            with pytest.raises(mcprev.IssuerMismatch):
                await connect(at)
            assert at.log == []
        async with world(row) as at:
            at.back["iss"] = "https://example.com"
            with pytest.raises(mcprev.IssuerMismatch):
                await connect(at)
            assert at.log == ["register", "authorize"]

    run(main())


@req("SEC-1")
def test_a_server_of_the_internet_cannot_send_the_client_into_a_private_network(row: Revision) -> None:
    async def main() -> None:
        async with world(row) as at:
            at.resource["authorization_servers"] = [
                "http://10.0.0.1",
                "http://example.com",
                "ftp://a",
                "nonsense",
            ]
            with pytest.raises(mcprev.DiscoveryFailed) as caught:
                await connect(at)
            said = "\n".join(caught.value.tried)
            assert "is not https" in said
            assert "no URL" in said
            assert at.auth.seen == []

    run(main())


# -- one login for all -------------------------------------------------------------------------------------


@req("AUTH-22", "AUTH-2")
def test_calls_that_are_refused_together_share_one_login(row: Revision) -> None:
    async def main() -> None:
        async with world(row, {"tools/call": text("hi")}) as at, connect(at) as client:
            at.good.clear()
            await asyncio.gather(*(client.call_tool("any", {}) for _ in range(20)))
            assert at.log.count("authorize") == 2
            assert at.log.count("register") == 1

    run(main())


@req("AUTH-22")
def test_two_clients_of_one_server_share_it_too(row: Revision) -> None:
    async def main() -> None:
        async with world(row) as at:
            auth = at.oauth()
            async with connect(at, auth), connect(at, auth):
                assert at.log == ["register", "authorize", "authorization_code"]

    run(main())


@req("AUTH-22")
def test_a_fresh_token_that_is_refused_is_an_error_and_no_loop(row: Revision) -> None:
    async def main() -> None:
        async with world(row) as at:
            at.issue = lambda *_: "of-no-use"  # type: ignore[method-assign]
            at.challenge["error_description"] = "not \x07 for us"
            with pytest.raises(mcprev.TokenRejected, match="not   for us") as caught:
                await connect(at)
            assert caught.value.error == "invalid_token"
            assert at.log.count("authorize") == 1

    run(main())


@req("AUTH-22")
def test_what_a_store_keeps_lets_the_next_client_in(row: Revision) -> None:
    async def main() -> None:
        store = mcprev.MemoryTokens()
        async with world(row) as at:
            at.refreshes = True
            for _ in range(2):
                async with connect(at, at.oauth(store=store)):
                    pass
            assert at.log == ["register", "authorize", "authorization_code"]
            at.good.clear()
            async with connect(at, at.oauth(store=store)):
                assert at.log[3:] == ["refresh_token"]
            assert row.auth is not None
            resource = at.mcp.url
            key = mcprev.TokenKey(at.issuer, resource, "client-1")
            kept = await store.tokens(key)
            assert kept is not None
            assert kept.access_token in at.good
            await store.keep_tokens(key, None)
            await store.keep_registration(at.issuer, None)
            assert await store.tokens(key) is None
            assert await store.registration(at.issuer) is None

    run(main())


@req("AUTH-18")
def test_a_token_is_refreshed_before_it_expires_and_the_refresh_token_replaced(
    row: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with world(row, {"tools/call": text("hi")}) as at:
            at.refreshes, true = True, time.time
            async with connect(at) as client:
                monkeypatch.setattr(time, "time", lambda: true() + 3590)
                await client.call_tool("any", {})
                await client.call_tool("any", {})
                assert at.log[3:] == ["refresh_token"]
                assert at.asked[-1]["refresh_token"] == "refresh-1"
                assert at.asked[-1]["resource"] == at.mcp.url
                # Nothing was refused on the way.
                assert [seen.headers.get("authorization") for seen in at.asked_for("tools/call")] == [
                    "Bearer token-2"
                ] * 2

    run(main())


@req("AUTH-18", "AUTH-17")
@pytest.mark.parametrize("error", ["invalid_grant", "invalid_client"])
def test_a_refresh_token_that_is_good_no_more_leads_to_a_login(row: Revision, error: str) -> None:
    async def main() -> None:
        async with world(row, {"tools/call": text("hi")}) as at:
            at.refreshes = True
            async with connect(at) as client:
                usual = at.tokens

                async def refuse(exchange: Exchange) -> None:
                    at.tokens = usual
                    at.log.append("refused")
                    await exchange.json({"error": error}, 400)

                at.tokens = refuse
                at.good.clear()
                await client.call_tool("any", {})
                again = ["register"] if error == "invalid_client" else []
                assert at.log[3:] == ["refused", *again, "authorize", "authorization_code"]

    run(main())


@req("AUTH-18")
def test_a_refresh_token_outlasts_an_authorization_server_that_is_out_of_order(row: Revision) -> None:
    async def main() -> None:
        async with world(row, {"tools/call": text("hi")}) as at:
            at.refreshes = True
            async with connect(at) as client:
                usual = at.tokens

                async def broken(exchange: Exchange) -> None:
                    await exchange.respond(503)

                at.tokens = broken
                at.good.clear()
                with pytest.raises(mcprev.TokenRejected, match="HTTP 503"):
                    await client.call_tool("any", {})
                at.tokens = usual
                await client.call_tool("any", {})
                assert at.log[3:] == ["refresh_token"]

    run(main())


@req("AUTH-18")
def test_a_scope_for_refreshing_is_asked_for_where_there_is_one(row: Revision) -> None:
    async def main() -> None:
        for listed in (True, False):
            async with world(row) as at:
                at.challenge["scope"] = "read"
                at.metadata["scopes_supported"] = ["read", *(["offline_access"] if listed else [])]
                async with connect(at):
                    assert query(at.pages[0])["scope"] == ("read offline_access" if listed else "read")
                    assert at.registered[0]["grant_types"] == ["authorization_code", "refresh_token"]

    run(main())


# -- scopes ------------------------------------------------------------------------------------------------


@req("AUTH-17")
@pytest.mark.parametrize(
    ("challenge", "supported", "wanted", "asked"),
    [
        ("read", ["read", "write"], None, "read"),
        (None, ["read", "write"], None, "read write"),
        (None, None, None, None),
        ("read", None, ["more"], "more read"),
        (None, ["read", "write"], ["read"], "read"),
    ],
)
def test_which_scopes_are_asked_for(
    row: Revision,
    challenge: str | None,
    supported: list[str] | None,
    wanted: list[str] | None,
    asked: str | None,
) -> None:
    async def main() -> None:
        async with world(row) as at:
            if challenge is not None:
                at.challenge["scope"] = challenge
            if supported is not None:
                at.resource["scopes_supported"] = supported
            async with connect(at, at.oauth(scopes=wanted)):
                assert query(at.pages[0]).get("scope") == asked

    run(main())


@req("AUTH-17")
def test_more_scopes_are_asked_for_when_a_call_needs_them(row: Revision) -> None:
    async def main() -> None:
        async with world(row, {"tools/call": text("hi")}) as at:
            at.challenge["scope"] = "read"
            at.needs["tools/call"] = "write"
            async with connect(at) as client:
                await client.call_tool("any", {})
                assert query(at.pages[0])["scope"] == "read"
                assert query(at.pages[1])["scope"] == "read write"
                assert len(at.pages) == 2

    run(main())


@pytest.mark.slow
@req("AUTH-17", "AUTH-22")
def test_calls_that_need_more_scopes_together_share_one_login(row: Revision) -> None:
    async def main() -> None:
        async with world(row, {"tools/call": text("hi")}) as at:
            at.needs["tools/call"] = "write"
            async with connect(at) as client:
                await asyncio.gather(*(client.call_tool("any", {}) for _ in range(20)))
                assert len(at.pages) == 2

    run(main())


@req("AUTH-17")
def test_scopes_that_are_not_given_are_not_asked_for_again_and_again(row: Revision) -> None:
    async def main() -> None:
        async with world(row) as at:
            at.issue = lambda *_: (at.good.setdefault("poor", set()) and "") or "poor"  # type: ignore[method-assign]
            at.needs["tools/call"] = "write"
            async with connect(at) as client:
                for _ in range(2):
                    with pytest.raises(mcprev.InsufficientScope) as caught:
                        await client.call_tool("any", {})
                    assert caught.value.required == ("write",)
                    assert caught.value.requested == ("write",)
                assert len(at.pages) == 2, "at first, and once for the scope"
                await client.list_tools()  # everything else goes on

    run(main())


@req("AUTH-17")
def test_a_server_that_always_wants_more_is_given_up(row: Revision) -> None:
    async def main() -> None:
        async with world(row) as at:
            wanted = iter(range(100))

            async def greedy(exchange: Exchange) -> None:
                await at.refuse(exchange, 403, error="insufficient_scope", scope=f"scope-{next(wanted)}")

            at.speaks.replies["tools/call"] = greedy
            async with connect(at) as client:
                with pytest.raises(mcprev.InsufficientScope):
                    await client.call_tool("any", {})
                assert len(at.pages) == 3

    run(main())


@req("AUTH-17")
def test_a_403_that_is_about_something_else_is_an_answer(row: Revision) -> None:
    async def main() -> None:
        async def forbid(exchange: Exchange) -> None:
            await exchange.respond(403, b"no")

        async with world(row, {"tools/call": forbid}) as at, connect(at) as client:
            with pytest.raises(mcprev.HttpStatusError) as caught:
                await client.call_tool("any", {})
            assert caught.value.status == 403
            assert len(at.pages) == 1

    run(main())


# -- who this client is ------------------------------------------------------------------------------------


BOTH_WAYS = ["client_secret_basic", "client_secret_post"]


@req("AUTH-12")
@pytest.mark.parametrize("given", [True, False], ids=["given", "registered"])
@pytest.mark.parametrize("reads", ["form", "header", "neither"])
def test_a_server_that_reads_a_secret_in_one_of_both_ways(row: Revision, given: bool, reads: str) -> None:
    """It offers both; what it does not find is sent the other way once, and never in both ways at a time."""

    async def main() -> None:
        async with world(row) as at:
            at.metadata["token_endpoint_auth_methods_supported"] = BOTH_WAYS

            async def tokens(exchange: Exchange) -> None:
                said = form(exchange)
                found = "header" if exchange.headers.get("authorization") else "form"
                assert (found == "form") is ("client_secret" in said) is ("client_id" in said)
                if found == reads:
                    await at.token(exchange)
                    return
                at.asked.append({**said, "refused": found})
                await exchange.json(
                    {"error": "invalid_client", "error_description": "Missing client_id"}, 401
                )

            at.tokens = tokens
            who: dict[str, Any] = (
                {"client_id": "me", "client_secret": "s", "issuer": at.issuer} if given else {}
            )
            first, second = ("header", "form") if given else ("form", "header")
            if reads == "neither":
                with pytest.raises(mcprev.TokenRejected, match="Missing client_id"):
                    async with connect(at, at.oauth(**who)):
                        pass
            else:
                async with connect(at, at.oauth(**who)):
                    pass
            refused = [asked.get("refused") for asked in at.asked]
            assert refused == {first: [None], second: [first, None], "neither": [first, second]}[reads]
            assert all(each["token_endpoint_auth_method"] == BOTH_WAYS[1] for each in at.registered)

    run(main())


@req("AUTH-12", "AUTH-8")
@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
def test_a_client_proves_itself_as_it_is_wanted(row: Revision, method: str) -> None:
    async def main() -> None:
        async with world(row) as at:
            at.metadata["token_endpoint_auth_methods_supported"] = [method]
            async with connect(at):
                asked = at.asked[0]
                assert at.registered[0]["token_endpoint_auth_method"] == method
                if method == "client_secret_basic":
                    assert basic(asked["authorization"]) == ("client-1", "s:cr%t +")
                    assert "client_id" not in asked
                else:
                    assert asked["authorization"] == ""
                    assert asked["client_id"] == "client-1"
                assert asked.get("client_secret") == ("s:cr%t +" if method == "client_secret_post" else None)
                verifier = asked["code_verifier"]
                digest = (
                    base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
                )
                assert query(at.pages[0])["code_challenge"] == digest
                assert 43 <= len(verifier) <= 128

    run(main())


@req("AUTH-12")
def test_a_client_that_is_registered_does_not_register(row: Revision) -> None:
    async def main() -> None:
        async with world(row) as at:
            auth = at.oauth(
                client_id="mine",
                client_secret="secret",
                client_metadata_url="https://a.example/me",
                issuer=at.issuer,
            )
            at.metadata["client_id_metadata_document_supported"] = True
            async with connect(at, auth):
                assert query(at.pages[0])["client_id"] == "mine"
                assert basic(at.asked[0]["authorization"]) == ("mine", "secret")
                assert at.registered == []

    run(main())


@req("AUTH-12")
def test_a_document_names_the_client_where_it_is_read(row: Revision) -> None:
    async def main() -> None:
        assert row.auth is not None
        for read in (True, False):
            async with world(row) as at:
                at.metadata["client_id_metadata_document_supported"] = read
                async with connect(at, at.oauth(client_metadata_url="https://a.example/me")):
                    named = query(at.pages[0])["client_id"]
                    taken = read and row.auth.client_documents
                    assert named == ("https://a.example/me" if taken else "client-1")

    run(main())


@req("AUTH-3", at=B)
def test_a_server_that_is_taken_for_its_authorization_server_and_is_none_says_what_to_do() -> None:
    """By the oldest rules there is no other place to look, so registering by hand helps nobody."""

    async def main() -> None:
        row = next(row for row in DEFAULT if row.name == B)
        async with world(row) as at:

            async def absent(exchange: Exchange) -> None:
                await exchange.respond(404)

            at.documents.clear()
            at.documents[at.mcp.origin + "/register"] = absent
            with pytest.raises(mcprev.RegistrationRejected) as caught:
                await connect(at)
            assert f"at {B} a client takes the MCP server itself" in str(caught.value)
            assert "use a newer revision, or let the server use `mcprev.Login`" in str(caught.value)
            assert "client_id" not in str(caught.value)

    run(main())


@req("AUTH-3", everywhere=True)
@pytest.mark.parametrize("row", [row for row in DEFAULT if row.auth is None], ids=lambda row: row.name)
def test_a_revision_without_authorization_says_so(row: Revision) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.respond(401, headers={"WWW-Authenticate": "Bearer"})

    async def main() -> None:
        server = Raw(refuse)
        await server.start()
        try:
            target = mcprev.http(server.url, auth=mcprev.OAuth())
            says = f"requires a token, and {row.name} has no authorization, so there is no login"
            with pytest.raises(mcprev.AuthError, match=says):
                await mcprev.connect(target, mode=row.name)
            assert {seen.path for seen in server.seen} == {"/mcp"}
        finally:
            await server.stop()

    run(main())


@req("AUTH-12", "AUTH-13")
def test_a_registration_that_is_refused_says_what_to_do(row: Revision) -> None:
    async def main() -> None:
        async with world(row) as at:

            async def refuse(exchange: Exchange) -> None:
                at.registered.append(exchange.message)
                await exchange.json(
                    {"error": "invalid_redirect_uri", "error_description": "web \x1b only"}, 400
                )

            at.documents[at.issuer + "/register"] = refuse
            with pytest.raises(
                mcprev.RegistrationRejected, match=r"invalid_redirect_uri: web   only.*client_id"
            ):
                await connect(at)
            assert len(at.registered) == 1
            assert at.pages == []
            del at.metadata["registration_endpoint"]
            with pytest.raises(mcprev.RegistrationRejected, match="client_id"):
                await connect(at)

    run(main())


@req("AUTH-13")
@pytest.mark.parametrize(
    ("redirect_uri", "kind"),
    [(CALLBACK, "native"), ("https://app.example/cb", "web"), ("com.example.app:/cb", "native")],
)
def test_a_client_that_registers_says_of_what_sort_it_is(row: Revision, redirect_uri: str, kind: str) -> None:
    async def main() -> None:
        async def cancelled(url: str) -> str:
            raise mcprev.AuthError("nobody is there")

        async with world(row) as at:
            with pytest.raises(mcprev.AuthError, match="nobody is there"):
                await connect(at, mcprev.OAuth(redirect_uri=redirect_uri, open=cancelled, client_name="Mine"))
            registered = at.registered[0]
            assert registered["application_type"] == kind
            assert registered["redirect_uris"] == [redirect_uri]
            assert registered["client_name"] == "Mine"
            assert registered["response_types"] == ["code"]

    run(main())


@req("AUTH-14")
def test_another_authorization_server_is_not_told_what_the_first_one_knows(row: Revision) -> None:
    async def main() -> None:
        async with world(row, {"tools/call": text("hi")}) as at, world(row) as other:

            async def browse(url: str) -> str:
                return await (at if url.startswith(at.issuer) else other).browse(url)

            at.refreshes = True
            async with connect(at, mcprev.OAuth(redirect_uri=CALLBACK, open=browse)) as client:
                at.good.clear()
                at.resource["authorization_servers"] = [other.issuer]
                other.good = at.good
                other.codes["so that codes differ"] = {}
                await client.call_tool("any", {})
                assert at.log == [
                    "register",
                    "authorize",
                    "authorization_code",
                ], "nothing more was asked there"
                assert other.log == ["register", "authorize", "authorization_code"]
                assert not any("refresh_token" in asked for asked in other.asked)

    run(main())


@pytest.mark.slow
@req("AUTH-14")
def test_credentials_that_were_given_stay_with_their_issuer(row: Revision) -> None:
    async def main() -> None:
        async with world(row, {"tools/call": text("hi")}) as at, world(row) as other:
            for auth in (
                at.oauth(client_id="mine"),
                at.oauth(client_id="mine", client_secret="secret", issuer=at.issuer),
            ):
                at.resource["authorization_servers"] = (
                    [other.issuer, at.issuer] if auth.issuer else [at.issuer]
                )
                async with connect(at, auth) as client:
                    at.good.clear()
                    at.resource["authorization_servers"] = [other.issuer]
                    with pytest.raises(mcprev.IssuerMismatch):
                        await client.call_tool("any", {})
            assert other.log == []

    run(main())


@req("AUTH-14")
def test_credentials_of_another_issuer_are_not_sent_to_a_server_that_authorizes_by_itself(
    row: Revision,
) -> None:
    async def main() -> None:
        old = next(row for row in DEFAULT if row.name == B)
        async with world(old) as at:
            auth = at.oauth(client_id="mine", client_secret="secret", issuer="https://auth.example")
            with pytest.raises(mcprev.IssuerMismatch, match="not sent"):
                await connect(at, auth, revisions=[B, row.name])
            assert at.log == []

    run(main())


@req("AUTH-2", "AUTH-14")
def test_headers_and_cookies_for_the_server_are_not_for_who_lets_clients_in(row: Revision) -> None:
    async def main() -> None:
        async with (
            world(row) as at,
            aiohttp.ClientSession(
                headers={"X-Key": "s3cret", "Authorization": "Bearer other"},
                cookies={"a": "s3cret"},
                cookie_jar=aiohttp.CookieJar(unsafe=True),
            ) as session,
        ):
            target = mcprev.http(at.mcp.url, auth=at.oauth(), session=session, headers={"X-Mine": "s3cret"})
            async with mcprev.connect(target, revisions=[row.name]):
                protocol = [seen for seen in at.mcp.seen if seen.path == "/mcp"]
                assert all(seen.headers["x-key"] == "s3cret" for seen in protocol)
                assert protocol[-1].headers["authorization"] == "Bearer token-1"
                others = [seen for seen in (*at.mcp.seen, *at.auth.seen) if seen.path != "/mcp"]
                assert others
                assert not any("s3cret" in str(seen.pairs) for seen in others)
            assert not session.closed

    run(main())


@req("AUTH-22")
def test_a_refresh_that_fails_early_costs_nothing_but_one_try(
    row: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with world(row, {"tools/call": text("hi")}) as at:
            at.refreshes, usual, true = True, at.tokens, time.time

            async def broken(exchange: Exchange) -> None:
                at.log.append("broken")
                await exchange.respond(500)

            async with connect(at) as client:
                at.tokens = broken
                monkeypatch.setattr(time, "time", lambda: true() + 3590)
                await client.call_tool("any", {})
                await client.call_tool("any", {})
                assert at.log[3:] == ["broken"]
                at.tokens = usual
                at.good.clear()
                await client.call_tool("any", {})
                assert at.log[4:] == ["refresh_token"]

    run(main())


@req("AUTH-18", everywhere=True)
@pytest.mark.parametrize(
    ("status", "over"),
    [
        (200, True),
        (400, True),
        (401, True),
        (408, False),
        (425, False),
        (429, False),
        (500, False),
        (503, False),
    ],
)
@pytest.mark.parametrize("word", ["invalid_grant", "bad_refresh_token"])
def test_a_refresh_token_is_given_up_for_an_error_that_is_about_it(
    status: int, over: bool, word: str
) -> None:
    """Some servers send errors with status 200. A server that is busy may take the token later."""

    async def main() -> None:
        async with world(DEFAULT[-1], {"tools/call": text("hi")}) as at:
            at.refreshes = True

            async def broken(exchange: Exchange) -> None:
                at.tokens = at.token
                at.log.append("broken")
                await exchange.json({"error": word}, status)

            async with connect(at) as client:
                at.good.clear()
                at.log.clear()
                at.tokens = broken
                if over:
                    await client.call_tool("any", {})
                    assert at.log == ["broken", "authorize", "authorization_code"]
                else:
                    with pytest.raises(mcprev.TokenRejected) as caught:
                        await client.call_tool("any", {})
                    assert caught.value.error == ""
                    await client.call_tool("any", {})
                    assert at.log == ["broken", "refresh_token"]

    run(main())


# -- lifetimes ---------------------------------------------------------------------------------------------

BOUND: Final = 20.0
"""The seconds that calls may take; logins take twice as long, on a clock that is set forward."""


async def later(at: World, url: str, clients: list[mcprev.Client]) -> str:
    """Log in after a long time, once those who called wait for it."""
    for client in clients:
        connection: Any = client.connection
        await until(lambda: connection.timeouts.waiting)  # noqa: B023 - called at once
    pass_time(2 * BOUND)
    await turns()
    return await at.browse(url)


@req("AUTH-22", "AUTH-2")
def test_no_clock_runs_while_somebody_logs_in(row: Revision) -> None:
    async def main() -> None:
        async with world(row, {"tools/call": text("hi")}) as at:

            clients: list[mcprev.Client] = []

            async def slow(url: str) -> str:
                return await later(at, url, clients)

            auth = mcprev.OAuth(redirect_uri=CALLBACK, open=slow)
            async with connect(
                at, auth, probe_timeout=BOUND, open_timeout=BOUND, timeout=BOUND, total_timeout=BOUND
            ) as client:
                assert client.revision == row.name
                clients.append(client)
                at.good.clear()
                await client.call_tool("any", {})
                assert len(at.pages) == 2

                asked = asyncio.Event()

                async def mute(exchange: Exchange) -> None:
                    asked.set()
                    await exchange.gone.wait()

                at.speaks.replies["tools/call"] = mute
                call = asyncio.create_task(client.call_tool("any", {}))
                await asked.wait()
                pass_time(2 * BOUND)
                with pytest.raises(mcprev.RequestTimeout):
                    await call

    run(main(), limit=20 * BOUND)


@req("AUTH-22")
@pytest.mark.parametrize("at_page", [1, 2])
def test_nor_does_it_run_for_a_list(row: Revision, at_page: int) -> None:
    """The time for all pages is that of the server; what is left of it after the login is counted."""

    async def main() -> None:
        async with world(row, {}) as at:
            clients: list[mcprev.Client] = []
            asked = 0

            async def slow(url: str) -> str:
                return await later(at, url, clients)

            async def pages(exchange: Exchange) -> None:
                nonlocal asked
                asked += 1
                if asked == 1 and at_page == 2:
                    at.good.clear()
                if asked == 3:
                    await exchange.gone.wait()
                found = {"tools": [{"name": f"t{asked}", "inputSchema": {"type": "object"}}]}
                assert isinstance(at.speaks, Mcp)
                await exchange.result(at.speaks.complete({**found, "nextCursor": f"c{asked}"}))

            at.speaks.replies["tools/list"] = pages
            auth = mcprev.OAuth(redirect_uri=CALLBACK, open=slow)
            async with connect(at, auth, probe_timeout=BOUND, open_timeout=BOUND) as client:
                clients.append(client)
                if at_page == 1:
                    at.good.clear()
                found: list[str] = []

                async def read() -> None:
                    async for tool in client.tools(timeout=None, total_timeout=BOUND, fresh=True):
                        found.append(tool.name)  # noqa: PERF401 - what came before the end

                reading = asyncio.create_task(read())
                await until(lambda: asked == 3)
                assert found == ["t1", "t2"]
                assert len(at.pages) == 2
                pass_time(BOUND)
                with pytest.raises(mcprev.RequestTimeout, match="total timeout"):
                    await reading

    run(main(), limit=20 * BOUND)


@req("AUTH-22", at=B)
def test_nor_does_that_of_the_oldest_transport() -> None:
    async def main() -> None:
        row = next(row for row in DEFAULT if row.name == B)
        async with world(row, {"tools/call": text("hi")}, old=True) as at:
            usual = at.admit

            async def admit(exchange: Exchange) -> None:
                await (
                    exchange.respond(405)
                    if exchange.verb == "POST" and exchange.path == "/mcp"
                    else usual(exchange)
                )

            clients: list[mcprev.Client] = []

            async def slow(url: str) -> str:
                return await later(at, url, clients)

            at.admit, at.browser = admit, slow  # type: ignore[method-assign]
            target = mcprev.http(at.mcp.url, auth=at.oauth(), connect_timeout=BOUND)
            async with mcprev.connect(target, revisions=[*EARLIER, B], timeout=BOUND) as client:
                clients.append(client)
                at.good.clear()
                await client.call_tool("any", {})
                assert len(at.pages) == 2

    run(main(), limit=20 * BOUND)


@req("AUTH-22")
def test_a_user_who_does_not_come_back_is_waited_for_within_bounds(row: Revision) -> None:
    async def main() -> None:
        async def lost(url: str) -> str:
            await asyncio.Event().wait()
            return url

        async with world(row) as at:
            auth = mcprev.OAuth(redirect_uri=CALLBACK, open=lost, login_timeout=0.05)
            with pytest.raises(mcprev.AuthError, match=r"not completed within 0.05 s"):
                await connect(at, auth)

    run(main())


@pytest.mark.slow
@req("AUTH-22")
def test_a_login_ends_with_the_last_who_waits_for_it(row: Revision) -> None:
    async def main() -> None:
        ended, began = asyncio.Event(), asyncio.Event()

        async def lost(url: str) -> str:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return url

        async with world(row, {"prompts/list": {"prompts": []}}) as at:
            auth = at.oauth()
            async with connect(at, auth) as client:
                await client.raw("prompts/list")
                at.good.clear()
                at.browser = lost
                calls = [asyncio.create_task(client.raw("prompts/list")) for _ in range(2)]
                await began.wait()
                await until(lambda: len(at.asked_for("prompts/list")) == 3)
                calls[0].cancel()
                await asyncio.wait({calls[0]})
                assert not ended.is_set()
                calls[1].cancel()
                await asyncio.wait({calls[1]})
                await asyncio.wait_for(ended.wait(), 5)
                at.browser = at.browse
                await client.raw("prompts/list")

    run(main())


@req("AUTH-22")
def test_a_login_ends_with_its_connection(row: Revision) -> None:
    async def main() -> None:
        ended, began = asyncio.Event(), asyncio.Event()

        async def lost(url: str) -> str:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return url

        async with world(row) as at:
            auth = at.oauth()
            client = await connect(at, auth)
            await client.raw("tools/list")
            at.good.clear()
            at.browser = lost
            call = asyncio.create_task(client.call_tool("any", {}))
            await began.wait()
            await client.aclose()
            assert ended.is_set()
            with pytest.raises(mcprev.ConnectionLost):
                await call

    run(main())


@pytest.mark.slow
@req("AUTH-22")
def test_whoever_is_cancelled_while_it_is_let_in_leaves_nothing_behind(row: Revision) -> None:
    async def main() -> None:
        async with world(row) as at:
            auth, steps = at.oauth(), 0
            done = False
            while not done:
                steps += 7
                auth.authorizers.clear()
                at.good.clear()
                entering = asyncio.ensure_future(connect(at, auth).__aenter__())
                for _ in range(steps):
                    await asyncio.sleep(0)
                done = entering.done()
                entering.cancel()
                await asyncio.wait({entering})
                if done:
                    await entering.result().aclose()
                else:
                    assert entering.cancelled()
            assert at.log, "it was cancelled at many places before it got there"

    run(main(), limit=60)


FAULTS: dict[str, tuple[str, Any, type[mcprev.AuthError], str]] = {
    "garbage": (OAUTH, b"<html>hello</html>", mcprev.DiscoveryFailed, "no JSON object"),
    "list": (OAUTH, b"[]", mcprev.DiscoveryFailed, "no JSON object"),
    "deep": (OAUTH, b"[" * 100_000, mcprev.DiscoveryFailed, "no JSON object"),
    "empty": (OAUTH, {"issuer": None}, mcprev.AuthError, r"\w"),
    "oversized": (OAUTH, b" " * 300_000 + b"{}", mcprev.DiscoveryFailed, "more than 262144 bytes"),
    "token garbage": ("/token", b"token", mcprev.TokenRejected, "no usable token"),
    "token empty": ("/token", {"access_token": ""}, mcprev.TokenRejected, "no usable token"),
    "token header": (
        "/token",
        {"access_token": "a\r\nb: c"},
        mcprev.TokenRejected,
        "no usable token",
    ),
    "token kind": ("/token", {"access_token": "a", "token_type": "mac"}, mcprev.TokenRejected, "mac"),
    "client garbage": ("/register", b"{}", mcprev.RegistrationRejected, "HTTP 200"),
}


@each_once
@req("AUTH-6")
@pytest.mark.parametrize("fault", FAULTS)
def test_what_an_authorization_server_gets_wrong_is_told(row: Revision, fault: str) -> None:
    path, answer, kind, said = FAULTS[fault]

    async def main() -> None:
        async with world(row) as at:
            at.documents[at.issuer + path] = answer
            with pytest.raises(kind, match=said) as caught:
                await connect(at)
            assert isinstance(caught.value, mcprev.AuthError)

    run(main())


@req("AUTH-6")
def test_an_authorization_server_that_is_gone_or_slow_costs_bounded_time(row: Revision) -> None:
    async def main() -> None:
        async def mute(exchange: Exchange) -> None:
            await exchange.gone.wait()

        async with world(row) as at:
            at.documents[at.issuer + OAUTH] = mute
            with pytest.raises(mcprev.DiscoveryFailed, match=r"no response within 0\.05 s"):
                await connect(at, at.oauth(timeout=0.05))
            await at.auth.stop()
            with pytest.raises(mcprev.DiscoveryFailed, match="Cannot connect"):
                await connect(at)
            await at.auth.start()

    run(main())


@req("AUTH-11", "AUTH-15")
@pytest.mark.parametrize(
    ("back", "kind"),
    [
        ({"state": "another"}, mcprev.AuthError),
        ({"state": None}, mcprev.AuthError),
        ({"code": None}, mcprev.AuthError),
        ({"iss": None}, mcprev.IssuerMismatch),
        (
            {"error": "access_denied", "error_description": "no \x1b", "code": None},
            mcprev.AuthorizationDenied,
        ),
        ({"error": "access_denied", "iss": "https://b.example"}, mcprev.IssuerMismatch),
    ],
)
def test_a_wrong_answer_of_the_browser_is_not_redeemed(
    row: Revision, back: dict[str, str | None], kind: type[mcprev.AuthError]
) -> None:
    async def main() -> None:
        async with world(row) as at:
            at.back = back
            with pytest.raises(kind) as caught:
                await connect(at)
            assert type(caught.value) is kind
            assert "b.example" not in str(caught.value)
            assert at.asked == []

    run(main())


@req("AUTH-19", "SEC-2")
@pytest.mark.parametrize(
    "page",
    [
        "http://example.com/a",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "vbscript:x",
        "ftp://x/",
    ],
)
def test_no_page_is_opened_that_is_none_of_the_web(row: Revision, page: str) -> None:
    async def main() -> None:
        async with world(row) as at:
            at.metadata["authorization_endpoint"] = page
            with pytest.raises(mcprev.DiscoveryFailed, match="not opened"):
                await connect(at)
            assert at.pages == []

    run(main())


@req("AUTH-2")
def test_who_has_no_way_to_be_let_in_is_told_that_there_is_one(row: Revision) -> None:
    async def main() -> None:
        async with world(row) as at:
            with pytest.raises(mcprev.TokenRejected, match=r"HTTP 401.*mcprev\.OAuth") as caught:
                await mcprev.connect(mcprev.http(at.mcp.url), revisions=[row.name])
            reason = caught.value.__cause__
            assert isinstance(reason, mcprev.HttpStatusError)
            assert "Bearer" in reason.headers["WWW-Authenticate"]

    run(main())


@req("AUTH-19")
def test_no_token_goes_over_the_network_in_the_clear(row: Revision) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="without encryption"):
            mcprev.http("http://example.com/mcp", auth=mcprev.OAuth())
        mcprev.http("http://example.com/mcp", auth=mcprev.OAuth(private=True))
        mcprev.http("http://localhost/mcp", auth=mcprev.OAuth())
        async with world(row) as at:
            at.metadata["token_endpoint"] = "http://example.com/token"
            with pytest.raises(mcprev.DiscoveryFailed, match="which is not an https URL"):
                await connect(at)
            assert at.log == [], "nobody is registered where no token can be had"

    run(main())


@req("AUTH-2", at=E)
@pytest.mark.parametrize(
    "options",
    [
        {"open": 1},
        {"redirect_uri": CALLBACK},
        {"client_secret": "a"},
        {"client_metadata_url": "https://a.example/"},
        {"client_metadata_url": "http://a.example/me"},
        {"issuer": "http://example.com"},
        {"open": 1, "redirect_uri": CALLBACK, "loopback": mcprev.Loopback()},
    ],
)
def test_options_that_do_not_go_together_are_refused(options: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        mcprev.OAuth(**options)


@req("AUTH-22", "CANC-7", at=D)
def test_a_call_that_is_cancelled_during_the_login_ends_the_login_at_once() -> None:
    """The server has not accepted the call, so no stream of it has to be kept for a moment."""

    async def main() -> None:
        row = next(row for row in DEFAULT if row.name == D)
        async with world(row, {"tools/call": text("hi")}) as at, connect(at) as client:
            shown, ended = asyncio.Event(), asyncio.Event()

            async def browse(url: str) -> str:
                shown.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.set()
                return url

            await client.call_tool("any", {})  # the session is confirmed
            at.browser, loop = browse, asyncio.get_running_loop()
            at.good.clear()
            call = asyncio.create_task(client.call_tool("any", {}))
            await shown.wait()
            began = loop.time()
            call.cancel()
            await ended.wait()
            assert loop.time() - began < GRACE

    run(main(), has_both_ends=True)


@req("AUTH-11", "AUTH-2", at=E)
@pytest.mark.parametrize(
    ("found", "kind", "said"),
    [
        (RuntimeError("hush"), mcprev.AuthError, "the login failed: `open` raised RuntimeError"),
        (mcprev.AuthError("no browser"), mcprev.AuthError, "no browser"),
        (5, mcprev.McpError, "must return the redirect URL as a string"),
        (None, mcprev.McpError, "must return the redirect URL as a string"),
    ],
)
def test_what_a_function_that_opens_a_page_does_wrong_is_told(
    found: Any, kind: type[Exception], said: str
) -> None:
    """Its own errors without their texts, which may contain the URL with its secrets."""

    async def main() -> None:
        async with world(DEFAULT[-1]) as at:

            async def open_(url: str) -> Any:
                if isinstance(found, Exception):
                    raise found
                return found

            at.browser = open_
            with pytest.raises(kind, match=said) as caught:
                await connect(at)
            shown = "".join(traceback.format_exception(caught.value))
            assert "hush" not in shown

    run(main())
