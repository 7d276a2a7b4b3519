"""Stateless clients: their calls at a stateless server, and what they share at one with sessions (MRTR-1..7, SUB-2..6).

At a server with sessions, a call that may be answered by a question holds an upstream exclusively. When the server asks, the
upstream call stays open as a `HeldCall`, and the client gets a result that asks; the repetition of its request finds the
call by a sealed state, which is bound to the principal, the method and the params.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable
from functools import partial
from typing import Final, cast

from mcprev.bridge.answers import GONE, MAY_HAVE_RUN
from mcprev.bridge.forwarded import ForwardedExchange
from mcprev.bridge.held import HELD, WORKER, HeldCall
from mcprev.bridge.introduction import ClientIntroduction
from mcprev.bridge.own_tasks import BridgedTasks, OwnTask
from mcprev.bridge.pair import Pair
from mcprev.bridge.peers import Peers
from mcprev.bridge.pooled import ListenStream, Pooled
from mcprev.bridge.relay import (
    Exchange,
    Relay,
)
from mcprev.bridge.sessions import SET_LEVEL
from mcprev.bridge.states import unwrapped, wrapped
from mcprev.bridge.tasks import as_task
from mcprev.bridge.upstream import Caller, Upstream
from mcprev.bridge.upstreams import NOBODY, Owner
from mcprev.bridge.visit import Visit, may_be_asked
from mcprev.client.tasks import CALL
from mcprev.conversion import PayloadKind
from mcprev.conversion.rules import JsonObject, as_object
from mcprev.core.interfaces import client_of, principal_of
from mcprev.errors import (
    ConversionError,
    InvalidParams,
    Json,
    McpError,
    RequestTimeout,
    SessionExpired,
)
from mcprev.protocol.engine import declares
from mcprev.protocol.mrtr import RESPONSES, STATE
from mcprev.protocol.subscriptions import (
    LISTEN,
)
from mcprev.protocol.tasks import Support
from mcprev.server.context import Context

_STATELESS: Final = "stateless"
"""The key of upstreams of a server without sessions, which all clients of a revision share."""
PING: Final = "ping"
_SETTLE: Final = 5.0
"""Seconds that a server has to answer a ping after a call that was cancelled."""


def _first(key: Hashable) -> object:
    """Return what the key of an upstream begins with: whom it is for."""
    return cast("tuple[object, ...]", key)[0]


def _is_for_one_call(key: Hashable) -> bool:
    return type(_first(key)) is object


def _is_for_all(key: Hashable) -> bool:
    """Return whether a key is that of upstreams which all clients use."""
    owner, *_, last = cast("tuple[object, ...]", key)
    return last is None if owner == _STATELESS else owner is None


class StatelessClients:
    """Serves the requests of stateless clients."""

    def __init__(self, relay: Relay, tasks: BridgedTasks, peers: Peers | None = None) -> None:
        """`peers` are the processes that serve the same clients; None if there is only this one."""
        self.relay = relay
        self.peers: Peers | None = peers
        """The processes that serve the same clients."""
        self._tasks = tasks
        self.held: dict[str, HeldCall] = {}
        """The calls that wait for a user, by id."""

    # -- owners --------------------------------------------------------------------------------------------

    def owner_of(self, exchange: Exchange) -> Hashable:
        """Return whom an upstream is for: a principal, the client of a pipe, or nobody in particular."""
        principal = principal_of(exchange.incoming)
        if principal is not None:
            return "principal", principal
        return exchange.connection if exchange.connection.lasting else None

    def _key(self, exchange: Exchange, client: ClientIntroduction) -> Hashable:
        owner = self.owner_of(exchange)
        upstreams = self.relay.upstreams
        if upstreams.introduction is not None and not upstreams.introduction.revision.handshake:
            everybody = upstreams.attributes and not self.relay.per_principal
            return _STATELESS, client.revision.name, None if everybody else owner
        if owner is None and not self.relay.shared:
            owner = self.relay.nobody()
        return owner, client.revision.name, client.digest

    def keeps(self, upstream: Upstream) -> bool:
        """Return whether an upstream that is returned may be used again, which is not so if it was for one call."""
        return not _is_for_one_call(upstream.key)

    def release(self, upstream: Upstream, holder: Caller | None, *, stray: bool) -> None:
        """Give back an upstream.

        After a call that was cancelled, `stray` messages about it may still come: the next call must not be taken for it.
        """
        if stray and holder is not None and upstream.alive and self.keeps(upstream):
            if _first(upstream.key) not in (None, _STATELESS) and PING in upstream.revision.methods:
                upstream.settling = True
                self.relay.start(self._settle(upstream, holder))
                return
            upstream.retired = True
        self.relay.upstreams.give(upstream, holder=holder, keep=self.keeps(upstream))

    async def _settle(self, upstream: Upstream, holder: Caller) -> None:
        """Give back an upstream when its server has answered a ping, and so has read what was sent before."""
        try:
            await upstream.call(PING, None, total=_SETTLE)
        except McpError:
            upstream.retired = True
        finally:
            upstream.settling = False
            self.relay.upstreams.give(upstream, holder=holder, keep=self.keeps(upstream))

    def share_of(self, exchange: Exchange) -> Owner:
        """Return whose share of the connections those for a request count for."""
        known = self.owner_of(exchange) is not None
        return Owner(client_of(exchange.incoming) or (exchange.connection if known else None), known)

    # -- requests ------------------------------------------------------------------------------------------

    async def discover(self, exchange: Exchange, client: ClientIntroduction, versions: list[str]) -> None:
        """Answer `server/discover`. Raises `McpError`."""
        upstreams, relay = self.relay.upstreams, self.relay
        known = upstreams.introduction
        if known is None or not _is_for_one_call(self._key(exchange, client)):
            upstream = await self._take(exchange, client)
            known = upstream.introduction
            upstreams.give(upstream, keep=self.keeps(upstream))
        pair = relay.pair(client.revision, known.revision)
        now = asyncio.get_running_loop().time()
        exchange.answer(known.discovered(pair, relay.own, versions, now))

    async def serve(self, exchange: Exchange, client: ClientIntroduction) -> None:
        """Answer any other request. Raises `McpError`."""
        upstreams, incoming = self.relay.upstreams, exchange.incoming
        if upstreams.era is None:
            upstream = await self._take(exchange, client)
            upstreams.give(upstream, keep=self.keeps(upstream))
        assert upstreams.introduction is not None
        if incoming.origin is not None and incoming.method == CALL and incoming.revision.routing_headers:
            await self._tasks.tools.check_headers(incoming, partial(self._read_tools, exchange, client))
        pair = self.relay.pair(client.revision, upstreams.introduction.revision)
        if self._tasks.serves(incoming, pair, upstreams.introduction):
            await self._tasks.answer(exchange, self._context(exchange))
        elif incoming.method == LISTEN:
            if not self._tasks.in_filter(incoming, pair, upstreams.introduction):
                await self._serve_listen(exchange, client)
                return
            mixed = await self._tasks.joined(exchange, as_object(incoming.capabilities))
            try:
                await self._serve_listen(mixed, client)
            finally:
                mixed.end()
        elif upstreams.introduction.revision.handshake:
            if await self._continues(exchange):
                return
            asks = may_be_asked(incoming) or self._tasks.runs(incoming, upstreams.introduction)
            serve = self._serve_asking if asks else self._serve_session
            try:
                await serve(exchange, client)
            except SessionExpired:
                await serve(exchange, client)  # the server has not executed it
        else:
            await self._serve_stateless(exchange, client, pair)

    async def _serve_listen(self, exchange: Exchange, client: ClientIntroduction) -> None:
        """Answer a listen request. Raises `McpError`."""
        holder = self._holder(exchange)
        take = partial(self._take, exchange, client, holder)
        await ListenStream(self, exchange, client, take, holder).serve()

    def _holder(self, exchange: Exchange) -> Exchange | None:
        """Return who has a connection to a stateless server exclusively: a request to which log messages belong that name none."""
        return (
            exchange if exchange.incoming.level is not None and not self.relay.upstreams.attributes else None
        )

    async def _take(
        self, exchange: Exchange, client: ClientIntroduction, holder: Caller | None = None
    ) -> Upstream:
        upstreams, key = self.relay.upstreams, self._key(exchange, client)
        owner = partial(self._owner, exchange, key, holder)
        upstream = await upstreams.take(
            key, client, lambda: Pooled(self.relay, self._tasks.tools), owner=owner, holder=holder
        )
        receiver = upstream.receiver
        assert isinstance(receiver, Pooled)
        receiver.upstream = upstream
        exchange.reads(upstream)
        if _first(upstream.key) == _STATELESS:
            return upstream
        if not upstream.revision.handshake and upstream in upstreams:
            # It was opened before anybody knew that the server keeps nothing of its clients.
            key = self._key(exchange, client)
            upstreams.rename(upstream, key, self._owner(exchange, key, holder))
        return upstream

    def _owner(self, exchange: Exchange, key: Hashable, holder: Caller | None) -> Owner:
        """Return whose share an upstream counts for; that of nobody if all clients use it, and none alone."""
        return NOBODY if holder is None and _is_for_all(key) else self.share_of(exchange)

    # -- at a server with sessions -------------------------------------------------------------------------

    async def _continues(self, exchange: Exchange) -> bool:
        """Answer a request that continues a held call, wherever that is held; return whether it does.

        Raises `InvalidParams` if that call has ended.
        """
        incoming = exchange.incoming
        token = (incoming.params or {}).get(STATE)
        if token is None:
            return False
        payload = self.relay.states.open(
            token,
            method=incoming.method,
            params=incoming.params,
            principal=principal_of(incoming),
            now=time.time(),
        )
        named = as_object(payload)
        worker, peers = named.get(WORKER), self.peers
        if peers is not None and worker and worker != peers.number:
            target: JsonObject = {"kind": "continue", "held": str(named.get(HELD))}
            await peers.forward(int(worker), target, exchange)
        else:
            await self.continue_held(exchange, str(named.get(HELD)), self.owner_of(exchange))
        return True

    async def continue_held(self, exchange: Exchange, id_: str, owner: Hashable) -> None:
        """Answer a request with a call that is held here. Raises `InvalidParams` if it has ended, or is of another owner."""
        held = self.held.get(id_)
        if held is None or held.origin != owner:
            raise InvalidParams(GONE, data=MAY_HAVE_RUN)
        await held.serve(exchange, as_object((exchange.incoming.params or {}).get(RESPONSES)))

    async def continue_for_peer(self, exchange: ForwardedExchange, id_: str) -> None:
        """Answer a request of a client of another process with a call that is held here. Raises `InvalidParams`."""
        owner = None if principal_of(exchange.incoming) is None else self.owner_of(exchange)
        await self.continue_held(exchange, id_, owner)

    async def _read_tools(self, exchange: Exchange, client: ClientIntroduction) -> None:
        """Read the list of tools. Raises `McpError`."""
        upstream = await self._take(exchange, client)
        try:
            meta = None if upstream.revision.handshake else client.stamp(upstream.revision)
            await self._tasks.tools.read(upstream, meta, self.relay.bounds.wait)
        finally:
            self.relay.upstreams.give(upstream, keep=self.keeps(upstream))

    def _context(self, exchange: Exchange) -> Context:
        return self._tasks.context(exchange, as_object(exchange.incoming.capabilities))

    async def _serve_session(self, exchange: Exchange, client: ClientIntroduction) -> None:
        """Serve a request that the server cannot answer with a question."""
        holder = exchange if exchange.incoming.level is not None else None
        upstream = await self._take(exchange, client, holder)
        visit = Visit(exchange, upstream, self.relay.pair(client.revision, upstream.revision))
        stray = False
        try:
            await self._set_level(visit)
            params = exchange.params(visit.pair, None)
            visit.answer(await visit.call(params, total=self.relay.bounds.call))
        except SessionExpired:
            raise
        except (McpError, ConversionError) as error:
            stray = isinstance(error, RequestTimeout)
            visit.fail(error)
        except asyncio.CancelledError:
            stray = True
            raise
        finally:
            self.release(upstream, holder, stray=stray)

    async def _serve_asking(self, exchange: Exchange, client: ClientIntroduction) -> None:
        """Serve a request that the server may answer with questions, which hold the connection for it."""
        if self.peers is not None:
            await self.peers.start()
        upstream = await self._take(exchange, client, exchange)
        pair, incoming = self.relay.pair(client.revision, upstream.revision), exchange.incoming
        visit = Visit(exchange, upstream, pair)
        held = HeldCall(self, visit, may_ask=may_be_asked(incoming))
        upstream.holder = held
        try:
            await self._set_level(visit)
            params = exchange.params(pair, None)
            support = await self._support(visit, params)
        except BaseException as error:
            self.relay.upstreams.give(upstream, holder=held, keep=self.keeps(upstream))
            if isinstance(error, (McpError, ConversionError)) and not isinstance(error, SessionExpired):
                visit.fail(error)
                return
            raise
        shown = self._tasks.wanted(incoming, pair, upstream.introduction)
        if support is Support.REQUIRED or (shown and support is Support.OPTIONAL):
            params = as_task(params)
            if shown:
                await self._run_task(visit, params)
                return
        held.start(incoming.method, params, progress=incoming.token is not None)
        await held.serve(exchange, {})

    async def _support(self, visit: Visit, params: dict[str, Json] | None) -> Support:
        """Return whether a call can, must or must not ask for a task. Raises `McpError`."""
        if visit.exchange.incoming.method != CALL:
            return Support.FORBIDDEN
        name = (params or {}).get("name")
        return await self._tasks.tools.support(visit.upstream, name, self.relay.bounds.call)

    async def _run_task(self, visit: Visit, params: dict[str, Json]) -> None:
        """Answer a call with a task of the bridge once the server has answered with one."""  # TASKX-2
        upstream, stray = visit.upstream, False

        async def work(own: OwnTask) -> JsonObject:
            nonlocal stray
            upstream.holder = own
            try:
                share = partial(self.relay.upstreams.share, upstream, own)
                return await own.call(params, share=share)
            except (asyncio.CancelledError, RequestTimeout):
                stray = upstream.holder is own
                raise
            finally:
                self.release(upstream, own, stray=stray)

        try:
            result = await self._tasks.run(visit, self._context(visit.exchange), work)
            if result is not None:
                visit.answer(result)
        except SessionExpired:
            raise
        except (McpError, ConversionError) as error:
            visit.fail(error)

    async def _set_level(self, visit: Visit) -> None:
        """Set the level of a request at a server that has one for the session."""
        level, upstream = visit.exchange.incoming.level, visit.upstream
        if (
            level is None
            or level == upstream.level
            or not declares(upstream.introduction.capabilities, "logging")
        ):
            return
        await upstream.call(SET_LEVEL, {"level": level}, total=self.relay.bounds.wait)
        upstream.level = level

    # -- at a stateless server -----------------------------------------------------------------------------

    async def _serve_stateless(self, exchange: Exchange, client: ClientIntroduction, pair: Pair) -> None:
        incoming, holder = exchange.incoming, self._holder(exchange)
        upstream = await self._take(exchange, client, holder)
        if upstream.revision is not pair.server:  # it was replaced meanwhile
            pair = self.relay.pair(client.revision, upstream.revision)
        visit, stray = Visit(exchange, upstream, pair), False
        try:
            stamp = None if pair.same else client.stamp(upstream.revision)
            params = unwrapped(self.relay, exchange, exchange.params(pair, stamp))
            if self._tasks.wanted(incoming, pair, upstream.introduction):
                upstream.users += 1
                work = partial(self._work, upstream, params or {})
                found = await self._tasks.run(visit, self._context(exchange), work)
                if found is None:
                    return
                result = found
            else:
                total, results = self.relay.bounds.call, self.relay.results
                fetch = partial(visit.call, params, total=total)
                result = await (fetch() if results is None else results.of(exchange, pair, params, fetch))
            answer = pair.to_client(result, incoming.method, PayloadKind.RESULT)
            exchange.answer(wrapped(self.relay, exchange, answer))
        except (McpError, ConversionError) as error:
            stray = isinstance(error, RequestTimeout)
            exchange.fail(error, pair)
        except asyncio.CancelledError:
            stray = True
            raise
        finally:
            self.release(upstream, holder, stray=stray)

    async def _work(self, upstream: Upstream, params: dict[str, Json], own: OwnTask) -> JsonObject:
        """Make a call that a stateless server may answer with a task."""
        try:
            return await own.call(params)
        finally:
            self.relay.upstreams.give(upstream, keep=self.keeps(upstream))
