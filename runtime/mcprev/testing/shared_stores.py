"""What every store must do that several processes share, as tests; see `mcprev.testing.stores`."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from mcprev.core.store import LogBounds, LogItem, Store
from mcprev.platforms import HERE
from mcprev.sharing.leases import Lease, workers
from mcprev.testing.store_models import KEPT, ROUNDS, TIME_OF_TEST, count_up
from mcprev.testing.stores import StoreContract

_WORKERS: Final = 2


class SharedStoreContract(StoreContract):
    """What a store must do that several processes share."""

    def test_several_processes_share_it(self, tmp_path: Path) -> None:
        """Processes count together, append to one log whose reader they wake, and get numbers that differ."""

        async def main() -> None:
            async with self._opened(tmp_path, 1) as (store,):
                children = [self._child(tmp_path, "work") for _ in range(_WORKERS)]
                found: list[tuple[int, bytes]] = []
                while len(found) < _WORKERS * ROUNDS:
                    tail = await store.tail("log", len(found), wait=20)
                    assert tail.items, "nobody was woken"
                    found += tail.items
                for child in children:
                    await asyncio.to_thread(child.communicate, timeout=TIME_OF_TEST)
                    assert child.returncode == 0
                assert [number for number, _ in found] == [*range(1, _WORKERS * ROUNDS + 1)]
                assert len({value for _, value in found}) == len(found)
                counted = await store.read("count")
                assert counted is not None
                assert counted.value == b"%d" % (_WORKERS * ROUNDS)
                numbers = sorted(number for _, value in found for number in json.loads(value)["leases"])
                assert sorted({*numbers}) == [*range(1, 2 * _WORKERS + 1)]
                leases = [key for key, _ in await store.listed("workers")]
                assert len(leases) == 2 * _WORKERS
                alive = await workers(store)  # their processes have ended, which Linux tells at once
                assert {int(key.rpartition("/")[2]) for key in leases} >= alive.keys()

        self._run(main)

    def test_it_can_be_used_after_a_fork(self, tmp_path: Path) -> None:
        """A process that has used the store forks; parent and children go on, each with its own connection."""
        if HERE.fork is None:
            return  # there are no such processes
        child = self._child(tmp_path, "fork")
        said, _ = child.communicate(timeout=TIME_OF_TEST)
        assert child.returncode == 0
        assert json.loads(said) == {"count": 40, "inherited leases": [False, False], "own lease": True}

    def test_what_a_killed_process_wrote_is_there(self, tmp_path: Path) -> None:
        """All that a process was told is written survives its end by SIGKILL, and others go on at once."""
        child = self._child(tmp_path, "write")
        assert child.stdout is not None
        told = [int(child.stdout.readline()) for _ in range(50)]
        child.kill()
        told += [int(line) for line in child.stdout.read().splitlines(keepends=True) if line.endswith(b"\n")]
        child.stdout.close()
        child.wait(TIME_OF_TEST)

        async def main() -> None:
            async with self._opened(tmp_path, 1) as (store,):
                found = await store.read("key")
                assert found is not None
                tail = await store.tail("log", 0)
                assert [number for number, _ in tail.items] == [*range(1, tail.last + 1)]
                assert told[-1] <= int(found.value) <= tail.last <= told[-1] + 1
                assert await store.write("key", b"1", seen=found.version) is not None
                assert await store.append("log", [LogItem(b"1")], bounds=_BROAD) == tail.last + 1

        self._run(main)

    def _child(self, folder: Path, job: str) -> subprocess.Popen[bytes]:
        """Start a process that does a job with a store of the same place."""
        kind = type(self)
        return subprocess.Popen(
            [sys.executable, "-m", __name__, inspect.getfile(kind), kind.__qualname__, str(folder / "store"), job],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip


_BROAD: Final = LogBounds(ttl=60, items=1_000_000, size=100_000_000)


# -- what other processes do -------------------------------------------------------------------------------------


async def _work(store: Store) -> None:
    leases = [(await Lease.open(store, ttl=60)).number for _ in range(2)]
    for number in range(ROUNDS):
        await count_up(store, "count", 1)
        item = LogItem(json.dumps({"leases": leases, "process": os.getpid(), "item": number}).encode())
        assert await store.append("log", [item], bounds=KEPT) is not None


async def _write(store: Store) -> None:
    for number in range(1, 1_000_000):
        await store.append("log", [LogItem(b"x" * 100)], bounds=_BROAD)
        await store.write("key", b"%d" % number, ttl=60)
        print(number, flush=True)  # noqa: T201 - its parent reads it


def _fork(store: Store, fork: Callable[[], int]) -> None:
    """Use a store, fork twice, and use it in all three processes."""
    leases: list[Lease] = []

    async def begin() -> None:
        await count_up(store, "count", 10)
        leases.append(await Lease.open(store))

    async def use() -> bool:
        renewed = await leases[0].renew()
        await count_up(store, "count", 10)
        return renewed

    with asyncio.Runner() as loop:
        loop.run(begin())
        children: list[int] = []
        for _ in range(2):
            child = fork()
            if child == 0:
                code = 1
                try:
                    code = 10 + asyncio.run(use())
                finally:
                    os._exit(code)
            children.append(child)
        own = loop.run(use())
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        inherited = [bool({10: 0, 11: 1}[code]) for code in codes]
        found = loop.run(store.read("count"))
        count = 0 if found is None else int(found.value)
        said = {"count": count, "inherited leases": inherited, "own lease": own}
        print(json.dumps(said))  # noqa: T201 - its parent reads it
        loop.run(store.aclose())


def _main(file: str, name: str, place: str, job: str) -> None:
    """Do a job with the store of a contract class."""
    spec = importlib.util.spec_from_file_location(
        f"contract_{hashlib.sha256(file.encode()).hexdigest()}", file
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    contract: Any = module
    for part in name.split("."):
        contract = getattr(contract, part)
    store: Store = contract().store(place)
    if job == "fork":
        assert HERE.fork is not None
        _fork(store, HERE.fork)
        return

    async def main() -> None:
        await {"work": _work, "write": _write}[job](store)
        await store.aclose()

    asyncio.run(main())


if __name__ == "__main__":
    _main(*sys.argv[1:])
