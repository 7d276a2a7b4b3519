"""Calls that stay open at a server with sessions while the client of a stateless revision is asked (MRTR-1..7, SEC-5).

When the server asks, the client gets a result that asks; the repetition of its request finds the call by a sealed state,
which is bound to the principal, the method and the params.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable
from secrets import token_urlsafe
from typing import Final, Protocol

from mcprev.bridge.pair import Pair
from mcprev.bridge.peers import Peers
from mcprev.bridge.progress import progress_to
from mcprev.bridge.relay import (
    Exchange,
    Relay,
    refuse_question,
    undeclared,
    unknown_between,
    wire_error,
    without_token,
)
from mcprev.bridge.tasks import follow_to_end
from mcprev.bridge.upstream import Caller, Upstream, logger
from mcprev.bridge.upstreams import LEAST, Busy, Owner
from mcprev.bridge.visit import Visit
from mcprev.conversion import PayloadKind
from mcprev.conversion.rules import JsonObject
from mcprev.core.interfaces import principal_of
from mcprev.core.shares import share_of
from mcprev.errors import (
    ConversionError,
    InternalError,
    InvalidParams,
    Json,
    McpError,
    RequestTimeout,
    RpcError,
    SessionExpired,
)
from mcprev.protocol import tasks
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.mrtr import input_required

HELD: Final = "bridge"
"""The member of a sealed state that names a held call."""


WORKER: Final = "worker"
"""The member that names the process which holds it; 0 where there is only one."""


class Keeper(Protocol):
    """Keeps the calls that wait for a user, and answers for those that are over."""

    relay: Relay
    held: dict[str, HeldCall]
    peers: Peers | None
    """The processes that serve the same clients; None if there is only this one."""

    def owner_of(self, exchange: Exchange) -> Hashable:
        """Return whom a request is from, where nothing authenticates clients."""
        ...

    def share_of(self, exchange: Exchange) -> Owner:
        """Return whose share of the connections those for a request count for."""
        ...

    def keeps(self, upstream: Upstream) -> bool:
        """Return whether an upstream that is returned may be used again."""
        ...

    def release(self, upstream: Upstream, holder: Caller | None, *, stray: bool) -> None:
        """Give back an upstream."""
        ...


class HeldCall:
    """A call at a server with sessions, which stays open while the client of a stateless revision is asked."""

    def __init__(self, clients: Keeper, visit: Visit, *, may_ask: bool = True) -> None:
        exchange = visit.exchange
        self._clients = clients
        self._may_ask = may_ask
        self._call_made = exchange.incoming
        self._relay = clients.relay
        self.upstream: Upstream = visit.upstream
        self.pair: Pair = visit.pair
        self.id: str = token_urlsafe(16)
        self.origin: object = clients.owner_of(exchange)
        """Who made the call, where nothing authenticates clients."""
        self.owner: object = clients.share_of(exchange).client
        """For whose share of the calls that wait for a user it counts."""
        self._exchange: Exchange | None = exchange
        self._questions: dict[str, tuple[IncomingRequest, asyncio.Future[JsonObject]]] = {}
        self._count = 0
        self._changed = asyncio.Event()
        self._deadline: asyncio.TimerHandle | None = None
        self._suspended_since: float | None = None
        self._gives_back = True
        """Whether the connection to the server has still to be given back."""
        self.task: asyncio.Task[dict[str, Json]] | None = None
        """The call to the server."""

    # -- for the upstream -------------------------------------------------------------------------------------

    @property
    def request(self) -> IncomingRequest | None:
        """The request of the client that waits for the call now."""
        return None if self._exchange is None else self._exchange.request

    @property
    def suspended_since(self) -> float | None:
        """The time since which it waits for the client to come back; None while the client waits."""
        return self._suspended_since

    def send(self, method: str, params: dict[str, Json] | None) -> None:
        """Send the client a notification if it waits; what nobody waits for is dropped."""
        if self._exchange is not None:
            self._exchange.send(method, params)

    async def asked(self, asked: IncomingRequest, /) -> None:
        """Keep a question until the client has answered it, then answer the server."""
        method = asked.method
        if self.task is None or self.task.done() or not self._may_ask or undeclared(asked, self._call_made):
            refuse_question(asked, self._call_made)
            return
        try:
            if not self.pair.has(method):
                raise unknown_between(method, self.pair)
            params = self.pair.to_client(without_token(asked), method, PayloadKind.PARAMS)
            self._count += 1
            key = f"question-{self._count}"
            future: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
            request: JsonObject = {"method": method} | ({} if params is None else {"params": params})
            self._questions[key] = asked, future
            self._asked[key] = request
            self._changed.set()
            try:
                answer = await future
            finally:
                self._questions.pop(key, None)
                self._asked.pop(key, None)
                self._give_back_if_over()
            asked.respond(answer)
        except ConversionError as error:
            asked.fail(InvalidParams(f"Invalid params: {error}"))
        except McpError as error:
            asked.fail(wire_error(error, method, self.pair, to_client=False))

    # -- for the client's requests -------------------------------------------------------------------------

    def start(self, method: str, params: dict[str, Json] | None, *, progress: bool) -> None:
        """Send the call; one that asks for a task waits for its end."""
        self._asked: dict[str, JsonObject] = {}
        self.task = asyncio.get_running_loop().create_task(self._call(method, params, progress=progress))
        self.task.add_done_callback(self._over)

    async def _call(self, method: str, params: dict[str, Json] | None, *, progress: bool) -> dict[str, Json]:
        total = self._relay.bounds.call
        result = await self.upstream.call(
            method,
            params,
            total=total,
            listener=progress_to(lambda: self._exchange, self.pair),
            progress=progress,
            caller=self,
        )
        if params is None or tasks.TASK not in params:
            return result
        return await follow_to_end(self.upstream, result, None, None, total, self._relay.start, caller=self)

    def _over(self, task: asyncio.Task[dict[str, Json]]) -> None:
        """Take note that the call has ended; what the server answered while the client was asked is kept for the client."""
        if self._suspended_since is not None and _answered(task):
            self._give_back_if_over()
        else:
            self._end()
        self._changed.set()

    def _give_back_if_over(self) -> None:
        """Give back the connection when the call has ended, and the client is asked for nothing any more."""
        task = self.task
        if self._gives_back and not self._questions and task is not None and task.done():
            self._gives_back = False
            stray = task.cancelled() or isinstance(task.exception(), RequestTimeout)
            self._clients.release(self.upstream, self, stray=stray)

    def _end(self) -> None:
        """Keep nothing any more of a call that has ended; the server is told that nobody answers its open questions."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._clients.held.pop(self.id, None)
        for _, future in self._questions.values():
            if not future.done():
                future.set_exception(InternalError("the call has ended, and its client was not asked"))
        self._give_back_if_over()

    async def serve(self, exchange: Exchange, answers: JsonObject) -> None:
        """Answer a request of the client with the result of the call, or with what the server asks.

        Raises `SessionExpired` if the server has not executed the call.
        """
        found = self._converted(answers)
        exchange.reads(self.upstream)
        before, self._exchange, self._suspended_since = self._exchange, exchange, None
        if before is not None and before is not exchange:
            before.fail(InvalidParams("another request already continues this call"), self.pair)
        if self._deadline is not None:
            self._deadline.cancel()
        task = self.task
        assert task is not None
        self._changed.set()
        try:
            for key, answer in found.items():
                self._questions[key][1].set_result(answer)
            while not task.done() and not self._open_questions() and self._exchange is exchange:
                self._changed.clear()
                await self._changed.wait()
        except asyncio.CancelledError:
            if self._exchange is exchange:
                await self.cancel()
            raise
        if self._exchange is not exchange:
            return
        if task.done():
            self._exchange = None
            self._end()
            if not (self._count or task.cancelled()) and isinstance(
                error := task.exception(), SessionExpired
            ):
                raise error
            Visit(exchange, self.upstream, self.pair).finish(task)
        else:
            self._suspend(exchange)

    def _converted(self, answers: JsonObject) -> dict[str, JsonObject]:
        """Return the answers to open questions at the server's revision; others are ignored. Raises `InvalidParams`."""
        found: dict[str, JsonObject] = {}
        for key, (asked, future) in self._questions.items():
            if key in answers and not future.done():
                try:
                    answer = self.pair.to_server(answers[key], asked.method, PayloadKind.RESULT)
                except ConversionError as error:
                    raise InvalidParams(f"Invalid params: the input response '{key}': {error}") from None
                found[key] = answer
        return found

    def _open_questions(self) -> dict[str, JsonObject]:
        return {key: self._asked[key] for key, (_, future) in self._questions.items() if not future.done()}

    def _suspend(self, exchange: Exchange) -> None:
        """Answer with what the server asks; the client has some time to repeat its request with the answers."""
        clients = self._clients
        if self.id not in clients.held and not self._has_room():
            self._relay.start(self.cancel())
            exchange.fail(
                Busy("too many calls are waiting for input from their users; try again later"), self.pair
            )
            return
        clients.held[self.id] = self
        incoming = exchange.incoming
        state = self._relay.states.seal(
            {
                HELD: self.id,
                "round": self._count,
                WORKER: 0 if clients.peers is None else clients.peers.number,
            },
            method=incoming.method,
            params=incoming.params,
            principal=principal_of(incoming),
            now=time.time(),
        )
        self._exchange = None
        loop = asyncio.get_running_loop()
        self._suspended_since = loop.time()
        self._deadline = loop.call_later(self._relay.bounds.user, self._expire)
        visit = Visit(exchange, self.upstream, self.pair)
        exchange.answer(visit.completed(input_required(self._open_questions(), state)))

    def _has_room(self) -> bool:
        """Return whether one more call of the client may wait for its user."""
        held, most = self._clients.held.values(), self._relay.bounds.held
        own = 0 if self.owner is None else sum(each.owner == self.owner for each in held)
        return len(held) < most and own < share_of(most, LEAST)

    def _expire(self) -> None:
        ended = self.task is not None and self.task.done()
        what = "the result of a call was dropped" if ended else "a call was cancelled"
        logger.warning("%s: its client did not send the request again with the input in time", what)
        self._relay.start(self.cancel())

    async def cancel(self) -> None:
        """Cancel the call at the server; of one that has ended, forget the result."""
        task = self.task
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task})
        self._end()


def _answered(task: asyncio.Task[dict[str, Json]]) -> bool:
    """Return whether the server has answered a call, with a result or an error."""
    return not task.cancelled() and (task.exception() is None or isinstance(task.exception(), RpcError))
