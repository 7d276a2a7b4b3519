"""A store in an SQLite file, for the workers of one machine.

Each operation is one short transaction on the event loop: a read takes some microseconds, a write some tens. No
operation waits for a lock on the loop; it is tried again a little later. A transaction is on disk when the process dies
(`kill -9`); the last ones may be missing after a loss of power, but the file stays whole.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from mcprev.core.store import LogBounds, LogItem, LogTail, Record
from mcprev.errors import StoreError
from mcprev.stores.waiting import News, PerLoop

T = TypeVar("T")
PATIENCE: Final = 2.0
"""How long an operation waits for the locks of other processes, in seconds."""
POLL: Final = 0.005
"""The time between two looks for what other processes appended, in seconds, while something waits for it."""
SWEEP: Final = 16
"""After so many new rows, twice as many that are past their time are removed."""
SWEEP_IF_FULL: Final = 1000
"""How many rows past their time are removed before a write fails because there is no room."""
_APPLICATION: Final = 0x6D637072
"""Marks the file as ours: "mcpr"."""
_FORMAT: Final = 1
_TABLES: Final = """
CREATE TABLE records (
  version INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, value BLOB NOT NULL, listed TEXT NOT NULL, ends REAL
);
CREATE INDEX records_listed ON records (listed, version) WHERE listed <> '';
CREATE INDEX records_ends ON records (ends) WHERE ends IS NOT NULL;
CREATE TABLE logs (
  changed INTEGER PRIMARY KEY AUTOINCREMENT, log TEXT NOT NULL UNIQUE, last INTEGER NOT NULL, lost INTEGER NOT NULL,
  complete INTEGER NOT NULL, items INTEGER NOT NULL, size INTEGER NOT NULL, ends REAL NOT NULL
);
CREATE INDEX logs_ends ON logs (ends);
CREATE TABLE items (
  log TEXT NOT NULL, droppable INTEGER NOT NULL, number INTEGER NOT NULL, value BLOB NOT NULL,
  UNIQUE (log, droppable, number)
);
CREATE TABLE clock (boot TEXT NOT NULL, ahead REAL NOT NULL)
"""
_READ: Final = "SELECT value, version FROM records WHERE key = :key AND (ends IS NULL OR ends > :now)"
_WRITE: Final = """
INSERT OR REPLACE INTO records (key, value, listed, ends) SELECT :key, :value, :index, :ends
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
_HEAD: Final = "SELECT last, lost, complete, items, size, ends > :now FROM logs WHERE log = :log"
_ITEMS: Final = (
    "SELECT number, value FROM items WHERE log = :log AND droppable IN (0, 1) AND number > :after ORDER BY number"
)
_OLDEST: Final = (
    "SELECT rowid, number, length(value) FROM items WHERE log = ? AND droppable = ? ORDER BY number LIMIT 1"
)
_KEEP: Final = (
    "INSERT OR REPLACE INTO logs (log, last, lost, complete, items, size, ends) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_SWEEPS: Final = (
    "DELETE FROM records WHERE version IN (SELECT version FROM records WHERE ends <= :now LIMIT :rows)",
    "DELETE FROM items WHERE rowid IN (SELECT items.rowid FROM logs JOIN items USING (log) WHERE ends <= :now LIMIT :rows)",
    """
    DELETE FROM logs WHERE changed IN (
      SELECT changed FROM logs WHERE ends <= :now AND NOT EXISTS (SELECT 1 FROM items WHERE items.log = logs.log) LIMIT :rows)
    """,
)
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_ADVICE: Final = {
    sqlite3.SQLITE_BUSY: f"other processes keep it locked for over {PATIENCE:g} s; find out which, and whether its disk is slow",
    sqlite3.SQLITE_LOCKED: f"others keep it locked for over {PATIENCE:g} s; find out which",
    sqlite3.SQLITE_FULL: "it has no room: raise `max_bytes`, free disk space, or store less or for a shorter time",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: its folder must exist, and this user must be allowed to write to both",
    sqlite3.SQLITE_READONLY: "it cannot be written to: this user needs the permission for the file and its folder",
    sqlite3.SQLITE_NOTADB: "the file is something else; name another one",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; stop all workers, move it away and start again",
    sqlite3.SQLITE_IOERR: "its disk fails or is full; the log of the system says more",
}


