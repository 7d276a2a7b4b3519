"""The client's negotiation of a revision: a state machine of steps and outcomes.

NEG-1 to 7, 12; LIFE-2, LIFE-4; MOD-10; AMB-2. `start` returns a `Plan` with its first step. The driver executes the
step and passes its outcome to `advance`, until the step is `Ready` or `Fail`. A table maps step and outcome to a rule.
Each step has a deadline, which the driver keeps; a response after it has no effect (NEG-5). `steps` defines steps and
outcomes.

Over HTTP the first POST is a request of the stateless era. An error that only servers of that era send stays in it. Any
other refusal leads to `initialize`; if that is refused with a 4xx status, a GET tries to open the HTTP+SSE transport
(NEG-6). Statuses that do not depend on the era end the negotiation: authentication, overload and gateway errors. A
gateway in front of a server that hangs up at a probe, or ignores it, says 502 or 504: `initialize` is tried too.

Decisions where the requirements are silent or disagree:

- The newest version that both sides name wins, of either era, also if it comes with an error (AMB-2, NEG-3).
- A server that answers `initialize` with a version that is not allowed may support an older one that is. The client
  closes the connection (LIFE-4) and requests that version on a new one, each version once. This happens only if the
  allowed revisions have gaps.
- Any 4xx leads to the HTTP+SSE transport, as the second revision specifies; later revisions name three statuses.
- A JSON-RPC error takes precedence over the status, unless it leads nowhere.
- If a cached HTTP+SSE transport is refused, the cache entry is removed and the negotiation starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mcprev.errors import UNSUPPORTED_PROTOCOL_VERSION, NegotiationError
from mcprev.protocol.negotiation.steps import (
    STDIO,
    Both,
    BothAnswers,
    Discover,
    Discovered,
    Exited,
    Fail,
    HttpRefused,
    Initialize,
    Initialized,
    InvalidReply,
    Method,
    Opening,
    Outcome,
    Plan,
    Probe,
    Ready,
    Refused,
    Respawn,
    Silent,
    Spawned,
    Step,
    describe_outcome,
    describe_step,
    listed,
    strings,
)
from mcprev.protocol.negotiation.versions import mutual, of_era, versions
from mcprev.revisions import ALL, Era, HttpShape, Revision, by_version, place

STUCK: Final = "the server could not be initialized"
ERA_NEUTRAL: Final = frozenset({401, 403, 407, 408, 425, 429, 502, 503, 504})
"""Statuses that do not depend on the era: authentication, overload and gateway errors."""  # NEG-6
GATEWAY: Final = frozenset({502, 504})
"""What a gateway makes of a server that hangs up or says nothing, as servers with sessions may do at a probe."""


def start(
    allowed: tuple[Revision, ...],
    probe: Probe = STDIO,
    *,
    era: Era | None = None,
    prior: Sequence[str] | None = None,
    shape: HttpShape | None = None,
    prefer: Revision | None = None,
) -> Plan:
    """Return the plan for a server, with its first step.

    `era` is the cached era of the server. `prior` are the versions of a DiscoverResult that is still valid; with a
    mutual one no request is sent. `shape` is the cached HTTP transport, which opens the first
    connection (`Plan.shape`). `prefer` is the revision to ask for first instead of the latest one, if it has a handshake.
    Values that do not match `allowed` are ignored.
    """  # NEG-7, NEG-12
    if not allowed:
        raise ValueError("`revisions` must contain at least one revision")
    plan = Plan(allowed, first_step(allowed), probe)
    plan = replace(plan, may_be_old=era is not Era.STATELESS and bool(plan.legacy))
    found = mutual(prior, allowed) if prior is not None else None
    if prior is not None and found is not None:
        plan = replace(plan, theirs=tuple(prior), evidence=(f"known from before: {listed(prior)}",))
        return (
            send_step(plan, Initialize(found))
            if found.handshake
            else replace(plan, step=Ready(found, Method.PRIOR))
        )
    preferred = next((revision for revision in plan.legacy if revision is prefer), None)
    if era is Era.HANDSHAKE and plan.legacy:
        old = shape is HttpShape.SSE and any(revision.http is shape for revision in allowed)
        line = "known from before: a server of the handshake era" + (f", over {shape}" if old else "")
        plan = replace(plan, evidence=(line,), shape=shape if old else None)
        return send_step(plan, Initialize(preferred or plan.legacy[-1]))
    if preferred is not None and era is None:
        return send_step(plan, Initialize(preferred))
    return send_step(plan, first_step(allowed))


def advance(plan: Plan, outcome: Outcome) -> Plan:
    """Return the plan after the outcome of its step, with the next step in `step`."""
    plan = replace(plan, evidence=(*plan.evidence, *describe_outcome(plan.step, outcome)))
    if isinstance(outcome, Refused | HttpRefused) and _tells_nothing(plan, outcome):
        return fail(plan, outcome, f"the server did not state its revisions: HTTP {outcome.status}")
    if isinstance(outcome, Refused | HttpRefused) and outcome.status in GATEWAY:
        plan = replace(plan, may_pass=True)
    return _RULES[type(plan.step), type(outcome)](plan, outcome)


def ignores_probes(plan: Plan) -> bool:
    """Return whether a server that is reached has responded to `initialize` alone, with a probe unanswered before it."""
    by_session = isinstance(plan.step, Ready) and plan.step.method is Method.INITIALIZE
    return by_session and plan.silent and not plan.respawned


# -- rules of every transport ----------------------------------------------------------------------------


def select_mutual(plan: Plan, outcome: Discovered) -> Plan:
    """Select the newest mutual revision."""  # NEG-2
    plan = add_versions(plan, outcome.supported)
    found = mutual(outcome.supported, plan.allowed)
    if found is None:
        return fail(plan, outcome, "no common revision")
    if found.handshake:
        return send_step_once(plan, outcome, Initialize(found))
    return replace(plan, step=Ready(found, Method.DISCOVER))


def probe_refused(plan: Plan, outcome: Refused) -> Plan:
    """Handle an error of a probe."""  # NEG-3 and MOD-10 for codes of the stateless era, NEG-4 for others
    if plan.both_taken:
        return start_stateless(plan, outcome)
    supported = strings(outcome.error.data, "supported")
    plan = add_versions(plan, supported)
    if outcome.error.code not in plan.probe.modern_errors:
        return fall_back(plan, outcome)
    found = mutual(supported, [revision for revision in plan.allowed if step_for(revision) not in plan.asked])
    if found is not None:
        return send_step(plan, step_for(found))
    step = plan.step
    if isinstance(step, Discover) and not plan.probed_again and step.revision.version in supported:
        # The server lists the version that the probe used: probe once more (MOD-10).
        return send_step(replace(plan, probed_again=True), step)
    if mutual(supported, plan.allowed) is not None:
        return fail(plan, outcome, "the server refuses a revision that it names as one that it speaks")
    about_versions = supported or outcome.error.code == UNSUPPORTED_PROTOCOL_VERSION
    return fail(
        plan, outcome, "no common revision" if about_versions else "the server refused `server/discover`"
    )


def start_stateless(plan: Plan, outcome: Outcome) -> Plan:
    """Start a server again, once, that has taken a session and serves no stateless requests beside it."""  # NEG-5
    if plan.respawned:
        return fail(plan, outcome, "every step of the negotiation failed")
    assert isinstance(plan.step, Discover)
    return replace(plan, step=Respawn(plan.step), respawned=True)


def fall_back(plan: Plan, outcome: Outcome) -> Plan:
    """Try `initialize`: after any other response to a probe the server may be of the handshake era."""  # NEG-4
    if plan.both_taken:
        return start_stateless(plan, outcome)
    if not plan.legacy:
        return fail(plan, outcome, "the server speaks none of the allowed revisions")
    return send_step_once(plan, outcome, Initialize(plan.legacy[-1]))


def probe_unanswered(plan: Plan, outcome: InvalidReply) -> Plan:
    """Try `initialize`: servers with sessions may say nothing to a request that they do not know."""  # NEG-4, NEG-5
    return fall_back(replace(plan, unanswered=True), outcome)


def may_ask_both(plan: Plan) -> bool:
    """Return whether `initialize` may follow the first probe of a pipe before that has a response."""  # NEG-4, NEG-5
    return plan.probe.process and bool(plan.legacy) and plan.asked == (plan.step,)


def shows_stateless(outcome: Outcome) -> bool:
    """Return whether the response to a probe on a pipe is one of a server of the stateless era."""  # NEG-3
    refused = isinstance(outcome, Refused) and outcome.error.code in STDIO.modern_errors
    return refused or isinstance(outcome, Discovered)


def ask_both(plan: Plan, outcome: Silent) -> Plan:  # noqa: ARG001 - a rule
    """Send `initialize` behind a probe that has no response yet. The server reads one after the other when it reads."""
    assert isinstance(plan.step, Discover)
    session = Initialize(plan.legacy[-1])
    return replace(
        plan, step=Both(plan.step, session), asked=(*plan.asked, session), unanswered=True, silent=True
    )


def both_answered(plan: Plan, outcome: BothAnswers) -> Plan:
    """Go on by the response that shows the era: to the probe if that is one of the stateless era, else to `initialize`.

    A server that has taken both is asked once more whether it serves stateless requests beside the session.
    """
    both, late, session = plan.step, outcome.probe, outcome.session
    assert isinstance(both, Both)
    if isinstance(session, Exited):
        return exited(replace(plan, step=both.session), session)
    if late is None or not shows_stateless(late):
        plan = replace(plan, step=both.session, unanswered=late is None, silent=late is None)
        return _RULES[Initialize, type(session)](plan, session)
    found = mutual(late.supported, plan.allowed) if isinstance(late, Discovered) else None
    if not isinstance(session, Initialized):
        return _RULES[Discover, type(late)](replace(plan, step=both.probe), late)
    if found is None or found.handshake:
        return accept_version(replace(plan, step=both.session), session)
    return send_step(replace(plan, probed_again=True, both_taken=True), Discover(found))


def without_answer(plan: Plan, seconds: float) -> Plan:
    """Return a plan that began with `initialize` because the server had not responded to a probe for some seconds."""
    first = first_step(plan.allowed)
    evidence = (describe_step(first, Silent(seconds)), *plan.evidence)
    return replace(plan, asked=(first, *plan.asked), evidence=evidence, unanswered=True, silent=True)


def accept_version(plan: Plan, outcome: Initialized) -> Plan:
    """Accept the server's version if it is allowed; else request an older one, if there is one."""  # LIFE-4
    plan = add_versions(plan, (outcome.version,))
    found = mutual((outcome.version,), plan.legacy)
    if found is not None:
        return replace(plan, step=Ready(found, Method.INITIALIZE))
    answered = by_version(outcome.version, of_era(ALL, Era.HANDSHAKE))
    older = [
        revision for revision in plan.legacy
        if answered is not None and place(revision) < place(answered) and Initialize(revision) not in plan.asked
    ]  # fmt: skip
    if older:
        return replace(plan, step=Respawn(Initialize(older[-1]), plan.shape))
    return initialize_failed(plan, outcome, "the server responded with a revision that is not allowed")


