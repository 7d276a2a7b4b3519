"""The interfaces of stores: what requests, sessions and processes share.

`Records` are replaced by compare-and-set: enough for `ctx.session`, logins, tasks and changes. A `Store` has logs too, and
lists records: what the workers of one server need to share sessions.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from hashlib import sha256
from typing import Final, NamedTuple, Protocol

from typing_extensions import TypeIs


class Record(NamedTuple):
    """A record as it is stored."""

    value: bytes
    """JSON in UTF-8. It may contain secrets: do not log it."""
    version: int
    """A number above 0, which each write of the record increases; no two writes of one key have the same number."""


class Records(Protocol):
    """Records by key, each with a version and a time to live.

    Methods return the current state of the store, whichever task or process wrote it (linearizable). A method raises
    `StoreError` if the store cannot be reached or has no room; then nothing was written, or the outcome is unknown.
    """

    async def read(self, key: str, /) -> Record | None:
        """Return the record, or None if there is none or it has expired."""
        ...

    async def write(
        self, key: str, value: bytes, /, *, seen: int | None = None, ttl: float | None = None
    ) -> int | None:
        """Store a record if its version is still `seen`, and return its new version; else None.

        `seen` 0: only if there is no record. None: unconditionally. `ttl`: the record expires after this many seconds;
        None: never.
        """
        ...

    async def remove(self, key: str, /, *, seen: int | None = None) -> bool:
        """Remove a record if its version is still `seen`, or unconditionally if `seen` is None; return whether it existed."""
        ...


class LogItem(NamedTuple):
    """An item to append to a log."""

    value: bytes
    """JSON in UTF-8. It may contain secrets: do not log it."""
    droppable: bool = False
    """Whether readers can do without the item: such items are deleted first."""


class LogBounds(NamedTuple):
    """The limits of a log. Beyond them, the oldest droppable items are deleted first, then the oldest of all."""

    ttl: float
    """Seconds after the last append at which the log expires."""
    items: int = 256
    """The maximum number of items."""
    size: int = 1024 * 1024
    """The maximum number of bytes of all values; the latest item may be larger."""


class LogTail(NamedTuple):
    """The items of a log after a number, as `Store.tail` returns them."""

    items: Sequence[tuple[int, bytes]]
    """Numbers and values of the items that are stored, in order; numbers of items that were dropped are left out."""
    last: int
    """The number of the latest item; 0 if the log has none."""
    lost: bool
    """Whether the reader has missed items: items that are not droppable were deleted, or the log was created anew."""
    complete: bool
    """Whether the log is complete: nothing can be appended any more."""


class Store(Records, Protocol):
    """A store of records with indexes, and of logs: lists of items, numbered from 1, whose readers wait for more.

    Keys of records and names of logs are separate namespaces. Several event loops may use a store at once, each in a
    thread of its own, and after a fork.
    """

    async def write(
        self, key: str, value: bytes, /, *, seen: int | None = None, ttl: float | None = None, index: str = ""
    ) -> int | None:
        """Store a record as `Records.write` does; `listed` finds it under `index`, until a write without it or with another."""
        ...

    async def listed(
        self, index: str, /, *, after: int = 0, limit: int = 100
    ) -> Sequence[tuple[str, Record]]:
        """Return up to `limit` keys and records of an index whose versions are above `after`, the oldest version first.

        The records that were written least recently come first; pass the last version of a page as `after` for the
        next page.
        """
        ...

    async def append(
        self, log: str, items: Sequence[LogItem], /, *, bounds: LogBounds, seen: int | None = None
    ) -> int | None:
        """Append items to a log if the number of its last item is still `seen`; return the new last number, else None.

        Without items, only the expiry of the log is renewed. Returns None too if the log is complete. `seen` None
        appends unconditionally; an append whose outcome is unknown can be repeated safely only with a number.
        """
        ...

    async def tail(self, log: str, after: int, /, *, wait: float = 0.0) -> LogTail:
        """Return the items after a number; if there are none, wait for them up to `wait` seconds.

        The wait also ends if items were lost or the log becomes complete. Notifications of appends may be late or get
        lost; the store is read again at the end of the wait, so `wait` is also the maximum delay of an item.
        """
        ...

    async def complete(self, log: str, /, *, ttl: float) -> None:
        """Mark a log as complete, even an empty one, so that nothing can be appended; it expires after `ttl` seconds."""
        ...

    async def aclose(self) -> None:
        """Close the connections of the running event loop to the store; the next use opens them again.

        Waits of this loop end with `StoreError`. Any task may call it; further calls have no effect.
        """
        ...


def is_whole(records: Records | None) -> TypeIs[Store]:
    """Return whether records are those of a whole store, with indexes and logs."""
    return hasattr(records, "append")


COMMAND_STORE: Final[ContextVar[Records | None]] = ContextVar("COMMAND_STORE", default=None)
"""The store that `mcprev serve` is told to use; servers that are made in the context take it in place of their own."""

SPARE_STORE: Final[ContextVar[Records | None]] = ContextVar("SPARE_STORE", default=None)
"""The store of servers that are made in the context and have none, whose process will be followed by another one."""

PIPE_SESSION: Final[ContextVar[str | None]] = ContextVar("PIPE_SESSION", default=None)
"""The name of the session on stdin and stdout, if it goes on at the next process; None if it ends with this one."""

STORED_FOR: Final[ContextVar[str | None]] = ContextVar("STORED_FOR", default=None)
"""Whose share of a store counts what is written: the digest of a client, or None for what the server keeps for itself.

A record or log that is written again for nobody stays whose it was.
"""


def client_digest(client: str) -> str:
    """Return what stands in a store for a client, whose name or address nobody learns from it."""
    return sha256(client.encode("utf-8", "surrogateescape")).hexdigest()[:32]


@contextmanager
def stored_for(digest: str | None) -> Generator[None]:
    """Let what is written within count for the share of a client; see `client_digest`."""
    token = STORED_FOR.set(digest)
    try:
        yield
    finally:
        STORED_FOR.reset(token)


def stored_for_client(client: str | None) -> AbstractContextManager[None]:
    """Let what is written within count for the share of a client, if it is known; see `client_of`."""
    return stored_for(None if client is None else client_digest(client))
