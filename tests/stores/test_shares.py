"""Each client has a share of a store with a bound: one that stores all that it can leaves room to others (SEC-6)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import mcprev
from helpers.flooding import each, two
from helpers.requirements import req
from helpers.running import run
from mcprev import LogBounds, LogItem, Store
from mcprev.core.store import client_digest, stored_for_client
from mcprev.revisions import Revision
from mcprev.stores.sqlite import SqliteStore

MOST: Final = 400_000
BOUNDS: Final = LogBounds(ttl=60, size=10**9, items=10**6)
VALUE: Final = b"x" * 4_000


def in_memory(_path: Path) -> Store:
    return mcprev.MemoryStore(max_bytes=MOST)


def in_a_file(path: Path) -> Store:
    return SqliteStore(path / "store", max_bytes=MOST)


stores = pytest.mark.parametrize("make", [in_memory, in_a_file])


async def fill(store: Store, client: str, how: str = "write") -> int:
    """Store for a client until it is refused; return how often it was not."""
    for number in range(1_000):
        try:
            with stored_for_client(client):
                if how == "write":
                    await store.write(f"{client} {number}", VALUE)
                elif how == "append":
                    await store.append(f"log of {client}", [LogItem(VALUE)], bounds=BOUNDS)
                else:
                    await store.append(f"{client} {number}", [LogItem(VALUE)], bounds=BOUNDS)
        except mcprev.StoreShareError:
            return number
    raise AssertionError("it was never refused")


@req("SEC-6", everywhere=True)
@stores
@pytest.mark.parametrize("how", ["write", "append", "logs"])
def test_who_stores_without_end_leaves_room_to_others(
    make: Callable[[Path], Store], tmp_path: Path, how: str
) -> None:
    async def main() -> None:
        store = make(tmp_path)
        assert await fill(store, "flood", how) > 40, "a client may have most of what is free"
        with stored_for_client("honest"):
            for number in range(5):
                assert await store.write(f"record {number}", VALUE)
                assert await store.append("log", [LogItem(VALUE)], bounds=BOUNDS) == number + 1
        assert await store.write("of the server", VALUE)
        with pytest.raises(mcprev.StoreShareError, match="one client stores"):
            await fill_one(store, "flood")
        await store.aclose()

    run(main())


async def fill_one(store: Store, client: str) -> None:
    with stored_for_client(client):
        await store.write("one more", VALUE)


@req("SEC-6", everywhere=True)
@stores
def test_a_share_is_free_again_when_what_is_stored_ends_or_is_written_anew(
    make: Callable[[Path], Store], tmp_path: Path
) -> None:
    async def main() -> None:
        store = make(tmp_path)
        with stored_for_client("flood"):
            stored = await fill(store, "flood")
            for number in range(stored):
                assert await store.write(f"flood {number}", VALUE, seen=None), "in its own place"
                assert await store.write(f"flood {number}", b"y" * 4_000)
        for number in range(stored):
            assert await store.write(
                f"flood {number}", VALUE
            ), "it stays whose it is if it is renewed for nobody"
        with pytest.raises(mcprev.StoreShareError, match="one client stores"):
            await fill_one(store, "flood")
        for number in range(stored):
            await store.remove(f"flood {number}")
        assert await fill(store, "flood") == stored
        await store.aclose()

    run(main())


@req("SEC-6", everywhere=True)
def test_a_file_of_an_earlier_release_learns_shares_and_the_earlier_release_keeps_them_right(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        path = tmp_path / "store"
        store = SqliteStore(path, max_bytes=MOST)
        await store.write("kept", b"1")
        await store.aclose()
        db = sqlite3.connect(path)
        with db:
            for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
                db.execute(f"DROP TRIGGER {name}")
            db.execute("DROP TABLE shares")
            db.execute("ALTER TABLE records DROP COLUMN client")
            db.execute("ALTER TABLE logs DROP COLUMN client")
        assert (await store.read("kept")) is not None
        stored = await fill(store, "flood")
        with db:
            db.execute(
                "INSERT OR REPLACE INTO records (key, value, listed, ends) VALUES ('flood 0', '1', '', NULL)"
            )
            db.execute("DELETE FROM records WHERE key IN ('flood 1', 'flood 2')")
        counted = db.execute("SELECT client, size FROM shares").fetchall()
        held = db.execute("SELECT sum(length(value) + 300) FROM records WHERE client IS NOT NULL").fetchone()
        assert counted == [(client_digest("flood"), *held)]
        assert held == ((stored - 3) * 4_300,)
        db.close()
        await store.aclose()

    run(main())


@req("SEC-6")
@each
@stores
@pytest.mark.parametrize("way", ["principal", "address"])
def test_a_client_of_a_server_that_fills_its_store_refuses_itself(
    row: Revision, make: Callable[[Path], Store], tmp_path: Path, way: str
) -> None:
    """States of sessions, tasks, and the streams and records of sessions are in the store."""
    store = make(tmp_path)
    limits = mcprev.StateLimits(max_value=MOST, max_bytes=MOST, max_handles=10 * MOST)
    app = mcprev.App("office", "1", store=store, state=limits)

    @app.tool()
    async def keep(ctx: mcprev.Context, size: int, number: int, begun: str | None = None) -> str:
        if not ctx.session_id and ctx.principal is None:
            ctx.session.open(begun)
        await ctx.session.set(str(number), "x" * size)
        return ctx.session.handle

    async def main() -> None:
        async with two(app, row, way) as (flood, honest):
            failed: list[bool] = []
            given: dict[str, Any] = {"size": 10_000}
            for number in range(60):
                answer: Any = await flood.call("keep", {**given, "number": number}, number).done()
                failed.append(bool(answer.result.get("isError")))
                if not row.handshake and way == "address":
                    given["begun"] = None if failed[-1] else answer.text
            assert True in failed
            assert failed.index(True) > 20, "a client may have most of what is free"
            for number in range(2):
                kept = await honest.call("keep", {"size": 10_000, "number": number}, number).done()
                assert not kept.result.get("isError"), kept.text
        await store.aclose()

    run(main())