def initialize_refused(plan: Plan, outcome: Refused) -> Plan:
    """Handle an error of `initialize`."""  # AMB-2 if it names versions, NEG-5 if a server was slow to answer the probe
    supported = strings(outcome.error.data, "supported")
    plan = add_versions(plan, supported)
    found = mutual(
        supported, [revision for revision in plan.allowed if Initialize(revision) not in plan.asked]
    )
    if found is not None and found.handshake:
        return send_step(plan, Initialize(found))
    if found is not None or (not supported and outcome.error.code in plan.probe.modern_errors):
        return probe_again(plan, outcome, found)
    return initialize_failed(plan, outcome)


def initialize_failed(plan: Plan, outcome: Outcome, otherwise: str = STUCK) -> Plan:
    """Probe now if a cached era had prevented the probe; else fail."""
    if not any(isinstance(step, Discover) for step in plan.asked):
        return probe_again(plan, outcome, None, otherwise)
    return fail(plan, outcome, otherwise)


def probe_again(plan: Plan, outcome: Outcome, at: Revision | None, otherwise: str = STUCK) -> Plan:
    """Probe once more; on a new connection if the current transport supports only sessions."""
    first = first_step(plan.allowed)
    if plan.probed_again or not isinstance(first, Discover):
        return fail(plan, outcome, otherwise)
    step = first if at is None else Discover(at)
    plan = replace(plan, probed_again=True)
    return replace(plan, step=Respawn(step)) if plan.shape is HttpShape.SSE else send_step(plan, step)


