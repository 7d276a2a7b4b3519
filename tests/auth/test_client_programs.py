"""Programs that are let in without a user: a secret, a key, a JWT of their platform, an identity provider."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from joserfc import jwk, jwt

import mcprev
from auth.world import World, basic, form, world
from helpers.raw_server import Exchange, text
from helpers.requirements import C, D, E, req
from helpers.running import run
from mcprev.auth.client import signatures, tokens
from mcprev.auth.client.discovery import ProtectedServer, ServerMetadata
from mcprev.revisions import DEFAULT, Revision, revision_named

KEYS: dict[str, Any] = {
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "Ed25519": ed25519.Ed25519PrivateKey.generate(),
}


def pem(algorithm: str) -> str:
    form = serialization.PrivateFormat.PKCS8
    return KEYS[algorithm].private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()  # type: ignore[no-any-return]


def public_pem(algorithm: str) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return KEYS[algorithm].public_key().public_bytes(serialization.Encoding.PEM, form).decode()  # type: ignore[no-any-return]


async def enter(at: World, auth: Any) -> dict[str, str]:
    """Be let in; what the token endpoint was sent at last."""
    async with mcprev.connect(mcprev.http(at.mcp.url, auth=auth), revisions=[at.revision.name]) as client:
        assert client.revision == at.revision.name
    return at.asked[-1]


def parts(signed: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the claims of a JWT."""
    head, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in signed.split(".")[:2])
    return head, claims


@req("AUTH-12", "AUTH-9", at=(C, D, E))
def test_what_an_assertion_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose it is, for whom, and that it is good for a short time and once."""
    monkeypatch.setattr(time, "time", lambda: 1000.5)
    sign = signatures.signer("me", pem("ES256"), "ES256")
    (head, claims), (_, again) = (parts(sign("https://as.example")) for _ in range(2))
    assert head == {"alg": "ES256", "typ": "JWT"}
    assert claims.pop("jti") != again["jti"]
    assert claims == {
        "iss": "me", "sub": "me", "aud": "https://as.example", "iat": 1000, "exp": 1000 + signatures.LIFETIME,
    }  # fmt: skip


@req("AUTH-2", "AUTH-18", at=(C, D, E))
def test_what_a_proof_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """For which request and token it is; each server has its own nonce, and nobody sees the private key."""
    monkeypatch.setattr(time, "time", lambda: 1000.5)
    proofs = signatures.DpopSigner()
    proofs.learn("https://A.example/token", "first")
    proofs.learn("https://a.example/other", "nonce")
    (head, claims), (_, again) = (parts(proofs.prove("GET", "https://a.example/x?y#z")) for _ in range(2))
    assert claims.pop("jti") != again["jti"]
    assert claims == {"htm": "GET", "htu": "https://a.example/x", "iat": 1000, "nonce": "nonce"}
    assert (head["typ"], head["alg"], sorted(head["jwk"])) == ("dpop+jwt", "ES256", ["crv", "kty", "x", "y"])
    _, claims = parts(proofs.prove("POST", "https://b.example/#z", "token"))
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"token").digest()).decode().rstrip("=")
    assert (claims["htm"], claims["htu"], claims["ath"]) == ("POST", "https://b.example/", digest)
    assert "nonce" not in claims
    assert repr(proofs) == "<DpopSigner>"


@req("AUTH-12", at=(C, D, E))
def test_the_error_for_a_key_shows_nothing_of_it() -> None:
    """The text of the library's error may contain part of the key: it is not shown behind ours either."""
    with pytest.raises(ValueError, match="the private key cannot be used") as caught:
        signatures.signer("me", "nonsense", "ES256")
    assert caught.value.__suppress_context__


ISSUER = "https://as.example"


async def unused(page: str) -> str:
    return page


