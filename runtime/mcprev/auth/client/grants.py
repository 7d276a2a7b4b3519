"""The ways to obtain a token: the values of `auth` in `mcprev.http` (AUTH-12, AUTH-14, AUTH-18, AUTH-22).

`OAuth` sends a user to log in; the others use credentials of the program. Each returns the client's registration at an
authorization server and requests tokens there; `authorizer` decides when, and attaches them to requests.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, cast
from urllib.parse import urlsplit

from typing_extensions import Unpack, override

from mcprev.auth.client import flow, tokens
from mcprev.auth.client.authorizer import TokenAuthorization
from mcprev.auth.client.credentials import AuthOptions, Obtained, Scopes, SecretSource
from mcprev.auth.client.device import GRANT, LONGEST, REDIRECT, check_device, device_login
from mcprev.auth.client.discovery import ProtectedServer, ServerMetadata, with_offline
from mcprev.auth.client.loopback import BrowserOpener, Loopback
from mcprev.auth.client.steps import DeviceCode
from mcprev.auth.client.store import LoopLocks, Registration
from mcprev.callbacks import finished
from mcprev.error_text import raised_at
from mcprev.errors import AuthError, AuthorizationDenied, LocalProtocolError, TokenRejected

if TYPE_CHECKING:
    from mcprev.auth.client.runner import FlowRunner
    from mcprev.auth.client.steps import ClientKeys

logger: Final = logging.getLogger("mcprev.auth")
PageOpener: TypeAlias = Callable[[str], Awaitable[str] | str]
DeviceShower: TypeAlias = Callable[[DeviceCode], Awaitable[None] | None]
"""Shows a user where to enter which code."""
LOGIN: Final = 300.0
"""Seconds for a user's login."""


