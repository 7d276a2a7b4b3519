"""Opening a connection: start the server, find the revision, hand out a client (NEG-1..7, NEG-12, LIFE-4, MOD-10).

What to try is decided by `protocol.plan`; what is here carries its steps out, each with its own deadline.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from typing_extensions import override

from mcprev.client import TIMEOUT, TOTAL, Client, ClientHandler
from mcprev.convert import Kind, convert, initialize_to_discover
from mcprev.driver import Connection, Desk
from mcprev.errors import (
    ConnectionLost,
    ConversionError,
    Json,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
)
from mcprev.identity import ClientIdentity
from mcprev.protocol import negotiate
from mcprev.protocol import plan as planning
from mcprev.protocol.plan import Discover, Fail, How, Initialize, Outcome, Plan, Ready, Respawn
from mcprev.protocol.sides import ClientSide
from mcprev.revisions import LATEST, Era, revision
from mcprev.serving import ClientDesk
from mcprev.transports.lines import LineConnection

if TYPE_CHECKING:
    from types import TracebackType

    from mcprev.server import Server
    from mcprev_types.latest import models

PROBE: Final = 10.0
"""Seconds that a server gets to answer `server/discover`: more than any takes to start (NEG-5)."""
OPEN: Final = 60.0
"""Seconds that it gets to answer `initialize`."""
logger: Final = logging.getLogger("mcprev.client")


class Target(Protocol):
    """A server that can be connected to."""

    async def open(self, side: ClientSide, desk: Desk, /) -> Connection:
        """Start it, if need be, and connect an engine to it. Raises `TransportError`."""
        ...

    async def close(self) -> None:
        """End it, within bounded time; may be called again."""
        ...


class memory:  # noqa: N801 - called like a function, as `stdio` is
    """A server in this process: `connect(memory(server))`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: Connection | None = None

    async def open(self, side: ClientSide, desk: Desk, /) -> Connection:
        """Join the two ends."""
        from mcprev.transports.memory import join

        self._connection = self._server.connection()
        connection = LineConnection(side, desk, logger, linger=0)
        join(connection, self._connection)
        return connection

    async def close(self) -> None:
        """End the server's end."""
        if self._connection is not None:
            await self._connection.aclose()


class connect:  # noqa: N801 - called like a function
    """A connection to a server: `async with connect(stdio("command")) as client`, or `await connect(...)`."""

    def __init__(
        self,
        target: Target,
        *,
        handler: ClientHandler | None = None,
        name: str = "mcprev",
        version: str = "0",
        title: str | None = None,
        revisions: Sequence[str] | None = None,
        mode: str = "auto",
        capabilities: models.ClientCapabilities | None = None,
        exact: Mapping[str, object] | None = None,
        prior: models.DiscoverResult | None = None,
        verdict: Era | None = None,
        timeout: float | None = TIMEOUT,
        total_timeout: float | None = TOTAL,
        probe_timeout: float = PROBE,
        open_timeout: float = OPEN,
    ) -> None:
        """Say what to connect to, and as whom.

        `handler` answers what servers ask, and what it overrides is declared; `capabilities` adds to that, such
        as the URL mode of elicitation. `revisions` narrows what is spoken; `mode` is `auto`, `legacy` (sessions
        only) or one revision to pin. `prior` is what this server answered to discovery before, `verdict` the
        era it was last found to be of (`client.plan`): either saves asking. The timeouts are those of calls
        (see `Options`) and of the two ways to open. Raises `ValueError` for unknown names.
        """
        self._target = target
        self._rows = negotiate.allow(revisions, mode)
        info: dict[str, Json] = {"name": name, "version": version}
        if title is not None:
            info["title"] = title
        self._identity = ClientIdentity(
            handler if handler is not None else object(),
            info,
            self._rows,
            {revision(key).name: value for key, value in (exact or {}).items()},
            None if capabilities is None else capabilities.to_wire(),
        )
        self._prior = None if prior is None else prior.to_wire()
        self._verdict = verdict
        self._timeouts = (timeout, total_timeout)
        self._bounds = (probe_timeout, open_timeout)
        self._client: Client | None = None

    async def __aenter__(self) -> Client:
        """Connect. Raises `NegotiationError`, which says what was tried, or `TransportError`."""
        attempt = _Attempt(self._target, self._identity, self._bounds)
        try:
            versions = None if self._prior is None else self._prior["supportedVersions"]
            plan = planning.start(self._rows, verdict=self._verdict, prior=versions)
            await attempt.spawn()
            plan = await attempt.run(plan)
            discovery = attempt.settle(plan, self._prior)
        except BaseException:
            await attempt.close()
            raise
        self._client = Client(
            attempt.connection, self._identity, plan, discovery, self._timeouts, self._target.close
        )
        attempt.desk.client = self._client
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.aclose()

    def __await__(self) -> Generator[Any, None, Client]:
        return self.__aenter__().__await__()

    @override
    def __repr__(self) -> str:
        return f"<connect {self._target!r}>"


