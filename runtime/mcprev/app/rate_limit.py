"""A middleware that limits how often clients may call; the library `limits` counts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from typing import Final

from mcprev.errors import InvalidRequest, MissingExtra, ToolError
from mcprev.server.context import Context
from mcprev.server.middleware import CallNext, HandlerCall, HandlerResult

TOOLS: Final = ("tools/call",)


def principal(ctx: Context) -> str:
    """Return the key of a caller: its principal, or one key for all clients that are not authenticated."""
    return ctx.principal or ""


class RateLimit:
    """Middleware that refuses calls beyond a rate: `App(..., middleware=[RateLimit("100/minute")])`."""

    def __init__(
        self,
        rate: str,
        *,
        methods: Collection[str] = TOOLS,
        key: Callable[[Context], str] = principal,
        storage: str = "async+memory://",
    ) -> None:
        """Set the rate, such as `10/second` or `100 per 5 minutes`: the most calls in any time window of that length.

        - `methods` are the methods to limit; they are counted together. Default: `tools/call` alone. At stateless
          revisions, a call that asks for user input counts again when the client repeats it with the answer.
        - `key(context)` returns a string; calls with the same key are counted together. Default: the principal, or one
          key for all clients that are not authenticated.
        - `storage` is a URI of the library `limits`, such as `async+redis://host:6379` to count over several processes.
          Default: the memory of this process.

        A tool call beyond the rate returns a result with `is_error`; any other call fails with the error
        `InvalidRequest`. Raises `ValueError` for an invalid rate or a storage that blocks, and
        `mcprev.errors.MissingExtra` if `limits` is not installed.
        """
        try:
            from limits import parse
            from limits.aio.storage import Storage
            from limits.aio.strategies import MovingWindowRateLimiter
            from limits.storage import storage_from_string
        except ImportError as error:
            raise MissingExtra("limiting rates", "limits", "limits") from error
        self._rate, self._methods, self._key = parse(rate), frozenset(methods), key
        found = storage_from_string(storage)
        if not isinstance(found, Storage):
            raise ValueError(  # noqa: TRY004 - of the URI
                f"the storage '{storage}' blocks; use its async form, such as 'async+{storage}'"
            )
        self._limiter = MovingWindowRateLimiter(found)

    async def __call__(self, call: HandlerCall, call_next: CallNext) -> HandlerResult:
        """Pass a call on. Raises `ToolError` for a tool beyond the rate, and `InvalidRequest` for any other method."""
        if call.method in self._methods:
            key = self._key(call.ctx)
            if not await self._limiter.hit(self._rate, key):
                stats = await self._limiter.get_window_stats(self._rate, key)
                wait = max(1, math.ceil(stats.reset_time - time.time()))
                text = f"too many calls, at most {self._rate} are allowed; try again in {wait} s"
                raise (ToolError if call.method in TOOLS else InvalidRequest)(text)
        return await call_next(call)
