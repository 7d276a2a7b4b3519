"""A store in an SQLite file, for the workers of one machine.

Each read is one short transaction on the event loop, and so are all writes of one turn of the loop together: most of what
a write costs is the lock and the transaction. No operation waits for a lock on the loop; it is tried again a little later.
A transaction survives the death of its process (`kill -9`); the last ones may be missing after a loss of power, but the
file stays whole.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from mcprev.core.store import STORED_FOR, LogBounds, LogItem, LogTail, Record
from mcprev.errors import StoreError
from mcprev.stores.sqlite_file import BUSY, SWEEP_IF_FULL, SqliteFile, WriteGroup, sqlite_code
from mcprev.stores.waiting import PerLoop

T = TypeVar("T")
PATIENCE: Final = 2.0
"""How long an operation waits for the locks of other processes, in seconds."""
POLL: Final = 0.005
"""The time between two looks for what other processes appended, in seconds, while something waits for it."""
_READ: Final = "SELECT value, version FROM records WHERE key = :key AND (ends IS NULL OR ends > :now)"
_WRITE: Final = """
INSERT OR REPLACE INTO records (key, value, listed, ends, client)
SELECT :key, :value, :index, :ends, coalesce(:client, (SELECT client FROM records WHERE key = :key))
WHERE :seen IS NULL OR :seen = coalesce(
  (SELECT version FROM records WHERE key = :key AND (ends IS NULL OR ends > :now)), 0)
