"""The command as the first process of a PID namespace, as in a container without an init."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mcprev
from helpers.requirements import req
from helpers.running import run
from helpers.served_workers import free_port

ALONE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
LAUNCHES = """
import subprocess
from pathlib import Path
import mcprev

app = mcprev.App("launching", "1")

@app.tool
def launch() -> int:
    "Start a launcher that leaves a process behind, which ends at once; and a child whose exit code counts."
    subprocess.run(["sh", "-c", "(true &)"], check=True)
    return subprocess.run(["sh", "-c", "exit 7"]).returncode

@app.tool
def zombies() -> int:
    states = [path.read_text().rpartition(")")[2].split()[0] for path in Path("/proc").glob("[0-9]*/stat")]
    return states.count("Z")
"""


def can_be_alone() -> bool:
    return (
        shutil.which("unshare") is not None
        and not subprocess.run([*ALONE, "true"], check=False, capture_output=True).returncode
    )


@pytest.mark.slow
@req("HTTP-3", everywhere=True)
@pytest.mark.skipif(not can_be_alone(), reason="no PID namespace may be made here")
@pytest.mark.parametrize("workers", [(), ("--workers", "1")], ids=["one process", "a supervisor"])
def test_the_first_process_reaps_orphans_passes_signals_on_and_ends_with_the_exit_code(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    (tmp_path / "launching.py").write_text(LAUNCHES)
    port = free_port()

    async def main() -> None:
        process = await asyncio.create_subprocess_exec(
            *ALONE, sys.executable, "-m", "mcprev", "serve", "launching.py", "--http", f"127.0.0.1:{port}", *workers,
            "--store", f"sqlite:///{tmp_path}/store", cwd=tmp_path, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        while b"listening at" not in (line := await process.stderr.readline()):
            assert line, "it has ended"
        async with mcprev.connect(f"http://127.0.0.1:{port}/mcp") as client:
            for _ in range(5):
                assert await client.call_tool("launch", as_=int) == 7
            while await client.call_tool("zombies", as_=int):  # noqa: ASYNC110 - the kernel tells nobody
                await asyncio.sleep(0)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        first = int(children.read_text().split()[0])  # noqa: ASYNC240 - a file of the kernel
        os.kill(first, signal.SIGTERM)
        said = await process.stderr.read()
        assert (await process.wait(), b"Traceback" in said) == (0, False)

    run(main(), limit=60)
