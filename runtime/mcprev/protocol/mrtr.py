"""Input that a request needs before it can be completed, for both roles and both eras (MRTR-1..12, CONV-17).

A handler calls `ctx.ask` or returns an InputRequiredResult. At revisions whose results can ask for input, asking ends
the handler with `InputRequired`; the retry brings the responses, and a sealed state brings those of earlier rounds. At
older revisions asking sends a request to the client. The functions here serve both cases and do no I/O: the
responses of a round, and the params of the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from mcprev.errors import InvalidParams, Json, RemoteProtocolError
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.request_state import RequestStateSealer
from mcprev.protocol.stateless import INPUT_REQUIRED
from mcprev.wire.json_values import is_json_object, json_object

MAX_ROUNDS: Final = 10
"""The maximum number of rounds of one request."""  # MRTR-6, MRTR-11
REQUESTS: Final = "inputRequests"
RESPONSES: Final = "inputResponses"
STATE: Final = "requestState"
_ANSWERS: Final = "answers"
_AUTHOR: Final = "state"


class InputRequired(BaseException):
    """Raised in a handler that needs this input to continue."""

    def __init__(self, key: str, request: dict[str, Json]) -> None:
        super().__init__(key)
        self.key = key
        self.request = request


def input_requests_of(error: BaseException) -> dict[str, dict[str, Json]] | None:
    """Return the input requests that ended a handler, also those of an exception group; None for any other exception."""
    if isinstance(error, InputRequired):
        return {error.key: error.request}
    if not isinstance(error, BaseExceptionGroup):
        return None
    found: dict[str, dict[str, Json]] = {}
    for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
        needs = input_requests_of(inner)
        if needs is None:
            return None
        found.update(needs)
    return found


is_first: Final = frozenset({RESPONSES, STATE}).isdisjoint
"""Returns whether the params of a request carry nothing from an earlier round."""


def is_input_required(result: Mapping[str, Json]) -> bool:
    """Return whether a result asks for input."""
    return result.get("resultType") == INPUT_REQUIRED


def requests_of(result: Mapping[str, Json]) -> dict[str, dict[str, Json]]:
    """Return the input requests of a result, by key. Raises `RemoteProtocolError` for what is none."""
    found: Json = result.get(REQUESTS)
    if found is None:
        return {}
    if found.__class__ is not dict or not all(each.__class__ is dict for each in found.values()):
        raise RemoteProtocolError(f"`{REQUESTS}` of the result is no object of requests", raw=dict(result))
    requests: dict[str, dict[str, Json]] = found
    return requests


def without_empty_fields(answer: Mapping[str, Json]) -> dict[str, Json]:
    """Return the answer to a question without the fields of a form that are null: the user left them empty."""
    content: Json = answer.get("content")
    if content.__class__ is not dict or None not in content.values():
        return dict(answer)
    return {**answer, "content": {name: value for name, value in content.items() if value is not None}}


class InputResponses:
    """The input of a handler run: the responses so far, and the author's own state."""

    def __init__(self, given: Mapping[str, dict[str, Json]] | None = None, state: str | None = None) -> None:
        self.given: dict[str, dict[str, Json]] = {} if given is None else dict(given)
        self.state: str | None = state

    @classmethod
    def of_retry(
        cls, incoming: IncomingRequest, states: RequestStateSealer, now: float, *, principal: str | None
    ) -> InputResponses:
        """Read the responses and the state of a retry.

        Raises `InvalidParams` for a state that this server did not seal, or that belongs to another principal.
        """  # MRTR-4, SEC-5
        earlier: dict[str, Json] = {}
        method, params = incoming.method, incoming.params or {}
        token = params.get(STATE)
        if token is not None:
            earlier = states.open(token, method=method, params=params, principal=principal, now=now)
        given: Json = params.get(RESPONSES)
        if given is not None and not (
            is_json_object(given) and all(isinstance(each, dict) for each in given.values())
        ):
            raise InvalidParams(f"Invalid params: {RESPONSES} must be an object of objects")
        answers = {key: without_empty_fields(each) for key, each in json_object(given).items()}
        return cls({**earlier.get(_ANSWERS, {}), **answers}, earlier.get(_AUTHOR))

    def seal(
        self,
        result: dict[str, Json],
        incoming: IncomingRequest,
        states: RequestStateSealer,
        now: float,
        *,
        principal: str | None,
    ) -> dict[str, Json]:
        """Return an InputRequiredResult whose sealed state holds all that the retry has to bring back."""
        state = result.get(STATE)
        if state is None and not self.given:
            return result
        payload = {_ANSWERS: self.given, _AUTHOR: state}
        method, params = incoming.method, incoming.params
        token = states.seal(payload, method=method, params=params, principal=principal, now=now)
        return {**result, STATE: token}

    def into(self, params: Mapping[str, Json]) -> dict[str, Json]:
        """Return params with all responses and the state, as the handler or the server gets them."""
        changed = {name: value for name, value in params.items() if name not in (RESPONSES, STATE)}
        if self.given:
            changed[RESPONSES] = self.given
        if self.state is not None:
            changed[STATE] = self.state
        return changed


def input_required(requests: Mapping[str, dict[str, Json]], state: str | None) -> dict[str, Json]:
    """Return the InputRequiredResult with these requests and the author's state."""
    asks: dict[str, Json] = {"resultType": INPUT_REQUIRED, REQUESTS: dict(requests)}
    return asks if state is None else {**asks, STATE: state}


def retry(
    params: Mapping[str, Json], result: Mapping[str, Json], answers: Mapping[str, Json]
) -> dict[str, Json]:
    """Return the params of a client's retry: the same params, the responses and the unmodified state."""  # MRTR-5
    return InputResponses(answers, result.get(STATE)).into(params)
