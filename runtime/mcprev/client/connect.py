"""Opens connections: starts the server, negotiates the revision, returns a client (NEG-1..7, NEG-12, LIFE-4, MOD-10,
STDIO-7).

`protocol.negotiation.machine` decides what to try next, and `client.opener` carries out its steps.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from mcprev.client.callbacks import (
    Elicitation,
    LogMessage,
    OnChange,
    OnWire,
    Roots,
    Sampling,
    handler_of,
    report_changes,
)
from mcprev.client.client import Client
from mcprev.client.open_blocks import OpenBlocks
from mcprev.client.opener import Opener
from mcprev.client.options import TIMEOUT, TOTAL
from mcprev.client.probing import open_soon
from mcprev.client.request_handler import ClientHandler, ClientRequestHandler
from mcprev.client.server_cache import Policy, ServerCache
from mcprev.client.session import ClientSession, ClientSettings, SessionFactory
from mcprev.client.targets import HasServer, Target, target_of
from mcprev.core.capabilities import (
    ClientCapabilities,
    DeclaredExtension,
    checked_handler,
    introduction,
    spoken,
    with_extensions,
)
from mcprev.core.keepalive import check_interval
from mcprev.core.options.names import names_options
from mcprev.core.options.objects import check_option
from mcprev.core.reconnect_policy import NEVER, ReconnectPolicy
from mcprev.protocol.cache import ResultCache, Scope
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.protocol.negotiation import steps, versions as negotiate
from mcprev.protocol.tap import Tap
from mcprev.revisions import Era
from mcprev.version import __version__

if TYPE_CHECKING:
    from mcprev.client.recording.recording import Recording
    from mcprev.transports.memory import PipeServer
    from mcprev_types.latest import models

PROBE: Final = 10.0
"""Seconds to wait for the response to `server/discover`: longer than a server takes to start."""
OPEN: Final = 60.0
"""Seconds to wait for the response to `initialize`."""


class connect:  # noqa: N801 - called like a function
    """Connects to a server: `async with connect(stdio("command")) as client`, or `client = await connect(...)`.

    The client negotiates the revision. After `await connect(...)`, close it with `await client.aclose()`. Several tasks
    may be inside `async with` of one object at once; each has a client of its own.
    """

    @names_options("connect")
    def __init__(
        self,
        target: Target | PipeServer | HasServer | str,
        *,
        handler: ClientHandler | None = None,
        roots: Roots | None = None,
        sampling: Sampling | None = None,
        elicitation: Elicitation | None = None,
        logging: LogMessage | None = None,
        on_change: OnChange | None = None,
        name: str = "mcprev",
        version: str = __version__,
        title: str | None = None,
        description: str | None = None,
        website_url: str | None = None,
        icons: Sequence[models.Icon] = (),
        revisions: Sequence[str] | None = None,
        mode: str = "auto",
        capabilities: models.ClientCapabilities | None = None,
        extensions: Sequence[DeclaredExtension] = (),
        exact: Mapping[str, object] | None = None,
        prior: models.DiscoverResult | None = None,
        era: Era | None = None,
        timeout: float | None = TIMEOUT,
        total_timeout: float | None = TOTAL,
        probe_timeout: float = PROBE,
        open_timeout: float = OPEN,
        restart: ReconnectPolicy | bool = True,
        cache: ResultCache | bool = True,
        validate: Policy = "warn",
        strict: bool = False,
        ping_interval: float | None = None,
        tasks: bool = True,
        record: str | os.PathLike[str] | None = None,
        tap: OnWire | None = None,
        telemetry: SessionFactory | None = None,
    ) -> None:
        """Prepare a connection to `target`; `async with` or `await` opens it. Times are in seconds.

        - `target` is a URL, for `mcprev.http(url)`; `mcprev.stdio(command, ...)`, for a process to start; or a
          `mcprev.Server` or `mcprev.App` of this process.
        - `handler` is a `mcprev.ClientHandler` for the server's requests and notifications; the client declares the
          capabilities of the methods that it overrides. `capabilities` are declared too, such as the URL mode of
          elicitation. `exact` maps revisions to handlers that get params in the types of that revision.
        - `extensions` are the extensions to declare, each a `mcprev.Extension`, with the methods that they add.
        - `roots`, `sampling`, `elicitation` and `logging` replace a handler. `roots` is a sequence of paths, `file:`
          URIs or `Root` models, read again for each request. The others are functions, async or not, that get the
          params: `sampling` returns a `CreateMessageResult`; `elicitation` the content of the form as a dict, None to
          decline, or an `ElicitResult`; `logging` gets log messages, which `client.set_log_level` requests.
        - `on_change`, async or not, is called with each `mcprev.Change` of the lists of tools, prompts and resources.
        - `name`, `version`, `title`, `description`, `website_url` and `icons` describe this client to the server.
        - `revisions` are the revisions to negotiate. None: every dated revision. `mode` narrows them: `auto` keeps all,
          `legacy` keeps those with an `initialize` handshake, and the name of a revision keeps that one.
        - `prior` is an earlier result of `server/discover` of this server, and `era` the `client.spoken.era` of an
          earlier connection. Either saves a request.
        - `timeout` is the maximum time without a response or progress (60 by default), `total_timeout` that of a whole
          call (600); None: no maximum. `probe_timeout` is that of the response to `server/discover` (10), behind which
          `initialize` is sent after 1 s; `open_timeout` that of the response to `initialize` (60).
        - `restart` is a `mcprev.ReconnectPolicy` for lost connections. True: that of the target, `ReconnectPolicy()`
          for `stdio` and `http`. False: a lost connection is not opened again. A call in progress fails when the
          connection is lost; it is not repeated, because a new server process has no state.
        - `cache` stores results for as long as the server allows. True: in a cache of this client alone. False: not. A
          `mcprev.ResultCache` can be shared by targets with a `cache_key`, its private results by the same `principal`.
        - `validate`: if a tool's result does not match the tool's output schema, `warn` logs it, `strict` raises
          `RemoteProtocolError`, and `off` does not check.
        - `ping_interval` is the time between pings, at revisions with `ping`. The connection to a server that does
          not respond within 10 s is closed. None: no pings.
        - `tasks` declares that the server may respond to a call with a task; the client waits for the task's result.
        - `strict=True` raises `RemoteProtocolError` for a list with an entry that is not valid. False, the default: the
          entry is left out, a warning is logged, and `Client.invalid_entries` has it.
        - `record` is the path of a file to which every message is appended, for `mcprev validate`, with arguments and
          results, and the status and media type of HTTP responses, but without HTTP headers and members with names of secrets. None: no recording.
        - `tap` is a function that is called with each `mcprev.WireEvent`: all that is sent and received, with its secrets,
          in the order of the wire. It must not be async or block. If it raises, it is not called again.
        - `telemetry` is a `mcprev.Telemetry`, which records a span for each request and sends its id in `_meta`.

        Raises `ValueError` for an unknown revision, mode or value of `validate`, and `TypeError` for an unknown option, for a
        target, handler or tap of another type, and for a handler together with functions that replace it.
        """
        self._target = target = target_of(target)
        functions = handler_of(roots, sampling, elicitation, logging)
        if functions is not None and handler is not None:
            raise TypeError("pass `handler`, or roots and functions that replace it, but not both")
        handler = functions or handler
        policy: ReconnectPolicy = getattr(target, "restarts", NEVER) if restart is True else restart or NEVER
        if isinstance(cache, bool):
            cache = ResultCache() if cache else ResultCache(max_bytes=1)  # which no result fits in
        server = getattr(target, "cache_key", None) or object()
        scope = Scope(server, getattr(target, "principal", None) or object())
        spoken_revisions, own = spoken(negotiate.allow(revisions, mode), exact, "ClientHandler")
        own_capabilities = {} if capabilities is None else capabilities.to_wire()
        declared, added = with_extensions(own_capabilities, extensions, "ClientHandler")
        identity = ClientCapabilities(
            handler=object() if handler is None else checked_handler(handler, "ClientHandler"),
            info=introduction(
                name, version, icons, title=title, description=description, websiteUrl=website_url
            ),
            revisions=spoken_revisions,
            exact=own,
            declared=declared,
            added=added,
            tasks=tasks,
        )
        self._server_cache = ServerCache(cache, scope, validate)
        self._new_opener = partial(Opener, target, identity, probe_timeout, open_timeout)
        self._new_settings = partial(
            ClientSettings, identity, (timeout, total_timeout), policy, check_interval(ping_interval),
            self._server_cache, strict=strict,
        )  # fmt: skip
        self._identity, self._telemetry = identity, telemetry
        self._prior = None if prior is None else prior.to_wire()
        self._era = era
        self._on_change = on_change
        self._record = record
        check_option("tap", tap, "__call__", "a function, which is called with each WireEvent")
        self._tap: Tap | None = None
        if tap is not None:
            from mcprev.client.recording.tap import WireTap

            self._tap = WireTap(tap)
        self.server_name: str | None = None
        """`Client.server_name` of the clients."""
        self._entered: OpenBlocks[Client] = OpenBlocks()

    async def __aenter__(self) -> Client:
        """Connect. Raises `NegotiationError`, `TransportError`, `AuthError`, or `OSError` for the file of `record`."""
        return self._entered.enter(await self._connect())

    async def _connect(self) -> Client:
        cache, now = self._server_cache, asyncio.get_running_loop().time
        telemetry = self._telemetry
        handler = ClientRequestHandler(self._identity, None if telemetry is None else telemetry.wrap)
        files, ending = ExitStack(), set[asyncio.Task[None]]()
        recording: Recording | None = None
        if self._record is not None:
            from mcprev.client.recording.recording import Recording

            recording = files.enter_context(closing(Recording(self._record)))
        tap = self._tap if recording is None else recording.tapped(self._tap)

        def new_opener() -> Opener:
            opener = self._new_opener(handler, self._identity.result_types)
            opener.tap, opener.new_protocol = tap, recording.protocol if recording else ClientProtocol
            if telemetry is not None:
                opener.trace = telemetry.trace_context
            return opener

        def end_later(task: asyncio.Task[None]) -> None:
            ending.add(task)
            task.add_done_callback(ending.discard)

        try:
            prior = self._prior or cache.introduction(now())
            opener, opened = await open_soon(new_opener, end_later, self._era, prior)
        except BaseException:
            if ending:
                await asyncio.wait(ending)
            files.close()
            raise

        async def close() -> None:
            """Release the target and the file of the recording, after the last connection."""
            if ending:
                await asyncio.wait(ending)
            await opener.close()
            files.close()

        if isinstance(opened.plan.step, steps.Ready) and opened.plan.step.method is steps.Method.DISCOVER:
            cache.introduced(opened.discovery, now())
        settings = self._new_settings(handler.answer_input, opener.reopen, handler.callbacks)
        new_session = ClientSession if telemetry is None else telemetry.session
        client = handler.client = Client(new_session(settings, opened), close, self.server_name)
        if self._on_change is not None:
            await report_changes(client, self._on_change)
        return client

    async def __aexit__(self, *_: object) -> None:
        await self._entered.leave().aclose()

    def __await__(self) -> Generator[Any, None, Client]:
        return self._connect().__await__()

    @override
    def __repr__(self) -> str:
        return f"<connect {self._target!r}>"
