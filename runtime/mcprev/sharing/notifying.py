"""Notifications to the client of a session, from any process and without a request of it (ELIC-*)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from mcprev.conversion import PayloadKind, convert
from mcprev.core.connection import Connection
from mcprev.core.store import LogBounds, LogItem, Records, is_whole
from mcprev.errors import Json
from mcprev.protocol.endpoint import server_protocol
from mcprev.revisions import ALL, LATEST, Revision
from mcprev.sharing.record import decode, key_of, log_ttl
from mcprev.wire.jsonrpc import encode_notification

IDLE: Final = 1800.0
"""The time to live of a session whose record does not say it, because an older release has opened it."""


async def notify_session(
    store: Records | None,
    connections: Collection[Connection],
    session_id: str,
    method: str,
    params: dict[str, Json],
) -> bool:
    """Send a notification to the client of a session; return whether there is one that knows the method.

    Without a whole store, the session is one of `connections`. Raises `StoreError`.
    """
    if is_whole(store):
        key = key_of(session_id)
        found = await store.read(f"session/{key}")
        record = {} if found is None else decode(found)
        name = record.get("session", {}).get("revision")
        revision = next((each for each in ALL if each.name == name), None)
        if revision is None or method not in revision.methods:
            return False
        message = encode_notification(method, _params(method, params, revision))
        await store.append(
            f"own/{key}", [LogItem(message)], bounds=LogBounds(ttl=log_ttl(record.get("ttl", IDLE)))
        )
        return True
    for connection in connections:
        session = server_protocol(connection.protocol).session
        if connection.session_id == session_id and method in session.revision.methods:
            session.send_notification(method, _params(method, params, session.revision))
            connection.process_events()
            return True
    return False


def _params(method: str, params: dict[str, Json], revision: Revision) -> dict[str, Json]:
    if method not in LATEST.methods:
        return params
    found: dict[str, Json] = convert(params, method, PayloadKind.PARAMS, from_=LATEST, to=revision)
    return found
