"""Names of tools that work with every client: 1 to 128 of `A-Z a-z 0-9 _ - .` (TOOL-7).

A server may list other ones. They are passed on as they are, and told once. Where a prefix is put before names, they change
anyway: a name that no client might take gets a valid form then, which is the same each time.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

MAX_TOOL_NAME: Final = 128
TOOL_NAME: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_TOOL_NAME}}}")
_OTHER: Final = re.compile(r"[^A-Za-z0-9_.-]")
_DIGITS: Final = 8
_STANDS_FOR: Final = re.compile(rf"_[0-9a-f]{{{_DIGITS}}}\Z")
_logger: Final = logging.getLogger("mcprev.server")


def with_prefix(prefix: str, name: str) -> str:
    """Return the name of a tool behind a prefix; one that is not valid there gets a form that is, with its digest."""
    full = prefix + name
    if len(full) <= MAX_TOOL_NAME and _OTHER.search(name) is None:
        return full
    room = max(0, MAX_TOOL_NAME - len(prefix) - 1 - _DIGITS)
    found = f"{prefix}{_OTHER.sub('_', name)[:room]}_{_digest(name)}"
    _tell_form(full, found)
    return found


def may_stand_for(shown: str, name: str | None = None) -> bool:
    """Return whether a name may be the valid form of another one, or of a certain `name`."""
    return _STANDS_FOR.search(shown) is not None and (name is None or shown.endswith(_digest(name)))


def tell_invalid(names: Iterable[object]) -> None:
    """Log each name of a listed tool that may not work with every client, once."""
    for name in names:
        if isinstance(name, str) and TOOL_NAME.fullmatch(name) is None:
            _tell(name)


@lru_cache(maxsize=4096)
def _tell(name: str) -> None:
    _logger.warning(
        "the tool name %.160r may not work with every client: use 1 to 128 of A-Z, a-z, 0-9, '_', '-' and '.'",
        name,
    )


@lru_cache(maxsize=4096)
def _tell_form(name: str, shown: str) -> None:
    _logger.warning("the tool name %.160r does not work with every client: it is listed as '%s'", name, shown)


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
