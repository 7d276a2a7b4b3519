"""The words of the protocol that schemas share: the two sides, and the unions of all messages."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from mcprev_codegen.support import Direction


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


MESSAGE_UNIONS: Final = ("ClientRequest", "ClientNotification", "ServerRequest", "ServerNotification")
"""The unions of the messages that each side sends."""
