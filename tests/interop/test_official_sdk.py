"""Real peers over stdio: releases of the official Python SDK that speak each revision, in both directions.

`make interop` puts each release into an environment of its own; without them these tests are skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import mcprev
from running import run

ROOT: Final = Path(__file__).parents[2]
HERE: Final = Path(__file__).parent
RELEASES: Final = {
    "1.8.1": "2024-11-05",
    "1.9.4": "2025-03-26",
    "1.10.1": "2025-06-18",
    "1.23.3": "2025-11-25",
    "2.3.0": "2026-07-28",
}
"""The newest revision that each release speaks."""
LIMIT: Final = 60.0


@pytest.fixture(params=RELEASES, ids=lambda release: f"mcp-{release}")
def release(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if not _python(name).exists():
        pytest.skip(f"mcp {name} is not installed; run `make interop`")
    return name


def _python(release: str) -> Path:
    return ROOT / ".interop" / release / "bin" / "python"


def test_our_client_finds_the_newest_revision_of_an_official_server(release: str) -> None:
    async def main() -> None:
        target = mcprev.stdio(str(_python(release)), str(HERE / "sdk_server.py"))
        async with mcprev.connect(target) as client:
            assert client.revision == RELEASES[release]
            assert [tool.name async for tool in client.tools()] == ["echo"]
            result = await client.call_tool("echo", {"text": "hello"}, timeout=LIMIT)
            assert result.to_wire()["content"] == [{"type": "text", "text": "hello"}]

    run(main(), limit=LIMIT)


def test_an_official_client_gets_on_with_our_server(release: str) -> None:
    done = subprocess.run(
        [_python(release), HERE / "sdk_client.py", sys.executable, ROOT / "examples" / "server.py"],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    seen = json.loads(done.stdout)
    handshake = [row for row in RELEASES.values() if row <= seen["revision"]]
    assert seen["revision"] == handshake[-1], "the session is at a revision that we know"
    assert (seen["tools"], seen["sum"]) == (["add"], "3")
    assert "add takes two numbers" in seen["error"]
