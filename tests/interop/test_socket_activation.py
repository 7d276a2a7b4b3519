"""systemd's own program of socket activation in front of the command, over the revisions with and without sessions; `make proxies`.

HTTP-3.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from pathlib import Path
from typing import Final

import pytest

import mcprev
from helpers.balancers import HERE
from helpers.requirements import req
from helpers.running import run
from helpers.served_workers import free_port
from helpers.support import ROOT
from mcprev.revisions import DEFAULT, HttpShape

NAME: Final = "systemd-socket-activate"
PROGRAM: Final = shutil.which(NAME) or shutil.which(NAME, path=str(HERE / "systemd" / "usr" / "bin"))
APP: Final = ROOT / "examples" / "deploy" / "shop.py"
ROWS: Final = [row for row in DEFAULT if row.http is not HttpShape.SSE]
SOME: Final = [[row for row in ROWS if row.handshake is shakes][-1] for shakes in (True, False)]


@req("HTTP-3", everywhere=True)
@pytest.mark.skipif(
    PROGRAM is None or not (HERE / "systemd" / ".ready").exists(), reason="`make proxies` unpacks Debian's"
)
@pytest.mark.parametrize("kind", ["TCP", "a Unix socket"])
def test_the_first_call_starts_the_server_and_is_answered(kind: str, tmp_path: Path) -> None:
    port, path = free_port(), tmp_path / "shop.sock"
    listens = f"127.0.0.1:{port}" if kind == "TCP" else str(path)

    async def main() -> None:
        assert PROGRAM is not None
        words = (
            sys.executable,
            "-m",
            "mcprev",
            "serve",
            str(APP),
            "--http",
            "127.0.0.1:1",
            "--trusted-proxy",
            "unix",
        )
        process = await asyncio.create_subprocess_exec(
            PROGRAM, "-l", listens, *words, cwd=tmp_path, stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr is not None
        try:
            while b"Listening on" not in (line := await process.stderr.readline()):
                assert line
            reading = asyncio.create_task(process.stderr.read())
            if kind == "TCP":
                for row in SOME:
                    async with mcprev.connect(f"http://127.0.0.1:{port}/mcp", mode=row.name) as client:
                        assert await client.call_tool("price", {"item": "hat"}, as_=int) == 20
            else:
                reader, writer = await asyncio.open_unix_connection(str(path))
                writer.write(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.1 404 ")
                writer.close()
            process.send_signal(signal.SIGTERM)
            assert (await process.wait(), b"Traceback" in await reading) == (0, False)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    run(main(), limit=60)
