"""Negotiation rules for HTTP errors, and the cache of probe results (NEG-6, NEG-7).

The first POST is a request of the stateless era. An error that only servers of that era send stays in it. Any other
refusal leads to `initialize`; if that is refused with a 4xx status, a GET tries to open the HTTP+SSE transport.
Statuses that do not depend on the era end the negotiation: authentication, overload and gateway errors.

Decisions where the requirements are silent or disagree:

- Any 4xx leads to the HTTP+SSE transport, as the second revision specifies; later revisions name three statuses.
- A JSON-RPC error takes precedence over the status, unless it leads nowhere.
- If a cached HTTP+SSE transport is refused, the cache entry is removed and the negotiation starts again.
- A cache entry belongs to an endpoint, an origin with a path: one origin can host several servers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from mcprev.protocol.negotiation.rules import (
    fail,
    fall_back,
    first_step,
    initialize_failed,
    initialize_refused,
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

ERA_NEUTRAL: Final = frozenset({401, 403, 407, 408, 425, 429, 502, 503, 504})
"""Statuses that do not depend on the era: authentication, overload and gateway errors."""  # NEG-6
MAX_KNOWN: Final = 1000
"""The maximum number of cached endpoints; the oldest is evicted first."""


def depends_on_era(status: int | None) -> bool:
    """Return whether an HTTP error depends on the era; the caller handles any other.

    An error with an unknown status may depend on it.
    """  # NEG-6
    return status not in ERA_NEUTRAL


def probe_http_error(plan: Plan, outcome: HttpRefused) -> Plan:
    """Handle an HTTP error of a probe: the server may be of the handshake era."""
    return (
        fall_back(plan, outcome)
        if depends_on_era(outcome.status)
        else _undecided(plan, outcome, outcome.status)
    )


def probe_rpc_error(plan: Plan, outcome: Refused) -> Plan:
    """Handle a JSON-RPC error of a probe, unless its status is unrelated to the era."""
    if not depends_on_era(outcome.status) and outcome.error.code not in plan.probe.modern_errors:
        return _undecided(plan, outcome, outcome.status)
    return probe_refused(plan, outcome)


def initialize_http_error(plan: Plan, outcome: HttpRefused) -> Plan:
    """Handle an HTTP error of `initialize`: try the HTTP+SSE transport; if that was cached, start again."""
    if not depends_on_era(outcome.status):
        return _undecided(plan, outcome, outcome.status)
    if plan.shape is HttpShape.SSE and not plan.tried_old:
        return replace(plan, step=Respawn(first_step(plan.allowed)), asked=())
    if _may_try_sse(plan, outcome.status):
        return _try_sse(plan)
    return initialize_failed(plan, outcome)


def initialize_rpc_error(plan: Plan, outcome: Refused) -> Plan:
    """Handle a JSON-RPC error of `initialize`; if it leads nowhere, the status may."""
    if not depends_on_era(outcome.status):
        return _undecided(plan, outcome, outcome.status)
    after = initialize_refused(plan, outcome)
    if isinstance(after.step, Fail) and _may_try_sse(plan, outcome.status):
        return _try_sse(after)
    return after


def sse_refused(plan: Plan, outcome: HttpRefused) -> Plan:
    """Handle a refused HTTP+SSE transport; a server not probed because of the cache is probed now."""
    if not depends_on_era(outcome.status):
        return _undecided(plan, outcome, outcome.status)
    probed = any(isinstance(step, Discover) for step in plan.asked)
    first = first_step(plan.allowed)
    if not probed and isinstance(first, Discover):
        return replace(plan, step=Respawn(first), probed_again=True)
    return fail(
        plan, outcome, "the server speaks no MCP that is allowed here, over neither of the HTTP transports"
    )


def _may_try_sse(plan: Plan, status: int | None) -> bool:
    """Return whether a refused `initialize` is followed by a GET."""  # NEG-6
    allowed = any(revision.http is HttpShape.SSE for revision in plan.allowed)
    refused = status is not None and 400 <= status < 500
    return refused and allowed and not plan.tried_old and plan.shape is not HttpShape.SSE


def _try_sse(plan: Plan) -> Plan:
    """Open the HTTP+SSE transport; all requests but probes may be sent again on it."""
    asked = tuple(step for step in plan.asked if isinstance(step, Discover))
    step = Respawn(Initialize(plan.legacy[-1]), HttpShape.SSE)
    return replace(plan, step=step, asked=asked, tried_old=True, late_discovery=False)


def _undecided(plan: Plan, outcome: Outcome, status: int | None) -> Plan:
    return fail(plan, outcome, f"the server did not say what it speaks: HTTP {status}")


# -- what is remembered ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The era and transport of an endpoint: the `verdict` and `shape` arguments of `machine.start`."""

    era: Era
    shape: HttpShape | None
    """The HTTP transport, if it is not the default one."""


class ProbeCache:
    """Caches the probe results of endpoints, for a process or for its owner."""  # NEG-7

    def __init__(self, limit: int = MAX_KNOWN) -> None:
        self._known: dict[tuple[str, str, int | None, str], ProbeResult] = {}
        self._limit = limit

    def get(self, url: str) -> ProbeResult | None:
        """Return the cached result of an endpoint, or None."""
        return self._known.get(_endpoint(url))

    def keep(self, url: str, plan: Plan) -> None:
        """Cache the outcome of a negotiation; a failed one removes the entry."""
        key = _endpoint(url)
        self._known.pop(key, None)
        if isinstance(plan.step, Ready):
            self._known[key] = ProbeResult(plan.step.verdict, plan.shape)
            if len(self._known) > self._limit:
                del self._known[next(iter(self._known))]


_PORTS: Final = {"http": 80, "https": 443}


def _endpoint(url: str) -> tuple[str, str, int | None, str]:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme), parts.path or "/"
