"""What a token says that is good: whose it is, whom it is for and what it allows (AUTH-10, AUTH-21)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import TypeVar, cast

from mcprev.errors import Json

T = TypeVar("T")


@dataclass(frozen=True, slots=True, init=False)
class Access:
    """What a token that is good says: whose it is, and what its holder may do."""

    subject: str
    """Who lets the client in; unique among all authorization servers that are named. It becomes `ctx.principal`."""
    audience: tuple[str, ...]
    """Which resources the token is for, as its issuer has it (AUTH-10)."""
    scopes: frozenset[str]
    client_id: str | None
    """Which client it was issued to."""
    expires: float | None
    """In seconds since 1970; None for a token that says nothing of it."""
    claims: Mapping[str, Json] = field(compare=False, repr=False)
    """Whatever else is known of it."""

    def __init__(
        self,
        subject: str,
        *,
        audience: str | Collection[str],
        scopes: str | Collection[str] = (),
        client_id: str | None = None,
        expires: float | None = None,
        claims: Mapping[str, Json] | None = None,
    ) -> None:
        """Say what was found. `scopes` as a text are as OAuth writes them, with spaces between them.

        Raises `TypeError` or `ValueError` for what is nothing of the kind, so that it lets nobody in.
        """
        if not isinstance(cast("object", subject), str) or not subject:
            raise ValueError("the subject of a token is a text that is not empty")
        if client_id is not None and not isinstance(cast("object", client_id), str):
            raise TypeError("the client id of a token is a text")
        if expires is not None and (isinstance(expires, bool) or not isfinite(expires)):
            raise ValueError("a token expires at a number of seconds since 1970")
        put = object.__setattr__
        put(self, "subject", subject)
        put(self, "audience", as_texts((audience,) if isinstance(audience, str) else audience))
        put(self, "scopes", frozenset(as_texts(scopes.split() if isinstance(scopes, str) else scopes)))
        put(self, "client_id", client_id)
        put(self, "expires", expires)
        put(self, "claims", dict(claims or {}))


def as_texts(found: Iterable[str]) -> tuple[str, ...]:
    """The same, of which every member is a text. Raises `TypeError`."""
    texts = tuple(found)
    if not all(isinstance(cast("object", text), str) for text in texts):
        raise TypeError("scopes and audiences are texts")
    return texts


def of_type(found: object, wanted: type[T]) -> T:
    """The same, which an author's callback gave. Raises `TypeError` for what is no such thing."""
    if isinstance(found, wanted):
        return found
    raise TypeError(f"a {wanted.__name__} is wanted, and not a {type(found).__name__}")
