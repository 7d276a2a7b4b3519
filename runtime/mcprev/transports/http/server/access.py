"""The content of a valid token: subject, audience and scopes (AUTH-10, AUTH-21)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from sys import float_info
from typing import cast

from mcprev.errors import InvalidRequest, Json, RpcError
from mcprev.protocol.http_request_class import HttpError


class InvalidToken(Exception):
    """A verifier raises it for an invalid token, with the reason: the response is 401, and the client does not learn why.

    The reason is for the server's log: it must not contain the token.
    """


class AccessRefused(InvalidRequest):
    """A request that a tool makes for its client needs more scopes: the client gets the response that it would get itself."""

    def __init__(self, response: HttpError) -> None:
        super().__init__(response.error.message)
        self.response = response
        """The response, with the scopes to ask for, if nothing has been sent for the request of the tool."""


@dataclass(frozen=True, slots=True, init=False)
class Access:
    """The content of a valid token, which the `verify` function of a `Bearer` returns and handlers read as `ctx.access`."""

    subject: str
    """The owner of the token, unique among all authorization servers of the `Bearer`. It becomes `ctx.principal`."""
    audience: tuple[str, ...]
    """The URLs of the resources that the token was issued for."""
    scopes: frozenset[str]
    """The scopes that were granted."""
    client_id: str | None
    """The OAuth client that the token was issued to; None if unknown."""
    expires: float | None
    """The expiry time in seconds since 1970; None if the token does not expire."""
    audience_checked: bool
    """Whether the verifier has checked that the token is for this server; if not, `audience` must contain its resource."""
    claims: Mapping[str, Json] = field(compare=False, repr=False)
    """Further claims of the token, for handlers."""
    refusal: Callable[[str, Mapping[str, Json]], Awaitable[RpcError | None]] | None = field(
        compare=False, repr=False
    )
    """Returns the error of another request with this token, by method and params, if it needs more scopes, as one that a
    tool makes for its client may; set by the `Bearer`."""

    def __init__(
        self,
        subject: str,
        *,
        audience: str | Collection[str] = (),
        scopes: str | Collection[str] = (),
        client_id: str | None = None,
        expires: float | None = None,
        audience_checked: bool = False,
        claims: Mapping[str, Json] | None = None,
    ) -> None:
        """Set the content of a token.

        `audience` is one URL or several; without any, the `Bearer` refuses the token unless `audience_checked` is True: the
        verifier itself has found out that the token is for this server. `scopes` are a collection, or a string with spaces
        between scopes, as in OAuth. `expires` is in seconds since 1970. Raises `TypeError` or `ValueError` for invalid values;
        if that happens in `verify`, the request is refused.
        """
        if not isinstance(cast("object", subject), str) or not subject:
            raise ValueError("the subject of a token must be a string that is not empty")
        if client_id is not None and not isinstance(cast("object", client_id), str):
            raise TypeError("the client id of a token must be a string")
        if expires is not None and (isinstance(expires, bool) or not abs(expires) < float_info.max):
            raise ValueError("the expiry of a token must be a number of seconds since 1970")
        put = object.__setattr__
        put(self, "subject", subject)
        put(self, "audience", as_texts((audience,) if isinstance(audience, str) else audience))
        put(self, "scopes", frozenset(as_texts(scopes.split() if isinstance(scopes, str) else scopes)))
        put(self, "client_id", client_id)
        put(self, "expires", expires)
        put(self, "audience_checked", audience_checked is True)
        put(self, "claims", dict(claims or {}))
        put(self, "refusal", None)

    def with_subject(self, subject: str) -> Access:
        """Return a copy with another subject."""
        found = copy(self)
        object.__setattr__(found, "subject", subject)
        return found


def as_texts(found: Iterable[str]) -> tuple[str, ...]:
    """Return strings as a tuple. Raises `TypeError` for an object, and if any member is not a string."""
    texts = tuple(found)
    if isinstance(found, Mapping) or not all(isinstance(cast("object", text), str) for text in texts):
        raise TypeError("scopes and audiences must be strings")
    return texts
