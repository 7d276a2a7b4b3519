"""What clients and servers say of themselves, at any revision (LIFE-3, LIFE-5, MOD-1, MOD-9, CONV-36)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final, TypeAlias

from typing_extensions import override

from mcprev.bridge.pair import Pair
from mcprev.conversion import PayloadKind, convert
from mcprev.conversion.rules import JsonObject, as_object, without
from mcprev.core.capabilities import ServerCapabilities, extension_settings, keep_extensions
from mcprev.core.interfaces import client_of
from mcprev.errors import Json
from mcprev.protocol import tasks
from mcprev.protocol.connection_state import IncomingRequest, RequestKind
from mcprev.protocol.engine import declares
from mcprev.protocol.handshake import HandshakeServer
from mcprev.revisions import Revision, TaskSupport
from mcprev.wire.json_values import is_json_object
from mcprev.wire.meta_keys import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, SERVER_INFO, VERSION

INITIALIZE: Final = "initialize"
DISCOVER: Final = "server/discover"
TTL: Final = "ttlMs"
_ERA_KEYS: Final = (VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL, SERVER_INFO)


Sender: TypeAlias = "tuple[str, str | None]"
"""A principal, and the client that it uses, if its token names one."""


def sender_of(incoming: IncomingRequest) -> Sender | None:
    """Return who sends a request, as the transport has authenticated it."""
    return sender_at(incoming.origin)


def sender_at(origin: object) -> Sender | None:
    """Return who has opened a stream of a transport; None without authentication, as on a pipe."""
    principal = getattr(origin, "principal", None)
    if not isinstance(principal, str):
        return None
    access = getattr(origin, "access", None)
    client = getattr(access, "client_id", None)
    return principal, client if isinstance(client, str) else None


class _Every(frozenset[str]):
    """Every name."""

    @override
    def __contains__(self, item: object) -> bool:
        return True


EVERY: Final = _Every()


def _no_kinds(_revision: Revision) -> dict[str, RequestKind]:
    """Return nothing: a bridge serves no method itself."""
    return {}


class RelayCapabilities(ServerCapabilities):
    """What a bridge declares to the engines of its clients' connections: that it takes everything."""

    relays = True

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        self.kinds: Callable[[Revision], Mapping[str, RequestKind]] = cache(_no_kinds)

    @override
    def notifications(self, revision: Revision) -> frozenset[str]:
        return EVERY


@dataclass(frozen=True, slots=True)
class ClientIntroduction:
    """What a client says of itself, and to whom it may be told."""

    revision: Revision
    capabilities: JsonObject
    info: JsonObject | None
    params: JsonObject | None = None
    """The params of its `initialize`, at a revision with a handshake."""
    sender: Sender | None = None
    """The principal and its client, as the transport has authenticated them; never told to a server."""
    owner: str | None = None
    """The principal or address whose share of the connections those to the server count for; None on a pipe."""

    @classmethod
    def of_session(
        cls,
        said: IncomingRequest | HandshakeServer,
        params: JsonObject | None,
        sender: Sender | None = None,
        owner: str | None = None,
    ) -> ClientIntroduction:
        """Return what the client of a session says of itself in a request, or has said, and in the params of its `initialize`."""
        info = None if params is None else params.get("clientInfo")
        known = info if is_json_object(info) else None
        if isinstance(said, IncomingRequest):
            owner = client_of(said)
            return cls(said.revision, said.capabilities, known, params, sender, owner)
        return cls(
            said.negotiated or said.revision, said.peer_capabilities or {}, known, params, sender, owner
        )

    @property
    def digest(self) -> str:
        """A text that is the same for equal capabilities."""
        return json.dumps(self.capabilities, sort_keys=True)

    def capabilities_at(self, revision: Revision) -> JsonObject:
        """Return the capabilities at a revision. Raises `ConversionError`."""
        found = _at(self.capabilities, PayloadKind.CLIENT_CAPABILITIES, self.revision, revision)
        return _with_extensions(self.capabilities, found, revision)

    def stamp(self, revision: Revision) -> JsonObject:
        """Return the `_meta` of a request at a stateless revision. Raises `ConversionError`."""
        found: JsonObject = {VERSION: revision.version}
        if self.info is not None:
            found[CLIENT_INFO] = _at(self.info, PayloadKind.IMPLEMENTATION, self.revision, revision)
        return {**found, CLIENT_CAPABILITIES: self.capabilities_at(revision)}

    def initialize(self, revision: Revision, own: Mapping[str, Json]) -> JsonObject:
        """Return the params of `initialize` at a revision; `own` is the info of a client that gives none.

        Raises `ConversionError`.
        """
        params = self.params
        if params is not None and params.keys() >= {"clientInfo", "capabilities"}:
            meta = without(as_object(params.get("_meta")), "progressToken")
            kept: JsonObject = {**without(params, "_meta"), **({"_meta": meta} if meta else {})}
            if self.revision is not revision:
                kept = convert(kept, INITIALIZE, PayloadKind.PARAMS, from_=self.revision, to=revision)
            return {**kept, "protocolVersion": revision.version}
        info = (
            dict(own)
            if self.info is None
            else _at(self.info, PayloadKind.IMPLEMENTATION, self.revision, revision)
        )
        capabilities = self.capabilities_at(revision)
        return {"protocolVersion": revision.version, "capabilities": capabilities, "clientInfo": info}


