"""What a client makes of challenges and metadata, and its flows without a socket: tables of what is asked and answered."""

from __future__ import annotations

import base64
import hashlib
import json
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import example, given, strategies as st

import mcprev
from auth.world import query
from helpers.linear import assert_linear
from helpers.requirements import B, C, D, E, req
from mcprev.auth.client import discovery, flow, tokens
from mcprev.auth.client.discovery import (
    MAX_CHALLENGES,
    MAX_SERVERS,
    Challenge,
    ProtectedServer,
    ServerMetadata,
    challenge_of,
    parse_challenges,
)
from mcprev.auth.client.steps import Flow, HttpFetch, HttpReply, OpenBrowser
from mcprev.auth.client.store import Registration
from mcprev.revisions import DEFAULT, Revision

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


@pytest.mark.slow
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
            assert isinstance(step, HttpFetch | OpenBrowser)
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


ROOT = "https://auth.example"


@req("AUTH-7")
@pytest.mark.parametrize(
    ("asked", "said", "same"),
    [
        (ISSUER, ISSUER, True),
        (ROOT, f"{ROOT}/", True),
        (f"{ROOT}/", ROOT, True),
        ("https://auth.example:8443/", "https://auth.example:8443", True),
        (ISSUER, f"{ISSUER}/", False),
        (f"{ISSUER}/", ISSUER, False),
        (ISSUER, ISSUER.upper(), False),
        (ROOT, f"{ROOT}//", False),
        (ROOT, f"{ROOT}:443", False),
        (ROOT, f"{ROOT}/?", False),
        (ROOT, f"{ROOT}/#", False),
        (ROOT, "https://AUTH.example/", False),
        (ROOT, "http://auth.example/", False),
        (ROOT, ISSUER, False),
        (ROOT, None, False),
        (ROOT, 1, False),
    ],
)
def test_issuers_are_compared_byte_by_byte_but_for_the_slash_of_a_host(
    asked: str, said: object, same: bool
) -> None:
    """https://accounts.google.com is what the metadata of https://accounts.google.com/ says of itself."""
    if same:
        found = discovery.read_server({**THEIRS, "issuer": said}, asked)
        assert found is not None
        assert found.issuer == said, "what the server calls itself is what its tokens and responses name"
        return
    with pytest.raises(mcprev.IssuerMismatch):
        discovery.read_server({**THEIRS, "issuer": said}, asked)


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
    "back", ["", "nonsense", "https://here/cb", "?code=c&state=x&state=x", "?code=c&state=X", "?state=x",
     "?code=&state=x", "?code=c&code=&state=x", "?code=c&error=&state=x"],
)  # fmt: skip
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


# -- what documents say ------------------------------------------------------------------------------------


@req("SEC-6", "AUTH-4", everywhere=True)
@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([" " * (MAX_CHALLENGES - 6) + "Bearer"], True),
        ([" " * MAX_CHALLENGES + "Bearer"], False),
        ([" " * MAX_CHALLENGES, "Bearer"], False),
        ([" " * (MAX_CHALLENGES - 6), "Bearer"], True),
        ([" " * (MAX_CHALLENGES - 5), "Bearer"], False),
    ],
)
def test_of_challenges_so_many_characters_are_read(values: list[str], found: bool) -> None:
    assert (Challenge() in parse_challenges(values)) is found


@req("AUTH-9", "AUTH-5", "SEC-6", at=(C, D, E))
@pytest.mark.parametrize(
    ("said", "resource", "servers"),
    [
        ({}, URL, (ISSUER,)),
        ({"resource": "HTTPS://MCP.example:443/a/mcp/"}, "HTTPS://MCP.example:443/a/mcp/", (ISSUER,)),
        ({"resource": ""}, URL, (ISSUER,)),
        ({"authorization_servers": ["", 5, ISSUER]}, URL, (ISSUER,)),
        ({"authorization_servers": ISSUER}, URL, None),
        ({"authorization_servers": [""]}, URL, None),
        ({"authorization_servers": [f"https://{n}.example" for n in range(9)]}, URL,
         tuple(f"https://{n}.example" for n in range(MAX_SERVERS))),
    ],
)  # fmt: skip
def test_what_the_metadata_of_a_server_says(
    said: dict[str, Any], resource: str, servers: tuple[str, ...] | None
) -> None:
    found = discovery.read_resource({"authorization_servers": [ISSUER], **said}, URL + "/")
    assert (None if servers is None else (resource, servers)) == (
        None if found is None else (found.resource, found.servers)
    )


