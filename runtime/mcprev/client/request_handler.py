"""Answers what a server sends or asks for, with the handler of a client.

SEAM-1, SUB-7, ROOT-1, ROOT-2, SAMP-1..3, ELIC-1, ELIC-3, ELIC-7, ELIC-8, ERR-9.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from pydantic import ValidationError
from typing_extensions import override

from mcprev.client.callback_queue import CallbackQueue
from mcprev.client.subscriptions import change_in
from mcprev.core import input_requests as asking
from mcprev.core.capabilities import ClientCapabilities, overridden
from mcprev.core.context import BaseContext
from mcprev.core.method_binding import (
    HandlerTable,
    Wrap,
    answer_failure,
    as_exception,
    call_stub,
    first,
    log_failure,
    reader,
)
from mcprev.errors import (
    InputDeclined,
    InternalError,
    InvalidParams,
    Json,
    LocalProtocolError,
    RemoteProtocolError,
    RpcError,
)
from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived
from mcprev.protocol.engine import SEVERITY
from mcprev.protocol.mrtr import without_empty_fields
from mcprev.protocol.subscriptions import SUBSCRIBABLE
from mcprev.revisions import LATEST
from mcprev_types import with_json_paths
from mcprev_types.latest import dispatch

if TYPE_CHECKING:
    from mcprev.client.client import Client
    from mcprev.core.connection import Connection
    from mcprev_types.latest import models

logger: Final = logging.getLogger("mcprev.client")
LOG: Final = "notifications/message"


@dataclass(eq=False, repr=False)
class ClientContext(BaseContext[IncomingRequest | None]):
    """The context of a request or notification of the server, for a client's handler."""

    client: Client
    """The client that received the message."""

    @property
    def revision(self) -> str:
        """The name of the revision that client and server speak, such as `2025-11-25`."""
        return self.client.revision

    @override
    def __repr__(self) -> str:
        return f"<ClientContext {self.request_id!r}>"


ClientHandler: TypeAlias = dispatch.ClientHandler[ClientContext]
"""The base class of a client's handler: override the method of each request and notification that the client serves."""


