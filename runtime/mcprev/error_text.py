"""Parts of the texts of errors."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error about a wrong name that resembles a known one; an empty text for any other name."""
    from difflib import get_close_matches  # imported late: only mistakes need it

    meant = get_close_matches(name, known, 1)
    return f"; did you mean '{meant[0]}'?" if meant else ""


def raised_at(error: BaseException) -> str:
    """Return the type of an exception and the line that raised it, for errors that must not show its text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name = type(error).__name__
    if trace is None:
        return name
    return f"{name} in {trace.tb_frame.f_code.co_filename.replace(chr(92), '/').rpartition('/')[2]}:{trace.tb_lineno}"