@req("AUTH-9", at=(C, D, E))
@pytest.mark.parametrize(
    ("named", "advice"),
    [
        ("https://mcp.example/a", "pass it as `resource`"),
        ("https://evil.example", "do not trust this server"),
    ],
)
def test_metadata_of_another_resource_is_not_used(named: str, advice: str) -> None:
    with pytest.raises(mcprev.DiscoveryFailed, match=advice):
        discovery.read_resource({**MINE, "resource": named}, URL)


@req("AUTH-12", "AUTH-15", at=E)
@pytest.mark.parametrize("said", [True, False, None, "true", 1, []])
def test_a_feature_is_there_only_where_the_metadata_says_true(said: object) -> None:
    names = ("client_id_metadata_document_supported", "authorization_response_iss_parameter_supported")
    for name in names:
        found = discovery.read_server({**THEIRS, name: said}, ISSUER)
        assert found is not None
        assert found.takes_documents is (said is True and name == names[0])
        assert found.names_itself is (said is True and name == names[1])


@req("AUTH-3", "AUTH-8", at=B)
def test_a_server_without_metadata_is_taken_to_require_proof_keys() -> None:
    discovery.check_proofs(discovery.default_server("https://mcp.example", ISSUER))


@req("AUTH-17", "AUTH-18", "AUTH-22", everywhere=True)
def test_origins_are_compared_in_lower_case() -> None:
    assert discovery.origin("HTTPS://A.Example:8443/Path?q") == "https://a.example:8443"


# -- choices -----------------------------------------------------------------------------------------------


@req("AUTH-17")
@pytest.mark.parametrize(
    ("required", "listed", "wanted", "before", "more", "found"),
    [
        # the challenge's, the metadata's, the user's and those before, whether they do not suffice, what is asked for
        (None, None, None, None, False, None),
        (None, ("l",), None, None, False, ("l",)),
        (None, (), None, None, False, None),
        (("c",), ("l",), None, None, False, ("c",)),
        (("c",), ("l",), ("w",), None, False, ("w", "c")),
        (None, ("l",), ("w",), None, False, ("w",)),
        (None, ("l",), (), None, False, None),
        (("c",), None, None, ("b",), False, ("c", "b")),
        (None, None, None, ("b",), False, ("b",)),
        (None, ("l",), None, ("b",), False, ("l", "b")),
        (("c",), ("l",), ("w",), ("b", "c"), True, ("b", "c")),
        (("c",), None, None, None, True, ("c",)),
    ],
)
def test_which_scopes_are_asked_for(
    row: Revision,
    required: tuple[str, ...] | None,
    listed: tuple[str, ...] | None,
    wanted: tuple[str, ...] | None,
    before: tuple[str, ...] | None,
    more: bool,
    found: tuple[str, ...] | None,
) -> None:
    at = replace(place(row), scopes=listed)
    said = Challenge(parameters={} if required is None else {"scope": " ".join(required)})
    assert discovery.wanted_scopes(at, said, wanted, before, more=more) == found


@req("AUTH-18", everywhere=True)
@pytest.mark.parametrize("row", [row for row in DEFAULT if row.auth is not None], ids=lambda row: row.name)
def test_offline_access_is_asked_for_where_it_is_listed(row: Revision) -> None:
    there, elsewhere = place(row, scopes=("offline_access", "a")), place(row, scopes=("a",))
    assert discovery.with_offline(there, ["a"]) == ("a", "offline_access")
    assert discovery.with_offline(there, ["offline_access", "a"]) == ("offline_access", "a")
    assert discovery.with_offline(there, None) is None, "the default scopes of the server"
    assert discovery.with_offline(there, []) is None
    assert discovery.with_offline(elsewhere, ["a"]) == ("a",)
    assert discovery.with_offline(place(row), ["a"]) == ("a",)


