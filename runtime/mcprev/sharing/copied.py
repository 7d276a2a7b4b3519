"""A copy of a session, and what other workers that have one have to know (HTTP-22, HTTP-24, HTTP-28).

What the client sets is in the record of the session, and a message that changes it is answered when the other copies
know. A response, progress or a cancellation, of which no request here knows, goes to the copy that may have the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from typing import Any, Protocol, cast

from typing_extensions import override

from mcprev.core.connection import Connection
from mcprev.core.store import Store
from mcprev.errors import Json
from mcprev.protocol.connection_state import (
    PROGRESS,
    Diagnostic,
    SessionChanged,
    Unplaced,
)
from mcprev.protocol.subscriptions import Changed
from mcprev.protocol.uris import ComparedUris
from mcprev.sharing.changes import SharedChanges
from mcprev.sharing.quotas import Quotas
from mcprev.sharing.record import BLOCK, Ids, SharedRecord, without_workers
from mcprev.sharing.worker import Worker
from mcprev.transports.http.server.response_stream import ResponseStream
from mcprev.transports.http.server.sessions import Session
from mcprev.wire.jsonrpc import (
    Malformed,
    Message,
    Notification,
    Shape,
    encode,
    parse,
)


class ChangeTeller(Protocol):
    """What the session needs of a server."""

    def tell_change(self, connection: Connection, kind: Changed, uri: str | None) -> list[asyncio.Task[None]]:
        """Notify one client of a change, if it is to know; return the checks that find out whether it is."""
        ...


class SessionOwner(Protocol):
    """What the session needs of the sessions of its worker."""

    store: Store
    worker: Worker
    quotas: Quotas
    changes: SharedChanges
    resumable: bool

    @property
    def server(self) -> ChangeTeller:
        """The server."""
        ...

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine as a task, which is waited for in the end."""
        ...

    def unstored(self, session_id: str) -> SharedRecord:
        """Return the record of a session that is not in the store yet."""
        ...

    def forget(self, session: SharedCopy) -> None:
        """Load a session again if it is needed, because this copy of it ends."""
        ...

    def end(self, session: Session, why: str) -> None:
        """End a session here."""
        ...


class SharedCopy(Session):
    """A copy of a session over HTTP."""

    shared = True
    lives_on: bool = True
    counted: str | None = None
    """The index of the client in which the session was counted before it was stored."""

    def attach(self, sessions: SessionOwner) -> None:
        """Belong to the sessions of a worker, as the first copy of a session that nobody knows yet."""
        self._sessions, self._store, self._worker = sessions, sessions.store, sessions.worker
        self._unsettled: set[asyncio.Task[None]] = set()
        self.unsettled: Collection[asyncio.Task[None]] = self._unsettled
        self.renewed: float = self.seen
        """The time at which the record was last renewed."""
        self.stored: bool = False
        """Whether the session has a record in the store."""
        self._passing = False
        """Whether a message comes from another worker."""
        self.bind(self.id, sessions.unstored(self.id), 0)
        self.stored = False

    def bind(self, session_id: str, record: SharedRecord, place: int) -> None:
        """Become the copy of a session, at a place of its record."""
        self.id = session_id
        self.session_id: str | None = session_id
        self.record: SharedRecord = record
        self.stored = True
        self._connection_state.key = record.key  # of the tasks of the session
        self._question_ids = Ids(place, self._take_place)
        self._stream_ids = Ids(place, self._take_place)
        self._connection_state.calls.ids = self._question_ids

    @property
    def others(self) -> set[int]:
        """The other workers that have loaded the session, as far as it is known."""
        workers: set[int] = {int(worker) for worker in self.record.value["places"].values()}
        return workers - {self._worker.number}

    # -- what other copies have to know --------------------------------------------------------------------

    @override
    def _on_noted(self, event: SessionChanged | Unplaced | Diagnostic) -> None:
        if isinstance(event, SessionChanged):
            self._settle_soon(self._publish(event))
        elif isinstance(event, Unplaced) and not self._passing:
            self._settle_soon(self._pass_on(event.message))
        else:
            super()._on_noted(event)

    def _settle_soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._sessions.start(work)
        self._unsettled.add(task)
        task.add_done_callback(self._unsettled.discard)

    @override
    async def settle(self, response_stream: ResponseStream | None = None) -> None:
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
        self.protocol.session.restore(self.record.value["session"])
        self.process_events()

    async def tell_others(self, *, resumed: bool = False) -> dict[int, Json]:
        """Let the other copies read the record; return their answers.

        `resumed` says that the client has resumed the own stream here, so that it does not read it elsewhere.
        """
        others = self.others
        message: dict[str, Json] = {"kind": "changed", "key": self.record.key, "resumed": resumed}
        answers = await self._worker.ask(others, message)
        if len(answers) < len(others):
            self._sessions.start(self._forget_dead(others - answers.keys()))
        return answers

    async def _forget_dead(self, silent: set[int]) -> None:
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
                self._connection_state.fail_malformed(found)
                self.process_events()
            else:
                self.receive(found)
        finally:
            self._passing = False

    def conclude(self, why: str) -> None:
        """End the session because it has ended everywhere."""
        self.lives_on = False
        self._sessions.end(self, why)

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
            self._question_ids.add(found[0])
            self._stream_ids.add(found[1])

    def renew_soon(self) -> None:
        """Renew the record, because the session is in use."""
        self.renewed = self._clock()
        self._sessions.start(self._renew())

    async def _renew(self) -> None:
        if await self.record.change(lambda _: None):
            await self._sessions.quotas.mark(self.record.value["client"], self.record.key)
        else:
            self.conclude("the session has ended")


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
