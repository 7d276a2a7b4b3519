"""Middleware that counts calls for Prometheus; the library `prometheus-client` keeps and writes the metrics."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from mcprev.core.connection import Connection
from mcprev.core.temporary_folders import NoTemporaryFolder
from mcprev.errors import MissingExtra
from mcprev.middleware.records import CallRecord, entry_name, passed_on, recordable, recorded
from mcprev.server.known_names import NAMED, KnownNames
from mcprev.server.middleware import CallNext, HandlerCall, HandlerResult
from mcprev.wire.payloads import mask_text

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Gauge

    from mcprev.transports.http.server.request import App

TOLD_APART: Final = 200
"""The default number of names of tools and prompts that are told apart."""
MAX_CODES: Final = 100
"""The maximum number of error codes that are told apart."""
OTHER: Final = "other"
SHARED: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable of `prometheus-client` with the folder in which several processes keep their metrics."""
NO_FOLDER: Final = "MCPREV_NO_METRICS_FOLDER"
"""The environment variable that is set in workers for which no folder could be made."""
BUCKETS: Final = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300)
"""The bounds of the buckets of durations, in seconds."""


class Metrics:
    """Counts calls and connections: `metrics = Metrics()`, `App(..., middleware=[metrics])`, `app.route("/metrics", metrics.app)`."""

    def __init__(self, *, registry: CollectorRegistry | None = None, max_names: int = TOLD_APART) -> None:
        """`registry` is the registry of `prometheus-client` that holds the metrics. None: a new one.

        A client may name any number of tools and prompts: told apart are the first `max_names` that are called and that
        the server has; names that are in no list but return results take up to a quarter of the room. All others count as `other`. Raises `mcprev.errors.MissingExtra` if `prometheus-client` is not
        installed (`pip install 'mcprev[metrics]'`).

        With `mcprev serve --workers`, `app` writes the metrics of all workers, whichever serves the request.
        """
        try:
            import prometheus_client as prometheus
        except ImportError as error:
            raise MissingExtra("metrics", "prometheus-client", "metrics") from error
        if os.environ.get(NO_FOLDER):
            raise NoTemporaryFolder("the metrics of several processes together")
        self.registry: CollectorRegistry = registry or prometheus.CollectorRegistry()
        """The registry that holds the metrics; others may be added to it."""
        labels = ("method", "name", "outcome")
        self._calls = prometheus.Counter("mcp_calls", "Calls that have ended", labels, registry=self.registry)
        self._seconds = prometheus.Histogram(
            "mcp_call_duration_seconds",
            "Durations of calls",
            labels[:2],
            registry=self.registry,
            buckets=BUCKETS,
        )
        self._refused = prometheus.Counter(
            "mcp_refused_requests",
            "Responses that are errors",
            ("method", "code"),
            registry=self.registry,
        )
        pair = ("client_revision", "server_revision", "server")
        self._bridged = prometheus.Counter(
            "mcp_bridged_calls",
            "Calls that a bridge has passed on to a server",
            (*pair, "outcome"),
            registry=self.registry,
        )
        self._bridged_seconds = prometheus.Histogram(
            "mcp_bridged_call_duration_seconds",
            "Durations of calls that a bridge has passed on to a server",
            pair,
            registry=self.registry,
            buckets=BUCKETS,
        )
        gauge: Any = partial(prometheus.Gauge, registry=self.registry, multiprocess_mode="livesum")
        self._running: Gauge = gauge("mcp_calls_in_progress", "Calls in progress")
        self._sessions: Gauge = gauge("mcp_connections", "Open connections and sessions")
        written = self.registry
        if SHARED in os.environ:
            from prometheus_client.multiprocess import MultiProcessCollector

            written = prometheus.CollectorRegistry()
            cast("Any", MultiProcessCollector)(written)
        self.app: App = cast("App", cast("Any", prometheus).make_asgi_app(written))
        """The ASGI application that writes the metrics."""
        self._names = KnownNames(max_names, lambda name: recordable(mask_text(name)))
        self._codes: set[str] = set()
        self._servers: set[str] = set()
        self._max_names = max_names

    async def __call__(self, call: HandlerCall, call_next: CallNext) -> HandlerResult:
        """Count a call and pass it on."""
        with self._running.track_inprogress():
            result = await recorded(call, call_next, self._ended)
        self._names.learn(call.method, result)
        return result

    def connected(self, connection: Connection) -> None:
        """Count a connection while it is open; the server calls this."""
        self._sessions.inc()
        connection.closed.add_done_callback(lambda _: self._sessions.dec())

    def _ended(self, record: CallRecord) -> None:
        call = record.call
        name = (entry_name(call) or "") if call.method in NAMED else ""
        # A server may answer a call of any name, and one that it does not know with the result of a failed tool.
        served = record.outcome in {"ok", "input_required"}
        if name and not self._names.tells_apart(call, name, served=served):
            name = OTHER
        self._calls.labels(call.method, name, record.outcome).inc()
        self._seconds.labels(call.method, name).observe(record.seconds)
        for server, revision in passed_on(call.ctx):
            known = server in self._servers or len(self._servers) < self._max_names
            if known:
                self._servers.add(server)
            pair = call.ctx.revision, revision, server if known else OTHER  # a server may choose its name
            self._bridged.labels(*pair, record.outcome).inc()
            self._bridged_seconds.labels(*pair).observe(record.seconds)
        if record.outcome == "refused":
            code = str(getattr(record.error, "code", ""))
            if code in self._codes or len(self._codes) < MAX_CODES:
                self._codes.add(code)
            else:
                code = OTHER  # a handler may pass on those of another server
            self._refused.labels(call.method, code).inc()
