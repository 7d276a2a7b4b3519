"""A session that other workers have copies of, and its streams (HTTP-9 to 19, HTTP-32).

Handlers run where their request lands. The stream of a request is a log that its worker writes, and any worker reads. The
session's own stream is one log: every copy appends to it, and one reads it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from typing_extensions import override

from mcprev.core.store import LogBounds, LogItem
from mcprev.errors import ConnectionLost, Json, StoreError
from mcprev.protocol.connection_state import (
    Channel,
    IncomingRequest,
)
from mcprev.protocol.handshake import State
from mcprev.protocol.subscriptions import CHANGES, Changed
from mcprev.transports.http.server.response_stream import ResponseStream
from mcprev.transports.http.server.sessions import EVENT_ID, MAX_GETS
from mcprev.wire.jsonrpc import (
    Request,
)
from mcprev.wire.sse import Event, encode_event, encode_message
from mcprev.workers.copied import SessionOwner, SharedCopy
from mcprev.workers.record import BLOCK, SharedRecord, without_workers
from mcprev.workers.streams import AHEAD, SharedStream, StreamReader, is_droppable
from mcprev.workers.worker import LOOK

OWN: Final = LogBounds(ttl=86_400.0)
"""What is kept of a session's own stream."""
STORE_BACK: Final = 0.5
"""Seconds until a store that is away is asked again."""
MAX_WAITING: Final = 256
"""The maximum number of messages that wait for a store that is away."""
_REQUEST: Final = b'{"jsonrpc":"2.0","id":'


