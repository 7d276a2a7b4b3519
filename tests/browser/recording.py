"""Saved sessions of any length, to be opened in the page of `mcprev dev`."""

from __future__ import annotations

import json
from pathlib import Path

from helpers.named import D


def recording(file: Path, messages: int) -> None:
    """Write a session of that many messages: calls of a tool, each with its result."""
    client, server = ("client_to_server", "server_to_client")
    with file.open("w", encoding="utf-8") as out:
        out.write(json.dumps({"format": 2, "session": "s", "began": 1.0, "target": {"label": "x"}}) + "\n")
        for n in range(1, messages + 1):
            message: dict[str, object] = {"jsonrpc": "2.0", "id": (n - 1) // 2}
            if n == 1:
                info = {"protocolVersion": D, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
                message |= {"method": "initialize", "params": info}
            elif n % 2:
                message |= {
                    "method": "tools/call",
                    "params": {"name": "echo", "arguments": {"text": f"hello {n}"}},
                }
            else:
                text = {"type": "text", "text": f"hello {n} " * 10}
                message |= {"result": {"content": [text]}}
            body = json.dumps(message)
            head = {"n": n, "at": n / 1000, "session": "c1", "direction": client if n % 2 else server}
            out.write(f'{{"size":{len(body)},{json.dumps(head)[1:-1]},"message":{body}}}\n')
