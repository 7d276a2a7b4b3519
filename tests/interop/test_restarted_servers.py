"""Servers on other SDKs that start again and have forgotten their sessions, which some of them say with 400 and not with 404.

`make interop` puts each release into an environment of its own; without them these tests are skipped. A proxy stands for
the address that stays: it leads to one process of the server first, and to another one after the restart.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aiohttp
import pytest

import mcprev
from helpers.requirements import A, D, req
from helpers.running import run
from helpers.served_workers import free_port
from helpers.tcp_proxy import Proxy, proxy
from interop.holding import ENDING, Listener
from interop.peers import REFERENCE, Peer, chosen

SERVERS = [
    *chosen(A, D, ("http",)),
    *chosen(D, D, among=[peer for peer in REFERENCE if peer.name == "everything"]),
]
DEADLINE = 60.0


class Restarted:
    """An address that stays, while the server behind it is another one after `restart`."""

    def __init__(self, door: Proxy, path: str, next_port: int) -> None:
        self.url = f"{door.origin}{path}"
        self._door, self._next = door, next_port

    def restart(self) -> None:
        """Lead to the process that does not know the sessions of the other one."""
        self._door.target, self._next = self._next, self._door.target


@asynccontextmanager
async def restarting(peer: Peer) -> AsyncGenerator[Restarted, None]:
    """Run two processes of a server, one of them at a time at one address."""
    listen = listening_reference if peer in REFERENCE else listening
    async with listen(peer) as first, listen(peer) as second:
        before, after = urlsplit(first), urlsplit(second)
        assert before.port
        assert after.port
        async with proxy(before.port) as door:
            yield Restarted(door, before.path, after.port)


@asynccontextmanager
async def listening(peer: Peer) -> AsyncGenerator[str, None]:
    """Run a server on an SDK, and yield its URL."""
    server = await Listener.start(*peer.script("server"), "http", say=lambda _: None)
    try:
        yield server.url
    finally:
        await server.close()


@asynccontextmanager
async def listening_reference(peer: Peer) -> AsyncGenerator[str, None]:
    """Run the reference server, and yield its URL.

    It answers as many servers do that began as a copy of the example of the TypeScript SDK.
    """
    command, port = peer.program("server-everything/dist/index.js", "streamableHttp"), free_port()
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PORT": str(port)},
    )
    try:
        assert process.stderr is not None
        line = await process.stderr.readline()
        assert b"listening" in line, line
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        await asyncio.wait_for(process.communicate(), ENDING)


@req("HTTP-23", "HTTP-20")
@pytest.mark.parametrize("peer", SERVERS)
def test_clients_go_on_in_a_new_session_alone_and_behind_a_shared_bridge(peer: Peer) -> None:
    async def main() -> None:
        async with (
            restarting(peer) as server,
            # each request makes its own connection, as after a restart
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
        ):
            target = mcprev.http(server.url, session=session)
            bridge = mcprev.Bridge(target, shared=True, server_revisions=[peer.revision])
            async with (
                mcprev.connect(target, mode=peer.revision) as alone,
                bridge.running(),
                mcprev.connect(bridge) as behind,
            ):
                for restarts in range(3):
                    for client in (alone, behind):
                        assert [tool.name async for tool in client.tools()]
                    assert alone.reopened == restarts
                    server.restart()

    run(main(), limit=DEADLINE)
