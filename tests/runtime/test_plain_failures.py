"""What a command says of a mistake of its user: one line and the next step, in the words of the command line."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from helpers.raw_server import Exchange, Raw
from helpers.running import run
from helpers.shell import invoke
from helpers.support import ROOT
from mcprev.revisions import DEFAULT

WITHOUT_A_LIBRARY: Final = """
import sys
sys.modules["limits"] = None
import mcprev
{}
"""
"""A server's file in an environment that lacks the library of an extra."""


@pytest.mark.parametrize(
    "server",
    [
        'app = mcprev.App("shop", "1.0", middleware=[mcprev.RateLimit("1/minute")])',
        'def make(): return mcprev.App("shop", "1.0", middleware=[mcprev.RateLimit("1/minute")])',
    ],
)
def test_a_missing_extra_of_a_servers_file_is_one_line_with_the_command_that_installs_it(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "limits", None)
    Path("without_limits.py").write_text(WITHOUT_A_LIBRARY.format(server), encoding="utf-8")
    done = invoke(None, "serve", "without_limits.py" + (":make" if "make" in server else ""))
    assert done.exit_code == 1
    assert done.stderr == (
        "Error: limiting rates requires limits; install mcprev[limits]: pip install 'mcprev[limits]'\n"
    )


def test_another_exception_of_a_servers_file_still_has_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("failing_server.py").write_text("def stock():\n    return {}['hat']\n\nstock()\n", encoding="utf-8")
    done = invoke(None, "serve", "failing_server.py")
    assert done.exit_code == 1
    assert 'failing_server.py", line 2, in stock' in done.stderr


VARIABLES: Final = re.compile(r"""environ(?:\.get)?[(\[]\s*["']([A-Z_]+)["']|["'](MCPREV_[A-Z_]+)["']""")
INTERNAL: Final = {
    "MCPREV_RELOADED",
    "MCPREV_SOURCE_FILES",
    "MCPREV_WORKER",
    "MCPREV_NO_METRICS_FOLDER",
    "MCPREV_COMPLETE",
    "COMP_WORDS",
    "COMP_CWORD",
}
"""Those of a command and the processes that it starts, and of a shell that completes words."""


def test_the_table_of_variables_has_those_that_the_code_reads() -> None:
    sources = [*(ROOT / "runtime").rglob("*.py"), *(ROOT / "codegen").rglob("*.py")]
    found = (found for path in sources for found in VARIABLES.findall(path.read_text(encoding="utf-8")))
    read = {name for each in found for name in each if name}
    text = (ROOT / "docs" / "command.md").read_text(encoding="utf-8")
    table = text.partition("## Environment variables")[2].partition("\n## ")[0]
    assert {"MCPREV_STORE", "NO_COLOR", "XDG_CONFIG_HOME"} <= read
    assert sorted(name for name in read - INTERNAL if f"`{name}`" not in table) == []


def test_a_stream_that_ends_within_an_event_says_so_and_not_that_the_url_is_wrong() -> None:
    """The server was reached, and has answered: it left out the blank line."""
    row = next(row for row in reversed(DEFAULT) if row.handshake)
    event = b'data: {"jsonrpc": "2.0", "id": 2, "result": {"contents": []}}\n'

    async def answer(exchange: Exchange) -> None:
        if exchange.verb != "POST":
            await exchange.respond(405)
        elif exchange.method == "initialize":
            info = {"name": "cut", "version": "1"}
            result: dict[str, Any] = {
                "protocolVersion": row.version,
                "capabilities": {"resources": {}},
                "serverInfo": info,
            }
            await exchange.json({"jsonrpc": "2.0", "id": exchange.message["id"], "result": result})
        elif exchange.method == "resources/read":
            await exchange.respond(200, event, {"Content-Type": "text/event-stream"})
        else:
            await exchange.respond(202)

    async def main() -> None:
        server = Raw(answer)
        await server.start()
        try:
            words = ("read", server.url, "memo://x", "--as", row.name, "--no-login")
            done = await asyncio.to_thread(invoke, None, *words)
            assert done.exit_code == 3
            assert "the stream ended without a response" in done.stderr
            assert "the blank line after an event may be missing" in done.stderr
            assert "check that the server runs" not in done.stderr
        finally:
            await server.stop()

    run(main())


WRONG_RESULT: Final = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    results = {
        "initialize": {"protocolVersion": sys.argv[1], "capabilities": {"tools": {}}, "serverInfo": {"name": "a", "version": "1"}},
        "tools/call": {"content": [{"type": "text", "text": 1}], "isError": "no"},
    }
    if request["method"] in results:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": results[request["method"]]}), flush=True)
"""


def test_a_result_that_is_not_valid_is_told_by_its_paths() -> None:
    """As `mcprev validate` tells it: without the words of the library that finds it."""
    row = next(row for row in reversed(DEFAULT) if row.handshake)
    command = (sys.executable, "-c", WRONG_RESULT, row.version)
    done = invoke(None, "call", "t", "--unchecked", "--as", row.name, "--", *command)
    assert done.exit_code == 4
    assert done.stderr.splitlines() == [
        "Error: the result is not valid",
        "  $.content.0.text Input should be a valid string",
        "  $.isError Input should be a valid boolean",
    ]
