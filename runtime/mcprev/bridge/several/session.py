"""A client with a session at several servers: it has a connection to each (LIFE-*, SUB-1, LOG-2)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from mcprev.bridge.introduction import INITIALIZE, ClientIntroduction
from mcprev.bridge.last_words import with_last_line
from mcprev.bridge.relay import Exchange, Outlet
from mcprev.bridge.sessions import SET_LEVEL, SessionPeer
from mcprev.bridge.several.client import SeveralClient
from mcprev.bridge.several.health import reason_of
from mcprev.bridge.several.introductions import joined_initialization
from mcprev.bridge.several.login_required import LoginRequired
from mcprev.bridge.several.names import Naming
from mcprev.bridge.several.options import KINDS
from mcprev.bridge.several.parts import PartExchange
from mcprev.bridge.several.translation import Translation
from mcprev.bridge.upstream import logger
from mcprev.conversion.rules import JsonObject, as_object
from mcprev.core.connection import Connection
from mcprev.errors import InternalError, InvalidParams, Json, McpError, MethodNotFound, one_line
from mcprev.protocol.connection_state import NotificationReceived
from mcprev.protocol.endpoint import ServerProtocol
from mcprev.protocol.engine import SEVERITY
from mcprev.protocol.handshake import INITIALIZED, HandshakeServer, State
from mcprev.protocol.subscriptions import CHANGES, Changed
from mcprev_types import Direction

if TYPE_CHECKING:
    from mcprev.bridge.several.hub import Hub
    from mcprev.bridge.several.member import Member

OPENING: Final = 10.0
"""Seconds that a server has to open its connection before the client's session begins without it."""
_FORWARDED: Final = frozenset({INITIALIZED, "notifications/roots/list_changed"})
"""The notifications of a client that every server gets."""
_LISTS: Final = {CHANGES[Changed(kind)].method: kind for kind in KINDS}


class MemberWording:
    """How the client of a session is told what one of the servers says: by the names that the bridge gives."""

    def __init__(self, session: SeveralSession, member: Member) -> None:
        self._session = session
        self._member = member

    @property
    def _translation(self) -> Translation:
        return self._session.translation(self._member.naming, self._session.principal)

    def tells(self, method: str, params: Json) -> bool:
        """Take note of a change of a list, and return whether the client is told of a notification."""
        session, member = self._session, self._member
        if member.retired:
            return False
        if method not in session.revision.methods:
            text = "'%s' of '%s' is dropped: it is not in the schema of any revision"
            logger.debug(text, one_line(method), member.name)
            return False
        if method in _LISTS:
            session.lists.changed(_LISTS[method])
        return self._translation.tells(method, params)

    def to_client(self, method: str, params: Json) -> Json:
        """Return the params of a message with the names that the client knows."""
        return self._translation.to_client(method, params)

    def answer(self, method: str, result: JsonObject) -> JsonObject:
        """Return an answer of the client with the names that the server knows."""
        return self._translation.answer(method, result)


