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
from mcprev.errors import ConversionError, InternalError, InvalidParams, Json, McpError, StoreError
from mcprev.protocol.connection_state import ConnectionState, IncomingRequest, Responder
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


@dataclass(frozen=True, slots=True)
class Sender:
    """Who has sent a request to another worker, as that one has authenticated it."""

    principal: object
    share: None = None
    headers: Headers = field(default_factory=lambda: Headers({}))
    checking: bool = False
    access: None = None


class ForwardedRequest(IncomingRequest):
    """A request of a client of another worker."""

    def __init__(self, told: JsonObject, answered: asyncio.Future[JsonObject]) -> None:
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
        self._worker = Worker(store, self._take, self._lapsed, getattr(store, "release", None))
        self._forwarded: dict[str, Exchange] = {}
        """The requests that others answer, by key."""
        self._serving: dict[str, asyncio.Task[object]] = {}

    @property
    def number(self) -> int:
        """The number of this worker; 0 before it has one."""
        return self._worker.number

    async def start(self) -> None:
        """Take a number, unless that was done. Raises `InternalError` if the store cannot be reached."""
        try:
            await self._worker.start()
        except StoreError as error:
            raise InternalError(
                "the store that the workers of this bridge share cannot be reached; try again later"
            ) from error

    async def forward(self, to: int, held: str, exchange: Exchange, principal: str | None) -> None:
        """Answer a request with the call that another worker holds. Raises `InvalidParams` if that has ended."""
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
        message: JsonObject = {"kind": "continue", "key": key, "held": held, "request": request}
        worker, total = self._worker, self._relay.bounds.call
        self._forwarded[key] = exchange
        asking = asyncio.ensure_future(worker.ask([to], message, wait=total))
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=LOOK)
                if not asking.done() and not await worker.is_alive(to):
                    raise InvalidParams(GONE)
            answer = asking.result().get(to)
        except StoreError as error:
            raise InternalError(
                "the store that the workers of this bridge share cannot be reached; try again later"
            ) from error
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
            raise InvalidParams(GONE)

    async def _take(self, message: dict[str, Json]) -> Json:
        """Serve a message of another worker."""
        key = str(message.get("key"))
        match message.get("kind"):
            case "continue":
                return await self._serve(key, message)
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
        incoming = ForwardedRequest(as_object(message["request"]), answered)
        sender = int(message["from"])

        async def tell(note: JsonObject) -> None:
            await self._worker.tell(sender, {"kind": "note", "key": key, **note})

        exchange = ForwardedExchange(self._relay, incoming, tell)
        self._serving[key] = cast("asyncio.Task[object]", asyncio.current_task())
        try:
            await self._continue(exchange, str(message["held"]))
            found = await answered
            await exchange.sent()
        except (McpError, ConversionError) as error:
            return {"error": wire_error(error, incoming.method, None)}
        else:
            return found
        finally:
            del self._serving[key]

    def _lapsed(self, lost: bool) -> None:  # noqa: FBT001 - as the worker calls it
        """Do nothing: calls that are held here are found again by no one, and end at their deadline."""

    async def aclose(self) -> None:
        """End the inbox."""
        with suppress(StoreError):
            await self._worker.aclose()
