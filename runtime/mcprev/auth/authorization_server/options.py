"""The options of an authorization server and their defaults."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from mcprev.auth.authorization_server.grants import ACCESS, SESSION, User
from mcprev.core.store import Records

if TYPE_CHECKING:
    import aiohttp


class LoginOptions(TypedDict, total=False):
    """The keyword arguments of `Login` and `AuthorizationServer`; times are in seconds."""

    secrets: str | bytes | Sequence[str | bytes] | None
    """One random secret of at least 32 bytes, or several: the first one seals what is stored and signs tokens, and what
    any of them has sealed or signed is read. To rotate, put the new one first. None: a secret of the process, with
    which all logins end."""
    store: Records | None
    """Keeps clients, codes and logins. None: the store of the server, and without one the memory of this process."""
    scopes: Sequence[str]
    """The scopes that every request requires, and that a client gets if it asks for none. None by default."""
    optional_scopes: Sequence[str]
    """Further scopes that clients get if they ask for them."""
    allow: Callable[[User], object] | None
    """A function, async or not, that returns whether a user may log in; `user.subject` and `user.claims` are as the
    provider says at the login. It is asked at each refresh too: a login that it refuses ends. None: everybody whom the
    provider lets in, which at GitHub and Google means everybody with an account."""
    remember: float
    """The time for which a browser is not asked again for consent to the same client. 0, the default, asks at every
    login. For clients with a metadata document it always asks: their ids are public."""
    registrations: int
    """How many clients one address may register in an hour: 100 by default."""
    redirect_schemes: Sequence[str]
    """URL schemes of apps that may be redirected to, such as `cursor`. Default: https, and http of the user's machine."""
    scope_texts: Mapping[str, str]
    """What scopes allow, in words for the consent page: `{"shop:write": "Order in your name"}`. A scope without is shown
    as it is."""
    stylesheet: str | None
    """CSS of your own for the pages, after their style. It can load nothing."""
    access_lifetime: float
    """The lifetime of access tokens: 3,600 by default."""
    session_lifetime: float
    """The time after which a login ends that no client has refreshed: 30 days by default."""
    session: aiohttp.ClientSession | None
    """An `aiohttp.ClientSession` that sends the requests to the provider. None: a new session for each request."""
    clock: Callable[[], float]
    """Returns the time in seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSettings:
    """The same options with their defaults."""

    secrets: str | bytes | Sequence[str | bytes] | None = field(default=None, repr=False)
    store: Records | None = None
    scopes: Sequence[str] = ()
    optional_scopes: Sequence[str] = ()
    allow: Callable[[User], object] | None = None
    remember: float = 0.0
    registrations: int = 100
    redirect_schemes: Sequence[str] = ()
    scope_texts: Mapping[str, str] = field(default_factory=dict[str, str])
    stylesheet: str | None = None
    access_lifetime: float = ACCESS
    session_lifetime: float = SESSION
    session: aiohttp.ClientSession | None = None
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        for scheme in self.redirect_schemes:
            if scheme in {"http", "https", "javascript", "data", "file", "blob", "about", "vbscript"}:
                raise ValueError(f"'{scheme}' is not the URL scheme of an app; pass one such as 'cursor'")
        if not (self.access_lifetime > 0 and self.session_lifetime > 0):
            raise ValueError("`access_lifetime` and `session_lifetime` must be positive numbers of seconds")
