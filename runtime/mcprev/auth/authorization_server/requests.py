"""What clients ask an authorization server for: registrations and authorization requests, checked without I/O.

AUTH-8, AUTH-9, AUTH-12, AUTH-19, AUTH-20; RFC 6749, 7591, 7636, 8252, 8707, 9700. Redirect URIs are compared as strings; only
the port of a loopback address may vary. A request with an error leads to a page that says so, never back to the
client: otherwise whoever registers a client could send users anywhere by a link to this server (RFC 9700, 4.11.2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from urllib.parse import urlencode, urlsplit

from mcprev.auth.urls import canonical_resource, split_resource
from mcprev.errors import Json
from mcprev.wire.json_values import is_json_list, is_json_object

ClientAuthentication: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post"]
METHODS: Final[tuple[ClientAuthentication, ...]] = ("none", "client_secret_basic", "client_secret_post")
GRANT_TYPES: Final = ("authorization_code", "refresh_token")
OFFLINE: Final = "offline_access"
MAX_TEXT: Final = 2048
"""The maximum length of a parameter or URL, in characters."""
MAX_NAME: Final = 100
MAX_REDIRECTS: Final = 10
MAX_REDIRECT_TEXT: Final = 4096
"""The maximum length of all redirect URIs of a client together, in characters."""
MAX_SCOPES: Final = 100
_LOOPBACK: Final = re.compile(r"\A(http://(?:127\.0\.0\.1|\[::1\]|localhost))(?::[0-9]{1,5})?(?=[/?]|$)")
_PRIVATE: Final = re.compile(r"([a-z][a-z0-9+.-]*):[\x21\x23-\x5b\x5d-\x7e]+")
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


class OAuthError(Exception):
    """The response to a client's request that fails: an error code of OAuth and a description without secrets."""

    def __init__(self, error: str, description: str, status: int = 400, retry: int | None = None) -> None:
        """`retry` is after how many seconds the client may try again, if it may."""
        super().__init__(description)
        self.retry: int | None = retry
        self.error: str = error
        self.description: str = description
        self.status: int = status


