"""A session that other workers have copies of, and its streams (HTTP-9 to 19, HTTP-32).

Handlers run where their request lands. The stream of a request is a log that its worker writes, and any worker reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from typing_extensions import override

from mcprev.errors import ConnectionLost, Json
from mcprev.protocol.connection_state import (
    Channel,
    IncomingRequest,
)
from mcprev.sharing.copied import SessionOwner
from mcprev.sharing.own_stream import OwnStream
from mcprev.sharing.record import BLOCK, digest_in, log_ttl, object_in, without_workers
from mcprev.sharing.streams import AHEAD, BACKLOG, SharedStream, StreamReader
from mcprev.sharing.worker import LOOK
from mcprev.transports.http.server.response_stream import ResponseStream
from mcprev.transports.http.server.sessions import EVENT_ID


class SharedSession(OwnStream):
    """A copy of a session over HTTP."""

    @override
    def attach(self, sessions: SessionOwner) -> None:
        self._running_streams: dict[int, SharedStream] = {}
        super().attach(sessions)

    async def take_change(self, *, resumed: bool) -> Json:
        """Read the record, because another copy has changed it; return how far the own stream was read here."""
        if not await self.record.refresh():
            self.conclude("the client ended the session")
            return None
        answer = None if self._reading is None else {"read": self._read, "told": self._settled}
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
            client=digest_in(self.record.value),
            ids=ids,
            ttl=log_ttl(self.record.ttl),
            start=self._sessions.start,
            over=lambda number: self._running_streams.pop(number, None),
        )
        stream.reader, response_stream.replay = response_stream, stream
        self._running_streams[number] = stream
        stream.start()
        if self._worker.unstored > BACKLOG and response_stream.hold is None:
            response_stream.hold = self._sessions.start(stream.keep_pace())
        return b"id: %d-0\ndata: \n\n" % number if self.revision.sse_priming else b""

    @override
    async def _renew(self) -> None:
        await super()._renew()
        for stream in tuple(self._running_streams.values()):
            await stream.renew()

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
        return object_in(tail.items[0][1], "a stream")

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
        if first and not self.stored and self.counted is not None:
            self._sessions.start(self._sessions.quotas.give_back(self.counted, self.record.key))

    async def _unload(self) -> None:
        """Give back the places of this copy."""
        me = {self._worker.number}

        def change(record: dict[str, Json]) -> None:
            if record["reader"] in me:
                self._note_read(record)
            without_workers(record, me)

        if await self.record.change(change) and self.record.value["gets"]:
            await self.tell_others()
