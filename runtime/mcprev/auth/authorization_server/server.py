"""An authorization server for MCP clients: metadata, registration, consent, codes, tokens, revocation, introspection.

AUTH-6, 7, 8, 9, 12, 15, 18, 19, 20; RFC 6749, 7009, 7591, 7636, 7662, 8414, 8707, 9207. Who its users are, an `Authenticator`
knows. A user consents to each client before the login, and one browser does both: a cookie, of which the store holds a
digest, ties the consent page, the login and its answer together. So nobody can consent in one browser and have the
user of another log in (confused deputy), and no other site can send the form.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from secrets import compare_digest
from typing import Final, Protocol
from urllib.parse import urlsplit

from typing_extensions import Unpack

from mcprev.auth.authorization_server import requests
from mcprev.auth.authorization_server.clients import ClientRegistry
from mcprev.auth.authorization_server.grants import Grant, Grants, User
from mcprev.auth.authorization_server.keys import ServerKeys, digest_of
from mcprev.auth.authorization_server.options import LoginOptions, LoginSettings
from mcprev.auth.authorization_server.pages import Consent, LoginPages, ServerFace
from mcprev.auth.authorization_server.requests import (
    METHODS,
    OFFLINE,
    AuthorizationRequest,
    ClientRecord,
    Grantable,
    OAuthError,
    PageError,
)
from mcprev.auth.authorization_server.vault import ServerRecords, Vault, new_secret
from mcprev.auth.authorization_server.web import (
    Endpoint,
    WebRequest,
    WebResponse,
    endpoint,
    json_response,
    redirect,
    shared_route,
)
from mcprev.auth.client.discovery import OAUTH, OPENID
from mcprev.auth.urls import canonical_resource, check_issuer
from mcprev.callbacks import allows
from mcprev.core.options import check_store
from mcprev.core.store import Records
from mcprev.errors import AuthError, Json
from mcprev.transports.http.security import is_loopback
from mcprev.transports.http.server.access import Access, InvalidToken
from mcprev.transports.http.server.routes import Route

LOGIN_TIME: Final = 600.0
"""Seconds from the consent page to the response of the identity provider."""
HOUR: Final = 3600.0
LOGINS: Final = 1000
"""The maximum number of logins that one address begins in an hour."""
MAX_ATTEMPTS: Final = 8 * 1024 * 1024
"""The maximum size of what is stored of logins that begin within `LOGIN_TIME`, in bytes: everybody can begin one."""
_FORMS: Final = "consent forms"
_BROWSER: Final = re.compile(r"[A-Za-z0-9_-]{43}")
"""The value of the cookie."""
_log: Final = logging.getLogger("mcprev.auth")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A login between the user's consent and the answer of the identity provider."""

    request: AuthorizationRequest
    browser: str = field(repr=False)
    """The digest of the browser's cookie."""
    verifier: str = field(repr=False)
    nonce: str = field(repr=False)
    expected: str | None = None
    """The user whose earlier consent counts; None: the user has just consented."""

    @classmethod
    def read(cls, found: Json) -> Attempt:
        """Return an attempt that was stored as JSON."""
        said: dict[str, Json] = {**found, "request": AuthorizationRequest.read(found["request"])}
        return cls(**said)


class Authenticator(Protocol):
    """Tells an authorization server who its user is."""

    users: Sequence[str]
    """Users whom the consent page offers for choice; empty if they log in elsewhere."""

    async def start(self, callback: str, state: str, attempt: Attempt, chosen: str) -> str | User:
        """Return the URL where the user logs in, or the user that was chosen on the consent page."""
        ...

    async def finish(self, callback: str, attempt: Attempt, said: Mapping[str, str]) -> User:
        """Return the user who has logged in. Raises `AuthError`."""
        ...

    async def renew(self, grants: Grants, name: str, grant: Grant) -> None:
        """Check before a refresh that the user may still log in; raise `ProviderRefused` if not."""
        ...


