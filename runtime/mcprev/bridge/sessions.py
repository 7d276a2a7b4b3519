"""A client with a session, and its own connection to the server (LIFE-*, LOG-2, SUB-1, SUB-5, MRTR-5, MRTR-11).

Behind a server with sessions, what the server asks is asked of the client as it is. Behind a stateless server, each
request carries what the session said once, results that ask become requests in the session, and one listen stream
takes the place of subscriptions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final

from mcprev.bridge.introduction import ClientIntroduction
from mcprev.bridge.pair import Pair
from mcprev.bridge.relay import (
    LATER,
    Exchange,
    Outlet,
    Relay,
    unknown_between,
    wire_error,
    without_token,
)
from mcprev.bridge.upstream import Upstream, logger
from mcprev.bridge.watching import LISTS, Watcher
from mcprev.convert import PayloadKind
from mcprev.convert.rules import JsonObject, as_object
from mcprev.core.connection import Connection
from mcprev.core.input_requests import check_askable, unmet
from mcprev.errors import (
    ConnectionLost,
    ConversionError,
    InternalError,
    InvalidParams,
    Json,
    McpError,
    MethodNotFound,
    RpcError,
    SessionExpired,
    one_line,
)
from mcprev.protocol import mrtr
from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived
from mcprev.protocol.endpoint import ServerProtocol
from mcprev.protocol.engine import DEFAULT_LEVEL, SEVERITY, declares
from mcprev.protocol.handshake import INITIALIZED, HandshakeServer, State
from mcprev.protocol.subscriptions import (
    BY_METHOD,
    CHANGES,
    Changed,
    resource_error,
)
from mcprev.wire.meta_keys import LOG_LEVEL, SUBSCRIPTION_ID
from mcprev_types import Direction

SET_LEVEL: Final = "logging/setLevel"
SUBSCRIBE: Final = "resources/subscribe"
UNSUBSCRIBE: Final = "resources/unsubscribe"
CALL: Final = "tools/call"


class SessionPeer:
    """One client with a session. Receives what the server of its upstream sends."""

    def __init__(self, relay: Relay, connection: Connection, client: ClientIntroduction, name: str) -> None:
        self._relay = relay
        self._connection = connection
        protocol = connection.protocol
        assert isinstance(protocol, ServerProtocol)
        self._engine: HandshakeServer = protocol.session
        self._client = client
        self.name = name
        """The name of the session in recordings."""
        self.outlet: Outlet = Outlet(relay, connection, self._engine, name)
        """Sends notifications to the client."""
        self._upstream: Upstream | None = None
        self._lock = asyncio.Lock()
        self._level: str | None = None
        self._subscribed: dict[str, None] = {}
        self._watcher = Watcher(relay, client, self._tell, self._all_changed)
        self._early: list[tuple[str, Json]] = []
        """The notifications that wait until the client has confirmed the session."""
        self._asked_before = False
        connection.closed.add_done_callback(lambda _: self._ended())

    # -- the upstream -----------------------------------------------------------------------------------------

    async def upstream(self) -> Upstream:
        """Return the connection to the server; one that was lost is replaced first. Raises `McpError`."""
        async with self._lock:
            upstream = self._upstream
            if upstream is not None and upstream.alive:
                return upstream
            if self._connection.error is not None:
                raise ConnectionLost("the client is gone", in_flight=False, retry_safe=True)
            if upstream is not None:
                self._upstream = None
                self._relay.upstreams.give(upstream, keep=False)
            upstream = await self._relay.upstreams.take(self, self._client, lambda: self)
            if self._connection.error is not None:
                self._relay.upstreams.give(upstream, keep=False)
                raise ConnectionLost("the client is gone", in_flight=False, retry_safe=True)
            self._upstream = upstream
            if self._asked_before:
                await self._restore(upstream)
            elif not upstream.revision.handshake:
                self._watcher.watch(upstream, self._subscribed)
            self._asked_before = True
            return upstream

    def pair(self, upstream: Upstream) -> Pair:
        """Return the pair of this client's revision and that of a server."""
        return self._relay.pair(self._client.revision, upstream.revision)

    async def _restore(self, upstream: Upstream) -> None:
        """Tell a new connection's server what that of the lost one was told, and the client that all may have changed."""
        if upstream.revision.handshake:
            total = self._relay.bounds.wait
            if self._level is not None:
                with suppress(RpcError):
                    await upstream.call(SET_LEVEL, {"level": self._level}, total=total)
            for uri in tuple(self._subscribed):
                with suppress(RpcError):
                    await upstream.call(SUBSCRIBE, {"uri": uri}, total=total)
        else:
            self._watcher.watch(upstream, self._subscribed)
        self._all_changed(upstream)

    def _all_changed(self, upstream: Upstream) -> None:
        """Tell the client that everything may have changed which it is told of."""
        for kind in LISTS:
            if declares(upstream.introduction.capabilities, CHANGES[kind].capability):
                self._tell(CHANGES[kind].method, None)
        for uri in self._subscribed:
            self._tell(CHANGES[Changed.RESOURCE].method, {"uri": uri})

    def _ended(self) -> None:
        upstream, self._upstream = self._upstream, None
        self._watcher.cancel()
        if upstream is not None:
            self._relay.upstreams.give(upstream, keep=False)

    # -- requests of the client ----------------------------------------------------------------------------

    async def introduce(self, exchange: Exchange) -> None:
        """Answer `initialize`: connect to the server as this client, and say what the server says of itself."""
        upstream = await self.upstream()
        result = upstream.introduction.initialized(self.pair(upstream), self._relay.own)
        self._relay.recorded(
            self.name, Direction.SERVER_TO_CLIENT, {"id": exchange.incoming.id, "result": result}
        )
        self._engine.open_with(exchange.incoming, result)

    async def serve(self, exchange: Exchange) -> None:
        """Answer any other request. Raises `McpError`."""  # HTTP-23
        try:
            await self._serve(exchange)
        except SessionExpired:
            await self._serve(exchange)  # the server has not executed it

    async def _serve(self, exchange: Exchange) -> None:
        upstream = await self.upstream()
        pair, method = self.pair(upstream), exchange.incoming.method
        try:
            if not upstream.revision.handshake:
                await self._serve_stateless(exchange, upstream, pair)
                return
            result = await exchange.call(
                upstream, pair, exchange.params(pair, None), total=self._relay.bounds.call
            )
            self._remember(exchange.incoming)
            exchange.answer(pair.to_client(result, method, PayloadKind.RESULT))
        except SessionExpired:
            raise
        except (McpError, ConversionError) as error:
            exchange.fail(error, pair)

    def _remember(self, incoming: IncomingRequest) -> None:
        """Keep what the session has to be told again when the connection to the server is replaced."""
        params = incoming.params or {}
        uri, level = params.get("uri"), params.get("level")
        if incoming.method == SET_LEVEL and isinstance(level, str):
            self._level = level
        elif incoming.method == SUBSCRIBE and resource_error(uri, self._subscribed) is None:
            self._subscribed[str(uri)] = None
        elif incoming.method == UNSUBSCRIBE:
            self._subscribed.pop(str(uri), None)

    def notified_by_client(self, notified: NotificationReceived) -> None:
        """Pass a notification of the client to the server, if the server's revision has it."""
        upstream = self._upstream
        message: JsonObject = {"method": notified.method}
        if notified.params is not None:
            message["params"] = notified.params
        self._relay.recorded(self.name, Direction.CLIENT_TO_SERVER, message)
        if notified.method == INITIALIZED:
            early, self._early = self._early, []
            for method, params in early:
                self.outlet.send(method, params, None)
            return  # the server has got one of its own
        if upstream is None or not upstream.alive or not upstream.revision.handshake:
            return
        pair = self.pair(upstream)
        if pair.has(notified.method):
            upstream.notify(
                notified.method, pair.to_server(notified.params, notified.method, PayloadKind.PARAMS)
            )

    # -- what a server with sessions sends -----------------------------------------------------------------

    def notified(self, notified: NotificationReceived) -> None:
        """Pass a notification of the server to the client."""
        upstream, method, params = self._upstream, notified.method, notified.params
        if upstream is None or SUBSCRIPTION_ID in as_object((params or {}).get("_meta")):
            return  # what belongs to the listen stream has come with it
        pair = self.pair(upstream)
        if not pair.has(method):
            logger.debug(
                "'%s' of the server is dropped: %s has no such notification", one_line(method), pair.client
            )
            return
        found = pair.to_client(params, method, PayloadKind.PARAMS)
        caller = upstream.caller_of(notified.origin) if method not in BY_METHOD else None
        if caller is not None and caller.request is not None and caller.request.open:
            caller.send(method, found)
        else:
            self._tell(method, found)

    def _tell(self, method: str, params: Json) -> None:
        """Send the client a notification outside of its requests, once it has confirmed the session."""  # LIFE-7
        if self._engine.state is State.READY:
            self.outlet.send(method, params, None)
        elif len(self._early) < LATER:
            self._early.append((method, params))

    async def asked(self, asked: IncomingRequest, /) -> None:
        """Ask the client what the server asks, and answer the server."""
        upstream, pair = self._upstream, None
        try:
            if upstream is None:
                raise InternalError("the client is gone")
            pair = self.pair(upstream)
            if not pair.has(asked.method):
                raise unknown_between(asked.method, pair)
            params = pair.to_client(without_token(asked), asked.method, PayloadKind.PARAMS)
            caller = upstream.caller_of(asked.origin)
            about = None if caller is None else caller.request
            result = await self.ask(asked.method, params, about, asked)
            asked.respond(pair.to_server(result, asked.method, PayloadKind.RESULT))
        except ConversionError as error:
            asked.fail(InvalidParams(f"Invalid params: {error}"))
        except McpError as error:
            asked.fail(wire_error(error, asked.method, pair, to_client=False))

    async def ask(
        self,
        method: str,
        params: Json,
        about: IncomingRequest | None,
        asked: IncomingRequest | None = None,
    ) -> dict[str, Json]:
        """Send the client a request of its revision and return its result. Raises `McpError`.

        `about` is the client's request that it belongs to, `asked` that of a server with sessions.
        """
        connection, engine, seconds = self._connection, self._engine, self._relay.bounds.user
        channel = about if about is not None and about.open else None
        refusal = None if channel is None else connection.refuses(channel)
        if refusal is None and channel is None and not connection.can_reach():
            refusal = InternalError("the client cannot be asked now: it has no stream for that")
        if refusal is not None:
            raise refusal
        progress = asked is not None and asked.token is not None
        call = engine.call(
            method, params, connection.now(), idle=None, total=seconds, progress=progress, channel=channel,
            unchecked=True,
        )  # fmt: skip
        message: JsonObject = {"id": call.id, "method": method}
        if call.params is not None:
            message["params"] = call.params
        self._relay.recorded(self.name, Direction.SERVER_TO_CLIENT, message)

        def report(name: str, found: dict[str, Json]) -> None:
            assert asked is not None
            upstream = self._upstream
            if asked.open and upstream is not None:
                changed = self.pair(upstream).to_server(
                    {**found, "progressToken": asked.token}, name, PayloadKind.PARAMS
                )
                asked.engine.send_notification(name, changed, asked)
                upstream.connection.process_events()

        try:
            result = await connection.wait(
                call, report if progress else None, lambda: None if asked is None else asked.cancel_reason
            )
        except RpcError as error:
            answer: JsonObject = {"id": call.id, "error": dict(error.raw or error.to_wire())}
            self._relay.recorded(self.name, Direction.CLIENT_TO_SERVER, answer)
            raise
        self._relay.recorded(self.name, Direction.CLIENT_TO_SERVER, {"id": call.id, "result": result})
        return result

    # -- a stateless server --------------------------------------------------------------------------------

    def _stamp(self, upstream: Upstream) -> JsonObject:
        """Return the `_meta` of each request to a stateless server."""
        stamp = self._client.stamp(upstream.revision)
        if declares(upstream.introduction.capabilities, "logging"):
            stamp[LOG_LEVEL] = self._level or DEFAULT_LEVEL
        return stamp

    async def _serve_stateless(self, exchange: Exchange, upstream: Upstream, pair: Pair) -> None:
        incoming = exchange.incoming
        params = incoming.params or {}
        if incoming.method == SET_LEVEL:
            level = params.get("level")
            if not (isinstance(level, str) and level in SEVERITY):
                raise InvalidParams(f"Invalid params: not a log level: {level!r:.40}")
            self._level = level
            exchange.answer({})
        elif incoming.method in (SUBSCRIBE, UNSUBSCRIBE):
            uri = params.get("uri")
            if not declares(upstream.introduction.capabilities, CHANGES[Changed.RESOURCE].capability):
                raise MethodNotFound(f"Method not found: {incoming.method}")
            wrong = resource_error(uri, self._subscribed)
            if wrong is not None:
                raise wrong
            self._remember(incoming)
            confirmed = self._watcher.watch(upstream, self._subscribed)
            await asyncio.wait({confirmed}, timeout=self._relay.bounds.wait)
            if not confirmed.done():
                raise InternalError("the server behind the bridge did not confirm the subscription")
            exchange.answer({})
        else:
            stamp = self._stamp(upstream)
            result = await self._call_until_complete(exchange, upstream, pair, exchange.params(pair, stamp))
            exchange.answer(pair.to_client(result, incoming.method, PayloadKind.RESULT))

    async def _call_until_complete(
        self, exchange: Exchange, upstream: Upstream, pair: Pair, params: dict[str, Json] | None
    ) -> dict[str, Json]:
        """Call the server, with the answers of the client as often as it asks for some; return the last result."""
        total = self._relay.bounds.call
        for _ in range(mrtr.MAX_ROUNDS + 1):
            result = await exchange.call(upstream, pair, params, total=total)
            if not mrtr.is_input_required(result):
                return result
            found = await self._answers(exchange, upstream, pair, result)
            if isinstance(found, str):
                return self._unmet(exchange.incoming, found)
            params = mrtr.retry(params or {}, result, found)
        raise InternalError(f"the server asked for input more than {mrtr.MAX_ROUNDS} times")

    async def _answers(
        self, exchange: Exchange, upstream: Upstream, pair: Pair, result: dict[str, Json]
    ) -> dict[str, Json] | str:
        """Return the client's answers to the questions of a result, or why one cannot be asked. Raises `McpError`."""
        asked = mrtr.requests_of(result)
        capabilities = self._client.capabilities_at(upstream.revision)
        questions: dict[str, tuple[str, Json]] = {}
        for key, request in asked.items():
            method = str(request.get("method"))
            if check_askable(request, capabilities, pair.client) is not None or not pair.has(method):
                return unmet(request, pair.server)
            try:
                questions[key] = method, pair.to_client(request.get("params"), method, PayloadKind.PARAMS)
            except ConversionError as error:
                return f"{unmet(request, pair.server)} ({error})"
        async with asyncio.TaskGroup() as group:
            tasks = {
                key: group.create_task(_outcome(self.ask(method, params, exchange.incoming)))
                for key, (method, params) in questions.items()
            }
        answers: dict[str, Json] = {}
        for key, task in tasks.items():
            outcome = task.result()
            if isinstance(outcome, RpcError):
                raise RpcError(outcome.message, code=outcome.code, data=outcome.data)
            if isinstance(outcome, McpError):
                raise outcome
            answers[key] = pair.to_server(outcome, questions[key][0], PayloadKind.RESULT)
        return answers

    def _unmet(self, incoming: IncomingRequest, text: str) -> dict[str, Json]:
        """Return the result of a tool that asks what the client cannot be asked. Raises `InvalidParams` for other methods."""
        if incoming.method != CALL:
            raise InvalidParams(text)
        return {"resultType": "complete", "content": [{"type": "text", "text": text}], "isError": True}


async def _outcome(question: Awaitable[dict[str, Json]]) -> dict[str, Json] | McpError:
    """Return the answer to a question, or its error, so that others that are asked at the same time go on."""
    try:
        return await question
    except McpError as error:
        return error
