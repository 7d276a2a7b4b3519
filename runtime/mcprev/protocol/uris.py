"""Validation of URIs from the peer, and mapping of `file://` URIs to paths (RES-1, RES-3).

Any scheme is accepted; the author defines its meaning. Only `file://` URIs are decoded and resolved.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcprev.errors import InvalidParams, ResourceNotFound

if TYPE_CHECKING:
    from pathlib import Path

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x20\x7f]+")
"""A scheme and a non-empty rest without blanks and control characters. Letters of every script are accepted."""


def is_uri(text: str) -> bool:
    """Return whether a text can be an absolute URI."""
    return _URI.fullmatch(text) is not None


def check_uri(uri: object) -> None:
    """Raise `InvalidParams` unless the value is an absolute URI."""  # RES-1
    if not isinstance(uri, str) or not is_uri(uri):
        raise InvalidParams(f"Invalid params: uri is not an absolute URI: {uri!r:.80}")


def file_path(uri: str, root: Path) -> Path:
    """Return the path below `root` for a `file://` URI, with links resolved; the file need not exist.

    Raises `InvalidParams` for any other URI, and `ResourceNotFound` for a path outside of `root`, whether it exists or
    not.
    """
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(uri)
    path = unquote(parts.path)
    if parts.scheme.lower() != "file" or parts.netloc not in {"", "localhost"} or "\0" in path:
        raise InvalidParams(f"Invalid params: not a file:// URI of this machine: {uri!r:.80}")
    base = root.resolve()
    found = base.joinpath(path).resolve()
    if not found.is_relative_to(base):
        raise ResourceNotFound("no such resource", data={"uri": uri})
    return found
