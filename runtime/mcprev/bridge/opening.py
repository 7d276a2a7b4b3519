"""What a client on a pipe sends behind its `initialize`, before that is answered (LIFE-8, BATCH-6, CANC-2).

A server answers `initialize` at once. A bridge has to reach its own server first, so what comes in the same write waits,
and is processed as if it had come after the answer.
"""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from mcprev.bridge.introduction import INITIALIZE
from mcprev.bridge.pair import Rule
from mcprev.core.connection import Connection
from mcprev.core.limits import LINGER
from mcprev.protocol.connection_state import IncomingRequest, LocalInfo
from mcprev.protocol.endpoint import ServerProtocol
from mcprev.protocol.engine import CANCELLED
from mcprev.wire.jsonrpc import Batch, Message, Notification, Request
from mcprev.wire.meta_keys import VERSION

WAITING: Final = 1_000
"""The messages that may wait for the answer to `initialize`; further requests are refused as those before it."""
_AT_ONCE: Final = frozenset({"ping", INITIALIZE})


class OpeningProtocol(ServerProtocol):
    """The server side of a pipe, where messages wait while `initialize` is being answered."""

    def __init__(self, local: LocalInfo) -> None:
        super().__init__(local)
        self._opening: IncomingRequest | None = None
        self._behind: list[Message | Batch] = []

    @override
    def receive(self, message: Message | Batch, now: float) -> None:
        """Process a message, or let it wait for the answer to `initialize`."""
        opening = self._opening
        if opening is not None and opening.open and len(self._behind) < WAITING and self._waits(message):
            self._behind.append(message)
            return
        if isinstance(message, Notification) and message.method != CANCELLED and not self.session.agreed:
            what = f"'{message.method}' is dropped: it belongs to no session ({Rule.SENDERLESS})"
            self.connection.diagnose(what)
            return
        super().receive(message, now)
        events = self.connection.events
        last = events[-1] if events else None
        if isinstance(last, IncomingRequest) and last.method == INITIALIZE and not self.session.agreed:
            self._opening = last
            self.connection.accepts_batch = last.revision.accepts_batch

    def _waits(self, message: Message | Batch) -> bool:
        """Return whether a message is one of the session; a cancellation takes what it cancels out of those that wait."""
        match message:
            case Request():
                meta: object = (message.params or {}).get("_meta")
                stateless = isinstance(meta, dict) and VERSION in meta
                return message.method not in _AT_ONCE and not stateless
            case Notification() if message.method == CANCELLED:
                named = (message.params or {}).get("requestId")
                waiting = [each for each in self._behind if isinstance(each, Request) and each.id == named]
                for each in waiting:
                    self._behind.remove(each)
                return False
            case Notification() | Batch():
                return True
            case _:
                return False

    @property
    def holds(self) -> bool:
        """Whether a message waits."""
        return bool(self._behind)

    def answered(self, now: float) -> None:
        """Process what has waited: `initialize` has its answer, a result or an error."""
        opening, self._opening = self._opening, None
        if opening is not None and not self.session.agreed:
            self.connection.accepts_batch = False
        behind, self._behind = self._behind, []
        for message in behind:
            self.receive(message, now)


def holds_behind(connection: Connection) -> bool:
    """Return whether something that a client has sent waits for the answer to its `initialize`."""
    protocol = connection.protocol
    return isinstance(protocol, OpeningProtocol) and protocol.holds


async def process_behind(connection: Connection) -> None:
    """Process what a client has sent behind its `initialize`, which has its answer."""
    protocol = connection.protocol
    if not isinstance(protocol, OpeningProtocol) or not protocol.holds:
        return
    protocol.answered(connection.now())
    connection.process_events()
    if connection.error is not None:  # the end of its input was read too, and only this request is waited for
        await connection.finish_requests(LINGER)
