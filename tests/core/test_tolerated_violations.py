"""What a peer gets wrong and is understood all the same: counted, and warned of once for each connection."""

from __future__ import annotations

import asyncio
import logging
from unittest.mock import Mock

import pytest

from core.fake_handler import client, server
from engine.fakes import result
from helpers.requirements import req
from helpers.running import Records, run, until
from mcprev.errors import RpcError
from mcprev.protocol.connection_state import ToleratedViolation
from mcprev.revisions import LATEST


def warnings(records: Records) -> list[str]:
    return [record.getMessage() for record in records.records if record.levelno >= logging.WARNING]


@req("BASE-5", "PROG-1", everywhere=True)
@pytest.mark.parametrize("as_sent", [str, float], ids=["string", "float"])
def test_ids_of_another_type(as_sent: type) -> None:
    async def work() -> None:
        connection, side, peer = client()
        side.settle(LATEST)
        records = Records()
        connection.logger.addHandler(records)
        try:
            for number in range(1, 4):
                call = side.engine.call(
                    "tools/call", {"name": "x"}, connection.now(), idle=None, total=None, progress=True
                )
                listener = Mock()
                waiting = asyncio.create_task(connection.wait(call, listener))
                token = as_sent(call.id)
                progress = {"progressToken": token, "progress": number}
                peer.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
                if number < 3:
                    peer.send(result(token, {"ok": True}))
                    assert await waiting == {"ok": True}
                else:
                    peer.send({"jsonrpc": "2.0", "id": token, "error": {"code": 1, "message": "no"}})
                    with pytest.raises(RpcError):
                        await waiting
                listener.assert_called_once_with("notifications/progress", progress)
                assert connection.tolerated_violations == {ToleratedViolation.IDS: 2 * number}
            assert [ToleratedViolation.IDS in text for text in warnings(records)] == [True]
        finally:
            connection.logger.removeHandler(records)
            await connection.aclose()

    run(work())


@req("BASE-5", everywhere=True)
def test_a_peer_that_gets_it_right_is_not_warned_of() -> None:
    async def work() -> None:
        connection, side, peer = client()
        side.settle(LATEST)
        call = side.engine.call("tools/call", {"name": "x"}, connection.now(), idle=None, total=None)
        waiting = asyncio.create_task(connection.wait(call))
        peer.send(result(call.id, {}))
        await waiting
        assert connection.tolerated_violations == {}
        await connection.aclose()

    run(work())


@req("STDIO-3", "BASE-10", everywhere=True)
@pytest.mark.parametrize("who", ["client", "server"])
def test_noise(who: str) -> None:
    async def work() -> None:
        connection, _, peer = client() if who == "client" else server()
        records = Records()
        connection.logger.addHandler(records)
        try:
            peer.transport.write(b"starting up...\n\xff\xfe\n{]\n")
            await until(lambda: connection.tolerated_violations == {ToleratedViolation.NOISE: 3})
            assert len(warnings(records)) == 1
            assert "starting up" in warnings(records)[0]
        finally:
            connection.logger.removeHandler(records)
            await connection.aclose()

    run(work())
