"""The steps of a client's negotiation, their outcomes and descriptions, and the cache of probe results (see `machine`).

A cache entry belongs to an endpoint, an origin with a path: one origin can host several servers (NEG-7). One of a process
belongs to a command line.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from mcprev.errors import (
    HEADER_MISMATCH,
    MISSING_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
    Json,
    NegotiationError,
    RpcError,
    one_line,
)
from mcprev.protocol.negotiation.versions import of_era
from mcprev.revisions import Era, HttpShape, Revision
from mcprev.wire.json_values import json_list, json_object

MAX_TEXT: Final = 200
"""The maximum length of a text from the peer, in characters."""
MAX_VERSIONS: Final = 50
"""The maximum number of versions read from a list of the peer."""
MAX_KNOWN: Final = 1000
"""The maximum number of cached endpoints; the oldest is evicted first."""


# -- steps, outcomes and what is remembered ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Discover:
    """Send `server/discover` at this revision."""

    revision: Revision


@dataclass(frozen=True, slots=True)
class Initialize:
    """Send `initialize` with this revision."""

    revision: Revision


@dataclass(frozen=True, slots=True)
class Both:
    """Send `initialize` behind a probe that has no response yet, and wait for the responses to both."""  # NEG-4, NEG-5

    probe: Discover
    session: Initialize


@dataclass(frozen=True, slots=True)
class Respawn:
    """Close the connection and its process, open another, then report `Spawned`."""

    then: Opening
    """The first step on the new connection."""
    shape: HttpShape | None = None
    """Over HTTP, the transport to open: HTTP+SSE with a GET, else None."""  # NEG-6


class Method(StrEnum):
    """How a revision was negotiated."""

    DISCOVER = "server/discover"
    INITIALIZE = "initialize"
    PRIOR = "a prior server/discover"


@dataclass(frozen=True, slots=True)
class Ready:
    """The revision is negotiated. After `initialize`, the driver still sends `notifications/initialized`."""

    revision: Revision
    method: Method


@dataclass(frozen=True, slots=True)
class Fail:
    """The negotiation failed. `last` is the last outcome, for the cause of the error."""

    error: NegotiationError
    last: Outcome


Opening: TypeAlias = Discover | Initialize
Step: TypeAlias = Discover | Initialize | Both | Respawn | Ready | Fail


@dataclass(frozen=True, slots=True)
class Discovered:
    """`server/discover` returned these versions."""

    supported: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Initialized:
    """`initialize` returned this version."""

    version: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A step got an error response."""

    error: RpcError
    status: int | None = None
    """The HTTP status of the response."""


@dataclass(frozen=True, slots=True)
class HttpRefused:
    """An HTTP server returned an error status without a JSON-RPC error in the body."""  # NEG-6

    status: int
    why: str = ""
    """The beginning of the body."""


@dataclass(frozen=True, slots=True)
class InvalidReply:
    """A step got no response before its deadline, or one that is not a result of its method."""

    why: str


@dataclass(frozen=True, slots=True)
class Silent:
    """A probe has no response yet, and the connection is open: the server starts, or ignores what it does not know."""

    seconds: float


@dataclass(frozen=True, slots=True)
class BothAnswers:
    """What came of `Both`: of the probe, None if it still has no response, and of `initialize`."""

    probe: Outcome | None
    session: Outcome


@dataclass(frozen=True, slots=True)
class Exited:
    """The process exited or could not be started; `why` gives the reason and its stderr."""

    why: str


@dataclass(frozen=True, slots=True)
class Spawned:
    """A new connection is open."""


Outcome: TypeAlias = (
    Discovered | Initialized | Refused | HttpRefused | InvalidReply | Silent | BothAnswers | Exited | Spawned
)


def discovered(result: Json) -> Discovered | InvalidReply:
    """Read the result of `server/discover`; servers of the handshake era may return anything."""  # NEG-4
    names = strings(result, "supportedVersions")
    return Discovered(names) if names else InvalidReply("a result that names no versions")


def initialized(result: Json) -> Initialized | InvalidReply:
    """Read the result of `initialize`."""
    version = json_object(result).get("protocolVersion")
    if isinstance(version, str):
        return Initialized(short(version))
    return InvalidReply("a result that names no version")


@dataclass(frozen=True, slots=True)
class Probe:
    """How a transport interprets the responses to a probe."""

    modern_errors: frozenset[int]
    """The error codes that only a server of the stateless era sends."""  # NEG-3, NEG-6
    process: bool = True
    """Whether the server is a child process, which a probe may have ended."""  # NEG-4


STDIO: Final = Probe(frozenset({UNSUPPORTED_PROTOCOL_VERSION}))
HTTP: Final = Probe(
    frozenset({UNSUPPORTED_PROTOCOL_VERSION, HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY}), process=False
)


