"""Says what a conversion changed: which members a revision lacks, got or has in another form (CONV-*)."""

from __future__ import annotations

from typing import Final

from mcprev.analysis.differences import differences, is_envelope
from mcprev.bridge.pair import ConversionReport
from mcprev.conversion.ladder import json_path

MOST: Final = 50
"""The differences of one conversion that are listed."""


def explained(change: ConversionReport) -> list[str]:
    """Return a line for each difference that a conversion made, without any value: only paths are named.

    Those of the envelope, which each revision has in its own form, are no data and are not told.
    """
    head = f"{change.source} -> {change.target} {change.method} {change.kind}:"
    rules = f" ({', '.join(dict.fromkeys(change.reasons))})" if change.reasons else ""
    found: list[str] = []
    for difference in differences(change.before, change.after):
        verb, path, _, _ = difference
        if is_envelope(difference):
            continue
        if len(found) == MOST:
            found.append(f"{head} and more")
            break
        found.append(f"{head} {verb} {json_path(path)}{rules}")
    return found
