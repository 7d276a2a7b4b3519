"""Logging of message contents: off by default, with secrets removed (SEC-6).

Messages hold the arguments and results of tools. They are written only to the logger `mcprev.payloads`, at level
DEBUG. Importing this module sets the level of that logger to WARNING unless it has a level, so that DEBUG on `mcprev`
or on the root logger does not show them. Values of members with names of secrets are removed; other secrets in
arguments or results cannot be recognised.
"""

from __future__ import annotations

import logging
import re
from typing import Final

MOST: Final = 2000
"""How many bytes of a message are logged."""
payloads: Final = logging.getLogger("mcprev.payloads")
"""The logger of message contents; set its level to DEBUG to see them."""
if payloads.level == logging.NOTSET:
    payloads.setLevel(logging.WARNING)

_SECRET: Final = re.compile(
    rb"""
    ((?:(?<!progress)token|api[_-]?key|secret|passw(?:or)?d|passphrase|authorization|cookie|credentials?|assertion|
    code[_-]?verifier|private[_-]?key|requestState)"[ ]*:[ ]*)
    ("(?:[^"\\]|\\.)*"?)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_BEARER: Final = re.compile(rb"\b(Bearer|Basic|DPoP)[ ]+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)


def redacted(message: bytes) -> str:
    """Return the beginning of a message, with the values of secret members removed."""
    return repr(without_secrets(message[: 2 * MOST])[:MOST])


def without_secrets(message: bytes) -> bytes:
    """Return JSON with the values of secret members removed; what is valid JSON stays valid."""
    return _BEARER.sub(rb"\1 [...]", _SECRET.sub(rb'\1"[...]"', message))
