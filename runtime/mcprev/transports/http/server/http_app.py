"""What the HTTP server of the runtime serves: `AsgiApp` for MCP, or an app of your own, such as pages (HTTP-3, SEC-6)."""

from __future__ import annotations

from mcprev.core.limits import LINGER
from mcprev.transports.http.security import too_many_headers
from mcprev.transports.http.server.body_budget import BodyBudget
from mcprev.transports.http.server.options import HttpSettings
from mcprev.transports.http.server.proxies import Proxies
from mcprev.transports.http.server.request import AsgiRequest, HttpRequest, Receive, Scope, Send
from mcprev.wire.headers import Headers


class HttpApp:
    """An app for `serving.running.serve_http`, and an ASGI app as well. Derive from it and override `serve`."""

    def __init__(self, settings: HttpSettings) -> None:
        """`settings` has the limits of requests and connections, and the time to stop."""
        self.settings = settings
        self.budget: BodyBudget = BodyBudget(settings.max_bodies)
        """The memory of all request bodies."""
        self.proxies: Proxies | None = Proxies(settings.proxies) if settings.proxies else None
        """The proxies that are believed when they say for whom they send a request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request of an ASGI server."""
        if scope["type"] == "http":
            http_request = AsgiRequest(scope, receive, send, Headers.of(scope["headers"]))
            if self.proxies is not None:
                http_request.come_through(self.proxies, scope.get("client"))
            too_many = too_many_headers(scope["headers"], self.settings.max_headers)
            await (self.serve(http_request) if too_many is None else http_request.refuse(too_many))

    async def serve(self, http_request: HttpRequest) -> None:
        """Serve one request of any HTTP server; its headers are within their limit.

        Check `Host` and `Origin` with an `OriginPolicy`, and read the body with `http_request.read(settings.max_body, budget)`.
        """
        raise NotImplementedError

    async def start(self) -> None:
        """Prepare to serve; called before the server listens. What it raises ends the server."""

    def try_store(self) -> None:
        """Log whether what it depends on cannot be used; called when the server listens."""

    async def stop(self) -> None:
        """Release what `start` prepared; called when the server has ended, also after a failed start."""

    def leave(self) -> bool:
        """End what lasts, because the server stops soon; return whether other processes serve the clients meanwhile."""
        return True

    async def aclose(self, *, linger: float = LINGER) -> None:
        """Let the requests in progress finish for `linger` seconds, then end them; further requests are refused."""

    def fail_requests(self) -> None:
        """End the requests in progress at once."""
