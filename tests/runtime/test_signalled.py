"""Signals that end a command end the launcher that it started, with the server that this started in turn (STDIO-7)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import pytest

from faults.processes import group, runs
from fuzz.fuzzing import sampled_of
from helpers.requirements import req
from mcprev.revisions import DEFAULT

SOON: Final = 30.0
"""Seconds that the start and the end may take on a busy machine."""
AT_ONCE: Final = 3
"""The number of commands that run at a time: each mostly waits."""
SERVER: Final = """
import json, os, pathlib, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
def note(what):
    pathlib.Path(os.environ["NOTES"], f"{what} {os.getppid()} {os.getpid()}").touch()
note("started")
for line in sys.stdin:
    message = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": message.get("id")}
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "stubborn", "version": "1"}
        print(json.dumps(answer | {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}), flush=True)
    elif message["method"] == "server/discover":
        print(json.dumps(answer | {"error": {"code": -32601, "message": "no"}}), flush=True)
    elif message["method"] == "tools/list" and "lists" in sys.argv:
        tool = {"name": "wait", "inputSchema": {"type": "object"}}
        print(json.dumps(answer | {"result": {"tools": [tool]}}), flush=True)
    elif "id" in message:
        note("asked")
while True:
    time.sleep(1)
"""
"""A server that answers no call, and ends neither with its stdin nor at a signal."""
LAUNCHER: Final = "import subprocess, sys\nsubprocess.call([sys.executable, '-S', '-E', *sys.argv[1:]])\n"
"""What `npx` and its like do: the server is a child that has the pipes of its parent."""
MOUNTED: Final = """
import contextlib, os, sys
import mcprev

@contextlib.asynccontextmanager
async def lifespan(_app):
    words = [sys.executable, "-S", "-E", "launcher.py", "server.py"]
    async with mcprev.connect(mcprev.stdio(*words, env={"NOTES": os.environ["NOTES"]})) as client:
        yield client

app = mcprev.App("mounted", "1", lifespan=lifespan)
"""
LEFT: Final = """
import asyncio, os, sys
import mcprev

async def main():
    words = [sys.executable, "-S", "-E", "launcher.py", "server.py"]
    client = await mcprev.connect(mcprev.stdio(*words, env={"NOTES": os.environ["NOTES"]})).__aenter__()
    os.close(int(sys.argv[1])) if len(sys.argv) > 1 else None
    sys.stdin.read()

