"""What the server of an upstream for stateless clients sends: log messages of calls, and changes (LOG-3, SUB-2..6)."""

from __future__ import annotations

from collections import Counter
from typing import cast

from mcprev.bridge.pair import Pair
from mcprev.bridge.relay import (
    LOG,
    Exchange,
    Relay,
    refuse_question,
)
from mcprev.bridge.sessions import SUBSCRIBE, UNSUBSCRIBE
from mcprev.bridge.upstream import Upstream, logger
from mcprev.convert import PayloadKind
from mcprev.convert.rules import JsonObject, as_object
from mcprev.errors import (
    McpError,
    one_line,
)
from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived
from mcprev.protocol.engine import SEVERITY
from mcprev.protocol.subscriptions import (
    ACKNOWLEDGED,
    BY_METHOD,
    Changed,
    wants,
)
from mcprev.wire.meta_keys import SUBSCRIPTION_ID


class Pooled:
    """Receives what the server of an upstream for stateless clients sends."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self.upstream: Upstream | None = None
        self.listens: list[Listen] = []
        """The open listen streams of clients at a server with sessions."""
        self._subscribed: Counter[str] = Counter()

    def notified(self, notified: NotificationReceived) -> None:
        """Pass log messages to the call that they belong to, and changes to the streams that want them."""
        upstream, method, params = self.upstream, notified.method, notified.params or {}
        if upstream is None or SUBSCRIPTION_ID in as_object(params.get("_meta")):
            return  # what belongs to a listen stream has come with it
        change = BY_METHOD.get(method)
        if change is not None:
            for listen in tuple(self.listens):
                listen.changed(change, method, params)
            return
        caller = upstream.caller_of(notified.origin) or upstream.holder
        request = None if caller is None else caller.request
        if caller is None or request is None:
            logger.debug(
                "'%s' of the server belongs to no request of a client; it is dropped", one_line(method)
            )
            return
        pair = self._relay.pair(request.revision, upstream.revision)
        if method == LOG and not _wants_level(request, params.get("level")):
            return
        if pair.has(method):
            caller.send(method, pair.to_client(notified.params, method, PayloadKind.PARAMS))

    async def asked(self, asked: IncomingRequest, /) -> None:
        """Pass a question to the call that holds the upstream."""
        holder = None if self.upstream is None else self.upstream.holder
        if holder is None:
            refuse_question(asked)
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
