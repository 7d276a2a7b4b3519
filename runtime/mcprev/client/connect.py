"""Opening a connection: start the server, find the revision, hand out a client (NEG-1..7, NEG-12, LIFE-4, MOD-10,
STDIO-7).

What to try is decided by `protocol.plan`; what is here carries its steps out, each with its own deadline.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, runtime_checkable

from typing_extensions import override

from mcprev.client.client import Client
from mcprev.client.options import TIMEOUT, TOTAL
from mcprev.client.reconnecting import OpenedConnection
from mcprev.client.request_handler import ClientHandler, ClientRequestHandler
from mcprev.client.server_cache import ServerCache
from mcprev.client.session import CallSettings, ClientSession
from mcprev.convert import PayloadKind, convert, initialize_to_discover
from mcprev.core.capabilities import ClientCapabilities, introduction
from mcprev.core.connection import Connection
from mcprev.core.interfaces import RequestHandler
from mcprev.core.keepalive import check_interval
from mcprev.core.reconnect_policy import NEVER, ReconnectPolicy
from mcprev.errors import (
    ConnectionLost,
    ConversionError,
    HttpStatusError,
    Json,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
    Unanswered,
)
from mcprev.protocol.cache import ResultCache, Scope
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.protocol.negotiation import machine as planning
from mcprev.protocol.negotiation import versions as negotiate
from mcprev.protocol.negotiation.http import ProbeResult, depends_on_era
from mcprev.protocol.negotiation.machine import (
    Discover,
    Fail,
    Initialize,
    Method,
    Outcome,
    Plan,
    Probe,
    Ready,
    Respawn,
)
from mcprev.revisions import LATEST, Era, HttpShape, revision_named

if TYPE_CHECKING:
    from types import TracebackType

    from mcprev.client.tools import Policy
    from mcprev_types.latest import models

PROBE: Final = 10.0
"""Seconds that a server gets to answer `server/discover`: more than any takes to start (NEG-5)."""
OPEN: Final = 60.0
"""Seconds that it gets to answer `initialize`."""
LAST_WORDS: Final = 0.5
"""Seconds that the other calls of a session that ran out get to learn of it."""
logger: Final = logging.getLogger("mcprev.client")


class Target(Protocol):
    """A server that can be connected to. A target may have `restarts: ReconnectPolicy`, what `connect` does by default.

    A target whose answers tell more than those of a pipe is an `HttpTarget`.
    """

    async def open(self, protocol: ClientProtocol, handler: RequestHandler[Connection], /) -> Connection:
        """Start it, if need be, and connect an engine to it. Raises `TransportError`."""
        ...

    async def close(self) -> None:
        """End what serves connections that have ended, within bounded time; may be called again.

        Several clients may have connected to one target, each of which closes it when it is done.
        """
        ...


@runtime_checkable
class HttpTarget(Target, Protocol):
    """A server at a URL: what the first answers tell of it is remembered (NEG-6, NEG-7)."""

    probe: Probe
    """What its answers tell."""

    @property
    def known(self) -> ProbeResult | None:
        """What it was found to be before."""
        ...

    def learn(self, plan: Plan, /) -> None:
        """Remember where a plan has led."""
        ...

    async def open(
        self, protocol: ClientProtocol, handler: RequestHandler[Connection], /, shape: HttpShape | None = None
    ) -> Connection:
        """Connect to it as a server of this shape. Raises `TransportError`."""
        ...


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
        description: str | None = None,
        website_url: str | None = None,
        icons: Sequence[models.Icon] = (),
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
        restart: ReconnectPolicy | bool = True,
        cache: ResultCache | bool = True,
        validate: Policy = "warn",
        ping_interval: float | None = None,
        tasks: bool = True,
    ) -> None:
        """Say what to connect to, and as whom.

        `handler` answers what servers ask, and what it overrides is declared; `capabilities` adds to that, such
        as the URL mode of elicitation. `revisions` narrows what is spoken; `mode` is `auto`, `legacy` (sessions
        only) or one revision to pin. `prior` is what this server answered to discovery before, `verdict` the
        era it was last found to be of (`client.plan`): either saves asking. `timeout` and
        `total_timeout` are those of calls (see `Options`): progress starts the first anew, the second bounds a call
        whatever its progress. The other timeouts are those of the two ways to open. `restart` says how often a lost server is connected to again:
        True leaves that to the target (a `stdio` command is, in the way of `ReconnectPolicy()`; a `memory` server is
        not, for it ends when its owner wants it to), False means never. A server that starts anew remembers
        nothing, so a call that was in flight fails and is not repeated. `cache` keeps results for as long as their
        servers say: True is a cache of this client's own, and a shared one is for targets that have a `cache_key`
        (and a `principal`, where private results may be shared). `validate` says what becomes of a tool's result
        that does not fit the schema it was listed with: `warn`, `strict` (an error) or `off`. With `ping_interval`
        the server is asked that often, in seconds, whether it is there, where there are pings; one that does not
        answer within 10 s is lost. `tasks` declares that calls may be answered with tasks where servers decide that;
        they are followed to their ends. Raises `ValueError` for unknown names.
        """
        if isinstance(restart, bool):
            policy: ReconnectPolicy = getattr(target, "restarts", NEVER) if restart else NEVER
        else:
            policy = restart
        shared = (ResultCache() if cache else None) if isinstance(cache, bool) else cache
        server = getattr(target, "cache_key", None) or object()
        scope = Scope(server, getattr(target, "principal", None) or object())
        server_cache = ServerCache(shared, scope, validate)
        self._settings = CallSettings(
            (timeout, total_timeout), policy, check_interval(ping_interval), server_cache
        )
        self._target = target
        self._revisions = negotiate.allow(revisions, mode)
        info = introduction(
            name=name,
            version=version,
            title=title,
            description=description,
            websiteUrl=website_url,
            icons=icons,
        )
        self._identity = ClientCapabilities(
            handler if handler is not None else object(),
            info,
            self._revisions,
            {revision_named(key).name: value for key, value in (exact or {}).items()},
            None if capabilities is None else capabilities.to_wire(),
            tasks=tasks,
        )
        self._prior = None if prior is None else prior.to_wire()
        self._verdict = verdict
        self._bounds = (probe_timeout, open_timeout)
        self._client: Client | None = None

    async def __aenter__(self) -> Client:
        """Connect. Raises `NegotiationError`, which says what was tried, or `TransportError`."""
        server_cache, loop = self._settings.server_cache, asyncio.get_running_loop()
        prior = self._prior or server_cache.introduction(loop.time())
        opened, handler = await self._open(self._verdict, prior)
        if isinstance(opened.plan.step, Ready) and opened.plan.step.method is Method.DISCOVER:
            server_cache.introduced(opened.discovery, loop.time())
        session = ClientSession(opened, self._identity, self._settings, self._reopen, handler)
        self._client = handler.client = Client(session, self._target.close)
        return self._client

    async def _open(
        self, verdict: Era | None, prior: dict[str, Json] | None
    ) -> tuple[OpenedConnection, ClientRequestHandler]:
        attempt = _Attempt(self._target, self._identity, self._bounds)
        try:
            versions = None if prior is None else prior["supportedVersions"]
            plan = await attempt.run(self._plan(verdict, versions))
            discovery = attempt.settle(plan, prior)
        except BaseException:
            await attempt.close()
            raise
        return OpenedConnection(attempt.connection, plan, discovery), attempt.handler

    def _plan(self, verdict: Era | None, prior: Sequence[str] | None) -> Plan:
        """Where to begin, with what is known of the target."""
        target = self._target
        if not isinstance(target, HttpTarget):
            return planning.start(self._revisions, verdict=verdict, prior=prior)
        known = target.known
        era = verdict if verdict is not None or known is None else known.era
        shape = None if known is None else known.shape
        return planning.start(self._revisions, target.probe, verdict=era, prior=prior, shape=shape)

    async def _reopen(self, lost: OpenedConnection) -> OpenedConnection:
        """Open another connection in the place of one, to a server whose era is known (NEG-7)."""
        waited = 0.0
        while lost.connection.error is None and lost.connection.protocol.waiting and waited < LAST_WORDS:
            # The session ran out under other calls too: each is told so by itself.
            await asyncio.sleep(0.01)
            waited += 0.01
        await lost.connection.aclose()
        step = lost.plan.step
        opened, handler = await self._open(step.verdict if isinstance(step, Ready) else None, None)
        handler.client = self._client
        return opened

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

    def __init__(self, target: Target, identity: ClientCapabilities, bounds: tuple[float, float]) -> None:
        self._target = target
        self._identity = identity
        self._bounds = bounds
        self._connection: Connection | None = None
        self._closing: asyncio.Task[None] | None = None
        self._result: dict[str, Json] = {}
        self._error: McpError | None = None
        """Why the last step failed."""
        self.handler = ClientRequestHandler(identity)

    @property
    def connection(self) -> Connection:
        assert self._connection is not None
        return self._connection

    @property
    def protocol(self) -> ClientProtocol:
        return cast("ClientProtocol", self.connection.protocol)

    async def spawn(self, shape: HttpShape | None) -> None:
        """Open a connection, also in the place of one that ended."""
        await self.close()
        protocol, target = ClientProtocol(self._identity, self._identity.result_types), self._target
        if isinstance(target, HttpTarget):
            self._connection = await target.open(protocol, self.handler, shape)
        else:
            self._connection = await target.open(protocol, self.handler)

    async def close(self) -> None:
        """End what is open, all of it, even if whoever waits for that is cancelled."""
        self._closing = asyncio.get_running_loop().create_task(self._end())
        await asyncio.shield(self._closing)

    async def _end(self) -> None:
        if self._connection is not None:
            await self._connection.aclose()
        await self._target.close()

    async def run(self, plan: Plan) -> Plan:
        """Follow a plan to its end. Raises `NegotiationError`, or what kept a server from being asked at all."""
        try:
            await self.spawn(plan.shape)
        except HttpStatusError as error:
            assert isinstance(plan.step, Initialize)
            self._error = error
            plan = planning.advance(plan, planning.HttpRefused(plan.step, error.status, error.body))
        while not isinstance(plan.step, Ready):
            logger.debug("negotiating: %s", plan.step)
            if isinstance(plan.step, Fail):
                raise self._failure(plan, plan.step)
            plan = planning.advance(plan, await self._carry_out(plan.step))
        if isinstance(self._target, HttpTarget):
            self._target.learn(plan)
        return plan

    def _failure(self, plan: Plan, step: Fail) -> McpError:
        """What a plan that failed raises: nothing was negotiated with a server that could not be asked (NEG-6)."""
        error, last = self._error, step.last
        if error is None:
            return step.error
        status = last.status if isinstance(last, planning.HttpRefused | planning.Refused) else None
        unreached = isinstance(last, planning.Exited) and not plan.probe.process
        if unreached or (status is not None and not depends_on_era(status)):
            error.add_note(str(step.error))
            return error
        step.error.__cause__ = error
        return step.error

    async def _carry_out(self, step: Discover | Initialize | Respawn) -> Outcome:
        if isinstance(step, Respawn):
            try:
                await self.spawn(step.shape)
            except HttpStatusError as error:
                self._error = error
                return planning.HttpRefused(step, error.status, error.body)
            except (ConnectionLost, RemoteProtocolError) as error:
                self._error = error
                return planning.Exited(str(error))
            return planning.Spawned()
        self._error = None
        try:
            self._result = await (
                self._discover(step) if isinstance(step, Discover) else self._initialize(step)
            )
        except RpcError as error:
            self._error = error
            return planning.Refused(step, error, error.http_status)
        except HttpStatusError as error:
            self._error = error
            return planning.HttpRefused(step, error.status, error.body)
        except RequestTimeout as error:
            return planning.TimedOut(step, error.elapsed)
        except RemoteProtocolError as error:
            return planning.InvalidReply(step, str(error))
        except (ConnectionLost, LocalProtocolError) as error:
            if isinstance(error, Unanswered) and isinstance(step, Discover):
                # That is how some servers meet what they do not know.
                return planning.InvalidReply(step, str(error))
            self._error = error
            return planning.Exited(str(self.connection.error or error))
        read = planning.discovered if isinstance(step, Discover) else planning.initialized
        return read(step, self._result)

    async def _discover(self, step: Discover) -> dict[str, Json]:
        bound = self._bounds[0]
        call = self.protocol.stateless.call(
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
        call = self.protocol.session.initialize(step.revision, self.connection.now(), timeout=self._bounds[1])
        return await self.connection.wait(call)

    def settle(self, plan: Plan, prior: dict[str, Json] | None) -> dict[str, Json]:
        """Speak what was agreed on; what the server says of itself, as a DiscoverResult of the latest revision."""
        ready = plan.step
        assert isinstance(ready, Ready)
        revision, result = ready.revision, self._result
        try:
            if ready.method is Method.INITIALIZE:
                found = initialize_to_discover(result, from_=revision.name)
                self.protocol.session.opened(revision, result.get("capabilities"))
            else:
                found = result if prior is None or ready.method is Method.DISCOVER else prior
                found = convert(found, "server/discover", PayloadKind.RESULT, from_=revision, to=LATEST)
                self.protocol.settle(revision)
                self.protocol.stateless.peer_capabilities = found.get("capabilities")
        except ConversionError as error:
            raise RemoteProtocolError(f"the server introduced itself badly: {error}", raw=result) from error
        self.connection.process_events()
        return found
