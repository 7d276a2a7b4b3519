"""`make flaky`: the orders that its seeds give, and what it says of tests that fail now and then."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import flaky
from flaky import Failure, Run, ended, plan, table
from helpers.shuffling import shuffled

FILES = [f"tests/test_{number // 5}.py" for number in range(50)]
NOW_AND_THEN = """
import pathlib, pytest

@pytest.mark.parametrize("word", ["a - b", "c"])
def test_once(word):
    pathlib.Path(__file__).with_name("order").open("a").write(word + "\\n")
    assert word != "a - b"

@pytest.fixture
def broken():
    raise OSError

def test_unset(broken): ...
"""


def test_a_seed_gives_the_same_order_again_and_another_seed_another_one() -> None:
    found = shuffled(FILES, 1)
    assert found == shuffled(FILES, 1) != shuffled(FILES, 2)
    assert sorted(found) == list(range(len(FILES))) != found


def test_the_tests_of_a_file_stay_together_in_another_order() -> None:
    found = shuffled(FILES, 1)
    names = [FILES[at] for at in found]
    changes = sum(before != after for before, after in pairwise(names))
    assert changes == len({*FILES}) - 1
    assert names[::5] != FILES[::5]
    assert [at % 5 for at in found] != [at % 5 for at in range(len(FILES))]


def test_every_other_run_has_a_seed_of_its_own() -> None:
    seeds = [run.seed for run in plan(6, 100)]
    assert seeds == [101, None, 103, None, 105, None]


def test_the_table_names_the_runs_and_seeds_of_each_test() -> None:
    first, second = plan(2, 7)
    assert table([Failure("t::b", first), Failure("t::a", second), Failure("t::b", second)]).splitlines() == [
        "| test | failed in run | seed |",
        "|---|---|---|",
        "| `t::b` | 1, 2 | 8, usual order |",
        "| `t::a` | 2 | usual order |",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 3])
def test_a_run_says_which_tests_failed_by_their_whole_names(
    seed: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_it.py").write_text(NOW_AND_THEN, encoding="utf-8")
    monkeypatch.setattr(flaky, "ROOT", tmp_path)
    monkeypatch.setattr(flaky, "BUSY", 0)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    run = Run(1, seed)
    found = ended(run, ["tests"], ["-p", "helpers.shuffling", "-n", "0"])
    names = {"tests/test_it.py::test_once[a - b]", "tests/test_it.py::test_unset"}
    assert {failure.test for failure in found} == names
    assert {*(folder / "order").read_text(encoding="utf-8").split("\n")} >= {"a - b", "c"}


def test_what_fails_outside_of_a_test_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flaky, "ROOT", tmp_path)
    monkeypatch.setattr(flaky, "BUSY", 0)
    (found,) = ended(Run(1, None), ["missing"], ["-p", "helpers.shuffling", "-n", "0"])
    assert "ended with 4" in found.test
