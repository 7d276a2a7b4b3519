"""What follows from an outcome, where the transport plays no part: the rules of `plan` (NEG-2 to 5; LIFE-4; AMB-2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mcprev.errors import UNSUPPORTED_PROTOCOL_VERSION, NegotiationError
from mcprev.protocol.negotiation.steps import (
    Contradicted,
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


def found_out(plan: Plan, outcome: Discovered) -> Plan:
    """The newest mutual revision is spoken (NEG-2)."""
    plan = heard(plan, outcome.supported)
    found = mutual(outcome.supported, plan.allowed)
    if found is None:
        return fail(plan, outcome, "no common revision")
    if found.handshake:
        return open_once(plan, outcome, Initialize(found))
    return replace(plan, step=Ready(found, Method.DISCOVER))


def probe_refused(plan: Plan, outcome: Refused) -> Plan:
    """NEG-3 and MOD-10 for what only a modern server says, NEG-4 for everything else."""
    supported = strings(outcome.error.data, "supported")
    plan = heard(plan, supported)
    if outcome.error.code not in plan.probe.modern_errors:
        return fall_back(plan, outcome)
    found = mutual(supported, [revision for revision in plan.allowed if step_for(revision) not in plan.asked])
    if found is not None:
        return open_with(plan, step_for(found))
    if not plan.probed_again and outcome.step.revision.version in supported:
        # It names the very version it was asked at: it gets the chance to mean what it says (MOD-10).
        return open_with(replace(plan, probed_again=True), outcome.step)
    about_versions = supported or outcome.error.code == UNSUPPORTED_PROTOCOL_VERSION
    return fail(plan, outcome, "no common revision" if about_versions else "the server refused to be asked")


def fall_back(plan: Plan, outcome: Outcome) -> Plan:
    """Whatever a probe met that is no modern answer, the server may be of the handshake era (NEG-4)."""
    if not plan.legacy:
        return fail(plan, outcome, "the server speaks none of the revisions allowed")
    return open_once(plan, outcome, Initialize(plan.legacy[-1]))


def agreed(plan: Plan, outcome: Initialized) -> Plan:
    """The server's choice stands if it is allowed here; else an older one may be asked for (LIFE-4)."""
    plan = heard(plan, (outcome.version,))
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
    return initialize_unanswered(plan, outcome, "the server answered with a revision that is not allowed")


def initialize_refused(plan: Plan, outcome: Refused) -> Plan:
    """AMB-2 for a server that names its versions, NEG-5 for a modern one that was slow to answer the probe."""
    supported = strings(outcome.error.data, "supported")
    plan = heard(plan, supported)
    found = mutual(
        supported, [revision for revision in plan.allowed if Initialize(revision) not in plan.asked]
    )
    if found is not None and found.handshake:
        return open_with(plan, Initialize(found))
    if found is not None or (not supported and outcome.error.code in plan.probe.modern_errors):
        return probe_again(plan, outcome, found)
    return initialize_unanswered(plan, outcome)


def initialize_unanswered(plan: Plan, outcome: Outcome, otherwise: str = STUCK) -> Plan:
    """A reason to probe (again) is a discovery that came too late, or that a verdict had kept it from happening."""
    if plan.late_discovery or not any(isinstance(step, Discover) for step in plan.asked):
        return probe_again(plan, outcome, None, otherwise)
    return fail(plan, outcome, otherwise)


def probe_again(plan: Plan, outcome: Outcome, at: Revision | None, otherwise: str = STUCK) -> Plan:
    """Ask once more which era the server is of; on a connection of its own where this one is for sessions only."""
    first = opener(plan.allowed)
    if plan.probed_again or not isinstance(first, Discover):
        return fail(plan, outcome, otherwise)
    step = first if at is None else Discover(at)
    plan = replace(plan, probed_again=True, late_discovery=False)
    return replace(plan, step=Respawn(step)) if plan.shape is HttpShape.SSE else open_with(plan, step)


def exited(plan: Plan, outcome: Exited) -> Plan:
    """An unknown request before `initialize` has ended servers: one more process, which is not probed (NEG-4)."""
    probed = any(isinstance(step, Discover) for step in plan.asked)
    if not plan.probe.process:
        return fail(plan, outcome, "the server could not be reached")
    if plan.respawned or not probed or not plan.legacy:
        return fail(plan, outcome, "the server process ended")
    then = plan.step if isinstance(plan.step, Initialize) else Initialize(plan.legacy[-1])
    return replace(plan, step=Respawn(then), respawned=True, late_discovery=False)


def spawned(plan: Plan, outcome: Spawned) -> Plan:  # noqa: ARG001 - a rule
    """The new connection begins with the step it was opened for."""
    assert isinstance(plan.step, Respawn)
    return open_with(replace(plan, shape=plan.step.shape), plan.step.then)


def not_spawned(plan: Plan, outcome: Exited) -> Plan:
    """There is no new connection."""
    what = "process could not be started" if plan.probe.process else "could not be reached"
    return fail(plan, outcome, f"the server {what} again")


def contradicted(plan: Plan, outcome: Contradicted) -> Plan:
    """What was agreed on, or remembered, does not hold (NEG-7)."""
    return probe_again(
        replace(plan, asked=()), outcome, None, "the server no longer speaks what was agreed on"
    )


# -- moves -------------------------------------------------------------------------------------------------


def opener(allowed: tuple[Revision, ...]) -> Opening:
    """The first thing said to a server of which nothing is known (NEG-1, LIFE-2)."""
    modern = of_era(allowed, Era.STATELESS)
    newest = mutual(versions(modern), modern)
    return Initialize(allowed[-1]) if newest is None else Discover(newest)


def step_for(revision: Revision) -> Opening:
    """The step that leads to a revision."""
    return Initialize(revision) if revision.handshake else Discover(revision)


def open_with(plan: Plan, step: Opening) -> Plan:
    """The plan with this step, which is sent now."""
    return replace(plan, step=step, asked=(*plan.asked, step))


def open_once(plan: Plan, outcome: Outcome, step: Opening) -> Plan:
    """The same, for a step that was not sent before."""
    if step in plan.asked:
        return fail(plan, outcome, "nothing is left to ask the server")
    return open_with(plan, step)


def heard(plan: Plan, names: Sequence[str]) -> Plan:
    """The plan that knows of these versions of the server's."""
    return replace(plan, theirs=tuple(dict.fromkeys((*plan.theirs, *names))))


def fail(plan: Plan, outcome: Outcome, message: str) -> Plan:
    """The plan given up."""
    ours = [revision.name for revision in reversed(plan.allowed)]
    error = NegotiationError(message, ours=ours, theirs=plan.theirs, evidence=plan.evidence)
    return replace(plan, step=Fail(error, outcome))
