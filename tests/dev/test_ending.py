"""The end of `mcprev dev`: whatever runs, and whichever signal comes when, it ends soon, and leaves no process and no file behind."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from fuzz.fuzzing import sampled_of
from mcprev.revisions import DEFAULT

SOON: Final = 30.0
"""Seconds that the end may take, also where a server does all to stay and the machine is busy."""
NOTED: Final = "import os, pathlib; pathlib.Path(os.environ['NOTES'], str(os.getpid())).touch()\n"
"""The beginning of each server: the test learns its process id."""
APP: Final = NOTED + "import mcprev\napp = mcprev.App('x', '1.0')\n"
LONG: Final = APP.replace("'1.0'", "'1.0', instructions='x' * 8_000_000")
"""A server that says more, in the stream of a page, than waits for a page that does not read."""
SLOW: Final = NOTED + "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)\n"
STUBBORN: Final = NOTED + """
import json, signal, subprocess, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
for line in sys.stdin:
    message = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": message.get("id")}
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "stubborn", "version": "1"}
        print(json.dumps(answer | {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}), flush=True)
    elif "id" in message and message["method"] != "tools/call":
        print(json.dumps(answer | {"error": {"code": -32601, "message": "no"}}), flush=True)
while True:
    time.sleep(1)
"""
"""A server that answers no call, and ends neither with its stdin nor at a signal."""
NO_NAMES: Final = "import socket, time\nsocket.getaddrinfo = lambda *_, **__: time.sleep(60)\n"
"""A `sitecustomize.py` for a machine whose names are looked up for minutes."""


@dataclass
class Started:
    """A command that runs, with what its page knows."""

    folder: Path
    process: subprocess.Popen[str]
    port: int = 0
    token: str = ""
    open: list[socket.socket] = field(default_factory=list[socket.socket])

    def send(self, request: str, body: str = "", *, length: int | None = None) -> socket.socket:
        """Send a request, and leave its connection open."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        self.open.append(connection)
        connection.sendall(
            f"{request} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n{body}".encode()
        )
        return connection

    def ask(self, request: str, **members: Any) -> None:
        """Send a request, and wait for its answer."""
        assert self.send(request, json.dumps(members)).recv(100).startswith(b"HTTP/1.1 200")

    def servers(self) -> list[int]:
        """The processes of the server that live."""
        return [int(file.name) for file in (self.folder / "notes").iterdir() if lives(int(file.name))]

    def has(self, count: int) -> None:
        """Wait until a number of servers run."""
        end = time.monotonic() + 30
        while len(self.servers()) < count:
            assert time.monotonic() < end
            time.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def call_at_each_revision(page: Started) -> None:
    """One server for each of several revisions that have sessions, none of which answers."""
    rows = [row.name for row in DEFAULT if row.handshake]
    rows = [*sampled_of(rows, rows[-2:])]
    for revision in rows:
        page.ask("POST /api/call", method="tools/call", params={"name": "x"}, revision=revision)
    page.has(len(rows))


def change_the_source(page: Started) -> None:
    page.has(1)
    (page.folder / "server.py").write_text(APP + "# changed\n")
    end = time.monotonic() + 30
    while len(list((page.folder / "notes").iterdir())) < 2:  # the first one has ended by then
        assert time.monotonic() < end
        time.sleep(0.02)


def send_half_of_a_request(page: Started) -> None:
    page.send("POST /api/call", "{", length=1000)


def read_nothing(page: Started) -> None:
    page.has(1)
    for _ in range(10):
        page.send("GET /api/stream?since=1").recv(1000)


def nothing(page: Started) -> None:
    del page


def has_a_server(page: Started) -> None:
    page.has(1)


@dataclass(frozen=True)
class Case:
    name: str
    words: tuple[str, ...]
    server: str
    before: Callable[[Started], None]
    signals: tuple[str, ...]


