"""The types of the extensions of MCP, whose methods no revision has (BASE-10, MOD-17)."""

from __future__ import annotations

from functools import cache
from typing import Final

from mcprev.errors import Json
from mcprev.revisions import Revision, TaskSupport, extended, revision_named
from mcprev.wire.meta_keys import CLIENT_CAPABILITIES, VERSION
from mcprev_types.extensions.index import EXTENSIONS

TASKS: Final = "tasks"
"""The name of the extension for tasks."""


@cache
def extension_row(method: str, revision: Revision) -> Revision | None:
    """Return the row of an extension that has a method, with its types; None if none has it at this revision.

    Its version is the one that is based on the revision, else the newest final one: methods of extensions are the same at
    every revision. Those of tasks are there only where tasks are an extension.
    """
    for name in EXTENSIONS:
        row = row_of_extension(name, revision)
        if method in row.methods and (name != TASKS or revision.tasks is TaskSupport.EXTENSION):
            return row
    return None


@cache
def row_of_extension(name: str, revision: Revision) -> Revision:
    """Return the row of an extension for peers that speak a revision."""
    info = EXTENSIONS[name]
    based = (one for one in info.versions.values() if one.base == revision.name)
    version = next(based, info.versions[info.latest])
    package = f"mcprev_types.extensions.{info.package}.{version.package}"
    return extended(revision_named(version.base), package)


def stamped(params: dict[str, Json], revision: Revision, row: Revision) -> dict[str, Json]:
    """Return params with what a session states once and a request of the extension's revision states each time."""
    meta = params.get("_meta", {})
    if not revision.handshake or not isinstance(meta, dict):
        return params
    return {**params, "_meta": {VERSION: row.version, CLIENT_CAPABILITIES: {}, **meta}}
