"""The session of a client on a pipe whose server process is replaced: what the new one is told, and what the client.

Pure: it takes the messages of both sides as lines and returns lines to send. The client notices nothing of the new
process but the changes that it is told of, and errors for the requests that the old one did not answer.
"""  # LIFE-1, STDIO-1

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from mcprev.errors import INTERNAL_ERROR, Json
from mcprev.json_schema.bounds import LIST, OBJECT
from mcprev.protocol.subscriptions import ACKNOWLEDGED, CHANGES, LISTEN, Changed
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
from mcprev.wire.meta_keys import SUBSCRIPTION_ID

_INITIALIZE: Final = "initialize"
_INITIALIZED: Final = "notifications/initialized"
_CANCELLED: Final = "notifications/cancelled"
_STATE: Final = {"logging/setLevel": "", "resources/subscribe": "uri"}
"""Requests that change the state of a session, with the member of their params that tells them apart."""
_UNDONE: Final = {"resources/unsubscribe": "resources/subscribe"}
_LISTS: Final = (Changed.TOOLS, Changed.PROMPTS, Changed.RESOURCES)
MAX_STATE: Final = 10_000
"""The maximum number of requests that are sent to a new process again."""
MAX_STATE_BYTES: Final = 4 * 1024 * 1024
"""The maximum size of these requests together."""


@dataclass(slots=True)
class _Listening:
    """A listen stream of the client, which goes on at the next process."""

    line: bytes
    told: bool = False
    """Whether the client knows that it is open."""


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
    _listening: dict[RequestId, _Listening] = field(default_factory=dict[RequestId, _Listening])
    _reopening: set[RequestId] = field(default_factory=set[RequestId])
    """Those that this process was asked to open again, and has not yet."""
    _kept: int = 0
    """The size of the lines of both."""
    _leaving: bool = False
    """Whether this process is about to be replaced."""
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
                self._note_state(message, params or {}, line)
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
            self._listens_no_more(id_)

    def _note_state(self, request: Request, params: dict[str, Json], line: bytes) -> None:
        method = request.method
        if line.lstrip().startswith(b"["):
            line = encode(request, null_id_in_errors=True)  # what else is in a batch is done once
        undone = _UNDONE.get(method)
        if undone is not None:
            self._kept -= len(self._state.pop((undone, str(params.get(_STATE[undone]))), b""))
        elif method in _STATE:
            place = method, str(params.get(_STATE[method]))
            self._kept -= len(self._state.pop(place, b""))
            if self._has_room(line):
                self._state[place] = line
                self._kept += len(line)
        elif method == LISTEN and request.id not in self._listening and self._has_room(line):
            self._listening[request.id] = _Listening(line)
            self._kept += len(line)

    def _has_room(self, line: bytes) -> bool:
        few = len(self._state) + len(self._listening) < MAX_STATE
        return few and self._kept + len(line) <= MAX_STATE_BYTES

    def _listens_no_more(self, id_: RequestId) -> None:
        self._reopening.discard(id_)
        found = self._listening.pop(id_, None)
        if found is not None:
            self._kept -= len(found.line)

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
            case Notification(method=method, params=params) if method == ACKNOWLEDGED:
                return self._listens(message, params or {})
            case Response(id=id_) | ErrorResponse(id=id_) if id_ is not None:
                if id_ in self._swallowed:
                    self._swallowed.discard(id_)
                    return None
                if self._leaving and id_ in self._listening:
                    return None  # the next process goes on with it
                self._open.pop(id_, None)
                self._listens_no_more(id_)
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

    def _listens(self, message: Notification, params: dict[str, Json]) -> Notification | None:
        """Take the first message of a listen stream; the client has had it if another process has opened the stream."""
        id_ = _stream_of(params)
        if id_ in self._reopening:
            self._reopening.discard(id_)
            return None
        if id_ in self._listening:
            self._listening[id_].told = True
        return message

    def leave(self) -> None:
        """Let the streams of the client go on, which this process ends because it is about to be replaced."""
        self._leaving = True

    def lost(self, why: str) -> list[bytes]:
        """Return what the client is told when the process ends: errors for its requests, the end of those of the server."""
        self._leaving = False
        answers = [
            encode_error(id_, {"code": INTERNAL_ERROR, "message": why})
            for id_, method in self._open.items()
            if method != _INITIALIZE and id_ not in self._listening
        ]
        cancelled = [
            encode_notification(_CANCELLED, {"requestId": id_, "reason": why}) for id_ in self._asked
        ]
        self._stale |= self._asked.keys()
        self._asked.clear()
        self._swallowed.clear()
        self._open = {
            id_: method
            for id_, method in self._open.items()
            if method == _INITIALIZE or id_ in self._listening
        }
        return [*answers, *cancelled]

    def streams(self) -> list[bytes]:
        """Return the requests of the streams that the client listens to, which the next process opens again."""
        self._reopening = {id_ for id_, each in self._listening.items() if each.told}
        return [each.line for each in self._listening.values()]

    def reopened(self, line: bytes) -> list[bytes]:
        """Return what a client is told if a line of the server, before it is noted, opens a stream again: that all has changed."""
        if not self._reopening:
            return []
        return [
            encode_notification(method, {**params, "_meta": {SUBSCRIPTION_ID: id_}})
            for message in _messages(line)
            if isinstance(message, Notification) and message.method == ACKNOWLEDGED
            for id_ in {_stream_of(message.params or {})} & self._reopening
            for method, params in _carried((message.params or {}).get("notifications"))
        ]

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
            encode_notification(CHANGES[kind].method, None)
            for kind in _LISTS
            if isinstance(offers.get(kind), OBJECT) and offers[kind].get("listChanged") is True
        ]

    def differs(self, answer: Response) -> str | None:
        """Return how the session of a new process differs from what the client was told; None if it does not."""
        if self._result is None or not isinstance(answer.result, OBJECT):
            return None
        for name in ("protocolVersion", "capabilities"):
            if answer.result.get(name) != self._result.get(name):
                return f"its {name} is not that of the process before; clients notice that when they connect again"
        return None


def _stream_of(params: dict[str, Json]) -> RequestId:
    """Return the id of the request of a listen stream to which a notification belongs; "" if it does not say."""
    meta: Json = params.get("_meta")
    found: Json = meta.get(SUBSCRIPTION_ID) if isinstance(meta, OBJECT) else None
    return found if isinstance(found, int | str | float) else ""


def _carried(accepted: Json) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield the method and params of each notification that a stream with a filter carries."""
    chosen: dict[str, Json] = accepted if isinstance(accepted, OBJECT) else {}
    for change in CHANGES.values():
        found: Json = chosen.get(change.member)
        if found is True:
            yield change.method, {}
        elif isinstance(found, LIST):
            yield from ((change.method, {"uri": uri}) for uri in found if isinstance(uri, str))


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
