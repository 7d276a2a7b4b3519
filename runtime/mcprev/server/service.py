"""What serves clients over every transport: their connections, changes, store, tasks and lifespan (LIFE-11, SUB-8).

`mcprev.server.server.Server` answers with a handler, `mcprev.bridge.bridge.Bridge` with other servers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from mcprev.callbacks import call_in
from mcprev.conversion import OnDowngrade
from mcprev.core.capabilities import ServerCapabilities
from mcprev.core.connection import Connection
from mcprev.core.interfaces import RequestHandler
from mcprev.core.keepalive import check_interval, keep_pinging
from mcprev.core.limits import MAX_HANDLERS
from mcprev.core.store import COMMAND_STORE
from mcprev.errors import LocalProtocolError
from mcprev.protocol.endpoint import ServerProtocol, server_protocol
from mcprev.protocol.request_state import LIFETIME, RequestStateSealer
from mcprev.protocol.subscriptions import CHANGES, Changed
from mcprev.protocol.uris import Spell, comparable, unescaped
from mcprev.server.options import ServiceOptions, options_of_http
from mcprev.server.sending import Observer
from mcprev.transports.lines import LineConnection
from mcprev.wire.jsonrpc import MAX_LINE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Self

    from typing_extensions import Unpack

    from mcprev.core.store import Records
    from mcprev.errors import Json
    from mcprev.server.lifespan import Enter, LifespanRunner
    from mcprev.server.session_state import SessionStates
    from mcprev.server.task_manager import TaskManager
    from mcprev.sharing.changes import SharedChanges
    from mcprev.transports.http.server.asgi import AsgiApp
    from mcprev.transports.http.server.options import HttpOptions
    from mcprev.transports.http.server.routes import Route

_logger: Final = logging.getLogger("mcprev.server")
HOST: Final = "127.0.0.1"
PORT: Final = 8000


class Service:
    """What `mcprev.Server` and `mcprev.Bridge` have in common: all but what answers requests.

    A subclass sets `request_handler`.
    """

    request_handler: RequestHandler[Connection]
    """Serves the requests of every connection."""

    def __init__(
        self,
        identity: ServerCapabilities,
        options: ServiceOptions,
        *,
        audience: str = "",
        lifespans: Sequence[Enter] = (),
        new_protocol: Callable[[ServerCapabilities], ServerProtocol] = ServerProtocol,
    ) -> None:
        """Set what clients are told of the server, and the options.

        `audience` is that of request states without the options `states` and `store`. `new_protocol` makes the protocol of a
        connection that `connection` returns.
        """
        self.identity: ServerCapabilities = identity
        """What the server declares."""
        name = str(identity.info["name"])
        states, state, tasks = options.get("states"), options.get("state"), options.get("tasks")
        middleware = options.get("middleware", ())
        self.records: Records | None = (store := COMMAND_STORE.get() or options.get("store"))
        """The whole store, which other servers may share."""
        self.store: Records | None = None
        """The records of this server alone in the `store`, for all its processes."""
        self.changes: SharedChanges | None = None
        """The changes that its processes tell each other; None without a `store`."""
        self._connections: set[Connection] = set()
        self._prepare: Callable[[], Awaitable[None]] | None = None
        """Reads what processes share, before a request is served; None if they share nothing."""
        if store is not None:
            from mcprev.server.session_state import StateLimits
            from mcprev.sharing.changes import SharedChanges
            from mcprev.sharing.keys import SharedKeys
            from mcprev.stores.prefixed import of_service

            self.store = of_service(store, name)
            self.changes = SharedChanges(self.store, self.apply_change, self._connections)
            if states is None:
                keys = SharedKeys(self.store, max(LIFETIME, (state or StateLimits()).ttl))
                states, self._prepare = RequestStateSealer(keys, audience=name), keys.refresh
        self._states = states or RequestStateSealer(audience=audience)
        self._state_limits = state
        self._session_states: SessionStates | None = None
        self.tasks: TaskManager | None = None
        if tasks is not None:
            from mcprev.server.task_manager import TaskManager

            self.tasks = TaskManager(tasks, self.store)
        self.lifespan: LifespanRunner | None = None
        """Runs the lifespan, and ends what a `store` shares; None for a server with neither."""
        if lifespans or store is not None:
            from mcprev.server.lifespan import LifespanRunner

            self.lifespan = LifespanRunner(lifespans, self._end_work)
        self.http: HttpOptions = options_of_http(options)
        """The options of serving over HTTP, `auth` included."""
        self.on_downgrade: OnDowngrade | None = options.get("on_downgrade")
        """Replaces values that the client's revision cannot represent; None to use the default replacements."""
        around: Sequence[object] = middleware
        found = [each for each in around if isinstance(each, Observer)][:1]
        self.observer: Observer | None = next(iter(found), None)
        """The middleware that also sees connections and requests to clients, such as `mcprev.Telemetry`."""
        others: list[Any] = [each for each in around if not isinstance(each, Observer)]
        self._watching = [each.connected for each in (*found, *others) if hasattr(each, "connected")]
        keepers = (each for each in others if hasattr(each, "changed"))
        self.forget: list[Callable[[Changed, str | None], object]] = [each.changed for each in keepers]
        """Told of each change, because they keep results, such as `mcprev.middleware.Caching`."""
        if middleware:
            from mcprev.server.middleware import place_middleware

            place_middleware(middleware, name)
        self.on_kept: list[Callable[[Connection], object]] = []
        """Told of each connection that is kept, also of a restored one."""
        self.routes: Callable[[], Mapping[str, Route]] = dict
        """Returns the routes of the app, which are served beside those of the options."""
        self._new_protocol = new_protocol
        self._max_line = options.get("max_line", MAX_LINE)
        self.max_handlers: int = options.get("max_handlers", MAX_HANDLERS)
        self._ping_interval = check_interval(options.get("ping_interval"))
        self.canonical_uri: Spell = unescaped
        """Returns the spelling of a URI for which requests are served, and by which policies decide."""

    @property
    def session_states(self) -> SessionStates:
        """The session states of all clients, which handlers use as `ctx.session`; created at the first use."""
        if self._session_states is None:
            from mcprev.server.session_state import SessionStates, StateLimits
            from mcprev.stores.memory import MemoryRecords

            store = MemoryRecords() if self.records is None else self.records
            limits = StateLimits() if self._state_limits is None else self._state_limits
            self._session_states = SessionStates(store, limits, self._states, self.identity.info["name"])
        return self._session_states

    # -- connections ---------------------------------------------------------------------------------------

    def connection(self) -> LineConnection:
        """Return the connection of a new client, for a transport of your own: an `asyncio.Protocol` of the running loop."""
        made = LineConnection(
            self._new_protocol(self.identity),
            self.request_handler,
            _logger,
            max_line=self._max_line,
            max_handlers=self.max_handlers,
        )
        self.keep(made)
        return made

    def keep(self, connection: Connection, /) -> None:
        """Send notifications of `changed`, and pings if enabled, to a connection of a transport, until it ends."""
        self._connections.add(connection)
        if self.changes is not None:
            self.changes.start()
        for connected in () if connection.restored else self._watching:
            connected(connection)
        if self._ping_interval is not None:
            session = server_protocol(connection.protocol).session
            connection.start(keep_pinging(connection, session, self._ping_interval))
        connection.closed.add_done_callback(lambda _: self._discard(connection))
        for kept in self.on_kept:
            kept(connection)

    def _discard(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if self.changes is not None and not self._connections:
            self.changes.stop()

    def run_stdio(self) -> None:
        """Serve one client on stdin and stdout until it closes them or the process receives SIGINT, SIGTERM or SIGHUP.

        Blocks; in a running event loop, await `serve_stdio` instead. At the end, requests in progress have one second to finish. If a
        handler still runs one second later, the process ends without it, with exit code 0. Raises what the lifespan raises at its start.
        """
        from mcprev.transports.stdio.server import run_stdio

        run_stdio(self.running)

    async def serve_stdio(self) -> None:
        """Serve one client on stdin and stdout within a running event loop; see `run_stdio`. Handles no signals."""
        from mcprev.transports.stdio.server import serve_stdio

        await serve_stdio(self.running)

    def asgi(self, **options: Unpack[HttpOptions]) -> AsgiApp:
        """Return an ASGI app for clients of every revision, to run in an ASGI server or to mount in another app.

        One endpoint serves Streamable HTTP, with and without sessions. If the app is mounted, the mount path is an
        endpoint too, and lifespan events need not be forwarded. Frameworks redirect a request to the mount path without
        a trailing slash; to avoid that, use `Route("/mcp", app)` or mount the app at the root.

        No option is required. Those that the server was made with hold unless they are passed here, one by one: `auth=None`
        takes back its `auth`. `mcprev.transports.http.server.options.HttpOptions` describes each in full. Times
        are in seconds, sizes in bytes.

        - `path` is the path of the endpoint, `/mcp` by default. `sse` serves HTTP+SSE too, the transport of 2024-11-05.
        - `auth` is a `mcprev.Bearer`, which requires and verifies tokens. `principal` is a function that returns the
          principal of a request from its ASGI scope, for apps that authenticate requests themselves.
        - `hosts` are the only accepted values of the header `Host`, and `origins` the accepted origins of web pages. By
          default, pages of this machine are accepted, and at loopback addresses only host names of this machine.
        - `proxies` are the addresses of trusted proxies, which say who their clients are; `root_path` is the prefix that a
          proxy removes from paths.
        - `routes` are ASGI applications beside the endpoint, by exact path (`/health`) or prefix (`/admin/`).
        - `json_response`: True sends every response as JSON, False as an event stream if the client accepts one. None:
          JSON if the response is quick and no other message precedes it.
        - `sessions` and `get_stream` are True by default: `initialize` opens a session, which has a stream for messages
          outside of requests. `events` stores sent events, so that a client can resume a stream; None stores none.
        - `idle` (1,800), `max_sessions` (10,000) and `max_sessions_per_client` (1,000) bound sessions; `max_requests`
          (16,384) bounds concurrent requests outside of sessions. `clock` measures idle time instead of the event loop.
        - `max_body` (4 MiB), `max_values` (120,000 JSON values in a body), `max_bodies` (256 MiB in all), `max_headers` (64 KiB) and `body_timeout` (30) bound requests.
        - `defer` (0.2) is the time until a response becomes an event stream, `heartbeat` (15) the time until a silent
          stream gets a comment, `send_timeout` (60) the time until a client that does not read is disconnected.
        - `max_connections` (10,000), `keep_alive` (180, of a connection without a request), `drain` (30, to finish calls and tasks when the
          server stops) and `shutdown_delay` (1 of it, in which new ones are served) have an effect in `run_http` and `serve_http` only.

        Raises `ValueError` for invalid options and `TypeError` for unknown ones. See
        https://modelcontextprotocol.io/specification/latest/basic/transports.
        """
        from mcprev.server.http_app import http_app
        from mcprev.transports.http.server.options import http_settings

        return http_app(self, self.changes, self.routes(), http_settings({**self.http, **options}))

    def run_http(self, host: str = HOST, port: int = PORT, **options: Unpack[HttpOptions]) -> None:
        """Serve over HTTP until the process receives SIGINT, SIGTERM or SIGHUP; the options are those of `asgi`.

        Calls in progress and tasks then have `drain` seconds to finish. `host` is the address to listen on; the default, 127.0.0.1, is
        reachable from this machine only. Blocks; in a running event loop, await `serve_http` instead. Raises `ValueError` for invalid options,
        `mcprev.errors.MissingExtra` without `pip install 'mcprev[http]'`, and `OSError` if the port is in use.
        """
        from mcprev.serving.running import run_http

        run_http(self.asgi(**options), host, port)

    async def serve_http(
        self,
        host: str = HOST,
        port: int = PORT,
        *,
        ready: Callable[[int], object] | None = None,
        **options: Unpack[HttpOptions],
    ) -> None:
        """Serve over HTTP within a running event loop, until cancelled or the process receives SIGINT, SIGTERM or SIGHUP.

        The options are those of `asgi`. `port` 0 picks a free port; `ready` is called with the port when the server
        listens. Raises the errors of `run_http`.
        """
        from mcprev.serving.running import serve_http

        await serve_http(self.asgi(**options), host, port, ready=ready)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self, None]:
        """Keep the lifespan running in an `async with` block: over several clients, or for a transport of your own."""
        owner = object()
        try:
            if self.lifespan is not None:
                await self.lifespan.hold(owner)
            yield self
        finally:
            await (self._end_work() if self.lifespan is None else self.lifespan.release(owner))

    async def aclose(self) -> None:
        """Close every connection and cancel the tasks that still run; may be called more than once."""
        for connection in tuple(self._connections):
            await connection.aclose()
        await self._end_work()

    async def _end_work(self) -> None:
        """End the tasks that run, and tell other processes the last changes."""
        if self.tasks is not None:
            await self.tasks.aclose()
        if self.changes is not None:
            await self.changes.aclose()

    def changed(self, what: Changed | str, uri: str | None = None) -> None:
        """Notify clients that the list of `tools`, `prompts` or `resources` changed, or one `resource` with its `uri`.

        A session is notified of every changed list and of its subscribed resources, a listen stream of what it subscribed to; but not
        of a resource of an app that the client does not see. With a `store`, clients of other processes are notified too, within a
        second. May be called in any thread. Raises `LocalProtocolError` for another `what`, and for a `uri` without `resource` or the reverse.
        """
        if what not in CHANGES:
            raise LocalProtocolError(f"'{what}' is not a kind of change; use one of {', '.join(CHANGES)}")
        kind = Changed(what)
        if (kind is Changed.RESOURCE) is (uri is None):
            raise LocalProtocolError("pass `uri` with 'resource', and with no other kind of change")
        self.apply_change(kind, uri)
        if self.changes is not None:
            self.changes.publish(kind, uri)

    def on_change(self, callback: Callable[[Changed, str | None], object]) -> None:
        """Call `callback(kind, uri)` for each change in any process that shares the `store`, before clients are notified."""
        self.forget.append(callback)

    def apply_change(self, kind: Changed, uri: str | None = None) -> None:
        """Notify the clients of this process of a change, which may have been made in another process."""
        for forget in self.forget:
            forget(kind, None if uri is None else self.canonical_uri(uri))
        for connection in [each for each in tuple(self._connections) if not each.shared]:
            call_in(connection.closed.get_loop(), self.tell_change, connection, kind, uri)

    def tell_change(self, connection: Connection, kind: Changed, uri: str | None) -> list[asyncio.Task[None]]:
        """Notify one client of a change, if it has subscribed to such changes and sees what changed.

        Returns the checks that find out what it sees, and notify it then.
        """
        if uri is None:
            return self.notify_of(connection, kind, None)
        subscribed, served = server_protocol(connection.protocol).subscribed(), self.canonical_uri(uri)
        # Spellings that a template serves alike differ in more than `comparable` makes one.
        alike = [
            each for each in subscribed if ("?" in each or "%" in each) and self.canonical_uri(each) == served
        ]
        spellings = {comparable(one): one for one in (uri, served, *alike)}.values()
        return [task for each in spellings for task in self.notify_of(connection, kind, each)]

    def notify_of(self, connection: Connection, kind: Changed, uri: str | None) -> list[asyncio.Task[None]]:
        """Notify one client of a change of what it calls so, if it has subscribed to such changes."""
        server_protocol(connection.protocol).changed(kind, uri)
        connection.process_events()
        return []

    async def notify_session(
        self, session_id: str, method: str, params: Mapping[str, Json] | None = None
    ) -> bool:
        """Send a notification to the client of a session, whichever process serves it; return whether it was sent.

        For what completes after its request, such as an elicitation by URL; `params` are those of the latest revision. It is not
        sent if the session is unknown, or if its revision does not have the method.
        """
        from mcprev.sharing.notifying import notify_session

        return await notify_session(self.store, self._connections, session_id, method, dict(params or {}))
