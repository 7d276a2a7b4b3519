"""How often a client connects again to a server that it lost (STDIO-7, HTTP-23)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ReconnectPolicy:
    """How often and how fast a client connects again to a server that it lost."""

    limit: int = 3
    """The most attempts in a row; a connection that does not last counts as one."""
    backoff: float = 0.1
    """Seconds to wait before the first attempt; doubled before each further one."""
    longest: float = 5.0
    """The most seconds to wait before an attempt."""
    stable: float = 30.0
    """Seconds after which a connection counts as lasting, and the attempts are counted from zero again."""

    def __post_init__(self) -> None:
        if self.limit < 0 or min(self.backoff, self.longest, self.stable) < 0:
            raise ValueError("the numbers of restarts and their seconds cannot be negative")

    def delay(self, tried: int) -> float:
        """Return the seconds to wait after `tried` attempts in a row."""
        return float(min(self.backoff * 2.0 ** min(tried, 60), self.longest))


NEVER: Final = ReconnectPolicy(limit=0)
"""A lost server is not connected to again."""
