"""Which revisions may be spoken, and what a server makes of the one it is asked for (NEG-8, 9, 12, 13; LIFE-3; MOD-4, 15).

Pure functions over rows of the revision table, which are always given oldest first. What a client does is in
`plan`. Revisions are compared by their place in the table and never by name: an unknown version is only unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mcprev.errors import Json, NegotiationError, UnsupportedProtocolVersion
from mcprev.revisions import Era, Revision, by_version, revision_named, select

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
"""The member of `_meta` that makes a request one of the stateless era (NEG-8)."""


def versions(revisions: Sequence[Revision]) -> tuple[str, ...]:
    """The version strings of some revisions, newest first, each once."""
    return tuple(dict.fromkeys(revision.version for revision in reversed(revisions)))


def mutual(offered: Sequence[str], revisions: Sequence[Revision]) -> Revision | None:
    """The newest of some revisions whose version is offered; a dated one before a draft of the same version."""
    common = tuple(revision for revision in revisions if revision.version in offered)
    return by_version(common[-1].version, common) if common else None


def of_era(revisions: Sequence[Revision], era: Era) -> tuple[Revision, ...]:
    """The revisions of one era, in the order they came in."""
    return tuple(revision for revision in revisions if revision.era is era)


def allow(names: Sequence[str] | None, mode: str = "auto") -> tuple[Revision, ...]:
    """The revisions that a client's configuration allows: a list of names, narrowed by a mode (NEG-12, NEG-13).

    Modes are `auto`, `legacy` (no probe, only handshakes) or the name of one revision to pin. Raises `ValueError`
    for an unknown name and when nothing is left.
    """
    revisions = select(None if names is None else tuple(names))
    if mode == "auto":
        return revisions
    if mode == "legacy":
        kept = of_era(revisions, Era.HANDSHAKE)
    else:
        pinned = revision_named(mode)
        kept = (pinned,) if names is None or pinned in revisions else ()
    if not kept:
        raise ValueError(
            f"mode '{mode}' leaves none of the revisions {', '.join(revision.name for revision in revisions)}"
        )
    return kept


# -- the server ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RevisionRefused:
    """A version that a server does not serve, and those it does, legacy ones included."""

    requested: str
    supported: tuple[str, ...]

    @property
    def error(self) -> UnsupportedProtocolVersion:
        """What the client is answered (MOD-4, MOD-15)."""
        data = {"supported": list(self.supported), "requested": self.requested}
        return UnsupportedProtocolVersion("Unsupported protocol version", data=data)

    @property
    def failure(self) -> NegotiationError:
        """The same for whoever runs the server."""
        said = f"the client asked for {self.requested}"
        return NegotiationError(
            "the client asked for a revision that is not served",
            ours=self.supported, theirs=(self.requested,), evidence=(said,),
        )  # fmt: skip


def engine_for(params: Mapping[str, Json] | None, allowed: Sequence[Revision]) -> Era:
    """The engine that a request belongs to, whatever was said before on the connection (NEG-8, NEG-9).

    A request that states its version is modern, even `initialize` (MOD-14). Any other is of the handshake era,
    whose engine wants `initialize` first; a server without that era leaves it to the stateless engine, which
    misses the version (MOD-3) and refuses `initialize` with what it serves (MOD-15).
    """
    meta = params.get("_meta") if params is not None else None
    if isinstance(meta, dict) and VERSION_KEY in meta:
        return Era.STATELESS
    return allowed[0].era  # the oldest: of the handshake era if any is


def answer_initialize(requested: str, allowed: Sequence[Revision]) -> Revision | RevisionRefused:
    """The revision that an `initialize` is answered with: the one asked for, else the latest of its era (LIFE-3).

    An unsupported version is never an error (AMB-2), unless no revision of the era is allowed at all (MOD-15).
    """
    revisions = of_era(allowed, Era.HANDSHAKE)
    if not revisions:
        return RevisionRefused(requested, versions(allowed))
    return mutual((requested,), revisions) or revisions[-1]


def check_version(requested: str, allowed: Sequence[Revision]) -> Revision | RevisionRefused:
    """The revision of a stateless request, by the version in its `_meta` (MOD-4)."""
    for revision in allowed:  # every request comes through here; a dated revision stands before its draft
        if revision.version == requested and revision.era is Era.STATELESS:
            return revision
    return RevisionRefused(requested, versions(allowed))