@req("AUTH-13", at=E)
@pytest.mark.parametrize(
    ("redirect_uri", "kind"),
    [
        ("https://me.example/cb", "web"),
        ("https://localhost/cb", "native"),
        ("https://127.0.0.1:5/cb", "native"),
        ("http://me.example/cb", "native"),
        ("me.example:/cb", "native"),
    ],
)
def test_a_client_of_this_machine_is_a_native_application(redirect_uri: str, kind: str) -> None:
    assert discovery.application_type(redirect_uri) == kind


BASIC, POST, NONE = "client_secret_basic", "client_secret_post", "none"


@req("AUTH-12", everywhere=True)
@pytest.mark.parametrize(
    ("methods", "secret", "registered"),
    [
        (None, BASIC, BASIC),
        ((NONE, POST, BASIC), BASIC, NONE),
        ((BASIC, POST), BASIC, POST),
        ((NONE, POST), POST, NONE),
        ((NONE,), NONE, NONE),
        ((BASIC,), BASIC, BASIC),
        (("private_key_jwt",), None, BASIC),
        ((), None, BASIC),
    ],
)
def test_how_a_client_shows_its_secret(
    methods: tuple[str, ...] | None, secret: str | None, registered: str
) -> None:
    assert discovery.registered_method(methods) == registered
    if secret is None:
        with pytest.raises(mcprev.AuthError, match="accepts no client secret"):
            discovery.secret_method(methods)
    else:
        assert discovery.secret_method(methods) == secret


# -- flows -------------------------------------------------------------------------------------------------

ORIGIN = "https://mcp.example"
AT_ORIGIN = f"{ORIGIN}/.well-known/oauth-authorization-server"


@req("AUTH-3", at=(B, E))
@pytest.mark.parametrize(
    ("statuses", "goes_on"),
    [
        ((404, 404), True), ((400, 499), True), ((200, 404), True), ((500, 404), False), ((404, 500), False),
        ((0, 404), False), ((301, 404), False), ((404, 399), False),
    ],
)  # fmt: skip
def test_the_older_way_is_tried_where_metadata_is_known_to_be_absent(
    statuses: tuple[int, int], goes_on: bool
) -> None:
    new, old = (next(row for row in DEFAULT if row.name == name) for name in (E, B))
    there = dict(zip((f"{PRM}/a/mcp", PRM), statuses, strict=True))
    for at_origin in (404, 500, {"issuer": ORIGIN, "token_endpoint": f"{ORIGIN}/t"}):
        work = flow.discover(URL, [new, old], Challenge())
        answers = {**there, AT_ORIGIN: at_origin}
        if goes_on and at_origin != 500:
            _, found = follow(work, answers)
            assert (found.revision, found.resource) == (old, URL)
            assert found.server.token_endpoint == (f"{ORIGIN}/token" if at_origin == 404 else f"{ORIGIN}/t")
        else:
            with pytest.raises(mcprev.DiscoveryFailed):
                follow(work, answers)


@req("AUTH-3", "AUTH-7", "AUTH-14", at=B)
@pytest.mark.parametrize(
    ("wanted", "said", "issuer"),
    [
        (None, None, ORIGIN),
        (None, ORIGIN, ORIGIN),
        (None, f"{ORIGIN}/", f"{ORIGIN}/"),
        (None, "https://evil.example", None),
        (ORIGIN, ORIGIN, ORIGIN),
        (ORIGIN, f"{ORIGIN}/", f"{ORIGIN}/"),
        (f"{ORIGIN}/", f"{ORIGIN}/", f"{ORIGIN}/"),
        (f"{ORIGIN}/", ORIGIN, ORIGIN),
        (f"{ORIGIN}/", None, f"{ORIGIN}/"),
        ("https://other.example", None, None),
    ],
)
def test_who_the_authorization_server_at_the_origin_is(
    wanted: str | None, said: str | None, issuer: str | None
) -> None:
    """Credentials for one issuer go to no other; nobody knows in advance whether a slash is at its end."""
    row = next(row for row in DEFAULT if row.name == B)
    there = {} if said is None else {AT_ORIGIN: {"issuer": said, "token_endpoint": f"{ORIGIN}/t"}}
    work = flow.discover(URL, [row], Challenge(), issuer=wanted)
    if issuer is None:
        with pytest.raises(mcprev.IssuerMismatch):
            follow(work, there)
    else:
        assert follow(work, there)[1].server.issuer == issuer