class OAuth(TokenAuthorization):
    """Authorization by a user: `mcprev.http(url, auth=mcprev.OAuth())`.

    When the server responds to a request with 401, the user's browser opens the login page of the authorization
    server and is redirected back to this machine (authorization code grant with PKCE). The request is then sent
    again; the timeouts of calls pause during the login. Requests that are refused at the same time share one login.
    """

    def __init__(
        self,
        *,
        client_id: str | None = None,
        client_secret: SecretSource | None = None,
        client_metadata_url: str | None = None,
        client_name: str = "mcprev",
        loopback: Loopback | None = None,
        redirect_uri: str | None = None,
        open: PageOpener | None = None,  # noqa: A002
        device: DeviceShower | None = None,
        login_timeout: float | None = None,
        dpop: bool = False,
        **options: Unpack[AuthOptions],
    ) -> None:
        """Set the identity of the client and how its user logs in. No argument is required.

        - `client_id`, and `client_secret` if it has one, identify a client that is registered at the authorization
          server already. None: the client registers dynamically, with the name `client_name`, which the login page
          shows. The secret can be a function, async or not: it gets the issuer to which the secret would be sent, and
          returns it or raises an `AuthError`.
        - `client_metadata_url` is the https URL of the client's metadata document, for authorization servers that
          accept one instead of a registration.
        - `issuer` is the URL of the authorization server that `client_id` is for. It is required with a
          `client_secret` that is a string. None: the first authorization server that the MCP server names.
        - `resource` is the URL that tokens are requested for. None: the URL of the server. Pass it if the server's
          metadata names a resource above its URL, such as the whole origin; otherwise discovery fails, because every
          server below that URL could use such a token at the others.
        - `scopes` are requested in addition to those that the server names.
        - `loopback` opens the browser and receives the redirect. None: `Loopback()`, on a free port.
        - `open` and `redirect_uri` replace `loopback`: the function `open`, async or not, gets the URL of the login page, shows
          it to the user, and returns the URL that the user was redirected to, which begins with `redirect_uri`.
        - `device` logs in without a browser on this machine (RFC 8628): the function, async or not, gets a `DeviceCode`, and
          shows the user at which page to enter which code on another machine.
        - `store` stores tokens and registrations. None: a `MemoryTokens`; `DiskTokens` and `KeyringTokens` keep them
          after the process ends.
        - `login_timeout` is the maximum time of a login (300 by default; with `device`, until the code expires), and `timeout` that of each request to an
          authorization server (15 by default), in seconds.
        - `private=True` allows a server without https, and authorization servers in a private network.
        - `trust_env=True` uses the proxies of HTTPS_PROXY, HTTP_PROXY and NO_PROXY for requests to authorization servers.
        - `dpop=True` binds tokens to a key of this process and does not store them (RFC 9449; needs mcprev[jwt]).

        Raises `ValueError` for arguments that are invalid or exclude each other. Calls raise `AuthError` if the
        authorization fails.
        """
        given = "a client secret" if isinstance(client_secret, str) and client_id is not None else None
        super().__init__(given=given, client_id=client_id, client_secret=client_secret, dpop=dpop, **options)
        if (redirect_uri is None) is not (open is None):
            raise ValueError("pass `open` and `redirect_uri` together")
        if device is not None and not (open is None and loopback is None):
            raise ValueError("`device` needs no browser: pass it without `open` and `loopback`")
        if open is not None and loopback is not None:
            raise ValueError("pass either `loopback` or `redirect_uri`, not both")
        if client_secret is not None and client_id is None:
            raise ValueError("`client_secret` requires `client_id`")
        if client_metadata_url is not None:
            parts = urlsplit(client_metadata_url)
            if parts.scheme != "https" or not parts.hostname or parts.path in {"", "/"}:
                raise ValueError("`client_metadata_url` must be an https URL with a path")
        self._document = client_metadata_url
        self._name = client_name
        self._loopback = Loopback() if loopback is None else loopback
        self._given: tuple[str, BrowserOpener] | None = None
        if redirect_uri is not None and open is not None:
            self._given = redirect_uri, partial(_visit, open)
        self._device = device
        self._login_timeout = (
            (LOGIN if device is None else LONGEST) if login_timeout is None else login_timeout
        )
        self.user: str | None = None
        """What the authorization server calls the user who has logged in with this object; None if it does not say."""
        self._locks = LoopLocks()
        self.secret: Callable[[], str] = flow.random_secret
        """Makes the state of a login, then its code verifier."""
        self.checks_page: bool = True
        """Whether the page of an older registration is requested once without the user, to see if it was dropped."""

    @override
    def check_usable(self, server: ServerMetadata) -> None:
        super().check_usable(server)
        if self._device is None:
            flow.check_pages(server)
        else:
            check_device(server)
        documented = self._document is not None and server.takes_documents
        if self._id is None and not documented:
            flow.check_registers(server)

    @override
    async def client(self, place: ProtectedServer) -> Registration | None:
        given = await super().client(place)
        if given is not None:
            return given
        if self._document is not None and place.server.takes_documents and place.profile.client_documents:
            return Registration(self._document)
        known = await self.records.registration(place.server.issuer)
        if known is None or (known.expires_at is not None and known.expires_at <= time.time()):
            return None
        return known

    @override
    async def obtain(
        self, runner: FlowRunner, place: ProtectedServer, client: Registration | None, scopes: Scopes
    ) -> Obtained:
        wanted = with_offline(place, scopes)
        ready = self._loopback.ready() if self._given is None else nullcontext(self._given)
        if self._device is not None:
            ready = nullcontext((REDIRECT, _no_browser))
            runner.show = partial(_show, self._device)
        # One login at a time: with two login pages open, a user cannot tell which server asks.
        async with self._locks(), ready as (redirect_uri, visit):
            runner.visit = partial(self._login, visit)
            while True:
                kept = client is not None and _redirects(client, redirect_uri)
                if client is None or not kept:
                    client = await self._register(runner, place, redirect_uri, wanted)
                try:
                    granted = await self._authorize(runner, place, client, wanted, redirect_uri, kept=kept)
                except (TokenRejected, AuthorizationDenied) as error:
                    if error.error not in tokens.FORGET:
                        raise
                    await self._forget(place, client)
                    if not kept or client == await self.client(place):
                        raise
                    logger.debug("a registration is no longer valid: %s", error)
                    client = None
                else:
                    break
        if granted.client is not None and granted.client != client:
            client = granted.client
            await self._keep_way(place, client)
        self.user = granted.user
        return client, granted, wanted

    async def _authorize(
        self,
        runner: FlowRunner,
        place: ProtectedServer,
        client: Registration,
        scopes: Scopes,
        redirect_uri: str,
        *,
        kept: bool,
    ) -> tokens.TokenResponse:
        """Have the user log in. A client that was registered earlier may have been dropped since."""
        if self._device is not None:
            clock, longest = asyncio.get_running_loop().time, self._login_timeout
            coded = device_login(place, client, scopes, clock, longest=longest, client_keys=self.client_keys)
            return await runner.run(coded)
        asked = flow.authorize(
            place,
            client,
            scopes,
            redirect_uri,
            secret=self.secret,
            client_keys=self.client_keys,
            known=not (kept and client.redirect_uris and self.checks_page),
        )
        return await runner.run(asked)

    async def _forget(self, place: ProtectedServer, client: Registration) -> None:
        """Forget the registration that was used, and no other one."""
        async with self.records.lock_if_free(place.server.issuer):
            await self.records.forget_registration(place.server.issuer, client)

    async def _keep_way(self, place: ProtectedServer, client: Registration) -> None:
        """Store in which way a registered client authenticates, unless another one has taken its place."""
        async with self.records.lock_if_free(place.server.issuer):
            known = await self.records.registration(place.server.issuer)
            if known is not None and replace(known, method=client.method) == client:
                await self.records.keep_registration(place.server.issuer, client)

    async def _register(
        self, runner: FlowRunner, place: ProtectedServer, redirect_uri: str, scopes: Scopes
    ) -> Registration:
        """Register this client, unless another process has done so meanwhile."""
        async with self.records.lock(place.server.issuer):
            client = await self.client(place)
            if client is None or not _redirects(client, redirect_uri):
                grants = () if self._device is None else (GRANT,)
                client = await runner.run(flow.register(place, self._name, redirect_uri, scopes, grants))
                await self.records.keep_registration(place.server.issuer, client)
        return client

    async def _login(self, visit: BrowserOpener, url: str) -> str:
        """Have the user log in at a page; return the URL that the user was redirected to."""
        try:
            async with asyncio.timeout(self._login_timeout):
                return await visit(url)
        except TimeoutError:
            raise AuthError(
                f"the login was not completed within {self._login_timeout:g} s; try again"
            ) from None


