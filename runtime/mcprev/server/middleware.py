"""Middleware: functions around every call of a handler's methods."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from mcprev.core.method_binding import Stub
from mcprev.errors import Json
from mcprev.server.context import Context
from mcprev_types import Model


@dataclass(frozen=True, slots=True)
class HandlerCall:
    """One call of a handler's method, on its way through the middleware; `dataclasses.replace` changes a copy."""

    ctx: Context
    """The context; its `request_id` is None for a notification."""
    method: str
    """The method, such as `tools/call`."""
    params: Model | None
    """The params of the method: a model of the latest revision, or of its own for a handler in `exact`."""


HandlerResult: TypeAlias = Model | Mapping[str, Json] | None
"""What a method of a handler returns; None for a notification."""
CallNext: TypeAlias = Callable[[HandlerCall], Awaitable[HandlerResult]]
"""Calls the next middleware, and at last the handler. Returns its result and raises what it raises."""
Middleware: TypeAlias = Callable[[HandlerCall, CallNext], Awaitable[HandlerResult]]
"""Returns the result of a call, by its own means or by `await call_next(call)`."""


def wrap(middleware: Sequence[Middleware], method: str, stub: Stub) -> Stub:
    """Return a handler's method with the middleware around it, the first one outermost."""

    async def handler(call: HandlerCall) -> HandlerResult:
        found: HandlerResult = await stub(call.ctx, call.params)
        return found

    first: CallNext = handler
    for each in reversed(middleware):
        first = partial(_link, each, first)

    async def served(ctx: Context, params: Model | None) -> HandlerResult:
        return await first(HandlerCall(ctx, method, params))

    return served


async def _link(middleware: Middleware, call_next: CallNext, call: HandlerCall) -> HandlerResult:
    return await middleware(call, call_next)
