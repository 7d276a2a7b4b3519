"""Serves one client on stdin and stdout (STDIO-1, STDIO-2, STDIO-6, STDIO-9).

While the server runs, file descriptors 0 and 1 are redirected: output of this process or its children goes to stderr,
and children read empty input. Only the transport uses the real stdin and stdout. `reserved_stdio` does so before the
author's module is imported, too.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, TypeAlias

from mcprev.core.connection import PIPES
from mcprev.core.limits import LINGER
from mcprev.platforms import HERE
from mcprev.transports.exiting import exit_guard, stop_signals
from mcprev.transports.gc_policy import reduced_collection
from mcprev.transports.stdio.pipes import PipeTransport

if TYPE_CHECKING:
    from mcprev.transports.memory import PipeServer

    Running: TypeAlias = Callable[[], AbstractAsyncContextManager[PipeServer]]


STDIO: Final[ContextVar[tuple[int, int]]] = ContextVar("STDIO", default=(0, 1))
"""The descriptors of the real stdin and stdout."""


def _redirect() -> None:
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - for its descriptor
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)


@contextmanager
def reserved_stdio() -> Generator[None]:
    """Keep the real stdin and stdout for the server that runs within; what is imported there and its children have neither.

    They are restored after an error only: what a process prints at its exit is no message either.
    """
    sys.stdout.flush()
    kept = os.dup(0), os.dup(1)
    token = STDIO.set(kept)
    _redirect()
    try:
        yield
    except BaseException:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
        raise
    finally:
        STDIO.reset(token)
        for descriptor in kept:
            os.close(descriptor)


@contextmanager
def redirected_stdio() -> Generator[tuple[int, int], None, None]:
    """Redirect file descriptors 0 and 1 and yield duplicates of the real ones; restore both at the end."""
    sys.stdout.flush()
    real = STDIO.get()
    incoming, outgoing = map(os.dup, real)
    kept = [os.dup(descriptor) for descriptor in real]
    restore_blocking = HERE.blocking_of(kept)
    try:
        _redirect()
        yield incoming, outgoing
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        restore_blocking()
        for number, descriptor in zip(real, kept, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)


async def serve_stdio(running: Running, *, freeze: bool = False) -> None:
    """Serve until stdin ends, stdout is closed or the task is cancelled. Then requests have a second to finish.

    `running` returns a context manager that yields the server while its lifespan runs. Raises what that raises.
    """
    with redirected_stdio() as (incoming, outgoing):
        async with running() as server:
            connection = server.connection()
            connection.network = PIPES
            await PipeTransport(connection).open(incoming, outgoing)
            with reduced_collection() if freeze else nullcontext():
                try:
                    await asyncio.shield(connection.closed)
                finally:
                    await connection.finish_requests(LINGER)
                    await connection.aclose()


def run_stdio(running: Running, new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
    """Serve as the only purpose of this process, until the client disconnects or a signal arrives.

    The event loop is one of asyncio's own, or what `new_loop` returns.
    """  # STDIO-6

    async def main() -> None:
        serving = asyncio.create_task(serve_stdio(running, freeze=True))
        for number in stop_signals():
            with suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread
                HERE.handle_signal(runner.get_loop(), number, serving.cancel)
        try:
            await asyncio.wait({serving})
            if not serving.cancelled():
                serving.result()
        finally:
            if threading.current_thread() is threading.main_thread():
                guard.start()

    with exit_guard() as guard, asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
