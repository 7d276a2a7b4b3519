"""Middleware that writes down who called what, and how it ended, as lines of JSON that are only ever appended."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any, Final, Literal
from uuid import uuid4

from mcprev.callbacks import at_once, title_of
from mcprev.errors import InternalError, Json, ToolError
from mcprev.middleware.logs import MAX_PAYLOAD, SchemaSecrets, call_members, shown_payload
from mcprev.middleware.records import CallRecord, client_name, entry_name, recorded, recorded_id, wire_of
from mcprev.server.middleware import CallNext, HandlerCall, HandlerResult, is_own
from mcprev.wire.json_values import is_json_object

AUDITED: Final = ("tools/call", "resources/read", "prompts/get")
_REFUSED: Final = "the call cannot be recorded, so it is refused"
_logger: Final = logging.getLogger("mcprev.audit")
Write = Callable[[Mapping[str, Json]], object]


class Audit:
    """Records each call twice, before and after it: `App(..., middleware=[Audit("audit.jsonl")])`.

    A line that is written before a call says who calls what, with params whose secrets are masked; the line with the same `id`
    after it says how the call ended.
    """

    def __init__(
        self,
        to: str | Path | Write,
        *,
        methods: Collection[str] = AUDITED,
        params: bool = True,
        max_params: int = MAX_PAYLOAD,
        on_error: Literal["deny", "warn"] = "deny",
    ) -> None:
        """Set where records go: the path of a file, which only its owner can read, or a function that gets each one.

        - `methods` are the methods to record: calls of tools, reads of resources and prompts by default.
        - `params` are recorded with their secrets masked, at most `max_params` characters; False leaves them out.
        - `on_error` is what happens if a record cannot be written. `deny`, the default, refuses the call, and withholds
          the result of a call that has ended; `warn` logs it. An async function counts as one that cannot write.

        Raises `OSError` if the file cannot be opened.
        """
        self._methods, self._params, self._most = frozenset(methods), params, max_params
        if on_error not in {"deny", "warn"}:
            raise ValueError(f"`on_error` must be 'deny' or 'warn', not {on_error!r}")
        self._denies = on_error == "deny"
        self.secrets: SchemaSecrets = SchemaSecrets()
        """What the app's schemas name as secrets."""
        if isinstance(to, str | Path):
            _opened(to).close()
            self._write: Write = partial(_append, to)
        else:
            self._write = to

    def for_method(self, method: str) -> Audit | None:
        """Return this middleware for a method that is recorded."""
        return self if method in self._methods else None

    async def __call__(self, call: HandlerCall, call_next: CallNext) -> HandlerResult:
        """Record a call and pass it on. Raises `ToolError` or `InternalError` if it cannot be recorded."""
        ctx, of = call.ctx, uuid4().hex
        if is_own(call):
            return await call_next(call)
        about: dict[str, Json] = {
            "id": of,
            "event": "call",
            "method": call.method,
            "name": entry_name(call),
            "principal": ctx.principal,
            "oauth_client": None if ctx.access is None else ctx.access.client_id,
            "client": client_name(ctx),
            "session": ctx.connection.session_id and _short(ctx.connection.session_id),
            "request_id": recorded_id(ctx),
        }
        if self._params:
            about["params"] = shown_payload(_own(wire_of(call.params)), self._most, self.secrets.of(call))
        self._record(call.method, about)
        return await recorded(call, call_next, partial(self._ended, of))

    def _ended(self, of: str, record: CallRecord) -> None:
        told = call_members(record)
        line: dict[str, Json] = {"id": of, "event": "end"}
        line |= {
            name: told.get(name) for name in ("method", "name", "principal", "outcome", "error", "seconds")
        }
        self._record(record.call.method, line, denies=record.error is None)

    def _record(self, method: str, members: Mapping[str, Json], *, denies: bool = True) -> None:
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **members}
        try:
            found = self._write({name: value for name, value in line.items() if value is not None})
            at_once(found, f"{title_of(self._write)}()")
        except Exception as error:
            _logger.exception("a call of '%s' cannot be recorded", method)
            if self._denies and denies:  # a call that failed stays failed, and a cancelled one cancelled
                raise (ToolError if method == "tools/call" else InternalError)(_REFUSED) from error


def _append(path: str | Path, members: Mapping[str, Json]) -> None:
    """Append one line with one write, so that lines of several processes stay whole. Raises `OSError`."""
    line = json.dumps(members, ensure_ascii=True).encode() + b"\n"
    with _opened(path) as file:
        written = file.write(line)
        if written != len(line):
            file.write(b"\n")  # the next record begins on a line of its own
            raise OSError(f"only {written} of {len(line)} bytes were written")


def _opened(path: str | Path) -> FileIO:
    opener = partial(os.open, mode=0o600)
    return open(path, "ab", buffering=0, opener=opener)


def _short(session_id: str) -> str:
    """Return the beginning of a session id, which tells sessions apart and opens none."""
    return session_id[:8]


def _own(params: Any) -> Json:  # noqa: ANN401 - JSON
    """Return params without `_meta`, which the runtime fills."""
    if not is_json_object(params):
        return None
    return {name: value for name, value in params.items() if name != "_meta"}
