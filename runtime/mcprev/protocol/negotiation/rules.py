"""The negotiation rules that do not depend on the transport (NEG-2 to 5; LIFE-4; AMB-2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mcprev.errors import UNSUPPORTED_PROTOCOL_VERSION, NegotiationError
from mcprev.protocol.negotiation.steps import (
    Discover,
    Discovered,
    Exited,
    Fail,
    Initialize,
    Initialized,
    Method,
    Opening,
    Outcome,
    Plan,
    Ready,
    Refused,
    Respawn,
    Spawned,
    strings,
)
from mcprev.protocol.negotiation.versions import mutual, of_era, versions
from mcprev.revisions import ALL, Era, HttpShape, Revision, by_version, place

STUCK: Final = "the server could not be initialized"


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
    supported = strings(outcome.error.data, "supported")
    plan = add_versions(plan, supported)
    if outcome.error.code not in plan.probe.modern_errors:
        return fall_back(plan, outcome)
    found = mutual(supported, [revision for revision in plan.allowed if step_for(revision) not in plan.asked])
    if found is not None:
        return send_step(plan, step_for(found))
    if not plan.probed_again and outcome.step.revision.version in supported:
        # The server lists the version that the probe used: probe once more (MOD-10).
        return send_step(replace(plan, probed_again=True), outcome.step)
    about_versions = supported or outcome.error.code == UNSUPPORTED_PROTOCOL_VERSION
    return fail(plan, outcome, "no common revision" if about_versions else "the server refused to be asked")


def fall_back(plan: Plan, outcome: Outcome) -> Plan:
    """Try `initialize`: after any other response to a probe the server may be of the handshake era."""  # NEG-4
    if not plan.legacy:
        return fail(plan, outcome, "the server speaks none of the revisions allowed")
    return send_step_once(plan, outcome, Initialize(plan.legacy[-1]))


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
    if older and not plan.late_discovery:
        return replace(plan, step=Respawn(Initialize(older[-1]), plan.shape))
    return initialize_failed(plan, outcome, "the server answered with a revision that is not allowed")


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
    """Probe again if a discovery came late or if a cached era had prevented the probe; else fail."""
    if plan.late_discovery or not any(isinstance(step, Discover) for step in plan.asked):
        return probe_again(plan, outcome, None, otherwise)
    return fail(plan, outcome, otherwise)


def probe_again(plan: Plan, outcome: Outcome, at: Revision | None, otherwise: str = STUCK) -> Plan:
    """Probe once more; on a new connection if the current transport supports only sessions."""
    first = first_step(plan.allowed)
    if plan.probed_again or not isinstance(first, Discover):
        return fail(plan, outcome, otherwise)
    step = first if at is None else Discover(at)
    plan = replace(plan, probed_again=True, late_discovery=False)
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
    then = plan.step if isinstance(plan.step, Initialize) else Initialize(plan.legacy[-1])
    return replace(plan, step=Respawn(then), respawned=True, late_discovery=False)


def spawned(plan: Plan, outcome: Spawned) -> Plan:  # noqa: ARG001 - a rule
    """Send the first step on the new connection."""
    assert isinstance(plan.step, Respawn)
    return send_step(replace(plan, shape=plan.step.shape), plan.step.then)


def not_spawned(plan: Plan, outcome: Exited) -> Plan:
    """Fail: the new connection could not be opened."""
    what = "process could not be started" if plan.probe.process else "could not be reached"
    return fail(plan, outcome, f"the server {what} again")


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
        return fail(plan, outcome, "nothing is left to ask the server")
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
