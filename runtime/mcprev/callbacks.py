"""Calls of users' functions: what they return is awaited if it is awaitable, and only True and False decide.

Whether a function is async cannot be told of a lambda, a `functools.partial`, a decorated function or an object with an
async `__call__`, and the coroutine that they return is true. So the result is looked at, and never the function.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from inspect import isawaitable, iscoroutine
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")
_logger: Final = logging.getLogger("mcprev")


async def finished(found: Awaitable[T] | T) -> T:
    """Return what a function returned, awaited if it is awaitable."""
    return cast("T", await found if isawaitable(found) else found)


async def call_within(seconds: float, function: Callable[..., Awaitable[T] | T], *given: object) -> T:
    """Call a function and return its finished result. Raises `TimeoutError`, and `RuntimeError` if something was cancelled
    that the function waited for.
    """
    try:
        async with asyncio.timeout(seconds):
            return await finished(function(*given))
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        raise RuntimeError("it awaited something that was cancelled") from error


def at_once(found: T, what: str) -> T:
    """Return what a function returned that is called where nothing can be awaited. Raises `TypeError` for an awaitable."""
    if isawaitable(found):
        if iscoroutine(found):
            found.close()
        raise TypeError(f"{what} must not be async: its caller cannot await it")
    return found


def call_in(loop: asyncio.AbstractEventLoop, work: Callable[..., object], *given: object) -> None:
    """Call a function in an event loop: now if this is its thread, else soon; not at all if the loop is closed."""
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if here is loop:
        work(*given)
    else:
        with suppress(RuntimeError):  # it is closed
            loop.call_soon_threadsafe(work, *given)


def decision(found: object, what: str) -> bool:
    """Return what a function decided. Raises `TypeError` for anything but True and False."""
    if found is True or found is False:
        return found
    raise TypeError(f"{what} returned {_type_of(found)}; return True or False, as with bool(...)")


async def allows(function: Callable[..., object], *given: object) -> bool:
    """Return whether a function allows something: it returned True. If it raised, or returned no bool, that is logged."""
    try:
        return decision(await finished(function(*given)), f"{title_of(function)}()")
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        failure: BaseException = error
    except Exception as error:  # noqa: BLE001 - whatever it raises allows nothing
        failure = error
    text = "%s() returned neither True nor False, which counts as False"
    _logger.error(text, title_of(function), exc_info=failure)
    return False


def title_of(function: object) -> str:
    """Return the name of a function for messages, without the arguments that a partial object holds."""
    while isinstance(function, partial):
        function = cast("Any", function).func
    return str(getattr(function, "__qualname__", _type_of(function)))


def _type_of(value: object) -> str:
    return type(value).__qualname__


def is_cancelled() -> bool:
    """Return whether the current task itself is being cancelled, not something that it awaited."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
