"""The shapes of the generated tables: methods, bindings, deltas, revisions. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Direction(StrEnum):
    """Who sends a message to whom."""

    CLIENT_TO_SERVER = "client_to_server"
    SERVER_TO_CLIENT = "server_to_client"


class Kind(StrEnum):
    """Whether a message is answered."""

    REQUEST = "request"
    NOTIFICATION = "notification"


class Transport(StrEnum):
    """How a request travels: as a message of its own, or inside the result of another one."""

    JSONRPC = "jsonrpc"
    EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """What one revision says about one method. Types are names in that revision's `models`."""

    method: str
    attr: str
    """The name of its stub in the handlers and callers of `dispatch`."""
    kind: Kind
    type: str
    """The type of the whole message."""
    directions: frozenset[Direction]
    transport: Transport
    params: str | None
    params_optional: bool
    """Whether the message may come without params."""
    result: str | None
    """The result type of a request; None for a notification."""
    alternate_results: tuple[str, ...]
    """Types that may answer instead of `result`."""
    capability: str | None
    """A dotted path into the capabilities of the receiver (requests) or the sender (notifications)."""
    name_param: str | None
    """The parameter that HTTP repeats in the Mcp-Name header."""
    input_responses: bool
    """Whether the params can carry answers to an earlier InputRequiredResult."""
    cacheable: bool
    """Whether the result says how long it may be cached."""
    paginated: bool
    task_augmented: bool
    """Whether the params can ask for a task."""
    deprecated: bool


@dataclass(frozen=True, slots=True)
class Binding:
    """Which stub serves a method, and with which types of `models`."""

    stub: str
    params: str | None
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Child:
    """A member of an object type that leads to other objects: through lists (`[]`) and maps (`{}`)."""

    member: str
    """Its name; empty for the whole value, where the type is a union."""
    through: tuple[str, ...]
    types: tuple[tuple[str, str], ...]
    """Pairs of tag and type. Without a tag, pairs of a member that only objects of the type have and the type, or one
    pair with an empty text where there is nothing to choose.
    """
    tag: str
    """The member that holds the tag; empty where there is none."""


@dataclass(frozen=True, slots=True)
class TypeDelta:
    """What an object of one type needs so that a neighbouring revision knows it."""

    there: str
    """The type's name in the neighbour."""
    drop: tuple[str, ...] = ()
    """Members the neighbour does not know."""
    fill: tuple[tuple[str, str | int | float | bool], ...] = ()
    """Members the neighbour requires, with the one value they can have or default to."""
    missing: tuple[str, ...] = ()
    """Members the neighbour requires, with no value that follows from the schema."""
    retyped: tuple[str, ...] = ()
    """Members whose values may not fit the neighbour's type."""
    lost: tuple[Child, ...] = ()
    """Where objects may stand whose tag the neighbour's union does not have."""
    children: tuple[Child, ...] = ()
    """Where further objects with a delta may stand."""


@dataclass(frozen=True, slots=True)
class RevisionInfo:
    """One generated package: what it holds and what it was made from."""

    revision: str
    protocol_version: str
    """The version string that the schema itself names; a draft names the revision it grew from."""
    package: str
    """The name of the revision's package, such as `v2025_11_25`."""
    status: str
    """`final`, `draft`, or `pending` for a dated one whose row or step module is not written yet."""
    era: str
    """`handshake` when sessions start with `initialize`, else `stateless`."""
    requests: int
    notifications: int
    types: int
    """The types that the schema declares."""
    source: str
    commit: str
    sha256: str
    """The digest of upstream's schema.ts."""
    spec: str


class MethodNotHandled(Exception):
    """A stub was called that nobody has overridden; the peer is to be told that the method is unknown."""

    def __init__(self, method: str, revision: str) -> None:
        super().__init__(f"no handler for '{method}' ({revision}): override its stub to serve it")
        self.method = method
        self.revision = revision


class Sender(Protocol):
    """What the callers in `dispatch` need of a connection."""

    async def send(self, method: MethodSpec, params: object | None, /) -> object:
        """Send a message whose params are a model of the revision, and return its decoded result.

        For a request the value is an instance of one of the method's result types, for a notification None.
        """
        ...
