"""`make flaky`: runs the suite many times and says which tests failed, in which run, with which seed.

Every other run is in a random order, beside a busy loop for each of two cores.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
BUSY: Final = 2
"""The number of busy loops beside a run in random order."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the suite."""

    number: int
    seed: int | None
    """None: in the usual order, with nothing beside it."""

    def __str__(self) -> str:
        return (
            f"run {self.number}, in the usual order"
            if self.seed is None
            else f"run {self.number}, seed {self.seed}"
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """A test that failed in a run."""

    test: str
    run: Run


def plan(runs: int, seed: int) -> list[Run]:
    """The runs: every other one in an order of its own, which its seed gives again."""
    return [Run(number, seed + number if number % 2 else None) for number in range(1, runs + 1)]


def table(failures: Sequence[Failure]) -> str:
    """The tests that failed, those that failed most often first."""
    found: dict[str, list[Run]] = {}
    for failure in failures:
        found.setdefault(failure.test, []).append(failure.run)
    lines = ["| test | failed in run | seed |", "|---|---|---|"]
    for test, runs in sorted(found.items(), key=lambda each: (-len(each[1]), each[0])):
        numbers = ", ".join(str(run.number) for run in runs)
        seeds = ", ".join("usual order" if run.seed is None else str(run.seed) for run in runs)
        lines.append(f"| `{test}` | {numbers} | {seeds} |")
    return "\n".join(lines)


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep as many cores busy."""
    beside = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in beside:
            process.kill()
            process.wait()


def ended(run: Run, tests: Sequence[str], options: Sequence[str]) -> list[Failure]:
    """Run the tests once. What fails outside a test is named by the exit code of pytest."""
    with tempfile.TemporaryDirectory() as folder, busy(0 if run.seed is None else BUSY):
        failed = Path(folder, "failed")
        order = [] if run.seed is None else [f"--shuffle={run.seed}"]
        words = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal"]
        done = subprocess.run(
            [*words, f"--failures-to={failed}", *order, *options, *tests], cwd=ROOT, check=False
        )
        names = failed.read_text(encoding="utf-8").splitlines() if failed.exists() else []
    if not names and done.returncode:
        names = [f"(pytest ended with {done.returncode})"]
    return [Failure(name, run) for name in names]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="that of run N is SEED + N")
    parser.add_argument("tests", nargs="*", default=["tests"], help="folders, files or names of tests")
    asked, options = parser.parse_known_args()
    failures = list[Failure]()
    for run in plan(asked.runs, asked.seed):
        print(f"\n== {run}", flush=True)
        found = ended(run, asked.tests, options)
        failures += found
        for failure in found:
            print(f"FAILED in {run}: {failure.test}", flush=True)
    if not failures:
        print(f"\nno test failed in {asked.runs} runs, seed {asked.seed}")
        return 0
    print(f"\n{table(failures)}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
