"""URIs that come from the other side: whether a text is one, and the file that a `file://` URI means (RES-1, RES-3).

Any scheme is good: what it means is the author's to say. Nothing is decoded, resolved or compared but for files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcprev.errors import InvalidParams, ResourceNotFound

if TYPE_CHECKING:
    from pathlib import Path

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x20\x7f]+")
"""A scheme and something after it, without blanks and control characters. Letters of any script are taken, as
people write them."""


def is_uri(text: str) -> bool:
    """Whether a text can be an absolute URI."""
    return _URI.fullmatch(text) is not None


def check_uri(uri: object) -> None:
    """Raise `InvalidParams` for what is no absolute URI (RES-1)."""
    if not isinstance(uri, str) or not is_uri(uri):
        raise InvalidParams(f"Invalid params: uri is no absolute URI: {uri!r:.80}")


def file_path(uri: str, root: Path) -> Path:
    """The file below `root` that a `file://` URI means, links followed; it need not exist.

    Raises `InvalidParams` for another kind of URI and `ResourceNotFound` for a path that leads out of `root`: that
    there is something outside is nothing to tell.
    """
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(uri)
    path = unquote(parts.path)
    if parts.scheme.lower() != "file" or parts.netloc not in {"", "localhost"} or "\0" in path:
        raise InvalidParams(f"Invalid params: no file on this machine: {uri!r:.80}")
    base = root.resolve()
    found = base.joinpath(path).resolve()
    if not found.is_relative_to(base):
        raise ResourceNotFound("no such resource", data={"uri": uri})
    return found
