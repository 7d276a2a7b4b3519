"""Whether a process of this machine has ended: what is certain counts, and nothing else."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest

import mcprev
from mcprev.core.store import Store
from mcprev.sharing import processes as module
from mcprev.sharing.leader import run_as_leader
from mcprev.sharing.leases import Lease, is_alive, workers
from mcprev.sharing.processes import process_has_ended, this_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
DESCRIBED: Final = """
import json, sys
from mcprev.sharing.processes import this_process
print(json.dumps(this_process()), flush=True)
sys.stdin.read()
"""


def child(program: str, *arguments: str) -> subprocess.Popen[str]:
    """A process that says something and then waits."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    """Its first line."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> None:
    """Wait for a process that was killed."""
    with process:
        process.kill()


def test_a_leader_has_ended_when_it_was_killed_also_before_its_parent_has_waited_for_it() -> None:
    process = child(DESCRIBED)
    found: Any = __import__("json").loads(said(process))
    assert found[1] == process.pid
    assert not process_has_ended(found)
    os.kill(process.pid, signal.SIGSTOP)
    assert not process_has_ended(found), "one that is suspended has not ended"
    os.kill(process.pid, signal.SIGKILL)
    until = time.monotonic() + 10
    while not process_has_ended(found):
        assert time.monotonic() < until
    assert Path(f"/proc/{process.pid}").exists(), "nobody has waited for it"
    end(process)
    assert process_has_ended(found)


def test_a_process_with_the_number_of_one_that_has_ended_is_another_one() -> None:
    machine, pid, started = this_process()
    assert not process_has_ended([machine, pid, started])
    assert process_has_ended([machine, pid, f"{int(started) - 1}"])


@pytest.mark.parametrize(
    "change", ["machine", "none", "text", "empty", "short", "zero", "negative", "number"]
)
def test_what_cannot_be_told_has_not_ended(change: str) -> None:
    machine, _, started = this_process()
    gone = 2**22 + 1  # no process has so high a number
    assert process_has_ended([machine, gone, started])
    values: dict[str, Any] = {
        "machine": ["another", gone, started],
        "none": None,
        "text": "x",
        "empty": [],
        "short": [machine, gone],
        "zero": [machine, 0, started],
        "negative": [machine, -1, started],
        "number": [machine, "1", started],
    }
    assert not process_has_ended(values[change])


def test_where_the_system_says_nothing_no_leader_has_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine, _, started = this_process()
    monkeypatch.setattr(module, "_ROOT", tmp_path)
    for cached in (module._described, module._machine):
        cached.cache_clear()
    try:
        assert this_process() is None
        assert not process_has_ended([machine, 2**22 + 1, started])
    finally:
        monkeypatch.undo()
        for cached in (module._described, module._machine):
            cached.cache_clear()


def test_a_process_that_another_user_may_not_see_has_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `/proc` hides processes, a signal says whether there is one."""
    machine, pid, started = this_process()
    this_process()

    def hidden(_: int) -> None:
        return None

    monkeypatch.setattr(module, "_looked_up", hidden)
    assert not process_has_ended([machine, pid, started])


HOLDS: Final = """
import asyncio, sys
import mcprev
from mcprev.sharing.leases import Lease
from mcprev.sharing.leader import run_as_leader

async def main():
    store = mcprev.open_store(sys.argv[1])
    lease = await Lease.open(store, ttl=600)
    async def job():
        print(lease.number, flush=True)
        await asyncio.Event().wait()
    await run_as_leader(store, "job", job)

asyncio.run(main())
"""


def test_the_lease_of_a_killed_process_and_its_job_are_over_at_once(tmp_path: Path) -> None:
    """Neither the ten minutes of the lease pass, nor the 15 s of the job."""
    url = f"sqlite:///{tmp_path}/store.db"

    async def main(store: Store, process: subprocess.Popen[str]) -> None:
        number = int(await asyncio.to_thread(said, process))
        own = await Lease.open(store, ttl=600)
        assert await is_alive(store, number)
        assert sorted(await workers(store)) == [number, own.number]
        begun = asyncio.Event()

        async def job() -> None:
            begun.set()

        waiting = asyncio.create_task(run_as_leader(store, "job", job))
        await asyncio.sleep(0.1)
        assert not begun.is_set()
        end(process)
        assert not await is_alive(store, number)
        assert sorted(await workers(store)) == [own.number]
        await asyncio.wait_for(waiting, 10)
        assert begun.is_set()
        await store.aclose()

    process = child(HOLDS, url)
    asyncio.run(main(mcprev.open_store(url), process))


TASK: Final = """
import asyncio, sys
import mcprev
app = mcprev.App("a", "1", tasks=mcprev.Tasks({}, poll_interval=20), store=mcprev.open_store(sys.argv[1]))

@app.tool(task="optional")
async def slow(ctx: mcprev.Context) -> str:
    await ctx.detach()
    await asyncio.sleep(600)
    return "done"

async def main():
    async with mcprev.connect(app) as client:
        print((await client.start_tool("slow")).id, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


def test_a_task_of_a_killed_process_has_failed_as_soon_as_somebody_looks(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"

    async def main(process: subprocess.Popen[str]) -> None:
        task_id = await asyncio.to_thread(said, process)
        app = mcprev.App(
            "a", "1", tasks=mcprev.Tasks({}, poll_interval=20), store=(store := mcprev.open_store(url))
        )
        async with mcprev.connect(app) as client:
            task = await client.task(task_id)
            assert task.status == "working"
            end(process)
            assert await task.refresh() == "failed"
            with pytest.raises(mcprev.RpcError, match="the process that ran the task has ended"):
                await task.result(5)
        await app.server.aclose()
        await store.aclose()

    asyncio.run(main(child(TASK, url)))
