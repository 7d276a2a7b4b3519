"""Validation of URIs from the peer (RES-1). Any scheme is accepted; the author defines its meaning."""

from __future__ import annotations

import re
from typing import Final

from mcprev.errors import InvalidParams

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x20\x7f]+")
"""A scheme and a non-empty rest without blanks and control characters. Letters of every script are accepted."""


def is_uri(text: str) -> bool:
    """Return whether a text can be an absolute URI."""
    return _URI.fullmatch(text) is not None


def check_uri(uri: object) -> None:
    """Raise `InvalidParams` unless the value is an absolute URI."""  # RES-1
    if not isinstance(uri, str) or not is_uri(uri):
        raise InvalidParams(f"Invalid params: uri is not an absolute URI: {uri!r:.80}")
