"""A plugin of pytest that decides which tests of a run in several processes begin first.

xdist gives each process a share of the tests, one after another, and what a process does not get to in time others take
from the end of its share. So the first share begins with the tests that wait, which one process runs while the others
keep the processors busy, and every other share with tests that take long, after which there is always enough to take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

WAITING: Final = (
    "bridge/test_several_real_processes.py",
    "bridge/test_several_chaos.py",
    "bridge/test_processes.py",
    "interop/test_balancers_tls.py",
    "interop/test_balancers.py",
    "bridge/test_spread_tasks.py",
    "http/test_shared_sessions.py",
    "bridge/test_shared_name.py",
    "bridge/test_several_processes.py",
    "auth/test_client_shared_stores.py",
    "http/test_stopping.py",
    "http/test_workers.py",
    "stores/test_shared_tasks.py",
    "faults/test_killed_server.py",
    "faults/test_killed_client.py",
)
"""Files in tests/ whose tests wait most of the time, for other processes and for time limits."""
LONG: Final = (
    "explore/test_site.py",
    "codegen/hostile/test_schemas.py",
    "codegen/test_kinds.py",
    "codegen/hostile/test_size.py",
    "codegen/build/test_pipeline.py",
    "faults/test_a_thousand.py",
    "http/test_client_faults.py",
)
"""Files in tests/ with tests that take many seconds of a processor."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests, in the processes of a run in several."""
    worker: Mapping[str, int] | None = getattr(config, "workerinput", None)
    if worker is not None:
        files = [item.nodeid.partition("::")[0].removeprefix("tests/") for item in items]
        items[:] = [items[at] for at in order(files, int(worker["workercount"]))]


def order(files: Sequence[str], processes: int) -> list[int]:
    """The order in which the tests of these files run, as places in the list."""
    groups: dict[str, list[int]] = {}
    for at, file in enumerate(files):
        groups.setdefault(file, []).append(at)
    waiting, *heads = (
        [at for file in share for at in groups.pop(file, ())]
        for share in (WAITING, *(LONG[number :: processes - 1] for number in range(processes - 1)))
    )
    rest = [at for group in groups.values() for at in group]
    found: list[int] = []
    for number, head in enumerate((waiting, *heads)):
        room = (len(files) - len(found)) // (processes - number) - len(head)
        found += [*head, *rest[: max(room, 0)]]
        del rest[: max(room, 0)]
    return [*found, *rest]
