"""Judges what HTTP responses say outside of their bodies, by the transport of a revision (HTTP-6, HTTP-7, HTTP-10, HTTP-19,
HTTPM-1, HTTPM-3, HTTPM-4).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from mcprev.analysis.judging import Violation
from mcprev.analysis.payloads import quote
from mcprev.errors import Json
from mcprev.json_schema.bounds import LIST
from mcprev.revisions import HttpShape, Revision
from mcprev.wire import media

Note = Mapping[str, Json]
"""A response, as `recording.responses` notes it."""
_DIGITS: Final = re.compile("[0-9]{1,15}")
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")  # HTTP-19
PROBE: Final = "server/discover"
"""Is also sent to servers of revisions without it, whose responses no rule covers."""
_ACCEPTED: Final = 202
_TYPE: Final = 'headers["Content-Type"]'
_SESSION: Final = 'headers["Mcp-Session-Id"]'
_STREAMABLE: Final = frozenset({HttpShape.STREAMABLE})
_POST_ONLY: Final = frozenset({HttpShape.POST_ONLY})
_UNANSWERED: Final = frozenset({"notification", "response"})
_REQUEST: Final = frozenset({"request"})
_STREAM: Final = frozenset({"nothing"})


@dataclass(frozen=True, slots=True)
class ResponseRule:
    """What a response has to be if it accepts what was sent."""

    shapes: frozenset[HttpShape]
    sent: frozenset[str]
    """What was sent: `request`, `notification`, `response` or, with GET, `nothing`."""
    path: str
    wanted: str
    holds: Callable[[Note], bool]
    found: Callable[[Note], object]


RULES: Final = (
    ResponseRule(  # HTTP-6, HTTPM-3
        _STREAMABLE | _POST_ONLY, _UNANSWERED, "status", "status 202 for a notification or response that is accepted",
        lambda note: note.get("status") == _ACCEPTED, lambda note: note.get("status"),
    ),
    ResponseRule(  # HTTP-6
        _STREAMABLE | _POST_ONLY, _UNANSWERED, "body", "no body after a notification or response",
        lambda note: not isinstance(size := note.get("length"), int) or size <= 0, lambda note: f"{note.get('length')} bytes",
    ),
    ResponseRule(  # HTTP-7, HTTPM-4
        _STREAMABLE | _POST_ONLY, _REQUEST, _TYPE, f"{media.JSON} or {media.SSE} after a request",
        lambda note: note.get("content_type") in (media.JSON, media.SSE), lambda note: _quoted(note.get("content_type")),
    ),
    ResponseRule(  # HTTP-10
        _STREAMABLE, _STREAM, _TYPE, f"{media.SSE} or status 405 after GET",
        lambda note: note.get("verb") != "GET" or note.get("content_type") == media.SSE,
        lambda note: _quoted(note.get("content_type")),
    ),
    ResponseRule(  # HTTP-19
        _STREAMABLE, _REQUEST, _SESSION, "characters from ! to ~ in the id of a session",
        lambda note: note.get("session_id_valid") is not False, lambda _: "others",
    ),
    ResponseRule(  # HTTPM-1
        _POST_ONLY, _UNANSWERED | _REQUEST, _SESSION, "no id of a session",
        lambda note: note.get("session_id_valid") is None, lambda _: "one",
    ),
)  # fmt: skip


def is_refusal(status: Json) -> bool:
    """Return whether a status of HTTP refuses what was sent."""
    return isinstance(status, int) and not 200 <= status < 300


def judge_response(note: Note, revision: Revision) -> list[Violation]:
    """Return what is wrong with a response; nothing if it refuses what was sent."""
    status, method = note.get("status"), note.get("method")
    if not isinstance(status, int) or is_refusal(status) or method == PROBE:
        return []
    return [
        Violation(
            rule.path,
            f"{revision.name} requires {rule.wanted}, not {rule.found(note)}",
            method if isinstance(method, str) else None,
        )
        for rule in RULES
        if revision.http in rule.shapes and note.get("sent") in rule.sent and not rule.holds(note)
    ]


def note_of_saved(exchange: Mapping[str, Json], sent: str, method: str | None) -> Note:
    """Return the note of an exchange in a session that `mcprev dev` saved, of what it `sent`.

    The id of a session is masked there, unless the file was saved with secrets: then only its presence is judged.
    """
    found = dict[str, str]()
    for pair in _items(exchange.get("received")):
        match pair:
            case [str(name), str(value)]:
                found.setdefault(name.lower(), value)
            case _:
                pass
    length, session = found.get("content-length", ""), found.get("mcp-session-id")
    return {
        "verb": exchange.get("verb"), "sent": sent, "method": method, "status": exchange.get("status"),
        "content_type": media.media_type(found.get("content-type")),
        "length": int(length) if _DIGITS.fullmatch(length) else None,
        "session_id_valid": None if session is None else _VISIBLE.fullmatch(session) is not None,
    }  # fmt: skip


def _items(value: Json) -> list[Json]:
    found: list[Json] = value if isinstance(value, LIST) else []
    return found


def _quoted(value: Json) -> str:
    return quote(value) if isinstance(value, str) and value else "none"
