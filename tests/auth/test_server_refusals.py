"""Who is not let in to a server that wants tokens, and what they are told (AUTH-1, AUTH-4, AUTH-5, AUTH-10, AUTH-16)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import product
from typing import Any, Final

import pytest

import mcprev
from auth.guarded import (
    METADATA,
    RESOURCE,
    ROWS,
    WAYS,
    Ask,
    Guarded,
    Tokens,
    Way,
    asked,
    challenge,
    everything,
    good,
    over_asgi,
    session,
    shows,
)
from helpers.asgi_bridge import Client
from helpers.requirements import C, D, E, req
from helpers.running import run, until
from mcprev.errors import INTERNAL_ERROR, INVALID_REQUEST
from mcprev.revisions import Revision

ways = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)

NEEDED: Final = {"scope": "read", "resource_metadata": METADATA}
INVALID: Final = {**NEEDED, "error": "invalid_token"}
BAD: Final = {"error": "invalid_request", "resource_metadata": METADATA}
POOR: Final = {"error": "insufficient_scope", "scope": "read other", "resource_metadata": METADATA}
HAS: Final = {"scopes": "read"}

REFUSALS: Final[dict[str, tuple[list[str], str, int, dict[str, str]]]] = {
    "no token": ([], "", 401, NEEDED),
    "another scheme": (["Basic YTpi"], "", 401, NEEDED),
    "another scheme without more": (["Negotiate"], "", 401, NEEDED),
    "unknown": (["Bearer nobody"], "", 401, INVALID),
    "refused with a reason": (["Bearer refused"], "", 401, INVALID),
    "expired": (["Bearer expired"], "", 401, INVALID),
    "expires now": (["Bearer now"], "", 401, INVALID),
    "of another server": (["Bearer foreign"], "", 401, INVALID),
    "of a server below": (["Bearer below"], "", 401, INVALID),
    "of the whole host": (["Bearer host"], "", 401, INVALID),
    "of nobody": (["Bearer aimless"], "", 401, INVALID),
    "of what is no resource": (["Bearer odd"], "", 401, INVALID),
    "too few scopes": (["Bearer poor"], "", 403, POOR),
    "scopes that no header can carry": (["Bearer odd-scopes"], "", 403, POOR),
    "no credentials": ([""], "", 400, BAD),
    "no scheme": (["(alice)"], "", 400, BAD),
    "no token behind the scheme": (["Bearer"], "", 400, BAD),
    "two tokens": (["Bearer alice bob"], "", 400, BAD),
    "two tokens with a comma": (["Bearer alice, Bearer bob"], "", 400, BAD),
    "two headers": (["Bearer alice", "Bearer alice"], "", 400, BAD),
    "two headers, of two schemes": (["Basic YTpi", "Bearer alice"], "", 400, BAD),
    "no ASCII": (["Bearer \xe9"], "", 400, BAD),
    "in the query": ([], "access_token=alice", 400, BAD),
    "in the query too": (["Bearer alice"], "access_token=alice", 400, BAD),
    "in the query without value": (["Bearer alice"], "x=1&access_token", 400, BAD),
    "in the query, encoded": (["Bearer alice"], "%61ccess_token=alice", 400, BAD),
}


def tokens() -> Tokens:
    return Tokens(
        alice=good("alice", **HAS),
        alice2=good("alice", client_id="other", **HAS),
        bob=good("bob", **HAS),
        refused=mcprev.InvalidToken("a reason for the log"),
        expired=good("alice", expires=999.0, **HAS),
        now=good("alice", expires=1000, **HAS),
        foreign=good("alice", audience=["https://other.example/mcp", "https://mcp.example/other"], **HAS),
        below=good("alice", audience=RESOURCE + "/below", **HAS),
        host=good("alice", audience="https://mcp.example", **HAS),
        aimless=good("alice", audience=(), **HAS),
        odd=good("alice", audience=["mcp", "", RESOURCE + "#x", "https://[", "ftp://mcp.example/mcp"], **HAS),
        poor=good("alice", scopes="other offline_access"),
        **{"odd-scopes": good("alice", scopes=["other", 'a"b', "c\r\nx: y", "\xe9", ""])},
    )


@pytest.mark.slow
@req("AUTH-1", "AUTH-4", "AUTH-5", "AUTH-10", "AUTH-16")
@ways
@rows
def test_every_request_is_refused_that_shows_no_good_token(row: Revision, way: Way) -> None:
    """Whatever it asks for, and before anything of it is looked at."""

    async def refused(ask: Ask, case: str) -> None:
        credentials, query, status, told = REFUSALS[case]
        for verb, target, headers, body in everything(row):
            more = query and ("&" if "?" in target else "?") + query
            pairs = [*headers.items(), *(("Authorization", value) for value in credentials)]
            answer = await ask(verb, target + more, pairs, body)
            assert answer.status == status, (case, verb, target, answer)
            found = challenge(answer.headers)
            assert ("error" in told) is ("error_description" in found)
            assert {name: value for name, value in found.items() if name != "error_description"} == told, case
            assert answer.error["code"] == INVALID_REQUEST
            assert "alice" not in str(answer)

    async def main() -> None:
        handler = Guarded()
        server = mcprev.Server(handler, "s", "1")
        async with way(server, auth=tokens().bearer(scopes=["read"]), sse=True) as ask:
            for case in REFUSALS:
                await refused(ask, case)
            nothing = await ask("GET", "/nothing")
            assert (nothing.status, "www-authenticate" in nothing.headers) == (404, False)
        assert (handler.runs, handler.lists) == (0, 0)

    run(main())


@req("AUTH-1", "AUTH-10")
@rows
@pytest.mark.parametrize(("shown", "said"), [("Bearer ", "empty"), ("Bearer alice bob", "malformed")])
def test_a_refusal_tells_an_empty_token_from_a_malformed_one(shown: str, said: str, row: Revision) -> None:
    async def main() -> None:
        async with over_asgi(mcprev.Server(Guarded(), "s", "1"), auth=tokens().bearer()) as ask:
            verb, target, headers, body = asked(row)
            answer = await ask(verb, target, [*headers.items(), ("Authorization", shown)], body)
            assert challenge(answer.headers)["error_description"] == f"the bearer token is {said}"

    run(main())


@req("AUTH-1", "AUTH-10")
@ways
@rows
@pytest.mark.parametrize(
    ("scheme", "audience"),
    [
        ("Bearer ", RESOURCE),
        ("bearer ", ["https://other.example", RESOURCE]),
        ("BEARER   ", "HTTPS://MCP.Example:443/mcp/"),
    ],
)
def test_a_good_token_is_let_in(scheme: str, audience: Any, row: Revision, way: Way) -> None:
    async def main() -> None:
        claims = {"email": "a@b.example"}
        found = good("alice", audience=audience, client_id="c", scopes=["read", "write"], claims=claims)
        used = Tokens(**{"a.b~c+d/e==": found})
        async with way(mcprev.Server(Guarded(), "s", "1"), auth=used.bearer(scopes=["read"])) as ask:
            said = await session(ask, row, "a.b~c+d/e==", scheme)
            verb, target, headers, body = asked(row, "access")
            answer = await ask(verb, target, [*headers.items(), *said.items()], body)
            assert (answer.status, answer.text) == (
                200,
                '["alice", "c", ["read", "write"], {"email": "a@b.example"}]',
            )
            assert set(used.seen) == {"a.b~c+d/e=="}

    run(main())


# -- what an author gets wrong ---------------------------------------------------------------------------

TROUBLE: Final[dict[str, Any]] = {
    "raises": RuntimeError("about hush-hush"),
    "raises what holds it": KeyError("hush-hush"),
    "hangs": asyncio.Event,
    "is cancelled": asyncio.CancelledError(),
    "runs out of time": TimeoutError(),
    "says yes": True,
    "says who": "alice",
    "says what": {"subject": "alice", "audience": RESOURCE},
    "says no": False,
}


@req("AUTH-1")
@ways
@rows
def test_nobody_is_let_in_where_it_cannot_be_told(
    row: Revision, way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    """With an answer that does not make the client throw its token away, and a line in the log without the token."""

    async def main() -> None:
        handler = Guarded()
        used = Tokens()
        server = mcprev.Server(handler, "s", "1")
        async with way(server, auth=used.bearer(timeout=0.005), sse=True) as ask:
            for trouble, (verb, target, headers, body) in product(TROUBLE, everything(row)):
                used.known["hush-hush"] = TROUBLE[trouble]
                caplog.clear()
                pairs = [*headers.items(), *shows("hush-hush").items()]
                answer = await ask(verb, target, pairs, body)
                assert (answer.status, answer.error["code"]) == (503, INTERNAL_ERROR), trouble
                assert answer.headers["retry-after"] == "1", "a client of ours asks again"
                assert "www-authenticate" not in answer.headers
                logged = [found for found in caplog.records if found.levelno >= logging.WARNING]
                assert [found.name for found in logged] == ["mcprev.auth"]
                assert "hush" not in caplog.text + str(answer)
        assert (handler.runs, handler.lists) == (0, 0)

    run(main())


@req("AUTH-1", "SEC-3", "HTTP-31")
@rows
def test_origins_come_before_tokens_and_tokens_before_bodies(row: Revision) -> None:
    async def main() -> None:
        used = Tokens()
        app = mcprev.Server(Guarded(), "s", "1").asgi(auth=used.bearer(), hosts=["mcp.example"])
        client = Client(app)
        for extra in ({"origin": "https://evil.example"}, {"host": "evil.example"}):
            headers = {"host": "mcp.example", **shows("alice"), **extra}
            for path in ("/mcp", "/.well-known/oauth-protected-resource"):
                refused = await client.send("GET", None, headers, path=path).done()
                assert (refused.status, "www-authenticate" in refused.headers) == (403, False)
        assert used.seen == []
        headers = {"host": "mcp.example", **shows("nobody"), "content-length": "1000000000"}
        refused = await client.send("POST", None, headers, open_body=True).done()
        assert (refused.status, used.seen) == (401, ["nobody"])
        await app.aclose()

    run(main())


@req("AUTH-1", "LIFE-16")
@rows
def test_what_waits_for_its_token_when_the_server_stops_is_refused(row: Revision) -> None:
    async def main() -> None:
        handler, used = Guarded(), Tokens(slow=asyncio.Event)
        app = mcprev.Server(handler, "s", "1").asgi(auth=used.bearer())

        def as_it_is(**_: object) -> Any:
            return app

        server: Any = type("Running", (), {"asgi": staticmethod(as_it_is)})
        async with over_asgi(server) as ask:
            verb, target, headers, body = asked(row)
            waiting = asyncio.ensure_future(
                ask(verb, target, [*headers.items(), *shows("slow").items()], body)
            )
            await until(lambda: bool(used.seen))
            await app.aclose()
            used.gate.set()
            assert (await waiting).status == 503
        assert handler.runs == 0

    run(main())


# -- scopes ----------------------------------------------------------------------------------------------


def needs(method: str, params: Any) -> Any:
    """What requests need, said in every form there is."""
    if method == "tools/call":
        return {"echo": "write again", "access": ["write"], "who": {"offline_access"}}.get(params["name"])
    return () if method != "ping" else iter(["ping"])


@req("AUTH-1", "AUTH-16")
@ways
@rows
def test_a_request_that_needs_more_says_what(row: Revision, way: Way) -> None:
    async def main() -> None:
        handler = Guarded()
        used = Tokens(
            alice=good("alice", scopes="read extra offline_access"),
            more=good("alice", scopes="read write again"),
        )
        auth = used.bearer(scopes=["read"], needs=needs)
        async with way(mcprev.Server(handler, "s", "1"), auth=auth) as ask:
            said = await session(ask, row, "alice")
            for tool, scopes in (("echo", "read again write extra"), ("access", "read write extra")):
                verb, target, headers, body = asked(row, tool)
                before = handler.runs, handler.lists
                answer = await ask(verb, target, [*headers.items(), *said.items()], body)
                assert answer.status == 403
                assert challenge(answer.headers) == {
                    "error": "insufficient_scope",
                    "error_description": "the token has too few scopes",
                    "scope": scopes,
                    "resource_metadata": METADATA,
                }
                assert (answer.json["id"], answer.error["code"]) == (1, INVALID_REQUEST)
                assert (handler.runs, handler.lists) == before
                granted = {**said, **shows("more")}
                answer = await ask(verb, target, [*headers.items(), *granted.items()], body)
                assert answer.status == 200, "the same session, with another token of the same subject"
            verb, target, headers, body = asked(row, "who")
            granted = {**said, **shows("more")}
            answer = await ask(verb, target, [*headers.items(), *granted.items()], body)
            assert answer.status == 200, "no resource can need what only makes a token last"

    run(main())


@req("AUTH-16", "AUTH-1", "BATCH-7", everywhere=True)
def test_an_array_needs_what_its_members_need() -> None:
    async def main() -> None:
        row = ROWS[0]
        handler, used = Guarded(), Tokens()
        async with over_asgi(mcprev.Server(handler, "s", "1"), auth=used.bearer(needs=needs)) as ask:
            said = await session(ask, row, "alice")
            verb, target, headers, call = asked(row, "access")
            for member in (call, {"jsonrpc": "2.0", "method": "ping"}):
                body = [{"jsonrpc": "2.0", "id": 5, "method": "tools/list"}, member, 7]
                answer = await ask(verb, target, [*headers.items(), *said.items()], body)
                assert (answer.status, "id" in answer.json) == (403, False)
            answer = await ask(verb, target, [*headers.items(), *said.items()], body[:1])
            assert answer.status == 200

    run(main())


def includes(held: frozenset[str], needed: frozenset[str]) -> bool:
    """Whoever may write may read, and an admin may do anything."""
    return "admin" in held or needed <= held | ({"read"} if "write" in held else set())


@req("AUTH-21", "AUTH-16")
@ways
@rows
@pytest.mark.parametrize(
    ("scopes", "status"),
    [("admin", 200), ("write", 200), ("write read", 200), ("read", 403), ("", 403), ("administrator", 403)],
)
def test_some_scopes_include_others(scopes: str, status: int, row: Revision, way: Way) -> None:
    async def main() -> None:
        used = Tokens(token=good("alice", scopes=scopes))
        auth = used.bearer(scopes=["read"], needs=needs, suffices=includes)
        async with way(mcprev.Server(Guarded(), "s", "1"), auth=auth) as ask:
            said = shows("token")
            if includes(frozenset(scopes.split()), frozenset({"read"})):
                said = await session(ask, row, "token")
            verb, target, headers, body = asked(row, "access")
            answer = await ask(verb, target, [*headers.items(), *said.items()], body)
            assert answer.status == status

    run(main())


def gives(found: object) -> Callable[..., Any]:
    """What an author's callback comes to."""

    def callback(*_: object) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    return callback


