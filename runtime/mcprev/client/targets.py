"""The interfaces of the servers that a client can connect to (MOD-10, SEAM-1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from mcprev.core.connection import Connection
from mcprev.core.interfaces import RequestHandler
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.protocol.negotiation.steps import Plan, Probe, ProbeResult
from mcprev.revisions import HttpShape

if TYPE_CHECKING:
    from mcprev.transports.memory import PipeServer


class Target(Protocol):
    """The interface of a server to connect to, such as `mcprev.stdio(...)`; implement it for a transport of your own.

    A target may have the attributes `restarts: ReconnectPolicy`, the policy of `connect(restart=True)`, `cache_key`,
    which identifies the server in a shared `ResultCache`, and `principal`, which identifies the authorization there. One
    that remembers what its server spoke implements `ProbedTarget`, a server at a URL `HttpTarget`.
    """

    async def open(self, protocol: ClientProtocol, handler: RequestHandler[Connection], /) -> Connection:
        """Start the server if needed and connect to it. Raises `TransportError`."""
        ...

    async def close(self) -> None:
        """Release what connections that have ended still hold, such as a process, within bounded time.

        Idempotent. Several clients may use one target; each of them calls this when it closes.
        """
        ...


@runtime_checkable
class ProbedTarget(Target, Protocol):
    """A server whose first responses show its era; the target remembers it."""

    @property
    def known(self) -> ProbeResult | None:
        """The remembered result of an earlier negotiation."""
        ...

    def learn(self, plan: Plan, /) -> None:
        """Remember the result of a negotiation."""
        ...


@runtime_checkable
class HttpTarget(ProbedTarget, Protocol):
    """A server at a URL. Its first responses show its era and transport; the target remembers them."""

    probe: Probe
    """Interprets the response to the first request."""

    async def open(
        self, protocol: ClientProtocol, handler: RequestHandler[Connection], /, shape: HttpShape | None = None
    ) -> Connection:
        """Connect, with the transport `shape` if given. Raises `TransportError`."""
        ...


class HasServer(Protocol):
    """A server made of functions, such as `mcprev.App`."""

    @property
    def server(self) -> PipeServer:
        """Its server."""
        ...


def target_of(given: object) -> Target:
    """Return the target for a URL, a server or a target. Raises `TypeError` for any other value."""
    if isinstance(given, str):
        if not given.lower().startswith(("http://", "https://")):
            from mcprev.transports.http.urls import mask_url
            from mcprev.wire.payloads import mask_text

            raise TypeError(
                f"{mask_text(mask_url(given))!r:.100} is not a URL; to start a command, pass mcprev.stdio('python', 'server.py')"
            )
        from mcprev.transports.http.client.target import http

        return http(given)
    if callable(getattr(given, "open", None)):
        return cast("Target", given)
    server = getattr(given, "server", given)  # an app has one
    if callable(getattr(server, "connection", None)):
        from mcprev.transports.memory import memory

        return memory(cast("PipeServer", server))
    raise TypeError(
        f"cannot connect to a {type(given).__name__}; pass a URL, mcprev.stdio(...), mcprev.http(...) or a server"
    )
