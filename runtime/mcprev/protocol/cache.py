"""Results that a client need not ask for again, for as long as their server says (CACHE-2, CACHE-3, CACHE-5, MRTR-9).

The schema says which methods have such results. One is served again only for the same method and the same params, while it is fresh:
a whole `public` one to everybody who speaks to the server, a `private` one within its own scope of authorization.
What a notification says has changed is forgotten, also when it was still on its way; nothing is ever fetched from
here, so nothing is polled. Entries are kept as JSON text: whoever gets one can change it at will, and the size is
known. Time is passed in.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from pydantic_core import from_json, to_json

from mcprev.errors import Json
from mcprev.protocol.subscriptions import Changed
from mcprev.revisions import LATEST

MAX_ENTRIES: Final = 1_024
MAX_BYTES: Final = 16 * 1024 * 1024
METHODS: Final = frozenset(name for name, spec in LATEST.methods.items() if spec.cacheable)
"""The methods whose results can be kept, as the schema says."""
_OF_CHANGE: Final[Mapping[Changed, tuple[str, ...]]] = {
    Changed.TOOLS: ("tools/list",),
    Changed.PROMPTS: ("prompts/list",),
    Changed.RESOURCES: ("resources/list", "resources/templates/list"),
    Changed.RESOURCE: ("resources/read",),
}
_RETRY: Final = frozenset({"inputResponses", "requestState"})
Key: TypeAlias = tuple[object, object, str, str]
"""The server, whom it is for (None for everybody), the method, and the params."""
_canonical: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Scope:
    """Where results come from and whom the private ones are for."""

    server: object
    """Whatever tells servers apart, such as a URL."""
    principal: object
    """Whatever tells authorizations apart; no two clients share one unless they say so."""


@dataclass(frozen=True, slots=True)
class _Entry:
    text: bytes
    until: float
    uri: str | None


class ResultCache:
    """Keeps results of any number of servers, the least recently used ones the shortest."""

    def __init__(self, *, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        """Bound what is kept; raises `ValueError` for bounds that are no positive numbers."""
        if max_entries < 1 or max_bytes < 1:
            raise ValueError("a cache holds at least one entry of at least one byte")
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._bytes = 0
        self._changes = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def changes(self) -> int:
        """A number that grows with each change: one who asks a server notes it before, and hands it to `put`."""
        return self._changes

    def get(
        self, scope: Scope, method: str, params: Mapping[str, Json], now: float
    ) -> dict[str, Json] | None:
        """A result that is still fresh, as an object of its own; None when there is none."""
        if method not in METHODS or _RETRY & params.keys():
            return None
        said = _said(params)
        for key in ((scope.server, None, method, said), (scope.server, scope.principal, method, said)):
            entry = self._entries.get(key)
            if entry is not None and now < entry.until:
                self._entries.move_to_end(key)
                return cast("dict[str, Any]", from_json(entry.text))
            if entry is not None:
                self._drop(key)
        return None

    def put(
        self,
        scope: Scope,
        method: str,
        params: Mapping[str, Json],
        result: Mapping[str, Json],
        now: float,
        *,
        changes: int,
    ) -> None:
        """Keep a result that came at `now`, if it says for how long, and nothing has changed since it was asked for.

        The answer to a retry is not kept, nor one that asks for input (MRTR-9).
        """
        ttl = result.get("ttlMs")
        if method not in METHODS or _RETRY & params.keys() or changes != self._changes:
            return
        if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not ttl > 0:
            return
        if result.get("resultType", "complete") != "complete":
            return
        try:
            text = to_json(result, inf_nan_mode="constants")
            from_json(text, allow_inf_nan=False)
        except ValueError:
            return  # what cannot be given back exactly is not kept
        public = result.get("cacheScope") == "public"
        key = (scope.server, None if public else scope.principal, method, _said(params))
        # There is one answer at a time: another scope replaces the one before.
        self._drop((scope.server, None, method, key[3]))
        self._drop((scope.server, scope.principal, method, key[3]))
        if len(text) > self._max_bytes:
            return
        uri = params.get("uri")
        self._entries[key] = _Entry(text, now + ttl / 1000, uri if isinstance(uri, str) else None)
        self._bytes += len(text)
        while self._bytes > self._max_bytes or len(self._entries) > self._max_entries:
            self._drop(next(iter(self._entries)))

    def changed(self, scope: Scope, kind: Changed, uri: str | None = None) -> None:
        """A notification came: forget what it says is no longer so.

        The URI of an updated resource may lie below the one that was subscribed to, whose contents have then
        changed too.
        """
        self._changes += 1
        methods = _OF_CHANGE[kind]
        for key, entry in tuple(self._entries.items()):
            below = kind is not Changed.RESOURCE or uri is None or uri.startswith(entry.uri or "")
            if key[0] == scope.server and key[2] in methods and below:
                self._drop(key)

    def forget(self, scope: Scope) -> None:
        """Nothing of a server holds any more, as when it was started anew."""
        self._changes += 1
        for key in tuple(self._entries):
            if key[0] == scope.server:
                self._drop(key)

    def _drop(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= len(entry.text)


def _said(params: Mapping[str, Json]) -> str:
    """One spelling for the same params; what describes the sender is no part of the question."""
    return _canonical(dict(params))