def exited(plan: Plan, outcome: Exited) -> Plan:
    """Handle the exit of a process: some servers exit on a request before `initialize`, so start one more without
    probe.
    """  # NEG-4
    probed = any(isinstance(step, Discover) for step in plan.asked)
    if not plan.probe.process:
        return fail(plan, outcome, "the server could not be reached")
    if plan.respawned or not probed or not plan.legacy:
        return fail(plan, outcome, "the server process ended")
    if isinstance(plan.step, Discover) and plan.both_taken:
        return start_stateless(plan, outcome)
    then = plan.step if isinstance(plan.step, Initialize) else Initialize(plan.legacy[-1])
    return replace(plan, step=Respawn(then), respawned=True, unanswered=True)


def spawned(plan: Plan, outcome: Spawned) -> Plan:  # noqa: ARG001 - a rule
    """Send the first step on the new connection."""
    assert isinstance(plan.step, Respawn)
    return send_step(replace(plan, shape=plan.step.shape), plan.step.then)


def not_spawned(plan: Plan, outcome: Exited) -> Plan:
    """Fail: the new connection could not be opened."""
    what = "process could not be started" if plan.probe.process else "could not be reached"
    return fail(plan, outcome, f"the server {what} again")


# -- rules over HTTP -------------------------------------------------------------------------------------


