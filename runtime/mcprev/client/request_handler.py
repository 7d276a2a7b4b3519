"""The other half of a client: serving what its server sends, and exact types for what it is sent.

SEAM-1, SEAM-9, SUB-7, ROOT-1, ROOT-2, SAMP-1..3, ELIC-1, ELIC-3, ELIC-7, ELIC-8, ERR-9.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from mcprev.client.context import ClientContext
from mcprev.client.subscriptions import change_in
from mcprev.convert import PayloadKind, convert
from mcprev.core.capabilities import ClientCapabilities, overridden
from mcprev.core.method_binding import HandlerTable, answer_failure, first, reader, to_wire
from mcprev.errors import (
    InputDeclined,
    InternalError,
    InvalidParams,
    Json,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
)
from mcprev.protocol import input_requests as asking
from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived
from mcprev.protocol.subscriptions import HEARD
from mcprev.revisions import LATEST
from mcprev_types.latest import dispatch

if TYPE_CHECKING:
    from mcprev.client.client import Client
    from mcprev.core.connection import Connection
    from mcprev_types import MethodSpec
    from mcprev_types.latest import models

logger: Final = logging.getLogger("mcprev.client")


class ClientRequestHandler:
    """Serves what a server sends, with a client's handler."""

    def __init__(self, identity: ClientCapabilities) -> None:
        self._identity = identity
        self._routes = HandlerTable(identity, "ClientHandler")
        self.client: Client | None = None

    async def handle_request(self, incoming: IncomingRequest, connection: Connection, /) -> None:
        """Answer a request of the server's."""
        client = self.client
        if client is None:
            incoming.fail(InternalError("the client is not ready"))
            return
        try:
            method_binding = self._routes.find(incoming.revision, incoming.method)
            self._check(incoming)
            params = method_binding.params(incoming.params, None)
            wire = to_wire(await method_binding.stub(ClientContext(client, connection, incoming), params))
            incoming.respond(method_binding.result(_proper(incoming.method, incoming.params, wire)))
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is answered
            answer_failure(error, incoming, self._identity.handler_at(incoming.revision)[1], logger)

    def _check(self, incoming: IncomingRequest) -> None:
        """Raise `InvalidParams` for what the revision does not allow a server to ask of this client (SAMP-2, ELIC-8)."""
        revision, method, params = incoming.revision, incoming.method, incoming.params
        if params is not None:
            try:
                reader(revision, revision.methods[method].params)(params)
            except ValidationError as error:
                raise InvalidParams(f"Invalid params: {first(error)}") from None
        if revision.sampling_tools:
            check_question(method, params, self._identity.capabilities(revision))

    async def handle_notification(self, notified: NotificationReceived, connection: Connection, /) -> None:
        """Take a notification: for whoever listens, and for the handler."""
        client, revision = self.client, notified.revision
        if client is None:
            return
        change = change_in(notified.method, notified.params or {})
        if change is not None:
            client.known.changed(change.what, change.uri)
        if revision.handshake and notified.method in HEARD:
            for subscription in tuple(client.subscriptions):
                subscription.heard(notified.method, notified.params or {})
        if not self._identity.hears(revision, notified.method):
            return
        try:
            method_binding = self._routes.find(revision, notified.method)
            await method_binding.stub(
                ClientContext(client, connection, None), method_binding.params(notified.params, None)
            )
        except Exception:
            logger.exception("the handler of '%s' raised", notified.method)


