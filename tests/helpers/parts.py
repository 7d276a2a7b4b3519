"""The two parts of the suite: what `make test` runs within minutes, and what `make rest` runs beside it.

`make test` leaves out tests marked `slow`, and of each other test it runs at most `MOST` cases, among them as many
different values of each parameter as so few can have. `make rest` runs all that it leaves out. Without `--part`, pytest
runs both parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, Final, cast
from zlib import crc32

import pytest

from fuzz.fuzzing import places

MOST: Final = 3
"""The number of cases of a test in `make test`."""
QUICK: Final = "quick"
REST: Final = "rest"
Ids = tuple[str, ...]
"""What names a case: the id of each of its parameters."""


def chosen(test: str, cases: Sequence[Ids]) -> list[int]:
    """Return the places of the cases of a test that `make test` runs; of each test other ones, in every run the same.

    :param cases: the ids of the parameters of each case.
    """
    left = sorted(range(len(cases)), key=lambda place: crc32(f"{test}{cases[place]}".encode()))
    seen = set[tuple[int, str]]()
    found = list[int]()
    while left and len(found) < MOST:
        best = max(left, key=lambda place: len({*enumerate(cases[place])} - seen))  # the first of equal ones
        left.remove(best)
        seen.update(enumerate(cases[best]))
        found.append(best)
    return sorted(found)


def each_value(cases: Sequence[Ids]) -> list[int]:
    """Return the places of the cases that a test marked `each_once` has: each value of each parameter, not each combination."""
    at = {ids: place for place, ids in enumerate(cases)}
    axes = [[*dict.fromkeys(axis)] for axis in zip(*cases, strict=True)]
    wanted = places(*map(len, axes))
    return sorted(at[tuple(axis[number] for axis, number in zip(axes, each, strict=True))] for each in wanted)


def trim(metafunc: pytest.Metafunc) -> None:
    """Give a test no more cases than `make test` runs: to collect all of them takes longer than to run some.

    Not where a `conftest.py` leaves out cases of a module by a rule of its own, which has to be asked first.
    """
    module = cast("ModuleType", metafunc.module)  # pyright: ignore[reportUnknownMemberType]
    if hasattr(module, "HAS_ITS_OWN_RULE"):
        return
    calls: list[Any] = metafunc._calls  # pyright: ignore[reportPrivateUsage]
    if metafunc.definition.get_closest_marker("each_once"):
        calls[:] = [calls[place] for place in each_value([tuple(call._idlist) for call in calls])]
    ids = [tuple(call._idlist) for call in calls]
    calls[:] = [calls[place] for place in chosen(metafunc.definition.nodeid, ids)]


def combined_again(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield, of tests marked `each_once`, the combinations without which each value of each parameter is tried already."""
    for cases in _by_test(item for item in items if item.get_closest_marker("each_once")).values():
        kept = {*each_value([*map(ids_of, cases)])}
        yield from (case for place, case in enumerate(cases) if place not in kept)


def left_out(items: Iterable[pytest.Item], part: str) -> Iterator[pytest.Item]:
    """Yield the tests that are not of a part of the suite."""
    for test, cases in _by_test(items).items():
        quick = set[int]() if _is_slow(cases[0]) else {*chosen(test, [*map(ids_of, cases)])}
        for place, case in enumerate(cases):
            if (place in quick) == (part == REST):
                yield case


def _by_test(items: Iterable[pytest.Item]) -> dict[str, list[pytest.Item]]:
    found: dict[str, list[pytest.Item]] = {}
    for item in items:
        found.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return found


def _is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


def ids_of(item: pytest.Item) -> Ids:
    call: Any = getattr(item, "callspec", None)
    return () if call is None else tuple(call._idlist)