async def hangs(*_: object) -> Any:
    await asyncio.Event().wait()


@req("AUTH-1", "AUTH-16", "AUTH-21")
@rows
@pytest.mark.parametrize(
    "wrong",
    [
        {"needs": hangs, "timeout": 0.005},
        {"suffices": hangs, "timeout": 0.005},
        {"needs": gives(KeyError("no such param"))},
        {"needs": gives(5)},
        {"needs": gives([5])},
        {"needs": gives(False)},
        {"suffices": gives("yes")},
        {"suffices": gives(None)},
        {"suffices": gives(KeyError("no such scope"))},
    ],
)
def test_what_cannot_be_judged_is_refused(
    wrong: dict[str, Any], row: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        handler, used = Guarded(), Tokens()
        auth = used.bearer(**{"needs": gives(["write"]), **wrong})
        async with over_asgi(mcprev.Server(handler, "s", "1"), auth=auth) as ask:
            verb, target, headers, body = asked(row)
            answer = await ask(verb, target, [*headers.items(), *shows("alice").items()], body)
            assert (answer.status, answer.json["id"]) == (503, 1)
        assert handler.runs == 0
        assert [found.name for found in caplog.records if found.levelno >= logging.ERROR] == ["mcprev.auth"]

    run(main())


@req("AUTH-10", at=(C, D, E))
@pytest.mark.parametrize(
    "said",
    [
        {"subject": ""},
        {"subject": 5},
        {"subject": None},
        {"audience": 5},
        {"audience": [RESOURCE, 5]},
        {"scopes": 5},
        {"scopes": [b"read"]},
        {"client_id": 5},
        {"expires": float("nan")},
        {"expires": float("inf")},
        {"expires": "2000"},
        {"expires": True},
        {"expires": 10**400},
    ],
    ids=repr,
)
def test_what_is_no_access_cannot_be_made_one(said: dict[str, Any]) -> None:
    merged: dict[str, Any] = {"subject": "alice", "audience": RESOURCE, **said}
    with pytest.raises((TypeError, ValueError, OverflowError)):
        mcprev.Access(**merged)


@req("AUTH-10", at=(C, D, E))
def test_an_access_is_what_was_said() -> None:
    claims: dict[str, Any] = {"jti": "hush"}
    access = mcprev.Access("alice", audience=RESOURCE, scopes=" read  write ", claims=claims)
    claims["more"] = 1
    assert (access.audience, access.scopes, access.claims) == (
        (RESOURCE,),
        frozenset({"read", "write"}),
        {"jti": "hush"},
    )
    assert (access.client_id, access.expires) == (None, None)
    assert "hush" not in repr(access)
    assert access == mcprev.Access("alice", audience=[RESOURCE], scopes=["write", "read"])
    assert mcprev.Access("alice").audience == (), "which is refused, unless the verifier has checked it"
    assert access != good("alice")
    with pytest.raises(AttributeError):
        access.subject = "bob"  # type: ignore[misc]
