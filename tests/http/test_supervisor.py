"""The supervisor of `mcprev serve --workers`: what it does when workers end, do not start, or are to be replaced.

HTTP-3, LIFE-16. The workers here are small programs, which do what a file says; `test_workers.py` has real ones.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import pytest

from helpers.requirements import req
from helpers.running import run, until
from mcprev.serving import supervisor as supervising
from mcprev.serving.supervisor import Supervisor, WorkerProcess
from mcprev.serving.worker import (
    ABSENT,
    ENVIRONMENT,
    YIELD,
    ConnectionCounts,
    SupervisedWorker,
    WorkerSettings,
    this_worker,
)

WORKER = """
import json, os, signal, socket, sys, time
settings = json.loads(os.environ["MCPREV_WORKER"])
link = socket.socket(fileno=settings["link"])
how = open("how").read().split()
with open("started", "a") as started:
    started.write(f"{settings['number']} {os.getpid()}\\n")
if how[0] == "exit":
    sys.exit(int(how[1]))
if how[0] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGUSR1, lambda *_: sys.exit(3))
if how[0] != "slow":
    link.send(json.dumps({"drain": 0.2}).encode() + b"\\n")
while True:
    if not link.recv(1):
        sys.exit(0)
"""
CRASHES: int = signal.SIGUSR1
"""The signal at which a worker ends with an exit code of its own."""


class Trial:
    """A supervisor of small programs in a folder."""

    def __init__(self, folder: Path, supervisor: Supervisor, running: asyncio.Task[int]) -> None:
        self.folder, self.supervisor, self.running = folder, supervisor, running

    def do(self, how: str) -> None:
        """Say what workers do that start from now on."""
        (self.folder / "how").write_text(how)

    @property
    def started(self) -> list[tuple[int, int]]:
        """The numbers and processes of the workers that have started."""
        file = self.folder / "started"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(int(number), int(pid)) for number, pid in map(str.split, lines)]

    @property
    def workers(self) -> list[WorkerProcess]:
        """The workers that are ready, by number."""
        found = [each for each in self.supervisor._all if each.is_ready]
        return sorted(found, key=lambda each: each.number)

    def pids(self) -> list[int]:
        return [each.process.pid for each in self.workers]

    def signal(self, number: int) -> None:
        os.kill(os.getpid(), number)


@asynccontextmanager
async def trial(
    folder: Path, monkeypatch: pytest.MonkeyPatch, how: str = "ready", count: int = 2
) -> AsyncGenerator[Trial, None]:
    """Run a supervisor in this process, until the block ends."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(supervising, "DELAYS", (0.0, 0.01))
    (folder / "how").write_text(how)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        made = Supervisor([sys.executable, "-S", "-E", "-c", WORKER], listening, count)
        tried = Trial(folder, made, asyncio.create_task(made.run()))
        try:
            yield tried
        finally:
            if not tried.running.done():
                tried.signal(signal.SIGTERM)
            await tried.running
    assert not made._all


def ready(tried: Trial, count: int = 2) -> Callable[[], bool]:
    return lambda: len(tried.workers) == count or tried.running.done()


def has_started(tried: Trial, count: int) -> bool:
    return len(tried.started) == count


async def end_one(tried: Trial, number: int) -> None:
    """Send a signal to the first worker, and wait until another one is ready in its place."""
    count = len(tried.started)
    os.kill(tried.pids()[0], number)
    await until(partial(has_started, tried, count + 1))
    await until(ready(tried))


