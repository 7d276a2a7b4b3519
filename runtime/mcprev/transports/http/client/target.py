"""A server at a URL, to connect to (NEG-6, NEG-7).

What is spoken there is found out by `protocol.plan`; what was found is remembered for as long as this process lasts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from mcprev.client.reconnecting import ReconnectPolicy
from mcprev.core.connection import Connection, RequestHandler
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.protocol.negotiation.http import ProbeCache, ProbeResult
from mcprev.protocol.negotiation.machine import HTTP, Discover, Plan
from mcprev.revisions import HttpShape
from mcprev.transports.http.client.connection import HttpConnection
from mcprev.transports.http.client.session import HeaderSource, HttpSession
from mcprev.transports.http.client.streamable import StreamableHttp
from mcprev.transports.http.urls import check_server_url
from mcprev.wire.jsonrpc import MAX_LINE

if TYPE_CHECKING:
    import aiohttp

    from mcprev.transports.http.client.oauth.authorizer import Authorization

VERDICTS: Final = ProbeCache()
"""What the servers that this process has talked to were found to be."""
CONNECT: Final = 10.0
"""Seconds that a connection may take to be made, unless said otherwise."""


class http:  # noqa: N801 - called like a function: `connect(http("https://example.com/mcp"))`
    """A server at a URL. Which kind of HTTP it speaks is found out (NEG-6)."""

    restarts: Final = ReconnectPolicy()
    """A server that is gone is connected to again when it is needed, unless `connect` is told otherwise."""
    probe = HTTP
    """What the answers to the first request tell."""

    def __init__(
        self,
        url: str,
        *,
        headers: HeaderSource | None = None,
        session: aiohttp.ClientSession | None = None,
        auth: Authorization | None = None,
        connect_timeout: float = CONNECT,
        max_message: int = MAX_LINE,
    ) -> None:
        """Say where the server is.

        `headers` go with every request, to this server only: a mapping, or an async function that gives one each
        time, such as a token that is renewed. `session` is an `aiohttp.ClientSession` to send with, for proxies,
        certificates or cookies of your own; it is not closed, and its limit of connections has to be above the
        number of calls at a time. Without one, connections go straight to the server, whose certificate the system
        has to trust, or the files that SSL_CERT_FILE and SSL_CERT_DIR name. `auth` is how to be let in where the server wants that, such as `mcprev.OAuth()`.
        `max_message` is the most bytes a message of the server's may have. Raises
        `ValueError` for what is no URL of a server.
        """
        self.url = check_server_url(url)
        self._headers: HeaderSource = {} if headers is None else headers
        self._session = session
        self._authorizer = None if auth is None else auth.authorizer(self.url, session)
        self._connect_timeout = connect_timeout
        self._max_message = max_message

    async def open(
        self, protocol: ClientProtocol, handler: RequestHandler, /, shape: HttpShape | None = None
    ) -> Connection:
        """Get ready to send; only the oldest shape connects at once, and raises `TransportError` if it cannot."""
        requests = HttpSession(
            self._session,
            self.url,
            self._headers,
            connect_timeout=self._connect_timeout,
            max_message=self._max_message,
        )
        if shape is HttpShape.SSE:
            from mcprev.transports.http.client.legacy_sse import LegacySse

            connection = HttpConnection(protocol, handler, requests, LegacySse)
        else:
            connection = HttpConnection(protocol, handler, requests, StreamableHttp)
        if self._authorizer is not None:
            from mcprev.transports.http.client.oauth.login import Login

            requests.login = Login(self._authorizer, protocol, connection.timeouts.active)
        try:
            await connection.open(self._connect_timeout)
        except BaseException:
            await connection.aclose()
            raise
        return connection

    @property
    def cache_key(self) -> str:
        """What tells the results of this server from those of others."""
        return self.url

    @property
    def known(self) -> ProbeResult | None:
        """What the server was found to be, in this process."""
        return VERDICTS.get(self.url)

    def learn(self, plan: Plan, /) -> None:
        """Remember what the server was found to be, where it was asked and not only told (NEG-7)."""
        if any(isinstance(step, Discover) for step in plan.asked):
            VERDICTS.keep(self.url, plan)

    async def close(self) -> None:
        """Nothing is left to end: each connection ends what it opened."""

    @override
    def __repr__(self) -> str:
        return f"<http {self.url}>"
