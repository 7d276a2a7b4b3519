"""Input requests at revisions whose results cannot ask for input, and failures that change form between revisions.

At such a revision a server sends requests of its own; `requests_for` returns them for the peer's revision. The engines
send them, check the client's capabilities and call the handler again with the responses, which `convert` converts as
results of their methods (CONV-17, MRTR-11). A request that the client does not support becomes a failure that names
it: `unmet_input`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast

from mcprev.convert.ladder import PayloadKind, converter, failure, make_context
from mcprev.convert.rules import Json, JsonObject, NotRepresentable, OnDowngrade, without
from mcprev.errors import INVALID_PARAMS, URL_ELICITATION_REQUIRED
from mcprev.revisions import LATEST, revision_named

_TOOL_CALL: Final = "tools/call"
_ELICIT: Final = "elicitation/create"


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A request that a server sends to its client."""

    method: str
    params: JsonObject | None


@dataclass(frozen=True, slots=True)
class UnmetInput:
    """The response to a request: a result or an error object, as `kind` says."""

    kind: PayloadKind
    payload: JsonObject


def requests_for(
    result: Mapping[str, Json],
    *,
    to: str,
    on_downgrade: OnDowngrade | None = None,
    mint: Callable[[], str] | None = None,
) -> dict[str, ServerRequest]:
    """Return the requests for the input that an InputRequiredResult of the latest revision asks for, by its keys.

    Raises `ConversionError` for a request that the revision does not have; its path starts at the result.
    """
    asked = cast("Mapping[str, JsonObject]", result.get("inputRequests") or {})
    found: dict[str, ServerRequest] = {}
    for key, request in asked.items():
        try:
            found[key] = _request(request, to, on_downgrade, mint)
        except NotRepresentable as error:
            raise failure(error.inside("inputRequests", key), to) from None
    return found


def request_for(
    request: Mapping[str, Json],
    *,
    to: str,
    on_downgrade: OnDowngrade | None = None,
    mint: Callable[[], str] | None = None,
) -> ServerRequest:
    """Return one such request: elicitation, sampling or roots. Raises `ConversionError` if the revision does not have
    it.
    """
    try:
        return _request(request, to, on_downgrade, mint)
    except NotRepresentable as error:
        raise failure(error, to) from None


def _request(
    request: Mapping[str, Json], to: str, on_downgrade: OnDowngrade | None, mint: Callable[[], str] | None
) -> ServerRequest:
    method = str(request.get("method"))
    if method not in revision_named(to).methods:
        raise NotRepresentable(
            f"the peer's revision has no '{method}': continue without it, or report that in a result",
            "method",
        )
    context = make_context(to, on_downgrade=on_downgrade, meta=None, mint=mint)
    way = converter(method, PayloadKind.PARAMS, from_=LATEST, to=to)
    try:
        return ServerRequest(method, way.run(request.get("params"), context, validate=True))
    except NotRepresentable as error:
        raise error.inside("params") from None


def unmet_input(method: str, request: Mapping[str, Json]) -> UnmetInput:
    """Return the response to `method` if the client does not support an embedded request: a failed tool result or an
    error.

    Its text holds the message and the URL of the request, so that a user can act on it.
    """  # CONV-17
    params = cast("JsonObject", request.get("params") or {})
    details = [str(params[name]) for name in ("message", "url") if name in params]
    need = "elicitation" if request.get("method") == _ELICIT else f"'{request.get('method')}'"
    text = ": ".join([f"This needs {need}, which the client does not offer", *details])
    return _failed(method, text, as_result=True)


def argument_failure(message: str, *, at: str) -> UnmetInput:
    """Return the response to a tool call with invalid arguments at a revision."""  # CONV-35, TOOL-2
    return _failed(_TOOL_CALL, message, as_result=revision_named(at).tool_argument_errors_are_results)


def _failed(method: str, text: str, *, as_result: bool) -> UnmetInput:
    if method == _TOOL_CALL and as_result:
        return UnmetInput(PayloadKind.RESULT, {"content": [{"type": "text", "text": text}], "isError": True})
    return UnmetInput(PayloadKind.ERROR, {"code": INVALID_PARAMS, "message": text})


def url_error(result: Mapping[str, Json], *, to: str, mint: Callable[[], str] | None = None) -> JsonObject:
    """Return the error that sends the client to the URLs of an InputRequiredResult.

    Raises `ConversionError` for a revision without URL elicitation, and for any other input request.
    """  # ERR-3
    requests = requests_for(result, to=to, mint=mint)
    for key, request in requests.items():
        if (request.params or {}).get("mode") != "url":
            error = NotRepresentable("an error can send the client to URLs only", "inputRequests", key)
            raise failure(error, to)
    asked = [request.params for request in requests.values()]
    message = "The user has to visit a URL first"
    return {"code": URL_ELICITATION_REQUIRED, "message": message, "data": {"elicitations": asked}}


def input_required_from(error: Mapping[str, Json]) -> JsonObject:
    """Return the InputRequiredResult of the latest revision for a URL elicitation error."""
    data = cast("JsonObject", error.get("data") or {})
    asked = cast("list[JsonObject]", data.get("elicitations") or [])
    return {
        "resultType": "input_required",
        "inputRequests": {
            str(params.get("elicitationId")): {
                "method": _ELICIT,
                "params": without(params, "_meta", "task", "elicitationId"),
            }
            for params in asked
        },
    }
