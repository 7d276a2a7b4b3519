"""The tasks of all processes that share a store of records (TASK-4, TASK-5, TASK-7, TASKX-3).

A task is one record. Whoever changes it replaces the version that it has read, so that no answer, cancellation or end
is overwritten. The record names the worker that runs the task; a worker has a lease, a record that it renews and that
ends with it. Whoever looks at a task whose worker has no lease ends the task as failed: at once if the process of the
worker has ended on the same machine, or if the store has been there for `SUSPECT` seconds, else after so many. All who wait
for a task look at it every second, so nobody has to look on behalf of others.

The lease is no `stores.leases.Lease`: it needs neither a number nor a list of workers, and so works on the three methods
of `Records`. A worker that was frozen may renew it late: what others have written for it meanwhile has another version,
so that its own writes fail.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from typing import Final
from weakref import WeakValueDictionary

from mcprev.core.method_binding import log_error
from mcprev.core.store import Records, stored_for
from mcprev.error_text import MALFORMED, invalid_value, worker_lost
from mcprev.errors import InternalError, Json, StoreError
from mcprev.protocol import tasks
from mcprev.protocol.tasks import Task
from mcprev.sharing.leases import LeaseThread
from mcprev.sharing.processes import process_has_ended, this_process
from mcprev.sharing.task_form import decode_task, encode_task
from mcprev.sharing.watching import FIRST_PAUSE, LONGEST_PAUSE, TRIES
from mcprev.wire.json_values import json_object

LEASE: Final = 6.0
"""Seconds after its last renewal at which a lease or claim ends."""
RENEW: Final = 2.0
"""Seconds between two renewals."""
SUSPECT: Final = 4.0
"""Seconds for which a process must find no lease of a worker before the worker counts as dead: after the store was away
for longer than a lease, those who live renew theirs first.
"""
GRACE: Final = 86_400.0
"""Seconds for which the record of a task that has not ended is kept beyond its `ttl`."""
LONGEST: Final = 30 * 86_400.0
"""The longest time that a task is kept after its last change, in seconds, also one without `ttl`."""
REFUSED: Final = 1.0
"""Seconds for which an owner or session with too many running tasks is refused more of them without another look."""
SHORTEST: Final = 5.0
"""The shortest time that a task is kept after its end, in seconds, so that whoever waits for it sees it."""
MAX_LISTED: Final = 1_000
"""The number of tasks of one owner or session; beyond it, the oldest ones that have ended are deleted."""
TOO_MANY: Final = "too many tasks of this client are running"
TIDY: Final = 100
"""The number of tasks that are gone beyond which a list is written without them."""
WORKER_LOST: Final = worker_lost(
    "the process that ran the task has ended; the task may have run in part", may_have_run=True
).to_wire()
"""The error of a task whose worker is dead."""
_logger: Final = logging.getLogger("mcprev.server")


class _Look:
    """What those who wait for one task have in common."""

    def __init__(self) -> None:
        self.woken: asyncio.Event = asyncio.Event()
        """Set by a change of the task in this process."""
        self.at: float = float("-inf")
        """When the task was read last, by the clock of the event loop."""
        self.found: Task | None = None
        self.reading: asyncio.Lock = asyncio.Lock()


class SharedTasks:
    """A `TaskStore` that several processes use at a time, on records."""

    def __init__(self, records: Records, running: Collection[str], max_running_each: int) -> None:
        """`running` holds the ids of the tasks that run in this process, at any time."""
        self._records, self._running, self._most = records, running, max_running_each
        self._name, self._process = "", 0
        self._renewed = self._renewed_at = float("-inf")
        self._steady = float("inf")
        """Since when this process renews its lease without a gap."""
        self._thread = LeaseThread(
            self._write_lease, getattr(records, "release", None), lambda: self._renewed_at, RENEW
        )
        self._attending = 0
        self._missing: dict[str, float] = {}
        """When this process first found no lease of a worker, by the clock of the event loop."""
        self._refused: dict[str, float] = {}
        """Until when an owner or session has too many running tasks, by the key of its list."""
        self._looks: WeakValueDictionary[str, _Look] = WeakValueDictionary()

    @property
    def worker(self) -> str:
        """The name of this process in the store, which no other has, forked or not."""
        if self._process != os.getpid():
            self._name, self._process = secrets.token_urlsafe(16), os.getpid()
            self._renewed = float("-inf")
        return self._name

    # -- reading -------------------------------------------------------------------------------------------

    async def load(self, task_id: str, /) -> Task | None:
        """Return the task with an id, or None; a task whose worker is dead has failed."""
        for _ in range(TRIES):
            task = await self._read(task_id)
            if task is None or task.ended or await self._runs(task):
                return task
            failed = tasks.fail_task(task, WORKER_LOST, time.time())
            if (version := await self.replace(failed, task.version)) is not None:
                _logger.warning("a task failed because its worker %s has ended", task.worker)
                return replace(failed, version=version)
        raise StoreError("other processes keep changing the task; try again later")

    async def _runs(self, task: Task) -> bool:
        """Return whether the worker of a task runs it, as far as this process knows."""
        if task.worker == self.worker:
            return task.id in self._running
        now, worker = asyncio.get_running_loop().time(), str(task.worker)
        lease = await self._records.read(f"worker/{worker}")
        if lease is not None:
            self._missing.pop(worker, None)
            return not process_has_ended(_process_in(lease.value))
        if now - self._steady >= SUSPECT and now - self._renewed < 2 * RENEW:
            return False
        if len(self._missing) >= MAX_LISTED:
            self._missing.clear()
        return now - self._missing.setdefault(worker, now) < SUSPECT

    async def page(
        self, owner: str | None, session: str | None, after: object, limit: int
    ) -> list[Task] | None:
        """Return up to `limit` tasks after the one with the id `after`; None if there is no such task."""
        key = _list_of(owner, session)
        entries, ends, version = ([], 0.0, 0) if key is None else await self._listed(key)
        ids = [name for name, _ in entries]
        if after is not None:
            if after not in ids:
                return None
            ids = ids[ids.index(str(after)) + 1 :]
        found: list[Task] = []
        gone: set[str] = set()
        for task_id in ids:
            if len(found) == limit:
                break
            task = await self.load(task_id)
            if task is None:
                gone.add(task_id)
            elif task.belongs_to(owner, session):
                found.append(task)
        if key is not None and len(gone) > TIDY:
            await self._write_list(key, [entry for entry in entries if entry[0] not in gone], ends, version)
        return found

    async def looks(self, task: Task, /) -> AsyncGenerator[Task]:
        """Yield a task again and again, at least once a second, and the same object while it does not change.

        It ends when the task is gone. A store that fails is asked again for a short time; then the error is raised.
        """
        look, now = self._looks.setdefault(task.id, _Look()), asyncio.get_running_loop().time
        pause, failing_since = FIRST_PAUSE, None
        while True:
            yield task
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await look.woken.wait()
            try:
                async with look.reading:
                    # Those who wait for one task share what they read.
                    if look.woken.is_set() or now() - look.at >= pause / 2:
                        look.woken.clear()
                        look.found = await self.load(task.id)
                        look.at = now()
            except Exception:
                failing_since = failing_since or now()
                if now() - failing_since >= LEASE:
                    raise
                pause = LONGEST_PAUSE
                continue
            failing_since = None
            if look.found is None:
                return
            if look.found.version == task.version:
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                task, pause = look.found, FIRST_PAUSE

    async def follow(self, task: Task, tell: Callable[[Task], bool], /) -> None:
        """Call `tell` with the state of a task, at least once a second, until it returns False or the task is gone."""
        failed, goes_on = False, True
        while goes_on:
            try:
                async with aclosing(self.looks(task)) as looks:
                    goes_on = False
                    async for task in looks:
                        if not tell(task):
                            return
            except Exception as error:  # noqa: BLE001 - it is logged
                level = logging.DEBUG if failed else logging.ERROR
                log_error(_logger, level, "a task cannot be looked up; the store is asked again", error)
                failed = goes_on = True

    # -- writing -------------------------------------------------------------------------------------------

    async def save(self, task: Task, /) -> None:
        """Store a task, whatever is stored."""
        await self.replace(task, None)

    async def replace(self, task: Task, seen: int | None, /) -> int | None:
        """Store a task if its version is still `seen`, and return the new version; else None. 0: there must be none.

        Raises `InternalError` if too many tasks of its owner or session run.
        """
        left = task.remaining(time.time())
        ttl = min(max(left, SHORTEST) if task.ended else left + GRACE, LONGEST)
        if seen == 0:
            await self._renew()
        version = await self._records.write(f"task/{_hash(task.id)}", encode_task(task), seen=seen, ttl=ttl)
        if version is not None and seen == 0:
            try:
                await self._add_to_list(task, ttl)
            except BaseException:
                await self._records.remove(f"task/{_hash(task.id)}")
                raise
        if version is not None:
            self._wake(task.id)
        return version

    async def change(self, task_id: str, change: Callable[[Task], Task], /) -> Task:
        """Replace a task by `change(task)`, which may be called several times, and return it.

        Raises `InvalidParams` if it is gone, and `StoreError` if others replace it all the time.
        """
        for _ in range(TRIES):
            task = await self.load(task_id)
            if task is None:
                raise tasks.unknown(task_id)
            if (changed := change(task)) is task:
                return task
            version = await self.replace(changed, task.version)
            if version is not None:
                return replace(changed, version=version)
            await asyncio.sleep(secrets.randbelow(10) / 1000)
        raise StoreError("other processes keep changing the task; try again later")

    # -- who works -----------------------------------------------------------------------------------------

    async def attend(self, look: Callable[[], Awaitable[bool]], /) -> None:
        """Keep the lease of this worker, and call `look` again and again; it returns whether it found news.

        Runs until it is cancelled, for as long as a task runs here.
        """
        pause, failing = FIRST_PAUSE, False
        self._attending += 1
        try:
            while True:
                self._thread.keep()
                await asyncio.sleep(pause)
                try:
                    await self._renew()
                    pause = FIRST_PAUSE if await look() else min(2 * pause, LONGEST_PAUSE)
                    failing = False
                except Exception as error:  # noqa: BLE001 - it is logged
                    level = logging.DEBUG if failing else logging.ERROR
                    log_error(_logger, level, "a running task cannot be looked up", error)
                    pause, failing = LONGEST_PAUSE, True
        finally:
            self._attending -= 1
            if not self._attending:
                self._thread.rest()

    @asynccontextmanager
    async def claim(self, task: Task, key: str, /) -> AsyncIterator[bool]:
        """Give whether this process alone may ask the question `key` of a task, until the end of the block.

        The claim of a process that dies ends like its lease.
        """
        name, value = f"claim/{_hash(task.id, key)}", secrets.token_bytes(16).hex().encode()
        version = await self._records.write(name, b'"%b"' % value, seen=0, ttl=LEASE)
        if version is None:
            yield False
            return

        async def renew() -> None:
            nonlocal version
            own = version
            while own is not None:
                await asyncio.sleep(RENEW)
                try:
                    own = await self._records.write(name, b'"%b"' % value, seen=version, ttl=LEASE)
                    if own is None:
                        # An earlier renewal may have been carried out, whatever it raised; else another process has
                        # the claim, because this one did not go on for too long.
                        found = await self._records.read(name)
                        own = found.version if found is not None and value in found.value else None
                    version = own or version
                except Exception as error:  # noqa: BLE001 - it is logged
                    log_error(_logger, logging.ERROR, "the claim on a question cannot be renewed", error)

        renewing = asyncio.ensure_future(renew())
        try:
            yield True
        finally:
            renewing.cancel()
            await asyncio.wait({renewing})  # so that it writes nothing after the removal
            try:
                await self._records.remove(name, seen=version)
            except Exception as error:  # noqa: BLE001 - it is logged
                what = "the claim on a question cannot be removed; it ends by itself"
                log_error(_logger, logging.ERROR, what, error)
            self._wake(task.id)

    def _wake(self, task_id: str) -> None:
        """Let those who wait for a change of a task in this process look at once."""
        if (look := self._looks.get(task_id)) is not None:
            look.woken.set()

    async def _renew(self) -> None:
        """Write the lease, unless that was done a short time ago; an event loop that follows another has its own clock."""
        now = asyncio.get_running_loop().time()
        gap = now - self._renewed
        if not 0 <= gap < RENEW:
            try:
                await self._write_lease()
            except BaseException:
                self._steady = float("inf")
                raise
            if not 0 <= gap < 2 * RENEW or self._steady > now:
                self._steady = now
            self._renewed, self._renewed_at = now, time.monotonic()

    async def _write_lease(self) -> None:
        value = json.dumps({"process": this_process()}).encode()
        with stored_for(None):  # also while a client begins a task
            await self._records.write(f"worker/{self.worker}", value, ttl=LEASE)

    # -- the list of an owner ------------------------------------------------------------------------------

    async def _read(self, task_id: str) -> Task | None:
        record = await self._records.read(f"task/{_hash(task_id)}")
        task = None if record is None else decode_task(record)
        return task if task is not None and task.id == task_id else None

    async def _listed(self, key: str) -> tuple[list[tuple[str, bool]], float, int]:
        """Return the ids of a list, each with whether the task may be running, the end of the list, and its version."""
        record = await self._records.read(key)
        if record is None:
            return [], 0.0, 0
        try:
            found: Json = json.loads(record.value)
            return (
                [(str(name), bool(runs)) for name, runs in found["tasks"]],
                float(found["ends"]),
                record.version,
            )
        except MALFORMED as error:
            raise invalid_value("a list of tasks") from error

    async def _write_list(
        self, key: str, entries: Sequence[tuple[str, bool]], ends: float, seen: int
    ) -> bool:
        """Store a list if its version is still `seen`; return whether it was."""
        left = min(max(ends - time.time(), SHORTEST), LONGEST)
        value = json.dumps({"tasks": entries, "ends": ends}).encode()
        return await self._records.write(key, value, seen=seen, ttl=left) is not None

    async def _add_to_list(self, task: Task, ttl: float) -> None:
        key, now = _list_of(task.owner, task.session), asyncio.get_running_loop().time()
        if key is None:
            return
        if self._refused.get(key, now) > now:
            raise InternalError(TOO_MANY)
        for _ in range(TRIES):
            entries, ends, version = await self._listed(key)
            if sum(runs for _, runs in entries) >= self._most or len(entries) >= MAX_LISTED:
                entries = await self._tidied(entries)
            if sum(runs for _, runs in entries) >= self._most:
                self._refused = {each: at for each, at in self._refused.items() if at > now}
                self._refused[key] = now + REFUSED
                raise InternalError(TOO_MANY)
            ends = max(ends, time.time() + ttl)
            if await self._write_list(key, [*entries, (task.id, True)], ends, version):
                return
            await asyncio.sleep(secrets.randbelow(10) / 1000)
        raise StoreError("other processes keep changing the list of tasks; try again later")

    async def _tidied(self, entries: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
        """Return a list without the tasks that are gone, and without the oldest that have ended if there are too many."""
        full = len(entries) >= MAX_LISTED
        found: list[tuple[str, bool]] = []
        for name, runs in entries:
            if runs or full:
                task = await self.load(name)
                if task is not None:
                    found.append((name, not task.ended))
            else:
                found.append((name, False))
        if len(found) >= MAX_LISTED:
            room = MAX_LISTED * 9 // 10  # so that this is rarely needed
            for entry in [entry for entry in found if not entry[1]][: len(found) - room]:
                found.remove(entry)
                await self._records.remove(f"task/{_hash(entry[0])}")
        return found

    async def list(self, owner: str | None, session: str | None, /) -> list[Task]:
        """Return the tasks of an owner, or of a session without authentication, oldest first."""
        return await self.page(owner, session, None, MAX_LISTED) or []


def _process_in(lease: bytes) -> Json:
    """Return the process of a lease; None if the lease does not say it."""
    try:
        found: Json = json.loads(lease)
    except (ValueError, RecursionError):
        return None
    return json_object(found).get("process")


def _hash(*parts: str) -> str:
    """Return a key of the store from which no id can be told."""
    return sha256(json.dumps(parts).encode()).hexdigest()


def _list_of(owner: str | None, session: str | None) -> str | None:
    """Return the key of the list of an owner or session; None where tasks cannot be listed."""
    if owner is None and session is None:
        return None
    return f"tasks/{_hash('session', session or '') if owner is None else _hash('owner', owner)}"
