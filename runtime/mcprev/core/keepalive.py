"""Asking a peer now and then whether it is still there, where the revision has a way to (PING-2).

Off unless it is wanted. A peer that does not answer in time is gone: the connection is ended, and everybody who
waits for something learns of it. An error is an answer, too.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mcprev.errors import ConnectionLost, McpError, RequestTimeout
from mcprev.protocol.handshake import Handshake
from mcprev.protocol.session_state import State

if TYPE_CHECKING:
    from mcprev.core.connection import Connection

PING = "ping"
PATIENCE = 10.0
"""Seconds that a peer gets to answer a ping: one that is busy is not gone."""


def check_interval(interval: float | None) -> float | None:
    """The seconds between pings. Raises `ValueError` for what is no time to wait."""
    if interval is not None and not interval > 0:
        raise ValueError("the time between pings is a positive number of seconds, or None for no pings")
    return interval


async def keep_pinging(connection: Connection, session: Handshake, interval: float) -> None:
    """Ping whenever `interval` seconds have passed since the last answer."""
    while True:
        await asyncio.sleep(interval)
        if (
            session.state is not State.READY
            or PING not in session.revision.methods
            or not connection.can_reach()
        ):
            continue
        try:
            call = session.call(PING, None, connection.now(), idle=PATIENCE, total=PATIENCE)
            await connection.wait(call)
        except RequestTimeout as error:
            if not connection.can_reach():
                continue  # it could not have heard of it: over HTTP a stream may be gone and the client not
            connection.logger.warning("the peer did not answer a ping within %g s", error.elapsed)
            lost = f"the peer did not answer a ping within {error.elapsed:.3g} s"
            await connection.aclose(ConnectionLost(lost, in_flight=True, retry_safe=False))
            return
        except ConnectionLost:
            if connection.error is not None:
                return
        except McpError as error:
            # It may refuse, or there may be no way to it right now: neither says that it is gone.
            connection.logger.debug("a ping was not answered with a result: %s", error)
