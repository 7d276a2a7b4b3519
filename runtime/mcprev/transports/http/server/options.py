"""What can be configured of an HTTP server, with the defaults (HTTP-2, HTTP-3, HTTP-27, HTTP-31, SEC-3, SSE-7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, TypedDict

from mcprev.transports.http.security import MAX_HEADERS
from mcprev.transports.http.server.body_budget import MAX_BODIES, MAX_BODY
from mcprev.transports.http.server.event_store import EventStore, MemoryEvents

if TYPE_CHECKING:
    from mcprev.transports.http.server.bearer import Bearer

PATH: Final = "/mcp"
SSE_PATHS: Final = ("/sse", "/messages")
Principal = Callable[[Mapping[str, Any]], "str | None"]


def checked_principal(found: object) -> str | None:
    """What an author's `principal` gave, if it is what it may give. Raises `TypeError`."""
    if found is None or isinstance(found, str):
        return found
    raise TypeError(f"`principal` gave a {type(found).__name__}, which is neither a str nor None")


class HttpOptions(TypedDict, total=False):
    """The keyword arguments of `Server.asgi`, `run_http` and `serve_http`; times are in seconds."""

    path: str
    """The endpoint, `/mcp` by default. Mounted in another app it is also the place where that app mounts it."""
    json_response: bool | None
    """Whether answers are JSON: True always, False never if the client reads streams; by default those that come
    soon and alone. What a handler sends ahead of its answer needs a stream."""
    sessions: bool
    """Whether `initialize` opens a session; otherwise older clients are served without one, and cannot be asked."""
    get_stream: bool
    """Whether sessions have a stream for what belongs to no request; otherwise GET is answered 405, and no stream
    whose connection was lost can be taken up again."""
    events: EventStore | None
    """Keeps what was sent for clients that come back for it; None keeps nothing. By default memory, within bounds."""
    sse: bool | tuple[str, str]
    """Whether the two endpoints of the oldest revision are there too, and where: `/sse` and `/messages` unless said."""
    principal: Callable[[Mapping[str, Any]], str | None] | None
    """Who sends a request, found in its ASGI scope. Sessions belong to who opened them. Where this raises, the request
    is refused with 403."""
    auth: Bearer | None
    """How the tokens of requests are checked, none of which is served without one. What it says of itself is found
    below `/.well-known`, where the app is not mounted in another; see `mcprev.Bearer`. Excludes `principal`."""
    origins: Sequence[str]
    """Origins of pages that may ask, such as `https://app.example`, beside those of this machine; `*` for all."""
    hosts: Sequence[str] | None
    """The only values of `Host` that are let in, such as `mcp.example` or `mcp.example:8000`; their own pages are let in
    too. By default loopback names and IP addresses at loopback addresses, and anything elsewhere: a server behind a
    proxy on the same machine has to name its public host here."""
    idle: float
    """After which time without a sign of its client a session ends: half an hour."""
    max_sessions: int
    """Sessions that are open at a time: 10,000. Where there are as many, the idlest makes room for a new one."""
    max_sessions_per_client: int
    """How many of them one client may have, a client being a principal, or an address where nobody says who asks:
    1,000. One that opens more loses its own idlest. Behind a reverse proxy all clients have the address of the proxy:
    tell them apart by `principal` or `auth`, or have the ASGI server put the forwarded address into its scope; where
    neither can be had, set this to `max_sessions`."""
    max_requests: int
    """Requests that are served at a time, those of sessions apart."""
    max_body: int
    """Bytes of a request's body: 4 MiB. A larger one is refused with 413."""
    max_bodies: int
    """Bytes of memory that the bodies of all requests may take at a time, from their first byte until they have been
    answered, each with what parsing makes of it: 256 MiB. What is beyond that is refused with 503."""
    max_headers: int
    """Bytes of a request's headers."""
    body_timeout: float
    """How long a client may take to send a body."""
    defer: float
    """How long an answer is waited for before it becomes a stream and its client is watched."""
    keep_alive: float
    """After which silence a stream gets a comment, so that nobody in between closes it."""
    stall: float
    """How long a client may take nothing of what it is sent."""
    max_connections: int
    """Connections that `run_http` and `serve_http` hold at a time, and no more than the process may have descriptors
    for. Where that is reached, idle ones are closed for new ones, which wait until there is room."""
    drain: float
    """How long calls in progress may go on once `run_http` or `serve_http` is told to stop; they are answered with an
    error then. A coroutine that is cancelled gives them a second."""
    clock: Callable[[], float] | None
    """Tells the time by which sessions are idle; the event loop's by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """The options with their defaults. Raises `ValueError` for a path that is none."""

    path: str = PATH
    json_response: bool | None = None
    sessions: bool = True
    get_stream: bool = True
    events: EventStore | None = field(default_factory=MemoryEvents)
    sse: bool | tuple[str, str] = False
    principal: Callable[[Mapping[str, Any]], str | None] | None = None
    auth: Bearer | None = None
    origins: Sequence[str] = ()
    hosts: Sequence[str] | None = None
    idle: float = 30 * 60.0
    max_sessions: int = 10_000
    max_sessions_per_client: int = 1_000
    max_requests: int = 16_384
    max_body: int = MAX_BODY
    max_bodies: int = MAX_BODIES
    max_headers: int = MAX_HEADERS
    body_timeout: float = 30.0
    defer: float = 0.2
    keep_alive: float = 15.0
    stall: float = 60.0
    max_connections: int = 10_000
    drain: float = 30.0
    clock: Callable[[], float] | None = None

    def __post_init__(self) -> None:
        for path in (self.path, *self.sse_paths):
            if not path.startswith("/"):
                raise ValueError(f"the path '{path}' has to begin with a slash")
        if iscoroutinefunction(self.principal):
            raise ValueError(
                "`principal` cannot be awaited: what takes time belongs into a middleware before it"
            )
        if self.principal is not None and self.auth is not None:
            raise ValueError("`principal` and `auth` exclude each other: a token says whose it is")
        if len({self.path, *self.sse_paths}) != 1 + len(self.sse_paths):
            raise ValueError(
                f"every endpoint needs a path of its own: {self.path}, {', '.join(self.sse_paths)}"
            )

    @property
    def sse_paths(self) -> tuple[str, ...]:
        """The paths of the two endpoints of the oldest revision, if they are served."""
        if self.sse is True:
            return SSE_PATHS
        return self.sse or ()
