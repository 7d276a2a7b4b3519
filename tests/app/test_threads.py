"""Functions that block run in threads, which clients that wait get in turn."""

from __future__ import annotations

import asyncio
import threading

import pytest

from helpers.running import run, until
from mcprev.app.threads import MAX_THREADS, Threads


class Work:
    """Work that notes its client, and blocks until it may end."""

    def __init__(self) -> None:
        self.begun = list[str]()
        self.gates = dict[str, threading.Event]()

    def of(self, client: str) -> str:
        self.begun.append(client)
        self.gates.setdefault(client, threading.Event()).wait(60)
        return client


def test_a_client_waits_for_one_call_of_another_and_not_for_all() -> None:
    work = Work()

    async def main() -> None:
        threads = Threads()
        greedy = [
            asyncio.create_task(threads.run("greedy", lambda: work.of("greedy")))
            for _ in range(2 * MAX_THREADS)
        ]
        await until(lambda: len(work.begun) == MAX_THREADS)
        modest = asyncio.create_task(threads.run("modest", lambda: "done"))
        await asyncio.sleep(0)
        work.gates["greedy"].set()
        assert await modest == "done"
        assert await asyncio.gather(*greedy) == ["greedy"] * 2 * MAX_THREADS

    run(main())
    assert work.begun == ["greedy"] * 2 * MAX_THREADS


def test_the_next_thread_goes_to_the_client_whose_turn_it_is() -> None:
    order = list[str]()
    gate, one = threading.Event(), threading.Event()

    async def main() -> None:
        threads = Threads()
        blocked = [
            asyncio.create_task(threads.run("a", lambda: gate.wait(60))) for _ in range(MAX_THREADS - 1)
        ]
        last = asyncio.create_task(threads.run("a", lambda: one.wait(60)))
        await asyncio.sleep(0)
        waiting = [asyncio.create_task(threads.run(client, lambda c=client: order.append(c))) for client in "aaabbc"]  # type: ignore[misc]
        await asyncio.sleep(0)
        one.set()  # now one thread does the rest, one call after the other
        await asyncio.wait(waiting)
        gate.set()
        await asyncio.gather(last, *blocked)

    run(main())
    assert order == ["a", "b", "c", "a", "b", "a"]


@pytest.mark.parametrize("given", [False, True])
def test_a_turn_that_is_cancelled_is_not_lost(given: bool) -> None:
    gate = threading.Event()

    async def main() -> None:
        threads = Threads()
        blocked = [asyncio.create_task(threads.run("a", lambda: gate.wait(60))) for _ in range(MAX_THREADS)]
        await asyncio.sleep(0)
        cancelled = asyncio.create_task(threads.run("b", lambda: None))
        await asyncio.sleep(0)
        if given:
            threads._release()  # pyright: ignore[reportPrivateUsage] - its turn comes in the same step of the loop in which it is cancelled
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        gate.set()
        await asyncio.gather(*blocked)
        await until(lambda: threads._free >= MAX_THREADS)  # pyright: ignore[reportPrivateUsage]

    run(main())
