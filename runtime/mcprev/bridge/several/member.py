"""One of the servers of a bridge: its connections, its names and its health (SEC-6, TIME-1)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from secrets import token_urlsafe
from typing import Final

from typing_extensions import override

from mcprev.bridge.introduction import ClientIntroduction, Sender, sender_of
from mcprev.bridge.own_tasks import BridgedTasks
from mcprev.bridge.peers import Peers
from mcprev.bridge.relay import Exchange, Relay
from mcprev.bridge.several.health import Health
from mcprev.bridge.several.login_required import LoginRequired
from mcprev.bridge.several.login_state import LoginStep
from mcprev.bridge.several.names import Naming
from mcprev.bridge.stateless import StatelessClients
from mcprev.bridge.upstream import logger
from mcprev.client.targets import Target
from mcprev.errors import Json, one_line
from mcprev_types import Direction

SENDERS: Final = 1_000
"""The senders whose targets one server keeps."""
REFUSED: Final = 10.0
"""Seconds for which a sender who has to log in first is refused without asking the server again."""
_NOBODY: Final[Sender] = ("", None)
_LOOK: Final = 0.05
"""Seconds between two looks whether a call that waits for its user has ended, at a server that is to be closed."""
SEEN: Final = 20_000
"""The names and URIs of one kind that are remembered of a server."""


@dataclass(frozen=True, kw_only=True)
class ServerSpec:
    """One server as it is configured."""

    naming: Naming
    target: Callable[[Sender | None], Target] = field(compare=False)
    """Returns the server as a sender reaches it."""
    per_principal: bool
    source: object
    """What it was made from, without its names: equal sources are one server."""
    logs_in: bool = False
    """Whether users log in at it themselves."""
    login_target: Callable[[Sender, LoginStep], Target] | None = field(default=None, compare=False)
    """Returns the server as a step of a login reaches it; None where users do not log in with a browser of their own."""


class MemberRelay(Relay):
    """What the parts of a bridge share that are about one of its servers."""

    shows_tasks = False

    @override
    def recorded(self, session: str, direction: Direction, message: dict[str, Json]) -> None:
        """Record questions and their answers; all else is recorded as the client sees it."""
        if ("method" in message) is (direction is Direction.SERVER_TO_CLIENT):
            super().recorded(session, direction, message)


class MemberClients(StatelessClients):
    """The stateless clients of one of the servers."""

    @override
    def owner_of(self, exchange: Exchange) -> Hashable:
        """Return whom an upstream is for: with logins, each client of a principal has its own."""
        sender = sender_of(exchange.incoming)
        if sender is None or not self.relay.per_principal:
            return super().owner_of(exchange)
        return "principal", *sender


class MemberTargets:
    """One of the servers as its clients reach it, with a target for each principal where users log in."""

    def __init__(self, spec: ServerSpec, health: Health) -> None:
        self._spec = spec
        self._health = health
        self._for_all = spec.target(None)
        self._targets: OrderedDict[Sender, Target] = OrderedDict()
        self._refused: OrderedDict[Sender, tuple[float, LoginRequired]] = OrderedDict()
        """The senders who have to log in first, and until when the server is not asked again for them."""

    def of(self, client: ClientIntroduction) -> Target:
        """Return the server as a client reaches it."""
        sender = client.sender
        if not self._spec.per_principal or sender is None:
            return self._for_all
        found = self._targets.get(sender)
        if found is None:
            found = self._targets[sender] = self._spec.target(sender)
            if len(self._targets) > SENDERS:
                self._targets.popitem(last=False)
        self._targets.move_to_end(sender)
        return found

    def check(self, client: ClientIntroduction) -> None:
        """Raise the error of a server that is down, or of a sender who has to log in first."""
        now = asyncio.get_running_loop().time()
        until, refusal = self._refused.get(client.sender or _NOBODY, (now, None))
        self._health.check()
        if refusal is not None and now < until:
            raise refusal

    def opened(self) -> None:
        """Take note of a connection."""
        self._health.opened()

    def failed(self, client: ClientIntroduction, error: Exception) -> None:
        """Take note of an attempt that failed."""
        if isinstance(error, LoginRequired) and client.sender is not None:
            self._refused[client.sender] = asyncio.get_running_loop().time() + REFUSED, error
            if len(self._refused) > SENDERS:
                self._refused.popitem(last=False)
        self._health.failed(error)

    def forget_refusals(self) -> None:
        """Ask the server again for senders who had to log in first."""
        self._refused.clear()


@dataclass(eq=False)
class Member:
    """One of the servers of a running bridge."""

    spec: ServerSpec
    relay: MemberRelay
    targets: MemberTargets
    health: Health
    peers: Peers | None = None
    """The processes of the bridge; None if there is only this one."""
    generation: str = field(default_factory=lambda: token_urlsafe(6))
    """Tells this server from one that had its name before or gets it later."""
    retired: bool = False
    """Whether it ends with the calls that it serves now."""
    slow: bool = False
    """Whether its lists came too late, so that they are not waited for as long again."""
    seen: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    """By kind, hashes of the names (without prefix) and URIs that any client was told of; what is away keeps them."""
    _parts: int = 0
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.tasks: BridgedTasks = BridgedTasks()
        """What is known of its tools."""
        self.stateless: StatelessClients = MemberClients(self.relay, self.tasks, self.peers)
        """Serves the stateless clients."""
        self._idle.set()

    @property
    def naming(self) -> Naming:
        """Its names."""
        return self.spec.naming

    @property
    def name(self) -> str:
        """Its name in the configuration."""
        return self.spec.naming.server

    @contextmanager
    def serving(self) -> Generator[None, None, None]:
        """Count a request that it serves."""
        self._parts += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._parts -= 1
            if not self._parts:
                self._idle.set()

    def rename(self, spec: ServerSpec) -> None:
        """Take over other names of the same server."""
        self.spec = replace(self.spec, naming=spec.naming)
        self.seen.clear()

    def remember(self, kind: str, keys: Iterable[str]) -> None:
        """Take note of names (without prefix) or URIs that it lists, as `compared`; of the last ones if there are many."""
        seen = self.seen.setdefault(kind, set())
        if len(seen) > SEEN:
            seen.clear()
        seen.update(map(hash, keys))

    async def retire(self) -> None:
        """Close the connections when the last call has ended, also that of a user who is asked."""
        self.retired = True
        while self._parts or self.stateless.held:
            await self._idle.wait()
            if self.stateless.held:
                await asyncio.sleep(_LOOK)
        logger.info("the server '%s' is no longer used", one_line(self.name))
        await self.relay.aclose()
