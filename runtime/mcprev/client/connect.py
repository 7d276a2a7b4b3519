"""Opens connections: starts the server, negotiates the revision, returns a client (NEG-1..7, NEG-12, LIFE-4, MOD-10,
STDIO-7).

`protocol.negotiation.machine` decides what to try next, and `client.opener` carries out its steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from mcprev.client.callbacks import handler_of, report_changes
from mcprev.client.client import Client
from mcprev.client.connect_options import OPEN, PROBE, ConnectionOptions
from mcprev.client.open_blocks import OpenBlocks
from mcprev.client.opener import Opener, logger
from mcprev.client.options import TIMEOUT, TOTAL
from mcprev.client.probing import open_soon
from mcprev.client.request_handler import ClientRequestHandler
from mcprev.client.server_cache import ServerCache
from mcprev.client.session import ClientSession, ClientSettings
from mcprev.client.targets import HasServer, Target, target_of
from mcprev.core.background import Background
from mcprev.core.capabilities import (
    ClientCapabilities,
    checked_handler,
    introduction,
    spoken,
    with_extensions,
)
from mcprev.core.keepalive import check_interval
from mcprev.core.options import check_options, shows_options
from mcprev.core.reconnect_policy import NEVER, ReconnectPolicy
from mcprev.protocol.cache import ResultCache, Scope
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.protocol.negotiation import steps, versions as negotiate
from mcprev.protocol.tap import Tap
from mcprev.version import __version__

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mcprev.client.recording.recording import Recording
    from mcprev.transports.memory import PipeServer


class connect:  # noqa: N801 - called like a function
    """Connects to a server: `async with connect(stdio("command")) as client`, or `client = await connect(...)`.

    The client negotiates the revision. After `await connect(...)`, close it with `await client.aclose()`. Several tasks
    may be inside `async with` of one object at once; each has a client of its own.
    """

    @shows_options(ConnectionOptions)
    def __init__(
        self, target: Target | PipeServer | HasServer | str, **options: Unpack[ConnectionOptions]
    ) -> None:
        """Prepare a connection to `target`, with the options of `ConnectionOptions`; `async with` or `await` opens it.

        `target` is a URL, for `mcprev.http(url)`; `mcprev.stdio(command, ...)`, for a process to start; or a
        `mcprev.Server` or `mcprev.App` of this process.

        Raises `ValueError` for an unknown revision, mode or value of `validate`, and `TypeError` for an unknown option and for one of
        another kind, for a target or handler of another type, and for a handler together with functions that replace it.
        """
        check_options("connect", ConnectionOptions, options)
        self._target = target = target_of(target)
        self._identity = _identity(options)
        restart = options.get("restart", True)
        policy: ReconnectPolicy = getattr(target, "restarts", NEVER) if restart is True else restart or NEVER
        cache = options.get("cache", True)
        if isinstance(cache, bool):
            cache = ResultCache() if cache else ResultCache(max_bytes=1)  # which no result fits in
        server = getattr(target, "cache_key", None) or object()
        scope = Scope(server, getattr(target, "principal", None) or object())
        self._server_cache = ServerCache(cache, scope, options.get("validate", "warn"))
        self._new_opener = partial(
            Opener,
            target,
            self._identity,
            options.get("probe_timeout", PROBE),
            options.get("open_timeout", OPEN),
        )
        self._new_settings = partial(
            ClientSettings,
            self._identity,
            (options.get("timeout", TIMEOUT), options.get("total_timeout", TOTAL)),
            policy,
            check_interval(options.get("ping_interval")),
            self._server_cache,
            strict=options.get("strict", False),
        )
        prior, tap = options.get("prior"), options.get("tap")
        self._telemetry, self._era = options.get("telemetry"), options.get("era")
        self._prior = None if prior is None else prior.to_wire()
        self._on_change, self._record = options.get("on_change"), options.get("record")
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
        files, ending = ExitStack(), Background(logger, "the end of a connection that is not used")
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

        try:
            prior = self._prior or cache.introduction(now())
            opener, opened = await open_soon(new_opener, ending.start, self._era, prior)
        except BaseException:
            await ending.finish()
            files.close()
            raise

        async def close() -> None:
            """Release the target and the file of the recording, after the last connection."""
            await ending.finish()
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


def _identity(options: ConnectionOptions) -> ClientCapabilities:
    """Return what a client declares. Raises the errors of `connect`."""
    handler, capabilities = options.get("handler"), options.get("capabilities")
    functions = handler_of(
        options.get("roots"), options.get("sampling"), options.get("elicitation"), options.get("logging")
    )
    if functions is not None and handler is not None:
        raise TypeError("pass `handler`, or roots and functions that replace it, but not both")
    handler = functions or handler
    allowed = negotiate.allow(options.get("revisions"), options.get("mode", "auto"))
    revisions, own = spoken(allowed, options.get("exact"), "ClientHandler")
    own_capabilities = {} if capabilities is None else capabilities.to_wire()
    declared, added = with_extensions(own_capabilities, options.get("extensions", ()), "ClientHandler")
    return ClientCapabilities(
        handler=object() if handler is None else checked_handler(handler, "ClientHandler"),
        info=introduction(
            options.get("name", "mcprev"),
            options.get("version", __version__),
            options.get("icons", ()),
            title=options.get("title"),
            description=options.get("description"),
            websiteUrl=options.get("website_url"),
        ),
        revisions=revisions,
        exact=own,
        declared=declared,
        added=added,
        tasks=options.get("tasks", True),
    )
