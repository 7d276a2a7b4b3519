"""The words of the protocol that schemas share: the two sides, unions of messages, envelopes, the version."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from mcprev_codegen.support import Direction, Kind


class Side(StrEnum):
    """One of the two peers. Each sends its messages in one direction, and their results in the other."""

    CLIENT = "client"
    SERVER = "server"

    @property
    def other(self) -> Side:
        """The peer, which receives what this side sends."""
        return Side.SERVER if self is Side.CLIENT else Side.CLIENT

    @property
    def direction(self) -> Direction:
        """The direction of the messages of this side."""
        return Direction(f"{self}_to_{self.other}")

    @property
    def direction_text(self) -> str:
        """The direction as prose: `client to server`."""
        return f"{self} to {self.other}"

    def type_name(self, ending: str) -> str:
        """Return the name of a type or class of this side: `Request` gives `ClientRequest`."""
        return f"{self.capitalize()}{ending}"


MESSAGE_UNIONS: Final = tuple(side.type_name(kind.capitalize()) for side in Side for kind in Kind)
"""The unions of the messages that each side sends; a schema of MCP declares some of them."""
INPUT_REQUESTS: Final = "InputRequest"
"""The union of the requests that a server sends inside results."""
INPUT_RESPONSES: Final = "InputResponse"
"""The union of the results of these requests."""
EMPTY_RESULT: Final = "EmptyResult"
"""The result of requests that have none of their own."""
LISTING_UNIONS: Final = frozenset(
    (*MESSAGE_UNIONS, *(side.type_name("Result") for side in Side), INPUT_REQUESTS, INPUT_RESPONSES)
)
"""The unions that list all messages or results of a side; they say who sends what, and are part of no message."""
ENVELOPE_MEMBERS: Final = frozenset({"jsonrpc", "id"})
"""The members that every message has, wherever a schema declares them."""
STATED: Final = "_meta"
"""The member in which a side states what it is; where it must be there, the runtime knows what it has to say."""
VERSION_CONSTANT: Final = "LATEST_PROTOCOL_VERSION"
"""The constant by which a schema states its revision."""
