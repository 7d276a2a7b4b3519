"""An authorization server to try everything with: `python -m mcprev.testing.authorization_server --user alice`.

Its users have names and no passwords, so it runs on this machine only. It registers clients, shows a consent page that
asks which user to be, and issues, refreshes, describes and revokes tokens for any resource.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from typing import Final
from urllib.parse import parse_qs, urljoin, urlsplit

import click
from typing_extensions import Unpack, override

from mcprev.auth.authorization_server.grants import Grant, Grants, User
from mcprev.auth.authorization_server.options import LoginOptions
from mcprev.auth.authorization_server.requests import PageError
from mcprev.auth.authorization_server.server import Attempt, AuthorizationServer
from mcprev.auth.bearer import Bearer, Needs
from mcprev.errors import AuthError, MissingExtra
from mcprev.transports.http.security import OriginPolicy
from mcprev.transports.http.server.request import AsgiRequest, Receive, Scope, Send
from mcprev.wire.headers import Headers

try:
    import aiohttp
except ImportError as _error:
    raise MissingExtra("an authorization server for tests", "aiohttp", "http") from _error

PORT: Final = 9000
RESOURCE_SERVER: Final = ("resource-server", "try-me-resource-server-secret")
"""The id and secret with which a resource server may ask about tokens."""
_REDIRECTS: Final = 10


def _unknown(user: str, users: Sequence[str]) -> str:
    return f"there is no user {user[:100]!r} here; the users are {', '.join(users)}"


class LocalUsers:
    """Users without passwords, who choose their name on the consent page, for an authorization server on this machine."""

    def __init__(self, *users: str) -> None:
        """Set the names of the users; there is at least one."""
        if not users:
            raise ValueError("name at least one user")
        self.users: Sequence[str] = users

    async def start(self, callback: str, state: str, attempt: Attempt, chosen: str) -> str | User:
        """Return the chosen user, or the first one if none was chosen. Raises `PageError` for any other name."""
        del callback, state, attempt
        if chosen and chosen not in self.users:
            raise PageError(_unknown(chosen, self.users))
        return User(chosen or self.users[0])

    async def finish(self, callback: str, attempt: Attempt, said: Mapping[str, str]) -> User:
        """Never called: local users do not log in at a provider."""
        del callback, attempt, said
        raise AuthError("local users log in on the consent page, not at a provider")

    async def renew(self, grants: Grants, name: str, grant: Grant) -> None:
        """Do nothing: a login of a local user can always be refreshed."""
        del grants, name, grant


class LocalAuthorizationServer(AuthorizationServer):
    """An authorization server for tests: an ASGI app, or `bearer(resource)` for a server in the same process."""

    def __init__(
        self,
        issuer: str = f"http://127.0.0.1:{PORT}",
        *,
        users: Sequence[str] = ("alice",),
        **options: Unpack[LoginOptions],
    ) -> None:
        """Set the issuer, an http URL of this machine, and its users. Raises `ValueError` for any other URL."""
        super().__init__(issuer, LocalUsers(*users), resource_servers=dict([RESOURCE_SERVER]), **options)
        self._policy = OriginPolicy()

    def bearer(self, resource: str, *, scopes: Sequence[str] = (), needs: Needs | None = None) -> Bearer:
        """Return the `auth` of a server whose tokens this one issues."""
        return Bearer(
            self.verify, resource=resource, authorization_servers=[self.issuer], scopes=scopes, needs=needs
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "http":
            http_request = AsgiRequest(scope, receive, send, Headers.of(scope["headers"]))
            route = self.routes.get(scope["path"])
            # A page whose host name was made to lead here must not consent for the user.
            reject = (
                None
                if route is None or route.any_host
                else self._policy.refusal(http_request.headers, http_request.address)
            )
            if route is None or reject is not None:
                await http_request.answer(404 if reject is None else reject.status, (), b"")
            else:
                await route.app(scope, receive, send)


class _Form(HTMLParser):
    """The fields of the only form of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self.users: list[str] = []
        """The users whom the page lets choose from."""
        self.feed(text)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = said.get("action", "")
        elif tag == "input" and said.get("type") == "hidden":
            self.fields[said["name"]] = said["value"]
        elif tag == "input" and said.get("name") == "user":
            self.users.append(said.get("value", ""))


class Browser:
    """A user with a browser that consents to everything: `mcprev.OAuth(open=browser.open, redirect_uri=browser.redirect_uri)`."""

    redirect_uri: str = "http://127.0.0.1/callback"

    def __init__(
        self,
        user: str | None = None,
        *,
        decision: str = "allow",
        connector: aiohttp.BaseConnector | None = None,
    ) -> None:
        """`user` is chosen on the consent page (None: the first one; a name that is not there is an error), and `decision` is `allow` or `deny`."""
        self._said = {"decision": decision, **({} if user is None else {"user": user})}
        self._user = user
        self._connector = connector
        self._cookies: dict[str, str] = {}

    async def open(self, url: str) -> str:
        """Open a login page, and return the URL that leads back to the client, at the `redirect_uri` of the login; it is not opened.

        Raises `AuthError` if there is no such URL, or if the page does not offer the user.
        """
        form: dict[str, str] | None = None
        client = parse_qs(urlsplit(url).query).get("redirect_uri", [self.redirect_uri])[0]
        owner = self._connector is None
        async with aiohttp.ClientSession(
            connector=self._connector,
            connector_owner=owner,
            cookie_jar=aiohttp.CookieJar(unsafe=True),
            cookies=self._cookies,
        ) as session:
            for _ in range(_REDIRECTS):
                verb = "GET" if form is None else "POST"
                async with session.request(verb, url, data=form, allow_redirects=False) as response:
                    self._cookies |= {name: found.value for name, found in response.cookies.items()}
                    text = await response.text()
                    location = response.headers.get("Location")
                    if location is not None:
                        url, form = urljoin(url, location), None
                        if url.startswith(client):
                            return url
                        continue
                page = _Form(text)
                if page.action is None:
                    raise AuthError(f"the page has no form (HTTP {response.status}): {text}")
                if page.users and self._user is not None and self._user not in page.users:
                    raise AuthError(_unknown(self._user, page.users))
                url, form = urljoin(url, page.action), {**page.fields, **self._said}
        raise AuthError("the login does not lead back to the client")


@click.command()
@click.option("--port", default=PORT, show_default=True, help="The port on 127.0.0.1.")
@click.option(
    "--user",
    "users",
    multiple=True,
    default=["alice"],
    show_default=True,
    help="The name of a user; may be repeated.",
)
@click.option("--scope", "scopes", multiple=True, help="A scope that clients may request; may be repeated.")
def run_server(port: int, users: Sequence[str], scopes: Sequence[str]) -> None:
    """Run an authorization server on this machine, to test servers and clients."""
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtra("an authorization server for tests", "uvicorn", "http") from error
    server = LocalAuthorizationServer(f"http://127.0.0.1:{port}", users=users, optional_scopes=scopes)
    user, secret = RESOURCE_SERVER
    lines = f"issuer {server.issuer}", f"keys {server.issuer}/jwks", f"introspection as {user} with {secret}"
    sys.stdout.write("\n".join([*lines, ""]))
    sys.stdout.flush()
    uvicorn.run(server, host="127.0.0.1", port=port, log_level="info")


if __name__ == "__main__":
    run_server()
