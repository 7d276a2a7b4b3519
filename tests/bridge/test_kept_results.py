"""The result of a call whose server asks something and goes on: it is kept for the client, and no tool runs twice for one call.

Many servers ask for the roots when a session begins, or elicit beside their work. The client of a stateless revision is asked
in the result of its call, and comes back when the server has long answered.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, cast

import aiohttp
import pytest

import mcprev
from api.wire import HANDSHAKE, Error, Message
from bridge.hands import (
    ROOTS,
    Answers,
    Downstream,
    Servers,
    Upstream,
    Work,
    bridge_to,
    bridged,
    question,
    said,
    text,
)
from bridge.insides import stateless_of
from helpers.http_in_process import InProcess
from helpers.requirements import E, req
from helpers.running import run, until
from helpers.several_workers import Front
from mcprev.bridge.bridge import Bridge
from mcprev.bridge.upstreams import Bounds
from mcprev.errors import RESOURCE_NOT_FOUND
from mcprev.revisions import DEFAULT, Revision
from mcprev.stores.memory import MemoryStore

SESSION: Final = HANDSHAKE[-1]
MODERN: Final = DEFAULT[-1]
AT_ONCE: Final = 6
ASKABLE: Final = [
    (row, kind)
    for row in HANDSHAKE
    for kind in ("roots", "sampling", "form")
    if kind != "form" or row.elicitation_modes
]


class Hasty(Upstream):
    """A server that does not wait for the answers to what it asks."""

    def __init__(
        self, row: Revision, tools: dict[str, Work] | None = None, *, when_opened: bool = False
    ) -> None:
        super().__init__(row, {"work": self.work, **(tools or {})}, {"tools/list": {"tools": []}})
        self.ran: list[Any] = []
        """The arguments of each run of the tool."""
        self.answers: Answers = []
        """What it was answered, late."""
        self.kind = "roots"
        self.ends: Message | Error | None = None
        """What the tool returns; None: its arguments."""
        self.go_on = asyncio.Event()
        self._when_opened = when_opened

    def _take(self, message: Message) -> None:
        super()._take(message)
        if self._when_opened and message.get("method") == "notifications/initialized":
            self.asks_now()
        if "method" not in message and str(message.get("id")).startswith("hasty"):
            self.answers.append(message)

    def asks_now(self) -> None:
        method, params = question(self.revision, self.kind)
        asked = {"jsonrpc": "2.0", "id": f"hasty {len(self.ran)}", "method": method}
        self.send(asked if params is None else {**asked, "params": params})

    async def work(self, _up: Upstream, request: Message) -> Message | Error:
        arguments = request["params"].get("arguments")
        self.ran.append(arguments)
        if not self._when_opened:
            self.asks_now()
        await self.go_on.wait()
        return text(arguments) if self.ends is None else self.ends


def hasty(there: Revision, **options: Any) -> tuple[Servers, Callable[[], list[Hasty]]]:
    servers = Servers(lambda: Hasty(there, **options))
    return servers, lambda: cast("list[Hasty]", servers.made)


async def asked_once(client: Downstream, arguments: Any = None) -> Message:
    """The params that continue a call, whose first result asks something."""
    params: Message = {"name": "work", "arguments": arguments or {}}
    first = (await client.ask("tools/call", params)).result
    assert first["resultType"] == "input_required", first
    return {**params, "requestState": first["requestState"]}


def answered(client: Downstream, kind: str, more: Message) -> Message:
    """The same with the answer of the user."""
    method, params = question(MODERN, kind)
    return {**more, "inputResponses": {"question-1": client.answer_to(method, params)}}


async def answered_by(up: Hasty) -> None:
    """The call has its answer from the server, and nobody waits for it."""
    up.go_on.set()
    await until(lambda: not up._tasks)
    await asyncio.sleep(0.01)


@req("SEAM-10", "MRTR-4", "MRTR-5", at=E)
@pytest.mark.parametrize(("there", "kind"), ASKABLE, ids=lambda found: getattr(found, "name", found))
def test_the_result_of_a_server_that_asks_and_goes_on_is_kept(there: Revision, kind: str) -> None:
    servers, made = hasty(there)
    client = Downstream(MODERN)

    async def main() -> None:
        async with bridged(bridge_to(servers, there), client):
            await client.ask("tools/list")
            (up,) = made()
            up.kind = kind
            more = answered(client, kind, await asked_once(client, {"n": 1}))
            await answered_by(up)
            assert said((await client.ask("tools/call", more)).result) == {"n": 1}
            assert up.ran == [{"n": 1}]
            await until(lambda: bool(up.answers))
            assert "result" in up.answers[0], "the server gets what the user said"
            over = (await client.ask("tools/call", more)).error
            assert (over["code"], over["data"]) == (-32602, {"mayHaveRun": True})
            assert len(up.ran) == 1
            assert said(await client.call("work", {"n": 2})) == {"n": 2}
            assert len(servers.made) == 1, "its connection serves the next call"
        servers.check()

    run(main())


@req("SEAM-10", "MRTR-4", at=E)
@pytest.mark.parametrize(
    "ends",
    [Error(RESOURCE_NOT_FOUND, "gone"), Error(-32000, "theirs"), {**text("no"), "isError": True}],
    ids=["not found", "of the vendor", "failed tool"],
)
def test_what_such_a_call_fails_with_is_kept_as_well(ends: Message | Error) -> None:
    servers, made = hasty(SESSION)
    client = Downstream(MODERN)

    async def main() -> None:
        async with bridged(bridge_to(servers, SESSION), client):
            await client.ask("tools/list")
            (up,) = made()
            up.ends = ends
            more = await asked_once(client)
            await answered_by(up)
            message = (await client.ask("tools/call", more)).message  # without an answer
            if isinstance(ends, Error):
                assert message["error"]["message"] == ends.message
            else:
                assert message["result"]["isError"] is True
            await until(lambda: bool(up.answers))
            assert "error" in up.answers[0], "and the server is told that nobody answers"

    run(main())


@req("SEAM-10", "MRTR-4", "CANC-7", at=E)
def test_the_result_is_kept_when_the_server_takes_its_question_back() -> None:
    servers, made = hasty(SESSION)
    client = Downstream(MODERN)

    async def main() -> None:
        async with bridged(bridge_to(servers, SESSION), client):
            await client.ask("tools/list")
            (up,) = made()
            more = answered(client, "roots", await asked_once(client, {"n": 1}))
            up.tell("notifications/cancelled", {"requestId": "hasty 1", "reason": "never mind"})
            await answered_by(up)
            again = await asked_once(client, {"n": 2})
            assert len(servers.made) == 1, "nothing of the first call needs the connection"
            assert said((await client.ask("tools/call", more)).result) == {"n": 1}
            assert said((await client.ask("tools/call", again)).result) == {"n": 2}
            assert up.ran == [{"n": 1}, {"n": 2}]

    run(main())


@req("SEAM-10", "TIME-1", "MRTR-4", at=E)
def test_a_kept_result_is_bounded_in_time_and_number() -> None:
    servers, made = hasty(SESSION)
    client = Downstream(MODERN)

    async def main() -> None:
        bridge = bridge_to(servers, SESSION, bounds=Bounds(user=5, held=1))
        async with bridged(bridge, client):
            await client.ask("tools/list")
            (up,) = made()
            more = await asked_once(client)
            await answered_by(up)
            stateless = stateless_of(bridge)
            assert len(stateless.held) == 1
            second = (await client.ask("tools/call", {"name": "work"})).error
            assert "too many calls are waiting" in second["message"]
            await asyncio.sleep(6)
            assert not stateless.held
            assert "error" in up.answers[-1]
            assert (await client.ask("tools/call", more)).error["code"] == -32602
            assert up.ran == [{}], "never for the same call again"

    run(main())


@req("SEAM-10", "TIME-1", "MRTR-4", at=E)
def test_a_kept_result_outlives_its_connection() -> None:
    """Which others need meanwhile, or which the server closes."""
    servers, made = hasty(SESSION)
    client = Downstream(MODERN)

    async def main() -> None:
        bounds = Bounds(upstreams=1, grace=3, wait=10)
        async with bridged(bridge_to(servers, SESSION, bounds=bounds), client):
            await client.ask("tools/list")
            first = answered(client, "roots", await asked_once(client, {"n": 1}))
            await answered_by(made()[0])
            second = answered(client, "roots", await asked_once(client, {"n": 2}))
            assert len(made()) == 2, "it made room for the second"
            await answered_by(made()[1])
            await made()[1].aclose()
            for n, more in ((1, first), (2, second)):
                assert said((await client.ask("tools/call", more)).result) == {"n": n}
            assert [up.ran for up in made()] == [[{"n": 1}], [{"n": 2}]]

    run(main())


# -- 6 calls at once, however the clients come ----------------------------------------------------------------


@asynccontextmanager
async def over_http(*bridges: Bridge) -> AsyncGenerator[mcprev.Target, None]:
    """The endpoint of bridges, none of which gets two requests in a row if there are several."""
    async with AsyncExitStack() as stack:
        for bridge in bridges:
            await stack.enter_async_context(bridge.running())
        apps = [bridge.asgi() for bridge in bridges]
        connector = InProcess(Front(apps) if len(apps) > 1 else apps[0])
        async with aiohttp.ClientSession(connector=connector) as session:
            yield mcprev.http(connector.origin + "/mcp", session=session)
        for app in apps:
            await app.aclose()


async def work_of(target: Any) -> list[Any]:
    """What 6 calls at once return."""
    roots = [ROOTS["roots"][0]["uri"]]
    async with mcprev.connect(target, mode=MODERN.name, roots=roots) as client:
        found = await asyncio.gather(*(client.call_tool("work", {"n": n}) for n in range(AT_ONCE)))
        return [said(each.to_wire()) for each in found]


@req("SEAM-10", "MRTR-4", "MRTR-5", at=E)
@pytest.mark.parametrize("when_opened", [False, True], ids=["in each call", "when a session begins"])
@pytest.mark.parametrize("way", ["pipe", "http", "shared", "workers"])
def test_six_calls_at_once_lose_nothing_and_run_once_each(way: str, *, when_opened: bool) -> None:
    class AtOnce(Hasty):
        """Answers in the turn of the loop after its question."""

        def __init__(self) -> None:
            super().__init__(SESSION, when_opened=when_opened)
            self.go_on.set()

    servers = Servers(AtOnce)

    async def main() -> None:
        options: dict[str, Any] = {"server_revisions": [SESSION.name], "shared": way == "shared"}
        if way == "workers":
            options["store"] = MemoryStore()
        count = 3 if way == "workers" else 1
        bridges = [Bridge(mcprev.memory(cast("Any", servers)), "b", **options) for _ in range(count)]
        if way == "pipe":
            async with bridges[0].running():
                found = await work_of(mcprev.memory(bridges[0]))
        else:
            async with over_http(*bridges) as target:
                found = await work_of(target)
        assert found == [{"n": n} for n in range(AT_ONCE)]
        made = cast("list[Hasty]", servers.made)
        assert sorted(arguments["n"] for up in made for arguments in up.ran) == list(range(AT_ONCE))
        assert when_opened or any("result" in answer for up in made for answer in up.answers)
        servers.check()

    run(main())
