"""The same message at every other revision: what the ladder makes of it, by which rules, and what is not sent at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from mcprev.analysis.catalog import catalog
from mcprev.analysis.counterparts import counterpart
from mcprev.analysis.explaining import ConversionChange, explain
from mcprev.analysis.judging import Violation, judge
from mcprev.conversion.sessions import request_meta
from mcprev.dev.event_log import EventLog
from mcprev.dev.events import DIRECTIONS, OUT, SeenEvent
from mcprev.dev.verdicts import LONGEST, shown
from mcprev.errors import ConversionError, Json, LocalProtocolError
from mcprev.revisions import ALL, Revision, revision_named
from mcprev.wire.headers import request_headers
from mcprev.wire.jsonrpc import (
    ErrorResponse,
    Notification,
    Request,
    Response,
    encode,
    parse,
)
from mcprev_types import Kind

CHANGES: Final = 1000
"""How many changes are shown."""
VALUE: Final = 2000
"""The maximum length of a value in a change, in characters of JSON."""
TEXT: Final = 10 * 1024 * 1024
"""The maximum length of a message that is shown, in bytes."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A message at another revision."""

    revision: str
    outcome: str
    """`same`, `changed`, `lost`, `refused`, `invalid` or `absent`."""
    data: bytes | None = None
    """The message as it would be sent; None if it is not."""
    changes: tuple[ConversionChange, ...] = ()
    error: ConversionError | None = None
    problems: tuple[Violation, ...] = ()
    counterpart: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    type: str | None = None
    """The name of the type of its params, result or error at the revision."""

    def summary(self) -> dict[str, Json]:
        """Return a line of the list of all revisions."""
        return {
            "revision": self.revision, "outcome": self.outcome, "changes": len(self.changes),
            "lost": sum(map(_loses_data, self.changes)),
            "problems": len(self.problems), "counterpart": self.counterpart,
        }  # fmt: skip

    def document(self) -> dict[str, Json]:
        """Return everything that is shown."""
        sentences = _sentences()
        found = self.summary() | {
            "text": None if self.data is None else self.data[:TEXT].decode(errors="backslashreplace"),
            "cut": self.data is not None and len(self.data) > TEXT,
            "changes": [_change(change, sentences) for change in self.changes[:CHANGES]],
            "changes_left_out": max(len(self.changes) - CHANGES, 0),
            "problems": shown(list(self.problems)), "type": self.type,
            "headers": [list(pair) for pair in self.headers],
        }  # fmt: skip
        if self.error is not None:
            found["refusal"] = {
                "rule": self.error.rule or None, "sentence": sentences.get(self.error.rule),
                "path": self.error.path[:LONGEST], "text": str(self.error)[:LONGEST],
            }  # fmt: skip
        return found


def compare(log: EventLog, event: SeenEvent, body: bytes | None) -> list[Elsewhere]:
    """Return a message at all revisions, its own included; none if it is not a message of a known revision."""
    return [found for revision in ALL if (found := at_revision(log, event, body, revision)) is not None]


def at_revision(log: EventLog, event: SeenEvent, body: bytes | None, revision: Revision) -> Elsewhere | None:
    """Return a message at a revision; None if it is not a message of a known revision."""
    if body is None or event.kind != "message" or event.revision is None or event.method is None:
        return None
    message = parse(body.strip(), batch=False)
    method = event.method
    kind, payload = _payload(message)
    if kind is None:
        return None
    instead = counterpart(method, revision)
    if instead.sent_as != method:
        return Elsewhere(revision.name, "absent", counterpart=instead.sentence)
    here = revision_named(event.revision)
    if here is revision or method not in here.methods or method not in revision.methods:
        # A method of an extension has no schema, and is not converted.
        return _judged(revision, event, message, Elsewhere(revision.name, "same", body))
    found = explain(payload, method, kind, from_=here, to=revision, meta=_meta(log, event, kind))
    if found.error is not None:
        # Without a rule, the payload is not valid, perhaps already where it comes from.
        outcome = "refused" if found.error.rule else "invalid"
        return Elsewhere(revision.name, outcome, changes=found.changes, error=found.error)
    other = _with_payload(message, found.payload)
    data = encode(other, null_id_in_errors=revision.null_id_in_errors)
    lost = any(map(_loses_data, found.changes))
    outcome = "lost" if lost else "changed" if found.changes else "same"
    elsewhere = Elsewhere(revision.name, outcome, data, found.changes)
    return _judged(revision, event, other, elsewhere)


def type_of(event: SeenEvent, revision: Revision) -> str | None:
    """Return the name of the type of a message's params, result or error at a revision; None if it has none."""
    spec = None if event.method is None else revision.methods.get(event.method)
    if spec is None:
        return None
    if event.shape == "result":
        return spec.result
    return None if event.shape == "error" else spec.params


def _payload(message: object) -> tuple[str | None, Json]:
    match message:
        case Request() | Notification():
            return "params", message.params
        case Response():
            return "result", message.result
        case ErrorResponse():
            return "error", message.error
        case _:
            return None, None


def _with_payload(message: object, payload: Json) -> Request | Notification | Response | ErrorResponse:
    match message:
        case Request():
            return Request(message.id, message.method, payload)
        case Notification():
            return Notification(message.method, payload)
        case Response():
            return Response(message.id, payload)
        case ErrorResponse():
            return ErrorResponse(message.id, payload)
        case _:
            raise TypeError("it is not a message")


def _judged(revision: Revision, event: SeenEvent, message: object, found: Elsewhere) -> Elsewhere:
    """Return what was found with the problems of the message at the revision, its headers and its type."""
    assert found.data is not None
    method = event.method if event.shape in ("result", "error") else None
    problems = tuple(judge(found.data, revision, method=method, direction=DIRECTIONS[event.dir]))
    headers: list[tuple[str, str]] = []
    if event.dir == OUT and isinstance(message, Request | Notification):
        try:
            headers = request_headers(revision, message.method, message.params)
        except LocalProtocolError as error:
            problems = (*problems, Violation("$", str(error), event.method))
    return Elsewhere(
        found.revision,
        "invalid" if problems else found.outcome,
        found.data,
        found.changes,
        None,
        problems,
        None,
        tuple(headers),
        type_of(event, revision),
    )


def _meta(log: EventLog, event: SeenEvent, kind: str) -> Mapping[str, Json]:
    """Return what a request of a session would say of the client in `_meta`."""
    introduction = log.introduction(event.conn)
    if kind != "params" or event.dir != OUT or introduction is None or event.revision is None:
        return {}
    spec = revision_named(event.revision).methods.get(event.method or "")
    if spec is None or spec.kind != Kind.REQUEST:
        return {}
    try:
        return request_meta(introduction, from_=event.revision)
    except ConversionError:
        return {}


@cache
def _sentences() -> Mapping[str, str]:
    return {rule.id: rule.text for rule in catalog()}


def _loses_data(change: ConversionChange) -> bool:
    return change.verb == "dropped" and not change.envelope


def _change(change: ConversionChange, sentences: Mapping[str, str]) -> Json:
    step = change.rule.rpartition("/")[0].split("/")
    return {
        "step": "/".join(step[:2]), "rule": change.rule, "sentence": sentences.get(change.rule),
        "path": change.path[:LONGEST], "origin": None if change.origin is None else change.origin[:LONGEST],
        "what": change.verb, "envelope": change.envelope, "old": _value(change.old), "new": _value(change.new),
    }  # fmt: skip


def _value(value: Json) -> Json:
    """Return a value as JSON text, of which a long one is cut."""
    if value is None:
        return None
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE else f"{text[:VALUE]}…"
