"""Held calls of a bridge in several processes: one reaches the process that holds the call by its inbox (MRTR-4, SEC-5).

The sealed state of a call names the worker that holds it. Another worker that gets the client's next request passes it on,
and answers with what comes back; of a worker that has ended, nothing comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcprev.bridge.answers import LATE, LOOK, SERVES, Gone, answer_of
from mcprev.bridge.forwarded import ForwardedExchange, ForwardedRequest
from mcprev.bridge.introduction import sender_of
from mcprev.bridge.notes import Notes
from mcprev.bridge.progress import Listener
from mcprev.bridge.questions import ask_client
from mcprev.bridge.relay import BridgeState, Exchange, logger, wire_error
from mcprev.conversion.rules import JsonObject, as_list, as_object
from mcprev.core.interfaces import client_of
from mcprev.error_text import internal_error
from mcprev.errors import (
    InternalError,
    Json,
    McpError,
    RpcError,
    StoreError,
    one_line,
)
from mcprev.protocol.connection_state import NotificationReceived
from mcprev.revisions import revision_named
from mcprev.sharing.leases import workers
from mcprev.sharing.worker import Worker

if TYPE_CHECKING:
    from mcprev.core.store import Store

UNASKABLE: Final = "the client cannot be asked: the process that has its request has ended"
GRACE: Final = 5.0
"""Seconds for which a process that stops serves what others have passed on to it."""
ENDED: Final = "the process that waits for it has ended"
"""Why what was done for a process is cancelled that has ended."""
EARLY: Final = 1_000
"""The number of cancellations that are kept for messages which they have overtaken."""
Continue: TypeAlias = Callable[["ForwardedExchange", str], Awaitable[None]]
"""Answers a request of a client of another worker with the call that is held here under an id."""


class Serving:
    """What one worker does for another one, in the current task."""

    def __init__(self, worker: int, request: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task: asyncio.Task[Any] = task
        self.worker = worker
        """For whom."""
        self.request = request
        """The key of the request that it is for."""
        self.reason: str | None = None
        """Why it was cancelled."""
        self.cancelled: Callable[[], None] = lambda: None
        """Called when it is cancelled, with the reason known."""

    def cancel(self, reason: Json) -> None:
        """Cancel it, with the reason of whoever has."""
        self.reason = reason if isinstance(reason, str) else None
        self.cancelled()
        self.task.cancel()


class Peers:
    """The workers of one bridge, as one of them sees them."""

    def __init__(self, store: Store, state: BridgeState) -> None:
        self._state = state
        self._store = store
        self._worker = Worker(store, self._take, self._lapse, getattr(store, "release", None))
        self._forwarded: dict[str, Exchange] = {}
        """The requests that others answer, by key."""
        self._serving: dict[str, Serving] = {}
        """What is done here for others, by key: requests are served, clients are asked."""
        self._closing = False
        self._progress: dict[str, Listener] = {}
        """Who takes the progress of the answers to questions that others ask, by key."""
        self._early: dict[str, None] = {}
        """The keys of what was cancelled before it came."""
        self._watching: asyncio.Task[None] | None = None
        self.continue_held: Continue | None = None
        """Answers a request with a call that is held here, by the id of the call."""
        self.sessions: Callable[[ForwardedExchange, str], Awaitable[bool]] | None = None
        """Serves a request of a session that is held here, by the key of the session; returns False if it is not."""
        self.take_notification: Callable[[str, NotificationReceived], None] = lambda _key, _notified: None
        """Takes a notification of the client of a session that is held here."""
        self.lapsed: Callable[[], None] = lambda: None
        """Called when other workers take this one for dead."""
        self.login_ended: Callable[[str], None] = lambda _server: None
        """Called with the name of a server at which a login of a user has ended at another worker."""

    @property
    def number(self) -> int:
        """The number of this worker; 0 before it has one."""
        return self._worker.number

    @property
    def has_lease(self) -> bool:
        """Whether others believe that this worker is alive."""
        return self._worker.has_lease

    async def start(self) -> None:
        """Take a number, unless that was done. Raises `InternalError` if the store cannot be reached."""
        try:
            await self._worker.start()
        except StoreError as error:
            raise internal_error(error, may_have_run=False) from error

    async def is_alive(self, number: int) -> bool:
        """Return whether a worker has not ended, as of the last second. Raises `StoreError`."""
        return await self._worker.is_alive(number)

    async def notify(self, to: int, session: str, notified: NotificationReceived) -> None:
        """Pass a notification of a client on to the worker that holds its session. Raises `StoreError`."""
        message: JsonObject = {
            "kind": "notification",
            "session": session,
            "revision": notified.revision.name,
            "method": notified.method,
            "params": notified.params,
        }
        await self._worker.send(to, message)

    async def tell_login(self, server: str) -> None:
        """Tell the other workers that a login of a user at a server has ended."""
        try:
            others = await workers(self._store)
        except StoreError as error:
            logger.warning("the other processes of the bridge cannot be told of a login: %s", one_line(error))
            return
        for other in others.keys() - {self.number}:
            await self._worker.tell(other, {"kind": "login", "server": server})

    async def forward(self, to: int, target: JsonObject, exchange: Exchange) -> None:
        """Answer a request by another worker; `target` says what it is for there. Raises `Gone` if that has ended."""
        incoming, key = exchange.incoming, token_urlsafe(12)
        principal, client = sender_of(incoming) or (None, None)
        request: JsonObject = {
            "id": incoming.id,
            "method": incoming.method,
            "params": incoming.params,
            "revision": incoming.revision.name,
            "capabilities": incoming.capabilities,
            "level": incoming.level,
            "principal": principal,
            "client": client,
            "from": client_of(incoming),
        }
        message: JsonObject = {**target, "key": key, "request": request}
        self._forwarded[key] = exchange
        try:
            answer = await answer_of(self._worker, to, message, key, self._state.bounds.call + LATE)
        except Gone:
            await self._withdraw(key)
            raise
        except StoreError as error:
            self._state.start(self._cancel(to, key, ENDED))
            raise internal_error(error, may_have_run=True) from error
        except asyncio.CancelledError:
            self._state.start(self._cancel(to, key, (exchange.request or incoming).cancel_reason))
            raise
        finally:
            del self._forwarded[key]
        found = as_object(answer)
        if isinstance(found.get("error"), dict):
            exchange.refuse(as_object(found["error"]))
        elif isinstance(found.get("result"), dict):
            exchange.answer(as_object(found["result"]))
        else:
            raise Gone(sent=False)

    async def _take(self, message: dict[str, Json]) -> Json:
        """Serve a message of another worker."""
        key = str(message.get("key"))
        match message.get("kind"):
            case "continue" | "session":
                return await self._serve(key, message)
            case "question":
                return await self._ask_here(key, message)
            case "notification":
                revision, method = revision_named(str(message["revision"])), str(message["method"])
                notified = NotificationReceived(revision, method, _params(message))
                self.take_notification(str(message["session"]), notified)
            case "note":
                exchange = self._forwarded.get(key)
                if exchange is not None:
                    for method, params in _notes(message):
                        exchange.send(method, params)
            case "progress":
                listener = self._progress.get(key)
                if listener is not None:
                    for method, params in _notes(message):
                        listener(method, params or {})
            case "cancel":
                self._take_cancellation(key, message.get("reason"))
            case kind if kind == SERVES:
                return str(message["about"]) in self._serving
            case "login":
                self.login_ended(str(message["server"]))
            case _:
                pass
        return None

    async def _cancel(self, to: int, key: str, reason: str | None) -> None:
        """Cancel what another worker does under a key, with the reason of whoever has cancelled it."""
        await self._worker.tell(to, {"kind": "cancel", "key": key, "reason": reason})

    def _take_cancellation(self, key: str, reason: Json) -> None:
        serving = self._serving.get(key)
        if serving is not None:
            serving.cancel(reason)
            return
        self._early[key] = None
        if len(self._early) > EARLY:
            del self._early[next(iter(self._early))]

    def _begin(self, key: str, worker: int, request: str) -> Serving:
        """Do something for a request of a worker in the current task, until that or the worker has ended."""
        serving = self._serving[key] = Serving(worker, request)
        if self._watching is None or self._watching.done():
            self._watching = self._state.start(self._watch())
        return serving

    async def _withdraw(self, request: str) -> None:
        """Let a client be asked nothing more for a request whose worker is gone, before the request is answered."""
        asked = [each for each in self._serving.values() if each.request == request]
        for each in asked:
            each.cancel(ENDED)
        tasks = {each.task for each in asked}
        if tasks:
            await asyncio.wait(tasks)

    async def _watch(self) -> None:
        """Cancel what is done for workers that have ended: nobody waits for it."""
        while self._serving:
            await asyncio.sleep(LOOK)
            for worker in {each.worker for each in self._serving.values()}:
                with suppress(StoreError):
                    if not await self._worker.is_alive(worker):
                        for each in tuple(self._serving.values()):
                            if each.worker == worker:
                                each.cancel(ENDED)

    async def _serve(self, key: str, message: dict[str, Json]) -> Json:
        answered: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        sender, held = int(message["from"]), str(message.get("held"))

        incoming = ForwardedRequest(
            as_object(message["request"]), answered, partial(self._ask_there, sender, key)
        )

        async def tell(notes: list[JsonObject]) -> None:
            await self._worker.tell(sender, {"kind": "note", "key": key, "notes": notes})

        if key in self._early:
            del self._early[key]
            return None
        exchange = ForwardedExchange(self._state, incoming, tell)
        serving = self._begin(key, sender, key)

        def why() -> None:
            incoming.cancel_reason = serving.reason

        serving.cancelled = why
        try:
            if message["kind"] == "continue":
                if self.continue_held is None:
                    return None
                await self.continue_held(exchange, held)
            elif (
                self._closing
                or self.sessions is None
                or not await self.sessions(exchange, str(message["session"]))
            ):
                return None
            found = await answered
            await exchange.sent()
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is answered
            return {"error": wire_error(error, incoming.method, None)}
        else:
            return found
        finally:
            del self._serving[key]

    async def _ask_there(
        self,
        to: int,
        key: str,
        method: str,
        params: Json,
        cancelled: Callable[[], str | None],
        progress: Listener | None,
        /,
    ) -> dict[str, Json]:
        """Ask the client whose request another worker has under a key. Raises `McpError`."""
        about = token_urlsafe(12)
        question: JsonObject = {"kind": "question", "key": key, "question": about}
        question |= {"method": method, "params": params, "progress": progress is not None}
        if progress is not None:
            self._progress[about] = progress
        try:
            answer = as_object(
                await answer_of(self._worker, to, question, about, self._state.bounds.user + LATE)
            )
        except (Gone, StoreError) as error:
            raise InternalError(UNASKABLE) from error
        except asyncio.CancelledError:
            self._state.start(self._cancel(to, about, cancelled()))
            raise
        finally:
            self._progress.pop(about, None)
        if isinstance(answer.get("error"), dict):
            raise RpcError.from_wire(as_object(answer["error"]))
        if not isinstance(answer.get("result"), dict):
            raise InternalError(UNASKABLE)
        return as_object(answer["result"])

    async def _ask_here(self, key: str, message: JsonObject) -> Json:
        """Ask the client of a request that another worker serves."""
        exchange, method = self._forwarded.get(key), str(message["method"])
        about, sender = str(message["question"]), int(message["from"])
        if exchange is None or about in self._early:
            self._early.pop(about, None)
            return None
        serving = self._begin(about, sender, key)

        async def tell(notes: list[JsonObject]) -> None:
            await self._worker.tell(sender, {"kind": "progress", "key": about, "notes": notes})

        progress = Notes(self._state, tell)
        try:
            result = await ask_client(
                self._state,
                exchange.connection,
                exchange.session,
                method,
                message.get("params"),
                exchange.request,
                progress=progress.send if message.get("progress") is True else None,
                cancelled=lambda: serving.reason,
            )
            await progress.sent()
        except RpcError as error:
            return {"error": dict(error.raw or error.to_wire())}
        except McpError as error:
            return {"error": wire_error(error, method, None)}
        else:
            return {"result": result}
        finally:
            del self._serving[about]

    def _lapse(self, _lost: bool) -> None:  # noqa: FBT001 - as the worker calls it
        """Let go of sessions; calls that are held here are found again by no one, and end at their deadline."""
        self.lapsed()

    async def aclose(self) -> None:
        """Answer what others have passed on, within some seconds, then end the inbox; sessions are not served meanwhile."""
        self._closing = True
        serving = {each.task for each in self._serving.values()}
        if serving:
            await asyncio.wait(serving, timeout=GRACE)
        with suppress(StoreError):
            await self._worker.aclose()


def _notes(message: JsonObject) -> list[tuple[str, JsonObject | None]]:
    """Return the method and the params of each notification in a message."""
    notes = map(as_object, as_list(message.get("notes")) or ())
    return [(str(note["method"]), _params(note)) for note in notes]


def _params(message: JsonObject) -> JsonObject | None:
    params = message.get("params")
    return None if params is None else as_object(params)
