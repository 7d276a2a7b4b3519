"""Parts of the texts of errors, and the error responses to requests that fail for reasons of the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Final, TypeVar, cast

from mcprev.errors import INTERNAL_MESSAGE, WORKER_LOST, InternalError, StoreError, WorkerLost

STORE_UNAVAILABLE: Final = "store_unavailable"
"""The `reason` in the data of the error of a request that failed because of the server's store."""


F = TypeVar("F", bound=Callable[..., object])
HTTP_OPTIONS: Final[Mapping[str, str]] = {
    "Server": "http={{'{}': ...}}",
    "App": "http={{'{}': ...}}",
    "connect": "mcprev.http(url, {}=...)",
}
"""How the options of HTTP are passed, which are often taken for options of these."""


def no_such_option(of: str, name: str, known: Iterable[str]) -> TypeError:
    """Return the error for an option that does not exist: how one of HTTP is passed, and which one was meant."""
    known = tuple(known)
    hint = did_you_mean(name, known) or f"; the options are {', '.join(known)}"
    there = HTTP_OPTIONS[of].format(name)
    return TypeError(
        f"mcprev.{of} has no option '{name}' of its own: if it is one of HTTP, pass it as {there}{hint}"
    )


def names_options(of: str) -> Callable[[F], F]:
    """Decorate a function so that a call with an unknown option raises the error of `no_such_option`."""

    def decorate(function: F) -> F:
        code: Any = cast("Any", function).__code__
        known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

        @wraps(function)
        def checked(*given: Any, **options: Any) -> object:  # noqa: ANN401 - as of the function
            for name in options.keys() - frozenset(known):
                raise no_such_option(of, name, known[code.co_argcount :])
            return function(*given, **options)

        return cast("F", checked)

    return decorate


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


def worker_lost(message: str, *, may_have_run: bool) -> WorkerLost:
    """Return the error response to a request whose process ends before its response; it says whether to repeat."""
    return WorkerLost(message, data={"reason": WORKER_LOST, "mayHaveRun": may_have_run})


def shutting_down(*, may_have_run: bool) -> WorkerLost:
    """Return the error response to a request that the end of the server cuts short, or that begins after it."""
    return worker_lost("the server is shutting down", may_have_run=may_have_run)


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
