"""The servers of one running bridge, which go, come back and are configured anew while clients use them (TIME-1, SEC-6)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from typing_extensions import override

from mcprev.bridge.answers import GONE, MAY_HAVE_RUN
from mcprev.bridge.outages import Outage
from mcprev.bridge.relay import BridgeOptions, BridgeState
from mcprev.bridge.several.health import Health
from mcprev.bridge.several.member import Member, MemberRelay, MemberTargets, ServerSpec
from mcprev.bridge.several.names import Namings, Prefixes, compared
from mcprev.bridge.several.seals import Seals
from mcprev.bridge.upstream import logger
from mcprev.bridge.upstreams import Upstreams
from mcprev.errors import InvalidParams, one_line
from mcprev.revisions import Revision

if TYPE_CHECKING:
    from mcprev.bridge.forwarded import ForwardedExchange
    from mcprev.bridge.introduction import Sender
    from mcprev.bridge.peers import Peers
    from mcprev.bridge.several.login_state import LoginStep
    from mcprev.bridge.several.logins import Logins
    from mcprev.client.recording.recording import Recording
    from mcprev.client.targets import Target
    from mcprev.core.store import Store


class LiveClient(Protocol):
    """A client that is told what happens to the servers: a session, or a listen stream."""

    def changed(self, _member: Member | None) -> None:
        """Take note that lists have changed."""
        ...

    def replaced(self, gone: list[Member]) -> None:
        """Take note that the bridge has other servers."""
        ...


@dataclass(eq=False, kw_only=True)
class Hub(BridgeState):
    """The servers of one running bridge, and the clients that use them."""

    prefixes: Prefixes
    server_revisions: tuple[Revision, ...]
    recording: Recording | None
    options: BridgeOptions
    """What each of the servers shares with the bridge."""
    members: dict[str, Member] = field(default_factory=dict[str, Member])
    """The servers by name, in the order of the configuration."""
    retired: dict[str, Member] = field(default_factory=dict[str, Member])
    """Servers that are not used for new requests any more, by generation."""
    namings: Namings = field(default_factory=lambda: Namings(()))
    store: Store | None = None
    """What the processes of the bridge share; None if there is only this one."""
    _clients: dict[LiveClient, None] = field(default_factory=dict[LiveClient, None])
    _logins: Logins | None = None

    def __post_init__(self) -> None:
        self.seals: Seals = Seals(self.states)
        """Seals what leads to a server."""
        self.peers: Peers | None = None
        """The processes of the bridge."""
        if self.store is not None:
            from mcprev.bridge.peers import Peers

            self.peers = Peers(self.store, self)
            self.peers.continue_held = self._continue_held

    # -- servers -------------------------------------------------------------------------------------------------

    def configure(self, specs: Mapping[str, ServerSpec]) -> None:
        """Have these servers from now on. Those that stay as they were keep their connections.

        Open calls end at the server that they began at. Raises `ValueError` for two servers with one prefix, before
        anything changes.
        """
        namings = Namings(spec.naming for spec in specs.values())
        if list(specs.values()) == [member.spec for member in self.members.values()]:
            return
        before, self.members = self.members, {}
        for name, spec in specs.items():
            known = before.get(name)
            if known is not None and known.spec.source == spec.source:
                known.rename(spec)
                self.members[name] = before.pop(name)
            else:
                self.members[name] = self._new(spec)
        self.namings = namings
        gone = list(before.values())
        for member in gone:
            member.retired = True
            self.retired[member.generation] = member
            self.start(self._retire(member))
        for client in tuple(self._clients):
            client.replaced(gone)

    def _new(self, spec: ServerSpec) -> Member:
        health = Health(of_users=spec.logs_in)
        targets, outage = MemberTargets(spec, health), Outage(spec.naming.server, health)
        upstreams = Upstreams(targets, self.server_revisions, self.own, self.bounds, self.recording, outage)
        relay = MemberRelay(
            upstreams=upstreams,
            per_principal=spec.per_principal,
            name=spec.naming.server,
            **self.options,
        )
        member = Member(spec, relay, targets, health, self.peers)
        health.turned = partial(self._turned, member)
        return member

    async def _continue_held(self, exchange: ForwardedExchange, id_: str) -> None:
        """Answer a request of a client of another process with a call that a server has here. Raises `InvalidParams`."""
        for member in (*self.members.values(), *self.retired.values()):
            if id_ in member.stateless.held:
                with member.serving():
                    await member.stateless.continue_for_peer(exchange, id_)
                return
        raise InvalidParams(GONE, data=MAY_HAVE_RUN)

    async def _retire(self, member: Member) -> None:
        try:
            await member.retire()
        finally:
            self.retired.pop(member.generation, None)

    @override
    async def aclose(self) -> None:
        """Close every connection to every server."""
        if self._logins is not None:
            self._logins.ended = lambda _server: None
            await self._logins.aclose()
        await super().aclose()
        await asyncio.gather(
            *(member.relay.aclose() for member in (*self.members.values(), *self.retired.values()))
        )

    def use(self, logins: Logins) -> None:
        """Let users log in at the servers, and tell clients of all processes when a login has ended."""

        def ended_here(server: str) -> None:
            self._login_ended(server)
            if self.peers is not None:
                self.start(self.peers.tell_login(server))

        logins.ended, logins.target_of, self._logins = ended_here, self._login_target, logins
        if self.peers is not None:
            self.peers.login_ended = self._login_ended

    def _login_ended(self, server: str) -> None:
        member = self.members.get(server)
        if member is not None:
            member.targets.forget_refusals()
            member.relay.upstreams.outage.reached()
            self.tell_changed(member)

    def _login_target(self, server: str, sender: Sender, step: LoginStep) -> Target | None:
        """Return a server as a step of a login reaches it, or None."""
        member = self.members.get(server)
        found = None if member is None else member.spec.login_target
        return None if found is None else found(sender, step)

    def may_list(self, server: str, kind: str, key: str) -> bool:
        """Return whether a server that a client has not heard of may list a name (without prefix) or URI.

        Where every name has a prefix, a server that nobody has heard of may list any.
        """
        member = self.members.get(server)
        if member is None:
            return False
        seen = member.seen.get(kind)
        if seen is None:
            return self.prefixes == "always"
        return hash(compared(kind, key)) in seen

    # -- clients -------------------------------------------------------------------------------------------------

    def add(self, client: LiveClient) -> None:
        """Tell a client from now on what happens to the servers."""
        self._clients[client] = None

    def discard(self, client: LiveClient) -> None:
        """Tell a client nothing any more."""
        self._clients.pop(client, None)

    def tell_changed(self, member: Member) -> None:
        """Tell every client that the lists have changed."""
        if member.retired:
            return
        for client in tuple(self._clients):
            client.changed(member)

    # -- servers that go and come back ---------------------------------------------------------------------------

    def _turned(self, member: Member, *, up: bool) -> None:
        logger.warning(
            "the server '%s' %s",
            one_line(member.name),
            "is back" if up else f"is down: {member.health.reason}",
        )
        self.tell_changed(member)
