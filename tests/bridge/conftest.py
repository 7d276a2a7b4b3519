"""Everything that a bridge of a test sends is held against the schema of the revision that it goes to, on every transport.

Results that the bridge makes itself are among it. What a peer of the same revision has sent passes through a bridge as it
is: a test whose peers send what is no message of their revision says so, with the mark `passes_wrong`.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest

from api.wire import judge
from mcprev.bridge.clients import BridgedClients
from mcprev.bridge.upstream import ServerMessages
from mcprev.core.connection import Connection
from mcprev.protocol.connection_state import Channel, IncomingRequest
from mcprev.protocol.endpoint import ClientProtocol, ServerProtocol
from mcprev.revisions import Revision

MOST: Final = 300
"""The messages of a method that are judged in a test: some send tens of thousands."""


def revision_of(connection: Connection, channel: Channel) -> Revision | None:
    """The revision that a message is sent at; None before one is agreed on."""
    protocol = connection.protocol
    if isinstance(channel, IncomingRequest):
        return channel.revision
    if isinstance(protocol, ServerProtocol):
        return protocol.session.negotiated
    assert isinstance(protocol, ClientProtocol)
    return protocol.engine.negotiated


def objection(connection: Connection, channel: Channel, data: bytes) -> str | None:
    """What is wrong with a message, or None."""
    row, message = revision_of(connection, channel), json.loads(data)
    if row is None or isinstance(message, list):
        return None  # it opens the session; clients by hand judge the members of batches
    answers = isinstance(channel, IncomingRequest) and "method" not in message
    method = channel.method if isinstance(channel, IncomingRequest) and answers else message.get("method")
    if method is None:
        return None  # an error for what is no request
    known = method in row.methods or method.startswith(("tasks/", "notifications/tasks"))
    if not known:
        return None  # of a vendor, for which there is no schema
    try:
        judge(row, message, method)
    except Exception as wrong:  # noqa: BLE001 - whatever it says is shown with the message
        return f"{row.name} {method}: {wrong}\n{data.decode()[:2000]}"
    return None


@pytest.fixture(autouse=True)
def judged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is wrong with what the bridges of a test have sent: it fails the test."""
    wrong: list[str] = []
    seen: Counter[str] = Counter()
    flush: Any = Connection._flush

    def judging(self: Connection) -> None:
        if isinstance(self._request_handler, BridgedClients | ServerMessages):
            for channel, data in self._connection_state.sends if self._sendable else ():
                kind = str(getattr(channel, "method", None))
                seen[kind] += 1
                if seen[kind] <= MOST and (found := objection(self, channel, data)) is not None:
                    wrong.append(found)
        flush(self)

    if request.node.get_closest_marker("unjudged") is None:
        monkeypatch.setattr(Connection, "_flush", judging)
    yield wrong
    if request.node.get_closest_marker("passes_wrong") is None:
        assert not wrong, "\n".join(wrong[:5])
