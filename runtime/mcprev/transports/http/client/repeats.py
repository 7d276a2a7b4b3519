"""What a client sends again, because a server refuses it for a moment or the connection breaks (HTTPM-7, HTTP-3,
HTTP-23, TOOL-9).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Final

from mcprev.errors import (
    METHOD_NOT_FOUND,
    AuthError,
    ConnectionLost,
    HttpStatusError,
    RpcError,
    SessionExpired,
)
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
SESSION_FORGOTTEN: Final = (
    # the official Python SDK up to 1.23, as plain text; TypeScript servers with a transport for each session, as an error
    (400, "Bad Request: No valid session ID provided"),
    # the official TypeScript SDK, with one transport for all clients that was made anew
    (400, "Bad Request: Server not initialized"),
)
"""What servers answer, besides 404, to a request whose session they do not know: the status, and the text or message."""
_READ: Final = 500
_LOST_SESSION: Final = re.compile(
    r"\bsession\b.{0,40}\b(not found|unknown|expired|invalid|no longer|does not exist|not exist|terminated|closed)\b"
    r"|\b(unknown|invalid|expired|no|no valid|no such) (mcp[- ])?session\b",
    re.IGNORECASE,
)
"""What a 401 without a challenge says that is about the session and not about a token."""


def names_lost_session(error: Exception) -> bool:
    """Return whether the words of an error response say that a session is unknown or over."""
    said = error.message if isinstance(error, RpcError) else getattr(error, "body", "")
    return _LOST_SESSION.search(said[:_READ]) is not None


def session_forgotten(status: int, error: Exception) -> bool:
    """Return whether the error response to a request of a session says that the session is unknown."""  # HTTP-23
    unknown_method = isinstance(error, RpcError) and error.code == METHOD_NOT_FOUND
    said = error.message if isinstance(error, RpcError) else getattr(error, "body", None)
    forgotten = (status == 404 and not unknown_method) or (status, said) in SESSION_FORGOTTEN
    return forgotten or (status == 401 and not isinstance(error, AuthError) and names_lost_session(error))


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