@req("AUTH-12", "AUTH-14", at=(C, D, E))
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (partial(mcprev.OAuth, client_id="me", client_secret="s"), "requires `issuer`"),
        (partial(mcprev.ClientCredentials, "me", "s"), "requires `issuer`"),
        (partial(mcprev.WorkloadIdentity, "jwt", client_id="me"), "requires `issuer`"),
        (partial(mcprev.OAuth, issuer="as.example"), "not the URL of an authorization server"),
        (partial(mcprev.OAuth, resource="mcp.example"), "`resource` must be"),
        (partial(mcprev.OAuth, scopes="a b"), "`scopes` must be"),
        (partial(mcprev.OAuth, client_secret="s", issuer=ISSUER), "requires `client_id`"),
        (partial(mcprev.OAuth, redirect_uri="http://127.0.0.1/"), "`open` and `redirect_uri` together"),
        (partial(mcprev.OAuth, open=unused), "`open` and `redirect_uri` together"),
        (
            partial(mcprev.OAuth, open=unused, redirect_uri="http://127.0.0.1/", loopback=mcprev.Loopback()),
            "either `loopback` or `redirect_uri`",
        ),
        (partial(mcprev.OAuth, client_metadata_url="http://me.example/x"), "an https URL with a path"),
        (partial(mcprev.OAuth, client_metadata_url="https://me.example/"), "an https URL with a path"),
        (partial(mcprev.OAuth, client_metadata_url="https:///x"), "an https URL with a path"),
        (partial(mcprev.ClientCredentials, "me", "s", private_key="k", issuer=ISSUER), "pass either"),
        (partial(signatures.signer, "me", pem("ES256"), "HS256"), "not a supported algorithm"),
        (partial(signatures.signer, "me", pem("ES256"), "none"), "not a supported algorithm"),
    ],
)  # fmt: skip
def test_arguments_that_make_no_sense_are_refused_at_once(make: Any, why: str) -> None:
    with pytest.raises((ValueError, TypeError), match=why):
        make()


@req("AUTH-14", at=(C, D, E))
def test_a_client_id_belongs_to_the_first_issuer_that_it_is_used_at() -> None:
    async def main() -> None:
        auth = mcprev.OAuth(client_id="me")
        servers = [ServerMetadata(issuer, issuer + "/token") for issuer in (ISSUER, "https://evil.example")]
        mine, other = (ProtectedServer(DEFAULT[-1], "https://mcp.example", server) for server in servers)
        assert await auth.client(mine) == mcprev.Registration("me")
        with pytest.raises(mcprev.IssuerMismatch, match="they are not sent"):
            await auth.client(other)
        assert await auth.client(mine) == mcprev.Registration("me")

    run(main())


@req("AUTH-12", "AUTH-13", at=E)
def test_which_client_a_user_logs_in_with() -> None:
    """Its document where that is accepted, else what is registered and has not expired."""

    async def main() -> None:
        document = "https://me.example/client"
        kept = mcprev.Registration("kept")
        for row, takes, expires, expected in (
            (DEFAULT[-1], True, None, document),
            (DEFAULT[-1], False, None, "kept"),
            (revision_named(C), True, None, "kept"),
            (DEFAULT[-1], False, time.time() + 60, "kept"),
            (DEFAULT[-1], False, time.time() - 60, None),
        ):
            auth = mcprev.OAuth(client_metadata_url=document)
            await auth.store.keep_registration(ISSUER, replace(kept, expires_at=expires))
            server = ServerMetadata(ISSUER, ISSUER + "/token", takes_documents=takes)
            found = await auth.client(ProtectedServer(row, "https://mcp.example", server))
            assert (None if found is None else found.client_id) == expected

    run(main())


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
@req("AUTH-12", "AUTH-2")
def test_a_program_has_a_secret(row: Revision, method: str) -> None:
    async def main() -> None:
        async with world(row) as at:
            at.metadata["token_endpoint_auth_methods_supported"] = [method]
            asked = await enter(at, mcprev.ClientCredentials("me", "secret", issuer=at.issuer, scopes=["a"]))
            assert at.log == ["client_credentials"]
            assert asked["scope"] == "a"
            if method == "client_secret_basic":
                assert basic(asked["authorization"]) == ("me", "secret")
            else:
                assert (asked["client_id"], asked["client_secret"]) == ("me", "secret")

    run(main())


@pytest.mark.parametrize("algorithm", KEYS)
@req("AUTH-12", "AUTH-9")
def test_a_program_has_a_key(row: Revision, algorithm: str) -> None:
    async def main() -> None:
        async with world(row) as at:
            auth = mcprev.ClientCredentials(
                "me", private_key=pem(algorithm), algorithm=algorithm, issuer=at.issuer
            )
            asked = await enter(at, auth)
            assert asked["client_assertion_type"] == tokens.ASSERTION
            public = (
                KEYS[algorithm]
                .public_key()
                .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
            )
            kind = {"ES256": "EC", "RS256": "RSA", "Ed25519": "OKP"}[algorithm]
            found = jwt.decode(
                asked["client_assertion"], jwk.JWKRegistry.import_key(public, kind), [algorithm]
            )
            claims = found.claims
            assert (claims["iss"], claims["sub"], claims["aud"]) == ("me", "me", at.issuer)
            assert 0 < claims["exp"] - claims["iat"] <= 300
            at.good.clear()
            again = await enter(at, auth)
            assert again["client_assertion"] != asked["client_assertion"]

    run(main())


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        ("nonsense", "ES256"),
        (pem("RS256"), "ES256"),
        (public_pem("ES256"), "ES256"),
        (pem("ES256"), "ES384"),
        (pem("ES256"), "HS256"),
        (pem("ES256"), "none"),
    ],
)
@req("AUTH-12", at=(C, D, E))
def test_a_key_that_cannot_sign_is_refused_at_once_and_not_shown(key: str, algorithm: str) -> None:
    with pytest.raises(ValueError, match=algorithm) as caught:
        mcprev.ClientCredentials("me", private_key=key, algorithm=algorithm, issuer="https://a.example")
    assert " KEY-----" not in str(caught.value)
    with pytest.raises(ValueError, match="pass either"):
        mcprev.ClientCredentials("me", issuer="https://a.example")


