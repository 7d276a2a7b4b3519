"""Functions that answer HTTP requests beside the endpoint, as ASGI applications. Loaded with the first route of an app."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from urllib.parse import parse_qsl

from pydantic_core import from_json

from mcprev.errors import Json
from mcprev.transports.http.server.request import Receive, Scope, Send
from mcprev.transports.http.server.route_table import KEY
from mcprev.transports.http.server.routes import RouteInfo
from mcprev.wire.bounds import check_values

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from mcprev.transports.http.server.access import Access
    from mcprev.transports.http.server.request import App as AsgiCallable

Pairs: TypeAlias = tuple[tuple[bytes, bytes], ...]
_TEXT: Final = b"text/plain; charset=utf-8"
_BYTES: Final = b"application/octet-stream"
_JSON: Final = b"application/json"


@dataclass(frozen=True, slots=True)
class RouteRequest:
    """An HTTP request for a route; its body is at most `max_body` bytes."""

    method: str
    """The HTTP method, in upper case."""
    path: str
    """The decoded path, including the path at which the app is mounted."""
    query: Mapping[str, str]
    """The parameters of the query; the last value of a name that occurs several times."""
    headers: Mapping[str, str]
    """The headers by name in lower case; the last value of a name that occurs several times."""
    body: bytes
    """The whole body."""
    ready: bool
    """Whether the server serves calls: its lifespan runs, and it is not stopping."""
    principal: str | None = None
    """The authenticated sender; None for a route without `auth`."""
    access: Access | None = field(default=None, repr=False)
    """The content of the access token; None for a route without `auth`."""

    def json(self) -> Json:
        """Return the body as JSON. Raises `ValueError` for invalid JSON, and for more values or nesting than an MCP message may have."""
        check_values(self.body)
        found: Json = from_json(self.body, allow_inf_nan=False)
        return found


def route_app(
    function: Callable[..., object], methods: Collection[str], executor: Executor | None
) -> AsgiCallable:
    """Return a function as an ASGI application; `executor` runs it unless it is async.

    Raises `TypeError` for a function with other parameters.
    """
    name = getattr(function, "__name__", "a route")
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    if len(parameters) == 3:
        return cast("AsgiCallable", function)
    if len(parameters) > 1:
        raise TypeError(
            f"{name}(): a route has one parameter, the request, or none; or it is an ASGI application"
        )
    kind: Any = parameters[0].annotation if parameters else None
    own = kind in {None, inspect.Parameter.empty, RouteRequest}
    allowed = {method.upper() for method in methods}
    allowed |= {"HEAD"} if "GET" in allowed else set()

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in allowed:
            allow = (b"allow", ", ".join(sorted(allowed)).encode())
            await _send(send, 405, b"method not allowed\n", ((b"content-type", _TEXT), allow))
            return
        request = await _read(scope, receive) if own else kind(scope, receive)
        given = (request,) if parameters else ()
        if iscoroutinefunction(function):
            found = await cast("Awaitable[object]", function(*given))
        else:
            found = await asyncio.get_running_loop().run_in_executor(executor, function, *given)
        if callable(found):  # the response of a framework
            await cast("AsgiCallable", found)(scope, receive, send)
        else:
            await _send(send, *_response(found, name))

    return serve


async def _read(scope: Scope, receive: Receive) -> RouteRequest:
    body = bytearray()
    message = await receive()
    body += message.get("body", b"")
    while message.get("more_body", False):
        message = await receive()
        body += message.get("body", b"")
    info: RouteInfo = scope[KEY]
    return RouteRequest(
        scope["method"],
        scope["path"],
        dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)),
        {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
        bytes(body),
        info.ready,
        info.principal,
        info.access,
    )


def _response(found: Any, name: str) -> tuple[int, bytes, Pairs]:  # noqa: ANN401 - of a user's function
    """Return the status, body and headers of what a function returned. Raises `TypeError` for what is no response."""
    status: int = 200
    headers: Mapping[str, str] = {}
    if isinstance(found, tuple):
        parts = cast("tuple[Any, ...]", cast("object", found))
        if not 2 <= len(parts) <= 3 or not isinstance(parts[0], int):
            raise TypeError(f"{name}() returned a tuple that is not a status, a body and optionally headers")
        status, found = parts[:2]
        headers = parts[2] if len(parts) == 3 else headers
    elif found is None:
        status = 204
    if found is None:
        kind, body = _TEXT, b""
    elif isinstance(found, str):
        kind, body = _TEXT, found.encode()
    elif isinstance(found, bytes):
        kind, body = _BYTES, found
    elif isinstance(found, dict | list):
        kind, body = _JSON, json.dumps(found, allow_nan=False).encode()
    else:
        raise TypeError(
            f"{name}() returned {type(found).__name__}; return text, bytes, a dict, a list or None"
        )
    pairs = {b"content-type": kind}
    pairs |= {key.lower().encode("latin-1"): value.encode("latin-1") for key, value in headers.items()}
    return status, body, tuple(pairs.items())


async def _send(send: Send, status: int, body: bytes, headers: Pairs) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
