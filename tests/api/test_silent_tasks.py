"""A server that began a task and is silent about it holds a call for the timeout of the call, and no longer."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

import mcprev
from helpers.raw_server import Exchange, connected
from helpers.requirements import D, req
from helpers.running import run
from mcprev.revisions import DEFAULT, TaskSupport

ROW: Final = next(row for row in DEFAULT if row.tasks is TaskSupport.CORE)


async def _mute(exchange: Exchange) -> None:
    await exchange.gone.wait()


def _state(status: str) -> dict[str, Any]:
    at = "2025-11-25T10:00:00Z"
    return {"taskId": "t", "status": status, "createdAt": at, "lastUpdatedAt": at, "ttl": None}


@req("LIFE-18", "TIME-1", "TASK-4", at=D)
@pytest.mark.parametrize(
    ("get", "within"),
    [(_mute, 40), ({**_state("working")}, 60), ({**_state("completed")}, 40)],
    ids=["never responds", "says that it works", "never sends the result"],
)
def test_a_task_of_a_silent_server_holds_a_call_for_its_timeout(get: Any, within: float) -> None:
    """It is the server that may be silent for `timeout`; a task that works may take `total_timeout`."""

    async def main() -> None:
        replies: dict[str, Any] = {
            "tools/call": {"task": _state("working")},
            "tasks/result": _mute,
            "tasks/get": get,
        }
        async with connected(ROW, replies) as (client, _, _):
            clock = asyncio.get_running_loop().time
            began = clock()
            with pytest.raises(mcprev.RequestTimeout) as caught:
                await client.call_tool("t", timeout=20, total_timeout=50)
            assert caught.value.kind == ("total" if within > 50 else "idle")
            assert clock() - began < within

    run(main(), limit=1_000, has_both_ends=True)


@req("LIFE-18", "TASK-4", at=D)
def test_a_late_result_of_a_task_comes_while_its_status_is_asked_for() -> None:
    asked = asyncio.Event()

    async def main() -> None:
        async def late(exchange: Exchange) -> None:
            await asked.wait()
            await exchange.result({"content": [{"type": "text", "text": "late"}]})

        async def get(exchange: Exchange) -> None:
            asked.set()
            await exchange.gone.wait()

        replies: dict[str, Any] = {
            "tools/call": {"task": _state("working")},
            "tasks/result": late,
            "tasks/get": get,
        }
        async with connected(ROW, replies) as (client, _, _):
            assert (await client.call_tool("t", timeout=20)).text == "late"

    run(main(), limit=1_000, has_both_ends=True)
