"""Requests that are, or may become, tasks, and the listen streams that carry their states (TASK-2..5, TASK-8, TASKX-2,
TASKX-3, SUB-9).

The record of a task is replaced at once and stored afterwards, one state after the other, so that the store ends with
the newest one however slow it is. Every change wakes the waiters, also a change that could not be stored.

Where processes share a store, others add answers to the record or end the task. A state is then stored only if the
record is as this process has seen it last; else it takes over what others have stored first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

from mcprev.conversion import PayloadKind, convert
from mcprev.core.interfaces import client_of, principal_of
from mcprev.core.method_binding import log_error
from mcprev.core.store import stored_for_client
from mcprev.errors import (
    INTERNAL_MESSAGE,
    ConversionError,
    InternalError,
    Json,
    McpError,
    RequestTimeout,
    RpcError,
    StoreError,
    TaskCancelled,
)
from mcprev.protocol import tasks
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.handshake import HandshakeServer, State
from mcprev.protocol.stateless import StatelessServer
from mcprev.protocol.tasks import Status, Task, TaskStore
from mcprev.revisions import LATEST, Revision, TaskSupport
from mcprev.server.tasks import MemoryTaskStore, Tasks

if TYPE_CHECKING:
    from mcprev.core.connection import Connection
    from mcprev.core.store import Records
    from mcprev.sharing.tasks import SharedTasks

CALL: Final = "tools/call"
RETRY_DELAYS: Final = (0.05, 0.5, 2.0)
"""Seconds before each further attempt to store the end of a task, after the store failed."""
LOST: Final = "the store has lost the task"
TRIES: Final = 100
"""How often a record is written that other processes replace, before it fails."""
logger: Final = logging.getLogger("mcprev.server")


@dataclass(slots=True)
class TaskStream:
    """A listen stream as it carries the status of one task, as `tasks/get` returns it.

    The status is sent once when the stream opens, so that no change is missed, then at each change until the task ends.
    """  # SUB-9

    incoming: IncomingRequest
    connection: Connection
    last_sent: Task | None = None

    def send(self, task: Task) -> bool:
        """Send the status of the task, unless it was sent or the stream has ended; return whether more may follow."""
        incoming = self.incoming
        if not incoming.open or self.last_sent is task:
            return incoming.open and not task.ended
        self.last_sent = task
        try:
            cast("StatelessServer", incoming.engine).stream(
                incoming, tasks.TASK_NOTIFICATION, status_at(task, incoming.revision)
            )
        except Exception:
            # The task continues even if its status cannot be sent.
            logger.exception("the status of a task could not be sent")
        self.connection.process_events()
        return not task.ended


class RunningTasks:
    """The tasks that run in this process."""

    def __init__(self, settings: Tasks, records: Records | None = None) -> None:
        self.settings = settings
        self.running: dict[str, TaskExecution] = {}
        """The running tasks, by id."""
        self.shared: SharedTasks | None = None
        """The tasks of all processes that share a store; None if they share none."""
        if records is not None and settings.store is None:
            from mcprev.sharing.tasks import SharedTasks

            self.shared = SharedTasks(records, self.running, settings.max_running_each)
        self.store: TaskStore = self.shared or settings.store or MemoryTaskStore()

    def begin(self, incoming: IncomingRequest, ttl: int | None, poll: int | None) -> Task:
        """Return a new task for a request. Raises `InternalError` if too many run, `InvalidParams` for an invalid `ttl`."""
        if len(self.running) >= self.settings.max_running:
            raise InternalError("too many tasks are running")
        owner, session = principal_of(incoming), session_of(incoming)
        client, each = client_of(incoming), self.settings.max_running_each
        running = [one for one in self.running.values() if one.task is not None]
        if client is not None and sum(client_of(one.request) == client for one in running) >= each:
            raise InternalError("too many tasks of this client are running")
        if owner is not None or session is not None:
            tasks_here = (one.task for one in running if one.task is not None)
            if sum(task.belongs_to(owner, session) for task in tasks_here) >= each:
                raise InternalError("too many tasks of this client are running")
        most = self.settings.ttl if ttl is None else ttl
        if incoming.revision.tasks is TaskSupport.CORE:
            most = tasks.wanted_ttl(incoming.params or {}, most)
        every = self.settings.poll_interval if poll is None else poll
        task = tasks.begin(time.time(), ttl=most, poll=every, owner=owner, session=session)
        return task if self.shared is None else replace(task, worker=self.shared.worker)


class TaskExecution:
    """The execution of a handler that is, or may become, a task."""

    def __init__(self, registry: RunningTasks, incoming: IncomingRequest, connection: Connection) -> None:
        self._registry = registry
        self.request = incoming
        self._connection = connection
        self.task: Task | None = None
        self.handle: asyncio.Task[dict[str, Json]] | None = None
        self.stopped: bool = False
        """Whether the server stopped before the task ended."""
        self.detached: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
        self._answers: dict[str, asyncio.Future[dict[str, Json]]] = {}
        self.sent: set[str] = set()
        """The keys of the input requests that the client has not answered yet."""
        self.changed: asyncio.Event = asyncio.Event()
        """Set at the next change of the task; each change replaces it with a new event."""
        self.streams: list[TaskStream] = []
        """The listen streams that carry the status of the task."""
        self._saving = asyncio.Lock()
        self._saved: Task | None = None
        self._version = 0
        self._told: tuple[Status, str | None] = (Status.WORKING, None)
        """The last status and message that the session was told."""

    @property
    def begun(self) -> Task:
        """The task, for what is done with one only."""
        assert self.task is not None
        return self.task

    async def detach(self, ttl: int | None, poll: int | None, message: str | None) -> None:
        """Make the request a task, which is its response; no effect if the request is closed.

        One that is a task gets the message. Raises what the store raises; the request is no task then.
        """  # TASKX-2
        if self.task is not None and message is not None:
            await self.set_status(message)
        if self.task is not None or not self.request.open:
            return
        task = self._registry.begin(self.request, ttl, poll)
        self.task = task if message is None else tasks.set_status(task, message, time.time())
        self._registry.running[task.id] = self
        self.request.reports_progress = self.request.revision.tasks is TaskSupport.CORE
        try:
            await self._store()
        except Exception:
            self.task, self.request.reports_progress = None, False
            del self._registry.running[task.id]
            raise
        self.detached.set_result(self.task)

    async def save(self, task: Task) -> None:
        """Replace the record, store it, and notify waiters, listen streams and the session."""
        self.task = task
        try:
            await self._store()
        finally:
            self.notify_waiters()
        assert self._saved is not None
        self._tell(self._saved)

    def _tell(self, task: Task) -> None:
        """Send the stored state of the task to the listen streams and, if its status or message is new, to the session."""
        for stream in self.streams:
            stream.send(task)
        if self._told != (task.status, task.message):
            self._told = (task.status, task.message)
            _notify_session(task, self.request, self._connection)

    async def save_end(self, task: Task) -> None:
        """Store the end of the task; try again if the store fails, in a shared store for as long as the task is kept."""
        delays, level = iter(RETRY_DELAYS), logging.ERROR
        while True:
            try:
                return await self.save(task)
            except Exception as error:  # noqa: BLE001 - it is logged
                log_error(logger, level, "the end of a task cannot be saved", error)
            delay, level = next(delays, None), logging.DEBUG
            if delay is None and (self._registry.shared is None or task.remaining(time.time()) <= 0):
                return None
            await asyncio.sleep(delay or RETRY_DELAYS[-1])

    async def _store(self) -> None:
        """Store the current record; one call at a time, so that the newest record is stored last."""
        async with self._saving:
            shared = self._registry.shared
            for _ in range(TRIES):
                task = self.begun
                if task is self._saved:
                    return
                if self._saved is not None and self._saved.ended:
                    self.task = self._saved  # it was ended elsewhere, and stays so
                elif shared is None:
                    await self._registry.store.save(task)
                    self._saved = task
                    return
                elif (version := await self._replace(shared, task)) is None:
                    self._adopt(await shared.load(task.id))
                else:
                    self._saved, self._version = task, version
                    return
            raise StoreError("other processes keep changing the task; try again later")

    async def _replace(self, shared: SharedTasks, task: Task) -> int | None:
        """Store a record that several processes share; it counts for the share of the client that began the task."""
        with stored_for_client(client_of(self.request)):
            return await shared.replace(task, self._version)

    async def look(self) -> bool:
        """Take over what other processes have stored, and store what is not; return whether there was anything."""
        async with self._saving:
            before = self._version
            shared = self._registry.shared
            if shared is not None and self._saved is not None and not self._saved.ended:
                self._adopt(await shared.load(self._saved.id))
        await self._store()
        return self._version != before

    def _adopt(self, stored: Task | None) -> None:
        """Take over a stored record: answers go to the handler, and the end of the task ends the handler too."""
        own = self.begun
        if stored is None:
            stored = tasks.fail_task(own, InternalError(LOST).to_wire(), time.time())
        version = stored.version
        if version == self._version or (self._saved is not None and self._saved.ended):
            return
        # A store that has lost its last writes gets them again.
        was_stored, self._version = own is self._saved and version > self._version, version
        self._saved = replace(stored, given={})
        if stored.ended or was_stored:
            self.task = self._saved
        else:
            self.task = tasks.input_received(own, stored.given, own.updated)
        for key, answer in stored.given.items():
            error: Json = answer.get("error")
            self._deliver(key, answer["result"] if error is None else RpcError.from_wire(error))
        if stored.ended and self.handle is not None:
            self.handle.cancel()
        self.notify_waiters()
        self._tell(self._saved)

    def notify_waiters(self) -> None:
        """Wake everything that waits for a change."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    async def set_status(self, message: str) -> None:
        """Set the status message, which is for people; wait while the client reads too slowly."""
        if self.task is not None:
            await self.save(tasks.set_status(self.task, message, time.time()))
            await self._connection.drain()

    async def ask(self, key: str, request: Mapping[str, Json], seconds: float | None) -> dict[str, Json]:
        """Ask the client for input and return its response, which comes by `tasks/update` or `tasks/result`.

        Raises `TaskCancelled` if the task has ended, `RequestTimeout`, or the error that the client answered with.
        """  # TASK-4, TASKX-3
        task = self.begun
        if task.ended:
            raise TaskCancelled(f"the task has ended: it is {task.status}")
        future: asyncio.Future[dict[str, Json]] = asyncio.get_running_loop().create_future()
        asked = tasks.require_input(task, key, request, time.time())
        self._answers[key] = future
        try:
            await self.save(asked)
            done, _ = await asyncio.wait({future}, timeout=seconds)
            if not done:
                text = f"no answer to '{key}' within {seconds or 0.0:.3g} s"
                raise RequestTimeout(text, elapsed=seconds or 0.0, kind="total")
            return future.result()
        finally:
            if not future.done() or future.exception() is not None:
                future.cancel()  # a later answer is ignored
            self._answers.pop(key, None)
            self.sent.discard(key)
            if self.task is not None and key in self.task.asked:
                await self.save(tasks.input_received(self.task, (key,), time.time()))

    async def answer(self, answers: Mapping[str, dict[str, Json] | McpError]) -> None:
        """Pass the client's input responses to the handler; responses to unknown keys are ignored."""  # TASKX-3
        task = self.begun
        known = {key: answer for key, answer in answers.items() if key in task.asked}
        try:
            if known:
                await self.save(tasks.input_received(task, known, time.time()))
        finally:
            for key, answer in known.items():
                self._deliver(key, answer)

    def _deliver(self, key: str, answer: dict[str, Json] | McpError) -> None:
        future = self._answers.get(key)
        if future is None or future.done():
            return
        if isinstance(answer, McpError):
            future.set_exception(answer)
        else:
            future.set_result(answer)