class PageError(Exception):
    """A message for the user, as a page that leads nowhere."""

    def __init__(self, message: str, status: int = 400, retry: int | None = None) -> None:
        """`retry` is after how many seconds the user may try again, if known."""
        super().__init__(message)
        self.retry: int | None = retry
        self.message: str = message
        self.status: int = status


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """A client as it is registered, or as its metadata document describes it."""

    client_id: str
    name: str
    redirect_uris: tuple[str, ...]
    method: ClientAuthentication = "none"
    secret_digest: str | None = field(default=None, repr=False)
    """The digest of the client's secret; None for a public client."""
    is_document: bool = False
    """Whether the client id is the URL of a metadata document: then everybody knows it."""

    @classmethod
    def read(cls, found: Json) -> ClientRecord:
        """Return a client that was stored as JSON."""
        said: dict[str, Json] = {**found, "redirect_uris": tuple(found["redirect_uris"])}
        return cls(**said)


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A valid authorization request."""

    client_id: str
    redirect_uri: str
    state: str | None
    challenge: str
    resource: str
    scopes: tuple[str, ...]

    @classmethod
    def read(cls, found: Json) -> AuthorizationRequest:
        """Return a request that was stored as JSON."""
        said: dict[str, Json] = {**found, "scopes": tuple(found["scopes"])}
        return cls(**said)

    def answer(self, issuer: str, **said: str) -> str:
        """Return the URL that leads back to the client."""  # AUTH-15
        query = urlencode({**said, **({} if self.state is None else {"state": self.state}), "iss": issuer})
        return f"{self.redirect_uri}{'&' if '?' in self.redirect_uri else '?'}{query}"


@dataclass(frozen=True, slots=True)
class Grantable:
    """What an authorization server issues tokens for."""

    resources: tuple[str, ...] | None
    """The resources in canonical form; None: every resource."""
    default: str | None
    """The resource of a request that names none, as clients of 2025-03-26 do."""
    scopes: tuple[str, ...]
    """The scopes that it grants."""
    default_scopes: tuple[str, ...]
    """The scopes of a request that names none."""


# -- clients -----------------------------------------------------------------------------------------------


def read_client(document: Json, schemes: frozenset[str], client_id: str) -> ClientRecord:
    """Return the client that a registration or metadata document describes. Raises `OAuthError`."""
    if not is_json_object(document):
        raise OAuthError("invalid_client_metadata", "the metadata of a client must be a JSON object")
    uris = list_member(document, "redirect_uris")
    if not 0 < len(uris) <= MAX_REDIRECTS:
        raise OAuthError(
            "invalid_redirect_uri", f"`redirect_uris` must be a list of 1 to {MAX_REDIRECTS} URIs"
        )
    redirects = tuple(check_redirect(uri, schemes) for uri in uris)
    if sum(map(len, redirects)) > MAX_REDIRECT_TEXT:
        raise OAuthError(
            "invalid_redirect_uri",
            f"`redirect_uris` may have at most {MAX_REDIRECT_TEXT} characters together",
        )
    method: Json = document.get("token_endpoint_auth_method", "client_secret_basic")
    if method not in METHODS:
        raise OAuthError(
            "invalid_client_metadata", f"`token_endpoint_auth_method` must be one of {', '.join(METHODS)}"
        )
    for member, known in (("grant_types", GRANT_TYPES), ("response_types", ("code",))):
        if known[0] not in list_member({member: [known[0]], **document}, member):
            raise OAuthError("invalid_client_metadata", f"`{member}` must contain {known[0]}")
    name: Json = document.get("client_name", "")
    if not isinstance(name, str):
        raise OAuthError("invalid_client_metadata", "`client_name` must be a string")
    shown = "".join(c if c.isprintable() else " " for c in name[:MAX_NAME]).strip()
    return ClientRecord(client_id, shown, redirects, method)


def list_member(document: Mapping[str, Json], member: str) -> list[object]:
    """Return a member that is a list, or an empty list."""
    found: object = document.get(member)
    return found if is_json_list(found) else []


def check_redirect(uri: Json, schemes: frozenset[str]) -> str:
    """Return a redirect URI that may be registered: https, http of this machine, or of a listed scheme of an app."""
    if isinstance(uri, str) and len(uri) <= MAX_TEXT:
        parts = split_resource(uri)
        if parts is not None and (parts.scheme == "https" or _LOOPBACK.match(uri)):
            return uri
        private = _PRIVATE.fullmatch(uri)
        if private and private[1] in schemes and "#" not in uri:
            return uri
    raise OAuthError(
        "invalid_redirect_uri",
        "a redirect URI must be an https URL, or an http URL of the local machine, without a fragment",
    )


def without_port(uri: str) -> str:
    """Return a redirect URI without the port of a loopback address, which is free to vary (RFC 8252, 7.3)."""
    return _LOOPBACK.sub(r"\1", uri, count=1)


def is_registered(uri: str, client: ClientRecord) -> bool:
    """Return whether a client may be redirected to a URI."""
    if uri in client.redirect_uris:
        return True
    plain = without_port(uri)
    return bool(_LOOPBACK.match(uri)) and plain in map(without_port, client.redirect_uris)


def is_document_url(client_id: str) -> bool:
    """Return whether a client id is the URL of a metadata document: https, with a path and without dots in it."""  # AUTH-12
    parts = split_resource(client_id)
    if parts is None or parts.scheme != "https" or parts.path in {"", "/"} or len(client_id) > MAX_TEXT:
        return False
    return not {".", ".."} & set(parts.path.split("/"))


def document_client(found: Json, url: str, schemes: frozenset[str]) -> ClientRecord:
    """Return the client that the document at a URL describes. Raises `OAuthError`."""
    document = found if is_json_object(found) else {}
    if document.get("client_id") != url:
        raise OAuthError("invalid_client_metadata", "the document does not name its URL as `client_id`")
    client = read_client({"token_endpoint_auth_method": "none", **document}, schemes, url)
    if client.method != "none":
        raise OAuthError("invalid_client_metadata", "a client with a metadata document has no secret here")
    return ClientRecord(url, client.name, client.redirect_uris, is_document=True)


# -- authorization requests ----------------------------------------------------------------------------------


def read_authorization(said: Mapping[str, str], client: ClientRecord, may: Grantable) -> AuthorizationRequest:
    """Return the authorization request of a client. Raises `PageError` for an invalid one."""
    if any(len(value) > MAX_TEXT for value in said.values()):
        raise PageError("The app sent a request that is too long.")
    uri = said.get("redirect_uri", "")
    if not is_registered(uri, client):
        raise PageError("The app requests a redirect to an address that it has not registered.")
    if said.get("response_type") != "code":
        raise PageError("The app does not request an authorization code (response_type=code).")
    challenge = said.get("code_challenge", "")
    if said.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(challenge):
        raise PageError("The app sent no proof key (PKCE with code_challenge_method=S256).")  # AUTH-8
    resource = granted_resource(said.get("resource"), may)
    if resource is None:
        raise PageError("The app requests access to a server for which this one issues no tokens (resource).")
    return AuthorizationRequest(
        client.client_id, uri, said.get("state"), challenge, resource, granted_scopes(said.get("scope"), may)
    )


def granted_resource(said: str | None, may: Grantable) -> str | None:
    """Return the resource that tokens are issued for, in canonical form, or None if they are not."""  # AUTH-9
    if said is None:
        return may.default
    resource = canonical_resource(said)
    return resource if resource is not None and (may.resources is None or resource in may.resources) else None


def granted_scopes(said: str | None, may: Grantable) -> tuple[str, ...]:
    """Return those of the requested scopes that are granted; unknown ones are left out, as the response says."""
    if said is None:
        return may.default_scopes
    wanted = dict.fromkeys(scope for scope in said.split(" ")[:MAX_SCOPES] if _SCOPE.fullmatch(scope))
    return tuple(scope for scope in wanted if scope in may.scopes)


def host_of(uri: str) -> str:
    """Return the host of a redirect URI for the consent page, or its scheme if it is of an app."""
    parts = urlsplit(uri)
    return parts.netloc or f"{parts.scheme}:"
