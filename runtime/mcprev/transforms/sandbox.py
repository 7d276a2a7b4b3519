"""The sandbox for code that a model has written: Monty, an interpreter for Python with nothing but what it is given.

Each run has a process of its own, which ends with it, so that nothing of one run is left for another one.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from mcprev.errors import Json, MissingExtra, ToolError, one_line
from mcprev.transforms.kept_value import keeping_value

if TYPE_CHECKING:
    from pydantic_monty import AsyncMontySession

MAX_SUSPENSIONS: Final = 10_000
"""The maximum number of calls, waits and lookups of unknown names by which the code of a run leaves its interpreter."""
MAX_CHECKED: Final = 100_000
"""The maximum number of values in the value of the code that are checked inside the sandbox."""
MAX_ARGUMENTS: Final = 10_000
"""The maximum number of values in the arguments of a call that are checked inside the sandbox."""
_INNER: Final = {"<string>", "<python-input-0>"}
"""The names of code in a string that the code runs and of `_CHECKED_CALL`, whose lines are not its own."""
_VALUE: Final = "__value"
"""The variable that keeps the value of the code, so that the sandbox itself can check it."""
_CHECK: Final = f"import json\njson.dumps({_VALUE})"
_CHECKED_CALL: Final = f"""
def call_tool(*args, **named):
    left, count = [args, named], 0
    while left and count < {MAX_ARGUMENTS}:
        count += 1
        item = left.pop()
        if isinstance(item, (list, tuple)):
            left += list(item[:{MAX_ARGUMENTS}])
        elif isinstance(item, dict):
            left += [*item, *item.values()][:{MAX_ARGUMENTS}]
        elif type(item).__name__ == 'coroutine':
            raise RuntimeError('an argument of call_tool is a call that was not awaited; write `await call_tool(...)`')
        elif item is not None and not isinstance(item, (str, int, float)):
            raise RuntimeError(
                'the arguments has ' + type(item).__name__ + ', which is not JSON; convert it to a str, list or dict'
            )
    return _call_tool(*args, **named)
"""
"""Checks the arguments of each call inside the sandbox, because outside of it a call or a function is a text."""
_NO_JSON: Final = re.compile(r"TypeError: Object of type (\w+) is not JSON serializable")
_CALL: Final = (
    "call_tool takes the name of a tool and a dict with its arguments: `await call_tool(name, {...})`"
)


class MontySandbox:
    """Runs code in a process of [Monty](https://github.com/pydantic/monty), without files, network and environment.

    It knows a subset of Python and of its standard library. Needs `mcprev[sandbox]`.
    """

    def __init__(
        self, *, max_seconds: float = 10.0, max_memory: int = 64 * 1024 * 1024, max_recursion: int = 200
    ) -> None:
        """Set the limits of a run, which the code cannot catch.

        - `max_seconds` is the maximum time in seconds that the code itself runs, without the time in which it waits for tools.
        - `max_memory` is the maximum memory of the code in bytes.
        - `max_recursion` is the maximum depth of calls of functions.

        Raises `ValueError` for a number that is not above 0, or is infinite, and `mcprev.errors.MissingExtra` if `pydantic-monty` is not
        installed.
        """
        try:
            import pydantic_monty as monty
        except ImportError as error:
            raise MissingExtra("running the code of a model", "pydantic-monty", "sandbox") from error
        if not all(0 < each < math.inf for each in (max_seconds, max_memory, max_recursion)):
            raise ValueError(
                "a limit of a MontySandbox is not above 0, or infinite; use another number, or leave it out"
            )
        self._max_seconds: Final = max_seconds
        self._limits: Final[monty.ResourceLimits] = {
            "max_feed_duration_secs": max_seconds,
            "max_memory": max_memory,
            "max_recursion_depth": max_recursion,
            "max_suspensions": MAX_SUSPENSIONS,
        }

    async def run(
        self,
        code: str,
        call_tool: Callable[[str, Mapping[str, Json]], Awaitable[Json]],
        write: Callable[[str], None],
    ) -> object:
        """Run code and return its value, as `Sandbox` says. Raises `ToolError` with the line and the message of what is wrong."""
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

        code = code.encode(errors="replace").decode()
        try:
            # No process is kept: starting one takes some ten milliseconds, and the code of another client was never in it.
            async with (
                monty.AsyncMonty(min_processes=0, max_processes=1) as pool,
                pool.checkout(limits=self._limits, os_policy={"sleep_system_max": math.inf}) as session,
            ):
                await session.feed_run(_CHECKED_CALL)
                try:
                    # In a thread, since the tokens of much code take a fraction of a second.
                    value = await fed(await asyncio.to_thread(keeping_value, code, _VALUE))
                except monty.MontySyntaxError:
                    return await fed(code)
                if _has_text(value):
                    await _check(session)
                return value
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


def _named(name: str, arguments: Mapping[str, Json] | None = None) -> tuple[str, Mapping[str, Json]]:
    """Return the arguments of `call_tool`."""
    return name, {} if arguments is None else arguments


def _has_text(value: object) -> bool:
    """Return whether a value of at most `MAX_CHECKED` values has a text, which may stand for what is no JSON."""
    left, has_text, count = [value], False, 0
    while left:
        count += 1
        if count + len(left) > MAX_CHECKED:
            return False
        item = left.pop()
        has_text = has_text or isinstance(item, str)
        if isinstance(item, list | tuple):
            left += item[:MAX_CHECKED]
        elif isinstance(item, dict):
            left += [*item, *item.values()][:MAX_CHECKED]
    return has_text


async def _check(session: AsyncMontySession) -> None:
    """Raise `ToolError` if the value that was kept has what is no JSON, which is a text outside the sandbox, as a str is.

    A value that the check fails for otherwise, such as one too deep, is left to the caller.
    """
    import pydantic_monty as monty

    try:
        await session.feed_run(_CHECK)
    except monty.MontyRuntimeError as error:
        said = error.display("type-msg")
        if said.startswith("ValueError: Circular reference"):
            raise ToolError("the value of the code contains itself; return a part of it") from None
        if (found := _NO_JSON.match(said)) is None:
            return
        if found[1] == "coroutine":
            raise ToolError(
                "the value of the code is a call that was not awaited; write `await call_tool(...)`"
            ) from None
        raise ToolError(
            f"the value of the code has {found[1]}, which is not JSON; convert it to a str, list or dict"
        ) from None
    except monty.MontyError:
        return
