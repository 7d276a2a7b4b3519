"""`mcprev call --repeat`: the same call many times over one connection, with how long the answers took (SEAM-9).

Uses the public client API. A look at one tool, no benchmark: there is no warm-up, and one process calls.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Final, TypeVar

import click

from mcprev.cli.exit_codes import ExitCode
from mcprev.cli.table import clean, echo_json, echo_table, show_progress

if TYPE_CHECKING:
    from mcprev.client.tool_result import ToolResult
    from mcprev.errors import Json

Command = TypeVar("Command", bound=Callable[..., object])
MAX_CALLS: Final = 1_000_000
"""The maximum number of calls of one command."""
MAX_AT_ONCE: Final = 1_000
"""The maximum number of calls that wait for an answer at a time."""
MAX_REASONS: Final = 20
"""The maximum number of different errors that are told apart."""
_REASON: Final = 200
_SHARES: Final = (50, 95, 99)
_STEP: Final = 0.1
"""Seconds between two lines of progress."""


def repeat_options(command: Command) -> Command:
    """Add the options that repeat a call."""
    for option in (
        click.option(
            "--at-once",
            metavar="M",
            type=click.IntRange(1, MAX_AT_ONCE),
            help="With --repeat, at most this number of calls wait for an answer at a time. Default: 1.",
        ),
        click.option(
            "--repeat",
            metavar="N",
            type=click.IntRange(1, MAX_CALLS),
            help="Call the tool N times over one connection, and print how many calls were answered and in which time, "
            "in place of the results.",
        ),
    ):
        command = option(command)
    return command


def check_repeat(repeat: int | None, at_once: int | None, out: object) -> None:
    """Raise `click.UsageError` for options that do not go together."""
    if repeat is None and at_once is not None:
        raise click.UsageError("--at-once needs --repeat N, the number of calls")
    if repeat is not None and out is not None:
        raise click.UsageError("--out writes the files of one result; leave it out with --repeat")


def percentile(ordered: Sequence[float], share: int) -> float:
    """Return the smallest of the ordered values that `share` percent of them do not exceed (the nearest rank)."""
    return ordered[ceil(len(ordered) * share / 100) - 1]


@dataclass(slots=True)
class Repetition:
    """The same call, made several times."""

    calls: int
    at_once: int
    times: array[float] = field(default_factory=lambda: array("d"))
    """How long each answered call took, in seconds."""
    reasons: Counter[str] = field(default_factory=Counter[str])
    """How often each error came."""
    started: int = 0
    seconds: float = 0.0
    ended_by: Exception | None = None
    """What made further calls useless, such as a lost connection."""
    _shown: float = 0.0

    async def run(self, call: Callable[[], Awaitable[ToolResult]]) -> None:
        """Make the calls; on cancellation, the figures are those of the calls that ended before."""
        start = time.perf_counter()
        try:
            async with asyncio.TaskGroup() as callers:
                for _ in range(min(self.at_once, self.calls)):
                    callers.create_task(self._caller(call))
        finally:
            self.seconds = time.perf_counter() - start
            show_progress("")

    async def _caller(self, call: Callable[[], Awaitable[ToolResult]]) -> None:
        from pydantic import ValidationError

        from mcprev.errors import AuthError, ConnectionLost, McpError

        while self.started < self.calls and self.ended_by is None:
            self.started += 1
            start = time.perf_counter()
            try:
                result = await call()
            except (McpError, OSError, ValidationError) as error:
                self._failed(f"{type(error).__name__}: {error}")
                if isinstance(error, AuthError | ConnectionLost | OSError):
                    self.ended_by = error
            else:
                if result.is_error:
                    self._failed(f"the tool failed: {result.text}")
                else:
                    self.times.append(time.perf_counter() - start)
            self._show()

    def _failed(self, why: str) -> None:
        reason = clean(why[:_REASON])
        self.reasons[reason if reason in self.reasons or len(self.reasons) < MAX_REASONS else "others"] += 1

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._shown >= _STEP:
            self._shown = now
            show_progress(f"{self.done}/{self.calls} calls, {self.failed} failed")

    @property
    def failed(self) -> int:
        """How many calls ended with an error."""
        return self.reasons.total()

    @property
    def done(self) -> int:
        """How many calls ended."""
        return len(self.times) + self.failed

    def document(self) -> dict[str, Json]:
        """Return the figures as JSON; a percentile of no times is null."""
        ordered = sorted(self.times)
        return {
            "calls": self.calls,
            "at_once": min(self.at_once, self.calls),
            "answered": len(ordered),
            "failed": self.failed,
            "seconds": round(self.seconds, 3),
            "calls_per_second": round(self.done / self.seconds, 1) if self.seconds else None,
            "milliseconds": {
                f"p{share}": round(percentile(ordered, share) * 1000, 3) if ordered else None
                for share in _SHARES
            },
            "errors": dict(self.reasons.most_common()),
        }

    def print(self, revision: str, *, as_json: bool) -> ExitCode:
        """Print the figures, and return the exit code that they mean."""
        found = self.document()
        if as_json:
            echo_json({"format": 1, "revision": revision, "repeat": found})
        else:
            rows = [(name, str(found[name])) for name in ("calls", "answered", "failed", "seconds")]
            rows.append(("calls/s", _shown(found["calls_per_second"])))
            ordered = sorted(self.times)
            rows += [
                (f"p{share} ms", f"{percentile(ordered, share) * 1000:.3f}" if ordered else "-")
                for share in _SHARES
            ]
            rows += [("error", f"{count} × {reason}") for reason, count in self.reasons.most_common()]
            echo_table(("PROPERTY", "VALUE"), rows)
        return ExitCode.FAILED if self.failed else ExitCode.OK


def _shown(value: Json) -> str:
    return "-" if value is None else str(value)


async def repeat_call(
    call: Callable[[], Awaitable[ToolResult]],
    calls: int,
    at_once: int | None,
    revision: str,
    *,
    as_json: bool,
) -> ExitCode:
    """Make the calls and print the figures, also when Ctrl+C ends them. Raises what made further calls useless."""
    repetition = Repetition(calls, at_once or 1)
    try:
        await repetition.run(call)
    except asyncio.CancelledError:
        repetition.print(revision, as_json=as_json)
        raise
    code = repetition.print(revision, as_json=as_json)
    if repetition.ended_by is not None:
        raise repetition.ended_by
    return code
