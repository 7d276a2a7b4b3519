"""Reads a list of a peer, page by page, within bounds (PAGE-1, PAGE-3, TIME-1).

`read_pages` asks for the pages; `ListBudget` alone says whether there is another page to ask for. Whoever reads a list uses
one of the two: a client, the command, a bridge, the page of `mcprev dev`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic_core import to_json

from mcprev.core.pauses import NEVER, Clock
from mcprev.errors import Json, RemoteProtocolError, RequestTimeout
from mcprev.json_schema.bounds import LIST
from mcprev.wire.bounds import OutOfBoundsError, count_values

if TYPE_CHECKING:
    from mcprev_types import Model

TIMEOUT: Final = 60.0
"""Seconds to wait for all pages of a list together, unless the caller has a time of its own."""
MAX_CURSOR: Final = 64 * 1024
"""The maximum length of a cursor, in characters."""


@dataclass(frozen=True, slots=True)
class ListBounds:
    """The bounds of one list; what is beyond them is not read."""

    pages: int = 1_000
    entries: int = 20_000
    size: int = 8 * 1024 * 1024
    """Bytes of JSON text."""
    values: int = 300_000
    """JSON values, keys counted too: a value takes up to 100 bytes of memory, whatever its text is."""


BOUNDS: Final = ListBounds()
"""The bounds of the lists that others send."""


@dataclass(frozen=True, slots=True)
class ListOf:
    """The members of a list and of its entries."""

    member: str
    """The member of the result with the entries."""
    kind: str
    """The name of the type of an entry."""
    key: str
    """The member by which an entry is addressed."""


LISTS: Final[Mapping[str, ListOf]] = {
    "tools/list": ListOf("tools", "Tool", "name"),
    "resources/list": ListOf("resources", "Resource", "uri"),
    "resources/templates/list": ListOf("resourceTemplates", "ResourceTemplate", "uriTemplate"),
    "prompts/list": ListOf("prompts", "Prompt", "name"),
}
"""The lists of a server, by method."""


class ListTooLong(RemoteProtocolError):
    """A list exceeds a bound, or its pages do not end; nothing more of it is read."""


Page = TypeVar("Page")


class ListBudget:
    """How much of a list was read; it says whether another page is asked for."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._bounds = BOUNDS
        self._cursors: set[str] = set()
        self._pages = self._entries = self._size = self._values = 0

    def take(self, page: Mapping[str, Json]) -> str | None:
        """Count a page, which is JSON; return the cursor of the next one, or None after the last.

        Raises `ListTooLong` if the entries of this page are too many or too large: then they are not used.
        """
        found: Json = page.get(LISTS[self._method].member)
        cursor: Json = page.get("nextCursor")
        # A cursor of another type is none, like no cursor.
        following = cursor if isinstance(cursor, str) else None
        return self.count(text_of(page), len(found) if isinstance(found, LIST) else 0, following)

    def count(self, text: bytes, entries: int, cursor: str | None) -> str | None:
        """Count a page by its text and the number of its entries; see `take`."""
        bounds = self._bounds
        self._pages += 1
        self._entries += entries
        self._size += len(text)
        try:
            self._values += count_values(text)
        except OutOfBoundsError:
            self._values += bounds.values + 1
        for found, most, unit in (
            (self._entries, bounds.entries, "entries"),
            (self._size, bounds.size, "bytes"),
            (self._values, bounds.values, "JSON values"),
        ):
            if found > most:
                raise ListTooLong(f"the result of '{self._method}' has more than {most} {unit}")
        return cursor

    def follow(self, cursor: str | None) -> str | None:
        """Return the cursor if its page is to be asked for, None without one. Raises `ListTooLong`."""
        if cursor is None:
            return None
        if cursor in self._cursors or len(cursor) > MAX_CURSOR:
            what = "a cursor is repeated" if cursor in self._cursors else "a cursor is too long"
            raise ListTooLong(f"the pages of '{self._method}' do not end: {what}")
        if self._pages >= self._bounds.pages:
            raise ListTooLong(
                f"the pages of '{self._method}' do not end: they are more than {self._bounds.pages}"
            )
        self._cursors.add(cursor)
        return cursor


def text_of(value: Json) -> bytes:
    """Return the JSON text of a value of a peer, to measure it."""
    try:
        return to_json(value, inf_nan_mode="constants")
    except ValueError:  # lone surrogates
        return json.dumps(value, separators=(",", ":")).encode()


def model_text(page: Model) -> bytes:
    """Return the JSON text of a page that is a model, to measure it."""
    try:
        return page.to_json()
    except ValueError:  # lone surrogates
        return text_of(page.to_wire())


async def read_pages(
    method: str,
    fetch: Callable[[str | None], Awaitable[Page]],
    take: Callable[[ListBudget, Page], str | None],
    *,
    seconds: float | None = TIMEOUT,
    clock: Clock = NEVER,
) -> AsyncGenerator[Page, None]:
    """Yield the pages of a list; `fetch` returns the one of a cursor, the first for None, and `take` counts a page.

    All waits for pages together take at most `seconds` of `clock`, which stands still during a login; what the caller does
    between them is not counted. A fetch is cancelled with the caller. Raises what `fetch` raises, `ListTooLong`, and
    `RequestTimeout`.
    """
    budget, cursor, waited = ListBudget(method), None, 0.0
    while True:
        began, limit = clock.now(), None
        try:
            async with clock.bound(None if seconds is None else seconds - waited) as limit:
                page = await fetch(cursor)
        except TimeoutError:
            if limit is None or not limit.expired():
                raise
            text = f"total timeout: '{method}' was not complete within {seconds:g} s"
            elapsed = waited + clock.now() - began
            raise RequestTimeout(text, elapsed=elapsed, kind="total") from None
        waited += clock.now() - began
        following = take(budget, page)
        yield page
        cursor = budget.follow(following)
        if cursor is None:
            return
