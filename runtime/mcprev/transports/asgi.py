"""A server as an ASGI app: one path for every revision (design §4.3; HTTP-1, HTTP-2, HTTP-31, SEC-3, AUTH-1, AMB-14).

Paths, origins, tokens, sizes and the body are seen to here, in this order; what a request is, `http_classify` says;
`hosting` carries it out. Nothing has to be started: whoever mounts the app need not forward its lifespan, and
everything belongs to the event loop that runs the first request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mcprev.driver import LINGER
from mcprev.errors import HEADER_MISMATCH, InvalidRequest
from mcprev.protocol.http_classify import Endpoint, classify, session_id
from mcprev.protocol.http_verdicts import HttpError, RequestClass
from mcprev.transports.body_budget import BodyBudget, BodyShare, ClientGone
from mcprev.transports.cors import Receive, Scope, Send
from mcprev.transports.hosting import HttpDispatcher, stopped
from mcprev.transports.http_incoming import AsgiRequest, HttpRequest
from mcprev.transports.http_options import Principal, HttpSettings, checked_principal
from mcprev.transports.security import OriginPolicy, too_many_headers
from mcprev.transports.tool_headers import ListedParamHeaders
from mcprev.wire.headers import SESSION_ID_KEY, Headers
from mcprev.wire.jsonrpc import Batch, Malformed, Message, parse

if TYPE_CHECKING:
    from mcprev.auth.bearer import Bearer
    from mcprev.revisions import Revision
    from mcprev.server import Server

logger: Final = logging.getLogger("mcprev.transport.http")


class AsgiApp:
    """A server over HTTP, to be run by any ASGI server or mounted in another app; see `Server.asgi`."""

    def __init__(self, server: Server, settings: HttpSettings) -> None:
        self.server = server
        self.settings = settings
        self._access = OriginPolicy(settings.origins, settings.hosts)
        self.budget = BodyBudget(settings.max_bodies)
        """The memory that the bodies of requests take."""
        self._auth = settings.auth
        self._documents = frozenset[str]() if settings.auth is None else settings.auth.paths
        self._tools = ListedParamHeaders(server)
        self._endpoint = Endpoint(
            server.identity.rows,
            sessions=settings.sessions,
            sessionless=not settings.sessions,
            get_stream=settings.get_stream,
            json_only=settings.json_response is True,
            param_headers=self._tools.of,
        )
        self._hosting: HttpDispatcher | None = None
        self._closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan of the app."""
        kind = scope["type"]
        if kind == "http":
            pairs = scope["headers"]
            incoming = AsgiRequest(scope, receive, send, Headers(pairs))
            too_many = too_many_headers(pairs, self.settings.max_headers)
            if too_many is None:
                await self.serve(incoming)
            else:
                await incoming.refuse(too_many)
        elif kind == "lifespan":
            await self._lifespan(receive, send)
        elif kind == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._closed = False
            elif message["type"] == "lifespan.shutdown":
                await self.aclose()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async def aclose(self, *, linger: float = LINGER) -> None:
        """End all sessions and streams; what comes from now on is refused with 503.

        Calls in progress get `linger` seconds to finish, in which their clients may answer what they are asked.
        """
        hosting = self._hosting
        if hosting is not None and hosting.loop is asyncio.get_running_loop():
            await hosting.aclose(linger)
        self._closed, self._hosting = True, None

    def fail_requests(self) -> None:
        """Answer all calls in progress with an error: the server stops at once."""
        if self._hosting is not None:
            self._hosting.fail_requests()

    @property
    def hosting(self) -> HttpDispatcher:
        """What is held in the running event loop; what another one held, or what the server has ended, is gone."""
        found = self._hosting
        if found is None or found.loop is not asyncio.get_running_loop() or found.shared.error is not None:
            found = self._hosting = HttpDispatcher(self.server, self.settings)
        return found

    # -- a request -----------------------------------------------------------------------------------------

    async def serve(self, incoming: HttpRequest) -> None:
        """Serve one request, of whichever HTTP server, whose headers are within bounds."""
        try:
            reject = self._let_in(incoming)
            if reject is None and self._auth is not None:
                reject = await self._authorize(self._auth, incoming)
            if reject is None:
                if incoming.place is None:
                    reject = await self._at_endpoint(incoming)
                else:
                    reject = await self._elsewhere(incoming)
            if reject is not None:
                await incoming.refuse(reject)
        except (ClientGone, OSError) as error:
            logger.debug("a client is gone: %s", error)
        finally:
            if incoming.share is not None:
                incoming.share.release()

    def _let_in(self, incoming: HttpRequest) -> HttpError | None:
        """See where a request is to go and whether it may; or give its refusal."""
        here, headers = self.settings.path, incoming.headers
        place = here if incoming.path == here else self._place(incoming)
        if place is None:
            return HttpError(404, InvalidRequest("Invalid Request: there is nothing at this path"))
        if self._closed:
            return stopped()
        reject = self._access.refusal(headers, incoming.address)
        if reject is not None:
            return reject
        if self.settings.principal is not None:
            found = self._who(self.settings.principal, incoming.scope)
            if isinstance(found, HttpError):
                return found
            incoming.principal = found
        if place is not here:
            incoming.place = place
        return None

    def _who(self, find: Principal, scope: Mapping[str, Any]) -> str | HttpError | None:
        """Who sends a request. Where that cannot be told nobody is let in, for None would be anybody (HTTP-28)."""
        try:
            return checked_principal(find(scope))
        except Exception:
            logger.exception("who sends a request cannot be told, so it is refused")
            return HttpError(403, InvalidRequest("Forbidden: it cannot be told who sends the request"))

    async def _authorize(self, auth: Bearer, incoming: HttpRequest) -> HttpError | None:
        """See what the token of a request says, or give its refusal; what tells of tokens needs none (AUTH-1)."""
        if incoming.place in self._documents:
            return None
        found = await auth.admit(incoming.headers, incoming.scope.get("query_string", b""))
        if isinstance(found, HttpError):
            return found
        incoming.access, incoming.principal = found, found.subject
        return stopped() if self._closed else None

    def _place(self, incoming: HttpRequest) -> str | None:
        """Which of the app's paths a request is for. At its root, a mounted app has its endpoint."""
        path, root, here = incoming.path, incoming.root, self.settings.path
        if root and path.startswith(root):
            path = path[len(root) :]
            if path in {"", "/"}:
                return here
        path = path.rstrip("/") or "/"
        if path == here:
            return here
        return path if path in self.settings.sse_paths or path in self._documents else None

    async def _at_endpoint(self, incoming: HttpRequest) -> HttpError | None:
        """Serve a request to the one endpoint of the newer transports."""
        verb, headers, principal = incoming.verb, incoming.headers, incoming.principal
        hosting = self._hosting
        if (
            hosting is None
            or hosting.shared.error is not None
            or hosting.loop is not asyncio.get_running_loop()
        ):
            hosting = self.hosting
        message = None
        if verb == "POST":
            body = incoming.body()
            if body is None:
                read = await self._read(hosting, incoming)
                if isinstance(read, HttpError):
                    return read
                body = read
            incoming.share = BodyShare(self.budget, body)
            if self.budget.held > self.budget.limit:
                return self.budget.refusal(incoming.share)
            message = parse(body, batch=True)
            del body  # the request may take long
            if self._auth is not None and incoming.access is not None:
                reject = self._auth.covers(incoming.access, message)
                if reject is not None:
                    return reject
        session = live = None
        if SESSION_ID_KEY in headers.found:
            session = hosting.sessions.find(session_id(headers), principal)
            live = None if session is None else session.row
        verdict = await self._judge(hosting, incoming, message, live)
        if hosting is not self._hosting or hosting.shared.error is not None:
            return stopped()  # while the body was read
        if isinstance(verdict, HttpError):
            if session is not None and isinstance(message, Malformed):
                session.hear(message)  # a broken answer ends the waiting for a good one
            return verdict
        return await hosting.carry_out(verdict, session, incoming)

    async def _judge(
        self, hosting: HttpDispatcher, incoming: HttpRequest, message: Message | Batch | None, live: Revision | None
    ) -> RequestClass:
        """Find out what a request is, for which the tool may have to be known that it calls."""
        verb, headers, principal = incoming.verb, incoming.headers, incoming.principal
        tools = self._tools
        if self._endpoint.modern and not tools.knows(message, principal):
            await tools.learn(message, principal, hosting.shared, incoming.access)
        verdict = classify(self._endpoint, verb, headers, message, live)
        if (
            isinstance(verdict, HttpError)
            and verdict.error.code == HEADER_MISMATCH
            and await tools.learn_again(message, principal, hosting.shared, incoming.access)
        ):
            verdict = classify(self._endpoint, verb, headers, message, live)
        return verdict

    async def _elsewhere(self, incoming: HttpRequest) -> HttpError | None:
        """Serve a request to one of the two endpoints of the oldest transport, or for the metadata."""
        if self._auth is not None and incoming.place in self._documents:
            answer = self._auth.document(incoming.verb)
            if not incoming.reply(*answer):
                await incoming.answer(*answer)
            return None
        hosting = self.hosting
        if incoming.place == self.settings.sse_paths[0]:
            return await hosting.open_sse(incoming)
        found = hosting.sse.find(incoming)
        if isinstance(found, HttpError):
            return found
        body = await self._read(hosting, incoming)
        if isinstance(body, HttpError):
            return body
        incoming.share = BodyShare(self.budget, body)
        refused = self.budget.refusal(incoming.share)
        return refused or await hosting.take_sse(found, body, incoming)

    async def _read(self, hosting: HttpDispatcher, incoming: HttpRequest) -> bytes | HttpError:
        upkeep = hosting.upkeep
        task = incoming.task = asyncio.current_task(hosting.loop)
        assert task is not None
        upkeep.reads(task)
        try:
            return await incoming.read(self.settings.max_body, self.budget)
        except asyncio.CancelledError:
            if task not in upkeep.late:
                raise
            upkeep.late.discard(task)
            task.uncancel()
            return HttpError(408, InvalidRequest("Invalid Request: the body took too long"))
        finally:
            del upkeep.reading[task]