def _redirects(client: Registration, redirect_uri: str) -> bool:
    """Return whether a client may be redirected to a URI."""
    return not client.redirect_uris or redirect_uri in client.redirect_uris


async def _no_browser(_url: str) -> str:
    raise AuthError("a login with a code opens no browser")


async def _show(show: DeviceShower, code: DeviceCode) -> None:
    """Show a code with the user's `device` function."""
    try:
        await finished(show(code))
    except AuthError:
        raise
    except Exception as error:  # noqa: BLE001 - reported without its text, which may contain secrets
        failure = AuthError(f"the login failed: `device` raised {raised_at(error)}")
    else:
        return
    raise failure


async def _visit(call: PageOpener, url: str) -> str:
    """Log in with the user's `open` function."""
    try:
        back = cast("object", await finished(call(url)))
    except AuthError:
        raise
    except Exception as error:  # noqa: BLE001 - reported without its text, which may contain secrets
        back = AuthError(f"the login failed: `open` raised {raised_at(error)}")
    if isinstance(back, AuthError):
        raise back
    if not isinstance(back, str):
        raise LocalProtocolError("`open` must return the redirect URL as a string")
    return back


Assertion = Callable[[], Awaitable[str]]


async def _granted(
    keys: ClientKeys,
    grant: dict[str, str],
    runner: FlowRunner,
    place: ProtectedServer,
    client: Registration | None,
    scopes: Scopes,
) -> Obtained:
    """Request a token for a client that is registered already, by the members of the request that are its grant."""
    assert client is not None
    asked = tokens.request_token(place, client, grant, scopes, keys)
    return client, await runner.run(asked), scopes


