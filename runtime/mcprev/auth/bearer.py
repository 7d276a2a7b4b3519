"""Bearer tokens at a server: verifies them, challenges clients, serves metadata (AUTH-1, 4, 5, 10, 16, 18, 21; SEC-4).

The server is an OAuth protected resource. It issues no tokens and runs no login; its metadata names the authorization
servers that do (RFC 9728). Every request carries a token (RFC 6750), with or without a session, and a session belongs
to the subject of the token that opened it.

A token is for this server only. Handlers do not receive it, and must not pass it on to another service (AUTH-10,
SEC-7): a handler that calls one needs a separate token.

The specification leaves these points open; they are decided here:

- If `verify` raises, times out or returns a wrong type, the response is 503: after a 401 the client would discard a
  valid token.
- Verified tokens are not cached, so a revoked token is refused as soon as `verify` reports it.
- A challenge for more scopes also names the scopes of the current token. Otherwise clients of the 2025 revisions, which
  request exactly the challenged scopes, would lose the others.
- A request that was accepted is answered, however long it takes. A stream for future messages (of a GET, of
  `subscriptions/listen`, of HTTP+SSE) ends when its token expires. An HTTP+SSE stream is also its session: it lasts
  as long as the last token shown in it.
"""

from __future__ import annotations

import json
import logging
import re
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Final, TypeAlias, cast
from urllib.parse import parse_qsl, quote, unquote

from mcprev.auth.urls import WELL_KNOWN, canonical_resource, check_issuer, in_lower_case, split_resource
from mcprev.callbacks import call_within, decision
from mcprev.core.store import Records
from mcprev.errors import InternalError, InvalidRequest, Json, RpcError
from mcprev.protocol.http_request_class import RETRY_SOON, HttpError
from mcprev.protocol.uris import OF_RESOURCES, has_long_uris, other_spellings, too_long
from mcprev.transports.http.server.access import Access, AccessRefused, InvalidToken, as_texts
from mcprev.transports.http.server.request import JSON_TYPE, App, Fields, Receive, Scope, Send
from mcprev.transports.http.server.routes import Route
from mcprev.transports.http.urls import mask_url, printable
from mcprev.wire.headers import Headers
from mcprev.wire.jsonrpc import Batch, Message, Notification, Request

TIMEOUT: Final = 10.0
"""The default timeout of `verify`, in seconds."""
MAX_AGE: Final = 3600
"""The cache lifetime of the metadata, in seconds."""
OFFLINE: Final = "offline_access"
"""A scope for authorization servers only; no resource requires it."""  # AUTH-18

_NOT_GOOD: Final = "the token is not valid"
_KEY: Final = b"authorization"
_CREDENTIALS: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]++)(?: ++(.*))?")
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_OWN: Final = frozenset({"resource", "authorization_servers", "bearer_methods_supported"})
_FIELDS: Final[Fields] = (
    JSON_TYPE,
    (b"cache-control", b"public, max-age=%d" % MAX_AGE),
    (b"access-control-allow-origin", b"*"),
)
FORBIDDEN: Final = 403
"""The status for a token with too few scopes: its client may ask for more."""
_logger: Final = logging.getLogger("mcprev.auth")


Verify: TypeAlias = Callable[[str], Awaitable[Access | None]]
Needs: TypeAlias = Callable[
    [str, dict[str, Json]], "str | Iterable[str] | Awaitable[str | Iterable[str] | None] | None"
]
Suffices: TypeAlias = Callable[[frozenset[str], frozenset[str]], bool | Awaitable[bool]]


def includes(held: frozenset[str], needed: frozenset[str]) -> bool:
    """Return whether all scopes that are needed are held: the default of `suffices`."""
    return needed <= held


