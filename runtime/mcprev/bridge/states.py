"""The states that a stateless server gives its clients, sealed for one principal each (MRTR-4, SEC-5)."""

from __future__ import annotations

import time
from typing import Final

from mcprev.bridge.relay import Exchange, Relay
from mcprev.conversion.rules import JsonObject, as_object
from mcprev.core.interfaces import principal_of
from mcprev.errors import Json
from mcprev.protocol.mrtr import STATE, is_input_required

_WRAPPED: Final = "server"
"""The member of a sealed state that holds the state of the server."""


def wrapped(relay: Relay, exchange: Exchange, result: JsonObject) -> JsonObject:
    """Return a result whose state only this principal can send back; without principals, the result itself."""
    incoming, principal = exchange.incoming, principal_of(exchange.incoming)
    if principal is None or not is_input_required(result) or result.get(STATE) is None:
        return result
    sealed = relay.states.seal(
        {_WRAPPED: result[STATE]},
        method=incoming.method,
        params=incoming.params,
        principal=principal,
        now=time.time(),
    )
    return {**result, STATE: sealed}


def unwrapped(relay: Relay, exchange: Exchange, params: dict[str, Json] | None) -> dict[str, Json] | None:
    """Return params with the state as the server gave it. Raises `InvalidParams` for that of another principal."""
    incoming, principal = exchange.incoming, principal_of(exchange.incoming)
    if principal is None or params is None or params.get(STATE) is None:
        return params
    payload = relay.states.open(
        params[STATE],
        method=incoming.method,
        params=incoming.params,
        principal=principal,
        now=time.time(),
    )
    return {**params, STATE: as_object(payload).get(_WRAPPED)}
