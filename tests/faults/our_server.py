"""A server of ours in a process of its own, whose tools take their time, ask, start children and do not let go."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time

import mcprev
from mcprev_types.latest import models as m

QUESTION = m.ElicitRequest(
    params=m.ElicitRequestFormParams(
        message="who?",
        requested_schema=m.ElicitRequestFormParamsRequestedSchema(properties={"name": m.StringSchema()}),
    )
)


def said(value: object) -> m.CallToolResult:
    return m.CallToolResult(content=[m.TextContent(text=str(value))])


class Tools(mcprev.ServerHandler):
    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        return m.ListToolsResult(tools=[])

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
        name = params.name
        if name == "progress":
            for number in range(1_000_000):
                await ctx.progress(number)
                await asyncio.sleep(0.001)
        elif name == "ask":
            return said((await ctx.ask("q", QUESTION)).action)
        elif name == "task":
            await ctx.detach(poll_interval=20)
            await asyncio.Event().wait()
        elif name == "wait":
            await asyncio.Event().wait()
        elif name == "child":
            await self.child(ctx)
        elif name == "deaf":
            while True:
                try:
                    await ctx.progress(1)
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    pass
        elif name == "thread":
            await ctx.progress(1)
            await asyncio.to_thread(time.sleep, 60)
        elif name == "echo":
            return said((params.arguments or {})["text"])
        return said(os.getpid())

    @staticmethod
    async def child(ctx: mcprev.Context) -> None:
        """Has a child for as long as it runs, as an author does who means it well."""
        child = subprocess.Popen(["sleep", "60"])  # noqa: ASYNC220
        try:
            await ctx.progress(child.pid)
            await asyncio.Event().wait()
        finally:
            child.kill()
            child.wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    tasks = mcprev.Tasks({"task": "optional"})
    mcprev.Server(Tools(), "faulty", "1", tasks=tasks, validate=False).run_stdio()
    if "stubborn" in sys.argv:
        time.sleep(60)
