"""What an HTTP server knows of routes: ASGI applications beside the endpoint. `mcprev.routes` serves them (HTTP-31, SEC-3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcprev.protocol.http_request_class import HttpError
from mcprev.transports.http.server.request import App, HttpRequest

if TYPE_CHECKING:
    from mcprev.core.store import Records
    from mcprev.core.store_probe import StoreProbe
    from mcprev.transports.http.server.access import Access


@dataclass(frozen=True, slots=True)
class Route:
    """An ASGI application as a route, with the checks that its requests pass first."""

    app: App
    """The ASGI application. It gets HTTP requests only: neither lifespan events nor web sockets."""
    auth: bool = False
    """Whether a request requires what requests to the endpoint require: a token, or to pass `principal`."""
    any_host: bool = False
    """Whether `Host` and `Origin` may be anything. Only for what every web page may read and cause."""
    quiet: bool = False
    """Whether its requests are logged at DEBUG only, as those of probes, which come every few seconds."""


@dataclass(frozen=True, slots=True)
class RouteInfo:
    """What the server knows about a request for a route: `scope["mcprev"]`."""

    ready: bool
    """Whether the server serves calls: its lifespan runs, and it is not stopping."""
    principal: str | None
    """The principal; None for a route without `auth`."""
    access: Access | None
    """The content of the token; None for a route without `auth`, and for a server without tokens."""
    records: Records | None = None
    """The store of the server, if it has one."""
    probe: StoreProbe | None = None
    """Tries whether that store can be used, for all who ask."""


class NoRoutes:
    """The routes of a server that has none; `mcprev.transports.http.server.route_table.RouteTable` finds and serves them."""

    def find(self, path: str) -> str | None:
        """Return the path or longest prefix of the route that serves a path, or None. An exact path comes first."""
        del path
        return None

    def in_the_open(self, path: str | None) -> bool:
        """Return whether a path is that of a route whose requests need no authentication."""
        del path
        return False

    def at_any_host(self, path: str) -> bool:
        """Return whether a path is that of a route for which `Host` and `Origin` may be anything."""
        del path
        return False

    async def serve(self, http_request: HttpRequest, body: bytes, info: RouteInfo) -> HttpError | None:
        """Pass a request to the route that was found for it; return the error response if it failed."""
        raise NotImplementedError

    async def finish(self, seconds: float) -> None:
        """Wait until the requests in progress have been served, at most `seconds`."""
