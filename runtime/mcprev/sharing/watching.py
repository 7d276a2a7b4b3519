"""How a process learns that a record was changed by another: it looks again, after pauses that grow up to a bound."""

from __future__ import annotations

from typing import Final

FIRST_PAUSE: Final = 0.02
"""Seconds before the second look at a record; each further pause is twice as long."""
LONGEST_PAUSE: Final = 0.8
"""The longest pause between two looks, in seconds: news of another process is at most this old, plus one look."""
TRIES: Final = 100
"""How often a change is tried that other processes overtake, before it fails."""
