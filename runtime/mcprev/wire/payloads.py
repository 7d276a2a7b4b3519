"""What messages say, in the log: nothing unless it is asked for, and never a secret (SEC-6).

Messages hold the arguments and results of tools. They are written to the logger `mcprev.payloads` at the level DEBUG
and to no other. That logger has the level WARNING unless it is given another one before or after this is imported, so
that `mcprev`, or every logger, at the level DEBUG does not show them. Values of members that are named like secrets are
left out; what else is secret in arguments or results, nobody can know.
"""

from __future__ import annotations

import logging
import re
from typing import Final

MOST: Final = 2000
"""Bytes of a message that are shown."""
payloads: Final = logging.getLogger("mcprev.payloads")
"""Where messages are logged: set its level to DEBUG to see them."""
if payloads.level == logging.NOTSET:
    payloads.setLevel(logging.WARNING)

_SECRET: Final = re.compile(
    rb"""
    ("(?:[^"\\]*[_-])?(?:access_?token|refresh_?token|id_?token|token|api_?key|secret|password|passphrase|authorization|
    cookie|assertion|code_?verifier|private_?key|requestState)"[ ]*:[ ]*)
    ("(?:[^"\\]|\\.)*"?)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_BEARER: Final = re.compile(rb"\b(Bearer|Basic|DPoP)[ ]+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)


def shown(message: bytes) -> str:
    """The beginning of a message, without the values of members that are named like secrets."""
    text = _SECRET.sub(rb'\1"[...]"', message[: 2 * MOST])
    return repr(_BEARER.sub(rb"\1 [...]", text)[:MOST])
