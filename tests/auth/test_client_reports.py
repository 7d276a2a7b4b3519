"""Logins that failed or came back at every call, as users of clients have reported them, at every revision."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import urlencode

import pytest

import mcprev
from auth.world import CALLBACK, OAUTH, PRM, World, form, query, world
from fuzz.fuzzing import each_once
from helpers.raw_server import Exchange, text
from helpers.requirements import req
from helpers.running import run
from mcprev.auth.client import tokens
from mcprev.revisions import DEFAULT, Revision

SECURED: Final = [row for row in DEFAULT if row.auth is not None]
NAMING: Final = [row for row in SECURED if row.auth is not None and row.auth.resource_metadata]
"""The revisions whose servers name their authorization server."""
REPLIES: Final[dict[str, Any]] = {"tools/call": text("hi"), "tools/list": {"tools": []}}
at_each = pytest.mark.parametrize("row", SECURED, ids=lambda row: row.name)
at_each_naming = pytest.mark.parametrize("row", NAMING, ids=lambda row: row.name)


def connect(at: World, auth: Any = None) -> mcprev.connect:
    target = mcprev.http(at.mcp.url, auth=at.oauth() if auth is None else auth)
    return mcprev.connect(target, revisions=[at.revision.name], validate="off")


def scopes_of(at: World) -> list[str | None]:
    """The scopes of each visit of the browser."""
    return [query(page).get("scope") for page in at.pages]


# -- scopes ------------------------------------------------------------------------------------------------


@at_each
@req("AUTH-17", everywhere=True)
def test_a_server_that_names_the_scope_of_each_operation_costs_one_login_for_each(row: Revision) -> None:
    """Its challenges name what the operation needs and no more, so a token for the last one would lack the first."""

    async def main() -> None:
        async with world(row, REPLIES) as at:
            at.needs = {"tools/call": "write", "tools/list": "read"}
            async with connect(at) as client:
                for _ in range(3):
                    await client.call_tool("any", {})
                    await client.list_tools()
            assert len(at.pages) == 3
            assert set((scopes_of(at)[-1] or "").split()) == {"read", "write"}

    run(main())


@at_each
@req("AUTH-17", everywhere=True)
def test_what_was_granted_without_being_asked_for_is_asked_for_with_more(row: Revision) -> None:
    async def main() -> None:
        async with world(row, REPLIES) as at:
            at.needs = {"tools/call": "write"}
            usual, said = at.give, {"": "read,list", "read list write": "read list write"}

            async def give(exchange: Exchange, *scopes: str) -> None:
                at.grants = {"scope": said[" ".join(scopes)]}
                await usual(exchange, *scopes)

            at.give = give  # type: ignore[method-assign]
            async with connect(at) as client:
                await client.call_tool("any", {})
            assert scopes_of(at) == [None, "read list write"]

    run(main())


@at_each
@req("AUTH-17", "AUTH-22", everywhere=True)
def test_a_login_after_a_restart_keeps_the_scopes_of_the_one_before(row: Revision) -> None:
    async def main() -> None:
        async with world(row, REPLIES) as at:
            at.challenge["scope"], at.needs = "read", {"tools/call": "write"}
            store = mcprev.MemoryTokens()
            async with connect(at, at.oauth(store=store)) as client:
                await client.call_tool("any", {})
            at.good.clear()
            async with connect(at, at.oauth(store=store)) as client:
                await client.call_tool("any", {})
            assert scopes_of(at) == ["read", "read write", "read write"]

    run(main())


@at_each
@req("AUTH-17", "AUTH-22", everywhere=True)
def test_scopes_that_another_process_was_granted_are_not_asked_for_again(row: Revision) -> None:
    async def main() -> None:
        async with world(row, REPLIES) as at:
            at.needs = {"tools/call": "write"}
            store = mcprev.MemoryTokens()
            async with connect(at, at.oauth(store=store)) as one, connect(at, at.oauth(store=store)) as other:
                await one.call_tool("any", {})
                await other.call_tool("any", {})
            assert len(at.pages) == 2, "the login, and the scope for both"

    run(main())


@at_each
@req("AUTH-17", "AUTH-18", everywhere=True)
def test_offline_access_is_asked_for_at_each_login(row: Revision) -> None:
    async def main() -> None:
        async with world(row, REPLIES) as at:
            at.challenge["scope"], at.needs = "read", {"tools/call": "write"}
            at.metadata["scopes_supported"] = ["read", "write", "offline_access"]
            async with connect(at) as client:
                await client.call_tool("any", {})
                at.good.clear()
                await client.call_tool("any", {})
            first, *later = [(found or "").split() for found in scopes_of(at)]
            assert first == ["read", "offline_access"]
            assert [set(found) for found in later] == [{"read", "write", "offline_access"}] * 2

    run(main())


@at_each
@pytest.mark.parametrize("wanted", [None, []], ids=["nothing", "no scopes"])
@req("AUTH-17", everywhere=True)
def test_no_scopes_are_not_asked_for_as_an_empty_text(row: Revision, wanted: list[str] | None) -> None:
    async def main() -> None:
        async with world(row, REPLIES) as at:
            if row in NAMING:
                at.resource["scopes_supported"] = []
            at.challenge["scope"] = ""
            async with connect(at, at.oauth(scopes=wanted)):
                assert scopes_of(at) == [None]
                assert all("scope" not in said for said in [*at.asked, *at.registered])
        async with world(row, REPLIES) as at:
            program = mcprev.ClientCredentials("me", "secret", issuer=at.issuer, scopes=wanted)
            async with connect(at, program):
                assert all("scope" not in said for said in at.asked)

    run(main())


@at_each
@req("AUTH-17", everywhere=True)
def test_a_401_for_missing_scopes_is_no_refused_token(row: Revision) -> None:
    async def main() -> None:
        async with world(row, REPLIES) as at:
            at.refreshes, refuse = True, at.refuse
            at.needs = {"tools/call": "write"}

            async def unauthorized(exchange: Exchange, _status: int, **said: str) -> None:
                await refuse(exchange, 401, **said)

            at.refuse = unauthorized  # type: ignore[assignment]
            async with connect(at) as client:
                await client.call_tool("any", {})
            assert at.log == [
                "register",
                *["authorize", "authorization_code"] * 2,
            ], "a refresh adds no scopes"

    run(main())


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("a b", ("a", "b")),
        ("a,b", ("a", "b")),
        ("a b,c", ("a", "b,c")),
        (["a", "b", 1], ("a", "b")),
        ('a " b', ("a", "b")),
        ("", None),
        (",", None),
        (None, None),
        (5, None),
        ({}, None),
    ],
    ids=str,
)
@req("AUTH-17", everywhere=True)
def test_how_servers_say_which_scopes_they_granted(said: object, found: tuple[str, ...] | None) -> None:
    assert tokens.read_scopes(said) == found


# -- issuers -----------------------------------------------------------------------------------------------


@at_each_naming
@pytest.mark.parametrize(("named", "said"), [("{}/", "{}"), ("{}", "{}/"), ("{}/", "{}/")])
@req("AUTH-7", "AUTH-14", "AUTH-15", everywhere=True)
def test_an_issuer_without_a_path_is_named_with_a_slash_or_without(
    row: Revision, named: str, said: str
) -> None:
    """So are those of Google, and what is kept is found by either."""

    async def main() -> None:
        async with world(row, REPLIES) as at:
            at.resource["authorization_servers"] = [named.format(at.auth.origin)]
            at.metadata["issuer"] = at.back["iss"] = said.format(at.auth.origin)
            store = mcprev.MemoryTokens()
            async with connect(at, at.oauth(store=store)):
                pass
            for issuer in (at.auth.origin, at.auth.origin + "/"):
                async with connect(at, at.oauth(store=store, client_id="client-1", issuer=issuer)):
                    pass
            assert at.log == ["register", "authorize", "authorization_code"]
            with pytest.raises(mcprev.AuthError):
                await connect(at, at.oauth(client_id="me", issuer=at.auth.origin + "/x"))

    run(main())


# -- discovery ---------------------------------------------------------------------------------------------


def names_another_resource(at: World, url: str) -> None:
    at.documents[url] = {**at.resource, "resource": "https://other.example/mcp"}


def names_no_server(at: World, url: str) -> None:
    at.documents[url] = {"resource": at.mcp.url, "authorization_servers": []}


def names_an_unusable_server(at: World, url: str) -> None:
    at.documents[url] = {**at.resource, "authorization_servers": [at.auth.origin + "/nowhere"]}


@at_each_naming
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (names_another_resource, "describes another resource, https://other.example/mcp"),
        (names_no_server, "names no authorization server"),
        (names_an_unusable_server, "/nowhere: HTTP 404"),
    ],
)
@req("AUTH-5", "AUTH-9", everywhere=True)
def test_metadata_of_a_server_that_does_not_fit_is_not_the_last(row: Revision, wrong: Any, why: str) -> None:
    async def main() -> None:
        async with world(row, REPLIES) as at:
            first = at.mcp.origin + "/metadata"
            wrong(at, first)
            at.challenge["resource_metadata"] = first
            async with connect(at):
                assert len(at.registered) == 1
            at.documents.pop(at.mcp.origin + PRM + "/mcp")
            with pytest.raises(mcprev.DiscoveryFailed) as caught:
                await connect(at)
            lines = " ".join(caught.value.tried)
            assert first in lines or "/nowhere" in lines
            assert why in lines.replace(at.auth.origin, "").replace(f"{OAUTH}/nowhere", "/nowhere")
            assert f"{PRM}/mcp: HTTP 404" in lines
            assert len(at.registered) == 1

    run(main())


def is_another_issuer(at: World, document: dict[str, Any]) -> None:
    document["issuer"] = "https://other.example"


def has_no_proofs(at: World, document: dict[str, Any]) -> None:
    del document["code_challenge_methods_supported"]


def has_a_page_in_the_clear(at: World, document: dict[str, Any]) -> None:
    document["authorization_endpoint"] = "http://login.example/authorize"


def takes_codes_in_the_clear(at: World, document: dict[str, Any]) -> None:
    document["token_endpoint"] = "http://login.example/token"


def has_no_page(at: World, document: dict[str, Any]) -> None:
    del document["authorization_endpoint"]


def registers_nobody(at: World, document: dict[str, Any]) -> None:
    del document["registration_endpoint"]


UNFIT: Final = [
    is_another_issuer, has_no_proofs, has_a_page_in_the_clear, takes_codes_in_the_clear, has_no_page, registers_nobody
]  # fmt: skip


@each_once
@at_each_naming
@pytest.mark.parametrize("wrong", UNFIT, ids=lambda wrong: wrong.__name__)
@req("AUTH-6", "AUTH-7", "AUTH-8", "AUTH-12", everywhere=True)
def test_an_authorization_server_that_does_not_fit_is_not_the_last(row: Revision, wrong: Any) -> None:
    """Nobody is registered at one that is not used; without a later one, the error says what is wrong with each."""

    async def main() -> None:
        async with world(row, REPLIES) as at:
            base = at.auth.origin
            for tenant in ("/bad", "/good"):
                at.documents[f"{base}{OAUTH}{tenant}"] = {**at.metadata, "issuer": base + tenant}
            bad = at.documents[f"{base}{OAUTH}/bad"]
            bad["registration_endpoint"] = f"{base}/register-nobody"
            wrong(at, bad)
            at.resource["authorization_servers"] = [f"{base}/bad", f"{base}/good"]
            at.back["iss"] = f"{base}/good"
            async with connect(at):
                assert at.log == ["register", "authorize", "authorization_code"]
            at.resource["authorization_servers"] = [f"{base}/bad"]
            with pytest.raises(mcprev.AuthError) as caught:
                await connect(at)
            if wrong is registers_nobody:
                assert isinstance(caught.value, mcprev.RegistrationRejected)
            else:
                assert f"{base}{OAUTH}/bad: " in str(caught.value)
            assert isinstance(caught.value, mcprev.IssuerMismatch) is (wrong is is_another_issuer)
            assert len(at.registered) == 1
            assert not any("register-nobody" in seen.path for seen in at.auth.seen)

    run(main())


@req("AUTH-6", "AUTH-7", everywhere=True)
@pytest.mark.parametrize(
    "row", [row for row in NAMING if row.auth is not None and row.auth.openid], ids=lambda row: row.name
)
def test_a_document_that_does_not_fit_leads_to_the_next_of_the_same_server(row: Revision) -> None:
    async def main() -> None:
        async with world(row, REPLIES) as at:
            good = at.metadata
            at.documents[at.auth.origin + OAUTH] = {**good, "issuer": "https://other.example"}
            at.documents[at.auth.origin + "/.well-known/openid-configuration"] = good
            async with connect(at):
                assert at.log == ["register", "authorize", "authorization_code"]

    run(main())


# -- lifetimes ---------------------------------------------------------------------------------------------


@each_once
@at_each
@pytest.mark.parametrize("expires", [0, "0", 0.5, -1, "", None, "never"], ids=repr)
@req("AUTH-18", everywhere=True)
def test_a_lifetime_of_nothing_is_none_that_is_known(row: Revision, expires: Any) -> None:
    """Such a token is good until the server refuses it: it is not refreshed before each request."""

    async def main() -> None:
        async with world(row, REPLIES) as at:
            at.refreshes, at.expires = True, expires
            store = mcprev.MemoryTokens()
            for _ in range(2):
                async with connect(at, at.oauth(store=store)) as client:
                    for _ in range(3):
                        await client.call_tool("any", {})
            assert at.log == ["register", "authorize", "authorization_code"]
            at.good.clear()
            async with connect(at, at.oauth(store=store)) as client:
                await client.call_tool("any", {})
            assert at.log[3:] == ["refresh_token"]

    run(main())


# -- registrations -----------------------------------------------------------------------------------------

DROPPED: Final = ["invalid_client", "unauthorized_client"]


def drop(at: World, error: str, where: str) -> None:
    """The authorization server forgets its clients, and says so in a way."""
    gone = {f"client-{number}" for number in range(1, len(at.registered) + 1)}
    browse, token = at.browse, at.token

    async def browser(url: str) -> str:
        if query(url)["client_id"] not in gone or where != "the redirect":
            return await browse(url)
        at.pages.append(url)
        return f"{CALLBACK}?{urlencode({'error': error, 'state': query(url)['state'], 'iss': at.issuer})}"

    async def page(exchange: Exchange) -> None:
        known = query(exchange.path)["client_id"] not in gone
        said = f"<h1>{error}</h1>".encode() if where == "a page" else json.dumps({"error": error}).encode()
        await exchange.respond(200 if known else 401, b"" if known else said)

    async def tokens_(exchange: Exchange) -> None:
        said = form(exchange)
        if said["client_id"] not in gone:
            await token(exchange)
        elif said["grant_type"] == "refresh_token" and where != "the token endpoint":
            await exchange.json({"error": "invalid_grant"}, 400)
        else:
            await exchange.json({"error": error}, 401)

    at.browser, at.tokens = browser, tokens_
    if where in ("the page", "a page"):
        at.documents[at.issuer + "/authorize"] = page


@each_once
@at_each
@pytest.mark.parametrize("error", DROPPED)
@pytest.mark.parametrize(
    ("where", "refreshes", "pages"),
    [
        ("the page", False, 1), ("a page", False, 1), ("the page", True, 1), ("the redirect", False, 2),
        ("the redirect", True, 2), ("the token endpoint", False, 2), ("the token endpoint", True, 1),
    ],
)  # fmt: skip
@req("AUTH-12", "AUTH-14", everywhere=True)
def test_a_registration_that_was_dropped_is_made_anew_once(
    row: Revision, error: str, where: str, refreshes: bool, pages: int
) -> None:
    """With a fixed redirect URI it would be used for ever. The call that finds out is answered."""

    async def main() -> None:
        async with world(row, REPLIES) as at:
            at.refreshes, store = refreshes, mcprev.MemoryTokens()
            async with connect(at, at.oauth(store=store)):
                pass
            at.good.clear()
            at.pages.clear()
            drop(at, error, where)
            for _ in range(2):
                async with connect(at, at.oauth(store=store)) as client:
                    await client.call_tool("any", {})
            assert len(at.registered) == 2
            assert len(at.pages) == pages
            kept = await store.registration(at.issuer)
            assert kept is not None
            assert kept.client_id == "client-2"

    run(main())


@each_once
@at_each
@pytest.mark.parametrize("where", ["the page", "the redirect", "the token endpoint"])
@req("AUTH-12", everywhere=True)
def test_a_server_that_drops_each_registration_is_given_up(row: Revision, where: str) -> None:
    async def main() -> None:
        async with world(row, REPLIES) as at:
            store, register = mcprev.MemoryTokens(), at.register
            async with connect(at, at.oauth(store=store)):
                pass
            at.good.clear()

            async def again(exchange: Exchange) -> None:
                await register(exchange)
                drop(at, "unauthorized_client", "the redirect" if where == "the page" else where)

            at.register = again  # type: ignore[method-assign]
            drop(at, "unauthorized_client", where)
            with pytest.raises((mcprev.TokenRejected, mcprev.AuthorizationDenied)):
                await connect(at, at.oauth(store=store))
            assert len(at.registered) == 2

    run(main())


@at_each
@req("AUTH-12", "AUTH-24", everywhere=True)
def test_a_client_that_the_user_has_named_is_not_replaced(row: Revision) -> None:
    async def main() -> None:
        async with world(row, REPLIES) as at:
            at.registered.append({})
            drop(at, "unauthorized_client", "the redirect")
            with pytest.raises(mcprev.AuthorizationDenied, match="unauthorized_client"):
                await connect(at, at.oauth(client_id="client-1"))
            assert at.log == []

    run(main())


@at_each
@req("AUTH-12", everywhere=True)
def test_a_user_who_denies_is_not_asked_by_another_client(row: Revision) -> None:
    async def main() -> None:
        async with world(row, REPLIES) as at:
            store = mcprev.MemoryTokens()
            async with connect(at, at.oauth(store=store)):
                pass
            at.good.clear()
            drop(at, "access_denied", "the redirect")
            for _ in range(2):
                with pytest.raises(mcprev.AuthorizationDenied, match="access_denied"):
                    await connect(at, at.oauth(store=store))
            assert len(at.registered) == 1

    run(main())


@each_once
@at_each
@pytest.mark.parametrize(
    ("said", "reads", "offers"),
    [
        # how the client shall authenticate, how the server reads the secret, and what its metadata lists
        (None, "form", None), (None, "header", None), (None, "form", ["none"]), (None, "header", ["none"]),
        ("none", "form", ["none"]), ("none", "header", None), ("none", "nothing", ["none"]),
        ("tls_client_auth", "form", None), ("client_secret_basic", "form", None), ("client_secret_post", "header", None),
        ("client_secret_post", "form", ["none", "client_secret_post"]),
    ],
)  # fmt: skip
@req("AUTH-12", everywhere=True)
def test_a_secret_that_was_issued_is_used_whatever_is_said_of_it(
    row: Revision, said: str | None, reads: str, offers: list[str] | None
) -> None:
    """Canny says nothing of how it reads the secret, and reads it in the form; others say `none`, and read it."""

    async def main() -> None:
        async with world(row, REPLIES) as at:
            at.refreshes, store = True, mcprev.MemoryTokens()
            del at.metadata["token_endpoint_auth_methods_supported"]
            if offers is not None:
                at.metadata["token_endpoint_auth_methods_supported"] = offers

            async def register(exchange: Exchange) -> None:
                at.registered.append(exchange.message)
                method = {} if said is None else {"token_endpoint_auth_method": said}
                await exchange.json({"client_id": "c", "client_secret": "hidden", **method}, 201)

            async def tokens_(exchange: Exchange) -> None:
                asked, header = form(exchange), exchange.headers.get("authorization")
                how = "header" if header else "form" if "client_secret" in asked else "nothing"
                if how == reads:
                    await at.token(exchange)
                else:
                    at.log.append(how)
                    await exchange.json({"error": "invalid input"}, 400)

            at.register, at.tokens = register, tokens_  # type: ignore[method-assign]
            async with connect(at, at.oauth(store=store)):
                assert len(at.pages) == 1
            at.log.clear()
            at.good.clear()
            async with connect(at, at.oauth(store=store)):
                assert at.log == ["refresh_token"], "the way that the server reads is remembered"

    run(main())


@at_each
@req("AUTH-12", "AUTH-2", everywhere=True)
def test_no_other_way_is_tried_for_an_error_about_the_grant(row: Revision) -> None:
    async def main() -> None:
        async with world(row, REPLIES) as at:
            asked: list[str] = []

            async def refuse(exchange: Exchange) -> None:
                asked.append(form(exchange)["grant_type"])
                await exchange.json({"error": "invalid_grant"}, 400)

            at.tokens = refuse
            with pytest.raises(mcprev.TokenRejected):
                await connect(at, at.oauth(client_id="me", client_secret="s", issuer=at.issuer))
            assert asked == ["authorization_code"]

    run(main())


# -- a 401 that is about a session -------------------------------------------------------------------------


@each_once
@pytest.mark.parametrize(
    "row", [row for row in DEFAULT if row.handshake and row.auth is not None], ids=lambda row: row.name
)
@pytest.mark.parametrize(
    "said", ["Session not found", "Unknown session", "the session has expired", "No valid session ID"]
)
@pytest.mark.parametrize("kind", ["an error", "a text"])
@req("HTTP-23", everywhere=True)
def test_a_401_about_the_session_begins_another_session(row: Revision, said: str, kind: str) -> None:
    async def main() -> None:
        async with world(row, REPLIES) as at:
            gone: list[str] = []

            async def admit(exchange: Exchange) -> None:
                if exchange.method != "tools/call" or gone:
                    await at.speaks(exchange)
                    return
                gone.append(exchange.headers.get("mcp-session-id", ""))
                if kind == "an error":
                    await exchange.error(-32001, 401, said)
                else:
                    await exchange.respond(401, said.encode())

            at.admit = admit  # type: ignore[method-assign]
            async with mcprev.connect(
                mcprev.http(at.mcp.url), revisions=[row.name], validate="off"
            ) as client:
                await client.call_tool("any", {})
                assert len(at.asked_for("initialize")) == 2

    run(main())


@at_each
@pytest.mark.parametrize("said", ["who are you?", "session token missing", "Unauthorized"])
@req("HTTP-23", "AUTH-2", everywhere=True)
def test_any_other_401_advises_a_token(row: Revision, said: str) -> None:
    async def main() -> None:
        async with world(row, REPLIES) as at:

            async def admit(exchange: Exchange) -> None:
                await exchange.respond(401, said.encode())

            at.admit = admit  # type: ignore[method-assign]
            with pytest.raises(mcprev.McpError, match="requires a token"):
                await mcprev.connect(mcprev.http(at.mcp.url), revisions=[row.name])

    run(main())
