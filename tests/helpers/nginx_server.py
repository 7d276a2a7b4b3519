"""A real nginx for tests, with the configuration of the guide: Debian's, on PATH or where `make nginx` has put it."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Final

from helpers.served_workers import free_port
from helpers.support import ROOT

HERE: Final = ROOT / ".interop" / "nginx" / "usr" / "sbin" / "nginx"
GUIDE: Final = ROOT / "docs" / "deploy.md"


def main_file(file: Path) -> str:
    """The guide's file for an ordinary user, which includes another one; workers of root stay root, to read the folder."""
    (text,) = re.findall(
        r"^  ```nginx\n(.*?)^  ```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert "include shop.conf;" in text
    return ("" if os.getuid() else "user root;\n") + dedent(text.replace("shop.conf", str(file)))


def binary() -> str | None:
    """The path of nginx, if it is there."""
    return (
        shutil.which("nginx")
        or shutil.which("nginx", path="/usr/sbin")
        or (str(HERE) if HERE.exists() else None)
    )


def configuration(port: int, workers: Sequence[int]) -> str:
    """The configuration of the guide in front of several processes, and without TLS, which has a test of its own."""
    (text,) = re.findall(
        r"^```nginx\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    upstream, redirect, server = re.findall(r"^\w.*?^}\n", text, re.MULTILINE | re.DOTALL)
    assert "return 308" in redirect
    lines = "\n".join(f"    server 127.0.0.1:{each} max_fails=0;" for each in workers)
    upstream, upstreams = re.subn(
        r"^    server 127\.0\.0\.1:8000 max_fails=0;.*$", lines, upstream, flags=re.MULTILINE
    )
    server, listens = re.subn(r"(?<=listen )443 ssl(?=;)", f"127.0.0.1:{port}", server)
    server = re.sub(r"^    (?:ssl_|server_name ).*\n", "", server, flags=re.MULTILINE)
    assert (upstreams, listens) == (1, 1)
    return f"{upstream}\n{server}"


@asynccontextmanager
async def nginx(folder: Path, workers: Sequence[int]) -> AsyncGenerator[int, None]:
    """Run nginx in front of workers at these ports; its own port."""
    port = free_port()
    async with started(folder, configuration(port, workers)):
        yield port


@asynccontextmanager
async def started(folder: Path, text: str) -> AsyncGenerator[None, None]:
    """Run nginx with a configuration."""
    program = binary()
    assert program is not None
    (folder / "mcp.conf").write_text(text)
    (folder / "nginx.conf").write_text(main_file(folder / "mcp.conf"))
    process = await asyncio.create_subprocess_exec(
        program, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr", stderr=asyncio.subprocess.PIPE
    )  # fmt: skip
    assert process.stderr is not None
    reading = None
    try:
        said = b""
        while b"start worker process" not in said:
            line = await process.stderr.readline()
            assert line, said.decode()
            said += line
        reading = asyncio.create_task(process.stderr.read())
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        sys.stderr.buffer.write(b"" if reading is None else await reading)  # for a test that fails
        await process.wait()
