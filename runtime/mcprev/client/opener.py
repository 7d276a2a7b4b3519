"""Opens the connections of a client by the steps of `protocol.negotiation.machine`, each with its own deadline (NEG-1..7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from mcprev.client.session import OpenedConnection
from mcprev.client.targets import HttpTarget, ProbedTarget, Target
from mcprev.conversion import PayloadKind, convert, initialize_to_discover
from mcprev.core.connection import Connection
from mcprev.core.interfaces import RequestHandler
from mcprev.errors import (
    ConnectionLost,
    ConversionError,
    HttpStatusError,
    Json,
    LocalProtocolError,
    McpError,
    ProcessExited,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
    StreamEnded,
)
from mcprev.protocol.connection_state import LocalInfo
from mcprev.protocol.endpoint import ClientProtocol, client_protocol
from mcprev.protocol.negotiation import machine, steps
from mcprev.protocol.tap import Tap
from mcprev.revisions import LATEST, Era, HttpShape, Revision

BEHIND: Final = 1.0
"""Seconds that a probe and an `initialize` behind it have for their responses, once the other one has its own."""
LAST_WORDS: Final = 0.5
"""Seconds to wait until the other calls of an expired session have failed by themselves."""
logger: Final = logging.getLogger("mcprev.client")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What came of a request of the negotiation."""

    outcome: steps.Outcome
    error: McpError | None = None
    result: dict[str, Json] = field(default_factory=dict[str, Json])


