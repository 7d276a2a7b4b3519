"""Asks the client of a session what a server asks (LIFE-7, PROG-2, CANC-7)."""

from __future__ import annotations

from collections.abc import Callable

from mcprev.bridge.progress import Listener
from mcprev.bridge.relay import BridgeState
from mcprev.conversion.rules import JsonObject
from mcprev.core.connection import Connection
from mcprev.errors import InternalError, Json, RpcError
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.endpoint import ServerProtocol
from mcprev_types import Direction


async def ask_client(
    state: BridgeState,
    connection: Connection,
    session: str,
    method: str,
    params: Json,
    about: IncomingRequest | None,
    *,
    progress: Listener | None = None,
    cancelled: Callable[[], str | None] = lambda: None,
) -> dict[str, Json]:
    """Send the client of a session a request of its revision and return its result. Raises `McpError`.

    `session` is its name in recordings, `about` the client's request that it belongs to. `progress` takes the progress that
    the client reports; `cancelled` returns why the server has cancelled its request.
    """
    protocol = connection.protocol
    assert isinstance(protocol, ServerProtocol)
    channel = about if about is not None and about.open else None
    refusal = None if channel is None else connection.refuses(channel)
    if refusal is None and channel is None and not can_be_asked(connection):
        refusal = InternalError("the client cannot be asked for input: it has no open stream")
    if refusal is not None:
        raise refusal
    call = protocol.session.call(
        method, params, connection.now(), idle=None, total=state.bounds.user, progress=progress is not None, channel=channel,
        unchecked=True,
    )  # fmt: skip
    message: JsonObject = {"id": call.id, "method": method}
    if call.params is not None:
        message["params"] = call.params
    state.recorded(session, Direction.SERVER_TO_CLIENT, message)
    try:
        result = await connection.wait(call, progress, cancelled)
    except RpcError as error:
        answer: JsonObject = {"id": call.id, "error": dict(error.raw or error.to_wire())}
        state.recorded(session, Direction.CLIENT_TO_SERVER, answer)
        raise
    state.recorded(session, Direction.CLIENT_TO_SERVER, {"id": call.id, "result": result})
    return result


def can_be_asked(connection: Connection) -> bool:
    """Return whether a client listens for what belongs to none of its requests, here or at another process."""
    if connection.can_reach() or not connection.shared:
        return connection.can_reach()
    from mcprev.sharing.session import copy_of

    copy = copy_of(connection)
    return copy is not None and bool(copy.record.value["gets"])


def cancel_reason(asked: IncomingRequest | None) -> str | None:
    """Return why a server has cancelled its request, if there is one."""
    return None if asked is None else asked.cancel_reason
