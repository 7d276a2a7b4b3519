"""Periodic pings to check that the peer is alive, at revisions with `ping` (PING-2).

Off by default. If a ping gets no response in time, the connection is closed and every pending call fails. An error
response counts as a response.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mcprev.errors import ConnectionLost, McpError, RequestTimeout, one_line
from mcprev.protocol.handshake import Handshake, State

if TYPE_CHECKING:
    from mcprev.core.connection import Connection

PING = "ping"
PATIENCE = 10.0
"""The timeout of a ping in seconds, long enough for a busy peer."""


def check_interval(interval: float | None) -> float | None:
    """Return the interval between pings in seconds. Raises `ValueError` unless it is positive or None."""
    if interval is not None and not interval > 0:
        raise ValueError("`ping_interval` must be a positive number of seconds, or None for no pings")
    return interval


async def keep_pinging(connection: Connection, session: Handshake, interval: float) -> None:
    """Send a ping every `interval` seconds."""
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
                continue  # the ping may not have been sent: over HTTP the stream can be closed while the client is alive
            connection.logger.warning("the peer did not respond to a ping within %g s", error.elapsed)
            lost = f"the peer did not respond to a ping within {error.elapsed:.3g} s"
            await connection.aclose(ConnectionLost(lost, in_flight=True, retry_safe=False))
            return
        except ConnectionLost:
            if connection.error is not None:
                return
        except McpError as error:
            # An error response, or no open stream right now: the peer may still be alive.
            connection.logger.debug("a ping failed: %s", one_line(error))
