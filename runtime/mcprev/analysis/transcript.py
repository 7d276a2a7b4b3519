"""Validates captured messages against a revision, one by one, without I/O (BASE-1 to 4, 10; BATCH-6; LIFE-1; MOD-3).

A `TranscriptValidator` takes lines. It parses each as the wire does, determines its revision, looks up the method in
that revision's table and validates params and results with that revision's models. Requests are kept by direction
until their response, so that a result is validated by the method of its request. What a model fills in must be there if
the schema requires it, and content of a type that the revision does not have is a violation.

The specification leaves these points open; they are decided here:

- Without a fixed revision, a message that states its version belongs to that one. Any other belongs to the session that
  `initialize` opened, else to the last stated version with which the other side has worked: a result came to a request of it.
  Else it belongs to the version that `initialize` requested and was not refused, else to the last version that was stated.
- A line without a direction gets the direction that its method implies. A result without a direction may be for either
  side and is matched with the request that it fits.
- Deviations that the wire tolerates (`"params": null`, unknown members) are no violations here either.
- A line with a `session` (text or a number) belongs to the connection of that name. `initialize` after a session was
  opened begins another one. Ids are unique within a session.
- The messages of the tasks extension are known at the revisions that have it.
- Of a session that `mcprev dev` saved, whose first line says its format, messages are validated, what was sent instead of
  one, and the response of each HTTP exchange, by what its first event sent.
- A request without a response is counted and named, and no violation: a capture may end at any time. One that HTTP has
  refused has its response: the status. A body of such a refusal that is no message is no violation.
- A line with the number of an `http` exchange and what was `sent` notes the response: it belongs to the transport, not to the messages.
- The result of a tool is also held against the output schema that an earlier `tools/list` of the session gave it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from mcprev.analysis.exchanges import is_refusal, judge_response, note_of_saved
from mcprev.analysis.judging import (
    INITIALIZE,
    Violation,
    judge_call,
    judge_error,
    judge_result,
    members_of,
    same_version,
    session_revision,
)
from mcprev.analysis.payloads import Place, quote
from mcprev.analysis.tool_outputs import CALL, LIST_TOOLS, ToolOutputs
from mcprev.errors import Json
from mcprev.protocol.endpoint import describe_malformed
from mcprev.revisions import ALL, DEFAULT, Revision, by_version
from mcprev.wire import media
from mcprev.wire.jsonrpc import (
    MAX_LINE,
    Batch,
    ErrorResponse,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
    Shape,
    parse,
)
from mcprev.wire.meta_keys import VERSION
from mcprev_types import Direction

SAVED: Final = 2
"""The format of the sessions that `mcprev dev` saves."""

_OPENING: Final = ("{", "[")
_SENT: Final[dict[type, str]] = {
    Request: "request",
    Notification: "notification",
    Response: "response",
    ErrorResponse: "response",
    type(None): "nothing",
}
"""What an HTTP request has sent, by the type of its message."""
Key: TypeAlias = tuple[Direction | None, RequestId]
"""The key of a request: its sender and its id."""


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request without a response so far."""

    line: int
    """The line of the transcript."""
    id: RequestId
    method: str | None = None
    """None for a request that could not be read."""
    revision: Revision | None = None
    tool: str | None = None
    """The tool that it calls."""
    stated: bool = False
    """Whether it states its revision."""


class _Session:
    """What is known about one session: its revision, and its requests."""

    def __init__(self) -> None:
        self.opened: Revision | None = None
        self.asked: Revision | None = None
        self.stated: Revision | None = None
        self.works: Revision | None = None
        """The last stated revision of a request that had a result."""
        self.refused: set[Key] = set()
        """The requests of those without a response that HTTP has refused."""
        self.pending: dict[Key, PendingRequest] = {}
        self.outputs = ToolOutputs()
        self.seen: set[Key] = set()
        self.stream: Json = None
        """The URL of the last event stream that a GET has opened, in a saved session."""
        self.lost = False
        """Whether it was reported that the revision is unknown."""

    def waiting(self) -> list[PendingRequest]:
        """Return the requests that nothing has answered."""
        return [request for key, request in self.pending.items() if key not in self.refused]

    def has_status(self, request_id: Json, status: Json) -> None:
        """Take note of the status of the HTTP response to a request of the client."""
        for side in (Direction.CLIENT_TO_SERVER, None):
            if not isinstance(request_id, str | int) or (side, request_id) not in self.pending:
                continue
            self.refused.discard((side, request_id))
            if is_refusal(status):
                self.refused.add((side, request_id))
                self._refused_to_open(self.pending[side, request_id])

    def answered(self, key: Key, *, error: bool) -> PendingRequest:
        """Return the request that a response belongs to; it waits no longer."""
        self.refused.discard(key)
        request = self.pending.pop(key)
        if error:
            self._refused_to_open(request)
        elif request.stated:
            self.works = request.revision
        return request

    def _refused_to_open(self, request: PendingRequest) -> None:
        if request.method == INITIALIZE and request.revision is self.asked:
            self.asked = None


