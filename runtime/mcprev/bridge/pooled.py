"""Stateless clients: their calls at a stateless server, and what they share at one with sessions (MRTR-1..7, SUB-2..6).

At a server with sessions, a call that may be answered by a question holds an upstream exclusively. When the server asks, the
upstream call stays open as a `HeldCall`, and the client gets a result that asks; the repetition of its request finds the
call by a sealed state, which is bound to the principal, the method and the params.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Hashable
from secrets import token_urlsafe
from typing import Final, cast

from mcprev.bridge.introduction import ClientIntroduction
from mcprev.bridge.pair import Pair, Rule
from mcprev.bridge.relay import (
    LOG,
    Exchange,
    Relay,
    progress_to,
    refuse_question,
    unknown_between,
    wire_error,
    without_token,
)
from mcprev.bridge.sessions import SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE
from mcprev.bridge.upstreams import Busy, Upstream, logger
from mcprev.convert import PayloadKind
from mcprev.convert.rules import JsonObject, as_list, as_object
from mcprev.core.interfaces import principal_of
from mcprev.errors import (
    INTERNAL_ERROR,
    URL_ELICITATION_REQUIRED,
    ConversionError,
    InternalError,
    InvalidParams,
    Json,
    McpError,
    RequestTimeout,
    RpcError,
    SessionExpired,
    one_line,
)
from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived
from mcprev.protocol.engine import SEVERITY, declares
from mcprev.protocol.mrtr import RESPONSES, STATE, input_required, is_input_required
from mcprev.protocol.subscriptions import (
    ACKNOWLEDGED,
    BY_METHOD,
    CHANGES,
    LISTEN,
    Changed,
    accepted_filter,
    wants,
)
from mcprev.wire.meta_keys import SERVER_INFO, SUBSCRIPTION_ID

_ANSWERERS: Final = ("elicitation", "sampling", "roots")
_ALTERNATE: Final = "InputRequiredResult"
_HELD: Final = "bridge"
"""The member of a sealed state that names a held call."""
_WRAPPED: Final = "server"
"""The member of a sealed state that holds the state of the server."""
_STATELESS: Final = "stateless"
"""The key of upstreams of a server without sessions, which all clients of a revision share."""
PING: Final = "ping"
_SETTLE: Final = 5.0
"""Seconds that a server has to answer a ping after a call that was cancelled."""
_GONE: Final = "the call that this request continues is over; make the call again from its beginning"


def _first(key: Hashable) -> object:
    """Return what the key of an upstream begins with: whom it is for."""
    return cast("tuple[object, ...]", key)[0]


def _is_for_one_call(key: Hashable) -> bool:
    return type(_first(key)) is object


class Pooled:
    """Receives what the server of an upstream for stateless clients sends."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self.upstream: Upstream | None = None
        self.listens: list[Listen] = []
        """The open listen streams of clients at a server with sessions."""
        self._subscribed: Counter[str] = Counter()

    def notified(self, notified: NotificationReceived) -> None:
        """Pass log messages to the call that they belong to, and changes to the streams that want them."""
        upstream, method, params = self.upstream, notified.method, notified.params or {}
        if upstream is None or SUBSCRIPTION_ID in as_object(params.get("_meta")):
            return  # what belongs to a listen stream has come with it
        change = BY_METHOD.get(method)
        if change is not None:
            for listen in tuple(self.listens):
                listen.changed(change, method, params)
            return
        caller = upstream.caller_of(notified.origin) or upstream.holder
        request = None if caller is None else caller.request
        if caller is None or request is None:
            logger.debug(
                "'%s' of the server belongs to no request of a client; it is dropped", one_line(method)
            )
            return
        pair = self._relay.pair(request.revision, upstream.revision)
        if method == LOG and not _wants_level(request, params.get("level")):
            return
        if pair.has(method):
            caller.send(method, pair.to_client(notified.params, method, PayloadKind.PARAMS))

    async def asked(self, asked: IncomingRequest, /) -> None:
        """Pass a question to the call that holds the upstream."""
        holder = None if self.upstream is None else self.upstream.holder
        if holder is None:
            refuse_question(asked)
        else:
            await holder.asked(asked)

    async def subscribe(self, upstream: Upstream, uri: str, *, more: int) -> None:
        """Count a subscription of a resource; subscribe with the first, unsubscribe with the last. Raises `McpError`."""
        before = self._subscribed[uri]
        self._subscribed[uri] += more
        method = SUBSCRIBE if more > 0 and not before else UNSUBSCRIBE if not self._subscribed[uri] else None
        if not self._subscribed[uri]:
            del self._subscribed[uri]
        if method is not None:
            try:
                await upstream.call(method, {"uri": uri}, total=self._relay.bounds.wait)
            except McpError:
                if more > 0:
                    self._subscribed[uri] -= more
                raise


