"""The options of an HTTP server and their defaults (HTTP-2, HTTP-3, HTTP-27, HTTP-31, SEC-3, SSE-7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypedDict

from mcprev.core.options import check_option
from mcprev.transports.http.security import MAX_HEADERS
from mcprev.transports.http.server.body_budget import MAX_BODIES, MAX_BODY, MAX_VALUES
from mcprev.transports.http.server.event_store import EventStore, MemoryEvents

if TYPE_CHECKING:
    from mcprev.transports.http.server.authentication import Authentication
    from mcprev.transports.http.server.request import App
    from mcprev.transports.http.server.routes import Route

PATH: Final = "/mcp"
SSE_PATHS: Final = ("/sse", "/messages")
IDENTIFY: Final = 10.0
"""The timeout of `principal`, in seconds."""
Principal = Callable[[Mapping[str, Any]], "str | Awaitable[str | None] | None"]


def checked_principal(found: object) -> str | None:
    """Return the result of a user's `principal` function. Raises `TypeError` if it is neither a string nor None."""
    if found is None or isinstance(found, str):
        return found
    raise TypeError(f"`principal` returned a {type(found).__name__}, which is neither a str nor None")


class HttpOptions(TypedDict, total=False):
    """The keyword arguments of `Server.asgi`, `run_http` and `serve_http`, and `http=` of `Server` and `mcprev.App`.

    Times are in seconds.
    """

    path: str
    """The path of the endpoint, `/mcp` by default. If the app is mounted in another, the mount path works too."""
    json_response: bool | None
    """Whether responses are JSON. True: always. False: only if the client accepts no event streams. None, the default:
    if the response is quick and no other message precedes it. Messages before a response require an event stream."""
    sessions: bool
    """Whether `initialize` opens a session: True by default. Without sessions, the server cannot send requests to
    clients of revisions with `initialize`."""
    get_stream: bool
    """Whether sessions have a GET stream for messages outside of requests: True by default. Without it, GET gets 405,
    and a client cannot resume an interrupted stream."""
    events: EventStore | None
    """The store of sent events, from which a client resumes an interrupted stream. None stores nothing. Default: a
    `MemoryEvents`, with 256 events and 1 MiB for one session and 64 MiB for all. With a `store` of the server, events
    are in that one, whatever is passed here, unless it is None."""
    sse: bool | tuple[str, str]
    """Whether to serve HTTP+SSE too, the transport of 2024-11-05: True for `/sse` and `/messages`, or the two paths.
    False by default."""
    principal: Principal | None
    """A function that returns the principal (the authenticated user) of a request from its ASGI scope, or None. It may
    be async. A session belongs to the principal that opened it. If the function raises, takes more than 10 s or returns
    anything else, the response is 403. None: requests have no principal. Excludes `auth`."""
    auth: Authentication | None
    """A `mcprev.Bearer`, which requires and verifies tokens. Its metadata is served below `/.well-known`, unless the
    app is mounted in another. None: no token is required. Excludes `principal`."""
    routes: Mapping[str, App | Route]
    """ASGI applications beside the endpoint, by exact path such as `/health`, or by prefix such as `/admin/`. They get
    HTTP requests only, within `max_body` and `max_headers`, after the checks of `hosts` and `origins`; a
    `mcprev.Route` says otherwise, or that a request needs authentication. What they raise is logged, and the response
    is 500. None by default."""
    origins: Sequence[str]
    """The accepted origins of web pages, such as `https://app.example`, in addition to those of this machine; `*`
    accepts every page. It sends no CORS headers: wrap the app in `mcprev.cors` for those."""
    hosts: Sequence[str] | None
    """The only accepted values of `Host`, such as `mcp.example` or `mcp.example:8000`; pages of these hosts are
    accepted too. Default: at loopback addresses, loopback names and IP addresses; at other addresses, every host. A
    server behind a proxy on the same machine needs its public host here."""
    proxies: Sequence[str]
    """The addresses of trusted proxies, as `10.0.0.7` or `10.0.0.0/8`, or `unix` for whoever connects to a Unix socket. What
    they say in `Forwarded` or `X-Forwarded-For`, `-Proto` and `-Host` is believed: who the client is, for limits, routes,
    `principal` and the access log, and the scheme and host of the public URL. None by default."""
    root_path: str
    """The prefix that a proxy removes from the path of requests, such as `/tools`; empty by default. Metadata and logins are
    found below it."""
    idle: float
    """Seconds without activity of the client after which a session ends: 1,800 by default."""
    max_sessions: int
    """The maximum number of sessions: 10,000 by default. Beyond it, the longest idle session is ended for a new one; if
    all are in use, the response is 503."""
    max_sessions_per_client: int
    """The maximum number of sessions of one client: 1,000 by default. Beyond it, the client's longest idle session is
    ended; if all are in use, the response is 429. A client is a principal, or an IP address without one. Behind a
    reverse proxy all clients have the address of the proxy, unless `proxies` names it."""
    max_requests: int
    """The maximum number of concurrent requests outside of sessions: 16,384 by default. A request beyond it gets an
    error."""
    max_body: int
    """The maximum size of a request body in bytes: 4 MiB by default. A larger one gets 413."""
    max_values: int
    """The maximum number of JSON values in the messages of one body, the keys of objects counted too: 120,000 by default, room
    for an embedding of 100,000 numbers. To parse and check more holds up other requests. A larger body gets 400. The bound
    of the process, `mcprev.json_bounds.max_values`, holds too."""
    max_bodies: int
    """The maximum memory of all request bodies in bytes, from their first byte until the response, including their
    parsed form: 256 MiB by default. A request beyond it gets 503."""
    max_headers: int
    """The maximum size of a request's headers in bytes: 64 KiB by default."""
    body_timeout: float
    """Seconds that a client has to send a body: 30 by default."""
    defer: float
    """Seconds after which a response becomes an event stream and the server watches whether its client disconnects: 0.2
    by default."""
    heartbeat: float
    """Seconds after which a silent stream gets a comment, so that no proxy closes it: 15 by default."""
    keep_alive: float
    """Seconds after which `run_http` and `serve_http` close a connection without a request: 180 by default. More than the
    time after which a balancer in front closes its connections, else a request may arrive at one that is closed."""
    send_timeout: float
    """Seconds after which a client that does not read is disconnected: 60 by default."""
    max_connections: int
    """The maximum number of connections of `run_http` and `serve_http`: 10,000 by default, or less if the process may
    open fewer file descriptors. At the limit, idle connections are closed for new ones, which wait until there is
    room."""
    drain: float
    """Seconds that calls in progress and tasks have to finish when `run_http` or `serve_http` stops, and tasks also when an ASGI
    server does: 30 by default. The remaining calls get an error, and the remaining tasks have failed. If the coroutine is
    cancelled, they have one second."""
    shutdown_delay: float
    """Seconds at the beginning of `drain` in which `run_http` and `serve_http` still serve calls on the connections that
    are open, and close each after its next response: 1 by default. So clients and proxies go elsewhere without an error.
    Only if other processes can serve all clients: no session, or a shared `store`."""
    clock: Callable[[], float] | None
    """The clock for idle sessions, in seconds. None: that of the event loop. With a `store` of the server, it says only when
    the time of a session that is used is renewed; sessions end by the clock of the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """The options with their defaults. Raises `ValueError` for invalid combinations and paths."""

    path: str = PATH
    json_response: bool | None = None
    sessions: bool = True
    get_stream: bool = True
    events: EventStore | None = field(default_factory=MemoryEvents)
    sse: bool | tuple[str, str] = False
    principal: Principal | None = None
    auth: Authentication | None = None
    routes: Mapping[str, App | Route] = field(default_factory=dict[str, "App | Route"])
    origins: Sequence[str] = ()
    hosts: Sequence[str] | None = None
    proxies: Sequence[str] = ()
    root_path: str = ""
    idle: float = 30 * 60.0
    max_sessions: int = 10_000
    max_sessions_per_client: int = 1_000
    max_requests: int = 16_384
    max_body: int = MAX_BODY
    max_values: int = MAX_VALUES
    max_bodies: int = MAX_BODIES
    max_headers: int = MAX_HEADERS
    body_timeout: float = 30.0
    defer: float = 0.2
    heartbeat: float = 15.0
    keep_alive: float = 180.0
    send_timeout: float = 60.0
    max_connections: int = 10_000
    drain: float = 30.0
    shutdown_delay: float = 1.0
    clock: Callable[[], float] | None = None

    def __post_init__(self) -> None:
        for path in (self.path, *self.sse_paths):
            if not path.startswith("/"):
                raise ValueError(f"the path '{path}' must begin with a slash")
        root = self.root_path
        if root and (not root.startswith("/") or root.endswith("/") or "//" in root or "?" in root):
            raise ValueError(
                f"the `root_path` '{root}' must begin with a slash and end without one, such as /tools"
            )
        if self.principal is not None and self.auth is not None:
            raise ValueError(
                "`principal` and `auth` exclude each other, as a token has a principal; pass None for the other one"
            )
        if len({self.path, *self.sse_paths}) != 1 + len(self.sse_paths):
            raise ValueError(
                f"every endpoint requires a path of its own: {self.path}, {', '.join(self.sse_paths)}"
            )

    @property
    def sse_paths(self) -> tuple[str, ...]:
        """The paths of the two HTTP+SSE endpoints, if they are served."""
        if self.sse is True:
            return SSE_PATHS
        return self.sse or ()


def http_settings(options: HttpOptions) -> HttpSettings:
    """Return options with their defaults. Raises `TypeError` for unknown names and another `auth`, `ValueError` for wrong values."""
    unknown = sorted(options.keys() - HttpOptions.__annotations__.keys())
    if unknown:
        names = ", ".join(HttpOptions.__annotations__)
        raise TypeError(f"no option '{unknown[0]}' of HTTP; the options are {names}")
    settings = HttpSettings(**options)
    check_option(
        "auth",
        settings.auth,
        "routes",
        "mcprev.StaticTokens({'token': 'ann'}), mcprev.Bearer(...) or mcprev.Login(...)",
    )
    return settings
