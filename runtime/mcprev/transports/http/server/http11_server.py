"""HTTP/1.1 connections that call the app without ASGI, and their requests (HTTP-3, HTTP-31, HTTPM-5, HTTPM-6, SEC-6).

uvicorn accepts and stops connections, httptools parses the bytes, and this module keeps the order of the requests on a
connection. ASGI would cost each request a dictionary, two queues and two calls of `send`, more than the app itself
costs. The app is the same: `AsgiApp` serves it on any other server too. A response of known length is one write; any
other is sent in chunks, or to a client of HTTP/1.0 until the connection is closed.

HTTP leaves these points open; they are decided here:

- A connection is closed if no request begins within `keep_alive` seconds after a response, which is more than balancers
  wait, so that they close it and no request crosses its end. A head that has begun has `STALLED` seconds.
- Before a connection without a request is closed, it is looked whether bytes have arrived; they are served, and the response
  says that the connection closes.
- `Upgrade` is declined: the request is served without it (RFC 9110, section 7.8).
- After a response to a request that was not read completely, the connection is closed `LINGER` seconds later, so that
  the client can read the response.
- A client that reads nothing for `STALLED` seconds is disconnected, even if a request is being served.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections import deque
from collections.abc import Callable
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

import httptools
from typing_extensions import override

from mcprev.core.shares import Shares, free_of
from mcprev.errors import InternalError, InvalidRequest
from mcprev.platforms import HERE
from mcprev.protocol.http_request_class import RETRY_SOON, HttpError
from mcprev.transports.http.security import too_long_a_head, too_many_headers
from mcprev.transports.http.server.body_budget import BodyBudget, too_large, too_much
from mcprev.transports.http.server.http11_request import Http11Request
from mcprev.transports.http.server.other_protocols import OtherProtocol, other_protocol
from mcprev.transports.http.server.request import network_of
from mcprev.transports.stdio.pipes import use_small_reads
from mcprev.wire.headers import SPACE, Headers

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

    from mcprev.transports.http.server.http_app import HttpApp
    from mcprev.transports.http.server.proxies import Proxies

STALLED: Final = 60
"""Seconds that a client has to complete a head, or to read more of what it is sent."""
GRACE: Final = 0.5
"""Seconds that a new connection has for its first request before it may be closed to make room for another."""
LINGER: Final = 2
"""Seconds that a client has to read the response to a request that it has not sent completely."""
LOOKED_AT: Final = 64
"""The number of connections among which one is looked for that makes room: more would hold up all others."""
WAITING: Final = 64
"""The maximum number of requests that wait on a connection, because they take more memory than bytes on the wire.

