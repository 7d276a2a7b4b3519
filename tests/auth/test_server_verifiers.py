"""Verifiers of tokens: keys of the author's, discovered keys, static tokens, several, and the reasons of refusals (AUTH-1, AUTH-10)."""

from __future__ import annotations

import hmac
import json
import logging
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

import mcprev
from auth.guarded import AsgiAsk, Guarded, asked, challenge, over_asgi, shows
from helpers.named import ROW_D, ROW_E
from helpers.requirements import req
from helpers.running import run
from mcprev.auth import verifiers
from mcprev.auth.verifiers import ALGORITHMS
from mcprev.wire.headers import Headers

jwk = pytest.importorskip("joserfc.jwk")
jwt = pytest.importorskip("joserfc.jwt")
jws = pytest.importorskip("joserfc.jws")

ISSUER: Final = "https://as.example/tenant"
OTHER: Final = "https://other.example"
HERE: Final = "https://mcp.example/mcp"
RSA: Final = jwk.RSAKey.generate_key(2048)
EC: Final = jwk.ECKey.generate_key("P-256", {"kid": "one"})
ED: Final = jwk.OKPKey.generate_key("Ed25519")
NOW: Final = 1_000_000
KEYS: Final = {"RSA": (RSA, "PS256"), "EC": (EC, "ES256"), "Ed25519": (ED, "Ed25519")}


def pem(key: Any, *, private: bool = False) -> str:
    return str(key.as_pem(private=private).decode())


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def public(*keys: Any) -> dict[str, Any]:
    return {"keys": [key.as_dict(private=False) for key in keys]}


def token(key: Any = EC, alg: str = "ES256", header: Mapping[str, Any] | None = None, **claims: Any) -> str:
    said = {"iss": ISSUER, "sub": "ann", "aud": HERE, "exp": NOW + 600, **claims}
    head = {"alg": alg, **({"kid": "some"} if header is None else header)}
    return str(
        jwt.encode(head, {name: value for name, value in said.items() if value is not None}, key, [alg])
    )


def jwt_verifier(keys: Any = None, **options: Any) -> mcprev.JwtVerifier:
    given = public(EC) if keys is None else keys
    return mcprev.JwtVerifier(given, issuer=options.pop("issuer", ISSUER), clock=lambda: NOW, **options)


def refusal(verify: Any, text: str) -> str:
    with pytest.raises(mcprev.InvalidToken) as caught:
        run(verify(text))
    return str(caught.value)


# -- keys --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_the_author_verify_whatever_id_a_token_names(kind: str, tmp_path: Path) -> None:
    key, alg = KEYS[kind]
    file = tmp_path / "keys"
    file.write_text(pem(key))
    document = key.as_dict(private=False)
    forms: list[Any] = [
        pem(key), pem(key).encode(), file, document, json.dumps(document), public(key), json.dumps(public(EC, key)),
        pem(EC) + pem(key),
    ]  # fmt: skip
    for keys in forms:
        verify = jwt_verifier(keys)
        assert run(verify(token(key, alg))).subject == "ann"
        assert run(verify(token(key, alg, header={}))).subject == "ann"
        stranger = key.generate_key(2048) if kind == "RSA" else key.generate_key(key.curve_name)
        assert "signature" in refusal(verify, token(stranger, alg))


