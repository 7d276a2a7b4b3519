"""The tasks of all processes that share a store of records (TASK-4, TASK-5, TASK-7, TASKX-3).

A task is one record. Whoever changes it replaces the version that it has read, so that no answer, cancellation or end
is overwritten. The record names the worker that runs the task; a worker has a lease, a record that it renews and that
ends with it. Whoever finds a task whose worker has no lease ends it as failed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from typing import Final
from weakref import WeakValueDictionary

from mcprev.core.store import Records
from mcprev.errors import InternalError, Json, StoreError
from mcprev.protocol import tasks
from mcprev.protocol.tasks import Task
from mcprev.stores.task_form import decode_task, encode_task
from mcprev.stores.watching import FIRST_PAUSE, LONGEST_PAUSE, TRIES, watch

LEASE: Final = 10.0
"""Seconds after which a worker counts as dead that has not renewed its lease."""
RENEW: Final = 3.0
"""Seconds between two renewals."""
GRACE: Final = 86_400.0
"""Seconds for which the record of a task that has not ended is kept beyond its `ttl`."""
LONGEST: Final = 30 * 86_400.0
"""The longest time that a task is kept after its last change, in seconds, also one without `ttl`."""
SHORTEST: Final = 5.0
"""The shortest time that a task is kept after its end, in seconds, so that whoever waits for it sees it."""
MAX_LISTED: Final = 1_000
"""The number of tasks of one owner or session; beyond it, the oldest ones that have ended are deleted."""
WORKER_LOST: Final[dict[str, Json]] = {
    "code": InternalError.CODE,
    "message": "the process that ran the task has ended; the task may have run in part",
    "data": {"reason": "worker_lost", "mayHaveRun": True},
}
"""The error of a task whose worker is dead."""
_logger: Final = logging.getLogger("mcprev.server")


class SharedTasks:
    """A `TaskStore` that several processes use at a time, on records."""

    def __init__(self, records: Records, running: Collection[str], max_running_each: int) -> None:
        """`running` holds the ids of the tasks that run in this process, at any time."""
        self._records, self._running, self._most = records, running, max_running_each
        self.worker: str = secrets.token_urlsafe(16)
        """The name of this process in the store, which no other has."""
        self._renewed = float("-inf")
        self._woken: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()

    # -- reading -------------------------------------------------------------------------------------------

    async def load(self, task_id: str, /) -> Task | None:
        """Return the task with an id, or None; a task whose worker is dead has failed."""
        while (task := await self._read(task_id)) is not None and not task.ended:
            if task.worker == self.worker:
                alive = task_id in self._running
            else:
                alive = await self._records.read(f"worker/{task.worker}") is not None
            if alive:
                break
            failed = tasks.fail_task(task, WORKER_LOST, time.time())
            if await self.replace(failed, task.version) is not None:
                _logger.warning("a task has failed because its worker %s is gone", task.worker)
        return task

    async def page(
        self, owner: str | None, session: str | None, after: object, limit: int
    ) -> list[Task] | None:
        """Return up to `limit` tasks after the one with the id `after`; None if there is no such task."""
        key = _list_of(owner, session)
        ids = [] if key is None else [name for name, _ in (await self._listed(key))[0]]
        if after is not None:
            if after not in ids:
                return None
            ids = ids[ids.index(str(after)) + 1 :]
        found: list[Task] = []
        for task_id in ids:
            task = await self.load(task_id) if len(found) < limit else None
            if task is not None and task.belongs_to(owner, session):
                found.append(task)
        return found

    async def watch(self, task: Task, /) -> Task | None:
        """Return the task when it is no longer as `task`, or after a second at most; None if it is gone."""
        found: list[Task | None] = [task]

        async def look() -> bool | None:
            found[0] = latest = await self.load(task.id)
            return None if latest is not None and latest.version == task.version else True

        woken = self._woken.setdefault(task.id, asyncio.Event())
        await watch(look, woken, LONGEST_PAUSE)
        latest = found[0]
        return task if latest is not None and latest.version == task.version else latest

    async def follow(self, task: Task, tell: Callable[[Task], bool], /) -> None:
        """Call `tell` with the state of a task, at least once a second, until it returns False or the task is gone."""
        found: Task | None = task
        while found is not None and tell(found):
            try:
                found = await self.watch(found)
            except Exception:
                _logger.exception("a task cannot be looked up; the store is asked again")
                await asyncio.sleep(LONGEST_PAUSE)

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
        if version is not None and (woken := self._woken.get(task.id)) is not None:
            woken.set()
        return version

    async def change(self, task_id: str, change: Callable[[Task], Task], /) -> Task | None:
        """Replace a task by `change(task)`, which may be called several times, and return it; None if it is gone.

        Raises `StoreError` if others replace it all the time.
        """
        for _ in range(TRIES):
            task = await self.load(task_id)
            if task is None or (changed := change(task)) is task:
                return task
            version = await self.replace(changed, task.version)
            if version is not None:
                return replace(changed, version=version)
            await asyncio.sleep(secrets.randbelow(10) / 1000)
        raise StoreError("a task is changed by others all the time; try again later")

    # -- who works -----------------------------------------------------------------------------------------

    async def attend(self, look: Callable[[], Awaitable[bool]], /) -> None:
        """Keep the lease of this worker, and call `look` again and again; it returns whether it found news.

        Runs until it is cancelled, for as long as a task runs here.
        """
        pause, failing = FIRST_PAUSE, False
        while True:
            await asyncio.sleep(pause)
            try:
                await self._renew()
                pause = FIRST_PAUSE if await look() else min(2 * pause, LONGEST_PAUSE)
                failing = False
            except Exception as error:
                _logger.log(
                    logging.DEBUG if failing else logging.ERROR,
                    "a running task cannot be looked up",
                    exc_info=error,
                )
                pause, failing = LONGEST_PAUSE, True

    @asynccontextmanager
    async def claim(self, task: Task, key: str, /) -> AsyncIterator[bool]:
        """Give whether this process alone may ask the question `key` of a task, until the end of the block.

        The claim of a process that dies ends like its lease.
        """
        name = f"claim/{_hash(task.id, key)}"
        if await self._records.write(name, b"{}", seen=0, ttl=LEASE) is None:
            yield False
            return

        async def renew() -> None:
            while True:
                await asyncio.sleep(RENEW)
                try:
                    await self._records.write(name, b"{}", ttl=LEASE)
                except Exception:
                    _logger.exception("the claim on a question cannot be renewed")

        renewing = asyncio.ensure_future(renew())
        try:
            yield True
        finally:
            renewing.cancel()
            await asyncio.wait({renewing})  # so that it writes nothing after the removal
            try:
                await self._records.remove(name)
            except Exception:
                _logger.exception("the claim on a question cannot be removed; it ends by itself")
            if (woken := self._woken.get(task.id)) is not None:
                woken.set()

    async def _renew(self) -> None:
        """Write the lease, unless that was done a short time ago; an event loop that follows another has its own clock."""
        now = asyncio.get_running_loop().time()
        if not 0 <= now - self._renewed < RENEW:
            await self._records.write(f"worker/{self.worker}", b"{}", ttl=LEASE)
            self._renewed = now

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
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError("the store holds something else in place of a list of tasks") from error

    async def _add_to_list(self, task: Task, ttl: float) -> None:
        key = _list_of(task.owner, task.session)
        if key is None:
            return
        for _ in range(TRIES):
            entries, ends, version = await self._listed(key)
            if sum(runs for _, runs in entries) >= self._most or len(entries) >= MAX_LISTED:
                entries = await self._tidied(entries)
            if sum(runs for _, runs in entries) >= self._most:
                raise InternalError("too many tasks of this client are running")
            now = time.time()
            ends = max(ends, now + ttl)
            value = {"tasks": [*entries, (task.id, True)], "ends": ends}
            if (
                await self._records.write(key, json.dumps(value).encode(), seen=version, ttl=ends - now)
                is not None
            ):
                return
            await asyncio.sleep(secrets.randbelow(10) / 1000)
        raise StoreError("a list of tasks is changed by others all the time; try again later")

    async def _tidied(self, entries: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
        """Return a list without the tasks that are gone, and without the oldest that have ended if there are too many."""
        found: list[tuple[str, bool]] = []
        for name, runs in entries:
            task = await self.load(name) if runs or len(entries) >= MAX_LISTED else None
            if task is not None or not runs:
                found.append((name, task is not None and not task.ended))
        room = (
            MAX_LISTED if len(found) < MAX_LISTED else MAX_LISTED * 9 // 10
        )  # so that this is rarely needed
        for entry in [entry for entry in found if not entry[1]][: max(0, len(found) - room)]:
            found.remove(entry)
            await self._records.remove(f"task/{_hash(entry[0])}")
        return found

    async def list(self, owner: str | None, session: str | None, /) -> list[Task]:
        """Return the tasks of an owner, or of a session without authentication, oldest first."""
        return await self.page(owner, session, None, MAX_LISTED) or []


def _hash(*parts: str) -> str:
    """Return a key of the store from which no id can be told."""
    return sha256(json.dumps(parts).encode()).hexdigest()


def _list_of(owner: str | None, session: str | None) -> str | None:
    """Return the key of the list of an owner or session; None where tasks cannot be listed."""
    if owner is None and session is None:
        return None
    return f"tasks/{_hash('session', session or '') if owner is None else _hash('owner', owner)}"
