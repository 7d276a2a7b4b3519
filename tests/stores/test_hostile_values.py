"""A store that holds something else than what was stored: the request fails as one whose store is away, and nothing else does."""

from __future__ import annotations

import json
import logging
import re
from typing import Any, Final, cast

import pytest

import mcprev
from helpers.asgi_bridge import Client
from helpers.flooding import client_of
from helpers.requirements import req
from helpers.running import run
from mcprev.middleware.rate_limit import RateLimit
from mcprev.revisions import DEFAULT
from mcprev.sharing.leases import Lease

VALUES: Final = {
    "nested without end": b"[" * 100_000,
    "infinite": b"1e999",
    "no JSON": b"\xff\xfe",
    "null": b"null",
    "a number": b"7",
    "a list": b"[[1, null], {}]",
    "nothing in it": b"{}",
    "other types": None,
}
ROW: Final = next(row for row in reversed(DEFAULT) if row.handshake)


def spoiled(value: bytes) -> bytes:
    """A record whose members have other types."""
    try:
        found: Any = json.loads(value)
    except ValueError:
        return b"[null]"
    if not isinstance(found, dict):
        return json.dumps([found]).encode()
    members = cast("dict[str, Any]", found)
    return json.dumps({name: members[name] if name == "format" else [1e999] for name in members}).encode()


def office(store: mcprev.Store) -> mcprev.App:
    app = mcprev.App("office", "1", store=store, middleware=[RateLimit("100/minute")])

    @app.tool()
    async def keep(ctx: mcprev.Context, number: int) -> str:
        await ctx.session.set("number", number)
        return str(await ctx.session.get("number"))

    return app


def kind_of(key: str) -> str:
    return re.sub(r"[0-9a-f]{8,}|\d+", "#", key)


async def keys_of(store: mcprev.MemoryStore) -> list[str]:
    """What the store has after a session and a call: the record of each kind."""
    asgi = office(store).asgi()
    client = await client_of(asgi, ROW, None)
    assert (await client.call("keep", {"number": 1}).done()).text == "1"
    await asgi.aclose()
    return sorted(vars(store)["_held"])


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("what", VALUES)
def test_a_hostile_value_of_a_store_is_an_error_of_the_store(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        kinds = {kind_of(key) for key in await keys_of(mcprev.MemoryStore())}
        assert len(kinds) >= 3
        for kind in sorted(kinds):
            store = mcprev.MemoryStore()
            first = office(store).asgi()
            client = await client_of(first, ROW, None)
            await client.call("keep", {"number": 1}).done()
            held: dict[str, Any] = vars(store)["_held"]
            for key in [key for key in held if kind_of(key) == kind]:
                value = VALUES[what]
                await store.write(key, spoiled(held[key].record.value) if value is None else value)
            other = office(store).asgi()
            there = Client(other)
            there.session, there.revision = client.session, client.revision
            for each in (there, client):
                answer = await each.call("keep", {"number": 2}, 2).done()
                assert answer.status in (200, 404, 503), (kind, answer.body)
            await other.aclose()
            await first.aclose()

    with caplog.at_level(logging.WARNING):
        run(main())
    odd = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert [error for error in odd if not isinstance(error, mcprev.McpError)] == []


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("what", VALUES)
def test_the_numbers_of_workers_are_not_guessed(what: str) -> None:
    async def main() -> None:
        store = mcprev.MemoryStore()
        await Lease.open(store)
        value = VALUES[what]
        await store.write("workers", b'{"last": [], "epoch": 1}' if value is None else value)
        with pytest.raises(mcprev.StoreError, match="invalid value"):
            await Lease.open(store)

    run(main())
