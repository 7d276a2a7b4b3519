"""`mcprev bridge` on the streams that hosts give it, with the event loop that each allows, and the signals that end it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tty
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from fuzz.fuzzing import diagonal
from helpers.requirements import req
from mcprev.bridge.event_loop import new_loop_for
from mcprev.revisions import DEFAULT

SESSION: Final = [row for row in DEFAULT if row.handshake][-1]
ECHO: Final = str(Path(__file__).resolve().parents[1] / "stdio" / "echo_server.py")
COMMAND: Final = (sys.executable, "-m", "mcprev", "bridge", "--", sys.executable, ECHO)
OPENING: Final[dict[str, Any]] = {
    "protocolVersion": SESSION.version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"},
}  # fmt: skip
Ends = tuple[int, int, int, int]
"""The descriptors of the bridge's input and output, and those of the client's output and input."""


def pipes() -> Ends:
    incoming, ours = os.pipe()
    theirs, outgoing = os.pipe()
    return incoming, outgoing, ours, theirs


def sockets() -> Ends:
    """As Node.js starts its children: a pair of sockets for each stream."""
    (a, b), (c, d) = socket.socketpair(), socket.socketpair()
    return a.detach(), c.detach(), b.detach(), d.detach()


def terminal() -> Ends:
    """One terminal for both streams."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    return theirs, os.dup(theirs), ours, os.dup(ours)


def file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT)


@pytest.mark.slow
@req("STDIO-1", "STDIO-6", everywhere=True)
@pytest.mark.parametrize(
    ("ends", "by"),
    diagonal([pipes, sockets, terminal], [None, signal.SIGTERM, signal.SIGINT]),
    ids=lambda value: getattr(value, "__name__", None) or getattr(value, "name", "end of input"),
)
def test_calls_and_the_end(ends: Callable[[], Ends], by: signal.Signals | None) -> None:
    """Each call is answered, whatever the streams are; the end of the input or a signal ends the bridge and its server."""
    incoming, outgoing, ours, theirs = ends()
    process = subprocess.Popen(COMMAND, stdin=incoming, stdout=outgoing, stderr=subprocess.PIPE)
    os.close(incoming)
    os.close(outgoing)
    with os.fdopen(ours, "wb", buffering=0) as requests, os.fdopen(theirs, "rb") as answers:

        def call(id_: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
            message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
            requests.write(json.dumps(message).encode() + b"\n")
            while (found := json.loads(answers.readline())).get("id") != id_:
                pass
            return dict(found["result"])

        assert call(0, "initialize", OPENING)["protocolVersion"] == SESSION.version
        requests.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        for id_ in (1, 2, 3):
            text = str(id_) * 10_000
            params = {"name": "echo", "arguments": {"text": text}}
            assert call(id_, "tools/call", params)["content"][0]["text"] == text
        pid = int(call(4, "tools/call", {"name": "pid", "arguments": {}})["content"][0]["text"])
        if by is not None:
            process.send_signal(by)
            process.wait(10)
    assert process.communicate(timeout=10)[1] == b""
    assert process.returncode == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(("ends", "fast"), [(pipes, True), (sockets, True), (terminal, False)])
def test_uvloop_takes_pipes_and_sockets_only(ends: Callable[[], Ends], *, fast: bool) -> None:
    pytest.importorskip("uvloop")
    found = ends()
    try:
        made = new_loop_for(*found[:2])
        assert (made is not None) is fast
        if made is not None:
            loop = made()
            assert type(loop).__module__.startswith("uvloop")
            loop.close()
    finally:
        for descriptor in found:
            os.close(descriptor)


def test_asyncios_own_loop_takes_everything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    incoming, outgoing, *others = pipes()
    both, other = (each.detach() for each in socket.socketpair())
    again, plain = os.dup(both), file(tmp_path / "x")
    opened = [incoming, outgoing, *others, both, again, other, plain]
    try:
        assert new_loop_for(incoming, plain) is None
        assert new_loop_for(plain, outgoing) is None
        assert new_loop_for(both, again) is None
        monkeypatch.setitem(sys.modules, "uvloop", None)
        assert new_loop_for(incoming, outgoing) is None
    finally:
        for descriptor in opened:
            os.close(descriptor)
    assert new_loop_for(-1, -1) is None
