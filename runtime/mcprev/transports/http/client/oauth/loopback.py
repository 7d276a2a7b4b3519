"""Login in a browser: opens the authorization page and receives the redirect on loopback (AUTH-11, SEC-2).

The standard library opens the browser, without a shell, and only at http and https URLs. The listener answers any
other request with an error page; only a redirect with the expected `state` completes the login.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import webbrowser
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

from mcprev.errors import AuthError
from mcprev.transports.http.client.oauth.discovery import check_page

HOST: Final = "127.0.0.1"
PATH: Final = "/callback"
READ: Final = 5.0
"""Seconds in which a browser must send its request."""
MAX_REQUEST: Final = 32 * 1024
"""The maximum length of a request line, in bytes."""
_PAGE: Final = "<!doctype html><meta charset=utf-8><title>{0}</title><p>{0}"

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
        open: Callable[[str], bool] = open_browser,  # noqa: A002
    ) -> None:
        """Set the redirect URI, `http://127.0.0.1:<port><path>`, and how a page is opened.

        Port 0 picks a free port; set `port` for an authorization server that requires the exact URI in advance.
        `open(url)` shows a page to the user and returns whether that succeeded; it is called in a thread. Default: the
        browser. Raises `ValueError` for a path that does not begin with a slash.
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
        listener = _Listener(self._path)
        server = await self._listen(listener)
        port = self._last = server.sockets[0].getsockname()[1]

        async def visit(url: str) -> str:
            listener.expect(url)
            if not await asyncio.get_running_loop().run_in_executor(None, self._open, url):
                raise AuthError(
                    "no browser was found for the login: pass an `open` function that shows the URL to the user"
                )
            return await listener.back

        try:
            yield f"http://{HOST}:{port}{self._path}", visit
        finally:
            server.close()
            await listener.close()

    async def _listen(self, listener: _Listener) -> asyncio.Server:
        problem: OSError | None = None
        for port in dict.fromkeys((self._port or self._last, self._port)):
            try:
                return await asyncio.start_server(listener.serve, HOST, port, limit=MAX_REQUEST)
            except OSError as error:
                problem = error
        raise AuthError(
            f"cannot listen for the login on port {self._port}: {problem}; pass another port to `Loopback`"
        ) from problem


class _Listener:
    """Answers the browser's request and completes `back` with the redirect URL."""

    def __init__(self, path: str) -> None:
        self.back: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._path = path
        self._state = ""
        self._tasks: set[asyncio.Task[None]] = set()

    def expect(self, url: str) -> None:
        """Accept the redirect with the `state` of this authorization URL."""
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[0]

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Close all connections, after a short wait in which the browser can read its page."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=0.2)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        self.back.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ):
                line = (await reader.readline()).decode("latin-1").split(" ")
                while (await reader.readline()).strip():
                    pass
                status, said = self._answer(line)
                if status.startswith("200"):
                    self._came_back(line[1])
                body = _PAGE.format(said).encode()
                head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\nConnection: close"
                writer.write(
                    head.encode()
                    + b"\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n\r\n"
                    + body
                )
                await writer.drain()
        except (OSError, ValueError, TimeoutError):
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _answer(self, line: list[str]) -> tuple[str, str]:
        if len(line) != 3 or line[0] != "GET" or urlsplit(line[1]).path != self._path:
            return "404 Not Found", "There is nothing here."
        states = parse_qs(urlsplit(line[1]).query).get("state", [""])
        if not self._state or not secrets.compare_digest(states[0].encode(), self._state.encode()):
            return "400 Bad Request", "This login was not requested."
        return "200 OK", "You can close this page now and go back to where you came from."

    def _came_back(self, target: str) -> None:
        if not self.back.done():
            self.back.set_result(f"http://{HOST}{target}")
