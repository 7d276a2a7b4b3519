"""Notifications of resources that not every client sees (SUB-3, SUB-8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from mcprev.core.connection import Connection
from mcprev.core.method_binding import log_failure
from mcprev.protocol.endpoint import server_protocol
from mcprev.protocol.subscriptions import CHANGES, Changed
from mcprev.server.context import Context

if TYPE_CHECKING:
    from mcprev.protocol.connection_state import IncomingRequest
    from mcprev.protocol.handshake import HandshakeServer
    from mcprev.protocol.stateless import StatelessServer

Check: TypeAlias = Callable[[Context], Awaitable[bool]]
"""Returns whether the client of a request sees a resource."""
_logger: Final = logging.getLogger("mcprev.server")


class GuardedChanges:
    """Notifies subscribers of a resource after it is known whether they see it."""

    def __init__(self, context: Callable[[Connection, IncomingRequest], Context]) -> None:
        """`context` returns the context of a request, for the check."""
        self._context = context
        self._telling: set[tuple[object, str]] = set()
        """The changes that are not announced yet, because it is not known who sees them."""

    def tell(
        self, connection: Connection, kind: Changed, uri: str | None, check: Check | None
    ) -> list[asyncio.Task[None]]:
        """Notify the client of a connection of a change; of one of a resource after `check`, if it sees that.

        Returns the checks that have begun.
        """
        protocol = server_protocol(connection.protocol)
        if uri is None or check is None:
            protocol.changed(kind, uri)
            connection.process_events()
            return []
        begun: list[asyncio.Task[None]] = []
        for engine in (protocol.session, protocol.stateless):
            for incoming in tuple(engine.subscribers(uri)):
                task = self._start(connection, engine, incoming, uri, check)
                if task is not None:
                    begun.append(task)
        return begun

    def _start(
        self,
        connection: Connection,
        engine: HandshakeServer | StatelessServer,
        incoming: IncomingRequest,
        uri: str,
        check: Check,
    ) -> asyncio.Task[None] | None:
        """Notify a subscriber if it sees the resource; one notification stands for all changes before it."""
        key = (incoming if incoming.open else engine), uri  # a session has one subscriber
        if key in self._telling:
            return None
        self._telling.add(key)

        async def tell() -> None:
            try:
                sees = await check(self._context(connection, incoming))
                self._telling.discard(key)  # the next change needs a notification of its own
                if sees:
                    engine.updated(incoming, uri)
                    connection.process_events()
            except BaseException as error:  # noqa: BLE001 - nothing else ends with it
                log_failure(error, CHANGES[Changed.RESOURCE].method, _logger)

        task = connection.start(tell())
        task.add_done_callback(lambda _: self._telling.discard(key))
        return task
