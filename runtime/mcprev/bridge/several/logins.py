"""Logins of the users of a bridge at its servers: the bridge is the OAuth client there (AUTH-10, SEC-7).

A login belongs to one principal, one client of that principal and one server. The page of a login is shown only to the
browser of the principal that it is for, it names the client that gets access, and nothing goes to an authorization server
before the user has allowed it there: so no client uses the consent that was given for another one, and nobody can have
another user log in for him.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

from mcprev.authorization_server.pages import PAGE_FIELDS
from mcprev.authorization_server.web import WebRequest, WebResponse, endpoint
from mcprev.bridge.introduction import Sender
from mcprev.bridge.several.login_required import LoginRequired
from mcprev.callbacks import finished
from mcprev.client.connect import connect
from mcprev.client.targets import Target
from mcprev.error_text import raised_at
from mcprev.errors import McpError, one_line
from mcprev.transports.http.security import is_loopback
from mcprev.transports.http.server.request import Receive, Scope, Send
from mcprev.transports.http.server.routes import Route

if TYPE_CHECKING:
    from mcprev.client.client import Client
    from mcprev.oauth.store import Registration, TokenKey, Tokens, TokenStore

Identify: TypeAlias = "Callable[[Scope], str | Awaitable[str | None] | None]"
"""Returns the principal of a browser's request from its ASGI scope, such as by the cookie of its session; None: nobody."""
PATH: Final = "/upstream-logins/"
LIFETIME: Final = 600.0
"""Seconds from the offer of a login to its end."""
MOST: Final = 1_000
"""The logins that are offered at a time; beyond it the oldest end."""
_COOKIE: Final = "mcprev-upstream-login"
_FINISH: Final = 60.0
"""Seconds that a login has after the browser is back."""
_TRIES: Final = 3
_BROWSER: ContextVar[LoginAttempt | None] = ContextVar("browser of a login", default=None)
_log: Final = logging.getLogger("mcprev.auth")


@dataclass(eq=False)
class LoginAttempt:
    """One login, from its offer to its end."""

    server: str
    principal: str
    client: str | None
    target: Target
    began: float = field(default_factory=time.monotonic)
    browser: str = ""
    """The value of the cookie of the browser that has allowed it."""
    page: asyncio.Future[str] | None = None
    """The login page of the authorization server."""
    back: asyncio.Future[str] | None = None
    """The URL with which the browser comes back."""
    task: asyncio.Task[None] | None = None


class PrincipalTokens:
    """A token store in which one client of one principal has tokens for one server."""

    def __init__(self, store: TokenStore, sender: Sender, server: str) -> None:
        self._store = store
        self._owner = urlencode({"principal": sender[0], "client": sender[1] or "", "server": server})

    def lock(self, issuer: str, /) -> Any:  # noqa: ANN401 - what the store returns
        """Return the lock of the tokens at an authorization server."""
        from contextlib import nullcontext

        make = getattr(self._store, "lock", None)
        return nullcontext() if make is None else make(issuer)

    def _key(self, key: TokenKey) -> TokenKey:
        return key._replace(resource=f"{key.resource} {self._owner}")

    async def tokens(self, key: TokenKey, /) -> Tokens | None:
        """Return the stored tokens, or None."""
        return await self._store.tokens(self._key(key))

    async def keep_tokens(self, key: TokenKey, tokens: Tokens | None, /) -> None:
        """Store tokens; None deletes them."""
        await self._store.keep_tokens(self._key(key), tokens)

    async def registration(self, issuer: str, /) -> Registration | None:
        """Return the registration of the bridge at an authorization server, which all its users share."""
        return await self._store.registration(issuer)

    async def keep_registration(self, issuer: str, registration: Registration | None, /) -> None:
        """Store a registration; None deletes it."""
        await self._store.keep_registration(issuer, registration)


