"""The part of an app that has routes: it registers them, and loads nothing of HTTP before there is one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from mcprev.transports.http.server.request import App as AsgiCallable
    from mcprev.transports.http.server.routes import Route

_F = TypeVar("_F", bound=Callable[..., object])


class Routed:
    """The part of `App` that registers HTTP routes."""

    _executor: Executor | None

    def __init__(self) -> None:
        self._routes: dict[str, Route] = {}
        self._inner_routes: list[tuple[Routed, str | None]] = []

    @overload
    def route(
        self, path: str, app: AsgiCallable, /, *, auth: bool = False, any_host: bool = False
    ) -> AsgiCallable: ...
    @overload
    def route(
        self, path: str, /, *, methods: Collection[str] = ("GET",), auth: bool = False, any_host: bool = False
    ) -> Callable[[_F], _F]: ...
    def route(
        self,
        path: str,
        app: AsgiCallable | None = None,
        /,
        *,
        methods: Collection[str] = ("GET",),
        auth: bool = False,
        any_host: bool = False,
    ) -> object:
        """Register a function that serves HTTP requests for a path, or serve an ASGI application there.

        The function, async or not, gets a `mcprev.RouteRequest`, or nothing if it has no parameter. It returns text,
        bytes, a dict or list to send as JSON, None for a response without content, or a tuple of status and any of
        these, and optionally headers: `return 404, "there is none"`. It may also be an endpoint of Starlette, with its
        request and its response. `app.route("/site/", site)` serves an ASGI application below a prefix.

        - `methods` are the HTTP methods, GET by default; GET includes HEAD. Others get 405.
        - `auth` requires what the endpoint requires: a token, or to pass `principal`. Default: anybody may send requests.
        - `any_host` accepts every `Host` and `Origin`. Default: those that the endpoint accepts.

        Routes of an app that is mounted with the prefix `shop` are below `/shop`. Routes are served over HTTP, by ASGI
        apps that are made afterwards. Raises `ValueError` for a path that is invalid or registered, and `TypeError` for a
        function with other parameters. A path that the server serves itself is refused with `ValueError` when
        an ASGI app is made.
        """
        from mcprev.app.routes import route_app
        from mcprev.transports.http.server.routes import Route

        if not path.startswith("/") or "//" in path:
            raise ValueError(f"the route '{path}' has to begin with a slash, and has no empty part")

        def register(function: _F) -> _F:
            if path in self._routes:
                raise ValueError(f"the route '{path}' is registered already")
            serves = (
                cast("AsgiCallable", function)
                if app is not None
                else route_app(function, methods, self._executor)
            )
            self._routes[path] = Route(serves, auth=auth, any_host=any_host)
            return function

        return register if app is None else register(cast("Any", app))

    def health(self, live: str = "/healthz", ready: str = "/ready") -> None:
        """Register two routes for health probes, at the paths `live` and `ready`.

        `live` responds with 200. `ready` responds with 200, or with 503 while the server should get no requests:
        while it shuts down, and while its store does not respond. Both accept every client and every `Host`. Both
        respond with 503 if the lifespan of the server fails.
        """
        from mcprev.transports.http.server.health import health_routes

        for path, route in health_routes(live, ready).items():
            self.route(path, route.app, any_host=route.any_host)

    def all_routes(self) -> dict[str, Route]:
        """Return the routes of this app and of those that are mounted in it. Raises `ValueError` for a path that is registered twice."""
        found = dict(self._routes)
        for inner, prefix in self._inner_routes:
            for own, route in inner.all_routes().items():
                path = own if prefix is None else f"/{prefix}{own}"
                if path in found:
                    raise ValueError(f"the route '{path}' of a mounted app is registered already")
                found[path] = route
        return found
