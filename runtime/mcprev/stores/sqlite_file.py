"""The file of an SQLite store: its tables, and the connection and transactions of one event loop."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from mcprev.core.shares import free_of, share_of
from mcprev.errors import StoreError, StoreShareError
from mcprev.stores.waiting import News

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
_SHARES: Final = """
ALTER TABLE records ADD COLUMN client TEXT;
ALTER TABLE logs ADD COLUMN client TEXT;
CREATE TABLE shares (client TEXT PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID;
CREATE TRIGGER records_replaced BEFORE INSERT ON records BEGIN
  UPDATE shares SET size = size - (SELECT length(value) + 300 FROM records WHERE key = NEW.key)
  WHERE client = (SELECT client FROM records WHERE key = NEW.key);
END;
CREATE TRIGGER records_added AFTER INSERT ON records WHEN NEW.client IS NOT NULL BEGIN
  INSERT INTO shares VALUES (NEW.client, length(NEW.value) + 300) ON CONFLICT (client) DO UPDATE SET size = size + excluded.size;
END;
CREATE TRIGGER records_removed AFTER DELETE ON records WHEN OLD.client IS NOT NULL BEGIN
  UPDATE shares SET size = size - length(OLD.value) - 300 WHERE client = OLD.client;
  DELETE FROM shares WHERE client = OLD.client AND size <= 0;
END;
CREATE TRIGGER logs_replaced BEFORE INSERT ON logs BEGIN
  UPDATE shares SET size = size - (SELECT logs.size + 100 * items + 300 FROM logs WHERE log = NEW.log)
  WHERE client = (SELECT client FROM logs WHERE log = NEW.log);
END;
CREATE TRIGGER logs_added AFTER INSERT ON logs WHEN NEW.client IS NOT NULL BEGIN
  INSERT INTO shares VALUES (NEW.client, NEW.size + 100 * NEW.items + 300)
  ON CONFLICT (client) DO UPDATE SET size = size + excluded.size;
END;
CREATE TRIGGER logs_removed AFTER DELETE ON logs WHEN OLD.client IS NOT NULL BEGIN
  UPDATE shares SET size = size - OLD.size - 100 * OLD.items - 300 WHERE client = OLD.client;
  DELETE FROM shares WHERE client = OLD.client AND size <= 0;
END
"""
"""What counts the bytes of each client. Processes of a release that knows nothing of it keep the counts right, too; REPLACE
lets no trigger see the row that goes."""
_SWEEPS: Final = (
    "DELETE FROM records WHERE version IN (SELECT version FROM records WHERE ends <= :now LIMIT :rows)",
    "DELETE FROM items WHERE rowid IN (SELECT items.rowid FROM logs JOIN items USING (log) WHERE ends <= :now LIMIT :rows)",
    """
    DELETE FROM logs WHERE changed IN (
      SELECT changed FROM logs WHERE ends <= :now AND NOT EXISTS (SELECT 1 FROM items WHERE items.log = logs.log) LIMIT :rows)
    """,
)
BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def _clock() -> tuple[str, Callable[[], float]]:
    """Return what tells one start of this machine from another, and a clock that all its processes share.

    Where the start is not known, the clock is that of the day, which somebody may set.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"), time.monotonic
    except OSError:
        return "", time.time


class SqliteFile:
    """The connection of one event loop."""

    def __init__(self, path: str, max_bytes: int) -> None:
        with suppress(FileExistsError):
            # An existing file is not opened here: closing it would end the locks that this process has on it.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self.news: News = News()
        self.poll: asyncio.TimerHandle | None = None
        self.version: int = 0
        self.changed: int = 0
        self.new_rows: int = 0
        self.db: sqlite3.Connection = sqlite3.connect(
            path, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            self._is_ours()
            if self.db.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                self.db.execute("PRAGMA journal_mode = WAL")
            self.db.execute("PRAGMA synchronous = NORMAL")
            (self._page,) = self.db.execute("PRAGMA page_size").fetchone()
            self._max_bytes = max_bytes
            self.db.execute(f"PRAGMA max_page_count = {max(1, max_bytes // self._page)}")
            self.now: Callable[[], float] = self._prepare()
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
            if not self.db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'shares'").fetchone():
                for statement in re.split(r";\n(?=ALTER|CREATE)", _SHARES):
                    self.db.execute(statement)
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

    def check_share(self, client: str | None, size: int, key: str = "") -> None:
        """Raise `StoreShareError` if `size` more bytes of a client are beyond its share: a quarter of a file that is nearly full.

        With a key, they are in place of those of its record.
        """
        if client is None or self._used() + size <= free_of(self._max_bytes):
            return
        at = (key, client)
        before = self.db.execute(
            "SELECT length(value) FROM records WHERE key = ? AND client = ?", at
        ).fetchone()
        more = size - (0 if before is None else before[0])
        free = self._used() + more <= free_of(self._max_bytes)
        if free or more <= 0 or self._stored(client) + more <= share_of(self._max_bytes):
            return
        self.sweep(SWEEP_IF_FULL)
        if self._stored(client) + more > share_of(self._max_bytes):
            raise StoreShareError(
                f"the SQLite store is nearly full, and one client stores {self._stored(client):,} bytes of it already; "
                "raise `max_bytes`, or let sessions, states and tasks of one client be fewer or end sooner"
            )

    def _used(self) -> int:
        """Return the bytes that are in use of the file."""
        (pages,) = self.db.execute("PRAGMA page_count").fetchone()
        (unused,) = self.db.execute("PRAGMA freelist_count").fetchone()
        used: int = (pages - unused) * self._page
        return used

    def _stored(self, client: str) -> int:
        """Return the bytes that a client stores."""
        found = self.db.execute("SELECT size FROM shares WHERE client = ?", (client,)).fetchone()
        return 0 if found is None else int(found[0])

    def write(self, works: Sequence[Callable[[SqliteFile], object]]) -> None:
        """Do operations in one transaction, and remove some rows that are past their time, so that these never get many."""
        with self.transaction():
            for work in works:
                work(self)
            if self.new_rows >= SWEEP:
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


class WriteGroup:
    """The writes of one event loop that wait for the next transaction."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[SqliteFile], object], asyncio.Future[bool]]] = []
        """Each with a future of whether it was done."""
        self.task: asyncio.Task[None] | None = None

    def commit(self, opened: SqliteFile) -> None:
        """Do all in one transaction, or none if one of them fails. Raises `sqlite3.Error` if the file is locked."""
        self.waiting = [each for each in self.waiting if not each[1].done()]  # others were cancelled
        done = True
        try:
            opened.write([work for work, _ in self.waiting])
        except Exception as error:
            if isinstance(error, sqlite3.Error) and sqlite_code(error) in BUSY:
                raise
            done = False
        waiting, self.waiting = self.waiting, []
        for _, future in waiting:
            future.set_result(done)

    def fail(self, message: str) -> None:
        """Let all fail."""
        waiting, self.waiting = self.waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(StoreError(message))


def sqlite_code(error: sqlite3.Error) -> int:
    """Return the primary result code of an error; 0 if it has none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
