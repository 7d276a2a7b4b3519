"""Every client in front of every server, through a bridge in three processes: no two messages in a row reach the same one.

What passes is what passes through one process, whose table is in `docs/bridge.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import pytest
from typing_extensions import override

from api.wire import Message
from bridge.hands import Downstream, Servers, Upstream, capabilities_of
from bridge.spread import Processes, spread
from bridge.task_hands import capabilities_with_tasks
from bridge.test_matrix import FEATURES, YES, Cell, Feature, outcomes as outcomes_of_one, server
from fuzz.fuzzing import each_once
from helpers.requirements import req
from helpers.running import run, until
from mcprev.revisions import DEFAULT, Revision

SECONDS: Final = 10.0
"""Seconds after which a feature hangs."""
LIMIT: Final = 60.0


class Noticed(Upstream):
    """A server by hand that is known as the last one that was sent a message."""

    latest: list[Upstream]

    @override
    def _take(self, message: Message) -> None:
        super()._take(message)
        self.latest[:] = [self]


class SpreadCell(Cell):
    """One pair of revisions; its server is the connection that was used last."""

    latest: list[Upstream]

    @property
    @override
    def server(self) -> Upstream:
        return self.latest[0]


async def cancellation(cell: Cell) -> str:
    """A client without a session cancels by closing its stream, which gives no reason."""
    client = cell.client
    params: Message = {"name": "waiting", "_meta": {"progressToken": 7}}
    asked = asyncio.ensure_future(client.ask("tools/call", params, id_="to cancel"))
    await client.heard("notifications/progress")
    up = cell.server
    client.tell("notifications/cancelled", {"requestId": "to cancel", "reason": "enough"})
    await until(lambda: bool(up.cancelled))
    asked.cancel()
    assert len(up.cancelled) == 1
    assert not cell.row.handshake or up.cancelled == ["enough"]
    return YES


SPREAD: Final[Mapping[str, Feature]] = {**FEATURES, "cancellation with its reason": cancellation}


def outcomes(row: Revision, there: Revision) -> dict[str, str]:
    """What each feature comes to at a pair."""
    found: dict[str, str] = {}

    async def main() -> None:
        latest: list[Upstream] = []
        tasks: dict[str, Message] = {}

        def make() -> Upstream:
            made = server(there, Noticed)
            assert isinstance(made, Noticed)
            made.latest = latest
            if not there.handshake:
                made.tasks = tasks  # a server without sessions finds a task wherever it is asked
            return made

        servers = Servers(make)
        client = Downstream(row, capabilities_with_tasks(row, capabilities_of(row)))
        async with spread(Processes(servers, there, revisions=[row.name]), client) as (way,):
            cell: Any = SpreadCell(client, servers)
            cell.latest = latest
            for name, feature in SPREAD.items():
                try:
                    async with asyncio.timeout(SECONDS):
                        found[name] = await feature(cell)
                except BaseException as error:
                    error.add_note(f"{name}: {row.name} -> {there.name}, processes {way.given[-8:]}")
                    raise
            assert len(set(way.given)) == 3
        servers.check()
        await until(lambda: all(up.lost for up in servers.made))

    run(main(), limit=LIMIT)
    return found


@req("SEAM-10", "CONV-36", "MRTR-4", "MRTR-11", "HTTP-9", "CANC-7", "SUB-8", "TASK-4", "TASKX-3")
@each_once
@pytest.mark.parametrize("there", DEFAULT, ids=lambda row: f"to {row.name}")
def test_several_processes_pass_what_one_passes(row: Revision, there: Revision) -> None:
    assert outcomes(row, there) == outcomes_of_one(row, there)
