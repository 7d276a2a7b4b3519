"""What the answers of an HTTP server tell of it, and how long that is remembered: more rules of `plan` (NEG-6, NEG-7).

The first POST is a modern request. An error that only a modern server knows keeps to its era; any other refusal leads
to `initialize`, and if that is refused too with a status of 4xx, to a GET that is to open the old transport of two
endpoints. What says nothing of the era ends the plan: the server wants a login, is busy or is out of order.

Decided here because the requirements are silent or disagree:

- Any 4xx leads on to the old transport, as the second revision has it; later ones name three of them.
- A JSON-RPC error decides before its status does, and is passed over only where it leads nowhere.
- A remembered old transport that is refused is forgotten, and the server is asked from the beginning.
- What is remembered belongs to an endpoint, which is an origin and a path: one origin can host many servers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from mcprev.protocol.negotiation.rules import (
    fail,
    fall_back,
    initialize_refused,
    initialize_unanswered,
    opener,
    probe_refused,
)
from mcprev.protocol.negotiation.steps import (
    Discover,
    Fail,
    HttpRefused,
    Initialize,
    Outcome,
    Plan,
    Ready,
    Refused,
    Respawn,
)
from mcprev.revisions import Era, HttpShape

NO_VERDICT: Final = frozenset({401, 403, 407, 408, 425, 429, 502, 503, 504})
"""Statuses that say nothing of the era: of logins (NEG-6), of too much to do, and of whatever stands in between."""
MAX_KNOWN: Final = 1000
"""How many endpoints are remembered; the oldest is forgotten first."""


def is_verdict(status: int | None) -> bool:
    """Whether an HTTP error tells anything of the era; the others are for the caller to deal with (NEG-6).

    An error whose status nobody knows may always tell.
    """
    return status not in NO_VERDICT


def probe_met_status(plan: Plan, outcome: HttpRefused) -> Plan:
    """No modern server answers so: it may be of the handshake era."""
    return (
        fall_back(plan, outcome) if is_verdict(outcome.status) else _undecided(plan, outcome, outcome.status)
    )


def probe_met_error(plan: Plan, outcome: Refused) -> Plan:
    """A JSON-RPC error, whatever its status, unless that is about something else."""
    if not is_verdict(outcome.status) and outcome.error.code not in plan.probe.modern_errors:
        return _undecided(plan, outcome, outcome.status)
    return probe_refused(plan, outcome)


def initialize_met_status(plan: Plan, outcome: HttpRefused) -> Plan:
    """The last resort is the old transport; if that is what was remembered, everything else."""
    if not is_verdict(outcome.status):
        return _undecided(plan, outcome, outcome.status)
    if plan.shape is HttpShape.SSE and not plan.tried_old:
        return replace(plan, step=Respawn(opener(plan.allowed)), asked=())
    if _leads_to_old(plan, outcome.status):
        return _old_transport(plan)
    return initialize_unanswered(plan, outcome)


def initialize_met_error(plan: Plan, outcome: Refused) -> Plan:
    """A JSON-RPC error is read first; where it leads nowhere, its status may."""
    if not is_verdict(outcome.status):
        return _undecided(plan, outcome, outcome.status)
    after = initialize_refused(plan, outcome)
    if isinstance(after.step, Fail) and _leads_to_old(plan, outcome.status):
        return _old_transport(after)
    return after


def not_opened(plan: Plan, outcome: HttpRefused) -> Plan:
    """There is no old transport either. A server that was never probed, because of a verdict, is probed now."""
    if not is_verdict(outcome.status):
        return _undecided(plan, outcome, outcome.status)
    probed = any(isinstance(step, Discover) for step in plan.asked)
    first = opener(plan.allowed)
    if not probed and isinstance(first, Discover):
        return replace(plan, step=Respawn(first), probed_again=True)
    return fail(
        plan, outcome, "the server speaks no MCP that is allowed here, over neither of the HTTP transports"
    )


def _leads_to_old(plan: Plan, status: int | None) -> bool:
    """Whether a refused `initialize` is to be followed by a GET (NEG-6)."""
    allowed = any(revision.http is HttpShape.SSE for revision in plan.allowed)
    refused = status is not None and 400 <= status < 500
    return refused and allowed and not plan.tried_old and plan.shape is not HttpShape.SSE


def _old_transport(plan: Plan) -> Plan:
    """Open the old transport; what was asked over the other one has not been asked over this."""
    asked = tuple(step for step in plan.asked if isinstance(step, Discover))
    step = Respawn(Initialize(plan.legacy[-1]), HttpShape.SSE)
    return replace(plan, step=step, asked=asked, tried_old=True, late_discovery=False)


def _undecided(plan: Plan, outcome: Outcome, status: int | None) -> Plan:
    return fail(plan, outcome, f"the server did not say what it speaks: HTTP {status}")


# -- what is remembered ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What an endpoint was found to be: what `plan.start` takes as `verdict` and `shape`."""

    era: Era
    shape: HttpShape | None
    """The shape of HTTP, where it is not the one that is tried first."""


class ProbeCache:
    """What the endpoints of one process, or of whoever holds this, were found to be (NEG-7)."""

    def __init__(self, limit: int = MAX_KNOWN) -> None:
        self._known: dict[tuple[str, str, int | None, str], ProbeResult] = {}
        self._limit = limit

    def get(self, url: str) -> ProbeResult | None:
        """What is known of an endpoint."""
        return self._known.get(_endpoint(url))

    def keep(self, url: str, plan: Plan) -> None:
        """Remember where a plan has led; one that has failed leads nowhere, and what was known is forgotten."""
        key = _endpoint(url)
        self._known.pop(key, None)
        if isinstance(plan.step, Ready):
            self._known[key] = ProbeResult(plan.step.verdict, plan.shape)
            if len(self._known) > self._limit:
                del self._known[next(iter(self._known))]

    def forget(self, url: str) -> None:
        """An endpoint has contradicted what was known of it."""
        self._known.pop(_endpoint(url), None)


_PORTS: Final = {"http": 80, "https": 443}


def _endpoint(url: str) -> tuple[str, str, int | None, str]:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme), parts.path or "/"
