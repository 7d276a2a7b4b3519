"""A run in several processes begins with the tests that wait, in one of them, and with those that take long in others."""

from __future__ import annotations

import pytest

from helpers.ordering import LONG, WAITING, order
from helpers.support import ROOT


@pytest.mark.parametrize("processes", range(1, 5))
@pytest.mark.parametrize("others", [0, 1, 7, 300])
def test_every_test_runs_once(processes: int, others: int) -> None:
    files = [*(f"test_{n // 3}.py" for n in range(others)), *LONG, *WAITING, *WAITING]
    found = order(files, processes)
    assert sorted(found) == list(range(len(files)))
    assert [files[at] for at in found[: 2 * len(WAITING)]] == [file for file in WAITING for _ in range(2)]


def test_each_share_but_the_first_begins_with_tests_that_take_long() -> None:
    files = [*(f"test_{n}.py" for n in range(600)), *LONG, *WAITING]
    found = [files[at] for at in order(files, 3)]
    first = len(files) // 3
    second = first + (len(files) - first) // 2
    assert found[first : first + len(LONG[::2])] == list(LONG[::2])
    assert found[second : second + len(LONG[1::2])] == list(LONG[1::2])


def test_the_tests_of_a_file_stay_together_in_their_order() -> None:
    files = ["test_b.py", WAITING[1], "test_a.py", WAITING[0], WAITING[1]]
    assert order(files, 1) == [3, 1, 4, 0, 2]


def test_the_files_are_there() -> None:
    assert not [name for name in (*WAITING, *LONG) if not (ROOT / "tests" / name).is_file()]
