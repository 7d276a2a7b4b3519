"""HTTP at an authorization server: ASGI endpoints that read one request within bounds and send one response."""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, unquote_plus

from mcprev.auth.authorization_server.pages import STANDARD, LoginPages
from mcprev.auth.authorization_server.requests import OAuthError, PageError
from mcprev.errors import Json, StoreError
from mcprev.protocol.http_request_class import HttpError
from mcprev.transports.http.server.body_budget import BodyBudget, ClientGone
from mcprev.transports.http.server.request import (
    JSON_TYPE,
    NOT_CODED,
    App,
    AsgiRequest,
    Fields,
    Receive,
    Scope,
    Send,
    is_coded,
)
from mcprev.transports.http.server.routes import Route
from mcprev.wire.headers import Headers

MAX_FORM: Final = 32 * 1024
"""The maximum size of a request body, in bytes."""
BODY_TIMEOUT: Final = 15.0
_MAX_FIELDS: Final = 50
_NO_STORE: Final = (b"cache-control", b"no-store")
_ANY_ORIGIN: Final = (b"access-control-allow-origin", b"*")
_log: Final = logging.getLogger("mcprev.auth")


@dataclass(frozen=True, slots=True)
class WebRequest:
    """A request as the endpoints read it."""

    verb: str
    client: str
    """The key for quotas: the client's address."""
    query: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    cookies: Mapping[str, str] = field(repr=False)
    credentials: tuple[str, str] | None = field(repr=False)
    """The id and secret of HTTP Basic authentication."""

    @property
    def form(self) -> dict[str, str]:
        """The members of a form. Raises `OAuthError` for a body that is none, or that repeats a member."""
        return _pairs(self.body)

    @property
    def json(self) -> Json:
        """The JSON of the body. Raises `OAuthError`."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise OAuthError("invalid_client_metadata", "the body is not JSON") from None


@dataclass(frozen=True, slots=True)
class WebResponse:
    """A response of an endpoint."""

    status: int
    fields: Fields
    body: bytes = b""


Endpoint: TypeAlias = Callable[[WebRequest], Awaitable[WebResponse]]


def endpoint(serve: Endpoint, *verbs: str, shared: bool = False, pages: LoginPages = STANDARD) -> App:
    """Return an ASGI app for an endpoint. `shared`: pages of other origins may read its responses."""
    budget = BodyBudget(64 * MAX_FORM)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        http_request = AsgiRequest(scope, receive, send, Headers.of(scope["headers"]))
        try:
            response = await _answered(serve, http_request, verbs, budget, pages, shared=shared)
            fields = (*response.fields, _ANY_ORIGIN) if shared else response.fields
            await http_request.answer(response.status, fields, response.body)
        except (ClientGone, OSError) as error:
            _log.debug("a client disconnected: %s", error)

    return app


def shared_route(serve: Endpoint, *verbs: str) -> Route:
    """Return the route of an endpoint that pages of every origin may use, because it reads no cookie."""
    return Route(endpoint(serve, *verbs, shared=True), any_host=True)


async def _answered(
    serve: Endpoint,
    http_request: AsgiRequest,
    verbs: tuple[str, ...],
    budget: BodyBudget,
    pages: LoginPages,
    *,
    shared: bool,
) -> WebResponse:
    if shared and http_request.verb == "OPTIONS":
        allowed = b"GET, POST", b"authorization, content-type, mcp-protocol-version"
        names = b"access-control-allow-methods", b"access-control-allow-headers"
        return WebResponse(204, tuple(zip(names, allowed, strict=True)))
    if http_request.verb not in verbs:
        return WebResponse(405, ((b"allow", ", ".join(verbs).encode()),))
    if is_coded(http_request.headers):
        return WebResponse(NOT_CODED.status, (JSON_TYPE, *NOT_CODED.headers), NOT_CODED.body)
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            body = await http_request.read(MAX_FORM, budget)
    except TimeoutError:
        return WebResponse(408, ())
    if isinstance(body, HttpError):
        return WebResponse(body.status, (JSON_TYPE,), body.body)
    try:
        return await serve(_read_request(http_request, body))
    except OAuthError as error:
        return error_response(error)
    except PageError as error:
        fields = (*pages.fields(), *_retry(error.retry))
        return WebResponse(error.status, fields, pages.message(error.message))
    except StoreError as error:
        _log.error("a request for a login failed: %s", error)
        return error_response(OAuthError("temporarily_unavailable", "try again later", 503, 10))


def _read_request(http_request: AsgiRequest, body: bytes) -> WebRequest:
    headers = http_request.headers
    return WebRequest(
        http_request.verb,
        http_request.client or "",
        _pairs(http_request.scope.get("query_string", b"")),
        body,
        _cookies(headers.text(b"cookie") or ""),
        _basic(headers.text(b"authorization") or ""),
    )


def _pairs(data: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            data.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except ValueError:
        raise OAuthError(
            "invalid_request",
            "the request must be a form (application/x-www-form-urlencoded) with at most 50 members",
        ) from None
    found = dict(pairs)
    # `resource` may be repeated (RFC 8707), but a token of this server is for one.
    if len(found) != len(pairs):
        raise OAuthError("invalid_request", "the request repeats a member")
    return found


def _cookies(header: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        found.setdefault(name, value)
    return found


def _basic(header: str) -> tuple[str, str] | None:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = b64decode(encoded.strip(), validate=True).decode().partition(":")
    except ValueError:
        return None
    return (unquote_plus(user), unquote_plus(password)) if colon else None


def json_response(found: Json, status: int = 200, *, store: bool = False) -> WebResponse:
    """Return a response with JSON, which caches keep only if `store`."""
    fields = (JSON_TYPE, (b"cache-control", b"public, max-age=3600") if store else _NO_STORE)
    return WebResponse(status, fields, json.dumps(found).encode())


def error_response(error: OAuthError) -> WebResponse:
    """Return the response with an error of OAuth (RFC 6749, 5.2)."""
    found = json_response({"error": error.error, "error_description": error.description}, error.status)
    if error.status != 401:
        return WebResponse(found.status, (*found.fields, *_retry(error.retry)), found.body)
    return WebResponse(401, (*found.fields, (b"www-authenticate", b"Basic")), found.body)


def _retry(seconds: int | None) -> Fields:
    return () if seconds is None else ((b"retry-after", b"%d" % seconds),)


def redirect(url: str, *fields: tuple[bytes, bytes]) -> WebResponse:
    """Return a response that sends the browser to a URL, with a GET."""
    hidden = (b"referrer-policy", b"no-referrer")
    return WebResponse(303, ((b"location", url.encode("ascii")), _NO_STORE, hidden, *fields))
