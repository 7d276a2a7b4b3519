"""Event streams of a client, each over one or more responses (HTTP-8, 15, 16, 18, 29; HTTPM-4, 7; SSE-8).

An interrupted stream is resumed with the id of its last event, if the server sent ids: after the delay that the server
requested, but never at once, and only a few times in a row without a new event. The id is updated after an event is complete and
processed, so no event is lost or processed twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from mcprev.transports.http.client.responses import HttpResponse
from mcprev.wire.headers import LAST_EVENT_ID, Pairs
from mcprev.wire.sse import Decoder

FIRST: Final = 0.1
"""Seconds before a stream is resumed, unless the server requests another delay."""
LONGEST: Final = 10.0
"""The maximum delay in seconds after failed attempts, unless the server requests more."""
LONGEST_IDLE: Final = 2.0
"""The maximum delay in seconds after streams that brought events but no message, unless the server requests more."""
FIELDS: Final = 4096
"""The number of bytes that an event may have in addition to its message."""
SLOWLY: Final = (30.0, 60.0)
"""Between how many seconds the own stream of a session is asked for again, after it was lost."""
QUIET: Final = 300.0
"""Seconds without a byte after which a stream that waits for changes counts as lost: the other end may be gone without a
word, or a proxy may have forgotten it. Servers that send comments meanwhile are heard.
"""
LIMIT: Final = 8
"""Consecutive attempts without a new event after which a stream is lost."""


@dataclass(slots=True)
class ResumeState:
    """The position in an event stream."""

    last_event_id: str = ""
    """The id of the last event that had one; empty if the stream cannot be resumed."""
    retry: float | None = None
    """The delay in seconds that the server requested."""  # HTTP-18
    tried: int = 0
    """Attempts since the last event."""
    idle: int = 0
    """Attempts since the last message."""
    stream: int | None = None
    """Its number for a tap."""

    def wait(self) -> float | None:
        """Count an attempt and return the delay before it in seconds; None after the last attempt."""
        tried, self.tried = self.tried, self.tried + 1
        idle, self.idle = self.idle, min(self.idle + 1, LIMIT)
        if tried >= LIMIT:
            return None
        after_failures, after_nothing = FIRST * 2.0**tried, FIRST * 2.0**idle
        backoff = max(min(after_failures, LONGEST), min(after_nothing, LONGEST_IDLE))
        return backoff if self.retry is None else max(self.retry, backoff)

    def headers(self) -> Pairs:
        """Return the header that requests the events after the last one."""
        return [(LAST_EVENT_ID, self.last_event_id)] if self.last_event_id else []


async def follow(
    response: HttpResponse,
    cursor: ResumeState,
    take: Callable[[list[bytes]], bool | None],
    readable: Callable[[], Awaitable[None]],
    quiet: float | None = None,
) -> None:
    """Read a response until its end or until `take` returns True. `take` gets the messages of each chunk; `readable`
    waits while nothing is to be read. After `quiet` seconds without a byte it counts as cut off.

    Raises `ConnectionLost` if the response is cut off, and `EventTooLarge`. An event without data is not a message.
    """
    decoder, tap = Decoder(response.max_message + FIELDS, last_event_id=cursor.last_event_id), response.tap
    if tap is not None:
        cursor.stream = tap.begin(cursor.stream)
    while chunk := await response.chunk(quiet):
        messages: list[bytes] = []
        news = False
        try:
            for event in decoder.feed(chunk):
                news = True
                if tap is not None:
                    tap.event(event)
                if event.is_message:
                    messages.append(event.data)
        finally:
            # An oversized event does not affect those before it.
            enough = take(messages) if messages else None
        if messages:
            cursor.idle = 0
        if news:
            cursor.tried = 0
            cursor.last_event_id = decoder.last_event_id
            if decoder.retry is not None:
                cursor.retry = decoder.retry / 1000
        if enough:
            return
        await readable()
