"""A login in front of an identity provider that registers no clients: `mcprev.Login`.

This server is an authorization server to MCP clients and one registered client to the provider. The provider's tokens
stay here, sealed in the store; clients get tokens of this server, for this resource (AUTH-10, SEC-7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Final, TypeVar, cast
from urllib.parse import urlsplit

from typing_extensions import Unpack, override

from mcprev.auth.authorization_server import upstream
from mcprev.auth.authorization_server.grants import Grant, Grants, User
from mcprev.auth.authorization_server.options import LoginOptions, LoginSettings
from mcprev.auth.authorization_server.providers import Provider
from mcprev.auth.authorization_server.server import Attempt, Authenticator, AuthorizationServer
from mcprev.auth.authorization_server.upstream import ProviderRefused, ProviderTokens
from mcprev.auth.bearer import TIMEOUT, Bearer, Needs, Suffices, includes
from mcprev.auth.client.runner import FlowRunner
from mcprev.auth.client.steps import NO_KEYS, ClientKeys, Flow
from mcprev.auth.urls import split_resource
from mcprev.core.store import Records
from mcprev.errors import AuthError, Json
from mcprev.transports.http.server.access import Access
from mcprev.transports.http.server.request import App
from mcprev.transports.http.server.routes import Route

T = TypeVar("T")
PROVIDER_TIMEOUT: Final = 15.0
"""Seconds for each request to the identity provider."""
_LEASE: Final = 4 * PROVIDER_TIMEOUT
_POLL: Final = 0.1
GOOD_FOR: Final = 3600.0
"""Seconds for which the metadata of a provider is not read again."""
RETRY: Final = 5.0
"""The same after it could not be read."""


class ProviderLogin:
    """Users who log in at an identity provider."""

    users: Sequence[str] = ()

    def __init__(self, provider: Provider, settings: LoginSettings) -> None:
        self._provider, self._session, self._clock = provider, settings.session, settings.clock
        self._keys, self._known_until = NO_KEYS, 0.0
        self._failed: tuple[float, str] = 0.0, ""
        self._known: Provider | None = provider if provider.is_complete else None
        if provider.private_key:
            from mcprev.auth.client.signatures import signer

            self._keys = ClientKeys(
                signer(provider.client_id, provider.private_key, provider.algorithm, provider.key_header)
            )

    async def _complete(self) -> Provider:
        """Return the provider with its endpoints; what its metadata said is good for a time. Raises `AuthError`."""
        if self._provider.is_complete or (self._known is not None and monotonic() < self._known_until):
            assert self._known is not None
            return self._known
        if monotonic() >= self._failed[0]:
            try:
                self._known = await self._run(upstream.with_metadata(self._provider))
                self._known_until = monotonic() + GOOD_FOR
            except AuthError as error:
                self._failed = monotonic() + RETRY, str(error)
        if self._known is None:  # what it said before is better than nothing
            raise AuthError(self._failed[1])
        return self._known

    async def start(self, callback: str, state: str, attempt: Attempt, chosen: str) -> str | User:
        """Return the URL of the provider's login page."""
        del chosen
        return upstream.authorize_url(
            await self._complete(), callback, state, attempt.verifier, attempt.nonce
        )

    async def finish(self, callback: str, attempt: Attempt, said: Mapping[str, str]) -> User:
        """Redeem the provider's code. Raises `AuthError`."""
        provider = await self._complete()
        issuer = provider.issuer
        if issuer is not None and "{" not in issuer and said.get("iss", issuer) != issuer:
            raise AuthError(f"the response is from another issuer than {issuer}")  # mix-up
        code = said.get("code")
        if not code or "error" in said:
            raise AuthError(f"the response of {provider.name} has no code")
        flow = upstream.log_in(
            provider, callback, code, attempt.verifier, attempt.nonce, self._clock(), self._keys
        )
        return await self._run(flow)

    async def renew(self, grants: Grants, name: str, grant: Grant) -> None:
        """Refresh the provider's tokens if they have expired, so that a user who was locked out there is so here."""
        if grant.tokens is not None and grant.tokens.get("refresh_token"):
            await self.good_tokens(grants, name)

    async def good_tokens(self, grants: Grants, name: str) -> ProviderTokens:
        """Return the provider's tokens of a grant, refreshed if need be. Raises `AuthError` if the login has ended.

        Providers that rotate refresh tokens end the login if one is used twice, so one worker refreshes them: the one
        that first writes so into the record. The others wait for the result; if that worker dies, the next one tries.
        """
        until = monotonic() + 2 * _LEASE
        while monotonic() < until:
            grant = await grants.find(name)
            if grant is None or grant.tokens is None:
                break
            tokens, now = ProviderTokens(**grant.tokens), self._clock()
            if tokens.is_good(now):
                return tokens
            if tokens.refresh_token is None:
                raise AuthError(
                    f"the token of {self._provider.name} has expired, and there is no refresh token; log in again"
                )
            if now < tokens.refreshing:
                await asyncio.sleep(_POLL)
            elif await self._leased(grants, name, tokens, now):
                return await self._refreshed(grants, name, tokens)
        raise AuthError("the login has ended; log in again")

    async def _leased(self, grants: Grants, name: str, tokens: ProviderTokens, now: float) -> bool:
        """Reserve the refresh of tokens; return False if they have changed meanwhile."""
        leased = replace(tokens, refreshing=now + _LEASE).dumped()

        def reserve(grant: Grant) -> Grant | None:
            return replace(grant, tokens=leased) if grant.tokens == tokens.dumped() else None

        return await grants.change(name, reserve) is not None

    async def _refreshed(self, grants: Grants, name: str, tokens: ProviderTokens) -> ProviderTokens:
        # A caller who is cancelled must not lose the new tokens: the old ones are used up.
        return await asyncio.shield(asyncio.ensure_future(self._refresh(grants, name, tokens)))

    async def _refresh(self, grants: Grants, name: str, tokens: ProviderTokens) -> ProviderTokens:
        try:
            provider = await self._complete()
            found = await self._run(upstream.refresh(provider, tokens, self._clock(), self._keys))
        except ProviderRefused:
            await grants.end(name)
            raise
        except AuthError:
            await grants.change(name, lambda grant: replace(grant, tokens=tokens.dumped()))
            raise
        await grants.change(name, lambda grant: replace(grant, tokens=found.dumped()))
        return found

    async def _run(self, flow: Flow[T]) -> T:
        # The operator names the provider's addresses, which may be in a private network.
        at = self._provider.token_url or self._provider.issuer or ""
        runner = FlowRunner(at, self._session, private=True, seconds=PROVIDER_TIMEOUT)
        return await runner.run(flow)


