"""The lifespan of a server: values that its author opens before the first request and closes after the last one.

A task of its own enters and leaves the context managers, so that task groups and cancel scopes inside them work. The
lifespan runs as long as at least one holder needs it: a run on stdio or HTTP, a mounted app, a client in this process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from inspect import isasyncgen, iscoroutine, iscoroutinefunction, isgeneratorfunction
from typing import Any, Final, TypeAlias, TypeVar, cast, get_origin

from mcprev.errors import LocalProtocolError

T = TypeVar("T")
Enter: TypeAlias = Callable[[], AbstractAsyncContextManager[object] | AsyncIterator[object]]
"""A function that returns an async context manager, or an async generator function that yields once."""
_WRONG: Final = "a lifespan is an `async def` function that yields once; yield what it opens"
LEAVING: Final = 10.0
"""Seconds after which a lifespan is cancelled again that was cancelled and is still being left."""
_logger: Final = logging.getLogger("mcprev.server")


def _manager(found: object) -> AbstractAsyncContextManager[object]:
    """Return what a lifespan returned as a context manager. Raises `TypeError` if it is none."""
    if isasyncgen(found):
        return asynccontextmanager(lambda: found)()
    if not isinstance(found, AbstractAsyncContextManager):
        if iscoroutine(found):
            found.close()
        raise TypeError(f"{_WRONG} (it returned {type(found).__name__})")
    return cast("AbstractAsyncContextManager[object]", found)


class _Run:
    """One run of the lifespan, from entering to leaving."""

    def __init__(self, lifespans: Sequence[Enter], before_end: Callable[[], Awaitable[None]]) -> None:
        self._before_end = before_end
        self.loop = asyncio.get_running_loop()
        self.holders: set[object] = set()
        self.values: list[object] = []
        self.started: asyncio.Future[None] = self.loop.create_future()
        self.stopping = asyncio.Event()
        self.task = self.loop.create_task(self._main(lifespans))

    async def _main(self, lifespans: Sequence[Enter]) -> None:
        ended: asyncio.CancelledError | None = None
        try:
            async with AsyncExitStack() as stack:
                for enter in lifespans:
                    self.values.append(await stack.enter_async_context(_manager(enter())))
                self.started.set_result(None)
                ended = await self._wait()
        except Exception as error:
            if not self.started.done():
                error.add_note("The lifespan of the server failed at its start, so nothing is served.")
                raise
            when = "at its end" if self.stopping.is_set() else "while requests are served"
            _logger.exception("the lifespan of the server failed %s", when)
        if ended is not None:
            raise ended

    async def _wait(self) -> asyncio.CancelledError | None:
        """Wait for the stop; return the cancellation that ended the wait, as that of all tasks at the end of an event loop.

        A mounted app learns of its end by nothing else. The context managers are left as at a stop, so that what follows
        a `yield` runs; for `LEAVING` seconds at most, since the loop waits for it.
        """
        try:
            await self.stopping.wait()
        except asyncio.CancelledError as error:
            self.stopping.set()
            self.loop.call_later(LEAVING, self.task.cancel)
            await self._before_end()
            return error
        return None

    async def stop(self) -> None:
        """Leave the context managers; what they raise is logged."""
        self.stopping.set()
        if not self.started.done():
            self.task.cancel()
        try:
            await asyncio.wait({self.task})
        except asyncio.CancelledError:
            self.task.cancel()
            raise


class LifespanRunner:
    """Runs the lifespan of a server while somebody holds it."""

    def __init__(self, lifespans: Sequence[Enter], before_end: Callable[[], Awaitable[None]]) -> None:
        """Set the lifespans, which are entered in this order; `before_end` ends what still uses their values.

        Raises `TypeError` for a function that is no lifespan.
        """
        for enter in lifespans:
            if iscoroutinefunction(enter) or isgeneratorfunction(enter):
                raise TypeError(_WRONG)
        self._lifespans, self._before_end = lifespans, before_end
        self._run: _Run | None = None

    async def hold(self, owner: object) -> None:
        """Enter the lifespan if it does not run yet, and keep it until `owner` releases it. Raises what it raises."""
        while (run := self._current()) is not None and run.stopping.is_set():
            await asyncio.wait({run.task})
            if self._run is run:
                self._run = None
        if run is None:
            run = self._run = _Run(self._lifespans, self._before_end)
        run.holders.add(owner)
        if not run.started.done():
            await asyncio.wait({run.task, run.started}, return_when=asyncio.FIRST_COMPLETED)
            if not run.started.done():
                if self._run is run:
                    self._run = None
                if run.task.cancelled():
                    raise LocalProtocolError("the lifespan of the server was cancelled at its start")
                run.task.result()  # raises why it failed

    async def release(self, owner: object) -> None:
        """Leave the lifespan if nobody else holds it; an error at its end is logged."""
        run = self._current()
        if run is None or owner not in run.holders:
            return
        run.holders.discard(owner)
        if not run.holders and not run.stopping.is_set():
            if run.started.done():
                await self._before_end()
            try:
                await run.stop()
            finally:
                if self._run is run:
                    self._run = None

    def _current(self) -> _Run | None:
        """Return the run in this event loop; one of a loop that was closed has ended with it."""
        run = self._run
        return run if run is not None and run.loop is asyncio.get_running_loop() else None

    def value(self, kind: type[T]) -> T:
        """Return the value of a type that the lifespan yields. Raises `LocalProtocolError` if there is not exactly one."""
        run = self._run
        if run is None or not run.started.done() or run.task.done():
            raise LocalProtocolError(
                "the lifespan of the server is not running: serve with run_stdio, run_http or asgi, or within "
                "`async with server.running():`"
            )
        of: Any = get_origin(kind) or kind
        found = [value for value in run.values if isinstance(value, of)]
        if len(found) != 1:
            yielded = ", ".join(type(value).__name__ for value in run.values)
            raise LocalProtocolError(
                f"the lifespan of the server yields {len(found)} values of the type {of.__name__}; it yields {yielded}"
            )
        return cast("T", found[0])
