"""A plugin of pytest for `make flaky`: `--shuffle SEED` runs the tests in another order, `--failures-to FILE` says which failed.

The files are shuffled, and the tests of each file: what a file sets up once is set up once.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in the order of this seed")
    parser.addoption("--failures-to", metavar="FILE", help="write down which tests failed, one in a line")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Shuffle after all others have ordered them; each process of several has the same order."""
    yield
    seed: int | None = config.getoption("--shuffle")
    if seed is not None:
        files = [item.nodeid.partition("::")[0] for item in items]
        items[:] = [items[at] for at in shuffled(files, seed)]


def shuffled(files: Sequence[str], seed: int) -> list[int]:
    """The order in which the tests of these files run, as places in the list."""
    chance = random.Random(seed)  # noqa: S311 - an order, no secret
    groups: dict[str, list[int]] = {}
    for at, file in enumerate(files):
        groups.setdefault(file, []).append(at)
    names = sorted(groups)
    chance.shuffle(names)
    for name in names:
        chance.shuffle(groups[name])
    return [at for name in names for at in groups[name]]


def pytest_terminal_summary(config: pytest.Config, terminalreporter: pytest.TerminalReporter) -> None:
    """Write down which tests failed; the process of several that reports knows those of all."""
    target: str | None = config.getoption("--failures-to")
    if target is not None:
        reports = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
        names = dict.fromkeys(report.nodeid for report in reports)
        Path(target).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
