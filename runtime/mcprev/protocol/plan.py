"""How a client finds the revision to speak: a plan of steps driven by what comes of them.

NEG-1 to 5, 7, 12; LIFE-2, LIFE-4; MOD-10; AMB-2. `start` gives a `Plan` with its first step. The driver carries the
step out and hands what came of it to `advance`, until the step is `Ready` or `Fail`. What to do is a table of step
and outcome; a pair that is not in it is a late answer and changes no step. Each step has a deadline of its own,
which the driver keeps (NEG-5). NEG-6 is another `Probe`.

Decided here because the requirements are silent or disagree:

- The newest version both sides name wins, of whichever era, also when it comes with an error (AMB-2, NEG-3).
- A server that answers `initialize` with a version that is not allowed here may still speak an older one that is.
  The connection ends (LIFE-4) and a new one asks for that, each version once. Only gaps in a list lead there.
- A late result of `server/discover` does not end the fallback (NEG-5), but if `initialize` then fails, it is why
  the server is asked once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeAlias, cast

from mcprev.errors import (
    HEADER_MISMATCH,
    MISSING_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
    Json,
    NegotiationError,
    RpcError,
)
from mcprev.protocol.negotiate import mutual, of_era, versions
from mcprev.revisions import ALL, Era, Revision, by_version, place

MAX_TEXT: Final = 200
"""How much of a text of the peer's is kept, in characters."""
MAX_VERSIONS: Final = 50
"""How many of the versions that a peer names are looked at."""


# -- steps, outcomes and what is remembered ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Discover:
    """Send `server/discover` at this revision."""

    revision: Revision


@dataclass(frozen=True, slots=True)
class Initialize:
    """Send `initialize` that asks for this revision."""

    revision: Revision


@dataclass(frozen=True, slots=True)
class Respawn:
    """End this connection and its process and open another, then say `Spawned`."""

    then: Initialize


class How(StrEnum):
    """By what a revision was agreed on."""

    DISCOVER = "server/discover"
    INITIALIZE = "initialize"
    PRIOR = "a prior server/discover"


@dataclass(frozen=True, slots=True)
class Ready:
    """Speak this revision. After `initialize`, `notifications/initialized` is still to be sent."""

    revision: Revision
    how: How

    @property
    def verdict(self) -> Era:
        """What to remember of this server, for as long as it is the same one (NEG-7)."""
        return self.revision.era


@dataclass(frozen=True, slots=True)
class Fail:
    """Give up. `last` is the outcome that led here, for the cause of the error."""

    error: NegotiationError
    last: Outcome


Ask: TypeAlias = Discover | Initialize
Step: TypeAlias = Discover | Initialize | Respawn | Ready | Fail


