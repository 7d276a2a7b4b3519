"""The conversion ladder: converts payloads from one revision to another (CONV-1..44).

`convert` is the whole interface of a gateway; a `converter` is for repeated conversions. The other functions are the
pure parts of bridging the two eras. `rules` documents the parts of a step module.
"""

from mcprev.convert.inputs import (
    ServerRequest,
    UnmetInput,
    argument_failure,
    input_required_from,
    request_for,
    requests_for,
    unmet_input,
    url_error,
)
from mcprev.convert.ladder import Converter, PayloadKind, convert, converter, make_context
from mcprev.convert.rules import ConversionContext, OnDowngrade, Reason
from mcprev.convert.sessions import (
    discover_to_initialize,
    initialize_params,
    initialize_to_discover,
    level_change,
    listens_to,
    request_meta,
    subscribed_resources,
)

__all__ = [
    "ConversionContext",
    "Converter",
    "OnDowngrade",
    "PayloadKind",
    "Reason",
    "ServerRequest",
    "UnmetInput",
    "argument_failure",
    "convert",
    "converter",
    "discover_to_initialize",
    "initialize_params",
    "initialize_to_discover",
    "input_required_from",
    "level_change",
    "listens_to",
    "make_context",
    "request_for",
    "request_meta",
    "requests_for",
    "subscribed_resources",
    "unmet_input",
    "url_error",
]
