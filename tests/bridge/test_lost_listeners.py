"""A client that only listens goes on hearing of changes when the process that has its session ends (SUB-5, LIFE-16)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

import mcprev
from api.wire import INFO
from bridge.fellows_of_bridges import ChoosingClient, Fellows, fellows
from bridge.hands import Upstream
from bridge.joining import MODERN, SESSION, TOOLS, Ends, ends, joined, last, target_of
from bridge.test_processes import LIMIT, OLD, bridge
from bridge.test_several_auth import verify
from bridge.test_several_processes import RawSession
from helpers.requirements import req
from helpers.running import run, until
from helpers.served_workers import served
from mcprev.bridge.bridge import Bridge
from mcprev.bridge.several.session import SeveralSession
from mcprev.core.store import Store
from mcprev.protocol.subscriptions import CHANGES, Changed
from mcprev.revisions import Revision
from mcprev.sharing.worker import LEASE

CHANGED: Final = CHANGES[Changed.TOOLS].method
UPDATED: Final = CHANGES[Changed.RESOURCE].method
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
BOUND: Final = 5.0
"""Seconds within which a session is continued once the lease of its process is over."""
APP: Final = """
import mcprev

app = mcprev.App("changing", "1")


@app.tool
async def change(ctx: mcprev.Context) -> str:
    ctx.changed("tools")
    return "changed"
