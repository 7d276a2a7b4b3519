"""A session that several workers have copies of (HTTP-9 to 19, HTTP-22, HTTP-24, HTTP-28, HTTP-32, SUB-8).

A `Copy` is what one worker has of it. What the client sets is in the record of the session, and a message that changes it
is answered when the other copies know. A response, progress or a cancellation, of which no request here knows, goes to
the copy that may have the request. Handlers run where their request lands; the session's `SharedStreams` are logs in
the store: those of requests, and its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol, cast

from typing_extensions import override

from mcprev.core.connection import Connection
from mcprev.core.interfaces import ServerApp
from mcprev.core.store import LogBounds, LogItem, Store, stored_for
from mcprev.errors import Json, StoreError
from mcprev.protocol.connection_state import (
    PROGRESS,
    Channel,
    Diagnostic,
    IncomingRequest,
    SessionChanged,
    Unplaced,
)
from mcprev.protocol.handshake import State
from mcprev.protocol.subscriptions import CHANGES, Changed
from mcprev.protocol.uris import ComparedUris
from mcprev.sharing.changes import Change, SharedChanges
from mcprev.sharing.quotas import Quotas
from mcprev.sharing.record import (
    BLOCK,
    Ids,
    SharedRecord,
    digest_in,
    log_ttl,
    object_in,
    without_workers,
)
from mcprev.sharing.streams import AHEAD, BACKLOG, QUEUED, SharedStream, StreamReader, is_droppable
from mcprev.sharing.worker import LOOK, Worker
from mcprev.transports.http.server.connection import AsgiConnection, Copies, Streams, carrier
from mcprev.transports.http.server.local_sessions import EVENT_ID, MAX_GETS
from mcprev.transports.http.server.response_stream import ResponseStream
from mcprev.transports.http.server.sessions import Session
from mcprev.wire.json_values import is_json_object
from mcprev.wire.jsonrpc import Malformed, Message, Notification, Request, Shape, encode, parse
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


class SessionOwner(Protocol):
    """What the session needs of the sessions of its worker."""

    store: Store
    worker: Worker
    quotas: Quotas
    changes: SharedChanges
    resumable: bool

    @property
    def server(self) -> ServerApp[Connection]:
        """The server."""
        ...

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine as a task, which is waited for in the end."""
        ...

    def clock(self) -> float:
        """Return the time by which sessions are idle."""
        ...

    def forget(self, copy: Copy) -> None:
        """Load a session again if it is needed, because this copy of it ends."""
        ...


