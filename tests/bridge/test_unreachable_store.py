"""A store that the processes of a bridge share, and that cannot be reached."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any

import pytest

import mcprev
from bridge.hands import Downstream, Servers, Upstream, bridged
from helpers.requirements import req
from helpers.running import run
from mcprev.errors import StoreError
from mcprev.revisions import DEFAULT, Revision


@req("SEAM-10", "SEC-6")
@pytest.mark.parametrize("several", [False, True], ids=["one server", "several"])
@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_a_request_is_answered_if_what_processes_share_cannot_be_read(row: Revision, several: bool) -> None:
    async def unreachable() -> None:
        raise StoreError("the store is down")

    async def main() -> None:
        servers: Any = Servers(lambda: Upstream(row, {}))
        target = mcprev.memory(servers)
        bridge = mcprev.Bridge({"one": target} if several else target)
        client = Downstream(row)
        async with bridged(bridge, client):
            front: Any = bridge._clients.front
            front.state.prepare = unreachable
            error = (await client.ask("tools/list")).error
            assert error["data"] == {"reason": "store_unavailable", "mayHaveRun": True}

    run(main())
