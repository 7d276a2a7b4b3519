"""Asks a client to have its user log in at a server, as its revision allows (ELIC-7, MRTR-1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcprev.conversion.rules import JsonObject, as_object, without
from mcprev.errors import INTERNAL_ERROR, URL_ELICITATION_REQUIRED
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.mrtr import RESPONSES, input_required

if TYPE_CHECKING:
    from mcprev.bridge.several.login_required import LoginRequired

LOG_IN: Final = "log_in"
"""The name of the tool that a server has until its user has logged in."""
_KEY: Final = "mcprev-login"
_ALTERNATE: Final = "InputRequiredResult"
_URL: Final = "url"


def asks_to_log_in(
    incoming: IncomingRequest, required: LoginRequired
) -> tuple[JsonObject | None, JsonObject | None]:
    """Return the result or the error that asks the user of a request to log in."""
    message = f"Log in at the server '{required.server}', then try again."
    params: JsonObject = {"mode": _URL, "message": message, "url": required.url}
    modes, revision = as_object(incoming.capabilities.get("elicitation")), incoming.revision
    spec = revision.methods.get(incoming.method)
    if _URL in modes and spec is not None and _ALTERNATE in spec.alternate_results:
        return input_required({_KEY: {"method": "elicitation/create", "params": params}}, None), None
    if _URL in modes and _URL in revision.elicitation_modes and not revision.input_in_results:
        asked = {**params, "elicitationId": required.url.rpartition("=")[2]}
        return None, {"code": URL_ELICITATION_REQUIRED, "message": message, "data": {"elicitations": [asked]}}
    return None, {"code": INTERNAL_ERROR, "message": f"{message} The page is {required.url}"}


def without_login(params: JsonObject) -> JsonObject:
    """Return params without the answer to what the bridge itself has asked: it is not for the server."""
    given = as_object(params.get(RESPONSES))
    if _KEY not in given:
        return params
    left = without(given, _KEY)
    return {**params, RESPONSES: left} if left else without(params, RESPONSES)


def login_tool(name: str, server: str) -> JsonObject:
    """Return the tool that leads a user to the login."""
    return {
        "name": name,
        "description": f"Log in at the server '{server}'. Its tools are listed after that.",
        "inputSchema": {"type": "object"},
    }
