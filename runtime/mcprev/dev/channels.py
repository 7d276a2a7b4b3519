"""What the page is told: channels of states, of which a slow reader gets the newest, and of lines, of which it gets the last."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Final

from mcprev.errors import Json
from mcprev.wire.json_values import is_json_list, is_json_object

LINES: Final = 1000
"""How many log lines wait for a slow reader."""
STREAMS: Final = 16
"""How many streams are open at once."""
BATCH: Final = 1000
"""How many summaries of events are sent at once."""


def to_json(value: Json) -> str:
    """Return JSON text that every reader accepts: escaped, and with null for a number that JSON has not."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"))


def _finite(value: Json) -> Json:
    found: object = value
    if is_json_object(found):
        return {name: _finite(item) for name, item in found.items()}
    if is_json_list(found):
        return [_finite(item) for item in found]
    return None if isinstance(found, float) and (found != found or abs(found) == float("inf")) else value


def shortened_json(value: Json, most: int) -> Json:
    """Return a value whose JSON text has at most that many characters, or else the beginning of its text."""
    text = to_json(value)
    if len(text) <= most:
        return value
    return f"{value[:most] if isinstance(value, str) else text[:most]}… ({len(text)} characters)"


class Reader:
    """One stream to a page."""

    def __init__(self, since: int) -> None:
        self.since: int = since
        """The number of the next event to send."""
        self.states: dict[tuple[str, str], Json] = {}
        """The newest state of each subject that was not sent yet."""
        self.lines: deque[tuple[str, Json]] = deque(maxlen=LINES)
        self.news: asyncio.Event = asyncio.Event()
        self.closed = False


class Channels:
    """The open streams."""

    def __init__(self) -> None:
        self.readers: set[Reader] = set()

    def state(self, channel: str, key: str, value: Json, *, of_event: int = 0) -> None:
        """Tell the newest state of a subject; not to those who will read it with the event that it is of."""
        for reader in self.readers:
            if reader.since <= of_event:
                continue
            reader.states.pop((channel, key), None)
            reader.states[channel, key] = value
            reader.news.set()

    def line(self, channel: str, value: Json) -> None:
        """Tell a line."""
        for reader in self.readers:
            reader.lines.append((channel, value))
            reader.news.set()

    def wake(self) -> None:
        """Tell that there are new events."""
        for reader in self.readers:
            reader.news.set()

    def close(self) -> None:
        """End all streams."""
        for reader in self.readers:
            reader.closed = True
            reader.news.set()


def frame(channel: str, value: Json) -> bytes:
    """Return an event of the stream; channels are names of this program."""
    return f"event: {channel}\ndata: {to_json(value)}\n\n".encode()
