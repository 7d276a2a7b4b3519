"""A client with a session, and its own connection to the server (LIFE-*, LOG-2, SUB-1, SUB-5, MRTR-5, MRTR-11).

Behind a server with sessions, what the server asks is asked of the client as it is. Behind a stateless server, each
request carries what the session said once, results that ask become requests in the session, and one listen stream
takes the place of subscriptions.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from mcprev.bridge.forwarded import ForwardedRequest
from mcprev.bridge.introduction import INITIALIZE, ClientIntroduction
from mcprev.bridge.opening import holds_behind
from mcprev.bridge.outages import Attempts
from mcprev.bridge.own_tasks import BridgedTasks, OwnTask
from mcprev.bridge.pair import Pair
from mcprev.bridge.progress import progress_back
from mcprev.bridge.questions import ask_client, can_be_asked, cancel_reason
from mcprev.bridge.relay import (
    LATER,
    Exchange,
    Outlet,
    Relay,
    unknown_between,
    wire_error,
    without_token,
)
from mcprev.bridge.rounds import Rounds
from mcprev.bridge.tasks import as_task, declared, follow_to_end, marked
from mcprev.bridge.tools import TOOL_LIST
from mcprev.bridge.upstream import Upstream, logger
from mcprev.bridge.upstreams import Owner
from mcprev.bridge.visit import Visit
from mcprev.bridge.watching import LISTS, Watcher
from mcprev.client.tasks import CALL
from mcprev.conversion import PayloadKind
from mcprev.conversion.rules import JsonObject, as_list
from mcprev.core.connection import Connection
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
from mcprev.protocol import tasks
from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived
from mcprev.protocol.endpoint import ServerProtocol
from mcprev.protocol.engine import DEFAULT_LEVEL, SEVERITY, declares
from mcprev.protocol.handshake import INITIALIZED, HandshakeServer, State
from mcprev.protocol.subscriptions import BY_METHOD, CHANGES, Changed, resource_error
from mcprev.protocol.tasks import Support
from mcprev.revisions import LATEST, Revision
from mcprev.server.context import Context
from mcprev.wire.meta_keys import LOG_LEVEL
from mcprev_types import Direction

SET_LEVEL: Final = "logging/setLevel"
SUBSCRIBE: Final = "resources/subscribe"
UNSUBSCRIBE: Final = "resources/unsubscribe"


class Wording(Protocol):
    """How a client is told and asked what its server says, where it knows the server's names by others."""

    def tells(self, method: str, params: Json) -> bool:
        """Take note of a notification, and return whether the client is told."""
        ...

    def to_client(self, method: str, params: Json) -> Json:
        """Return the params of a message as the client knows them."""
        ...

    def answer(self, method: str, result: JsonObject) -> JsonObject:
        """Return an answer of the client as the server knows it."""
        ...


class AsItIs:
    """What the only server of a bridge says is told as it is."""

    def tells(self, method: str, params: Json) -> bool:
        """Return True."""
        del method, params
        return True

    def to_client(self, method: str, params: Json) -> Json:
        """Return the params."""
        del method
        return params

    def answer(self, method: str, result: JsonObject) -> JsonObject:
        """Return the answer."""
        del method
        return result


