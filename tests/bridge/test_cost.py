"""What a bridge adds to a call, as far as it can be counted instead of timed."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import pytest

from helpers.running import until
from mcprev.bridge.bridge import Bridge
from mcprev.revisions import DEFAULT, Revision
from mcprev.transports.lines import LineConnection
from stdio.test_client_cost import PREFIX, Target, counting, result

MOST: Final = {"handshake": 81, "stateless": 120}
"""Python functions that a bridge may run for one call that it passes on, from its bytes to those of its answer, with those
of the event loop: one less today."""
WIDTH: Final = 100


class Client(asyncio.Transport):
    """Keeps what a bridge writes to its client."""

    def __init__(self, connection: LineConnection) -> None:
        super().__init__()
        self.connection = connection
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data).splitlines()

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)


def lines(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)


@pytest.mark.unjudged
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_calls_of_a_call_that_is_passed_on(row: Revision) -> None:
    """Few Python functions for each of many calls at one revision, from the client to the server and back."""
    target = Target(row)
    meta: dict[str, Any] = {PREFIX + "protocolVersion": row.version, PREFIX + "clientCapabilities": {}}
    params: dict[str, Any] = {"name": "echo", "arguments": {"text": "hi"}}
    if not row.handshake:
        params["_meta"] = meta

    async def main() -> float:
        spent, bridge = 0, Bridge(target, server_revisions=[row.name])
        async with bridge.running():
            connection = bridge.connection()
            client = Client(connection)
            connection.connection_made(client)
            if row.handshake:
                info = {"name": "c", "version": "1"}
                opening = {"protocolVersion": row.version, "capabilities": {}, "clientInfo": info}
                connection.data_received(lines({"id": 0, "method": "initialize", "params": opening}))
                await until(lambda: len(client.written) == 1)
                connection.data_received(lines({"method": "notifications/initialized"}))
            else:
                asked = {"id": 0, "method": "server/discover", "params": {"_meta": meta}}
                connection.data_received(lines(asked))
                await until(lambda: len(client.written) == 1)
            target.pipe.take()
            for counted in (False, True):
                client.written.clear()
                calls = [{"id": n, "method": "tools/call", "params": params} for n in range(1, 1 + WIDTH)]
                data = lines(*calls)
                with counting() as sending:
                    connection.data_received(data)
                    for _ in range(3):
                        await asyncio.sleep(0)
                requests = target.pipe.take()
                assert [request["params"] for request in requests] == [params] * WIDTH
                data = lines(*({"id": request["id"], "result": result(row)} for request in requests))
                with counting() as receiving:
                    target.pipe.connection.data_received(data)
                    for _ in range(3):
                        await asyncio.sleep(0)
                answers = [json.loads(line) for line in client.written]
                assert [answer["id"] for answer in answers] == [call["id"] for call in calls]
                assert all(answer["result"]["content"] == result(row)["content"] for answer in answers)
                spent = sending[0] + receiving[0] if counted else 0
            await connection.aclose()
        return spent / WIDTH

    spent = asyncio.run(asyncio.wait_for(main(), 20))
    most = MOST["handshake" if row.handshake else "stateless"]
    assert 20 < spent <= most, f"{spent} Python calls for one call that is passed on"
