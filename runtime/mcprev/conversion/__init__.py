"""The conversion ladder: converts payloads from one revision to another (CONV-1..44).

`convert` is the whole interface of a gateway; a `converter` is for repeated conversions. `initialize_to_discover` and
`request_meta` convert what is said once in a session. `rules` documents the parts of a step module.
"""

from mcprev.conversion.ladder import Converter, PayloadKind, convert, converter
from mcprev.conversion.rules import ConversionContext, OnDowngrade, Reason
from mcprev.conversion.sessions import initialize_to_discover, request_meta

__all__ = [
    "ConversionContext",
    "Converter",
    "OnDowngrade",
    "PayloadKind",
    "Reason",
    "convert",
    "converter",
    "initialize_to_discover",
    "request_meta",
]