class SessionPeer:
    """One client with a session. Receives what the server of its upstream sends."""

    def __init__(
        self,
        relay: Relay,
        tasks: BridgedTasks,
        connection: Connection,
        client: ClientIntroduction,
        name: str,
        wording: Wording | None = None,
    ) -> None:
        """`name` is that of the session in recordings. None: the client is told everything as it is."""
        self._relay = relay
        self._wording: Wording = AsItIs() if wording is None else wording
        self._tasks = tasks
        self.connection: Connection = connection
        """The connection of the client."""
        self.watches: bool = True
        """Whether this process tells the client of changes at a stateless server."""
        protocol = connection.protocol
        assert isinstance(protocol, ServerProtocol)
        self._engine: HandshakeServer = protocol.session
        self._client = client
        self.name = name
        """The name of the session in recordings."""
        self.outlet: Outlet = Outlet(relay, connection, self._engine, name)
        """Sends notifications to the client."""
        self._upstream: Upstream | None = None
        self._lock, self._subscribing = asyncio.Lock(), asyncio.Lock()
        self._level: str | None = None
        self._subscribed: dict[str, None] = {}
        self._watcher = Watcher(relay, client, self._tell, self._all_changed)
        self._attempts = Attempts(relay.upstreams.outage)
        self._returning: asyncio.Task[None] | None = None
        """Opens the connection to the server again."""
        self._ended = False
        self._early: list[tuple[str, Json]] = []
        """The notifications that wait until the client has confirmed the session."""
        self._asked_before = False
        self.serving: int = 0
        """The requests that are being answered."""
        self._introduced: tuple[Revision, JsonObject] | None = None
        """What the client has said of itself, as requests to a server of this stateless revision carry it."""
        connection.closed.add_done_callback(self._end_if_gone)

    # -- the upstream -----------------------------------------------------------------------------------------

    @property
    def open_upstream(self) -> Upstream | None:
        """The connection to the server, if it is open."""
        found = self._upstream
        return found if found is not None and found.alive and found.server is not None else None

    def absent(self) -> None:
        """Take note that the session begins without the server: when it is there, it is told all, and the client of it."""
        self._asked_before = True
        self._return_later(None)

    async def upstream(self) -> Upstream:
        """Return the connection to the server; one that was lost is replaced first. Raises `McpError`."""
        upstream = self._upstream
        if upstream is not None and upstream.alive and not self._lock.locked():
            return upstream
        async with self._lock:
            upstream = self._upstream
            if upstream is not None and upstream.alive:
                return upstream
            self._refuse_gone()
            if upstream is not None:
                self._upstream = None
                self._relay.upstreams.give(upstream, keep=False)
            try:
                return await self._open()
            except BaseException as error:
                if self._asked_before and isinstance(error, McpError | ConversionError):
                    self._return_later(error)
                raise

    async def _open(self) -> Upstream:
        upstreams = self._relay.upstreams
        owner = Owner(self._client.owner or self.connection)
        upstream = await upstreams.take(self, self._client, lambda: self, owner=lambda: owner)
        try:
            self._refuse_gone()
            self._upstream = self.outlet.source = upstream
            upstream.unused_since = asyncio.get_running_loop().time()
            if self._asked_before:
                await self._restore(upstream)
            elif not upstream.revision.handshake and self.watches:
                self._watcher.watch(upstream, self._subscribed)
        except BaseException:
            self._upstream = None
            upstreams.give(upstream, keep=False)
            raise
        self._asked_before = True
        self._attempts.heard()
        return upstream

    def lost(self, upstream: Upstream) -> None:
        """Open the connection to the server again, also for a client that only listens."""  # SUB-5
        if upstream is self._upstream:
            self._return_later(upstream.connection.error)

    def _return_later(self, error: Exception | None) -> None:
        running = self._returning is not None and not self._returning.done()
        if self.watches and not (running or self._over):
            self._returning = self._relay.start(self._return(error))

    async def _return(self, error: Exception | None) -> None:
        """Try to reach the server again, until it is there or the client has gone."""
        while True:
            await self._attempts.wait(error)
            if self._over or (self._upstream is not None and self._upstream.alive):
                return
            try:
                await self.upstream()
            except (McpError, ConversionError) as failure:
                error = failure
                logger.debug("a session is still without its server: %s", one_line(failure))
            else:
                return

    @property
    def _over(self) -> bool:
        """Whether nobody listens here any more: the client has gone, or another process has its session."""
        return self._ended or self.connection.error is not None

    @property
    def _gone(self) -> bool:
        """Whether the client is gone, and nothing that was read from it is left to be answered."""  # STDIO-6
        return self.connection.error is not None and not (self.serving or holds_behind(self.connection))

    def _refuse_gone(self) -> None:
        if self._gone:
            raise ConnectionLost("the client has disconnected", in_flight=False, retry_safe=True)

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
            self._all_changed(upstream)
        elif self.watches:
            self._watcher.watch(upstream, self._subscribed, missed=True)

    def _all_changed(self, upstream: Upstream) -> None:
        """Tell the client that everything may have changed which it is told of."""
        for kind in LISTS:
            if declares(upstream.introduction.capabilities, CHANGES[kind].capability):
                self._tell(CHANGES[kind].method, None)
        for uri in self._subscribed:
            self._tell(CHANGES[Changed.RESOURCE].method, {"uri": uri})

    def end(self) -> None:
        """Give the connection to the server back."""
        upstream, self._upstream = self._upstream, None
        self._ended = True
        self._watcher.cancel()
        self._attempts.end()
        if self._returning is not None:
            self._returning.cancel()
        if upstream is not None:
            self._relay.upstreams.give(upstream, keep=False)

    def _end_if_gone(self, _: object = None) -> None:
        if self._gone:
            self.end()

    def remembered(self) -> JsonObject:
        """Return what another process has to know to continue the session."""
        upstream, client = self._upstream, self._client
        runs = upstream is not None and not upstream.revision.handshake
        offers = upstream is not None and upstream.introduction.offers_tasks
        said: JsonObject = {"params": client.params, "level": self._level, "tasks": runs and offers}
        return {**said, "subscribed": self.subscribed}

    @property
    def subscribed(self) -> list[Json]:
        """The resources that the client has subscribed to, as the server calls them."""
        return [*self._subscribed]

    async def prepare(self) -> None:
        """Connect to the server. Raises `McpError`."""
        await self.upstream()

    reconnect = prepare

    def continue_as(self, remembered: JsonObject) -> None:
        """Continue the session of a process that has ended: the server is told this, and the client that all may have changed."""
        self.follow(remembered)
        self._subscribed = dict.fromkeys(str(uri) for uri in as_list(remembered.get("subscribed")) or ())
        self._asked_before = True
        upstream, self._upstream = self._upstream, None
        if upstream is not None:  # tasks have used it; it was not told what that of the other process was
            self._relay.upstreams.give(upstream, keep=False)

    def follow(self, remembered: JsonObject) -> None:
        """Serve requests of a session that another process holds with the log level that it has there."""
        level = remembered.get("level")
        self.set_level(level if isinstance(level, str) else None)

    def set_level(self, level: str | None) -> None:
        """Keep the log level for when there is a connection."""
        self._level = level

    # -- requests of the client ----------------------------------------------------------------------------

    async def serve(self, exchange: Exchange) -> None:
        """Answer a request. Raises `McpError`."""  # HTTP-23
        self.serving += 1
        serve = self._introduce if exchange.incoming.method == INITIALIZE else self._serve
        try:
            await serve(exchange)
        except SessionExpired:
            await serve(exchange)  # the server has not executed it
        finally:
            self.serving -= 1
            if self.connection.error is not None:
                self._end_if_gone()

    async def _introduce(self, exchange: Exchange) -> None:
        """Connect to the server as this client, and say what the server says of itself."""
        upstream = await self.upstream()
        result = upstream.introduction.initialized(self.pair(upstream), self._relay.own)
        exchange.recorded({"id": exchange.incoming.id, "result": result})
        self._engine.open_with(exchange.incoming, result)

    async def _serve(self, exchange: Exchange) -> None:
        upstream, method = await self.upstream(), exchange.incoming.method
        if self.connection.shared:
            exchange.reads(upstream)
        server = upstream.introduction
        pair = self._relay.pair(self._client.revision, server.revision)
        try:
            if self._tasks.serves(exchange.incoming, pair, server):
                await self._tasks.answer(exchange, self._context(exchange))
                return
            if not server.revision.handshake:
                await self._serve_stateless(Visit(exchange, upstream, pair))
                return
            params, visit = exchange.params(pair, None), Visit(exchange, upstream, pair)
            if pair.same or method != CALL:
                result = await visit.call(params, total=self._relay.bounds.call)
            else:
                result = await self._call_tool(visit, params)
            if method in (SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE):
                self._remember(exchange.incoming)
            exchange.answer(pair.to_client(result, method, PayloadKind.RESULT))
        except SessionExpired:
            raise
        except (McpError, ConversionError) as error:
            exchange.fail(error, pair)

    def _context(self, exchange: Exchange) -> Context:
        return self._tasks.context(exchange, self._client.capabilities_at(LATEST))

    async def _call_tool(self, visit: Visit, params: dict[str, Json] | None) -> dict[str, Json]:
        """Call a tool; one that can only run as a task is called as one, whose end this waits for."""
        upstream, total = visit.upstream, self._relay.bounds.call
        if await self._tasks.tools.support(upstream, (params or {}).get("name"), total) is Support.REQUIRED:
            params = as_task(params)
        result = await visit.call(params, total=total)
        if tasks.TASK not in (params or {}):
            return result
        return await follow_to_end(
            upstream, result, None, None, total, self._relay.start, caller=visit.exchange
        )

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
        if upstream is None or upstream.in_listen_stream(notified):
            return
        pair = self.pair(upstream)
        if BY_METHOD.get(method) is Changed.TOOLS:
            self._tasks.tools.forget()
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
        if not self._wording.tells(method, params):
            return
        params = self._wording.to_client(method, params)
        if self._engine.state is State.READY:
            self.outlet.send(method, params, None)
        elif len(self._early) < LATER:
            self._early.append((method, params))

    async def asked(self, asked: IncomingRequest, /) -> None:
        """Ask the client what the server asks, and answer the server."""
        upstream, pair = self._upstream, None
        try:
            if upstream is None:
                raise InternalError("the client has disconnected")
            pair = self.pair(upstream)
            if not pair.has(asked.method):
                raise unknown_between(asked.method, pair)
            params = pair.to_client(without_token(asked), asked.method, PayloadKind.PARAMS)
            caller = upstream.caller_of(asked.origin)
            about = None if caller is None else caller.request
            if isinstance(caller, Exchange):
                caller.has_asked()
            if about is None and not can_be_asked(self.connection):
                about = next(
                    (each for each in upstream.requests() if isinstance(each, ForwardedRequest)), None
                )
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
        upstream, progress, question = self._upstream, None, self._wording.to_client(method, params)
        if asked is not None and asked.token is not None and upstream is not None:
            progress = progress_back(asked, self.pair(upstream), upstream.connection)
        if isinstance(about, ForwardedRequest) and about.open:
            result = await about.ask(method, question, lambda: cancel_reason(asked), progress)
        else:
            result = await ask_client(
                self._relay,
                self.connection,
                self.name,
                method,
                question,
                about,
                progress=progress,
                cancelled=lambda: cancel_reason(asked),
            )
        return self._wording.answer(method, result)

    # -- a stateless server --------------------------------------------------------------------------------

    def _stamp(self, upstream: Upstream) -> JsonObject:
        """Return the `_meta` of each request to a stateless server; what the client said once is converted once."""
        server = upstream.introduction
        if self._introduced is None or self._introduced[0] is not server.revision:
            self._introduced = server.revision, self._client.stamp(server.revision)
        stamp = dict(self._introduced[1])
        if declares(server.capabilities, "logging"):
            stamp[LOG_LEVEL] = self._level or DEFAULT_LEVEL
        return stamp

    async def _serve_stateless(self, visit: Visit) -> None:
        exchange, upstream, pair = visit.exchange, visit.upstream, visit.pair
        incoming = exchange.incoming
        params = incoming.params or {}
        if incoming.method == SET_LEVEL:
            level = params.get("level")
            if not (isinstance(level, str) and level in SEVERITY):
                raise InvalidParams(f"Invalid params: not a log level: {level!r:.40}")
            if not declares(upstream.introduction.capabilities, "logging"):
                raise MethodNotFound(f"Method not found: {SET_LEVEL}: the server sends no log messages")
            self._level = level
            exchange.answer({})
        elif incoming.method in (SUBSCRIBE, UNSUBSCRIBE):
            uri = params.get("uri")
            if not declares(upstream.introduction.capabilities, CHANGES[Changed.RESOURCE].capability):
                raise MethodNotFound(f"Method not found: {incoming.method}")
            wrong = resource_error(uri, self._subscribed)
            if wrong is not None:
                raise wrong
            async with self._subscribing:
                if incoming.method == SUBSCRIBE:
                    await self._watcher.add(upstream, self._subscribed, str(uri))
                    self._remember(incoming)
                else:
                    self._remember(incoming)
                    confirmed = self._watcher.watch(upstream, self._subscribed)
                    await asyncio.wait({confirmed}, timeout=self._relay.bounds.wait)
            exchange.answer({})
        else:
            server = upstream.introduction
            stamp = (
                declared(self._stamp(upstream), server) if incoming.method == CALL else self._stamp(upstream)
            )
            sent = exchange.params(pair, stamp)
            if self._tasks.wanted(incoming, pair, server):
                await self._run_task(visit, sent or {})
                return
            rounds = Rounds(self._client, visit, self.ask)
            fetch, results = partial(rounds.until_complete, sent, stamp), self._relay.results
            result = await (
                fetch()
                if results is None
                else results.of(exchange, pair, sent, fetch, lambda: not rounds.asked)
            )
            found = pair.to_client(result, incoming.method, PayloadKind.RESULT)
            exchange.answer(marked(found, pair, server) if incoming.method == TOOL_LIST else found)

    async def _run_task(self, visit: Visit, params: dict[str, Json]) -> None:
        """Answer a call with a task of the bridge, which makes it."""  # TASK-2
        visit.upstream.users += 1

        async def work(own: OwnTask) -> JsonObject:
            own.end_with_session()
            try:
                return await own.until_complete(own.call, params)
            finally:
                self._relay.upstreams.give(visit.upstream, keep=False)

        await self._tasks.run(visit, self._context(visit.exchange), work)
