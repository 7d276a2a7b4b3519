"""Logins of the users of a bridge at its servers: the bridge is the OAuth client there (AUTH-10, SEC-7).

A login belongs to one principal, one client of that principal and one server. The page of a login is shown only to the
browser of the principal that it is for, it names the client that gets access, and nothing goes to an authorization server
before the user has allowed it there: so no client uses the consent that was given for another one, and nobody can have
another user log in for him.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlencode, urlsplit

from mcprev.auth.authorization_server.pages import STANDARD
from mcprev.auth.authorization_server.web import WebRequest, WebResponse, endpoint
from mcprev.bridge.introduction import Sender
from mcprev.bridge.several.login_required import LoginRequired
from mcprev.bridge.several.login_state import HasLoginRecords, LoginRecords, LoginStep, MemoryLogins
from mcprev.callbacks import finished
from mcprev.client.connect import connect
from mcprev.client.targets import Target
from mcprev.conversion.rules import JsonObject, as_list, as_object
from mcprev.core.background import Background
from mcprev.error_text import raised_at
from mcprev.errors import Json, McpError, StoreError, one_line
from mcprev.transports.http.security import is_loopback
from mcprev.transports.http.server.request import Receive, Scope, Send
from mcprev.transports.http.server.routes import Route

if TYPE_CHECKING:
    from mcprev.auth.client.store import Registration, TokenKey, Tokens, TokenStore

Identify: TypeAlias = "Callable[[Scope], str | Awaitable[str | None] | None]"
"""Returns the principal of a browser's request from its ASGI scope, such as by the cookie of its session; None: nobody."""
PATH: Final = "/upstream-logins/"
LIFETIME: Final = 600.0
"""Seconds from the offer of a login until the user has to allow it, and from there until the browser has to be back."""
_COOKIE: Final = "mcprev-upstream-login"
_FINISH: Final = 60.0
"""Seconds that each of the two steps of a login has."""
_OFFERED, _OFFER_OF, _BEGUN = "login offered", "login offered to", "login begun"
"""The kinds of records: an offer by its ticket, the ticket by whom it is offered to, and a login by its state."""
_OF_PRINCIPAL: Final = "logins of"
"""The kind of the record that names those of a principal, the oldest first."""
MOST_EACH: Final = 32
"""The records of logins in progress that a principal has; beyond it his oldest login ends."""
_TRIES: Final = 10
"""How often a list of records is written again that another process has changed meanwhile."""
_log: Final = logging.getLogger("mcprev.auth")


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
        - `identify` returns the principal of a browser's request from its ASGI scope, or None. It has to be the
          principal that `auth` finds for the same user; otherwise a user could make another one log in for them.
        - `store` stores the tokens, such as a `mcprev.bridge.several.sealed.SealedTokens`, which stores logins in
          progress too: processes that share its records and secrets can continue the logins of each other. None: the
          memory of this process.

        Raises `ValueError` for a URL without https, except of this machine.
        """
        from mcprev.auth.client.store import MemoryTokens

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
        self.target_of: Callable[[str, Sender, LoginStep], Target | None] = _no_target
        """Returns a server as a step of the login of a sender reaches it; None for one that has none."""
        self._records: LoginRecords = (
            self.store.logins if isinstance(self.store, HasLoginRecords) else MemoryLogins()
        )
        self._steps = Background(_log, "a step of a login")

    @property
    def routes(self) -> Mapping[str, Route]:
        """The pages, for the HTTP server of the bridge."""
        return {self._path: Route(self._app)}

    def opener(self, server: str, sender: Sender) -> Callable[[str], Awaitable[str]]:
        """Return the function that an `OAuth` calls with a login page during a call: it raises `LoginRequired`."""

        async def open_(_url: str) -> str:
            raise LoginRequired(server, await self._offer(server, sender))

        return open_

    async def _offer(self, server: str, sender: Sender) -> str:
        """Return the URL at which a login begins; an offer for the same is used again."""
        records, whose = self._records, json.dumps([server, *sender])
        known = await records.read(_OFFER_OF, whose)
        ticket = "" if known is None else str(known[0])
        if not ticket or await records.read(_OFFERED, ticket) is None:
            ticket = secrets.token_urlsafe(24)
            offer: JsonObject = {"server": server, "principal": sender[0], "client": sender[1]}
            await self._write(_OFFERED, ticket, offer, sender[0])
            await self._write(_OFFER_OF, whose, ticket, sender[0])
        return f"{self._base}start?{urlencode({'login': ticket})}"

    async def _write(self, kind: str, name: str, value: Json, principal: str) -> None:
        """Write a record of a principal. One with too many loses the oldest ones, so that nobody ends the logins of others."""
        for _ in range(_TRIES):
            found = await self._records.read(_OF_PRINCIPAL, principal)
            listed, seen = ([], 0) if found is None else (as_list(found[0]) or [], found[1])
            names = [each for each in listed if each != [kind, name]] + [[kind, name]]
            kept: Json = names[-MOST_EACH:]
            if await self._records.write(_OF_PRINCIPAL, principal, kept, ttl=LIFETIME, seen=seen) is not None:
                break
        else:
            raise StoreError("other processes keep changing the logins of a user; try again later")
        for old in names[:-MOST_EACH]:
            its_kind, its_name = map(str, as_list(old) or ())
            await self._records.remove(its_kind, its_name)
        await self._records.write(kind, name, value, ttl=LIFETIME)

    async def aclose(self) -> None:
        """End the steps of logins that run here."""
        await self._steps.aclose()

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
            return await self._start(request, principal)
        if step == "allow" and request.verb == "POST":
            return await self._allow(request, principal)
        if step == "callback" and request.verb == "GET":
            return await self._callback(request, principal)
        return login_page(404, "Not found", "There is nothing here.")

    async def _find(self, ticket: str, principal: str) -> tuple[JsonObject, int] | None:
        """Return an offer that was made to a principal, and its version."""
        found = await self._records.read(_OFFERED, ticket)
        offer = {} if found is None else as_object(found[0])
        return (offer, found[1]) if found is not None and offer["principal"] == principal else None

    async def _start(self, request: WebRequest, principal: str) -> WebResponse:
        """Ask the user whether a client may have access to a server."""
        ticket = request.query.get("login", "")
        found_offer = await self._find(ticket, principal)
        if found_offer is None:
            return _over()
        offer = found_offer[0]
        browser = request.cookies.get(self._cookie) or secrets.token_urlsafe(24)
        client = str(offer["client"] or "an app without a name")
        found = login_page(
            200,
            "Allow access?",
            f"The app {client!r} asks to use the server {str(offer['server'])!r} in your name. Go on only if you have just "
            "started that yourself.",
            f'<form method="post" action="allow"><input type="hidden" name="login" value="{escape(ticket)}">'
            f'<input type="hidden" name="check" value="{escape(self._check(ticket, browser))}">'
            '<div class="buttons"><button class="main" name="decision" value="allow">Allow</button>'
            '<button name="decision" value="deny">Deny</button></div></form>',
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
        return _digest(f"{ticket} {browser}")

    async def _allow(self, request: WebRequest, principal: str) -> WebResponse:
        """Begin the login at the authorization server, once the user has allowed it."""
        form = request.form
        ticket, browser = form.get("login", ""), request.cookies.get(self._cookie, "")
        found = await self._find(ticket, principal)
        if found is None or not secrets.compare_digest(
            form.get("check", "").encode(), self._check(ticket, browser).encode()
        ):
            return _over()
        offer, version = found
        if not await self._records.remove(_OFFERED, ticket, seen=version):
            return _over()
        if form.get("decision") != "allow":
            self.ended(str(offer["server"]))
            return login_page(200, "Denied", "The app gets no access. You can close this page.")
        step = LoginStep(state=secrets.token_urlsafe(32), verifier=secrets.token_urlsafe(32))
        error = await self._run(offer, step)
        if step.page is None:
            return self._ended(offer, error)
        begun: JsonObject = {
            **offer,
            "browser": _digest(browser),
            "verifier": step.verifier,
            "page": step.page,
            "place": step.place,
        }
        await self._write(_BEGUN, step.state, begun, principal)
        return WebResponse(303, ((b"location", step.page.encode()), (b"cache-control", b"no-store")))

    async def _callback(self, request: WebRequest, principal: str) -> WebResponse:
        """End the login in the browser and for the principal that it began with."""
        state = request.query.get("state", "")
        found = await self._records.read(_BEGUN, state)
        begun = {} if found is None else as_object(found[0])
        browser = request.cookies.get(self._cookie, "")
        if (
            found is None
            or begun["principal"] != principal
            or not secrets.compare_digest(_digest(browser), str(begun["browser"]))
            or not await self._records.remove(_BEGUN, state, seen=found[1])
        ):
            return _over()
        step = LoginStep(
            state=state,
            verifier=str(begun["verifier"]),
            page=str(begun["page"]),
            place=str(begun["place"]),
            back=f"{self.redirect_uri}?{urlencode(dict(request.query))}",
        )
        return self._ended(begun, await self._run(begun, step))

    def _ended(self, offer: JsonObject, error: str) -> WebResponse:
        """Return the page that says how a login has ended."""
        server = str(offer["server"])
        self.ended(server)
        if not error:
            _log.info("a user has logged in at the server '%s'", one_line(server))
            return login_page(
                200, "Logged in", "You can close this page now and go back to where you came from."
            )
        _log.warning("a login at '%s' failed: %s", one_line(server), one_line(error))
        return login_page(
            400, "This did not work", "The login has failed. Start it again from where you came from."
        )

    async def _run(self, offer: JsonObject, step: LoginStep) -> str:
        """Make a step of a login, also if the browser does not wait for it; return why it has failed, or nothing."""
        sender: Sender = str(offer["principal"]), offer["client"]
        target = self.target_of(str(offer["server"]), sender, step)
        if target is None:
            return "users do not log in at the server any more"
        task = self._steps.start(_why_not_connected(target))
        await asyncio.wait({task}, timeout=_FINISH)
        if not task.done():
            task.cancel()
            return "it was not completed in time"
        return "it was cancelled" if task.cancelled() else task.result()


def _no_target(_server: str, _sender: Sender, _step: LoginStep) -> None:
    """Return nothing, as long as no bridge runs."""


async def _why_not_connected(target: Target) -> str:
    """Connect to a server as its user, which obtains and stores the tokens; return why that has failed, or nothing."""
    try:
        client = await connect(target, restart=False, cache=False)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is told
        return str(error) or type(error).__name__
    try:
        await client.aclose()
    except McpError as error:
        _log.debug("the connection of a login was not closed: %s", error)
    return ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def login_page(status: int, title: str, text: str, rest: str = "") -> WebResponse:
    """Return a page; `rest` is HTML."""
    body = STANDARD.html(title, f"<h1>{escape(title)}</h1><p>{escape(text)}</p>{rest}")
    return WebResponse(status, STANDARD.fields(), body)


def _over() -> WebResponse:
    return login_page(
        400, "This did not work", "This login has ended, or was not meant for you. Start it again."
    )
