"""Metrics of several processes: whichever is asked writes what all have counted, and no other metrics of its process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("prometheus_client")

CALLS: Final = """
import asyncio, sys
import mcprev
from mcprev.middleware import Metrics

metrics = Metrics()
app = mcprev.App("a", "1", middleware=[metrics])
app.tool(name="t")(lambda: "done")

async def main():
    async with mcprev.connect(app) as client:
        for _ in range(int(sys.argv[1])):
            await client.call_tool("t")
        sent = []

        async def send(message):
            sent.append(message.get("body", b""))

        async def receive():
            return {"type": "http.request"}

        scope = {"type": "http", "method": "GET", "path": "/metrics", "query_string": b"", "headers": []}
        await metrics.app(scope, receive, send)
    print(b"".join(sent).decode())

asyncio.run(main())
"""
COUNTED: Final = 'mcp_calls_total{method="tools/call",name="t",outcome="ok"} '


def counted(calls: int, **environment: str) -> list[str]:
    """What a process that has counted some calls writes of all."""
    found = subprocess.run(
        [sys.executable, "-c", CALLS, str(calls)],
        env={**os.environ, **environment},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return [line.removeprefix(COUNTED) for line in found.stdout.splitlines() if line.startswith(COUNTED)]


@pytest.mark.slow
def test_each_process_writes_what_all_have_counted_once(tmp_path: Path) -> None:
    shared = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    assert [counted(calls, **shared) for calls in (2, 3)] == [["2.0"], ["5.0"]]


@pytest.mark.slow
def test_a_process_without_the_shared_folder_writes_what_it_has_counted() -> None:
    assert counted(2) == ["2.0"]