@dataclass(frozen=True, slots=True)
class Discovered:
    """`server/discover` was answered with these versions."""

    step: Ask
    supported: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Initialized:
    """`initialize` was answered with this version."""

    step: Ask
    version: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A step was answered with an error."""

    step: Ask
    error: RpcError


@dataclass(frozen=True, slots=True)
class Garbled:
    """A step was answered with something that is no result of its method."""

    step: Ask
    why: str


@dataclass(frozen=True, slots=True)
class TimedOut:
    """A step was not answered before its deadline."""

    step: Ask
    seconds: float


@dataclass(frozen=True, slots=True)
class Exited:
    """The process ended, or could not be started; `why` says how, with what it wrote to stderr."""

    why: str


@dataclass(frozen=True, slots=True)
class Spawned:
    """A new connection is open."""


@dataclass(frozen=True, slots=True)
class Contradicted:
    """The server turned out not to speak what had been agreed on (NEG-7)."""

    why: str


Outcome: TypeAlias = Discovered | Initialized | Refused | Garbled | TimedOut | Exited | Spawned | Contradicted


def discovered(step: Ask, result: Json) -> Discovered | Garbled:
    """Read the result of `server/discover`. Servers of the other era have answered it with anything (NEG-4)."""
    names = _strings(result, "supportedVersions")
    return Discovered(step, names) if names else Garbled(step, "a result that names no versions")


def initialized(step: Ask, result: Json) -> Initialized | Garbled:
    """Read the result of `initialize`."""
    version = cast("dict[str, object]", result).get("protocolVersion") if isinstance(result, dict) else None
    if isinstance(version, str):
        return Initialized(step, _short(version))
    return Garbled(step, "a result that names no version")


@dataclass(frozen=True, slots=True)
class Probe:
    """What a transport makes of the answers to a probe."""

    modern_errors: frozenset[int]
    """The codes that only a server of the stateless era answers with (NEG-3, NEG-6)."""


STDIO: Final = Probe(frozenset({UNSUPPORTED_PROTOCOL_VERSION}))
HTTP: Final = Probe(frozenset({UNSUPPORTED_PROTOCOL_VERSION, HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY}))


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a client's negotiation stands."""

    allowed: tuple[Revision, ...]
    """The revisions this side allows, oldest first."""
    step: Step
    """What to do now."""
    probe: Probe = STDIO
    theirs: tuple[str, ...] = ()
    """Every version the server has named."""
    evidence: tuple[str, ...] = ()
    """What happened so far, a line for each outcome."""
    asked: tuple[Ask, ...] = ()
    """The steps that were sent, none of them twice but for one more probe."""
    respawned: bool = False
    """Whether an exit has had its one respawn (NEG-4)."""
    probed_again: bool = False
    late_discovery: bool = False

    @property
    def legacy(self) -> tuple[Revision, ...]:
        """The allowed revisions of the handshake era."""
        return of_era(self.allowed, Era.HANDSHAKE)

    @property
    def modern(self) -> tuple[Revision, ...]:
        """The allowed revisions of the stateless era."""
        return of_era(self.allowed, Era.STATELESS)


def start(
    allowed: tuple[Revision, ...],
    probe: Probe = STDIO,
    *,
    verdict: Era | None = None,
    prior: Sequence[str] | None = None,
) -> Plan:
    """The plan for a server, with its first step.

    `verdict` is the era this server was found to be of, `prior` the versions of a DiscoverResult that is still good:
    with a mutual one nothing is asked at all (NEG-7, NEG-12). What does not fit `allowed` is disregarded.
    """
    if not allowed:
        raise ValueError("at least one revision has to be allowed")
    plan = Plan(allowed, _opener(allowed), probe)
    found = mutual(prior, allowed) if prior is not None else None
    if prior is not None and found is not None:
        plan = replace(plan, theirs=tuple(prior), evidence=(f"known from before: {_list(prior)}",))
        return (
            _ask(plan, Initialize(found)) if found.handshake else replace(plan, step=Ready(found, How.PRIOR))
        )
    if verdict is Era.HANDSHAKE and plan.legacy:
        plan = replace(plan, evidence=("known from before: a server of the handshake era",))
        return _ask(plan, Initialize(plan.legacy[-1]))
    return _ask(plan, _opener(allowed))


def _opener(allowed: tuple[Revision, ...]) -> Ask:
    """The first thing said to a server of which nothing is known (NEG-1, LIFE-2)."""
    modern = of_era(allowed, Era.STATELESS)
    newest = mutual(versions(modern), modern)
    return Initialize(allowed[-1]) if newest is None else Discover(newest)


def advance(plan: Plan, outcome: Outcome) -> Plan:
    """The plan after an outcome, with the next step in `step`. An outcome that comes too late changes no step."""
    rule = _RULES.get((type(plan.step), type(outcome)))
    said = _describe(outcome)
    if rule is None or (isinstance(outcome, _ANSWERS) and outcome.step != plan.step):
        late = isinstance(outcome, Discovered) and isinstance(plan.step, Initialize)
        evidence = (*plan.evidence, f"{said} (too late)")
        return replace(plan, evidence=evidence, late_discovery=plan.late_discovery or late)
    return rule(replace(plan, evidence=(*plan.evidence, said)), outcome)


