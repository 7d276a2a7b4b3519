"""What the loop that the tests run on fails: what asyncio finds in its debug mode."""

from __future__ import annotations

import asyncio
import socket
import time
from multiprocessing.shared_memory import SharedMemory
from typing import Any, cast

import pytest

from helpers.running import run


def test_a_call_from_another_thread_fails() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(RuntimeError, match="other than the current one"):
            await asyncio.to_thread(loop.call_soon, lambda: None)

    run(test())


def test_a_coroutine_is_no_callback() -> None:
    async def test() -> None:
        with pytest.raises(TypeError, match="coroutines cannot be used"):
            asyncio.get_running_loop().call_soon(cast("Any", test))

    run(test())


def test_a_blocking_socket_fails() -> None:
    async def test() -> None:
        with socket.socket() as blocking, pytest.raises(ValueError, match="non-blocking"):
            await asyncio.get_running_loop().sock_recv(blocking, 1)

    run(test())


def test_a_task_that_is_left_fails() -> None:
    left: list[asyncio.Task[None]] = []

    async def test() -> None:
        left.append(asyncio.create_task(asyncio.sleep(20)))

    with pytest.raises(AssertionError, match="left running"):
        run(test())
    assert left[0].cancelled()


def test_what_a_loop_would_only_log_fails() -> None:
    async def test() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)

    with pytest.raises(AssertionError, match="division by zero"):
        run(test())


@pytest.mark.parametrize("files", [0, 1])
def test_where_nothing_but_a_timer_can_come_no_time_passes(files: int) -> None:
    async def test() -> None:
        one, other = socket.socketpair()
        with one, other:
            one.setblocking(False)
            for file in [one][:files]:
                asyncio.get_running_loop().add_reader(file, lambda: None)
            await asyncio.sleep(19)
            asyncio.get_running_loop().remove_reader(one)

    began = time.monotonic()
    run(test(), has_both_ends=True)
    assert time.monotonic() - began < 10


def test_the_clock_waits_for_a_thread_and_a_process() -> None:
    async def test() -> None:
        async with asyncio.timeout(15):
            process = await asyncio.create_subprocess_exec("sleep", "0.05")
            await process.wait()
            await asyncio.to_thread(time.sleep, 0.05)

    run(test())


def test_the_process_that_the_library_starts_for_shared_memory_is_not_waited_for() -> None:
    memory = SharedMemory(create=True, size=1)
    try:
        began = time.monotonic()
        run(asyncio.sleep(15))
        assert time.monotonic() - began < 5
    finally:
        memory.close()
        memory.unlink()
