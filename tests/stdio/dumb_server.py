"""A server without the runtime: noise, silence, stubbornness and death on demand. Starts in no time."""

# ruff: noqa: T201, PTH110, PTH123

import json
import os
import signal
import sys
import time
from typing import Any

mode = sys.argv[1]
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if mode == "exit":
    sys.stderr.write("nothing to do\n")
    sys.exit(7)
if mode == "once" and not os.path.exists(sys.argv[2]):
    open(sys.argv[2], "w").close()
    sys.exit(1)
for line in sys.stdin:
    message = json.loads(line)
    if mode == "noise":
        sys.stdout.write("starting up...\n\x00\xff\xfe{]\n\n")
    if mode == "flood":
        sys.stderr.write("x" * 300_000 + "\nend of stderr\n")
        sys.stderr.flush()
    if "id" not in message or mode == "silent":
        continue
    if message["method"] == "initialize":
        answer: dict[str, Any] = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "dumb", "version": "1"},
        }
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
    elif mode == "die-at-call" and message["method"] == "tools/call":
        sys.stderr.write("dying\n")
        os._exit(9)
    elif message["method"] == "tools/call":
        done: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}}
        print(json.dumps(done), flush=True)
    else:
        error = {"code": -32601, "message": "Method not found"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
while mode in {"stubborn", "lingering"}:
    time.sleep(1)
