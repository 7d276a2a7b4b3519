"""Parts of the texts of errors, and the error responses to requests that fail for reasons of the server."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from typing import Any, Final, TypeVar, cast

from mcprev.errors import INTERNAL_MESSAGE, WORKER_LOST, InternalError, StoreError, WorkerLost, one_line

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


def names_options(of: str, check: Callable[[Mapping[str, object]], None] | None = None) -> Callable[[F], F]:
    """Decorate a function so that a call with an unknown option raises the error of `no_such_option`; `check` gets the others."""

    def decorate(function: F) -> F:
        code: Any = cast("Any", function).__code__
        known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

        @wraps(function)
        def checked(*given: Any, **options: Any) -> object:  # noqa: ANN401 - as of the function
            for name in options.keys() - frozenset(known):
                raise no_such_option(of, name, known[code.co_argcount :])
            if check is not None:
                check(options)
            return function(*given, **options)

        return cast("F", checked)

    return decorate


def _has(*members: str) -> Callable[[object], bool]:
    return lambda given: not isinstance(given, type) and all(hasattr(given, member) for member in members)


def _is(*types: type) -> Callable[[object], bool]:
    return lambda given: isinstance(given, types) and (bool in types or not isinstance(given, bool))


_ICON: Final = "mcprev.models.Icon(src='https://...')"
_SERVER_KINDS: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "visible": (callable, "a function of the context and the tags"),
    "executor": (_has("submit"), "an executor, such as concurrent.futures.ThreadPoolExecutor(64)"),
    "lenient_arguments": (_is(bool), "True or False"),
    "list_ttl_ms": (_is(int), "a number of milliseconds"),
    "instructions": (_is(str), "a text"),
    "title": (_is(str), "a text"),
    "description": (_is(str), "a text"),
    "website_url": (_is(str), "a URL as a text"),
    "capabilities": (_has("to_wire"), "mcprev.models.ServerCapabilities(...)"),
    "states": (_has("seal", "open"), "mcprev.RequestStateSealer(...)"),
    "state": (_has("max_keys", "max_bytes"), "mcprev.StateLimits(...)"),
    "tasks": (
        _has("tools", "support"),
        "mcprev.Tasks({'build': 'optional'}) with the names of tools; of an App, task='optional' on the tool is enough",
    ),
    "http": (_is(Mapping), "the options of HTTP in a dict, such as {'drain': 10}"),
    "on_downgrade": (callable, "a function of a value, the reason and the revision"),
    "show_errors": (_is(bool), "True or False"),
    "ping_interval": (_is(int, float), "a number of seconds"),
    "max_line": (_is(int), "a number of bytes"),
    "max_handlers": (_is(int), "a number of requests"),
}
"""For an option of a server: whether a value fits, and what to pass instead of one that does not."""
_SERVER_LISTS: Final[Mapping[str, tuple[type, Callable[[object], bool], str]]] = {
    "revisions": (Iterable, _is(str), "the names of revisions in a list"),
    "icons": (Iterable, _has("to_wire"), f"icons in a list, such as [{_ICON}]"),
    "exact": (Mapping, lambda _: True, "handlers by revision in a dict"),
    "extensions": (
        Iterable,
        lambda given: isinstance(given, str) or _has("methods")(given),
        "extensions in a list, such as [mcprev.Extension('com.example/name')]",
    ),
    "requires": (
        Mapping,
        _has("to_wire"),
        "client capabilities by method, such as {'tools/call': mcprev.models.ClientCapabilities(...)}",
    ),
    "lifespan": (Iterable, callable, "an async generator function that yields once, or several in a list"),
    "middleware": (
        Iterable,
        lambda given: callable(given) or _has("connected")(given),
        "middleware in a list: functions `async def f(call, call_next)`",
    ),
}
"""The same for options that hold several values, with the kind of what holds them."""


_FILLED: Final = frozenset({"icons", "extensions", "middleware", "lifespan"})
"""Options without None: nothing is an empty list."""


def check_server_kinds(options: Mapping[str, object]) -> None:
    """Raise `TypeError` for an option of a server whose value is of another kind: what it takes and what to pass.

    No value is shown: it may be a secret.
    """
    for name, given in options.items():
        if (given is None and name not in _FILLED) or (name == "lifespan" and callable(given)):
            continue
        if name in _SERVER_KINDS:
            fits, instead = _SERVER_KINDS[name]
            if not fits(given):
                raise TypeError(f"`{name}` must not be {_kind(given)}; pass {instead}")
        elif name in _SERVER_LISTS:
            holder, fits, instead = _SERVER_LISTS[name]
            if not isinstance(given, holder) or isinstance(given, str | bytes):
                raise TypeError(f"`{name}` must not be {_kind(given)}; pass {instead}")
            many = cast("Iterable[object]", given)
            held = cast("Mapping[str, object]", given).values() if isinstance(given, Mapping) else many
            for each in cast("Collection[object]", held if isinstance(held, Collection) else ()):
                if not fits(each):
                    raise TypeError(f"`{name}` must not hold {_kind(each)}; pass {instead}")


def _kind(given: object) -> str:
    """Return the kind of a value for an error, such as "a bool", or "the class Bearer"."""
    if given is None or isinstance(given, type):
        return "None" if given is None else f"the class {given.__name__}"
    name = type(given).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error about a wrong name that resembles a known one; an empty text for any other name."""
    from difflib import get_close_matches  # imported late: only mistakes need it

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
            return one_line(words.format(cause))
    number = getattr(cause, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number)
    return one_line(str(cause)) or type(cause).__name__


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
