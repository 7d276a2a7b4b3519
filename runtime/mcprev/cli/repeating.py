"""`mcprev call --repeat` and `--seconds`: the same call many times, with how long the answers took (SEAM-9)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mcprev.cli.exit_codes import ExitCode
from mcprev.cli.options import NumberRange
from mcprev.cli.table import echo_json, echo_table, show_progress
from mcprev.dev.repeating import (
    AT_ONCE,
    MAX_AT_ONCE,
    MAX_CALLS,
    MAX_RATE,
    MAX_SECONDS,
    RepeatPlan,
    Repetition,
    statistics,
)

if TYPE_CHECKING:
    from mcprev.client.tool_result import ToolResult
    from mcprev.errors import Json

Command = TypeVar("Command", bound=Callable[..., object])


def repeat_options(command: Command) -> Command:
    """Add the options that repeat a call."""
    positive = NumberRange(0, MAX_SECONDS, min_open=True)
    for option in (
        click.option(
            "--warm-up",
            metavar="SECONDS",
            type=positive,
            help="With --repeat or --seconds, first call the tool for this time; these calls are not counted.",
        ),
        click.option(
            "--rate",
            metavar="R",
            type=NumberRange(0, MAX_RATE, min_open=True),
            help="With --repeat or --seconds, start at most R calls a second, at even intervals.",
        ),
        click.option(
            "--at-once",
            metavar="M",
            type=click.IntRange(1, MAX_AT_ONCE),
            help="With --repeat or --seconds, the maximum number of calls in progress at a time. "
            f"Default: 1, or {AT_ONCE} with --rate.",
        ),
        click.option(
            "--seconds",
            metavar="S",
            type=positive,
            help="Like --repeat, but start calls for this number of seconds; with both, the first limit ends the calls.",
        ),
        click.option(
            "--repeat",
            metavar="N",
            type=click.IntRange(1, MAX_CALLS),
            help="Call the tool N times over one connection, and print the number of calls that succeeded and failed, and "
            "their times, instead of the results.",
        ),
    ):
        command = option(command)
    return command


def repeat_plan(options: dict[str, Any], out: object) -> RepeatPlan | None:
    """Take what `repeat_options` added out of the options of a command, and return it; None for a single call.

    Raises `click.UsageError` for options that do not go together.
    """
    repeat, seconds = options.pop("repeat"), options.pop("seconds")
    at_once, rate, warm_up = (options.pop(name) for name in ("at_once", "rate", "warm_up"))
    if repeat is None and seconds is None:
        for name, given in (("--at-once", at_once), ("--rate", rate), ("--warm-up", warm_up)):
            if given is not None:
                raise click.UsageError(
                    f"{name} requires --repeat N, the number of calls, or --seconds S, their duration"
                )
        return None
    if out is not None:
        raise click.UsageError(
            "--out writes the files of one result; leave it out with --repeat and --seconds"
        )
    return RepeatPlan(
        repeat or MAX_CALLS, seconds, at_once or (1 if rate is None else AT_ONCE), rate, warm_up
    )


def _show(repetition: Repetition) -> None:
    whole = "" if repetition.plan.seconds else f"/{repetition.plan.calls}"
    show_progress(f"{repetition.done}{whole} calls, {repetition.failed} failed")


def _print(repetition: Repetition, revision: str, *, as_json: bool) -> ExitCode:
    """Print the figures, and return the exit code that they mean."""
    show_progress("")
    found = repetition.document()
    if as_json:
        echo_json({"format": 1, "revision": revision, "repeat": found})
    else:
        rows = [(name, str(found[name])) for name in ("calls", "succeeded", "failed", "seconds")]
        rows.append(("calls/s", _shown(found["calls_per_second"])))
        rows += [
            (f"{name} ms", "-" if value is None else f"{value * 1000:.3f}")
            for name, value in statistics(sorted(repetition.times)).items()
        ]
        rows += [("error", f"{count} × {reason}") for reason, count in repetition.reasons.most_common()]
        echo_table(("PROPERTY", "VALUE"), rows)
    return ExitCode.FAILED if repetition.failed else ExitCode.OK


def _shown(value: Json) -> str:
    return "-" if value is None else str(value)


async def repeat_call(
    call: Callable[[], Awaitable[ToolResult]], plan: RepeatPlan, revision: str, *, as_json: bool
) -> ExitCode:
    """Make the calls and print the figures, also when Ctrl+C ends them. Raises what made further calls useless."""
    if plan.warm_up is not None:
        before = Repetition(plan.of_warm_up())
        await before.run(call)
        if before.ended_by is not None:
            raise before.ended_by
    repetition = Repetition(plan, _show)
    try:
        await repetition.run(call)
    except asyncio.CancelledError:
        _print(repetition, revision, as_json=as_json)
        raise
    code = _print(repetition, revision, as_json=as_json)
    if repetition.ended_by is not None:
        raise repetition.ended_by
    return code
