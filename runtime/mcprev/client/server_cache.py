"""Caches results and tool schemas of one server on the client (CACHE-2, CACHE-3, CACHE-5, TOOL-6, MRTR-9).

Both are dropped when the server reports a change, and when the connection is opened again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from mcprev.client.options import Options
from mcprev.client.tools import Policy, ToolWatch
from mcprev.core.tool_schemas import LIST
from mcprev.errors import Json
from mcprev.protocol.cache import METHODS, ResultCache, Scope
from mcprev.protocol.subscriptions import Changed

if TYPE_CHECKING:
    from mcprev_types.latest import models

DISCOVER: Final = "server/discover"


class ServerCache:
    """The cached results and schemas of one client; the `ResultCache` may be shared with others."""

    def __init__(self, cache: ResultCache | None, scope: Scope, policy: Policy) -> None:
        self._cache = cache
        self._scope = scope
        self.tools: ToolWatch = ToolWatch(policy)
        self.check: Callable[[str, models.CallToolResult], None] = self.tools.check
        """Validates a tool's result against the tool's output schema."""

    @property
    def changes(self) -> int:
        """The number of changes so far: read it before a request and pass it to `store` (see `ResultCache`)."""
        return 0 if self._cache is None else self._cache.changes

    def lookup(
        self, method: str, params: Mapping[str, Json], options: Options, now: float
    ) -> dict[str, Json] | None:
        """Return the cached result of a call; None if the request must be sent."""
        if self._cache is None or method not in METHODS or options.get("fresh"):
            return None
        return self._cache.get(self._scope, method, _asked(params, options), now)

    def store(
        self,
        method: str,
        params: Mapping[str, Json],
        options: Options,
        result: Mapping[str, Json],
        now: float,
        changes: int,
    ) -> None:
        """Keep the result of a call that needed no further input."""
        if method not in METHODS:
            return
        if method == LIST:
            self.tools.learn(result)
        if self._cache is not None:
            asked = _asked(params, options)
            self._cache.put(self._scope, method, asked, result, now, changes=changes)

    def introduction(self, now: float) -> dict[str, Json] | None:
        """Return the server's cached DiscoverResult; only a shared cache can have one."""
        return None if self._cache is None else self._cache.get(self._scope, DISCOVER, {}, now)

    def introduced(self, discovery: Mapping[str, Json], now: float) -> None:
        """Keep the server's DiscoverResult."""
        if self._cache is not None:
            self._cache.put(self._scope, DISCOVER, {}, discovery, now, changes=self._cache.changes)

    def changed(self, kind: Changed, uri: str | None) -> None:
        """Drop what a change of the server affects."""
        if kind is Changed.TOOLS:
            self.tools.forget()
        if self._cache is not None:
            self._cache.changed(self._scope, kind, uri)

    def forget(self) -> None:
        """Drop everything: the next connection may reach another server."""
        self.tools.forget()
        if self._cache is not None:
            self._cache.forget(self._scope)


def _asked(params: Mapping[str, Json], options: Options) -> Mapping[str, Json]:
    """Return the params that identify a cached result, with the caller's `_meta` members."""
    meta = options.get("meta")
    return {**params, "_meta": dict(meta)} if meta else params
