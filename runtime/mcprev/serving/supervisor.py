"""Runs a server in several processes, its workers, and keeps their number (HTTP-3, LIFE-16).

The supervisor owns the listening socket and starts each worker with the command line of this process; it imports nothing
of the server. The workers inherit the socket and accept connections from its one queue, so that no connection is lost
when one of them ends, as it would be with a socket for each (SO_REUSEPORT).

- A worker that ends is replaced: at once if it has worked for `STABLE` seconds; soon if it was ready and something from
  outside ended it; else after a delay that grows.
- SIGHUP replaces all workers, one after another; the old one is told to stop when the new one is ready.
- SIGTERM and SIGINT stop all workers: each has the `drain` of its server. A second signal waits for no call.
- If the first worker exits before it is ready, or no worker runs and `MAX_FAILURES` in a row did, the supervisor gives up.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from mcprev.platforms import HERE
from mcprev.serving.worker import ABSENT, ConnectionCounts, WorkerSettings

STABLE: Final = 5.0
"""Seconds after which a worker that was ready counts as having worked."""
DELAYS: Final = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Seconds until the next worker starts, by the number of those of its place that failed one after another."""
MAX_FAILURES: Final = 5
"""Workers that do not start, one after another and while no other works, after which the supervisor gives up."""
START: Final = 60.0
"""Seconds after which a worker that is not ready is logged, or given up if another one still serves in its place."""
MARGIN: Final = 10.0
"""Seconds beyond its `drain` after which a worker that was told to stop is killed."""
FORCED: Final = 5.0
"""Seconds that workers have to stop after a second signal."""
KILLED: Final = (-HERE.kill_signal, -signal.SIGTERM)
NO_START: Final = 1
"""The exit code of a supervisor that gives up."""
_logger: Final = logging.getLogger("mcprev.server")


class WorkerProcess:
    """A worker, as its supervisor sees it."""

    def __init__(self, number: int, process: asyncio.subprocess.Process, link: socket.socket) -> None:
        self.number = number
        self.process = process
        self.drain: float = 0.0
        """Seconds that its server lets calls finish."""
        self.since: float = 0.0
        """The time at which it became ready."""
        self.told_to_stop: bool = False
        self._link = link
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[bool] = loop.create_future()
        """Whether it became ready, once it has or has ended."""
        self._hearing = loop.create_task(self._hear())
        self.ended: asyncio.Task[int] = loop.create_task(self._end())
        """Its exit code; `ready` is done before."""

    async def _hear(self) -> None:
        """Wait until it says that it is ready."""
        loop, said = asyncio.get_running_loop(), b""
        while not said.endswith(b"\n"):
            part = await loop.sock_recv(self._link, 1024)
            if not part:
                return
            said += part
        self.drain, self.since = float(json.loads(said)["drain"]), loop.time()
        self.ready.set_result(True)

    async def _end(self) -> int:
        code = await self.process.wait()
        self._hearing.cancel()
        await asyncio.wait({self._hearing})
        self._link.close()
        if not self.ready.done():
            self.ready.set_result(False)
        return code

    @property
    def is_ready(self) -> bool:
        """Whether it is ready and has not ended."""
        return self.ready.done() and self.ready.result() and not self.ended.done()

    @property
    def was_killed(self) -> bool:
        """Whether it has ended because somebody else wanted that, such as a system without memory."""
        return self.process.returncode in KILLED

    def signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.process.returncode is None:
            self.process.send_signal(number)

    def stop(self) -> None:
        """Tell it to stop."""
        self.told_to_stop = True
        self.signal(signal.SIGTERM)

    @property
    def how_it_ended(self) -> str:
        """How it ended, for the log."""
        code = self.ended.result()
        try:
            return (
                f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
            )
        except ValueError:
            return f"was ended by signal {-code}"

    def __str__(self) -> str:
        return f"worker {self.number} (process {self.process.pid})"


