"""What a client knows of its server without asking: results that are still fresh, and the schemas of tools.

CACHE-2, CACHE-3, CACHE-5, TOOL-6, MRTR-9. Both are forgotten when the server says that they changed, and when the
connection had to be opened again.
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
    """One client's; its cache may be shared with others."""

    def __init__(self, cache: ResultCache | None, scope: Scope, policy: Policy) -> None:
        self._cache = cache
        self._scope = scope
        self._tools = ToolWatch(policy)
        self.check: Callable[[str, models.CallToolResult], None] = self._tools.check
        """Judges a tool's result by its schema (TOOL-6)."""

    @property
    def changes(self) -> int:
        """To be noted before a request is sent; see `ResultCache.changes`."""
        return 0 if self._cache is None else self._cache.changes

    def lookup(
        self, method: str, params: Mapping[str, Json], options: Options, now: float
    ) -> dict[str, Json] | None:
        """The result of a call that need not be made."""
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
        """A call was answered, in one round."""
        if method not in METHODS:
            return
        if method == LIST:
            self._tools.learn(result)
        if self._cache is not None:
            asked = _asked(params, options)
            self._cache.put(self._scope, method, asked, result, now, changes=changes)

    def introduction(self, now: float) -> dict[str, Json] | None:
        """What the server said of itself before, if that is still good; only a shared cache can know."""
        return None if self._cache is None else self._cache.get(self._scope, DISCOVER, {}, now)

    def introduced(self, discovery: Mapping[str, Json], now: float) -> None:
        """The server has said what it is."""
        if self._cache is not None:
            self._cache.put(self._scope, DISCOVER, {}, discovery, now, changes=self._cache.changes)

    def changed(self, kind: Changed, uri: str | None) -> None:
        """The server says that something changed."""
        if kind is Changed.TOOLS:
            self._tools.forget()
        if self._cache is not None:
            self._cache.changed(self._scope, kind, uri)

    def forget(self) -> None:
        """It may be another server from now on."""
        self._tools.forget()
        if self._cache is not None:
            self._cache.forget(self._scope)


def _asked(params: Mapping[str, Json], options: Options) -> Mapping[str, Json]:
    """What was asked; what a caller adds to `_meta` is part of it."""
    meta = options.get("meta")
    return {**params, "_meta": dict(meta)} if meta else params
