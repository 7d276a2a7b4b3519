"""Tasks that a bridge shows to clients whose revision has other tasks than the server's (TASK-1..8, TASKX-1..6).

Such a task is one of the bridge's own: it calls the server, follows the task that the server answers with, and asks the
client what the server asks meanwhile.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mcprev.bridge.introduction import ServerIntroduction
from mcprev.bridge.mixed_listen import MixedListen
from mcprev.bridge.pair import Pair, V
from mcprev.bridge.progress import progress_to
from mcprev.bridge.relay import Exchange, refuse_question, unknown_between, wire_error, without_token
from mcprev.bridge.tasks import cancel_call, follow_to_end, task_of, unrelated
from mcprev.bridge.tools import ServerTools
from mcprev.bridge.visit import Visit
from mcprev.client.tasks import CALL, CANCEL_TIMEOUT, LEAST, MOST
from mcprev.conversion import PayloadKind, convert
from mcprev.conversion.rules import JsonObject, as_object
from mcprev.core.input_requests import check_askable
from mcprev.errors import ConversionError, InternalError, InvalidParams, Json, McpError, RpcError
from mcprev.protocol import mrtr, tasks
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.durations import seconds_of
from mcprev.protocol.stateless import missing_capability, uncovered
from mcprev.protocol.subscriptions import LISTEN, TASK_IDS
from mcprev.revisions import LATEST, Revision, TaskSupport
from mcprev.server.context import Context
from mcprev.wire.meta_keys import CLIENT_CAPABILITIES, RELATED

if TYPE_CHECKING:
    from mcprev.server.service import Service
    from mcprev.server.task_manager import TaskManager


class BridgedTasks:
    """The tasks that a bridge shows to clients, one for each call that a server of another revision may take long for."""

    def __init__(self, server: Service | None = None) -> None:
        """Set the bridge that keeps the tasks; None where clients see none (`Pair.shows_tasks`)."""
        self._server = server
        self.tools: ServerTools = ServerTools()
        """The tools of the server."""

    @property
    def _manager(self) -> TaskManager:
        assert self._server is not None
        assert self._server.tasks is not None
        return self._server.tasks

    def serves(self, incoming: IncomingRequest, pair: Pair, server: ServerIntroduction) -> bool:
        """Return whether a request is about tasks of the bridge."""
        if pair.same or not pair.shows_tasks or not server.offers_tasks:
            return False
        if incoming.method == LISTEN:
            return self.in_filter(incoming, pair, server) and _wanted(incoming).keys() == {TASK_IDS}
        return incoming.method in tasks.METHODS[pair.client.tasks]

    def in_filter(self, incoming: IncomingRequest, pair: Pair, server: ServerIntroduction) -> bool:
        """Return whether the filter of a listen request names tasks of the bridge, perhaps among others."""
        if pair.same or not pair.shows_tasks or not server.offers_tasks:
            return False
        return pair.client.tasks is TaskSupport.EXTENSION and TASK_IDS in _wanted(incoming)

    async def joined(self, exchange: Exchange, capabilities: JsonObject) -> MixedListen:
        """Return the exchange of a listen request whose filter names tasks among others. Raises `RpcError`."""  # SUB-9
        assert self._server is not None
        found = MixedListen(exchange)
        context = Context(exchange.connection, found.tasks, self._server, {CLIENT_CAPABILITIES: capabilities})
        try:
            await self._manager.serve(found.tasks, context)
        except BaseException:
            found.end()
            raise
        return found

    def runs(self, incoming: IncomingRequest, server: ServerIntroduction) -> bool:
        """Return whether a call may have to be a task at a server with sessions."""
        return incoming.method == CALL and server.offers_tasks

    def wanted(self, incoming: IncomingRequest, pair: Pair, server: ServerIntroduction) -> bool:
        """Return whether a call is answered with a task if the server takes it for one."""
        if pair.same or not pair.shows_tasks or incoming.method != CALL or not server.offers_tasks:
            return False
        if pair.client.tasks is TaskSupport.CORE:
            return isinstance((incoming.params or {}).get("task"), dict)
        return pair.client.tasks is TaskSupport.EXTENSION and not uncovered(
            incoming.capabilities, tasks.NEEDS
        )

    def context(self, exchange: Exchange, capabilities: JsonObject) -> Context:
        """Return the context of a request for the manager of tasks; `capabilities` are those at the latest revision."""
        incoming = exchange.incoming
        assert self._server is not None
        return Context(exchange.connection, incoming, self._server, {CLIENT_CAPABILITIES: capabilities})

    async def answer(self, exchange: Exchange, context: Context) -> None:
        """Answer a request about tasks. Raises `RpcError`."""
        incoming = exchange.incoming
        if incoming.method == LISTEN:
            await self._manager.serve(incoming, context)
            return
        if incoming.revision.tasks is TaskSupport.EXTENSION and uncovered(incoming.capabilities, tasks.NEEDS):
            raise missing_capability(tasks.NEEDS)  # MOD-6
        exchange.answer(await self._manager.answer(incoming, context))

    async def run(
        self,
        visit: Visit,
        context: Context,
        work: Callable[[OwnTask], Awaitable[JsonObject]],
    ) -> JsonObject | None:
        """Make a call that may become a task; return its result, or None if the request was answered with a task.

        `work` returns the result at the server's revision. Raises its errors.
        """
        exchange, pair = visit.exchange, visit.pair
        own = OwnTask(visit, context)
        found: list[JsonObject] = []

        async def run() -> JsonObject:
            try:
                found.append(await work(own))
                if context.as_task is None:
                    return {}  # the result itself is converted
                return _at_latest(found[0], pair.server)
            except (McpError, ConversionError) as error:
                if context.as_task is None and exchange.incoming.open:
                    raise
                raise RpcError.from_wire(wire_error(error, CALL, pair)) from error
            except Exception as error:
                raise RpcError.from_wire(wire_error(error, CALL, pair)) from error

        answer = await self._manager.call(context, run)
        if answer is None:
            _record(exchange)
            return None
        return found[0]


class OwnTask:
    """One call that may become a task of the bridge: for whom the server is called, and who asks its client."""

    def __init__(self, visit: Visit, context: Context) -> None:
        self._exchange = visit.exchange
        self._upstream = visit.upstream
        self._pair = visit.pair
        self._context = context
        self._count = 0

    @property
    def request(self) -> IncomingRequest | None:
        """The request of the client, until it is a task."""
        return self._exchange.incoming if self._context.as_task is None else None

    @property
    def suspended_since(self) -> float | None:
        """None: it makes no room for others."""
        return None

    def send(self, method: str, params: dict[str, Json] | None) -> None:
        """Send a notification about the call."""
        self._exchange.send(method, params)

    async def call(self, params: JsonObject, *, share: Callable[[], None] | None = None) -> JsonObject:
        """Call the server and follow the task that it answers with. Raises `McpError`.

        `share` lets others use a connection to a server with sessions, whose further questions name the task.
        """
        exchange, upstream = self._exchange, self._upstream
        relay = exchange.relay
        total = relay.bounds.call
        meta = as_object(params.get("_meta")) if not upstream.revision.handshake else None
        call = asyncio.ensure_future(
            upstream.call(
                CALL,
                params,
                total=total,
                listener=progress_to(lambda: exchange, self._pair),
                progress=exchange.incoming.token is not None,
                caller=self,
            )
        )
        try:
            result = await asyncio.shield(call)
        except asyncio.CancelledError:
            relay.start(
                cancel_call(upstream, call, meta, 0 if self._context.as_task is None else CANCEL_TIMEOUT)
            )
            raise
        if not tasks.is_task(result, upstream.revision):
            return result
        state = task_of(result, upstream.revision)
        id_ = state["taskId"]
        try:
            await self._begin(state)
        except BaseException:
            relay.start(cancel_call(upstream, call, meta, 0))
            raise
        upstream.related[id_] = self
        if share is not None:
            share()
        try:
            return await follow_to_end(
                upstream,
                result,
                self.ask,
                meta,
                total,
                relay.start,
                note=self._context.set_status,
                caller=self,
            )
        finally:
            del upstream.related[id_]

    async def _begin(self, state: JsonObject) -> None:
        """Answer the request with a task, as the server has; a task of a session ends with it."""
        poll: Json = state.get("pollInterval", state.get("pollIntervalMs"))
        interval = seconds_of(poll, least=LEAST, most=MOST)
        await self._context.detach(poll_interval=None if interval is None else round(1000 * interval))

    def end_with_session(self) -> None:
        """End the task with the session that alone can ask for it."""  # TASK-7
        running = self._context.running

        def end(_: object) -> None:
            if running is not None and running.handle is not None:
                running.handle.cancel()

        if self._context.principal is None:
            self._exchange.connection.closed.add_done_callback(end)

    async def ask(self, _key: str, request: JsonObject) -> JsonObject:
        """Ask the client, who finds the question with the task. Raises `McpError`."""
        running, method = self._context.running, str(request.get("method"))
        server, incoming = self._pair.server, self._context.request
        if running is None or running.task is None:
            raise InternalError("the request did not become a task, so its client cannot be asked for input")
        asked: JsonObject = {"method": method}
        params = _converted(request.get("params"), method, PayloadKind.PARAMS, server, LATEST)
        if params is not None:
            asked["params"] = params
        error = check_askable(asked, self._context.capabilities, incoming.revision)
        if error is not None:
            raise error
        self._count += 1
        answer = await running.ask(f"question-{self._count}", asked, None)
        return _converted(answer, method, PayloadKind.RESULT, LATEST, server)

    async def asked(self, asked: IncomingRequest, /) -> None:
        """Ask the client what a server with sessions asks, and answer the server."""
        if self._context.as_task is None:
            refuse_question(asked, self._context.request)
            return
        params = without_token(asked)
        if params is not None and RELATED in as_object(params.get("_meta")):
            params = unrelated(params)
        request: JsonObject = {"method": asked.method} | ({} if params is None else {"params": params})
        try:
            if not self._pair.has(asked.method):
                raise unknown_between(asked.method, self._pair)
            asked.respond(await self.ask("", request))
        except ConversionError as error:
            asked.fail(InvalidParams(f"Invalid params: {error}"))
        except McpError as error:
            asked.fail(wire_error(error, asked.method, self._pair, to_client=False))

    async def until_complete(
        self, call: Callable[[JsonObject], Awaitable[JsonObject]], params: JsonObject
    ) -> JsonObject:
        """Make a call at a stateless server as a task, with the client's answers as often as it asks; return its result."""
        for _ in range(mrtr.MAX_ROUNDS + 1):
            result = await call(params)
            if not mrtr.is_input_required(result):
                return result
            asked = mrtr.requests_of(result)
            answers = {key: await self.ask(key, request) for key, request in asked.items()}
            params = mrtr.retry(params, result, answers)
        raise InternalError(f"the server asked for input more than {mrtr.MAX_ROUNDS} times")


def _wanted(incoming: IncomingRequest) -> JsonObject:
    """Return the filter of a listen request."""
    return as_object((incoming.params or {}).get("notifications"))


def _converted(value: V, method: str, kind: PayloadKind, source: Revision, target: Revision) -> V:
    found: V = value if source is target else convert(value, method, kind, from_=source, to=target)
    return found


def _at_latest(result: JsonObject, server: Revision) -> JsonObject:
    return _converted(result, CALL, PayloadKind.RESULT, server, LATEST)


def _record(exchange: Exchange) -> None:
    """Record the answer that the manager of tasks has given."""
    response = exchange.incoming.response
    if response is not None:
        exchange.recorded(json.loads(response))
