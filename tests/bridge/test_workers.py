"""A bridge in several processes: a call that waits for its user is continued wherever the client's next request comes."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, cast

import aiohttp
import pytest

import mcprev
from bridge.hands import Upstream, question
from bridge.insides import stateless_of
from helpers.http_in_process import InProcess
from helpers.requirements import E, req
from helpers.running import run, until
from helpers.several_workers import Front
from mcprev.bridge.bridge import Bridge
from mcprev.bridge.upstreams import Bounds
from mcprev.errors import StoreError
from mcprev.revisions import DEFAULT
from mcprev.stores.memory import MemoryStore

SESSION: Final = [row for row in DEFAULT if row.handshake][-1]
MODERN: Final = DEFAULT[-1]


class Asking:
    """Servers whose tool asks twice, and which say how many calls were cancelled."""

    def __init__(self) -> None:
        self.made: list[Upstream] = []

    def connection(self) -> Upstream:
        async def twice(up: Upstream, request: Any) -> Any:
            up.progresses(request, len(self.made))
            asked = (question(SESSION, "form", f" {n}") for n in (1, 2))
            return await up.asking(request, *asked)

        made = Upstream(SESSION, {"twice": twice}, {"tools/list": {"tools": []}})
        self.made.append(made)
        return made


class Workers:
    """Bridges that share a store, behind a front that gives no two requests in a row to the same one."""

    def __init__(self, servers: Asking, store: MemoryStore, count: int) -> None:
        self.bridges = [
            Bridge(
                mcprev.memory(cast("Any", servers)),
                "b",
                server_revisions=[SESSION.name],
                store=store,
                bounds=Bounds(user=20),
            )
            for _ in range(count)
        ]

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[mcprev.Target, None]:
        async with AsyncExitStack() as stack:
            for bridge in self.bridges:
                await stack.enter_async_context(bridge.running())
            apps = [bridge.asgi() for bridge in self.bridges]
            connector = InProcess(Front(apps))
            async with aiohttp.ClientSession(connector=connector) as session:
                yield mcprev.http(connector.origin + "/mcp", session=session)
            for app in apps:
                await app.aclose()


@req("SEAM-10", "MRTR-4", at=E)
def test_a_held_call_is_continued_by_any_worker() -> None:
    async def main() -> None:
        servers, told = Asking(), list[float]()
        workers = Workers(servers, MemoryStore(), 3)

        async def answer(params: Any) -> Any:
            return {"name": params.message}

        async with workers.serving() as target:
            connected = mcprev.connect(target, mode=MODERN.name, elicitation=answer)
            async with connected as client:

                def progress(value: float, _total: float | None, _message: str | None) -> None:
                    told.append(value)

                calls = [client.call_tool("twice", {"n": n}, progress=progress) for n in range(6)]
                for n, found in enumerate(await asyncio.gather(*calls)):
                    arguments, answers = json.loads(found.text)
                    assert arguments == {"n": n}
                    assert [each["content"]["name"] for each in answers] == ["who? 1", "who? 2"]
            assert len(told) >= 1
            for bridge in workers.bridges:
                stateless = stateless_of(bridge)
                assert not stateless.held

    run(main())


@req("SEAM-10", "MRTR-4", at=E)
def test_the_call_of_a_worker_that_has_ended_is_over() -> None:
    """A typed refusal within a few seconds, and the call can be made again."""

    async def main() -> None:
        servers, asked = Asking(), asyncio.Event()
        workers = Workers(servers, MemoryStore(), 2)
        go_on = asyncio.Event()

        async def answer(params: Any) -> Any:
            asked.set()
            await go_on.wait()
            return {"name": params.message}

        async with (
            workers.serving() as target,
            mcprev.connect(target, mode=MODERN.name, elicitation=answer) as client,
        ):
            call = asyncio.ensure_future(client.call_tool("twice", {}))
            await asked.wait()
            stateless = next(found for found in map(stateless_of, workers.bridges) if found.held)
            assert stateless.peers is not None
            await stateless.peers.aclose()  # what a worker does that ends, or its lease when it is killed
            go_on.set()
            with pytest.raises(mcprev.InvalidParams, match="has ended; send the request again"):
                await call

    run(main())


@req("SEAM-10", "CANC-7", at=E)
def test_a_client_that_leaves_a_forwarded_request_ends_the_call() -> None:
    async def main() -> None:
        servers, asked = Asking(), list[str]()
        workers = Workers(servers, MemoryStore(), 2)
        second = asyncio.Event()

        async def answer(params: Any) -> Any:
            asked.append(params.message)
            if len(asked) == 2:
                second.set()
                await asyncio.Event().wait()
            return {"name": params.message}

        async with (
            workers.serving() as target,
            mcprev.connect(target, mode=MODERN.name, elicitation=answer) as client,
        ):
            call = asyncio.ensure_future(client.call_tool("twice", {}))
            await second.wait()
            call.cancel()
            # The question is open and nobody comes back: the call ends at its deadline, with the bridge at the latest.
        await until(lambda: all(up.lost for up in servers.made))

    run(main())


@req("SEAM-10", at=E)
def test_a_store_that_is_away_is_an_error_of_the_request() -> None:
    class Away(MemoryStore):
        away = False

        async def append(self, *args: Any, **options: Any) -> Any:
            if self.away:
                raise StoreError("away")
            return await super().append(*args, **options)

    async def main() -> None:
        servers, store = Asking(), Away()
        workers = Workers(servers, store, 2)

        async def answer(params: Any) -> Any:
            store.away = True
            return {"name": params.message}

        async with (
            workers.serving() as target,
            mcprev.connect(target, mode=MODERN.name, elicitation=answer) as client,
        ):
            with pytest.raises(mcprev.McpError, match="cannot reach its store") as caught:
                await client.call_tool("twice", {})
            error = cast("mcprev.RpcError", caught.value)
            assert error.data == {"reason": "store_unavailable", "mayHaveRun": True}

    run(main())


@req("SEAM-10", at=SESSION.name)
def test_a_session_begins_only_once_the_others_can_find_who_holds_it() -> None:
    class Full(MemoryStore):
        async def write(self, name: str, *args: Any, **options: Any) -> Any:
            if "bridged/" in name:
                raise StoreError("full")
            return await super().write(name, *args, **options)

    async def main() -> None:
        workers = Workers(Asking(), Full(), 2)
        async with workers.serving() as target:
            with pytest.raises(mcprev.McpError, match="cannot reach its store"):
                async with mcprev.connect(target, mode=SESSION.name):
                    pass

    run(main())
