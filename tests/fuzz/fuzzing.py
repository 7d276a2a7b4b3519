"""Seeded fuzzing: draws a case of each seed, checks it within bounded time, and says how to run a failing one again.

    fuzz(draw, check)

calls `draw` with a random generator of each seed and `check` with what it gives. The suite tries a fixed number of
seeds, the same ones in every run. `MCPREV_FUZZ_SECONDS=600 pytest tests/fuzz` lets each test run on with new seeds for
so long, and `MCPREV_FUZZ_SEED` is the first seed. A failure names its seed: with it the failing case is the first.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, product, takewhile
from types import FrameType
from typing import Any, Final, TypeVar, cast

import pytest

from helpers.running import run

T = TypeVar("T")
LIMIT: Final = 10.0
"""Seconds of processor time that a case may take, on a machine however loaded. Most take less than a millisecond."""
LOOP_LIMIT: Final = 60.0
"""Seconds after which a case on an event loop hangs."""
FACTOR: Final = 0.5
"""How many times as many cases tests with `sampled` try in `make fuzz` as in `make test`, for each second of it."""
SHOWN: Final = 4000
"""Characters of a failing case that are shown."""


each_once: Final = pytest.mark.each_once
"""A test with several parameters runs with each value of each in `make test`, and with each combination in `make fuzz`."""


class TooSlowError(Exception):
    """A case took more than `LIMIT`."""


def seeds(cases: int) -> Iterator[int]:
    """The seeds to try: `cases` of them, and if there is a time to try cases for, as many more as it suffices for."""
    first = int(os.environ.get("MCPREV_FUZZ_SEED", "0"))
    seconds = float(os.environ.get("MCPREV_FUZZ_SECONDS", "0"))
    if not seconds:
        return iter(range(first, first + cases))
    end = time.monotonic() + seconds
    return takewhile(lambda seed: seed < first + cases or time.monotonic() < end, count(first))


def sampled(cases: int) -> int:
    """How many random cases a test outside this folder tries: these, or more in `make fuzz`, the more the longer it runs."""
    seconds = float(os.environ.get("MCPREV_FUZZ_SECONDS", "0"))
    return cases * max(2, int(FACTOR * seconds)) if seconds else cases


def sampled_of(every: Sequence[T], some: Sequence[T]) -> Sequence[T]:
    """The cases that a test outside this folder is run with: some in `make test`, and each in `make fuzz`."""
    assert all(case in every for case in some)
    return every if sampled(1) > 1 else some


def diagonal(*axes: Sequence[Any]) -> Sequence[tuple[Any, ...]]:
    """Cases with a value of each axis: each value in one at least in `make test`, and each combination in `make fuzz`."""
    some = [
        tuple(axis[at] for axis, at in zip(axes, place, strict=True)) for place in places(*map(len, axes))
    ]
    return sampled_of([*product(*axes)], some)


def places(*lengths: int) -> Sequence[tuple[int, ...]]:
    """Places in axes of these lengths, such that each place of each axis is in one at least; seldom the same in two axes."""
    return [
        tuple((number + 2 * axis) % length for axis, length in enumerate(lengths))
        for number in range(max(lengths))
    ]


def generator(seed: int) -> random.Random:
    """What draws the case of a seed."""
    return random.Random(seed)  # noqa: S311 - to be the same again


@contextmanager
def reproducible(seed: int, case: object) -> Generator[None]:
    """Add to an error how its case is run again."""
    try:
        yield
    except Exception as error:
        error.add_note(f"MCPREV_FUZZ_SEED={seed} runs this case first: {case!r:.{SHOWN}}")
        raise


@contextmanager
def in_time() -> Generator[None]:
    """Raise `TooSlowError` in what takes more than `LIMIT` of processor time, within a regular expression too."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TooSlowError(f"more than {LIMIT} s of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def fuzz(draw: Callable[[random.Random], T], check: Callable[[T], object], *, cases: int = 1000) -> None:
    """Check the case of each seed."""
    tried, start = 0, time.monotonic()
    for seed in seeds(cases):
        case = draw(generator(seed))
        with reproducible(seed, case), in_time():
            check(case)
        tried += 1
    report(tried, time.monotonic() - start)