loop = asyncio.new_event_loop()
loop.run_until_complete(main())
"""
"""A program that ends without closing its client and its event loop."""
OPENING: Final = {
    "protocolVersion": DEFAULT[0].version,
    "capabilities": {},
    "clientInfo": {"name": "c", "version": "1"},
}
WORDS: Final = ("--", sys.executable, "-S", "-E", "launcher.py", "server.py")


@dataclass(frozen=True)
class Case:
    """A command line, what a client writes to it, what its server has noted when the signals come, and how it ends."""

    name: str
    words: tuple[str, ...]
    noted: str = "started"
    signals: tuple[str, ...] = ("SIGTERM",)
    code: int | None = None
    line: dict[str, Any] | None = None
    program: tuple[str, ...] = ("-m", "mcprev")


def signalled(name: str) -> int:
    return 128 + int(getattr(signal, name))


INITIALIZE: Final = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": OPENING}
LIST: Final = (*WORDS, "lists")
CASES: Final = (
    Case("call", ("call", "-e", "NOTES={notes}", "wait", *LIST), "asked", code=signalled("SIGTERM")),
    Case("call, terminal closed", ("call", "-e", "NOTES={notes}", "wait", *LIST), "asked", ("SIGHUP",), signalled("SIGHUP")),
    Case("call, Ctrl+C", ("call", "-e", "NOTES={notes}", "wait", *LIST), "asked", ("SIGINT",), 1),
    Case("call, quit", ("call", "-e", "NOTES={notes}", "wait", *LIST), "asked", ("SIGQUIT",), signalled("SIGQUIT")),
    Case("call, in a hurry", ("call", "-e", "NOTES={notes}", "wait", *LIST), "asked", ("SIGTERM", "SIGTERM"), signalled("SIGTERM")),
    Case("inspect, while it connects", ("inspect", "-e", "NOTES={notes}", *WORDS), "asked", ("SIGHUP",), signalled("SIGHUP")),
    Case("generate-cli", ("generate-cli", "--out", "own", "-e", "NOTES=${{NOTES}}", *WORDS), "asked", code=signalled("SIGTERM")),
    Case("bridge, terminal closed", ("bridge", "--", "env", "NOTES={notes}", *WORDS[1:]), signals=("SIGHUP",), code=0, line=INITIALIZE),
    Case("bridge", ("bridge", "--", "env", "NOTES={notes}", *WORDS[1:]), code=0, line=INITIALIZE),
    Case("serve, terminal closed", ("serve", "mounted.py"), signals=("SIGHUP",), code=0),
    Case("serve over HTTP, terminal closed", ("serve", "mounted.py", "--http", "127.0.0.1:0"), signals=("SIGHUP",), code=0),
    Case("serve --reload, terminal closed", ("serve", "mounted.py", "--reload"), signals=("SIGHUP",), code=0),
    Case("a program that leaves all open", (), "started", (), 0, None, ("left.py",)),
)  # fmt: skip
"""What is tried."""


@pytest.fixture
def default_signals() -> Iterator[None]:
    """Below nohup, where the tests may run, processes would ignore signals; a handler is not inherited."""
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
    before = [signal.signal(number, lambda _number, _frame: None) for number in numbers]
    yield
    for number, was in zip(numbers, before, strict=True):
        signal.signal(number, was)


def by_then(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


@dataclass
class Running:
    """A case that runs in a folder of its own."""

    case: Case
    notes: Path
    process: subprocess.Popen[bytes]
    output: IO[bytes]

    def noted(self) -> list[str]:
        return [each.name for each in self.notes.iterdir()]

    def left(self) -> list[int]:
        """The processes of the server that run: those that it noted, and their groups."""
        pids = {int(pid) for name in self.noted() for pid in name.split()[1:]}
        return sorted(
            {each for pid in pids for each in (*group(pid), pid) if runs(each)} - {self.process.pid}
        )

    def signal(self) -> None:
        by_then(lambda: any(name.startswith(self.case.noted) for name in self.noted()), self.case.name)
        assert self.left(), self.case.name
        for name in self.case.signals:
            self.process.send_signal(getattr(signal, name))
        if not self.case.signals:
            assert self.process.stdin is not None
            self.process.stdin.close()

    def check(self) -> None:
        code = self.process.wait(SOON)
        self.output.seek(0)
        assert code == self.case.code, (self.case.name, code, self.output.read().decode())
        by_then(lambda: not self.left(), f"{self.case.name}: {self.left()} are left")


def start(case: Case, folder: Path) -> Running:
    notes = folder / "notes"
    notes.mkdir(parents=True)
    for name, text in {
        "server.py": SERVER,
        "launcher.py": LAUNCHER,
        "mounted.py": MOUNTED,
        "left.py": LEFT,
    }.items():
        (folder / name).write_text(text)
    words = [word.format(notes=notes) for word in case.words]
    output = (folder / "output").open("w+b")
    process = subprocess.Popen(
        [sys.executable, *case.program, *words],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        cwd=folder,
        env={**os.environ, "NOTES": str(notes), "HOME": str(folder)},
    )
    if case.line is not None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(case.line).encode() + b"\n")
        process.stdin.flush()
    return Running(case, notes, process, output)


TRIED: Final = [
    each
    for each in CASES
    if each.name not in ("bridge", "call, quit", "generate-cli", "serve over HTTP, terminal closed")
]


@pytest.mark.slow
@req("STDIO-7")
@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("first", range(0, len(sampled_of(CASES, TRIED)), AT_ONCE))
def test_no_server_outlives_its_command(first: int, tmp_path: Path) -> None:
    cases = sampled_of(CASES, TRIED)[first : first + AT_ONCE]
    found = [start(case, tmp_path / str(number)) for number, case in enumerate(cases)]
    try:
        for each in found:
            each.signal()
        for each in found:
            each.check()
    finally:
        for each in found:
            each.process.kill()
            for pid in each.left():
                os.kill(pid, signal.SIGKILL)
            each.process.communicate()
            each.output.close()