_STUCK: Final = "the server could not be initialized"


# -- rules -------------------------------------------------------------------------------------------------


def _discovered(plan: Plan, outcome: Discovered) -> Plan:
    plan = _heard(plan, outcome.supported)
    found = mutual(outcome.supported, plan.allowed)
    if found is None:
        return _fail(plan, outcome, "no common revision")
    if found.handshake:
        return _ask_once(plan, outcome, Initialize(found))
    return replace(plan, step=Ready(found, How.DISCOVER))


def _probe_refused(plan: Plan, outcome: Refused) -> Plan:
    """NEG-3 and MOD-10 for what only a modern server says, NEG-4 for everything else."""
    supported = _strings(outcome.error.data, "supported")
    plan = _heard(plan, supported)
    if outcome.error.code not in plan.probe.modern_errors:
        return _fall_back(plan, outcome)
    found = mutual(supported, [row for row in plan.allowed if _step(row) not in plan.asked])
    return _fail(plan, outcome, "no common revision") if found is None else _ask(plan, _step(found))


def _fall_back(plan: Plan, outcome: Outcome) -> Plan:
    """Whatever a probe met that is no modern answer, the server may be of the handshake era (NEG-4)."""
    if not plan.legacy:
        return _fail(plan, outcome, "the server speaks none of the revisions allowed")
    return _ask_once(plan, outcome, Initialize(plan.legacy[-1]))


def _initialized(plan: Plan, outcome: Initialized) -> Plan:
    plan = _heard(plan, (outcome.version,))
    found = mutual((outcome.version,), plan.legacy)
    if found is not None:
        return replace(plan, step=Ready(found, How.INITIALIZE))
    answered = by_version(outcome.version, of_era(ALL, Era.HANDSHAKE))
    older = [
        row for row in plan.legacy
        if answered is not None and place(row) < place(answered) and Initialize(row) not in plan.asked
    ]  # fmt: skip
    if older and not plan.late_discovery:
        return replace(plan, step=Respawn(Initialize(older[-1])))
    return _initialize_unanswered(plan, outcome, "the server answered with a revision that is not allowed")


def _initialize_refused(plan: Plan, outcome: Refused) -> Plan:
    """AMB-2 for a server that names its versions, NEG-5 for a modern one that was slow to answer the probe."""
    supported = _strings(outcome.error.data, "supported")
    plan = _heard(plan, supported)
    found = mutual(supported, [row for row in plan.allowed if Initialize(row) not in plan.asked])
    if found is not None and found.handshake:
        return _ask(plan, Initialize(found))
    if found is not None or (not supported and outcome.error.code in plan.probe.modern_errors):
        return _probe_again(plan, outcome, found)
    return _initialize_unanswered(plan, outcome)


def _initialize_unanswered(plan: Plan, outcome: Outcome, otherwise: str = _STUCK) -> Plan:
    """A reason to probe (again) is a discovery that came too late, or that a verdict had kept it from happening."""
    if plan.late_discovery or not any(isinstance(step, Discover) for step in plan.asked):
        return _probe_again(plan, outcome, None, otherwise)
    return _fail(plan, outcome, otherwise)


def _probe_again(plan: Plan, outcome: Outcome, at: Revision | None, otherwise: str = _STUCK) -> Plan:
    first = _opener(plan.allowed)
    if plan.probed_again or not isinstance(first, Discover):
        return _fail(plan, outcome, otherwise)
    step = first if at is None else Discover(at)
    return _ask(replace(plan, probed_again=True, late_discovery=False), step)