"""


def one(servers: Ends, there: Revision, store: Store) -> Bridge:
    return Bridge(target_of(servers["files"]), server_revisions=[there.name], store=store)


def several(servers: Ends, there: Revision, store: Store, **options: Any) -> Bridge:
    return joined(servers, there, store=store, **options)


def tell(up: Upstream, method: str, **params: Any) -> None:
    """Tell of a change as a server of its revision does."""
    if not up.revision.handshake:
        params["_meta"] = {SUBSCRIPTION: up.listens[-1][0]}
    up.tell(method, params or None)


async def heard(client: ChoosingClient, made: Fellows, servers: Ends, uri: str) -> None:
    """Hear of one more change of each kind, and send nothing."""
    files = last(servers, "files")
    client.told.clear()
    tell(files, CHANGED)
    tell(files, UPDATED, uri="files:one")
    await client.hears(CHANGED)
    assert (await client.hears(UPDATED))["uri"] == uri
    assert len(made.holders()) >= 1


@req("SEAM-10", "SUB-5", "LIFE-16", at=SESSION.name)
@pytest.mark.parametrize("there", [SESSION, MODERN], ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("make", "uri"), [(one, "files:one"), (several, "files+files:one")], ids=["one", "several"]
)
def test_a_listener_is_taken_over_without_a_request(
    make: Callable[[Ends, Revision, Store], Bridge], uri: str, there: Revision
) -> None:
    """Also of the process that took it over before; the process that serves its stream does it, and no other."""
    servers = ends(
        there, "files", works=TOOLS, files={"resources/subscribe": {}, "resources/unsubscribe": {}}
    )

    async def main() -> None:
        store = mcprev.MemoryStore(clock=asyncio.get_running_loop().time)
        async with fellows(lambda shared: make(servers, there, shared), lambda: store, 3) as made:
            client = ChoosingClient(SESSION, made.places)
            await client.begin(0)
            await client.request(0, "resources/subscribe", {"uri": uri})
            async with client.listening(1):
                await asyncio.sleep(
                    3
                )  # of the clock of the loop: the other process knows who has the session
                await heard(client, made, servers, uri)
                await made.kill(0)
                async with asyncio.timeout(BOUND):
                    await client.hears(CHANGED)
                    await client.hears(UPDATED)
                assert made.holders() == [0, 1]  # the one that was killed does not know
                assert len(servers["files"].made) == 2
                if not there.handshake:
                    await until(lambda: bool(last(servers, "files").listens))
                await heard(client, made, servers, uri)
            async with client.listening(2):
                await made.kill(1)
                async with asyncio.timeout(BOUND):
                    await client.hears(CHANGED)
                assert made.holders() == [0, 1, 2]
                if not there.handshake:
                    await until(lambda: bool(last(servers, "files").listens))
                await heard(client, made, servers, uri)

    run(main(), limit=LIMIT)


@req("SEAM-10", "SEC-4", "LIFE-16", at=SESSION.name)
def test_a_session_is_taken_over_for_whoever_listens() -> None:
    """No request says whose it is, and the store keeps no principal: the stream has been authenticated."""
    servers = ends(SESSION, "files")
    bearer = mcprev.Bearer(
        verify, resource="http://127.0.0.1/mcp", authorization_servers=["https://as.example"]
    )

    async def main() -> None:
        store = mcprev.MemoryStore(clock=asyncio.get_running_loop().time)
        async with fellows(
            lambda shared: several(servers, SESSION, shared, auth=bearer), lambda: store, 2
        ) as made:
            headers = {"Authorization": "Bearer alice:app:of-the-bridge"}
            client = ChoosingClient(SESSION, made.places, headers)
            await client.begin(0)
            async with client.listening(1):
                await made.kill(0)
                await client.hears(CHANGED)
                (session,) = made.shared(1)._held.values()
                assert isinstance(session, SeveralSession)
                assert session.introduction.sender == ("alice", "app")
                assert (session.introduction.params or {})["clientInfo"] == INFO

    run(main(), limit=LIMIT)


@req("SEAM-10", "SUB-5", "LIFE-16", at=SESSION.name)
def test_nobody_takes_over_a_session_whose_client_does_not_listen() -> None:
    """Nor one whose process lives: it is its own."""
    servers = ends(SESSION, "files")

    async def main() -> None:
        store = mcprev.MemoryStore(clock=asyncio.get_running_loop().time)
        async with fellows(lambda shared: one(servers, SESSION, shared), lambda: store, 2) as made:
            client = ChoosingClient(SESSION, made.places)
            await client.begin(0)
            async with client.listening(1):
                await asyncio.sleep(10 * BOUND)
                assert made.holders() == [0]
            await made.kill(0)
            await asyncio.sleep(10 * BOUND)
            assert made.holders() == [0]
            assert len(servers["files"].made) == 1

    run(main(), limit=LIMIT)


@pytest.mark.slow
@req("SEAM-10", "SUB-5", "LIFE-16", at=SESSION.name)
@pytest.mark.parametrize("several_servers", [False, True], ids=["one", "several"])
def test_a_listener_goes_on_when_its_process_is_killed(several_servers: bool, tmp_path: Path) -> None:
    """Three real processes; the client hears of the next change after the lease of the one that was killed."""
    app, store = tmp_path / "app.py", f"sqlite:///{tmp_path}/bridge.db"
    app.write_text(APP, encoding="utf-8")

    async def main() -> None:
        async with served(app, None) as behind, aiohttp.ClientSession() as http:
            target = [behind.url]
            if several_servers:
                config = tmp_path / "mcp.json"
                config.write_text(json.dumps({"changing": {"url": behind.url}}), encoding="utf-8")
                target = ["--config", str(config)]
            options = "--server-revision", OLD.name, *target
            async with (
                bridge(*options, store=store) as holder,
                bridge(*options, store=store) as other,
                bridge(*options, store=store),
                mcprev.connect(behind.url, mode=OLD.name) as author,
            ):
                session = RawSession(http)
                await session.begin(holder.url)
                async with http.get(other.url, headers=session.headers) as stream:
                    await author.call_tool("change", {})
                    await told(stream)
                    holder.process.kill()
                    async with asyncio.timeout(LEASE + BOUND):
                        await told(stream)
                    await author.call_tool("change", {})
                    async with asyncio.timeout(BOUND):
                        await told(stream)

    run(main(), limit=LIMIT)


async def told(stream: aiohttp.ClientResponse) -> None:
    """Wait until a stream tells that tools have changed."""
    while line := await stream.content.readline():
        if line.startswith(b"data:") and CHANGED in line.decode():
            return
    raise ConnectionError("the stream has ended")
