"""`mcprev call --repeat`: how many calls succeeded, in which time, what failed, and what is refused."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from helpers.shell import serve_here
from mcprev.cli import main
from mcprev.client.tool_result import ToolResult
from mcprev.dev.repeating import (
    AT_ONCE,
    MAX_AT_ONCE,
    MAX_CALLS,
    MAX_REASONS,
    RepeatPlan,
    Repetition,
    percentile,
)
from mcprev.errors import ConnectionLost, InternalError
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m

APP: Final = '''
import asyncio, os
from dataclasses import dataclass
import mcprev

app = mcprev.App("shop", "1.0")
calls = 0
waiting = 0
full = asyncio.Event()


@app.tool
def add(a: int) -> int:
    return a + 1


@app.tool
def every_other() -> str:
    global calls
    calls += 1
    if calls % 2:
        raise mcprev.ToolError("odd \\x1b[2J")
    return "even"


@app.tool
async def meet(people: int) -> str:
    """Answers nobody before so many wait."""
    global waiting
    waiting += 1
    if waiting == people:
        full.set()
    await full.wait()
    return "met"


@dataclass
class Order:
    name: str


@app.tool
async def order(ctx: mcprev.Context) -> str:
    answer = await ctx.elicit("What?", Order)
    if answer.data is None:
        raise mcprev.ToolError("declined")
    return answer.data.name


@app.tool
def leave() -> str:
    global calls
    calls += 1
    if calls == 3:
        os._exit(7)
    return "here"
'''


@pytest.fixture(autouse=True)
def _shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    serve_here("shop.py", APP, monkeypatch)


def call(*arguments: str, target: str = "shop.py") -> Result:
    return CliRunner().invoke(main, ("call", target, *arguments), catch_exceptions=False, prog_name="mcprev")


def figures(done: Result) -> Any:
    document = json.loads(done.stdout)
    assert document["format"] == 1
    return document["repeat"]


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_each_call_is_made_and_counted(row: Revision) -> None:
    options = ("--repeat", "7", "--at-once", "3", "--json", "--as", row.name, "--record", "s.jsonl")
    done = call("add", "a=1", *options)
    assert done.exit_code == 0, done.stderr
    found = figures(done)
    assert (found["calls"], found["at_once"], found["succeeded"], found["failed"]) == (7, 3, 7, 0)
    times = found["milliseconds"]
    assert list(times) == ["min", "mean", "p50", "p90", "p95", "p99", "max"]
    assert 0 < times["min"] <= times["p50"] <= times["p90"] <= times["p95"] <= times["p99"] <= times["max"]
    assert times["min"] <= times["mean"] <= times["max"] <= found["seconds"] * 1000 + 1
    assert found["calls_per_second"] > 0
    assert found["errors"] == {}
    sent = [json.loads(line)["message"] for line in Path("s.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sum(message.get("method") == "tools/call" for message in sent) == 7


def test_the_table_has_the_same_figures() -> None:
    done = call("add", "a=1", "--repeat", "2")
    assert (done.exit_code, done.stderr) == (0, "")
    rows = dict(line.split("\t") for line in done.stdout.splitlines())
    assert list(rows) == [
        "PROPERTY",
        "calls",
        "succeeded",
        "failed",
        "seconds",
        "calls/s",
        *(f"{name} ms" for name in ("min", "mean", "p50", "p90", "p95", "p99", "max")),
    ]
    assert (rows["calls"], rows["succeeded"], rows["failed"]) == ("2", "2", "0")


def test_calls_begin_for_so_many_seconds() -> None:
    done = call("add", "a=1", "--seconds", "0.3", "--json")
    found = figures(done)
    assert (done.exit_code, found["failed"], found["rate"]) == (0, 0, None)
    assert 1 <= found["succeeded"] == found["calls"] < MAX_CALLS
    assert 0.3 <= found["seconds"] < 0.3 + found["milliseconds"]["max"] / 1000 + 0.1


def test_the_first_limit_ends_the_calls() -> None:
    begun = time.monotonic()
    assert figures(call("add", "a=1", "--seconds", "600", "--repeat", "3", "--json"))["succeeded"] == 3
    assert (
        figures(call("add", "a=1", "--seconds", "0.2", "--repeat", "3", "--rate", "0.5", "--json"))["calls"]
        == 1
    )
    assert time.monotonic() - begun < 60


def test_calls_begin_at_a_rate_and_wait_at_once() -> None:
    """The second and third begin 0.1 s and 0.2 s after the first; all wait until the fourth is there."""
    found = figures(call("meet", "people=4", "--repeat", "4", "--rate", "10", "--json"))
    assert (found["succeeded"], found["at_once"], found["rate"]) == (4, min(4, AT_ONCE), 10)
    assert found["milliseconds"]["max"] >= 280
    assert found["milliseconds"]["min"] < found["milliseconds"]["max"] - 180


def test_calls_of_the_warm_up_are_in_no_figure() -> None:
    begun = time.monotonic()
    options = ("--repeat", "2", "--warm-up", "0.3", "--json", "--record", "s.jsonl")
    found = figures(call("add", "a=1", *options))
    assert time.monotonic() - begun > 0.3
    assert (found["calls"], found["succeeded"]) == (2, 2)
    sent = [json.loads(line)["message"] for line in Path("s.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sum(message.get("method") == "tools/call" for message in sent) > 2


def test_a_server_that_ends_in_the_warm_up_is_called_no_more() -> None:
    Path("process.py").write_text(APP, encoding="utf-8")  # in a process of its own
    done = call("leave", "--repeat", "5", "--warm-up", "600", "--json", target="process.py")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "Error: " in done.stderr


@pytest.mark.parametrize("row", [row for row in DEFAULT if row.elicitation_modes], ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("answers", "succeeded", "errors"),
    [
        ({"elicitation": {"name": "tea"}}, 3, {}),
        (
            {"elicitation": [{"name": "tea"}, "decline", {"name": "milk"}]},
            2,
            {"the tool failed: declined": 1},
        ),
    ],
    ids=["one", "one each"],
)
def test_each_call_that_asks_is_answered_out_of_the_file(
    row: Revision, answers: Any, succeeded: int, errors: dict[str, int]
) -> None:
    """A single answer is that of every question; a list has one for each."""
    Path("answers.json").write_text(json.dumps(answers), encoding="utf-8")
    done = call("order", "--repeat", "3", "--answer", "answers.json", "--json", "--as", row.name)
    found = figures(done)
    assert (found["succeeded"], found["errors"]) == (succeeded, errors)
    assert done.exit_code == (1 if errors else 0)


def test_a_call_whose_question_has_no_answer_in_the_file_fails() -> None:
    Path("answers.json").write_text('{"elicitation": [{"name": "tea"}]}', encoding="utf-8")
    done = call("order", "--repeat", "3", "--answer", "answers.json", "--json")
    assert (done.exit_code, figures(done)["succeeded"], figures(done)["failed"]) == (1, 1, 2)
    assert "Warning: the server sends more requests than the 1 answers in `elicitation`" in done.stderr


def test_without_answers_a_call_that_asks_fails() -> None:
    done = call("order", "--repeat", "2", "--json")
    assert (done.exit_code, figures(done)["failed"]) == (1, 2)


def test_calls_that_fail_are_counted_by_their_error() -> None:
    done = call("every_other", "--repeat", "5")
    assert done.exit_code == 1
    assert "succeeded\t2\nfailed\t3\n" in done.stdout
    assert done.stdout.splitlines()[-1] == "error\t3 × the tool failed: odd \\x1b[2J"


def test_so_many_calls_wait_at_once() -> None:
    done = call("meet", "people=4", "--repeat", "4", "--at-once", "4", "--json")
    assert figures(done)["succeeded"] == 4


def test_no_more_than_so_many_calls_wait_at_once() -> None:
    done = call("meet", "people=4", "--repeat", "3", "--at-once", "3", "--json", "--timeout", "1")
    assert (done.exit_code, figures(done)["succeeded"]) == (1, 0)
    assert set(figures(done)["milliseconds"].values()) == {None}


def test_a_server_that_ends_is_called_no_more() -> None:
    Path("process.py").write_text(APP, encoding="utf-8")  # in a process of its own
    done = call("leave", "--repeat", "1000000", "--json", target="process.py")
    assert done.exit_code == 3, done.stdout
    assert (figures(done)["succeeded"], figures(done)["failed"]) == (2, 1)
    assert "Error: " in done.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--repeat", "0"), f"0 is not in the range 1<=x<={MAX_CALLS}"),
        (("--repeat", "1000001"), "is not in the range"),
        (("--repeat", "many"), "'many' is not a valid integer"),
        (("--repeat", "2", "--at-once", "0"), f"0 is not in the range 1<=x<={MAX_AT_ONCE}"),
        (("--at-once", "2"), "--at-once requires --repeat N, the number of calls, or --seconds S"),
        (("--rate", "2"), "--rate requires --repeat N"),
        (("--warm-up", "2"), "--warm-up requires --repeat N"),
        (("--seconds", "0"), "0.0 is not in the range 0<x<="),
        (("--seconds", "nan"), "nan is not in the range"),
        (("--repeat", "2", "--rate", "-1"), "-1.0 is not in the range"),
        (("--repeat", "2", "--rate", "inf"), "inf is not in the range"),
        (("--repeat", "2", "--out", "files"), "--out writes the files of one result"),
        (("--repeat", "2", "b=1"), "$.b is not a known property"),
    ],
    ids=range(13),
)
def test_what_cannot_be_repeated_is_refused(options: tuple[str, ...], says: str) -> None:
    done = call("add", "a=1", *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in " ".join(done.stderr.split())


@pytest.mark.slow
def test_an_interrupt_prints_what_there_is() -> None:
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "mcprev", "call", "shop.py", "add", "a=1", "--repeat", "1000000", "--json"]
    before = signal.signal(
        signal.SIGINT, signal.SIG_DFL
    )  # what runs the tests may ignore it, and so would the command
    try:
        process = subprocess.Popen(argv, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        os.close(theirs)
        try:
            shown, end = "", time.monotonic() + 20
            while "/1000000 calls, 0 failed" not in shown:  # progress, on a terminal
                assert time.monotonic() < end, shown
                if select.select([ours], [], [], 0.5)[0]:
                    shown += os.read(ours, 4096).decode()
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=20)
        finally:
            process.kill()
            os.close(ours)
    found = json.loads(out)["repeat"]
    assert 0 < found["succeeded"] <= found["calls"] < 1_000_000
    assert found["milliseconds"]["p99"] > 0
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [([7.0], (7, 7, 7)), ([1.0, 2.0], (1, 2, 2)), ([float(n) for n in range(1, 101)], (50, 95, 99))],
    ids=["one", "two", "hundred"],
)
def test_a_percentile_is_a_time_that_was_measured(values: list[float], expected: tuple[float, ...]) -> None:
    assert tuple(percentile(values, share) for share in (50, 95, 99)) == expected


def test_errors_told_apart_have_a_bound() -> None:
    numbers = iter(range(1000))

    async def fail() -> ToolResult:
        raise InternalError(f"no. {next(numbers)}")

    repetition = Repetition(RepeatPlan(1000, at_once=10))
    asyncio.run(repetition.run(fail))
    assert repetition.failed == 1000
    assert len(repetition.reasons) == MAX_REASONS + 1
    assert repetition.reasons["others"] == 1000 - MAX_REASONS


def test_a_lost_connection_ends_all_callers() -> None:
    made = 0

    async def lost() -> ToolResult:
        nonlocal made
        made += 1
        if made == 5:
            raise ConnectionLost("gone", in_flight=True, retry_safe=False)
        return ToolResult(content=[m.TextContent(text="here")], is_error=False)

    repetition = Repetition(RepeatPlan(1000))
    asyncio.run(repetition.run(lost))
    assert (made, repetition.done, repetition.failed) == (5, 5, 1)
    assert isinstance(repetition.ended_by, ConnectionLost)
