"""The sandbox for code that a model has written: Monty, an interpreter for Python with nothing but what it is given.

Each run has a process of its own, which ends with it, so that nothing of one run is left for another one.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from mcprev.errors import Json, MissingExtra, ToolError, one_line
from mcprev.transforms.kept_value import keeping_value

if TYPE_CHECKING:
    from pydantic_monty import ResourceLimits

CallTool: TypeAlias = Callable[[str, Mapping[str, Json]], Awaitable[Json]]
"""Calls a tool by its name with arguments, and returns its result as JSON; raises `ToolError` if it failed or is refused."""

MAX_NESTING: Final = 100
"""The maximum depth of a value that goes into the code or comes out of it."""
MAX_DIGITS: Final = 4_000
"""The maximum number of digits of an integer that goes into the code or comes out of it."""
_SMALL: Final = 10**16
"""From here on the digits of an integer count."""
MAX_SUSPENSIONS: Final = 10_000
"""The maximum number of calls, waits and lookups of unknown names by which the code of a run leaves its interpreter."""
MAX_LEAVING: Final = 2 * 1024 * 1024
"""The maximum size of a value, or of the arguments of a call, that leaves the sandbox."""
MAX_UNCHECKED: Final = 8 * 1024 * 1024
"""The maximum memory in bytes of code whose value cannot be checked inside the sandbox."""
_INNER: Final = {"<string>", "<python-input-0>", "<python-input-2>"}
"""The names of code in a string that the code runs and of what is run before and after it, whose lines are not its own."""
_VALUE: Final = "__value"
"""The variable that keeps the value of the code, so that the sandbox itself can check it."""
_SETUP: Final = f"""
def _make(call, dict, float, id, int, isinstance, len, list, str, tuple, type, RuntimeError):
    large = 10**{MAX_DIGITS}

    def contained(what, item, path):
        while path is not None and path[0] != id(item):
            path = path[1]
        if path is not None:
            raise RuntimeError(what + ' contains itself; return a part of it')
        raise RuntimeError(what + ' nests deeper than {MAX_NESTING}')

    def checked(what, values, unawaited):
        left, size = [(values, 0, None)], 16 * len(values)
        while left:
            items, depth, path = left.pop()
            for item in items:
                if item is None or isinstance(item, float):
                    continue
                if isinstance(item, str):
                    size += len(item)
                elif isinstance(item, int):
                    if not -{_SMALL} < item < {_SMALL}:
                        if not -large < item < large:
                            raise RuntimeError(what + ' has an integer of more than {MAX_DIGITS:,} digits')
                        size += len(str(item))
                elif isinstance(item, (list, tuple, dict)):
                    if depth == {MAX_NESTING}:
                        contained(what, item, path)
                    within = (id(item), path)
                    size += 48 + 16 * len(item)
                    if isinstance(item, dict):
                        size += 16 * len(item)
                        if size <= {MAX_LEAVING}:
                            left += [(list(item), depth + 1, within), (list(item.values()), depth + 1, within)]
                    else:
                        left.append((item, depth + 1, within))
                elif type(item).__name__ == 'coroutine':
                    raise RuntimeError(unawaited + ' is a call that was not awaited; write `await call_tool(...)`')
                else:
                    raise RuntimeError(
                        what + ' has ' + type(item).__name__ + ', which is not JSON; convert it to a str, list or dict'
                    )
                if size > {MAX_LEAVING}:
                    raise RuntimeError(what + ' has more than {MAX_LEAVING:,} bytes; use less of it')
        return values[0]

    def call_tool(*args, **named):
        checked('the arguments', [None, *args, *named, *named.values()], 'an argument of call_tool')
        return call(*args, **named)

    return call_tool, checked

call_tool, __checked = _make(
    _call_tool, dict, float, id, int, isinstance, len, list, str, tuple, type, RuntimeError
)
_make = _call_tool = {_VALUE} = None
"""
"""Defines `call_tool`, which checks its arguments inside the sandbox, and the check of the value.

