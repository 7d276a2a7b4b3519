"""What a server process wrote to stderr as the last before it ended, for the log and for a client that may read it (SEC-5)."""

from __future__ import annotations

from mcprev.error_text import last_line
from mcprev.errors import ProcessExited, one_line
from mcprev.wire.payloads import mask_text


def line_behind(error: BaseException | None) -> str:
    """Return the last line of the process whose end is an error, or is behind one; secrets are masked."""
    while error is not None and not isinstance(error, ProcessExited):
        error = error.__cause__ or error.__context__
    return "" if error is None else one_line(mask_text(last_line(error.stderr))[:300])


def with_last_line(reason: str, error: BaseException | None, *, reads_stderr: bool) -> str:
    """Return why a server failed with that line, or for a client that may not read it, with where to find it."""
    line = line_behind(error)
    if not line:
        return reason
    return (
        f"{reason}: {line}"
        if reads_stderr
        else f"{reason}; the log of the bridge has what it wrote to stderr"
    )
