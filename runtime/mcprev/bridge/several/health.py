"""Whether one of several servers can be reached: one that cannot takes no other along (TIME-1, STDIO-7).

After an attempt that failed, nobody tries again before a time that doubles with each failure, so that calls fail at
once. An attempt of a client that waits, or of the next call after that time, brings the server back.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from mcprev.bridge.refusals import refusal_of
from mcprev.errors import AuthError, McpError, RpcError, one_line
from mcprev.wire.payloads import mask_text

AGAIN: Final = 1.0
"""Seconds before the second attempt; twice as many before each further one, up to `MOST`."""
MOST: Final = 60.0
STABLE: Final = 30.0
"""Seconds after which a connection counts as stable, so that the next failure counts as the first."""
_TEXT: Final = 300


def reason_of(error: BaseException) -> str:
    """Return why a server cannot be reached, on one line and without secrets; no texts of errors of the bridge itself."""
    if not isinstance(error, McpError | OSError):
        return type(error).__name__
    return (
        refusal_of(error)
        or one_line(mask_text(str(error).partition("\n")[0])[:_TEXT])
        or type(error).__name__
    )


class ServerDown(McpError):
    """One of the servers behind a bridge cannot be reached; the others can."""


class ServerRefuses(ServerDown, AuthError):
    """One of the servers behind a bridge responds, and refuses the bridge; the others serve."""


class Turned(Protocol):
    """A function that is told when a server goes or is back."""

    def __call__(self, *, up: bool) -> None:
        """Take note of it."""
        ...


class Health:
    """Whether one server can be reached."""

    def __init__(self, *, of_users: bool = False) -> None:
        """`of_users` is for a server at which users log in: one who lacks an authorization does not make it down."""
        self._of_users = of_users
        self.turned: Turned | None = None
        """Called when the server goes and when it is back."""
        self._failures = 0
        self._since = 0.0
        self._refused: str | None = None
        self.reason: str | None = None
        """Why it is down; None while it is up or nobody has tried."""
        self.retry_at: float = 0.0
        """The time of the loop before which nobody tries again."""

    @property
    def down(self) -> bool:
        """Whether the last attempt failed."""
        return self.reason is not None

    def check(self) -> None:
        """Raise `ServerDown`, or `ServerRefuses`, while it is down and no attempt is due."""
        left = self.retry_at - asyncio.get_running_loop().time()
        if self.reason is not None and left > 0:
            error = ServerDown if self._refused is None else ServerRefuses
            raise error(f"{self._refused or self.reason}; the next attempt is in {left:.0f} s")

    def opened(self) -> None:
        """Take note of a connection."""
        self._since = asyncio.get_running_loop().time()
        was_down, self.reason = self.down, None
        if was_down:
            self._turn(up=True)

    def failed(self, error: Exception) -> None:
        """Take note of an attempt that failed."""
        if isinstance(error, ServerDown | RpcError) or (self._of_users and isinstance(error, AuthError)):
            return
        was_down = self.down
        self._count()
        self._refused = refusal_of(error)
        self.reason = (
            f"it cannot be reached: {reason_of(error)}"
            if self._refused is None
            else f"it responds, but requires authorization: {self._refused}"
        )
        if not was_down:
            self._turn(up=False)

    def _turn(self, *, up: bool) -> None:
        if self.turned is not None:
            self.turned(up=up)

    def _count(self) -> None:
        now = asyncio.get_running_loop().time()
        self._failures = self._failures + 1 if now - self._since < STABLE or self.down else 1
        self.retry_at = now + min(AGAIN * 2.0 ** min(self._failures - 1, 10), MOST)
