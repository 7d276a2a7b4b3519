"""Parts of the texts of errors, and the error responses to requests that fail for reasons of the server."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from mcprev.errors import INTERNAL_MESSAGE, WORKER_LOST, InternalError, StoreError, WorkerLost, one_line

STORE_UNAVAILABLE: Final = "store_unavailable"
"""The `reason` in the data of the error of a request that failed because of the server's store."""

MAX_MISSPELT: Final = 200
"""The maximum number of characters of a wrong name that is compared with the known ones."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error about a wrong name that resembles a known one; an empty text for any other name."""
    from difflib import get_close_matches  # imported late: only mistakes need it

    if len(name) > MAX_MISSPELT:
        return ""
    meant = get_close_matches(name, known, 1)
    return f"; did you mean '{meant[0]}'?" if meant else ""


def last_line(text: str) -> str:
    """Return the last line with a word, without the frame that tracebacks of several exceptions have; empty if there is none."""
    lines = [line for line in text.split("\n") if any(map(str.isalnum, line))]
    return lines[-1].lstrip(" |+-").rstrip() if lines else ""


def raised_at(error: BaseException) -> str:
    """Return the type of an exception and the line that raised it, for errors that must not show its text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name = type(error).__name__
    if trace is None:
        return name
    return f"{name} in {trace.tb_frame.f_code.co_filename.replace(chr(92), '/').rpartition('/')[2]}:{trace.tb_lineno}"


_BROKEN: Final[Mapping[str, str]] = {
    "TimeoutError": "it took too long",
    "SSLCertVerificationError": "its certificate is not accepted: {0.verify_message}",
    "SSLError": "no TLS connection: {0.reason}",
    "gaierror": "its host is unknown: {0.strerror}",
    "ServerDisconnectedError": "the server closed it",
    "ClientPayloadError": "the response ended early, or its encoding is wrong",
    "ClientResponseError": "the response is not valid HTTP",
    "InvalidURL": "the URL is not valid",
}
"""What the classes of exceptions of connections mean, those of aiohttp among them, by their names."""


def connection_reason(error: BaseException) -> str:
    """Return why a connection failed, in words that do not depend on the library, and without control characters."""
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    for kind in type(cause).__mro__:
        if (words := _BROKEN.get(kind.__name__)) is not None:
            with suppress(AttributeError):  # some are raised with a text alone
                return one_line(words.format(cause))
    number = getattr(cause, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number)
    if (
        isinstance(cause, OSError) and cause.strerror and number is None
    ):  # aiohttp's own words for a request that was cut
        return one_line(f"the request was cut short: {cause.strerror}")
    return one_line(str(cause)) or type(cause).__name__


def worker_lost(message: str, *, may_have_run: bool) -> WorkerLost:
    """Return the error response to a request whose process ends before its response; it says whether to repeat."""
    return WorkerLost(message, data={"reason": WORKER_LOST, "mayHaveRun": may_have_run})


def shutting_down(*, may_have_run: bool) -> WorkerLost:
    """Return the error response to a request that the end of the server cuts short, or that begins after it."""
    return worker_lost("the server is shutting down", may_have_run=may_have_run)


MALFORMED: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What reading JSON of a store raises that is of another form: nested without end, of other types, an infinite number."""


def invalid_value(what: str) -> StoreError:
    """Return the error for a record of a store that holds something else than what it should."""
    return StoreError(
        f"the store has an invalid value for {what}; is its prefix or file used by another program?"
    )


def internal_error(error: BaseException, *, may_have_run: bool) -> InternalError:
    """Return the error response for an exception that the peer did not cause; that of a store says whether to repeat."""
    if not isinstance(error, StoreError):
        return InternalError(INTERNAL_MESSAGE)
    then = "the request may have run in part" if may_have_run else "try again"
    data = {"reason": STORE_UNAVAILABLE, "mayHaveRun": may_have_run}
    return InternalError(f"the server cannot reach its store; {then}", data=data)