class ClientRequestHandler:
    """Handles the requests and notifications of one client's server, and the input requests in its results."""

    def __init__(self, identity: ClientCapabilities, wrap: Wrap | None = None) -> None:
        self._identity = identity
        self._handlers = HandlerTable(identity, wrap)
        self.client: Client | None = None
        self.callbacks: CallbackQueue = CallbackQueue()
        """Calls the handler for notifications, and the other callbacks of the client."""

    async def handle_request(self, incoming: IncomingRequest, connection: Connection, /) -> None:
        """Answer a request of the server."""
        client = self.client
        if client is None:
            incoming.fail(InternalError("the client is not ready"))
            return
        try:
            method_binding = self._handlers[incoming.revision, incoming.method]
            self._check(incoming)
            params = method_binding.params(incoming.params, None)
            context = ClientContext(connection, incoming, client)
            wire = await call_stub(method_binding.stub, context, params)
            incoming.respond(method_binding.result(_checked_answer(incoming.method, incoming.params, wire)))
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises is answered
            failure = as_exception(error, incoming.method)
            answer_failure(failure, incoming, self._identity.handler_at(incoming.revision)[1], logger)

    def _check(self, incoming: IncomingRequest) -> None:
        """Raise `InvalidParams` for what the revision does not allow a server to ask of this client.

        The latest revision, which the handler's params are validated at, lacks some members of the others.
        """  # SAMP-2, ELIC-8
        revision, method, params = incoming.revision, incoming.method, incoming.params
        if params is not None and method in revision.methods:
            try:
                reader(revision, revision.methods[method].params)(params)
            except ValidationError as error:
                raise InvalidParams(f"Invalid params: {first(error, params)}") from None
        if revision.sampling_tools:
            check_input_request(method, params, self._identity.capabilities(revision))

    def notified(self, notified: NotificationReceived, connection: Connection, /) -> bool:
        """Pass a notification to the cache and the subscriptions, and to the handler after earlier ones."""
        client, revision = self.client, notified.revision
        if client is None:
            return False
        change = change_in(notified.method, notified.params or {})
        if change is not None:
            client.session.server_cache.changed(change.what, change.uri)
        if revision.handshake and notified.method in SUBSCRIBABLE:
            for listener in tuple(client.session.listeners):
                listener(notified.method, notified.params or {})
        if notified.method in self._identity.received(revision) and not self._is_too_low(client, notified):
            self.callbacks.put(partial(self.handle_notification, notified, connection))
        return False

    async def handle_notification(self, notified: NotificationReceived, connection: Connection, /) -> None:
        """Pass a notification to the handler."""
        client = self.client
        assert client is not None, "`notified` is called first"
        try:
            binding = self._handlers[notified.revision, notified.method]
            await binding.stub(ClientContext(connection, None, client), binding.params(notified.params, None))
        except BaseException as error:  # noqa: BLE001 - nothing else ends with it
            log_failure(error, notified.method, logger)

    def _is_too_low(self, client: Client, notified: NotificationReceived) -> bool:
        """Return whether a log message is below the level that calls ask for and the server cannot be told."""
        least, level = client.session.least_level, str((notified.params or {}).get("level"))
        return least is not None and notified.method == LOG and SEVERITY.get(level, 0) < SEVERITY[least]

    async def answer_input(self, request: Mapping[str, Json], /) -> dict[str, Json]:
        """Return the handler's answer to an input request. Raises `InputDeclined`."""  # MRTR-5, MRTR-12, MRTR-10
        client, handler, method = self.client, self._identity.handler, str(request.get("method"))
        assert client is not None, "no call is made before the client exists"
        if method not in overridden(handler, LATEST, "ClientHandler"):
            raise InputDeclined(f"the server requires '{method}', for which there is no handler")
        binding = dispatch.CLIENT_BINDINGS[method]
        try:
            params = request.get("params")
            typed = None if params is None else reader(LATEST, binding.params)(params)
            check_input_request(method, params, self._identity.capabilities(client.spoken))
            context = ClientContext(client.connection, None, client)
            answer = await call_stub(getattr(handler, binding.stub), context, typed)
            return _checked_answer(method, params, answer)
        except ValidationError as error:
            raise RemoteProtocolError(
                f"the server's '{method}' is not valid: {with_json_paths(error, request.get('params'))}",
                raw=dict(request),
            ) from None
        except RpcError as error:
            raise InputDeclined(f"'{method}' was declined: {error.message}") from error
        except Exception:
            raise
        except BaseException as error:
            raise as_exception(error, method) from error


def form_defaults(params: models.ElicitRequestFormParams) -> dict[str, Json]:
    """Return the default values of a form's fields, by name: the answer of a user who changes nothing.

    For the method `elicit` of a `ClientHandler`: `ElicitResult(action="accept", content=form_defaults(params))`.
    """
    return asking.defaults(params.requested_schema.to_wire())


def check_input_request(method: str, params: Json, capabilities: Mapping[str, Json]) -> None:
    """Raise `InvalidParams` for an input request that this client did not declare, or that is not valid."""
    missing = asking.check_askable({"method": method, "params": params}, capabilities)
    if missing is not None:
        raise InvalidParams(f"Invalid params: {missing.message}, which this client has not declared")
    wrong = asking.request_error(method, params)
    if wrong is not None:
        raise InvalidParams(f"Invalid params: {wrong}")


def _checked_answer(method: str, params: Json, answer: dict[str, Json]) -> dict[str, Json]:
    """Return the handler's answer if it is valid. Raises `LocalProtocolError`."""  # ROOT-1, ELIC-3
    answer = without_empty_fields(answer)
    wrong = asking.response_error(method, params, answer)
    if wrong is not None:
        raise LocalProtocolError(f"the result of the handler of '{method}' is not valid: {wrong}")
    return asking.without_unaccepted_content(method, params, answer)