COMMAND: Final = ("-e", "NOTES=notes", "--", sys.executable, "server.py")
CASES: Final = [
    Case("stubborn servers at each revision", COMMAND, STUBBORN, call_at_each_revision, ("SIGTERM",)),
    Case("a stubborn server, terminal closed", COMMAND, STUBBORN, has_a_server, ("SIGHUP",)),
    Case("stubborn servers, in a hurry", COMMAND, STUBBORN, call_at_each_revision, ("SIGHUP", "SIGTERM")),
    Case(
        "a stubborn server, in a hurry at a terminal", COMMAND, STUBBORN, has_a_server, ("SIGINT", "SIGINT")
    ),
    Case("a server that does not start", COMMAND, SLOW, has_a_server, ("SIGTERM",)),
    Case("a file, terminal closed", ("server.py",), APP, has_a_server, ("SIGHUP",)),
    Case("a file, while it is started again", ("server.py",), APP, change_the_source, ("SIGTERM",)),
    Case("a file over HTTP, terminal closed", ("server.py", "--http"), APP, has_a_server, ("SIGHUP",)),
    Case("a file over HTTP that does not start", ("server.py", "--http"), SLOW, has_a_server, ("SIGTERM",)),
    Case("a file over HTTP, in a hurry", ("server.py", "--http"), SLOW, has_a_server, ("SIGHUP", "SIGINT")),
    Case("half of a request", ("server.py",), APP, send_half_of_a_request, ("SIGTERM",)),
    Case("pages that do not read", ("server.py",), LONG, read_nothing, ("SIGINT",)),
    Case("a name that is being looked up", ("http://mcp.example/mcp",), APP, nothing, ("SIGTERM",)),
]


@pytest.fixture(autouse=True)
def taken_hangups() -> Iterator[None]:
    """Below nohup, where the tests may run, processes would ignore SIGHUP; a handler is not inherited."""
    before = signal.signal(signal.SIGHUP, lambda _number, _frame: None)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
@pytest.mark.parametrize("case", sampled_of(CASES, CASES[::2]), ids=lambda case: case.name)
def test_a_signal_ends_the_command_and_all_that_it_started(case: Case, tmp_path: Path) -> None:
    for name in ("notes", "temporary", "names"):
        (tmp_path / name).mkdir()
    (tmp_path / "server.py").write_text(case.server)
    environment = {**os.environ, "NOTES": str(tmp_path / "notes"), "TMPDIR": str(tmp_path / "temporary")}
    if "http://" in case.words[0]:
        (tmp_path / "names" / "sitecustomize.py").write_text(NO_NAMES)
        environment["PYTHONPATH"] = str(tmp_path / "names")
    with subprocess.Popen(
        [sys.executable, "-m", "mcprev", "dev", "--no-browser", *case.words],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        page = Started(tmp_path, process)
        try:
            assert process.stdout is not None
            found = re.search(r":(\d+)/#token=(\S+)", process.stdout.readline())
            assert found is not None
            page.port, page.token = int(found[1]), found[2]
            case.before(page)
            begun = time.monotonic()
            for number, name in enumerate(case.signals):
                if number:  # when the first one has been taken, and the page is no longer served
                    while refuses(page.port) is False:
                        assert time.monotonic() < begun + SOON
                    time.sleep(0.5)
                process.send_signal(getattr(signal, name))
            said = process.communicate(timeout=30)[1]
            took = time.monotonic() - begun
            assert (process.returncode, said) == (0, "")
            assert took < SOON
            while page.servers():  # one that was killed is there until the system has taken note of it
                assert time.monotonic() < begun + 2 * SOON, page.servers()
                time.sleep(0.02)
            assert list((tmp_path / "temporary").iterdir()) == []
        finally:
            process.kill()
            for connection in page.open:
                connection.close()
            for pid in page.servers():
                os.kill(pid, signal.SIGKILL)


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return True
    return False
