"""The interfaces of stores: what requests, sessions and processes share.

`Records` are replaced by compare-and-set: enough for `ctx.session`, logins, tasks and changes. A `Store` has logs too, and
lists records: what the workers of one server need to share sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final, NamedTuple, Protocol


class Record(NamedTuple):
    """A record as it is stored."""

    value: bytes
    """JSON in UTF-8. It may hold secrets: do not log it."""
    version: int
    """A number above 0 that each write of the record raises, and that no other write of its key ever has."""


class Records(Protocol):
    """Records by key, each with a version and a time to live.

    What a method returns is what is stored at that moment, whichever task or process wrote it. A method raises
    `StoreError` if the store cannot be reached or has no room; then nothing was written, or the outcome is unknown.
    """

    async def read(self, key: str, /) -> Record | None:
        """Return the record, or None if there is none or its time is over."""
        ...

    async def write(
        self, key: str, value: bytes, /, *, seen: int | None = None, ttl: float | None = None
    ) -> int | None:
        """Store a record if its version is still `seen`, and return its new version; else None.

        `seen` 0: only if there is no record. None: whatever is stored. `ttl`: the record ends after this many seconds;
        None: never.
        """
        ...

    async def remove(self, key: str, /, *, seen: int | None = None) -> bool:
        """Remove a record if its version is still `seen`, or whatever it is if `seen` is None; return whether it was there."""
        ...


class LogItem(NamedTuple):
    """An item to append to a log."""

    value: bytes
    """JSON in UTF-8. It may hold secrets: do not log it."""
    droppable: bool = False
    """Whether a reader can do without it: such items are forgotten first."""


class LogBounds(NamedTuple):
    """How much of a log is kept. Beyond it, the oldest droppable items are forgotten, then the oldest."""

    ttl: float
    """Seconds after the last append at which the log ends."""
    items: int = 256
    """The maximum number of items."""
    size: int = 1024 * 1024
    """The maximum number of bytes of all values; the latest item may be larger."""


class LogTail(NamedTuple):
    """The end of a log, as it was read."""

    items: Sequence[tuple[int, bytes]]
    """Numbers and values of the items that are stored, in order; numbers of items that were dropped are left out."""
    last: int
    """The number of the latest item; 0 if the log has none."""
    lost: bool
    """Whether items are gone that the reader needs: they were forgotten and not droppable, or the log began anew."""
    complete: bool
    """Whether the log takes no more items."""


class Store(Records, Protocol):
    """Records that can be listed, and logs: lists of items that a store numbers from one, and that readers wait for.

    Keys of records and names of logs are apart. A store may be used by several event loops at once, each in a thread
    of its own, and after a fork.
    """

    async def write(
        self, key: str, value: bytes, /, *, seen: int | None = None, ttl: float | None = None, index: str = ""
    ) -> int | None:
        """Store a record as `Records.write` does; `listed` finds it under `index`, until it is written otherwise."""
        ...

    async def listed(
        self, index: str, /, *, after: int = 0, limit: int = 100
    ) -> Sequence[tuple[str, Record]]:
        """Return up to `limit` keys and records of an index whose versions are above `after`, the oldest version first.

        So those come first that were not written for longest, and the last version of a page begins the next one.
        """
        ...

    async def append(
        self, log: str, items: Sequence[LogItem], /, *, bounds: LogBounds, seen: int | None = None
    ) -> int | None:
        """Append items to a log if its last number is still `seen`; return the number of the last one, or else None.

        Without items, the log is kept for longer. None too if the log is complete. With `seen` None they are appended whatever the last number is; an append
        whose outcome is unknown is repeated safely only with a number.
        """
        ...

    async def tail(self, log: str, after: int, /, *, wait: float = 0.0) -> LogTail:
        """Return the items after a number; if there is nothing to tell, wait for it up to `wait` seconds.

        An item that is lost, or that the log is complete, ends the wait too. News of an append may be late or get lost;
        the store is asked again when the wait is over, so `wait` is also how late an item can be.
        """
        ...

    async def complete(self, log: str, /, *, ttl: float) -> None:
        """Let a log take no more items, also one that has none yet; it ends after `ttl` seconds."""
        ...

    async def aclose(self) -> None:
        """Release what the running event loop holds of the store; the next use opens it again.

        Waits of this loop end with `StoreError`. Any task may call it, and more than once.
        """
        ...


COMMAND_STORE: Final[ContextVar[Records | None]] = ContextVar("COMMAND_STORE", default=None)
"""The store that `mcprev serve` is told to use; servers that are made in the context take it in place of their own."""