def _wants_level(request: IncomingRequest, level: object) -> bool:
    """Return whether a request asked for log messages of a level."""
    return request.level is not None and SEVERITY.get(str(level), 0) >= SEVERITY[request.level]


class Listen:
    """An open listen stream of a client at a server with sessions."""

    def __init__(self, exchange: Exchange, pair: Pair, accepted: JsonObject) -> None:
        self._exchange = exchange
        self._pair = pair
        self.accepted = accepted

    def begin(self) -> None:
        """Acknowledge what the stream carries."""
        self._send(ACKNOWLEDGED, {"notifications": self.accepted})

    def changed(self, kind: Changed, method: str, params: JsonObject) -> None:
        """Send a change that the stream carries."""
        if wants(self.accepted, kind, cast("str | None", params.get("uri"))):
            self._send(
                method, cast("JsonObject", self._pair.to_client(params or {}, method, PayloadKind.PARAMS))
            )

    def _send(self, method: str, params: JsonObject) -> None:
        meta = {**as_object(params.get("_meta")), SUBSCRIPTION_ID: self._exchange.incoming.id}
        self._exchange.send(method, {**params, "_meta": meta})


class HeldCall:
    """A call at a server with sessions, which stays open while the client of a stateless revision is asked."""

    def __init__(self, clients: StatelessClients, upstream: Upstream, exchange: Exchange, pair: Pair) -> None:
        self._clients = clients
        self._relay = clients.relay
        self.upstream = upstream
        self.pair = pair
        self.id: str = token_urlsafe(16)
        self.origin: object = clients.owner_of(exchange)
        """Who made the call, where nothing authenticates clients."""
        self._exchange: Exchange | None = exchange
        self._questions: dict[str, tuple[IncomingRequest, asyncio.Future[JsonObject]]] = {}
        self._count = 0
        self._changed = asyncio.Event()
        self._deadline: asyncio.TimerHandle | None = None
        self._suspended_since: float | None = None
        self.task: asyncio.Task[dict[str, Json]] | None = None
        """The call to the server."""

    # -- for the upstream -------------------------------------------------------------------------------------

    @property
    def request(self) -> IncomingRequest | None:
        """The request of the client that waits for the call now."""
        return None if self._exchange is None else self._exchange.incoming

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
        if self.task is None or self.task.done():
            refuse_question(asked)
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
            asked.respond(answer)
        except ConversionError as error:
            asked.fail(InvalidParams(f"Invalid params: {error}"))
        except McpError as error:
            asked.fail(wire_error(error, method, self.pair, to_client=False))

    # -- for the client's requests -------------------------------------------------------------------------

    def start(self, params: dict[str, Json] | None, *, progress: bool) -> None:
        """Send the call."""
        assert self._exchange is not None
        self._asked: dict[str, JsonObject] = {}
        call = self.upstream.call(
            self._exchange.incoming.method,
            params,
            total=self._relay.bounds.call,
            listener=progress_to(lambda: self._exchange, self.pair),
            progress=progress,
            caller=self,
        )
        self.task = asyncio.get_running_loop().create_task(call)
        self.task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[dict[str, Json]]) -> None:
        stray = task.cancelled() or isinstance(task.exception(), RequestTimeout)
        if self._deadline is not None:
            self._deadline.cancel()
        for _, future in self._questions.values():
            future.cancel()
        self._changed.set()
        self._clients.held.pop(self.id, None)
        self._clients.release(self.upstream, self, stray=stray)

    async def serve(self, exchange: Exchange, answers: JsonObject) -> None:
        """Answer a request of the client with the result of the call, or with what the server asks."""
        found = self._converted(answers)
        before, self._exchange, self._suspended_since = self._exchange, exchange, None
        if before is not None and before is not exchange:
            before.fail(InvalidParams("another request continues this call"), self.pair)
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
            self._clients.finish(exchange, self.pair, self.upstream, task)
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
                found[key] = cast("JsonObject", answer)
        return found

    def _open_questions(self) -> dict[str, JsonObject]:
        return {key: self._asked[key] for key, (_, future) in self._questions.items() if not future.done()}

    def _suspend(self, exchange: Exchange) -> None:
        """Answer with what the server asks; the client has some time to repeat its request with the answers."""
        clients = self._clients
        if self.id not in clients.held and len(clients.held) >= self._relay.bounds.held:
            self._relay.start(self.cancel())
            exchange.fail(Busy("too many calls wait for an answer of their user"), self.pair)
            return
        clients.held[self.id] = self
        incoming = exchange.incoming
        state = self._relay.states.seal(
            {_HELD: self.id, "round": self._count},
            method=incoming.method,
            params=incoming.params,
            principal=principal_of(incoming),
            now=time.time(),
        )
        self._exchange = None
        loop = asyncio.get_running_loop()
        self._suspended_since = loop.time()
        self._deadline = loop.call_later(self._relay.bounds.user, self._expire)
        exchange.answer(
            clients.completed(input_required(self._open_questions(), state), self.pair, self.upstream)
        )

    def _expire(self) -> None:
        logger.warning("a call is cancelled: its client did not come back with an answer")
        self._relay.start(self.cancel())

    async def cancel(self) -> None:
        """Cancel the call at the server."""
        task = self.task
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task})


