"""Selection of revisions: the allowed ones, the mutual ones, and a server's reply to a requested version.

NEG-8, 9, 12, 13; LIFE-3; MOD-4, 15. Pure functions over revisions, always given oldest first; `machine` is the
client's side. Revisions are compared by their place in the table and never by name: an unknown version has no place.
"""

from __future__ import annotations

from collections.abc import Sequence

from mcprev.errors import UnsupportedProtocolVersion
from mcprev.revisions import Era, Revision, by_version, revision_named, select


def versions(revisions: Sequence[Revision]) -> tuple[str, ...]:
    """Return the version strings of revisions, newest first, each once."""
    return tuple(dict.fromkeys(revision.version for revision in reversed(revisions)))


def mutual(offered: Sequence[str], revisions: Sequence[Revision]) -> Revision | None:
    """Return the newest revision whose version is offered; a dated one takes precedence over a draft of the same
    version.
    """
    common = tuple(revision for revision in revisions if revision.version in offered)
    return by_version(common[-1].version, common) if common else None


def of_era(revisions: Sequence[Revision], era: Era) -> tuple[Revision, ...]:
    """Return the revisions of one era, in the given order."""
    return tuple(revision for revision in revisions if revision.era is era)


def allow(names: Sequence[str] | None, mode: str = "auto") -> tuple[Revision, ...]:
    """Return the revisions that a client's configuration allows: a list of names, narrowed by a mode.

    The mode is `auto`, `legacy` (no probe, handshakes only) or the name of one revision. Raises `ValueError` for an
    unknown name, or if no revision is left.
    """  # NEG-12, NEG-13
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
            f"mode '{mode}' excludes all of the revisions {', '.join(revision.name for revision in revisions)}"
        )
    return kept


# -- the server ------------------------------------------------------------------------------------------


def _unsupported(requested: str, allowed: Sequence[Revision]) -> UnsupportedProtocolVersion:
    """Return the error for a version that a server does not support; it names all versions that it does.

    One with a handshake that is requested without is not among them: a client would request it again.
    """  # MOD-4, MOD-15
    spoken = versions(allowed)
    why = f": {requested} begins with initialize" if requested in spoken else ""
    data = {"supported": [name for name in spoken if name != requested], "requested": requested}
    return UnsupportedProtocolVersion(f"Unsupported protocol version{why}", data=data)


def answer_initialize(requested: str, allowed: Sequence[Revision]) -> Revision | UnsupportedProtocolVersion:
    """Return the revision that answers `initialize`: the requested one, else the latest of the handshake era.

    An unsupported version is not an error, unless no revision of the era is allowed.
    """  # LIFE-3, AMB-2, MOD-15
    revisions = of_era(allowed, Era.HANDSHAKE)
    if not revisions:
        return _unsupported(requested, allowed)
    return mutual((requested,), revisions) or revisions[-1]


def check_version(requested: str, allowed: Sequence[Revision]) -> Revision | UnsupportedProtocolVersion:
    """Return the revision of a stateless request, by the version in its `_meta`."""  # MOD-4
    for revision in allowed:  # runs for every request; a dated revision precedes its draft
        if revision.version == requested and revision.era is Era.STATELESS:
            return revision
    return _unsupported(requested, allowed)
