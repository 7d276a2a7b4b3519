"""Ends a stream when its token expires (AUTH-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcprev.transports.http.server.access import Access

LOOK: Final = 3600.0
"""The maximum number of seconds between two looks at the clock, which may be set at any time."""


class TokenExpiryTimer:
    """Calls `end` when a token has expired, unless a later token of the same subject was shown."""

    def __init__(self, access: Access, clock: Callable[[], float], end: Callable[[], object]) -> None:
        """`clock` is the clock for token expiry; `end` is called at most once."""
        self._expires = access.expires
        self._clock, self._end = clock, end
        self._timer: asyncio.TimerHandle | None = None
        self._wait()

    def renew(self, access: Access) -> None:
        """Extend the timer to the expiry of another token of the same subject."""
        if self._expires is not None:
            self._expires = None if access.expires is None else max(self._expires, access.expires)

    def cancel(self) -> None:
        """Stop the timer, because the stream has ended."""
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        if self._expires is not None:
            left = max(self._expires - self._clock(), 0)
            self._timer = asyncio.get_running_loop().call_later(min(left, LOOK), self._look)

    def _look(self) -> None:
        if self._expires is not None and self._expires <= self._clock():
            self._end()
        else:
            self._wait()
