"""Routes for probes, `/healthz` and `/ready`: whether the process lives, and whether to send it requests (HTTP-31).

A server is ready while its lifespan runs, it is not stopping, and its store responds and takes writes.
"""

from __future__ import annotations

import json
from typing import Final

from mcprev.core.store_probe import StoreProbe
from mcprev.transports.http.server.request import Receive, Scope, Send
from mcprev.transports.http.server.route_table import KEY
from mcprev.transports.http.server.routes import Route, RouteInfo

LIVE: Final = "/healthz"
READY: Final = "/ready"
_HEADERS: Final = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))


class _Readiness:
    """Answers a probe whether the server takes calls."""

    def __init__(self) -> None:
        self._probe: StoreProbe | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as an ASGI application."""
        del receive
        info: RouteInfo = scope[KEY]
        if not info.ready:
            await _answer(scope, send, 503, "stopping")
            return
        self._probe = info.probe or self._probe or StoreProbe(info.records)
        failure = await self._probe.failure()
        await _answer(scope, send, 503 if failure else 200, failure or "ready")


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
    return {
        live: Route(_alive, any_host=True, quiet=True),
        ready: Route(_Readiness(), any_host=True, quiet=True),
    }
