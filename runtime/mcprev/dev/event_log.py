"""The events of a session in the order of the wire, within bounds, each with the request that it belongs to.

Requests are kept by connection, direction and id until they are answered, so that a response knows its method and its
revision.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from mcprev.dev.events import (
    IN,
    LABEL,
    NAME,
    OUT,
    Pairs,
    Seen,
    SeenEvent,
    SeenExchange,
    line,
    member,
    result_label,
    shortened,
    subject,
)
from mcprev.dev.spool import Spool
from mcprev.errors import Json
from mcprev.revisions import ALL, Revision, by_version
from mcprev.wire.jsonrpc import (
    Batch,
    ErrorResponse,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
    parse,
)
from mcprev.wire.meta_keys import SUBSCRIPTION_ID, VERSION

EVENTS: Final = 200_000
"""How many events are kept; the oldest are dropped."""
PENDING: Final = 10_000
"""How many unanswered requests, and progress tokens, of one connection are kept."""
CONNECTIONS: Final = 200
"""How many connections are remembered."""
INITIALIZE: Final = "initialize"
PROGRESS: Final = "notifications/progress"
CANCELLED: Final = "notifications/cancelled"
_PARSED: Final = frozenset({"message", "invalid"})
_NAMED: Final = {revision.name: revision for revision in ALL}


@dataclass(slots=True)
class _Connection:
    """What is known about one connection."""

    revision: Revision | None = None
    preferred: Revision | None = None
    """Of revisions with the same version, the one that is meant."""
    introduction: dict[str, Json] | None = None
    """The params of `initialize`."""
    pending: dict[tuple[str, RequestId], SeenEvent] = field(
        default_factory=dict["tuple[str, RequestId]", SeenEvent]
    )
    tokens: dict[tuple[str, RequestId], SeenEvent] = field(
        default_factory=dict["tuple[str, RequestId]", SeenEvent]
    )
    """The requests of both directions by their progress token."""

    @property
    def name(self) -> str | None:
        """The name of the revision, if it is known."""
        return None if self.revision is None else self.revision.name

    def learn(self, version: str) -> bool:
        """Note the version that a message says; return whether it is that of a revision."""
        meant = self.preferred
        found = meant if meant is not None and meant.version == version else by_version(version, ALL)
        self.revision = found or self.revision
        return found is not None


Observer: TypeAlias = Callable[[SeenEvent, "Message | None"], None]
"""Is told of each new event, and the message in it."""
Owner: TypeAlias = Callable[[str, RequestId], "str | None"]
"""Returns the call that sent a request, by its connection and id; None for traffic of this program itself."""


class EventLog:
    """The events of a session, within bounds."""

    def __init__(self, spool: Spool | None = None, most: int = EVENTS) -> None:
        self._spool = spool or Spool()
        self._events: deque[SeenEvent] = deque(maxlen=most)
        self._connections: dict[str, _Connection] = {}
        self._began = time.monotonic()
        self.began: float = time.time()
        """When the session began, in seconds since 1970."""
        self._lock = threading.Lock()
        self._exchanges = 0
        self.next: int = 1
        """The number of the next event."""
        self.observers: list[Observer] = []
        self.changed: list[Callable[[], None]] = []
        """Called after each new event."""
        self.owner: Owner = lambda _conn, _id: None
        self.only_call: Callable[[], str | None] = lambda: None
        """Returns the call of the page that is open, if there is one alone: the server's requests are about it."""

    @property
    def first(self) -> int:
        """The number of the oldest event that is kept; `next` if there is none."""
        return self._events[0].n if self._events else self.next

    def exchange(self, verb: str, url: str, sent: Pairs) -> SeenExchange:
        """Return a new HTTP exchange."""
        self._exchanges += 1
        return SeenExchange(self._exchanges, verb, url, sent)

    def begin(self, number: int) -> None:
        """Number the events of an empty log from a number on."""
        if not self._events and 0 < number < 2**40:
            self.next = number

    def now(self) -> float:
        """Return the seconds since the session began."""
        return time.monotonic() - self._began

    def get(self, number: int) -> SeenEvent | None:
        """Return an event; None if there is none, or no longer. May be called in a thread."""
        with self._lock:
            at = number - self.first
            return self._events[at] if 0 <= at < len(self._events) else None

    def since(self, number: int, most: int) -> list[SeenEvent]:
        """Return at most that many events from a number on."""
        start = max(number - self.first, 0)
        stop = min(start + most, len(self._events))
        return [self._events[at] for at in range(start, stop)]

    def all(self) -> Iterator[SeenEvent]:
        """Iterate over the events, oldest first; events that come meanwhile are left out."""
        number, end = self.first, self.next
        while number < end:
            event = self.get(number)
            if event is not None:
                yield event
            number = max(number + 1, self.first)

    def body(self, number: int) -> bytes | None:
        """Return the bytes of an event; None if they were dropped."""
        return self._spool.get(number)

    def close(self) -> None:
        """Drop the bytes."""
        self._spool.close()

    def add(self, seen: Seen) -> SeenEvent:
        """Add an event."""
        event = SeenEvent(
            self.next,
            self.now() if seen.at is None else seen.at,
            seen.kind,
            seen.dir,
            seen.conn,
            len(seen.data),
            seen.exchange,
            shortened(seen.event_id),
            shortened(seen.event_name),
            call=seen.call,
            own=seen.own,
        )
        self.next += 1
        message = self._read(event, seen) if seen.kind in _PARSED else None
        if event.revision is None and seen.kind in _PARSED and seen.revision in _NAMED:
            event.revision = seen.revision
        if seen.kind not in _PARSED:
            event.label = line(seen.data[: 4 * LABEL].decode(errors="replace"))
        if seen.data:
            self._spool.put(event.n, seen.data)
        with self._lock:
            self._events.append(event)
        for observer in self.observers:
            observer(event, message)
        for each in self.changed:
            each()
        return event

    def introduction(self, conn: str) -> Mapping[str, Json] | None:
        """Return what the client said of itself in `initialize`; None if it sent none."""
        found = self._connections.get(conn)
        return None if found is None else found.introduction

    def asked(self, client: str, request_id: RequestId | None) -> SeenEvent | None:
        """Return the request of the server that a client is answering."""
        if request_id is None:
            return None
        for name, connection in self._connections.items():
            found = connection.pending.get((IN, request_id))
            if found is not None and name.partition(".")[0] == client:
                return found
        return None

    # -- messages ------------------------------------------------------------------------------------------

    def _read(self, event: SeenEvent, seen: Seen) -> Message | None:
        found = parse(seen.data.strip(), batch=True)
        connection = self._connection(event.conn)
        if seen.revision is not None:
            connection.preferred = _NAMED.get(seen.revision, connection.preferred)
        if isinstance(found, Batch):
            event.shape, event.label = "batch", f"a batch of {len(found.messages)} messages"
            for one in found.messages:
                self._link(SeenEvent(event.n, event.at, "message", event.dir, event.conn), one, connection)
            event.revision = connection.name
            return None
        if isinstance(found, Malformed):
            event.kind, event.label = "invalid", line(found.message)
            if event.dir == OUT:
                event.own = event.own or event.call is None
            event.id = found.id
            return found
        self._link(event, found, connection)
        return found

    def _connection(self, name: str) -> _Connection:
        found = self._connections.get(name)
        if found is None:
            if len(self._connections) >= CONNECTIONS:
                del self._connections[next(iter(self._connections))]
            found = self._connections[name] = _Connection()
        return found

    def _link(self, event: SeenEvent, message: Message, connection: _Connection) -> None:
        """Set what a message is, and which request it belongs to."""
        match message:
            case Request():
                if message.method == INITIALIZE and event.dir == OUT and message.params is not None:
                    connection.introduction = message.params
                event.shape, event.method, event.id = "request", message.method[:NAME], message.id
                event.revision = _revision_of(message, connection)
                if event.dir == OUT and event.call is None:
                    event.call = self.owner(event.conn, message.id)
                    event.own = event.own or event.call is None
                self._belongs(event)
                _keep(connection.pending, (event.dir, message.id), event)
                token = member(member(message.params, "_meta"), "progressToken")
                if isinstance(token, str | int | float):
                    _keep(connection.tokens, (event.dir, token), event)
                event.label = subject(message)
            case Notification():
                event.shape, event.method = "notification", message.method[:NAME]
                event.revision = _revision_of(message, connection)
                event.label = subject(message)
                self._about(event, message, connection)
                if event.answers is None and event.dir == IN:
                    self._belongs(event)
                elif event.answers is None:
                    event.own = True
            case Response() | ErrorResponse():
                event.shape = "result" if isinstance(message, Response) else "error"
                event.id = message.id
                self._answer(event, message, connection)
            case Malformed():
                event.label = line(message.message)

    def _belongs(self, event: SeenEvent) -> None:
        """Set the call that a message without a request of its own belongs to."""
        exchange = event.exchange
        if event.dir == OUT:
            if exchange is not None and exchange.call is None:
                exchange.call = event.call
        elif event.call is None:
            event.call = self.only_call() if exchange is None else exchange.call

    def _about(self, event: SeenEvent, message: Notification, connection: _Connection) -> None:
        """Link a notification with the request that it is about."""
        other = OUT if event.dir == IN else IN
        request: SeenEvent | None = None
        if message.method == PROGRESS:
            token = member(message.params, "progressToken")
            if isinstance(token, str | int | float):
                request = connection.tokens.get((other, token))
        elif message.method != CANCELLED:
            found = member(member(message.params, "_meta"), SUBSCRIPTION_ID)
            if isinstance(found, str | int | float):
                request = connection.pending.get((other, found))
        else:
            found = member(message.params, "requestId")
            if isinstance(found, str | int | float):
                request = connection.pending.get((event.dir, found))
        if request is not None:
            event.answers, event.call = request.n, event.call or request.call
            # What a subscription tells is for the user, although it was opened for the page.
            event.own = request.own and message.method in (PROGRESS, CANCELLED)

    def _answer(self, event: SeenEvent, message: Response | ErrorResponse, connection: _Connection) -> None:
        """Link a response with its request."""
        other = OUT if event.dir == IN else IN
        request = None if message.id is None else connection.pending.pop((other, message.id), None)
        if request is not None:
            event.answers, event.method, request.answered = request.n, request.method, event.n
            event.own, event.revision = request.own, request.revision
            event.call = event.call or request.call
        if isinstance(message, ErrorResponse):
            code, text = message.error.get("code"), message.error.get("message")
            event.label = line(f"error {code}: {text}")
        else:
            event.label = result_label(message.result)
            if event.method == INITIALIZE:
                version = member(message.result, "protocolVersion")
                if isinstance(version, str) and connection.learn(version):
                    event.revision = connection.name


def _keep(
    found: dict[tuple[str, RequestId], SeenEvent], key: tuple[str, RequestId], event: SeenEvent
) -> None:
    if len(found) >= PENDING:
        del found[next(iter(found))]
    found[key] = event


def _revision_of(message: Request | Notification, connection: _Connection) -> str | None:
    """Return the revision that a message belongs to, which it may say itself."""
    version = member(member(message.params, "_meta"), VERSION)
    if version is None and message.method == INITIALIZE:
        version = member(message.params, "protocolVersion")
    if isinstance(version, str):
        connection.learn(version)
    return connection.name
