"""Middleware that keeps results and returns them again, each to those alone that may have it."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from pydantic_core import from_json, to_json

from mcprev.core.interfaces import message_origin
from mcprev.core.shares import share_of
from mcprev.errors import Json
from mcprev.middleware.hooks import EntriesOf
from mcprev.middleware.records import INDIRECT, asks, entry_key, is_failed, wire_of
from mcprev.protocol.subscriptions import Changed
from mcprev.server.context import Context
from mcprev.server.middleware import CallNext, HandlerCall, HandlerResult
from mcprev.wire.json_values import is_json_object
from mcprev_types import Model

CACHEABLE: Final[Mapping[str, Changed]] = {
    "tools/call": Changed.TOOLS,
    "resources/read": Changed.RESOURCES,
    "prompts/get": Changed.PROMPTS,
}
"""The methods whose results can be kept, and the change after which they are forgotten."""
_TRANSIENT: Final = frozenset({"progressToken", "traceparent", "tracestate", "baggage"})
"""Members of `_meta` that say nothing about the result."""
_PUBLIC: Final = "public"
_Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Kept:
    text: bytes
    model: type[Model] | None
    entries: tuple[object, ...]
    """The functions of the app that the caller saw under the name; none for a handler that is no app's."""
    uri: str | None
    until: float
    size: int
    """The size of the text and of what it is kept under, which the client chose."""


