"""Ways to be let in: what a user passes as `auth` to `mcprev.http` (AUTH-12, AUTH-14, AUTH-18, AUTH-22).

`OAuth` asks a person; the others have credentials of their own. Each says who this client is at an authorization
server and how it gets tokens there; `authorizer` decides when that is needed and sends the tokens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from typing_extensions import override

from mcprev.errors import AuthError, LocalProtocolError
from mcprev.transports.http.client.oauth import flow, tokens
from mcprev.transports.http.client.oauth.authorizer import Authorization
from mcprev.transports.http.client.oauth.discovery import (
    NONE,
    ProtectedServer,
    check_page,
    secret_method,
    with_offline,
)
from mcprev.transports.http.client.oauth.loopback import BrowserOpener, Loopback
from mcprev.transports.http.client.oauth.store import Registration, TokenStore
from mcprev.transports.http.client.oauth.tokens import PRIVATE_KEY, TokenResponse

if TYPE_CHECKING:
    from mcprev.transports.http.client.oauth.runner import FlowRunner

REQUEST: Final = 15.0
"""Seconds for each request to an authorization server."""
LOGIN: Final = 300.0
"""Seconds that a user gets to log in."""


class OAuth(Authorization):
    """Authorization by a person: `mcprev.http(url, auth=mcprev.OAuth())`.

    The user's browser is sent to the authorization server and comes back to this machine. What the server wants is
    found out when it refuses a request; the request is sent again when there is a token, and no clock of a call runs
    in between. Calls that are refused at the same time share one login.
    """

    def __init__(
        self,
        *,
        client_id: str | None = None,
        client_secret: str | None = None,
        client_metadata_url: str | None = None,
        client_name: str = "mcprev",
        issuer: str | None = None,
        resource: str | None = None,
        scopes: Sequence[str] | None = None,
        loopback: Loopback | None = None,
        redirect_uri: str | None = None,
        open: Callable[[str], Awaitable[str]] | None = None,  # noqa: A002
        store: TokenStore | None = None,
        login_timeout: float = LOGIN,
        timeout: float = REQUEST,
        private: bool = False,
        dpop: bool = False,
    ) -> None:
        """Say who this client is, and how its user is asked.

        A client that is registered gives its `client_id` and the `issuer` that knows it, the URL of the authorization
        server. With a `client_secret` the issuer is required; without, it is the first that is met. A client that
        describes itself gives the place, `client_metadata_url`, for those that read such documents; anywhere else it
        registers by itself, as `client_name`.

        `loopback` says how the browser is opened and where it comes back to; instead of that, `open` is given the
        URL to show and gives the URL that the user was sent back to, which begins with `redirect_uri`. `scopes` are
        asked for whatever the server says. `store` keeps tokens and registrations, in this object by default.

        Tokens are for the URL of the server. Where its metadata names a resource above it, such as the whole origin,
        that is refused unless it is given as `resource`: every server below it can then use the token at the others.

        A user gets `login_timeout` seconds, an authorization server `timeout` for each request. With `private` what
        the server names may also be in a private network, and the server itself be spoken to without https. With
        `dpop` tokens are bound to a key of this process, and not kept (RFC 9449; it needs mcprev[jwt]).
        Raises `ValueError` for what does not go together.
        """
        super().__init__(
            scopes=scopes,
            issuer=issuer,
            store=store,
            private=private,
            timeout=timeout,
            dpop=dpop,
            resource=resource,
            given=None if client_secret is None or client_id is None else "a client secret",
        )
        if (redirect_uri is None) is not (open is None):
            raise ValueError("`open` and `redirect_uri` belong together")
        if open is not None and loopback is not None:
            raise ValueError("the user comes back either to `loopback` or to `redirect_uri`")
        if client_secret is not None and client_id is None:
            raise ValueError("a client secret belongs to a `client_id`")
        if client_metadata_url is not None:
            parts = urlsplit(client_metadata_url)
            if parts.scheme != "https" or not parts.hostname or parts.path in {"", "/"}:
                raise ValueError("`client_metadata_url` is an https URL with a path")
        self._id, self._secret = client_id, client_secret
        self._document = client_metadata_url
        self._name = client_name
        self._loopback = Loopback() if loopback is None else loopback
        self._redirect_uri, self._open = redirect_uri, open
        self._login_timeout = login_timeout
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    @override
    async def client(self, place: ProtectedServer) -> Registration | None:
        if self._id is not None:
            self.bind(place)
            method = NONE if self._secret is None else secret_method(place.server.methods)
            return Registration(self._id, self._secret, method)
        if self._document is not None and place.server.takes_documents and place.profile.client_documents:
            return Registration(self._document)
        known = await self.store.registration(place.server.issuer)
        if known is None or (known.expires_at is not None and known.expires_at <= time.time()):
            return None
        return known

    @override
    async def obtain(
        self,
        runner: FlowRunner,
        place: ProtectedServer,
        client: Registration | None,
        scopes: tuple[str, ...] | None,
    ) -> tuple[Registration, TokenResponse, tuple[str, ...] | None]:
        wanted = with_offline(place, scopes)
        # One login at a time: whoever logs in to two servers at once does not know which is which.
        async with self._lock(), self._ready() as (redirect_uri, visit):
            runner.visit = visit
            if client is None or (client.redirect_uris and redirect_uri not in client.redirect_uris):
                client = await runner.run(flow.register(place, self._name, redirect_uri, wanted))
                await self.store.keep_registration(place.server.issuer, client)
            granted = await runner.run(
                flow.authorize(place, client, wanted, redirect_uri, client_keys=self.client_keys)
            )
        return client, granted, wanted

    def _lock(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = (loop, asyncio.Lock())
        return self._turn[1]

    @asynccontextmanager
    async def _ready(self) -> AsyncGenerator[tuple[str, BrowserOpener], None]:
        way: AbstractAsyncContextManager[tuple[str, BrowserOpener]] = (
            self._loopback.ready() if self._open is None else self._called()
        )
        async with way as (redirect_uri, visit):

            async def bounded(url: str) -> str:
                try:
                    async with asyncio.timeout(self._login_timeout):
                        return await visit(check_page(url))
                except TimeoutError:
                    raise AuthError(
                        f"nobody came back from logging in within {self._login_timeout:g} s; try again"
                    ) from None

            yield redirect_uri, bounded

    @asynccontextmanager
    async def _called(self) -> AsyncGenerator[tuple[str, BrowserOpener], None]:
        """The user's own way to have somebody log in."""
        assert self._redirect_uri is not None
        call = self._open
        assert call is not None

        async def visit(url: str) -> str:
            try:
                back = cast("object", await call(url))
            except (AuthError, TimeoutError):
                raise
            except Exception as error:
                raise AuthError(f"nobody could log in: `open` raised {type(error).__name__}") from error
            if not isinstance(back, str):
                raise LocalProtocolError("`open` gives the URL that the user was sent back to")
            return back

        yield self._redirect_uri, visit


