"""Values that go with the context of a request, each under a typed key of who keeps it: `SHOWN[ctx]`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar, cast

if TYPE_CHECKING:
    from mcprev.server.context import Context

T = TypeVar("T")


class Kept(Generic[T]):
    """A key of `Context.kept`. Each of several contexts of one request has a value of its own."""

    def __init__(self, first: Callable[[], T]) -> None:
        """`first` makes the value that a context has until another one is set."""
        self._first = first

    def __getitem__(self, ctx: Context) -> T:
        """Return the value of a context, made if there is none."""
        if ctx.kept is None or self not in ctx.kept:
            self[ctx] = self._first()
        return cast("T", (ctx.kept or {})[self])

    def __setitem__(self, ctx: Context, value: T) -> None:
        """Set the value of a context."""
        if ctx.kept is None:
            ctx.kept = {}
        ctx.kept[self] = value