class Caching:
    """Caches results by method and params: `App(..., middleware=[Caching(60, tools=["search"])])`.

    A cached result is returned to the same caller only: a principal with the same token scopes and claims, or the
    session or connection of a client without one. Requests that have neither get no cached results, except of entries
    that are `public`. Cached results are removed when the entry changes, and a client gets none of an entry that it
    does not see. Results that report a failure or ask for input, calls that asked the client something, tasks, and
    what a tool of `mcprev.transforms` reads or calls for its client are never cached under the name of the tool. A
    cached result comes without the progress and the log messages of the call that made it.
    """

    def __init__(
        self,
        ttl: float,
        *,
        tools: Collection[str] = (),
        methods: Collection[str] = ("resources/read", "prompts/get"),
        public: Collection[str] = (),
        max_entries: int = 1_000,
        max_bytes: int = 16 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ttl` is the time in seconds for which results are cached.

        - `tools` are the names of the tools whose results are cached: those without side effects. None by default.
        - `methods` are the other methods whose results are cached, of `resources/read` and `prompts/get`. Both by
          default.
        - `public` are the names of tools and prompts and the URIs whose results are the same for every caller that sees
          them. None by default.
        - `max_entries` (1,000) and `max_bytes` (16 MiB) bound the cache, params included; the least recently used
          result is removed first.

        Raises `ValueError` for a method whose results cannot be cached, and for a bound that is not positive. Lists
        are not cached: which entries a client sees may differ from call to call.
        """
        wrong = set(methods) - CACHEABLE.keys() - {"tools/call"}
        if wrong or "tools/call" in methods:
            raise ValueError(
                f"results of {', '.join(sorted(wrong)) or 'tools/call'} cannot be kept; `tools` takes names of tools, `methods` of resources/read and prompts/get"
            )
        if not ttl > 0 or max_entries < 1 or max_bytes < 1:
            raise ValueError("the seconds, `max_entries` and `max_bytes` of Caching must be positive")
        self._ttl, self._clock = ttl, clock
        self._tools, self._methods, self._public = frozenset(tools), frozenset(methods), frozenset(public)
        self._max_entries, self._max_bytes, self._bytes = max_entries, max_bytes, 0
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._connections = WeakKeyDictionary[Any, object]()
        self._changes = 0
        self.entries: EntriesOf | None = None
        """Finds the functions of the app; set by the app."""

    def for_method(self, method: str) -> Caching | None:
        """Return this middleware for a method whose results are cached."""
        return self if method in self._methods or (method == "tools/call" and self._tools) else None

    def changed(self, kind: Changed, uri: str | None = None) -> None:
        """Remove the results that a change concerns; the server calls this."""
        self._changes += 1
        for key, kept in tuple(self._kept.items()):
            of_kind = CACHEABLE[str(key[0])]
            below = kept.uri is not None and (
                uri is None or uri.startswith(kept.uri) or kept.uri.startswith(uri)
            )
            if of_kind is kind or (kind is Changed.RESOURCE and of_kind is Changed.RESOURCES and below):
                self._remove(key)

    def clear(self) -> None:
        """Remove all results."""
        self._changes += 1
        self._kept.clear()
        self._bytes = 0

    async def __call__(self, call: HandlerCall, call_next: CallNext) -> HandlerResult:
        """Return a kept result, or pass a call on and keep its result."""
        key = self._key(call)
        if key is None:
            return await call_next(call)
        seen = await self._seen(call)
        kept = self._kept.get(key)
        if kept is not None and kept.entries == seen and self._clock() < kept.until:
            self._kept.move_to_end(key)
            again: Json = from_json(kept.text)
            return again if kept.model is None else kept.model.from_wire(again)
        changes = self._changes
        result = await call_next(call)
        kept_inside = INDIRECT[call.ctx]  # the inner result is kept where that is allowed, not this one
        if kept_inside or _interactive(call.ctx):
            return result
        if changes == self._changes and (self.entries is None or seen):
            self._keep(key, result, seen)
        return result

    def _key(self, call: HandlerCall) -> _Key | None:
        """Return what a result depends on; None for a call whose result is not kept."""
        ctx, name = call.ctx, entry_key(call)
        if (
            (call.method == "tools/call" and name not in self._tools)
            or _interactive(ctx)
            or ctx.running is not None
        ):
            return None
        caller = _PUBLIC if name in self._public else self._caller(ctx)
        params = wire_of(call.params)
        if caller is None or not is_json_object(params):
            return None
        params = dict(params)
        meta: Json = params.pop("_meta", None) or {}
        if is_json_object(meta):
            params["_meta"] = {key: item for key, item in meta.items() if key not in _TRANSIENT}
        revision = ctx.request.revision.name
        return call.method, revision, caller, json.dumps(params, sort_keys=True, separators=(",", ":"))

    def _caller(self, ctx: Context) -> object:
        """Return who calls, as far as results are concerned; None for a request that nothing tells apart."""
        access = ctx.access
        if access is not None:
            claims = json.dumps(access.claims, sort_keys=True, default=repr)
            return access.subject, access.client_id, access.scopes, access.audience, claims
        if ctx.principal is not None:
            return ("principal", ctx.principal)
        if message_origin(ctx.request) is not None and ctx.connection.session_id is None:
            return None
        return self._connections.setdefault(ctx.connection, object())

    async def _seen(self, call: HandlerCall) -> tuple[object, ...]:
        """Return the functions of the app that can serve a call, and that the caller sees."""
        found = [] if self.entries is None else self.entries(call.method, call.params)
        return tuple([entry for entry in found if await entry.shown(call.ctx)])

    def _keep(self, key: _Key, result: HandlerResult, seen: tuple[object, ...]) -> None:
        if result is None or is_failed(result) or asks(result):
            return
        try:
            text = to_json(wire_of(result), inf_nan_mode="constants")
            from_json(text, allow_inf_nan=False)
        except ValueError:
            return  # a result that does not round-trip exactly is not kept
        self._remove(key)
        size = len(text) + sum(len(str(part)) for part in key)
        if size > self._max_bytes:
            return
        uri = json.loads(str(key[3])).get("uri")
        model = None if isinstance(result, Mapping) else type(result)
        self._kept[key] = _Kept(text, model, seen, uri, self._clock() + self._ttl, size)
        self._bytes += size
        while self._bytes > self._max_bytes or len(self._kept) > self._max_entries:
            self._remove(self._first_to_go(key[2]))

    def _first_to_go(self, caller: object) -> _Key:
        """Return the oldest result of a caller that has more than its share, else the oldest one of all."""  # SEC-6
        own = [(key, kept.size) for key, kept in self._kept.items() if key[2] == caller]
        size = sum(size for _, size in own)
        if len(own) > share_of(self._max_entries) or size > share_of(self._max_bytes):
            return own[0][0]
        return next(iter(self._kept))

    def _remove(self, key: _Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= kept.size


def _interactive(ctx: Context) -> bool:
    """Return whether a call has asked its client for something, or continues with an answer."""
    return bool(ctx.asked or ctx.answers.given or ctx.answers.state)
