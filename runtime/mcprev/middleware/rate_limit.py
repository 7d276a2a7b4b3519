"""A middleware that limits how often clients may call; the library `limits` counts where several processes do.

Within a process the count is ours: that of the library waits for a free thread, which blocked functions may all hold,
and looks at each key for each call.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from typing import Final, cast

from mcprev.callbacks import finished
from mcprev.core.interfaces import client_of
from mcprev.core.store import Records, stored_for_client
from mcprev.errors import InvalidRequest, MissingExtra, ToolError
from mcprev.server.context import Context
from mcprev.server.middleware import CallNext, HandlerCall, HandlerResult
from mcprev.sharing.counting import count_call
from mcprev.transports.http.urls import mask_url

TOOLS: Final = ("tools/call",)


def caller(ctx: Context) -> str:
    """Return the key of a caller: its principal, else its network address; one key for all if neither is known."""
    return client_of(ctx.request) or ""


class _Memory:
    """The times of the calls that count, by key; the key whose last call is the oldest comes first."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._times: dict[str, deque[float]] = {}

    def wait(self, key: str) -> float:
        """Count a call and return 0; or return the seconds until one is allowed again."""
        now = time.monotonic()
        while self._times and now - next(iter(self._times.values()))[-1] >= self._seconds:
            del self._times[next(iter(self._times))]
        times = self._times.get(key) or deque[float](maxlen=self._most)
        if len(times) == self._most and now - times[0] < self._seconds:
            return times[0] + self._seconds - now
        times.append(now)
        self._times.pop(key, None)
        self._times[key] = times
        return 0


class RateLimit:
    """Middleware that refuses calls beyond a rate: `App(..., middleware=[RateLimit("100/minute")])`."""

    def __init__(
        self,
        rate: str,
        *,
        methods: Collection[str] = TOOLS,
        key: Callable[[Context], str | Awaitable[str]] = caller,
        storage: str | None = None,
        name: str | None = None,
    ) -> None:
        """Set the rate, such as `10/second` or `100 per 5 minutes`: the most calls in any time window of that length.

        - `methods` are the methods to limit; they are counted together. Default: `tools/call` alone. At stateless
          revisions, a call that asks for user input counts again when the client repeats it with the answer.
        - `key(context)`, async or not, returns a string; calls with the same key are counted together, and fail if it
          returns anything else. Default: the principal, or the network address of a client that is not
          authenticated.
        - `storage` is a URI of the library `limits`, such as `async+redis://host:6379` to count over several processes.
          Default: the `store` of the server, where its processes are counted together, or the memory of this process.

        - `name` is that of the counts in a store or storage: those of one name are one, in a storage also of several servers.
          Default: each RateLimit counts for itself, by the name of its server and its place among the middleware there.

        A tool call beyond the rate returns a result with `is_error`; any other call fails with the error
        `InvalidRequest`. Raises `ValueError` for an invalid rate, for several rates, and for a storage that blocks, and
        `mcprev.errors.MissingExtra` if `limits` is not installed.
        """
        try:
            from limits import parse_many
            from limits.aio.storage import Storage
            from limits.aio.strategies import MovingWindowRateLimiter
            from limits.storage import storage_from_string
        except ImportError as error:
            raise MissingExtra("limiting rates", "limits", "limits") from error
        try:
            self._rate, *others = parse_many(rate)
        except ValueError:
            raise ValueError(
                f"{rate!r:.100} is not a rate; write one such as '100/minute' or '5 per second'"
            ) from None
        self._methods, self._key = frozenset(methods), key
        if others or self._rate.amount < 1:
            raise ValueError(f"'{rate}' is not one rate of at least one call; use a RateLimit for each rate")
        self._name = name
        self._memory = _Memory(self._rate.amount, self._rate.get_expiry())
        self._limiter: MovingWindowRateLimiter | None = None
        if storage is not None:
            found = storage_from_string(storage)
            if not isinstance(found, Storage):
                raise ValueError(
                    f"the storage '{mask_url(storage)}' blocks; use its async form, such as 'async+{mask_url(storage)}'"
                )
            self._limiter = MovingWindowRateLimiter(found)

    def placed(self, place: str) -> None:
        """Count apart from the RateLimits at other places; the server calls this. The first place counts, in every process the same."""
        if self._name is None:
            self._name = place

    async def __call__(self, call: HandlerCall, call_next: CallNext) -> HandlerResult:
        """Pass a call on to the handler. Raises `ToolError` for a tool beyond the rate, and `InvalidRequest` for any other method."""
        if call.method in self._methods:
            key = cast("object", await finished(self._key(call.ctx)))
            if not isinstance(key, str):
                raise TypeError(f"`key` of a RateLimit returned {type(key).__qualname__}; return a str")
            with stored_for_client(client_of(call.ctx.request)):
                wait = await self._wait(key, call.ctx.store)
            if wait > 0:
                text = f"too many calls, at most {self._rate} are allowed; try again in {math.ceil(wait)} s"
                raise (ToolError if call.method in TOOLS else InvalidRequest)(text)
        return await call_next(call)

    async def _wait(self, key: str, store: Records | None) -> float:
        if self._limiter is None and store is not None:
            counted = f"{self._rate} of {sorted(self._methods)}"
            return await count_call(
                store, (self._name or "", counted, key), self._rate.amount, self._rate.get_expiry()
            )
        if self._limiter is None:
            return self._memory.wait(key)
        of = (self._name, key) if self._name else (key,)
        if await self._limiter.hit(self._rate, *of):
            return 0
        return max(1, (await self._limiter.get_window_stats(self._rate, *of)).reset_time - time.time())
