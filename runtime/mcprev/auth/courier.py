"""Carries out what the flows of OAuth want sent, over aiohttp (AUTH-19, SEC-1, SEC-6).

The URLs are named by others, so they are held to rules: https, or this machine where the server is on it too; no
address of a private network, unless that is allowed, also not by way of a name or of a redirect. Answers have a limit
and every request a bound. Whatever goes wrong is an answer too: a flow knows what to do without one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self, TypeVar
from urllib.parse import urlsplit

from typing_extensions import override

import mcprev
from mcprev.auth.steps import Answer, Ask, Flow, Reply
from mcprev.errors import MissingExtra, RemoteProtocolError
from mcprev.transports.urls import REDIRECTS, check_fetch, fetch_redirected, is_public

try:
    import aiohttp
    from aiohttp.abc import AbstractResolver, ResolveResult
except ImportError as error:
    raise MissingExtra("logging in", "aiohttp", "http") from error

T = TypeVar("T")
MAX_BODY: Final = 256 * 1024
"""Bytes that metadata and tokens may have."""


class PublicNames(AbstractResolver):
    """Finds addresses of the public internet only, but for one host that the user has named."""

    def __init__(self, named: str) -> None:
        self._named = named
        self._resolver = aiohttp.ThreadedResolver()

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Addresses of a name. Raises `OSError` where there are none that may be used."""
        found = await self._resolver.resolve(host, port, family)
        if host.lower() == self._named:
            return found
        public = [address for address in found if is_public(address["host"])]
        if not public:
            raise OSError(f"{host} is in a private network; `private=True` allows that")
        return public

    @override
    async def close(self) -> None:
        """Nothing is held."""


class Courier:
    """Sends the requests of one authorization, for as long as it is entered."""

    def __init__(
        self, url: str, session: aiohttp.ClientSession | None, *, private: bool, seconds: float
    ) -> None:
        """`url` is the server that authorization is for. Where the user has a `session`, its connector is used, and how
        names are resolved is the user's to judge. Each request gets a number of `seconds`, redirects included.
        """
        self._host = urlsplit(url).hostname or ""
        self._given = session
        self._session: aiohttp.ClientSession | None = None
        self._private = private
        self._seconds = seconds
        self.visit: Callable[[str], Awaitable[str]] | None = None
        """Has the user open a page, and gives the URL that they were sent back to."""

    async def __aenter__(self) -> Self:
        names = None if self._private else PublicNames(self._host)
        given = self._given
        # Of a session of the user's, its headers and cookies are for the server alone.
        self._session = aiohttp.ClientSession(
            connector=(
                aiohttp.TCPConnector(resolver=names, force_close=True) if given is None else given.connector
            ),
            connector_owner=given is None,
            trust_env=given is not None and given.trust_env,
            headers={"User-Agent": f"mcprev/{mcprev.__version__}"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def run(self, flow: Flow[T]) -> T:
        """Carry a flow out to its end. Raises what it raises."""
        try:
            step = next(flow)
            while True:
                answer: Answer
                if isinstance(step, Ask):
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

    async def _send(self, ask: Ask) -> Reply:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._follow(ask)
        except TimeoutError:
            return Reply(0, why=f"no answer in {self._seconds:g} s")
        except RemoteProtocolError as error:
            return Reply(0, why=str(error))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Reply(0, why=f"{type(error).__name__}: {str(error).partition('?')[0][:200]}")

    async def _follow(self, ask: Ask) -> Reply:
        session, url, count = self._session, self._checked(ask.url), 0
        assert session is not None
        while True:
            verb = "GET" if ask.body is None else "POST"
            async with session.request(
                verb, url, data=ask.body, headers=ask.headers, allow_redirects=False
            ) as response:
                if response.status not in REDIRECTS:
                    return Reply(
                        response.status, await _read(response), nonce=response.headers.get("DPoP-Nonce")
                    )
                if ask.body is not None:
                    raise RemoteProtocolError("a redirect of what has secrets in it is not followed")
                location = response.headers.get("Location")
            url = self._checked(fetch_redirected(url, location, count=count))
            count += 1

    def _checked(self, url: str) -> str:
        """The same, which may be fetched; the host of the server itself is where the user wants to be."""
        named = (urlsplit(url).hostname or "") == self._host
        return check_fetch(url, private=self._private or named)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    chunks = bytearray()
    while chunk := await response.content.readany():
        chunks += chunk
        if len(chunks) > MAX_BODY:
            raise RemoteProtocolError(f"an answer of more than {MAX_BODY} bytes")
    return bytes(chunks)
