"""The client's process is killed at every step of a server's life: the server ends at once, and its handlers with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.fakes import initialize, modern, notification, request
from faults.processes import BOUND, OURS, runs
from fuzz.fuzzing import sampled_of
from helpers.named import SOME_ROWS
from helpers.requirements import D, E, req
from mcprev.revisions import DEFAULT, Revision

HERE = Path(__file__).parent
KNOWS: dict[str, Any] = {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
SESSION = next(row for row in DEFAULT if row.name == D)
STATELESS = next(row for row in DEFAULT if row.name == E)


def by_then(condition: Callable[[], bool], what: str) -> None:
    """See that something comes true in time; the test has no event loop, as there is no client left."""
    end = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.005)


def all_gone(pids: list[int]) -> bool:
    return not any(map(runs, pids))


@pytest.mark.slow
@req("STDIO-6", "LIFE-16", everywhere=True)
def test_killed_with_everything_under_way() -> None:
    """At each revision that is tried the server process is gone in bounded time, and so is the child that a handler had."""
    clients = {
        row.name: subprocess.Popen(
            [sys.executable, str(HERE / "our_client.py"), row.name],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(HERE.parent)},
        )
        for row in SOME_ROWS
    }
    left: dict[str, list[int]] = {}
    for name, client in clients.items():
        assert client.stdout is not None
        left[name] = [int(pid) for pid in client.stdout.readline().split()]
        assert all(runs(pid) for pid in left[name])
        assert len(left[name]) == 2
        client.kill()
        client.communicate()
        assert client.returncode == -signal.SIGKILL
    for name, pids in left.items():
        by_then(partial(all_gone, pids), f"{name}: the server or its child is left")


def opening(row: Revision) -> list[dict[str, Any]]:
    if row.handshake:
        return [initialize(row, **KNOWS), notification("notifications/initialized")]
    return [modern("server/discover", {}, "init")]


def asking(row: Revision, method: str, params: dict[str, Any]) -> dict[str, Any]:
    if row.handshake:
        return request(method, {**params, "_meta": {"progressToken": "t"}}, 7)
    whole = modern(method, params, 7, clientCapabilities=KNOWS)
    whole["params"]["_meta"]["progressToken"] = "t"
    return whole


LISTEN = {"notifications": {"toolsListChanged": True}}
DEAF = ("deaf", "thread")
"""What a handler does that takes no notice of being cancelled."""
BUSY = ("progress", "child", *DEAF)
EVERY = ("nothing", "half a line", "opening", "opened", "wait", "ask", "task", "listen", *BUSY)
LATER = ("wait", "ask", "task", "listen", "progress", "child")
STEPS = {SESSION: sampled_of(EVERY, [*EVERY[::2], "thread"]), STATELESS: sampled_of(LATER, LATER[1::2])}
"""The states of a pipe that has said nothing yet are the same at every revision."""


def bring_to(row: Revision, step: str, process: subprocess.Popen[bytes]) -> None:
    """Get a server to where it is to lose its client."""
    assert process.stdin is not None
    assert process.stdout is not None
    sent, awaited = list[dict[str, Any]](), 0
    if step not in ("nothing", "half a line"):
        sent, awaited = opening(row), step != "opening"
    if step == "listen" and not row.handshake:
        sent, awaited = [*sent, asking(row, "subscriptions/listen", LISTEN)], 2
    elif step not in ("nothing", "half a line", "opening", "opened", "listen"):
        given: dict[str, Any] = {"name": step} | ({"task": {}} if step == "task" else {})
        sent.append(asking(row, "tools/call", given))
        awaited = 1 if step == "wait" else 2
    process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in sent))
    if step == "half a line":
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "meth')
    process.stdin.flush()
    for _ in range(awaited):
        assert process.stdout.readline()


def lose(step: str, process: subprocess.Popen[bytes]) -> None:
    """See a server end that has lost its client."""
    try:
        assert process.wait(BOUND) == 0, step
    finally:
        process.kill()
        process.wait()
    assert process.stderr is not None
    complaints = process.stderr.read()
    process.stderr.close()
    assert (b"is still running" in complaints) is (step in DEAF), step
    assert step in DEAF or complaints == b"", step


@pytest.mark.slow
@req("STDIO-6", "LIFE-16", at=(D, E))
@pytest.mark.parametrize("row", [SESSION, STATELESS], ids=lambda row: row.name)
def test_gone_at_every_step(row: Revision) -> None:
    """Both pipes break at once, as they do when a process is killed; handlers that do not let go keep nobody."""
    pipe = subprocess.PIPE
    found = {step: subprocess.Popen(OURS, stdin=pipe, stdout=pipe, stderr=pipe) for step in STEPS[row]}
    for step, process in found.items():
        bring_to(row, step, process)
    for process in found.values():
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.close()
    for step, process in found.items():
        lose(step, process)