class SharedSession(SharedCopy):
    """A copy of a session over HTTP."""

    @override
    def attach(self, sessions: SessionOwner) -> None:
        self._running_streams: dict[int, SharedStream] = {}
        self._get_streams: list[ResponseStream] = []
        self._read = 0
        self._told: list[Json] = ["", 0]
        self._reading: asyncio.Task[None] | None = None
        self._waiting: list[LogItem] = []
        self._appending: asyncio.Task[None] | None = None
        super().attach(sessions)

    @override
    def bind(self, session_id: str, record: SharedRecord, place: int) -> None:
        super().bind(session_id, record, place)
        self._own = f"own/{record.key}"

    @property
    @override
    def resumable(self) -> bool:
        kept = self._get_stream and self._sessions.resumable
        return kept and self.protocol.session.agreed and self.revision.sse_resume

    async def take_change(self, *, resumed: bool) -> Json:
        """Read the record, because another copy has changed it; return how far the own stream was read here."""
        if not await self.record.refresh():
            self.conclude("the client ended the session")
            return None
        answer = None if self._reading is None else {"read": self._read, "told": self._told}
        self._take_record()
        reader = self.record.value["reader"]
        if reader != self._worker.number:
            if resumed and self._reading is not None and self._get_streams:
                self._get_streams[-1].hand_over()
            self._stop_reading()
        if reader == 0 and self._get_streams:
            self._sessions.start(self._claim(0))
        return answer

    # -- streams of requests -------------------------------------------------------------------------------

    @override
    def opened(self, response_stream: ResponseStream) -> bytes:
        if response_stream.replay is not None or not self.resumable:
            return b""
        number = next(self._stream_ids)

        def ids() -> Sequence[Json]:
            incoming = self._connection_state.incoming.values()
            return [each.id for each in incoming if each.origin is response_stream]

        stream = SharedStream(
            self._store,
            self._worker,
            self._log(number),
            number,
            ids=ids,
            start=self._sessions.start,
            over=lambda number: self._running_streams.pop(number, None),
        )
        stream.reader, response_stream.replay = response_stream, stream
        self._running_streams[number] = stream
        stream.start()
        return b"id: %d-0\ndata: \n\n" % number if self.revision.sse_priming else b""

    def _log(self, number: int) -> str:
        return f"stream/{self.record.key}/{number}"

    @override
    async def drain(self, channel: Channel = None) -> None:
        await super().drain(channel)
        origin = channel.origin if isinstance(channel, IncomingRequest) else None
        if isinstance(origin, ResponseStream) and isinstance(origin.replay, SharedStream):
            await origin.replay.room()

    @override
    async def hang_up(self, incoming: IncomingRequest, retry: float | None) -> bool:
        response_stream = incoming.origin
        if isinstance(response_stream, ResponseStream) and self._can_return() and response_stream.streams:
            response_stream.start()
            if isinstance(response_stream.replay, SharedStream):
                await response_stream.replay.flushed()  # the client may resume it elsewhere at once
        return await super().hang_up(incoming, retry)

    @override
    async def resume(
        self, respond: Callable[[], ResponseStream], last_event_id: str
    ) -> ResponseStream | None:
        found = EVENT_ID.fullmatch(last_event_id)
        if found is None or not self.resumable:
            return None
        number, place = int(found[1]), int(found[2])
        if number == 0:
            return await self._open_get(respond, place)
        me, log = self._worker.number, self._log(number)
        await self.record.refresh()  # for the workers that may have the stream
        await self.hand_over(number, me, place)
        await self._worker.ask(
            self.others,
            {"kind": "hand over", "key": self.record.key, "stream": number, "to": me, "place": place},
        )
        head = await self._head(log, number)
        if head is None:
            return None
        owner, after = int(head["worker"]), place + 1
        tail = await self._store.tail(log, after)
        if after > tail.last:
            if await self._worker.is_alive(owner) or after - tail.last > AHEAD:
                return None
            after = tail.last
            tail = await self._store.tail(log, after)
        if tail.lost:
            return None
        reader = StreamReader(
            self._store,
            self._worker,
            log,
            number,
            respond(),
            report=lambda place, reads: self._report(owner, number, place, reads=reads),
            start=self._sessions.start,
        )
        reader.start(owner, after, tail)
        return reader.response

    async def _head(self, log: str, number: int) -> dict[str, Json] | None:
        """Return the head of a stream; None if it is forgotten, or there is no such stream."""
        tail = await self._store.tail(log, 0)
        if not tail.items and not tail.complete:
            worker = self.record.value["places"].get(str(number // BLOCK), 0)
            if worker and await self._worker.is_alive(int(worker)):
                tail = await self._store.tail(log, 0, wait=LOOK)
        if not tail.items or tail.items[0][0] != 1:
            return None
        return cast("dict[str, Json]", json.loads(tail.items[0][1]))

    async def hand_over(self, number: int, worker: int, place: int) -> None:
        """Let a worker read a stream, in place of the reader here; everything is stored then."""
        stream = self._running_streams.get(number)
        if stream is not None:
            stream.hand_over(worker, place)
            await stream.flushed()
        for response_stream in tuple(self.response_streams):
            replay = response_stream.replay
            if isinstance(replay, StreamReader) and replay.number == number:
                response_stream.hand_over()

    def _report(self, owner: int, number: int, place: int, *, reads: bool) -> None:
        """Tell the worker of a stream how far it is read here."""
        if owner == self._worker.number:
            self.take_report(number, owner if reads else 0, place)
            return
        message = {"kind": "read", "key": self.record.key, "stream": number, "place": place}
        reader = self._worker.number if reads else 0
        self._sessions.start(self._worker.tell(owner, {**message, "reader": reader}))

    def take_report(self, number: int, reader: int, place: int) -> None:
        """Learn how far a worker has read a stream of this one."""
        stream = self._running_streams.get(number)
        if stream is not None:
            stream.read_elsewhere(reader, place)

    # -- the session's own stream --------------------------------------------------------------------------

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
        elif len(self._waiting) < MAX_WAITING:
            self._waiting.append(LogItem(message, related and is_droppable(message)))
            if self._appending is None or self._appending.done():
                self._appending = self._sessions.start(self._append())

    async def _append(self) -> None:
        """Append messages to the own stream."""
        while self._waiting:
            items = list(self._waiting)
            try:
                await self._store.append(self._own, items, bounds=OWN)
            except StoreError as error:
                if self.error is not None:
                    return
                self.logger.warning("messages of a session cannot be stored now: %s", error)
                await asyncio.sleep(STORE_BACK)
                continue
            del self._waiting[: len(items)]

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
        me, full = str(self._worker.number), False

        def change(record: dict[str, Json]) -> bool:
            nonlocal full
            full = sum(record["gets"].values()) >= MAX_GETS
            record["gets"][me] = record["gets"].get(me, 0) + 1
            record["reader"] = self._worker.number
            return not full

        if not await self.record.change(change):
            self.conclude("the session is over")
            return None
        if full:
            return None
        if place is not None and self._reading is not None and self._get_streams:
            self._get_streams[-1].hand_over()  # the client resumes what it has read there
        response_stream = respond()
        end = GetStream(self)
        response_stream.replay, response_stream.started = end, True
        self._get_streams.append(response_stream)
        try:
            await self._begin_reading(place)
        except StoreError:
            response_stream.disconnect()
            raise
        first = place is None and self.resumable and self.revision.sse_priming
        response_stream.write(encode_event(Event(id=f"0-{self._read}")) if first else b"")
        return response_stream

    async def _begin_reading(self, place: int | None = None) -> None:
        """Take over the own stream from the copy that has read it, after this one became the reader."""
        read, told = self.record.value["read"], self.record.value["told"]
        if self._reading is not None:
            read, told = self._read, self._told
        self._stop_reading()
        for answer in (await self.tell_others(resumed=place is not None)).values():
            if isinstance(answer, dict):
                known = cast("dict[str, Json]", answer)
                read, told = max(read, int(known["read"])), known["told"]
        if self.record.value["reader"] == self._worker.number and self._get_streams:
            self._read, self._told = read if place is None else place, told
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
            await self._begin_reading()

    async def check_reader(self) -> None:
        """Become the reader of the own stream if the one that is is dead."""
        reader = int(self.record.value["reader"])
        if self._get_streams and self._reading is None and not await self._worker.is_alive(reader):
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
                response_stream.write(encode_message(message, id_))
                self._read = number
            if tail.lost and not tail.items:
                self._read = tail.last
            await response_stream.drain()

    def _note_read(self, record: dict[str, Json]) -> None:
        record["read"], record["told"] = max(self._read, record["read"]), self._told

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

    def tell_changes(self) -> None:
        """Tell the client of the changes that it was not told of, if it is this copy that reads the own stream."""
        log = self._sessions.changes.log
        if not self.can_reach() or log is None or not self._get_streams:
            return
        epoch, number = self._told
        news: list[tuple[Changed, str | None]] = log.since(number if epoch == log.epoch else 0)
        if epoch not in ("", log.epoch):
            news = [(kind, None) for kind in CHANGES]  # the store has lost what had changed
        self._told = [log.epoch, log.number]
        session = self.protocol.session
        if session.state is not State.READY:
            return
        if session.subscribed:
            origin = self._get_streams[-1]
            session.subscriber = Request(cast("Any", None), "resources/subscribe", None, origin)
        for kind, uri in news:
            every = kind is Changed.RESOURCE and uri is None
            for each in sorted(session.subscribed) if every else (uri,):
                self._sessions.server.tell_change(self, kind, each)

    # -- the end -------------------------------------------------------------------------------------------

    def drop(self) -> None:
        """Forget the session without a word, because other workers believe that this one is dead."""
        for stream in tuple(self._running_streams.values()):
            stream.fence()
        self.record.gone = True  # nothing of it is written any more

    @override
    def ended(self, error: ConnectionLost | None) -> None:
        first = self.error is None
        self._sessions.forget(self)
        super().ended(error)
        self._stop_reading()
        for response_stream in tuple(self._get_streams):
            response_stream.end()
        if first and self.stored and self.lives_on and not self.record.gone:
            self._sessions.start(self._unload())

    async def _unload(self) -> None:
        """Give back the places of this copy."""
        me = {self._worker.number}

        def change(record: dict[str, Json]) -> None:
            if record["reader"] in me:
                self._note_read(record)
            without_workers(record, me)

        if await self.record.change(change) and self.record.value["gets"]:
            await self.tell_others()


class GetStream:
    """The part of the own stream that one response carries."""

    def __init__(self, session: SharedSession) -> None:
        self._session = session

    def push(self, message: bytes, /) -> None:
        """Nothing is sent but what is in the log."""
        raise AssertionError(message)

    def close(self) -> None:
        """The stream has ended with the session."""

    def detach(self, response_stream: ResponseStream, /) -> None:
        """Remove a response, because its client is gone."""
        self._session.get_ended(response_stream)
