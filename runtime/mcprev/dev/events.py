"""The events of a session in the order of the wire: what each message is, and what it belongs to.

An event is a message, a line of stderr, a request without a message, or the begin or end of a connection. `event_log`
keeps them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from mcprev.errors import Json
from mcprev.wire.json_values import is_json_list, is_json_object
from mcprev.wire.jsonrpc import (
    Notification,
    Request,
    RequestId,
)
from mcprev_types import Direction

LABEL: Final = 120
"""The maximum length of a label, in characters."""
NAME: Final = 200
"""The maximum length of a method or an id in a summary, in characters."""
OUT: Final = "out"
"""The direction from the client to the server."""
IN: Final = "in"
DIRECTIONS: Final = {OUT: Direction.CLIENT_TO_SERVER, IN: Direction.SERVER_TO_CLIENT}
_LISTED: Final = ("content", "tools", "resources", "resourceTemplates", "prompts", "contents", "messages")
"""The members of results whose items are counted."""
Pairs: TypeAlias = "Sequence[tuple[str, str]]"


@dataclass(slots=True, eq=False)
class SeenExchange:
    """One HTTP request with its response, shared by the events that it carries."""

    n: int
    verb: str
    url: str
    sent: Pairs = ()
    """The headers of the request."""
    status: int | None = None
    reason: str = ""
    received: Pairs = ()
    """The headers of the response."""
    answered: float | None = None
    """When the response began, in seconds since the session began."""
    call: str | None = None
    """The call of the page whose request this carries."""

    @property
    def path(self) -> str:
        """The path of the URL, without its query."""
        return urlsplit(self.url).path[:NAME] or "/"

    def summary(self) -> dict[str, Json]:
        """Return the exchange as the page lists it."""
        return {
            "n": self.n, "verb": self.verb, "path": self.path, "status": self.status, "answered": self.answered,
        }  # fmt: skip


@dataclass(slots=True)
class SeenEvent:
    """One event; the body of a message is in the spool, under the same number."""

    n: int
    at: float
    """Seconds since the session began."""
    kind: str
    dir: str
    conn: str
    size: int = 0
    exchange: SeenExchange | None = None
    event_id: str | None = None
    event_name: str | None = None
    method: str | None = None
    """The method of a message, or of the request that a response answers."""
    shape: str = ""
    """`request`, `notification`, `result`, `error` or `batch`."""
    id: RequestId | None = None
    answers: int | None = None
    """The number of the request that a response answers, or that a notification is about."""
    answered: int | None = None
    """The number of the response to a request."""
    call: str | None = None
    own: bool = False
    revision: str | None = None
    problems: int | None = None
    label: str = ""

    def summary(self) -> dict[str, Json]:
        """Return the event as the page lists it."""
        found: dict[str, Json] = {
            "n": self.n, "at": round(self.at, 6), "kind": self.kind, "dir": self.dir, "conn": self.conn,
            "size": self.size, "own": self.own, "problems": self.problems, "label": self.label,
        }  # fmt: skip
        exchange = self.exchange
        if exchange is not None:
            found["exchange"] = exchange.summary()
        more: Mapping[str, Json] = {
            "event_id": self.event_id, "event_name": self.event_name, "method": self.method,
            "shape": self.shape or None, "id": _short(self.id), "answers": self.answers, "call": self.call,
            "revision": self.revision,
        }  # fmt: skip
        found.update((name, value) for name, value in more.items() if value is not None)
        return found


@dataclass(frozen=True, slots=True)
class Seen:
    """What reached the wire, for a new event."""

    kind: str
    dir: str
    conn: str
    data: bytes = b""
    exchange: SeenExchange | None = None
    event_id: str | None = None
    event_name: str | None = None
    at: float | None = None
    """Seconds since the session began; None: now."""
    own: bool = False
    call: str | None = None
    revision: str | None = None
    """The revision, if it is known; None: what the messages say."""


def member(value: Json, name: str) -> Json:
    """Return a member of an object; None for any other value."""
    found: object = value
    return found.get(name) if is_json_object(found) else None


def subject(message: Request | Notification) -> str:
    """Return what a request or notification is about: a tool, a URI, a level."""
    for name in ("name", "uri", "level", "message", "taskId", "requestId", "progress"):
        found = member(message.params, name)
        if isinstance(found, str | int | float) and not isinstance(found, bool):
            return line(str(found)[: 4 * LABEL] if isinstance(found, str) else json.dumps(found))
    return line(str(member(member(message.params, "ref"), "name") or ""))


def result_label(result: Json) -> str:
    """Return a few words on a result."""
    if not is_json_object(result):
        return ""
    if result.get("isError") is True:
        return "the tool failed"
    kind = result.get("resultType")
    if isinstance(kind, str) and kind != "complete":
        return line(kind)
    for name in _LISTED:
        found: object = result.get(name)
        if is_json_list(found):
            return f"{len(found)} {name}"
    action = result.get("action")
    return line(action) if isinstance(action, str) else ""


def line(text: str) -> str:
    """Return the beginning of a text in one line of printable characters."""
    text = text[: 4 * LABEL]
    text = " ".join(text.split())
    text = text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= LABEL else f"{text[: LABEL - 1]}…"


def shortened(text: str | None) -> str | None:
    """Return the beginning of a text."""
    return None if text is None else text[:NAME]


def _short(value: RequestId | None) -> Json:
    return value[:NAME] if isinstance(value, str) else value