Outside, a call or a function is a text, and Python's memory and the event loop would pay for what is too large. The check
keeps the functions that it calls, so that the code cannot replace them. The size is that of `transforms.code`, without quotes.
"""
_CHECK: Final = f"__checked('the value of the code', [{_VALUE}], 'the value of the code')"
_REFUSED: Final = "RuntimeError: "
_CALL: Final = (
    "call_tool takes the name of a tool and a dict with its arguments: `await call_tool(name, {...})`"
)


class MontySandbox:
    """Runs code in a process of [Monty](https://github.com/pydantic/monty), without files, network and environment.

    It knows a subset of Python and of its standard library. Needs `mcprev[sandbox]`.
    """

    def __init__(
        self, *, max_seconds: float = 10.0, max_memory: int = 32 * 1024 * 1024, max_recursion: int = 200
    ) -> None:
        """Set the limits of a run, which the code cannot catch.

        - `max_seconds` is the maximum time in seconds that the code itself runs, without the time in which it waits for tools.
        - `max_memory` is the maximum memory of the code in bytes.
        - `max_recursion` is the maximum depth of calls of functions.

        Raises `ValueError` for a number that is not above 0, or is infinite, and `mcprev.errors.MissingExtra` if `pydantic-monty` is not
        installed.
        """
        try:
            import pydantic_monty as _  # noqa: F401 - whether it is installed
        except ImportError as error:
            raise MissingExtra("running the code of a model", "pydantic-monty", "sandbox") from error
        if not all(0 < each < math.inf for each in (max_seconds, max_memory, max_recursion)):
            raise ValueError(
                "a limit of a MontySandbox is not above 0, or infinite; use another number, or leave it out"
            )
        self._max_seconds: Final = max_seconds
        self._max_memory: Final = max_memory
        self._limits: Final[ResourceLimits] = {
            "max_feed_duration_secs": max_seconds,
            "max_memory": max_memory,
            "max_recursion_depth": max_recursion,
            "max_suspensions": MAX_SUSPENSIONS,
        }

    async def run(
        self,
        code: str,
        call_tool: CallTool,
        write: Callable[[str], None],
    ) -> object:
        """Run code and return its value, as `Sandbox` says. Raises `ToolError` with the line and the message of what is wrong."""
        import pydantic_monty as monty

        seen = False  # whether the code has done what it must not do twice

        async def called(name: str, arguments: Mapping[str, Json]) -> Json:
            nonlocal seen
            seen = True
            return await call_tool(name, arguments)

        def written(text: str) -> None:
            nonlocal seen
            seen = True
            write(text)

        code = code.encode(errors="replace").decode()
        try:
            # In a thread, since the tokens of much code take a fraction of a second.
            kept = await asyncio.to_thread(keeping_value, code, _VALUE)
            if kept is not None:
                try:
                    return await _run(kept, called, written, self._limits)
                except monty.MontySyntaxError:
                    if seen:
                        raise
            memory = min(self._max_memory, MAX_UNCHECKED)
            return await _run(code, called, written, {**self._limits, "max_memory": memory})
        except (monty.MontySyntaxError, monty.MontyRuntimeError) as error:
            said = one_line(error.display("type-msg"))
            if said.startswith("TimeoutError: feed time limit exceeded"):
                raise ToolError(
                    f"the code itself ran longer than {self._max_seconds:g} s, without its waits; let it compute less"
                ) from None
            lines = [frame.line for frame in error.traceback() if frame.filename not in _INNER]
            at = f" in line {lines[-1]}" if lines else ""
            raise ToolError(f"the code failed{at}: {said}") from None
        except monty.MontyError as error:
            raise ToolError(f"the code was ended: {one_line(error)}") from None


async def _run(
    code: str, call_tool: CallTool, write: Callable[[str], None], limits: ResourceLimits
) -> object:
    """Run code in a process of its own and return its value: what it has kept in `_VALUE`, if that can leave the sandbox."""
    import pydantic_monty as monty

    async def called(*args: Json, **named: Json) -> Json:
        try:
            name, arguments = _named(*args, **named)
        except TypeError:
            raise TypeError(_CALL) from None
        try:
            return await call_tool(name, arguments)
        except ToolError as error:
            raise RuntimeError(str(error).encode(errors="replace").decode()) from None

    async def fed(text: str) -> object:
        return await session.feed_run(
            text, external_lookup={"_call_tool": called}, print_callback=lambda _, text: write(text)
        )

    # No process is kept: starting one takes some ten milliseconds, and the code of another client was never in it.
    async with (
        monty.AsyncMonty(min_processes=0, max_processes=1) as pool,
        pool.checkout(limits=limits, os_policy={"sleep_system_max": math.inf}) as session,
    ):
        await fed(_SETUP)
        if (value := await fed(code)) is not None:
            return value
        try:
            return await fed(_CHECK)
        except monty.MontyRuntimeError as error:
            said = one_line(error.display("type-msg"))
            if not said.startswith(_REFUSED):
                raise
            raise ToolError(said.removeprefix(_REFUSED)) from None


def _named(name: str, arguments: Mapping[str, Json] | None = None) -> tuple[str, Mapping[str, Json]]:
    """Return the arguments of `call_tool`."""
    return name, {} if arguments is None else arguments
