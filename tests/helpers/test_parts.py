"""The parts of the suite: what `make test` runs and what `make rest` runs are all tests, and none twice."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from helpers import parts

TESTS: Final = Path(__file__).parents[1]


@pytest.mark.parametrize("number", range(8))
def test_few_cases_have_as_many_values_as_they_can(number: int) -> None:
    cases = [*product("ab", "vwxyz", ["json", "sse", "none"])]
    found = [cases[place] for place in parts.chosen(f"test_{number}", cases)]
    assert len(found) == parts.MOST
    assert [len({*axis}) for axis in zip(*found, strict=True)] == [2, 3, 3]


def test_other_tests_run_other_cases() -> None:
    cases = [(each,) for each in "abcdef"]
    found = {place for number in range(20) for place in parts.chosen(f"test_{number}", cases)}
    assert found == {*range(6)}


def test_a_case_more_changes_few_others() -> None:
    cases = [(f"{each}",) for each in range(100)]
    before, after = ({*parts.chosen("test", some)} for some in (cases[:-1], cases))
    assert len(before & after) >= parts.MOST - 1


def test_of_each_value_each_is_there() -> None:
    cases = [*product("ab", "vwxyz")]
    found = [cases[place] for place in parts.each_value(cases)]
    assert [{*axis} for axis in zip(*found, strict=True)] == [{*"ab"}, {*"vwxyz"}]
    assert len(found) < len(cases)


@pytest.mark.slow
def test_the_parts_are_the_whole_and_have_nothing_in_common() -> None:
    """Of modules with `each_once`, with tests that are slow, and with a rule of their own."""
    files = ("http/test_workers_again.py", "http/test_stopping.py", "app/test_features_together.py")
    whole, quick, rest = (_collected(*files, *part) for part in ([], ["--part", "quick"], ["--part", "rest"]))
    assert not quick & rest
    assert quick | rest == whole
    assert quick < whole


def _collected(*words: str) -> set[str]:
    """Return the names of the tests that pytest would run."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0"]
    done = subprocess.run([*command, *words], cwd=TESTS, check=True, capture_output=True, text=True)
    return {line for line in done.stdout.splitlines() if "::" in line}
