"""nginx and HAProxy in front of several processes of one server, without sticky routing, with the configurations of the guide.

HTTP-3, HTTPM-5, HTTP-31. What a client must see through it: streams at once, news of other processes, calls that go
on while processes end and start, and no call that is sent twice.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Final

import aiohttp
import pytest

import mcprev
from fuzz.fuzzing import sampled_of
from helpers.balancers import HAPROXY, NGINX, AllUp, Balancer
from helpers.redis_server import RedisServer
from helpers.requirements import req
from helpers.running import run, until
from helpers.served_workers import ServedWorkers, free_port, served
from mcprev.revisions import DEFAULT, HttpShape, Revision

APP = Path(__file__).parents[1] / "http" / "workers_app.py"
LIMIT = 120.0
ROWS: Final = [row for row in DEFAULT if row.http is not HttpShape.SSE]
SOME: Final = [[row for row in ROWS if row.handshake is shakes][-1] for shakes in (True, False)]
"""To a balancer, the revisions with sessions are the same: their requests and headers. `make nginx` runs each behind nginx."""
FRONTS: Final = sampled_of(
    [*NGINX.params(*ROWS), *HAPROXY.params(*SOME)], [*NGINX.params(*SOME), *HAPROXY.params(*SOME)]
)


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    server = RedisServer().start()
    yield server.url()
    server.end()


class Behind:
    """Three processes behind a balancer."""

    def __init__(
        self,
        url: str,
        all_up: AllUp,
        servers: list[ServedWorkers],
        target: str,
        store: str,
        stack: AsyncExitStack,
    ) -> None:
        self.url, self.servers = url, servers
        self._all_up = all_up
        self._target, self._store, self._stack = target, store, stack

    async def restart(self, number: int, how: int) -> None:
        """End a process, and start another one at its port."""
        server = self.servers[number]
        if server.process.returncode is None:
            server.send(how)
        await server.ended()
        self.servers[number] = await self._stack.enter_async_context(
            served(self._target, None, "--store", self._store, "--health", port=server.port)
        )
        await self._all_up()


@asynccontextmanager
async def behind(balancer: Balancer, folder: Path, row: Revision, store: str) -> AsyncGenerator[Behind, None]:
    target = f"{APP}:{'with_sessions' if row.handshake else 'app'}"
    async with AsyncExitStack() as stack:
        starting = (served(target, None, "--store", store, "--health") for _ in range(3))
        servers = await asyncio.gather(*(stack.enter_async_context(each) for each in starting))
        port = free_port()
        text = balancer.plain(port, [f"127.0.0.1:{server.port}" for server in servers])
        all_up = await stack.enter_async_context(balancer.run(folder, text))
        yield Behind(f"http://127.0.0.1:{port}/mcp", all_up, servers, target, store, stack)


def pids_in(file: Path) -> list[int]:
    """The processes that have written their number into a file."""
    return [int(line) for line in file.read_text().split()]


@pytest.mark.parametrize(("balancer", "row"), FRONTS)
@req("HTTP-3", "HTTPM-5", "HTTP-31", everywhere=True)
def test_any_process_serves_what_comes_through_a_balancer(
    balancer: Balancer, row: Revision, tmp_path: Path, store: str
) -> None:
    async def main() -> None:
        begun = asyncio.Event()
        async with (
            behind(balancer, tmp_path, row, store) as front,
            mcprev.connect(front.url, mode=row.name, logging=lambda _: begun.set()) as client,
        ):
            await client.list_tools()
            seen = set[int]()
            while len(seen) < 3:
                found = (await client.call_tool("pid")).data
                assert isinstance(found, int)
                seen.add(found)

            # A message comes when it is sent, and not with the answer.
            file = tmp_path / "one"
            waiting = asyncio.create_task(client.call_tool("wait_for", {"file": str(file)}, log_level="info"))
            await begun.wait()
            file.touch()
            await waiting

            # What has changed in one process, clients hear from the others.
            told = asyncio.Event()
            async with client.listen(tools=True) as changes:

                async def hear() -> None:
                    async for _ in changes:
                        told.set()

                hearing = asyncio.create_task(hear())
                changed = set[int]()
                while len(changed) < 3:
                    told.clear()
                    found = (await client.call_tool("change")).data
                    assert isinstance(found, int)
                    changed.add(found)
                    await told.wait()
                hearing.cancel()
                await asyncio.wait({hearing})

            # No call is sent to a second process when the first one is gone in the middle of it.
            file = tmp_path / "two"
            lost = asyncio.create_task(client.call_tool("wait_for", {"file": str(file)}))
            began = tmp_path / "two.begun"
            await until(lambda: began.exists() and bool(pids_in(began)))
            (process,) = pids_in(began)
            (number,) = (n for n, each in enumerate(front.servers) if each.process.pid == process)
            front.servers[number].send(signal.SIGKILL)
            with pytest.raises((mcprev.ConnectionLost, mcprev.WorkerLost)):
                await lost
            assert pids_in(began) == [process]
            await front.servers[number].ended()

            # Two processes are left; each may stop and start while clients call, with calls in progress.
            await front.restart(number, signal.SIGKILL)
            stop, calls = False, 0

            async def call() -> None:
                nonlocal calls
                while not stop:
                    await client.call_tool("pid_later")
                    calls += 1

            calling = [asyncio.create_task(call()) for _ in range(3)]
            for each in range(3):
                await front.restart(each, signal.SIGTERM)
            stop = True
            await asyncio.gather(*calling)
            assert calls > 10
            if row.handshake:
                assert client.reopened == 0

    run(main(), limit=LIMIT)


@req("HTTP-31", everywhere=True)
@pytest.mark.parametrize(("balancer", "what"), NGINX.params("a limit of bodies"))
def test_nginx_has_the_limit_of_bodies_that_the_server_has(
    balancer: Balancer, what: str, tmp_path: Path
) -> None:
    async def main() -> None:
        port = free_port()
        async with (
            served(f"{APP}:app", None, "--health") as server,
            balancer.run(tmp_path, balancer.plain(port, [f"127.0.0.1:{server.port}"] * 3)),
            aiohttp.ClientSession() as http,
        ):
            for size, status in ((4 * 1024 * 1024, 400), (4 * 1024 * 1024 + 1, 413)):
                async with http.post(
                    f"http://127.0.0.1:{port}/mcp",
                    data=BytesIO(b" " * size),
                    headers={"content-type": "application/json"},
                ) as answer:
                    assert answer.status == status

    run(main(), limit=LIMIT)
