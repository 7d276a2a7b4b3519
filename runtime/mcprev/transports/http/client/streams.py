"""Streams of events that a client reads, over as many responses as it takes (HTTP-8, 15, 16, 18, 29; HTTPM-4, 7; SSE-8).

A stream that ends too early goes on in another response if the server gave its events ids: that is asked for with the
last id seen, after the time that the server wants to be left alone, at most a few times in a row without news. An
event is counted once it is complete and was handed on, so that nothing is lost or seen twice however a stream is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mcprev.wire.headers import LAST_EVENT_ID, Pairs
from mcprev.wire.sse import Decoder

if TYPE_CHECKING:
    from mcprev.transports.http.client.responses import HttpResponse
    from mcprev.transports.http.client.session import HttpSession

FIRST: Final = 0.1
"""Seconds before a stream is taken up again, unless the server says otherwise."""
LONGEST: Final = 10.0
"""Seconds before an attempt at most, unless the server wants more."""
FIELDS: Final = 4096
"""Bytes that an event may have beside its message."""
LIMIT: Final = 8
"""Attempts in a row that bring nothing, after which a stream is lost."""


@dataclass(slots=True)
class ResumeState:
    """Where a stream stands."""

    last_event_id: str = ""
    """The id of the last event that named one; empty where the stream cannot be taken up again."""
    retry: float | None = None
    """Seconds that the server wants to be left alone before it is asked again (HTTP-18)."""
    tried: int = 0
    """Attempts since the last event."""

    def wait(self) -> float | None:
        """Count an attempt and say how many seconds to wait before it; None when there were enough."""
        tried, self.tried = self.tried, self.tried + 1
        if tried >= LIMIT:
            return None
        backoff = min(FIRST * 2.0**tried, LONGEST)
        return backoff if self.retry is None else max(self.retry, backoff if tried else 0.0)

    def headers(self) -> Pairs:
        """What asks for the events that follow."""
        return [(LAST_EVENT_ID, self.last_event_id)] if self.last_event_id else []


async def follow(
    requests: HttpSession,
    response: HttpResponse,
    cursor: ResumeState,
    take: Callable[[list[bytes]], bool],
) -> None:
    """Read a response to its end, or until `take` has enough; it is given the messages of each chunk.

    Raises `ConnectionLost` when the response is cut off, and `EventTooLarge`. An event without data is no message.
    """
    decoder = Decoder(requests.max_message + FIELDS, last_event_id=cursor.last_event_id)
    while chunk := await requests.chunk(response):
        messages: list[bytes] = []
        news = False
        try:
            for event in decoder.feed(chunk):
                news = True
                if event.is_message:
                    messages.append(event.data)
        finally:
            # An event that is over the limit takes nothing from those before it.
            enough = bool(messages) and take(messages)
        if news:
            cursor.tried = 0
            cursor.last_event_id = decoder.last_event_id
            if decoder.retry is not None:
                cursor.retry = decoder.retry / 1000
        if enough:
            return
