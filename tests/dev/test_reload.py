"""The server starts again when its files change, and the session of the page goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dev.inspected import opened
from helpers.running import run
from mcprev.dev.launch import ChildLauncher

SERVER = """
import mcprev
import words
app = mcprev.App("greeter", "1.0")

@app.tool
def greet(name: str) -> str:
    return f"{words.HELLO} {name}"
"""


def write(file: Path, text: str) -> None:
    file.write_text(text)
    now = file.stat()
    os.utime(file, ns=(now.st_atime_ns, now.st_mtime_ns + 1_000_000))


@pytest.mark.parametrize("over_http", [False, True])
def test_a_changed_file_is_served_and_a_broken_one_is_told_until_it_is_mended(
    tmp_path: Path, over_http: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "server.py").write_text(SERVER)
        (tmp_path / "words.py").write_text("HELLO = 'hi'\n")
        greet = {"name": "greet", "arguments": {"name": "Ann"}}
        async with opened(ChildLauncher("server.py", {}, over_http=over_http)) as page:
            await page.post("list", kind="tools")
            await page.until("lists", lambda one: one["state"] == "ready")
            assert "hi Ann" in (await page.call("tools/call", greet))["result"]

            page.told.clear()
            write(tmp_path / "words.py", "HELLO = 'good day,'\n")
            changed = await page.until("reload", lambda one: one["state"] == "restarted")
            assert [Path(name).name for name in changed["files"]] == ["words.py"]
            await page.until("lists", lambda one: one["state"] == "ready")  # the open list is read again
            assert "good day, Ann" in (await page.call("tools/call", greet))["result"]

            if over_http:
                return  # a process that does not start is told of in the same way

            page.told.clear()
            write(tmp_path / "words.py", "HELLO = greeting\n")
            failed = await page.until("reload", lambda one: one["state"] == "failed")
            assert "NameError: name 'greeting' is not defined" in failed["error"]["traceback"]
            assert "words.py" in failed["error"]["traceback"]
            state = await page.get("state")
            assert (state["target"]["state"], len(state["calls"])) == ("failed", 2)

            write(tmp_path / "words.py", "HELLO = 'welcome'\n")
            await page.until("reload", lambda one: one["state"] == "restarted")
            assert "welcome Ann" in (await page.call("tools/call", greet))["result"]

    run(scenario(), limit=60)
