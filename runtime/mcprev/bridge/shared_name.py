"""The name under which the processes of a bridge find each other in a store, which other bridges may use too (SEAM-10).

Bridges in front of different servers must not meet by mistake, as one would serve the sessions of the other and list its tasks.
So a bridge without a `name` is known by a digest of its target:

- A URL counts with its query, but not with the values of secret names there: a new key keeps the sessions.
- A command counts as it is written, with secrets masked in the same way, and so does the folder in which the bridge runs:
  `python server.py` is another server in another folder.
- A server of this process counts by its name.
- Several servers count by the path of their file, or by their names in Python. What the file says does not count: it is read
  again while the bridge runs, and a process that starts later has to find the sessions of those that started before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

from mcprev.client.targets import Target
from mcprev.server.service import Service
from mcprev.wire.payloads import mask_text

NAME: Final = "mcprev-bridge"
"""The name that a bridge without a name gives itself."""
_SHARED: Final = re.compile(rf"{NAME}/[0-9a-f]{{32}}")


def name_of_target(target: Target, given: object) -> str:
    """Return the shared name of a bridge to one server; `target` was made of what was `given`."""
    from mcprev.transports.stdio.client import stdio

    if isinstance(target, stdio):
        return _digest("command", repr(target), _folder())
    url = getattr(target, "cache_key", None)
    if isinstance(url, str):
        return _digest("url", mask_text(url))
    server = getattr(given, "server", given)
    if isinstance(server, Service):
        return _digest("server", server.identity.info["name"])
    return _digest("target", type(target).__module__, type(target).__qualname__)


def name_of_servers(servers: Iterable[str], file: Path | None) -> str:
    """Return the shared name of a bridge to several servers, which are those of a file, if there is one."""
    return _digest("servers", *sorted(servers)) if file is None else _digest("file", str(file.absolute()))


def readable_name(name: str) -> str:
    """Return the name of a server for people: of a bridge without a name, the one that it gives itself, and no digest."""
    return NAME if _SHARED.fullmatch(name) else name


def _folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # it was removed
        return ""


def _digest(*parts: str) -> str:
    return f"{NAME}/{sha256(json.dumps(parts).encode()).hexdigest()[:32]}"