class SeveralSession(SeveralClient):
    """One client with a session."""

    def __init__(
        self, hub: Hub, connection: Connection, introduction: ClientIntroduction, name: str, outlet: Outlet
    ) -> None:
        super().__init__(hub, introduction.revision)
        self.connection: Connection = connection
        """The connection of the client."""
        self.watches: bool = True
        """Whether this process tells the client of changes; true, because only what holds a session is one of these."""
        protocol = connection.protocol
        assert isinstance(protocol, ServerProtocol)
        self._engine: HandshakeServer = protocol.session
        self.introduction = introduction
        self.name = name
        """The name of the session in recordings."""
        self.outlet = outlet
        """Sends notifications to the client."""
        self.principal: str | None = None if introduction.sender is None else introduction.sender[0]
        self._peers: dict[Member, SessionPeer] = {}
        self._level: str | None = None
        self._said: list[tuple[Naming, JsonObject | None]] | None = None
        """What the servers said when their connections were opened, until the client is told."""

    def peer(self, member: Member) -> SessionPeer:
        """Return the connection to a server, which need not be open."""
        found = self._peers.get(member)
        if found is None:
            wording = MemberWording(self, member)
            found = SessionPeer(
                member.relay, member.tasks, self.connection, self.introduction, self.name, wording
            )
            self._peers[member] = found
            found.set_level(self._level)
        return found

    # -- requests ------------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Connect to the servers that can be reached in time. Raises `McpError` if none can."""
        hub = self.hub
        members = list(hub.members.values())
        opening = {member: hub.start(_failure(self.peer(member).prepare())) for member in members}
        try:
            await asyncio.wait(opening.values(), timeout=OPENING)
        except BaseException:
            for task in opening.values():
                task.cancel()
            raise
        said: list[tuple[Naming, JsonObject | None]] = []
        reasons: list[str] = []
        for member, task in opening.items():
            peer, result = self.peer(member), None
            if not task.done():
                peer.absent()  # it goes on
            elif (error := task.result()) is not None:
                reason = reason_of(error)
                if not isinstance(error, LoginRequired):
                    told = with_last_line(reason, error, reads_stderr=hub.reads_stderr)
                    reasons.append(f"'{member.name}': {told}")
                logged = with_last_line(reason, error, reads_stderr=True)
                logger.warning("a session begins without the server '%s': %s", member.name, one_line(logged))
                peer.absent()
            elif (upstream := peer.open_upstream) is not None:
                result = upstream.introduction.initialized(peer.pair(upstream), hub.own)
            said.append((member.naming, result))
        if reasons and len(reasons) == len(members):
            raise InternalError(f"no server behind the bridge can be reached: {'; '.join(reasons)}")
        self._said = said

    async def _introduce(self, exchange: Exchange) -> None:
        """Answer `initialize`, with what the servers say. Raises `McpError`."""
        if self._said is None:
            await self.prepare()
        hub, said, self._said = self.hub, self._said or [], None
        result = joined_initialization(said, hub.own, self.revision)
        hub.recorded(self.name, Direction.SERVER_TO_CLIENT, {"id": exchange.incoming.id, "result": result})
        self._engine.open_with(exchange.incoming, result)
        self._live()

    def _live(self) -> None:
        """Be told from now on what happens to the servers."""
        self.hub.add(self)
        self.connection.closed.add_done_callback(lambda _: self.hub.discard(self))

    @override
    async def serve(self, exchange: Exchange) -> None:
        if exchange.incoming.method == INITIALIZE:
            await self._introduce(exchange)
        elif exchange.incoming.method == SET_LEVEL:
            await self._set_level(exchange)
        else:
            await super().serve(exchange)

    async def _set_level(self, exchange: Exchange) -> None:
        level = (exchange.incoming.params or {}).get("level")
        if not (isinstance(level, str) and level in SEVERITY):
            raise InvalidParams(f"Invalid params: not a log level: {level!r:.40}")
        logs = [self.declares(member, "logging") for member in self.hub.members.values()]
        if logs and not any(logs):
            raise MethodNotFound(f"Method not found: {SET_LEVEL}: no server sends log messages")
        self._level = level
        told: list[Member] = []
        for member in self.hub.members.values():
            peer = self.peer(member)
            peer.set_level(level)
            if peer.open_upstream is not None and self.declares(member, "logging"):
                told.append(member)
        await self.ask_all(told, exchange, SET_LEVEL, {"level": level})
        exchange.answer({})

    @override
    async def run(self, member: Member, exchange: PartExchange) -> None:
        await self.peer(member).serve(exchange)

    @override
    def send(self, member: Member, exchange: Exchange, method: str, params: JsonObject | None) -> None:
        if exchange.outlet is None:
            exchange.send(method, params)  # its client is that of another process
            return
        # What one server sends waits for itself, so that a flood of it holds up no other.
        self.peer(member).outlet.send(method, params, exchange.incoming if exchange.incoming.open else None)

    @override
    def capabilities(self, member: Member) -> JsonObject | None:
        upstream = self.peer(member).open_upstream
        known = None if upstream is None else upstream.introduction
        return None if known is None else known.capabilities

    def notified_by_client(self, notified: NotificationReceived) -> None:
        """Pass a notification of the client to every server that is connected."""
        if notified.method in _FORWARDED:
            message: JsonObject = {"method": notified.method}
            if notified.params is not None:
                message["params"] = notified.params
            self.hub.recorded(self.name, Direction.CLIENT_TO_SERVER, message)
            for peer in tuple(self._peers.values()):
                peer.notified_by_client(notified)

    # -- servers that go and come --------------------------------------------------------------------------------

    def changed(self, _member: Member | None) -> None:
        """Tell the client that the lists have changed."""
        for kind in KINDS:
            self.lists.changed(kind)
            if self._engine.state is State.READY:
                self.outlet.send(CHANGES[Changed(kind)].method, None, None)

    def replaced(self, gone: list[Member]) -> None:
        """Continue with the servers that the bridge has now."""
        before = {member.name: self._peers.pop(member) for member in gone if member in self._peers}
        for member in self.hub.members.values():
            if member not in self._peers:
                peer = self.peer(member)
                if member.name in before:
                    peer.continue_as({"level": self._level, "subscribed": before[member.name].subscribed})
                peer.absent()
                self.hub.start(_try(member, peer))
        self.changed(None)

    # -- other processes of the bridge ---------------------------------------------------------------------------

    def remembered(self) -> JsonObject:
        """Return what another process has to know to continue the session."""
        subscribed: JsonObject = {member.name: peer.subscribed for member, peer in self._peers.items()}
        return {"params": self.introduction.params, "level": self._level, "subscribed": subscribed}

    def continue_as(self, remembered: JsonObject) -> None:
        """Continue the session of a process that has ended: servers are told what it told them, the client that all may have changed."""
        level, subscribed = remembered.get("level"), as_object(remembered.get("subscribed"))
        self._level = level if isinstance(level, str) else None
        for member in self.hub.members.values():
            peer = self.peer(member)
            peer.continue_as({"level": self._level, "subscribed": subscribed.get(member.name)})
            self.hub.start(_try(member, peer))
        self._live()
        self.changed(None)

    async def reconnect(self) -> None:
        """Do nothing: a session that is continued connects to its servers at once."""

    def end(self) -> None:
        """Give the connections to the servers back."""
        self.hub.discard(self)
        for peer in self._peers.values():
            peer.end()


async def _failure(opening: Awaitable[None]) -> Exception | None:
    """Wait for an opening, and return why it has failed, which a session says where it begins without the server."""
    try:
        await opening
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    return None


async def _try(member: Member, peer: SessionPeer) -> None:
    """Open the connection of a session to a server."""
    try:
        await peer.prepare()
    except McpError as error:
        logger.warning("the server '%s' cannot be reached: %s", member.name, one_line(error))