@pytest.mark.slow
@req("AUTH-12", at=(C, D, E))
def test_a_key_needs_an_extra_and_says_which() -> None:
    script = """
import sys
sys.modules["joserfc"] = None
import mcprev
mcprev.ClientCredentials("me", "secret", issuer="https://a.example")
try:
    mcprev.ClientCredentials("me", private_key="x", issuer="https://a.example")
except mcprev.McpError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "mcprev[jwt]" in done.stdout


@req("AUTH-12", "AUTH-22")
def test_a_platform_vouches_for_a_program(row: Revision) -> None:
    async def main() -> None:
        async with world(row) as at:

            async def issued() -> str:
                return f"jwt-{len(at.asked)}"

            auth = mcprev.WorkloadIdentity(issued, client_id="me", issuer=at.issuer)
            asked = await enter(at, auth)
            assert (asked["grant_type"], asked["assertion"]) == (tokens.JWT_BEARER, "jwt-0")
            assert asked["authorization"] == ""
            at.good.clear()

            async def refuse(exchange: Exchange) -> None:
                at.asked.append(form(exchange))
                await exchange.json({"error": "invalid_grant"}, 400)

            at.tokens = refuse
            with pytest.raises(mcprev.TokenRejected, match="invalid_grant"):
                await enter(at, auth)
            assert len(at.asked) == 2, "it is not tried again, nor in another way"

    run(main())


async def _jwt(_: str = "") -> str:
    return "jwt"


@req("AUTH-12", everywhere=True)
@pytest.mark.parametrize(
    "assertion", [lambda: "jwt", lambda: _jwt(""), partial(_jwt)], ids=["function", "lambda", "partial"]
)
def test_an_assertion_comes_from_any_kind_of_function(assertion: Any) -> None:
    async def main() -> None:
        async with world(DEFAULT[-1]) as at:
            auth = mcprev.WorkloadIdentity(assertion, client_id="me", issuer=at.issuer)
            assert (await enter(at, auth))["assertion"] == "jwt"
            at.good.clear()
            other = mcprev.WorkloadIdentity(lambda: 5, client_id="me", issuer=at.issuer)  # type: ignore[arg-type, return-value]
            with pytest.raises(mcprev.LocalProtocolError, match="must be a string"):
                await enter(at, other)

    run(main())


@req("AUTH-12", "AUTH-9")
def test_an_identity_provider_vouches_for_a_user(row: Revision) -> None:
    async def main() -> None:
        async with world(row) as at:
            asked: list[dict[str, str]] = []
            kind = [tokens.ID_JAG]

            async def exchange(exchange: Exchange) -> None:
                asked.append(form(exchange))
                await exchange.json(
                    {"access_token": "vouched", "issued_token_type": kind[0], "token_type": "N_A"}
                )

            at.documents[at.auth.origin + "/idp"] = exchange
            auth = mcprev.EnterpriseManaged(
                "me",
                "secret",
                provider=f"{at.auth.origin}/idp",
                provider_client_id="i",
                id_token="user",
                issuer=at.issuer,
            )
            redeemed = await enter(at, auth)
            assert asked == [
                {
                    "grant_type": tokens.EXCHANGE,
                    "requested_token_type": tokens.ID_JAG,
                    "audience": at.issuer,
                    "resource": at.mcp.url,
                    "subject_token": "user",
                    "subject_token_type": tokens.ID_TOKEN,
                    "client_id": "i",
                }
            ]
            assert redeemed["assertion"] == "vouched"
            assert basic(redeemed["authorization"]) == ("me", "secret")
            at.good.clear()
            kind[0] = "urn:ietf:params:oauth:token-type:access_token"
            with pytest.raises(mcprev.TokenRejected, match="another type"):
                await enter(at, auth)

    run(main())


@req("AUTH-14", at=E)
def test_the_secret_of_a_program_stays_with_its_issuer() -> None:
    async def main() -> None:
        async with world(DEFAULT[-1]) as at:
            for auth in (
                mcprev.ClientCredentials("me", "secret", issuer="https://other.example"),
                mcprev.WorkloadIdentity("jwt", client_id="me", issuer="https://other.example"),
            ):
                with pytest.raises(mcprev.IssuerMismatch):
                    await enter(at, auth)
            assert at.asked == []

    run(main())


def check_proof(seen: Exchange, verb: str, url: str, token: str | None) -> dict[str, Any]:
    """What the proof of a request says; it has to be about this very request."""
    proof = seen.headers["dpop"]
    head = json.loads(base64.urlsafe_b64decode(proof.partition(".")[0] + "==="))
    assert (head["typ"], head["alg"]) == ("dpop+jwt", "ES256")
    assert "d" not in head["jwk"], "the private part stays here"
    claims = jwt.decode(proof, jwk.JWKRegistry.import_key(head["jwk"]), ["ES256"]).claims
    assert (claims["htm"], claims["htu"]) == (verb, url)
    if token is None:
        assert "ath" not in claims
    else:
        digest = hashlib.sha256(token.encode()).digest()
        assert claims["ath"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return claims


@req("AUTH-9")
def test_a_token_can_be_bound_to_a_key(row: Revision) -> None:
    async def main() -> None:
        async with world(row, {"tools/call": text("hi")}) as at:
            at.scheme, at.refreshes = "DPoP", True
            nonces = iter(range(1000))
            admit, token = at.admit, at.tokens
            wanted = {"auth": "", "mcp": ""}

            def fresh(seen: Exchange, who: str) -> bool:
                """Whether the nonce is the last one that was said."""
                body = seen.headers["dpop"].split(".")[1]
                claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
                return bool(wanted[who]) and claims.get("nonce") == wanted[who]

            async def token_with_nonce(exchange: Exchange) -> None:
                if fresh(exchange, "auth"):
                    await token(exchange)
                else:
                    wanted["auth"] = f"auth-{next(nonces)}"
                    await exchange.json({"error": "use_dpop_nonce"}, 400, {"DPoP-Nonce": wanted["auth"]})

            async def admit_with_nonce(exchange: Exchange) -> None:
                if "dpop" not in exchange.headers or fresh(exchange, "mcp"):
                    await admit(exchange)
                else:
                    wanted["mcp"] = f"mcp-{next(nonces)}"
                    said = {"DPoP-Nonce": wanted["mcp"], "WWW-Authenticate": 'DPoP error="use_dpop_nonce"'}
                    await exchange.respond(401, b"", said)

            at.tokens, at.admit = token_with_nonce, admit_with_nonce  # type: ignore[method-assign]
            store = mcprev.MemoryTokens()
            async with mcprev.connect(
                mcprev.http(at.mcp.url, auth=at.oauth(dpop=True, store=store)), revisions=[row.name]
            ) as client:
                await client.call_tool("any", {})
                wanted["mcp"] = "another"
                await client.call_tool("any", {})
                at.good.clear()
                await client.call_tool("any", {})
            assert at.log == ["register", "authorize", "authorization_code", "refresh_token"]
            protocol = [seen for seen in at.mcp.seen if "dpop" in seen.headers and seen.path == "/mcp"]
            for seen in protocol:
                scheme, _, used = seen.headers["authorization"].partition(" ")
                assert scheme == "DPoP"
                check_proof(seen, seen.verb, at.mcp.url, used)
            proofs = [
                seen.headers["dpop"] for seen in (*at.mcp.seen, *at.auth.seen) if "dpop" in seen.headers
            ]
            assert len(set(proofs)) == len(proofs), "each proof is for one request"
            posted = [seen for seen in at.auth.seen if seen.path == "/token"]
            assert len(posted) == 3
            for seen in posted:
                check_proof(seen, "POST", f"{at.issuer}/token", None)
            assert "token" not in repr(vars(store)["_tokens"]), "what only this process can use is not kept"

    run(main())


@req("AUTH-22", at=E)
def test_a_server_that_is_never_content_with_a_proof_is_given_up() -> None:
    async def main() -> None:
        async with world(DEFAULT[-1]) as at:
            at.scheme = "DPoP"
            admit = at.admit

            async def never(exchange: Exchange) -> None:
                if "dpop" not in exchange.headers:
                    await admit(exchange)
                    return
                said = {
                    "DPoP-Nonce": f"{len(at.mcp.seen)}",
                    "WWW-Authenticate": 'DPoP error="use_dpop_nonce"',
                }
                await exchange.respond(401, b"", said)

            at.admit = never  # type: ignore[method-assign]
            with pytest.raises(mcprev.TokenRejected):
                await enter(at, at.oauth(dpop=True))
            assert len([seen for seen in at.mcp.seen if "dpop" in seen.headers]) == 3
            at.scheme = "Bearer"
            with pytest.raises(mcprev.TokenRejected, match="of an unsupported type"):
                await enter(at, at.oauth(dpop=True))

    run(main())
