"""The own stream of a session that workers share: what belongs to no request, and what has changed (HTTP-9, HTTP-10, SUB-8).

It is one log: every copy of the session appends to it, and one reads it, where the client has its newest GET stream.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from typing_extensions import override

from mcprev.core.store import LogBounds, LogItem, stored_for
from mcprev.errors import Json, StoreError
from mcprev.protocol.connection_state import Channel
from mcprev.protocol.handshake import State
from mcprev.protocol.subscriptions import CHANGES, Changed
from mcprev.sharing.changes import Change
from mcprev.sharing.copied import SessionOwner, SharedCopy
from mcprev.sharing.record import SharedRecord, digest_in, log_ttl, object_in, without_workers
from mcprev.sharing.streams import QUEUED, is_droppable
from mcprev.sharing.worker import LOOK
from mcprev.transports.http.server.connection import carrier
from mcprev.transports.http.server.response_stream import ResponseStream
from mcprev.transports.http.server.sessions import MAX_GETS
from mcprev.wire.jsonrpc import Request
from mcprev.wire.sse import Event, encode_event, encode_message

STORE_BACK: Final = 0.5
"""Seconds until a store that is away is asked again."""
MAX_WAITING: Final = 256
"""The maximum number of messages that wait for a store that is away."""
_REQUEST: Final = b'{"jsonrpc":"2.0","id":'
_CHANGES: Final = tuple(
    b'{"jsonrpc":"2.0","method":"%b"' % change.method.encode() for change in CHANGES.values()
)
_TOLD: Final = b'{"told":'
"""How an item of a session's own stream begins that says of which changes the client is told by the items before it."""


