"""The directory of the sessions that the workers of a server share: each worker restores those that others have opened."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from mcprev.core.background import Background
from mcprev.core.connection import Connection
from mcprev.core.interfaces import ServerApp
from mcprev.core.limits import CLOSE
from mcprev.core.store import Store
from mcprev.errors import ConnectionLost, Json, StoreError
from mcprev.protocol.http_request_class import HttpError
from mcprev.protocol.negotiation.versions import of_era
from mcprev.revisions import Era
from mcprev.sharing.changes import Change, SharedChanges
from mcprev.sharing.legacy_sse import SharedSseSessions
from mcprev.sharing.quotas import Quotas
from mcprev.sharing.record import (
    FORMAT,
    INDEX,
    MAX_PLACES,
    UNCONFIRMED,
    SharedRecord,
    decode,
    key_of,
    new_record,
    owner_of,
    write_record,
)
from mcprev.sharing.session import Copy, copy_of
from mcprev.sharing.worker import Worker
from mcprev.stores.memory import MemoryStore
from mcprev.transports.http.server.connection import Streams
from mcprev.transports.http.server.legacy_sse import LegacySseServerConnection
from mcprev.transports.http.server.options import HttpSettings
from mcprev.transports.http.server.request import HttpRequest
from mcprev.transports.http.server.sessions import MakeSession, MakeStreams, Session, Sessions
from mcprev.wire.jsonrpc import RequestId

MAX_ID: Final = 200
"""The maximum length of a session id that is looked up."""
TICK: Final = 1.0
"""Seconds between two looks at what is due."""
LAST: Final = 600.0
"""Seconds that requests have to finish whose session was lost with the data of the store."""
OVER: Final = 60.0
"""Seconds for which a reader finds out that the own stream of a session has ended."""
SAME: Final = ("sessions", "get_stream", "json_response", "idle", "max_sessions", "max_sessions_per_client")
"""The options that should be the same at all workers, beside `revisions` and whether there are `events`."""
RENEWALS: Final = 3
"""How often a record is renewed in its time to live, at least."""
_logger: Final = logging.getLogger("mcprev.sharing")


class SharedSessions:
    """The directory of the sessions of all workers, with what this worker has of those that it has loaded."""

    shared: bool = True

    def __init__(
        self,
        server: ServerApp[Connection],
        changes: SharedChanges,
        store: Store,
        settings: HttpSettings,
        sessions: Sessions,
        make: MakeSession,
    ) -> None:
        """`changes` are those that the processes of the server tell each other, and `store` has its records."""
        self.server = server
        self._sessions, self._make = sessions, make
        self.clock: Callable[[], float] = sessions.clock
        self._idle, self._get_stream = settings.idle, settings.get_stream
        self.changes: SharedChanges = changes
        self.store: Store = store
        self.resumable: bool = settings.events is not None
        """Whether streams of requests can be resumed."""
        # Workers that share the memory of a process need no thread: its event loop is that of all of them.
        release = None if isinstance(server.records, MemoryStore) else self.store.aclose
        same: dict[str, Json] = {name: getattr(settings, name) for name in SAME}
        same |= {"revisions": [row.name for row in server.identity.revisions], "events": self.resumable}
        self.worker: Worker = Worker(self.store, self._take, self._lapsed, release, same)
        limits: Any = {"limit": settings.max_sessions, "per_client": settings.max_sessions_per_client}
        limits_of_all: Any = {"ttl": self._idle, "evict": self._end_idlest, "first": UNCONFIRMED, **limits}
        self.quotas: Quotas = Quotas(self.store, INDEX, **limits_of_all)
        self.sse: SharedSseSessions = SharedSseSessions(
            self.store, self.worker, settings, server, self.start, **limits
        )
        self._by_key: dict[str, Copy] = {}
        self._restoring: dict[str, asyncio.Future[None]] = {}
        self.background: Background = Background(_logger, "what workers share of sessions")
        self._ticking: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self.changes.on_read.add(self._tell_changes)
        self.changes.on_away.add(self._tell_unstored)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine as a task, which is waited for in the end; what it raises is logged."""
        return self.background.start(work)

    # -- opening and restoring -----------------------------------------------------------------------------

    def is_doubtful(self, session: Session) -> bool:
        """Return whether a session that is open here may have ended elsewhere, because it was not used here for long."""
        return not session.in_use and self.clock() - session.seen > self._idle / RENEWALS

    def streams(self, client: str | None) -> MakeStreams:
        """Return what makes the streams of a session that a client opens, which `admit` has counted."""
        index = self._client(client)

        def streams(session: Session) -> Streams:
            value: dict[str, Json] = {"places": {}, "gets": {}}
            record = SharedRecord(self.store, key_of(session.id), value, 0, self._idle)
            return Copy(session, self, record, counted=index, get_stream=self._get_stream).streams

        return streams

    async def admit(self, client: str | None, request_id: RequestId) -> HttpError | None:
        """Make room for one more session of a client at all workers, and count it. Raises `StoreError`."""
        await self.worker.start()
        await self.changes.latest()
        refused = self._sessions.make_room(None, request_id)
        return refused or await self.quotas.take(self._client(client), request_id)

    def _client(self, client: str | None) -> str:
        return "" if client is None else self.quotas.client_index(client)

    def opened(self, session: Session, client: str | None) -> asyncio.Task[None]:
        """Store a session that `initialize` opens; its response has to wait for that."""
        return self.start(self._store(session, client))

    async def _store(self, session: Session, client: str | None) -> None:
        copy = _copy(session)
        log, number = await self.changes.latest(), await self.worker.start()
        state, principal = session.protocol.session.record(), owner_of(session.principal, session.id)
        record = copy.record
        index = self._client(client)
        record.value = new_record(state, principal, index, [log.epoch, log.number], number, self._idle)
        version, _ = await asyncio.gather(
            write_record(self.store, record.key, record.value, 0, self._idle),
            self.quotas.mark(index, record.key),
        )
        if version is None:
            raise StoreError("another session has the same id")
        copy.confirm(version)
        self._load(copy)

    async def restore(self, session_id: bytes, http_request: HttpRequest) -> Session | HttpError | None:
        """Return the session with an id as this worker has it now, if `http_request` may use it. Raises `StoreError`."""
        text, principal = session_id.decode("latin-1"), http_request.principal
        if len(text) > MAX_ID:
            return None
        key = key_of(text)
        while key in self._restoring:
            await asyncio.wait({self._restoring[key]})
        loaded = self._by_key.get(key)
        if loaded is not None and loaded.session.error is None:
            if not await loaded.record.refresh():
                loaded.session.conclude("the session was idle for too long")
            elif loaded.session.principal == principal:
                loaded.session.touch()
            return self._sessions.find(session_id, principal)
        self._restoring[key] = asyncio.get_running_loop().create_future()
        try:
            return await self._restore(key, text, principal)
        finally:
            self._restoring.pop(key).set_result(None)

    async def _restore(self, key: str, session_id: str, principal: str | None) -> Session | HttpError | None:
        found = await self.store.read(f"session/{key}")
        if found is None:
            return None
        record = SharedRecord(self.store, key, decode(found), found.version, self._idle)
        value = record.value
        if value.get("format") != FORMAT:
            _logger.warning(
                "a session of another version of mcprev cannot be restored: its format is %r",
                value.get("format"),
            )
            return None
        if value["principal"] != owner_of(principal, session_id) or value["next"] >= MAX_PLACES:
            return None
        refused = self._sessions.make_room(None, cast("Any", None))
        if refused is not None:
            return refused
        revision = value["session"]["revision"]
        if revision not in {row.name for row in of_era(self.server.identity.revisions, Era.HANDSHAKE)}:
            _logger.warning("a session at %s cannot be restored: this server does not serve it", revision)
            return None
        number, places = await self.worker.start(), list[int]()

        def change(value: dict[str, Json]) -> None:
            places[:] = [value["next"]]
            value["next"] += 1
            value["places"][str(places[0])] = number

        if not await record.change(change):
            return None

        def streams(session: Session) -> Streams:
            return Copy(session, self, record, place=places[0], get_stream=self._get_stream).streams

        session = self._make(principal, streams, session_id=session_id)
        session.protocol.session.restore(record.value["session"])
        self._load(_copy(session))
        self.server.keep(session)
        session.process_events()
        return session

    def _load(self, copy: Copy) -> None:
        self._by_key[copy.record.key] = copy
        self._sessions.add(copy.session, None)
        if self._ticking is None:
            self._ticking = asyncio.get_running_loop().create_task(self._tick(), name="sessions")

    def forget(self, copy: Copy) -> None:
        """Load a session again if it is needed, because this copy of it ends."""
        self._sessions.forget(copy.session)
        if self._by_key.get(copy.record.key) is copy:
            del self._by_key[copy.record.key]

    async def delete(self, session: Session) -> None:
        """End a session everywhere because the client wants it. Raises `StoreError`."""  # HTTP-24
        copy = _copy(session)
        if await copy.record.remove():
            await self._removed(copy.record)
        await copy.tell_others()
        session.conclude("the client ended the session")

    async def _removed(self, record: SharedRecord) -> None:
        """Give the room of a session that has ended to others."""
        await asyncio.gather(
            self.quotas.give_back(record.value["client"], record.key),
            self.store.complete(f"own/{record.key}", ttl=OVER),
        )

    async def sse_opened(self, connection: LegacySseServerConnection, client: str | None) -> HttpError | None:
        """Let other workers know of a session of HTTP+SSE, or return the error response. Raises `StoreError`."""
        return await self.sse.opened(connection, client)

    async def post_sse(self, body: bytes, http_request: HttpRequest) -> HttpError | None:
        """Pass a message to the worker that has its HTTP+SSE session; return the error response if it is refused."""
        return await self.sse.post(body, http_request)

    async def _end_idlest(self, index: str, keys: Sequence[str]) -> bool:
        """End the longest idle of some sessions, of which the first was renewed longest ago; False if all are in use."""
        records: dict[str, SharedRecord] = {}
        for key in keys:
            record = SharedRecord(self.store, key, {}, 0, self._idle)
            if await record.refresh():
                records[key] = record
        over = [key for key in keys if key not in records]
        for key in over:
            await self.quotas.unmark("" if index == INDEX else index, key)
        if over:
            return True
        workers = {int(worker) for each in records.values() for worker in each.value["places"].values()}
        answers = await self.worker.ask(workers, {"kind": "idle", "keys": list(records)})
        own = self._idle_times(list(records)) if self.worker.number in workers else {}
        silent = workers - answers.keys() - {self.worker.number}
        alive = {worker for worker in silent if await self.worker.is_alive(worker)}
        idle = {
            key: -1.0 if alive & {int(worker) for worker in record.value["places"].values()} else float("inf")
            for key, record in records.items()
        }  # what nobody can say counts as in use
        for times in (own, *answers.values()):
            for key, seconds in (times or {}).items():
                idle[key] = min(idle[key], seconds)
        key = max(idle, key=idle.__getitem__)
        if idle[key] < 0:
            return False
        if await records[key].remove():
            await self._removed(records[key])
            await self.worker.ask(workers, {"kind": "changed", "key": key, "resumed": False})
            if key in self._by_key:
                self._by_key[key].record.gone = True
                self._by_key[key].session.conclude("the session was idle, and others need the room")
        return True

    def _idle_times(self, keys: Sequence[str]) -> dict[str, Json]:
        """Return for how many seconds sessions were not used here, of those that are loaded; -1 if one is in use."""
        found = {key: self._by_key[key].session for key in keys if key in self._by_key}
        return {key: -1 if each.in_use else self.clock() - each.seen for key, each in found.items()}

    # -- messages of other workers -------------------------------------------------------------------------

    async def _take(self, message: dict[str, Json]) -> Json:
        """Serve a message of another worker."""
        if message["kind"] == "sse":
            return await self.sse.take(message)
        if message["kind"] == "idle":
            return self._idle_times(message["keys"])
        key = message.get("key")
        if key in self._restoring:
            await asyncio.wait({self._restoring[key]})
        copy = self._by_key.get(str(key))
        if copy is None:
            return None
        match message["kind"]:
            case "changed":
                return await copy.take_change(resumed=message["resumed"])
            case "message":
                copy.take_passed(message)
            case "hand over":
                await copy.streams.hand_over(message["stream"], message["to"], message["place"])
            case "read":
                copy.streams.take_report(message["stream"], message["reader"], message["place"])
            case _:
                _logger.warning("a message of another worker has an unknown kind: %r", message["kind"])
        return None

    def _tell_changes(self, own: dict[Change, int]) -> None:
        for copy in tuple(self._by_key.values()):
            copy.streams.own.tell_changes(own)

    def _tell_unstored(self, changes: dict[Change, int]) -> None:
        for copy in tuple(self._by_key.values()):
            copy.streams.own.tell_unstored(changes)

    # -- time ----------------------------------------------------------------------------------------------

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            now = self.clock()
            for copy in tuple(self._by_key.values()):
                used = max(copy.session.seen, now if copy.session.in_use else 0.0)
                if used > copy.renewed and now - copy.renewed >= self._idle / RENEWALS / 2:
                    copy.renew_soon()
                if copy.streams.own.has_no_reader:
                    self.start(copy.streams.own.check_reader())
            self._sessions.expire()

    def _lapsed(self, lost: bool) -> None:  # noqa: FBT001 - a callback
        """Forget all sessions: they are `lost` with the store, or other workers have taken this one for dead."""
        for copy in tuple(self._by_key.values()):
            copy.drop()
            if lost:
                self.forget(copy)
                self.start(self._let_finish(copy.session))
            else:
                self._sessions.end(copy.session, "the worker has lost its lease")
        self.sse.lapsed()

    async def _let_finish(self, session: Session) -> None:
        """Let the requests of a session that has ended finish."""
        await session.finish_requests(LAST)
        session.ended(ConnectionLost("the store has lost the session", in_flight=True, retry_safe=False))

    async def aclose(self) -> None:
        """Tell other workers that this one ends, after its sessions have ended."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self.changes.on_read.discard(self._tell_changes)
        self.changes.on_away.discard(self._tell_unstored)
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.wait({self._ticking})
        await self.background.finish(CLOSE)
        await self.background.aclose(CLOSE)
        with suppress(StoreError):
            await self.worker.aclose()


def _copy(session: Session) -> Copy:
    copy = copy_of(session)
    assert copy is not None
    return copy
