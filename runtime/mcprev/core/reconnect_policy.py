"""How often a client connects again to a server that it lost (STDIO-7, HTTP-23)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ReconnectPolicy:
    """How often and how fast a client reconnects after a lost connection, for `connect(restart=...)`."""

    limit: int = 3
    """The maximum number of attempts in a row: 3 by default. A connection that is lost within `stable` seconds counts
    as a failed attempt."""
    backoff: float = 0.1
    """Seconds to wait before the first attempt, doubled for each further one: 0.1 by default."""
    max_backoff: float = 5.0
    """The maximum number of seconds to wait before an attempt: 5 by default."""
    stable: float = 30.0
    """Seconds after which a connection is stable, so that attempts are counted from zero again: 30 by default."""

    def __post_init__(self) -> None:
        if self.limit < 0 or min(self.backoff, self.max_backoff, self.stable) < 0:
            raise ValueError("the members of a ReconnectPolicy must not be negative")

    def delay(self, tried: int) -> float:
        """Return the seconds to wait after `tried` consecutive attempts."""
        return float(min(self.backoff * 2.0 ** min(tried, 60), self.max_backoff))


NEVER: Final = ReconnectPolicy(limit=0)
"""A lost server is not connected to again."""
SOON: Final = 1.0
"""Seconds between two attempts to listen at least, also where other requests succeed meanwhile."""