class ClientCredentials(TokenAuthorization):
    """Authorization of a program by a client secret or a private key (client credentials grant)."""

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        *,
        private_key: str | None = None,
        algorithm: str = "ES256",
        dpop: bool = False,
        **options: Unpack[AuthOptions],
    ) -> None:
        """Set the client's id, its secret or key, and the authorization server.

        - `client_secret` or `private_key` authenticates the client; the key is in PEM, and `algorithm` is the JWS
          algorithm of the assertions that it signs.
        - `issuer` is the URL of the authorization server at which the client is registered. It is required.
        - `resource`, `scopes`, `store`, `timeout`, `private`, `trust_env` and `dpop` are as for `OAuth`.

        Raises `ValueError` without an issuer, without a secret and a key, and with both, and `MissingExtra` for a key
        if mcprev[jwt] is not installed.
        """
        super().__init__(
            given="a secret or a key", client_id=client_id, client_secret=client_secret, dpop=dpop, **options
        )
        if (client_secret is None) is (private_key is None):
            raise ValueError("pass either `client_secret` or `private_key`")
        if private_key is not None:
            from mcprev.auth.client.signatures import signer

            keys = replace(self.client_keys, signer=signer(client_id, private_key, algorithm))
            self.client_keys: ClientKeys = keys

    @override
    async def obtain(
        self, runner: FlowRunner, place: ProtectedServer, client: Registration | None, scopes: Scopes
    ) -> Obtained:
        grant = {"grant_type": "client_credentials"}
        return await _granted(self.client_keys, grant, runner, place, client, scopes)


class WorkloadIdentity(TokenAuthorization):
    """Authorization of a program by a JWT from its platform (JWT bearer grant, RFC 7523)."""

    def __init__(self, assertion: str | Assertion, *, client_id: str, **options: Unpack[AuthOptions]) -> None:
        """Set the assertion, the client's id, and the authorization server.

        - `assertion` is the JWT, or an async function that returns a new JWT for each request for a token.
        - `issuer` is the URL of the authorization server that accepts the assertion. It is required.
        - `resource`, `scopes`, `store`, `timeout`, `private` and `trust_env` are as for `OAuth`.

        Raises `ValueError` without an issuer.
        """
        super().__init__(given="an assertion", client_id=client_id, **options)
        self._assertion = assertion

    @override
    async def obtain(
        self, runner: FlowRunner, place: ProtectedServer, client: Registration | None, scopes: Scopes
    ) -> Obtained:
        grant = {"grant_type": tokens.JWT_BEARER, "assertion": await _text_of(self._assertion)}
        return await _granted(self.client_keys, grant, runner, place, client, scopes)


class EnterpriseManaged(TokenAuthorization):
    """Authorization by an enterprise identity provider that the server's authorization server trusts.

    The user is logged in at the provider and is not asked again.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: str,
        *,
        provider: str,
        provider_client_id: str,
        id_token: str | Assertion,
        **options: Unpack[AuthOptions],
    ) -> None:
        """Set the client's registrations at the authorization server and at the identity provider.

        - `issuer` is the URL of the authorization server of the MCP server, at which `client_id` and `client_secret`
          are registered. It is required.
        - `provider` is the URL of the identity provider's token endpoint, and `provider_client_id` the client's id
          there.
        - `id_token` is the user's ID token from the provider, or an async function that returns it.
        - `resource`, `scopes`, `store`, `timeout`, `private` and `trust_env` are as for `OAuth`.

        Raises `ValueError` without an issuer.
        """
        super().__init__(given="a secret", client_id=client_id, client_secret=client_secret, **options)
        self._provider, self._provider_id = provider, provider_client_id
        self._id_token = id_token

    @override
    async def obtain(
        self, runner: FlowRunner, place: ProtectedServer, client: Registration | None, scopes: Scopes
    ) -> Obtained:
        id_token, provided = await _text_of(self._id_token), Registration(self._provider_id)
        exchanged = await runner.run(tokens.exchange(place, self._provider, provided, id_token, scopes))
        grant = {"grant_type": tokens.JWT_BEARER, "assertion": exchanged}
        return await _granted(self.client_keys, grant, runner, place, client, scopes)


async def _text_of(assertion: str | Assertion) -> str:
    found = assertion if isinstance(assertion, str) else cast("object", await finished(assertion()))
    if not isinstance(found, str):
        raise LocalProtocolError("an assertion must be a string, or a function that returns one")
    return found
