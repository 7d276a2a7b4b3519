"""A client on a pipe that ends its output with what it has sent still unanswered: `mcprev bridge < file`."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import pytest

from bridge.hands import Servers, Upstream, bridge_to, text
from helpers.requirements import req
from helpers.running import run
from mcprev.core.limits import LINGER
from mcprev.revisions import DEFAULT, Revision
from mcprev.transports.stdio.pipes import PipeTransport

SESSIONS = [row for row in DEFAULT if row.handshake]


@req("SEAM-10", "STDIO-6")
@pytest.mark.parametrize("there", DEFAULT, ids=lambda row: row.name)
@pytest.mark.parametrize("row", SESSIONS, ids=lambda row: row.name)
def test_what_was_read_is_answered_before_the_bridge_ends(row: Revision, there: Revision) -> None:
    params = {
        "protocolVersion": row.version,
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    line = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}

    async def main() -> None:
        async def plain(_up: Upstream, _request: Any) -> Any:
            return text("done")

        servers = Servers(lambda: Upstream(there, {"plain": plain}))
        bridge = bridge_to(servers, there)
        async with bridge.running():
            theirs, ours = os.pipe()
            answers, outgoing = os.pipe()
            os.write(ours, json.dumps(line).encode() + b"\n")
            os.close(ours)
            connection = bridge.connection()
            await PipeTransport(connection).open(theirs, outgoing)
            await asyncio.shield(connection.closed)
            await connection.finish_requests(LINGER)
            await connection.aclose()
            with open(answers, "rb") as read:  # noqa: ASYNC230, PTH123 - all has been written
                (answer,) = (json.loads(each) for each in read)
        assert answer["id"] == 1
        assert answer["result"]["protocolVersion"] == row.version
        servers.check()

    run(main())
