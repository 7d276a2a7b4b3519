"""Token requests and client authentication at token endpoints (AUTH-9, AUTH-18; RFC 7523, RFC 8693)."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import quote, urlencode

from mcprev.errors import Json, TokenRejected
from mcprev.oauth.discovery import BASIC, POST, ProtectedServer, read_object, text
from mcprev.oauth.steps import NO_KEYS, ClientKeys, Flow, HttpFetch, fetch, said_by
from mcprev.oauth.store import Registration
from mcprev.transports.http.urls import printable

if TYPE_CHECKING:
    from mcprev.oauth.signatures import DpopSigner

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
_OTHER_WAY: Final = {BASIC: POST, POST: BASIC}
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
    found = yield from post_form(endpoint, client, form, who)
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

    def attempt(client: Registration) -> Flow[dict[str, Json]]:
        return post_form(server.token_endpoint, client, wanted, who, server.issuer, client_keys)

    try:
        found = yield from attempt(client)
    except TokenRejected as rejected:
        other = _OTHER_WAY.get(client.method)
        if rejected.error != INVALID_CLIENT or other not in (server.methods or ()):
            raise
        # The server offers both ways to send a secret, and may understand only one.
        found = yield from attempt(replace(client, method=other))
    expected = "Bearer" if client_keys.dpop_signer is None else "DPoP"
    kind: object = found.get("token_type", "Bearer")
    if not isinstance(kind, str) or kind.lower() != expected.lower():
        raise TokenRejected(f"{who} returned a token of an unsupported type: {printable(str(kind))}")
    lasts = seconds(found.get("expires_in"))
    return TokenResponse(
        usable_token(found, who),
        text(found, "refresh_token"),
        None if lasts is None or lasts < SHORTEST else lasts,
        granted_scopes(found.get("scope")),
    )


def post_form(
    url: str,
    client: Registration,
    form: Mapping[str, str],
    who: str,
    audience: str = "",
    client_keys: ClientKeys = NO_KEYS,
) -> Flow[dict[str, Json]]:
    """Send a form with the client's authentication; `who` is for errors, `audience` for assertions.

    An error counts as one whatever its status is: GitHub answers with 200. Raises `TokenRejected`.
    """
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
    found = read_object(reply.body) or {}
    if reply.status != 200 or "error" in found:
        known = 400 <= reply.status < 500 and reply.status not in (408, 425, 429)
        error = printable(text(found, "error") or "") if known or reply.status == 200 else ""
        raise TokenRejected(f"{who} issued no token ({said_by(reply, found)})", error=error)
    return found


def _proved(
    url: str, headers: list[tuple[str, str]], body: bytes, dpop_signer: DpopSigner | None
) -> HttpFetch:
    proof = [] if dpop_signer is None else [(PROOF, dpop_signer.prove("POST", url))]
    return HttpFetch(url, (*headers, *proof), body, purpose="token")


def granted_scopes(said: object) -> tuple[str, ...] | None:
    """Return the scopes of a token response, which GitHub and Slack separate with commas; None if it names none."""
    words = said.split() if isinstance(said, str) else said if isinstance(said, list) else ()
    names = [word for word in cast("Sequence[object]", words) if isinstance(word, str)]
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
