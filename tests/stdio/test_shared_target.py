"""One target that several clients connect to: each has a server of its own, and none ends another's (STDIO-5)."""

from __future__ import annotations

import asyncio

import pytest

import mcprev
from api.authors import Everything
from helpers.named import SOME_ROWS
from helpers.requirements import req
from helpers.running import run, until
from mcprev.core.reconnect_policy import ReconnectPolicy
from mcprev.errors import ConnectionLost, ProcessExited
from mcprev.revisions import DEFAULT, Revision
from stdio.test_stdio import alive, echo, said

each_row = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)


def memory() -> mcprev.memory:
    return mcprev.memory(mcprev.Server(Everything(), "s", "1"))


async def pid(client: mcprev.Client) -> int:
    """The process of the client's server."""
    return int(said(await client.call_tool("pid")))


@pytest.mark.slow
@req("STDIO-5", "LIFE-16")
@pytest.mark.parametrize("row", SOME_ROWS, ids=lambda row: row.name)
def test_each_client_has_a_process_and_ends_no_other(row: Revision) -> None:
    async def main() -> None:
        target = echo()
        async with mcprev.connect(target, mode=row.name) as one:
            first = await pid(one)
            async with mcprev.connect(target, mode=row.name) as other:
                second = await pid(other)
                assert first != second
                assert target.pid == second
                assert await pid(one) == first
            assert not alive(second)
            assert await pid(one) == first
            async with mcprev.connect(target, mode=row.name) as other:
                assert await pid(other) not in (first, second)
                third = await pid(other)
                await one.aclose()
                assert not alive(first)
                assert await pid(other) == third
        assert not alive(third)

    run(main())


@pytest.mark.slow
@req("STDIO-5", "STDIO-7", everywhere=True)
def test_a_process_that_dies_is_started_again_for_its_own_client() -> None:
    async def main() -> None:
        target = echo()
        again = ReconnectPolicy(backoff=0)
        async with mcprev.connect(target) as one, mcprev.connect(target, restart=again) as other:
            first, second = await pid(one), await pid(other)
            with pytest.raises(ConnectionLost):
                await other.call_tool("die")
            third = await pid(other)
            assert third != second
            assert await pid(one) == first
            assert other.reopened == 1
            assert one.reopened == 0
        assert not any(alive(number) for number in (first, second, third))
        assert target._processes == []  # pyright: ignore[reportPrivateUsage]

    run(main())


@pytest.mark.slow
@req("STDIO-5", everywhere=True)
def test_who_gives_up_connecting_ends_its_own_process_only() -> None:
    async def main() -> None:
        target = echo()
        async with mcprev.connect(target) as one:
            first = await pid(one)
            opening = asyncio.ensure_future(mcprev.connect(target).__aenter__())
            await until(lambda: target.pid not in (None, first))
            second = target.pid
            assert second is not None
            opening.cancel()
            await asyncio.wait({opening})
            assert not alive(second)
            assert await pid(one) == first
            # Nor does a command that cannot be started harm anybody.
            nowhere = mcprev.stdio("/nowhere/at/all")
            for _ in range(2):
                with pytest.raises(ProcessExited):
                    await mcprev.connect(nowhere).__aenter__()
            assert nowhere._processes == []  # pyright: ignore[reportPrivateUsage]
        assert not alive(first)

    run(main())


@pytest.mark.slow
@req("STDIO-5", "LIFE-16")
@each_row
def test_many_at_once_open_and_close_as_they_like(row: Revision) -> None:
    async def main() -> None:
        target = memory()

        async def use(number: int) -> None:
            async with mcprev.connect(target, mode=row.name) as client:
                for _ in range(number):
                    result = await client.call_tool("echo", {"n": number})
                    assert said(result) == str({"n": number})

        await asyncio.gather(*(use(number) for number in range(20)))
        assert not target._ends  # pyright: ignore[reportPrivateUsage]

    run(main())