def _exited(plan: Plan, outcome: Exited) -> Plan:
    """An unknown request before `initialize` has ended servers: one more process, which is not probed (NEG-4)."""
    probed = any(isinstance(step, Discover) for step in plan.asked)
    if plan.respawned or not probed or not plan.legacy:
        return _fail(plan, outcome, "the server process ended")
    then = plan.step if isinstance(plan.step, Initialize) else Initialize(plan.legacy[-1])
    return replace(plan, step=Respawn(then), respawned=True, late_discovery=False)


def _spawned(plan: Plan, outcome: Spawned) -> Plan:  # noqa: ARG001 - a rule
    assert isinstance(plan.step, Respawn)
    return _ask(plan, plan.step.then)


def _not_spawned(plan: Plan, outcome: Exited) -> Plan:
    return _fail(plan, outcome, "the server process could not be started again")


def _contradicted(plan: Plan, outcome: Contradicted) -> Plan:
    return _probe_again(
        replace(plan, asked=()), outcome, None, "the server no longer speaks what was agreed on"
    )


_RULES: Final[Mapping[tuple[type[Step], type[Outcome]], Callable[[Plan, Any], Plan]]] = {
    (Discover, Discovered): _discovered,
    (Discover, Refused): _probe_refused,
    (Discover, Garbled): _fall_back,
    (Discover, TimedOut): _fall_back,
    (Discover, Exited): _exited,
    (Initialize, Initialized): _initialized,
    (Initialize, Refused): _initialize_refused,
    (Initialize, Garbled): _initialize_unanswered,
    (Initialize, TimedOut): _initialize_unanswered,
    (Initialize, Exited): _exited,
    (Respawn, Spawned): _spawned,
    (Respawn, Exited): _not_spawned,
    (Ready, Contradicted): _contradicted,
}
_ANSWERS: Final = (Discovered, Initialized, Refused, Garbled, TimedOut)


def _step(row: Revision) -> Ask:
    return Initialize(row) if row.handshake else Discover(row)


def _ask(plan: Plan, step: Ask) -> Plan:
    return replace(plan, step=step, asked=(*plan.asked, step))


def _ask_once(plan: Plan, outcome: Outcome, step: Ask) -> Plan:
    if step in plan.asked:
        return _fail(plan, outcome, "nothing is left to ask the server")
    return _ask(plan, step)


def _heard(plan: Plan, names: Sequence[str]) -> Plan:
    return replace(plan, theirs=tuple(dict.fromkeys((*plan.theirs, *names))))


def _fail(plan: Plan, outcome: Outcome, message: str) -> Plan:
    ours = [row.name for row in reversed(plan.allowed)]
    error = NegotiationError(message, ours=ours, theirs=plan.theirs, evidence=plan.evidence)
    return replace(plan, step=Fail(error, outcome))


def _strings(value: Json, name: str) -> tuple[str, ...]:
    """A member that is to be a list of versions; whatever else is in it is none."""
    names = cast("dict[str, object]", value).get(name) if isinstance(value, dict) else None
    found = cast("list[object]", names)[:MAX_VERSIONS] if isinstance(names, list) else []
    return tuple(_short(item) for item in found if isinstance(item, str))


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "no versions"


def _short(text: str) -> str:
    """What a peer sent, fit to be shown: bounded, and without control characters."""
    return "".join(c if c.isprintable() else " " for c in text[:MAX_TEXT])


def _describe(outcome: Outcome) -> str:
    """A line of evidence."""
    match outcome:
        case Discovered(supported=names):
            what = f"speaks {_list(names)}"
        case Initialized(version=version):
            what = f"answered {version}"
        case Refused(error=error):
            what = f"error {error.code} ({_short(error.message)})"
        case Garbled(why=why):
            what = why
        case TimedOut(seconds=seconds):
            what = f"no answer in {seconds:g} s"
        case Exited(why=why) | Contradicted(why=why):
            return why
        case Spawned():
            return "connected again"
    method = How.DISCOVER if isinstance(outcome.step, Discover) else How.INITIALIZE
    return f"{method} at {outcome.step.revision.name}: {what}"
