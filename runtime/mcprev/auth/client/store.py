"""Token stores: tokens and registrations of a client, by issuer (AUTH-14, AUTH-22).

All values are secrets, so no `repr` shows them. The records hold plain values: a store can write
`dataclasses.asdict(tokens)` and read it back with `Tokens(**found)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class TokenKey(NamedTuple):
    """The key of stored tokens: the authorization server, the MCP server and the client."""

    issuer: str
    """The issuer identifier of the authorization server."""
    resource: str
    """The resource identifier of the MCP server, its URL or a parent of it."""
    client_id: str
    """The client's id at the authorization server."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens that an authorization server issued, as a `TokenStore` stores them."""

    access_token: str = field(repr=False)
    """The token that requests to the MCP server carry."""
    refresh_token: str | None = field(default=None, repr=False)
    """The token that obtains the next access token; None if none was issued."""
    expires_at: float | None = None
    """The expiry of the access token in seconds since 1970; None if unknown."""
    scopes: Sequence[str] | None = None
    """The requested scopes; None if the request named none."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A client registration at one authorization server, as a `TokenStore` stores it."""

    client_id: str
    """The client's id at the authorization server."""
    client_secret: str | None = field(default=None, repr=False)
    """The client's secret; None for a public client."""
    method: str = "none"
    """The token endpoint authentication method: `none`, `client_secret_basic`, `client_secret_post` or
    `private_key_jwt`."""
    redirect_uris: Sequence[str] = ()
    """The registered redirect URIs, if any."""
    expires_at: float | None = None
    """The expiry of the registration in seconds since 1970; None if it does not expire."""


class TokenStore(Protocol):
    """The interface of stores of tokens and registrations. One store can serve any number of clients and servers.

    All values are secrets. `dataclasses.asdict(tokens)` returns plain values, and `Tokens(**found)` reads them back.
    What a method raises is shown without its text, which may have secrets, unless it is an `McpError`.

    A store that several processes share should have a method `lock(issuer)`, which returns an asynchronous context
    manager: one process at a time is inside that of an issuer. Clients hold it while they refresh tokens or
    register; without it, two of them may use one refresh token, which an authorization server takes for a theft. It
    must not block the event loop, must end its wait when it is cancelled, and should end with the process.
    """

    async def tokens(self, key: TokenKey, /) -> Tokens | None:
        """Return the stored tokens, or None if there are none."""
        ...

    async def keep_tokens(self, key: TokenKey, tokens: Tokens | None, /) -> None:
        """Store tokens, replacing earlier ones; None deletes them."""
        ...

    async def registration(self, issuer: str, /) -> Registration | None:
        """Return the client's registration at an authorization server, by its issuer URL; None if there is none."""
        ...

    async def keep_registration(self, issuer: str, registration: Registration | None, /) -> None:
        """Store a registration, replacing an earlier one; None deletes it."""
        ...


class LoopLocks:
    """Locks by name, for one event loop after another."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._locks: dict[str, asyncio.Lock] = {}

    def __call__(self, name: str = "") -> asyncio.Lock:
        """Return the lock with a name in the running loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._locks = loop, {}
        return self._locks.setdefault(name, asyncio.Lock())


class MemoryTokens:
    """Stores tokens and registrations in memory, until the process ends; the default of `OAuth`."""

    def __init__(self) -> None:
        self._tokens: dict[TokenKey, Tokens | None] = {}
        self._registrations: dict[str, Registration | None] = {}
        self._locks = LoopLocks()

    def lock(self, issuer: str, /) -> asyncio.Lock:
        """Return the lock of the tokens and the registration at an authorization server."""
        return self._locks(issuer)

    async def tokens(self, key: TokenKey, /) -> Tokens | None:
        """Return the stored tokens, or None."""
        return self._tokens.get(key)

    async def keep_tokens(self, key: TokenKey, tokens: Tokens | None, /) -> None:
        """Store tokens, replacing earlier ones; None deletes them."""
        self._tokens[key] = tokens

    async def registration(self, issuer: str, /) -> Registration | None:
        """Return the client's registration at an authorization server, or None."""
        return self._registrations.get(issuer)

    async def keep_registration(self, issuer: str, registration: Registration | None, /) -> None:
        """Store a registration, replacing an earlier one; None deletes it."""
        self._registrations[issuer] = registration
