"""The steps of a client's negotiation, what can come of them, and how both are told (see `plan`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias, cast

from mcprev.errors import (
    HEADER_MISMATCH,
    MISSING_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
    Json,
    NegotiationError,
    RpcError,
)
from mcprev.protocol.negotiation.versions import of_era
from mcprev.revisions import Era, HttpShape, Revision

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

    then: Opening
    """The step that is the first on the new connection."""
    shape: HttpShape | None = None
    """Over HTTP, how to open it: with a GET for the old transport, else with nothing (NEG-6)."""


class Method(StrEnum):
    """By what a revision was agreed on."""

    DISCOVER = "server/discover"
    INITIALIZE = "initialize"
    PRIOR = "a prior server/discover"


@dataclass(frozen=True, slots=True)
class Ready:
    """Speak this revision. After `initialize`, `notifications/initialized` is still to be sent."""

    revision: Revision
    method: Method

    @property
    def verdict(self) -> Era:
        """What to remember of this server, for as long as it is the same one (NEG-7)."""
        return self.revision.era


@dataclass(frozen=True, slots=True)
class Fail:
    """Give up. `last` is the outcome that led here, for the cause of the error."""

    error: NegotiationError
    last: Outcome


Opening: TypeAlias = Discover | Initialize
Step: TypeAlias = Discover | Initialize | Respawn | Ready | Fail


@dataclass(frozen=True, slots=True)
class Discovered:
    """`server/discover` was answered with these versions."""

    step: Opening
    supported: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Initialized:
    """`initialize` was answered with this version."""

    step: Opening
    version: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A step was answered with an error."""

    step: Opening
    error: RpcError
    status: int | None = None
    """The HTTP status that it came with."""


@dataclass(frozen=True, slots=True)
class HttpRefused:
    """An HTTP server answered with an error status, and no JSON-RPC error in the body (NEG-6)."""

    step: Opening | Respawn
    status: int
    why: str = ""
    """The beginning of what it said."""


@dataclass(frozen=True, slots=True)
class InvalidReply:
    """A step was answered with something that is no result of its method."""

    step: Opening
    why: str


@dataclass(frozen=True, slots=True)
class TimedOut:
    """A step was not answered before its deadline."""

    step: Opening
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


Outcome: TypeAlias = (
    Discovered
    | Initialized
    | Refused
    | HttpRefused
    | InvalidReply
    | TimedOut
    | Exited
    | Spawned
    | Contradicted
)


def discovered(step: Opening, result: Json) -> Discovered | InvalidReply:
    """Read the result of `server/discover`. Servers of the other era have answered it with anything (NEG-4)."""
    names = strings(result, "supportedVersions")
    return Discovered(step, names) if names else InvalidReply(step, "a result that names no versions")


def initialized(step: Opening, result: Json) -> Initialized | InvalidReply:
    """Read the result of `initialize`."""
    version = cast("dict[str, object]", result).get("protocolVersion") if isinstance(result, dict) else None
    if isinstance(version, str):
        return Initialized(step, short(version))
    return InvalidReply(step, "a result that names no version")


@dataclass(frozen=True, slots=True)
class Probe:
    """What a transport makes of the answers to a probe."""

    modern_errors: frozenset[int]
    """The codes that only a server of the stateless era answers with (NEG-3, NEG-6)."""
    process: bool = True
    """Whether the server is a process of this side's, which a probe may have ended (NEG-4)."""


STDIO: Final = Probe(frozenset({UNSUPPORTED_PROTOCOL_VERSION}))
HTTP: Final = Probe(
    frozenset({UNSUPPORTED_PROTOCOL_VERSION, HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY}), process=False
)


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
    asked: tuple[Opening, ...] = ()
    """The steps that were sent, none of them twice but for one more probe."""
    respawned: bool = False
    """Whether an exit has had its one respawn (NEG-4)."""
    probed_again: bool = False
    late_discovery: bool = False
    shape: HttpShape | None = None
    """The shape of HTTP that the connection is of; None for that of the newer ones, and for a pipe."""
    tried_old: bool = False
    """Whether the old HTTP transport has had its one try (NEG-6)."""

    @property
    def legacy(self) -> tuple[Revision, ...]:
        """The allowed revisions of the handshake era."""
        return of_era(self.allowed, Era.HANDSHAKE)

    @property
    def modern(self) -> tuple[Revision, ...]:
        """The allowed revisions of the stateless era."""
        return of_era(self.allowed, Era.STATELESS)


def strings(value: Json, name: str) -> tuple[str, ...]:
    """A member that is to be a list of versions; whatever else is in it is none."""
    names = cast("dict[str, object]", value).get(name) if isinstance(value, dict) else None
    found = cast("list[object]", names)[:MAX_VERSIONS] if isinstance(names, list) else []
    return tuple(short(item) for item in found if isinstance(item, str))


def listed(names: Sequence[str]) -> str:
    """Versions as evidence says them."""
    return ", ".join(names) or "no versions"


def short(text: str) -> str:
    """What a peer sent, fit to be shown: bounded, and without control characters."""
    return "".join(c if c.isprintable() else " " for c in text[:MAX_TEXT])


def describe_step(outcome: Outcome) -> str:
    """A line of evidence."""
    match outcome:
        case HttpRefused(status=status, why=why):
            what = f"HTTP {status}" + (f" ({short(why)})" if why else "")
        case Discovered(supported=names):
            what = f"speaks {listed(names)}"
        case Initialized(version=version):
            what = f"answered {version}"
        case Refused(error=error):
            what = f"error {error.code} ({short(error.message)})"
            if outcome.status is not None:
                what += f", HTTP {outcome.status}"
        case InvalidReply(why=why):
            what = why
        case TimedOut(seconds=seconds):
            what = f"no answer in {seconds:g} s"
        case Exited(why=why) | Contradicted(why=why):
            return why
        case Spawned():
            return "connected again"
    step = outcome.step
    if isinstance(step, Respawn):
        return (
            f"opening the connection anew: {what}" if step.shape is None else f"GET for {step.shape}: {what}"
        )
    method = Method.DISCOVER if isinstance(step, Discover) else Method.INITIALIZE
    return f"{method} at {step.revision.name}: {what}"
