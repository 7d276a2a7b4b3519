"""The sandbox for code that a model has written: Monty, an interpreter for Python with nothing but what it is given.

Each run has a process of its own, which ends with it, so that nothing of one run is left for another one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from mcprev.errors import Json, MissingExtra, ToolError, one_line

MAX_SUSPENSIONS: Final = 10_000
"""The maximum number of calls, waits and lookups of unknown names by which the code of a run leaves its interpreter."""
_INNER: Final = "<string>"
"""The name of code in a string that the code runs, whose lines are not its own."""


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

        Raises `ValueError` for a number that is not above 0, and `mcprev.errors.MissingExtra` if `pydantic-monty` is not
        installed.
        """
        try:
            import pydantic_monty as monty
        except ImportError as error:
            raise MissingExtra("running the code of a model", "pydantic-monty", "sandbox") from error
        if min(max_seconds, max_memory, max_recursion) <= 0:
            raise ValueError("a limit of a MontySandbox is not above 0; use a larger number, or leave it out")
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

        async def called(name: str, arguments: Mapping[str, Json] | None = None) -> Json:
            try:
                return await call_tool(name, {} if arguments is None else arguments)
            except ToolError as error:
                raise RuntimeError(str(error).encode(errors="replace").decode()) from None

        try:
            # No process is kept: starting one takes some ten milliseconds, and the code of another client was never in it.
            async with (
                monty.AsyncMonty(min_processes=0, max_processes=1) as pool,
                pool.checkout(limits=self._limits) as session,
            ):
                return await session.feed_run(
                    code.encode(errors="replace").decode(),
                    external_lookup={"call_tool": called},
                    print_callback=lambda _, text: write(text),
                )
        except (monty.MontySyntaxError, monty.MontyRuntimeError) as error:
            lines = [frame.line for frame in error.traceback() if frame.filename != _INNER]
            at = f" in line {lines[-1]}" if lines else ""
            raise ToolError(f"the code failed{at}: {one_line(error.display('type-msg'))}") from None
        except monty.MontyError as error:
            raise ToolError(f"the code was ended: {one_line(error)}") from None
