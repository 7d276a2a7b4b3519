"""A worker: what a process of a server is to the others. It has a number, a lease and an inbox.

The inbox is a log of the store. A message there says where to look, and what may be lost or told twice without harm: the
facts are in records and logs. An answer to a message goes into the inbox of its sender.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from mcprev.core.background import Background
from mcprev.core.limits import CLOSE
from mcprev.core.store import LogBounds, LogItem, Store
from mcprev.errors import Json, StoreError
from mcprev.sharing.leases import Lease, LeaseThread, is_alive, workers
from mcprev.wire.json_values import is_json_object, json_object

LEASE: Final = 10.0
"""Seconds after which a worker counts as dead that has not renewed its lease."""
RENEW: Final = 3.0
"""Seconds between two renewals."""
ACKNOWLEDGE: Final = 0.25
"""Seconds for which a message waits for the answers of other workers."""
LOOK: Final = 1.0
"""Seconds between two looks into the inbox, if no news of it comes."""
KNOWN: Final = 1.0
"""Seconds for which it is known whether a worker is alive."""
LARGE: Final = 32 * 1024
"""The bytes of a message above which it is a record of its own, and the inbox only names it."""
MAIL: Final = 60.0
"""Seconds for which such a record is kept."""
WRITERS: Final = 16
"""The number of streams that are stored at a time, so that what cannot wait finds a connection to the store."""
COMPLAIN: Final = 10.0
"""Seconds for which a warning that every stream may have a reason for is not repeated."""
INBOX: Final = LogBounds(ttl=3600.0, items=10_000, size=16 * 1024 * 1024)
_logger: Final = logging.getLogger("mcprev.sharing")


class Worker:
    """A worker of a server, in one event loop. It takes a number when it is first needed, and another one if it lost it."""

    def __init__(
        self,
        store: Store,
        handle: Callable[[dict[str, Json]], Awaitable[Json]],
        lapsed: Callable[[bool], None],
        release: Callable[[], Awaitable[None]] | None = None,
        options: dict[str, Json] | None = None,
    ) -> None:
        """`handle` serves a message of another worker, and returns the answer.

        `lapsed` is called when the lease has ended, with whether the store has lost its data. If not, others may have
        ended what this worker was doing. With `release`, which releases what an event loop holds of the store, a thread
        renews the lease while a handler blocks the event loop. `options` are those that all workers should have alike;
        a difference is logged.
        """
        self._options = options or {}
        self._release, self._renewed = release, 0.0
        self._store, self._handle, self._lapsed = store, handle, lapsed
        self.number: int = 0
        """The number of the worker; 0 while it has none."""
        self._lease: Lease | None = None
        self._closed = False
        self._starting: asyncio.Lock = asyncio.Lock()
        self._running: list[asyncio.Task[None]] = []
        self._serving = Background(_logger, "a message of another worker")
        self._ids = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Json]] = {}
        self._alive: dict[int, tuple[float, bool]] = {}
        self.writing: asyncio.Semaphore = asyncio.Semaphore(WRITERS)
        """Held while a stream is stored."""
        self.unstored: int = 0
        """The number of streams that have something to store."""
        self._complained = float("-inf")

    async def start(self) -> int:
        """Return the number; take one, and begin to read the inbox, if there is none. Raises `StoreError`."""
        if not self.number:
            async with self._starting:
                if self._closed:
                    raise StoreError("the server stops")
                if not self.number:
                    fellows = await workers(self._store)
                    self._lease = await Lease.open(self._store, note=self._options, ttl=LEASE)
                    self.number, self._renewed = self._lease.number, time.monotonic()
                    self._compare(fellows)
                    loop = asyncio.get_running_loop()
                    self._running = [
                        loop.create_task(self._renew(self._lease), name="lease"),
                        loop.create_task(self._read(f"inbox/{self.number}"), name="inbox"),
                    ]
        return self.number

    def _compare(self, fellows: Mapping[int, Json]) -> None:
        """Log which options another worker has otherwise, of one at most."""
        for number, note in fellows.items():
            theirs = json_object(note)
            differ = {name for name in theirs.keys() & self._options if theirs[name] != self._options[name]}
            if differ:
                said = "; ".join(
                    f"`{name}`: {self._options[name]!r}, not {theirs[name]!r}" for name in sorted(differ)
                )
                _logger.warning("worker %d has other options than worker %d: %s", self.number, number, said)
                return

    @property
    def has_lease(self) -> bool:
        """Whether others believe that this worker is alive; not so if it was suspended for longer than its lease."""
        return self.number != 0 and time.monotonic() - self._renewed < LEASE

    async def is_alive(self, number: int) -> bool:
        """Return whether a worker has not ended, as of the last second. Raises `StoreError`."""
        if number == self.number:
            return True
        now = asyncio.get_running_loop().time()
        when, alive = self._alive.get(number, (float("-inf"), True))
        if now - when > KNOWN and alive:
            alive = await is_alive(self._store, number)
            if len(self._alive) > 1000:
                self._alive.clear()
            self._alive[number] = now, alive
        return alive

    async def send(self, to: int, message: dict[str, Json]) -> bool:
        """Put a message into an inbox; return whether the worker still has one. Raises `StoreError`."""
        value = json.dumps(message, separators=(",", ":")).encode()
        if len(value) > LARGE:
            key = f"mail/{secrets.token_hex(16)}"
            await self._store.write(key, value, ttl=MAIL)
            value = json.dumps({"mail": key}).encode()
        return await self._store.append(f"inbox/{to}", [LogItem(value)], bounds=INBOX) is not None

    async def tell(self, to: int, message: dict[str, Json]) -> None:
        """Put a message into an inbox that may be lost; it is logged if it cannot be sent."""
        try:
            await self.send(to, message)
        except StoreError as error:
            _logger.warning("another worker cannot be notified: %s", error)

    async def ask(
        self, to: Iterable[int], message: dict[str, Json], *, wait: float = ACKNOWLEDGE
    ) -> dict[int, Json]:
        """Send a message to other workers, and return the answers that come in time. Raises `StoreError`."""
        others = set(to) - {self.number, 0}
        if not others:
            return {}
        number, loop = await self.start(), asyncio.get_running_loop()
        answers: dict[int, asyncio.Future[Json]] = {}
        asked: list[int] = []
        try:
            for other in others:
                asked.append(next(self._ids))
                answers[other] = self._asked[asked[-1]] = loop.create_future()
                if not await self.send(other, {**message, "from": number, "ask": asked[-1]}):
                    answers.pop(other)
            if answers:
                await asyncio.wait(answers.values(), timeout=wait)
        finally:
            for ask in asked:
                del self._asked[ask]
        return {other: answer.result() for other, answer in answers.items() if answer.done()}

    def complain(self, what: str, error: object) -> None:
        """Log a warning, unless this was done a short time ago."""
        now = asyncio.get_running_loop().time()
        if now - self._complained >= COMPLAIN:
            self._complained = now
            _logger.warning("%s: %s", what, error)

    async def aclose(self) -> None:
        """End the lease and the inbox; may be called again."""
        self._closed = True
        number, lease = self.number, self._lease
        await self._stop()
        if number and lease is not None:
            with suppress(StoreError):
                await self._store.complete(f"inbox/{number}", ttl=LEASE)
                await lease.end()

    def abandon(self) -> None:
        """Stop without a goodbye, as a process does that is killed."""
        self._closed = True
        for task in (*self._running, *self._serving):
            task.cancel()
        self.number = 0

    async def _stop(self) -> None:
        self.number = 0
        current = asyncio.current_task()
        tasks = {task for task in (*self._running, *self._serving) if task is not current}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE)
        self._running.clear()

    async def _renew(self, lease: Lease) -> None:
        loop = asyncio.get_running_loop()

        async def renew() -> bool:
            found = await lease.renew()
            self._renewed = time.monotonic()
            return found

        thread = LeaseThread(renew, self._release, lambda: self._renewed, RENEW)
        renewed, alive = loop.time(), True
        self._renewed = time.monotonic()
        try:
            while alive:
                thread.keep()
                await asyncio.sleep(RENEW)
                try:
                    alive = await renew()
                    renewed = loop.time()
                except StoreError as error:
                    _logger.warning("the lease of a worker cannot be renewed: %s", error)
                    by_thread = self._release is not None and time.monotonic() - self._renewed < LEASE
                    alive = by_thread or loop.time() - renewed < LEASE
        finally:
            thread.end()
        lost = False
        with suppress(StoreError):
            lost = not await lease.holds_store()
        why = "the store has lost its data" if lost else "its lease has ended"
        _logger.warning("worker %d takes another number, because %s", lease.number, why)
        self.number = 0
        for task in self._running:
            if task is not asyncio.current_task():
                task.cancel()
        self._lapsed(lost)

    async def _read(self, inbox: str) -> None:
        after, failed = 0, False
        while True:
            try:
                tail = await self._store.tail(inbox, after, wait=LOOK)
            except StoreError as error:
                if not failed:
                    _logger.warning("the inbox of a worker cannot be read: %s", error)
                failed = True
                await asyncio.sleep(LOOK / 4)
                continue
            failed = False
            if tail.last < after:
                after = 0  # the log has begun anew
                continue
            if tail.lost:
                _logger.error("messages of other workers were lost, because this worker is too slow")
            for _, value in tail.items:
                await self._take(value)
            after = tail.last

    async def _take(self, value: bytes) -> None:
        try:
            message = _object(value)
            if "mail" in message:
                record = await self._store.read(str(message["mail"]))
                message = {} if record is None else _object(record.value)
        except (RecursionError, ValueError, StoreError) as error:
            _logger.warning("a message of another worker cannot be read: %s", error)
            return
        asked: Json = message.get("answers")
        if isinstance(asked, int):
            answer = self._asked.get(asked)
            if answer is not None and not answer.done():
                answer.set_result(message.get("value"))
        elif message:
            self._serving.start(self._serve(message), name="message")

    async def _serve(self, message: dict[str, Json]) -> None:
        value = await self._handle(message)
        if "ask" in message:
            await self.send(int(message["from"]), {"answers": message["ask"], "value": value})


def _object(value: bytes) -> dict[str, Json]:
    """Return a message of another worker. Raises `RecursionError`, and `ValueError` for what is no JSON object."""
    found: object = json.loads(value)
    if not is_json_object(found):
        raise ValueError("it is not a JSON object")
    return found
