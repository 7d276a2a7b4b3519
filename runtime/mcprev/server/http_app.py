"""Makes the ASGI app of a server, with its routes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from mcprev.core.store import is_whole
from mcprev.serving.finishing import finishing_tasks, runs_tasks
from mcprev.transports.http.server.asgi import AsgiApp
from mcprev.transports.http.server.local_sessions import LocalSessions

if TYPE_CHECKING:
    from mcprev.core.connection import Connection
    from mcprev.core.interfaces import ServerApp
    from mcprev.sharing.changes import SharedChanges
    from mcprev.transports.http.server.dispatcher import MakeDirectory
    from mcprev.transports.http.server.options import HttpSettings
    from mcprev.transports.http.server.request import App
    from mcprev.transports.http.server.routes import Route


def http_app(
    server: ServerApp[Connection],
    changes: SharedChanges | None,
    routes: Mapping[str, Route],
    settings: HttpSettings,
) -> AsgiApp:
    """Return the ASGI app of a server, with the changes that its processes tell each other; `routes` are its own, beside those of the settings and of their `auth`.

    Raises `ValueError` for a route whose path is invalid or taken.
    """
    auth = settings.auth
    make_directory: MakeDirectory = LocalSessions
    store = server.store
    if changes is not None and is_whole(store):
        from mcprev.sharing.sessions import SharedSessions

        make_directory = partial(SharedSessions, server, changes, store)
    stopping, busy = partial(finishing_tasks, server), partial(runs_tasks, server)
    several: list[Mapping[str, App | Route]] = [{**routes}, {**settings.routes}]
    if auth is not None:
        auth.serve_for(server.identity.info, server.store)
        several.append(auth.routes)
    if not any(several):
        return AsgiApp(server, settings, stopping, None, make_directory, busy)
    from mcprev.transports.http.server.route_table import RouteTable

    taken = {settings.path, *settings.sse_paths}
    table = RouteTable(
        *several, taken=taken, can_authenticate=auth is not None or settings.principal is not None
    )
    return AsgiApp(server, settings, stopping, table, make_directory, busy)
