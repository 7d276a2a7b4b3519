"""The options of what users construct, such as `Server`: which there are, what each takes, and the errors for others.

A `TypedDict` has the options of a function. Each stands in it once, with its type, its check, its default and its text:

    class ServerOptions(TypedDict, total=False):
        max_line: Annotated[int, Takes(is_a(int), "a number of bytes", MAX_LINE, above_zero=True)]
        \"\"\"The maximum size of a message in bytes.\"\"\"

The module of such a class evaluates its annotations (it has no `from __future__ import annotations`), so types that only type
checkers import are quoted.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, ForwardRef, TypeAlias, TypeVar, cast, get_args

from mcprev.error_text import did_you_mean

F = TypeVar("F", bound=Callable[..., object])
KindCheck: TypeAlias = Callable[[object], str]
"""Returns what a value must not do, such as "be a str"; empty if it fits."""
_HTTP_OPTIONS: Final[Mapping[str, str]] = {
    "Server": "http={{'{}': ...}}",
    "App": "http={{'{}': ...}}",
    "connect": "mcprev.http(url, {}=...)",
    "connect_all": "mcprev.http(url, {}=...) for a server of a mapping",
}
"""How the options of HTTP are passed, which are often taken for options of these."""


def has(*members: str) -> KindCheck:
    """Return a check for objects, not classes, with these members."""
    return fits(lambda given: not isinstance(given, type) and all(hasattr(given, each) for each in members))


def is_a(*types: type) -> KindCheck:
    """Return a check for values of these types; True and False are no numbers."""
    return fits(lambda given: isinstance(given, types) and (bool in types or not isinstance(given, bool)))


def fits(test: Callable[[object], bool]) -> KindCheck:
    """Return a check for values of which a function returns True."""
    return lambda given: "" if test(given) else f"be {_kind(given)}"


def either(*checks: KindCheck) -> KindCheck:
    """Return a check for values that one of some checks accepts."""
    return fits(lambda given: not all(check(given) for check in checks))


def several(check: KindCheck, within: type = Iterable, *, or_one: bool = False) -> KindCheck:
    """Return a check for several values, each of which fits, in an iterable other than a text, or as values of a mapping.

    With `or_one`, a single value fits too.
    """

    def wrong(given: object) -> str:
        if or_one and not check(given):
            return ""
        if not isinstance(given, within) or isinstance(given, str | bytes):
            return f"be {_kind(given)}"
        if not isinstance(given, Collection):
            return ""  # it may be readable only once
        mapping = isinstance(given, Mapping)
        held = (
            cast("Mapping[object, object]", given).values() if mapping else cast("Collection[object]", given)
        )
        return next((f"hold {_kind(each)}" for each in held if check(each)), "")

    return wrong


class Takes:
    """What an option takes: which values fit, what to pass instead of others, and the default.

    None fits where the type of the option has it.
    """

    def __init__(
        self, check: KindCheck, instead: str, default: object = None, *, above_zero: bool = False
    ) -> None:
        """With `above_zero`, a number that is not is refused: nobody could be served with it."""
        self._check = check
        self._instead = instead
        self.default = default
        self._above_zero = above_zero

    def check(self, name: str, given: object) -> None:
        """Raise `TypeError` for a value of another kind, `ValueError` for a number that is too small.

        The value is not shown: it may be a secret.
        """
        wrong = self._check(given)
        if wrong:
            raise TypeError(f"`{name}` must not {wrong}; pass {self._instead}")
        if self._above_zero and isinstance(given, int | float) and given <= 0:
            raise ValueError(f"`{name}` is {given}; use a number above 0")


_NAME: Final = {"name": Takes(is_a(str), "a text"), "version": Takes(is_a(str), "a text, such as '1.0'")}


def check_named(name: object, version: object) -> None:
    """Raise `TypeError` for a name or version that is no text."""
    _NAME["name"].check("name", name)
    _NAME["version"].check("version", version)


def check_options(of: str, kind: type, options: Mapping[str, object]) -> None:
    """Raise `TypeError` for an option that a `TypedDict` of options does not have, and for one of another kind.

    Raises `ValueError` for a limit that is not above 0.
    """
    known = kind.__annotations__
    for name in options.keys() - known.keys():
        raise _no_such_option(of, name, kind)
    for name, given in options.items():
        if given is None and _takes_none(known[name]):
            continue
        for takes in known[name].__metadata__:
            takes.check(name, given)


def shows_options(kind: type) -> Callable[[F], F]:
    """Decorate a function with `**options` so that `help` and `inspect.signature` show the options of a `TypedDict`."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        vars(function)["__signature__"] = signature.replace(parameters=[*own, *_parameters(kind)])
        return function

    return decorate


def _parameters(kind: type) -> Iterator[inspect.Parameter]:
    for name, annotation in kind.__annotations__.items():
        (takes,) = annotation.__metadata__
        shown = annotation.__origin__
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=takes.default,
            annotation=shown.__forward_arg__ if isinstance(shown, ForwardRef) else shown,
        )


def _takes_none(annotation: Any) -> bool:  # noqa: ANN401 - the form of `Annotated`
    kind: object = annotation.__origin__
    if isinstance(kind, ForwardRef):
        return kind.__forward_arg__.endswith("| None")
    return type(None) in get_args(kind)


def _no_such_option(of: str, name: str, kind: type) -> TypeError:
    """Return the error for an option that does not exist: how one of HTTP is passed, and which one was meant."""
    known = tuple(kind.__annotations__)
    hint = did_you_mean(name, known) or f"; the options are {', '.join(known)}"
    there = _HTTP_OPTIONS[of].format(name)
    return TypeError(
        f"mcprev.{of} has no option '{name}' of its own: if it is one of HTTP, pass it as {there}{hint}"
    )


def check_option(name: str, given: object, method: str, instead: str) -> None:
    """Raise `TypeError`, which advises to pass `instead`, for a value other than None without a method of its type.

    The value is not shown: it may be a secret.
    """
    if isinstance(given, type):
        raise TypeError(f"`{name}` is the class {given.__name__}, not an object; pass {instead}")
    if given is not None and not hasattr(given, method):
        raise TypeError(f"`{name}` must not be a {type(given).__name__}; pass {instead}")


def check_store(store: object) -> None:
    """Raise `TypeError` for a value that is neither None nor `Records`."""
    check_option("store", store, "read", "a store, such as mcprev.open_store('sqlite:///app.db')")


def _kind(given: object) -> str:
    """Return the kind of a value for an error, such as "a bool", or "the class Bearer"."""
    if given is None or isinstance(given, type):
        return "None" if given is None else f"the class {given.__name__}"
    name = type(given).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
