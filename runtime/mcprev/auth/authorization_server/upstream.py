"""The metadata of an identity provider, the login of a user there, and its tokens: flows without I/O, sent by a `FlowRunner`."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from mcprev.auth.authorization_server.grants import User
from mcprev.auth.authorization_server.keys import challenge_of_verifier
from mcprev.auth.authorization_server.providers import Provider
from mcprev.auth.client.discovery import BASIC, OAUTH, OPENID, POST, S256, read_object, text, texts
from mcprev.auth.client.steps import NO_KEYS, ClientKeys, Flow, HttpFetch, HttpReply, fetch
from mcprev.auth.client.store import Registration
from mcprev.auth.client.tokens import PRIVATE_KEY, post_form, seconds, usable_token
from mcprev.auth.urls import is_same_issuer
from mcprev.errors import AuthError, Json, TokenRejected
from mcprev.transports.http.urls import printable
from mcprev.wire.json_values import is_json_list, is_json_object

MAX_TOKEN: Final = 16 * 1024
"""The maximum size of a provider's token, in characters."""
MAX_SUBJECT: Final = 512
"""The maximum length of a claim that names a user, in characters: it is part of each token."""
_NAMED: Final = 12
"""How many claims an error names that does not find the one of the user."""
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


def with_metadata(provider: Provider) -> Flow[Provider]:
    """Return a provider with the endpoints that the metadata of its issuer names. Raises `AuthError`."""
    issuer = provider.issuer or ""
    failed = ""
    for url in _metadata_urls(issuer):
        reply = yield from fetch(HttpFetch(url, (("Accept", "application/json"),)))
        found = read_object(reply.body) if reply.status == 200 else None
        if found is None:
            failed = failed or f"{url}: {reply.outcome if reply.status != 200 else 'no JSON object'}"
            continue
        try:
            return _completed(provider, issuer, found)
        except (AuthError, ValueError) as error:
            failed = f"{url}: {error}"
    raise AuthError(
        f"the endpoints of {provider.name} are not known ({printable(failed)}); if it publishes no metadata, pass mcprev.Provider "
        "its `authorize_url`, `token_url` and `userinfo_url`"
    )


def _metadata_urls(issuer: str) -> list[str]:
    parts = urlsplit(issuer)
    at, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    return list(dict.fromkeys([f"{at}{path}{OPENID}", f"{at}{OAUTH}{path}", f"{at}{OPENID}{path}"]))


def _completed(provider: Provider, issuer: str, found: Mapping[str, Json]) -> Provider:
    said = text(found, "issuer") or "nobody"
    # Entra writes a template for the tenants of all.
    if not is_same_issuer(said.replace("{tenantid}", issuer.rstrip("/").split("/")[-2]), issuer):
        raise AuthError(f"it names the issuer {printable(said)} instead of {printable(issuer)}")
    userinfo = provider.userinfo_url or text(found, "userinfo_endpoint")
    authorize, token = text(found, "authorization_endpoint"), text(found, "token_endpoint")
    if authorize is None or token is None:
        raise AuthError("it names no authorization_endpoint and token_endpoint")
    proofs = texts(found, "code_challenge_methods_supported")
    methods = texts(found, "token_endpoint_auth_methods_supported")
    return replace(
        provider,
        issuer=said.replace("{tenantid}", "{tid}"),
        authorize_url=authorize,
        token_url=token,
        userinfo_url=userinfo,
        user_from="id_token" if userinfo is None else provider.user_from,
        basic=provider.basic or methods is None or POST not in methods,
        pkce=proofs is None or S256 in proofs,
    )


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


def log_in(
    provider: Provider,
    callback: str,
    code: str,
    verifier: str,
    nonce: str,
    now: float,
    client_keys: ClientKeys = NO_KEYS,
) -> Flow[User]:
    """Redeem the provider's code and return its user, with the provider's tokens. Raises `AuthError`."""
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": callback}
    if provider.pkce:
        form["code_verifier"] = verifier
    found = yield from _token(provider, form, client_keys)
    tokens = _tokens(provider, found, now)
    if provider.user_from == "id_token":
        claims = id_claims(provider, text(found, "id_token") or "", nonce, now)
    else:
        claims = yield from _userinfo(provider, tokens.access_token)
    parts = [claims.get(member) for member in provider.subject]
    if not all(map(_is_name, parts)):
        there = ", ".join(printable(name) for name in list(claims)[:_NAMED])
        raise AuthError(
            f"{provider.name} did not identify the user: it says no {' and '.join(provider.subject)}, but {there or 'nothing'}; pass "
            "`subject` to its mcprev.Provider, the claims that identify a user for ever, such as subject=('id',)"
        )
    shown = {member: claims[member] for member in provider.claims if claims.get(member) is not None}
    if provider.emails_url is None and claims.get(provider.verified) not in (True, "true"):
        shown.pop("email", None)
    # Of several parts none can be shifted into its neighbour.
    told = [quote(str(part), safe="") if parts[1:] else str(part) for part in parts]
    return User(":".join([provider.name, *told]), shown, tokens.dumped())


def _is_name(part: Json) -> bool:
    """Return whether a claim can name a user: a whole number, or some printable text."""
    return type(part) in {int, str} and 0 < len(str(part)) <= MAX_SUBJECT and str(part).isprintable()


def refresh(
    provider: Provider, tokens: ProviderTokens, now: float, client_keys: ClientKeys = NO_KEYS
) -> Flow[ProviderTokens]:
    """Return new tokens for a refresh token. Raises `ProviderRefused` if the login has ended, `AuthError` if it fails now."""
    form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token or ""}
    found = yield from _token(provider, form, client_keys)
    new = _tokens(provider, found, now)
    # A provider that does not rotate refresh tokens leaves the old one out.
    return new if new.refresh_token else ProviderTokens(new.access_token, tokens.refresh_token, new.expires)


def id_claims(provider: Provider, id_token: str, nonce: str, now: float) -> dict[str, Json]:
    """Return the claims of an ID token that came from the token endpoint. Raises `AuthError` if it is for another login."""
    try:
        found: object = json.loads(urlsafe_b64decode(id_token.split(".")[1] + "=="))
    except (ValueError, IndexError, RecursionError):
        found = None
    claims = found if is_json_object(found) else {}
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
    if found is not None and provider.user_in is not None:
        inner: object = found.get(provider.user_in)
        found = inner if is_json_object(inner) else {}
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
    for entry in found if is_json_list(found) else ():
        said = entry if is_json_object(entry) else {}
        if said.get("primary") is True and said.get("verified") is True:
            return text(said, "email")
    return None


def _token(provider: Provider, form: Mapping[str, str], client_keys: ClientKeys) -> Flow[dict[str, Json]]:
    """Send a token request. Raises `ProviderRefused` if the login has ended, `AuthError` if the request fails now."""
    method = PRIVATE_KEY if provider.private_key else BASIC if provider.basic else POST
    client = Registration(provider.client_id, provider.client_secret, method)
    audience = provider.assertion_audience or provider.token_url
    try:
        found, _ = yield from post_form(
            provider.token_url, (client,), form, provider.name, audience, client_keys
        )
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
