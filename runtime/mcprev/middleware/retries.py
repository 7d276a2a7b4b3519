"""Middleware that runs a handler again after a failure that may pass."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Collection
from typing import Any, Final

from mcprev.errors import RpcError, ToolError
from mcprev.middleware.hooks import EntriesOf
from mcprev.middleware.records import entry_key
from mcprev.protocol.mrtr import input_requests_of
from mcprev.server.kept import Kept
from mcprev.server.middleware import CallNext, HandlerCall, HandlerResult

READS: Final = frozenset({"resources/read", "prompts/get", "completion/complete", "tools/list", "prompts/list", "resources/list", "resources/templates/list"})  # fmt: skip
"""The methods that only read, so that a handler may run twice."""
_ANSWERS: Final = (RpcError, ToolError)
"""The errors with which a handler answers a call."""
_REPEATED: Final = Kept(bool)
"""The contexts of calls that are tried again themselves, so that calls within them are not."""
_logger: Final = logging.getLogger("mcprev.server")


class Retries:
    """Runs a handler again after a transient error: `App(..., middleware=[Retries(3)])`.

    A handler runs again only if that is safe: if its method only reads, if the tool is annotated `read_only_hint` or
    `idempotent_hint`, or if `tools` names it. It does not run again after `ToolError` and the errors of the protocol,
    nor after it has asked the client something. Of nested calls, such as that of a tool which reads a resource for
    its client, the outermost one that may run again does.
    """

    def __init__(
        self,
        tries: int = 3,
        *,
        on: tuple[type[Exception], ...] = (ConnectionError, TimeoutError),
        tools: Collection[str] = (),
        backoff: float = 0.1,
        max_backoff: float = 5.0,
    ) -> None:
        """Set how often a handler runs at most, and after which errors it runs again.

        - `on` are the types of the errors; their subclasses count too.
        - `tools` are the names of tools that may run twice, beside those whose annotations say so.
        - `backoff` is the longest pause before the second run, in seconds; it doubles with each run, up to
          `max_backoff`. Each pause is a random part of it.

        Raises `ValueError` for fewer than one try, for a negative pause, and for errors that say how a call ended.
        """
        if tries < 1 or backoff < 0 or max_backoff < 0:
            raise ValueError("Retries requires at least one try, and pauses that are not negative")
        if any(issubclass(each, _ANSWERS) for each in on):
            raise ValueError(
                "`on` contains an error that ends a call, such as ToolError; such a call is not retried"
            )
        self._tries, self._on, self._tools = tries, on, frozenset(tools)
        self._backoff, self._max_backoff = backoff, max_backoff
        self.entries: EntriesOf | None = None
        """Finds the functions of the app; set by the app."""

    def for_method(self, method: str) -> Retries | None:
        """Return this middleware for a method whose handlers may run again."""
        return self if method in READS or method == "tools/call" else None

    async def __call__(self, call: HandlerCall, call_next: CallNext) -> HandlerResult:
        """Pass a call on, again if it fails and that is safe."""
        if self._tries == 1 or _REPEATED[call.ctx] or not self._is_safe(call):
            return await call_next(call)
        _REPEATED[call.ctx] = True
        try:
            return await self._repeated(call, call_next)
        finally:
            _REPEATED[call.ctx] = False

    async def _repeated(self, call: HandlerCall, call_next: CallNext) -> HandlerResult:
        tries = self._tries
        for number in range(1, tries):
            try:
                return await call_next(call)
            except self._on as error:
                asked = call.ctx.asked or call.ctx.answers.given
                if isinstance(error, _ANSWERS) or asked or input_requests_of(error) is not None:
                    raise
                longest = min(self._backoff * 2 ** (number - 1), self._max_backoff)
                pause = random.uniform(0, longest)  # noqa: S311 - no secret
                _logger.info(
                    "'%s' failed with %s; try %d of %d", call.method, type(error).__name__, number + 1, tries
                )
                await asyncio.sleep(pause)
        return await call_next(call)

    def _is_safe(self, call: HandlerCall) -> bool:
        if call.method in READS or entry_key(call) in self._tools:
            return True
        found = [] if self.entries is None else self.entries(call.method, call.params)
        hints: list[Any] = [entry.listed.annotations for entry in found]
        return bool(hints) and all(
            hint is not None and (hint.read_only_hint or hint.idempotent_hint) for hint in hints
        )
