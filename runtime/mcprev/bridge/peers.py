"""Held calls of a bridge in several processes: one reaches the process that holds the call by its inbox (MRTR-4, SEC-5).

The sealed state of a call names the worker that holds it. Another worker that gets the client's next request passes it on,
and answers with what comes back; of a worker that has ended, nothing comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from typing_extensions import override

from mcprev.bridge.introduction import sender_of
from mcprev.bridge.questions import ask_client
from mcprev.bridge.relay import BridgeState, Exchange, logger, wire_error
from mcprev.convert.rules import JsonObject, as_object
from mcprev.error_text import internal_error
from mcprev.errors import (
    ConversionError,
    InternalError,
    InvalidParams,
    Json,
    McpError,
    RpcError,
    StoreError,
    one_line,
)
from mcprev.protocol.connection_state import ConnectionState, IncomingRequest, NotificationReceived, Responder
from mcprev.revisions import revision_named
from mcprev.stores.leases import workers
from mcprev.wire.headers import Headers
from mcprev.wire.jsonrpc import Request
from mcprev.workers.worker import Worker

if TYPE_CHECKING:
    from mcprev.bridge.pair import Pair
    from mcprev.core.store import Store

GONE: Final = "the call that this request continues is over; send the request again without it"
UNASKABLE: Final = "the client cannot be asked: the process that has its request has ended"
LOOK: Final = 1.0
"""Seconds between two looks whether the worker that holds a call is alive."""
GRACE: Final = 5.0
"""Seconds for which a process that stops serves what others have passed on to it."""
LATE: Final = 5.0
"""Seconds for which the answer of another worker is awaited beyond the time that it has itself."""
Continue: TypeAlias = Callable[["ForwardedExchange", str], Awaitable[None]]
"""Answers a request of a client of another worker with the call that is held here under an id."""

Ask: TypeAlias = Callable[[str, Json, Callable[[], "str | None"]], Awaitable[dict[str, Json]]]
"""Asks a client of another worker on behalf of its request; the function says why that was cancelled. Raises `McpError`."""


@dataclass(frozen=True, slots=True)
class ForwardedAccess:
    """What is told of the token of a request of another worker."""

    client_id: Json


@dataclass(frozen=True, slots=True)
class ForwardedOrigin:
    """Who has sent a request to another worker, as that one has authenticated it."""

    principal: object
    access: ForwardedAccess
    share: None = None
    headers: Headers = field(default_factory=lambda: Headers({}))
    checking: bool = False


class Gone(InvalidParams):
    """The worker that a request is for has ended, or does not know what it is about."""

    def __init__(self, *, sent: bool) -> None:
        super().__init__(GONE)
        self.sent = sent
        """Whether that worker may have served it."""


class ForwardedRequest(IncomingRequest):
    """A request of a client of another worker."""

    def __init__(self, told: JsonObject, answered: asyncio.Future[JsonObject], ask: Ask) -> None:
        params = told.get("params")
        request = Request(
            told["id"],
            str(told["method"]),
            None if params is None else as_object(params),
            ForwardedOrigin(told.get("principal"), ForwardedAccess(told.get("client"))),
        )
        responder = Responder(ConnectionState())
        revision = revision_named(str(told["revision"]))
        super().__init__(responder, revision, request, None, as_object(told.get("capabilities")))
        self.level: str | None = told.get("level")
        self._answered = answered
        self.ask: Ask = ask
        """Asks the client, by the worker that has the request."""

    @override
    def respond(self, result: dict[str, Json] | None, error: dict[str, Json] | None = None) -> None:
        """Hand over the result or the error, once."""
        if self.open:
            self.open = False
            if not self._answered.done():
                self._answered.set_result({"result": result} if error is None else {"error": error})


class ForwardedExchange(Exchange):
    """The exchange of a request of a client of another worker, where also its messages are recorded."""

    def __init__(
        self, state: BridgeState, incoming: ForwardedRequest, tell: Callable[[JsonObject], Awaitable[None]]
    ) -> None:
        self.relay = state
        self.incoming: IncomingRequest = incoming
        self.session = ""
        self._outlet = None
        self._tell = tell
        self._told: asyncio.Task[None] | None = None

    @override
    def send(self, method: str, params: dict[str, Json] | None) -> None:
        """Send the client a notification by its worker, after those before it."""
        if self.incoming.open:
            self._told = self.relay.start(self._send(self._told, {"method": method, "params": params}))

    async def _send(self, before: asyncio.Task[None] | None, message: JsonObject) -> None:
        if before is not None:
            await asyncio.wait({before})
        await self._tell(message)

    async def sent(self) -> None:
        """Wait until every notification is on its way."""
        if self._told is not None:
            await asyncio.wait({self._told})

    @override
    def answer(self, result: dict[str, Json]) -> None:
        """Answer the request."""
        self.incoming.respond(result)

    @override
    def fail(self, error: BaseException, pair: Pair | None) -> None:
        """Answer the request with an error of the client's revision."""
        self.incoming.fail(wire_error(error, self.incoming.method, pair))


