"""Which names of calls get a label of their own in metrics: those of the server, not those that clients make up (SEC-6)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from mcprev.core.interfaces import client_of
from mcprev.core.shares import Shares, share_of
from mcprev.server.middleware import HandlerCall, HandlerResult
from mcprev.wire.json_values import is_json_mapping, json_list

LISTS: Final = {"tools/list": ("tools/call", "tools"), "prompts/list": ("prompts/get", "prompts")}
"""The method that gets what a list names, and the member of the list, by the method that lists."""
NAMED: Final = frozenset(method for method, _ in LISTS.values())
"""The methods whose names are told apart."""
MAX_LISTED: Final = 10_000
"""The maximum number of names of lists that are known; a server behind a bridge may list any number."""


class KnownNames:
    """The names of tools and prompts that are told apart.

    The first `most` names are that are called and that the server has: its handler says so, or a list has named them.
    A server may serve names that it does not list. Those are told apart if a call has returned a result that is no
    error, in a quarter of the room, of which each client has a share.
    """

    def __init__(self, most: int, written: Callable[[str], str]) -> None:
        """Set the number of names that are told apart. `written` returns a name as it is written into the metrics."""
        self._most, self._written = most, written
        self._names: set[tuple[str, str]] = set()
        """The names that are told apart, each with its method."""
        self._listed: set[tuple[str, str]] = set()
        """The names that the server has listed, each with the method of its calls."""
        self._unlisted = Shares(share_of(most))

    def learn(self, method: str, result: HandlerResult) -> None:
        """Take note of the names in a result, if it is that of a list."""
        if method in LISTS:
            of, member = LISTS[method]
            names = (_member(item, "name") for item in json_list(_member(result, member)))
            self._listed.update((of, self._written(name)) for name in names if isinstance(name, str))
            if len(self._listed) > MAX_LISTED:
                self._listed = set(islice(self._listed, MAX_LISTED))

    def tells_apart(self, call: HandlerCall, name: str, *, served: bool) -> bool:
        """Return whether the written name of a call has a label of its own; `served` says whether it had a result."""
        key = call.method, name
        if key in self._names:
            return True
        if len(self._names) >= self._most:
            return False
        if not (key in self._listed or _is_handlers(call)) and not (
            served and self._unlisted.take(client_of(call.ctx.request))
        ):
            return False
        self._names.add(key)
        return True


def _is_handlers(call: HandlerCall) -> bool:
    """Return whether the handler itself says that it has what a call names, as an app does."""
    local = getattr(call.ctx.request.engine, "local", None)
    has: Callable[[str, str], bool] | None = getattr(getattr(local, "handler", None), "has_entry", None)
    name: object = _member(call.params, "name")
    return has is not None and isinstance(name, str) and has(call.method, name)


def _member(value: object, name: str) -> object:
    return value.get(name) if is_json_mapping(value) else getattr(value, name, None)
