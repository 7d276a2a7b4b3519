"""One connection from the side of its server or its client, with both eras on one pipe (NEG-8, NEG-9, BASE-7,
BASE-10).

A request with a version in `_meta` goes to the stateless engine, any other to the handshake engine; both share one
`ConnectionState`. A driver holds one of these classes: it passes in messages and the time, and takes events and
outgoing messages out of the state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from typing_extensions import override

from mcprev.errors import ConnectionLost, Json, LocalProtocolError
from mcprev.protocol.connection_state import ConnectionState, LocalInfo, ToleratedViolation
from mcprev.protocol.engine import Engine
from mcprev.protocol.handshake import Handshake, HandshakeClient, HandshakeServer
from mcprev.protocol.pending_calls import Call
from mcprev.protocol.stateless import StatelessClient, StatelessServer
from mcprev.protocol.subscriptions import Changed
from mcprev.protocol.tap import Tap
from mcprev.revisions import Revision
from mcprev.wire import jsonrpc
from mcprev.wire.jsonrpc import ErrorResponse, Malformed, Message, Notification, Request, Response, Shape
from mcprev.wire.meta_keys import VERSION
from mcprev.wire.payloads import mask_text


class EndpointProtocol:
    """The part shared by both roles."""

    on_send: Callable[[bytes], None] | None = None
    """Called with each message before it is sent; None if nothing wants to know."""

    tap: Tap | None = None
    """Reports what is on the wire; None if nothing wants to know."""

    def __init__(self, local: LocalInfo, session: Handshake) -> None:
        self.local = local
        self.connection: ConnectionState = session.connection
        self._engine: Engine = session
        """The engine for operations that both engines implement alike."""

    def receive(self, message: Message | jsonrpc.Batch, now: float) -> None:
        """Process what `jsonrpc.parse` returned."""
        raise NotImplementedError

    @property
    def waiting(self) -> bool:
        """Whether a call is pending."""
        return bool(self.connection.calls.waiting)

    def tick(self, now: float) -> None:
        """Cancel the calls whose deadline has passed."""
        self._engine.tick(now)

    def notify(self, method: str, params: dict[str, Json] | None) -> None:
        """Send a notification that belongs to no request."""
        self._engine.send_notification(method, params)

    def cancel(self, call: Call, reason: str) -> None:
        """Cancel a call and notify the peer."""
        self._engine.cancel(call, reason)

    def end(self) -> None:
        """Send final messages before the connection is closed; most endpoints send none."""

    def lost(self, error: ConnectionLost) -> None:
        """The connection is lost: fail every call and cancel every request."""
        self.connection.lost(error)

    def _malformed(self, message: Malformed, *, null_id: bool) -> None:
        """Respond to a malformed message, or fail the call that a malformed response belongs to."""
        answer = message.answer
        if not self.connection.fail_malformed(message) and answer is not None:
            self.connection.sends.append(
                (None, jsonrpc.encode_error(answer.id, answer.error, null_id=null_id))
            )
        self.connection.tolerate(ToleratedViolation.NOISE, describe_malformed(message))


def describe_malformed(message: Malformed) -> str:
    """Describe a malformed line; quote its beginning unless it looks like JSON, which may hold arguments."""
    begins_like_json = message.excerpt.lstrip().startswith(("{", "["))
    return message.message if begins_like_json else f"{message.message}: {mask_text(message.excerpt)!r}"


class ServerProtocol(EndpointProtocol):
    """The server side of a connection."""

    def __init__(self, local: LocalInfo) -> None:
        connection = ConnectionState()
        self.session: HandshakeServer = HandshakeServer(connection, local)
        self.stateless: StatelessServer = StatelessServer(connection, local)
        super().__init__(local, self.session)
        self._handshake = any(revision.handshake for revision in local.revisions)
        self._modern = any(not revision.handshake for revision in local.revisions)
        self._null_id = self._handshake

    @override
    def receive(self, message: Message | jsonrpc.Batch, now: float) -> None:
        """Process what `jsonrpc.parse` returned for a line; `_meta` selects the engine of a request."""  # NEG-8
        session = self.session
        match message:
            case Request():
                meta: Json = None if message.params is None else message.params.get("_meta")
                if self._modern and (not self._handshake or (meta.__class__ is dict and VERSION in meta)):
                    self._null_id = self._null_id and session.agreed
                    self.stateless.request(message)
                else:
                    session.request(message)
            case Notification():
                if self._handshake and session.agreed:
                    session.notification(message, now)
                else:
                    self.stateless.notification(message)
            case Response() | ErrorResponse():
                session.answered(message)
            case Malformed():
                null_id = session.revision.null_id_in_errors if session.agreed else self._null_id
                self._malformed(message, null_id=null_id)
            case jsonrpc.Batch():
                session.batch(message.messages, now)

    def changed(self, kind: Changed, uri: str | None) -> None:
        """Notify the peer of a change in the way it subscribed."""  # SUB-8
        self.session.changed(kind, uri)
        self.stateless.changed(kind, uri)

    def subscribed(self) -> set[str]:
        """Return the URIs of the resources that the peer has subscribed to, as it spells them."""
        streams = (each.resources for each in self.stateless.listeners if each.resources is not None)
        return set(self.session.subscribed).union(*streams)

    @override
    def end(self) -> None:
        """End the listen streams with results before the connection is closed."""  # SUB-4
        self.stateless.end_streams()


_NOISE: Final = (Shape.NOT_JSON, Shape.UNKNOWN, Shape.ID_ONLY)


class ClientProtocol(EndpointProtocol):
    """The client side of a connection."""

    def __init__(self, local: LocalInfo, result_types: frozenset[str] = frozenset()) -> None:
        connection = ConnectionState()
        self.session: HandshakeClient = HandshakeClient(connection, local)
        self.stateless: StatelessClient = StatelessClient(connection, local, result_types)
        super().__init__(local, self.session)
        self.engine: HandshakeClient | StatelessClient = self.session
        """The engine of the negotiated revision."""

    @property
    def revision(self) -> Revision:
        """The negotiated revision. Raises `LocalProtocolError` before the negotiation is complete."""
        return self.engine.revision

    def settle(self, revision: Revision) -> None:
        """Use the stateless engine at a revision."""
        if self.session.agreed:
            raise LocalProtocolError("a handshake session is open")
        self.stateless.use(revision)
        self.engine = self._engine = self.stateless

    @override
    def receive(self, message: Message | jsonrpc.Batch, now: float) -> None:
        """Process what `jsonrpc.parse` returned for a line."""
        session = self.session
        match message:
            case Response() | ErrorResponse():
                self.engine.answered(message)
            case Notification():
                self.engine.notification(message, now)
            case Request():
                self.engine.request(message)
            case Malformed():
                # A line that is not JSON is logged and skipped without a response (STDIO-3).
                if message.shape in _NOISE or self.engine is self.stateless:
                    self.connection.fail_malformed(message)
                    self.connection.tolerate(ToleratedViolation.NOISE, describe_malformed(message))
                else:
                    self._malformed(message, null_id=session.agreed and session.revision.null_id_in_errors)
            case jsonrpc.Batch():
                session.batch(message.messages, now)


def server_protocol(protocol: EndpointProtocol) -> ServerProtocol:
    """Return the protocol of a connection of a server as what it is."""
    assert isinstance(protocol, ServerProtocol)
    return protocol


def client_protocol(protocol: EndpointProtocol) -> ClientProtocol:
    """Return the protocol of a connection of a client as what it is."""
    assert isinstance(protocol, ClientProtocol)
    return protocol
