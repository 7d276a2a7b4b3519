"""Names of tools that work with every client: 1 to 128 of `A-Z a-z 0-9 _ - .` (TOOL-7).

A server may list other ones. They are passed on as they are, and told once. Where a prefix is put before names, they change
anyway: a name that no client might take gets a valid form then, which is the same each time.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable
from typing import Final

MAX_TOOL_NAME: Final = 128
TOOL_NAME: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_TOOL_NAME}}}")
_OTHER: Final = re.compile(r"[^A-Za-z0-9_.-]")
_DIGITS: Final = 8
_STANDS_FOR: Final = re.compile(rf"_[0-9a-f]{{{_DIGITS}}}\Z")
MAX_TOLD: Final = 1_000
"""The number of names that a process logs; a server may list any number of them."""
_SHOWN: Final = 160
"""The number of characters of a name that are logged, and by which it is known to be logged."""
logged_names: Final[set[str]] = set()
_logger: Final = logging.getLogger("mcprev.server")


def with_prefix(prefix: str, name: str) -> str:
    """Return the name of a tool behind a prefix; one that is not valid there gets a form that is, with its digest."""
    full = prefix + name
    if len(full) <= MAX_TOOL_NAME and _OTHER.search(name) is None:
        return full
    room = max(0, MAX_TOOL_NAME - len(prefix) - 1 - _DIGITS)
    found = f"{prefix}{_OTHER.sub('_', name)[:room]}_{name_digest(name)}"
    if _is_first(full):
        _logger.warning(
            "the tool name %.*r does not work with every client: it is listed as '%s'", _SHOWN, full, found
        )
    return found


def stands_for(shown: str) -> str | None:
    """Return the digest of the name of which another may be the valid form; None if it is no such form."""
    return shown[-_DIGITS:] if _STANDS_FOR.search(shown) else None


def name_digest(name: str) -> str:
    """Return what the valid form of a name ends with."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def tell_invalid(names: Iterable[object]) -> None:
    """Log each name of a listed tool that may not work with every client, once."""
    for name in names:
        if isinstance(name, str) and TOOL_NAME.fullmatch(name) is None and _is_first(name):
            _logger.warning(
                "the tool name %.*r may not work with every client: use 1 to 128 of A-Z, a-z, 0-9, '_', '-' and '.'",
                _SHOWN,
                name,
            )


def _is_first(name: str) -> bool:
    """Return whether a name has not been logged yet and may be, and note it."""
    known = name[:_SHOWN]
    if known in logged_names or len(logged_names) >= MAX_TOLD:
        return False
    logged_names.add(known)
    return True
