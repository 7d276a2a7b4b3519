"""Sessions of a bridge with several servers belong to the process that they began at (HTTP-9, SEC-5).

Processes that share a store refuse each other's sessions: the connections to the servers are in one of them. If that one
has ended, the session goes on at another, with new connections.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcprev.bridge.introduction import INITIALIZE
from mcprev.bridge.shared_sessions import RENEW, TTL
from mcprev.core.connection import Connection
from mcprev.error_text import internal_error
from mcprev.errors import InternalError, Json, StoreError
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.workers.record import key_of
from mcprev.workers.worker import Worker

if TYPE_CHECKING:
    from mcprev.core.store import Store

ELSEWHERE: Final = (
    "the session is held by another process of this bridge; a bridge with several servers does not pass sessions on: run it in "
    "one process, or run a bridge of its own for each server"
)


class OneProcess:
    """The sessions of this process, among those of all that share a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._worker = Worker(store, self._take, self._lapse, getattr(store, "release", None))
        self._written: dict[str, float] = {}
        """When it was written that a session is held here, by key."""

    async def claim(self, incoming: IncomingRequest, connection: Connection) -> None:
        """Hold the session of a request here. Raises `InternalError` if another process holds it."""
        key = key_of(str(connection.session_id))
        now = time.monotonic()
        if now - self._written.get(key, float("-inf")) < RENEW:
            return
        try:
            number = await self._worker.start()
            name = f"bridged/{key}"
            seen = None
            if incoming.method != INITIALIZE and key not in self._written:
                found = await self._store.read(name)
                holder = 0 if found is None else int(found.value)
                if holder not in (0, number) and await self._worker.is_alive(holder):
                    raise InternalError(ELSEWHERE)
                seen = 0 if found is None else found.version
            if await self._store.write(name, str(number).encode(), seen=seen, ttl=TTL) is None:
                raise InternalError(ELSEWHERE)
        except StoreError as error:
            raise internal_error(error, may_have_run=False) from error
        if key not in self._written:
            connection.closed.add_done_callback(lambda _: self._written.pop(key, None))
        self._written[key] = now

    async def _take(self, _message: dict[str, Json]) -> Json:
        """Answer nothing: processes of this kind send each other no messages."""
        return None

    def _lapse(self, _lost: bool) -> None:  # noqa: FBT001 - as the worker calls it
        """Hold nothing any more: others may have taken the sessions over."""
        self._written.clear()

    async def aclose(self) -> None:
        """Hold nothing any more, so that others need not wait."""
        with suppress(StoreError):
            await self._worker.aclose()
