"""CORS headers for pages of other origins, on every response of an ASGI app (HTTP-30).

Wrap an app to enable them: `mcprev.cors(app, origins=["https://app.example"])`. The wrapper answers preflights itself and adds
its headers to all responses, errors included, because a page cannot read a response without them. It accepts no
requests on its own: the `origins` option of the app must list the same origins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mcprev.transports.http.security import OriginPolicy
from mcprev.transports.http.server.request import App, Message, Receive, Scope, Send
from mcprev.wire import headers as names
from mcprev.wire.headers import Headers
from mcprev.wire.param_headers import PREFIX

METHODS: Final = b"GET, POST, DELETE, OPTIONS"
REQUEST_HEADERS: Final = (
    "Accept", "Authorization", "Content-Type", names.LAST_EVENT_ID, names.METHOD, names.NAME, names.SESSION_ID,
    names.VERSION,
)  # fmt: skip
"""The request headers that a page may send, beside the `Mcp-Param-*` headers that it asks for."""
RESPONSE_HEADERS: Final = (names.SESSION_ID, names.VERSION, "WWW-Authenticate")
"""The response headers that a page may read."""
MAX_AGE: Final = 600
"""The cache lifetime of a preflight, in seconds."""
_PARAM: Final = PREFIX.lower().encode()
_ALLOWED: Final = b"access-control-allow-origin"
_REQUESTED: Final = b"access-control-request-headers"


class cors:  # noqa: N801 - called like a function
    """An ASGI app with CORS headers for some origins; `*` allows every origin, without credentials."""

    def __init__(self, app: App, *, origins: Sequence[str], max_age: int = MAX_AGE) -> None:
        """Wrap an ASGI app, such as that of `Server.asgi`, which must accept the same origins itself.

        `origins` are the origins of pages that may read responses, such as `https://app.example`. `max_age` is the time
        in seconds that a browser caches a preflight. Raises `ValueError` for an origin that cannot match.
        """
        self._app = app
        self._origin_policy = OriginPolicy(origins)
        self._any = "*" in origins
        self._max_age = max_age

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an HTTP request; pass on any other scope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers.of(scope["headers"])
        origin = headers.text(b"origin")
        allowed = origin is not None and self._origin_policy.lists(origin)
        extra = [(b"vary", b"Origin, Access-Control-Request-Headers")]
        if allowed and origin is not None:
            value = b"*" if self._any else origin.encode("latin-1")
            exposed = ", ".join(RESPONSE_HEADERS).encode()
            extra += [(_ALLOWED, value), (b"access-control-expose-headers", exposed)]
        if scope["method"] == "OPTIONS" and allowed and b"access-control-request-method" in headers:
            await send(
                {"type": "http.response.start", "status": 204, "headers": [*extra, *self._preflight(headers)]}
            )
            await send({"type": "http.response.body", "body": b""})
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = message.get("headers", ())
                if allowed:  # the app's own header wins, because browsers reject two of them
                    own = (pair for pair in own if pair[0] != _ALLOWED)
                message["headers"] = [*own, *extra]
            await send(message)

        await self._app(scope, receive, sent)

    def _preflight(self, headers: Headers) -> list[tuple[bytes, bytes]]:
        """Return the preflight headers. `*` would exclude `Authorization`, so headers are listed by name."""  # HTTP-30
        asked = [name.strip().lower() for name in (headers.get(_REQUESTED) or b"").split(b",")]
        params = [name for name in asked if name.startswith(_PARAM)]
        named = b", ".join([*(name.encode() for name in REQUEST_HEADERS), *params])
        return [
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", named),
            (b"access-control-max-age", b"%d" % self._max_age),
        ]
