"""The types of the generated tables: methods, bindings, deltas, revisions. Uses the standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Direction(StrEnum):
    """The direction of a message."""

    CLIENT_TO_SERVER = "client_to_server"
    SERVER_TO_CLIENT = "server_to_client"


class Kind(StrEnum):
    """Whether a message is a request, which has a response, or a notification."""

    REQUEST = "request"
    NOTIFICATION = "notification"


class Transport(StrEnum):
    """How a request is sent: as a separate message, or inside the result of another request."""

    JSONRPC = "jsonrpc"
    EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """One method at one revision. Types are names in that revision's `models`."""

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
    """Whether the message is valid without params."""
    result: str | None
    """The result type of a request; None for a notification."""
    alternate_results: tuple[str, ...]
    """Result types that may be returned instead of `result`."""
    capability: str | None
    """A dotted path into the capabilities of the receiver (requests) or the sender (notifications)."""
    name_param: str | None
    """The parameter that HTTP repeats in the Mcp-Name header."""
    input_responses: bool
    """Whether the params can contain the responses to an earlier InputRequiredResult."""
    cacheable: bool
    """Whether the result states how long it may be cached."""
    paginated: bool
    task_augmented: bool
    """Whether the params can request a task."""
    deprecated: bool


@dataclass(frozen=True, slots=True)
class Binding:
    """The stub of a method, and its types in `models`."""

    stub: str
    params: str | None
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Child:
    """A member that contains objects, directly or in lists (`[]`) and maps (`{}`)."""

    member: str
    """The name of the member; empty for the whole value if the type is a union."""
    through: tuple[str, ...]
    types: tuple[tuple[str, str], ...]
    """Pairs of tag and type. Without a tag, a pair has the name of a member that only this type has, or, if there is
    only one type, an empty text.
    """
    tag: str
    """The member that holds the tag; empty if there is none."""


@dataclass(frozen=True, slots=True)
class TypeDelta:
    """The changes that an object of one type needs in a neighbouring revision."""

    there: str
    """The type's name in the neighbouring revision."""
    drop: tuple[str, ...] = ()
    """Members that the neighbour does not have."""
    fill: tuple[tuple[str, str | int | float | bool], ...] = ()
    """Members that the neighbour requires, each with its only or default value."""
    missing: tuple[str, ...] = ()
    """Members that the neighbour requires, without a value that follows from the schema."""
    retyped: tuple[str, ...] = ()
    """Members whose values may not fit the neighbour's type."""
    lost: tuple[Child, ...] = ()
    """Places of objects with tags that the neighbour's union does not have."""
    children: tuple[Child, ...] = ()
    """Places of further objects with a delta."""


@dataclass(frozen=True, slots=True)
class RevisionInfo:
    """One generated package: its contents and its source."""

    revision: str
    protocol_version: str
    """The version string in the schema; a draft has that of the revision it is based on."""
    package: str
    """The name of the revision's package, such as `v2025_11_25`."""
    status: str
    """`final`, `draft`, or `pending` for a dated revision without a row or a complete step module."""
    era: str
    """`handshake` if sessions start with `initialize`, else `stateless`."""
    requests: int
    notifications: int
    types: int
    """The number of types that the schema declares."""
    source: str
    commit: str
    sha256: str
    """The digest of upstream's schema.ts."""
    spec: str


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """One generated version of an extension: its contents and its source."""

    version: str
    base: str
    """The revision that it is based on, from whose package it imports types."""
    package: str
    """The name of the version's package, such as `v2026_07_28`."""
    status: str
    """`final` or `draft`."""
    requests: int
    notifications: int
    types: int
    """The number of types that the schema declares."""
    source: str
    """The URL of upstream's schema.ts; of the text, if that is all there is."""
    commit: str
    sha256: str
    """The digest of upstream's schema.ts; without one, that of the contract that was written from the text."""
    spec: str


@dataclass(frozen=True, slots=True)
class ExtensionInfo:
    """An extension: its names, and its versions."""

    id: str
    """The name in the capabilities of both sides; empty for one that no capability declares."""
    title: str
    package: str
    """The name of its package among those of extensions, which has the types of the newest final version."""
    latest: str
    """That version."""
    versions: Mapping[str, VersionInfo]
    """The versions by name, oldest first."""


class MethodNotHandled(Exception):
    """Raised by a stub that is not overridden; the peer receives the error "method not found"."""

    def __init__(self, method: str, revision: str) -> None:
        super().__init__(f"no handler for '{method}' ({revision}): override its stub to serve it")
        self.method = method
        self.revision = revision


class Sender(Protocol):
    """The interface of a connection that the callers in `dispatch` use."""

    async def send(self, method: MethodSpec, params: object | None, /) -> object:
        """Send a message whose params are a model of the revision, and return its decoded result.

        The result of a request is an instance of one of the method's result types, that of a notification None.
        """
        ...
