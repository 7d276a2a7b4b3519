"""Progress of a call on its way to the client, and that of an answer on its way to the server that has asked (PROG-2, PROG-4)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from mcprev.bridge.pair import Pair
from mcprev.conversion import PayloadKind
from mcprev.core.connection import Connection
from mcprev.errors import ConversionError, Json, one_line
from mcprev.protocol.connection_state import PROGRESS, IncomingRequest

logger: Final = logging.getLogger("mcprev.bridge")
Listener: TypeAlias = Callable[[str, dict[str, Json]], None]


class Waiting(Protocol):
    """The exchange of a request that waits for a call."""

    @property
    def incoming(self) -> IncomingRequest:
        """The request."""
        ...

    def send(self, method: str, params: dict[str, Json] | None) -> None:
        """Send the client a notification about its request."""
        ...


def progress_to(waiting: Callable[[], Waiting | None], pair: Pair) -> Listener:
    """Return what passes progress of a call to the request that waits for it, under the token of that request."""

    def report(method: str, params: dict[str, Json]) -> None:
        exchange = waiting()
        token = None if exchange is None else exchange.incoming.token
        if exchange is None or token is None or method != PROGRESS:
            return
        if not pair.same and not _increases(exchange.incoming, params.get("progress")):
            return
        try:
            found = pair.to_client({**params, "progressToken": token}, PROGRESS, PayloadKind.PARAMS)
        except ConversionError as error:
            logger.warning("progress of the server is dropped: %s", one_line(error))
        else:
            exchange.send(PROGRESS, found)

    return report


def progress_back(asked: IncomingRequest, pair: Pair, connection: Connection) -> Listener:
    """Return what passes progress of a client's answer to the server that has asked."""

    def report(method: str, params: dict[str, Json]) -> None:
        if asked.open:
            found = pair.to_server({**params, "progressToken": asked.token}, method, PayloadKind.PARAMS)
            asked.engine.send_notification(method, found, asked)
            connection.process_events()

    return report


def _increases(request: IncomingRequest, progress: Json) -> bool:
    """Return whether progress of a request is larger than the last; a call that is made again begins anew."""  # PROG-2
    if not isinstance(progress, int | float) or progress <= request.progress:
        return False
    request.progress = progress
    return True
