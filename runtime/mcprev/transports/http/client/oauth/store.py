"""Token stores: tokens and registrations of a client, by issuer (AUTH-14, AUTH-22).

All values are secrets, so no `repr` shows them. The records hold plain values: a store can write
`dataclasses.asdict(tokens)` and read it back with `Tokens(**found)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class TokenKey(NamedTuple):
    """The key of stored tokens."""

    issuer: str
    """The issuer identifier of the authorization server."""
    resource: str
    """The resource identifier of the MCP server."""
    client_id: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens that an authorization server issued."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    """In seconds since 1970; None if unknown."""
    scopes: Sequence[str] | None = None
    """The requested scopes; None if the request named none."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A client registration at one authorization server."""

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    method: str = "none"
    """The token endpoint authentication method: `none`, `client_secret_basic`, `client_secret_post` or
    `private_key_jwt`."""
    redirect_uris: Sequence[str] = ()
    """The registered redirect URIs, if any."""
    expires_at: float | None = None
    """In seconds since 1970; None if the registration does not expire."""


class TokenStore(Protocol):
    """Stores tokens and registrations. One store can serve any number of clients and servers."""

    async def tokens(self, key: TokenKey, /) -> Tokens | None:
        """Return the stored tokens, or None."""
        ...

    async def keep_tokens(self, key: TokenKey, tokens: Tokens | None, /) -> None:
        """Store tokens, replacing earlier ones; None deletes them."""
        ...

    async def registration(self, issuer: str, /) -> Registration | None:
        """Return the client's registration at an authorization server, or None."""
        ...

    async def keep_registration(self, issuer: str, registration: Registration | None, /) -> None:
        """Store a registration, replacing an earlier one; None deletes it."""
        ...


class MemoryTokens:
    """Stores tokens and registrations in memory."""

    def __init__(self) -> None:
        self._tokens: dict[TokenKey, Tokens] = {}
        self._registrations: dict[str, Registration] = {}

    async def tokens(self, key: TokenKey, /) -> Tokens | None:
        """Return the stored tokens, or None."""
        return self._tokens.get(key)

    async def keep_tokens(self, key: TokenKey, tokens: Tokens | None, /) -> None:
        """Store tokens, replacing earlier ones; None deletes them."""
        if tokens is None:
            self._tokens.pop(key, None)
        else:
            self._tokens[key] = tokens

    async def registration(self, issuer: str, /) -> Registration | None:
        """Return the client's registration at an authorization server, or None."""
        return self._registrations.get(issuer)

    async def keep_registration(self, issuer: str, registration: Registration | None, /) -> None:
        """Store a registration, replacing an earlier one; None deletes it."""
        if registration is None:
            self._registrations.pop(issuer, None)
        else:
            self._registrations[issuer] = registration
