"""Middleware that logs calls, and middleware that times them."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, cast

from mcprev.errors import Json
from mcprev.json_schema.redaction import Redactor
from mcprev.middleware.records import CallRecord, client_name, entry_name, recorded, recorded_id, wire_of
from mcprev.server.middleware import CallNext, HandlerCall, HandlerResult
from mcprev.wire.text import json_size

MAX_PAYLOAD: Final = 2_000
"""The default limit of a logged payload, in characters."""
SLOW: Final = 1.0
TIMED: Final = 1_000
"""The maximum number of names that are timed one by one; all others are timed together."""
_OTHER: Final = "(others)"
_SCHEMAS: Final = ("inputSchema", "outputSchema")
_PREFIX_END: Final = re.compile(r"[_./-]")
MAX_NAME: Final = 256
"""The characters of a name in which the end of a prefix is looked for."""


class SchemaSecrets:
    """Which values of a call are secrets by the schemas of its tool, whatever their names: passwords, and what is only written."""

    def __init__(self) -> None:
        self._finders: list[Callable[[str, object], Sequence[Any]]] = []

    def learn_from(self, entries: Callable[[str, object], Sequence[Any]]) -> None:
        """Look up the tools of an app, too, by method and params."""
        self._finders.append(entries)

    def of(self, call: HandlerCall) -> Redactor:
        """Return what masks the secrets of a call."""
        found = Redactor()
        asked: list[object] = [call.params, *_named_in(getattr(call.params, "arguments", None))]
        for find in self._finders:
            for entry in (each for params in asked for each in find(call.method, params)):
                listed = wire_of(entry.listed)
                found.json({name: listed[name] for name in _SCHEMAS if name in listed})
        return found


def _named_in(arguments: Any) -> Iterator[object]:  # noqa: ANN401 - of whatever tool
    """Yield params with each name that a tool may have which is called by these arguments of another one.

    An app that is mounted knows its tools without the prefix.
    """
    if not isinstance(arguments, Mapping):
        return
    given = cast("Mapping[str, Any]", arguments)
    name = given.get("name")
    if isinstance(name, str) and isinstance(given.get("arguments"), Mapping):
        yield SimpleNamespace(name=name)
        for end in _PREFIX_END.finditer(name[:MAX_NAME]):
            yield SimpleNamespace(name=name[end.end() :])


def shown_payload(value: Json, most: int, redactor: Redactor | None = None) -> str:
    """Return a JSON value as text with its secrets masked, of at most `most` characters and a mark of what is left out."""
    text = json.dumps((redactor or Redactor()).json(value), ensure_ascii=True, default=str)
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def call_members(record: CallRecord) -> dict[str, Json]:
    """Return the members of a record that say who called what, and how it ended."""
    call, ctx = record.call, record.call.ctx
    found: dict[str, Json] = {
        "method": call.method,
        "name": entry_name(call),
        "client": client_name(ctx),
        "principal": ctx.principal,
        "request_id": recorded_id(ctx),
        "outcome": record.outcome,
        "error": None if record.error is None else type(record.error).__name__,
        "seconds": round(record.seconds, 6),
    }
    return {name: value for name, value in found.items() if value is not None}


class Logging:
    """Logs each call when it has ended: `App(..., middleware=[Logging()])`."""

    def __init__(
        self,
        logger: str | logging.Logger = "mcprev.calls",
        *,
        level: int = logging.INFO,
        methods: Collection[str] | None = None,
        payloads: bool = False,
        max_payload: int = MAX_PAYLOAD,
        as_json: bool = False,
    ) -> None:
        """Set the logger, or its name, and what is logged.

        - `level` is the level of successful calls. Failed tools and refused calls are warnings, other errors are
          errors.
        - `methods` are the methods to log. None: all of them.
        - `payloads` adds params and results, with secrets masked, each of at most `max_payload` characters.
        - `as_json` makes the message one JSON object. Default: `key=value` pairs. The attribute `mcp` of the log record
          holds the members either way.
        """
        self._logger = logging.getLogger(logger) if isinstance(logger, str) else logger
        self._level, self._methods = level, None if methods is None else frozenset(methods)
        self._payloads, self._most, self._as_json = payloads, max_payload, as_json
        self.secrets: SchemaSecrets = SchemaSecrets()
        """What the app's schemas name as secrets."""

    def for_method(self, method: str) -> Logging | None:
        """Return this middleware for a method that is logged."""
        return self if self._methods is None or method in self._methods else None

    async def __call__(self, call: HandlerCall, call_next: CallNext) -> HandlerResult:
        """Pass a call on and log it."""
        return await recorded(call, call_next, self._log)

    def _log(self, record: CallRecord) -> None:
        failed = {"error": logging.ERROR, "refused": logging.WARNING, "tool_error": logging.WARNING}
        level = failed.get(record.outcome, self._level)
        if not self._logger.isEnabledFor(level):
            return
        members, result = call_members(record), wire_of(record.result)
        if result is not None:
            members["bytes"] = json_size(result)
        if self._payloads:
            masking = self.secrets.of(record.call)
            members["params"] = shown_payload(wire_of(record.call.params), self._most, masking)
            if result is not None:
                members["result"] = shown_payload(result, self._most, masking)
        text = json.dumps(members) if self._as_json else _pairs(members)
        self._logger.log(level, "%s", text, extra={"mcp": members})


def _pairs(members: Mapping[str, Json]) -> str:
    """Return members as `key=value`; quotes keep foreign text in its place."""
    return " ".join(
        f"{name}={value if isinstance(value, str) and _is_plain(value) else json.dumps(value)}"
        for name, value in members.items()
    )


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and not set(text) & set(' "=\\') and text != ""


@dataclass(slots=True)
class Times:
    """The durations of the calls of one method, tool, prompt or resource, in seconds."""

    calls: int = 0
    total: float = 0.0
    longest: float = 0.0

    @property
    def mean(self) -> float:
        """The mean of all calls."""
        return self.total / self.calls if self.calls else 0.0


class Timing:
    """Times calls and warns of slow ones: `timing = Timing(slow=0.5)`, later `timing.times`."""

    def __init__(self, *, slow: float | None = SLOW, logger: str | logging.Logger = "mcprev.calls") -> None:
        """`slow` is the time in seconds from which a call is logged as slow, as a warning. None: no call is."""
        self._slow = slow
        self._logger = logging.getLogger(logger) if isinstance(logger, str) else logger
        self.times: dict[tuple[str, str | None], Times] = {}
        """The times by method, and by name of a tool or prompt or URI; at most 1,000 are told apart."""

    async def __call__(self, call: HandlerCall, call_next: CallNext) -> HandlerResult:
        """Pass a call on and time it."""
        return await recorded(call, call_next, self._time)

    def _time(self, record: CallRecord) -> None:
        call, name, seconds = record.call, entry_name(record.call), record.seconds
        if record.outcome == "refused" or (
            (call.method, name) not in self.times and len(self.times) >= TIMED
        ):
            name = None if name is None else _OTHER  # a peer may name any number of things that there are not
        times = self.times.setdefault((call.method, name), Times())
        times.calls += 1
        times.total += seconds
        times.longest = max(times.longest, seconds)
        if self._slow is not None and seconds >= self._slow:
            self._logger.warning("slow call: %s", _pairs(call_members(record)))