class ClientCredentials(Authorization):
    """Authorization of a program in its own name, with a secret or with a key: no user is asked."""

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        *,
        private_key: str | None = None,
        algorithm: str = "ES256",
        issuer: str | None = None,
        resource: str | None = None,
        scopes: Sequence[str] | None = None,
        store: TokenStore | None = None,
        timeout: float = REQUEST,
        private: bool = False,
        dpop: bool = False,
    ) -> None:
        """Give the secret, or the `private_key` as PEM, with which assertions are signed by an `algorithm` of JOSE.

        `issuer` is the authorization server that knows this client, and required. The rest is as for `OAuth`. Raises
        `ValueError` without it and for neither or both of secret and key, and `MissingExtra` where a key is given and
        mcprev[jwt] is not installed.
        """
        super().__init__(
            scopes=scopes,
            issuer=issuer,
            store=store,
            private=private,
            timeout=timeout,
            dpop=dpop,
            resource=resource,
            given="a secret or a key",
        )
        if (client_secret is None) is (private_key is None):
            raise ValueError("either `client_secret` or `private_key` is needed")
        self._id, self._secret = client_id, client_secret
        if private_key is not None:
            from mcprev.transports.http.client.oauth.assertions import signer

            self.client_keys = replace(self.client_keys, signer=signer(client_id, private_key, algorithm))

    @override
    async def client(self, place: ProtectedServer) -> Registration | None:
        self.bind(place)
        if self.client_keys.signer is not None:
            return Registration(self._id, method=PRIVATE_KEY)
        return Registration(self._id, self._secret, secret_method(place.server.methods))

    @override
    async def obtain(
        self,
        runner: FlowRunner,
        place: ProtectedServer,
        client: Registration | None,
        scopes: tuple[str, ...] | None,
    ) -> tuple[Registration, TokenResponse, tuple[str, ...] | None]:
        assert client is not None
        asked = tokens.client_credentials(place, client, scopes, client_keys=self.client_keys)
        return client, await runner.run(asked), scopes


