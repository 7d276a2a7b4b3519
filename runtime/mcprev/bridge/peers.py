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
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from typing_extensions import override

from mcprev.bridge.relay import Exchange, Relay, wire_error
from mcprev.convert.rules import JsonObject, as_object
from mcprev.error_text import internal_error
from mcprev.errors import ConversionError, InternalError, InvalidParams, Json, McpError, RpcError, StoreError
from mcprev.protocol.connection_state import ConnectionState, IncomingRequest, NotificationReceived, Responder
from mcprev.revisions import revision_named
from mcprev.wire.headers import Headers
from mcprev.wire.jsonrpc import Request
from mcprev.workers.worker import Worker

if TYPE_CHECKING:
    from mcprev.bridge.pair import Pair
    from mcprev.core.store import Store

GONE: Final = "the call that this request continues is over; send the request again without it"
LOOK: Final = 1.0
"""Seconds between two looks whether the worker that holds a call is alive."""
Continue: TypeAlias = Callable[["ForwardedExchange", str], Awaitable[None]]
"""Answers a request of a client of another worker with the call that is held here under an id."""

Ask: TypeAlias = Callable[[str, Json], Awaitable[dict[str, Json]]]
"""Asks a client of another worker on behalf of its request. Raises `McpError`."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Who has sent a request to another worker, as that one has authenticated it."""

    principal: object
    share: None = None
    headers: Headers = field(default_factory=lambda: Headers({}))
    checking: bool = False
    access: None = None


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
            Sender(told.get("principal")),
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
        self, relay: Relay, incoming: ForwardedRequest, tell: Callable[[JsonObject], Awaitable[None]]
    ) -> None:
        self.relay = relay
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


class Peers:
    """The workers of one bridge, as one of them sees them."""

    def __init__(self, store: Store, relay: Relay, continue_: Continue) -> None:
        self._relay = relay
        self._continue = continue_
        self._worker = Worker(store, self._take, self._lapse, getattr(store, "release", None))
        self._forwarded: dict[str, Exchange] = {}
        """The requests that others answer, by key."""
        self._serving: dict[str, asyncio.Task[object]] = {}
        self.sessions: Callable[[ForwardedExchange, str], Awaitable[bool]] | None = None
        """Serves a request of a session that is held here, by the key of the session; returns False if it is not."""
        self.take_notification: Callable[[str, NotificationReceived], None] = lambda _key, _notified: None
        """Takes a notification of the client of a session that is held here."""
        self.lapsed: Callable[[], None] = lambda: None
        """Called when other workers take this one for dead."""
        self.ask_client: Callable[[Exchange, str, Json], Awaitable[dict[str, Json]]] | None = None
        """Asks the client of a request that another worker serves."""

    @property
    def number(self) -> int:
        """The number of this worker; 0 before it has one."""
        return self._worker.number

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

    async def forward(self, to: int, target: JsonObject, exchange: Exchange, principal: str | None) -> None:
        """Answer a request by another worker; `target` says what it is for there. Raises `Gone` if that has ended."""
        incoming, key = exchange.incoming, token_urlsafe(12)
        request: JsonObject = {
            "id": incoming.id,
            "method": incoming.method,
            "params": incoming.params,
            "revision": incoming.revision.name,
            "capabilities": incoming.capabilities,
            "level": incoming.level,
            "principal": principal,
        }
        message: JsonObject = {**target, "key": key, "request": request}
        worker, total = self._worker, self._relay.bounds.call
        self._forwarded[key] = exchange
        asking = asyncio.ensure_future(worker.ask([to], message, wait=total))
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=LOOK)
                if not asking.done() and not await worker.is_alive(to):
                    raise Gone(sent=True)
            answer = asking.result().get(to)
        except StoreError as error:
            raise internal_error(error, may_have_run=True) from error
        except asyncio.CancelledError:
            self._relay.start(worker.tell(to, {"kind": "cancel", "key": key}))
            raise
        finally:
            asking.cancel()
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
                return await self._ask_here(key, str(message["method"]), message.get("params"))
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
                    serving.cancel()
            case _:
                pass
        return None

    async def _serve(self, key: str, message: dict[str, Json]) -> Json:
        answered: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        sender, held = int(message["from"]), str(message.get("held"))

        async def ask(method: str, params: Json) -> dict[str, Json]:
            question: JsonObject = {"kind": "question", "key": key, "method": method, "params": params}
            found = await self._worker.ask([sender], question, wait=self._relay.bounds.user)
            answer = as_object(found.get(sender))
            if isinstance(answer.get("error"), dict):
                raise RpcError.from_wire(as_object(answer["error"]))
            if not isinstance(answer.get("result"), dict):
                raise InternalError("the client cannot be asked: the process that has its request has ended")
            return as_object(answer["result"])

        incoming = ForwardedRequest(as_object(message["request"]), answered, ask)

        async def tell(note: JsonObject) -> None:
            await self._worker.tell(sender, {"kind": "note", "key": key, **note})

        exchange = ForwardedExchange(self._relay, incoming, tell)
        self._serving[key] = cast("asyncio.Task[object]", asyncio.current_task())
        try:
            if message["kind"] == "continue":
                await self._continue(exchange, held)
            elif self.sessions is None or not await self.sessions(exchange, str(message["session"])):
                return None
            found = await answered
            await exchange.sent()
        except (McpError, ConversionError) as error:
            return {"error": wire_error(error, incoming.method, None)}
        else:
            return found
        finally:
            del self._serving[key]

    async def _ask_here(self, key: str, method: str, params: Json) -> Json:
        """Ask the client of a request that another worker serves."""
        exchange = self._forwarded.get(key)
        if exchange is None or self.ask_client is None:
            return None
        try:
            return {"result": await self.ask_client(exchange, method, params)}
        except RpcError as error:
            return {"error": dict(error.raw or error.to_wire())}
        except McpError as error:
            return {"error": wire_error(error, method, None)}

    def _lapse(self, _lost: bool) -> None:  # noqa: FBT001 - as the worker calls it
        """Let go of sessions; calls that are held here are found again by no one, and end at their deadline."""
        self.lapsed()

    async def aclose(self) -> None:
        """End the inbox."""
        with suppress(StoreError):
            await self._worker.aclose()
