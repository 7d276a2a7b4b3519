"""The interface of stores: what requests, sessions and processes share, as records that are replaced by compare-and-set."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Record(NamedTuple):
    """A record as it is stored."""

    value: bytes
    """JSON in UTF-8. It may hold secrets: do not log it."""
    version: int
    """A number above 0 that each write of the record changes."""


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