Assertion = Callable[[], Awaitable[str]]


class WorkloadIdentity(Authorization):
    """Authorization of a program by a JWT that its platform has issued to it (RFC 7523)."""

    def __init__(
        self,
        assertion: str | Assertion,
        *,
        client_id: str,
        issuer: str | None = None,
        resource: str | None = None,
        scopes: Sequence[str] | None = None,
        store: TokenStore | None = None,
        timeout: float = REQUEST,
        private: bool = False,
    ) -> None:
        """`assertion` is the JWT, or an async function that gives one each time; `issuer` is the authorization server that
        takes it, and required. The rest is as for `OAuth`.
        """
        super().__init__(
            scopes=scopes,
            issuer=issuer,
            store=store,
            private=private,
            timeout=timeout,
            resource=resource,
            given="an assertion",
        )
        self._id = client_id
        self._assertion = assertion

    @override
    async def client(self, place: ProtectedServer) -> Registration | None:
        self.bind(place)
        return Registration(self._id)

    @override
    async def obtain(
        self,
        runner: FlowRunner,
        place: ProtectedServer,
        client: Registration | None,
        scopes: tuple[str, ...] | None,
    ) -> tuple[Registration, TokenResponse, tuple[str, ...] | None]:
        assert client is not None
        assertion = self._assertion if isinstance(self._assertion, str) else await self._assertion()
        return client, await runner.run(tokens.assert_identity(place, client, assertion, scopes)), scopes


class EnterpriseManaged(Authorization):
    """Authorization by an identity provider that the server's authorization server trusts: who is logged in there is
    not asked again.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str,
        *,
        provider: str,
        provider_client_id: str,
        id_token: str | Assertion,
        issuer: str | None = None,
        resource: str | None = None,
        scopes: Sequence[str] | None = None,
        store: TokenStore | None = None,
        timeout: float = REQUEST,
        private: bool = False,
    ) -> None:
        """`provider` is the token endpoint of the identity provider, where this client is `provider_client_id`, and
        `id_token` what it has issued for the user, or an async function that gives it. `issuer` is the authorization
        server of the MCP server, where this client has the secret, and required. The rest is as for `OAuth`.
        """
        super().__init__(
            scopes=scopes,
            issuer=issuer,
            store=store,
            private=private,
            timeout=timeout,
            resource=resource,
            given="a secret",
        )
        self._id, self._secret = client_id, client_secret
        self._provider, self._provider_id = provider, provider_client_id
        self._id_token = id_token

    @override
    async def client(self, place: ProtectedServer) -> Registration | None:
        self.bind(place)
        return Registration(self._id, self._secret, secret_method(place.server.methods))

    @override
    async def obtain(
        self,
        runner: FlowRunner,
        place: ProtectedServer,
        client: Registration | None,
        scopes: tuple[str, ...] | None,
    ) -> tuple[Registration, TokenResponse, tuple[str, ...] | None]:
        assert client is not None
        id_token = self._id_token if isinstance(self._id_token, str) else await self._id_token()
        asked = tokens.exchange(place, self._provider, Registration(self._provider_id), id_token, scopes)
        assertion = await runner.run(asked)
        return client, await runner.run(tokens.assert_identity(place, client, assertion, scopes)), scopes
