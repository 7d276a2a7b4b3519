"""What a bridge says of a server that responds and refuses the bridge, because it lacks an authorization."""

from __future__ import annotations

from typing import Final

from mcprev.errors import AuthError, HttpStatusError, InsufficientScope, RpcError, one_line
from mcprev.wire.payloads import mask_text

_REFUSED: Final = frozenset({401, 403})
_LONGEST: Final = 300
"""The number of characters of what the server says; of an error that says what to do, twice as many."""
_ADVICE: Final = (
    "give the bridge a token with --header, or with `headers`, `auth` or `login` in the file of --config"
)


def refusal_of(error: BaseException) -> str | None:
    """Return how a server refused the bridge, and what the operator does, on one line and without secrets.

    None if the error is no refusal.
    """
    if isinstance(error, AuthError):
        cause = error.__cause__
        if isinstance(cause, RpcError) and not isinstance(error, InsufficientScope):
            return _text(f"HTTP {cause.http_status}: {cause}", advice=True)
        answered = isinstance(cause, HttpStatusError | RpcError)
        told = (
            cause
            if isinstance(cause, HttpStatusError) and not isinstance(error, InsufficientScope)
            else error
        )
        return _text(str(told), advice=answered)
    if isinstance(error, HttpStatusError) and error.status in _REFUSED:
        return _text(str(error), advice=True)
    return None


def _text(said: str, *, advice: bool) -> str:
    line = one_line(mask_text(said.partition("\n")[0]))
    return f"{line[:_LONGEST]}; {_ADVICE}" if advice else line[: 2 * _LONGEST]