def delays(caplog: pytest.LogCaptureFixture) -> list[str]:
    """When others started in place of workers, by the log."""
    return [line.rpartition("another one starts ")[2] for line in caplog.messages if "another one" in line]


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_ends_is_replaced(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with trial(tmp_path, monkeypatch) as tried:
            await until(ready(tried))
            first, second = tried.pids()
            os.kill(first, number)
            await until(lambda: len(tried.started) == 3)
            await until(ready(tried))
            assert [each.number for each in tried.workers] == [1, 2]
            assert second in tried.pids()
            assert first not in tried.pids()
            tried.signal(signal.SIGTERM)
            assert await tried.running == 0

    run(main())
    how = (
        "ended with exit code 0"
        if number == signal.SIGTERM
        else f"was ended by {signal.Signals(number).name}"
    )
    assert how in caplog.text


@req("HTTP-3", everywhere=True)
def test_what_does_not_start_ends_the_supervisor_with_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with trial(tmp_path, monkeypatch, "exit 7", count=4) as tried:
            assert await tried.running == 7
            assert len(tried.started) == 1  # its message is there once

    run(main())
    assert "ended with exit code 7 before it was ready: the server does not start" in caplog.text


@req("HTTP-3", everywhere=True)
def test_a_first_worker_that_somebody_kills_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with trial(tmp_path, monkeypatch, "slow") as tried:
            for turn in range(supervising.MAX_FAILURES + 2):
                await until(partial(has_started, tried, turn + 1))
                tried.do("ready" if turn > supervising.MAX_FAILURES else "slow")
                os.kill(tried.started[-1][1], signal.SIGKILL)
            await until(ready(tried))

    run(main())


@req("HTTP-3", everywhere=True)
def test_a_server_that_starts_no_more_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with trial(tmp_path, monkeypatch) as tried:
            await until(ready(tried))
            tried.do("exit 7")
            first, second = tried.pids()
            os.kill(first, signal.SIGKILL)
            await until(lambda: len(tried.started) >= 2 + 2 * supervising.MAX_FAILURES)
            assert not tried.running.done()  # the other one still serves
            os.kill(second, signal.SIGKILL)
            assert await tried.running == supervising.NO_START

    run(main())
    assert "that were not ready: the server shuts down" in caplog.text


@req("HTTP-3", everywhere=True)
def test_delays_grow_and_a_worker_that_worked_is_replaced_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with trial(tmp_path, monkeypatch) as tried:
            monkeypatch.setattr(supervising, "DELAYS", (0.0, 0.001, 0.002))
            await until(ready(tried))
            for stable in (5.0, 5.0, 5.0, 0.0):
                monkeypatch.setattr(supervising, "STABLE", stable)
                await end_one(tried, CRASHES)

    run(main())
    assert delays(caplog) == ["in 0.001 s", "in 0.002 s", "in 0.002 s", "now"]


@req("HTTP-3", everywhere=True)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_delays_do_not_grow_when_something_from_outside_ends_workers_that_were_ready(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with trial(tmp_path, monkeypatch) as tried:
            monkeypatch.setattr(supervising, "DELAYS", (0.0, 0.001, 0.002, 0.003))
            await until(ready(tried))
            for ends in (CRASHES, CRASHES, number, number, CRASHES):
                await end_one(tried, ends)

    run(main())
    assert delays(caplog) == ["in 0.001 s", "in 0.002 s", "in 0.001 s", "in 0.001 s", "in 0.002 s"]


@req("HTTP-3", "LIFE-16", everywhere=True)
def test_a_rolling_restart_replaces_one_worker_after_another_before_it_stops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        most: list[int] = []
        async with trial(tmp_path, monkeypatch, count=3) as tried:
            await until(ready(tried, 3))
            before = set(tried.pids())
            tried.signal(signal.SIGHUP)

            def replaced() -> bool:
                most.append(len(tried.supervisor._all))
                assert len(tried.workers) >= 3
                return not before & {each.process.pid for each in tried.supervisor._all}

            await until(replaced)
            await until(ready(tried, 3))
            assert [number for number, _ in tried.started][3:] == [1, 2, 3]
        assert max(most) == 4

    run(main())


@req("HTTP-3", "LIFE-16", everywhere=True)
@pytest.mark.parametrize(
    ("how", "why"), [("exit 5", "ended with exit code 5"), ("slow", "is not ready after")]
)
def test_a_rolling_restart_goes_no_further_than_what_gets_ready(
    how: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with trial(tmp_path, monkeypatch) as tried:
            await until(ready(tried))
            before = tried.pids()
            monkeypatch.setattr(supervising, "START", 0.3 if how == "slow" else 30)
            tried.do(how)
            tried.signal(signal.SIGHUP)
            await until(lambda: "the old workers keep running" in caplog.text)
            await until(lambda: len(tried.supervisor._all) == 2)
            assert tried.pids() == before
            monkeypatch.setattr(supervising, "START", 30)
            tried.do("ready")
            tried.signal(signal.SIGHUP)
            await until(lambda: "all workers have been replaced" in caplog.text)
            assert not set(before) & set(tried.pids())

    caplog.set_level(logging.INFO, "mcprev.server")
    run(main())
    assert why in caplog.text


@req("HTTP-3", "LIFE-16", everywhere=True)
@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
def test_a_worker_that_does_not_stop_is_killed(
    again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its time, or soon after a second signal."""
    monkeypatch.setattr(supervising, "MARGIN", 60 if again else 0.1)
    monkeypatch.setattr(supervising, "FORCED", 0.1)

    async def main() -> None:
        async with trial(tmp_path, monkeypatch, "deaf") as tried:
            await until(ready(tried))
            tried.signal(signal.SIGTERM)
            if again:
                await until(tried.supervisor._stop_wanted.is_set)
                tried.signal(signal.SIGINT)
            assert await tried.running == 0

    run(main())


@req("HTTP-3", everywhere=True)
def test_a_supervisor_stops_what_has_not_started_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with trial(tmp_path, monkeypatch, "slow") as tried:
            await until(lambda: len(tried.started) == 1)
            began = time.monotonic()
            tried.signal(signal.SIGTERM)
            assert await tried.running == 0
            assert time.monotonic() - began < supervising.MARGIN

    run(main())


@req("HTTP-3", everywhere=True)
def test_only_a_supervisor_makes_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    assert this_worker() is None
    for wrong in (
        "",
        "{}",
        '{"number": 1}',
        "[]",
        "nonsense",
        '{"number":1,"workers":1,"listening":-1,"link":-1,"counts":-1}',
    ):
        monkeypatch.setenv(ENVIRONMENT, wrong)
        with pytest.raises(ValueError, match="is set by the supervisor only"):
            this_worker()
        assert ENVIRONMENT not in os.environ  # of what this process starts, none is a worker


@contextmanager
def worker_of(
    number: int, counts: ConnectionCounts, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SupervisedWorker]:
    """A worker in this process, made as by a supervisor of three."""
    one, two = socket.socketpair()
    settings = WorkerSettings(
        number=number,
        workers=3,
        listening=one.detach(),
        link=two.detach(),
        counts=os.dup(counts.descriptor),
        reports=True,
    )
    monkeypatch.setenv(ENVIRONMENT, settings.environment()[ENVIRONMENT])
    worker = this_worker()
    assert worker is not None
    assert worker.settings == settings
    yield worker
    worker.listening.close()
    worker._link.close()
    worker._counts.close()


@req("HTTP-3", everywhere=True)
def test_a_worker_lets_those_accept_that_have_fewer_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = ConnectionCounts.made(3)
    with worker_of(1, counts, monkeypatch) as first, worker_of(2, counts, monkeypatch) as second:
        assert first.wait(0) == first.wait(5) == 0  # there is no other yet
        assert second.wait(5) == 0
        assert second.wait(6) == YIELD
        assert first.wait(5) == 0
        counts.set(3, 0)
        assert first.wait(5) == YIELD
        counts.set(3, ABSENT)  # as the supervisor does when a worker has ended
        assert first.wait(6) == 0
        second.accepts_no_more()
        assert first.wait(100) == 0
    counts.close()


@req("HTTP-3", everywhere=True)
def test_a_worker_that_has_ended_is_waited_for_by_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with trial(tmp_path, monkeypatch) as tried:
            await until(ready(tried))
            counts = tried.supervisor._counts
            counts.set(1, 3)
            counts.set(2, 7)
            assert counts.fewest() == 3
            os.kill(tried.pids()[0], signal.SIGKILL)
            await until(lambda: counts.fewest() == 7)

    run(main())