def fuzz_on_loop(
    draw: Callable[[random.Random], T],
    check: Callable[[T], Coroutine[Any, Any, object]],
    *,
    cases: int = 100,
) -> None:
    """Check the case of each seed on an event loop, on which every task of a case ends."""

    async def every_seed() -> None:
        tried, start, own = 0, time.monotonic(), asyncio.current_task()
        for seed in seeds(cases):
            case = draw(generator(seed))
            with reproducible(seed, case), in_time():
                async with asyncio.timeout(LOOP_LIMIT):
                    await check(case)
                    while left := asyncio.all_tasks() - {own}:
                        await asyncio.wait(left)
            tried += 1
        report(tried, time.monotonic() - start)

    seconds = float(os.environ.get("MCPREV_FUZZ_SECONDS", "0"))
    run(every_seed(), limit=seconds + 5 * LOOP_LIMIT)


def report(tried: int, seconds: float) -> None:
    """Print how many cases were tried, which `make fuzz` shows."""
    assert tried, "no case was tried"
    sys.stdout.write(f"{tried} cases, {tried / max(seconds, 1e-9):.0f} a second\n")


# -- what is drawn -----------------------------------------------------------------------------------------


def damaged(data: bytes, rng: random.Random, tokens: Sequence[bytes], *, most: int = 3) -> bytes:
    """The same bytes with a few gone, doubled, changed or put in."""
    for _ in range(rng.randint(1, most)):
        place, width = rng.randrange(len(data) + 1), rng.randint(1, 4)
        middle = rng.choice((b"", data[place : place + width] * 2, rng.randbytes(width), rng.choice(tokens)))
        data = data[:place] + middle + data[place + rng.randint(0, width) :]
    return data


def damaged_text(text: str, rng: random.Random, tokens: Sequence[str], *, most: int = 3) -> str:
    """The same text with a few characters gone, doubled, changed or put in."""
    for _ in range(rng.randint(1, most)):
        place, width = rng.randrange(len(text) + 1), rng.randint(1, 4)
        middle = rng.choice(("", text[place : place + width] * 2, character(rng), rng.choice(tokens)))
        text = text[:place] + middle + text[place + rng.randint(0, width) :]
    return text


def character(rng: random.Random) -> str:
    """Any character: mostly of ASCII, sometimes of another script, rarely one that is none."""
    last = rng.choice((0x80, 0x80, 0x80, 0x100, 0x3000, 0xD800, 0xE000, 0x110000))
    return chr(rng.randrange(last))


def pieces_of(data: bytes, rng: random.Random) -> Iterator[bytes]:
    """Bytes as they may arrive: at once, byte by byte, or cut anywhere."""
    how = rng.random()
    if how < 0.1:
        yield data
    elif how < 0.2:
        yield from (data[at : at + 1] for at in range(len(data)))
    else:
        cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randint(1, 6)))
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            if data[start:end]:
                yield data[start:end]


NUMBERS: Final = (0, 1, -1, 1.0, 1.5, -0.0, 2**31, 2**53, 2**63, 10**30, 1e300, 5e-324)
TEXTS: Final = ("", "a", "ab", "1", "null", "é", "𝄞", "\x00", "\n", "\ud800", "#/a", "x" * 50)


def json_value(rng: random.Random, depth: int = 3) -> Any:
    """Any JSON value, lone surrogates included."""
    kind = rng.randrange(8 if depth else 6)
    if kind < 2:
        return rng.choice((None, True, False))
    if kind < 4:
        return rng.choice(NUMBERS)
    if kind < 6:
        return rng.choice(TEXTS)
    inner = [json_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    if kind == 6:
        return inner
    return {rng.choice(TEXTS): value for value in inner}


def with_a_change(value: Any, rng: random.Random, values: Callable[[random.Random], Any]) -> Any:
    """The same JSON value with one part of it gone, renamed or replaced."""
    if not value or rng.random() < 0.15:
        return values(rng)
    if isinstance(value, dict):
        members = dict(cast("dict[str, Any]", value))
        name = rng.choice(list(members))
        inner, how = members.pop(name), rng.random()
        if how < 0.1:
            return members
        if how < 0.2:
            return {**members, rng.choice(TEXTS): inner}
        return {**members, name: with_a_change(inner, rng, values)}
    if isinstance(value, list):
        items: list[Any] = [*value]
        place, how = rng.randrange(len(items)), rng.random()
        if how < 0.1:
            del items[place]
        elif how < 0.2:
            items.insert(place, items[place])
        else:
            items[place] = with_a_change(items[place], rng, values)
        return items
    return values(rng)


def members(value: object) -> dict[str, Any]:
    """The members of a JSON value; none of what is no object."""
    return dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}
