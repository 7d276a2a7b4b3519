"""A bound that several clients share, and of which each has a share (SEC-6).

A client is a principal, or a network address where nothing authenticates; see `mcprev.core.interfaces.client_of`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

RESERVE: Final = 8
"""One of so many parts of a bound is kept for clients that have not used their shares."""
PART: Final = 4
"""The share of a client is a part of the bound: one of so many."""


def free_of(most: int) -> int:
    """Return what one client may use of a bound where a proxy may stand for all clients: all but an eighth."""
    return most - most // RESERVE


def share_of(most: int, least: int = 1) -> int:
    """Return the share that a client has of a bound: a quarter, but at least `least` if the bound allows that."""
    return min(most, max(most // PART, least, 1))


class Shares:
    """Counts what clients hold of one bound: all together `most`, and each client `each`, or more while much is free."""

    __slots__ = ("_held", "each", "free", "held", "most")

    def __init__(self, most: int, each: int | None = None, *, free: int = 0) -> None:
        """Set the bound, and the share of a client. None: a quarter of the bound.

        A client may hold more than its share if all together hold `free` at most then.
        """
        self.most: int = most
        self.each: int = share_of(most) if each is None else each
        self.free: int = free
        self.held: int = 0
        """What all clients hold."""
        self._held: dict[Hashable, int] = {}

    def of(self, client: Hashable) -> int:
        """Return what a client holds; 0 for an unknown one."""
        return self._held.get(client, 0)

    def exceeds_share(self, client: Hashable, size: int = 1) -> bool:
        """Return whether `size` more is beyond the share of a client; None is a client that nothing tells from others."""
        return client is not None and self.held + size > self.free and self.of(client) + size > self.each

    def take(self, client: Hashable, size: int = 1) -> bool:
        """Reserve `size` for a client; return False and reserve nothing if that is beyond its share or the bound."""
        if self.held + size > self.most or self.exceeds_share(client, size):
            return False
        self.held += size
        if client is not None:
            self._held[client] = self.of(client) + size
        return True

    def give(self, client: Hashable, size: int = 1) -> None:
        """Give back what `take` has reserved."""
        self.held -= size
        if client is not None and size:
            left = self._held[client] - size
            if left:
                self._held[client] = left
            else:
                del self._held[client]
