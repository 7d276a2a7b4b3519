"""A server on stdio that ends slowly, as one that does not mind the end of its input: no later call waits for that."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Final

import mcprev
from bridge.test_faults import served
from helpers.named import ROW_A, ROW_E
from helpers.requirements import req
from helpers.running import run

SERVER: Final = """
import json, os, signal, sys, time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(f"{{os.getpid()}}.pid", "w").close()
pid = {{"content": [{{"type": "text", "text": str(os.getpid())}}]}}
opened = {{
    "protocolVersion": {version!r}, "capabilities": {{"tools": {{}}}}, "serverInfo": {{"name": "old", "version": "1"}}
}}
results = {{"initialize": opened, "tools/call": pid, "tools/list": {{"tools": []}}}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = results.get(message["method"])
        said = {{"error": {{"code": -32601, "message": "unknown"}}}} if result is None else {{"result": result}}
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], **said}}), flush=True)
time.sleep(600)
"""


def kill_all(folder: Path) -> None:
    """Kill the servers that have noted their process ids in a folder."""
    for started in folder.glob("*.pid"):
        os.kill(int(started.stem), signal.SIGKILL)


@req("STDIO-5", everywhere=True)
def test_calls_do_not_wait_for_the_end_of_the_process_of_an_earlier_one(tmp_path: Path) -> None:
    """Without a session each call has a process of its own; the first is still there when the third responds."""
    script = tmp_path / "old.py"
    script.write_text(SERVER.format(version=ROW_A.version), encoding="utf-8")
    processes: list[int] = []

    async def main() -> None:
        server = mcprev.Bridge(mcprev.stdio(sys.executable, str(script), cwd=tmp_path, grace=300))
        async with served(server) as (session, url):
            target = mcprev.http(url, session=session)
            try:
                async with mcprev.connect(target, mode=ROW_E.name) as client:
                    processes.extend([int((await client.call_tool("pid")).text) for _ in range(3)])
                    os.kill(processes[0], 0)
            finally:
                kill_all(tmp_path)

    run(main())
    assert len(set(processes)) == 3