class Login(Bearer):
    """Requires a login at an identity provider: `App("x", auth=mcprev.Login(mcprev.Provider.github(...), resource=...))`.

    For providers that do not register MCP clients, such as GitHub, Google, Entra, Auth0, Okta and Keycloak. This server
    registers the clients itself, asks the user to consent to each, sends the user to the provider, and issues tokens of
    its own that are valid here only. Handlers read `ctx.principal` and `ctx.access`, and call the provider's API with
    the token that `provider_token` returns.
    """

    def __init__(
        self,
        provider: Provider | Authenticator,
        *,
        resource: str,
        issuer: str | None = None,
        needs: Needs | None = None,
        suffices: Suffices = includes,
        about: Mapping[str, Json] | None = None,
        timeout: float = TIMEOUT,
        **options: Unpack[LoginOptions],
    ) -> None:
        """Set the provider and the resource; `options` are those of `LoginOptions`.

        - `provider` is a `mcprev.Provider`. At the provider, register the redirect URI `<issuer>/callback`.
        - `resource` is the URL of the endpoint as clients know it.
        - `issuer` is the URL of the authorization server that this is. None: the origin of `resource`.
        - `needs`, `suffices`, `about` and `timeout` are as for `Bearer`.
        - `secrets`, and a `store` here or of the server, keep logins when the process ends: without either, they end with it.
          Several processes need both.

        Raises `ValueError` for an invalid URL, secret or scope.
        """
        parts = urlsplit(resource)
        if split_resource(resource) is None:
            raise ValueError("`resource` must be the URL of the endpoint, such as https://mcp.example/mcp")
        self._names_issuer = issuer is not None
        at = f"{parts.scheme}://{parts.netloc}" if issuer is None else issuer
        settings = LoginSettings(**options)
        self._provider = ProviderLogin(provider, settings) if isinstance(provider, Provider) else None
        users: Authenticator = self._provider or cast("Authenticator", provider)
        named = (provider.title or provider.name) if isinstance(provider, Provider) else ""
        self.server: AuthorizationServer = AuthorizationServer(
            at, users, resource=resource, provider=named, **options
        )
        """The authorization server."""
        super().__init__(
            self.server.verify,
            resource=resource,
            authorization_servers=[self.server.issuer],
            scopes=settings.scopes,
            needs=needs,
            suffices=suffices,
            about=about,
            timeout=timeout,
            clock=settings.clock,
        )
        self.routes: Mapping[str, App | Route] = {**self.routes, **self.server.routes}

    @override
    def check_place(self, path: str, root: str) -> None:
        """Check that browsers find the login where it is served. Raises `ValueError` that says what mends it."""
        public, here = urlsplit(self.resource).path.rstrip("/"), path.rstrip("/")
        if not here or not public.endswith(here):
            return
        prefix, issuer = public.removesuffix(here), self.server.issuer
        if prefix != root:
            mended = (
                f'with --root-path {prefix} or http={{"root_path": "{prefix}"}}'
                if prefix
                else "without `root_path`"
            )
            raise ValueError(
                f"`resource` of mcprev.Login has the path {public}, but clients find the server at {root}{path}: if a proxy "
                f"removes '{prefix}' from the paths of requests, start {mended}; if none does, with --path {public}"
            )
        if urlsplit(issuer).path.rstrip("/") != root and not self._names_issuer:
            raise ValueError(
                f"a proxy removes {root} from the paths of requests, but the pages of the login are at {issuer}: pass "
                f"issuer='{issuer}{root}' to mcprev.Login; or issuer='{issuer}', if the proxy passes on /authorize, /callback, "
                "/token, /register and /.well-known/ of that host"
            )

    @override
    def serve_for(self, info: Mapping[str, Json], store: Records | None) -> None:
        """Show what the server says of itself, and keep clients, codes and logins in its store unless there is one of their own."""
        self.server.serve_for(info, store)

    @override
    def unshared(self, store: Records | None) -> str | None:
        """Return why several processes of a server with this store cannot serve its clients, and what to do; None: they can."""
        return self.server.unshared(store)

    async def provider_token(self, access: Access | None) -> str:
        """Return the provider's access token of a user, `ctx.access`, refreshed if it has expired.

        It is a secret of the user: send it to the provider's API only. Raises `AuthError` if the login has ended.
        """
        name = None if access is None else access.claims.get("sid")
        if self._provider is None or not isinstance(name, str):
            raise AuthError("this request has no token of an identity provider")
        return (await self._provider.good_tokens(self.server.grants, name)).access_token