@req("AUTH-7", "AUTH-14", "SEC-1", at=E)
@pytest.mark.parametrize(
    ("servers", "wanted", "asked"),
    [
        (["https://evil.example", ISSUER], ISSUER, [f"{AS}/oauth-authorization-server/one"]),
        (["https://evil.example", ISSUER + "/"], ISSUER, None),
        (["nonsense", ISSUER + "?x", ISSUER], None, [f"{AS}/oauth-authorization-server/one"]),
    ],
)
def test_which_of_the_servers_in_the_metadata_are_asked(
    servers: list[str], wanted: str | None, asked: list[str] | None
) -> None:
    there = {
        f"{PRM}/a/mcp": {**MINE, "authorization_servers": servers, "scopes_supported": ["s"]},
        f"{AS}/oauth-authorization-server/one": THEIRS,
    }
    seen: list[str] = []
    work = flow.discover(URL, [DEFAULT[-1]], Challenge(), issuer=wanted)
    if asked is None:
        with pytest.raises(mcprev.IssuerMismatch, match="pass credentials for one of these"):
            follow(work, there, seen)
        assert seen == [f"{PRM}/a/mcp", PRM], "no authorization server is asked"
    else:
        assert follow(work, there, seen)[1].scopes == ("s",)
        assert seen[1:] == asked


@req("AUTH-6", "AUTH-7", at=E)
def test_a_document_of_an_error_is_no_metadata() -> None:
    work = flow.discover(URL, [DEFAULT[-1]], Challenge())
    step = next(work)
    assert isinstance(step, HttpFetch)
    assert step.headers == (("Accept", "application/json"), ("MCP-Protocol-Version", DEFAULT[-1].version))
    step = work.send(HttpReply(403, json.dumps(MINE).encode()))
    assert isinstance(step, HttpFetch)
    assert step.url == PRM