class Copy(Copies):
    """What one worker has of a session that others may have too: its record, and the ids that are given here."""

    shared = True

    def __init__(
        self,
        session: Session,
        sessions: SessionOwner,
        record: SharedRecord,
        *,
        place: int = 0,
        counted: str | None = None,
        get_stream: bool,
    ) -> None:
        """`place` is that of this copy in the record. A session that is not stored yet was `counted` in the index of a client."""
        self.session: Session = session
        self.record: SharedRecord = record
        self._sessions, self._worker = sessions, sessions.worker
        self._counted = counted
        self.stored: bool = counted is None
        """Whether the session has a record in the store."""
        self.renewed: float = session.seen
        """The time at which the record was last renewed."""
        self._unsettled: set[asyncio.Task[None]] = set()
        self.unsettled: Collection[asyncio.Task[None]] = self._unsettled
        self._passing = False
        """Whether a message comes from another worker."""
        self._over = False
        self.question_ids: Ids = Ids(place, self._take_place)
        self.stream_ids: Ids = Ids(place, self._take_place)
        state = session.protocol.connection
        state.key = record.key  # of the tasks of the session
        state.calls.ids = self.question_ids
        self.streams: SharedStreams = SharedStreams(self, sessions, get_stream=get_stream)

    def confirm(self, version: int) -> None:
        """Learn that the record is in the store."""
        self.record.version, self.stored = version, True

    @property
    def others(self) -> set[int]:
        """The other workers that have loaded the session, as far as it is known."""
        workers: set[int] = {int(worker) for worker in self.record.value["places"].values()}
        return workers - {self._worker.number}

    # -- what other copies have to know --------------------------------------------------------------------

    @override
    def noted(self, event: SessionChanged | Unplaced | Diagnostic, /) -> bool:
        if isinstance(event, SessionChanged):
            self._settle_soon(self._publish(event))
        elif isinstance(event, Unplaced) and not self._passing:
            self._settle_soon(self._pass_on(event.message))
        else:
            return False
        return True

    def _settle_soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._sessions.start(work)
        self._unsettled.add(task)
        task.add_done_callback(self._unsettled.discard)

    @override
    async def settle(self, response_stream: ResponseStream | None = None, /) -> None:
        tasks = tuple(self._unsettled)
        await asyncio.wait(tasks)
        failed = [error for task in tasks if not task.cancelled() and (error := task.exception())]
        if failed:
            if response_stream is not None:
                response_stream.disconnect()
            raise failed[0]

    async def _publish(self, event: SessionChanged) -> None:
        """Store a change, and let the other copies know."""

        def change(record: dict[str, Json]) -> None:
            session, value = record["session"], event.value
            if event.member == "subscribed":
                subscribed = ComparedUris(session["subscribed"])
                (subscribed.discard if event.removed else subscribed.add)(value)
                session["subscribed"] = sorted(subscribed)
            else:
                session[event.member] = value

        if await self.record.change(change):
            self._take_record()
            await self.tell_others()

    def _take_record(self) -> None:
        """Become what the record says."""
        self.session.protocol.session.restore(self.record.value["session"])
        self.session.process_events()

    async def take_change(self, *, resumed: bool) -> Json:
        """Read the record, because another copy has changed it; return how far the own stream was read here."""
        if not await self.record.refresh():
            self.session.conclude("the client ended the session")
            return None
        answer = self.streams.own.progress()
        self._take_record()
        self.streams.own.reader_changed(resumed=resumed)
        return answer

    async def tell_others(self, *, resumed: bool = False) -> dict[int, Json]:
        """Let the other copies read the record; return their answers.

        `resumed` says that the client has resumed the own stream here, so that it does not read it elsewhere.
        """
        others = self.others
        message: dict[str, Json] = {"kind": "changed", "key": self.record.key, "resumed": resumed}
        answers = await self._worker.ask(others, message)
        if len(answers) < len(others):
            self._sessions.start(self.forget_dead(others - answers.keys()))
        return answers

    async def forget_dead(self, silent: set[int]) -> None:
        """Remove the places of workers that are dead."""
        dead = {worker for worker in silent if not await self._worker.is_alive(worker)}
        if dead:
            await self.record.change(lambda record: without_workers(record, dead))

    async def _pass_on(self, message: Message) -> None:
        """Pass a message to the copies that may have the request that it belongs to."""
        progress = isinstance(message, Notification) and message.method == PROGRESS
        if isinstance(message, Notification) and not progress:
            await self.record.refresh()
            to = self.others
        else:
            params: dict[str, Json] = getattr(message, "params", None) or {}
            number = number_of(params.get("progressToken") if progress else getattr(message, "id", None))
            place = str(-1 if number is None else number // BLOCK)
            if place not in self.record.value["places"]:
                await self.record.refresh()
            to = {int(self.record.value["places"].get(place, 0))}
        await self._worker.ask(to, {"kind": "message", "key": self.record.key, **packed(message)})

    def take_passed(self, message: dict[str, Json]) -> None:
        """Take a message that another copy has passed on."""
        self._passing = True
        try:
            found = unpacked(message)
            if isinstance(found, Malformed):
                self.session.protocol.connection.fail_malformed(found)
                self.session.process_events()
            else:
                self.session.receive(found)
        finally:
            self._passing = False

    def _take_place(self) -> None:
        """Take another place for further ids."""
        self._sessions.start(self._take_places())

    async def _take_places(self) -> None:
        found: list[int] = []
        number = self._worker.number

        def change(record: dict[str, Json]) -> None:
            found[:] = [record["next"], record["next"] + 1]
            record["next"] += 2
            record["places"].update({str(place): number for place in found})

        if await self.record.change(change):
            self.question_ids.add(found[0])
            self.stream_ids.add(found[1])

    # -- while it lasts --------------------------------------------------------------------------------------

    def renew_soon(self) -> None:
        """Renew the record, because the session is in use."""
        self.renewed = self._sessions.clock()
        self._sessions.start(self._renew())

    async def _renew(self) -> None:
        if await self.record.change(lambda _: None):
            await self._sessions.quotas.mark(self.record.value["client"], self.record.key)
        else:
            self.session.conclude("the session has ended")
        await self.streams.renew()

    def used_elsewhere(self) -> None:
        """Learn that the session is in use, though not here: what happens elsewhere is renewed there."""
        self.session.touch()
        self.renewed = self.session.seen

    def drop(self) -> None:
        """Forget the session without a word, because other workers believe that this one is dead."""
        self.streams.fence()
        self.record.gone = True  # nothing of it is written any more

    @override
    def ended(self) -> None:
        self._sessions.forget(self)
        first, self._over = not self._over, True
        if first and self.stored and self.session.lives_on and not self.record.gone:
            self._sessions.start(self._unload())
        if first and not self.stored and self._counted is not None:
            self._sessions.start(self._sessions.quotas.give_back(self._counted, self.record.key))

    async def _unload(self) -> None:
        """Give back the places of this copy."""
        me = {self._worker.number}

        def change(record: dict[str, Json]) -> None:
            if record["reader"] in me:
                self.streams.own.note_read(record)
            without_workers(record, me)

        if await self.record.change(change) and self.record.value["gets"]:
            await self.tell_others()


def copy_of(connection: Connection) -> Copy | None:
    """Return what this worker has of the session of a connection, if other workers may have it too."""
    copies = connection.copies if isinstance(connection, AsgiConnection) else None
    return copies if isinstance(copies, Copy) else None


class SharedStreams(Streams):
    """The streams of a session that any worker resumes: those of requests are logs that their worker writes."""

    def __init__(self, copy: Copy, sessions: SessionOwner, *, get_stream: bool) -> None:
        self.copies: Copies = copy
        self._copy, self._session = copy, copy.session
        self._sessions, self._store, self._worker = sessions, sessions.store, sessions.worker
        self._get_stream = get_stream
        self.own: OwnStream = OwnStream(copy, sessions)
        self._running: dict[int, SharedStream] = {}

    @property
    @override
    def resumable(self) -> bool:
        session = self._session
        kept = self._get_stream and self._sessions.resumable
        return kept and session.protocol.session.agreed and session.revision.sse_resume

    # -- what belongs to no request ------------------------------------------------------------------------

    @override
    def has_get(self) -> bool:
        return bool(self.own.gets or self._copy.record.value["gets"])

    @override
    def can_reach(self) -> bool:
        return self.own.is_read

    @override
    def send(self, message: bytes, /, *, related: bool = False) -> None:
        if not self._get_stream or (related and not message.startswith(_REQUEST) and not self.has_get()):
            super().send(message, related=related)
        else:
            self.own.send(message, droppable=related and is_droppable(message))

    @override
    async def listen(self, respond: Callable[[], ResponseStream], /) -> ResponseStream | None:
        return await self.own.open_get(respond, None)

    # -- streams of requests -------------------------------------------------------------------------------

    @override
    def opened(self, response_stream: ResponseStream, /) -> bytes:
        if response_stream.replay is not None or not self.resumable:
            return b""
        number = next(self._copy.stream_ids)

        def ids() -> Sequence[Json]:
            incoming = self._session.protocol.connection.incoming.values()
            return [each.id for each in incoming if each.origin is response_stream]

        stream = SharedStream(
            self._store,
            self._worker,
            self._log(number),
            number,
            client=digest_in(self._copy.record.value),
            ids=ids,
            ttl=log_ttl(self._copy.record.ttl),
            start=self._sessions.start,
            over=lambda number: self._running.pop(number, None),
        )
        stream.reader, response_stream.replay = response_stream, stream
        self._running[number] = stream
        stream.start()
        if self._worker.unstored > BACKLOG and response_stream.hold is None:
            response_stream.hold = self._sessions.start(stream.keep_pace())
        return b"id: %d-0\ndata: \n\n" % number if self._session.revision.sse_priming else b""

    async def renew(self) -> None:
        """Keep what is stored for longer."""
        await self.own.renew()
        for stream in tuple(self._running.values()):
            await stream.renew()

    def _log(self, number: int) -> str:
        return f"stream/{self._copy.record.key}/{number}"

    @override
    async def drain(self, channel: Channel, /) -> None:
        await super().drain(channel)
        if carrier(channel) is None:
            await self.own.room()
        origin = channel.origin if isinstance(channel, IncomingRequest) else None
        if isinstance(origin, ResponseStream) and isinstance(origin.replay, SharedStream):
            await origin.replay.room()

    @override
    async def flush(self, response_stream: ResponseStream, /) -> None:
        if response_stream.streams:
            response_stream.start()
            if isinstance(response_stream.replay, SharedStream):
                await response_stream.replay.flushed()  # the client may resume it elsewhere at once

    @override
    async def resume(
        self, respond: Callable[[], ResponseStream], last_event_id: str, /
    ) -> ResponseStream | None:
        found = EVENT_ID.fullmatch(last_event_id)
        if found is None or not self.resumable:
            return None
        number, place = int(found[1]), int(found[2])
        if number == 0:
            return await self.own.open_get(respond, place)
        me, log = self._worker.number, self._log(number)
        await self._copy.record.refresh()  # for the workers that may have the stream
        await self.hand_over(number, me, place)
        await self._worker.ask(
            self._copy.others,
            {"kind": "hand over", "key": self._copy.record.key, "stream": number, "to": me, "place": place},
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
            worker = self._copy.record.value["places"].get(str(number // BLOCK), 0)
            if worker and await self._worker.is_alive(int(worker)):
                tail = await self._store.tail(log, 0, wait=LOOK)
        if not tail.items or tail.items[0][0] != 1:
            return None
        return object_in(tail.items[0][1], "a stream")

    async def hand_over(self, number: int, worker: int, place: int) -> None:
        """Let a worker read a stream, in place of the reader here; everything is stored then."""
        stream = self._running.get(number)
        if stream is not None:
            stream.hand_over(worker, place)
            await stream.flushed()
        for response_stream in tuple(self._session.response_streams):
            replay = response_stream.replay
            if isinstance(replay, StreamReader) and replay.number == number:
                response_stream.hand_over()

    def _report(self, owner: int, number: int, place: int, *, reads: bool) -> None:
        """Tell the worker of a stream how far it is read here."""
        if owner == self._worker.number:
            self.take_report(number, owner if reads else 0, place)
            return
        message = {"kind": "read", "key": self._copy.record.key, "stream": number, "place": place}
        reader = self._worker.number if reads else 0
        self._sessions.start(self._worker.tell(owner, {**message, "reader": reader}))

    def take_report(self, number: int, reader: int, place: int) -> None:
        """Learn how far a worker has read a stream of this one."""
        stream = self._running.get(number)
        if stream is not None:
            stream.read_elsewhere(reader, place)

    # -- the end -------------------------------------------------------------------------------------------

    def fence(self) -> None:
        """Store nothing of the requests that run here any more."""
        for stream in tuple(self._running.values()):
            stream.fence()

    @override
    def ended(self) -> None:
        self.own.ended()


class OwnStream:
    """The session's own stream: what belongs to no request, and what has changed.

    It is one log: every copy of the session appends to it, and one reads it, where the client has its newest GET stream.
    """

    def __init__(self, copy: Copy, sessions: SessionOwner) -> None:
        self._copy, self._session = copy, copy.session
        self._sessions, self._store, self._worker = sessions, sessions.store, sessions.worker
        self._log = f"own/{copy.record.key}"
        self._bounds = LogBounds(ttl=log_ttl(copy.record.ttl))
        self.gets: list[ResponseStream] = []
        """The GET streams of the client here, the newest last."""
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

    @property
    def is_read(self) -> bool:
        """Whether this copy reads it for a client that listens here."""
        return self._reading is not None and bool(self.gets)

    def progress(self) -> dict[str, Json] | None:
        """Return how far it was read here, for the copy that reads it from now on; None if it is not."""
        return None if self._reading is None else {"read": self._read, "told": self._settled}

    def reader_changed(self, *, resumed: bool) -> None:
        """Learn from the record which worker reads it; `resumed` says that the client does not read it here any more."""
        reader = self._copy.record.value["reader"]
        if reader != self._worker.number:
            if resumed and self._reading is not None and self.gets:
                self.gets[-1].hand_over()
            self._stop_reading()
        if reader == 0 and self.gets:
            self._sessions.start(self._claim(0))

    # -- in ------------------------------------------------------------------------------------------------

    def send(self, message: bytes, *, droppable: bool) -> None:
        """Send a message; one that is `droppable` is forgotten first."""
        if self._sessions.changes.away and message.startswith(_CHANGES) and self.is_read:
            self.gets[-1].write(encode_message(message))  # without an id: it is in no log
        elif len(self._waiting) < MAX_WAITING:
            self._unmarked = True
            self._append_soon(LogItem(message, droppable))

    async def room(self) -> None:
        """Wait for a moment while too many messages are not stored."""
        if len(self._waiting) > QUEUED and self._appending is not None:
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
                    with stored_for(digest_in(self._copy.record.value)):
                        self._appended = await self._store.append(self._log, items, bounds=self._bounds) or 0
            except StoreError as error:
                if self._session.error is not None:
                    return
                self._session.logger.warning("messages of a session cannot be stored now: %s", error)
                await asyncio.sleep(STORE_BACK)
                continue
            del self._waiting[: len(items)]
            items = []

    async def renew(self) -> None:
        """Keep it for longer."""
        if max(self._read, self._appended):
            await self._store.append(self._log, [], bounds=self._bounds)

    async def _is_appended(self, items: list[LogItem], before: int) -> bool:
        """Return whether an attempt to append items after the item `before` was carried out, whatever it raised."""
        wanted = [item.value for item in items]
        tail = await self._store.tail(self._log, before)
        found = [value for _, value in tail.items]
        return any(found[at : at + len(wanted)] == wanted for at in range(len(found)))

    # -- out -----------------------------------------------------------------------------------------------

    async def open_get(
        self, respond: Callable[[], ResponseStream], place: int | None
    ) -> ResponseStream | None:
        """Open a GET stream, which reads the own stream from now on; return None if that is not possible."""
        if place is not None:
            tail = await self._store.tail(self._log, place)
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

        opened = await self._copy.record.change(change)
        if opened and full:
            workers = {int(worker) for worker in self._copy.record.value["gets"]}
            await self._copy.forget_dead(workers - {self._worker.number})
            opened = await self._copy.record.change(change)
        if not opened:
            self._session.conclude("the session has ended")
        if not opened or full:
            return None
        if place is not None and self._reading is not None and self.gets:
            self.gets[-1].hand_over()  # the client resumes what it has read there
        response_stream = respond()
        end = GetStream(self)
        response_stream.replay, response_stream.started = end, True
        self.gets.append(response_stream)
        try:
            await self._begin_reading(before, place)
        except StoreError:
            response_stream.disconnect()
            raise
        first = place is None and self._copy.streams.resumable and self._session.revision.sse_priming
        response_stream.write(encode_event(Event(id=f"0-{self._read}")) if first else b"")
        return response_stream

    async def _begin_reading(self, before: int, place: int | None = None) -> None:
        """Take over the own stream from the worker `before`, 0 if none has read it, after this one became the reader."""
        read, told = self._copy.record.value["read"], self._copy.record.value["told"]
        if self._reading is not None:
            read, told = self._read, self._told
        self._stop_reading()
        answers = await self._copy.tell_others(resumed=place is not None)
        for answer in answers.values():
            if is_json_object(answer):
                read, told = max(read, int(answer["read"])), answer["told"]
        if before not in {
            0,
            self._worker.number,
            *answers,
        }:  # it may be dead, and has noted less than it has done
            tail = await self._store.tail(self._log, int(read))
            for _, value in tail.items:
                told = object_in(value, "a stream")["told"] if value.startswith(_TOLD) else told
        if self._copy.record.value["reader"] == self._worker.number and self.gets:
            self._read, self._told = read if place is None else place, told
            if not self._checks:
                self._settled = told
            self._stop_reading()
            self._reading = self._sessions.start(self._read_own())
            asyncio.get_running_loop().call_soon(self.tell_changes)

    async def _claim(self, instead: int) -> None:
        """Become the reader of the own stream if it still has none, or a dead one."""
        me = self._worker.number

        def change(record: dict[str, Json]) -> bool:
            if record["reader"] == instead and self.gets:
                without_workers(record, {instead})
                record["reader"] = me
                return True
            return False

        if await self._copy.record.change(change) and self._copy.record.value["reader"] == me:
            await self._begin_reading(instead)

    @property
    def has_no_reader(self) -> bool:
        """Whether the client has a GET stream here, and none of this copy reads the own stream."""
        return bool(self.gets) and self._reading is None

    async def check_reader(self) -> None:
        """Become the reader of the own stream if the one that is is dead."""
        reader = int(self._copy.record.value["reader"])
        if self.has_no_reader and not await self._worker.is_alive(reader):
            await self._claim(reader)

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    async def _read_own(self) -> None:
        """Send what is in the own stream to the newest GET stream."""
        stored = self._read
        while self.gets:
            try:
                tail = await self._store.tail(self._log, self._read, wait=LOOK)
                if not tail.items and self._read > stored:
                    stored = self._read
                    await self._copy.record.change(self.note_read)
            except StoreError:
                await asyncio.sleep(STORE_BACK)
                continue
            if tail.last < self._read:
                self._read = 0  # the log has begun anew
                continue
            if not self.gets:
                return
            response_stream = self.gets[-1]
            for number, message in tail.items:
                id_ = f"0-{number}" if self._copy.streams.resumable else None
                if not message.startswith(_TOLD):
                    response_stream.write(encode_message(message, id_))
                self._read = number
            if tail.lost and not tail.items:
                self._read = tail.last
            if tail.complete:
                self._session.conclude("the session has ended")
                return
            await response_stream.drain()

    def note_read(self, record: dict[str, Json]) -> None:
        """Note in the record how far it was read here."""
        record["read"], record["told"] = max(self._read, record["read"]), self._settled

    def get_ended(self, response_stream: ResponseStream) -> None:
        """Let another GET stream read the own stream after the end of one."""
        if response_stream in self.gets:
            self.gets.remove(response_stream)
            if self._session.error is None:
                self._sessions.start(self._leave_get())

    async def _leave_get(self) -> None:
        me, count = str(self._worker.number), len(self.gets)
        was_reading = self._reading is not None and not count

        def change(record: dict[str, Json]) -> None:
            record["gets"].pop(me, None)
            if count:
                record["gets"][me] = count
            if was_reading:
                self.note_read(record)
                if record["reader"] == self._worker.number:
                    record["reader"] = 0

        if was_reading:
            self._stop_reading()
        if await self._copy.record.change(change) and was_reading:
            await self._copy.tell_others()

    # -- changes -------------------------------------------------------------------------------------------

    def tell_changes(self, own: Mapping[Change, int] = MappingProxyType({})) -> None:
        """Tell the client of the changes that it was not told of, if it is this copy that reads the own stream.

        `own` are those of this process that were stored last.
        """
        log = self._sessions.changes.log
        if not self.is_read or log is None or not self.gets:
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
        if news and self.is_read:
            self._unstored.update({change: changes[change] for change in news})
            self._tell(news)

    def _tell(self, news: Collection[Change]) -> None:
        session = self._session.protocol.session
        if session.state is not State.READY:
            return
        if session.subscribed:
            origin = self.gets[-1]
            session.subscriber = Request(cast("Any", None), "resources/subscribe", None, origin)
        for kind, uri in news:
            every = kind is Changed.RESOURCE and uri is None
            for each in sorted(session.subscribed) if every else (uri,):
                for check in self._sessions.server.tell_change(self._session, kind, each):
                    self._checks.add(check)
                    check.add_done_callback(self._checked)

    def ended(self) -> None:
        """Read it no more, and end its responses."""
        self._stop_reading()
        for response_stream in tuple(self.gets):
            response_stream.end()


class GetStream:
    """The part of the own stream that one response carries."""

    reader: ResponseStream | None = None
    """None: the response is its own reader."""

    def __init__(self, own: OwnStream) -> None:
        self._own = own

    def push(self, message: bytes, /) -> None:
        """Nothing is sent but what is in the log."""
        raise AssertionError(message)

    def close(self) -> None:
        """The stream has ended with the session."""

    def detach(self, response_stream: ResponseStream, /) -> None:
        """Remove a response, because its client is gone."""
        self._own.get_ended(response_stream)


def packed(message: Message) -> dict[str, Json]:
    """Return a message as JSON, for another worker."""
    if isinstance(message, Malformed):
        return {"malformed": [message.code, message.message, message.id, message.excerpt]}
    return {"message": encode(message, null_id_in_errors=True).decode()}


def unpacked(packed: dict[str, Json]) -> Message:
    """Return a message that another worker has packed."""
    if "malformed" in packed:
        code, text, id_, excerpt = packed["malformed"]
        return Malformed(code, text, id_, excerpt, Shape.RESPONSE)
    return cast("Message", parse(str(packed["message"]).encode(), batch=False))


def number_of(id_: Json) -> int | None:
    """Return the number of an id, which a client may have echoed as a string or a float."""
    if isinstance(id_, str):
        return int(id_) if id_.isascii() and id_.isdigit() and len(id_) < 11 else None
    return int(id_) if isinstance(id_, int | float) and 0 < id_ < 2**31 else None
