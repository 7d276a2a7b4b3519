"""What a server process writes to stderr is shown by the command whose call failed, and by no other (SEC-6); what it prints to
stdout by mistake, by every one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from mcprev.cli import main
from mcprev.cli.connecting import MAX_OUTPUT
from mcprev.revisions import DEFAULT

APP: Final = """
import sys
import mcprev

app = mcprev.App("reports", "1.0")
print("started \\x1b[2J with token=s3cret", file=sys.stderr)


@app.tool
def report() -> str:
    raise LookupError("no such year")


@app.tool
def chatty() -> str:
    print("x" * 100_000, "the end", file=sys.stderr)
    raise mcprev.ToolError("no luck")


@app.tool
def fine() -> str:
    return "fine"


@app.tool
def gone() -> str:
    print("out of paper", file=sys.stderr, flush=True)
    import os
    os._exit(5)


@app.resource("memo://one")
def one() -> str:
    raise LookupError("no such memo")


@app.prompt
def hello() -> str:
    raise LookupError("no such prompt")
"""
TOLD: Final = "the server wrote to stderr:"


@pytest.fixture(autouse=True)
def _reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("reports.py").write_text(APP, encoding="utf-8")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False, prog_name="mcprev")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("call", "reports.py", "report"), "LookupError: no such year"),
        (
            ("call", "report", "--", sys.executable, "-m", "mcprev", "serve", "reports.py"),
            "LookupError: no such year",
        ),
        (("call", "reports.py", "report", "--repeat", "2"), "LookupError: no such year"),
        (("read", "reports.py", "memo://one"), "LookupError: no such memo"),
        (("prompt", "reports.py", "hello"), "LookupError: no such prompt"),
    ],
    ids=["call", "command", "repeat", "read", "prompt"],
)
def test_a_call_that_fails_shows_the_traceback(arguments: tuple[str, ...], why: str) -> None:
    done = invoke(*arguments)
    assert done.exit_code == 1
    assert TOLD in done.stderr
    assert f"\n  {why}\n" in done.stderr
    assert "reports.py" in done.stderr
    assert "started \\x1b[2J with token=[...]" in done.stderr


@pytest.mark.slow
def test_no_other_command_shows_it() -> None:
    assert invoke("call", "reports.py", "fine").stderr == ""
    assert TOLD not in invoke("call", "reports.py", "fin").stderr  # nothing was sent


@pytest.mark.slow
def test_only_the_end_of_it_is_shown() -> None:
    done = invoke("call", "reports.py", "chatty")
    assert done.exit_code == 1
    assert done.stderr.endswith("the end\n")
    assert len(done.stderr) <= MAX_OUTPUT + 100


def test_what_the_error_says_is_not_said_twice() -> None:
    done = invoke("call", "reports.py", "gone")
    assert done.exit_code == 3
    assert done.stderr.count("out of paper") == 1


PRINTS: Final = """
import json, os, sys
print("starting")
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "tools/call":
        print("calling")
        os._exit(5)
    result = {"protocolVersion": sys.argv[1], "capabilities": {"tools": {}}, "serverInfo": {"name": "prints", "version": "1"}}
    if "id" in request:
        sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode() + b"\\n")
        sys.stdout.buffer.flush()
"""
FIRST: Final = DEFAULT[0]


def prints(*words: str) -> Result:
    server = ("--", sys.executable, "-c", PRINTS, FIRST.version)
    return invoke("call", "any", "--unchecked", "--as", FIRST.name, *words, *server)


def test_what_a_server_prints_by_mistake_is_shown_even_if_it_does_not_end_by_itself() -> None:
    done = prints()
    assert done.exit_code == 3
    assert done.stderr.startswith("Warning: the peer sends lines that are no messages:")
    assert done.stderr.split("\n")[0].endswith("'starting'")


def test_a_variable_of_the_user_keeps_its_value() -> None:
    assert "starting" not in prints("-e", "PYTHONUNBUFFERED=").stderr


def test_a_warning_is_printed_before_the_result() -> None:
    done = invoke(
        "call",
        "fine",
        "--",
        sys.executable,
        "-c",
        "print('starting'); import reports; reports.app.run_stdio()",
    )
    assert done.output.endswith("'starting'\nfine\n")