class Exact:
    """Sends what an exact revision's callers send."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def send(self, method: MethodSpec, params: object | None, /) -> object:
        """Send a request or notification, and read the result as one of its types."""
        client, revision = self._client, self._client.spoken
        wire = None if params is None else to_wire(params)
        if method.result is None:
            client.connection.protocol.notify(method.method, wire)
            client.connection.process_events()
            return None
        result = await client.raw(method.method, wire)
        for name in method.alternate_results:
            try:
                return reader(revision, name)(result)
            except ValidationError:
                continue
        try:
            return reader(revision, method.result)(result)
        except ValidationError as error:
            raise RemoteProtocolError(f"the result is not valid: {error}", raw=result) from None


class Latest:
    """Sends what the latest revision's callers send, in the terms of the revision that is spoken."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def send(self, method: MethodSpec, params: object | None, /) -> object:
        """Send a request or notification, and read the result as one of the latest revision's types."""
        client = self._client
        wire = None if params is None else to_wire(params)
        if method.result is not None:
            return await client.call(method.method, wire or {})
        if method.method not in client.spoken.methods:
            raise LocalProtocolError(f"{client.revision} has no '{method.method}'")
        told = convert(wire, method.method, PayloadKind.PARAMS, from_=LATEST, to=client.spoken)
        client.connection.protocol.notify(method.method, told)
        client.connection.process_events()
        return None


async def answer_input(client: Client, request: Mapping[str, Json]) -> dict[str, Json]:
    """Ask the handler what a result asks (MRTR-5, MRTR-12). Raises `InputDeclined` (MRTR-10)."""
    handler, method = client.identity.handler, str(request.get("method"))
    if method not in overridden(handler, LATEST, "ClientHandler"):
        raise InputDeclined(f"the server needs '{method}', for which there is no handler")
    binding = dispatch.CLIENT_BINDINGS[method]
    try:
        params = request.get("params")
        given = None if params is None else reader(LATEST, binding.params)(params)
        check_question(method, params, client.identity.capabilities(client.spoken))
        context = ClientContext(client, client.connection, None)
        return _proper(method, params, to_wire(await getattr(handler, binding.stub)(context, given)))
    except ValidationError as error:
        raise RemoteProtocolError(
            f"the server's '{method}' is not valid: {error}", raw=dict(request)
        ) from None
    except RpcError as error:
        raise InputDeclined(f"'{method}' was declined: {error.message}") from error


async def answer_inputs(
    client: Client, method: str, requests: Mapping[str, Mapping[str, Json]], attempt: int, end: float | None
) -> dict[str, Json]:
    """Ask the handler everything that a result asks, by the time `end` of the call (TIME-1).

    Raises what `answer_input` does, and `RequestTimeout` where the handler takes longer.
    """
    began = client.connection.now()
    bound = asyncio.timeout_at(end)
    try:
        async with bound:
            answers = {key: await answer_input(client, request) for key, request in requests.items()}
            if not requests:
                # The server only wants to be asked again; it is given time to get there (MRTR-6).
                await asyncio.sleep(min(0.05 * 2**attempt, 2.0))
            return answers
    except TimeoutError:
        if not bound.expired():
            raise  # the handler's own
        elapsed = client.connection.now() - began
        text = f"the input that '{method}' asked for was not there {elapsed:.3g} s later (total timeout)"
        raise RequestTimeout(text, elapsed=elapsed, kind="total") from None


def form_defaults(params: models.ElicitRequestFormParams) -> dict[str, Json]:
    """What a form shows before anybody has filled it in, by name: content for those who change nothing (ELIC-7)."""
    return asking.defaults(params.requested_schema.to_wire())


def check_question(method: str, params: Json, capabilities: Mapping[str, Json]) -> None:
    """Raise `InvalidParams` for a question that this client did not declare, or that nobody could be asked."""
    what = asking.undeclared(method, params, capabilities)
    if what is not None:
        raise InvalidParams(f"Invalid params: this client has not declared {what}")
    wrong = asking.misasked(method, params)
    if wrong is not None:
        raise InvalidParams(f"Invalid params: {wrong}")


def _proper(method: str, params: Json, answer: dict[str, Json]) -> dict[str, Json]:
    """The handler's answer, if it is one. Raises `LocalProtocolError` (ROOT-1, ELIC-3)."""
    wrong = asking.misanswered(method, params, answer)
    if wrong is not None:
        raise LocalProtocolError(f"the answer of the handler of '{method}' is not valid: {wrong}")
    return asking.only_accepted(method, params, answer)
