"""The notifications of a request that another worker has: several in one message, and a bounded number (SEC-6, PROG-2)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from mcprev.bridge.relay import HOLD, LATER, LOG, MOST, UNREAD, BridgeState, logger
from mcprev.bridge.upstream import Upstream
from mcprev.conversion.rules import JsonObject
from mcprev.core.connection import Connection
from mcprev.errors import Json
from mcprev.protocol.connection_state import PROGRESS

Tell: TypeAlias = Callable[[list[JsonObject]], Awaitable[None]]
"""Puts notifications into the inbox of the worker that has the request."""


class Notes:
    """Sends the notifications of one request to the worker that has it, in their order."""

    def __init__(self, state: BridgeState, tell: Tell) -> None:
        self._state = state
        self._tell = tell
        self.source: Upstream | None = None
        """Where they come from."""
        self._waiting: list[JsonObject] = []
        self._size = 0
        """The bytes of those that wait, or are being sent."""
        self._dropped = 0
        self._held: tuple[Connection, asyncio.TimerHandle] | None = None
        """The connection that is not read, and when it is read again at the latest."""
        self._waited = False
        """Whether the server was held since everything was sent."""
        self._sending: asyncio.Task[None] | None = None

    def send(self, method: str, params: dict[str, Json] | None) -> None:
        """Send a notification after those before it; progress and logs are dropped if too much waits."""
        full = self._size > (MOST if self._waited else UNREAD)
        if (full and method in (PROGRESS, LOG)) or len(self._waiting) >= LATER:
            self._dropped += 1
            return
        self._waiting.append({"method": method, "params": params})
        self._size += len(json.dumps(params))
        if self._size > UNREAD and not self._waited and self.source is not None:
            self._hold(self.source.connection)
        if self._sending is None:
            self._sending = self._state.start(self._run())

    async def sent(self) -> None:
        """Wait until every notification is on its way."""
        if self._sending is not None:
            await asyncio.wait({self._sending})

    def _hold(self, connection: Connection) -> None:
        """Do not read from the server until everything is sent, or some time has passed."""
        connection.hold_reading()
        self._waited = True
        self._held = connection, asyncio.get_running_loop().call_later(HOLD, self._release)

    def _release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held[0].release_reading()
            held[1].cancel()

    async def _run(self) -> None:
        try:
            while self._waiting:
                notes, size = self._waiting, self._size
                self._waiting = []
                await self._tell(notes)
                self._size -= size
        finally:
            self._release()
            self._size, self._waited, self._sending = 0, False, None
        if self._dropped:
            logger.warning(
                "%d notifications were dropped, because the store is too slow for them", self._dropped
            )
            self._dropped = 0
