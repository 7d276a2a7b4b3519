"""The client's negotiation of a revision: a state machine of steps and outcomes.

NEG-1 to 7, 12; LIFE-2, LIFE-4; MOD-10; AMB-2. `start` returns a `Plan` with its first step. The driver executes the
step and passes its outcome to `advance`, until the step is `Ready` or `Fail`. A table maps step and outcome to a rule;
a pair without a rule is a late response and does not change the step. Each step has a deadline, which the driver keeps
(NEG-5). `steps` defines steps and outcomes, `rules` the rules, `http` those for HTTP.

Decisions where the requirements are silent or disagree:

- The newest version that both sides name wins, of either era, also if it comes with an error (AMB-2, NEG-3).
- A server that answers `initialize` with a version that is not allowed may support an older one that is. The client
  closes the connection (LIFE-4) and requests that version on a new one, each version once. This happens only if the
  allowed revisions have gaps.
- A late result of `server/discover` does not stop the fallback (NEG-5), but if `initialize` then fails, the client
  probes once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mcprev.protocol.negotiation import http, rules
from mcprev.protocol.negotiation.rules import first_step, send_step
from mcprev.protocol.negotiation.steps import (
    STDIO,
    Discover,
    Discovered,
    Exited,
    HttpRefused,
    Initialize,
    Initialized,
    InvalidReply,
    Method,
    Outcome,
    Plan,
    Probe,
    Ready,
    Refused,
    Respawn,
    Spawned,
    Step,
    TimedOut,
    describe_step,
    listed,
)
from mcprev.protocol.negotiation.versions import mutual
from mcprev.revisions import Era, HttpShape, Revision


def start(
    allowed: tuple[Revision, ...],
    probe: Probe = STDIO,
    *,
    verdict: Era | None = None,
    prior: Sequence[str] | None = None,
    shape: HttpShape | None = None,
) -> Plan:
    """Return the plan for a server, with its first step.

    `verdict` is the cached era of the server. `prior` are the versions of a DiscoverResult that is still valid; with a
    mutual one no request is sent. `shape` is the cached HTTP transport, which opens the first
    connection (`Plan.shape`). Values that do not match `allowed` are ignored.
    """  # NEG-7, NEG-12
    if not allowed:
        raise ValueError("at least one revision has to be allowed")
    plan = Plan(allowed, first_step(allowed), probe)
    found = mutual(prior, allowed) if prior is not None else None
    if prior is not None and found is not None:
        plan = replace(plan, theirs=tuple(prior), evidence=(f"known from before: {listed(prior)}",))
        return (
            send_step(plan, Initialize(found))
            if found.handshake
            else replace(plan, step=Ready(found, Method.PRIOR))
        )
    if verdict is Era.HANDSHAKE and plan.legacy:
        old = shape is HttpShape.SSE and any(revision.http is shape for revision in allowed)
        line = "known from before: a server of the handshake era" + (f", over {shape}" if old else "")
        plan = replace(plan, evidence=(line,), shape=shape if old else None)
        return send_step(plan, Initialize(plan.legacy[-1]))
    return send_step(plan, first_step(allowed))


def advance(plan: Plan, outcome: Outcome) -> Plan:
    """Return the plan after an outcome, with the next step in `step`. A late outcome does not change the step."""
    rule = _RULES.get((type(plan.step), type(outcome)))
    line = describe_step(outcome)
    if rule is None or (isinstance(outcome, _ANSWERS) and outcome.step != plan.step):
        late = isinstance(outcome, Discovered) and isinstance(plan.step, Initialize)
        evidence = (*plan.evidence, f"{line} (too late)")
        return replace(plan, evidence=evidence, late_discovery=plan.late_discovery or late)
    return rule(replace(plan, evidence=(*plan.evidence, line)), outcome)


_RULES: Final[Mapping[tuple[type[Step], type[Outcome]], Callable[[Plan, Any], Plan]]] = {
    (Discover, Discovered): rules.select_mutual,
    (Discover, Refused): http.probe_rpc_error,
    (Discover, HttpRefused): http.probe_http_error,
    (Discover, InvalidReply): rules.fall_back,
    (Discover, TimedOut): rules.fall_back,
    (Discover, Exited): rules.exited,
    (Initialize, Initialized): rules.accept_version,
    (Initialize, Refused): http.initialize_rpc_error,
    (Initialize, HttpRefused): http.initialize_http_error,
    (Initialize, InvalidReply): rules.initialize_failed,
    (Initialize, TimedOut): rules.initialize_failed,
    (Initialize, Exited): rules.exited,
    (Respawn, Spawned): rules.spawned,
    (Respawn, HttpRefused): http.sse_refused,
    (Respawn, Exited): rules.not_spawned,
}
_ANSWERS: Final = (Discovered, Initialized, Refused, HttpRefused, InvalidReply, TimedOut)
