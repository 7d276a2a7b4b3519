"""A side of a connection that says fixed things of itself, and two sides wired back to back without I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from mcprev.errors import Json, RequestTimeout
from mcprev.protocol.connection_state import (
    CallFailed,
    Diagnostic,
    Event,
    RequestKind,
    SessionChanged,
    Unplaced,
)
from mcprev.protocol.endpoint import ClientProtocol, EndpointProtocol, ServerProtocol
from mcprev.protocol.pending_calls import Call
from mcprev.revisions import ALL, DEFAULT, LATEST, Revision, select
from mcprev.wire import jsonrpc
from mcprev.wire.meta_keys import CLIENT_CAPABILITIES, CLIENT_INFO, SERVER_INFO, VERSION

INFO: Final = {"name": "fake", "version": "1"}
HANDSHAKE: Final = tuple(revision for revision in DEFAULT if revision.handshake)
LOGGED: Final = (Diagnostic, Unplaced)
"""The events that are logged, if nobody else knows what to do with them."""
BY_VERSION: Final = {revision.version: revision for revision in reversed(ALL)}
_SESSION_KINDS: Final = {
    "logging/setLevel": RequestKind.SET_LEVEL,
    "resources/subscribe": RequestKind.SUBSCRIBE,
    "resources/unsubscribe": RequestKind.SUBSCRIBE,
    "server/discover": RequestKind.DISCOVER,
    "subscriptions/listen": RequestKind.LISTEN,
}


def check_timeout(events: list[Event], call: Call, kind: str, elapsed: float) -> None:
    """Check that the only event is the timeout of a call."""
    (event,) = events
    assert isinstance(event, CallFailed)
    assert event.call is call
    assert isinstance(event.error, RequestTimeout)
    assert (event.error.kind, event.error.elapsed) == (kind, elapsed)


class FakeServer:
    """A server that serves tools and resources."""

    relays = False
    caps: Mapping[str, Json] = {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "logging": {},
    }

    def __init__(self, *names: str, needs: Mapping[str, Json] | None = None) -> None:
        self.revisions = select(names or None)
        self.needs = needs or {}

    def kinds(self, revision: Revision) -> Mapping[str, RequestKind]:
        served = {"tools/call": RequestKind.SERVED, "resources/read": RequestKind.SERVED}
        return served | {m: k for m, k in _SESSION_KINDS.items() if m in revision.methods}

    def notifications(self, revision: Revision) -> frozenset[str]:
        return frozenset({"notifications/roots/list_changed"})

    def capabilities(self, revision: Revision) -> dict[str, Json]:
        return dict(self.caps)

    def introduction(self, revision: Revision) -> dict[str, Json]:
        if revision.handshake:
            return {"protocolVersion": revision.version, "capabilities": self.caps, "serverInfo": INFO}
        return {
            "supportedVersions": [r.version for r in self.revisions],
            "capabilities": self.caps,
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {SERVER_INFO: INFO},
        }

    def requirements(self, method: str) -> Mapping[str, Json]:
        return self.needs if method == "tools/call" else {}


class FakeClient:
    """A client that can sample."""

    relays = False
    caps: Mapping[str, Json] = {"sampling": {}}

    def __init__(self, *names: str) -> None:
        self.revisions = select(names or None)

    def kinds(self, revision: Revision) -> Mapping[str, RequestKind]:
        return {"sampling/createMessage": RequestKind.SERVED} if revision.handshake else {}

    def notifications(self, revision: Revision) -> frozenset[str]:
        return frozenset({"notifications/message", "notifications/tools/list_changed"})

    def capabilities(self, revision: Revision) -> dict[str, Json]:
        return dict(self.caps)

    def introduction(self, revision: Revision) -> dict[str, Json]:
        if revision.handshake:
            return {"protocolVersion": revision.version, "capabilities": self.caps, "clientInfo": INFO}
        return {VERSION: revision.version, CLIENT_INFO: INFO, CLIENT_CAPABILITIES: self.caps}

    def requirements(self, method: str) -> Mapping[str, Json]:
        return {}


class Wire:
    """One side alone: messages in by hand, everything that comes out decoded."""

    def __init__(self, side: EndpointProtocol) -> None:
        self.protocol = side
        self.now = 0.0

    def get(self, *messages: object) -> list[Any]:
        """Give the side messages (decoded, or bytes) and take what it sends."""
        for message in messages:
            data = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.protocol.receive(jsonrpc.parse(data, batch=self.protocol.connection.accepts_batch), self.now)
        return self.sent()

    def sent(self) -> list[Any]:
        state = self.protocol.connection
        sends, state.sends = state.sends, []
        return [json.loads(data) for _, data in sends]

    def events(self) -> list[Event]:
        """The events, without those that are for other copies of a session alone."""
        return [event for event in self.all_events() if not for_others(event)]

    def all_events(self) -> list[Event]:
        state = self.protocol.connection
        events, state.events = state.events, []
        return events


def for_others(event: Event) -> bool:
    """Whether an event has no effect where there is one copy of a session."""
    return isinstance(event, SessionChanged) or (isinstance(event, Unplaced) and not event.text)


def request(method: str, params: object = None, id_: object = 1) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": id_, "method": method}
    return message if params is None else {**message, "params": params}


def notification(method: str, params: object = None) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def result(id_: object, value: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "result": value}


def modern(
    method: str, params: Mapping[str, Json] | None = None, id_: object = 1, **meta: Json
) -> dict[str, Any]:
    """A request of the stateless era; `meta` members whose value is None are left out."""
    stamp: dict[str, Json] = {VERSION: LATEST.version, CLIENT_CAPABILITIES: {}}
    stamp.update({f"io.modelcontextprotocol/{name}": value for name, value in meta.items()})
    return request(
        method, {**(params or {}), "_meta": {k: v for k, v in stamp.items() if v is not None}}, id_
    )


def initialize(revision: Revision, id_: object = "init", **capabilities: Json) -> dict[str, Any]:
    params = {"protocolVersion": revision.version, "capabilities": capabilities, "clientInfo": INFO}
    return request("initialize", params, id_)


def open_server(revision: Revision, **capabilities: Json) -> tuple[ServerProtocol, Wire]:
    """A server in the middle of a session at a revision of the handshake era."""
    side = ServerProtocol(FakeServer())
    wire = Wire(side)
    wire.get(initialize(revision, **capabilities), notification("notifications/initialized"))
    wire.events()
    return side, wire


def open_client(revision: Revision) -> tuple[ClientProtocol, Wire]:
    """A client that speaks a revision of either era."""
    side = ClientProtocol(FakeClient())
    wire = Wire(side)
    if revision.handshake:
        call = side.session.initialize(revision, 0, timeout=None)
        wire.get(result(call.id, {"protocolVersion": revision.version}))
        side.session.opened(revision, FakeServer.caps)
    else:
        side.settle(revision)
        side.stateless.peer_capabilities = dict(FakeServer.caps)
    wire.sent()
    wire.events()
    return side, wire
