"""`PYTHONPATH=tests python -m chaos --seconds 60`, or `make chaos`: what clients see while workers and store are killed.

200 clients call one server of 4 workers. One worker is killed every 2 s (SIGKILL), one is told to stop every 5 s (SIGTERM).
With `--store redis`, Redis is killed once and started again, and paused for 5 s once; with `--store sqlite`, all processes
are killed at once every 15 s, and the server starts again. Without `--store`, it is both, one after the other. With
`--calm`, nothing is disturbed, and then no call may fail at all. With `--through haproxy`, HAProxy stands between, with the
configuration of docs/deploy.md, and 20 more clients are idle for 60 s between two requests on a connection: each of these
has a response, and a 502 only while a process is killed.

No answer may come to another client, no numbered message may be missing or doubled, no call may happen twice, each call that
fails must say whether it may be repeated, no task and no call may hang, no state may be lost, and the memory of workers,
supervisor and store must stay flat. The exit code is 1 if anything of this was seen.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, closing, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import aiohttp
import redis.asyncio
from redis.exceptions import RedisError

from chaos.clients import LIMIT, TASK_LIMIT, ChaosClient, IdleClient, Tally
from helpers.balancers import BALANCERS, Balancer
from helpers.redis_server import RedisServer
from helpers.served_workers import ServedWorkers, free_port, served
from mcprev.revisions import DEFAULT, LATEST

APP: Final = Path(__file__).parent / "app.py"
WORKERS: Final = 4
KILL: Final = 2.0
"""Seconds between two workers that are killed."""
STOP: Final = 5.0
"""Seconds between two workers that are told to stop."""
ALL: Final = 15.0
"""Seconds between two times that everything is killed."""
IDLE: Final = 20
"""Clients of a balancer that seldom ask."""
PAUSE: Final = 5.0
"""Seconds for which Redis is paused."""
SHARED: Final = find_spec("mcprev.sharing") is not None
"""Whether sessions are shared by workers, so that clients of all revisions take part."""
ROWS: Final = tuple(row for row in DEFAULT if not row.handshake or SHARED)
KEPT: Final = 300.0
"""Seconds for which the store keeps a stream after its end."""
MESSAGE: Final = 1024
"""The bytes of a numbered message in a store, at most."""
EXCEPTION: Final = re.compile(r"[A-Za-z_.]+(Error|Exception|Lost|Group)\b")
"""The last line of a traceback."""
MEGABYTE: Final = 1024 * 1024
Disturbance = Callable[[], Coroutine[Any, Any, None]]


@dataclass
class Memory:
    """The memory of one kind of process, or of a store, in bytes, second by second."""

    samples: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])

    def add(self, at: float, size: int) -> None:
        """Keep a sample, at a part of the run."""
        self.samples.append((at, size))

    def third(self, number: int) -> int:
        """The most in a third of the run: workers that have just started have little."""
        return max((size for at, size in self.samples if number / 3 <= at < (number + 1) / 3), default=0)


def resident(pid: int) -> int:
    """The memory of a process; 0 if it has ended."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )
    return 0


