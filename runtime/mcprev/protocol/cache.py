"""A client-side cache of results that servers mark as cacheable (CACHE-2, CACHE-3, CACHE-5, MRTR-9).

The schema marks the methods with cacheable results. A cached result is returned only for the same method and params
while it is fresh: a `public` one to every client of the server, a `private` one within its authorization scope. A
change notification removes the results it concerns, and also invalidates responses still in transit. The cache never
fetches anything, so nothing polls. Entries are JSON text: each caller gets a copy of its own, and sizes are known.
Time is passed in.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from pydantic_core import from_json, to_json

from mcprev.errors import Json
from mcprev.protocol.durations import seconds_of
from mcprev.protocol.subscriptions import Changed
from mcprev.protocol.uris import comparable
from mcprev.revisions import LATEST

MAX_ENTRIES: Final = 1_024
PART: Final = 4
"""The share of a principal is a part of the room: one of so many."""
MAX_BYTES: Final = 16 * 1024 * 1024
LONGEST: Final = 365 * 86_400.0
"""The longest lifetime of a result, in seconds."""
METHODS: Final = frozenset(name for name, spec in LATEST.methods.items() if spec.cacheable)
"""The methods with cacheable results, as marked in the schema."""
_METHODS_OF_CHANGE: Final[Mapping[Changed, tuple[str, ...]]] = {
    Changed.TOOLS: ("tools/list",),
    Changed.PROMPTS: ("prompts/list",),
    Changed.RESOURCES: ("resources/list", "resources/templates/list"),
    Changed.RESOURCE: ("resources/read",),
}
_RETRY: Final = frozenset({"inputResponses", "requestState"})
Key: TypeAlias = tuple[object, object, str, str]
"""The server, the principal (None for a public result), the method and the params."""
_canonical: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Scope:
    """The server that results come from, and the principal that private results belong to."""

    server: object
    """Identifies the server, for example by its URL."""
    principal: object
    """Identifies the authorization. Two clients share it only if both set it."""


@dataclass(frozen=True, slots=True)
class _Entry:
    text: bytes
    until: float
    uri: str | None


class ResultCache:
    """A cache of results of any number of servers, for `connect(cache=...)`; it evicts the least recently used ones."""

    def __init__(self, *, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        """Set the maximum number of results, `max_entries` (1,024), and of their bytes, `max_bytes` (16 MiB).

        Raises `ValueError` unless both are positive.
        """
        if max_entries < 1 or max_bytes < 1:
            raise ValueError("`max_entries` and `max_bytes` of a ResultCache must be positive")
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._bytes = 0
        self.changes: int = 0
        """A number that grows with each change. Read it before sending a request and pass it to `put` with the response."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(
        self, scope: Scope, method: str, params: Mapping[str, Json], now: float
    ) -> dict[str, Json] | None:
        """Return a copy of a fresh result, or None."""
        if method not in METHODS or _RETRY & params.keys():
            return None
        params_key = _params_key(params)
        for principal in (None, scope.principal):
            key = scope.server, principal, method, params_key
            entry = self._entries.get(key)
            if entry is not None and now < entry.until:
                self._entries.move_to_end(key)
                result: dict[str, Json] = from_json(entry.text)
                return result
            if entry is not None:
                self._remove(key)
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
        """Store a result received at `now` if it has a lifetime and nothing has changed since the request was sent.

        Responses to retries and results that ask for input are not stored.
        """
        lifetime = seconds_of(result.get("ttlMs"), most=LONGEST)
        if method not in METHODS or _RETRY & params.keys() or changes != self.changes or not lifetime:
            return
        if result.get("resultType", "complete") != "complete":
            return
        try:
            text = to_json(result, inf_nan_mode="constants")
            from_json(text, allow_inf_nan=False)
        except ValueError:
            return  # a result that does not round-trip exactly is not stored
        public = result.get("cacheScope") == "public"
        key = (scope.server, None if public else scope.principal, method, _params_key(params))
        # A request has one current result: a result of another scope replaces it.
        self._remove((scope.server, None, method, key[3]))
        self._remove((scope.server, scope.principal, method, key[3]))
        if len(text) > self._max_bytes:
            return
        uri = params.get("uri")
        self._entries[key] = _Entry(text, now + lifetime, uri if isinstance(uri, str) else None)
        self._bytes += len(text)
        while self._bytes > self._max_bytes or len(self._entries) > self._max_entries:
            self._remove(self._first_to_go(key[1]))

    def _first_to_go(self, principal: object) -> Key:
        """Return the oldest result of a principal that has more than a quarter of the room, else the oldest one of all."""
        own = [(key, len(entry.text)) for key, entry in self._entries.items() if key[1] == principal]
        size = sum(size for _, size in own)
        if PART * len(own) > self._max_entries or PART * size > self._max_bytes:
            return own[0][0]
        return next(iter(self._entries))

    def changed(self, scope: Scope, kind: Changed, uri: str | None = None) -> None:
        """Remove the results that a change notification concerns.

        The URI of an updated resource may lie below a subscribed one, whose contents have then changed too.
        """
        self.changes += 1
        methods = _METHODS_OF_CHANGE[kind]
        for key, entry in tuple(self._entries.items()):
            below = kind is not Changed.RESOURCE or uri is None or _is_below(uri, entry.uri)
            if key[0] == scope.server and key[2] in methods and below:
                self._remove(key)

    def forget(self, scope: Scope) -> None:
        """Remove all results of a server, for example after a restart of the server."""
        self.changes += 1
        for key in tuple(self._entries):
            if key[0] == scope.server:
                self._remove(key)

    def _remove(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= len(entry.text)


def _is_below(uri: str, kept: str | None) -> bool:
    """Return whether a URI, in any spelling, begins with that of a kept result."""
    return kept is None or comparable(uri).startswith(comparable(kept))


def _params_key(params: Mapping[str, Json]) -> str:
    """Return the canonical text of params, which are the caller's, without the `_meta` that the client adds."""
    return _canonical(dict(params))
