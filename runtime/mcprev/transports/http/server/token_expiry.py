"""Streams that last no longer than the token they were opened with (AUTH-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcprev.transports.http.server.access import Access

LOOK: Final = 3600.0
"""Seconds after which the clock is looked at in any case: somebody may have set it."""


class TokenExpiryTimer:
    """Ends something once its token has expired, unless one that lasts longer was shown meanwhile."""

    def __init__(self, access: Access, clock: Callable[[], float], end: Callable[[], object]) -> None:
        """`clock` is the one by which tokens expire, `end` is called at most once."""
        self._expires = access.expires
        self._clock, self._end = clock, end
        self._timer: asyncio.TimerHandle | None = None
        self._wait()

    def renew(self, access: Access) -> None:
        """Another token of the same subject was shown."""
        if self._expires is not None:
            self._expires = None if access.expires is None else max(self._expires, access.expires)

    def cancel(self) -> None:
        """It has come to its end by itself."""
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
