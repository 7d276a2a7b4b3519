"""The changes that the processes of one service tell each other, as version numbers in a store (SUB-3, SUB-8).

All changes are one record: a number that each change raises, and for each list and resource the number of its last
change. A process remembers up to which number it has told its clients. Several changes of one list between two looks are
told once; a look that fails delays news and loses none.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Final

from mcprev.callbacks import call_in
from mcprev.core.connection import Connection
from mcprev.core.limits import CLOSE
from mcprev.core.method_binding import log_error
from mcprev.core.store import Records
from mcprev.error_text import MALFORMED, invalid_value
from mcprev.errors import StoreError
from mcprev.protocol.endpoint import server_protocol
from mcprev.protocol.subscriptions import CHANGES, Changed
from mcprev.sharing.watching import TRIES
from mcprev.stores.waiting import PerLoop

LOOK: Final = 0.5
"""Seconds between two looks for changes of other processes."""
MAX_CHARS: Final = 64 * 1024
"""The bound of all URIs in the record together; the resources that changed longest ago are forgotten first."""
_NAME: Final = "changes"
_LISTS: Final = frozenset(CHANGES) - {Changed.RESOURCE}
_logger: Final = logging.getLogger("mcprev.server")
Change = tuple[Changed, str | None]


@dataclass(slots=True)
class ChangeLog:
    """The record of changes."""

    epoch: str = field(default_factory=lambda: secrets.token_hex(8))
    """Another one means that the store has lost the record."""
    number: int = 0
    changed: dict[str, int] = field(default_factory=dict[str, int])
    """The number of the last change, by the name of a list or `resource ` and a URI; the latest change is the last."""
    forgotten: int = 0
    """The highest number of a resource that is not in `changed` any more."""

    def add(self, change: Change) -> None:
        """Add a change, and forget the oldest resources if they take too much room."""
        self.number += 1
        name = change[0] if change[1] is None else f"{Changed.RESOURCE} {change[1]}"
        self.changed.pop(name, None)
        self.changed[str(name)] = self.number
        size = sum(map(len, self.changed))
        for oldest in tuple(self.changed):
            if size > MAX_CHARS and " " in oldest:
                size -= len(oldest)
                self.forgotten = max(self.forgotten, self.changed.pop(oldest))

    def since(self, number: int) -> list[Change]:
        """Return what has changed after a number; a resource None stands for all that were forgotten."""
        found: list[Change] = [(Changed.RESOURCE, None)] if self.forgotten > number else []
        for name, last in self.changed.items():
            kind, _, uri = name.partition(" ")
            if last > number:
                found.append((Changed(kind), uri or None))
        return found


class SharedChanges:
    """Tells other processes of changes, and the clients of this process of theirs."""

    def __init__(
        self,
        records: Records,
        apply: Callable[[Changed, str | None], None],
        connections: Collection[Connection],
    ) -> None:
        """`apply` tells the clients of this process, which `connections` holds at any time."""
        self._records, self._apply, self._connections = records, apply, connections
        self._epoch = ""
        self._told = 0
        self._own: dict[Change, int] = {}
        """The changes of this process that are not stored yet, each with the number of its last announcement here."""
        self._announced = 0
        self.away: bool = False
        """Whether the last exchange with the store failed."""
        self._publishing: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._exchange: PerLoop[asyncio.Lock] = PerLoop(asyncio.Lock, lambda _: None)
        self.log: ChangeLog | None = None
        """The changes as they were last read; None before that."""
        self.on_read: set[Callable[[dict[Change, int]], None]] = set()
        """Called when `log` is another one, with the changes of this process that came into it last."""
        self.on_away: set[Callable[[dict[Change, int]], None]] = set()
        """Called with the changes of this process that cannot be stored now."""

    def publish(self, kind: Changed, uri: str | None) -> None:
        """Tell the other processes of a change; without an event loop, when this process looks next.

        While the store is away, changes of too many resources become one of all resources. May be called in any thread.
        """
        if self._looking is None:
            self._publish_here(kind, uri)
        else:
            call_in(self._looking.get_loop(), self._publish_here, kind, uri)

    def _publish_here(self, kind: Changed, uri: str | None) -> None:
        self._announced += 1
        self._own[kind, uri] = self._announced
        if sum(len(other or "") for _, other in self._own) > MAX_CHARS:
            lists = {change: at for change, at in self._own.items() if change[0] is not Changed.RESOURCE}
            self._own = {**lists, (Changed.RESOURCE, None): self._announced}
        if self.away:
            self._tell_unstored({(kind, uri): self._announced})
        if self._publishing is None or self._publishing.done():
            with contextlib.suppress(RuntimeError):
                loop = asyncio.get_running_loop()
                self._publishing = loop.create_task(self._publish())

    def start(self) -> None:
        """Look for changes of others, until `stop`; has an effect once."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())

    def stop(self) -> None:
        """Look no more, because no client is connected."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None  # a start right after it is not taken for the one that ends

    async def aclose(self) -> None:
        """Stop, after the changes of this process are stored or a bounded time is over."""
        self.stop()
        if self._publishing is not None:
            await asyncio.wait({self._publishing}, timeout=CLOSE)
            self._publishing.cancel()

    async def _publish(self) -> None:
        failed = not await self._try()
        while failed or self._own:
            if failed:
                await asyncio.sleep(LOOK)
            failed = not await self._try(quiet=failed)

    async def _look(self) -> None:
        failed = False
        while True:
            failed = not await self._try(quiet=failed)
            await asyncio.sleep(LOOK)

    async def _try(self, *, quiet: bool = False) -> bool:
        """Exchange the changes with the store; return whether that was possible."""
        try:
            async with self._exchange.get():
                await self._swap()
        except Exception as error:  # noqa: BLE001 - it is logged
            self.away = True
            self._tell_unstored(self._own)
            if not quiet:
                what = "changes cannot be exchanged with other processes; the store is asked again"
                log_error(_logger, logging.ERROR, what, error)
            return False
        return True

    async def _swap(self) -> None:
        """Tell the clients of this process what others have changed, and store the changes of this process."""
        for _ in range(TRIES):
            record = await self._records.read(_NAME)
            log = ChangeLog() if record is None else _decoded(record.value)
            self._take(log, lost=record is None)
            back, self.away = self.away, False
            if not self._own or back:
                self._read(ChangeLog("") if record is None else replace(log, changed={**log.changed}), {})
            if not self._own:
                return
            own, self._own = self._own, {}  # what changes again from here on needs a number of its own
            for change in own:
                log.add(change)
            value = json.dumps([log.epoch, log.number, log.changed, log.forgotten]).encode()
            written = None
            try:
                seen = 0 if record is None else record.version
                written = await self._records.write(_NAME, value, seen=seen)
            finally:
                if written is None:
                    self._own = {**own, **self._own}
            if written is not None:
                self._epoch, self._told = log.epoch, log.number
                self._read(log, own)
                return
            await asyncio.sleep(secrets.randbelow(10) / 1000)
        raise StoreError("other processes keep changing the record of changes; try again later")

    async def latest(self) -> ChangeLog:
        """Return the changes as they are, or were last read. Raises `StoreError` if they were never read and cannot be."""
        if self.log is None:
            async with self._exchange.get():
                await self._swap()
        return self.log or ChangeLog("")

    def _read(self, log: ChangeLog, own: dict[Change, int]) -> None:
        known, self.log = self.log, log
        if known is None or (log.epoch, log.number) != (known.epoch, known.number):
            for callback in tuple(self.on_read):
                callback(own)

    def _tell_unstored(self, changes: dict[Change, int]) -> None:
        for callback in tuple(self.on_away) if changes else ():
            callback(changes)

    def _take(self, log: ChangeLog, *, lost: bool) -> None:
        """Tell the clients of this process what is new to them."""
        if self._epoch and (log.epoch != self._epoch or log.number < self._told):
            # The store has lost the record, or the last writes of it.
            news: list[Change] = [*((kind, None) for kind in _LISTS), (Changed.RESOURCE, None)]
        else:
            news = log.since(self._told)
        self._epoch, self._told = "" if lost else log.epoch, log.number
        for kind, uri in news:
            uris = self._subscribed() if kind is Changed.RESOURCE and uri is None else [uri]
            for each in uris:
                try:
                    self._apply(kind, each)
                except Exception:
                    _logger.exception("clients could not be notified of a change in another process")

    def _subscribed(self) -> set[str]:
        """Return the resources that clients of this process have subscribed to."""
        found = set[str]()
        for connection in self._connections:
            found |= server_protocol(connection.protocol).subscribed()
        return found


def _decoded(value: bytes) -> ChangeLog:
    try:
        epoch, number, changed, forgotten = json.loads(value)
        log = ChangeLog(str(epoch), int(number), {str(k): int(n) for k, n in changed.items()}, int(forgotten))
        log.since(0)
    except MALFORMED as error:
        raise invalid_value("the record of changes") from error
    return log
