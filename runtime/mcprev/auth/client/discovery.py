"""Challenges and metadata: parse `WWW-Authenticate`, list the metadata URLs, check the documents, choose scopes.

Pure functions for AUTH-3, 5, 6, 7, 8, 9, 17, 18 and SEC-2. `flow` sends the requests.

The specification leaves these points open; they are decided here:

- A metadata document that is not JSON counts as absent. Some servers answer every path with an HTML page.
- The `resource` in the metadata must equal the server's URL, in canonical form, with or without its query. A resource
  above that URL is accepted only if the user passes it as `resource=`: a token for it is valid at every server below
  it, and those may belong to different tenants.
- Issuers are compared byte by byte, but for the slash of an empty path: Google writes `https://accounts.google.com/` in
  one document and `https://accounts.google.com` in the other. Responses to a login are compared byte by byte (RFC 9207).
- A document that does not fit does not end the search: the next one may.
- An authorization server without metadata gets the default endpoints; existing metadata must list S256.
- Scopes that the user passes are requested together with those of the challenge, and with those of the last token:
  a challenge may name only the scope of one operation (RFC 6750, section 3.1).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast
from urllib.parse import urlsplit

from mcprev.auth.urls import WELL_KNOWN, canonical_resource, is_same_issuer, is_secure
from mcprev.errors import AuthError, DiscoveryFailed, IssuerMismatch, Json
from mcprev.revisions import AuthProfile, Revision
from mcprev.transports.http.security import is_loopback
from mcprev.transports.http.urls import printable

OAUTH: Final = "/.well-known/oauth-authorization-server"
OPENID: Final = "/.well-known/openid-configuration"
OFFLINE: Final = "offline_access"
S256: Final = "S256"
NONE: Final = "none"
BASIC: Final = "client_secret_basic"
POST: Final = "client_secret_post"
MAX_SERVERS: Final = 5
"""The maximum number of authorization servers that are tried."""
MAX_CHALLENGES: Final = 8192
"""The maximum number of characters of `WWW-Authenticate` that are read in one response."""


# -- challenges --------------------------------------------------------------------------------------------

# Possessive quantifiers: the patterns never backtrack, so parsing takes linear time.
_QUOTED: Final = r'"((?:[^"\\]++|\\.)*+)("?)'
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]++")
_WORD: Final = re.compile(rf'[\s,]*+(?:([^\s,="]++)(\s*+=)?|{_QUOTED}|=)?', re.DOTALL)
"""Separators, then a token with the `=` of a parameter if there is one, or a quoted string, or a single `=`."""
_VALUE: Final = re.compile(rf'\s*+(?:{_QUOTED}|([^\s,"]++))?', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Challenge:
    """One challenge of a `WWW-Authenticate` header: its scheme and parameters."""

    scheme: str = "bearer"
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    """Keys are in lower case."""

    @property
    def error(self) -> str:
        """The error code; empty if the request had no token."""
        return printable(self.parameters.get("error", ""))

    @property
    def reason(self) -> str:
        """The description of the error, or its code."""
        return printable(self.parameters.get("error_description", "")) or self.error

    @property
    def scopes(self) -> tuple[str, ...] | None:
        """The required scopes; None if the challenge names none."""
        return tuple(self.parameters.get("scope", "").split()) or None

    @property
    def resource_metadata(self) -> str | None:
        """The URL of the protected resource metadata."""
        return self.parameters.get("resource_metadata")


def parse_challenges(values: Iterable[str]) -> tuple[Challenge, ...]:
    """Parse the `WWW-Authenticate` headers of a response. Skips malformed challenges and those beyond the limit.

    Takes time linear in the number of characters, of which at most `MAX_CHALLENGES` are read.
    """
    found: list[tuple[str, dict[str, str]]] = []
    left = MAX_CHALLENGES
    for value in values:
        _read_challenges(value[:left], found)
        left -= len(value)
        if left <= 0:
            break
    return tuple(Challenge(scheme, parameters) for scheme, parameters in found)


def _read_challenges(header: str, found: list[tuple[str, dict[str, str]]]) -> None:
    """Append the schemes and parameters of one header to `found`."""
    at = 0
    while at < len(header):
        word = _WORD.match(header, at)
        assert word is not None
        at, name = word.end(), word[1]
        if name is None:
            continue
        if word[2] is None:
            if _TOKEN.fullmatch(name):
                found.append((name.lower(), {}))
            continue
        value = _VALUE.match(header, at)
        assert value is not None
        at, (quoted, closed, plain) = value.end(), value.groups()
        said = _ESCAPED.sub(r"\1", quoted) if closed else plain
        if found and said is not None and _TOKEN.fullmatch(name):
            found[-1][1].setdefault(name.lower(), said)


def challenge_of(values: Iterable[str], schemes: Sequence[str] = ("bearer", "dpop")) -> Challenge | None:
    """Return the first challenge that a token can answer, or None."""
    return next((found for found in parse_challenges(values) if found.scheme in schemes), None)


# -- metadata URLs -----------------------------------------------------------------------------------------


def resource_urls(url: str, named: str | None) -> list[str]:
    """Return the URLs of the protected resource metadata, in the order of trying."""  # AUTH-5
    parts = urlsplit(url)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    found = [] if named is None else [named]
    return list(dict.fromkeys([*found, f"{origin}{WELL_KNOWN}{path}", f"{origin}{WELL_KNOWN}"]))


def server_urls(issuer: str, profile: AuthProfile) -> list[str]:
    """Return the URLs of an authorization server's metadata, in the order of trying."""  # AUTH-6
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    found = [f"{origin}{OAUTH}{path}"]
    if profile.openid:
        found += [f"{origin}{OPENID}{path}", f"{origin}{path}{OPENID}"]
    return list(dict.fromkeys(found))


