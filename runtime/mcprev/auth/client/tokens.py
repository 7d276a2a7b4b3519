"""Token requests and client authentication at token endpoints (AUTH-9, AUTH-18; RFC 7523, RFC 8693)."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import quote, urlencode

from mcprev.auth.client.discovery import BASIC, POST, ProtectedServer, read_object, text
from mcprev.auth.client.steps import NO_KEYS, ClientKeys, Flow, HttpFetch, HttpReply, fetch, said_by
from mcprev.auth.client.store import Registration
from mcprev.errors import Json, TokenRejected
from mcprev.transports.http.urls import printable

if TYPE_CHECKING:
    from mcprev.auth.client.signatures import DpopSigner

FORM: Final = "application/x-www-form-urlencoded"
PRIVATE_KEY: Final = "private_key_jwt"
ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - a name and no secret
ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
PROOF: Final = "DPoP"
"""The header of a DPoP proof, and the scheme of a bound token."""
USE_NONCE: Final = "use_dpop_nonce"
INVALID_CLIENT: Final = "invalid_client"
FORGET: Final = frozenset({INVALID_CLIENT, "unauthorized_client"})
"""Token endpoint errors after which the client registers again."""
_OF_GRANTS: Final = frozenset(
    {
        "invalid_grant",
        "invalid_scope",
        "invalid_target",
        "unsupported_grant_type",
        "access_denied",
        USE_NONCE,
        "authorization_pending",
        "slow_down",
        "expired_token",
    }
)
"""Token endpoint errors that another way to authenticate does not change."""
_JWT_PARTS: Final = 3
SHORTEST: Final = 1.0
"""The shortest lifetime that counts, in seconds: servers also say 0 of tokens that do not expire."""
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_LONG: Final = 1e12
"""Longer lifetimes, in seconds, count as unlimited."""


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """A successful response of a token endpoint."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_in: float | None = None
    """The lifetime, in seconds."""
    scopes: Sequence[str] | None = None
    """The granted scopes; None if the response names none."""
    user: str | None = None
    """What the server calls the user who logged in; None if it does not say."""
    client: Registration | None = None
    """The client in the way to authenticate that the server accepted."""


def exchange(
    place: ProtectedServer, endpoint: str, client: Registration, id_token: str, scopes: Sequence[str] | None
) -> Flow[str]:
    """Exchange an ID token at the identity provider for a JWT that the authorization server accepts (RFC 8693)."""
    form = {
        "grant_type": EXCHANGE,
        "requested_token_type": ID_JAG,
        "audience": place.server.issuer,
        "resource": place.resource,
        "subject_token": id_token,
        "subject_token_type": ID_TOKEN,
    }
    if scopes:
        form["scope"] = " ".join(scopes)
    who = "the identity provider"
    found, _ = yield from post_form(endpoint, (client,), form, who)
    if found.get("issued_token_type") != ID_JAG:
        raise TokenRejected("the identity provider returned another type of token than requested")
    return usable_token(found, who)


def request_token(
    place: ProtectedServer,
    client: Registration,
    form: Mapping[str, str],
    scopes: Sequence[str] | None = None,
    client_keys: ClientKeys = NO_KEYS,
) -> Flow[TokenResponse]:
    """Send a token request with the members of a grant.

    Raises `TokenRejected`, with the error code if the server sent one. If its `error` is empty, what the form carries,
    such as a refresh token, may still be valid.
    """  # AUTH-9, AUTH-18
    server, wanted = place.server, {**form, "resource": place.resource}
    if scopes:
        wanted["scope"] = " ".join(scopes)
    who = printable(server.issuer)

    found, accepted = yield from post_form(
        server.token_endpoint, ways(client, server.methods), wanted, who, server.issuer, client_keys
    )
    expected = "Bearer" if client_keys.dpop_signer is None else "DPoP"
    kind: object = found.get("token_type", "Bearer")
    if not isinstance(kind, str) or kind.lower() != expected.lower():
        raise TokenRejected(f"{who} returned a token of an unsupported type: {printable(str(kind))}")
    lasts = seconds(found.get("expires_in"))
    return TokenResponse(
        usable_token(found, who),
        text(found, "refresh_token"),
        None if lasts is None or lasts < SHORTEST else lasts,
        read_scopes(found.get("scope")),
        user_of(text(found, "id_token")),
        accepted,
    )