class TranscriptValidator:
    """Validates a transcript line by line."""

    def __init__(self, fixed: Revision | None = None) -> None:
        """Validate against one revision; None determines the revision from the transcript."""
        self._fixed = fixed
        self._sessions: defaultdict[str | int | None, _Session] = defaultdict(_Session)
        """The latest session of each connection."""
        self._name: str | int | None = None
        """The name of the connection that the line belongs to."""
        self._left: list[PendingRequest] = []
        """The requests of earlier sessions without a response."""
        self._line = 0
        self._used: set[Revision] = set()
        self._saved = False
        """Whether the lines are those of a saved session."""
        self._refusals: set[int] = set()
        """The HTTP exchanges of a saved session whose status refuses what was sent."""
        self._exchange: tuple[int, dict[str, Json]] | None = None
        """The last HTTP exchange of a saved session, with its line, until the event that it carries first."""
        self.messages: int = 0
        """The number of messages, including members of batches and invalid messages."""
        self.mixed: bool = False
        """Whether a message says another version than that of the fixed revision."""

    @property
    def without_response(self) -> list[PendingRequest]:
        """The requests without a response so far, in the order of their lines."""
        waiting = [each for session in self._sessions.values() for each in session.waiting()]
        return sorted([*self._left, *waiting], key=lambda each: each.line)

    @property
    def revisions(self) -> tuple[str, ...]:
        """The revisions that messages were validated against, oldest first."""
        used = {revision.name for revision in self._used}
        return tuple(revision.name for revision in ALL if revision.name in used)

    def feed(self, number: int, data: bytes) -> list[Violation]:
        """Validate a line, which is a message or an object that contains one. Never raises."""
        data = data.strip()
        if not data:
            return []
        self._name, self._line = None, number
        if len(data) > MAX_LINE:
            self.messages += 1
            return [Violation("$", f"a line of more than {MAX_LINE} bytes", line=number)]
        message = parse(data, batch=self._batches)
        direction: Direction | None = None
        head: dict[str, Json] = {}
        found: list[Violation] = []
        wrapped = _unwrap(data) if isinstance(message, Malformed) else None
        if wrapped is None and isinstance(message, Malformed):
            members = _members(data)
            if isinstance(members.get("http"), int) and isinstance(members.get("sent"), str):
                return self._check_response(members, number)
            if isinstance(members.get("response"), int) and isinstance(members.get("body"), str):
                return []
            if self._is_other_part(members):
                number_of_exchange = members.get("http")
                if isinstance(number_of_exchange, int):
                    self._exchange = number, members
                    if is_refusal(members.get("status")):
                        self._refusals.add(number_of_exchange)
                    return []
                return self._check_exchange(members, None)
        if wrapped is not None:
            named, self._name, data, head = wrapped
            message = parse(data, batch=self._batches)
            try:
                direction = None if named is None else Direction(named)
            except ValueError:
                allowed = " nor ".join(f"'{d.value}'" for d in Direction)
                found.append(Violation("$", f"the line's direction is neither {allowed}", line=number))
        for one in message.messages if isinstance(message, Batch) else (message,):
            self.messages += 1
            method, places = self._check(one, direction)
            found += [Violation(path, said, method, number) for path, said in places]
        return found if wrapped is None else found + self._check_exchange(head, message)

    def _check_exchange(self, event: dict[str, Json], message: Message | Batch | None) -> list[Violation]:
        """Judge the response of a saved exchange by the first event that it carries, with its message if it has one."""
        line, exchange = self._exchange or (0, {})
        if not exchange or event.get("exchange") != exchange["http"]:
            return []
        self._exchange, self._name = None, _session_name(event)
        session = self._session
        method = message.method if isinstance(message, Request | Notification) else None
        revision = self._revision_of(message.id if isinstance(message, Request) else None)
        if isinstance(message, Request):
            session.has_status(message.id, exchange.get("status"))
        note = note_of_saved(exchange, _SENT.get(type(message), "other"), method)
        if note["verb"] == "GET" and note["content_type"] == media.SSE:
            session.stream = exchange.get("url")
        older = session.stream not in (None, exchange.get("url"))  # HTTP+SSE, where no rule covers responses
        if older or revision is None or event.get("direction") != Direction.CLIENT_TO_SERVER:
            return []
        return [replace(one, line=line) for one in judge_response(note, revision)]

    def _check_response(self, note: dict[str, Json], number: int) -> list[Violation]:
        """Judge a note of an HTTP response by the revision of its session."""
        self._name = _session_name(note)
        revision = self._revision_of(note.get("id"))
        self._session.has_status(note.get("id"), note.get("status"))
        return (
            [] if revision is None else [replace(one, line=number) for one in judge_response(note, revision)]
        )

    def _revision_of(self, request_id: Json) -> Revision | None:
        """Return the revision of a request of the client that waits for its response, else that of its session."""
        known = isinstance(request_id, str | int)
        keys: list[Key] = [(side, request_id) for side in (Direction.CLIENT_TO_SERVER, None)] if known else []
        found = next(
            (self._session.pending[key].revision for key in keys if key in self._session.pending), None
        )
        return self._fixed or found or self._current

    def _is_other_part(self, members: dict[str, Json]) -> bool:
        """Return whether a line is a part of a saved session that is no message, such as the text of a refusal."""
        if not self.messages and members.get("format") == SAVED:
            self._saved = True
        if members.get("kind") == "invalid" and members.get("direction") == Direction.SERVER_TO_CLIENT:
            exchange = members.get("exchange")
            return self._saved and isinstance(exchange, int) and exchange in self._refusals
        return self._saved and members.get("kind") not in ("message", "invalid") and "jsonrpc" not in members

    @property
    def _session(self) -> _Session:
        """The session that the line belongs to."""
        return self._sessions[self._name]

    @property
    def _current(self) -> Revision | None:
        """The revision of a message that does not state its own."""
        session = self._session
        return self._fixed or session.opened or session.works or session.asked or session.stated

    @property
    def _batches(self) -> bool:
        """Whether the line may be a batch."""
        current = self._current
        return current is None or current.accepts_batch

    def _check(self, message: Message, direction: Direction | None) -> tuple[str | None, list[Place]]:
        match message:
            case Malformed():
                if message.shape is Shape.REQUEST and message.id is not None:
                    self._session.pending[direction, message.id] = PendingRequest(self._line, message.id)
                text = describe_malformed(message) if message.shape is Shape.NOT_JSON else message.message
                return None, [("$", text)]
            case Request() | Notification():
                return message.method, self._check_call(message, direction)
            case Response() | ErrorResponse():
                return self._check_answer(message, direction)

    # -- requests and notifications ------------------------------------------------------------------------

    def _check_call(self, message: Request | Notification, direction: Direction | None) -> list[Place]:
        if message.method == INITIALIZE and self._session.opened is not None:
            self._left += self._session.waiting()
            self._sessions[self._name] = _Session()
        revision, found = self._row_of(message)
        spec = None if revision is None else revision.methods.get(message.method)
        if direction is None and spec is not None and len(spec.directions) == 1:
            (direction,) = spec.directions
        if isinstance(message, Request):
            found += self._remember(message, revision, direction)
        if revision is None:
            return found
        self._used.add(revision)
        return found + judge_call(message, revision, direction)

    def _remember(
        self, message: Request, revision: Revision | None, direction: Direction | None
    ) -> list[Place]:
        """Keep a request until its response; report a duplicate id if the direction is known."""
        key, session = (direction, message.id), self._session
        found: list[Place] = []
        if direction is not None and key in session.pending:
            found.append(("$.id", "a request with this id is still in flight"))
        elif direction is not None and key in session.seen and revision and revision.id_unique_in_session:
            found.append(("$.id", "the same side has used this id before"))
        session.seen.add(key)
        name: Json = (message.params or {}).get("name") if message.method == CALL else None
        tool = name if isinstance(name, str) else None
        stated = isinstance(_stated_version(message), str)
        session.pending[key] = PendingRequest(self._line, message.id, message.method, revision, tool, stated)
        session.refused.discard(key)
        return found

    def _row_of(self, message: Request | Notification) -> tuple[Revision | None, list[Place]]:
        """Return the revision that a message belongs to."""
        params = message.params or {}
        version = _stated_version(message)
        if isinstance(version, str):
            return self._stating(version, f"$.params._meta[{json.dumps(VERSION)}]")
        if self._fixed is not None:
            return self._fixed, []
        if message.method == INITIALIZE:
            wanted: Json = params.get("protocolVersion")
            asked = by_version(wanted, ALL) if isinstance(wanted, str) else None
            # A client may request a version that only it knows; the server then responds with another.
            newest = next(revision for revision in reversed(DEFAULT) if revision.handshake)
            self._session.asked = asked if asked is not None and asked.handshake else newest
            return self._session.asked, []
        if self._current is None and not self._session.lost:
            self._session.lost = True
            return None, [("$", "nothing so far says of which revision this is, so it cannot be checked")]
        return self._current, []

    def _stating(self, version: str, path: str) -> tuple[Revision | None, list[Place]]:
        """Return the revision of a message that states its version."""
        if self._fixed is not None:
            self.mixed = self.mixed or version != self._fixed.version
            return self._fixed, same_version(version, self._fixed, path)
        revision = by_version(version, ALL)
        if revision is None:
            return self._current, [(path, f"unknown protocol version {quote(version)}")]
        self._session.stated = revision
        return revision, []

    # -- responses -----------------------------------------------------------------------------------------

    def _check_answer(
        self, message: Response | ErrorResponse, direction: Direction | None
    ) -> tuple[str | None, list[Place]]:
        if message.id is None:
            return None, []
        senders = [side for side in (*Direction, None) if direction is None or side is not direction]
        waiting = self._session.pending
        keys = [key for side in senders if (key := (side, message.id)) in waiting]
        if not keys:
            return None, [("$.id", "this is a response to no request, or to one that had a response already")]
        if isinstance(message, ErrorResponse):
            request = self._session.answered(keys[0], error=True)
            return request.method, (
                [] if request.revision is None else judge_error(message.error, request.revision)
            )
        verdicts = [(key, self._check_result(waiting[key], message.result)) for key in keys]
        key, found = next((v for v in verdicts if not v[1]), verdicts[0])
        request = self._session.answered(key, error=False)
        method = request.method
        if method == LIST_TOOLS and request.revision is not None:
            self._session.outputs.learn(request.revision, message.result)
        if method == INITIALIZE:
            self._session.opened = session_revision(message.result) or self._session.opened
        return method, found

    def _check_result(self, request: PendingRequest, result: Json) -> list[Place]:
        method, revision = request.method, request.revision
        if method is None or revision is None:
            return []
        found: list[Place] = []
        if method == INITIALIZE:
            version = members_of(result).get("protocolVersion")
            path = "$.result.protocolVersion"
            if isinstance(version, str) and self._fixed is not None:
                self.mixed = self.mixed or version != self._fixed.version
                found = same_version(version, revision, path)
            elif isinstance(version, str):
                answered = session_revision(result)
                if answered is None:
                    found = [(path, f"no protocol version that has sessions: {quote(version)}")]
                else:
                    revision = answered
                    self._used.add(revision)
        found += judge_result(method, revision, result)
        return found or self._session.outputs.judge(request.tool, result)


def _unwrap(data: bytes) -> tuple[Json, str | int | None, bytes, dict[str, Json]] | None:
    """Return direction, session, message and all members of a line that contains them; None for any other line."""
    try:
        value: Json = json.loads(data)
        members = members_of(value)
        if "message" not in members or "jsonrpc" in members:
            return None
        text = _text_of(members["message"]).encode()
        return members.get("direction"), _session_name(members), text, members
    except (ValueError, RecursionError):
        return None


def _session_name(members: dict[str, Json]) -> str | int | None:
    session = members.get("session")
    return session if isinstance(session, str | int) else None


def _stated_version(message: Request | Notification) -> Json:
    """Return the version that a message states of itself."""
    return members_of((message.params or {}).get("_meta")).get(VERSION)


def _members(data: bytes) -> dict[str, Json]:
    """Return the members of a line that is an object; none for any other line."""
    try:
        return members_of(json.loads(data))
    except (ValueError, RecursionError):
        return {}


def _text_of(message: Json) -> str:
    """Return the text of a message; a recording has a line that is no message as a string, cut if it is long."""
    if isinstance(message, str) and message.startswith(_OPENING):
        try:
            json.loads(message)
        except ValueError:
            pass
        else:
            return message
    return json.dumps(message)