def depends_on_era(status: int | None) -> bool:
    """Return whether an HTTP error depends on the era; the caller handles any other.

    An error with an unknown status may depend on it.
    """  # NEG-6
    return status not in ERA_NEUTRAL


def initialize_http_error(plan: Plan, outcome: HttpRefused) -> Plan:
    """Handle an HTTP error of `initialize`: try the HTTP+SSE transport; if that was cached, start again."""
    if plan.shape is HttpShape.SSE and not plan.tried_old:
        return replace(plan, step=Respawn(first_step(plan.allowed)), asked=())
    if _may_try_sse(plan, outcome.status):
        return _try_sse(plan)
    return initialize_failed(plan, outcome)


def initialize_rpc_error(plan: Plan, outcome: Refused) -> Plan:
    """Handle a JSON-RPC error of `initialize`; if it leads nowhere, the status may."""
    after = initialize_refused(plan, outcome)
    if isinstance(after.step, Fail) and _may_try_sse(plan, outcome.status):
        return _try_sse(after)
    return after


def sse_refused(plan: Plan, outcome: HttpRefused) -> Plan:
    """Handle a refused HTTP+SSE transport; a server not probed because of the cache is probed now."""
    probed = any(isinstance(step, Discover) for step in plan.asked)
    first = first_step(plan.allowed)
    if not probed and isinstance(first, Discover):
        return replace(plan, step=Respawn(first), probed_again=True)
    return fail(
        plan,
        outcome,
        "the server speaks no allowed revision of MCP, neither over Streamable HTTP nor over HTTP+SSE",
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
    return replace(plan, step=step, asked=asked, tried_old=True)


def _tells_nothing(plan: Plan, outcome: Refused | HttpRefused) -> bool:
    """Return whether an error is unrelated to the era of the server."""
    if isinstance(plan.step, Discover) and outcome.status in GATEWAY and plan.may_be_old:
        return False
    if isinstance(plan.step, Discover) and isinstance(outcome, Refused):
        return not depends_on_era(outcome.status) and outcome.error.code not in plan.probe.modern_errors
    return not depends_on_era(outcome.status)


# -- moves -------------------------------------------------------------------------------------------------


def first_step(allowed: tuple[Revision, ...]) -> Opening:
    """Return the first step for an unknown server."""  # NEG-1, LIFE-2
    modern = of_era(allowed, Era.STATELESS)
    newest = mutual(versions(modern), modern)
    return Initialize(allowed[-1]) if newest is None else Discover(newest)


def step_for(revision: Revision) -> Opening:
    """Return the step that negotiates a revision."""
    return Initialize(revision) if revision.handshake else Discover(revision)


def send_step(plan: Plan, step: Opening) -> Plan:
    """Return the plan with a step to send now."""
    return replace(plan, step=step, asked=(*plan.asked, step))


def send_step_once(plan: Plan, outcome: Outcome, step: Opening) -> Plan:
    """Return the plan with a step to send now, or fail if the step was sent before."""
    if step in plan.asked:
        return fail(plan, outcome, "every step of the negotiation failed")
    return send_step(plan, step)


def add_versions(plan: Plan, names: Sequence[str]) -> Plan:
    """Return the plan with versions of the server added."""
    return replace(plan, theirs=tuple(dict.fromkeys((*plan.theirs, *names))))


def fail(plan: Plan, outcome: Outcome, message: str) -> Plan:
    """Return the plan in its failed state."""
    ours = [revision.name for revision in reversed(plan.allowed)]
    # A process that was started twice ended with the same words; the last ones are kept whole.
    evidence = (*(line.partition("\n")[0] for line in plan.evidence[:-1]), *plan.evidence[-1:])
    error = NegotiationError(message, ours=ours, theirs=plan.theirs, evidence=evidence)
    return replace(plan, step=Fail(error, outcome))


_RULES: Final[Mapping[tuple[type[Step], type[Outcome]], Callable[[Plan, Any], Plan]]] = {
    (Discover, Discovered): select_mutual,
    (Discover, Refused): probe_refused,
    (Discover, HttpRefused): fall_back,
    (Discover, InvalidReply): probe_unanswered,
    (Discover, Silent): ask_both,
    (Discover, Exited): exited,
    (Both, BothAnswers): both_answered,
    (Initialize, Initialized): accept_version,
    (Initialize, Refused): initialize_rpc_error,
    (Initialize, HttpRefused): initialize_http_error,
    (Initialize, InvalidReply): initialize_failed,
    (Initialize, Exited): exited,
    (Respawn, Spawned): spawned,
    (Respawn, HttpRefused): sse_refused,
    (Respawn, Exited): not_spawned,
}
