"""Results that a bridge returns again, because their server says for how long and to whom (CACHE-2, CACHE-3, CACHE-5, MRTR-9).

A private result is returned to its sender only: a principal with its client, a session, or the client of a pipe. Nobody else
can be told apart. A result is kept for one pair of revisions and the capabilities that the client declared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from mcprev.bridge.introduction import TTL, sender_of
from mcprev.bridge.pair import Pair
from mcprev.conversion.rules import JsonObject, as_object, without
from mcprev.core.connection import Connection
from mcprev.protocol.cache import ResultCache, Scope
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.durations import seconds_of
from mcprev.protocol.subscriptions import Changed
from mcprev.wire.meta_keys import CLIENT_INFO, LOG_LEVEL, VERSION

SCOPE: Final = "cacheScope"
_TRANSIENT: Final = (VERSION, CLIENT_INFO, LOG_LEVEL, "progressToken", "traceparent", "tracestate", "baggage")
"""The members of `_meta` that results do not depend on."""


class Answering(Protocol):
    """The exchange of a request."""

    @property
    def incoming(self) -> IncomingRequest:
        """The request."""
        ...

    @property
    def connection(self) -> Connection:
        """The connection that it came on."""
        ...


class KeptResults:
    """The results of one server that are returned again."""

    def __init__(self, cache: ResultCache, longest: float) -> None:
        """`longest` is the number of seconds for which a result is kept at most, whatever its server says."""
        self._cache = cache
        self._longest = longest
        self._server = object()
        """Identifies the server in the cache, which several bridges may share."""
        self._connections: WeakKeyDictionary[Connection, object] = WeakKeyDictionary()

    async def of(
        self,
        exchange: Answering,
        pair: Pair,
        params: JsonObject | None,
        fetch: Callable[[], Awaitable[JsonObject]],
        final: Callable[[], bool] = lambda: True,
    ) -> JsonObject:
        """Return the result of a request as the server has sent it, now or before; `final` returns whether it may be kept.

        Raises the errors of `fetch`.
        """
        incoming, method = exchange.incoming, exchange.incoming.method
        spec = pair.server.methods.get(method)
        if spec is None or not spec.cacheable:
            return await fetch()
        clock, owner = asyncio.get_running_loop().time, self._owner(incoming, exchange.connection)
        scope, key = Scope(self._server, owner), _key(pair, params)
        kept = self._cache.get(scope, method, key, clock())
        if kept is not None:
            return {**as_object(kept["result"]), TTL: max(0, int(1000 * (kept["until"] - clock())))}
        changes = self._cache.changes
        found = await fetch()
        seconds = seconds_of(found.get(TTL), most=self._longest)
        if seconds and final() and (owner is not None or found.get(SCOPE) == "public"):
            now = clock()
            told: JsonObject = {name: found[name] for name in ("resultType", SCOPE) if name in found}
            entry: JsonObject = {**told, TTL: 1000 * seconds, "until": now + seconds, "result": found}
            self._cache.put(scope, method, key, entry, now, changes=changes)
        return found

    def _owner(self, incoming: IncomingRequest, connection: Connection) -> object:
        """Return to whom private results of a request belong; None if nothing tells its sender from others."""
        sender = sender_of(incoming)
        if sender is not None:
            return sender
        return self._connections.setdefault(connection, object()) if connection.lasting else None

    def changed(self, kind: Changed, uri: str | None) -> None:
        """Forget the results that a change concerns."""
        self._cache.changed(Scope(self._server, None), kind, uri)

    def forget(self) -> None:
        """Forget all results: the server may be another one now."""
        self._cache.forget(Scope(self._server, None))


def _key(pair: Pair, params: JsonObject | None) -> JsonObject:
    """Return what a result depends on beside the server, the sender and the method."""
    given = params or {}
    meta = without(as_object(given.get("_meta")), *_TRANSIENT)
    return {**given, "_meta": {"pair": [pair.client.name, pair.server.name], "sent": meta}}
