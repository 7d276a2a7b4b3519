"""The state of logins in progress, which any process continues that shares the store of their tokens (AUTH-10, SEC-7)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from mcprev.errors import AuthError, Json

MOST: Final = 2_000
"""The records of one process that keeps them in its memory; beyond it the oldest end."""


class LoginRecords(Protocol):
    """Records of logins by kind and name, each with a version and a time to live."""

    async def read(self, kind: str, name: str) -> tuple[Json, int] | None:
        """Return a value and its version, or None."""
        ...

    async def write(
        self, kind: str, name: str, value: Json, *, ttl: float, seen: int | None = None
    ) -> int | None:
        """Write a value if its version is still `seen` (0: there is none); return the new version, or None."""
        ...

    async def remove(self, kind: str, name: str, *, seen: int | None = None) -> bool:
        """Remove a value if its version is still `seen`; return whether this call removed it."""
        ...


@runtime_checkable
class HasLoginRecords(Protocol):
    """A token store that keeps logins in progress as well."""

    logins: LoginRecords


class MemoryLogins:
    """Keeps the records in the memory of this process."""

    def __init__(self) -> None:
        self._records: OrderedDict[tuple[str, str], tuple[Json, int, float]] = OrderedDict()
        self._version = 0

    async def read(self, kind: str, name: str) -> tuple[Json, int] | None:
        """Return a value and its version; None if there is none or it has expired."""
        value, version, ends = self._records.get((kind, name), (None, 0, 0.0))
        return (value, version) if version and asyncio.get_running_loop().time() < ends else None

    async def write(
        self, kind: str, name: str, value: Json, *, ttl: float, seen: int | None = None
    ) -> int | None:
        """Write a value if its version is still `seen`; see `LoginRecords.write`."""
        before = await self.read(kind, name)
        if seen is not None and seen != (0 if before is None else before[1]):
            return None
        self._version += 1
        self._records.pop((kind, name), None)
        self._records[kind, name] = value, self._version, asyncio.get_running_loop().time() + ttl
        if len(self._records) > MOST:
            self._records.popitem(last=False)
        return self._version

    async def remove(self, kind: str, name: str, *, seen: int | None = None) -> bool:
        """Remove a value if its version is still `seen`; see `LoginRecords.remove`."""
        before = await self.read(kind, name)
        if before is None or (seen is not None and seen != before[1]):
            return False
        del self._records[kind, name]
        return True


class PageKnown(AuthError):
    """The first step of a login has ended: it is known which page the browser has to open."""


@dataclass(kw_only=True)
class LoginStep:
    """One of the two steps of a login: to the page of the authorization server, and from there to the tokens.

    The second one asks for tokens only where the first one has sent the browser: it builds the same URL again, at the same
    authorization server, or the login has failed.
    """

    state: str
    verifier: str
    page: str | None = None
    """The URL to which the browser was sent."""
    place: str | None = None
    """The authorization server, and where it gives tokens."""
    back: str | None = None
    """The URL with which the browser is back; None in the first step."""
    _secrets: int = 0
    _used: bool = False

    def secret(self) -> str:
        """Return the state, then the verifier, as the flow asks for them."""
        self._secrets += 1
        return self.state if self._secrets % 2 else self.verifier

    def begin_at(self, place: str) -> None:
        """Take note of the authorization server. Raises `AuthError` if it is another one than in the first step."""
        if self.back is not None and place != self.place:
            raise AuthError("the authorization server has changed during the login; start it again")
        self.place = place

    async def open(self, url: str) -> str:
        """Return the URL with which the browser is back. Raises `PageKnown` in the first step, and `AuthError`."""
        if self.back is None:
            self.page = url
            raise PageKnown("the browser has to open a page")
        if self._used or url != self.page:
            raise AuthError(
                "what is asked of the authorization server has changed during the login; start it again"
            )
        self._used = True
        return self.back
