"""How those that listen to a server wait while it is away, and what the log says of it (SUB-5, TIME-1)."""

from __future__ import annotations

import asyncio
import logging
from random import uniform
from typing import Final, Protocol

from mcprev.core.reconnect_policy import SOON
from mcprev.errors import AuthError, one_line

logger: Final = logging.getLogger("mcprev.bridge")
AGAIN: Final = 1.0
"""Seconds before the first attempt to listen again; twice as many before each further one, up to `MOST`."""
MOST: Final = 60.0
STABLE: Final = 30.0
"""Seconds after which a listener was stable, so that its next attempt is the first again."""
JITTER: Final = (0.75, 1.0)
"""What each of these times is multiplied by, so that the listeners of a server that was away do not come at once."""
APART: Final = 0.1
"""Seconds for each of the others, within which those that waited come once the server is back."""
TOLD: Final = 3
"""Failed attempts in a row after which the log says that changes are not heard of."""


class Reachable(Protocol):
    """Whether a server can be reached, where the log says so itself."""

    retry_at: float
    """The time of the loop before which nobody tries."""

    @property
    def down(self) -> bool:
        """Whether the last attempt failed."""
        ...


class Outage:
    """Whether the listeners of one server hear of its changes."""

    def __init__(self, name: str = "", health: Reachable | None = None) -> None:
        """`health` knows whether the server can be reached, and has said it."""
        self.waiting: set[asyncio.Event] = set()
        """Those that wait until the server has responded to somebody."""
        self.over: bool = False
        """Whether nobody listens any more: the bridge ends."""
        self._server = f"the server '{one_line(name)}'" if name else "the server"
        self._health = health
        self._deaf: set[Attempts] = set()
        self._told = False

    def reached(self) -> None:
        """Let those that wait try now: the server has responded to somebody."""
        for each in self.waiting:
            each.set()

    def end(self) -> None:
        """Let nobody wait any more."""
        self.over = True
        self.reached()

    async def until_worth(self, seconds: float | None) -> None:
        """Wait some seconds, or until the server has responded to somebody; None for no other end."""
        if self.over:
            return
        reached, now = asyncio.Event(), asyncio.get_running_loop().time
        began = now()
        if seconds is not None and self._health is not None and self._health.down:
            seconds = max(seconds, self._health.retry_at - began)
        self.waiting.add(reached)
        try:
            async with asyncio.timeout(seconds):
                await reached.wait()
        except TimeoutError:
            return
        finally:
            others = len(self.waiting) - 1
            self.waiting.discard(reached)
        if not self.over:
            apart = uniform(0, APART * others)  # noqa: S311 - no secret
            await asyncio.sleep(max(apart, SOON - (now() - began)))

    def deaf(self, who: Attempts, error: BaseException | None) -> None:
        """Take note of a listener that does not hear of changes, in spite of several attempts."""
        self._deaf.add(who)
        if not (self._told or (self._health is not None and self._health.down)):
            self._told = True
            why = "its stream has ended" if error is None else one_line(error)
            logger.warning("changes of %s are not heard of until it is back: %s", self._server, why)

    def hears(self, who: Attempts) -> None:
        """Take note of a listener that hears of changes, or listens no more."""
        self._deaf.discard(who)
        if self._told and not self._deaf:
            self._told = False
            if not self.over:
                logger.warning(
                    "changes of %s are heard of again; all may have changed in between", self._server
                )


class Attempts:
    """The attempts of one listener to hear of changes again."""

    def __init__(self, outage: Outage) -> None:
        self._outage = outage
        self._tried = 0
        self._since: float | None = None
        """When it began to hear of changes; None if it does not."""

    async def wait(self, error: BaseException | None) -> None:
        """Wait until another attempt is worth it, after one that failed."""
        now = asyncio.get_running_loop().time()
        if self._since is not None and now - self._since >= STABLE:
            self._tried = 0
        self._since, self._tried = None, self._tried + 1
        if self._tried > TOLD:
            self._outage.deaf(self, error)
        # A user is not asked to log in again for this: somebody's request has to succeed first.
        jitter = uniform(*JITTER)  # noqa: S311 - no secret
        seconds = min(AGAIN * 2.0 ** min(self._tried - 1, 10), MOST) * jitter
        await self._outage.until_worth(None if isinstance(error, AuthError) else seconds)

    def heard(self) -> None:
        """Take note that changes are heard of from now on."""
        self._since = asyncio.get_running_loop().time()
        self._outage.hears(self)
        self._outage.reached()

    def end(self) -> None:
        """Listen no more."""
        self._outage.hears(self)
