"""Serves routes, ASGI applications beside the endpoint, in the same HTTP server (HTTP-31, SEC-3, SEC-6).

A request for a route passes the checks of the endpoint first: its headers and its body are within the limits of the
server. The application then gets the whole body at once; its response is sent as it is made.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Final

from typing_extensions import override

from mcprev.errors import InternalError
from mcprev.protocol.http_request_class import HttpError
from mcprev.transports.http.server.request import NO_BODY, App, Fields, HttpRequest, Message, Scope
from mcprev.transports.http.server.routes import NoRoutes, Route, RouteInfo

KEY: Final = "mcprev"
"""The key of an ASGI scope under which a route finds its `RouteInfo`."""
_FRAMING: Final = frozenset(
    {b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"content-length"}
)
"""Headers about the transfer of a response, which the HTTP server sets itself."""
_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_FAILED: Final = HttpError(500, InternalError("the server failed"), null_id=True)
_logger: Final = logging.getLogger("mcprev.transport.http")


class RouteTable(NoRoutes):
    """The routes of a server by exact path, or by prefix that ends in a slash."""

    def __init__(
        self, *several: Mapping[str, App | Route], taken: Collection[str] = (), can_authenticate: bool = True
    ) -> None:
        """Set the routes; `taken` are the paths that the server serves itself.

        Raises `ValueError` for a path that is invalid, taken or said twice, and for a route with `auth` unless the server
        `can_authenticate`.
        """
        self._routes: dict[str, Route] = {}
        served = {_exact(path) for path in taken}
        for path, app in (pair for routes in several for pair in routes.items()):
            if not path.startswith("/") or "//" in path:
                raise ValueError(f"the route '{path}' has to begin with a slash, and has no empty part")
            if _exact(path) in served or path in self._routes:
                raise ValueError(f"the path of the route '{path}' is used already; choose another one")
            route = self._routes[path] = app if isinstance(app, Route) else Route(app)
            if route.auth and not can_authenticate:
                raise ValueError(
                    f"the route '{path}' has `auth`, but the server has neither `auth` nor `principal`"
                )
        prefixes = (path for path in self._routes if path.endswith("/"))
        self._prefixes = sorted(prefixes, key=len, reverse=True)
        self._open: set[asyncio.Future[None]] = set()

    def __getitem__(self, path: str) -> Route:
        return self._routes[path]

    @override
    def find(self, path: str) -> str | None:
        """Return the path or longest prefix of the route that serves a path, or None. An exact path comes first."""
        if not self._routes:
            return None
        exact = _exact(path)
        if exact in self._routes:
            return exact
        return next((prefix for prefix in self._prefixes if f"{path}/".startswith(prefix)), None)

    @override
    def in_the_open(self, path: str | None) -> bool:
        """Return whether a path is that of a route whose requests need no authentication."""
        route = self._routes.get(path or "")
        return route is not None and not route.auth

    @override
    def at_any_host(self, path: str) -> bool:
        """Return whether a path is that of a route for which `Host` and `Origin` may be anything."""
        route = self._routes.get(path)
        return route is not None and route.any_host

    @override
    async def serve(self, http_request: HttpRequest, body: bytes, info: RouteInfo) -> HttpError | None:
        """Pass a request to its route; what that raises is logged, and answered with 500."""
        path = http_request.place or ""
        http_request.quiet = self._routes[path].quiet
        scope: Scope = {**http_request.scope, KEY: info}
        if path.endswith("/"):
            scope["root_path"] = http_request.root.rstrip("/") + path.removesuffix("/")
        response = _Response(http_request, body)
        done = asyncio.get_running_loop().create_future()
        self._open.add(done)
        try:
            await self._routes[path].app(scope, response.receive, response.send)
            response.check()
        except Exception as error:
            if response.lost:
                _logger.debug("a client disconnected: %s", error)
                return None
            _logger.exception("the route %s failed", path)
            return None if response.begun else _FAILED
        finally:
            response.ended.set()
            self._open.discard(done)
            done.set_result(None)
        return None

    @override
    async def finish(self, seconds: float) -> None:
        """Wait until the requests in progress have been served, at most `seconds`."""
        loop = asyncio.get_running_loop()
        if found := [done for done in self._open if done.get_loop() is loop]:
            await asyncio.wait(found, timeout=seconds)


class _Response:
    """The two ends of an ASGI application that serves one request."""

    def __init__(self, http_request: HttpRequest, body: bytes) -> None:
        self._request = http_request
        self._body: bytes | None = body
        self._start: tuple[int, Fields] | None = None
        self.begun: bool = False
        """Whether a part of the response was sent."""
        self.lost: bool = False
        """Whether the response cannot be sent, because the client has disconnected."""
        self.ended: asyncio.Event = asyncio.Event()
        """Set at the end of the response, and when the client disconnects."""

    async def receive(self) -> Message:
        """Return the body first, and after it the end of the request when the response or the connection has ended."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        if not self.ended.is_set():
            self._request.watch(self._gone)
            try:
                await self.ended.wait()
            finally:
                self._request.unwatch()
        return {"type": "http.disconnect"}

    def _gone(self) -> None:
        self.lost = True
        self.ended.set()

    def check(self) -> None:
        """Raise `RuntimeError` unless the response has ended."""
        if not self.ended.is_set():
            raise RuntimeError("the application returned before the end of its response")

    async def send(self, message: Message) -> None:
        """Send a part of the response. Raises `RuntimeError` for what is no response, `OSError` if the client is gone."""
        kind = message["type"]
        if self._start is None and kind == "http.response.start":
            self._start = _status(message["status"]), self._fields(message.get("headers", ()))
        elif self._start is not None and kind == "http.response.body" and not self.ended.is_set():
            try:
                await self._write(*self._start, bytes(message.get("body", b"")), message.get("more_body"))
            except OSError:
                self._gone()
                raise
        elif self.lost:
            raise ConnectionResetError("the client has disconnected")
        else:
            raise RuntimeError(f"the application sent '{kind}', which cannot be sent now")

    async def _write(self, status: int, fields: Fields, body: bytes, more: object) -> None:
        request = self._request
        if request.verb == "HEAD" or status in NO_BODY:
            if more:
                return
            body = b""
        if not more:
            if self.begun:
                await request.end(body)
            else:
                self.begun = True
                await request.answer(status, fields, body)
            self.ended.set()
        elif self.begun:
            await request.write(body)
        else:
            self.begun = True
            await request.begin(status, fields, body)

    @staticmethod
    def _fields(pairs: Collection[tuple[bytes, bytes]]) -> Fields:
        """Return the headers without those about the transfer. Raises `RuntimeError` for what is no header."""
        found = tuple((bytes(name).lower(), bytes(value)) for name, value in pairs)
        for name, value in found:
            if not (_NAME.fullmatch(name) and _VALUE.fullmatch(value)):
                raise RuntimeError(f"the application sent an invalid header: {name!r:.100}")
        return tuple(pair for pair in found if pair[0] not in _FRAMING)


def _exact(path: str) -> str:
    """Return a path without slashes at its end."""
    return path.rstrip("/") or "/"


def _status(status: int) -> int:
    if HTTPStatus(status) < 200:
        raise RuntimeError("the application sent an informational status (1xx), which is not supported")
    return status
