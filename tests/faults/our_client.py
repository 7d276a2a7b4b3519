"""A client in a process of its own that has everything under way with a server of ours, says so, and waits to be killed.

    our_client.py REVISION

It writes the ids of the server's process and of the server's child.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import mcprev
from faults.processes import OURS
from mcprev.revisions import TaskSupport, revision_named
from mcprev_types.latest import models as m


class Person(mcprev.ClientHandler):
    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


async def main(name: str) -> None:
    row, target, person = revision_named(name), mcprev.stdio(*OURS), Person()
    child: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    reports = asyncio.Event()
    async with mcprev.connect(target, mode=name, handler=person) as client, client.listen(tools=True):
        calls: list[Any] = [
            client.call_tool("wait"),
            client.call_tool("child", progress=lambda pid, _, __: child.set_result(int(pid))),
            client.call_tool("progress", progress=lambda _, __, ___: reports.set()),
            client.call_tool("task"),
        ]
        can_ask = row.input_in_results or "elicitation/create" in row.methods
        if can_ask:
            calls.append(client.call_tool("ask"))
        if row.tasks is TaskSupport.CORE:
            calls.append(client.start_tool("task"))
        pending = [asyncio.ensure_future(call) for call in calls]
        await reports.wait()
        if can_ask:
            await person.asked.wait()
        print(target.pid, await child, flush=True)  # noqa: T201
        await asyncio.gather(*pending)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
