"""The session of a client on a pipe whose server process is replaced: what the new one is told, and what the client.

Pure: it takes the messages of both sides as lines and returns lines to send. The client notices nothing of the new
process but the changes that it is told of, and errors for the requests that the old one did not answer.
"""  # LIFE-1, STDIO-1

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from mcprev.errors import INTERNAL_ERROR, Json
from mcprev.json_schema.bounds import OBJECT
from mcprev.wire.jsonrpc import (
    Batch,
    ErrorResponse,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
    encode,
    encode_batch,
    encode_error,
    encode_notification,
    parse,
)

_INITIALIZE: Final = "initialize"
_INITIALIZED: Final = "notifications/initialized"
_CANCELLED: Final = "notifications/cancelled"
_STATE: Final = {"logging/setLevel": "", "resources/subscribe": "uri"}
"""Requests that change the state of a session, with the member of their params that tells them apart."""
_UNDONE: Final = {"resources/unsubscribe": "resources/subscribe"}
_CHANGES: Final = {
    "tools": "notifications/tools/list_changed",
    "prompts": "notifications/prompts/list_changed",
    "resources": "notifications/resources/list_changed",
}
MAX_STATE: Final = 10_000
"""The maximum number of requests that are sent to a new process again."""


@dataclass(slots=True)
class KeptSession:
    """What a client and its server said that holds for the next process of the server."""

    _initialize: bytes | None = None
    _id: RequestId | None = None
    """The id of the `initialize` request."""
    _initialized: bytes | None = None
    _result: dict[str, Json] | None = None
    """The result of `initialize` that the client got."""
    _state: dict[tuple[str, str], bytes] = field(default_factory=dict[tuple[str, str], bytes])
    _open: dict[RequestId, str] = field(default_factory=dict[RequestId, str])
    """The requests of the client that are not answered, with their methods."""
    _asked: dict[RequestId, RequestId] = field(default_factory=dict[RequestId, RequestId])
    """The requests of this process of the server that are not answered: the id that the client sees, and that of the server."""
    _stale: set[RequestId] = field(default_factory=set[RequestId])
    """The requests of processes before, whose answers nobody waits for."""
    _swallowed: set[RequestId] = field(default_factory=set[RequestId])
    """The requests that were sent to this process again, whose answers the client has."""

    def from_client(self, line: bytes) -> bytes | None:
        """Note a line of the client; return what the server gets."""
        return _mapped(line, lambda message: self._client_said(message, line))

    def _client_said(self, message: Message, line: bytes) -> Message | None:
        match message:
            case Request(id=id_, method=method, params=params):
                self._open[id_] = method
                if method == _INITIALIZE:
                    self._initialize, self._id = line, id_
                self._note_state(method, params or {}, line)
            case Notification(method=method) if method == _INITIALIZED:
                self._initialized = line
            case Notification(method=method, params=params) if method == _CANCELLED:
                self._end(params or {})
            case Response(id=id_) | ErrorResponse(id=id_) if id_ is not None:
                return self._answered(message, id_)
            case _:
                pass
        return message

    def _answered(self, message: Response | ErrorResponse, id_: RequestId) -> Message | None:
        """Return an answer of the client as the server gets it; None for one to a process before."""
        if id_ in self._asked:
            asked = self._asked.pop(id_)
            return message if asked == id_ else replace(message, id=asked)
        was_stale = id_ in self._stale
        self._stale.discard(id_)
        return None if was_stale else message

    def _end(self, params: dict[str, Json]) -> None:
        """Forget a request that the client cancels: it is not answered. `initialize` cannot be cancelled."""
        id_ = params.get("requestId")
        if isinstance(id_, int | str | float) and self._open.get(id_) != _INITIALIZE:
            self._open.pop(id_, None)

    def _note_state(self, method: str, params: dict[str, Json], line: bytes) -> None:
        undone = _UNDONE.get(method)
        if undone is not None:
            self._state.pop((undone, str(params.get(_STATE[undone]))), None)
        elif method in _STATE and len(self._state) < MAX_STATE:
            self._state[method, str(params.get(_STATE[method]))] = line

    def from_server(self, line: bytes) -> bytes | None:
        """Note a line of the server; return what the client gets."""
        return _mapped(line, self._server_said)

    def _server_said(self, message: Message) -> Message | None:
        match message:
            case Request(id=id_):
                shown = self._shown(id_)
                self._asked[shown] = id_
                return message if shown == id_ else replace(message, id=shown)
            case Notification(method=method, params=params) if method == _CANCELLED:
                return self._cancelled(message, params or {})
            case Response(id=id_) | ErrorResponse(id=id_) if id_ is not None:
                if id_ in self._swallowed:
                    self._swallowed.discard(id_)
                    return None
                self._open.pop(id_, None)
                if id_ == self._id and isinstance(message, Response):
                    self._result = message.result if isinstance(message.result, OBJECT) else None
            case _:
                pass
        return message

    def _shown(self, id_: RequestId) -> RequestId:
        """Return the id that the client sees of a question: each process counts anew, and an answer to the question of the
        process before may be on its way.
        """
        shown, number = id_, 1
        while shown in self._stale or shown in self._asked:
            number += 1
            shown = f"{id_}/{number}"
        return shown

    def _cancelled(self, message: Notification, params: dict[str, Json]) -> Notification:
        """Return the end of a question of the server with the id that the client knows."""
        id_ = params.get("requestId")
        for shown, asked in self._asked.items():
            if asked == id_:
                del self._asked[shown]
                return message if shown == id_ else replace(message, params={**params, "requestId": shown})
        return message

    def lost(self, why: str) -> list[bytes]:
        """Return what the client is told when the process ends: errors for its requests, the end of those of the server."""
        answers = [
            encode_error(id_, {"code": INTERNAL_ERROR, "message": why})
            for id_, method in self._open.items()
            if method != _INITIALIZE
        ]
        cancelled = [
            encode_notification(_CANCELLED, {"requestId": id_, "reason": why}) for id_ in self._asked
        ]
        self._stale |= self._asked.keys()
        self._asked.clear()
        self._swallowed.clear()
        self._open = {id_: method for id_, method in self._open.items() if method == _INITIALIZE}
        return [*answers, *cancelled]

    @property
    def has_session(self) -> bool:
        """Whether the client has opened a session, which the next process has to know."""
        return self._initialize is not None

    def replay(self) -> list[bytes]:
        """Return what the next process is sent first: the `initialize` request, whose answer `from_server` keeps."""
        if self._initialize is None or self._id is None:
            return []
        if self._result is not None:
            self._swallowed.add(self._id)
        return [self._initialize]

    def replay_rest(self) -> list[bytes]:
        """Return what the next process is sent after its answer to `initialize`."""
        if self._initialized is None:
            return []
        for line in self._state.values():
            self._swallowed |= {each.id for each in _messages(line) if isinstance(each, Request)}
        return [self._initialized, *self._state.values()]

    def answers_replay(self, line: bytes) -> Response | ErrorResponse | None:
        """Return the answer to the `initialize` request in a line of the server; None for any other line."""
        for message in _messages(line):
            if isinstance(message, Response | ErrorResponse) and message.id == self._id:
                return message
        return None

    def changed(self) -> list[bytes]:
        """Return the changes that the client is told of: all lists of which it was told that they may change."""
        if self._result is None or self._initialized is None:
            return []
        declared: Json = self._result.get("capabilities")
        offers: dict[str, Json] = declared if isinstance(declared, OBJECT) else {}
        return [
            encode_notification(method, None)
            for name, method in _CHANGES.items()
            if isinstance(offers.get(name), OBJECT) and offers[name].get("listChanged") is True
        ]

    def differs(self, answer: Response) -> str | None:
        """Return how the session of a new process differs from what the client was told; None if it does not."""
        if self._result is None or not isinstance(answer.result, OBJECT):
            return None
        for name in ("protocolVersion", "capabilities"):
            if answer.result.get(name) != self._result.get(name):
                return f"its {name} is not that of the process before; clients notice that when they connect again"
        return None


def _messages(line: bytes) -> Iterator[Message]:
    found = parse(line, batch=True)
    if isinstance(found, Batch):
        yield from found.messages
    else:
        yield found


def _mapped(line: bytes, each: Callable[[Message], Message | None]) -> bytes | None:
    """Return a line with what becomes of each of its messages; None if nothing is left."""
    before = [*_messages(line)]
    after = [each(message) for message in before]
    if all(new is old for new, old in zip(after, before, strict=True)):
        return line
    kept = [
        encode(message, null_id_in_errors=True)
        for message in after
        if not isinstance(message, Malformed | None)
    ]
    if not kept:
        return None
    return encode_batch(kept) if line.lstrip().startswith(b"[") else kept[0]