It is that of handlers too that go on after their responses, such as one that has called `ctx.close_stream`."""
_NO_HTTP: Final = HttpError(400, InvalidRequest("Invalid Request: this is not HTTP/1.1"), null_id=True)
_TOO_MANY: Final = HttpError(
    503, InternalError("too many requests wait on this connection"), null_id=True, headers=RETRY_SOON
)
_NO_CODING: Final = HttpError(
    501, InvalidRequest("Invalid Request: the only transfer coding is chunked"), null_id=True
)
_FAILED: Final = HttpError(500, InternalError("the server failed"), null_id=True)
_VERBS: Final = {verb.encode(): verb for verb in ("POST", "GET", "DELETE")}
_VERSIONS: Final = frozenset({"1.0", "1.1"})
_URL: Final = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)
"""A target that is a URL, as it is sent to proxies; its authority is the host, whatever `Host` says (RFC 9112, section 3.2.2)."""
_MAPPED: Final = "::ffff:"
"""How an address of IPv4 begins at a socket of both families."""
_OFFERS: Final = frozenset({b"connection", b"upgrade", b"http2-settings"})
_logger: Final = logging.getLogger("mcprev.transport.http")


class Http11Server:
    """The state that all connections to one app share."""

    def __init__(self, app: HttpApp, most: int | None = None) -> None:
        """`most` is the maximum number of connections. None: that of the app's settings."""
        self.app = app
        self.most: int = app.settings.max_connections if most is None else most
        """The maximum number of connections."""
        self._places = Shares(self.most, free=free_of(self.most))
        """The connections of each address."""
        self.target: bytes = app.settings.path.encode()
        self.path: str = app.settings.path
        self.keep_alive: float = app.settings.keep_alive
        """Seconds after which a connection without a request is closed."""
        self._open: dict[Http11Connection, None] = {}
        """The connections, oldest first."""
        self._sweeping = False
        self._met: set[str] = set()
        """Other protocols that somebody spoke."""
        self.leaving: bool = False
        """Whether each connection is closed after its next response."""
        self.lasting: set[asyncio.Task[object]] = set()
        """Handlers that go on although their responses are complete."""

    def opened(self, connection: Http11Connection, loop: asyncio.AbstractEventLoop) -> None:
        """Add a connection."""
        self._open[connection] = None
        connection.stopping = self.leaving
        connection.counted = self._places.take(connection.place)
        if not connection.counted and self._places.exceeds_share(connection.place):
            self._make_room_at(connection)
        if not self._sweeping:
            self._sweeping = True
            loop.call_later(1.0, self._sweep, loop)

    def closed(self, connection: Http11Connection) -> None:
        """Remove a connection."""
        if connection in self._open and connection.counted:
            self._places.give(connection.place)
        self._open.pop(connection, None)

    def _make_room_at(self, newest: Http11Connection) -> None:
        """Close one of the oldest connections of an address that has more than its share if it is idle, else its newest one."""  # SEC-6
        own = [each for each in islice(self._open, LOOKED_AT) if each.place == newest.place and each.is_quiet]
        unasked = [each for each in own if not each.has_input]
        spare = max(unasked, key=Http11Connection.silence, default=newest)
        spare.give_way()
        if spare is not newest:  # which takes its place
            newest.counted, spare.counted = spare.counted, newest.counted

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        for connection in tuple(self._open):
            connection.tick()
        self._sweeping = bool(self._open)
        if self._open:
            loop.call_later(1.0, self._sweep, loop)

    def meet(self, other: OtherProtocol, client: tuple[str, int] | None) -> None:
        """Log once what speaks another protocol, and what to do."""
        if other.name not in self._met:
            self._met.add(other.name)
            _logger.warning(
                "%s speaks %s to this port, which is plain HTTP/1.1: %s",
                client[0] if client is not None else "somebody",
                other.name,
                other.cure,
            )

    def make_room(self) -> bool:
        """Close the longest idle connections; return False if every connection has a request in progress."""
        idle = [connection for connection in self._open if connection.is_idle]
        for connection in nlargest(1 + len(self._open) // 64, idle, key=Http11Connection.silence):
            connection.shutdown()
        return bool(idle)

    def leave(self) -> None:
        """Close each connection after its next response."""
        self.leaving = True
        for connection in self._open:
            connection.stopping = True

    def close_idle(self) -> None:
        """Close the connections that have no request in progress; the others say so in their response, or stay open after it."""
        for connection in tuple(self._open):
            if not connection.is_serving:
                connection.shutdown()

    def abort(self) -> None:
        """Abort all connections."""
        for connection in tuple(self._open):
            connection.abort()
        for task in tuple(self.lasting):
            task.cancel()


class Http11Connection(asyncio.Protocol):
    """One connection of a client; uvicorn calls the constructor."""

    def __init__(
        self,
        http_server: Http11Server,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        del config, app_state
        self.http_server = http_server
        self.state = server_state
        """The state that uvicorn keeps of all connections."""
        self._loop = _loop or asyncio.get_running_loop()
        self._max_body = http_server.app.settings.max_body
        self.budget: BodyBudget = http_server.app.budget
        self._max_headers = http_server.app.settings.max_headers
        self.address: str | None = None
        """The local address at which its requests arrive."""
        self.server: tuple[str, int] | None = None
        self.client: tuple[str, int] | None = None
        self.place: str | None = None
        """The key of clients at its address, for quotas; None for a trusted proxy."""
        self._proxies: Proxies | None = None
        """Those that are trusted, if the peer is one of them."""
        self.paused: bool = False
        """Whether the client reads too slowly to be sent more."""
        self.closed: bool = False
        self.stopping: bool = False
        """Whether responses say that the connection closes after them."""
        self.counted: bool = False
        """Whether it counts for the share of its address."""
        self._ending = False
        """Whether it closes after the request in progress, whatever the response has said."""
        self.write: Callable[[bytes], None] = _drop
        """Sends bytes; discards them once the connection is closed."""
        self._writable: asyncio.Future[None] | None = None
        self.queue: deque[Http11Request] = deque()
        """The requests that wait for the response in progress."""
        self._lasting = 0
        self._serving: Http11Request | None = None
        self._receiving: Http11Request | None = None
        self._full = False
        self._ticks = self._unread = 0
        self._reading_paused = False
        self._parser = httptools.HttpRequestParser(self)
        self._begun = False
        """Whether there was a request before that of which bytes arrive."""
        self._target = b""
        self._pairs: list[tuple[bytes, bytes]] = []
        self._in_head = False
        self._chunk = self._overhead = self._slack = 0
        self._fed = False

    # -- the transport -------------------------------------------------------------------------------------

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._made = self._loop.time()
        self.write = self._transport.write
        use_small_reads(transport)
        self.server, self.client = _address(transport, "sockname"), _address(transport, "peername")
        self.address = None if self.server is None else self.server[0]
        self._proxies = self.http_server.app.proxies
        if self._proxies is not None and not self._proxies.trust(self.client):
            self._proxies = None
        # A trusted proxy has connections for all: its requests count for those who send them.
        self.place = None if self.client is None or self._proxies is not None else network_of(self.client[0])
        cast("set[object]", self.state.connections).add(self)
        self.http_server.opened(self, self._loop)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        cast("set[object]", self.state.connections).discard(self)
        self.http_server.closed(self)
        self.closed = True
        self.write = _drop
        self.resume_writing()
        while self.queue:
            self.queue.pop().take()
        if self._serving is not None:
            self._serving.lost()
        # Break the reference cycle with the parser.
        self._receiving = None
        del self._parser

    @override
    def pause_writing(self) -> None:
        self.paused = True
        self._ticks = self._unread = 0

    @override
    def resume_writing(self) -> None:
        self.paused = False
        self._wake_writer()

    async def writable(self) -> None:
        """Wait until the client has read enough, or has disconnected."""
        self._writable = self._loop.create_future()
        await self._writable

    def _wake_writer(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    @override
    def data_received(self, data: bytes) -> None:
        if self._reading_paused:
            return
        pieces: list[bytes | memoryview] = [data]
        while pieces:
            piece = pieces.pop()
            self._chunk, self._fed = len(piece), False
            try:
                self._parser.feed_data(piece)
            except httptools.HttpParserUpgrade as error:
                pieces += self._decline(memoryview(piece)[error.args[0] :])
            except httptools.HttpParserError:
                self._refuse(bytes(piece[:24]))
                return
        if self._in_head or not (self._fed or self._receiving is None or self._receiving.complete):
            # The size of a head, and of the framing of chunks, is limited.
            self._overhead += self._chunk
            if self._overhead - self._slack > self._max_headers:
                self._broken(too_long_a_head(self._max_headers))

    def shutdown(self) -> None:
        """Stop: close the connection after the request in progress, or after one that has arrived."""
        self.stopping = self._ending = True
        if self._serving is not None:
            return
        if self._in_head or HERE.has_input(self._transport):
            self._ticks = STALLED - LINGER
        else:
            self._transport.close()

    @property
    def is_serving(self) -> bool:
        """Whether a request is in progress."""
        return self._serving is not None

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress, no part of a response is unsent, and there was time for a first request."""
        return self.is_quiet and self._loop.time() - self._made >= GRACE

    @property
    def is_quiet(self) -> bool:
        """Whether no request is in progress and no part of a response is unsent."""
        return (
            self._serving is None
            and not self._ending
            and not self._transport.is_closing()
            and not self._transport.get_write_buffer_size()
        )

    @property
    def has_input(self) -> bool:
        """Whether bytes have arrived that the event loop has not read yet."""
        return HERE.has_input(self._transport)

    def silence(self) -> int:
        """Return the seconds since the last response."""
        return self._ticks

    def give_way(self) -> None:
        """Close the connection at once, because its address has more than its share; part of a head is lost."""
        self.stopping = self._ending = True
        self._transport.close()

    def abort(self) -> None:
        """Cancel the request in progress and abort the connection."""
        if self._serving is not None and self._serving.task is not None:
            self._serving.task.cancel()
        self._transport.abort()

    def tick(self) -> None:
        """Count a second; close the connection after too many without a request, abort it after too many without progress."""
        if self._serving is None or self.paused:
            waiting = self._transport.get_write_buffer_size()
            self._ticks = 0 if waiting < self._unread else self._ticks + 1
            self._unread = waiting
            stalls = waiting or self.paused or self._in_head or self._ending or self._reading_paused
            if stalls and self._ticks > STALLED:
                self._transport.abort()
            elif not stalls and self._ticks > self.http_server.keep_alive:
                self.shutdown()

    # -- callbacks of the parser -----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._begun = self._target != b"" or self._begun
        self._target, self._pairs = b"", []
        # Earlier bytes of the same piece belong to the previous request.
        self._in_head, self._overhead, self._slack = True, 0, self._chunk
        if not self._ending:
            self._ticks = 0

    def on_url(self, url: bytes) -> None:
        """Add a part of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; trailers are ignored."""
        if self._in_head:
            self._pairs.append((name.lower(), value.strip(SPACE)))

    def on_headers_complete(self) -> None:
        """Make a request of the complete head, and serve it after the earlier ones."""
        parser, target = self._parser, self._target
        self._in_head = False
        if self._reading_paused or parser.should_upgrade():
            self._receiving = None
            return
        path = self.http_server.path if target == self.http_server.target else self._path_of(target)
        verb, values = parser.get_method(), dict(self._pairs)
        headers = Headers(values) if len(values) == len(self._pairs) else Headers.of(self._pairs)
        request = Http11Request(
            self, _VERBS.get(verb) or verb.decode(), path or "", target, self._pairs, headers
        )
        request.version = parser.get_http_version()
        request.keep_alive = request.version == "1.1" and parser.should_keep_alive()
        self._receiving = request
        if self._proxies is not None:
            request.come_through(self._proxies, self.client)
        if path is None or request.version not in _VERSIONS:
            request.reject(_NO_HTTP)
        elif headers.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
            request.keep_alive = False
            request.reject(_NO_CODING)
        elif self._overhead + self._chunk > self._max_headers:
            too_long = too_many_headers([*self._pairs, (target, b"")], self._max_headers)
            if too_long is not None:
                request.reject(too_long)
        self._take(request)

    def _path_of(self, target: bytes) -> str | None:
        """Return the decoded path of a request target; None if the target is invalid. The host of a URL replaces `Host`."""
        if not target.startswith(b"/") and target != b"*":
            found = _URL.match(target)
            if found is None:
                return None
            # No `Host`, and two, are left to be refused.
            others = [pair for pair in self._pairs if pair[0] != b"host"]
            if len(others) == len(self._pairs) - 1:
                self._pairs = [*others, (b"host", found[1])]
        try:
            return unquote((httptools.parse_url(target).path or b"/").decode("latin-1"))
        except httptools.HttpParserInvalidURLError:
            return None

    def on_body(self, data: bytes) -> None:
        """Add a part of the body; it is discarded if nothing will read it."""
        self._fed, self._overhead = True, 0
        request = self._receiving
        if request is None or request.answered or request.failed is not None:
            return
        request.size += len(data)
        if request.size > self._max_body:
            request.fail(too_large(self._max_body))
        elif self.budget.held + len(data) > self.budget.free and not self.budget.fits(
            len(data), request.sender
        ):
            request.fail(too_much())
        else:
            self.budget.held += len(data)
            if request.sender is not None:
                by = self.budget.by
                by[request.sender] = by.get(request.sender, 0) + len(data)
            request.taken += len(data)
            request.parts.append(data)

    def on_message_complete(self) -> None:
        """Complete the request."""
        request = self._receiving
        if request is not None:
            request.complete = True
            request.ready = request.failed is None
            if request.waiting is not None:
                request.wake()

    def _decline(self, rest: memoryview) -> tuple[memoryview, bytes] | tuple[()]:
        """Return the pieces to parse instead, in reverse order: the head without `Upgrade`, then the rest."""
        parser, verb = self._parser, self._parser.get_method()
        if verb == b"CONNECT":
            self._broken(_NO_HTTP)
            return ()
        lines = [b"%b %b HTTP/%b" % (verb, self._target, parser.get_http_version().encode())]
        lines += [b"%b: %b" % pair for pair in self._pairs if pair[0] not in _OFFERS]
        if not parser.should_keep_alive():
            lines.append(b"connection: close")
        self._parser = httptools.HttpRequestParser(self)
        return rest, b"\r\n".join([*lines, b"", b""])

    def _refuse(self, data: bytes) -> None:
        """Refuse what is not HTTP/1.1, in the protocol that the first bytes of the connection are of, if it is known."""
        found = None if self._begun else other_protocol(data)
        if found is not None:
            self.http_server.meet(found, self.client)
        response = _NO_HTTP if found is None else found.response
        if isinstance(response, HttpError):
            self._broken(response)
        else:
            self.write(response)
            self._linger()

    def _broken(self, refusal: HttpError) -> None:
        """Refuse the invalid input and stop reading; earlier requests are still served."""
        self._reading_paused = True
        request = self._receiving
        if request is None or request.complete or self._in_head:
            request = Http11Request(self, "", "", b"", [], Headers({}))
            request.complete = True
            request.reject(refusal)
            request.keep_alive = False
            self._take(request)
        else:
            request.keep_alive = False
            request.fail(refusal)

    # -- serving -------------------------------------------------------------------------------------------

    def _take(self, request: Http11Request) -> None:
        if self._serving is not None and self._serving.answered:
            self.release(self._serving)
        if self._serving is not None:
            self.queue.append(request)
            if not self._full:
                self._full = True
                self._transport.pause_reading()
            if len(self.queue) > WAITING:
                self._reading_paused, request.keep_alive = True, False
                request.reject(_TOO_MANY)
            return
        self._serving = request
        request.task = self._loop.create_task(self._run(request))

    async def _run(self, request: Http11Request) -> None:
        try:
            if request.refusal is None:
                await self.http_server.app.serve(request)
            else:
                await request.refuse(request.refusal)
        except Exception:
            _logger.exception("a request could not be served")
            if not request.begun:
                await request.refuse(_FAILED)
        finally:
            if request.taken:
                request.take()
            if self._serving is request:
                if (
                    request.answered
                    and request.keep_alive
                    and not (self._ending or self.queue or self.closed)
                ):
                    self._serving, self._ticks = None, 0
                else:
                    self._go_on(request)

    def release(self, request: Http11Request) -> None:
        """Serve the next request, because the response to this one is complete; its handler may go on."""  # HTTP-17
        task, lasting = request.task, self.http_server.lasting
        if self._serving is not request or task is None or self._lasting >= WAITING:
            return
        self._lasting += 1
        lasting.add(task)
        task.add_done_callback(self._ended)
        self._go_on(request)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._lasting -= 1
        self.http_server.lasting.discard(task)

    def _go_on(self, request: Http11Request) -> None:
        """Take the next request, or close the connection, after the response to this one or its failure."""
        self._serving, self._ticks = None, 0
        if self.closed:
            pass
        elif not request.answered:
            # The missing end tells the client that the response is incomplete.
            self._transport.abort()
        elif request.keep_alive and not self._ending:  # the client was not told that it closes
            if self.queue:
                self._take(self.queue.popleft())
            if self._full and not self.queue:
                self._read_on()
        elif request.complete and not self._reading_paused:
            self._transport.close()
        else:
            self._linger()

    def _linger(self) -> None:
        """Close later, when the client has read the response: closing with unread input would reset the connection."""
        self._reading_paused = True
        self._ticks, self._unread = STALLED - LINGER, 0
        if self._full:
            self._read_on()
        if self._transport.can_write_eof():
            with contextlib.suppress(OSError):
                self._transport.write_eof()

    def _read_on(self) -> None:
        self._full = False
        self._transport.resume_reading()


def _drop(data: bytes) -> None:
    del data


def _address(transport: asyncio.BaseTransport, end: str) -> tuple[str, int] | None:
    found: object = transport.get_extra_info(end)
    if not isinstance(found, tuple):
        return None
    host, port, *_ = cast("tuple[object, ...]", found)
    return str(host).removeprefix(_MAPPED), cast("int", port)
