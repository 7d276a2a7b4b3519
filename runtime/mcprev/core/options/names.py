"""Whether an option exists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Final, TypeVar, cast

from mcprev.error_text import did_you_mean

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
    """Decorate a function so that a call with an unknown option raises the error of `no_such_option`.

    `check` gets the others, and the arguments before them by their names.
    """

    def decorate(function: F) -> F:
        code: Any = cast("Any", function).__code__
        known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

        @wraps(function)
        def checked(*given: Any, **options: Any) -> object:  # noqa: ANN401 - as of the function
            for name in options.keys() - frozenset(known):
                raise no_such_option(of, name, known[code.co_argcount :])
            if check is not None:
                check({**dict(zip(known, given, strict=False)), **options})
            return function(*given, **options)

        return cast("F", checked)

    return decorate