@req("AUTH-12", "AUTH-13")
@pytest.mark.parametrize(
    ("status", "found", "kept"),
    [
        (201, {"client_id": "c"}, ("c", None, NONE, None)),
        (200, {"client_id": "c", "client_secret": "s"}, ("c", "s", POST, None)),
        (201, {"client_id": "c", "client_secret": "s", "token_endpoint_auth_method": BASIC}, ("c", "s", BASIC, None)),
        (201, {"client_id": "c", "client_secret": "s", "token_endpoint_auth_method": "x"}, ("c", "s", POST, None)),
        (201, {"client_id": "c", "token_endpoint_auth_method": BASIC}, ("c", None, NONE, None)),
        (201, {"client_id": "c", "client_secret_expires_at": 0}, ("c", None, NONE, None)),
        (201, {"client_id": "c", "client_secret_expires_at": 9}, ("c", None, NONE, 9.0)),
        (202, {"client_id": "c"}, None),
        (400, {"client_id": "c"}, None),
        (201, {}, None),
    ],
)  # fmt: skip
def test_what_a_registration_says_and_what_is_kept_of_it(
    row: Revision, status: int, found: dict[str, Any], kept: tuple[object, ...] | None
) -> None:
    at = replace(place(row, methods=(POST, BASIC)), scopes=("s",))
    work = flow.register(at, "me", "http://127.0.0.1:5/cb", ["a"])
    step = next(work)
    assert isinstance(step, HttpFetch)
    assert step.body is not None
    asked = json.loads(step.body)
    assert asked.pop("application_type", None) == ("native" if at.profile.application_type else None)
    assert asked == {
        "client_name": "me",
        "redirect_uris": ["http://127.0.0.1:5/cb"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": POST,
        "scope": "a s",
    }
    if kept is None:
        with pytest.raises(mcprev.RegistrationRejected):
            work.send(HttpReply(status, json.dumps(found).encode()))
        return
    with pytest.raises(StopIteration) as done:
        work.send(HttpReply(status, json.dumps(found).encode()))
    client = done.value.value
    assert (client.client_id, client.client_secret, client.method, client.expires_at) == kept
    assert client.redirect_uris == ("http://127.0.0.1:5/cb",)


@req("AUTH-12")
def test_where_nobody_registers_the_user_is_told_what_to_pass(row: Revision) -> None:
    with pytest.raises(mcprev.RegistrationRejected, match="does not support dynamic registration"):
        next(flow.register(place(row, registration_endpoint=None), "me", "http://127.0.0.1/cb", None))


@req("AUTH-8", "AUTH-9", "AUTH-11", "AUTH-18")
@pytest.mark.parametrize("scopes", [None, ["a", "b c"], ["a", "offline_access"]], ids=str)
def test_what_a_login_asks_for_and_how_its_code_is_redeemed(row: Revision, scopes: list[str] | None) -> None:
    secrets = iter(["the state", "the verifier"])
    work = flow.authorize(
        place(row), Registration("me"), scopes, "https://here/cb", secret=lambda: next(secrets)
    )
    page = next(work)
    assert isinstance(page, OpenBrowser)
    assert " " not in page.url
    assert "+" not in page.url
    digest = hashlib.sha256(b"the verifier").digest()
    expected = {
        "kept": "1",
        "response_type": "code",
        "client_id": "me",
        "redirect_uri": "https://here/cb",
        "state": "the state",
        "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
        "code_challenge_method": "S256",
        "resource": URL,
    }
    if scopes is not None:
        expected["scope"] = " ".join(scopes)
        if "offline_access" in scopes:
            expected["prompt"] = "consent"
    assert query(page.url) == expected
    step = work.send("https://here/cb?code=c&state=the%20state")
    assert isinstance(step, HttpFetch)
    assert step.body is not None
    assert query("?" + step.body.decode()) == {
        "grant_type": "authorization_code",
        "code": "c",
        "redirect_uri": "https://here/cb",
        "code_verifier": "the verifier",
        "client_id": "me",
        "resource": URL,
    }


@req("AUTH-8", "AUTH-11", at=E)
def test_each_login_has_secrets_of_its_own() -> None:
    steps = [
        next(flow.authorize(place(DEFAULT[-1]), Registration("me"), None, "https://here/cb"))
        for _ in range(2)
    ]
    pages = [query(step.url) for step in steps if isinstance(step, OpenBrowser)]
    states = {page["state"] for page in pages}
    assert len(states | {page["code_challenge"] for page in pages}) == 4
    assert {len(state) for state in states} == {43}, "256 bits"


@req("SEC-2", "AUTH-11", at=E)
@pytest.mark.parametrize("endpoint", [None, "javascript:alert(1)", "http://auth.example/a", "file:///x"])
def test_no_other_page_than_one_of_the_web_is_opened(endpoint: str | None) -> None:
    at = place(DEFAULT[-1], authorization_endpoint=endpoint)
    with pytest.raises(mcprev.DiscoveryFailed):
        next(flow.authorize(at, Registration("me"), None, "https://here/cb"))


@req("AUTH-18", "AUTH-22", everywhere=True)
@pytest.mark.parametrize(
    ("status", "found", "error"),
    [
        (400, {"error": "invalid_grant"}, "invalid_grant"),
        (200, {"error": "invalid_grant", "access_token": "t"}, "invalid_grant"),
        (408, {"error": "invalid_grant"}, ""),
        (425, {"error": "invalid_grant"}, ""),
        (429, {"error": "invalid_grant"}, ""),
        (500, {"error": "invalid_grant"}, ""),
        (200, {"access_token": "t\n"}, ""),
        (200, {"access_token": "a b"}, ""),
        (200, {"access_token": "\xe9"}, ""),
        (200, {"access_token": "t", "token_type": "mac"}, ""),
        (200, {"access_token": "t", "token_type": "DPoP"}, ""),
        (200, {"access_token": "t", "token_type": 5}, ""),
        (200, {"access_token": "t", "token_type": "BEARER"}, None),
        (200, {"access_token": "t"}, None),
    ],
)
def test_what_is_a_token_and_what_says_that_a_grant_is_used_up(
    status: int, found: dict[str, Any], error: str | None
) -> None:
    """Without an error code of the server's, a refresh token may still be good."""
    form = {"grant_type": "refresh_token", "refresh_token": "r"}
    work = tokens.request_token(place(DEFAULT[-1]), Registration("me"), form)
    next(work)
    reply = HttpReply(status, json.dumps(found).encode())
    if error is None:
        with pytest.raises(StopIteration):
            work.send(reply)
    else:
        with pytest.raises(mcprev.TokenRejected) as caught:
            work.send(reply)
        assert caught.value.error == error


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


@pytest.mark.slow
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
