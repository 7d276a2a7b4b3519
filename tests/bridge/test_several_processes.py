"""`mcprev bridge --config` in several real processes that share a store: a session belongs to one of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import aiohttp

from bridge.test_processes import APP, LIMIT, OLD, bridge
from mcprev.bridge.several.one_process import ELSEWHERE
from mcprev.errors import INTERNAL_ERROR
from requirements import req
from running import run

COUNT: Final[dict[str, Any]] = {"method": "tools/call", "params": {"name": "counter__count", "arguments": {}}}


class RawSession:
    """A client that sends the requests of one session to any URL."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http
        self._headers = {"Accept": "application/json, text/event-stream"}

    async def post(self, url: str, message: dict[str, Any]) -> dict[str, Any]:
        """What is answered to a message; nothing for a notification."""
        sent = {"jsonrpc": "2.0", **message}
        async with self._http.post(url, json=sent, headers=self._headers) as response:
            text = await response.text()
            if "Mcp-Session-Id" in response.headers:
                self._headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
                self._headers["MCP-Protocol-Version"] = OLD.name
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


@req("SEAM-10", "HTTP-9", at=OLD.name)
def test_a_session_at_several_servers_is_served_by_one_process(tmp_path: Path) -> None:
    """Another one refuses it with an error that says what to do, and takes it over when the first has ended."""
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    command = {"command": sys.executable, "args": ["-m", "mcprev", "serve", str(tmp_path / "app.py")]}
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"counter": command}}), encoding="utf-8")
    options = "--server-revision", OLD.name, "--config", str(config)
    store = f"sqlite:///{tmp_path}/bridge.db"

    async def main() -> None:
        async with bridge(*options, store=store) as other, aiohttp.ClientSession() as http:
            session = RawSession(http)
            async with bridge(*options, store=store) as holder:
                await session.begin(holder.url)
                for number in ("1", "2"):
                    refused = await session.post(other.url, {"id": f"other-{number}", **COUNT})
                    assert refused["error"] == {"code": INTERNAL_ERROR, "message": ELSEWHERE}
                    assert text_of(await session.post(holder.url, {"id": number, **COUNT})) == number
            turn, answer = 0, refused
            while "error" in answer:
                assert answer["error"]["message"] == ELSEWHERE
                turn += 1
                answer = await session.post(other.url, {"id": f"again-{turn}", **COUNT})
            assert text_of(answer) == "1"

    run(main(), limit=LIMIT)