def _notify_session(task: Task, incoming: IncomingRequest, connection: Connection) -> None:
    """Send the status of a task to the session that created it, at revisions with that notification."""  # TASK-8
    peer, revision = incoming.engine, incoming.revision
    if tasks.STATUS in revision.methods and isinstance(peer, HandshakeServer) and peer.state is State.READY:
        peer.send_notification(tasks.STATUS, tasks.members(task, revision))
        connection.process_events()


def status_at(task: Task, revision: Revision) -> dict[str, Json]:
    """Return the status of a task with its result, at a revision."""
    result = None if task.result is None else result_at(task.result, revision)
    return tasks.outcome(task, revision, result)


def given_form(answer: dict[str, Json] | McpError) -> dict[str, Json]:
    """Return an answer to an input request as a task holds it until its handler takes it."""
    if not isinstance(answer, McpError):
        return {"result": answer}
    error = answer if isinstance(answer, RpcError) else InternalError(str(answer))
    return {"error": error.to_wire()}


def result_at(result: dict[str, Json], revision: Revision) -> dict[str, Json]:
    """Return the result of a task at a revision."""
    try:
        found: dict[str, Json] = convert(result, CALL, PayloadKind.RESULT, from_=LATEST, to=revision)
    except ConversionError as error:
        raise InternalError(INTERNAL_MESSAGE) from error
    return found


def session_of(incoming: IncomingRequest) -> str | None:
    """Return the key of the session of a request, unique among processes; None at stateless revisions."""
    return incoming.engine.connection.key if incoming.revision.handshake else None
