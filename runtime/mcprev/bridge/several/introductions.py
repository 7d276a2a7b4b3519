"""What several servers say of themselves, joined to one introduction at the revision of a client (LIFE-3, LIFE-5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mcprev.bridge.several.names import Naming
from mcprev.bridge.several.options import KINDS
from mcprev.conversion.rules import JsonObject, as_object
from mcprev.core.capabilities import extension_settings
from mcprev.errors import Json
from mcprev.extensions import ui
from mcprev.extensions.skills import rules as skills
from mcprev.protocol import tasks
from mcprev.revisions import Revision
from mcprev.wire.json_values import is_json_object
from mcprev.wire.meta_keys import SERVER_INFO

VENDORS = "experimental"
"""The capabilities for methods that no schema has; nothing says which server gets them, so they are not declared."""
SERVED_EXTENSIONS: Final = frozenset({tasks.EXTENSION, ui.NAME, skills.NAME})
"""The extensions whose methods and names lead to one of several servers; others are not declared."""
_FOLDERS: Final = "directoryRead"


def info_of(own: Mapping[str, Json]) -> JsonObject:
    """Return the name and the version of a bridge, which every revision has."""
    return {"name": own["name"], "version": own["version"]}


def joined_initialization(
    said: Sequence[tuple[Naming, JsonObject | None]], own: Mapping[str, Json], revision: Revision
) -> JsonObject:
    """Return the result of `initialize`, from those of the servers; None for one that cannot be reached now."""
    return {"protocolVersion": revision.version, "serverInfo": info_of(own), **_common(said)}


def joined_discovery(
    said: Sequence[tuple[Naming, JsonObject | None]], own: Mapping[str, Json], versions: list[str]
) -> JsonObject:
    """Return the result of `server/discover`, from those of the servers; None for one that cannot be reached now."""
    return {  # makes DiscoverResult
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "supportedVersions": versions,
        **_common(said),
        "_meta": {SERVER_INFO: info_of(own)},
    }


def _common(said: Sequence[tuple[Naming, JsonObject | None]]) -> JsonObject:
    capabilities = joined(as_object(result.get("capabilities")) for _, result in said if result is not None)
    capabilities.pop(VENDORS, None)
    _keep_served(capabilities, [result for _, result in said if result is not None])
    unknown = any(result is None for _, result in said)
    for kind in KINDS:
        if kind in capabilities or unknown:
            # The bridge itself tells of the lists of servers that go, come back or are configured anew.
            capabilities[kind] = {**as_object(capabilities.get(kind)), "listChanged": True}
    texts = [
        f"{naming.prefix}:\n{text}"
        for naming, result in said
        if result is not None and isinstance(text := result.get("instructions"), str) and text
    ]
    return {"capabilities": capabilities, **({"instructions": "\n\n".join(texts)} if texts else {})}


def _keep_served(capabilities: JsonObject, results: Sequence[JsonObject]) -> None:
    """Take out of joined capabilities the extensions that the bridge cannot serve, and what not all servers have of them."""
    declared = as_object(capabilities.get("extensions"))
    kept = {name: settings for name, settings in declared.items() if name in SERVED_EXTENSIONS}
    if skills.NAME in kept:
        said = [extension_settings(as_object(each.get("capabilities")), skills.NAME) for each in results]
        every = all(each.get(_FOLDERS) is True for each in said if each is not None)
        kept[skills.NAME] = {_FOLDERS: True} if every else {}
    capabilities.pop("extensions", None)
    if kept:
        capabilities["extensions"] = kept


def joined(objects: Iterable[JsonObject]) -> JsonObject:
    """Return the union of objects: of two values of a member the one that says more."""
    found: JsonObject = {}
    for each in objects:
        for name, value in each.items():
            before: Json = found.get(name)
            if is_json_object(before) and is_json_object(value):
                found[name] = joined((before, value))
            else:
                found[name] = before or value
    return found
