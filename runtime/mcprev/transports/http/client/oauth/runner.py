"""Carries out what the flows of OAuth want sent, over aiohttp (AUTH-19, SEC-1, SEC-6).

The URLs are named by others, so they are held to the rules of `transports.urls`: https, or this machine where the
server is on it too; no address of a private network, unless that is allowed. Each address is judged when a socket to it
is made, so it does not matter how it is spelled, which name leads to it or which redirect. Answers have a limit and
every request a bound. Whatever goes wrong is an answer too: a flow knows what to do without one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit

import mcprev
from mcprev.errors import MissingExtra, RemoteProtocolError
from mcprev.transports.http.client.oauth.steps import Answer, Flow, HttpFetch, HttpReply
from mcprev.transports.http.urls import REDIRECTS, check_fetch, fetch_redirected, is_public

try:
    import aiohttp
except ImportError as error:
    raise MissingExtra("logging in", "aiohttp", "http") from error

T = TypeVar("T")
MAX_BODY: Final = 256 * 1024
"""Bytes that metadata and tokens may have."""


def public_socket(found: tuple[Any, ...]) -> socket.socket:
    """A socket for an address that is about to be connected to, given as `getaddrinfo` does.

    Raises `OSError` unless it is an address of the public internet.
    """
    family, kind, protocol, _, place = found
    if not is_public(place[0]):
        raise OSError(f"{place[0]} is in a private network; `private=True` allows that")
    return socket.socket(family, kind, protocol)


class FlowRunner:
    """Sends the requests of one authorization, for as long as it is entered."""

    def __init__(
        self, url: str, session: aiohttp.ClientSession | None, *, private: bool, seconds: float
    ) -> None:
        """`url` is the server that authorization is for; its host is where the user wants to be, wherever that is.

        Where the user has a `session`, its connector is used, and where names lead is the user's to judge. Each request
        gets a number of `seconds`, redirects included.
        """
        self._host = urlsplit(url).hostname or ""
        self._given = session
        self._held = AsyncExitStack()
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        """What sends to the public internet only, and what sends anywhere."""
        self._private = private
        self._seconds = seconds
        self.visit: Callable[[str], Awaitable[str]] | None = None
        """Has the user open a page, and gives the URL that they were sent back to."""

    async def __aenter__(self) -> Self:
        for anywhere in (False, True):
            self._sessions[anywhere] = await self._held.enter_async_context(
                self._new_session(anywhere=anywhere)
            )
        return self

    def _new_session(self, *, anywhere: bool) -> aiohttp.ClientSession:
        given = self._given
        connector: aiohttp.BaseConnector | None
        if given is None:
            connector = aiohttp.TCPConnector(
                socket_factory=None if anywhere else public_socket, force_close=True
            )
        else:
            connector = given.connector
        # Of a session of the user's, its headers and cookies are for the server alone.
        return aiohttp.ClientSession(
            connector=connector,
            connector_owner=given is None,
            trust_env=given is not None and given.trust_env,
            headers={"User-Agent": f"mcprev/{mcprev.__version__}"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._held.__aexit__(kind, value, trace)

    async def run(self, flow: Flow[T]) -> T:
        """Carry a flow out to its end. Raises what it raises."""
        try:
            step = next(flow)
            while True:
                answer: Answer
                if isinstance(step, HttpFetch):
                    answer = await self._send(step)
                else:
                    assert self.visit is not None
                    answer = await self.visit(step.url)
                step = flow.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            flow.close()

    async def _send(self, ask: HttpFetch) -> HttpReply:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._follow(ask)
        except TimeoutError:
            return HttpReply(0, why=f"no answer in {self._seconds:g} s")
        except RemoteProtocolError as error:
            return HttpReply(0, why=str(error))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return HttpReply(0, why=f"{type(error).__name__}: {str(error).partition('?')[0][:200]}")

    async def _follow(self, ask: HttpFetch) -> HttpReply:
        url, count = ask.url, 0
        while True:
            named = (urlsplit(url).hostname or "") == self._host
            session = self._sessions[self._private or named]
            verb = "GET" if ask.body is None else "POST"
            async with session.request(
                verb,
                check_fetch(url, private=self._private or named),
                data=ask.body,
                headers=ask.headers,
                allow_redirects=False,
            ) as response:
                if response.status not in REDIRECTS:
                    return HttpReply(
                        response.status, await _read(response), nonce=response.headers.get("DPoP-Nonce")
                    )
                if ask.body is not None:
                    raise RemoteProtocolError("a redirect of what has secrets in it is not followed")
                location = response.headers.get("Location")
            url, count = fetch_redirected(url, location, count=count), count + 1


async def _read(response: aiohttp.ClientResponse) -> bytes:
    chunks = bytearray()
    while chunk := await response.content.readany():
        chunks += chunk
        if len(chunks) > MAX_BODY:
            raise RemoteProtocolError(f"an answer of more than {MAX_BODY} bytes")
    return bytes(chunks)