class Serving:
    """What one worker does for another one, in the current task."""

    def __init__(self) -> None:
        self.task = cast("asyncio.Task[Any]", asyncio.current_task())
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
        }
        message: JsonObject = {**target, "key": key, "request": request}
        self._forwarded[key] = exchange
        try:
            answer = await self._answer(to, message, self._state.bounds.call + LATE)
        except StoreError as error:
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

    async def _answer(self, to: int, message: JsonObject, wait: float) -> Json:
        """Return what another worker answers. Raises `Gone` if it has ended or does not answer in time, and `StoreError`."""
        worker, clock = self._worker, asyncio.get_running_loop().time
        began = clock()
        asking = asyncio.ensure_future(worker.ask([to], message, wait=wait))
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=LOOK)
                if not asking.done() and not await worker.is_alive(to):
                    raise Gone(sent=True)
            answers = asking.result()
        finally:
            asking.cancel()
        if to not in answers:
            raise Gone(sent=clock() - began >= wait)  # else it has closed its inbox
        return answers[to]

    async def _take(self, message: dict[str, Json]) -> Json:
        """Serve a message of another worker."""
        key = str(message.get("key"))
        match message.get("kind"):
            case "continue" | "session":
                return await self._serve(key, message)
            case "question":
                return await self._ask_here(key, message)
            case "notification":
                params = message.get("params")
                found = None if params is None else as_object(params)
                notified = NotificationReceived(
                    revision_named(str(message["revision"])), str(message["method"]), found
                )
                self.take_notification(str(message["session"]), notified)
            case "note":
                exchange = self._forwarded.get(key)
                if exchange is not None:
                    params = message.get("params")
                    exchange.send(str(message["method"]), None if params is None else as_object(params))
            case "cancel":
                serving = self._serving.get(key)
                if serving is not None:
                    serving.cancel(message.get("reason"))
            case "login":
                self.login_ended(str(message["server"]))
            case _:
                pass
        return None

    async def _cancel(self, to: int, key: str, reason: str | None) -> None:
        """Cancel what another worker does under a key, with the reason of whoever has cancelled it."""
        await self._worker.tell(to, {"kind": "cancel", "key": key, "reason": reason})

    async def _serve(self, key: str, message: dict[str, Json]) -> Json:
        answered: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        sender, held = int(message["from"]), str(message.get("held"))

        async def ask(method: str, params: Json, cancelled: Callable[[], str | None]) -> dict[str, Json]:
            about = token_urlsafe(12)
            question: JsonObject = {
                "kind": "question",
                "key": key,
                "question": about,
                "method": method,
                "params": params,
            }
            try:
                answer = as_object(await self._answer(sender, question, self._state.bounds.user + LATE))
            except (Gone, StoreError) as error:
                raise InternalError(UNASKABLE) from error
            except asyncio.CancelledError:
                self._state.start(self._cancel(sender, about, cancelled()))
                raise
            if isinstance(answer.get("error"), dict):
                raise RpcError.from_wire(as_object(answer["error"]))
            if not isinstance(answer.get("result"), dict):
                raise InternalError(UNASKABLE)
            return as_object(answer["result"])

        incoming = ForwardedRequest(as_object(message["request"]), answered, ask)

        async def tell(note: JsonObject) -> None:
            await self._worker.tell(sender, {"kind": "note", "key": key, **note})

        exchange = ForwardedExchange(self._state, incoming, tell)
        serving = self._serving[key] = Serving()

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
        except (McpError, ConversionError) as error:
            return {"error": wire_error(error, incoming.method, None)}
        else:
            return found
        finally:
            del self._serving[key]

    async def _ask_here(self, key: str, message: JsonObject) -> Json:
        """Ask the client of a request that another worker serves."""
        exchange, method = self._forwarded.get(key), str(message["method"])
        if exchange is None:
            return None
        about = str(message["question"])
        serving = self._serving[about] = Serving()
        try:
            result = await ask_client(
                self._state,
                exchange.connection,
                exchange.session,
                method,
                message.get("params"),
                exchange.request,
                cancelled=lambda: serving.reason,
            )
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