class _Attempt:
    """Carries out the steps of a plan."""

    def __init__(self, target: Target, identity: ClientIdentity, bounds: tuple[float, float]) -> None:
        self._target = target
        self._identity = identity
        self._bounds = bounds
        self._connection: Connection | None = None
        self._result: dict[str, Json] = {}
        self.desk = ClientDesk(identity)

    @property
    def connection(self) -> Connection:
        assert self._connection is not None
        return self._connection

    @property
    def side(self) -> ClientSide:
        return cast("ClientSide", self.connection.side)

    async def spawn(self) -> None:
        """Open a connection, also in the place of one that ended."""
        await self.close()
        self._connection = await self._target.open(ClientSide(self._identity), self.desk)

    async def close(self) -> None:
        """End what is open."""
        if self._connection is not None:
            await self._connection.aclose()
        await self._target.close()

    async def run(self, plan: Plan) -> Plan:
        """Follow a plan to its end. Raises `NegotiationError`."""
        while not isinstance(plan.step, Ready):
            logger.debug("negotiating: %s", plan.step)
            if isinstance(plan.step, Fail):
                last = plan.step.last
                cause = last.error if isinstance(last, planning.Refused) else None
                raise plan.step.error from cause
            plan = planning.advance(plan, await self._carry_out(plan.step))
        return plan

    async def _carry_out(self, step: Discover | Initialize | Respawn) -> Outcome:
        if isinstance(step, Respawn):
            try:
                await self.spawn()
            except ConnectionLost as error:
                return planning.Exited(str(error))
            return planning.Spawned()
        try:
            self._result = await (
                self._discover(step) if isinstance(step, Discover) else self._initialize(step)
            )
        except RpcError as error:
            return planning.Refused(step, error)
        except RequestTimeout as error:
            return planning.TimedOut(step, error.elapsed)
        except RemoteProtocolError as error:
            return planning.Garbled(step, str(error))
        except (ConnectionLost, LocalProtocolError) as error:
            return planning.Exited(str(self.connection.error or error))
        read = planning.discovered if isinstance(step, Discover) else planning.initialized
        return read(step, self._result)

    async def _discover(self, step: Discover) -> dict[str, Json]:
        bound = self._bounds[0]
        call = self.side.stateless.call(
            step.revision,
            "server/discover",
            None,
            self.connection.now(),
            idle=bound,
            total=bound,
            unchecked=True,
        )
        return await self.connection.wait(call)

    async def _initialize(self, step: Initialize) -> dict[str, Json]:
        call = self.side.session.initialize(step.revision, self.connection.now(), timeout=self._bounds[1])
        return await self.connection.wait(call)

    def settle(self, plan: Plan, prior: dict[str, Json] | None) -> dict[str, Json]:
        """Speak what was agreed on; what the server says of itself, as a DiscoverResult of the latest revision."""
        ready = plan.step
        assert isinstance(ready, Ready)
        row, result = ready.revision, self._result
        try:
            if ready.how is How.INITIALIZE:
                found = initialize_to_discover(result, from_=row.name)
                self.side.session.opened(row, result.get("capabilities"))
            else:
                found = result if prior is None or ready.how is How.DISCOVER else prior
                found = convert(found, "server/discover", Kind.RESULT, from_=row, to=LATEST)
                self.side.settle(row)
                self.side.stateless.peer_capabilities = found.get("capabilities")
        except ConversionError as error:
            raise RemoteProtocolError(f"the server introduced itself badly: {error}", raw=result) from error
        self.connection.pump()
        return found
