"""Hooks per method: a base class of middleware with `on_call_tool`, `on_read_resource` and all other methods.

The names come from the method table of the latest revision. What a class overrides decides for which methods it stands
around the handler; for all others a call does not pass it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from mcprev.callbacks import finished
from mcprev.server.middleware import CallNext, HandlerCall, HandlerResult, Middleware
from mcprev_types.latest import dispatch

if TYPE_CHECKING:
    from mcprev_types.latest import models

_ON: Final = "on_"
REQUEST: Final = "on_request"
NOTIFICATION: Final = "on_notification"
_NOT_HANDLED: Final = frozenset({"server/discover", "subscriptions/listen"})
"""Methods that the runtime serves itself, so that no middleware sees them."""


@cache
def hook_names() -> Mapping[str, str]:
    """Return the hook of each method that a handler can serve, by method."""
    table = dispatch.SERVER_BINDINGS.items()
    return {method: f"{_ON}{binding.stub}" for method, binding in table if method not in _NOT_HANDLED}


class Hooks:
    """A base class of middleware with a hook for each method: override those that you need.

    `on_call_tool(self, call, call_next)` and the others are async. They get the call, whose `params` have the type of
    the method, and return a result: that of `await call_next(call)`, a changed one or their own. `on_request` and
    `on_notification` stand around every method of a kind, outside of the method's own hook.

    A class with a method `on_...` that is not a hook raises `TypeError`.
    """

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        known = {*hook_names().values(), REQUEST, NOTIFICATION}
        for name in vars(cls):
            if name.startswith(_ON) and name not in known:
                near = get_close_matches(name, sorted(known), 1)
                advice = f"did you mean '{near[0]}'?" if near else f"hooks are {', '.join(sorted(known))}"
                raise TypeError(f"{cls.__name__}.{name} is not a hook; {advice}")

    def for_method(self, method: str) -> Middleware | None:
        """Return the middleware around the calls of one method; None if there is no hook for it."""
        kind = NOTIFICATION if method.startswith("notifications/") else REQUEST
        inner, outer = self._hook(hook_names().get(method, "")), self._hook(kind)
        if inner is None or outer is None:
            return outer or inner

        async def both(call: HandlerCall, call_next: CallNext) -> HandlerResult:
            return await finished(outer(call, lambda changed: finished(inner(changed, call_next))))

        return both

    def _hook(self, name: str) -> Callable[[HandlerCall, CallNext], Awaitable[HandlerResult]] | None:
        return cast("Any", getattr(self, name, None)) if name else None

    async def __call__(self, call: HandlerCall, call_next: CallNext) -> HandlerResult:
        """Pass a call through the hooks of its method."""
        found = self.for_method(call.method)
        return await (call_next(call) if found is None else found(call, call_next))

    if TYPE_CHECKING:  # for editors and type checkers; a test compares these lines with the method table

        async def on_request(self, call: HandlerCall, call_next: CallNext) -> HandlerResult: ...
        async def on_notification(self, call: HandlerCall, call_next: CallNext) -> HandlerResult: ...
        async def on_cancelled(
            self, call: HandlerCall[models.CancelledNotificationParams], call_next: CallNext
        ) -> HandlerResult: ...
        async def on_list_resources(
            self, call: HandlerCall[models.PaginatedRequestParams], call_next: CallNext
        ) -> HandlerResult: ...
        async def on_list_resource_templates(
            self, call: HandlerCall[models.PaginatedRequestParams], call_next: CallNext
        ) -> HandlerResult: ...
        async def on_read_resource(
            self, call: HandlerCall[models.ReadResourceRequestParams], call_next: CallNext
        ) -> HandlerResult: ...
        async def on_list_prompts(
            self, call: HandlerCall[models.PaginatedRequestParams], call_next: CallNext
        ) -> HandlerResult: ...
        async def on_get_prompt(
            self, call: HandlerCall[models.GetPromptRequestParams], call_next: CallNext
        ) -> HandlerResult: ...
        async def on_list_tools(
            self, call: HandlerCall[models.PaginatedRequestParams], call_next: CallNext
        ) -> HandlerResult: ...
        async def on_call_tool(
            self, call: HandlerCall[models.CallToolRequestParams], call_next: CallNext
        ) -> HandlerResult: ...
        async def on_complete(
            self, call: HandlerCall[models.CompleteRequestParams], call_next: CallNext
        ) -> HandlerResult: ...


EntriesOf: TypeAlias = "Callable[[str, object], list[Any]]"
"""Returns the registered functions of an app that serve a call with this method and these params."""