class Bearer:
    """Requires bearer tokens: `server.asgi(auth=Bearer(verify, resource=..., authorization_servers=[...]))`.

    The server is an OAuth protected resource: it issues no tokens, and its metadata names the authorization servers
    that do. A request without a valid token gets 401, one without the required scopes 403. Handlers read
    `ctx.principal` and `ctx.access`. One object may serve any number of apps. See
    https://modelcontextprotocol.io/specification/latest/basic/authorization.
    """

    def __init__(
        self,
        verify: Verify,
        *,
        resource: str | None = None,
        authorization_servers: Sequence[str] | None = None,
        scopes: Sequence[str] = (),
        needs: Needs | None = None,
        suffices: Suffices = includes,
        about: Mapping[str, Json] | None = None,
        timeout: float = TIMEOUT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Set the verifier of tokens, the resource that they must be for, and the scopes that requests require.

        - `verify` is an async function, such as a `mcprev.JwtVerifier`. It gets a token, checks its signature or asks
          its issuer, and returns an `Access`; for an invalid token it raises `InvalidToken(reason)` or returns None. If
          it raises anything else, or takes more than `timeout` seconds (10 by default), the response is 503. The server itself then checks audience, expiry and scopes.
        - `resource` is the URL of the endpoint as clients know it, or its origin if it has several endpoints. It must
          be in the audience of a token. Needed with an authorization server.
        - `authorization_servers` are the issuer URLs of the authorization servers whose tokens are accepted. Clients
          read them in the metadata. Default: the `issuers` of `verify`, such as those of a `mcprev.JwtVerifier`; if it
          has none, as `mcprev.StaticTokens`, there is no metadata.
        - `scopes` are required for every request. None are by default.
        - `needs(method, params)` returns additional scopes for a request, or None. The params are JSON as the client
          sent it, not validated.
        - `suffices(granted, required)` returns whether the scopes of a token include the required ones; pass it if some
          scopes imply others. Default: whether all required scopes are among the granted ones.
        - `about` adds members to the metadata by their RFC 9728 names, such as `resource_name`.
        - `clock` returns the time in seconds since 1970, which is compared with the expiry of tokens.

        `needs` and `suffices` may be async. If one of them raises, takes too long or returns another type, the response
        is 503. Raises `ValueError` for an invalid URL or scope.
        """
        named: Sequence[str] | None = getattr(verify, "issuers", None)
        issuers = named if authorization_servers is None else authorization_servers
        if issuers is None or isinstance(issuers, str) or not (issuers or authorization_servers is None):
            raise ValueError("`authorization_servers` must be a list with at least one issuer URL")
        for issuer in issuers:
            check_issuer(issuer)
        parts = split_resource(resource)
        if (parts is None or "?" in str(resource)) and (issuers or resource is not None):
            raise ValueError(
                f"{mask_url(repr(resource))} is not a resource: pass an https or http URL with a host and no query"
            )
        self.resource: str = "" if parts is None else in_lower_case(parts)
        """The URL of the resource; empty without one."""
        self.reached_at: Callable[[str | None], object] = getattr(verify, "seen_at", lambda _: None)
        """Tells the verifier a name of this server: where it listens, and the `Host` of each request."""
        self._verify, self._needs, self._suffices = verify, needs, suffices
        self._scopes = _check_scopes(scopes)
        self._always = frozenset(self._scopes)
        self._timeout = timeout
        self.clock: Callable[[], float] = clock
        self._canonical = canonical_resource(self.resource)
        path = "" if parts is None or not issuers else WELL_KNOWN + parts.path.removesuffix("/")
        self.metadata_path: str = unquote(path)
        """The path of `metadata_url`; empty if there is no metadata, because no authorization server is named."""
        self.metadata_url: str = in_lower_case(parts._replace(path=path)) if parts and path else ""
        """The URL of the metadata, which challenges name unless the app is mounted in another."""
        self._document = json.dumps(self._describe(issuers, about or {}) if path else {}).encode()
        self.metadata_app: MetadataApp = MetadataApp(self._document)
        """The metadata as an ASGI app, for a route of an outer app at `metadata_path`."""
        self.routes: Mapping[str, App | Route] = (
            dict.fromkeys((WELL_KNOWN, self.metadata_path), self.metadata_app) if path else {}
        )
        """Routes that an app serves beside its endpoint: those of the metadata."""

    # -- metadata ------------------------------------------------------------------------------------------

    def check_place(self, path: str, root: str) -> None:
        """Check that clients find it where it is served; tokens of others may be for any URL."""

    def serve_for(self, info: Mapping[str, Json], store: Records | None) -> None:
        """Note nothing: each request carries its token."""

    def unshared(self, store: Records | None) -> str | None:
        """Return None: each process verifies tokens by itself."""
        del store
        return None

    def at(self, root: str) -> Bearer:
        """Return a copy for an app that is mounted at `root`: its challenges name the metadata URL below that path."""
        if root in {"", "/"}:
            return self
        found = copy(self)
        found.metadata_url = self.metadata_url.replace(WELL_KNOWN, quote(root.rstrip("/")) + WELL_KNOWN, 1)
        return found

    def _describe(self, issuers: Sequence[str], about: Mapping[str, Json]) -> dict[str, Json]:
        if _OWN & about.keys():
            raise ValueError(f"`about` must not contain {', '.join(sorted(_OWN & about.keys()))}")
        _check_scopes(about.get("scopes_supported", ()))
        scopes: dict[str, Json] = {"scopes_supported": list(self._scopes)} if self._scopes else {}
        return {
            "resource": self.resource,
            "authorization_servers": list(issuers),
            "bearer_methods_supported": ["header"],
            **scopes,
            **about,
        }

    def metadata(self) -> dict[str, Json]:
        """Return the metadata of the resource (RFC 9728), for an outer app to serve at `metadata_path`.

        A mounted app serves it below its mount path, and its challenges name that URL. For clients that do not read
        challenges, the outer app must serve it at `metadata_path`.
        """
        found: dict[str, Json] = json.loads(self._document)
        return found

    # -- verification --------------------------------------------------------------------------------------

    async def admit(self, headers: Headers, query: bytes) -> Access | HttpError:
        """Return the content of a request's access token, or the error response if it has no valid one."""
        token = self._token(headers, query)
        if isinstance(token, HttpError):
            return token
        self.reached_at(headers.text(b"host"))
        access = await self._verified(token)
        if isinstance(access, HttpError):
            return access
        if access.expires is not None and access.expires <= self.clock():
            seconds = self.clock() - access.expires
            return self._invalid("the token has expired", f"it expired {seconds:.0f} s ago")
        if not access.audience_checked and not self._is_for_us(access.audience):
            audience = ", ".join(access.audience) or "missing"
            ours = (
                f"not {self.resource}"
                if self.resource
                else "and the server has no `resource` to compare it with"
            )
            return self._invalid("the token is not for this server", f"its audience is {audience}, {ours}")
        found = copy(access)  # the verifier may return the same object again

        async def refusal(method: str, params: Mapping[str, Json]) -> RpcError | None:
            reject = await self.covers(found, Request(0, method, {**params}))
            if reject is None:
                return None
            return AccessRefused(reject) if reject.status == FORBIDDEN else reject.error

        object.__setattr__(found, "refusal", refusal)
        return await self._short_of(access, self._always) or found

    def _is_for_us(self, audience: Sequence[str]) -> bool:
        """Return whether an audience names the resource; without a resource, none does."""
        found = self.resource in audience or self._canonical in map(canonical_resource, audience)
        return self.resource != "" and found

    async def covers(self, access: Access, message: Message | Batch) -> HttpError | None:
        """Return the error response if a message, or a message of a batch, needs more scopes than `access` has."""
        if self._needs is None:
            return None
        needed: set[str] = set()
        for member in message.messages if isinstance(message, Batch) else (message,):
            if isinstance(member, Request | Notification):
                if member.method in OF_RESOURCES and has_long_uris(member.method, member.params or {}):
                    return HttpError(400, too_long(), message.id if isinstance(message, Request) else None)
                try:
                    needed |= await self._needed(member.method, member.params or {})
                except Exception:
                    _logger.exception(
                        "the scopes that %.100r requires could not be determined, so the request is refused",
                        member.method,
                    )
                    return _unsure(message)
        needed.discard(OFFLINE)
        if not needed:
            return None
        return await self._short_of(access, self._always | needed, message)

    async def _needed(self, method: str, params: Mapping[str, Json]) -> set[str]:
        """Return the scopes that `needs` names for a request, in any spelling of its URIs."""
        needed, needs = set[str](), self._needs
        assert needs is not None
        others = other_spellings(method, params) if method in OF_RESOURCES else ()
        for spelled in (params, *others):
            found = await call_within(self._timeout, needs, method, spelled)
            if found is not None:
                needed |= set(as_texts(found.split() if isinstance(found, str) else found))
        return needed

    def _token(self, headers: Headers, query: bytes) -> str | HttpError:
        """Return the token of a request; only the `Authorization` header may contain one."""
        said = parse_qsl(query.decode("latin-1"), keep_blank_values=True) if query else ()
        if any(name == "access_token" for name, _ in said):
            return self._malformed("send the token in the Authorization header, not in the query")
        value = headers.text(_KEY)
        if value is None:
            return self._refusal(401, "a token is required", scopes=self._scopes)
        found = _CREDENTIALS.fullmatch(value)
        if found is None or _KEY in headers.repeated:
            return self._malformed("the Authorization header is malformed")
        if found[1].lower() != "bearer":
            return self._refusal(401, "a bearer token is required", scopes=self._scopes)
        token: str = found[2] or ""
        if _TOKEN.fullmatch(token):
            return token
        return self._malformed(f"the bearer token is {'malformed' if token else 'empty'}")

    async def _verified(self, token: str) -> Access | HttpError:
        try:
            found = cast("object", await call_within(self._timeout, self._verify, token))
            if found is None:
                return self._invalid(_NOT_GOOD, "`verify` returned None")
            if isinstance(found, Access):
                return found
            _logger.error(
                "`verify` returned a %s, which is neither an `Access` nor None", type(found).__name__
            )
        except InvalidToken as error:
            return self._invalid(_NOT_GOOD, _without(token, str(error)))
        except TimeoutError:
            _logger.warning("`verify` took over %g s: raise `timeout`, or make it faster", self._timeout)
        except Exception:  # noqa: BLE001 - whatever an author's callback raises lets nobody in
            told = _without(token, traceback.format_exc())
            _logger.error("`verify` failed\n%s", told)  # noqa: TRY400 - the traceback without the token
        return _unsure(None)

    # -- error responses -----------------------------------------------------------------------------------

    async def _short_of(
        self, access: Access, needed: frozenset[str], message: Message | Batch | None = None
    ) -> HttpError | None:
        """Return the error response for a token with too few scopes."""
        try:
            found = not needed or await call_within(self._timeout, self._suffices, access.scopes, needed)
            enough = decision(found, "`suffices`")
        except Exception:
            _logger.exception("`suffices` failed, so the request is refused")
            return _unsure(message)
        if enough:
            return None
        missing = ", ".join(sorted(needed - access.scopes)) or "more than it has"
        _logger.info("a token is refused: it lacks the scopes %s", printable(missing))
        more = sorted(needed - self._always) + sorted(access.scopes - needed - {OFFLINE})
        return self._refusal(
            FORBIDDEN, "the token has too few scopes", "insufficient_scope", (*self._scopes, *more), message
        )

    def _malformed(self, why: str) -> HttpError:
        return self._refusal(400, why, "invalid_request")

    def _invalid(self, why: str, reason: str) -> HttpError:
        """Return the error response for an invalid token; the reason is for the log of the server only."""
        _logger.info("a token is refused: %s", printable(reason))
        return self._refusal(401, why, "invalid_token", self._scopes)

    def _refusal(
        self,
        status: int,
        why: str,
        error: str | None = None,
        scopes: Iterable[str] = (),
        message: Message | Batch | None = None,
    ) -> HttpError:
        """Return an error response with its challenge (RFC 6750, section 3); without a token it names no error."""
        named = " ".join(scope for scope in scopes if _SCOPE.fullmatch(scope))
        said = {"error": error, "error_description": why} if error else {}
        said |= {"scope": named} if named else {}
        said |= {"resource_metadata": self.metadata_url} if self.metadata_url else {}
        challenge = ", ".join(f'{name}="{value}"' for name, value in said.items())
        challenge = f"Bearer {challenge}".rstrip()
        return HttpError(
            status,
            InvalidRequest(f"{_WORDS[status]}: {why}"),
            message.id if isinstance(message, Request) else None,
            headers=((b"www-authenticate", challenge.encode()),),
        )


class MetadataApp:
    """An ASGI app that responds to every GET with the metadata of a resource."""

    def __init__(self, document: bytes) -> None:
        self._document = document

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        del receive
        if scope["type"] != "http":
            return
        status, fields, body = 200, _FIELDS, self._document
        if scope["method"] != "GET":
            reject = HttpError(405, InvalidRequest("Invalid Request: request the metadata with GET"))
            status, fields, body = reject.status, (JSON_TYPE, (b"allow", b"GET")), reject.body
        length = (b"content-length", b"%d" % len(body))
        await send({"type": "http.response.start", "status": status, "headers": [*fields, length]})
        await send({"type": "http.response.body", "body": body})


_WORDS: Final[Mapping[int, str]] = {400: "Invalid Request", 401: "Unauthorized", 403: "Forbidden"}


def _without(token: str, text: str) -> str:
    """Return a text for the log without the token. One of few characters, such as `no`, is hidden as a word only."""
    word = re.escape(token) if len(token) >= 8 else rf"(?<!\w){re.escape(token)}(?!\w)"
    return re.sub(word, "(the token)", text)


def _unsure(message: Message | Batch | None) -> HttpError:
    error = InternalError("authorization of the request could not be decided; try again later")
    return HttpError(503, error, message.id if isinstance(message, Request) else None, headers=RETRY_SOON)


def _check_scopes(scopes: object) -> tuple[str, ...]:
    found = as_texts(cast("Iterable[str]", scopes)) if not isinstance(scopes, str) else (scopes,)
    for scope in found:
        if not _SCOPE.fullmatch(scope) or scope == OFFLINE:
            raise ValueError(
                f"{scope!r} is not a valid scope; use printable ASCII characters without spaces, quotes and backslashes"
            )
    return tuple(dict.fromkeys(found))
