"""A process of `mcprev bridge` is killed while it serves a call that another one has passed on to it."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from bridge.test_processes import LIMIT, OLD, bridge
from bridge.test_several_processes import RawSession
from helpers.requirements import req
from helpers.running import run
from mcprev.errors import INTERNAL_ERROR

APP: Final = """
import asyncio
import pathlib

import mcprev

app = mcprev.App("slow", "1")


@app.tool
async def wait(file: str) -> str:
    with pathlib.Path(file).open("w"):  # a pipe: returns when the test reads it
        pass
    await asyncio.Event().wait()
    return ""
"""


@pytest.mark.slow
@req("SEAM-10", "LIFE-16", at=OLD.name)
def test_a_passed_on_call_ends_with_an_error_when_its_process_is_killed(tmp_path: Path) -> None:
    """It may have been executed, so it is not made again; the session goes on."""
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    pipe = tmp_path / "begun"
    os.mkfifo(pipe)
    command = (
        "--server-revision",
        OLD.name,
        "--",
        sys.executable,
        "-m",
        "mcprev",
        "serve",
        str(tmp_path / "app.py"),
    )
    store = f"sqlite:///{tmp_path}/bridge.db"
    call = {"method": "tools/call", "params": {"name": "wait", "arguments": {"file": str(pipe)}}}

    async def main() -> None:
        async with (
            bridge(*command, store=store) as other,
            bridge(*command, store=store) as holder,
            aiohttp.ClientSession() as http,
        ):
            session = RawSession(http)
            await session.begin(holder.url)
            passed_on = asyncio.ensure_future(session.post(other.url, {"id": "slow", **call}))
            await asyncio.to_thread(pipe.read_bytes)
            holder.process.kill()
            error = (await passed_on)["error"]
            assert error["code"] == INTERNAL_ERROR
            assert error["data"] == {"reason": "worker_lost", "mayHaveRun": True}
            listed = await session.post(other.url, {"id": "after", "method": "tools/list"})
            assert [tool["name"] for tool in listed["result"]["tools"]] == ["wait"]

    run(main(), limit=LIMIT)
