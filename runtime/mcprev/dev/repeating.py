"""The same call many times over one connection, with how long the answers took: for `mcprev call --repeat` and the page.

A look at one tool, no benchmark: one process calls, over one connection.
"""

from __future__ import annotations

import asyncio
import logging
import time
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Final

from mcprev.core.background import Background
from mcprev.dev.channels import Channels
from mcprev.dev.events import line

if TYPE_CHECKING:
    from mcprev.client.client import Client
    from mcprev.client.tool_result import ToolResult
    from mcprev.errors import Json

MAX_CALLS: Final = 1_000_000
"""The maximum number of calls of one repetition."""
MAX_AT_ONCE: Final = 1_000
"""The maximum number of calls in progress at a time."""
AT_ONCE: Final = 100
"""The default of the calls in progress at a time if they begin at a rate."""
MAX_SECONDS: Final = 86_400
"""The maximum time of calls and of a warm-up, in seconds."""
MAX_RATE: Final = 100_000
"""The maximum number of calls that begin in a second."""
MAX_REASONS: Final = 20
"""The maximum number of different errors that are told apart."""
_SHARES: Final = (50, 90, 95, 99)
STEP: Final = 0.1
"""Seconds between two reports of how far the calls are."""
_STOPPING: Final = 2.0
_logger: Final = logging.getLogger("mcprev.dev")


@dataclass(frozen=True, slots=True)
class RepeatPlan:
    """How often the same call is made, and when; the calls end with the first of `calls` and `seconds`."""

    calls: int = MAX_CALLS
    seconds: float | None = None
    """How long calls begin."""
    at_once: int = 1
    rate: float | None = None
    """How many calls begin in a second, evenly; None: each as soon as it may."""
    warm_up: float | None = None
    """The seconds of calls before the others, which are not counted."""

    def of_warm_up(self) -> RepeatPlan:
        """Return the plan of the calls that come before."""
        return replace(self, calls=MAX_CALLS, seconds=self.warm_up, warm_up=None)


def ignored(_: Repetition) -> None:
    """Tell nobody."""


def percentile(ordered: Sequence[float], share: int) -> float:
    """Return the smallest of the ordered values that `share` percent of them do not exceed (the nearest rank)."""
    return ordered[ceil(len(ordered) * share / 100) - 1]


@dataclass(slots=True)
class Repetition:
    """The same call, made several times."""

    plan: RepeatPlan
    told: Callable[[Repetition], None] = ignored
    """Called now and then while calls end."""
    times: array[float] = field(default_factory=lambda: array("d"))
    """How long each successful call took, in seconds."""
    reasons: Counter[str] = field(default_factory=Counter[str])
    """How often each error came."""
    started: int = 0
    seconds: float = 0.0
    ended_by: Exception | None = None
    """What made further calls useless, such as a lost connection."""
    _begun: float = 0.0
    _shown: float = 0.0
    _turns: asyncio.Lock = field(default_factory=asyncio.Lock)
    _end: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, call: Callable[[], Awaitable[ToolResult]]) -> None:
        """Make the calls; on cancellation, the figures are those of the calls that ended before."""
        self._begun = time.perf_counter()
        try:
            async with asyncio.TaskGroup() as callers:
                for _ in range(min(self.plan.at_once, self.plan.calls)):
                    callers.create_task(self._caller(call))
        finally:
            self.seconds = time.perf_counter() - self._begun

    def _over(self) -> bool:
        """Return whether no further call begins."""
        late = self.plan.seconds is not None and time.perf_counter() - self._begun >= self.plan.seconds
        return late or self.started >= self.plan.calls or self._end.is_set()

    async def _turn(self) -> bool:
        """Wait until a call is due and return True; return False if no further call begins."""
        async with self._turns:
            due = 0.0 if self.plan.rate is None else self.started / self.plan.rate
            if self.plan.seconds is not None:
                due = min(due, self.plan.seconds)
            delay = self._begun + due - time.perf_counter()
            if delay > 0 and not self._over():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._end.wait(), delay)
            if self._over():
                return False
            self.started += 1
            return True

    async def _caller(self, call: Callable[[], Awaitable[ToolResult]]) -> None:
        from pydantic import ValidationError

        from mcprev.errors import AuthError, ConnectionLost, McpError

        while await self._turn():
            start = time.perf_counter()
            try:
                result = await call()
            except (McpError, OSError, ValidationError) as error:
                self._failed(f"{type(error).__name__}: {error}")
                if isinstance(error, AuthError | ConnectionLost | OSError):
                    self.ended_by = error
                    self._end.set()
            else:
                if result.is_error:
                    self._failed(f"the tool failed: {result.text}")
                else:
                    self.times.append(time.perf_counter() - start)
            self._show()

    def _failed(self, why: str) -> None:
        reason = line(why)
        self.reasons[reason if reason in self.reasons or len(self.reasons) < MAX_REASONS else "others"] += 1

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._shown >= STEP:
            self._shown = now
            self.told(self)

    @property
    def failed(self) -> int:
        """How many calls ended with an error."""
        return self.reasons.total()

    @property
    def done(self) -> int:
        """How many calls ended."""
        return len(self.times) + self.failed

    def document(self) -> dict[str, Json]:
        """Return the figures as JSON; those of no times are null."""
        ordered = sorted(self.times)
        return {
            "calls": self.started,
            "at_once": min(self.plan.at_once, self.plan.calls),
            "rate": self.plan.rate,
            "succeeded": len(ordered),
            "failed": self.failed,
            "seconds": round(self.seconds, 3),
            "calls_per_second": round(self.done / self.seconds, 1) if self.seconds else None,
            "milliseconds": {
                name: None if value is None else round(value * 1000, 3)
                for name, value in statistics(ordered).items()
            },
            "errors": dict(self.reasons.most_common()),
        }


