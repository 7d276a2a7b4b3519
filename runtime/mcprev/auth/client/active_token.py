"""The token in use at one server, and the headers that carry it (AUTH-2, AUTH-18)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf
from typing import TYPE_CHECKING, Final

from mcprev.auth.client.discovery import ProtectedServer
from mcprev.auth.client.store import Registration, TokenKey, Tokens
from mcprev.auth.client.tokens import PROOF

if TYPE_CHECKING:
    from mcprev.auth.client.signatures import DpopSigner

AUTHORIZATION: Final = "Authorization"
EARLY: Final = 30.0
"""The maximum number of seconds before its expiry at which a token is refreshed."""


class Source(IntEnum):
    """The source of a token; decides whether a refusal of it is retried."""

    STORED = 0
    REFRESHED = 1
    GIVEN = 2


@dataclass(slots=True, eq=False)
class ActiveToken:
    """The token in use."""

    tokens: Tokens
    source: Source
    place: ProtectedServer
    client: Registration
    dpop_signer: DpopSigner | None = None
    """Signs DPoP proofs if the token is bound to a key."""
    refresh_at: float = field(init=False, default=inf)
    """The time at which to refresh the token, in seconds since 1970; never without a refresh token or an expiry."""
    proved: bool = False
    """Whether the server has accepted it."""

    def __post_init__(self) -> None:
        ends, now = self.tokens.expires_at, time.time()
        if ends is not None and self.tokens.refresh_token is not None:
            self.refresh_at = ends - min(EARLY, max(0, ends - now) / 4)

    @property
    def key(self) -> TokenKey:
        """The key of this token in the store."""
        return TokenKey(self.place.server.issuer, self.place.resource, self.client.client_id)

    def headers(self, verb: str, url: str) -> Mapping[str, str]:
        """Return the headers that authorize a request."""
        token = self.tokens.access_token
        if self.dpop_signer is None:
            return {AUTHORIZATION: f"Bearer {token}"}
        return {AUTHORIZATION: f"{PROOF} {token}", PROOF: self.dpop_signer.prove(verb, url, token)}


def is_good(tokens: Tokens, used: ActiveToken | None) -> bool:
    """Return whether a stored access token has neither expired nor been refused."""
    expired = tokens.expires_at is not None and tokens.expires_at <= time.time()
    return not expired and (used is None or used.tokens.access_token != tokens.access_token)
