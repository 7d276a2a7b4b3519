"""`mcprev call` and `inspect` of a server as there are old ones: it dies of `server/discover` or writes much about it, and logs
without declaring it.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from mcprev.cli import main
from mcprev.error_text import last_line
from mcprev.revisions import DEFAULT
from mcprev.transports.stdio.client import UNANSWERED

FIRST: Final = DEFAULT[0]
SERVER: Final = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    method = request["method"]
    if method == "server/discover" and "complains" in sys.argv:
        print("80 validation errors for ClientRequest" + "\\n  Input should be 'ping'" * 80, file=sys.stderr, flush=True)
        error = {"code": -32602, "message": "Invalid request parameters"}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)
        continue
    if method == "server/discover" or "dies" in sys.argv:
        raise ValueError(f"the method {method} is not one of " + "all these, " * 300)
    if "id" not in request:
        continue
    results = {
        "initialize": {"protocolVersion": sys.argv[1], "capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "1"}},
        "tools/list": {"tools": [
            {"name": name, "inputSchema": {"type": "object"}} for name in ("good", "bad", "hotel__price", "a__book", "b__book")
        ]},
        "tools/call": {"content": [{"type": "text", "text": "done"}], "isError": request["params"].get("name") == "bad"},
    }
    if method == "tools/call":
        params = {"level": "info", "data": "stamped"}
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": params}), flush=True)
        print("the stamp is dry", file=sys.stderr, flush=True)
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": results[method]}), flush=True)
"""


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[None, None, None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    UNANSWERED._known.clear()  # pyright: ignore[reportPrivateUsage]
    yield
    UNANSWERED._known.clear()  # pyright: ignore[reportPrivateUsage]


def run(command: str, *words: str, server: str = "") -> Result:
    line = (command, *words, "--", sys.executable, "-c", SERVER, FIRST.version, server)
    return CliRunner().invoke(main, line, catch_exceptions=False, prog_name="mcprev")


def test_a_server_that_declares_no_logging_is_not_asked_for_a_level_and_its_messages_are_printed() -> None:
    done = run("call", "good", "--log-level", "info")
    assert (done.exit_code, done.stdout) == (0, "done\n")
    assert done.stderr.splitlines() == [
        "Warning: the server declares no logging, so it is not asked for a level; what it logs is printed",
        "info server: stamped",
    ]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("price", "; did you mean 'hotel__price'?"),
        ("book", "; did you mean 'a__book' or 'b__book'?"),
        ("hotel", "; it has a__book, b__book, bad, good, hotel__price"),
    ],
    ids=["of one server", "of two servers", "a prefix"],
)
def test_a_name_without_its_prefix_is_refused_with_the_name_that_is_meant(name: str, hint: str) -> None:
    refused = run("call", name, "--as", FIRST.name)
    assert refused.exit_code == 2
    assert refused.stderr == f"Error: the server has no tool '{name}'{hint}\n"


@pytest.mark.parametrize("server", ["", "complains"], ids=["that ended", "that wrote much"])
def test_a_failed_call_shows_what_the_server_wrote_during_it_and_how_to_see_what_it_wrote_when_it_was_probed(
    server: str,
) -> None:
    failed = run("call", "bad", server=server)
    assert (failed.exit_code, failed.stdout) == (1, "done\n")
    assert failed.stderr.splitlines() == [
        "info server: stamped",
        "the server wrote to stderr:",
        f"  [lines from before it was connected are left out; --as {FIRST.name} sends no server/discover, and shows all]",
        "  the stamp is dry",
    ]


def test_a_failed_call_that_begins_with_initialize_leaves_nothing_out() -> None:
    failed = run("call", "bad", "--as", FIRST.name, server="complains")
    assert failed.stderr.splitlines() == [
        "info server: stamped",
        "the server wrote to stderr:",
        "  the stamp is dry",
    ]


def test_a_server_that_cannot_be_reached_shows_all_that_it_wrote() -> None:
    failed = run("call", "good", server="dies")
    assert failed.exit_code == 3
    assert "Traceback (most recent call last):" in failed.stderr
    assert "the method initialize is not one of" in failed.stderr


def test_each_step_of_the_negotiation_is_one_short_line() -> None:
    shown = run("inspect")
    assert shown.exit_code == 0
    steps = [line for line in shown.stdout.splitlines() if line.startswith("evidence")]
    assert len(steps) == 3
    assert all(len(line) < 200 for line in steps)
    assert "exited with 1: ValueError: the method server/discover is not one of all these" in steps[0]
    assert steps[0].endswith("...")
    UNANSWERED._known.clear()  # pyright: ignore[reportPrivateUsage] - another process
    assert "Traceback (most recent call last):" in run("inspect", "--json").stdout


GROUP: Final = "".join(
    traceback.format_exception(
        ExceptionGroup("unhandled", [TypeError("first"), ValueError("no such folder")])
    )
)


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ("", ""),
        ("\n --- \n", ""),
        ("loading\nImportError: no module\n\n", "ImportError: no module"),
        (GROUP, "ValueError: no such folder"),
    ],
    ids=["nothing", "no words", "an exception", "a group of exceptions"],
)
def test_the_last_line_is_one_with_words(written: str, line: str) -> None:
    assert last_line(written) == line
