"""Runs OAuth flows: sends their requests with aiohttp (AUTH-19, SEC-1, SEC-6).

Other parties name the URLs, so the rules of `transports.http.urls` apply: https, or loopback if the MCP server is on
loopback too; no address in a private network unless the user allows it. Each address is checked when its socket is
created, so neither spelling, DNS nor redirects circumvent the check. The size of responses and the duration of
requests are limited. A failed request becomes a reply with status 0, because flows handle missing documents.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from mcprev.auth.client.steps import Answer, DeviceCode, Flow, HttpFetch, HttpReply, Pause, ShowCode
from mcprev.auth.urls import check_fetch, is_public
from mcprev.errors import MissingExtra, RemoteProtocolError
from mcprev.transports.http.client.authorization import login_tap
from mcprev.transports.http.urls import REDIRECTS, fetch_redirected, mask_url, proxy_of
from mcprev.version import __version__

try:
    import aiohttp
except ImportError as _error:
    raise MissingExtra("logging in", "aiohttp", "http") from _error

T = TypeVar("T")
MAX_BODY: Final = 256 * 1024
"""The maximum size of a response body, in bytes."""


def public_socket(found: tuple[Any, ...]) -> socket.socket:
    """Create a socket for one `getaddrinfo` result.

    Raises `OSError` unless the address is on the public internet.
    """
    family, kind, protocol, _, place = found
    if not is_public(place[0]):
        raise OSError(f"{place[0]} is in a private network; `private=True` allows that")
    return socket.socket(family, kind, protocol)


class FlowRunner:
    """Runs the flows of one authorization."""

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession | None,
        *,
        private: bool,
        seconds: float,
        trust_env: bool = False,
    ) -> None:
        """`url` is the MCP server; its host is exempt from the check for private networks, as the user named it.

        If the user passes a `session`, its connector is used, and addresses are not checked. `seconds` limits each
        request, redirects included. `trust_env` uses the proxies of the environment; as they find the addresses of names, those
        that this machine finds are checked instead, and a name of which it finds none is refused.
        """
        self._host = urlsplit(url).hostname or ""
        self._given = session
        self._private = private
        self._seconds = seconds
        self._trust_env = trust_env
        self.visit: Callable[[str], Awaitable[str]] | None = None
        """Opens a page for the user and returns the redirect URL."""
        self.show: Callable[[DeviceCode], Awaitable[None]] | None = None
        """Shows a code to the user."""

    async def _proxy(self, url: str, *, anywhere: bool) -> str | None:
        """Return the proxy of the environment for a URL; None without one. Raises `OSError` for an address that is not public."""
        proxy = proxy_of(url) if self._trust_env and self._given is None else None
        if proxy is None or anywhere:
            return proxy
        parts = urlsplit(url)
        try:
            addresses = await asyncio.get_running_loop().getaddrinfo(parts.hostname, parts.port or 443)
        except socket.gaierror:
            text = f"this machine finds no address of {parts.hostname}, so it is not known to be public"
            raise OSError(f"{text} before a proxy is asked; `private=True` allows that") from None
        for found in addresses:
            if not is_public(str(found[4][0])):
                raise OSError(f"{found[4][0]} is in a private network; `private=True` allows that")
        return proxy

    def _new_session(self, *, anywhere: bool) -> aiohttp.ClientSession:
        """Return a session for one request, which may lead to any address or to the public internet only."""
        given = self._given
        connector: aiohttp.BaseConnector | None
        if given is None:
            connector = aiohttp.TCPConnector(
                socket_factory=None if anywhere else public_socket, force_close=True
            )
        else:
            connector = given.connector
        # The headers and cookies of the user's session are for the MCP server only.
        return aiohttp.ClientSession(
            connector=connector,
            connector_owner=given is None,
            trust_env=given is not None and given.trust_env,
            headers={"User-Agent": f"mcprev/{__version__}"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def run(self, flow: Flow[T]) -> T:
        """Run a flow to its end and return its result. Raises the flow's errors."""
        try:
            step = next(flow)
            while True:
                answer: Answer
                if isinstance(step, HttpFetch):
                    answer = await self._send(step)
                elif isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    answer = ""
                elif isinstance(step, ShowCode):
                    assert self.show is not None
                    await self.show(step.code)
                    answer = ""
                else:
                    assert self.visit is not None
                    if (tap := login_tap.get()) is not None:
                        tap.visit(mask_url(step.url))
                    answer = await self.visit(step.url)
                step = flow.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result

    async def _send(self, ask: HttpFetch) -> HttpReply:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._follow(ask)
        except TimeoutError:
            return HttpReply(0, why=f"no response within {self._seconds:g} s")
        except RemoteProtocolError as error:
            return HttpReply(0, why=str(error))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return HttpReply(0, why=f"{type(error).__name__}: {mask_url(str(error))[:200]}")

    async def _follow(self, ask: HttpFetch) -> HttpReply:
        url, count = ask.url, 0
        while True:
            anywhere = self._private or (urlsplit(url).hostname or "") == self._host
            checked, verb = check_fetch(url, private=anywhere), "GET" if ask.body is None else "POST"
            with _reported(verb, mask_url(url), ask.purpose) as answered:
                proxy = await self._proxy(checked, anywhere=anywhere)
                async with (
                    self._new_session(anywhere=anywhere or proxy is not None) as session,
                    session.request(
                        verb,
                        checked,
                        data=ask.body,
                        headers=ask.headers,
                        allow_redirects=False,
                        proxy=proxy,
                    ) as response,
                ):
                    answered(response.status, response.reason)
                    if response.status not in REDIRECTS:
                        return HttpReply(
                            response.status, await _read(response), nonce=response.headers.get("DPoP-Nonce")
                        )
                    location = response.headers.get("Location")
            if ask.body is not None or not ask.follow:
                raise RemoteProtocolError(
                    "a redirect of a request with secrets is not followed; configure the URL to which it leads"
                )
            url, count = fetch_redirected(url, location, count=count), count + 1


async def _read(response: aiohttp.ClientResponse) -> bytes:
    chunks = bytearray()
    while chunk := await response.content.readany():
        chunks += chunk
        if len(chunks) > MAX_BODY:
            raise RemoteProtocolError(f"a response of more than {MAX_BODY} bytes")
    return bytes(chunks)


@contextmanager
def _reported(
    verb: str, url: str, purpose: str
) -> Generator[Callable[[int, str | None], object], None, None]:
    """Report a request to the tap of the client that logs in, if it has one, and its failure; yield what reports its status."""
    tap = login_tap.get()
    exchange = None if tap is None else tap.request(verb, url, {}, None, login=purpose)
    try:
        yield (lambda _status, _reason: None) if exchange is None else exchange.answered
    except BaseException as error:
        if exchange is not None:
            exchange.failed(mask_url(str(error)) or type(error).__name__)
        raise
