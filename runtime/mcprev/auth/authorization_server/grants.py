"""Grants: what a user has allowed a client, from the code that is redeemed once to the last refresh token.

A grant is one record: its end ends all its tokens at once. A code is redeemed by one worker only, because the store
replaces its record by compare-and-set; whoever shows it again, or with a wrong proof, ends the grant (RFC 9700, 4.5).
A refresh token carries the number of its rotation. The last but one is still good for `GRACE` seconds and leads to the
same successor, so a client that has lost a response, or that refreshes from two machines, keeps its login; any older
one ends the grant (RFC 9700, 4.14).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from secrets import compare_digest
from typing import Final

from mcprev.auth.authorization_server.keys import ServerKeys, challenge_of_verifier, digest_of
from mcprev.auth.authorization_server.requests import (
    OFFLINE,
    AuthorizationRequest,
    OAuthError,
)
from mcprev.auth.authorization_server.vault import Vault, new_secret
from mcprev.auth.urls import canonical_resource
from mcprev.errors import Json
from mcprev.transports.http.server.access import InvalidToken

CODE: Final = 60.0
"""The lifetime of a code, in seconds."""
ACCESS: Final = 3600.0
"""The lifetime of an access token, in seconds."""
SESSION: Final = 30 * 24 * 3600.0
"""The lifetime of a grant that is not refreshed, in seconds."""
GRACE: Final = 10.0
"""Seconds for which the last but one refresh token is still good."""
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")  # RFC 7636, 4.1
_KIND: Final = "grant"
_CODES: Final = "code"
_REFRESH: Final = "refresh tokens"


@dataclass(frozen=True, slots=True)
class User:
    """A user who has logged in."""

    subject: str
    claims: Mapping[str, Json] = field(default_factory=dict[str, Json])
    tokens: Mapping[str, Json] | None = field(default=None, repr=False)
    """The tokens of the identity provider, as `ProviderTokens` keeps them."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a user has allowed a client."""

    subject: str
    claims: Mapping[str, Json]
    client_id: str
    resource: str
    scopes: tuple[str, ...]
    ends: float
    rotation: int = 0
    """The number of the refresh token that is good; 0 until the code is redeemed."""
    rotated: float = 0.0
    tokens: Mapping[str, Json] | None = field(default=None, repr=False)

    @classmethod
    def read(cls, found: Json) -> Grant:
        """Return a grant that was stored as JSON."""
        said: dict[str, Json] = {**found, "scopes": tuple(found["scopes"])}
        return cls(**said)