class StatelessClients:
    """Serves the requests of stateless clients."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.held: dict[str, HeldCall] = {}
        """The calls that wait for a user, by id."""

    # -- owners --------------------------------------------------------------------------------------------

    def owner_of(self, exchange: Exchange) -> Hashable:
        """Return whom an upstream is for: a principal, the client of a pipe, or nobody in particular."""
        principal = principal_of(exchange.incoming)
        if principal is not None:
            return "principal", principal
        return exchange.connection if exchange.connection.lasting else None

    def _key(self, exchange: Exchange, client: ClientIntroduction) -> Hashable:
        owner = self.owner_of(exchange)
        upstreams = self.relay.upstreams
        if upstreams.introduction is not None and not upstreams.introduction.revision.handshake:
            return _STATELESS, client.revision.name, None if upstreams.attributes else owner
        if owner is None and not self.relay.shared:
            owner = object()
        return owner, client.revision.name, client.digest

    def keeps(self, upstream: Upstream) -> bool:
        """Return whether an upstream that is returned may be used again, which is not so if it was for one call."""
        return not _is_for_one_call(upstream.key)

    def release(self, upstream: Upstream, holder: HeldCall | Exchange | None, *, stray: bool) -> None:
        """Give back an upstream.

        After a call that was cancelled, `stray` messages about it may still come: the next call must not be taken for it.
        """
        owner = _first(upstream.key)
        if stray and holder is not None and upstream.alive and self.keeps(upstream):
            if owner not in (None, _STATELESS) and PING in upstream.revision.methods:
                upstream.settling = True
                self.relay.start(self._settle(upstream, holder))
                return
            upstream.retired = True
        self.relay.upstreams.give(upstream, holder=holder, keep=self.keeps(upstream))

    async def _settle(self, upstream: Upstream, holder: HeldCall | Exchange) -> None:
        """Give back an upstream when its server has answered a ping, and so has read what was sent before."""
        try:
            await upstream.call(PING, None, total=_SETTLE)
        except McpError:
            upstream.retired = True
        finally:
            upstream.settling = False
            self.relay.upstreams.give(upstream, holder=holder, keep=self.keeps(upstream))

    # -- requests ------------------------------------------------------------------------------------------

    async def discover(self, exchange: Exchange, client: ClientIntroduction, versions: list[str]) -> None:
        """Answer `server/discover`. Raises `McpError`."""
        upstreams, relay = self.relay.upstreams, self.relay
        known = upstreams.introduction
        if known is None or not _is_for_one_call(self._key(exchange, client)):
            upstream = await self._take(exchange, client)
            known = upstream.introduction
            upstreams.give(upstream, keep=self.keeps(upstream))
        pair = relay.pair(client.revision, known.revision)
        exchange.answer(known.discovered(pair, relay.own, versions))

    async def serve(self, exchange: Exchange, client: ClientIntroduction) -> None:
        """Answer any other request. Raises `McpError`."""
        upstreams, incoming = self.relay.upstreams, exchange.incoming
        if upstreams.era is None:
            upstream = await self._take(exchange, client)
            upstreams.give(upstream, keep=self.keeps(upstream))
        assert upstreams.introduction is not None
        if upstreams.introduction.revision.handshake:
            held = self._held_by(exchange)
            if held is not None:
                await held.serve(exchange, as_object((incoming.params or {}).get(RESPONSES)))
            elif incoming.method == LISTEN:
                await self._listen(exchange, client)
            elif self._may_be_asked(exchange):
                await self._serve_asking(exchange, client)
            else:
                try:
                    await self._serve_session(exchange, client)
                except SessionExpired:
                    await self._serve_session(exchange, client)  # the server has not executed it
        else:
            await self._serve_stateless(exchange, client)

    async def _take(
        self, exchange: Exchange, client: ClientIntroduction, holder: HeldCall | Exchange | None = None
    ) -> Upstream:
        upstreams, key = self.relay.upstreams, self._key(exchange, client)
        upstream = await upstreams.take(key, client, lambda: Pooled(self.relay), holder=holder)
        receiver = upstream.receiver
        assert isinstance(receiver, Pooled)
        receiver.upstream = upstream
        if not upstream.revision.handshake and _first(upstream.key) != _STATELESS and upstream in upstreams:
            # It was opened before anybody knew that the server keeps nothing of its clients.
            upstreams.rename(upstream, self._key(exchange, client))
        return upstream

    # -- at a server with sessions -------------------------------------------------------------------------

    def _held_by(self, exchange: Exchange) -> HeldCall | None:
        """Return the call that a request continues, or None for a first request. Raises `InvalidParams`."""
        incoming = exchange.incoming
        token = (incoming.params or {}).get(STATE)
        if token is None:
            return None
        payload = self.relay.states.open(
            token,
            method=incoming.method,
            params=incoming.params,
            principal=principal_of(incoming),
            now=time.time(),
        )
        held = self.held.get(str(as_object(payload).get(_HELD)))
        if held is None or held.origin != self.owner_of(exchange):
            raise InvalidParams(_GONE)
        return held

    def _may_be_asked(self, exchange: Exchange) -> bool:
        incoming = exchange.incoming
        spec = incoming.revision.methods.get(incoming.method)
        asks = spec is not None and _ALTERNATE in spec.alternate_results
        return asks and any(name in incoming.capabilities for name in _ANSWERERS)

    async def _serve_session(self, exchange: Exchange, client: ClientIntroduction) -> None:
        """Serve a request that the server cannot answer with a question."""
        holder = exchange if exchange.incoming.level is not None else None
        upstream = await self._take(exchange, client, holder)
        pair, stray = self.relay.pair(client.revision, upstream.revision), False
        try:
            await self._set_level(exchange, upstream)
            params = exchange.params(pair, None)
            result = await exchange.call(upstream, pair, params, total=self.relay.bounds.call)
            exchange.answer(self._converted(exchange, pair, upstream, result))
        except SessionExpired:
            raise
        except (McpError, ConversionError) as error:
            stray = isinstance(error, RequestTimeout)
            self._fail(exchange, pair, upstream, error)
        except asyncio.CancelledError:
            stray = True
            raise
        finally:
            self.release(upstream, holder, stray=stray)

    async def _serve_asking(self, exchange: Exchange, client: ClientIntroduction) -> None:
        """Serve a request that the server may answer with questions, which hold the connection for it."""
        upstream = await self._take(exchange, client, exchange)
        pair = self.relay.pair(client.revision, upstream.revision)
        held = HeldCall(self, upstream, exchange, pair)
        upstream.holder = held
        try:
            await self._set_level(exchange, upstream)
            params = exchange.params(pair, None)
        except BaseException as error:
            self.relay.upstreams.give(upstream, holder=held, keep=self.keeps(upstream))
            if isinstance(error, (McpError, ConversionError)):
                self._fail(exchange, pair, upstream, error)
                return
            raise
        held.start(params, progress=exchange.incoming.token is not None)
        await held.serve(exchange, {})

    async def _set_level(self, exchange: Exchange, upstream: Upstream) -> None:
        """Set the level of a request at a server that has one for the session."""
        level = exchange.incoming.level
        if (
            level is None
            or level == upstream.level
            or not declares(upstream.introduction.capabilities, "logging")
        ):
            return
        await upstream.call(SET_LEVEL, {"level": level}, total=self.relay.bounds.wait)
        upstream.level = level

    def finish(
        self, exchange: Exchange, pair: Pair, upstream: Upstream, task: asyncio.Task[dict[str, Json]]
    ) -> None:
        """Answer a request with the outcome of its call."""
        try:
            if task.cancelled():
                raise InternalError("the call was cancelled")
            exchange.answer(self._converted(exchange, pair, upstream, task.result()))
        except (McpError, ConversionError) as error:
            self._fail(exchange, pair, upstream, error)

    def _fail(self, exchange: Exchange, pair: Pair, upstream: Upstream, error: McpError) -> None:
        """Answer with an error; one that asks for a visit of a URL becomes a result that asks for it."""
        found = self._visits(exchange, pair, error) if isinstance(error, RpcError) else None
        if found is None:
            exchange.fail(error, pair)
        else:
            exchange.answer(self.completed(found, pair, upstream))

    def _visits(self, exchange: Exchange, pair: Pair, error: RpcError) -> JsonObject | None:
        """Return the result that asks for what an error says that a user has to do first, if the client can be asked."""
        raw = error.raw
        asked = as_list(as_object(None if raw is None else raw.get("data")).get("elicitations")) or []
        modes = as_object(exchange.incoming.capabilities.get("elicitation"))
        if error.code != URL_ELICITATION_REQUIRED or raw is None:
            return None
        if not asked or "url" not in modes or not self._may_be_asked(exchange):
            text = " ".join([error.message, *(str(as_object(item).get("url")) for item in asked)])
            error.raw = {"code": INTERNAL_ERROR, "message": f"{text} ({Rule.URL_ERROR})"}
            return None
        method, questions = "elicitation/create", dict[str, JsonObject]()
        for number, item in enumerate(asked, 1):
            try:
                params = pair.to_client(item, method, PayloadKind.PARAMS)
            except ConversionError as wrong:
                logger.warning("an elicitation of the server cannot be converted: %s", one_line(wrong))
                return None
            questions[f"visit-{number}"] = {"method": method, "params": params}
        return input_required(questions, None)

    def _converted(
        self, exchange: Exchange, pair: Pair, upstream: Upstream, result: dict[str, Json]
    ) -> JsonObject:
        method = exchange.incoming.method
        found = cast("JsonObject", pair.to_client(result, method, PayloadKind.RESULT))
        return self.completed(found, pair, upstream)

    def completed(self, result: JsonObject, pair: Pair, upstream: Upstream) -> JsonObject:
        """Return a result with the name of the server, which every stateless result has."""  # MOD-7
        info = {SERVER_INFO: upstream.introduction.info_for(pair, self.relay.own)}
        return {**result, "_meta": {**info, **as_object(result.get("_meta"))}}

    async def _listen(self, exchange: Exchange, client: ClientIntroduction) -> None:
        """Serve a listen stream: subscribe to its resources, and send the changes that it carries."""  # SUB-2, SUB-3
        asked = (exchange.incoming.params or {}).get("notifications")
        if not isinstance(asked, dict):
            raise InvalidParams("Invalid params: notifications is missing")
        upstream = await self._take(exchange, client)
        receiver, pair = upstream.receiver, self.relay.pair(client.revision, upstream.revision)
        assert isinstance(receiver, Pooled)
        capabilities = upstream.introduction.capabilities
        capable = [kind for kind, change in CHANGES.items() if declares(capabilities, change.capability)]
        accepted = accepted_filter(cast("JsonObject", asked), capable)
        member, subscribed = CHANGES[Changed.RESOURCE].member, list[str]()
        listen = Listen(exchange, pair, accepted)
        try:
            for uri in accepted.get(member) or ():
                try:
                    await receiver.subscribe(upstream, uri, more=1)
                except RpcError as error:
                    logger.debug(
                        "the server does not let clients subscribe to '%s': %s",
                        one_line(uri),
                        one_line(error),
                    )
                else:
                    subscribed.append(uri)
            if member in accepted:
                accepted[member] = subscribed
            receiver.listens.append(listen)
            listen.begin()
            await asyncio.wait({upstream.connection.closed})
            exchange.answer(
                self.completed(
                    {"resultType": "complete", "_meta": {SUBSCRIPTION_ID: exchange.incoming.id}},
                    pair,
                    upstream,
                )
            )
        finally:
            if listen in receiver.listens:
                receiver.listens.remove(listen)
            self.relay.start(self._unlisten(receiver, upstream, subscribed))

    async def _unlisten(self, receiver: Pooled, upstream: Upstream, subscribed: list[str]) -> None:
        try:
            for uri in subscribed if upstream.alive else ():
                await receiver.subscribe(upstream, uri, more=-1)
        except McpError as error:
            logger.debug("a subscription could not be ended: %s", one_line(error))
        finally:
            self.relay.upstreams.give(upstream, keep=self.keeps(upstream))

    # -- at a stateless server -----------------------------------------------------------------------------

    async def _serve_stateless(self, exchange: Exchange, client: ClientIntroduction) -> None:
        incoming, upstreams = exchange.incoming, self.relay.upstreams
        holder = exchange if incoming.level is not None and not upstreams.attributes else None
        upstream = await self._take(exchange, client, holder)
        pair, stray = self.relay.pair(client.revision, upstream.revision), False
        try:
            stamp = None if pair.same else client.stamp(upstream.revision)
            params = self._unwrapped(exchange, exchange.params(pair, stamp))
            if incoming.method == LISTEN:
                result = await self._pass_stream(exchange, upstream, pair, params)
            else:
                result = await exchange.call(upstream, pair, params, total=self.relay.bounds.call)
            found = cast("JsonObject", pair.to_client(result, incoming.method, PayloadKind.RESULT))
            exchange.answer(self._wrapped(exchange, found))
        except (McpError, ConversionError) as error:
            stray = isinstance(error, RequestTimeout)
            exchange.fail(error, pair)
        except asyncio.CancelledError:
            stray = True
            raise
        finally:
            self.release(upstream, holder, stray=stray)

    async def _pass_stream(
        self, exchange: Exchange, upstream: Upstream, pair: Pair, params: dict[str, Json] | None
    ) -> dict[str, Json]:
        """Pass the notifications of a listen stream, and return its result, under the id of the client's request."""

        def named(found: JsonObject) -> JsonObject:
            meta = as_object(found.get("_meta"))
            if SUBSCRIPTION_ID not in meta:
                return found
            return {**found, "_meta": {**meta, SUBSCRIPTION_ID: exchange.incoming.id}}

        def take(method: str, found: dict[str, Json]) -> None:
            if pair.has(method):
                exchange.send(
                    method, named(cast("JsonObject", pair.to_client(found, method, PayloadKind.PARAMS)))
                )

        return named(await upstream.call(LISTEN, params, total=None, listener=take, caller=exchange))

    def _wrapped(self, exchange: Exchange, result: JsonObject) -> JsonObject:
        """Return a result whose state only this principal can send back; without principals, the result itself."""
        incoming, principal = exchange.incoming, principal_of(exchange.incoming)
        if principal is None or not is_input_required(result) or result.get(STATE) is None:
            return result
        sealed = self.relay.states.seal(
            {_WRAPPED: result[STATE]},
            method=incoming.method,
            params=incoming.params,
            principal=principal,
            now=time.time(),
        )
        return {**result, STATE: sealed}

    def _unwrapped(self, exchange: Exchange, params: dict[str, Json] | None) -> dict[str, Json] | None:
        """Return params with the state as the server gave it. Raises `InvalidParams` for that of another principal."""
        incoming, principal = exchange.incoming, principal_of(exchange.incoming)
        if principal is None or params is None or params.get(STATE) is None:
            return params
        payload = self.relay.states.open(
            params[STATE],
            method=incoming.method,
            params=incoming.params,
            principal=principal,
            now=time.time(),
        )
        return {**params, STATE: as_object(payload).get(_WRAPPED)}
