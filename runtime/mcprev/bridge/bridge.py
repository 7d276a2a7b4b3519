"""A bridge: a server that passes everything on to another server, for clients of every revision (SEAM-10).

Like a `Server`, it serves over every transport, with the same authentication and limits. Nothing of an
HTTP request of a client but its JSON reaches the server: no header and no token.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from secrets import token_urlsafe
from typing import TYPE_CHECKING, cast

from typing_extensions import Unpack, override

from mcprev.bridge.clients import BridgedClients, Front
from mcprev.bridge.introduction import RelayCapabilities
from mcprev.bridge.opening import OpeningProtocol
from mcprev.bridge.pair import Policy, Report
from mcprev.bridge.relay import BridgeOptions, Relay, Within
from mcprev.bridge.shared_name import NAME, name_of_servers, name_of_target
from mcprev.bridge.single_server import SingleServer
from mcprev.bridge.upstreams import Bounds, OneTarget, Upstreams
from mcprev.client.targets import HasServer, Target, target_of
from mcprev.core.capabilities import introduction
from mcprev.core.connection import Connection
from mcprev.core.interfaces import RequestHandler
from mcprev.core.store import is_whole
from mcprev.protocol.request_state import RequestStateSealer
from mcprev.revisions import select
from mcprev.server.service import Service
from mcprev.server.tasks import Tasks
from mcprev.version import __version__

if TYPE_CHECKING:
    from mcprev.auth.bearer import Bearer
    from mcprev.bridge.several.hub import Hub
    from mcprev.bridge.several.logins import Logins
    from mcprev.bridge.several.member import ServerSpec
    from mcprev.bridge.several.names import Prefixes
    from mcprev.bridge.several.servers import ConfigFile, Servers
    from mcprev.core.store import Records, Store
    from mcprev.protocol.cache import ResultCache
    from mcprev.server.middleware import Middleware
    from mcprev.transports.http.server.asgi import AsgiApp
    from mcprev.transports.http.server.options import HttpOptions
    from mcprev.transports.http.server.routes import Route
    from mcprev.transports.memory import PipeServer


class Bridge(Service):
    """A server in front of one or several other servers, which clients of every revision can use, whatever the servers' revisions are."""

    def __init__(
        self,
        target: Target | PipeServer | HasServer | str | Servers | ConfigFile,
        name: str | None = None,
        version: str = __version__,
        *,
        revisions: Sequence[str] | None = None,
        server_revisions: Sequence[str] | None = None,
        shared: bool = False,
        strict: bool = False,
        report: Report | None = None,
        record: str | os.PathLike[str] | None = None,
        bounds: Bounds | None = None,
        prefixes: Prefixes = "always",
        logins: Logins | None = None,
        states: RequestStateSealer | None = None,
        store: Records | None = None,
        middleware: Sequence[Middleware] = (),
        cache: ResultCache | None = None,
        auth: Bearer | None = None,
        http: HttpOptions | None = None,
    ) -> None:
        """Prepare a bridge to `target`: a URL, `mcprev.http(...)`, `mcprev.stdio(...)`, or a server of this process.

        Several servers are a mapping of such targets, or of `mcprev.bridge.several.options.BridgedServer` with options for
        each, by their names; or a `mcprev.bridge.several.servers.ConfigFile`.

        - `name` and `version` are sent to clients if the server does not state its own. In a `store`, processes with one
          `name` are one bridge. None: `mcprev-bridge`, and in a store a digest of `target`; see `mcprev.bridge.shared_name`.
        - `revisions` are the revisions to offer to clients, `server_revisions` those to negotiate with the server. None:
          every dated revision.
        - `shared` lets clients over HTTP without authentication share connections to a server with sessions, and so what
          the server keeps between calls. False: each of their calls gets a connection of its own. It has no effect on
          clients with a session or a principal, nor for a stateless server.
        - `strict` refuses what a revision cannot express, instead of replacing it.
        - `report` is a function that is called with each `mcprev.bridge.pair.ConversionReport`, a conversion that changed something.
        - `record` is the path of a file to which the messages of both sides are appended, for `mcprev validate`. Secrets
          in them are masked.
        - `bounds` limits connections, waits and held calls. None: the defaults of `mcprev.bridge.upstreams.Bounds`.
        - `prefixes` says which names of several servers get a prefix: `always` all of them, `needed` those that several
          servers list.
        - `logins` lets users log in at those of several servers that have a `login`; it requires `auth`, or another
          way in which `http` identifies principals.
        - `states`, `auth` and `http` are those of `mcprev.Server`, and so is `store`: processes that share one continue each
          other's calls that wait for a user, and have the same tasks.
        - `middleware` are functions around the requests that the bridge passes on, as those of `mcprev.Server`. Params and
          results are those of the client's revision, the context is a `mcprev.bridge.around.BridgedContext`.
        - `cache` stores results for as long as a stateless server allows. None: each request goes to the server.

        Raises `ValueError` for an unknown revision and for invalid options of a server, `TypeError` for a target of another
        type, and `OSError` for a file that cannot be read.
        """
        if prefixes not in ("always", "needed"):
            raise ValueError(f"`prefixes` must be 'always' or 'needed', not {prefixes!r}")
        self._logins = logins
        shared_name = self._set_target(target)
        info = introduction(name or shared_name, version, ())
        super().__init__(
            RelayCapabilities(
                handler=object(),
                info=info,
                revisions=tuple(select(None if revisions is None else tuple(revisions))),
                exact={},
                declared={},
                tasks=False,
                instructions=None,
                requires={},
            ),
            {
                "states": states,
                "store": store,
                "tasks": Tasks({}),
                "middleware": middleware,
                "auth": auth,
                "http": http,
            },
            # All servers of a process have its key, and no bridge continues calls of another.
            audience=token_urlsafe(16),
            lifespans=[self._run],
            new_protocol=OpeningProtocol,
        )
        self._prefixes: Prefixes = prefixes
        self._own = {**info, "name": name or NAME}
        if logins is not None:
            if not self.http.keys() & {"auth", "principal"}:
                raise ValueError("`logins` requires `auth`, which identifies the user of each request")
            self.routes: Callable[[], Mapping[str, Route]] = lambda: logins.routes
        self._over_http = self._on_stdio = False
        self._server_revisions = select(None if server_revisions is None else tuple(server_revisions))
        self._shared = shared
        self._policy = Policy(strict, report)
        self._record = record
        self._bounds = bounds or Bounds()
        if cache is not None and self.records is not None:
            raise ValueError(
                "`cache` belongs to one process, which does not hear of the changes that others are told of; pass no `store`"
            )
        self._cache = cache
        around: Within | None = None
        if middleware:
            from mcprev.bridge.around import Around

            around = Around(self, middleware)
        self._clients = BridgedClients(around)
        self.request_handler: RequestHandler[Connection] = self._clients
        self.on_kept.append(self._clients.watch)
        self._hub: Hub | None = None

    def _begin(self, files: ExitStack) -> Front:
        """Return what the clients of the running bridge are served with. Raises `OSError` if the file of the recording cannot be opened."""
        recording = record = None
        if self._record is not None:
            from mcprev.bridge.records import recorder
            from mcprev.client.recording.recording import Recording

            recording = files.enter_context(closing(Recording(self._record)))
            record = recorder(recording)
        options: BridgeOptions = {
            "bounds": self._bounds,
            "policy": self._policy,
            "states": self._states,
            "own": self._own,
            "revisions": self.identity.revisions,
            "shared": self._shared,
            "reads_stderr": self._on_stdio,
            "record": record,
            "prepare": self._prepare,
            "cache": self._cache,
            "forget": tuple(self.forget),
        }
        if self._specs is not None:
            from mcprev.bridge.several.hub import Hub
            from mcprev.bridge.several.several_servers import SeveralServers

            hub = Hub(
                prefixes=self._prefixes,
                server_revisions=self._server_revisions,
                recording=recording,
                store=self._shared_store(),
                options=options,
                **options,
            )
            hub.configure(self._specs)
            if self._file is not None:
                hub.start(self._file.watch(self._configure))
            if self._logins is not None:
                hub.use(self._logins)
            self._hub = hub
            return SeveralServers(hub)
        assert self._target is not None
        target = OneTarget(self._target)
        upstreams = Upstreams(target, self._server_revisions, self._own, self._bounds, recording)
        return SingleServer(Relay(upstreams=upstreams, **options), self, self._shared_store())

    def _set_target(self, given: Target | PipeServer | HasServer | str | Servers | ConfigFile) -> str:
        """Set the server or servers; return the name of the bridge in a store."""
        self._file: ConfigFile | None = None
        self._specs: dict[str, ServerSpec] | None = None
        self._target: Target | None = None
        if isinstance(given, Mapping) or callable(getattr(given, "watch", None)):
            return self._set_servers(cast("Servers | ConfigFile", given))
        self._target = target_of(given)
        return name_of_target(self._target, given)

    def _set_servers(self, given: Servers | ConfigFile) -> str:
        from mcprev.bridge.several.names import Namings
        from mcprev.bridge.several.servers import ConfigFile, specs_of

        self._file = given if isinstance(given, ConfigFile) else None
        self._specs = (
            given.read(self._logins) if isinstance(given, ConfigFile) else specs_of(given, self._logins)
        )
        Namings(spec.naming for spec in self._specs.values())
        return name_of_servers(self._specs, given.path if isinstance(given, ConfigFile) else None)

    @override
    def run_stdio(self) -> None:
        """Serve one client on stdin and stdout, with uvloop if that is installed and can; see `mcprev.Server.run_stdio`."""
        from mcprev.bridge.event_loop import new_loop_for
        from mcprev.transports.stdio.server import STDIO, run_stdio

        self._on_stdio = True
        run_stdio(self.running, new_loop_for(*STDIO.get()))

    @override
    def asgi(self, **options: Unpack[HttpOptions]) -> AsgiApp:
        """Return an ASGI app; see `mcprev.Server.asgi`.

        Raises `ValueError` if users log in at one of the servers, but the bridge does not authenticate them.
        """
        found = super().asgi(**options)
        self._over_http = True
        self._check_logins(self._specs or {})
        return found

    def _check_logins(self, specs: dict[str, ServerSpec]) -> None:
        names = [f"'{name}'" for name, spec in specs.items() if spec.logs_in]
        if names and self._over_http and self._logins is None:
            raise ValueError(
                f"users log in at {', '.join(names)}, which over HTTP requires `auth` and `logins`, because a login belongs to one user"
            )

    def _configure(self, specs: dict[str, ServerSpec]) -> None:
        self._check_logins(specs)
        if self._hub is not None:
            self._hub.configure(specs)
        self._specs = specs

    def replace_servers(self, servers: Servers) -> None:
        """Replace the servers of a bridge with several servers; it may be running.

        A server whose target and options are unchanged keeps its connections. Calls in progress complete at the
        server that they began at. Raises `ValueError` or `TypeError` for an invalid server, before anything changes.
        """
        from mcprev.bridge.several.servers import specs_of

        if self._specs is None:
            raise TypeError("this bridge has one server: pass a mapping of servers to `Bridge`")
        self._configure(specs_of(servers, self._logins))

    def _shared_store(self) -> Store | None:
        """Return the store that the workers of the bridge share; None if they share no complete store."""
        if not is_whole(self.records):
            return None
        from mcprev.stores.memory import MemoryStore
        from mcprev.stores.prefixed import of_service

        found = of_service(self.records, f"{self.identity.info['name']}/bridge")
        if isinstance(self.records, MemoryStore):
            # Processes that are tasks of one event loop need no thread to renew their lease.
            found.release = None
        return found

    async def _run(self) -> AsyncGenerator[Front, None]:
        """The lifespan of a bridge: its connections to servers end with it."""
        with ExitStack() as files:
            front = self._begin(files)
            self._clients.begin(front)
            try:
                yield front
            finally:
                await self._clients.end()
                self._hub = None
                await front.state.aclose()
