"""Middleware: functions around every call of a handler's methods."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeAlias

from typing_extensions import TypeVar

from mcprev.callbacks import finished
from mcprev.core.method_binding import Stub
from mcprev.errors import Json
from mcprev.server.context import Context
from mcprev_types import Model

_INNER: Final[ContextVar[object | None]] = ContextVar("mcprev_inner_request", default=None)
"""Identifies the innermost request that a tool makes at present for its client; None outside of one."""
P_co = TypeVar("P_co", bound=Model | None, default=Model | None, covariant=True)


@dataclass(frozen=True, slots=True)
class HandlerCall(Generic[P_co]):
    """One call of a handler's method, as middleware receives it.

    It is immutable: `dataclasses.replace(call, params=...)` returns a changed copy to pass to `call_next`.
    """

    ctx: Context
    """The context of the request; its `request_id` is None for a notification."""
    method: str
    """The MCP method, such as `tools/call`."""
    params: P_co
    """The params as a model of the latest revision, or of the client's revision for a handler in `exact` and on a bridge."""


HandlerResult: TypeAlias = Model | Mapping[str, Json] | None
"""The result of a handler's method: a model or JSON members; None for a notification."""
CallNext: TypeAlias = Callable[[HandlerCall], Awaitable[HandlerResult]]
"""Calls the next middleware, or the handler after the last one; returns its result and raises its errors."""
Middleware: TypeAlias = Callable[[HandlerCall, CallNext], Awaitable[HandlerResult]]
"""An async function `f(call, call_next)` that returns the result of a call: its own, or that of `await call_next(call)`."""


def _for_method(middleware: Middleware, method: str) -> Middleware | None:
    """Return what stands around calls of a method: the middleware itself, or what its own `for_method` returns, if any."""
    chooses: Callable[[str], Middleware | None] | None = getattr(middleware, "for_method", None)
    return middleware if chooses is None else chooses(method)


def wrap(middleware: Sequence[Middleware], method: str, stub: Stub) -> Stub:
    """Return a handler's method with the middleware around it, the first one outermost."""
    chosen = [found for each in middleware if (found := _for_method(each, method)) is not None]
    if not chosen:
        return stub

    async def handler(call: HandlerCall) -> HandlerResult:
        found: HandlerResult = await stub(call.ctx, call.params)
        return found

    first: CallNext = handler
    for each in reversed(chosen):
        first = partial(_link, each, first)

    async def served(ctx: Context, params: Model | None) -> HandlerResult:
        return await first(HandlerCall(ctx, method, params))

    return served


async def _link(middleware: Middleware, call_next: CallNext, call: HandlerCall) -> HandlerResult:
    return await finished(middleware(call, call_next))


def place_middleware(middleware: Sequence[object], where: str) -> None:
    """Tell middleware that keeps something in a store where it stands, by which its records are its own."""
    for number, each in enumerate(middleware):
        placed: Callable[[str], object] | None = getattr(each, "placed", None)
        if placed is not None:
            placed(f"{where}/{number}")


@contextmanager
def inner_request() -> Iterator[None]:
    """Let what runs inside be seen by middleware as a request of its own, which a tool makes for its client."""
    token = _INNER.set(object())
    try:
        yield
    finally:
        _INNER.reset(token)


def current_inner_request() -> object | None:
    """Return what identifies the request that a tool makes at present for its client; None outside of one."""
    return _INNER.get()


def is_own(call: HandlerCall) -> bool:
    """Return whether the server itself makes a call, as when it lists its tools to check the headers of another."""
    return call.ctx.request.method != call.method and _INNER.get() is None
