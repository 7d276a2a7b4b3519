"""Many clients of both eras on one bridge, for some seconds, while servers ask, stall, lie and end, and clients leave.

`make soak-bridge` runs it with 1,000 clients for ten minutes; in the suite it is a sample. Whatever happens, each call ends
in time with its own answer or a typed error, and nothing is left: no connection, held call, task or memory.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import gc
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from api.wire import Error, Message
from bridge.hands import Downstream, Servers, Upstream, bridge_to, question, said, text
from bridge.insides import stateless_of
from helpers.requirements import req
from mcprev.bridge.bridge import Bridge
from mcprev.bridge.upstreams import Bounds
from mcprev.revisions import DEFAULT, Revision
from mcprev.transports.memory import connect_pair

SECONDS: Final = float(os.environ.get("MCPREV_SOAK_SECONDS", "1"))
CLIENTS: Final = int(os.environ.get("MCPREV_SOAK_CLIENTS", "24"))
LIMIT: Final = 120.0 + SECONDS / 8
"""Seconds after which a client hangs, which may begin its last call at the end of a round."""
SESSION: Final = [row for row in DEFAULT if row.handshake][-1]
MODERN: Final = DEFAULT[-1]
ACTIONS: Final = ("echo",) * 6 + ("asks", "asks", "lies", "ends", "leave", "give up", "leave while asked")


async def echo(_: Upstream, request: Message) -> Message:
    return text(request["params"].get("arguments"))


async def asks(up: Upstream, request: Message) -> Message:
    return await up.asking(request, question(up.revision, "form", f" {request['params']['arguments']['n']}"))


async def lies(up: Upstream, request: Message) -> Message:
    """Answers twice, and to a request that nobody has made."""
    wrong = up.complete("tools/call", text("wrong"))
    up.send({"jsonrpc": "2.0", "id": 987_654_321, "result": wrong})
    up.send({"jsonrpc": "2.0", "id": request["id"], "result": up.complete("tools/call", text("first"))})
    return text("second")


async def stalls(_: Upstream, _request: Message) -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def ends(up: Upstream, _request: Message) -> Error | None:
    await up.aclose()
    return None


TOOLS: Final = {function.__name__: function for function in (echo, asks, lies, stalls, ends)}


class Soak:
    """Clients of one bridge that come, call and leave."""

    def __init__(self, bridge: Bridge, seed: int) -> None:
        self._bridge = bridge
        self._random = random.Random(seed)  # noqa: S311 - tests only
        self.outcomes: Counter[str] = Counter()
        self._number = 0

    async def client(self, row: Revision, until_: float) -> None:
        """One client after the other, until the time is over."""
        now, first = asyncio.get_running_loop().time, True
        while first or now() < until_:
            first = False
            client, connection = Downstream(row), self._bridge.connection()
            connect_pair(client, connection)
            try:
                async with asyncio.timeout(LIMIT):
                    await client.open()
                    while await self._act(client) and now() < until_:
                        pass
            except ConnectionError:
                self.outcomes["left"] += 1
            finally:
                await connection.aclose()

    async def _act(self, client: Downstream) -> bool:
        """Do something; return whether the client stays."""
        self._number += 1
        what, n = self._random.choice(ACTIONS), self._number
        if what == "leave":
            return False
        if what in ("give up", "leave while asked"):
            tool = "stalls" if what == "give up" else "asks"
            if what == "leave while asked":
                client.answer_to = lambda *_: None  # type: ignore[method-assign, assignment]
            call = asyncio.ensure_future(
                client.ask("tools/call", {"name": tool, "arguments": {"n": n}}, id_=f"n{n}")
            )
            await asyncio.sleep(0.001)
            if what == "give up":
                client.tell("notifications/cancelled", {"requestId": f"n{n}"})
            call.cancel()
            self.outcomes[what] += 1
            return what == "give up"
        found = await client.call(what, {"n": n})
        if "code" in found:
            assert found["code"] == -32603, found
            self.outcomes[f"error of {what}"] += 1
            return True
        value: Any = said(found)
        if what == "echo":
            assert value == {"n": n}
        elif what == "asks":
            assert value == [{"n": n}, [{"action": "accept", "content": {"name": f"who? {n}"}}]]
        else:
            assert (what, value) == ("lies", "first")
        self.outcomes[what] += 1
        return True


def _memory() -> int:
    """The objects that are alive."""
    gc.collect()
    return len(gc.get_objects())


def _resident() -> float:
    """The megabytes of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def _emptied(bridge: Bridge) -> None:
    """Wait until nothing is left of any client."""
    stateless = stateless_of(bridge)
    relay = stateless.relay
    async with asyncio.timeout(LIMIT):
        for left in (
            stateless.held,
            bridge._connections,
            relay.upstreams,
            relay.upstreams._closing,
            relay.background,
        ):
            while len(left):  # noqa: ASYNC110 - in a few turns of the loop
                await asyncio.sleep(0.05)


async def soak(there: Revision, seconds: float, clients: int) -> list[tuple[int, float]]:
    """Rounds of clients at one server; the memory after each."""
    servers = Servers(lambda: Upstream(there, TOOLS, {"tools/list": {"tools": []}}))
    bounds = Bounds(
        upstreams=4 * clients, waiting=4 * clients, wait=20, idle=0.1, held=4 * clients, user=clients / 50
    )
    bridge = bridge_to(servers, there, bounds=bounds)
    measured: list[tuple[int, float]] = []
    async with bridge.running():
        for number in range(4):
            run_ = Soak(bridge, number)
            end = asyncio.get_running_loop().time() + seconds / 4
            rows = (SESSION, MODERN)
            async with asyncio.TaskGroup() as group:
                for each in range(clients):
                    group.create_task(run_.client(rows[each % 2], end))
            assert run_.outcomes["echo"], run_.outcomes
            await _emptied(bridge)
            servers.made.clear()
            measured.append((_memory(), _resident()))
    return measured


@pytest.mark.slow
@req("SEAM-10", "SEC-6", "TIME-1", everywhere=True)
def test_nothing_hangs_crosses_or_piles_up() -> None:
    for there in (SESSION, MODERN):
        measured: list[tuple[int, float]] = []

        async def main(there: Revision = there, measured: list[tuple[int, float]] = measured) -> None:
            measured += await soak(there, SECONDS / 2, CLIENTS)

        asyncio.run(main())
        objects = [found for found, _ in measured]
        assert objects[-1] < objects[1] + 2_000, f"objects after each round: {objects}"
        resident = [found for _, found in measured]
        assert resident[-1] < resident[1] * 1.1 + 8, f"megabytes after each round: {resident}"