@dataclass(slots=True, eq=False)
class Opener:
    """Opens the connections of one client, one after the other, by the steps of a plan."""

    target: Target
    _local: LocalInfo
    _probe_timeout: float
    _open_timeout: float
    _handler: RequestHandler[Connection]
    _result_types: frozenset[str] = frozenset()
    """The result types that the client accepts besides those of the schema."""
    new_protocol: Callable[[LocalInfo, frozenset[str]], ClientProtocol] = ClientProtocol
    tap: Tap | None = None
    trace: Callable[[], Mapping[str, str]] = dict
    """Returns members of `_meta` for the requests of the negotiation."""
    _connection: Connection | None = None
    _closing: asyncio.Task[None] | None = None
    _results: dict[steps.Method, dict[str, Json]] = field(default_factory=dict[steps.Method, dict[str, Json]])
    """The last result of each method of the negotiation."""
    _probe: asyncio.Task[_Asked] | None = None
    """A probe that has no response yet, behind which `initialize` is sent."""
    _soon: float = 0
    """Seconds after which `initialize` is sent behind a probe, on a pipe."""
    _error: McpError | None = None
    """The error of the last step."""
    _may_be_old: bool = False
    """Whether the server may have sessions, so that it is asked by `initialize` if it does not take a probe."""

    async def close(self) -> None:
        """Release the target, after the last connection."""
        await self.target.close()

    async def open(
        self,
        era: Era | None,
        prior: dict[str, Json] | None,
        prefer: Revision | None = None,
        soon: float | None = None,
    ) -> OpenedConnection:
        """Negotiate over a new connection. `prior` is a known result of `server/discover`, `era` the known era,
        `prefer` the revision to ask for first if it has a handshake, and `soon` the time after which `initialize`
        follows an unanswered probe on the same pipe; None: that of a probe.
        """
        self._connection, self._error = None, None
        self._results = {}
        self._soon = min(self._probe_timeout, soon or self._probe_timeout)
        try:
            plan = self.plan(era, prior, prefer)
            self._may_be_old = plan.may_be_old
            plan = await self._run(plan)
            discovery = self._settle(plan, prior)
        except BaseException:
            await self._close()
            raise
        assert isinstance(plan.step, steps.Ready)
        return OpenedConnection(self.connection, plan, discovery, self._results.get(plan.step.method, {}))

    async def reopen(self, lost: OpenedConnection) -> OpenedConnection:
        """Replace a lost connection; the era of the server is known."""
        waited = 0.0
        while lost.connection.error is None and lost.connection.protocol.waiting and waited < LAST_WORDS:
            # The other calls of the expired session fail by themselves; wait for that.
            await asyncio.sleep(0.01)
            waited += 0.01
        await lost.connection.aclose()
        await self._close()
        step = lost.plan.step
        return await self.open(step.revision.era if isinstance(step, steps.Ready) else None, None)

    def plan(self, era: Era | None, prior: dict[str, Json] | None, prefer: Revision | None) -> steps.Plan:
        """Return the first step, from what is known about the target; `open` describes the arguments."""
        target, revisions = self.target, self._local.revisions
        versions = None if prior is None else prior["supportedVersions"]
        known = self.known
        era = era if era is not None or known is None else known.era
        if not isinstance(target, HttpTarget):
            return machine.start(revisions, era=era, prior=versions, prefer=prefer)
        shape = None if known is None else known.shape
        return machine.start(revisions, target.probe, era=era, prior=versions, shape=shape, prefer=prefer)

    @property
    def known(self) -> steps.ProbeResult | None:
        """What the target remembers of its server."""
        return self.target.known if isinstance(self.target, ProbedTarget) else None

    def learn(self, plan: steps.Plan) -> None:
        """Let the target remember the result of a negotiation."""
        if isinstance(self.target, ProbedTarget):
            self.target.learn(plan)

    @property
    def connection(self) -> Connection:
        """The connection that was opened last."""
        assert self._connection is not None
        return self._connection

    @property
    def protocol(self) -> ClientProtocol:
        """The protocol of the connection that was opened last."""
        return client_protocol(self.connection.protocol)

    async def _spawn(self, shape: HttpShape | None) -> None:
        """Open a connection; a previous one is closed first, but not those that others have to the same target."""
        if self._connection is not None:
            await self._close()
        target, protocol = self.target, self.new_protocol(self._local, self._result_types)
        protocol.tap = tap = None if self.tap is None else self.tap.connection(repr(target))
        try:
            if isinstance(target, HttpTarget):
                self._connection = await target.open(protocol, self._handler, shape)
            else:
                self._connection = await target.open(protocol, self._handler)
        except McpError as error:
            if tap is not None:
                tap.closed(error)
            raise

    async def _close(self) -> None:
        """Close the connection and the target; completes even if the caller is cancelled."""
        self._closing = asyncio.get_running_loop().create_task(self._end())
        await asyncio.shield(self._closing)

    async def _end(self) -> None:
        if self._connection is not None:
            await self._connection.aclose()
        await self.target.close()

    async def _run(self, plan: steps.Plan) -> steps.Plan:
        """Follow a plan to its end. Raises `NegotiationError`, or the error of a server that cannot be reached."""
        try:
            await self._spawn(plan.shape)
        except HttpStatusError as error:
            self._error = error
            plan = machine.advance(plan, steps.HttpRefused(error.status, error.body))
        while not isinstance(plan.step, steps.Ready):
            logger.debug("negotiating: %s", plan.step)
            if isinstance(plan.step, steps.Fail):
                raise self._failure(plan, plan.step)
            plan = machine.advance(plan, await self._carry_out(plan, plan.step))
        self.learn(plan)
        return plan

    def _failure(self, plan: steps.Plan, step: steps.Fail) -> McpError:
        """Return the error of a failed plan: that of the transport if the server did not respond at all."""
        error, last = self._error, step.last
        if error is None:
            return step.error
        status = last.status if isinstance(last, steps.HttpRefused | steps.Refused) else None
        unreached = isinstance(last, steps.Exited) and not plan.probe.process
        if unreached or (status is not None and not machine.depends_on_era(status)):
            error.add_note(str(step.error))
            return error
        step.error.__cause__ = error
        if isinstance(error, ProcessExited):
            # The evidence has its whole text, which a traceback need not show twice.
            step.error.__cause__, step.error.__context__ = None, error
        return step.error

    async def _carry_out(
        self, plan: steps.Plan, step: steps.Opening | steps.Both | steps.Respawn
    ) -> steps.Outcome:
        if isinstance(step, steps.Respawn):
            try:
                await self._spawn(step.shape)
            except HttpStatusError as error:
                self._error = error
                return steps.HttpRefused(error.status, error.body)
            except (ConnectionLost, RemoteProtocolError) as error:
                self._error = error
                return steps.Exited(str(error))
            return steps.Spawned()
        if isinstance(step, steps.Both):
            return await self._ask_both(step)
        if isinstance(step, steps.Initialize):
            return self._take(step, await self._ask(step, self._open_timeout))
        if machine.may_ask_both(plan):
            return await self._probe_soon(step)
        # A process that has responded before, and is started again, takes its time again.
        bound = self._open_timeout if plan.both_taken and plan.respawned else self._probe_timeout
        return self._take(step, await self._ask(step, bound))

    def _take(self, step: steps.Opening, asked: _Asked) -> steps.Outcome:
        """Keep what came of a step, and return the outcome."""
        self._error = asked.error
        method = steps.Method.DISCOVER if isinstance(step, steps.Discover) else steps.Method.INITIALIZE
        self._results[method] = asked.result
        return asked.outcome

    async def _probe_soon(self, step: steps.Discover) -> steps.Outcome:
        """Send a probe; if it has no response soon, it stays open, and `initialize` may follow."""
        self._probe = asyncio.create_task(self._ask(step, self._soon + self._open_timeout))
        try:
            done, _ = await asyncio.wait({self._probe}, timeout=self._soon)
        except BaseException:
            self._probe.cancel()
            raise
        return self._take(step, self._probe.result()) if done else steps.Silent(self._soon)

    async def _ask_both(self, step: steps.Both) -> steps.BothAnswers:
        """Send `initialize` behind a probe without a response, and wait for what shows the era of the server.

        The response to `initialize` does. One that shows the other era, or an error, leaves the other request a moment.
        """
        probe, self._probe = self._probe, None
        assert probe is not None
        session = asyncio.create_task(self._ask(step.session, self._open_timeout))
        asking = {probe, session}
        try:
            await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            if probe.done() and not machine.shows_stateless(probe.result().outcome):
                await asyncio.wait({session})
            elif probe.done() or not isinstance(session.result().outcome, steps.Initialized):
                await asyncio.wait(asking, timeout=BEHIND)
        finally:
            ended = {task for task in asking if not task.done()}
            for task in ended:
                task.cancel()
        late = self._take(step.probe, probe.result()) if probe not in ended else None
        if session in ended:
            return steps.BothAnswers(
                late, steps.InvalidReply(f"no response within {BEHIND:g} s of the other")
            )
        return steps.BothAnswers(late, self._take(step.session, session.result()))

    async def _ask(self, step: steps.Opening, bound: float) -> _Asked:
        """Send a request of the negotiation and return what came of it."""
        now, protocol, trace = self.connection.now(), self.protocol, {**self.trace()}
        try:
            if isinstance(step, steps.Discover):
                protocol.stateless.use(step.revision)
                call = protocol.stateless.call(
                    "server/discover",
                    {"_meta": trace} if trace else None,
                    now,
                    idle=bound,
                    total=bound,
                    unchecked=True,
                )
            else:
                call = protocol.session.initialize(step.revision, now, timeout=bound, meta=trace)
            result = await self.connection.wait(call)
        except RpcError as error:
            return _Asked(steps.Refused(error, error.http_status), error)
        except HttpStatusError as error:
            return _Asked(steps.HttpRefused(error.status, error.body), error)
        except RequestTimeout as error:
            return _Asked(steps.InvalidReply(f"no response within {error.elapsed:g} s"))
        except RemoteProtocolError as error:
            return _Asked(steps.InvalidReply(str(error)))
        except (ConnectionLost, LocalProtocolError) as error:
            if isinstance(step, steps.Discover) and self._only_broke(error):
                # Some servers do not respond to an unknown method.
                return _Asked(steps.InvalidReply(str(error)), error)
            closed = self.connection.error if isinstance(error, LocalProtocolError) else None
            return _Asked(steps.Exited(str(self.connection.error or error)), closed or error)
        read = steps.discovered if isinstance(step, steps.Discover) else steps.initialized
        return _Asked(read(result), result=result)

    def _only_broke(self, error: ConnectionLost | LocalProtocolError) -> bool:
        """Return whether a server took a request and then closed its stream or its HTTP connection: others can be opened."""
        if isinstance(error, StreamEnded):
            return True
        broke = isinstance(error, ConnectionLost) and error.in_flight and self.connection.error is None
        return broke and self._may_be_old and isinstance(self.target, HttpTarget)

    def _settle(self, plan: steps.Plan, prior: dict[str, Json] | None) -> dict[str, Json]:
        """Switch to the negotiated revision; return the server's DiscoverResult at the latest revision."""
        ready = plan.step
        assert isinstance(ready, steps.Ready)
        revision, result = ready.revision, self._results.get(ready.method, {})
        try:
            if ready.method is steps.Method.INITIALIZE:
                found = initialize_to_discover(result, from_=revision.name)
                self.protocol.session.opened(revision, result.get("capabilities"))
            else:
                found = result if prior is None or ready.method is steps.Method.DISCOVER else prior
                found = convert(found, "server/discover", PayloadKind.RESULT, from_=revision, to=LATEST)
                self.protocol.settle(revision)
                self.protocol.stateless.peer_capabilities = found.get("capabilities")
        except ConversionError as error:
            raise RemoteProtocolError(
                f"the server sent invalid information about itself (`serverInfo`, `capabilities`): {error}",
                raw=result,
            ) from error
        self.connection.process_events()
        return found