class Grants:
    """The grants of an authorization server."""

    def __init__(
        self,
        issuer: str,
        vault: Vault,
        keys: ServerKeys,
        clock: Callable[[], float],
        *,
        access: float,
        session: float,
    ) -> None:
        """`access` and `session` are the lifetimes of access tokens and of grants that are not refreshed, in seconds."""
        self._issuer, self._vault, self._keys, self._clock = issuer, vault, keys, clock
        self._access, self._session = access, session

    async def issue_code(self, request: AuthorizationRequest, user: User) -> str:
        """Store what a user has allowed and return the code for it."""
        code, name = new_secret(), new_secret()
        grant = Grant(
            user.subject, user.claims, request.client_id, request.resource, request.scopes, self._clock() + CODE,
            tokens=user.tokens,
        )  # fmt: skip
        await self._vault.write(_KIND, name, asdict(grant), ttl=CODE, seen=0)
        stored = {"grant": name, "challenge": request.challenge, "redirect_uri": request.redirect_uri}
        await self._vault.write(_CODES, code, {**stored, "used": False}, ttl=CODE, seen=0)
        return code

    async def redeem(self, client_id: str, form: Mapping[str, str]) -> dict[str, Json]:
        """Return the token response for a code. Raises `OAuthError`; a code with a wrong proof is used up too."""
        found = await self._vault.read(_CODES, form.get("code", ""))
        if found is None:
            raise _no_grant("the code is unknown or has expired")
        stored, version = found
        name: str = stored["grant"]
        # The record stays for the life of its grant's first tokens, so that a second use is noticed.
        used = {**stored, "used": True}
        first = not stored["used"] and await self._vault.write(
            _CODES, form["code"], used, ttl=self._access, seen=version
        )
        grant = await self.find(name)
        verifier = form.get("code_verifier", "")
        proof = challenge_of_verifier(verifier) if _VERIFIER.fullmatch(verifier) else ""
        if (
            not first
            or grant is None
            or grant.client_id != client_id
            or not compare_digest(proof, stored["challenge"])
            or form.get("redirect_uri", "") != stored["redirect_uri"]
            or not self._is_for(grant, form)
        ):
            await self.end(name)
            raise _no_grant("the code is not valid for this request, or was used before")
        return await self._rotate(name, 0)

    async def refresh(self, client_id: str, form: Mapping[str, str]) -> tuple[str, int]:
        """Return the grant and rotation of a good refresh token. Raises `OAuthError`; ends the grant of a stolen one."""
        name, rotation = self._refresh_token(form.get("refresh_token", ""))
        grant = await self.find(name)
        if grant is None:
            raise _no_grant("the login has ended")
        late = rotation == grant.rotation - 1 and rotation > 0 and abs(self._clock() - grant.rotated) <= GRACE
        if grant.client_id != client_id or not (rotation == grant.rotation or late):
            await self.end(name)
            raise _no_grant("the refresh token was used before, so the login has ended")
        if not self._is_for(grant, form):
            raise OAuthError("invalid_target", "the refresh token is for another resource")
        return name, rotation

    async def rotated(self, name: str, rotation: int, form: Mapping[str, str]) -> dict[str, Json]:
        """Return the token response for a good refresh token; its access token has the scopes that the form names."""
        scope = form.get("scope")
        return await self._rotate(name, rotation, None if scope is None else scope.split())

    async def _rotate(self, name: str, rotation: int, scopes: list[str] | None = None) -> dict[str, Json]:
        """Issue tokens and count the rotation, unless another worker has just done so for the same refresh token."""

        def next_of(found: Json) -> tuple[Json, float] | None:
            grant, now = Grant.read(found), self._clock()
            if grant.rotation == rotation:
                grant = replace(grant, rotation=rotation + 1, rotated=now, ends=now + self._session)
            return (asdict(grant), grant.ends - now) if rotation + 1 == grant.rotation else None

        found = await self._vault.change(_KIND, name, next_of)
        if found is None:
            await self.end(name)
            raise _no_grant("the login has ended")
        grant = Grant.read(found)
        granted = [scope for scope in grant.scopes if scopes is None or scope in scopes]
        now = int(self._clock())
        claims: dict[str, Json] = {
            "iss": self._issuer,
            "sub": grant.subject,
            "aud": grant.resource,
            "client_id": grant.client_id,
            "scope": " ".join(scope for scope in granted if scope != OFFLINE),
            "iat": now,
            "exp": now + int(self._access),
            "jti": new_secret(),
            "sid": name,
        }
        return {
            "access_token": self._keys.sign(claims),
            "token_type": "Bearer",
            "expires_in": int(self._access),
            "scope": " ".join(granted),
            "refresh_token": self._keys.seal(_REFRESH, self._issuer, [name, grant.rotation]),
        }

    async def of_token(self, token: str) -> tuple[dict[str, Json], Grant]:
        """Return the claims and the grant of an access token. Raises `InvalidToken` for an invalid one."""
        claims = self._keys.verified(token)
        if claims is None or claims.get("iss") != self._issuer:
            raise InvalidToken("its signature is not from a key of this authorization server")
        if not claims["exp"] > self._clock():
            raise InvalidToken("it has expired")
        grant = await self.find(claims["sid"])
        if grant is None:
            raise InvalidToken("its login has ended, was revoked, or is not in the store")
        return claims, grant

    async def find(self, name: str) -> Grant | None:
        """Return a grant that has not ended."""
        found = await self._vault.read(_KIND, name)
        return None if found is None else Grant.read(found[0])

    async def change(self, name: str, changed: Callable[[Grant], Grant | None]) -> Grant | None:
        """Replace a grant by what `changed` makes of it, within its life; None if it has ended or is not to be changed."""

        def dumped(found: Json) -> tuple[Json, float] | None:
            grant = changed(Grant.read(found))
            return None if grant is None else (asdict(grant), grant.ends - self._clock())

        found = await self._vault.change(_KIND, name, dumped)
        return None if found is None else Grant.read(found)

    async def end(self, name: str) -> None:
        """End a grant: none of its tokens is good any more."""
        await self._vault.remove(_KIND, name)

    async def revoke(self, client_id: str, token: str) -> None:
        """End the grant of an access or refresh token, if it is of this client (RFC 7009)."""
        try:
            name, _ = self._refresh_token(token)
        except OAuthError:
            claims = self._keys.verified(token)
            if claims is None:
                return
            name = claims["sid"]
        grant = await self.find(name)
        if grant is not None and grant.client_id == client_id:
            await self.end(name)

    def _refresh_token(self, token: str) -> tuple[str, int]:
        found = self._keys.open(_REFRESH, self._issuer, token)
        if found is None:
            raise _no_grant("the refresh token is not valid")
        return found[0], found[1]

    def _is_for(self, grant: Grant, form: Mapping[str, str]) -> bool:
        """Return whether a token request names the grant's resource, or none."""  # AUTH-9
        said = form.get("resource")
        return said is None or canonical_resource(said) == grant.resource


def secret_digest(secret: str) -> str:
    """Return the digest under which the secret of a client is stored: secrets are random, so it needs no salt."""
    return digest_of("client secret", secret)


def _no_grant(why: str) -> OAuthError:
    return OAuthError("invalid_grant", why)