class Chaos:
    """One run."""

    def __init__(
        self,
        store: str,
        folder: Path,
        seconds: float,
        seed: int,
        *,
        calm: bool = False,
        through: Balancer | None = None,
    ) -> None:
        self.through = through
        self.store, self.folder, self.seconds, self.calm = store, folder, seconds, calm
        self.redis = (
            RedisServer("--appendonly", "yes", "--appendfsync", "always") if store == "redis" else None
        )
        self.tally = Tally()
        self.disturbed: Counter[str] = Counter()
        self.memory = {name: Memory() for name in ("worker", "supervisor", "store")}
        self.held: list[str] = []
        """What the store held at the start, in the middle, at the end, and when all clients were gone."""
        self._random = random.Random(seed)  # noqa: S311 - not for a secret
        self._stack = AsyncExitStack()
        self._stop = asyncio.Event()
        self._up = False
        self._port = free_port()
        self._front = free_port() if through else self._port
        self._journal = folder / "journal"
        self._journal.touch()
        self.server: ServedWorkers

    @property
    def url(self) -> str:
        return self.redis.url() if self.redis else f"sqlite:///{self.folder}/store.db"

    async def start(self) -> None:
        """Start the server at its port."""
        target = f"{APP}:{'with_sessions' if SHARED else 'app'}"
        environment = {"CHAOS_JOURNAL": str(self._journal), "MCPREV_STORE": self.url}
        options = ("--health", "--sse", "--log-level", "warning")
        self.server = await self._stack.enter_async_context(
            served(target, WORKERS, *options, port=self._port, environment=environment, wait=False)
        )
        await self.answers()

    async def answers(self) -> None:
        """Wait until a worker answers; the first one is left in peace until then."""
        self._up = False
        async with asyncio.timeout(2 * LIMIT), aiohttp.ClientSession() as http:
            while not self._up:
                with suppress(aiohttp.ClientError):
                    async with http.get(f"http://127.0.0.1:{self._port}/healthz") as answer:
                        self._up = answer.status == 200
                await asyncio.sleep(0.1)

    async def stand_between(self) -> None:
        """Let clients go through the balancer, if there is one."""
        if self.through is not None:
            text = self.through.plain(self._front, [f"127.0.0.1:{self._port}"])
            await self._stack.enter_async_context(self.through.run(self.folder, text))

    def workers(self) -> list[int]:
        """The processes of the workers that there are now."""
        pid = self.server.process.pid
        with suppress(OSError):
            return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return []

    # -- disturbances --------------------------------------------------------------------------------------

    async def signal_one(self, number: signal.Signals) -> None:
        """Send a signal to one worker."""
        found = self.workers() if self._up else []
        if found:
            if number is signal.SIGKILL:
                self.tally.kills.append(time.monotonic())
            with suppress(ProcessLookupError):
                os.kill(self._random.choice(found), number)
            self.disturbed[f"workers: {number.name}"] += 1

    async def kill_all(self) -> None:
        """Kill every process, and start the server again."""
        everything = [self.server.process.pid, *self.workers()]
        self.tally.kills.append(time.monotonic())
        for pid in everything:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.disturbed["everything killed"] += 1
        await self.server.ended()
        await self.start()

    async def restart_redis(self) -> None:
        """Kill Redis, and start it again."""
        assert self.redis is not None
        await asyncio.to_thread(self.redis.kill)
        await asyncio.sleep(1)
        await asyncio.to_thread(self.redis.start)
        self.disturbed["Redis killed and started"] += 1

    async def pause_redis(self) -> None:
        """Stop the process of Redis for some seconds."""
        assert self.redis is not None
        self.redis.pause()
        await asyncio.sleep(PAUSE)
        self.redis.go_on()
        self.disturbed[f"Redis paused for {PAUSE:g} s"] += 1

    async def _stops_within(self, seconds: float) -> bool:
        """Wait, and return whether the run has ended meanwhile."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)
        return self._stop.is_set()

    async def _every(self, seconds: float, disturb: Disturbance) -> None:
        while not await self._stops_within(seconds):
            await disturb()

    async def _at(self, seconds: float, disturb: Disturbance) -> None:
        if not await self._stops_within(seconds):
            await disturb()

    async def _measure(self) -> None:
        began = time.monotonic()
        while not await self._stops_within(0.5):
            at = (time.monotonic() - began) / self.seconds
            with suppress(OSError):
                self.memory["worker"].add(at, max(map(resident, self.workers()), default=0))
            self.memory["supervisor"].add(at, resident(self.server.process.pid))
            if self.redis:
                self.memory["store"].add(at, resident(self.redis._pid))
            else:
                size = sum(file.stat().st_size for file in self.folder.glob("store.db*"))
                self.memory["store"].add(at, size)

    async def _look(self) -> None:
        """Note what the store holds."""
        try:
            if self.redis:
                connected: Any = redis.asyncio.Redis(unix_socket_path=f"{self.redis.folder}/socket")
                async with connected as client:
                    number, memory = await client.dbsize(), await client.info("memory")
                    size = int(memory["used_memory"])
            else:
                with closing(sqlite3.connect(f"file:{self.folder}/store.db?mode=ro", uri=True)) as db:
                    counts = "SELECT (SELECT count(*) FROM {}) + (SELECT count(*) FROM {}) + (SELECT count(*) FROM {})"
                    (number,) = db.execute(counts.format("records", "logs", "items")).fetchone()
                size = sum(file.stat().st_size for file in self.folder.glob("store.db*"))
        except (OSError, sqlite3.Error, RedisError) as error:
            self.held.append(f"unknown ({type(error).__name__})")
        else:
            self.held.append(f"{number} in {size / MEGABYTE:.1f} MiB")

    # -- the run -------------------------------------------------------------------------------------------

    async def run(self, clients: int) -> None:
        """Run the clients and the disturbances, then wait until all is quiet, and check what is left."""
        if self.redis:
            await asyncio.to_thread(self.redis.start)
        async with self._stack:
            await self.start()
            await self.stand_between()
            await self._look()
            url = f"http://127.0.0.1:{self._front}/mcp"
            callers: list[ChaosClient | IdleClient] = [
                ChaosClient(number, ROWS[number % len(ROWS)], url, self.tally) for number in range(clients)
            ]
            if self.through is not None:
                callers += [IdleClient(url, self.tally, number) for number in range(IDLE)]
            calling = [asyncio.create_task(caller.run(self._stop)) for caller in callers]
            disturbing = [asyncio.create_task(each) for each in self._disturbances()]
            await asyncio.sleep(self.seconds / 2)
            await self._look()
            await asyncio.sleep(self.seconds / 2)
            await self._look()
            self._stop.set()
            await asyncio.gather(*disturbing)
            _, late = await asyncio.wait(calling, timeout=LIMIT + TASK_LIMIT)
            for task in late:
                self.tally.wrong.append(f"a client hangs: {task!r}")
                task.cancel()
            await self._look()
            self._check_journal()
            self._check_memory()
            if self.calm:
                self.tally.check("calls failed although nothing was disturbed", right=not self.tally.failed)
            self.server.send(signal.SIGTERM)
            code = await self.server.ended()
            self.tally.check(f"the exit code is {code}: {self.server.said}", right=code == 0)
            self._check_log()

    def _disturbances(self) -> list[Coroutine[Any, Any, None]]:
        if self.calm:
            return [self._measure()]
        several: list[Coroutine[Any, Any, None]] = [
            self._measure(),
            self._every(KILL, lambda: self.signal_one(signal.SIGKILL)),
            self._every(STOP, lambda: self.signal_one(signal.SIGTERM)),
        ]
        if self.redis:
            several += [
                self._at(self.seconds / 3, self.restart_redis),
                self._at(self.seconds * 2 / 3, self.pause_redis),
            ]
        else:
            several.append(self._every(ALL, self.kill_all))
        return several

    def _check_log(self) -> None:
        """Check that no worker failed but for its store."""
        for line, following in pairwise([*self.server.lines, "2"]):
            ends = following[:1] == "2"  # the date of the next line of the log
            if ends and EXCEPTION.match(line):
                self.tally.check(f"the server logged {line}", right="StoreError" in line)

    def _check_journal(self) -> None:
        """Check that each call of `add` happened as often as its client was told."""
        happened = Counter(self._journal.read_text(encoding="utf-8").split())
        for token, (least, most) in self.tally.added.items():
            self.tally.check(
                f"{token} happened {happened[token]} times, not {least} to {most}",
                right=least <= happened[token] <= most,
            )
        self.tally.check("calls that nobody made", right=not happened.keys() - self.tally.added.keys())

    def _check_memory(self) -> None:
        """Check that no memory grows from the second third of the run to the last one."""
        for name, memory in self.memory.items():
            before, after = memory.third(1), memory.third(2)
            # Messages of streams are kept for some time, in which their client may come for them.
            kept = self.tally.messages * MESSAGE if name == "store" and self.seconds < 3 * KEPT else 0
            self.tally.check(
                f"the memory of the {name} grows from {before / MEGABYTE:.1f} to {after / MEGABYTE:.1f} MiB",
                right=after <= 1.25 * before + 4 * MEGABYTE + kept,
            )

    def report(self) -> bool:
        """Print what was seen; return whether it is as it must be."""
        tally = self.tally
        through = f" through {self.through.name}" if self.through else ""
        print(f"{self.store}{through}, {self.seconds:g} s, revisions: {', '.join(row.name for row in ROWS)}")
        print(f"  disturbed: {', '.join(f'{what} {n}' for what, n in sorted(self.disturbed.items()))}")
        print(f"  right answers: {tally.done.total()}; numbered messages: {tally.messages}")
        for what, number in sorted(tally.done.items()):
            print(f"    {number:>6} {what}")
        print(f"  typed failures: {tally.failed.total()}")
        for what, number in sorted(tally.failed.items()):
            print(f"    {number:>6} {what}")
        for name, memory in self.memory.items():
            thirds = ", ".join(f"{memory.third(number) / MEGABYTE:.1f}" for number in range(3))
            print(f"  memory of the {name}, at most, MiB in each third: {thirds}")
        print(
            f"  held by the store at the start, in the middle, at the end, after it: {'; '.join(self.held)}"
        )
        print(f"  wrong: {len(tally.wrong)}")
        for text in tally.wrong[:20]:
            print(f"    {text[:2000]}")
        return not tally.wrong


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(prog="python -m chaos")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each store; 60 by default")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--store", choices=["redis", "sqlite"], action="append")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calm", action="store_true", help="disturb nothing; then no call may fail")
    parser.add_argument("--through", choices=[each.name for each in BALANCERS])
    options = parser.parse_args()
    through = next((each for each in BALANCERS if each.name == options.through), None)
    if through is not None and through.binary is None:
        parser.error(f"there is no {through.name} here: `make nginx` unpacks Debian's")
    right = True
    for store in options.store or ["redis", "sqlite"]:
        with tempfile.TemporaryDirectory(prefix="mcprev-chaos-") as folder:
            chaos = Chaos(
                store, Path(folder), options.seconds, options.seed, calm=options.calm, through=through
            )
            try:
                asyncio.run(chaos.run(options.clients))
            finally:
                if chaos.redis:
                    chaos.redis.end()
            right = chaos.report() and right
            if not chaos.tally.done.total():
                print("  nothing was answered")
                right = False
    assert LATEST in ROWS
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
