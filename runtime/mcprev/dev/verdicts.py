"""Judges the messages of a session by the schema of their revision, after they were shown."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from mcprev.analysis.exchanges import is_refusal
from mcprev.analysis.judging import Violation, judge, judge_headers
from mcprev.analysis.tool_outputs import output_places
from mcprev.dev.event_log import EventLog
from mcprev.dev.events import DIRECTIONS, OUT, SeenEvent
from mcprev.errors import Json
from mcprev.json_schema.validation import compile_schema
from mcprev.wire.jsonrpc import Message, Request, Response, parse

LARGE: Final = 100_000
"""The size from which a message is judged in a thread, in bytes."""
SHOWN: Final = 200
"""How many problems of one message are shown."""
LONGEST: Final = 1000
"""The maximum length of the text of a problem, in characters."""
TURN: Final = 0.001
"""Seconds after which other tasks have their turn."""
logger: Final = logging.getLogger("mcprev.dev")
Told = Callable[[SeenEvent], None]
OutputSchema = Callable[[str, "str | None"], Json]
"""Returns the output schema of a tool at a revision; None if there is none, or it is not known."""
CALL: Final = "tools/call"


class Verdicts:
    """Judges messages in their order."""

    def __init__(self, log: EventLog, tell: Told, schema_of: OutputSchema) -> None:
        """`tell` is called with each event that has a verdict; `schema_of` returns the output schema of a tool."""
        self._log, self._tell, self._schema_of = log, tell, schema_of
        self._waiting: deque[int] = deque()
        self._news = asyncio.Event()
        log.observers.append(self._observe)

    def _observe(self, event: SeenEvent, message: Message | None) -> None:
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
                try:
                    found = await self.of(event)
                except Exception:
                    logger.exception("message %d could not be judged", event.n)
                else:
                    event.problems = len(found)
                    self._tell(event)
                if loop.time() - began > TURN:
                    await asyncio.sleep(0)
                    began = loop.time()
            await self._news.wait()

    async def of(self, event: SeenEvent) -> list[Violation]:
        """Return the violations of a message, and those of the result of a tool against its output schema."""
        body, schema = self._log.body(event.n), self._output_schema(event)
        if event.size > LARGE:
            return await asyncio.to_thread(violations, event, body, schema)
        return violations(event, body, schema)

    def _output_schema(self, event: SeenEvent) -> Json:
        """Return the output schema of the tool whose result this is; None if there is none, or it is not known."""
        asked = None if event.answers is None else self._log.get(event.answers)
        body = None if asked is None else self._log.body(asked.n)
        if event.method != CALL or event.shape != "result" or asked is None or body is None:
            return None
        message = parse(body.strip(), batch=False)
        name: Json = (message.params or {}).get("name") if isinstance(message, Request) else None
        return self._schema_of(name, event.revision) if isinstance(name, str) else None


def violations(event: SeenEvent, body: bytes | None, output_schema: Json = None) -> list[Violation]:
    """Return the violations of a message at its revision; none if its bytes or revision are not known."""
    exchange = event.exchange
    if event.kind == "invalid":
        # The body of a response that refuses the request need not be a message.
        refused = exchange is not None and event.dir != OUT and is_refusal(exchange.status)
        return [] if refused else [Violation("$", event.label)]
    row = event.revision
    if row is None or body is None:
        return []
    method = event.method if event.shape in ("result", "error") else None
    found = judge(body, row, method=method, direction=DIRECTIONS[event.dir])
    if exchange is not None and event.dir == OUT and event.shape != "batch":
        found += judge_headers(exchange.sent, body, row)
    if output_schema is not None:
        found += _output_violations(body, output_schema)
    return found


def _output_violations(body: bytes, schema: Json) -> list[Violation]:
    """Return what is wrong with the structured content of a tool's result, by the schema of the tool."""
    message = parse(body.strip(), batch=False)
    if not isinstance(message, Response):
        return []
    places = output_places(message.result, partial(compile_schema, schema, trusted=False))
    return [Violation(path, text, CALL) for path, text in places]


def shown(found: list[Violation]) -> list[Json]:
    """Return violations as the page shows them."""
    return [{"path": one.path[:LONGEST], "text": one.message[:LONGEST]} for one in found[:SHOWN]]
