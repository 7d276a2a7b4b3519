"""A server at a URL as a target of `connect` (NEG-6, NEG-7).

The negotiation finds out which transport and revision the server speaks; this process remembers the result.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from mcprev.core.connection import Connection
from mcprev.core.interfaces import RequestHandler
from mcprev.core.options import check_option
from mcprev.core.reconnect_policy import ReconnectPolicy
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.protocol.negotiation.steps import HTTP, Discover, Plan, ProbeCache, ProbeResult
from mcprev.revisions import HttpShape
from mcprev.transports.http.client.authorization import Authorization
from mcprev.transports.http.client.connection import HttpConnection, HttpTransport
from mcprev.transports.http.client.session import HeaderSource, HttpSession
from mcprev.transports.http.client.streamable import StreamableHttp
from mcprev.transports.http.urls import check_server_url, mask_url
from mcprev.wire.jsonrpc import MAX_LINE

if TYPE_CHECKING:
    import aiohttp

VERDICTS: Final = ProbeCache()
"""The probe results of the servers that this process has connected to."""
CONNECT: Final = 10.0
"""The default connection timeout, in seconds."""


class http:  # noqa: N801 - called like a function: `connect(http("https://example.com/mcp"))`
    """A server at a URL: `connect(http("https://mcp.example/mcp"))`.

    The client finds out whether the server speaks Streamable HTTP or HTTP+SSE. One object can serve several clients.
    """

    restarts: Final = ReconnectPolicy()
    """The default policy of `connect(restart=True)`: a lost connection is opened again when it is needed."""
    probe = HTTP
    """Interprets the response to the first request."""

    def __init__(
        self,
        url: str,
        *,
        headers: HeaderSource | None = None,
        session: aiohttp.ClientSession | None = None,
        auth: Authorization | None = None,
        trust_env: bool = False,
        connect_timeout: float = CONNECT,
        max_message: int = MAX_LINE,
    ) -> None:
        """Set the URL of the endpoint and the options of the connection.

        - `headers` are sent with every request to this server: a mapping, or a function, async or not, that is called for
          each request and returns a mapping, for example with a current token.
        - `session` is an `aiohttp.ClientSession` of your own, for proxies, certificates or cookies. The client does not
          close it, and its connection limit must exceed the number of concurrent calls. None: the client connects
          directly and trusts the certificates of the system, or those in SSL_CERT_FILE and SSL_CERT_DIR.
        - `trust_env=True` uses the proxies of HTTPS_PROXY, HTTP_PROXY and NO_PROXY, if there is no `session`. Pass it to
          `mcprev.OAuth` too, for its requests to authorization servers.
        - `auth` authorizes each request. `mcprev.OAuth` obtains tokens by a login of the user if the server requires
          them, `mcprev.ClientCredentials`, `mcprev.WorkloadIdentity` and `mcprev.EnterpriseManaged` without; an
          `mcprev.Authorization` of your own can sign requests. None: a server that requires a token is an `AuthError`.
        - `connect_timeout` is the time in seconds to establish a TCP and TLS connection: 10 by default.
        - `max_message` is the maximum size of a server's message in bytes: 16 MiB by default.

        Raises `ValueError` for an invalid URL, and `TypeError` for an `auth` of another type.
        """
        check_option(
            "auth",
            auth,
            "bind",
            "mcprev.OAuth() for a login, or a token as headers={'Authorization': 'Bearer ...'}",
        )
        self.url: str = check_server_url(url)
        self._new_session = partial(
            HttpSession,
            session,
            self.url,
            headers={} if headers is None else headers,
            trust_env=trust_env,
            connect_timeout=connect_timeout,
            max_message=max_message,
        )
        self._auth = None if auth is None else auth.bind(self.url, session)
        self._connect_timeout = connect_timeout

    async def open(
        self, protocol: ClientProtocol, handler: RequestHandler[Connection], /, shape: HttpShape | None = None
    ) -> Connection:
        """Prepare a connection. Only HTTP+SSE connects at once, and raises `TransportError` if that fails."""
        transport: type[HttpTransport] = StreamableHttp
        if shape is HttpShape.SSE:
            from mcprev.transports.http.client.legacy_sse import LegacySse

            transport = LegacySse
        connection = HttpConnection(protocol, handler, self._new_session(), transport)
        if self._auth is not None:
            connection.requests.authorize_with(self._auth, protocol, connection.timeouts.paused)
        try:
            await connection.open(self._connect_timeout)
        except BaseException:
            await connection.aclose()
            raise
        return connection

    @property
    def cache_key(self) -> str:
        """The key that separates cached results of this server from those of others."""
        return self.url

    @property
    def known(self) -> ProbeResult | None:
        """The probe result of this server, if this process has one."""
        return VERDICTS.get(self.url)

    def learn(self, plan: Plan, /) -> None:
        """Remember a probe result, unless the user fixed the revision, or a gateway may answer otherwise the next time."""
        if not plan.may_pass and any(isinstance(step, Discover) for step in plan.asked):
            VERDICTS.keep(self.url, plan)

    async def close(self) -> None:
        """Do nothing: each connection closes its own resources."""

    @override
    def __repr__(self) -> str:
        return f"<http {mask_url(self.url)}>"
