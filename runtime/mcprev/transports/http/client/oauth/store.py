"""What a client keeps of its authorizations: tokens and registrations, each with its issuer (AUTH-14, AUTH-22).

Whatever is in here lets its holder in, so none of it is shown by `repr`. The records are of plain values:
`dataclasses.asdict` is what a store can write down, and `Tokens(**found)` reads it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class TokenKey(NamedTuple):
    """Whose tokens they are."""

    issuer: str
    """The authorization server, as it is named by the server that trusts it."""
    resource: str
    """The server that they are for."""
    client_id: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """What an authorization server gave."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    """In seconds since 1970; None where it was not said."""
    scopes: Sequence[str] | None = None
    """What was asked for; None where that was left to the authorization server."""


@dataclass(frozen=True, slots=True)
class Registration:
    """How one authorization server knows this client."""

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    method: str = "none"
    """How it proves who it is, as OAuth calls it: `none`, `client_secret_basic`, `client_secret_post` or
    `private_key_jwt`."""
    redirect_uris: Sequence[str] = ()
    """Where users may be sent back to, where that was registered."""
    expires_at: float | None = None
    """In seconds since 1970; None where it does not end."""


class TokenStore(Protocol):
    """Where tokens and registrations are kept. One store can serve any number of clients and servers."""

    async def tokens(self, key: TokenKey, /) -> Tokens | None:
        """The tokens that were kept, if any."""
        ...

    async def keep_tokens(self, key: TokenKey, tokens: Tokens | None, /) -> None:
        """Keep tokens in the place of others; None forgets them."""
        ...

    async def registration(self, issuer: str, /) -> Registration | None:
        """How an authorization server knows this client, if it does."""
        ...

    async def keep_registration(self, issuer: str, registration: Registration | None, /) -> None:
        """Keep a registration in the place of another; None forgets it."""
        ...


class MemoryTokens:
    """Keeps tokens for as long as it lives itself."""

    def __init__(self) -> None:
        self._tokens: dict[TokenKey, Tokens] = {}
        self._registrations: dict[str, Registration] = {}

    async def tokens(self, key: TokenKey, /) -> Tokens | None:
        """The tokens that were kept, if any."""
        return self._tokens.get(key)

    async def keep_tokens(self, key: TokenKey, tokens: Tokens | None, /) -> None:
        """Keep tokens in the place of others; None forgets them."""
        if tokens is None:
            self._tokens.pop(key, None)
        else:
            self._tokens[key] = tokens

    async def registration(self, issuer: str, /) -> Registration | None:
        """How an authorization server knows this client, if it does."""
        return self._registrations.get(issuer)

    async def keep_registration(self, issuer: str, registration: Registration | None, /) -> None:
        """Keep a registration in the place of another; None forgets it."""
        if registration is None:
            self._registrations.pop(issuer, None)
        else:
            self._registrations[issuer] = registration
