"""What the server of an upstream for stateless clients sends: log messages of calls, and changes (LOG-3, SUB-2..6)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import cast

from mcprev.bridge.held import Keeper
from mcprev.bridge.pair import Pair
from mcprev.bridge.relay import LOG, Exchange, Relay, refuse_question
from mcprev.bridge.sessions import SUBSCRIBE, UNSUBSCRIBE
from mcprev.bridge.tasks import related_task
from mcprev.bridge.tools import ServerTools
from mcprev.bridge.upstream import Upstream, logger, with_client_ids
from mcprev.convert import PayloadKind
from mcprev.convert.rules import JsonObject, as_object
from mcprev.errors import InvalidParams, Json, McpError, RpcError, one_line
from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived
from mcprev.protocol.engine import SEVERITY, declares
from mcprev.protocol.subscriptions import (
    ACKNOWLEDGED,
    BY_METHOD,
    CHANGES,
    LISTEN,
    Changed,
    accepted_filter,
    wants,
)
from mcprev.wire.meta_keys import SUBSCRIPTION_ID


class Pooled:
    """Receives what the server of an upstream for stateless clients sends."""

    def __init__(self, relay: Relay, tools: ServerTools) -> None:
        self._relay = relay
        self._tools = tools
        self.serving: int | None = None
        self.upstream: Upstream | None = None
        self.listens: list[Listen] = []
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


class Listen:
    """An open listen stream of a client at a server with sessions."""

    def __init__(self, exchange: Exchange, pair: Pair, accepted: JsonObject) -> None:
        self._exchange = exchange
        self._pair = pair
        self.accepted = accepted

    def begin(self) -> None:
        """Acknowledge what the stream carries."""
        self._send(ACKNOWLEDGED, {"notifications": self.accepted})

    def changed(self, kind: Changed, method: str, params: JsonObject) -> None:
        """Send a change that the stream carries."""
        if wants(self.accepted, kind, cast("str | None", params.get("uri"))):
            self._send(
                method, cast("JsonObject", self._pair.to_client(params or {}, method, PayloadKind.PARAMS))
            )

    def _send(self, method: str, params: JsonObject) -> None:
        meta = {**as_object(params.get("_meta")), SUBSCRIPTION_ID: self._exchange.incoming.id}
        self._exchange.send(method, {**params, "_meta": meta})


async def serve_listen(clients: Keeper, exchange: Exchange, upstream: Upstream) -> None:
    """Serve a listen stream at a server with sessions: subscribe to its resources, and send the changes that it carries.

    Gives back the upstream. Raises `McpError`.
    """  # SUB-2, SUB-3
    receiver, relay, subscribed = upstream.receiver, clients.relay, list[str]()
    assert isinstance(receiver, Pooled)
    pair = relay.pair(exchange.incoming.revision, upstream.revision)
    listen: Listen | None = None
    try:
        asked = (exchange.incoming.params or {}).get("notifications")
        if not isinstance(asked, dict):
            raise InvalidParams("Invalid params: notifications is missing")
        capabilities = upstream.introduction.capabilities
        capable = [kind for kind, change in CHANGES.items() if declares(capabilities, change.capability)]
        accepted = accepted_filter(cast("JsonObject", asked), capable)
        member = CHANGES[Changed.RESOURCE].member
        for uri in accepted.get(member) or ():
            try:
                await receiver.subscribe(upstream, uri, more=1)
            except RpcError as error:
                text = "the server does not let clients subscribe to '%s': %s"
                logger.debug(text, one_line(uri), one_line(error))
            else:
                subscribed.append(uri)
        if member in accepted:
            accepted[member] = subscribed
        listen = Listen(exchange, pair, accepted)
        receiver.listens.append(listen)
        listen.begin()
        await asyncio.wait({upstream.connection.closed})
        ended: JsonObject = {"resultType": "complete", "_meta": {SUBSCRIPTION_ID: exchange.incoming.id}}
        exchange.answer(clients.completed(ended, pair, upstream))
    finally:
        if listen is not None and listen in receiver.listens:
            receiver.listens.remove(listen)
        relay.start(_unlisten(clients, receiver, upstream, subscribed))


async def _unlisten(clients: Keeper, receiver: Pooled, upstream: Upstream, subscribed: list[str]) -> None:
    try:
        for uri in subscribed if upstream.alive else ():
            await receiver.subscribe(upstream, uri, more=-1)
    except McpError as error:
        logger.debug("a subscription could not be ended: %s", one_line(error))
    finally:
        clients.relay.upstreams.give(upstream, keep=clients.keeps(upstream))


async def pass_stream(
    exchange: Exchange, upstream: Upstream, pair: Pair, params: dict[str, Json] | None
) -> dict[str, Json]:
    """Pass the notifications of a listen stream of a stateless server, and return its result, under the client's id."""

    def named(found: JsonObject) -> JsonObject:
        meta = as_object(found.get("_meta"))
        if SUBSCRIPTION_ID not in meta:
            return found
        return {**found, "_meta": {**meta, SUBSCRIPTION_ID: exchange.incoming.id}}

    def take(method: str, found: dict[str, Json]) -> None:
        if pair.has(method):
            exchange.send(
                method, named(cast("JsonObject", pair.to_client(found, method, PayloadKind.PARAMS)))
            )

    return named(await upstream.call(LISTEN, params, total=None, listener=take, caller=exchange))