class AuthorizationServer:
    """Issues tokens to MCP clients. `routes` are its ASGI apps by path, `verify` checks its tokens for a `Bearer`."""

    def __init__(
        self,
        issuer: str,
        users: Authenticator,
        *,
        resource: str | None = None,
        resource_servers: Mapping[str, str] | None = None,
        provider: str = "",
        **options: Unpack[LoginOptions],
    ) -> None:
        """Set the issuer and its users.

        - `resource` is the only resource that tokens are issued for. None: every resource.
        - `provider` is what the consent page calls the identity provider.
        - `resource_servers` are ids and secrets of servers that may ask about tokens (introspection). Default: none.

        Raises `ValueError` for an invalid issuer, secret or lifetime.
        """
        check_issuer(issuer)
        check_store(options.get("store"))
        if users.users and not is_loopback(urlsplit(issuer).hostname or ""):
            raise ValueError(
                f"{issuer} is not on this machine: users without passwords are for local tests only"
            )
        settings = LoginSettings(**options)
        self.issuer: str = issuer.removesuffix("/")
        keys = self._keys = ServerKeys(settings.secrets)
        self._clock = settings.clock
        self._records = ServerRecords(settings.store)
        vault = self._vault = Vault(self._records, keys, self.issuer, settings.clock)
        self.grants: Grants = Grants(
            self.issuer,
            vault,
            keys,
            settings.clock,
            access=settings.access_lifetime,
            session=settings.session_lifetime,
        )
        self._clients = ClientRegistry(vault, settings)
        named = None if resource is None else canonical_resource(resource)
        supported = dict.fromkeys([*settings.scopes, *settings.optional_scopes, OFFLINE])
        self._may = Grantable(
            None if named is None else (named,), named, tuple(supported), tuple(settings.scopes)
        )
        self._users, self._settings = users, settings
        self._pages, self._face, self._provider = LoginPages(settings.stylesheet), ServerFace(), provider
        self._resource_servers = dict(resource_servers or {})
        self._secure = self.issuer.startswith("https:")
        # The prefix keeps neighbouring hosts of the domain from setting the cookie.
        self._cookie = "__Host-mcprev-login" if self._secure else "mcprev-login"
        self._base = urlsplit(self.issuer).path
        self._callback = f"{self.issuer}/callback"
        self.routes: dict[str, Route] = self._routes()
        """The ASGI apps of the server by their paths."""

    def _routes(self) -> dict[str, Route]:
        document = self.metadata()

        async def describe(_: WebRequest) -> WebResponse:
            return json_response(document, store=True)

        async def show_keys(_: WebRequest) -> WebResponse:
            return json_response(self._keys.key_set, store=True)

        described = shared_route(describe, "GET")
        paths: dict[str, Route] = dict.fromkeys(
            [OAUTH + self._base, OPENID + self._base, self._base + OPENID], described
        )
        # A login at a provider is bound to its browser by a cookie of this host; users without passwords are not, so a
        # page whose host name was made to lead here must not choose one.
        elsewhere = not self._users.users
        app = endpoint(self._authorize, "GET", "POST", pages=self._pages)
        paths[f"{self._base}/authorize"] = Route(app, any_host=elsewhere)
        shared: dict[str, Endpoint] = {
            "token": self._token,
            "register": self._register,
            "revoke": self._revoke,
        }
        if self._resource_servers:
            shared["introspect"] = self._introspect
        for name, serve in shared.items():
            paths[f"{self._base}/{name}"] = shared_route(serve, "POST")
        paths[f"{self._base}/jwks"] = shared_route(show_keys, "GET")
        if elsewhere:
            paths[f"{self._base}/callback"] = Route(
                endpoint(self._returned, "GET", pages=self._pages), any_host=True
            )
        return paths

    def metadata(self) -> dict[str, Json]:
        """Return the metadata of the authorization server (RFC 8414)."""
        at = self.issuer
        found: dict[str, Json] = {
            "issuer": at,
            "authorization_endpoint": f"{at}/authorize",
            "token_endpoint": f"{at}/token",
            "registration_endpoint": f"{at}/register",
            "revocation_endpoint": f"{at}/revoke",
            "jwks_uri": f"{at}/jwks",
            "scopes_supported": list(self._may.scopes),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": list(requests.GRANT_TYPES),
            "token_endpoint_auth_methods_supported": list(METHODS),
            "revocation_endpoint_auth_methods_supported": list(METHODS),
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": True,
        }
        if self._resource_servers:
            found["introspection_endpoint"] = f"{at}/introspect"
            found["introspection_endpoint_auth_methods_supported"] = ["client_secret_basic"]
        return found

    def serve_for(self, info: Mapping[str, Json], store: Records | None) -> None:
        """Show what a server says of itself, and keep clients, codes and logins in its store unless there is one of their own."""
        if not self._face.title:
            self._face = ServerFace.of(info)
        if store is None:
            return
        if self._records.keep_in(store) and self._records.shared_with(store) and not self._settings.secrets:
            _log.warning(
                "logins are in the store of the server, but only this process reads them: pass `secrets` to mcprev.Login"
            )

    def unshared(self, store: Records | None) -> str | None:
        """Return why several processes of a server with this store cannot serve its clients, and what to do; None: they can."""
        if not self._records.shared_with(store):
            where = (
                "--store URL, such as sqlite:///app.db"
                if self._settings.store is None
                else "it a `store` that all workers use, or none but --store URL"
            )
            return f"the clients and logins of mcprev.Login are in the memory of one worker: pass {where}"
        if not self._settings.secrets:
            return (
                "each worker makes a secret for mcprev.Login that no other knows: pass it `secrets`, at least 32 random bytes "
                "from an environment variable or a file that all of them read"
            )
        return None

    async def verify(self, token: str) -> Access:
        """Return the content of a token of this server. Raises `InvalidToken`, also if its grant has ended."""
        claims, grant = await self.grants.of_token(token)
        return Access(
            grant.subject,
            audience=grant.resource,
            scopes=claims["scope"],
            client_id=grant.client_id,
            expires=claims["exp"],
            claims={**grant.claims, "iss": self.issuer, "sid": claims["sid"]},
        )

    # -- consent ---------------------------------------------------------------------------------------------

    async def _authorize(self, request: WebRequest) -> WebResponse:
        """Show the consent page, or take its answer."""
        browser = request.cookies.get(self._cookie, "")
        if not _BROWSER.fullmatch(browser):
            browser = new_secret()
        if request.verb == "POST":
            return await self._decided(request, browser)
        client = await self._clients.named(request.query.get("client_id", ""), request.client)
        wanted = requests.read_authorization(request.query, client, self._may)
        earlier = await self._remembered(wanted, browser)
        if earlier is not None:
            return await self._log_in(wanted, browser, request, expected=earlier)
        return self._ask(wanted, client, browser)

    def _ask(self, wanted: AuthorizationRequest, client: ClientRecord, browser: str) -> WebResponse:
        form = {"request": asdict(wanted), "ends": self._clock() + LOGIN_TIME}
        sealed = self._keys.seal(_FORMS, f"{self.issuer} {browser}", form)
        consent = Consent(
            client, wanted, self._face, self._provider, self._settings.scope_texts, self._users.users
        )
        body = self._pages.html("Allow access?", consent.body(sealed, f"{self._base}/authorize"))
        fields = (*self._pages.fields(self._face.images), self._set_cookie(browser))
        return WebResponse(200, fields, body)

    async def _decided(self, request: WebRequest, browser: str) -> WebResponse:
        """Take the answer of the consent page, if this browser was shown the form."""
        said = request.form
        found = self._keys.open(_FORMS, f"{self.issuer} {browser}", said.get("request", ""))
        if found is None or not self._clock() < found["ends"]:
            raise PageError(
                "This page is too old, or was opened in another browser. Connect the app once more.", 403
            )
        wanted = AuthorizationRequest.read(found["request"])
        if said.get("decision") != "allow":
            return self._denied(wanted, "the user did not consent")
        return await self._log_in(wanted, browser, request, chosen=said.get("user", ""))

    async def _log_in(
        self,
        wanted: AuthorizationRequest,
        browser: str,
        request: WebRequest,
        *,
        chosen: str = "",
        expected: str | None = None,
    ) -> WebResponse:
        """Send the user to the identity provider, or back to the client if the user is known by now."""
        if not await self._vault.count("logins", request.client, LOGINS, HOUR):
            raise PageError(
                "Too many logins were begun from this address. Try again later.",
                429,
                self._vault.retry_after(HOUR),
            )
        state, attempt = new_secret(), Attempt(
            wanted, digest_of(browser), new_secret(), new_secret(), expected
        )
        try:
            found = await self._users.start(self._callback, state, attempt, chosen)
        except AuthError as error:
            _log.warning("a login cannot begin: %s", error)
            raise PageError("The login page cannot be reached now. Try again later.", 503, 10) from None
        if isinstance(found, User):
            return await self._logged_in(wanted, found)
        if not await self._vault.write_within(
            MAX_ATTEMPTS, "attempt", state, asdict(attempt), ttl=LOGIN_TIME, address=request.client
        ):
            raise PageError(
                "Too many logins are in progress. Try again in some minutes.",
                503,
                self._vault.retry_after(LOGIN_TIME),
            )
        return redirect(found, self._set_cookie(browser))

    async def _returned(self, request: WebRequest) -> WebResponse:
        """Take the answer of the identity provider: once, and from the browser in which the user consented."""
        state = request.query.get("state", "")
        found = await self._vault.read("attempt", state)
        if found is None:
            raise PageError("This login has ended, or was completed before. Connect the app once more.")
        attempt = Attempt.read(found[0])
        browser = request.cookies.get(self._cookie, "")
        if not compare_digest(digest_of(browser), attempt.browser):
            raise PageError("This login was begun in another browser. Connect the app once more.", 403)
        if not await self._vault.remove("attempt", state, seen=found[1]):
            raise PageError("This login was completed before. Connect the app once more.")
        wanted = attempt.request
        try:
            user = await self._users.finish(self._callback, attempt, request.query)
        except AuthError as error:
            _log.warning("a login failed: %s", error)
            return self._denied(wanted, "the identity provider did not log the user in")
        if attempt.expected is not None and user.subject != attempt.expected:
            # Another user than the one who consented: ask this one.
            await self._vault.remove("consent", self._consent_of(wanted, browser))
            return self._ask(wanted, await self._clients.named(wanted.client_id, request.client), browser)
        if self._settings.remember > 0:
            kept = {"subject": user.subject, "scopes": wanted.scopes}
            await self._vault.write(
                "consent", self._consent_of(wanted, browser), kept, ttl=self._settings.remember
            )
        return await self._logged_in(wanted, user)

    async def _logged_in(self, wanted: AuthorizationRequest, user: User) -> WebResponse:
        if not await self._may_use(user):
            return self._denied(wanted, "the user may not use this server")
        return redirect(wanted.answer(self.issuer, code=await self.grants.issue_code(wanted, user)))

    async def _may_use(self, user: User) -> bool:
        return self._settings.allow is None or await allows(self._settings.allow, user)

    def _denied(self, wanted: AuthorizationRequest, why: str) -> WebResponse:
        return redirect(wanted.answer(self.issuer, error="access_denied", error_description=why))

    async def _remembered(self, wanted: AuthorizationRequest, browser: str) -> str | None:
        """Return the user who consented to this client in this browser before, or None.

        Not to a client with a metadata document: its id is public, so every server that the user tries could use it.
        """
        if self._settings.remember <= 0 or self._users.users or requests.is_document_url(wanted.client_id):
            return None
        found = await self._vault.read("consent", self._consent_of(wanted, browser))
        if found is None or not set(wanted.scopes) <= set(found[0]["scopes"]):
            return None
        return str(found[0]["subject"])

    def _consent_of(self, wanted: AuthorizationRequest, browser: str) -> str:
        uri = requests.without_port(wanted.redirect_uri)
        return json.dumps([digest_of(browser), wanted.client_id, uri, wanted.resource])

    def _set_cookie(self, browser: str) -> tuple[bytes, bytes]:
        life = max(self._settings.remember, LOGIN_TIME)
        secure = "; Secure" if self._secure else ""
        value = f"{self._cookie}={browser}; Path=/; HttpOnly; SameSite=Lax; Max-Age={life:.0f}{secure}"
        return b"set-cookie", value.encode()

    # -- tokens ----------------------------------------------------------------------------------------------

    async def _register(self, request: WebRequest) -> WebResponse:
        return json_response(await self._clients.register(request.json, request.client), 201)

    async def _token(self, request: WebRequest) -> WebResponse:
        """Redeem a code or a refresh token."""
        form = request.form
        client = await self._clients.authenticated(form, request.credentials)
        match form.get("grant_type"):
            case "authorization_code":
                found = await self.grants.redeem(client, form)
            case "refresh_token":
                found = await self._refresh(client, form)
            case _:
                raise OAuthError(
                    "unsupported_grant_type", f"`grant_type` must be one of {', '.join(requests.GRANT_TYPES)}"
                )
        await self._clients.keep(client)
        return json_response(found)

    async def _refresh(self, client: str, form: Mapping[str, str]) -> dict[str, Json]:
        """Redeem a refresh token, if its user may still use this server and the identity provider still knows the user."""
        name, rotation = await self.grants.refresh(client, form)
        grant = await self.grants.find(name)
        if grant is not None:
            if not await self._may_use(User(grant.subject, grant.claims)):
                await self.grants.end(name)
                raise OAuthError("invalid_grant", "the user may not use this server any more")
            try:
                await self._users.renew(self.grants, name, grant)
            except AuthError as error:
                _log.warning("a login is not refreshed: %s", error)
                if await self.grants.find(name) is None:
                    raise OAuthError("invalid_grant", "the login has ended") from None
                raise OAuthError("temporarily_unavailable", "try again later", 503, 10) from None
        return await self.grants.rotated(name, rotation, form)

    async def _revoke(self, request: WebRequest) -> WebResponse:
        form = request.form
        client = await self._clients.authenticated(form, request.credentials)
        await self.grants.revoke(client, form.get("token", ""))
        return json_response({})

    async def _introspect(self, request: WebRequest) -> WebResponse:
        """Tell a resource server about a token (RFC 7662)."""
        user, secret = request.credentials or ("", "")
        known = self._resource_servers.get(user)
        if known is None or not compare_digest(known.encode(), secret.encode()):
            raise OAuthError("invalid_client", "the resource server is unknown, or its secret is wrong", 401)
        try:
            claims, _ = await self.grants.of_token(request.form.get("token", ""))
        except InvalidToken:
            return json_response({"active": False})
        return json_response({**claims, "active": True, "token_type": "Bearer"})
