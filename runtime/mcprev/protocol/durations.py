"""The times that a peer gives: each is a number of any size, or something else (TIME-1, TASK-8, CACHE-2)."""

from __future__ import annotations

from mcprev.errors import Json


def seconds_of(milliseconds: Json, *, least: float = 0.0, most: float) -> float | None:
    """Return a number of milliseconds in seconds, within limits; None for what is no number of milliseconds."""
    number: object = milliseconds
    if isinstance(number, bool) or not isinstance(number, int | float) or not number >= 0:
        return None
    # Compared as it is: an integer may be too large for a float.
    return float(min(max(number, 1000 * least), 1000 * most)) / 1000
