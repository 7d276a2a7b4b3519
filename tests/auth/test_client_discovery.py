"""What a client makes of challenges and metadata, and its flows without a socket: tables of what is asked and answered."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, TypeVar

import pytest
from hypothesis import example, given, strategies as st

import mcprev
from auth.world import query
from linear import assert_linear
from mcprev.oauth import discovery, flow, tokens
from mcprev.oauth.discovery import (
    Challenge,
    ProtectedServer,
    ServerMetadata,
    challenge_of,
    parse_challenges,
)
from mcprev.oauth.steps import Flow, HttpFetch, HttpReply, OpenBrowser
from mcprev.oauth.store import Registration
from mcprev.revisions import DEFAULT, Revision
from requirements import B, C, D, E, req

T = TypeVar("T")
URL = "https://mcp.example/a/mcp"
ISSUER = "https://auth.example/one"
CHALLENGES: dict[str, list[tuple[str, dict[str, str]]]] = {
    "Bearer": [("bearer", {})],
    'Bearer realm="a", scope="b c"': [("bearer", {"realm": "a", "scope": "b c"})],
    'BEARER Scope = b , resource_metadata="https://a/b?c=d,e"': [
        ("bearer", {"scope": "b", "resource_metadata": "https://a/b?c=d,e"})
    ],
    'Basic realm="x \\" y", Bearer error="invalid_token"': [
        ("basic", {"realm": 'x " y'}),
        ("bearer", {"error": "invalid_token"}),
    ],
    'Negotiate, Bearer scope="a"': [("negotiate", {}), ("bearer", {"scope": "a"})],
    'Bearer scope="a", scope="b"': [("bearer", {"scope": "a"})],
    'realm="a", Bearer': [("realm", {}), ("bearer", {})],
    'Bearer scope="never closed': [("bearer", {})],
    "": [],
    ", ,": [],
}


@pytest.mark.parametrize("header", CHALLENGES)
@req("AUTH-4", "AUTH-17", everywhere=True)
def test_challenges_are_read(header: str) -> None:
    found = [(challenge.scheme, dict(challenge.parameters)) for challenge in parse_challenges([header])]
    if header.startswith(("realm", 'Bearer scope="never')):
        assert "bearer" in [scheme for scheme, _ in found]
    else:
        assert found == CHALLENGES[header]


@given(st.text(alphabet='Bearer= ",\\abc\t\n\x00é', max_size=200))
@req("AUTH-4", everywhere=True)
def test_no_challenge_is_too_strange(header: str) -> None:
    for challenge in parse_challenges([header, header]):
        assert challenge.scheme
        assert challenge.reason.isprintable()


PIECES = (
    "a",
    "a=",
    'a="',
    'a="b",',
    'a="\\',
    "a=b,",
    "a =",
    "=",
    '"',
    '"a',
    ",",
    " ",
    "\t",
    "\\",
    "a.",
    "a b,",
    "\x00",
    "é",
)


@given(
    start=st.lists(st.sampled_from(PIECES), max_size=3).map("".join),
    again=st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map("".join),
    end=st.sampled_from(["", "\x00", '"', "=", ", Bearer"]),
    values=st.sampled_from([1, 7]),
)
@example(start="", again="a.", end="\x00", values=1)
@example(start="Bearer ", again=" ", end="x", values=1)
@example(start="Bearer a=", again="=", end='"', values=1)
@req("AUTH-4", "SEC-6", everywhere=True)
def test_challenges_are_read_in_steps_that_grow_with_the_characters(
    start: str, again: str, end: str, values: int
) -> None:
    def make(size: int) -> list[str]:
        return [start + again * (size // values) + end] * values

    assert_linear(parse_challenges, make, discovery, sizes=(48, 96))


@req("AUTH-4", everywhere=True)
def test_the_first_challenge_for_tokens_counts() -> None:
    assert challenge_of(["Basic", "Bearer scope=a"]) == Challenge("bearer", {"scope": "a"})
    assert challenge_of(["Basic"]) is None


@pytest.mark.parametrize(
    ("url", "named", "found"),
    [
        ("https://a/mcp", None, ["https://a{}/mcp", "https://a{}"]),
        ("https://a/b/c/?d=e", None, ["https://a{}/b/c", "https://a{}"]),
        ("https://a:8/", None, ["https://a:8{}"]),
        ("https://a", "https://b/c", ["https://b/c", "https://a{}"]),
    ],
)
@req("AUTH-5", everywhere=True)
def test_where_a_server_may_say_who_lets_clients_in(url: str, named: str | None, found: list[str]) -> None:
    assert discovery.resource_urls(url, named) == [
        url.format("/.well-known/oauth-protected-resource") for url in found
    ]


@pytest.mark.parametrize(
    ("issuer", "found"),
    [
        ("https://a", ["https://a{oauth}", "https://a{openid}"]),
        ("https://a/", ["https://a{oauth}", "https://a{openid}"]),
        ("https://a/b/c", ["https://a{oauth}/b/c", "https://a{openid}/b/c", "https://a/b/c{openid}"]),
    ],
)
@req("AUTH-6")
def test_where_an_authorization_server_may_describe_itself(
    row: Revision, issuer: str, found: list[str]
) -> None:
    assert row.auth is not None
    names = {
        "oauth": "/.well-known/oauth-authorization-server",
        "openid": "/.well-known/openid-configuration",
    }
    wanted = [url.format(**names) for url in found]
    assert discovery.server_urls(issuer, row.auth) == (wanted if row.auth.openid else wanted[:1])


@pytest.mark.parametrize(
    ("resource", "url", "same", "above"),
    [
        ("https://a/mcp", "https://a/mcp", True, False),
        ("https://A:443/mcp/", "https://a/mcp", True, False),
        ("https://a/mcp", "https://a/mcp?x=y", True, False),
        ("https://a/mcp?x=y", "https://a/mcp?x=y", True, False),
        ("https://a", "https://a/", True, False),
        ("https://a", "https://a/mcp", False, True),
        ("https://a/", "https://a/mcp", False, True),
        ("https://a/b", "https://a/b/mcp", False, True),
        ("https://a/b", "https://a/b/mcp?x=y", False, True),
        ("https://a/b?x=y", "https://a/b/mcp?x=y", False, False),
        ("https://a/mcp?x=z", "https://a/mcp?x=y", False, False),
        ("https://a/mc", "https://a/mcp", False, False),
        ("https://a/mcp/more", "https://a/mcp", False, False),
        ("https://a/one", "https://a/two", False, False),
        ("https://b/mcp", "https://a/mcp", False, False),
        ("https://a.b", "https://a", False, False),
        ("http://a/mcp", "https://a/mcp", False, False),
        ("https://a:8/mcp", "https://a/mcp", False, False),
        ("https://a/mcp#x", "https://a/mcp", False, False),
        ("nonsense", "https://a/mcp", False, False),
    ],
)
@req("AUTH-9", at=(C, D, E))
def test_which_resources_a_server_is_and_which_are_above_it(
    resource: str, url: str, same: bool, above: bool
) -> None:
    assert discovery.is_above(resource, url) is above
    assert discovery.is_resource(resource, url) is same
    assert discovery.is_resource(resource, url, resource) is (same or above)
    assert discovery.is_resource(resource, url, "https://a/other") is same


def place(row: Revision, **members: Any) -> ProtectedServer:
    """Where authorization is to be had."""
    usual: dict[str, Any] = {
        "issuer": ISSUER,
        "token_endpoint": f"{ISSUER}/token",
        "authorization_endpoint": f"{ISSUER}/authorize?kept=1",
        "registration_endpoint": f"{ISSUER}/register",
        "proofs": ("S256",),
    }
    return ProtectedServer(row, URL, ServerMetadata(**{**usual, **members}))


def follow(work: Flow[T], answers: dict[str, Any], seen: list[str] | None = None) -> tuple[list[str], T]:
    """Carry a flow out with answers from a table, by URL; what was asked for and what came of it."""
    asked: list[str] = [] if seen is None else seen
    answer: HttpReply | str | None = None
    try:
        while True:
            step = next(work) if answer is None else work.send(answer)
            asked.append(step.url)
            if isinstance(step, OpenBrowser):
                answer = str(answers["page"])
            else:
                found = answers.get(step.url, 404)
                answer = (
                    HttpReply(found) if isinstance(found, int) else HttpReply(200, json.dumps(found).encode())
                )
    except StopIteration as done:
        return asked, done.value


PRM = "https://mcp.example/.well-known/oauth-protected-resource"
AS = "https://auth.example/.well-known"
MINE = {"resource": URL, "authorization_servers": [ISSUER]}
THEIRS = {"issuer": ISSUER, "token_endpoint": f"{ISSUER}/token"}
SEARCHES: list[tuple[str, str, dict[str, Any], list[str], str | None]] = [
    # where it is, the revision, what there is, what is asked for, the issuer that is found
    ("the first place", C, {f"{PRM}/a/mcp": MINE, f"{AS}/oauth-authorization-server/one": THEIRS},
     [f"{PRM}/a/mcp", f"{AS}/oauth-authorization-server/one"], ISSUER),
    ("the root", D, {PRM: MINE, f"{AS}/oauth-authorization-server/one": THEIRS},
     [f"{PRM}/a/mcp", PRM, f"{AS}/oauth-authorization-server/one"], ISSUER),
    ("of OpenID", E, {PRM: MINE, f"{ISSUER}/.well-known/openid-configuration": THEIRS},
     [f"{PRM}/a/mcp", PRM, f"{AS}/oauth-authorization-server/one", f"{AS}/openid-configuration/one",
      f"{ISSUER}/.well-known/openid-configuration"], ISSUER),
    ("of OpenID, before that counts", C, {PRM: MINE, f"{ISSUER}/.well-known/openid-configuration": THEIRS},
     [f"{PRM}/a/mcp", PRM, f"{AS}/oauth-authorization-server/one"], None),
    ("nowhere", E, {}, [f"{PRM}/a/mcp", PRM], None),
    ("nobody is named", E, {PRM: {"resource": URL}}, [f"{PRM}/a/mcp", PRM], None),
    ("the second server", E,
     {PRM: {**MINE, "authorization_servers": ["https://gone.example", ISSUER]}, f"{AS}/oauth-authorization-server/one": THEIRS},
     [f"{PRM}/a/mcp", PRM, "https://gone.example/.well-known/oauth-authorization-server",
      "https://gone.example/.well-known/openid-configuration", f"{AS}/oauth-authorization-server/one"], ISSUER),
    ("no endpoint", E, {PRM: MINE, f"{AS}/oauth-authorization-server/one": {"issuer": ISSUER}},
     [f"{PRM}/a/mcp", PRM, f"{AS}/oauth-authorization-server/one", f"{AS}/openid-configuration/one",
      f"{ISSUER}/.well-known/openid-configuration"], None),
    ("at the origin", B, {}, ["https://mcp.example/.well-known/oauth-authorization-server"], "https://mcp.example"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "name", "there", "asked", "issuer"), SEARCHES)
@req("AUTH-3", "AUTH-5", "AUTH-6", at=(B, C, D, E))
def test_what_is_asked_for_in_which_order(
    what: str, name: str, there: dict[str, Any], asked: list[str], issuer: str | None
) -> None:
    row = next(row for row in DEFAULT if row.name == name)
    seen: list[str] = []
    work = flow.discover(URL, [row], Challenge())
    if issuer is None:
        with pytest.raises(mcprev.DiscoveryFailed):
            follow(work, there, seen)
    else:
        _, found = follow(work, there, seen)
        assert (found.server.issuer, found.resource) == (issuer, URL)
    assert seen == asked


@req("AUTH-7")
def test_the_issuer_is_compared_byte_by_byte() -> None:
    for said in (ISSUER + "/", ISSUER.upper(), "https://auth.example:443/one", None, 1):
        with pytest.raises(mcprev.IssuerMismatch):
            discovery.read_server({**THEIRS, "issuer": said}, ISSUER)
    assert discovery.read_server(THEIRS, ISSUER) is not None


@req("AUTH-8")
def test_proof_keys_are_insisted_on(row: Revision) -> None:
    good = {"page": "https://here/cb?code=c&state=x&iss=" + ISSUER, f"{ISSUER}/token": {"access_token": "t"}}
    for proofs in (("S256", "plain"), ("plain",), (), None):
        client = Registration("me")
        work = flow.authorize(place(row, proofs=proofs), client, None, "https://here/cb", secret=lambda: "x")
        if "S256" in (proofs or ()):
            asked, granted = follow(work, good)
            assert granted.access_token == "t"
            page = query(asked[0])
            assert page["code_challenge_method"] == "S256"
            assert page["kept"] == "1"
        else:
            with pytest.raises(mcprev.DiscoveryFailed, match="PKCE"):
                follow(work, good)


@pytest.mark.parametrize(
    ("said", "named", "good"),
    [
        (ISSUER, True, True),
        (None, True, False),
        ("https://auth.example/two", True, False),
        (ISSUER, False, True),
        (None, False, True),
        ("https://auth.example/two", False, False),
        (ISSUER + "/", False, False),
    ],
)
@req("AUTH-15")
def test_the_table_of_issuers_in_answers(row: Revision, said: str | None, named: bool, good: bool) -> None:
    at = place(row, names_itself=named)
    iss = "" if said is None else f"&iss={said}"
    for what, expected in (("code=c", None), ("error=access_denied", mcprev.AuthorizationDenied)):
        back = f"https://here/cb?{what}&state=x{iss}"
        if not good:
            with pytest.raises(mcprev.IssuerMismatch):
                flow.read_redirect(back, "x", at)
        elif expected is None:
            assert flow.read_redirect(back, "x", at) == "c"
        else:
            with pytest.raises(expected, match="access_denied"):
                flow.read_redirect(back, "x", at)


@pytest.mark.parametrize(
    "back", ["", "nonsense", "https://here/cb", "?code=c&state=x&state=x", "?code=c&state=X", "?state=x"]
)
@req("AUTH-11")
def test_an_answer_to_nothing_that_was_asked_is_not_used(row: Revision, back: str) -> None:
    with pytest.raises(mcprev.AuthError):
        flow.read_redirect(back, "x", place(row))


@req("AUTH-9", "AUTH-18")
def test_each_request_for_a_token_says_what_it_is_for(row: Revision) -> None:
    assert row.auth is not None
    client = Registration("me", "secret", "client_secret_post")
    works: list[Flow[Any]] = [
        tokens.request_token(place(row), client, {"grant_type": "refresh_token", "refresh_token": "r"}),
        tokens.request_token(place(row), client, {"grant_type": "client_credentials"}, ["a", "b"]),
        tokens.request_token(place(row), client, {"grant_type": tokens.JWT_BEARER, "assertion": "jwt"}),
    ]
    for work in works:
        step = next(work)
        assert isinstance(step, HttpFetch)
        assert step.body is not None
        assert "resource" in query("?" + step.body.decode())
        assert "secret" not in repr(step)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.just(URL)
    | st.just(ISSUER),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    [
        "resource", "authorization_servers", "issuer", "token_endpoint", "authorization_endpoint", "error",
        "registration_endpoint", "scopes_supported", "token_endpoint_auth_methods_supported", "client_id",
        "client_secret", "token_endpoint_auth_method", "client_secret_expires_at", "access_token", "token_type",
        "expires_in", "refresh_token", "issued_token_type", "code_challenge_methods_supported", "error_description",
    ]
)  # fmt: skip
DOCUMENTS = st.dictionaries(NAMES, JSON, max_size=12).map(lambda found: json.dumps(found).encode())


@given(st.data())
@req("AUTH-6", "AUTH-12", "AUTH-18", at=(B, C, D, E))
def test_whatever_is_answered_a_flow_ends_in_order(data: st.DataObject) -> None:
    replies = st.builds(
        HttpReply, st.sampled_from([0, 200, 200, 200, 201, 400, 500]), DOCUMENTS | st.binary(max_size=20)
    )
    for row in DEFAULT:
        if row.auth is None:
            continue
        at, client = place(row), Registration("me", "secret", "client_secret_basic")
        works: list[Flow[Any]] = [
            flow.discover(URL, [row], Challenge()),
            flow.register(at, "me", "http://127.0.0.1/cb", ["a"]),
            tokens.request_token(at, client, {"grant_type": "refresh_token", "refresh_token": "r"}),
            tokens.exchange(at, f"{ISSUER}/idp", client, "id", None),
            flow.authorize(at, client, None, "http://127.0.0.1/cb"),
        ]
        for work in works:
            with suppress(StopIteration, mcprev.AuthError):
                step = next(work)
                while True:
                    page = isinstance(step, OpenBrowser)
                    step = work.send(data.draw(st.text(max_size=30)) if page else data.draw(replies))


@pytest.mark.parametrize(
    ("expires_in", "seconds"),
    [
        (60, 60.0),
        ("60", 60.0),
        (1.5, 1.5),
        (None, None),
        (-1, None),
        (True, None),
        ("x", None),
        (10**400, 1e12),
        ("", None),
    ],
)
@req("AUTH-18", at=E)
def test_how_long_a_token_is_good(expires_in: object, seconds: float | None) -> None:
    assert tokens.seconds(expires_in) == seconds