def origin(url: str) -> str:
    """Return the origin of a URL, in lower case."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


# -- metadata documents ------------------------------------------------------------------------------------


def read_object(body: bytes) -> dict[str, Json] | None:
    """Parse a JSON object; return None for anything else."""
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Json]", found) if isinstance(found, dict) else None


def text(document: Mapping[str, Json], name: str) -> str | None:
    """Return a member that is a non-empty string, or None."""
    found: object = document.get(name)
    return found if isinstance(found, str) and found else None


def texts(document: Mapping[str, Json], name: str) -> tuple[str, ...] | None:
    """Return the non-empty strings of a member that is a list; None if it is not a list."""
    found: object = document.get(name)
    if not isinstance(found, list):
        return None
    return tuple(item for item in cast("list[object]", found) if isinstance(item, str) and item)


@dataclass(frozen=True, slots=True)
class ResourceMetadata:
    """Protected resource metadata (RFC 9728)."""

    resource: str
    """The resource to request tokens for, byte for byte."""
    servers: tuple[str, ...]
    scopes: tuple[str, ...] | None


def read_resource(
    document: Mapping[str, Json], url: str, above: str | None = None
) -> ResourceMetadata | None:
    """Read the metadata of the server at a URL; return None if it names no authorization server.

    `above` is a resource above the URL that the user accepts. Raises `DiscoveryFailed` for the metadata of any other
    resource: this server must not receive a token for that one.
    """  # AUTH-9
    named = text(document, "resource")
    if named is not None and not is_resource(named, url, above):
        wider = is_above(named, url)
        raise DiscoveryFailed(
            f"the metadata of {printable(url)} describes another resource, {printable(named)}: "
            + (
                "a token for it is valid at every server below it; if you trust all of them, pass it as `resource`"
                if wider
                else "do not trust this server, unless it is only configured with a different URL than the one you use"
            )
        )
    servers = texts(document, "authorization_servers")
    if not servers:
        return None
    resource = canonical_resource(url) if named is None else named
    assert resource is not None
    return ResourceMetadata(resource, servers[:MAX_SERVERS], texts(document, "scopes_supported"))


def is_resource(named: str, url: str, above: str | None = None) -> bool:
    """Return whether a resource is the server at a URL, or `above`, the resource that the user accepts."""
    mine, theirs = canonical_resource(url), canonical_resource(named)
    if mine is None or theirs is None:
        return False
    same = theirs in (mine, mine.partition("?")[0])
    return same or (above is not None and theirs == canonical_resource(above) and is_above(named, url))


def is_above(resource: str, url: str) -> bool:
    """Return whether a resource has the origin of a URL and a path that is a prefix of its path, in whole segments."""
    mine, theirs = canonical_resource(url), canonical_resource(resource)
    if mine is None or theirs is None:
        return False
    return "?" not in theirs and mine.partition("?")[0].startswith(theirs + "/")


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """Authorization server metadata (RFC 8414)."""

    issuer: str
    """The issuer identifier, as the metadata spells it; the same issuer as the one that the metadata was requested for."""
    token_endpoint: str
    authorization_endpoint: str | None = None
    registration_endpoint: str | None = None
    scopes: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    """The supported client authentication methods of the token endpoint; None if not listed."""
    takes_documents: bool = False
    """Whether the server accepts the URL of a metadata document as a client id."""  # AUTH-12
    names_itself: bool = False
    """Whether authorization responses carry `iss`."""  # AUTH-15
    device_endpoint: str | None = None
    """Where a login without a browser begins (RFC 8628)."""
    proofs: tuple[str, ...] | None = None
    """The supported PKCE challenge methods; None if the metadata does not list any."""


def read_server(document: Mapping[str, Json], issuer: str) -> ServerMetadata | None:
    """Read the metadata of an authorization server; return None if it has no token endpoint.

    Raises `IssuerMismatch` if its `issuer` is another one than the requested one.
    """  # AUTH-7
    said = text(document, "issuer")
    if said is None or not is_same_issuer(said, issuer):
        raise IssuerMismatch(
            f"the metadata of the authorization server {printable(issuer)} names the issuer {printable(said or 'nobody')}: "
            "it is not used, because the two must be identical"
        )
    token = text(document, "token_endpoint")
    if token is None:
        return None
    return ServerMetadata(
        issuer=said,
        token_endpoint=token,
        authorization_endpoint=text(document, "authorization_endpoint"),
        registration_endpoint=text(document, "registration_endpoint"),
        scopes=texts(document, "scopes_supported"),
        methods=texts(document, "token_endpoint_auth_methods_supported"),
        takes_documents=document.get("client_id_metadata_document_supported") is True,
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
        device_endpoint=text(document, "device_authorization_endpoint"),
        proofs=texts(document, "code_challenge_methods_supported"),
    )


def default_server(at: str, issuer: str) -> ServerMetadata:
    """Return the default endpoints of an authorization server without metadata at an origin."""  # AUTH-3
    return ServerMetadata(
        issuer=issuer,
        token_endpoint=f"{at}/token",
        authorization_endpoint=f"{at}/authorize",
        registration_endpoint=f"{at}/register",
        proofs=(S256,),
    )


@dataclass(frozen=True, slots=True)
class ProtectedServer:
    """The authorization server and the resource of one MCP server, and the revision whose rules apply."""

    revision: Revision
    resource: str
    server: ServerMetadata
    scopes: tuple[str, ...] | None = None
    """The scopes that the protected resource metadata lists, if any."""

    @property
    def profile(self) -> AuthProfile:
        """The authorization rules of the revision."""
        assert self.revision.auth is not None
        return self.revision.auth


# -- choices -----------------------------------------------------------------------------------------------


def check_proofs(server: ServerMetadata) -> None:
    """Raise `DiscoveryFailed` for an authorization server without PKCE.

    Metadata that lists no methods means that the server supports none (RFC 8414, section 2).
    """  # AUTH-8
    if S256 in (server.proofs or ()):
        return
    said = (
        "does not declare support for PKCE" if server.proofs is None else f"does not support PKCE with {S256}"
    )
    raise DiscoveryFailed(f"the authorization server {printable(server.issuer)} {said}: enable it there")


def wanted_scopes(
    place: ProtectedServer,
    challenge: Challenge,
    wanted: Sequence[str] | None,
    before: Sequence[str] | None,
    *,
    more: bool,
) -> tuple[str, ...] | None:
    """Return the scopes to request; None omits `scope`.

    `wanted` are those of the user; `before` are those that were requested or granted before, which do not suffice if
    `more`. They are requested again: a login must not take away what another one has granted.
    """  # AUTH-17
    if more:
        return join_scopes(before, challenge.scopes) or None
    found = challenge.scopes or place.scopes if wanted is None else join_scopes(wanted, challenge.scopes)
    return join_scopes(found, before) or None


def with_offline(place: ProtectedServer, scopes: Sequence[str] | None) -> tuple[str, ...] | None:
    """Add `offline_access` to the scopes if the server lists it, to get a refresh token.

    Not to none: a request without `scope` is for the scopes that the server grants by default.
    """  # AUTH-18
    if not scopes:
        return None
    return join_scopes(scopes, (OFFLINE,) if OFFLINE in (place.server.scopes or ()) else ())


def join_scopes(first: Sequence[str] | None, second: Sequence[str] | None) -> tuple[str, ...]:
    """Return the scopes of both lists, in order, without duplicates."""
    return tuple(dict.fromkeys([*(first or ()), *(second or ())]))


def secret_method(methods: Sequence[str] | None) -> str:
    """Return the authentication method for a client with a secret. Raises `AuthError` if the server supports none."""
    if methods is None or BASIC in methods:
        return BASIC
    for method in (POST, NONE):
        if method in methods:
            return method
    raise AuthError(
        "the authorization server accepts no client secret, only " + printable(", ".join(methods))
    )


def registered_method(methods: Sequence[str] | None) -> str:
    """Return the authentication method that a client registers with.

    Widespread servers that offer both ways to send a secret only find the client by the id in the form.
    """
    if methods is None:
        return BASIC
    return next((method for method in (NONE, POST, BASIC) if method in methods), BASIC)


def application_type(redirect_uri: str) -> str:
    """Return the `application_type` for registration: `web` or `native`, by the redirect URI."""  # AUTH-13
    parts = urlsplit(redirect_uri)
    return "web" if parts.scheme == "https" and not is_loopback(parts.hostname or "") else "native"


# -- URLs that may be opened -------------------------------------------------------------------------------


def check_page(url: str) -> str:
    """Return a URL that may be opened in the user's browser: https, or http on loopback.

    Raises `DiscoveryFailed` for any other.
    """  # SEC-2, AUTH-19
    if not is_secure(url):
        raise DiscoveryFailed(
            f"the authorization server names the page {printable(url)}, which is not an https URL: it is not opened"
        )
    return url
