"""Which revision a bridge asks its server for first (NEG-4, NEG-5)."""

from __future__ import annotations

from mcprev.revisions import Revision


def preferred(client: Revision, allowed: tuple[Revision, ...]) -> Revision | None:
    """Return the revision to ask a server for first on behalf of a client; None to probe for the era first."""
    if not client.handshake or client in allowed:
        return client
    return next((revision for revision in reversed(allowed) if revision.handshake), None)
