"""The login of a user at an identity provider, and the provider's tokens: flows without I/O, sent by `oauth.runner`."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, cast
from urllib.parse import quote, urlencode

from mcprev.auth.authorization_server.grants import User
from mcprev.auth.authorization_server.keys import challenge_of_verifier
from mcprev.auth.authorization_server.providers import Provider
from mcprev.auth.client.discovery import BASIC, POST, read_object, text
from mcprev.auth.client.steps import Flow, HttpFetch, HttpReply, fetch
from mcprev.auth.client.store import Registration
from mcprev.auth.client.tokens import post_form, seconds, usable_token
from mcprev.errors import AuthError, Json, TokenRejected

MAX_TOKEN: Final = 16 * 1024
"""The maximum size of a provider's token, in characters."""
MAX_SUBJECT: Final = 512
"""The maximum length of a claim that names a user, in characters: it is part of each token."""
_EARLY: Final = 60.0
"""Seconds before its expiry from which a provider's token is refreshed."""
_LEEWAY: Final = 60
_ENDED: Final = frozenset({"invalid_grant", "bad_refresh_token", "interaction_required"})
"""Errors of a token endpoint that mean that the user has to log in again; the second is GitHub's."""


class ProviderRefused(AuthError):
    """The provider ended the login of a user, or did not let one in."""


@dataclass(frozen=True, slots=True)
class ProviderTokens:
    """The tokens of a provider for a user."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires: float | None = None
    """The time at which the access token expires; None if it does not."""
    refreshing: float = 0.0
    """The time until which a worker refreshes the tokens, and no other does: refresh tokens are good once."""

    def is_good(self, now: float) -> bool:
        """Return whether the access token is good for the next minute."""
        return self.expires is None or now < self.expires - _EARLY

    def dumped(self) -> dict[str, Json]:
        """Return the tokens as JSON, for a sealed record."""
        return asdict(self)


def authorize_url(provider: Provider, callback: str, state: str, verifier: str, nonce: str) -> str:
    """Return the URL of the provider's login page for one login."""
    said = {
        **provider.parameters,
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": callback,
        "state": state,
        "scope": " ".join(provider.scopes),
    }
    if provider.pkce:
        said |= {"code_challenge": challenge_of_verifier(verifier), "code_challenge_method": "S256"}
    if provider.user_from == "id_token":
        said["nonce"] = nonce
    joint = "&" if "?" in provider.authorize_url else "?"
    return f"{provider.authorize_url}{joint}{urlencode(said, quote_via=quote)}"


def log_in(provider: Provider, callback: str, code: str, verifier: str, nonce: str, now: float) -> Flow[User]:
    """Redeem the provider's code and return its user, with the provider's tokens. Raises `AuthError`."""
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": callback}
    if provider.pkce:
        form["code_verifier"] = verifier
    found = yield from _token(provider, form)
    tokens = _tokens(provider, found, now)
    if provider.user_from == "id_token":
        claims = id_claims(provider, text(found, "id_token") or "", nonce, now)
    else:
        claims = yield from _userinfo(provider, tokens.access_token)
    parts = [claims.get(member) for member in provider.subject]
    if not all(map(_is_name, parts)):
        raise AuthError(f"{provider.name} did not identify the user ({', '.join(provider.subject)})")
    shown = {member: claims[member] for member in provider.claims if claims.get(member) is not None}
    if provider.emails_url is None and claims.get("email_verified") not in (True, "true"):
        shown.pop("email", None)
    # Of several parts none can be shifted into its neighbour.
    told = [quote(str(part), safe="") if parts[1:] else str(part) for part in parts]
    return User(":".join([provider.name, *told]), shown, tokens.dumped())


def _is_name(part: Json) -> bool:
    """Return whether a claim can name a user: a whole number, or some printable text."""
    return type(part) in {int, str} and 0 < len(str(part)) <= MAX_SUBJECT and str(part).isprintable()


def refresh(provider: Provider, tokens: ProviderTokens, now: float) -> Flow[ProviderTokens]:
    """Return new tokens for a refresh token. Raises `ProviderRefused` if the login has ended, `AuthError` if it fails now."""
    form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token or ""}
    found = yield from _token(provider, form)
    new = _tokens(provider, found, now)
    # A provider that does not rotate refresh tokens leaves the old one out.
    return new if new.refresh_token else ProviderTokens(new.access_token, tokens.refresh_token, new.expires)


def id_claims(provider: Provider, id_token: str, nonce: str, now: float) -> dict[str, Json]:
    """Return the claims of an ID token that came from the token endpoint. Raises `AuthError` if it is for another login."""
    try:
        found: object = json.loads(urlsafe_b64decode(id_token.split(".")[1] + "=="))
    except (ValueError, IndexError, RecursionError):
        found = None
    claims = cast("dict[str, Json]", found) if isinstance(found, dict) else {}
    tenant: Json = claims.get("tid")
    issuer = (provider.issuer or "").replace("{tid}", tenant if isinstance(tenant, str) else "")
    audience: Json = claims.get("aud")
    expires = seconds(claims.get("exp"))
    wrong = [
        name
        for name, good in (
            ("iss", claims.get("iss") == issuer),
            ("aud", audience in (provider.client_id, [provider.client_id])),
            ("nonce", claims.get("nonce") == nonce),
            ("exp", expires is not None and now < expires + _LEEWAY),
        )
        if not good
    ]
    if wrong:
        raise AuthError(f"the ID token of {provider.name} is not for this login: {', '.join(wrong)}")
    return claims


def _userinfo(provider: Provider, token: str) -> Flow[dict[str, Json]]:
    assert provider.userinfo_url is not None
    reply = yield from fetch(_get(provider.userinfo_url, token))
    found = read_object(reply.body) if reply.status == 200 else None
    if found is None:
        raise AuthError(f"{provider.name} did not identify the user ({reply.outcome})")
    if provider.emails_url is not None:
        reply = yield from fetch(_get(provider.emails_url, token))
        found["email"] = _primary(reply)
    return found


def _get(url: str, token: str) -> HttpFetch:
    return HttpFetch(
        url, (("Accept", "application/json"), ("Authorization", f"Bearer {token}")), follow=False
    )


def _primary(reply: HttpReply) -> str | None:
    """Return the primary address of a list of addresses, if it is verified."""
    try:
        found: Json = json.loads(reply.body) if reply.status == 200 else []
    except (ValueError, RecursionError):
        return None
    for entry in cast("list[object]", found) if isinstance(found, list) else ():
        said = cast("dict[str, Json]", entry) if isinstance(entry, dict) else {}
        if said.get("primary") is True and said.get("verified") is True:
            return text(said, "email")
    return None


def _token(provider: Provider, form: Mapping[str, str]) -> Flow[dict[str, Json]]:
    """Send a token request. Raises `ProviderRefused` if the login has ended, `AuthError` if the request fails now."""
    client = Registration(provider.client_id, provider.client_secret, BASIC if provider.basic else POST)
    try:
        found, _ = yield from post_form(provider.token_url, (client,), form, provider.name)
    except TokenRejected as rejected:
        if rejected.error in _ENDED:
            raise ProviderRefused(str(rejected)) from None
        raise
    return found


def _tokens(provider: Provider, found: Mapping[str, Json], now: float) -> ProviderTokens:
    access, renewal = usable_token(found, provider.name), text(found, "refresh_token")
    if len(access) + len(renewal or "") > MAX_TOKEN:
        raise AuthError(f"{provider.name} returned no usable token")
    life = seconds(found.get("expires_in"))
    return ProviderTokens(access, renewal, None if life is None else now + life)
