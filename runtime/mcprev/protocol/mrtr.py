"""Input that a request needs before it can be answered, on both sides and in both eras (MRTR-1..12, CONV-17).

A handler asks with `ctx.ask`, or returns an InputRequiredResult. Where results ask for input, asking ends the
handler with `InputRequired`; the answers come with the retry, those of earlier rounds in a sealed state. Where
servers send requests of their own, asking is such a request. What is here is the same in every case and does no
I/O: which capability a question needs, what a round has to answer, what the next one is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from mcprev.errors import InvalidParams, Json, LocalProtocolError, MissingClientCapability
from mcprev.protocol import input_requests as asking
from mcprev.protocol.request_state import RequestStateSealer
from mcprev.protocol.stateless import INPUT_REQUIRED, lacking, missing_capability
from mcprev.revisions import Revision

ROUNDS: Final = 10
"""How many times one request may ask before it is given up (MRTR-6, MRTR-11)."""
RESPONSES: Final = "inputResponses"
STATE: Final = "requestState"
_ANSWERS: Final = "answers"
_AUTHOR: Final = "state"


class InputRequired(BaseException):
    """A handler cannot go on before this is answered."""

    def __init__(self, key: str, request: dict[str, Json]) -> None:
        super().__init__(key)
        self.key = key
        self.request = request


def needs_of(error: BaseException) -> dict[str, dict[str, Json]] | None:
    """What a handler asked for when it was ended by asking, several things at once included; None if by anything else."""
    if isinstance(error, InputRequired):
        return {error.key: error.request}
    if not isinstance(error, BaseExceptionGroup):
        return None
    found: dict[str, dict[str, Json]] = {}
    for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
        needs = needs_of(inner)
        if needs is None:
            return None
        found.update(needs)
    return found


is_first: Final = frozenset({RESPONSES, STATE}).isdisjoint
"""Whether the params of a request bring nothing that an earlier round asked for."""


def is_input_required(result: Mapping[str, Json]) -> bool:
    """Whether a result asks for input."""
    return result.get("resultType") == INPUT_REQUIRED


def requests_of(result: Mapping[str, Json]) -> dict[str, dict[str, Json]]:
    """What a result asks for, by key."""
    return cast("dict[str, dict[str, Json]]", result.get("inputRequests") or {})


def check_askable(
    request: Mapping[str, Json], capabilities: Mapping[str, Json]
) -> MissingClientCapability | None:
    """The error for a question that the client has not said it can answer (MRTR-3, ELIC-1, SAMP-2)."""
    missing = lacking(capabilities, _needed(request, capabilities))
    return missing_capability(missing) if missing else None


def proper(
    request: Mapping[str, Json], revision: Revision, capabilities: Mapping[str, Json]
) -> dict[str, Json]:
    """A question as it can be asked. Raises `LocalProtocolError` for one that nobody could be asked (ELIC-2, SAMP-3)."""
    method, params = str(request.get("method")), request.get("params")
    wrong = asking.misasked(method, params)
    if wrong is not None:
        raise LocalProtocolError(f"'{method}' cannot be asked like this: {wrong}")
    if revision.sampling_tools and params is not None:
        params = asking.without_context(method, params, capabilities)
    return dict(request) if params is None else {**request, "params": params}


def _needed(request: Mapping[str, Json], capabilities: Mapping[str, Json]) -> dict[str, Json]:
    """The capabilities that a question needs, in the shape of ClientCapabilities."""
    params: Mapping[str, Any] = request.get("params") or {}
    match request.get("method"):
        case "sampling/createMessage":
            return {"sampling": {"tools": {}} if "tools" in params or "toolChoice" in params else {}}
        case "elicitation/create":
            modes = capabilities.get("elicitation")
            mode = params.get("mode", "form")
            # An empty object means forms only, as it did before there were modes (ELIC-1).
            return {"elicitation": {} if mode == "form" and modes == {} else {mode: {}}}
        case "roots/list":
            return {"roots": {}}
        case other:
            raise ValueError(f"'{other}' cannot be asked of a client")


class InputResponses:
    """What is known when a handler is run: the answers so far, and the author's own state."""

    __slots__ = ("given", "state")

    def __init__(self, given: Mapping[str, dict[str, Json]] | None = None, state: str | None = None) -> None:
        self.given: dict[str, dict[str, Json]] = {} if given is None else dict(given)
        self.state = state

    @classmethod
    def of_retry(
        cls,
        method: str,
        params: Mapping[str, Json],
        states: RequestStateSealer,
        now: float,
        *,
        principal: str | None,
    ) -> InputResponses:
        """Read what a retry brings.

        Raises `InvalidParams` for a state that was not made here, or for another principal (MRTR-4, SEC-5).
        """
        earlier: dict[str, Json] = {}
        token = params.get(STATE)
        if token is not None:
            earlier = states.open(token, method=method, params=params, principal=principal, now=now)
        given = params.get(RESPONSES)
        if given is None:
            given = {}
        if not isinstance(given, dict) or not all(
            isinstance(v, dict) for v in cast("dict[str, Json]", given).values()
        ):
            raise InvalidParams(f"Invalid params: {RESPONSES} is no object of objects")
        return cls({**earlier.get(_ANSWERS, {}), **cast("dict[str, Any]", given)}, earlier.get(_AUTHOR))

    def seal(
        self,
        result: dict[str, Json],
        method: str,
        params: Mapping[str, Json],
        states: RequestStateSealer,
        now: float,
        *,
        principal: str | None,
    ) -> dict[str, Json]:
        """The result that asks, with everything the retry has to bring back in its sealed state."""
        state = result.get(STATE)
        if state is None and not self.given:
            return result
        payload = {_ANSWERS: self.given, _AUTHOR: state}
        token = states.seal(payload, method=method, params=params, principal=principal, now=now)
        return {**result, STATE: token}

    def into(self, params: dict[str, Json]) -> dict[str, Json]:
        """The params that the handler sees: all answers, and its own state as it was."""
        changed = {name: value for name, value in params.items() if name not in (RESPONSES, STATE)}
        if self.given:
            changed[RESPONSES] = self.given
        if self.state is not None:
            changed[STATE] = self.state
        return changed


def input_required(requests: Mapping[str, dict[str, Json]], state: str | None) -> dict[str, Json]:
    """The result that asks for these, with what the author wants to find again."""
    asks: dict[str, Json] = {"resultType": INPUT_REQUIRED, "inputRequests": dict(requests)}
    return asks if state is None else {**asks, STATE: state}


def retry(
    params: Mapping[str, Json], result: Mapping[str, Json], answers: Mapping[str, Json]
) -> dict[str, Json]:
    """The params of a client's next round: the same, the answers, and the state exactly as it came (MRTR-5)."""
    again = {name: value for name, value in params.items() if name not in (RESPONSES, STATE)}
    if answers:
        again[RESPONSES] = dict(answers)
    if STATE in result:
        again[STATE] = result[STATE]
    return again