class Supervisor:
    """Keeps a number of workers running."""

    def __init__(
        self,
        command: Sequence[str],
        listening: socket.socket,
        workers: int,
        *,
        environment: Mapping[str, str] | None = None,
        ended: Callable[[int], object] = int,
    ) -> None:
        """`command` starts a worker, with `environment` beside that of this process; `ended` is told each that has ended."""
        self._command = command
        self._listening = listening
        self._count = workers
        self._environment = environment or {}
        self._tell_end = ended
        self._counts = ConnectionCounts.made(workers)
        self._current: dict[int, WorkerProcess] = {}
        """The worker at each place."""
        self._all: set[WorkerProcess] = set()
        """All workers that have not ended."""
        self._failures = 0
        """Workers in a row that did not start."""
        self._roll_wanted: asyncio.Event = asyncio.Event()
        self._stop_wanted: asyncio.Event = asyncio.Event()
        self._force_wanted: asyncio.Event = asyncio.Event()
        self._code = 0

    async def run(self) -> int:
        """Run the workers until a signal stops them; return the exit code."""
        loop = asyncio.get_running_loop()
        handlers: dict[int, Callable[[], object]] = dict.fromkeys(HERE.reload_signals, self._roll_wanted.set)
        handlers |= dict.fromkeys((signal.SIGTERM, signal.SIGINT), self._stop_signalled)
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            serving = loop.create_task(self._serve())
            stopping = loop.create_task(self._stop_wanted.wait())
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            self._stop_wanted.set()
            for task in (serving, stopping):
                task.cancel()
            await asyncio.wait({serving, stopping})
            await self._stop_all()
            if not serving.cancelled():
                serving.result()
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)
            self._counts.close()
        return self._code

    def _stop_signalled(self) -> None:
        (self._force_wanted if self._stop_wanted.is_set() else self._stop_wanted).set()

    async def _serve(self) -> None:
        """Keep the workers; ends only if the supervisor gives up."""
        # Alone at first: what keeps one worker from starting is then said once.
        first = await self._start(1, reports=True)
        killed = 0
        while not await self._gets_ready(first):
            if not first.was_killed:
                self._code = max(first.ended.result(), 0) or NO_START
                _logger.error(
                    "%s %s before it was ready: the server does not start", first, first.how_it_ended
                )
                return
            killed += 1
            await self._pause(first, killed)
            first = await self._start(1, reports=True)
        for number in range(2, self._count + 1):
            await self._start(number)
        keeping = {asyncio.create_task(self._keep(number)) for number in range(1, self._count + 1)}
        keeping.add(asyncio.create_task(self._roll()))
        try:
            await asyncio.wait(keeping, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.wait(keeping)
        for task in keeping:
            if not task.cancelled():
                task.result()

    async def _start(self, number: int, *, reports: bool = False, takes_place: bool = True) -> WorkerProcess:
        """Start a worker, in the place of the one that had its number if it `takes_place`."""
        here, there = socket.socketpair()
        here.setblocking(False)  # noqa: FBT003 - the name of the parameter is not public
        with there:
            settings = WorkerSettings(
                number=number,
                workers=self._count,
                listening=self._listening.fileno(),
                link=there.fileno(),
                counts=self._counts.descriptor,
                reports=reports,
            )
            process = await asyncio.create_subprocess_exec(
                *self._command,
                env={**os.environ, **self._environment, **settings.environment()},
                pass_fds=(self._listening.fileno(), there.fileno(), self._counts.descriptor),
                start_new_session=True,  # an interrupt from the terminal is for the supervisor, which tells the workers
            )
        worker = WorkerProcess(number, process, here)
        self._all.add(worker)
        worker.ended.add_done_callback(lambda _: self._forget(worker))
        worker.ready.add_done_callback(partial(self._started, worker))
        if takes_place:
            self._current[number] = worker
        if self._stop_wanted.is_set():
            worker.stop()
        return worker

    def _forget(self, worker: WorkerProcess) -> None:
        self._all.discard(worker)
        if self._current.get(worker.number) is worker:
            self._counts.set(worker.number, ABSENT)
        self._tell_end(worker.process.pid)

    def _started(self, worker: WorkerProcess, ready: asyncio.Future[bool]) -> None:
        if not ready.result():
            self._failures += not (worker.told_to_stop or worker.was_killed)
            return
        self._failures = 0
        _logger.info("%s is ready", worker)

    async def _gets_ready(self, worker: WorkerProcess) -> bool:
        """Wait until a worker is ready or has ended; log if that takes long."""
        await asyncio.wait({worker.ready}, timeout=START)
        if not worker.ready.done():
            _logger.warning(
                "%s is not ready after %g s: its lifespan takes long, or its store does not respond",
                worker,
                START,
            )
            await asyncio.wait({worker.ready})
        if not worker.ready.result():
            await asyncio.wait({worker.ended})
        return worker.ready.result()

    async def _keep(self, number: int) -> None:
        """Keep a worker at one place; ends only if the supervisor gives up."""
        failed = 0
        while True:
            worker = self._current[number]
            was_ready = await self._gets_ready(worker)
            await asyncio.wait({worker.ended})
            if self._current[number] is not worker:
                continue
            if was_ready and asyncio.get_running_loop().time() - worker.since >= STABLE:
                failed = 0
            elif was_ready and (worker.was_killed or worker.ended.result() == 0):
                # Not its own failure: to wait longer would leave the others, or nobody, with its calls.
                failed = 1
            else:
                failed += 1
            if self._failures >= MAX_FAILURES and not any(each.is_ready for each in self._all):
                self._code = NO_START
                _logger.error(
                    "%s %s, as %d before it that were not ready: the server shuts down",
                    worker,
                    worker.how_it_ended,
                    self._failures - 1,
                )
                return
            await self._pause(worker, failed)
            while self._current[number] is worker:
                try:
                    await self._start(number)
                except OSError:
                    _logger.exception("no worker can be started")
                    await asyncio.sleep(DELAYS[-1])

    async def _pause(self, ended: WorkerProcess, failed: int) -> None:
        """Wait before another worker takes the place of one that has ended, as one of so many that failed in a row."""
        delay = DELAYS[min(failed, len(DELAYS) - 1)]
        when = f"in {delay:g} s" if delay else "now"
        _logger.warning("%s %s; another one starts %s", ended, ended.how_it_ended, when)
        await asyncio.sleep(delay)

    # -- stopping and restarting ---------------------------------------------------------------------------

    async def _roll(self) -> None:
        """Replace all workers whenever that is wanted."""
        while True:
            await self._roll_wanted.wait()
            self._roll_wanted.clear()
            _logger.info("replacing all workers, one after another")
            for number in range(1, self._count + 1):
                if not await self._replace(number):
                    break
            else:
                _logger.info("all workers have been replaced")

    async def _replace(self, number: int) -> bool:
        """Replace the worker at a place by a new one, once that is ready; return False if it does not get ready."""
        new = await self._start(number, takes_place=False)
        await asyncio.wait({new.ready}, timeout=START)
        if not new.is_ready:
            in_time = new.ready.done()
            await self._stop(new)
            why = new.how_it_ended if in_time else f"is not ready after {START:g} s"
            _logger.error("%s %s: the old workers keep running", new, why)
            return False
        old, self._current[number] = self._current[number], new
        await self._stop(old)
        return True

    async def _stop(self, worker: WorkerProcess) -> None:
        """Tell a worker to stop, and wait until it has, within its time."""
        worker.stop()
        await asyncio.wait({worker.ended}, timeout=worker.drain + MARGIN)
        if not worker.ended.done():
            _logger.error("%s does not stop: killing it", worker)
            worker.signal(HERE.kill_signal)
            await asyncio.wait({worker.ended})

    async def _stop_all(self) -> None:
        """Stop all workers, those too that have not started."""
        self._listening.close()
        stopping = {asyncio.create_task(self._stop(worker)) for worker in self._all}
        forcing = asyncio.create_task(self._force())
        if stopping:
            await asyncio.wait(stopping)
        forcing.cancel()
        await asyncio.wait({forcing})

    async def _force(self) -> None:
        """After another signal, let workers wait for nothing, and kill those that still do not end."""
        await self._force_wanted.wait()
        for worker in tuple(self._all):
            worker.signal(signal.SIGINT)
        await asyncio.sleep(FORCED)
        for worker in tuple(self._all):
            worker.signal(HERE.kill_signal)


def supervise(
    command: Sequence[str],
    listening: socket.socket,
    workers: int,
    *,
    environment: Mapping[str, str] | None = None,
    ended: Callable[[int], object] = int,
) -> int:
    """Run workers until a signal stops them, and return the exit code: 0, or that of a server that does not start."""
    with asyncio.Runner() as runner:

        async def main() -> int:
            made = Supervisor(command, listening, workers, environment=environment, ended=ended)
            return await made.run()

        return runner.run(main())
