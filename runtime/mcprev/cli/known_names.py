"""The names of the last list of each server, for the completion of a shell, which never connects to one; and its era, if the
server says nothing to a probe for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, Final

from mcprev.json_schema.bounds import LIST, OBJECT
from mcprev.platforms import HERE
from mcprev.wire.json_values import is_json_object

if TYPE_CHECKING:
    from mcprev.errors import Json
    from mcprev.hosts.named_server import NamedServer
    from mcprev.protocol.negotiation.steps import Plan
    from mcprev.revisions import Era

MAX_NAMES: Final = 2_000
"""The maximum number of names of one list that are kept."""
MAX_NAME: Final = 200
"""The maximum length of a name that is kept."""
MAX_SERVERS: Final = 200
"""The maximum number of servers whose names are kept; the oldest are forgotten."""
MAX_FILE: Final = 4 * 1024 * 1024
ERA_KEPT: Final = 24 * 3600.0
"""Seconds for which the era of a server is kept: what the command starts may be a later version by then."""
_ERA: Final = "era"
_KEYS: Final = {"resources": "uri", "resource_templates": "uriTemplate"}
"""The member that names an entry, for the lists in which it is not `name`."""


def cache_folder() -> Path:
    """Return the folder in which the names are kept."""
    return HERE.cache_folder() / "names"


def remember(server: NamedServer, name: str, entries: Iterable[Mapping[str, Json]]) -> None:
    """Keep the names of a list of a server, with those of their arguments. A folder that cannot be written is no error.

    The entries are JSON of the latest revision.
    """
    known = _recalled(server.given)
    known[name] = names_of(name, entries)
    with suppress(OSError, ValueError):
        _write(_file(server.given), json.dumps(known))


def names_of(name: str, entries: Iterable[Mapping[str, Json]]) -> dict[str, list[str]]:
    """Return the names of the entries of a list that can be typed in a shell, each with those of its arguments."""
    names: dict[str, list[str]] = {}
    for entry in entries:
        key: object = entry.get(_KEYS.get(name, "name"))
        if _is_usual(key) and len(names) < MAX_NAMES:
            names[str(key)] = [str(each) for each in _arguments(entry) if _is_usual(each)][:MAX_NAMES]
    return names


def recall(given: Sequence[str], name: str) -> Mapping[str, Sequence[str]]:
    """Return the names that a list of a server had last, each with the names of its arguments; empty if none are known."""
    found: Json = _recalled(given).get(name)
    return found if is_json_object(found) else {}


def remember_era(server: NamedServer, plan: Plan) -> None:
    """Keep the era of a server that did not respond to a probe for it; forget that of one that has changed."""
    from mcprev.protocol.negotiation.steps import Ready

    known, step = _recalled(server.given), plan.step
    assert isinstance(step, Ready)
    if plan.unanswered:
        known[_ERA] = {"name": step.revision.era.value, "until": time.time() + ERA_KEPT}
    elif _ERA not in known or (step.revision.era is recall_era(server.given)):
        return
    else:
        del known[_ERA]
    with suppress(OSError, ValueError):
        _write(_file(server.given), json.dumps(known))


def recall_era(given: Sequence[str]) -> Era | None:
    """Return the era of a server that did not respond to a probe for it the last time; None if it is not known."""
    from mcprev.revisions import Era

    kept: Json = _recalled(given).get(_ERA)
    if not isinstance(kept, OBJECT):
        return None
    until: object = kept.get("until")
    fresh = isinstance(until, int | float) and 0 < until - time.time() <= ERA_KEPT
    return next((era for era in Era if fresh and era.value == kept.get("name")), None)


def _recalled(given: Sequence[str]) -> dict[str, Json]:
    try:
        with _file(given).open("rb") as stream:
            found: object = json.loads(stream.read(MAX_FILE))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if is_json_object(found) else {}


def _file(given: Sequence[str]) -> Path:
    spelled = json.dumps([str(Path.cwd()), *given])
    return cache_folder() / f"{hashlib.sha256(spelled.encode()).hexdigest()}.json"


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = mkstemp(dir=file.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        HERE.replace(Path(temporary), file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    known = sorted(file.parent.glob("*.json"), key=lambda each: each.stat().st_mtime)
    for old in known[:-MAX_SERVERS]:
        old.unlink(missing_ok=True)


def _arguments(entry: Mapping[str, Json]) -> Iterable[object]:
    schema: Json = entry.get("inputSchema")
    if isinstance(schema, OBJECT):
        members: Json = schema.get("properties")
        return members if is_json_object(members) else ()
    given: Json = entry.get("arguments")
    return [each.get("name") for each in given if isinstance(each, OBJECT)] if isinstance(given, LIST) else ()


def _is_usual(name: object) -> bool:
    """Return whether a name can be typed in a shell: printable and short."""
    return isinstance(name, str) and 0 < len(name) <= MAX_NAME and name.isprintable()
