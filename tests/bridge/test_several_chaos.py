"""Many clients of several servers call while processes of the bridge are killed: each call ends, and with its own answer."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

import mcprev
from bridge.fellows_of_bridges import Fellows, fellows, stores
from bridge.joining import MODERN, SESSION, TOOLS, ends, joined
from helpers.requirements import E, req
from helpers.running import run, until
from mcprev.bridge.answers import GONE
from mcprev.bridge.peers import UNASKABLE
from mcprev.bridge.upstreams import Bounds
from mcprev.revisions import Revision

NAMES: Final = ("files", "bank")
CLIENTS: Final = 8
ROUNDS: Final = 6
USER: Final = 8.0
"""Seconds that a user has."""
PROCESSES: Final = 4
LOST: Final = "the connection was lost"
ALLOWED: Final = (LOST, GONE, UNASKABLE, "worker_lost")
"""What the error of a call says whose process was killed."""


class Client:
    """Calls tools that ask, and keeps how the calls have ended."""

    def __init__(self, number: int, row: Revision) -> None:
        self.number = number
        self.row = row
        self.right = 0
        self.refused: list[str] = []

    async def answer(self, params: Any) -> Any:
        return {"name": f"{self.number} {params.message}"}

    async def run(self, made: Fellows) -> None:
        async with mcprev.connect(made.target, mode=self.row.name, elicitation=self.answer) as client:
            for turn in range(ROUNDS):
                calls = (self.call(client, name, turn) for name in NAMES)
                await asyncio.gather(*calls)

    async def call(self, client: mcprev.Client, server: str, turn: int) -> None:
        arguments = {"client": self.number, "turn": turn}
        try:
            found = await client.call_tool(f"{server}__asks", arguments)
        except mcprev.ConnectionLost as error:
            self.refused.append(f"{LOST}: {error}")
            return
        except mcprev.McpError as error:
            self.refused.append(f"{error} {getattr(error, 'data', None)}")
            return
        given, answers = json.loads(found.text)
        assert given == arguments
        if "content" not in answers[0]:
            self.refused.append(str(answers[0]))  # the server was told that the client cannot be asked
            return
        assert answers[0]["content"]["name"] == f"{self.number} who? {server}"
        self.right += 1


@pytest.mark.slow
@req("SEAM-10", "LIFE-16", "MRTR-4", at=(SESSION.name, E))
@pytest.mark.parametrize(
    ("kind", "there"), [("memory", SESSION), ("memory", MODERN), ("redis", SESSION)], ids=str
)
def test_every_call_ends_while_processes_are_killed(kind: str, there: Revision, tmp_path: Path) -> None:
    servers = ends(there, *NAMES, works={"asks": TOOLS["asks"]})
    clients = [Client(number, (SESSION, MODERN)[number % 2]) for number in range(CLIENTS)]

    async def main() -> None:
        with stores(kind, tmp_path) as open_store:
            async with fellows(
                lambda store: joined(servers, there, store=store, bounds=Bounds(user=USER)),
                open_store,
                PROCESSES,
            ) as made:
                running = [asyncio.ensure_future(client.run(made)) for client in clients]
                for killed in range(2):
                    wanted = (killed + 1) * CLIENTS * ROUNDS // 3
                    await until(lambda wanted=wanted: sum(client.right for client in clients) >= wanted)  # type: ignore[misc]
                    made.front.leave(killed)
                    await made.kill(killed)
                await asyncio.gather(*running)
                # A call whose answer was lost with its process waits for another one as long as for any user.
                async with asyncio.timeout(USER + 5):
                    await until(lambda: not any(made.held_calls(at) for at in range(2, PROCESSES)))
                for at in range(2, PROCESSES):
                    assert not made.peers(at)._forwarded
                    assert not made.peers(at)._serving
            for server in servers.values():
                server.check()
        calls = CLIENTS * ROUNDS * len(NAMES)
        refused = [text for client in clients for text in client.refused]
        assert sum(client.right for client in clients) + len(refused) == calls
        assert [text for text in refused if not any(allowed in text for allowed in ALLOWED)] == []
        assert len(refused) < calls / 4, refused

    run(main(), limit=300.0)
