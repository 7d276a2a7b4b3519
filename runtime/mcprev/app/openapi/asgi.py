"""Requests of an ASGI app in the same process, with the interface of aiohttp that the tools of a document use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email.message import Message
from typing import Any, Final, Protocol, TypeAlias

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from mcprev.errors import Json

AsgiMessage: TypeAlias = MutableMapping[str, Any]
MAX_STARTUP: Final = 60.0
"""Seconds in which the app has to start, and to stop."""
_logger: Final = logging.getLogger("mcprev.server")


class OpenApiApp(Protocol):
    """An ASGI app that describes itself, such as `fastapi.FastAPI`."""

    def openapi(self) -> dict[str, Json]:
        """Return the OpenAPI document of the app."""
        ...

    def __call__(
        self,
        scope: AsgiMessage,
        receive: Callable[[], Awaitable[AsgiMessage]],
        send: Callable[[AsgiMessage], Awaitable[None]],
        /,
    ) -> Awaitable[None]:
        """Serve a connection."""
        ...


class AppFailed(aiohttp.ClientError):
    """The app raised an exception, or did not answer."""


@dataclass(slots=True)
class _RequestInfo:
    headers: CIMultiDict[str]


@dataclass(slots=True)
class _Content:
    body: bytearray

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """Yield the body in pieces."""
        for start in range(0, len(self.body), size):
            yield bytes(self.body[start : start + size])


@dataclass(slots=True)
class AsgiResponse:
    """The response of an app."""

    request_info: _RequestInfo
    status: int = 0
    headers: CIMultiDict[str] = field(default_factory=CIMultiDict[str])
    content: _Content = field(default_factory=lambda: _Content(bytearray()))

    def _type(self) -> Message:
        found = Message()
        found["Content-Type"] = self.headers.get("Content-Type", "application/octet-stream")
        return found

    @property
    def content_type(self) -> str:
        """The media type of the body."""
        return self._type().get_content_type()

    @property
    def charset(self) -> str | None:
        """The charset of the body, if the app says one."""
        return self._type().get_content_charset()


class AsgiSession:
    """Sends requests to an app, without a network."""

    def __init__(self, app: OpenApiApp, most: int) -> None:
        """`most` is the number of bytes of a response that are looked at."""
        self._app, self._most = app, most
        self._state: dict[str, Any] = {}
        self.headers: Mapping[str, str] = {}
        self.cookie_jar: tuple[Any, ...] = ()

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: URL,
        *,
        headers: Mapping[str, str],
        data: bytes | None,
        timeout: aiohttp.ClientTimeout,
        **_: object,
    ) -> AsyncGenerator[AsgiResponse, None]:
        """Send a request. Raises `TimeoutError`, and `AppFailed` if the app raises before it answers."""
        told = CIMultiDict(
            {"Host": url.host_port_subcomponent or "", **headers, "Content-Length": str(len(data or b""))}
        )
        response = AsgiResponse(_RequestInfo(told))
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.encode("ascii"),
            "query_string": url.raw_query_string.encode("ascii"),
            "root_path": "",
            "headers": [(name.lower().encode("latin-1"), _encoded(value)) for name, value in told.items()],
            "client": None,
            "server": (url.host, url.port),
            "state": self._state.copy(),
        }
        bodies = [data or b""]
        done = asyncio.Event()

        async def receive() -> AsgiMessage:
            if not bodies:
                await done.wait()
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}

        async def send(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                response.status = message["status"]
                for name, value in message.get("headers", ()):
                    response.headers.add(bytes(name).decode("latin-1"), bytes(value).decode("latin-1"))
            elif message["type"] == "http.response.body":
                if len(response.content.body) <= self._most:
                    response.content.body += message.get("body", b"")
                if not message.get("more_body", False):
                    done.set()

        async with asyncio.timeout(timeout.total):
            try:
                await self._app(scope, receive, send)
            except Exception as error:
                _logger.exception("the app failed at %s %s", method, url.path)
                if not done.is_set():
                    raise AppFailed from error
        if not done.is_set():
            raise AppFailed
        yield response

    async def lifespan(self, _: object) -> AsyncGenerator[OpenApiApp, None]:
        """Run the lifespan of the app, if it has one. Raises `RuntimeError` if the app fails to start."""
        asked: asyncio.Queue[AsgiMessage] = asyncio.Queue()
        told: asyncio.Queue[AsgiMessage] = asyncio.Queue()
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self._state}

        async def run() -> None:
            try:
                await self._app(scope, asked.get, told.put)
            except Exception as error:  # noqa: BLE001 - an app without a lifespan raises
                _logger.debug("the app has no lifespan: %r", error)
            finally:
                told.put_nowait({"type": "ended"})

        async def step(name: str) -> None:
            asked.put_nowait({"type": f"lifespan.{name}"})
            async with asyncio.timeout(MAX_STARTUP):
                answer = await told.get()
            if answer["type"] == f"lifespan.{name}.failed":
                raise RuntimeError(f"the {name} of the app failed: {answer.get('message', '')}")

        task = asyncio.create_task(run())
        try:
            await step("startup")
            yield self._app
            if not task.done():
                await step("shutdown")
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def _encoded(value: str) -> bytes:
    try:
        return value.encode("latin-1")
    except UnicodeError:
        return value.encode()