class UpstreamInfo:
    """What the connection to a server says of one client (`LocalInfo`)."""

    relays = True

    def __init__(
        self, client: ClientIntroduction, revisions: tuple[Revision, ...], own: Mapping[str, Json]
    ) -> None:
        self.revisions = revisions
        self._client = client
        self._own = {"name": own["name"], "version": own["version"]}

    def kinds(self, revision: Revision, /) -> Mapping[str, RequestKind]:
        """Return nothing: a relay serves every method."""
        del revision
        return {}

    def notifications(self, revision: Revision) -> frozenset[str]:
        """Return a set that contains everything."""
        del revision
        return EVERY

    def capabilities(self, revision: Revision, /) -> dict[str, Json]:
        """Return the client's capabilities."""
        return self._client.capabilities_at(revision)

    def introduction(self, revision: Revision, /) -> dict[str, Json]:
        """Return the params of `initialize`, or the `_meta` of requests of the bridge's own."""
        if revision.handshake:
            return self._client.initialize(revision, self._own)
        return self._client.stamp(revision)

    def requirements(self, method: str) -> Mapping[str, Json]:
        """Return nothing: clients serve methods without requirements."""
        del method
        return {}


@dataclass(frozen=True)
class ServerIntroduction:
    """What a server says of itself: its result of `initialize` or `server/discover`."""

    revision: Revision
    result: JsonObject
    at: float = 0.0
    """The time of the loop at which it was said."""

    @property
    def capabilities(self) -> JsonObject:
        """Its capabilities, at its revision."""
        return as_object(self.result.get("capabilities"))

    @property
    def info(self) -> JsonObject:
        """Its name and version, at its revision; empty if it gives none."""
        result = self.result
        if self.revision.handshake:
            return as_object(result.get("serverInfo"))
        return as_object(as_object(result.get("_meta")).get(SERVER_INFO))

    @cached_property
    def offers_tasks(self) -> bool:
        """Whether tools of the server can run as tasks."""
        if self.revision.tasks is TaskSupport.CORE:
            return declares(self.capabilities, tasks.TASKS_OF_TOOLS)
        extended = self.revision.tasks is TaskSupport.EXTENSION
        return extended and extension_settings(self.capabilities, tasks.EXTENSION) is not None

    def initialized(self, pair: Pair, own: Mapping[str, Json]) -> JsonObject:
        """Return the result of `initialize` for a client; `own` is the info of the bridge. Raises `ConversionError`."""
        if pair.same:
            return dict(self.result)
        if self.revision.handshake:
            found = pair.to_client(self.result, INITIALIZE, PayloadKind.RESULT)
            return {**self._with_tasks(found, pair), "protocolVersion": pair.client.version}
        return {
            **self._common(pair),
            "protocolVersion": pair.client.version,
            "serverInfo": self.info_for(pair, own),
        }

    def discovered(
        self, pair: Pair, own: Mapping[str, Json], versions: list[str], now: float = 0.0
    ) -> JsonObject:
        """Return the result of `server/discover` for a client, with these versions. Raises `ConversionError`."""
        if not self.revision.handshake:
            return aged(self._discovered(pair, own, versions), now - self.at)
        return self._discovered(pair, own, versions)

    def _discovered(self, pair: Pair, own: Mapping[str, Json], versions: list[str]) -> JsonObject:
        if pair.same:
            return {**self.result, "supportedVersions": versions}
        if not self.revision.handshake:
            found = pair.to_client(self.result, DISCOVER, PayloadKind.RESULT)
            return {**self._with_tasks(found, pair), "supportedVersions": versions}
        common = self._common(pair)
        return {  # makes DiscoverResult
            **common,
            "supportedVersions": versions,
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {**as_object(common.get("_meta")), SERVER_INFO: self.info_for(pair, own)},
        }

    def info_for(self, pair: Pair, own: Mapping[str, Json]) -> JsonObject:
        """Return the name and version for a client, those of the bridge if the server gives none."""
        info = self.info
        if not info:
            return {"name": own["name"], "version": own["version"]}
        return pair.to_client(info, "", PayloadKind.IMPLEMENTATION)

    def _common(self, pair: Pair) -> JsonObject:
        """Return what both results have in common."""
        meta = without(as_object(self.result.get("_meta")), *_ERA_KEYS)
        converted = pair.to_client(self.capabilities, "", PayloadKind.SERVER_CAPABILITIES)
        found: JsonObject = {
            "capabilities": _with_extensions(self.capabilities, as_object(converted), pair.client)
        }
        if "instructions" in self.result:
            found["instructions"] = self.result["instructions"]
        return {**self._with_tasks(found, pair), **({"_meta": meta} if meta else {})}

    def _with_tasks(self, found: JsonObject, pair: Pair) -> JsonObject:
        """Return a result at the client's revision with tasks declared as that has them."""  # TASK-1, TASKX-1
        capabilities = as_object(found.get("capabilities"))
        if pair.client.tasks is not TaskSupport.CORE:
            capabilities = without(capabilities, "tasks")
        if not pair.shows_tasks:
            return {**found, "capabilities": capabilities}
        if self.offers_tasks and pair.client.tasks is TaskSupport.CORE:
            capabilities = {**capabilities, "tasks": tasks.CORE_CAPABILITY}
        elif self.offers_tasks and pair.client.tasks is TaskSupport.EXTENSION:
            extensions: JsonObject = {**as_object(capabilities.get("extensions")), tasks.EXTENSION: {}}
            capabilities = {**capabilities, "extensions": extensions}
        return {**found, "capabilities": capabilities}