def statistics(ordered: Sequence[float]) -> dict[str, float | None]:
    """Return the least, the mean, the percentiles and the most of ordered values; None for each if there are none."""
    if not ordered:
        return dict.fromkeys(("min", "mean", *(f"p{share}" for share in _SHARES), "max"))
    shares = {f"p{share}": percentile(ordered, share) for share in _SHARES}
    return {"min": ordered[0], "mean": sum(ordered) / len(ordered), **shares, "max": ordered[-1]}


# -- on the page -----------------------------------------------------------------------------------------------


class Repetitions:
    """The repetitions that the page began, one at a time; the newest is shown."""

    def __init__(self, channels: Channels, client_at: Callable[[str | None], Awaitable[Client]]) -> None:
        self._channels, self._client_at = channels, client_at
        self._background = Background(_logger, "the repetition of calls")
        self.shown: dict[str, Json] | None = None
        """What the page was told last of the newest one."""

    def start(self, tool: str, arguments: dict[str, Json], plan: RepeatPlan) -> None:
        """Begin to call a tool. Raises `RepetitionRuns`."""
        if any(not task.done() for task in self._background):
            raise RepetitionRuns("calls are being repeated; stop them first")
        self._background.start(self._run(tool, arguments, plan))

    async def stop(self) -> None:
        """End the calls; does nothing if they have ended."""
        await self._background.aclose(_STOPPING)

    def _tell(self, tool: str, state: str, **more: Json) -> None:
        self.shown = {"tool": tool, "state": state, **more}
        self._channels.state("repeat", "", self.shown)

    async def _run(self, tool: str, arguments: dict[str, Json], plan: RepeatPlan) -> None:
        from pydantic import ValidationError

        from mcprev.errors import McpError

        def told(found: Repetition) -> None:
            whole: Json = None if found.plan.seconds is not None else found.plan.calls
            self._tell(tool, "running", done=found.done, failed=found.failed, whole=whole)

        self._tell(tool, "running", done=0, failed=0, whole=None)
        found = Repetition(plan, told)
        state, error = "done", None
        try:
            client = await self._client_at(None)
            call = partial(client.call_tool, tool, arguments)
            if plan.warm_up is not None:
                self._tell(tool, "warming up")
                before = Repetition(plan.of_warm_up())
                await before.run(call)
                found.ended_by = before.ended_by
            if found.ended_by is None:
                await found.run(call)
        except asyncio.CancelledError:
            state = "stopped"
        except (McpError, OSError, TimeoutError, ValueError, ValidationError) as failure:
            state, error = "failed", line(str(failure) or type(failure).__name__)
        if found.ended_by is not None:
            state, error = "failed", line(str(found.ended_by) or type(found.ended_by).__name__)
        self._tell(tool, state, error=error, **found.document())


class RepetitionRuns(ValueError):
    """A repetition that is not begun, because one runs."""
