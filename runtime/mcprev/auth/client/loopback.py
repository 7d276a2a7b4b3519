"""Login in a browser: opens the authorization page and receives the redirect on loopback (AUTH-11, SEC-2).

The standard library opens the browser, without a shell, and only at http and https URLs. The listener answers any
other request with an error page; only a redirect with the expected `state` completes the login.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import webbrowser
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

from mcprev.auth.client.discovery import check_page
from mcprev.callbacks import finished
from mcprev.errors import AuthError

HOST: Final = "127.0.0.1"
PATH: Final = "/callback"
LINGER: Final = 0.2
"""Seconds after a login in which the browser can read its page."""
MAX_REQUEST: Final = 32 * 1024
"""The maximum length of a request line and of a header, in bytes."""
_HEADERS: Final = {"Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
_PAGE: Final = "<!doctype html><meta charset=utf-8><title>{0}</title><p>{0}"

_logger: Final = logging.getLogger("mcprev.auth")
BrowserOpener: TypeAlias = Callable[[str], Awaitable[str]]


def open_browser(url: str) -> bool:
    """Open a page in the user's browser; return False if none was found. Raises `AuthError` for an unsafe URL."""
    check_page(url)
    # Some terminal browsers run until they are closed, so wait for one second only.
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(webbrowser.open(url)), daemon=True)
    thread.start()
    thread.join(1.0)
    return found != [False]


class Loopback:
    """Opens the user's browser and listens on 127.0.0.1 for the redirect: `OAuth(loopback=Loopback(port=8400))`."""

    def __init__(
        self,
        *,
        port: int = 0,
        path: str = PATH,
        open: Callable[[str], bool | Awaitable[bool]] = open_browser,  # noqa: A002
    ) -> None:
        """Set the redirect URI, `http://127.0.0.1:<port><path>`, and how a page is opened.

        Port 0 picks a free port; set `port` for an authorization server that requires the exact URI in advance.
        `open(url)` shows a page to the user and returns whether that succeeded; it is called in a thread, and what it
        returns is awaited if it is awaitable. Default: the browser. Raises `ValueError` for a path that does not begin with a slash.
        """
        if not path.startswith("/"):
            raise ValueError(f"the path '{path}' must begin with a slash")
        self._port = port
        self._last = 0
        """The port of the previous login, tried first, so that one registration suffices."""
        self._path = path
        self._open = open

    @asynccontextmanager
    async def ready(self) -> AsyncGenerator[tuple[str, BrowserOpener], None]:
        """Listen; yield the redirect URI and a function that runs a login. Raises `AuthError`."""
        from aiohttp import web  # imported late: only a login needs a server

        loop = asyncio.get_running_loop()
        back: asyncio.Future[str] = loop.create_future()
        expected = b""

        async def answer(request: web.BaseRequest) -> web.Response:
            parts = urlsplit(request.raw_path)
            if request.method != "GET" or parts.path != self._path:
                return page(404, "There is nothing here.")
            if not expected or not secrets.compare_digest(_state(parts.query), expected):
                return page(400, "This login was not requested.")
            if not back.done():
                back.set_result(f"http://{HOST}{request.raw_path}")
            return page(200, "You can close this page now and go back to where you came from.")

        def page(status: int, said: str) -> web.Response:
            found = web.Response(
                status=status, text=_PAGE.format(said), content_type="text/html", headers=_HEADERS
            )
            found.force_close()
            return found

        async def visit(url: str) -> str:
            nonlocal expected
            expected = _state(urlsplit(url).query)
            shown = await loop.run_in_executor(None, lambda: self._open(url))
            if not await finished(shown):
                raise AuthError(
                    "no browser was found for the login: pass an `open` function that shows the URL to the user"
                )
            return await back

        protocols = web.Server(
            answer, logger=_logger, access_log=None, max_line_size=MAX_REQUEST, max_field_size=MAX_REQUEST
        )
        server = await self._listen(protocols)
        port = self._last = server.sockets[0].getsockname()[1]
        try:
            yield f"http://{HOST}:{port}{self._path}", visit
        finally:
            server.close()
            await protocols.shutdown(LINGER)

    async def _listen(self, protocols: Callable[[], asyncio.BaseProtocol]) -> asyncio.Server:
        problem: OSError | None = None
        for port in dict.fromkeys((self._port or self._last, self._port)):
            try:
                return await asyncio.get_running_loop().create_server(protocols, HOST, port)
            except OSError as error:
                problem = error
        raise AuthError(
            f"cannot listen for the login on port {self._port}: {problem}; pass another port to `Loopback`"
        ) from problem


def _state(query: str) -> bytes:
    """Return the `state` of a query; empty if it has none."""
    return parse_qs(query).get("state", [""])[0].encode()
