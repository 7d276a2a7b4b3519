"""What the server of an upstream for stateless clients sends: log messages of calls, and changes (LOG-3, SUB-2..6)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from mcprev.bridge.held import Keeper
from mcprev.bridge.introduction import ClientIntroduction
from mcprev.bridge.outages import Attempts
from mcprev.bridge.relay import LOG, Exchange, Relay, refuse_question
from mcprev.bridge.sessions import SUBSCRIBE, UNSUBSCRIBE
from mcprev.bridge.tasks import related_task
from mcprev.bridge.tools import ServerTools
from mcprev.bridge.upstream import Caller, Upstream, logger, with_client_ids
from mcprev.bridge.visit import Visit
from mcprev.conversion import PayloadKind
from mcprev.conversion.rules import JsonObject, as_list, as_object
from mcprev.errors import (
    ConversionError,
    InvalidParams,
    Json,
    McpError,
    MethodNotFound,
    RequestTimeout,
    RpcError,
    SessionExpired,
    one_line,
)
from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived
from mcprev.protocol.engine import SEVERITY, declares
from mcprev.protocol.subscriptions import (
    ACKNOWLEDGED,
    BY_METHOD,
    CHANGES,
    LISTEN,
    TASK_IDS,
    Changed,
    accepted_filter,
    wants,
)
from mcprev.wire.json_values import is_json_object
from mcprev.wire.meta_keys import SUBSCRIPTION_ID


class Pooled:
    """Receives what the server of an upstream for stateless clients sends."""

    def __init__(self, relay: Relay, tools: ServerTools) -> None:
        self._relay = relay
        self._tools = tools
        self.serving: int | None = None
        self.upstream: Upstream | None = None
        self.listens: list[ListenStream] = []
        """The open listen streams of clients at a server with sessions."""
        self._subscribed: Counter[str] = Counter()

    def notified(self, notified: NotificationReceived) -> None:
        """Pass log messages to the call that they belong to, and changes to the streams that want them."""
        upstream, method, params = self.upstream, notified.method, notified.params or {}
        if upstream is None or upstream.in_listen_stream(notified):
            return
        change = BY_METHOD.get(method)
        if change is Changed.TOOLS:
            self._tools.forget()
        if change is not None:
            for listen in tuple(self.listens):
                listen.changed(change, method, params)
            return
        call = upstream.stream_of(params)
        caller = (call and upstream.calls.get(call)) or upstream.caller_of(notified.origin) or upstream.holder
        request = None if caller is None else caller.request
        if caller is None or request is None:
            logger.debug(
                "'%s' of the server does not belong to a request of a client; it is dropped", one_line(method)
            )
            return
        pair = self._relay.pair(request.revision, upstream.revision)
        if method == LOG and not _wants_level(request, params.get("level")):
            return
        if pair.has(method):
            found = pair.to_client(notified.params, method, PayloadKind.PARAMS)
            caller.send(method, found if call is None else with_client_ids(as_object(found), call, caller))

    async def asked(self, asked: IncomingRequest, /) -> None:
        """Pass a question to the task that it names, or to the call that holds the upstream."""
        upstream = self.upstream
        holder = None if upstream is None else upstream.related.get(related_task(asked), upstream.holder)
        if holder is None:
            refuse_question(asked, None if upstream is None else next(iter(upstream.requests()), None))
        else:
            await holder.asked(asked)

    def lost(self, upstream: Upstream) -> None:
        """Do nothing: each stream opens a connection again."""

    async def subscribe(self, upstream: Upstream, uri: str, *, more: int) -> None:
        """Count a subscription of a resource; subscribe with the first, unsubscribe with the last. Raises `McpError`."""
        before = self._subscribed[uri]
        self._subscribed[uri] += more
        method = SUBSCRIBE if more > 0 and not before else UNSUBSCRIBE if not self._subscribed[uri] else None
        if not self._subscribed[uri]:
            del self._subscribed[uri]
        if method is not None:
            try:
                await upstream.call(method, {"uri": uri}, total=self._relay.bounds.wait)
            except McpError:
                if more > 0:
                    self._subscribed[uri] -= more
                raise


def _wants_level(request: IncomingRequest, level: object) -> bool:
    """Return whether a request asked for log messages of a level."""
    return request.level is not None and SEVERITY.get(str(level), 0) >= SEVERITY[request.level]


class ListenStream:
    """The listen stream of a stateless client. It outlives outages of the server: then everything counts as changed.

    At a server with sessions, it is made of subscriptions and of what the server tells; at a stateless one, of a stream of the
    server's, under the id of the client's request.
    """  # SUB-2, SUB-3, SUB-5

    def __init__(
        self,
        clients: Keeper,
        exchange: Exchange,
        client: ClientIntroduction,
        take: Callable[[], Awaitable[Upstream]],
        holder: Caller | None,
    ) -> None:
        """`take` returns a connection to the server, which `holder` has exclusively, if there is one."""
        asked: Json = (exchange.incoming.params or {}).get("notifications")
        if not is_json_object(asked):
            raise InvalidParams("Invalid params: notifications is missing")
        self._asked = asked
        self._clients = clients
        self._exchange = exchange
        self._client = client
        self._take = take
        self._holder = holder
        self._attempts = Attempts(clients.relay.upstreams.outage)
        self._accepted: JsonObject | None = None
        """What the stream carries; None before it was acknowledged."""
        self._visit: Visit | None = None
        """The stream at the connection to the server that it had last."""

    async def serve(self) -> None:
        """Serve the stream until its client or the bridge ends it, or the server refuses it. Raises `McpError`."""
        outage, expired, result = self._clients.relay.upstreams.outage, False, None
        try:
            while not outage.over:
                error: McpError | None = None
                try:
                    result = await self._carry()
                except SessionExpired as failure:
                    error, again = failure, expired
                    expired = True
                    if not again:
                        continue
                except McpError as failure:
                    error = failure
                if self._ends(error):
                    if error is not None:
                        raise error
                    break
                await self._attempts.wait(error)
        except (McpError, ConversionError) as error:
            self._exchange.fail(error, None if self._visit is None else self._visit.pair)
        else:
            self._answer(result)
        finally:
            self._attempts.end()

    def _ends(self, error: McpError | None) -> bool:
        """Return whether the stream ends with that at the server, or with an error.

        What a server does not know now or no longer is told to the client; all else may pass. One that has carried nothing ends
        as the server's does, and so does one of tasks, which may all have ended.
        """
        accepted = self._accepted
        if accepted is None or error is not None:
            return accepted is None or isinstance(error, MethodNotFound | InvalidParams)
        return TASK_IDS in accepted or not any(accepted.values())

    async def _carry(self) -> JsonObject | None:
        """Carry changes until the connection to the server is lost; return the result of a stream that the server ends."""
        upstream = await self._take()
        pair = self._clients.relay.pair(self._exchange.incoming.revision, upstream.revision)
        self._visit = visit = Visit(self._exchange, upstream, pair)
        if upstream.revision.handshake:
            await self._in_session(upstream)
            return None
        stray = False
        try:
            return await self._pass_on(visit)
        except (asyncio.CancelledError, RequestTimeout):
            stray = True
            raise
        finally:
            self._clients.release(upstream, self._holder, stray=stray)

    def _answer(self, result: JsonObject | None) -> None:
        """Answer with the end of the stream in good order."""
        assert self._visit is not None
        ended: JsonObject = {  # makes SubscriptionsListenResult
            "resultType": "complete",
            "_meta": {SUBSCRIPTION_ID: self._exchange.incoming.id},
        }
        if result is None:
            result = self._visit.completed(ended)
        self._exchange.answer(result)

    def _begun(self, accepted: JsonObject) -> bool:
        """Take note of what the server tells from now on; return whether the stream begins with that, or is told all instead."""
        self._attempts.heard()
        first = self._accepted is None
        if first:
            self._accepted = accepted
        else:
            self._all_changed()
        return first

    def _all_changed(self) -> None:
        accepted = self._accepted or {}
        for kind, change in CHANGES.items():
            if kind is Changed.RESOURCE:
                for uri in as_list(accepted.get(change.member)) or ():
                    self._send(change.method, {"uri": uri})
            elif accepted.get(change.member) is True:
                self._send(change.method, {})

    def _send(self, method: str, params: JsonObject) -> None:
        meta = {**as_object(params.get("_meta")), SUBSCRIPTION_ID: self._exchange.incoming.id}
        self._exchange.send(method, {**params, "_meta": meta})

    # -- at a server with sessions ---------------------------------------------------------------------------------

    async def _in_session(self, upstream: Upstream) -> None:
        """Subscribe to the resources of the stream, and send the changes that it carries until the connection ends."""
        receiver, relay, subscribed = upstream.receiver, self._clients.relay, list[str]()
        assert isinstance(receiver, Pooled)
        accepted = self._accepted
        try:
            if accepted is None:
                capabilities = upstream.introduction.capabilities
                capable = [
                    kind for kind, change in CHANGES.items() if declares(capabilities, change.capability)
                ]
                accepted = accepted_filter(self._asked, capable)
            member = CHANGES[Changed.RESOURCE].member
            wanted: list[str] = accepted.get(member) or []
            for uri in wanted:
                try:
                    await receiver.subscribe(upstream, uri, more=1)
                except RpcError as error:
                    text = "the server does not let clients subscribe to '%s': %s"
                    logger.debug(text, one_line(uri), one_line(error))
                else:
                    subscribed.append(uri)
            if self._accepted is None and member in accepted:
                accepted[member] = [*subscribed]
            receiver.listens.append(self)
            if self._begun(accepted):
                self._send(ACKNOWLEDGED, {"notifications": accepted})
            await asyncio.wait({upstream.connection.closed})
        finally:
            if self in receiver.listens:
                receiver.listens.remove(self)
            relay.start(self._unlisten(upstream, receiver, subscribed))

    async def _unlisten(self, upstream: Upstream, receiver: Pooled, subscribed: list[str]) -> None:
        """Give back a connection, after its server tells nothing more for this stream."""
        try:
            for uri in subscribed if upstream.alive else ():
                await receiver.subscribe(upstream, uri, more=-1)
        except McpError as error:
            logger.debug("a subscription could not be ended: %s", one_line(error))
        finally:
            self._clients.release(upstream, self._holder, stray=False)

    def changed(self, kind: Changed, method: str, params: JsonObject) -> None:
        """Send a change that the stream carries."""
        if self._visit is not None and wants(self._accepted or {}, kind, params.get("uri")):
            pair = self._visit.pair
            self._send(method, pair.to_client(params or {}, method, PayloadKind.PARAMS))

    # -- at a stateless server -------------------------------------------------------------------------------------

    async def _pass_on(self, visit: Visit) -> JsonObject:
        """Pass the notifications of a stream of the server, and return its result, under the client's id."""
        exchange, upstream, pair = visit.exchange, visit.upstream, visit.pair

        def named(found: JsonObject) -> JsonObject:
            meta = as_object(found.get("_meta"))
            if SUBSCRIPTION_ID not in meta:
                return found
            return {**found, "_meta": {**meta, SUBSCRIPTION_ID: exchange.incoming.id}}

        def take(method: str, given: dict[str, Json]) -> None:
            if not pair.has(method):
                return
            found = named(pair.to_client(given, method, PayloadKind.PARAMS))
            if method != ACKNOWLEDGED or self._begun(as_object(found.get("notifications"))):
                exchange.send(method, found)

        params = exchange.params(pair, None if pair.same else self._client.stamp(upstream.revision))
        result = await upstream.call(LISTEN, params, total=None, listener=take, caller=exchange)
        return named(pair.to_client(result, LISTEN, PayloadKind.RESULT))
