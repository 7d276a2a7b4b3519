"""Converts between session state and the equivalent data of stateless requests (CONV-36, 38, 39).

The pure half of bridging the two eras: discovery and initialization; the client's handshake and the `_meta` of
requests; a listen filter and subscriptions; a log level for each request and one for the session. The engines decide
what to send and when. The transports map cancellation, a message in one era and a closed stream in the other
(CONV-40).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from mcprev.convert.ladder import PayloadKind, convert
from mcprev.convert.meta_keys import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
)
from mcprev.convert.rules import Json, JsonObject, without
from mcprev.errors import ConversionError
from mcprev.revisions import LATEST, revision_named

_DISCOVERY: Final = ("supportedVersions", "resultType", "ttlMs", "cacheScope")
_LIST_CHANGES: Final[Mapping[str, str]] = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
_UPDATED: Final = "notifications/resources/updated"


def discover_to_initialize(
    result: Mapping[str, Json], *, to: str, server_info: Mapping[str, Json] | None = None
) -> JsonObject:
    """Return the InitializeResult of a revision that corresponds to a DiscoverResult of the latest one.

    `server_info` is used if the result does not name the server. Raises `ConversionError`.
    """
    given = dict(result)
    meta = given.get("_meta")
    named: JsonObject = cast("JsonObject", meta) if isinstance(meta, dict) else {}
    who = named.get(SERVER_INFO) or server_info
    if who is None:
        raise ConversionError(
            "the server has not named itself: give server_info", path="$._meta", revision=to
        )
    out = without(given, *_DISCOVERY, "_meta")
    out["protocolVersion"] = revision_named(to).version
    out["capabilities"] = _to(given.get("capabilities", {}), PayloadKind.SERVER_CAPABILITIES, to)
    out["serverInfo"] = _to(who, PayloadKind.IMPLEMENTATION, to)
    if rest := without(named, SERVER_INFO):
        out["_meta"] = rest
    checked: JsonObject = convert(out, "initialize", PayloadKind.RESULT, from_=to, to=to)
    return checked


def initialize_to_discover(
    result: Mapping[str, Json], *, from_: str, supported: Iterable[str] | None = None
) -> JsonObject:
    """Return the DiscoverResult of the latest revision that corresponds to an InitializeResult.

    `supported` are the versions to list; the default is the version that the server chose. Raises `ConversionError`.
    """
    out = without(dict(result), "protocolVersion", "serverInfo")
    versions = [result.get("protocolVersion")] if supported is None else list(supported)
    meta = cast("JsonObject", result.get("_meta") or {})
    out |= {
        "supportedVersions": versions,
        "capabilities": _from(result.get("capabilities", {}), PayloadKind.SERVER_CAPABILITIES, from_),
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {**meta, SERVER_INFO: _from(result.get("serverInfo"), PayloadKind.IMPLEMENTATION, from_)},
    }
    checked: JsonObject = convert(out, "server/discover", PayloadKind.RESULT, from_=LATEST, to=LATEST)
    return checked


def request_meta(params: Mapping[str, Json], *, from_: str, log_level: str | None = None) -> JsonObject:
    """Return the `_meta` that a client with these InitializeRequestParams would send with each request.

    It is the `meta` argument of `convert`. Raises `ConversionError`.
    """
    meta: JsonObject = {
        PROTOCOL_VERSION: LATEST.version,
        CLIENT_INFO: _from(params.get("clientInfo"), PayloadKind.IMPLEMENTATION, from_),
        CLIENT_CAPABILITIES: _from(params.get("capabilities", {}), PayloadKind.CLIENT_CAPABILITIES, from_),
    }
    return meta if log_level is None else {**meta, LOG_LEVEL: log_level}


def initialize_params(
    meta: Mapping[str, Json], *, to: str, client_info: Mapping[str, Json] | None = None
) -> JsonObject:
    """Return the InitializeRequestParams of a revision for a client whose requests carry this `_meta`.

    `client_info` is used if the `_meta` does not name the client. Raises `ConversionError`.
    """
    who = meta.get(CLIENT_INFO) or client_info
    if who is None:
        raise ConversionError(
            "the client has not named itself: give client_info", path="$._meta", revision=to
        )
    params: JsonObject = {
        "protocolVersion": revision_named(to).version,
        "capabilities": _to(meta.get(CLIENT_CAPABILITIES, {}), PayloadKind.CLIENT_CAPABILITIES, to),
        "clientInfo": _to(who, PayloadKind.IMPLEMENTATION, to),
    }
    checked: JsonObject = convert(params, "initialize", PayloadKind.PARAMS, from_=to, to=to)
    return checked


def subscribed_resources(listen: Mapping[str, Json]) -> tuple[str, ...]:
    """Return the URIs to send `resources/subscribe` for, from the params of `subscriptions/listen`."""  # CONV-38
    return tuple(_filter(listen).get("resourceSubscriptions") or ())


def listens_to(listen: Mapping[str, Json], method: str, params: Mapping[str, Json] | None) -> bool:
    """Return whether the params of `subscriptions/listen` select a notification that a session received."""  # CONV-38
    wanted = _filter(listen)
    if method == _UPDATED:
        return (params or {}).get("uri") in (wanted.get("resourceSubscriptions") or ())
    return wanted.get(_LIST_CHANGES.get(method, "")) is True


def level_change(meta: Mapping[str, Json], current: str | None) -> JsonObject | None:
    """Return the params of `logging/setLevel` to send before a request with this `_meta`.

    None if the request names no level or the current level of the session.
    """  # CONV-39
    level = meta.get(LOG_LEVEL)
    return {"level": level} if level is not None and level != current else None


def _filter(listen: Mapping[str, Json]) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", listen.get("notifications") or {})


def _to(value: Json, kind: PayloadKind, to: str) -> Json:
    return convert(value, "", kind, from_=LATEST, to=to, validate=False)


def _from(value: Json, kind: PayloadKind, from_: str) -> Json:
    return convert(value, "", kind, from_=from_, to=LATEST)