def versions_of(revisions: tuple[Revision, ...]) -> list[str]:
    """Return the versions of revisions, the newest first, each once."""
    return list(dict.fromkeys(_versions(revisions)))


def _versions(revisions: tuple[Revision, ...]) -> Iterator[str]:
    return (revision.version for revision in reversed(revisions))


def _at(value: JsonObject, kind: PayloadKind, source: Revision, target: Revision) -> JsonObject:
    if source is target:
        return value
    found: JsonObject = convert(value, "", kind, from_=source, to=target, validate=False)
    return found


def _with_extensions(before: JsonObject, found: JsonObject, target: Revision) -> JsonObject:
    """Return converted capabilities with the extensions that were declared; tasks are one where they are no part of it."""
    extensions = as_object(before.get("extensions"))
    if target.tasks is not TaskSupport.EXTENSION:
        extensions = without(extensions, tasks.EXTENSION)
    return keep_extensions({**before, "extensions": extensions}, found)


def aged(result: JsonObject, seconds: float) -> JsonObject:
    """Return a result that was received some seconds ago, with the lifetime that it has left."""
    ttl: Json = result.get(TTL)
    if seconds < 1 or isinstance(ttl, bool) or not isinstance(ttl, int | float):
        return result
    return {**result, TTL: max(0, ttl - 1000 * int(seconds))}
