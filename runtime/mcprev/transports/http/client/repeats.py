"""What a client sends again, because a server refuses it for a moment or the connection breaks (HTTPM-7, HTTP-3, TOOL-9)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from mcprev.errors import ConnectionLost, HttpStatusError, RpcError, SessionExpired
from mcprev.protocol.connection_state import Channel
from mcprev.protocol.engine import CANCELLED
from mcprev.protocol.handshake import INITIALIZED
from mcprev.wire.jsonrpc import Notification

AGAIN: Final = 0.05
"""Seconds until a message is sent again whose connection broke; each further wait is twice as long."""
REPEATABLE: Final = frozenset({INITIALIZED, CANCELLED})
"""The notifications that have no effect when they come a second time."""
REPEATS: Final = 3
"""How many times a message is sent again that the server refuses with 503 and `Retry-After`."""
MAX_DELAY: Final = 10.0
"""The longest such delay that is waited for, in seconds; after a longer one, the error is raised."""


async def wait_to_repeat(
    error: RpcError | HttpStatusError, attempt: int, logger: logging.Logger, *, safe: bool
) -> None:
    """Wait until a refused message may be sent again; raise its error if it may not.

    An MCP server that refuses has not served the message. Of what else answers, nobody knows: then it has to be `safe`.
    """
    delay = error.retry_after
    safe = safe or isinstance(error, RpcError)
    if delay is None or delay > MAX_DELAY or attempt == REPEATS or not safe:
        raise error
    logger.debug("sent again in %g s, after: %s", delay, error)
    await asyncio.sleep(delay)


async def send_repeatedly(
    send: Callable[[bytes, Channel], Awaitable[None]],
    message: bytes,
    channel: Channel,
    logger: logging.Logger,
) -> None:
    """Send a message without response; again if the server refuses it for a moment. Raises `McpError`.

    A response, and what means the same twice, is sent again too if the connection breaks: another process may be there.
    """
    once = isinstance(channel, Notification) and channel.method not in REPEATABLE
    for attempt in range(REPEATS + 1):
        try:
            await send(message, channel)
            break
        except (RpcError, HttpStatusError) as error:
            await wait_to_repeat(error, attempt, logger, safe=True)
        except ConnectionLost as error:
            if once or attempt == REPEATS or isinstance(error, SessionExpired):
                raise
            await asyncio.sleep(AGAIN * 2**attempt)