def ways(client: Registration, methods: Sequence[str] | None) -> tuple[Registration, ...]:
    """Return a client with each method by which it may authenticate, in the order of trying.

    `methods` are those that the server lists; None: it lists none. A secret that was issued is used, although nothing
    says how: servers issue one to a client that registered with `none`, or do not say which way they read it.
    """  # AUTH-12
    if client.client_secret is None:
        return (client,)
    offered = [method for method in (BASIC, POST) if methods is None or method in methods] or [BASIC, POST]
    return tuple(replace(client, method=method) for method in dict.fromkeys([client.method, *offered]))


def post_form(
    url: str,
    clients: Sequence[Registration],
    form: Mapping[str, str],
    who: str,
    audience: str = "",
    client_keys: ClientKeys = NO_KEYS,
) -> Flow[tuple[dict[str, Json], Registration]]:
    """Send a form with the client's authentication, in each of its ways until one is accepted.

    Returns the response, and the client in the way that was accepted. `who` is for errors, `audience` for assertions.
    An error counts as one whatever its status is: GitHub answers with 200. Raises `TokenRejected`.
    """
    failure: TokenRejected | None = None
    for client in clients:
        reply = yield from _posted(url, client, form, audience, client_keys)
        found = read_object(reply.body) or {}
        if reply.status == 200 and "error" not in found:
            return found, client
        known = reply.status == 200 or (400 <= reply.status < 500 and reply.status not in (408, 425, 429))
        error = printable(text(found, "error") or "") if known else ""
        rejected = TokenRejected(f"{who} issued no token ({said_by(reply, found)})", error=error)
        if failure is None or error not in FORGET:
            failure = rejected
        if not known or error in _OF_GRANTS:
            break
    assert failure is not None
    raise failure


def _posted(
    url: str, client: Registration, form: Mapping[str, str], audience: str, client_keys: ClientKeys
) -> Flow[HttpReply]:
    """Send a form with the client's authentication, again if the server requires another DPoP nonce."""
    sent, headers = dict(form), [("Accept", "application/json"), ("Content-Type", FORM)]
    if client.method == BASIC:
        pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret or '', safe='')}"
        headers.append(("Authorization", "Basic " + base64.b64encode(pair.encode()).decode()))
    else:
        sent["client_id"] = client.client_id
    if client.method == POST:
        sent["client_secret"] = client.client_secret or ""
    elif client.method == PRIVATE_KEY:
        assert client_keys.signer is not None
        sent |= {"client_assertion_type": ASSERTION, "client_assertion": client_keys.signer(audience)}
    body, dpop_signer = urlencode(sent).encode(), client_keys.dpop_signer
    reply = yield from fetch(_proved(url, headers, body, dpop_signer))
    if dpop_signer is not None and reply.nonce is not None:
        dpop_signer.learn(url, reply.nonce)
        if (read_object(reply.body) or {}).get("error") == USE_NONCE:
            reply = yield from fetch(_proved(url, headers, body, dpop_signer))
    return reply


def _proved(
    url: str, headers: list[tuple[str, str]], body: bytes, dpop_signer: DpopSigner | None
) -> HttpFetch:
    proof = [] if dpop_signer is None else [(PROOF, dpop_signer.prove("POST", url))]
    return HttpFetch(url, (*headers, *proof), body, purpose="token")


def user_of(id_token: str | None) -> str | None:
    """Return what an ID token calls the user, for people to read: it comes from the token endpoint, and is not verified."""
    parts = (id_token or "").split(".")
    if len(parts) != _JWT_PARTS:
        return None
    try:
        claims = read_object(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    found = (text(claims or {}, name) for name in ("email", "preferred_username", "name", "sub"))
    return next((printable(name) for name in found if name is not None), None)


def read_scopes(said: object) -> tuple[str, ...] | None:
    """Return the scopes of a token response, which GitHub and Slack separate with commas; None if it names none."""
    listed = cast("list[object]", said) if isinstance(said, list) else ()
    words = said.split() if isinstance(said, str) else listed
    names = [word for word in words if isinstance(word, str)]
    if len(names) == 1:
        names = names[0].split(",")
    return tuple(dict.fromkeys(name for name in names if _SCOPE.fullmatch(name))) or None


def usable_token(found: Mapping[str, Json], who: str) -> str:
    """Return the access token if it can be sent in a header. Raises `TokenRejected`."""
    token = text(found, "access_token")
    if token is None or not token.isascii() or not token.isprintable() or " " in token:
        raise TokenRejected(f"{who} returned no usable token")
    return token


def seconds(said: object) -> float | None:
    """Parse a lifetime in seconds; return None for any other value."""
    if isinstance(said, str) and said.isascii() and said.isdigit() and len(said) < 12:
        return float(said)
    if isinstance(said, bool) or not isinstance(said, int | float) or not said >= 0:
        return None
    return float(min(said, _LONG))
