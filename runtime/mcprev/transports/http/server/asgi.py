"""A server as an ASGI app: one path for every revision (HTTP-1, HTTP-2, HTTP-31, SEC-3, AUTH-1, AMB-14).

This module checks path, origin, token and size of a request and reads its body, in this order. `http_request_class` then
classifies the request, and `dispatcher` serves it. The app works without its lifespan, so an app that mounts it need not
forward that. All its state belongs to the event loop that runs the first request.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from mcprev.callbacks import call_within
from mcprev.core.connection import Connection
from mcprev.core.interfaces import ServerApp
from mcprev.core.limits import LINGER
from mcprev.core.store_probe import StoreProbe
from mcprev.errors import InvalidRequest, StoreError
from mcprev.protocol.http_request_class import Endpoint, HttpError, classify, not_started, stopped
from mcprev.transports.http.security import OriginPolicy, too_many_headers
from mcprev.transports.http.server.authentication import token_refusal
from mcprev.transports.http.server.body_budget import BodyShare, ClientGone, too_much
from mcprev.transports.http.server.dispatcher import HttpDispatcher, MakeDirectory, unavailable
from mcprev.transports.http.server.http_app import HttpApp
from mcprev.transports.http.server.local_sessions import LocalSessions
from mcprev.transports.http.server.options import IDENTIFY, HttpSettings, Principal, checked_principal
from mcprev.transports.http.server.request import (
    NOT_CODED,
    AsgiRequest,
    HttpRequest,
    Receive,
    Scope,
    Send,
    is_coded,
)
from mcprev.transports.http.server.routes import NoRoutes, RouteInfo
from mcprev.transports.http.server.stop_signal import on_stop
from mcprev.wire.headers import SESSION_ID_KEY, Headers
from mcprev.wire.jsonrpc import Malformed, parse

if TYPE_CHECKING:
    from mcprev.transports.http.server.authentication import Authentication

logger: Final = logging.getLogger("mcprev.transport.http")


class AsgiApp(HttpApp):
    """A server as an ASGI app, for any ASGI server or to be mounted in another app; see `Server.asgi`."""

    def __init__(
        self,
        server: ServerApp[Connection],
        settings: HttpSettings,
        stopping: Callable[[float, Callable[[], bool]], AbstractAsyncContextManager[None]],
        routes: NoRoutes | None = None,
        make_directory: MakeDirectory = LocalSessions,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """`stopping` returns the context of a stop: tasks go on in it, and after it for what is left of these seconds or
        until the function returns True. `busy` returns whether there are tasks.
        """
        super().__init__(settings)
        self._around_stop, self._busy = stopping, busy
        self._is_told = False
        """Whether the ASGI server tells the app of its end, and waits for it then."""
        self._make_directory = make_directory
        self.server = server
        self._origin_policy = OriginPolicy(settings.origins, settings.hosts)
        self._auth = settings.auth
        self._root = settings.root_path
        self._routes = routes or NoRoutes()
        self._endpoint = Endpoint(
            server.identity.revisions,
            sessions=settings.sessions,
            get_stream=settings.get_stream,
            json_only=settings.json_response is True,
        )
        self._dispatcher: HttpDispatcher | None = None
        self._watching = False
        """Whether the app waits for the signal that stops the server that runs it."""
        self._stopping: asyncio.Task[None] | None = None
        self.probe: StoreProbe = StoreProbe(server.records)
        """Tries whether the store can be used."""
        self._probing: asyncio.Task[bool] | None = None
        self._closed = self._draining = self._hurried = False

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan of the app."""
        kind = scope["type"]
        if kind == "http":
            if not self._watching:
                self._watching = True
                on_stop(self._stop_signalled, lambda: self._busy() and not self._is_told)
            pairs = scope["headers"]
            http_request = AsgiRequest(scope, receive, send, Headers.of(pairs))
            if self.proxies is not None:
                http_request.come_through(self.proxies, scope.get("client"))
            too_many = too_many_headers(pairs, self.settings.max_headers)
            if too_many is None:
                await self.serve(http_request)
            else:
                await http_request.refuse(too_many)
        elif kind == "lifespan":
            await self._lifespan(receive, send)
        elif kind == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._closed = self._draining = self._watching = self._hurried = False
                self._is_told = True
                try:
                    await self.start()
                    self.try_store()
                except Exception as error:  # noqa: BLE001 - the ASGI server is told, and ends
                    text = f"the lifespan of the server failed: {type(error).__name__}: {error}"
                    await send({"type": "lifespan.startup.failed", "message": text})
                    return
            elif self._stopping is not None or not self._closed:
                await self._stop(LINGER)
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    @override
    async def start(self) -> None:
        """Enter the lifespan of the server, if it has one that does not run yet. Raises what it raises."""
        if self.server.lifespan is not None:
            await self.server.lifespan.hold(self)

    @override
    def try_store(self) -> None:
        """Begin to try whether the store can be used, and log it if not; serving does not wait for that."""
        if self.server.records is not None:
            self._probing = asyncio.get_running_loop().create_task(self.probe.answers())

    @override
    async def stop(self) -> None:
        """Leave the lifespan of the server, if nobody else needs it."""
        if self.server.lifespan is not None:
            await self.server.lifespan.release(self)

    @override
    def leave(self) -> bool:
        """Be ready no more: end streams that wait for nothing and refuse new ones. Calls are served until `aclose`.

        Return whether other processes can serve all clients of this one meanwhile.
        """
        self._draining, dispatcher = True, self._dispatcher
        if dispatcher is None or dispatcher.loop is not asyncio.get_running_loop():
            return True
        dispatcher.leave()
        return dispatcher.is_replaceable

    @override
    async def aclose(self, *, linger: float = LINGER) -> None:
        """End all sessions and streams, and answer further requests with 503.

        Calls in progress have `linger` seconds to finish; meanwhile clients can still answer the server's requests.
        """
        self.leave()
        dispatcher = self._dispatcher
        served = asyncio.create_task(self._routes.finish(linger))
        if dispatcher is not None and dispatcher.loop is asyncio.get_running_loop():
            await dispatcher.aclose(linger)
        await served
        if self._probing is not None:
            self._probing.cancel()
        self._closed, self._dispatcher = True, None
        await self.stop()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Serve in an `async with` block, at whose end calls have a second to finish, and tasks `drain`.

        For the lifespan of an app that mounts this one, as frameworks do not forward theirs: `lifespan=lambda web: asgi.running()`.
        """
        self._is_told = True
        await self.start()
        try:
            yield
        finally:
            if self._stopping is not None or not self._closed:
                await self._stop(LINGER)

    def _stop_signalled(self, number: int) -> asyncio.Task[None]:
        """End all sessions and streams, because the server that runs this app waits for that; tasks at a second SIGINT."""
        self._hurried |= self._draining and number == signal.SIGINT
        return self._stop(self.settings.drain)

    def _stop(self, linger: float) -> asyncio.Task[None]:
        """Stop, unless that has begun: calls have `linger` seconds, and tasks `drain`."""

        async def stop() -> None:
            async with self._around_stop(self.settings.drain, lambda: self._hurried):
                await self.aclose(linger=linger)

        if self._stopping is None or (self._stopping.done() and not self._closed):
            self._stopping = asyncio.create_task(stop())
        return self._stopping

    @override
    def fail_requests(self) -> None:
        """Answer all calls in progress with an error, because the server stops at once."""
        if self._dispatcher is not None:
            self._dispatcher.fail_requests()

    @property
    def dispatcher(self) -> HttpDispatcher:
        """The sessions and streams of the running event loop; new ones if the loop changed or the server ended them."""
        found = self._dispatcher
        if found is None or found.loop is not asyncio.get_running_loop() or found.shared.error is not None:
            found = self._dispatcher = HttpDispatcher(self.server, self.settings, self._make_directory)
            found.leaving = self._draining
        return found

    # -- a request -----------------------------------------------------------------------------------------

    @override
    async def serve(self, http_request: HttpRequest) -> None:
        """Serve one request of any HTTP server; its headers are within their limit."""
        if self._root and not http_request.root:
            http_request.below(self._root)
        try:
            reject = self._check_access(http_request)
            if reject is None and self.settings.principal is not None:
                reject = await self._identify(self.settings.principal, http_request)
            if reject is None and self._auth is not None:
                reject = await self._authorize(self._auth.at(http_request.root), http_request)
            if reject is None and self.server.lifespan is not None:
                reject = await self._start_lifespan()
            if reject is None:
                if http_request.place is None:
                    reject = await self._at_endpoint(http_request)
                else:
                    reject = await self._at_other_endpoint(http_request)
            if reject is not None:
                await http_request.refuse(reject)
        except StoreError as error:
            logger.warning("a request cannot be served without the store: %s", error)
            await http_request.refuse(unavailable(error))
        except (ClientGone, OSError) as error:
            logger.debug("a client disconnected: %s", error)
        finally:
            if http_request.share is not None:
                http_request.share.release()

    def _check_access(self, http_request: HttpRequest) -> HttpError | None:
        """Find the endpoint of a request and check its origin; return the error response if it is refused."""
        here, headers = self.settings.path, http_request.headers
        place = here if http_request.path == here else self._place(http_request)
        if place is None:
            return HttpError(404, InvalidRequest("Invalid Request: there is nothing at this path"))
        if self._closed:
            return stopped()
        if b"content-encoding" in headers and is_coded(headers) and place in {here, *self.settings.sse_paths}:
            return NOT_CODED
        if place is not here:
            http_request.place = place
            if self._routes.at_any_host(place):
                return None
        return self._origin_policy.refusal(headers, http_request.address, http_request.proxy_host)

    async def _start_lifespan(self) -> HttpError | None:
        """Enter the lifespan for an app whose lifespan events nobody forwards; return the error response if it fails."""
        try:
            await self.start()
        except Exception:
            logger.exception("the lifespan of the server failed, so its request is refused")
            return not_started()
        return stopped() if self._closed else None

    async def _identify(self, find: Principal, http_request: HttpRequest) -> HttpError | None:
        """Set the principal of a request, or return 403 if `find` raises: None would mean an anonymous client."""  # HTTP-28
        if self._routes.in_the_open(http_request.place):
            return None
        try:
            http_request.principal = checked_principal(await call_within(IDENTIFY, find, http_request.scope))
        except Exception:
            logger.exception("the sender of a request could not be authenticated, so the request is refused")
            return HttpError(
                403, InvalidRequest("Forbidden: the sender of the request could not be authenticated")
            )
        return stopped() if self._closed else None

    async def _authorize(self, auth: Authentication, http_request: HttpRequest) -> HttpError | None:
        """Verify the token of a request; return the error response if it is refused."""  # AUTH-1
        if self._routes.in_the_open(http_request.place):
            return None
        found = await auth.admit(http_request.headers, http_request.scope.get("query_string", b""))
        if isinstance(found, HttpError):
            return found
        http_request.access, http_request.principal = found, found.subject
        return stopped() if self._closed else None

    def _place(self, http_request: HttpRequest) -> str | None:
        """Return the app's path that a request is for, or None. A mounted app serves its endpoint at its root too."""
        path, root, here = http_request.path, http_request.root, self.settings.path
        if root and path.startswith(root):
            path = path[len(root) :]
            if path in {"", "/"}:
                return here
        path = path.rstrip("/") or "/"
        if path == here:
            return here
        if path in self.settings.sse_paths:
            return path
        found = self._routes.find(path)
        return self._routes.find(root + path) if found is None and root else found

    async def _at_endpoint(self, http_request: HttpRequest) -> HttpError | None:
        """Serve a request to the endpoint of Streamable HTTP."""
        verb, headers, principal = http_request.verb, http_request.headers, http_request.principal
        dispatcher = self.dispatcher
        message = None
        if verb == "POST":
            body = http_request.take() if http_request.ready else await self._read(http_request)
            if isinstance(body, HttpError):
                return body
            http_request.share = BodyShare(self.budget, body, http_request)
            if self.budget.held > self.budget.free:
                refused = self.budget.refusal(http_request.share)
                if refused is not None:
                    return refused
            message = parse(body, batch=True, max_values=self.settings.max_values)
            http_request.method = getattr(message, "method", None)
            del body  # free the memory: the request may take long
            if self._auth is not None and http_request.access is not None:
                auth, spell = self._auth.at(http_request.root), self.server.canonical_uri
                reject = await token_refusal(auth, http_request.access, message, spell)
                if reject is not None:
                    return reject
        session = live = None
        session_id = headers.get(SESSION_ID_KEY)
        if session_id is not None:
            session = dispatcher.sessions.find(session_id, principal)
            directory = dispatcher.directory
            if directory.shared and (session is None or directory.is_doubtful(session)):
                restored = await directory.restore(session_id, http_request)
                if isinstance(restored, HttpError):
                    return restored
                session = restored
            live = None if session is None else session.revision
        request_class = classify(self._endpoint, verb, headers, message, live)
        if dispatcher is not self._dispatcher or dispatcher.shared.error is not None:
            return stopped()  # the server stopped while the body was read
        if isinstance(request_class, HttpError):
            if session is not None and isinstance(message, Malformed):
                session.receive_unanswered(message)  # fails the call that a malformed response belongs to
                if session.copies.unsettled:
                    await session.copies.settle()
            return request_class
        return await dispatcher.serve(request_class, session, http_request)

    async def _at_other_endpoint(self, http_request: HttpRequest) -> HttpError | None:
        """Serve a request to one of the endpoints of HTTP+SSE, or for a route."""
        if http_request.place not in self.settings.sse_paths:
            return await self._at_route(http_request)
        dispatcher = self.dispatcher
        if http_request.place == self.settings.sse_paths[0]:
            return await dispatcher.open_sse(http_request)
        found = dispatcher.sse.find(http_request)
        if isinstance(found, HttpError) and (found.status != 404 or not dispatcher.directory.shared):
            return found
        body = await self._read(http_request)
        if isinstance(body, HttpError):
            return body
        http_request.share = BodyShare(self.budget, body, http_request)
        refused = self.budget.refusal(http_request.share)
        connection = None if isinstance(found, HttpError) else found
        return refused or await dispatcher.take_sse(connection, body, http_request)

    async def _at_route(self, http_request: HttpRequest) -> HttpError | None:
        """Serve a request for a route; its body counts towards the budget until the end of the response."""
        body = await self._read(http_request)
        if isinstance(body, HttpError):
            return body
        client = http_request.client
        if not self.budget.take(len(body), client):
            return too_much()
        try:
            info = RouteInfo(
                not self._draining,
                http_request.principal,
                http_request.access,
                self.server.records,
                self.probe,
            )
            return await self._routes.serve(http_request, body, info)
        finally:
            self.budget.give(len(body), client)

    async def _read(self, http_request: HttpRequest) -> bytes | HttpError:
        timeout = asyncio.timeout(self.settings.body_timeout)
        try:
            async with timeout:
                return await http_request.read(self.settings.max_body, self.budget)
        except TimeoutError:
            if not timeout.expired():
                raise
            return HttpError(408, InvalidRequest("Invalid Request: the body took too long"))
