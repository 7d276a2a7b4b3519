"""A listen stream that carries the states of tasks of the bridge and changes of the server (SUB-2, SUB-9).

The tasks are looked up first. The server is asked for the rest of the filter, and its acknowledgement is completed with the
ids of the tasks, so that the client sees one stream. It ends with that of the server.
"""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import override

from mcprev.bridge.pair import Pair
from mcprev.bridge.relay import BridgeState, Exchange
from mcprev.conversion.rules import JsonObject, as_object, without
from mcprev.core.connection import Connection
from mcprev.errors import Json
from mcprev.protocol.connection_state import ConnectionState, IncomingRequest, Responder
from mcprev.protocol.subscriptions import ACKNOWLEDGED, TASK_IDS
from mcprev.wire.jsonrpc import Request
from mcprev.wire.meta_keys import SUBSCRIPTION_ID


class TaskStates(Responder):
    """Takes what the manager of tasks sends on the stream, in place of the engine of the client's connection."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(ConnectionState())
        self._exchange = exchange
        self.accepted: JsonObject = {}
        """The members of the filter that the manager of tasks accepts."""
        self._waiting: dict[object, tuple[str, JsonObject]] | None = {}
        """The last state of each task, by id, until the stream is acknowledged; None after that."""

    def open_stream(self, _incoming: IncomingRequest, more: Mapping[str, Json]) -> None:
        """Take the tasks that the stream carries, of which there are a bounded number."""
        self.accepted = dict(more)

    def stream(self, _incoming: IncomingRequest, method: str, params: JsonObject) -> None:
        """Send the state of a task, once the stream is acknowledged."""
        if self._waiting is not None:
            self._waiting[params.get("taskId")] = method, params
        else:
            self._send(method, params)

    def begin(self) -> None:
        """Send the states that have waited for the acknowledgement."""
        waiting, self._waiting = self._waiting, None
        for method, params in (waiting or {}).values():
            self._send(method, params)

    def _send(self, method: str, params: JsonObject) -> None:
        self._exchange.send(method, {**params, "_meta": {SUBSCRIPTION_ID: self._exchange.incoming.id}})


class TaskStatesRequest(IncomingRequest):
    """The part of a listen request that names tasks, for the manager of tasks."""

    def __init__(self, incoming: IncomingRequest, states: TaskStates) -> None:
        wanted = as_object((incoming.params or {}).get("notifications"))
        params: JsonObject = {**(incoming.params or {}), "notifications": {TASK_IDS: wanted.get(TASK_IDS)}}
        request = Request(incoming.id, incoming.method, params, incoming.origin)
        super().__init__(states, incoming.revision, request, None, incoming.capabilities)


class MixedListen(Exchange):
    """The exchange of a listen request, of which the server is asked for what are no tasks."""

    def __init__(self, exchange: Exchange) -> None:
        self.relay: BridgeState = exchange.relay
        self.incoming: IncomingRequest = exchange.incoming
        self.connection: Connection = exchange.connection
        self.session: str = exchange.session
        self._outlet = exchange.outlet
        self._states = TaskStates(exchange)
        self.tasks: TaskStatesRequest = TaskStatesRequest(exchange.incoming, self._states)
        """The part of the request that names tasks."""

    @override
    def params(self, pair: Pair, meta: Mapping[str, Json] | None) -> dict[str, Json] | None:
        """Return the params for the server, without the tasks, of which it knows nothing. Raises `RpcError`."""
        found = super().params(pair, meta) or {}
        return {**found, "notifications": without(as_object(found.get("notifications")), TASK_IDS)}

    @override
    def send(self, method: str, params: dict[str, Json] | None) -> None:
        """Send a notification of the stream; its acknowledgement names the tasks as well."""
        if method != ACKNOWLEDGED:
            super().send(method, params)
            return
        found = params or {}
        accepted = {**as_object(found.get("notifications")), **self._states.accepted}
        super().send(method, {**found, "notifications": accepted})
        self._states.begin()

    def end(self) -> None:
        """Send no more states: the stream has ended."""
        self.tasks.open = False
