"""Replaces the lost connection of a client, one attempt at a time and within bounds (STDIO-7, HTTP-23, SUB-5).

A call in flight fails and is not sent again, because the server may have executed it; `SessionExpired` is the
exception. Later calls wait for the new connection, which is opened when a call or a subscription needs it.
Subscriptions and the log level are then set again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mcprev.core.reconnect_policy import ReconnectPolicy
from mcprev.errors import AuthError, ConnectionLost, Json, McpError, RequestTimeout, SessionExpired

if TYPE_CHECKING:
    from mcprev.core.connection import Connection
    from mcprev.protocol.negotiation.steps import Plan

logger: Final = logging.getLogger("mcprev.client")


@dataclass(frozen=True, slots=True)
class OpenedConnection:
    """A connection with a negotiated revision."""

    connection: Connection
    plan: Plan
    discovery: Mapping[str, Json]
    """The server's DiscoverResult at the latest revision."""


class Reconnector:
    """Holds the connection of one client and replaces it when it is lost."""

    def __init__(
        self,
        opened: OpenedConnection,
        reopen: Callable[[OpenedConnection], Awaitable[OpenedConnection]],
        restarts: ReconnectPolicy,
        adopt: Callable[[OpenedConnection], Awaitable[None]],
    ) -> None:
        self.opened: OpenedConnection = opened
        self.times: int = 0
        """How many times the connection has been replaced."""
        self._reopen = reopen
        self._restarts = restarts
        self._adopt = adopt
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._tried = 0
        self._task: asyncio.Task[McpError | None] | None = None
        self._closing = False

    async def replace(self, lost: Connection, reason: McpError, end: float | None = None) -> None:
        """Wait until another connection replaces `lost`, at most until the loop time `end`.

        Raises `reason` if no connection may be opened (policy, closed client), `ConnectionLost` if every attempt
        failed, `AuthError` or `RequestTimeout`.
        """
        if self._closing:
            raise reason
        if self.opened.connection is not lost:
            return
        task = self._task
        if task is None or task.done():
            if not self._restarts.limit and not isinstance(reason, SessionExpired):
                raise reason
            task = self._task = self._loop.create_task(self._again(reason))
        began = self._loop.time()
        timeout = None if end is None else max(end - began, 0.0)
        done, _ = await asyncio.wait({task}, timeout=timeout)
        if not done:
            elapsed = self._loop.time() - began
            text = f"no new connection within {elapsed:.3g} s (total timeout)"
            raise RequestTimeout(text, elapsed=elapsed, kind="total")
        if task.cancelled():
            raise reason
        error = task.result()
        if error is not None:
            raise error

    async def _again(self, reason: McpError) -> McpError | None:
        """Open another connection within the policy's number of attempts; return the error if all fail."""
        policy = self._restarts
        if self._loop.time() - self._since >= policy.stable:
            self._tried = 0
        # An expired session is no failure of the server: the first attempt is not counted.
        counted = not isinstance(reason, SessionExpired)
        last = reason
        while not counted or self._tried < policy.limit:
            if counted:
                delay = policy.delay(self._tried)
                self._tried += 1
                await asyncio.sleep(delay)
            counted = True
            try:
                self.opened = await self._reopen(self.opened)
            except AuthError as error:
                return error  # do not ask the user to log in repeatedly
            except McpError as error:
                last = error
                logger.warning("the server cannot be reached again: %s", error)
                continue
            self.times += 1
            self._since = self._loop.time()
            logger.warning("connected again after: %s", reason)
            await self._adopt(self.opened)
            return None
        lost = ConnectionLost(
            f"the connection was lost and is not opened again: {last}", in_flight=False, retry_safe=True
        )
        lost.__cause__ = last
        return lost

    async def stop(self) -> None:
        """Stop replacing connections."""
        self._closing = True
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})