class Logins:
    """Lets users of a bridge log in at its servers: `mcprev.Bridge(..., auth=..., logins=Logins(...))`."""

    def __init__(
        self, url: str, identify: Identify, *, store: TokenStore | None = None, path: str = PATH
    ) -> None:
        """Set where users log in, and how they are known there.

        - `url` is the public URL of the bridge's host, such as `https://bridge.example`; the pages are below `path`.
        - `identify` returns the principal of a browser's request from its ASGI scope, or None. It has to be the one that
          `auth` finds for the same user; otherwise one user could have another one log in for him.
        - `store` stores the tokens, such as a `mcprev.bridge.several.sealed.SealedTokens`. None: the memory of this process.

        Raises `ValueError` for a URL without https, except of this machine.
        """
        from mcprev.oauth.store import MemoryTokens

        parts = urlsplit(url)
        if not parts.hostname or (parts.scheme != "https" and not is_loopback(parts.hostname)):
            raise ValueError("the `url` of logins must be an https URL, or a URL of this machine")
        if not path.startswith("/") or not path.endswith("/"):
            raise ValueError("the `path` of logins must begin and end with a slash")
        self._base = f"{parts.scheme}://{parts.netloc}{path}"
        self._secure = parts.scheme == "https"
        self._path = path
        self._identify = identify
        self.store: TokenStore = MemoryTokens() if store is None else store
        """The tokens of all users."""
        self.redirect_uri: str = f"{self._base}callback"
        """Where authorization servers send browsers back to."""
        self.ended: Callable[[str], None] = lambda _server: None
        """Called with the name of a server at which the login of a user has ended, well or not."""
        self._offered: dict[str, LoginAttempt] = {}
        self._by_state: dict[str, LoginAttempt] = {}

    @property
    def routes(self) -> Mapping[str, Route]:
        """The pages, for the HTTP server of the bridge."""
        return {self._path: Route(self._app)}

    def opener(
        self, server: str, sender: Sender, target: Callable[[], Target]
    ) -> Callable[[str], Awaitable[str]]:
        """Return the function that an `OAuth` calls with a login page: it raises `LoginRequired` outside of a browser."""

        async def open_(url: str) -> str:
            attempt = _BROWSER.get()
            if attempt is None or attempt.page is None or attempt.back is None:
                raise LoginRequired(server, self._offer(server, sender, target()))
            state = dict(parse_qsl(urlsplit(url).query)).get("state", "")
            self._by_state[state] = attempt
            try:
                attempt.page.set_result(url)
                return await attempt.back
            finally:
                self._by_state.pop(state, None)

        return open_

    def _offer(self, server: str, sender: Sender, target: Target) -> str:
        """Return the URL at which a login begins; an offer for the same is used again."""
        now = time.monotonic()
        for ticket, attempt in list(self._offered.items()):
            if now - attempt.began > LIFETIME or len(self._offered) >= MOST:
                self._forget(ticket)
            elif (attempt.server, attempt.principal, attempt.client) == (
                server,
                *sender,
            ) and attempt.task is None:
                return f"{self._base}start?{urlencode({'login': ticket})}"
        ticket = secrets.token_urlsafe(24)
        self._offered[ticket] = LoginAttempt(server, sender[0], sender[1], target)
        return f"{self._base}start?{urlencode({'login': ticket})}"

    def _forget(self, ticket: str) -> None:
        attempt = self._offered.pop(ticket, None)
        if attempt is not None:
            if attempt.task is not None:
                attempt.task.cancel()
            self.ended(attempt.server)

    async def aclose(self) -> None:
        """End every login."""
        tasks = [attempt.task for attempt in self._offered.values() if attempt.task is not None]
        for ticket in tuple(self._offered):
            self._forget(ticket)
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- pages ---------------------------------------------------------------------------------------------------

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        await endpoint(partial(self._serve, scope), "GET", "POST")(scope, receive, send)

    async def _serve(self, scope: Scope, request: WebRequest) -> WebResponse:
        try:
            principal = await finished(self._identify(scope))
        except Exception as error:  # noqa: BLE001 - a check that cannot be decided denies
            _log.warning("`identify` of logins raised %s", raised_at(error))
            principal = None
        if not isinstance(principal, str) or not principal:
            return login_page(
                403, "Log in first", "You are not logged in here. Log in, then open this page again."
            )
        step = str(scope["path"]).rpartition("/")[2]
        if step == "start" and request.verb == "GET":
            return self._start(request, principal)
        if step == "allow" and request.verb == "POST":
            return await self._allow(request, principal)
        if step == "callback" and request.verb == "GET":
            return await self._callback(request, principal)
        return login_page(404, "Not found", "There is nothing here.")

    def _find(self, ticket: str | None, principal: str) -> LoginAttempt | None:
        attempt = self._offered.get(ticket or "")
        if attempt is None or attempt.principal != principal or time.monotonic() - attempt.began > LIFETIME:
            return None
        return attempt

    def _start(self, request: WebRequest, principal: str) -> WebResponse:
        """Ask the user whether a client may have access to a server."""
        ticket = request.query.get("login", "")
        attempt = self._find(ticket, principal)
        if attempt is None:
            return _over()
        browser = request.cookies.get(self._cookie) or secrets.token_urlsafe(24)
        client = attempt.client or "an app without a name"
        found = login_page(
            200,
            "Allow access?",
            f"The app {client!r} asks to use the server {attempt.server!r} in your name. Go on only if you have just "
            "started that yourself.",
            f'<form method="post" action="allow"><input type="hidden" name="login" value="{escape(ticket)}">'
            f'<input type="hidden" name="check" value="{escape(self._check(ticket, browser))}">'
            '<button name="decision" value="allow">Allow</button> '
            '<button name="decision" value="deny">Deny</button></form>',
        )
        secure = "; Secure" if self._secure else ""
        value = f"{self._cookie}={browser}; Path=/; HttpOnly; SameSite=Lax; Max-Age={LIFETIME:.0f}{secure}"
        return WebResponse(found.status, (*found.fields, (b"set-cookie", value.encode())), found.body)

    @property
    def _cookie(self) -> str:
        # The prefix keeps neighbouring hosts of the domain from setting the cookie.
        return f"__Host-{_COOKIE}" if self._secure else _COOKIE

    def _check(self, ticket: str, browser: str) -> str:
        """Return what the form repeats: it was made for the browser that sends it."""
        import hashlib

        return hashlib.sha256(f"{ticket} {browser}".encode()).hexdigest()

    async def _allow(self, request: WebRequest, principal: str) -> WebResponse:
        """Begin the login at the authorization server, once the user has allowed it."""
        form = request.form
        ticket, browser = form.get("login", ""), request.cookies.get(self._cookie, "")
        attempt = self._find(ticket, principal)
        if attempt is None or not secrets.compare_digest(
            form.get("check", "").encode(), self._check(ticket, browser).encode()
        ):
            return _over()
        if form.get("decision") != "allow":
            self._forget(ticket)
            return login_page(200, "Denied", "The app gets no access. You can close this page.")
        if attempt.task is not None:
            return _over()
        loop = asyncio.get_running_loop()
        attempt.browser, attempt.page, attempt.back = browser, loop.create_future(), loop.create_future()
        token = _BROWSER.set(attempt)
        try:
            attempt.task = loop.create_task(self._log_in(attempt))
        finally:
            _BROWSER.reset(token)
        either: set[asyncio.Future[Any]] = {attempt.page, attempt.task}
        await asyncio.wait(either, timeout=_FINISH, return_when=asyncio.FIRST_COMPLETED)
        if attempt.page.done():
            return WebResponse(
                303, ((b"location", attempt.page.result().encode()), (b"cache-control", b"no-store"))
            )
        return self._ended(ticket, attempt)

    async def _callback(self, request: WebRequest, principal: str) -> WebResponse:
        """End the login in the browser and for the principal that it began with."""
        attempt = self._by_state.get(request.query.get("state", ""))
        browser = request.cookies.get(self._cookie, "")
        if (
            attempt is None
            or attempt.back is None
            or attempt.back.done()
            or attempt.task is None
            or attempt.principal != principal
            or not secrets.compare_digest(browser.encode(), attempt.browser.encode())
        ):
            return _over()
        attempt.back.set_result(f"{self.redirect_uri}?{urlencode(dict(request.query))}")
        await asyncio.wait({attempt.task}, timeout=_FINISH)
        ticket = next((each for each, known in self._offered.items() if known is attempt), "")
        return self._ended(ticket, attempt)

    def _ended(self, ticket: str, attempt: LoginAttempt) -> WebResponse:
        """Return the page that says how a login has ended."""
        task, error = attempt.task, "it was not completed in time"
        if task is not None and task.done():
            error = "it was cancelled" if task.cancelled() else str(task.exception() or "")
        self._forget(ticket)
        if not error:
            return login_page(
                200, "Logged in", "You can close this page now and go back to where you came from."
            )
        _log.warning("a login at '%s' failed: %s", one_line(attempt.server), one_line(error))
        return login_page(
            400, "This did not work", "The login has failed. Start it again from where you came from."
        )

    async def _log_in(self, attempt: LoginAttempt) -> None:
        """Connect to the server as the user; that obtains and stores the tokens."""
        async with asyncio.timeout(LIFETIME):
            client = await self._connected(attempt.target)
        try:
            await client.aclose()
        except McpError as error:
            _log.debug("the connection of a login was not closed: %s", error)
        _log.info("a user has logged in at the server '%s'", one_line(attempt.server))

    async def _connected(self, target: Target) -> Client:
        """Connect; a call that has asked for a token at the same time may have got in the way."""
        for _ in range(_TRIES):
            with suppress(LoginRequired):
                return await connect(target, restart=False, cache=False)
        return await connect(target, restart=False, cache=False)


def login_page(status: int, title: str, text: str, rest: str = "") -> WebResponse:
    """Return a page; `rest` is HTML."""
    body = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title></head>'
        f"<body><h1>{escape(title)}</h1><p>{escape(text)}</p>{rest}</body></html>"
    )
    return WebResponse(status, PAGE_FIELDS, body.encode())


def _over() -> WebResponse:
    return login_page(
        400, "This did not work", "This login is over, or was not meant for you. Start it again."
    )
