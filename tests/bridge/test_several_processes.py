"""`mcprev bridge --config` in several real processes that share a store, in front of several servers."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from itertools import product
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

import mcprev
from bridge.test_processes import ALL, APP, LIMIT, MODERN, OLD, STORES, answer, bridge, store, two
from helpers.requirements import E, req
from helpers.running import run, until
from mcprev.errors import INTERNAL_ERROR
from mcprev.revisions import DEFAULT, Revision

__all__ = ["store"]
WAIT: Final = """

@app.tool
async def wait(file: str) -> str:
    import asyncio
    import pathlib

    with pathlib.Path(file).open("w"):  # a pipe: returns when the test reads it
        pass
    await asyncio.Event().wait()
    return ""
"""
COUNT: Final[dict[str, Any]] = {"method": "tools/call", "params": {"name": "counter__count", "arguments": {}}}


class RawSession:
    """A client that sends the requests of one session to any URL."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http
        self.headers = {"Accept": "application/json, text/event-stream"}

    async def post(self, url: str, message: dict[str, Any]) -> dict[str, Any]:
        """What is answered to a message; nothing for a notification."""
        sent = {"jsonrpc": "2.0", **message}
        async with self._http.post(url, json=sent, headers=self.headers) as response:
            text = await response.text()
            if "Mcp-Session-Id" in response.headers:
                self.headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
                self.headers["MCP-Protocol-Version"] = OLD.name
        lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
        found = [line for line in lines or [text] if line.strip()]
        answer: dict[str, Any] = json.loads(found[-1]) if found else {}
        return answer

    async def begin(self, url: str) -> None:
        """Begin the session."""
        introduction = {
            "protocolVersion": OLD.name,
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        await self.post(url, {"id": 1, "method": "initialize", "params": introduction})
        await self.post(url, {"method": "notifications/initialized"})


def text_of(answer: dict[str, Any]) -> str:
    return str(answer["result"]["content"][0]["text"])


def configured(folder: Path, *names: str) -> tuple[str, ...]:
    """The options of a bridge in front of servers of these names, each a command."""
    (folder / "app.py").write_text(APP, encoding="utf-8")
    command = {"command": sys.executable, "args": ["-m", "mcprev", "serve", str(folder / "app.py")]}
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": dict.fromkeys(names, command)}), encoding="utf-8")
    return "--config", str(config)


@pytest.mark.slow
@req("SEAM-10", "HTTP-9", "MRTR-4", at=E)
@pytest.mark.parametrize(
    ("row", "there", "store"),
    ([*product((OLD, MODERN), (OLD, MODERN), STORES)] if ALL else [(OLD, MODERN, "redis")]),
    indirect=["store"],
)
def test_no_two_requests_in_a_row_need_to_reach_the_same_process(
    row: Revision, there: Revision, store: str, tmp_path: Path
) -> None:
    """Calls, questions and progress, at several servers; a session has one connection to each.

    One pair of revisions, whose client has a session: without one, each request starts the servers again. Each pair with
    each store if MCPREV_WORKERS is all; `test_several_workers` has each pair at several processes in one.
    """
    names = "one", "two"
    options = "--server-revision", there.name, *configured(tmp_path, *names)

    async def main() -> None:
        async with (
            two(*options, store=store) as url,
            mcprev.connect(url, mode=row.name, elicitation=answer) as client,
        ):
            assert {tool.name async for tool in client.tools()} == {
                f"{name}__{tool}" for name in names for tool in ("count", "ask", "steps")
            }
            told: list[float] = []

            def progress(value: float, _total: float | None, _message: str | None) -> None:
                told.append(value)

            for name in names:
                calls = (client.call_tool(f"{name}__ask", {}) for _ in range(2))
                assert [found.text for found in await asyncio.gather(*calls)] == ["Ada"] * 2
                assert (await client.call_tool(f"{name}__steps", {}, progress=progress)).text == "done"
                if row.handshake:
                    counted = [(await client.call_tool(f"{name}__count", {})).text for _ in range(4)]
                    assert counted == list("1234")
            assert told == [1, 2, 3] * 2

    run(main(), limit=LIMIT)


@pytest.mark.slow
@req("SEAM-10", "LIFE-16", at=OLD.name)
def test_a_session_at_several_servers_goes_on_when_its_process_was_killed(tmp_path: Path) -> None:
    """A call that another process has passed on to it gets a typed error within seconds."""
    options = "--server-revision", OLD.name, *configured(tmp_path, "counter")
    (tmp_path / "app.py").write_text(APP + WAIT, encoding="utf-8")
    store, pipe = f"sqlite:///{tmp_path}/bridge.db", tmp_path / "begun"
    os.mkfifo(pipe)
    wait = {"method": "tools/call", "params": {"name": "counter__wait", "arguments": {"file": str(pipe)}}}

    async def main() -> None:
        async with (
            bridge(*options, store=store) as other,
            bridge(*options, store=store) as holder,
            aiohttp.ClientSession() as http,
        ):
            session = RawSession(http)
            await session.begin(holder.url)
            for number in "12":
                assert text_of(await session.post(other.url, {"id": number, **COUNT})) == number
            passed_on = asyncio.ensure_future(session.post(other.url, {"id": "slow", **wait}))
            await asyncio.to_thread(pipe.read_bytes)
            holder.process.kill()
            error = (await passed_on)["error"]
            assert error["code"] == INTERNAL_ERROR
            assert error["data"] == {"reason": "worker_lost", "mayHaveRun": True}
            assert text_of(await session.post(other.url, {"id": "after", **COUNT})) == "1"

    run(main(), limit=LIMIT)


@pytest.mark.slow
@req("SEAM-10", "HTTP-3", "TIME-1", at=E)
def test_workers_of_the_command_serve_a_configuration_and_read_it_again(tmp_path: Path) -> None:
    """Each worker reads the file that has changed, also one that has taken the place of another.

    No session is at the worker that is killed: the test before this one has what becomes of its calls, after a lease.
    """
    options, store = configured(tmp_path, "one"), f"sqlite:///{tmp_path}/bridge.db"

    async def main() -> None:
        async with bridge(*options, store=store, workers=2) as served:
            async with mcprev.connect(served.url, mode=OLD.name, elicitation=answer) as client:
                assert (await client.call_tool("one__ask", {})).text == "Ada"
            served.kill(1)
            await served.until(starts=3)
            async with mcprev.connect(served.url, mode=OLD.name, elicitation=answer) as client:
                assert (await client.call_tool("one__ask", {})).text == "Ada"
                configured(tmp_path, "one", "two")
                await until(lambda: served.said.count("was read again") == 2)
                assert (await client.call_tool("two__ask", {})).text == "Ada"
            for row in (DEFAULT[0], MODERN):
                for _ in range(2):
                    async with mcprev.connect(served.url, mode=row.name) as client:
                        assert (await client.call_tool("two__steps", {})).text == "done"

    run(main(), limit=LIMIT)