UNUSABLE: Final[dict[str, tuple[Any, str]]] = {
    "a private key": (pem(RSA, private=True), "contains a (RSA )?PRIVATE KEY in PEM: pass a PUBLIC KEY"),
    "a certificate": (
        "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n",
        "contains a CERTIFICATE",
    ),
    "a public key and a private one": (pem(EC) + pem(RSA, private=True), "PRIVATE KEY"),
    "PEM without its end": ("-----BEGIN PUBLIC KEY-----\nMII=", "without an end"),
    "PEM of nothing": ("-----BEGIN PUBLIC KEY-----\nMII=\n-----END PUBLIC KEY-----", "cannot be read"),
    "a secret": (jwk.OctKey.generate_key(256).as_dict(), "no public key"),
    "no keys": ({"keys": []}, "no public key"),
    "no set": ({"keys": 3}, "not a JSON Web Key Set"),
    "no JSON": ("{", "Expecting"),
    "no URL": ("keys", "neither an https URL"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_what_is_no_public_key_is_refused_at_once(case: str) -> None:
    keys, message = UNUSABLE[case]
    with pytest.raises(ValueError, match=message):
        jwt_verifier(keys)


def test_no_algorithm_without_a_public_key_can_be_allowed() -> None:
    """The public key as a secret of HMAC, and no signature at all (RFC 8725)."""
    for algorithms in (["none"], ["HS256"], ["ES256", "HS512"], ["es256"], [], "RS256"):
        with pytest.raises(ValueError, match="algorithms with public keys"):
            jwt_verifier(algorithms=algorithms)
    assert not any(name.startswith("HS") or name == "none" for name in ALGORITHMS)


def test_a_token_signed_with_the_public_key_as_a_secret_is_refused() -> None:
    for alg, hash_ in (("HS256", "sha256"), ("HS512", "sha512")):
        said = ".".join(
            encoded(json.dumps({"alg": alg}).encode()) if at == 0 else part
            for at, part in enumerate(token().split(".")[:2])
        )
        forged = f"{said}.{encoded(hmac.digest(pem(RSA).encode(), said.encode(), hash_))}"
        assert "algorithm" in refusal(jwt_verifier(pem(RSA)), forged)
    unsigned = ".".join([token(header={}, alg="ES256").split(".")[0], token().split(".")[1], ""])
    assert "signature" in refusal(jwt_verifier(), unsigned)
    none = "eyJhbGciOiJub25lIn0." + token().split(".")[1] + "."
    assert "'none'" in refusal(jwt_verifier(), none)


# -- claims ------------------------------------------------------------------------------------------------

REASONS: Final[dict[str, tuple[str, dict[str, Any], str]]] = {
    "no token": ("x", {}, "not a JSON Web Token"),
    "deep": ("eyJhbGciOiJFUzI1NiJ9." + "W1tb" * 9000 + ".AAAA", {}, "not a JSON Web Token"),
    "no object": ("eyJhbGciOiJFUzI1NiJ9.W10.AAAA", {}, "not a JSON Web Token"),
    "issuer": (token(iss=OTHER), {}, f"issuer is '{OTHER}', not '{ISSUER}'"),
    "no issuer": (token(iss=None), {}, "issuer is None"),
    "issuer of a line": (token(iss="a\nb\x1b[2J"), {}, "issuer is 'a\\nb\\x1b[2J'"),
    "algorithm": (token(RSA, "RS256"), {"algorithms": ["ES256"]}, "algorithm is 'RS256', not one of ES256"),
    "expired": (token(exp=NOW - 61), {}, "expired"),
    "early": (token(nbf=NOW + 61), {}, "not yet valid"),
    "no subject": (token(sub=None), {}, "'sub'"),
    "audience": (token(aud="api://x"), {"audience": "api://y"}, "for ('api://x',), not for 'api://y'"),
    "the resource beside another audience": (token(), {"audience": ["api://y", "z"]}, "'api://y' or 'z'"),
    "audience of a wrong type": (token(aud=4), {"audience": "api://y"}, "'aud' must be"),
    "a claim": (token(), {"required": ["email"]}, "'email' is missing"),
    "a value": (token(tenant="x"), {"required": {"tenant": "y"}}, "'tenant' is 'x'"),
    "a value of another type": (token(level=1), {"required": {"level": True}}, "'level' is 1"),
    "no clock tolerance": (token(exp=NOW - 1), {"leeway": 0}, "expired"),
    "scopes": (token(roles=4), {"scope_claims": ["roles"]}, "not valid"),
    "scopes of a wrong type": (token(roles=[4]), {"scope_claims": ["roles"]}, "not valid"),
    "scopes that are an object": (token(scope={"admin": False}), {}, "must be strings"),
    "an audience that is an object": (
        token(aud={"api://y": False}),
        {"audience": "api://y"},
        "'aud' must be",
    ),
    "a list as header": (f"{encoded(b'[1]')}.{token().split('.')[1]}.AAAA", {}, "not a JSON Web Token"),
    "an endless exp": (token(exp=10**400), {"leeway": 0.5}, "int too large"),
}


@pytest.mark.parametrize("case", REASONS)
def test_a_refusal_says_why_and_not_the_token(case: str) -> None:
    text, options, reason = REASONS[case]
    found = refusal(jwt_verifier(**options), text)
    assert reason in found
    assert text == "x" or text not in found
    assert len(found) < 700
    assert found.isprintable()


CLIENT: Final = "api://client"
OF_ID_TOKENS: Final[list[dict[str, Any]]] = [
    {"nonce": "n"}, {"at_hash": "x"}, {"c_hash": None}, {"s_hash": "x"}, {"typ": "ID", "nonce": "n"}, {"token_use": "id"},
]  # fmt: skip
OF_NO_LOGIN: Final[list[dict[str, Any]]] = [
    {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}}, {"typ": "Refresh"}, {"typ": "Offline"},
    {"typ": "Logout"}, {"token_use": "refresh"},
]  # fmt: skip


def said_by_issuer(header: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
    """A token for the client, as the issuer signs ID tokens; a claim of None is null."""
    said = {"iss": ISSUER, "sub": "ann", "aud": CLIENT, "exp": NOW + 600, **claims}
    return str(jws.serialize_compact({"alg": "ES256", **header}, json.dumps(said), EC, ["ES256"]))


@req("AUTH-10", everywhere=True)
@pytest.mark.parametrize("claims", [*OF_ID_TOKENS, *OF_NO_LOGIN], ids=str)
def test_a_token_of_another_kind_is_refused_where_the_audience_is_the_client(claims: dict[str, Any]) -> None:
    """The audience of an ID token is the client's id, which Entra also puts into access tokens (RFC 8725, 3.12)."""
    verify, lenient = jwt_verifier(audience=CLIENT), jwt_verifier(audience=CLIENT, id_tokens=True)
    for header in ({}, {"typ": "JWT"}):
        text = said_by_issuer(header, claims)
        assert "it is not an access token, because of its claim" in refusal(verify, text)
        if claims in OF_NO_LOGIN:
            assert "it is not an access token" in refusal(lenient, text)
        else:
            assert run(lenient(text)).subject == "ann"
    assert (
        run(verify(said_by_issuer({"typ": "at+jwt"}, claims))).subject == "ann"
    ), "its issuer says what it is"


@pytest.mark.parametrize(
    "claims",
    [{}, {"typ": "Bearer"}, {"typ": "Bearer", "nonce": "n"}, {"typ": 1}, {"token_use": "access"}, {"acr": "1", "auth_time": 3, "azp": "x"}],
    ids=str,
)  # fmt: skip
def test_an_access_token_is_one_with_what_providers_put_into_it(claims: dict[str, Any]) -> None:
    for header in ({}, {"typ": "JWT"}, {"typ": "jwt"}, {"typ": "at+jwt"}, {"typ": "Application/AT+JWT"}):
        assert run(jwt_verifier(audience=CLIENT)(said_by_issuer(header, claims))).subject == "ann"


def test_the_type_of_a_token_is_one_that_the_author_accepts() -> None:
    strict = jwt_verifier(audience=CLIENT, types=["at+jwt"])
    for typ in ("at+jwt", "application/at+jwt"):
        assert run(strict(said_by_issuer({"typ": typ}, {}))).subject == "ann"
    assert "its type is None" in refusal(strict, said_by_issuer({}, {}))
    assert "its type is 'JWT'" in refusal(strict, said_by_issuer({"typ": "JWT"}, {}))
    for typ in (
        "logout+jwt",
        "dpop+jwt",
        "secevent+jwt",
        "token-introspection+jwt",
        "oauth-id-jag+jwt",
        "",
        "a t",
    ):
        found = refusal(jwt_verifier(audience=CLIENT), said_by_issuer({"typ": typ}, {}))
        assert f"its type is {typ!r}" in found
    custom = jwt_verifier(audience=CLIENT, types="Application/X+JWT")
    assert run(custom(said_by_issuer({"typ": "x+jwt"}, {}))).subject == "ann"
    for types in ([], [""], ""):
        with pytest.raises(ValueError, match="`types` is empty"):
            jwt_verifier(types=types)


NO_TIMES: Final[tuple[Any, ...]] = (
    True,
    False,
    "1000700",
    "x",
    [],
    {},
    None,
    float("nan"),
    float("inf"),
    float("-inf"),
)


@pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
def test_what_is_no_time_is_never_taken_for_one(name: str) -> None:
    """What a comparison with a clock does not refuse, such as NaN, would be good for ever."""
    late: tuple[Any, ...] = (
        (10**30, 1e300, NOW + 61) if name != "exp" else (NOW - 61, -(10**400), 10**400, -1e300, 0, -1)
    )
    for value in (*NO_TIMES, *late):
        said = {name: value} if value is not None or name == "exp" else {}
        if said:
            assert refusal(jwt_verifier(audience=CLIENT), said_by_issuer({}, said)), value
    for value in (NOW + 0.5, NOW + 59):
        assert run(jwt_verifier(audience=CLIENT)(said_by_issuer({}, {name: value}))).subject == "ann"


def test_what_the_author_requires_is_accepted() -> None:
    verify = jwt_verifier(
        audience=["api://x", "api://y"], required={"tenant": "t", "n": [1, {"a": None}]}, leeway=300
    )
    found = run(verify(token(aud=["api://y", "z"], tenant="t", n=[1, {"a": None}], exp=NOW - 299)))
    assert found.audience_checked
    assert found.expires == NOW + 1, "the server's own check of the expiry has the same tolerance"
    assert not run(jwt_verifier()(token())).audience_checked


def test_scopes_are_in_the_claims_that_the_author_names() -> None:
    text = token(scope="a b", scp=["c"], roles=["d e"])
    assert run(jwt_verifier()(text)).scopes == {"a", "b", "c"}
    assert run(jwt_verifier(scope_claims=["roles"])(text)).scopes == {"d e"}
    assert run(jwt_verifier(scope_claims=["none"])(text)).scopes == set()


def test_a_tolerance_is_not_negative() -> None:
    for leeway in (-1, float("nan")):
        with pytest.raises(ValueError, match="leeway"):
            jwt_verifier(leeway=leeway)


# -- discovery ---------------------------------------------------------------------------------------------

PLACES: Final = [
    "https://as.example/.well-known/oauth-authorization-server/tenant",
    "https://as.example/.well-known/openid-configuration/tenant",
    "https://as.example/tenant/.well-known/openid-configuration",
]


def discovering(monkeypatch: pytest.MonkeyPatch, pages: Mapping[str, Any]) -> list[str]:
    seen: list[str] = []

    async def read(_: object, __: str, url: str, *___: object) -> Any:
        seen.append(url)
        if url not in pages:
            raise ValueError(f"{url} returned status 404")
        return pages[url]

    monkeypatch.setattr(verifiers, "_json", read)
    return seen


@pytest.mark.parametrize("place", PLACES)
def test_the_keys_are_where_the_metadata_of_the_issuer_says(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = {"issuer": ISSUER, "jwks_uri": "https://keys.example/k"}
    seen = discovering(monkeypatch, {place: metadata, "https://keys.example/k": public(EC)})
    verify = mcprev.JwtVerifier(issuer=ISSUER, clock=lambda: NOW)
    assert run(verify(token(header={"kid": "one"}))).subject == "ann"
    assert seen == [*PLACES[: PLACES.index(place) + 1], "https://keys.example/k"]


@pytest.mark.parametrize(
    "wrong", [{"issuer": OTHER, "jwks_uri": "https://keys.example/k"}, {"issuer": ISSUER}]
)
@req("AUTH-10", everywhere=True)
def test_metadata_that_does_not_fit_leads_to_the_next_place(
    wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = {"issuer": ISSUER, "jwks_uri": "https://keys.example/k"}
    discovering(monkeypatch, {PLACES[0]: wrong, PLACES[1]: metadata, "https://keys.example/k": public(EC)})
    verify = mcprev.JwtVerifier(issuer=ISSUER, clock=lambda: NOW)
    assert run(verify(token(header={"kid": "one"}))).subject == "ann"


@pytest.mark.parametrize("slashes", [("", "/"), ("/", ""), ("/", "/")])
@req("AUTH-10", everywhere=True)
def test_an_issuer_without_a_path_is_written_with_a_slash_or_without(
    slashes: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at Auth0, whose issuer ends with a slash: what the author has written without one is the same URL."""
    mine, theirs = (OTHER + slash for slash in slashes)
    place = OTHER + "/.well-known/oauth-authorization-server"
    found = {"issuer": theirs, "jwks_uri": "https://keys.example/k"}
    discovering(monkeypatch, {place: found, "https://keys.example/k": public(EC)})
    verify = mcprev.JwtVerifier(issuer=mine, clock=lambda: NOW)
    assert run(verify(token(iss=theirs, header={"kid": "one"}))).subject == "ann"
    for other in (OTHER + "/x", OTHER + "//", OTHER + "/?"):
        assert "its issuer is" in refusal(verify, token(iss=other, header={"kid": "one"}))


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"issuer": OTHER, "jwks_uri": "https://keys.example/k"}, "of another issuer"),
        ({"jwks_uri": "https://keys.example/k"}, "of another issuer"),
        ({"issuer": ISSUER}, "neither an https URL"),
        ({"issuer": ISSUER, "jwks_uri": "http://keys.example/k"}, "neither an https URL"),
        ({"issuer": ISSUER, "jwks_uri": ["https://keys.example/k"]}, "neither an https URL"),
        (None, "publishes no usable metadata; pass the URL of its keys: .*404"),
    ],
)
def test_metadata_of_somebody_else_or_without_keys_is_no_verdict(
    metadata: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {} if metadata is None else {PLACES[0]: metadata}
    discovering(monkeypatch, {**pages, "https://keys.example/k": public(EC)})
    with pytest.raises(ValueError, match=message):
        run(mcprev.JwtVerifier(issuer=ISSUER, clock=lambda: NOW)(token()))


def test_a_token_of_another_issuer_costs_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = discovering(monkeypatch, {})
    assert "issuer" in refusal(mcprev.JwtVerifier(issuer=ISSUER), token(iss=OTHER))
    assert seen == []


# -- several -----------------------------------------------------------------------------------------------


def test_the_first_verifier_that_accepts_a_token_decides_and_issuers_do_not_share_subjects() -> None:
    two = jwk.ECKey.generate_key("P-256")
    verify = mcprev.AnyVerifier(
        jwt_verifier(), jwt_verifier(public(two), issuer=OTHER), mcprev.StaticTokens({"s": "ann"})
    )
    assert verify.issuers == (ISSUER, OTHER)
    texts = (token(scope="a"), token(two, iss=OTHER), "s")
    found = [run(verify(text)) for text in texts]
    assert [each.subject for each in found] == [f"ann@{ISSUER}", f"ann@{OTHER}", "ann"]
    assert (set(found[0].scopes), found[0].audience, found[0].claims) == (
        {"a"},
        (HERE,),
        run(jwt_verifier()(token(scope="a"))).claims,
    )
    reasons = refusal(verify, token(two))
    assert [word in reasons for word in ("signature", "its issuer is", "static tokens")] == [True] * 3
    same = mcprev.AnyVerifier(jwt_verifier(public(two)), jwt_verifier())
    assert run(same(token())).subject == "ann", "one issuer: names are unique"
    alone = mcprev.AnyVerifier(jwt_verifier(), mcprev.StaticTokens({"s": "ann"}))
    subjects = [run(alone(text)).subject for text in (token(), "s")]
    assert subjects == [f"ann@{ISSUER}", "ann"], "a static token is nobody of the issuer"


def test_no_subject_can_look_like_that_of_another_issuer() -> None:
    two = jwk.ECKey.generate_key("P-256")
    first, second = jwt_verifier(), jwt_verifier(public(two), issuer=OTHER)

    async def keys(name: str) -> mcprev.Access:
        return mcprev.Access(name, audience=(), audience_checked=True)

    async def none(_: str) -> None:
        return None

    victim, forged = f"ann@{OTHER}", token(sub=f"ann@{OTHER}")
    for verify in (
        mcprev.AnyVerifier(first, mcprev.AnyVerifier(first, second)),
        mcprev.AnyVerifier(mcprev.AnyVerifier(first, second), first),
        mcprev.AnyVerifier(mcprev.AnyVerifier(mcprev.AnyVerifier(none, second), none), first, none),
    ):
        assert run(verify(token(two, iss=OTHER))).subject == victim
        assert run(verify(forged)).subject == f"{victim}@{ISSUER}"
    named = mcprev.AnyVerifier(first, second, keys)
    assert run(named("bob@home")).subject == "bob@home"
    assert "ends like those of another issuer" in refusal(named, victim)
    assert "ends like those of another issuer" in refusal(named, f"x@y@{ISSUER}")
    assert run(mcprev.AnyVerifier(keys, none)(victim)).subject == victim, "there is no issuer"


def test_a_verifier_that_cannot_decide_hides_no_other_and_is_no_refusal() -> None:
    async def down(_: str) -> None:
        raise ConnectionError("down")

    async def nothing(_: str) -> None:
        return None

    assert run(mcprev.AnyVerifier(down, mcprev.StaticTokens({"s": "ann"}))("s")).subject == "ann"
    with pytest.raises(ConnectionError):
        run(mcprev.AnyVerifier(down, mcprev.StaticTokens({"s": "ann"}))("t"))
    assert refusal(mcprev.AnyVerifier(nothing, mcprev.StaticTokens({"s": "ann"})), "t").startswith(
        "no reason given; "
    )


def test_several_are_at_least_two_with_subjects_that_can_be_told_apart() -> None:
    with pytest.raises(ValueError, match="at least two"):
        mcprev.AnyVerifier(jwt_verifier())
    with pytest.raises(ValueError, match="requires `issuer`"):
        mcprev.AnyVerifier(jwt_verifier(), mcprev.IntrospectionVerifier("https://x.example", "a", "b"))


# -- a server ----------------------------------------------------------------------------------------------


@req("AUTH-1", "AUTH-4", "AUTH-10")
@pytest.mark.parametrize("row", [ROW_D, ROW_E], ids=lambda row: row.name)
def test_a_bearer_names_the_issuers_of_its_verifier_and_takes_its_word_for_the_audience(row: Any) -> None:
    async def main() -> None:
        verify = mcprev.AnyVerifier(jwt_verifier(audience="api://x"), mcprev.StaticTokens({"s": "ann"}))
        auth = mcprev.Bearer(verify, resource=HERE, clock=lambda: NOW)
        assert auth.metadata()["authorization_servers"] == [ISSUER]
        async with over_asgi(mcprev.Server(Guarded(), "s", "1"), auth=auth) as ask:
            verb, target, headers, body = asked(row)
            for text, status in ((token(aud="api://x"), None), ("s", None), (token(), 401)):
                answer = await ask(verb, target, [*(headers | shows(text)).items()], body)
                assert (answer.status == status) if status else (answer.status not in {401, 403, 503}), text

    run(main())


def test_a_bearer_needs_to_know_the_issuer_and_with_it_the_resource() -> None:
    async def verify(_: str) -> None:
        return None

    made: Any
    for made in (
        lambda: mcprev.Bearer(verify, resource=HERE),
        lambda: mcprev.Bearer(mcprev.StaticTokens({"s": "a"}), authorization_servers=[], resource=HERE),
        lambda: mcprev.Bearer(mcprev.IntrospectionVerifier("https://x.example", "a", "b"), resource=HERE),
    ):
        with pytest.raises(ValueError, match="authorization_servers"):
            made()
    with pytest.raises(ValueError, match="is not a resource"):
        mcprev.Bearer(jwt_verifier())
    with pytest.raises(ValueError, match="is not a resource"):
        mcprev.Bearer(mcprev.StaticTokens({"s": "a"}), resource="mcp.example")


class Named:
    """A verifier without an authorization server, whose tokens name an audience."""

    issuers = ()

    def __init__(self, audience: str) -> None:
        self.audience = audience

    async def __call__(self, _: str) -> mcprev.Access:
        return mcprev.Access("ann", audience=self.audience)


@pytest.mark.parametrize("audience", ["", "odd", HERE])
def test_without_a_resource_no_audience_is_this_server(audience: str) -> None:
    found = run(mcprev.Bearer(Named(audience)).admit(Headers.of([(b"authorization", b"Bearer x")]), b""))
    assert not isinstance(found, mcprev.Access)


# -- static tokens -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [ROW_D, ROW_E], ids=lambda row: row.name)
def test_static_tokens_protect_a_server_by_themselves(row: Any, caplog: pytest.LogCaptureFixture) -> None:
    auth = mcprev.StaticTokens(
        {"s1": "ann", "s2": {"subject": "bob", "scopes": ["read"], "client_id": "c", "claims": {"a": 1}}},
        scopes=["read"],
    )

    async def main() -> None:
        async with over_asgi(mcprev.Server(Guarded(), "s", "1"), auth=auth) as ask:
            verb, target, headers, body = asked(row)
            for shown, status in (({}, 401), (shows("s3"), 401), (shows("s"), 401), (shows("s1"), 403)):
                answer = await ask(verb, target, [*(headers | shown).items()], body)
                assert answer.status == status
                assert "resource_metadata" not in challenge(answer.headers)
                assert "s1" not in answer.body.decode()
            good = await ask(verb, target, [*(headers | shows("s2")).items()], body)
            assert good.status not in {401, 403, 503}
            for path in (
                "/.well-known/oauth-protected-resource",
                "/.well-known/oauth-protected-resource/mcp",
            ):
                assert (await ask("GET", path)).status == 404, "there is no authorization server to name"

    run(main())
    assert "s2" not in repr(auth)
    access = run(auth("s2"))
    assert (access.subject, set(access.scopes), access.client_id) == ("bob", {"read"}, "c")
    assert access.claims == {"a": 1}


@pytest.mark.parametrize(
    ("host", "warned"),
    [
        ("127.0.0.1:8000", False), ("localhost", False), ("[::1]:80", False), ("app.localhost:1", False),
        ("mcp.example", True), ("10.0.0.1:8000", True), ("", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("wrap", [False, True])
def test_the_log_warns_once_of_static_tokens_beyond_this_machine(
    host: str, warned: bool, wrap: bool, caplog: pytest.LogCaptureFixture
) -> None:
    static = mcprev.StaticTokens({"secret-token": "ann"})
    auth = mcprev.Bearer(mcprev.AnyVerifier(jwt_verifier(), static), resource=HERE) if wrap else static

    async def main() -> None:
        app = mcprev.Server(Guarded(), "s", "1").asgi(auth=auth, origins=["*"])
        verb, target, headers, body = asked(ROW_E)
        for _ in range(2):
            await AsgiAsk(app)(
                verb, target, [*(headers | shows("secret-token") | {"host": host}).items()], body
            )
        await app.aclose()

    with caplog.at_level(logging.WARNING, "mcprev.auth"):
        run(main())
    found = [each.message for each in caplog.records if "static tokens" in each.message]
    assert len(found) == (1 if warned else 0)
    assert not any("secret-token" in each for each in found)


def test_static_tokens_are_checked_where_they_are_written() -> None:
    wrong: Any
    odd: Any
    for wrong in ({}, {"two words": "ann"}, {"": "ann"}, {"é": "ann"}, {"s": ""}, {"s": {"subject": ""}}):
        with pytest.raises(ValueError, match="token"):
            mcprev.StaticTokens(wrong)
    for odd in (
        {"s": {"scopes": ["a"]}},
        {"s": {"subject": "a", "scope": "b"}},
        {"s": {"subject": "a", "scopes": [4]}},
    ):
        with pytest.raises(TypeError):
            mcprev.StaticTokens(odd)
    assert re.fullmatch(r"it is not one of the static tokens", refusal(mcprev.StaticTokens({"s": "a"}), "t"))


def test_static_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every token is compared, by its hash, wherever the right one stands."""
    compared: list[int] = []
    real = mcprev.StaticTokens.__call__.__globals__["hmac"].compare_digest

    def counting(one: bytes, other: bytes) -> bool:
        compared.append(len(one) + len(other))
        return bool(real(one, other))

    monkeypatch.setattr("mcprev.auth.static_tokens.hmac.compare_digest", counting)
    static = mcprev.StaticTokens({"first": "a", "second-and-longer": "b", "third": "c"})
    for text in ("first", "third", "no", "second-and-longer-still"):
        compared.clear()
        if text in {"first", "third"}:
            run(static(text))
        else:
            refusal(static, text)
        assert compared == [64, 64, 64]