@dataclass(frozen=True, slots=True)
class Plan:
    """The state of a client's negotiation."""

    allowed: tuple[Revision, ...]
    """The allowed revisions, oldest first."""
    step: Step
    """The step to execute now."""
    probe: Probe = STDIO
    theirs: tuple[str, ...] = ()
    """All versions that the server has named."""
    evidence: tuple[str, ...] = ()
    """The history, one line for each outcome."""
    asked: tuple[Opening, ...] = ()
    """The steps that were sent; each once, except for one more probe."""
    may_be_old: bool = True
    """Whether the server may have sessions: it is asked by `initialize` if a probe only breaks the connection."""
    respawned: bool = False
    """Whether the one restart after an exit is used up."""  # NEG-4
    probed_again: bool = False
    shape: HttpShape | None = None
    """The HTTP transport of the connection; None for the default one and for a pipe."""
    tried_old: bool = False
    """Whether the HTTP+SSE transport was tried."""  # NEG-6
    unanswered: bool = False
    """Whether the server did not respond to the probe in time, which cost time or a process: worth to be remembered."""
    may_pass: bool = False
    """Whether a gateway refused the probe, which it may not do the next time: nothing to be remembered."""
    silent: bool = False
    """Whether `initialize` was sent because the probe had no response, and had the first response."""
    both_taken: bool = False
    """Whether the server has taken a late probe and an `initialize` behind it, so that it is asked which era it serves."""

    @property
    def legacy(self) -> tuple[Revision, ...]:
        """The allowed revisions of the handshake era."""
        return of_era(self.allowed, Era.HANDSHAKE)


def strings(value: Json, name: str) -> tuple[str, ...]:
    """Return the strings in a list member of a value, cut to the limits; other items are ignored."""
    found = json_list(json_object(value).get(name))[:MAX_VERSIONS]
    return tuple(short(item) for item in found if isinstance(item, str))


def listed(names: Sequence[str]) -> str:
    """Format versions for the history."""
    return ", ".join(names) or "no versions"


def short(text: str) -> str:
    """Cut a text of the peer to the limit and replace control characters."""
    return one_line(text[:MAX_TEXT])


def describe_outcome(step: Step, outcome: Outcome) -> tuple[str, ...]:
    """Describe the outcome of a step: in one line, or in one for each response."""
    if isinstance(outcome, BothAnswers):
        assert isinstance(step, Both)
        probe = () if outcome.probe is None else (describe_step(step.probe, outcome.probe),)
        return *probe, describe_step(step.session, outcome.session)
    return (describe_step(step, outcome),)


def describe_step(step: Step, outcome: Outcome) -> str:
    """Describe the outcome of a step in one line."""
    match outcome:
        case HttpRefused(status=status, why=why):
            what = f"HTTP {status}" + (f" ({short(why)})" if why else "")
        case Discovered(supported=names):
            what = f"speaks {listed(names)}"
        case Initialized(version=version):
            what = f"responded with {version}"
        case Refused(error=error):
            what = f"error {error.code} ({short(error.message)})"
            if outcome.status is not None:
                what += f", HTTP {outcome.status}"
        case InvalidReply(why=why):
            what = why
        case Silent(seconds=seconds):
            what = f"no response within {seconds:g} s, so asked by `initialize` too"
        case Exited(why=why):
            return why
        case Spawned() | BothAnswers():
            return "connected again"
    if isinstance(step, Respawn):
        return f"opening a new connection: {what}" if step.shape is None else f"GET for {step.shape}: {what}"
    assert isinstance(step, Opening)
    method = Method.DISCOVER if isinstance(step, Discover) else Method.INITIALIZE
    return f"{method} at {step.revision.name}: {what}"


# -- what is remembered of endpoints ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The era and transport of an endpoint: the `era` and `shape` arguments of `machine.start`."""

    era: Era
    shape: HttpShape | None
    """The HTTP transport, if it is not the default one."""


class ProbeCache:
    """Caches the probe results of servers, for a process or for its owner.

    A server is the URL of an endpoint, or what identifies a command line.
    """  # NEG-7

    def __init__(self, limit: int = MAX_KNOWN) -> None:
        self._known: dict[tuple[Hashable, ...], ProbeResult] = {}
        self._limit = limit

    def get(self, server: str | tuple[Hashable, ...]) -> ProbeResult | None:
        """Return the cached result of a server, or None."""
        return self._known.get(_endpoint(server) if isinstance(server, str) else server)

    def keep(self, server: str | tuple[Hashable, ...], plan: Plan) -> None:
        """Cache the outcome of a negotiation; a failed one removes the entry."""
        key = _endpoint(server) if isinstance(server, str) else server
        self._known.pop(key, None)
        if isinstance(plan.step, Ready):
            self._known[key] = ProbeResult(plan.step.revision.era, plan.shape)
            if len(self._known) > self._limit:
                del self._known[next(iter(self._known))]


_PORTS: Final = {"http": 80, "https": 443}


def _endpoint(url: str) -> tuple[str, str, int | None, str]:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme), parts.path or "/"
