"""Judges the messages of a session by the schema of their revision, after they were shown."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from mcprev.dev.event_log import EventLog
from mcprev.dev.events import DIRECTIONS, OUT, Event
from mcprev.errors import Json
from mcprev.looking.judging import Violation, judge, judge_headers
from mcprev.wire.jsonrpc import Message

LARGE: Final = 100_000
"""The size from which a message is judged in a thread, in bytes."""
SHOWN: Final = 200
"""How many problems of one message are shown."""
LONGEST: Final = 1000
"""The maximum length of the text of a problem, in characters."""
TURN: Final = 0.005
"""Seconds after which other tasks have their turn."""
logger: Final = logging.getLogger("mcprev.dev")
Told = Callable[[Event], None]


class Verdicts:
    """Judges messages in their order."""

    def __init__(self, log: EventLog, tell: Told) -> None:
        """`tell` is called with each event that has a verdict."""
        self._log, self._tell = log, tell
        self._waiting: deque[int] = deque()
        self._news = asyncio.Event()
        log.observers.append(self._observe)

    def _observe(self, event: Event, message: Message | None) -> None:
        del message
        if event.kind in ("message", "invalid") and event.problems is None:
            self._waiting.append(event.n)
            self._news.set()

    async def run(self) -> None:
        """Judge messages until the task is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._news.clear()
            began = loop.time()
            while self._waiting:
                event = self._log.get(self._waiting.popleft())
                if event is None:
                    continue
                body = self._log.body(event.n)
                try:
                    if event.size > LARGE:
                        found = await asyncio.to_thread(violations, event, body)
                    else:
                        found = violations(event, body)
                except Exception:
                    logger.exception("message %d could not be judged", event.n)
                else:
                    event.problems = len(found)
                    self._tell(event)
                if loop.time() - began > TURN:
                    await asyncio.sleep(0)
                    began = loop.time()
            await self._news.wait()


def violations(event: Event, body: bytes | None) -> list[Violation]:
    """Return the violations of a message at its revision; none if its bytes or revision are not known."""
    if event.kind == "invalid":
        return [Violation("$", event.label)]
    row = event.revision
    if row is None or body is None:
        return []
    method = event.method if event.shape in ("result", "error") else None
    found = judge(body, row, method=method, direction=DIRECTIONS[event.dir])
    exchange = event.exchange
    if exchange is not None and event.dir == OUT and event.shape != "batch":
        found += judge_headers(exchange.sent, body, row)
    return found


def shown(found: list[Violation]) -> list[Json]:
    """Return violations as the page shows them."""
    return [{"path": one.path[:LONGEST], "text": one.message[:LONGEST]} for one in found[:SHOWN]]