def _clock() -> tuple[str, Callable[[], float]]:
    """Return what tells one start of this machine from another, and a clock that all its processes share.

    Where the start is not known, the clock is that of the day, which somebody may set.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"), time.monotonic
    except OSError:
        return "", time.time


class _Opened:
    """The connection of one event loop."""

    def __init__(self, path: str, max_bytes: int) -> None:
        with suppress(FileExistsError):
            # An existing file is not opened here: closing it would end the locks that this process has on it.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self.news = News()
        self.poll: asyncio.TimerHandle | None = None
        self.version = self.changed = self.new_rows = 0
        self.db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            self._is_ours()
            if self.db.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                self.db.execute("PRAGMA journal_mode = WAL")
            self.db.execute("PRAGMA synchronous = NORMAL")
            (page,) = self.db.execute("PRAGMA page_size").fetchone()
            self.db.execute(f"PRAGMA max_page_count = {max(1, max_bytes // page)}")
            self.now = self._prepare()
        except BaseException:
            self.db.close()
            raise

    def _is_ours(self) -> bool:
        """Return whether the tables are there. Raises `StoreError` for a file of somebody else, before it is changed."""
        marks = tuple(
            self.db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        if marks == (_APPLICATION, _FORMAT):
            return True
        if marks == (0, 0) and self.db.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,):
            return False
        raise StoreError(
            "the file of the SQLite store belongs to another program, or another release of mcprev; pass another file"
        )

    def _prepare(self) -> Callable[[], float]:
        """Make the tables if they are missing; return the clock of the store, which goes on when the machine restarts."""
        boot, clock = _clock()
        with self.transaction():
            if not self._is_ours():
                for statement in _TABLES.split(";"):
                    self.db.execute(statement)
                self.db.execute(f"PRAGMA application_id = {_APPLICATION}")
                self.db.execute(f"PRAGMA user_version = {_FORMAT}")
            found = self.db.execute("SELECT ahead FROM clock WHERE boot = ?", (boot,)).fetchone()
            if found is None:
                found = (time.time() - clock(),)
                self.db.execute("DELETE FROM clock")
                self.db.execute("INSERT INTO clock VALUES (?, ?)", (boot, *found))
        ahead: float = found[0]
        return lambda: clock() + ahead

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Begin a transaction that writes, if no other process is in one; commit it, or take it back after an exception."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.db.execute("COMMIT")
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise

    def added(self, rows: int) -> None:
        """Count new rows, and remove some that are past their time, so that these never get many."""
        self.new_rows += rows
        if self.new_rows >= SWEEP:
            with suppress(sqlite3.OperationalError):  # another time
                self.sweep(2 * self.new_rows)
                self.new_rows = 0

    def sweep(self, rows: int) -> int:
        """Remove up to so many rows of each table that are past their time; return how many it were."""
        at = {"now": self.now(), "rows": rows}
        return sum(self.db.execute(statement, at).rowcount for statement in _SWEEPS)

    def close(self) -> None:
        """Stop listening, and close the connection."""
        if self.poll is not None:
            self.poll.cancel()
        self.db.close()


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
        self._opened = PerLoop(lambda: _Opened(self._path, self._max_bytes), _Opened.close)

    async def read(self, key: str, /) -> Record | None:
        """Return the record, or None if there is none or its time is over."""

        def work(opened: _Opened) -> Record | None:
            found = opened.db.execute(_READ, {"key": key, "now": opened.now()}).fetchone()
            return None if found is None else Record(*found)

        return await self._do(work)

    async def write(
        self, key: str, value: bytes, /, *, seen: int | None = None, ttl: float | None = None, index: str = ""
    ) -> int | None:
        """Store a record if its version is still `seen`; see `Store.write`."""

        def work(opened: _Opened) -> int | None:
            now = opened.now()
            ends = None if ttl is None else now + ttl
            given = {"key": key, "value": value, "seen": seen, "ends": ends, "index": index, "now": now}
            done = opened.db.execute(_WRITE, given)
            version = done.lastrowid if done.rowcount else None
            if version is not None:
                opened.added(1)
            return version

        return await self._do(work)

    async def remove(self, key: str, /, *, seen: int | None = None) -> bool:
        """Remove a record if its version is still `seen`; see `Records.remove`."""

        def work(opened: _Opened) -> bool:
            given = {"key": key, "seen": seen, "now": opened.now()}
            return opened.db.execute(_REMOVE, given).rowcount > 0

        return await self._do(work)

    async def listed(
        self, index: str, /, *, after: int = 0, limit: int = 100
    ) -> Sequence[tuple[str, Record]]:
        """Return up to `limit` records of an index with versions above `after`; see `Store.listed`."""

        def work(opened: _Opened) -> Sequence[tuple[str, Record]]:
            given = {"index": index, "after": after, "limit": limit, "now": opened.now()}
            return [(key, Record(*found)) for key, *found in opened.db.execute(_LISTED, given)]

        return await self._do(work)

    async def append(
        self, log: str, items: Sequence[LogItem], /, *, bounds: LogBounds, seen: int | None = None
    ) -> int | None:
        """Append items to a log; see `Store.append`."""

        def work(opened: _Opened) -> int | None:
            db, now = opened.db, opened.now()
            with opened.transaction():
                last, lost, complete, count, size = _head(db, log, now, fresh=True)
                if complete or (seen is not None and seen != last):
                    return None
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
                db.execute(_KEEP, (log, last, lost, 0, count, size, now + bounds.ttl))
            opened.news.tell(log)
            opened.added(1 + len(rows))
            return last

        return await self._do(work)

    async def tail(self, log: str, after: int, /, *, wait: float = 0.0) -> LogTail:
        """Return the items after a number, and wait for them; see `Store.tail`."""

        def work(opened: _Opened) -> LogTail:
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

        def work(opened: _Opened) -> None:
            now = opened.now()
            with opened.transaction():
                last, lost, _, count, size = _head(opened.db, log, now, fresh=True)
                opened.db.execute(_KEEP, (log, last, lost, 1, count, size, now + ttl))
            opened.news.tell(log)
            opened.added(1)

        await self._do(work)

    async def aclose(self) -> None:
        """Close the connection of the running event loop; see `Store.aclose`."""
        opened = self._opened.pop()
        if opened is not None:
            opened.news.fail("the store was closed")
            opened.close()

    def _listen(self, opened: _Opened) -> bool:
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

    async def _do(self, work: Callable[[_Opened], T]) -> T:
        """Do an operation; if the file is locked, try it again a little later. Raises `StoreError` if it fails."""
        ends, pause, swept = time.monotonic() + PATIENCE, 0.0005, False
        while True:
            try:
                opened = self._opened.get()
                try:
                    return work(opened)
                except sqlite3.Error as error:
                    if _code(error) != sqlite3.SQLITE_FULL or swept or not opened.sweep(SWEEP_IF_FULL):
                        raise
                    swept = True
                    continue
            except (sqlite3.Error, OSError) as error:
                code = sqlite3.SQLITE_CANTOPEN if isinstance(error, OSError) else _code(error)
                if code not in _BUSY or time.monotonic() > ends:
                    raise StoreError(
                        f"the SQLite store {self._path}: {_ADVICE.get(code, str(error))}"
                    ) from error
            await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311 - no secret
            pause = min(2 * pause, 0.02)


def _code(error: sqlite3.Error) -> int:
    """Return the primary result code of an error; 0 if it has none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _head(db: sqlite3.Connection, log: str, now: float, *, fresh: bool) -> tuple[int, int, bool, int, int]:
    """Return what is known of a log: last and lost number, whether it is complete, number of items and of bytes.

    With `fresh`, what is left of a log whose time is over is removed.
    """
    found = db.execute(_HEAD, {"log": log, "now": now}).fetchone()
    if found is not None and found[5]:
        return found[0], found[1], bool(found[2]), found[3], found[4]
    if found is not None and fresh:
        db.execute("DELETE FROM items WHERE log = ?", (log,))
    return 0, 0, False, 0, 0
