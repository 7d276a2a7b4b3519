"""A server of a session with something wrong with its pipes from the first call on.

bad_pipes.py FAULT
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

fault = sys.argv[1]
MEGABYTE = 1 << 20


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def answer(request: dict[str, Any], result: dict[str, Any]) -> None:
    write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode() + b"\n")


def lines() -> Iterator[bytes]:
    """What is sent, read as slowly as can be where that is the fault."""
    if fault != "reads byte by byte":
        yield from sys.stdin.buffer
        return
    line = bytearray()
    while byte := os.read(0, 1):
        line += byte
        if byte == b"\n":
            yield bytes(line)
            line.clear()


def never_read() -> None:
    time.sleep(60)


def write_without_end() -> NoReturn:
    told = {"level": "info", "data": "x" * 4096}
    line = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": told})
    while True:
        write(line.encode() + b"\n")


def close_stdout() -> None:
    os.close(1)
    time.sleep(60)


def close_stdin() -> NoReturn:
    os.close(0)
    while True:
        write(CHANGED)
        time.sleep(0.01)


def close_stderr() -> None:
    os.dup2(1, 2)
    os.close(2)


def end_in_a_line() -> NoReturn:
    write(b'{"jsonrpc": "2.0", "id": 2, "resu')
    os._exit(0)


def make_noise() -> None:
    write(os.urandom(MEGABYTE) + b"\n" + b"\xff\x00\n" * 1000 + b"\n" * 1000 + b"\r" * 1000)
    write(b"\n" + b"[" * 100_000 + b"\n")


def write_a_line_without_end() -> None:
    for _ in range(int(sys.argv[2]) // MEGABYTE + 1):
        write(b"x" * MEGABYTE)
    write(b"\n")


def flood_stderr() -> None:
    for _ in range(20):
        os.write(2, b"y" * MEGABYTE)


def write_bytes() -> None:
    for byte in CHANGED * 20:
        os.write(1, bytes([byte]))


CHANGED = b'{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n'
FAULTS: dict[str, Callable[[], None]] = {
    "never reads": never_read,
    "neither reads nor stops writing": write_without_end,
    "closes stdout": close_stdout,
    "closes stdin": close_stdin,
    "closes stderr": close_stderr,
    "half a line": end_in_a_line,
    "noise": make_noise,
    "an endless line": write_a_line_without_end,
    "stderr": flood_stderr,
    "writes byte by byte": write_bytes,
    "reads byte by byte": lambda: None,
}

for text in lines():
    message = json.loads(text)
    if message["method"] == "initialize":
        said = {
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "bad", "version": "1"},
        }
        answer(message, {"protocolVersion": message["params"]["protocolVersion"], **said})
    elif message["method"] == "tools/call":
        FAULTS[fault]()
        size = len(message["params"].get("arguments", {}).get("text", ""))
        answer(message, {"content": [{"type": "text", "text": str(size)}]})
