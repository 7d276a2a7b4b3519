"""The kinds of values that the options of `Server` take, which are those of `App` too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, cast


def _has(*members: str) -> Callable[[object], bool]:
    return lambda given: not isinstance(given, type) and all(hasattr(given, member) for member in members)


def _is(*types: type) -> Callable[[object], bool]:
    return lambda given: isinstance(given, types) and (bool in types or not isinstance(given, bool))


_ICON: Final = "mcprev_types.latest.Icon(src='https://...')"
_SERVER_KINDS: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "name": (_is(str), "a text"),
    "version": (_is(str), "a text, such as '1.0'"),
    "visible": (callable, "a function of the context and the tags"),
    "executor": (_has("submit"), "an executor, such as concurrent.futures.ThreadPoolExecutor(64)"),
    "strict_arguments": (_is(bool), "True or False"),
    "list_ttl_ms": (_is(int), "a number of milliseconds"),
    "instructions": (_is(str), "a text"),
    "title": (_is(str), "a text"),
    "description": (_is(str), "a text"),
    "website_url": (_is(str), "a URL as a text"),
    "capabilities": (_has("to_wire"), "mcprev_types.latest.ServerCapabilities(...)"),
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
        "client capabilities by method, such as {'tools/call': mcprev_types.latest.ClientCapabilities(...)}",
    ),
    "lifespan": (Iterable, callable, "an async generator function that yields once, or several in a list"),
    "middleware": (
        Iterable,
        lambda given: callable(given) or _has("connected")(given),
        "middleware in a list: functions `async def f(call, call_next)`",
    ),
}
"""The same for options that hold several values, with the kind of what holds them."""


_FILLED: Final = frozenset({"name", "version", "icons", "extensions", "middleware", "lifespan"})
"""Options without None: nothing is an empty list."""
_ABOVE_ZERO: Final = frozenset({"max_line", "max_handlers"})
"""Limits with which a server could serve nobody if they were 0."""


def check_server_kinds(options: Mapping[str, object]) -> None:
    """Raise `TypeError` for an option of a server whose value is of another kind: what it takes and what to pass.

    No value is shown: it may be a secret. Raises `ValueError` for a limit that is not above 0.
    """
    for name, given in options.items():
        if (given is None and name not in _FILLED) or (name == "lifespan" and callable(given)):
            continue
        if name in _SERVER_KINDS:
            fits, instead = _SERVER_KINDS[name]
            if not fits(given):
                raise TypeError(f"`{name}` must not be {_kind(given)}; pass {instead}")
            if name in _ABOVE_ZERO and cast("int", given) <= 0:
                raise ValueError(f"`{name}` is {given}; use a number above 0")
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