class OwnStream(SharedCopy):
    """A copy of a session with its own stream."""

    @override
    def attach(self, sessions: SessionOwner) -> None:
        self._get_streams: list[ResponseStream] = []
        self._read = 0
        self._told: list[Json] = ["", 0]
        """The changes that the client was told of, or that are being checked."""
        self._settled: list[Json] = ["", 0]
        """Those of which it is known that the client was told, or does not see them: what other copies rely on."""
        self._checks: set[asyncio.Task[None]] = set()
        """What finds out whether the client sees a resource that has changed."""
        self._unmarked = False
        """Whether messages were added to the own stream after the last item that says which changes were settled."""
        self._unstored: dict[Change, int] = {}
        """Changes of this process that the client was told of before they were stored, as `SharedChanges` numbers them."""
        self._reading: asyncio.Task[None] | None = None
        self._waiting: list[LogItem] = []
        self._appended = 0
        """The number of the last message that this copy has appended to the own stream."""
        self._appending: asyncio.Task[None] | None = None
        super().attach(sessions)

    @override
    def bind(self, session_id: str, record: SharedRecord, place: int) -> None:
        super().bind(session_id, record, place)
        self._own = f"own/{record.key}"
        self._bounds = LogBounds(ttl=log_ttl(record.ttl))

    @property
    @override
    def resumable(self) -> bool:
        kept = self._get_stream and self._sessions.resumable
        return kept and self.protocol.session.agreed and self.revision.sse_resume

    @override
    def _has_get(self) -> bool:
        return bool(self._get_streams or self.record.value["gets"])

    @override
    def can_reach(self) -> bool:
        return self._reading is not None and bool(self._get_streams)

    @override
    def _send_without_stream(self, message: bytes, *, related: bool = False) -> None:
        if not self._get_stream or (related and not message.startswith(_REQUEST) and not self._has_get()):
            super()._send_without_stream(message, related=related)
        elif self._sessions.changes.away and message.startswith(_CHANGES) and self.can_reach():
            self._get_streams[-1].write(encode_message(message))  # without an id: it is in no log
        elif len(self._waiting) < MAX_WAITING:
            self._unmarked = True
            self._append_soon(LogItem(message, related and is_droppable(message)))

    @override
    async def drain(self, channel: Channel = None) -> None:
        await super().drain(channel)
        if len(self._waiting) > QUEUED and self._appending is not None and carrier(channel) is None:
            await asyncio.wait({self._appending}, timeout=LOOK)

    def _append_soon(self, item: LogItem) -> None:
        self._waiting.append(item)
        if self._appending is None or self._appending.done():
            self._appending = self._sessions.start(self._append())

    async def _append(self) -> None:
        """Append messages to the own stream."""
        items: list[LogItem] = []
        before = 0
        while self._waiting:
            try:
                if not items or not await self._is_appended(items, before):
                    items, before = list(self._waiting), max(self._appended, self._read)
                    with stored_for(digest_in(self.record.value)):
                        self._appended = await self._store.append(self._own, items, bounds=self._bounds) or 0
            except StoreError as error:
                if self.error is not None:
                    return
                self.logger.warning("messages of a session cannot be stored now: %s", error)
                await asyncio.sleep(STORE_BACK)
                continue
            del self._waiting[: len(items)]
            items = []

    @override
    async def _renew(self) -> None:
        await super()._renew()
        if max(self._read, self._appended):
            await self._store.append(self._own, [], bounds=self._bounds)

    async def _is_appended(self, items: list[LogItem], before: int) -> bool:
        """Return whether an attempt to append items after the item `before` was carried out, whatever it raised."""
        wanted = [item.value for item in items]
        tail = await self._store.tail(self._own, before)
        found = [value for _, value in tail.items]
        return any(found[at : at + len(wanted)] == wanted for at in range(len(found)))

    @override
    async def listen(self, respond: Callable[[], ResponseStream]) -> ResponseStream | None:
        return await self._open_get(respond, None)

    async def _open_get(
        self, respond: Callable[[], ResponseStream], place: int | None
    ) -> ResponseStream | None:
        """Open a GET stream, which reads the own stream from now on; return None if that is not possible."""
        if place is not None:
            tail = await self._store.tail(self._own, place)
            if tail.lost or place > tail.last:
                return None
        me, full, before = str(self._worker.number), False, 0

        def change(record: dict[str, Json]) -> bool:
            nonlocal full, before
            before = int(record["reader"])
            full = sum(record["gets"].values()) >= MAX_GETS
            record["gets"][me] = record["gets"].get(me, 0) + 1
            record["reader"] = self._worker.number
            return not full

        opened = await self.record.change(change)
        if opened and full:
            workers = {int(worker) for worker in self.record.value["gets"]}
            await self._forget_dead(workers - {self._worker.number})
            opened = await self.record.change(change)
        if not opened:
            self.conclude("the session has ended")
        if not opened or full:
            return None
        if place is not None and self._reading is not None and self._get_streams:
            self._get_streams[-1].hand_over()  # the client resumes what it has read there
        response_stream = respond()
        end = GetStream(self)
        response_stream.replay, response_stream.started = end, True
        self._get_streams.append(response_stream)
        try:
            await self._begin_reading(before, place)
        except StoreError:
            response_stream.disconnect()
            raise
        first = place is None and self.resumable and self.revision.sse_priming
        response_stream.write(encode_event(Event(id=f"0-{self._read}")) if first else b"")
        return response_stream

    async def _begin_reading(self, before: int, place: int | None = None) -> None:
        """Take over the own stream from the worker `before`, 0 if none has read it, after this one became the reader."""
        read, told = self.record.value["read"], self.record.value["told"]
        if self._reading is not None:
            read, told = self._read, self._told
        self._stop_reading()
        answers = await self.tell_others(resumed=place is not None)
        for answer in answers.values():
            if isinstance(answer, dict):
                known = cast("dict[str, Json]", answer)
                read, told = max(read, int(known["read"])), known["told"]
        if before not in {
            0,
            self._worker.number,
            *answers,
        }:  # it may be dead, and has noted less than it has done
            tail = await self._store.tail(self._own, int(read))
            for _, value in tail.items:
                told = object_in(value, "a stream")["told"] if value.startswith(_TOLD) else told
        if self.record.value["reader"] == self._worker.number and self._get_streams:
            self._read, self._told = read if place is None else place, told
            if not self._checks:
                self._settled = told
            self._stop_reading()
            self._reading = self._sessions.start(self._read_own())
            self._loop.call_soon(self.tell_changes)

    async def _claim(self, instead: int) -> None:
        """Become the reader of the own stream if it still has none, or a dead one."""
        me = self._worker.number

        def change(record: dict[str, Json]) -> bool:
            if record["reader"] == instead and self._get_streams:
                without_workers(record, {instead})
                record["reader"] = me
                return True
            return False

        if await self.record.change(change) and self.record.value["reader"] == me:
            await self._begin_reading(instead)

    @property
    def has_no_reader(self) -> bool:
        """Whether the client has a GET stream here, and none of this copy reads the own stream."""
        return bool(self._get_streams) and self._reading is None

    async def check_reader(self) -> None:
        """Become the reader of the own stream if the one that is is dead."""
        reader = int(self.record.value["reader"])
        if self.has_no_reader and not await self._worker.is_alive(reader):
            await self._claim(reader)

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    async def _read_own(self) -> None:
        """Send what is in the own stream to the newest GET stream."""
        stored = self._read
        while self._get_streams:
            try:
                tail = await self._store.tail(self._own, self._read, wait=LOOK)
                if not tail.items and self._read > stored:
                    stored = self._read
                    await self.record.change(self._note_read)
            except StoreError:
                await asyncio.sleep(STORE_BACK)
                continue
            if tail.last < self._read:
                self._read = 0  # the log has begun anew
                continue
            if not self._get_streams:
                return
            response_stream = self._get_streams[-1]
            for number, message in tail.items:
                id_ = f"0-{number}" if self.resumable else None
                if not message.startswith(_TOLD):
                    response_stream.write(encode_message(message, id_))
                self._read = number
            if tail.lost and not tail.items:
                self._read = tail.last
            if tail.complete:
                self.conclude("the session has ended")
                return
            await response_stream.drain()

    def _note_read(self, record: dict[str, Json]) -> None:
        record["read"], record["told"] = max(self._read, record["read"]), self._settled

    def get_ended(self, response_stream: ResponseStream) -> None:
        """Let another GET stream read the own stream after the end of one."""
        if response_stream in self._get_streams:
            self._get_streams.remove(response_stream)
            if self.error is None:
                self._sessions.start(self._leave_get())

    async def _leave_get(self) -> None:
        me, count = str(self._worker.number), len(self._get_streams)
        was_reading = self._reading is not None and not count

        def change(record: dict[str, Json]) -> None:
            record["gets"].pop(me, None)
            if count:
                record["gets"][me] = count
            if was_reading:
                self._note_read(record)
                if record["reader"] == self._worker.number:
                    record["reader"] = 0

        if was_reading:
            self._stop_reading()
        if await self.record.change(change) and was_reading:
            await self.tell_others()

    # -- changes -------------------------------------------------------------------------------------------

    def tell_changes(self, own: Mapping[Change, int] = MappingProxyType({})) -> None:
        """Tell the client of the changes that it was not told of, if it is this copy that reads the own stream.

        `own` are those of this process that were stored last.
        """
        log = self._sessions.changes.log
        if not self.can_reach() or log is None or not self._get_streams:
            return
        epoch, number = self._told
        news: list[Change] = log.since(number if epoch == log.epoch else 0)
        if epoch not in ("", log.epoch):
            news = [(kind, None) for kind in CHANGES]  # the store has lost what had changed
        told = {change for change, at in own.items() if self._unstored.get(change, 0) >= at}
        self._unstored = {change: at for change, at in self._unstored.items() if change not in told}
        self._told = [log.epoch, log.number]
        self._tell([change for change in news if change not in told])
        self._settle()

    def _settle(self) -> None:
        """Let other copies know which changes were told, once it is known of all whether the client sees them.

        If this worker dies before that, the client is told by another one, of some changes perhaps twice.
        """
        if self._checks:
            return
        self._settled = self._told
        if self._unmarked:
            self._unmarked = False
            self._append_soon(LogItem(b"%b%b}" % (_TOLD, json.dumps(self._told).encode())))

    def _checked(self, check: asyncio.Task[None]) -> None:
        if not check.cancelling():  # else the session ends here, and nothing is known
            self._checks.discard(check)
            self._settle()

    def tell_unstored(self, changes: Mapping[Change, int]) -> None:
        """Tell the client of changes of this process at once, because the store is away, if its stream is here."""
        news = [change for change, at in changes.items() if self._unstored.get(change, 0) < at]
        if news and self.can_reach():
            self._unstored.update({change: changes[change] for change in news})
            self._tell(news)

    def _tell(self, news: Collection[Change]) -> None:
        session = self.protocol.session
        if session.state is not State.READY:
            return
        if session.subscribed:
            origin = self._get_streams[-1]
            session.subscriber = Request(cast("Any", None), "resources/subscribe", None, origin)
        for kind, uri in news:
            every = kind is Changed.RESOURCE and uri is None
            for each in sorted(session.subscribed) if every else (uri,):
                for check in self._sessions.server.tell_change(self, kind, each):
                    self._checks.add(check)
                    check.add_done_callback(self._checked)


class GetStream:
    """The part of the own stream that one response carries."""

    reader: ResponseStream | None = None
    """None: the response is its own reader."""

    def __init__(self, session: OwnStream) -> None:
        self._session = session

    def push(self, message: bytes, /) -> None:
        """Nothing is sent but what is in the log."""
        raise AssertionError(message)

    def close(self) -> None:
        """The stream has ended with the session."""

    def detach(self, response_stream: ResponseStream, /) -> None:
        """Remove a response, because its client is gone."""
        self._session.get_ended(response_stream)