"""
_REMOVE: Final = """
DELETE FROM records WHERE key = :key AND (ends IS NULL OR ends > :now) AND (:seen IS NULL OR :seen = version)
"""
_LISTED: Final = """
SELECT key, value, version FROM records
WHERE listed = :index AND listed <> '' AND version > :after AND (ends IS NULL OR ends > :now) ORDER BY version LIMIT :limit
"""
_HEAD: Final = "SELECT last, lost, complete, items, size, client, ends > :now FROM logs WHERE log = :log"
_ITEMS: Final = (
    "SELECT number, value FROM items WHERE log = :log AND droppable IN (0, 1) AND number > :after ORDER BY number"
)
_OLDEST: Final = (
    "SELECT rowid, number, length(value) FROM items WHERE log = ? AND droppable = ? ORDER BY number LIMIT 1"
)
_KEEP: Final = (
    "INSERT OR REPLACE INTO logs (log, last, lost, complete, items, size, client, ends) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_ADVICE: Final = {
    sqlite3.SQLITE_BUSY: f"other processes keep it locked for over {PATIENCE:g} s; find out which, and whether its disk is slow",
    sqlite3.SQLITE_LOCKED: f"others keep it locked for over {PATIENCE:g} s; find out which",
    sqlite3.SQLITE_FULL: "it has no room: raise `max_bytes`, free disk space, or store less or for a shorter time",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: its folder must exist, and this user must be allowed to write to both",
    sqlite3.SQLITE_READONLY: "it cannot be written to: this user requires the permission for the file and its folder",
    sqlite3.SQLITE_NOTADB: "the file is not an SQLite database; name another one",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; stop all workers, move it away and start again",
    sqlite3.SQLITE_IOERR: "its disk fails or is full; the log of the system says more",
}


class SqliteStore:
    """A store in an SQLite file, which the workers of one machine share; see `mcprev.core.store.Store`.

    It survives restarts. The file must be on a local disk. Only its owner may read it if the store creates it.
    """

    def __init__(self, path: str | os.PathLike[str], *, max_bytes: int = 1024**3) -> None:
        """`max_bytes` is the largest size of the file; a write beyond it raises `StoreError`."""
        if max_bytes < 100_000:
            raise ValueError("`max_bytes` of an SQLite store must be at least 100,000")
        self._path = str(Path(path).absolute())
        self.place: str = f"sqlite:///{self._path}"
        """Where it is, as a URL."""
        self._max_bytes = max_bytes
        self._opened = PerLoop(lambda: SqliteFile(self._path, self._max_bytes), SqliteFile.close)
        self._groups: PerLoop[WriteGroup] = PerLoop(WriteGroup, lambda _: None)

    async def read(self, key: str, /) -> Record | None:
        """Return the record, or None if there is none or it has expired."""

        def work(opened: SqliteFile) -> Record | None:
            found = opened.db.execute(_READ, {"key": key, "now": opened.now()}).fetchone()
            return None if found is None else Record(*found)

        return await self._do(work)

    async def write(
        self, key: str, value: bytes, /, *, seen: int | None = None, ttl: float | None = None, index: str = ""
    ) -> int | None:
        """Store a record if its version is still `seen`; see `Store.write`."""
        client = STORED_FOR.get()

        def work(opened: SqliteFile) -> int | None:
            now = opened.now()
            ends = None if ttl is None else now + ttl
            given = {"key": key, "value": value, "seen": seen, "ends": ends, "index": index, "now": now}
            given["client"] = client
            opened.check_share(client, len(value), key)
            done = opened.db.execute(_WRITE, given)
            version = done.lastrowid if done.rowcount else None
            opened.new_rows += done.rowcount
            return version

        return await self._write(work)

    async def remove(self, key: str, /, *, seen: int | None = None) -> bool:
        """Remove a record if its version is still `seen`; see `Records.remove`."""

        def work(opened: SqliteFile) -> bool:
            given = {"key": key, "seen": seen, "now": opened.now()}
            return opened.db.execute(_REMOVE, given).rowcount > 0

        return await self._write(work)

    async def listed(
        self, index: str, /, *, after: int = 0, limit: int = 100
    ) -> Sequence[tuple[str, Record]]:
        """Return up to `limit` records of an index with versions above `after`; see `Store.listed`."""

        def work(opened: SqliteFile) -> Sequence[tuple[str, Record]]:
            given = {"index": index, "after": after, "limit": limit, "now": opened.now()}
            return [(key, Record(*found)) for key, *found in opened.db.execute(_LISTED, given)]

        return await self._do(work)

    async def append(
        self, log: str, items: Sequence[LogItem], /, *, bounds: LogBounds, seen: int | None = None
    ) -> int | None:
        """Append items to a log; see `Store.append`."""
        client = STORED_FOR.get()

        def work(opened: SqliteFile) -> int | None:
            db, now = opened.db, opened.now()
            last, lost, complete, count, size, whose = _head(db, log, now, fresh=True)
            if complete or (seen is not None and seen != last):
                return None
            opened.check_share(client or whose, sum(len(item.value) for item in items))
            rows = [(log, item.droppable, last + n, item.value) for n, item in enumerate(items, 1)]
            db.executemany("INSERT INTO items (log, droppable, number, value) VALUES (?, ?, ?, ?)", rows)
            last, count = last + len(rows), count + len(rows)
            size += sum(len(item.value) for item in items)
            while count > bounds.items or (size > bounds.size and count > 1):
                found = db.execute(_OLDEST, (log, 1)).fetchone()
                if found is None:
                    found = db.execute(_OLDEST, (log, 0)).fetchone()
                    lost = found[1]
                db.execute("DELETE FROM items WHERE rowid = ?", found[:1])
                count, size = count - 1, size - found[2]
            db.execute(_KEEP, (log, last, lost, 0, count, size, client or whose, now + bounds.ttl))
            opened.news.tell(log)
            opened.new_rows += 1 + len(rows)
            return last

        return await self._write(work)

    async def tail(self, log: str, after: int, /, *, wait: float = 0.0) -> LogTail:
        """Return the items after a number, and wait for them; see `Store.tail`."""

        def work(opened: SqliteFile) -> LogTail:
            last, lost, complete, *_ = _head(opened.db, log, opened.now(), fresh=False)
            if last <= after:
                return LogTail((), last, after > last, complete)
            opened.db.execute("BEGIN")  # the head and the items as of one moment
            try:
                last, lost, complete, *_ = _head(opened.db, log, opened.now(), fresh=False)
                items = (
                    opened.db.execute(_ITEMS, {"log": log, "after": after}).fetchall() if last > after else ()
                )
            finally:
                opened.db.execute("COMMIT")
            return LogTail(items, last, lost > after or after > last, complete)

        async def look() -> LogTail:
            return await self._do(work)

        async def listen(_log: str) -> bool:
            return await self._do(self._listen)

        if wait <= 0:
            return await look()
        return await (await self._do(lambda opened: opened.news)).tail(log, wait, look, listen)

    async def complete(self, log: str, /, *, ttl: float) -> None:
        """Mark a log as complete; see `Store.complete`."""

        def work(opened: SqliteFile) -> None:
            now = opened.now()
            last, lost, _, count, size, whose = _head(opened.db, log, now, fresh=True)
            opened.db.execute(_KEEP, (log, last, lost, 1, count, size, whose, now + ttl))
            opened.news.tell(log)
            opened.new_rows += 1

        await self._write(work)

    async def aclose(self) -> None:
        """Close the connection of the running event loop, after what waits to be written; see `Store.aclose`."""
        group = self._groups.pop()
        if group is not None and group.task is not None:
            await asyncio.wait({group.task})
        opened = self._opened.pop()
        if opened is not None:
            opened.news.fail("the store was closed")
            opened.close()

    def _listen(self, opened: SqliteFile) -> bool:
        """Begin to look for what other connections append, unless this is done already."""
        if opened.poll is not None:
            return False
        (opened.version,) = opened.db.execute("PRAGMA data_version").fetchone()
        (opened.changed,) = opened.db.execute("SELECT coalesce(max(changed), 0) FROM logs").fetchone()
        loop = asyncio.get_running_loop()

        def look() -> None:
            opened.poll = None
            if not opened.news.logs:
                return
            opened.poll = loop.call_later(POLL, look)
            try:
                (version,) = opened.db.execute("PRAGMA data_version").fetchone()
                if version != opened.version:
                    changes = "SELECT changed, log FROM logs WHERE changed > ? ORDER BY changed"
                    for changed, log in opened.db.execute(changes, (opened.changed,)).fetchall():
                        opened.changed = changed
                        opened.news.tell(log)
                    opened.version = version
            except sqlite3.Error:
                opened.news.tell_all()  # each look tries it again, or finds out what is wrong

        opened.poll = loop.call_later(POLL, look)
        return True

    async def _write(self, work: Callable[[SqliteFile], T]) -> T:
        """Do an operation that writes, in one transaction with what else waits to be written. Raises `StoreError`."""
        found: list[T] = []
        loop, group = asyncio.get_running_loop(), self._groups.get()
        done: asyncio.Future[bool] = loop.create_future()

        def run(opened: SqliteFile) -> None:
            found[:] = [work(opened)]

        group.waiting.append((run, done))
        if group.task is None or group.task.done():
            group.task = loop.create_task(self._commit(group), name="sqlite")
        if not await done:  # this one failed, or another one of the transaction
            await self._do(lambda opened: opened.write([run]))
        return found[0]

    async def _commit(self, group: WriteGroup) -> None:
        """Do the writes that wait."""
        message = "the event loop stops"
        try:
            await self._do(group.commit)
        except StoreError as error:
            message = str(error)
        finally:
            group.fail(message)

    async def _do(self, work: Callable[[SqliteFile], T]) -> T:
        """Do an operation; if the file is locked, try it again a little later. Raises `StoreError` if it fails."""
        ends, pause, swept = time.monotonic() + PATIENCE, 0.0005, False
        while True:
            try:
                opened = self._opened.get()
                try:
                    return work(opened)
                except sqlite3.Error as error:
                    if sqlite_code(error) != sqlite3.SQLITE_FULL or swept or not opened.sweep(SWEEP_IF_FULL):
                        raise
                    swept = True
                    continue
            except (sqlite3.Error, OSError) as error:
                code = sqlite3.SQLITE_CANTOPEN if isinstance(error, OSError) else sqlite_code(error)
                if code not in BUSY or time.monotonic() > ends:
                    raise StoreError(
                        f"the SQLite store {self._path}: {_ADVICE.get(code, str(error))}"
                    ) from error
            await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311 - no secret
            pause = min(2 * pause, 0.02)


def _head(
    db: sqlite3.Connection, log: str, now: float, *, fresh: bool
) -> tuple[int, int, bool, int, int, str | None]:
    """Return what is known of a log: last and lost number, whether it is complete, number of items and of bytes, its client.

    With `fresh`, what is left of an expired log is removed.
    """
    found = db.execute(_HEAD, {"log": log, "now": now}).fetchone()
    if found is not None and found[6]:
        return found[0], found[1], bool(found[2]), found[3], found[4], found[5]
    if found is not None and fresh:
        db.execute("DELETE FROM items WHERE log = ?", (log,))
    return 0, 0, False, 0, 0, None
