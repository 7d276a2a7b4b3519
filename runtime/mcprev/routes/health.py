"""Routes for probes, `/healthz` and `/ready`: whether the process lives, and whether to send it requests (HTTP-31).

A server is ready while its lifespan runs, it is not stopping, and its store answers.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Final

from mcprev.core.store import Records
from mcprev.routes.table import KEY
from mcprev.transports.http.server.request import Receive, Scope, Send
from mcprev.transports.http.server.routes import Route, RouteInfo

LIVE: Final = "/healthz"
READY: Final = "/ready"
PROBE: Final = 2.0
"""Seconds in which a store has to respond."""
FRESH: Final = 1.0
"""Seconds for which an answer counts, so that nobody can load the store with probes."""
_HEADERS: Final = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
_logger: Final = logging.getLogger("mcprev.store")


class StoreProbe:
    """Asks a store for a record, which need not be there, in bounded time and not more often than is useful."""

    def __init__(self, records: Records | None) -> None:
        """None: there is no store, and nothing to ask."""
        self._records = records
        self._asking: asyncio.Task[bool] | None = None
        self._asked = float("-inf")
        self._failed = False

    async def answers(self) -> bool:
        """Return whether the store answers, or has within the last second; True without a store."""
        if self._records is None:
            return True
        loop = asyncio.get_running_loop()
        if self._asking is None or (self._asking.done() and loop.time() - self._asked >= FRESH):
            self._asked = loop.time()
            self._asking = loop.create_task(self._ask(self._records))
        return await asyncio.shield(self._asking)

    async def _ask(self, records: Records) -> bool:
        failed, error = False, ""
        try:
            async with asyncio.timeout(PROBE):
                await records.read("ready")
        except Exception as caught:  # noqa: BLE001 - of whoever wrote the store
            failed, error = True, str(caught) or f"no response within {PROBE:g} s"
        if failed and not self._failed:
            _logger.warning("not ready: the store does not respond: %s", error)
        elif self._failed and not failed:
            _logger.warning("ready again: the store responds")
        self._failed = failed
        return not failed


class _Readiness:
    """Answers a probe whether the server takes calls."""

    def __init__(self) -> None:
        self._probe: StoreProbe | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as an ASGI application."""
        del receive
        info: RouteInfo = scope[KEY]
        self._probe = self._probe or StoreProbe(info.records)
        if not info.ready:
            await _answer(scope, send, 503, "stopping")
        elif not await self._probe.answers():
            await _answer(scope, send, 503, "the store does not respond")
        else:
            await _answer(scope, send, 200, "ready")


async def _alive(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a probe whether the process lives."""
    del receive
    await _answer(scope, send, 200, "alive")


async def _answer(scope: Scope, send: Send, status: int, text: str) -> None:
    headers, body = [*_HEADERS], json.dumps({"status": text}).encode()
    if scope["method"] not in {"GET", "HEAD"}:
        status, body = 405, b""
        headers.append((b"allow", b"GET, HEAD"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def health_routes(live: str = LIVE, ready: str = READY) -> dict[str, Route]:
    """Return the two routes, which everybody may read under any name of the host."""
    return {live: Route(_alive, any_host=True), ready: Route(_Readiness(), any_host=True)}
