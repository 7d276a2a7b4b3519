"""Converts what the client and the server say once in a session to what stateless messages carry (CONV-36)."""

from __future__ import annotations

from collections.abc import Mapping

from mcprev.conversion.ladder import PayloadKind, convert
from mcprev.conversion.rules import Json, JsonObject, without
from mcprev.revisions import LATEST
from mcprev.wire.meta_keys import CLIENT_CAPABILITIES, CLIENT_INFO, SERVER_INFO, VERSION


def initialize_to_discover(result: Mapping[str, Json], *, from_: str) -> JsonObject:
    """Return the DiscoverResult of the latest revision that corresponds to an InitializeResult.

    It lists the version that the server chose. Raises `ConversionError`.
    """
    out = without(dict(result), "protocolVersion", "serverInfo")
    meta: JsonObject = result.get("_meta") or {}
    out |= {  # makes DiscoverResult
        "supportedVersions": [result.get("protocolVersion")],
        "capabilities": _up(result.get("capabilities", {}), PayloadKind.SERVER_CAPABILITIES, from_),
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {**meta, SERVER_INFO: _up(result.get("serverInfo"), PayloadKind.IMPLEMENTATION, from_)},
    }
    checked: JsonObject = convert(out, "server/discover", PayloadKind.RESULT, from_=LATEST, to=LATEST)
    return checked


def request_meta(params: Mapping[str, Json], *, from_: str) -> JsonObject:
    """Return the `_meta` that a client with these InitializeRequestParams would send with each request.

    It is the `meta` argument of `convert`. Raises `ConversionError`.
    """
    return {
        VERSION: LATEST.version,
        CLIENT_INFO: _up(params.get("clientInfo"), PayloadKind.IMPLEMENTATION, from_),
        CLIENT_CAPABILITIES: _up(params.get("capabilities", {}), PayloadKind.CLIENT_CAPABILITIES, from_),
    }


def _up(value: Json, kind: PayloadKind, from_: str) -> Json:
    return convert(value, "", kind, from_=from_, to=LATEST)
