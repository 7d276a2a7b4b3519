"""OAuth flows as generators of requests: discovery, registration and the authorization code flow.

AUTH-3 to 9, 11, 12, 13, 15; SEC-2. Texts of other parties are shown truncated; secrets are never shown.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from mcprev.auth.urls import canonical_resource, split_resource
from mcprev.auth_profiles import AuthProfile
from mcprev.errors import (
    AuthError,
    AuthorizationDenied,
    DiscoveryFailed,
    IssuerMismatch,
    Json,
    RegistrationRejected,
)
from mcprev.oauth import discovery
from mcprev.oauth.discovery import (
    BASIC,
    NONE,
    POST,
    S256,
    Challenge,
    ProtectedServer,
    ResourceMetadata,
    ServerMetadata,
    read_object,
    text,
)
from mcprev.oauth.steps import NO_KEYS, ClientKeys, Flow, HttpFetch, OpenBrowser, fetch, said_by
from mcprev.oauth.store import Registration
from mcprev.oauth.tokens import TokenResponse, request_token, seconds
from mcprev.revisions import Revision
from mcprev.transports.http.urls import printable

VERSION: Final = "MCP-Protocol-Version"
GRANTS: Final = ("authorization_code", "refresh_token")


# -- discovery ---------------------------------------------------------------------------------------------


class _Search:
    """Fetches metadata documents and records the URLs that were tried."""

    def __init__(self, revision: Revision) -> None:
        self._headers = (("Accept", "application/json"), (VERSION, revision.version))
        self.tried: list[str] = []
        self.absent = True
        """Whether every document so far was absent; False after a server error."""

    def look(self, url: str) -> Flow[dict[str, Json] | None]:
        reply = yield from fetch(HttpFetch(url, self._headers))
        found = read_object(reply.body) if reply.status == 200 else None
        if found is None:
            outcome = "no JSON object" if reply.status == 200 else reply.outcome
            self.tried.append(f"{printable(url)}: {outcome}")
            self.absent = self.absent and (reply.status == 200 or 400 <= reply.status < 500)
        return found

    def unusable(self, url: str, why: str) -> None:
        self.tried.append(f"{printable(url)}: {why}")


def discover(
    url: str,
    revisions: Sequence[Revision],
    challenge: Challenge,
    *,
    issuer: str | None = None,
    resource: str | None = None,
) -> Flow[ProtectedServer]:
    """Find the authorization server of the MCP server at a URL.

    `revisions` are those that the server may speak, the preferred one first; if its metadata is absent, the rules
    of the oldest are tried. Revisions decide which URLs are tried, never which checks apply. `issuer` is the
    only authorization server that this client accepts, if set; `resource` is a resource above the URL that the
    metadata may name. Raises `DiscoveryFailed` or `IssuerMismatch`.
    """  # AUTH-3
    first, search = revisions[0], _Search(revisions[0])
    assert first.auth is not None
    if first.auth.resource_metadata:
        found = yield from _find_resource(search, url, challenge, resource)
        if found is not None:
            return (yield from _find_server(search, first, found, issuer))
    older = next(
        (
            revision
            for revision in revisions
            if revision.auth is not None and not revision.auth.resource_metadata
        ),
        None,
    )
    if older is None or not search.absent:
        raise DiscoveryFailed(
            f"{printable(url)} requires authorization but names no authorization server; tried",
            tried=search.tried,
        )
    return (yield from _at_origin(search, older, url, issuer))


def _find_resource(
    search: _Search, url: str, challenge: Challenge, above: str | None
) -> Flow[ResourceMetadata | None]:
    for at in discovery.resource_urls(url, challenge.resource_metadata):
        document = yield from search.look(at)
        if document is not None:
            found = discovery.read_resource(document, url, above)
            if found is not None:
                return found
            search.unusable(at, "names no authorization server")
    return None


def _find_server(
    search: _Search, revision: Revision, found: ResourceMetadata, wanted: str | None
) -> Flow[ProtectedServer]:
    """Return the first of the authorization servers that has usable metadata."""
    profile = revision.auth
    assert profile is not None
    servers = found.servers
    if wanted is not None:
        servers = tuple(name for name in servers if name == wanted)
        if not servers:
            raise IssuerMismatch(
                f"the server does not accept tokens of {printable(wanted)} any more, but of "
                f"{printable(', '.join(found.servers))}: pass credentials for one of these"
            )
    for name in servers:
        if split_resource(name) is None or "?" in name:
            search.unusable(name, "is no URL of an authorization server")
            continue
        server = yield from _read_server(search, profile, name, (name,))
        if server is not None:
            return ProtectedServer(revision, found.resource, server, found.scopes)
    raise DiscoveryFailed(
        f"the authorization server {printable(', '.join(servers))} has no usable metadata; tried",
        tried=search.tried,
    )


def _read_server(
    search: _Search, profile: AuthProfile, url: str, issuers: Sequence[str]
) -> Flow[ServerMetadata | None]:
    """Return the metadata of the authorization server at a URL, which must name one of the issuers."""
    for at in discovery.server_urls(url, profile):
        document = yield from search.look(at)
        if document is not None:
            said = text(document, "issuer")
            issuer = next((each for each in issuers if each == said), issuers[0])
            server = discovery.read_server(document, issuer)
            if server is not None:
                return server
            search.unusable(at, "names no token endpoint")
    return None


def _at_origin(search: _Search, revision: Revision, url: str, wanted: str | None) -> Flow[ProtectedServer]:
    """Treat the MCP server's origin as its authorization server, with the default endpoints if it has no metadata.

    The issuer is not known in advance: the origin counts with or without a slash at its end.
    """  # AUTH-3
    profile, at = revision.auth, discovery.origin(url)
    assert profile is not None
    if wanted not in (None, at, f"{at}/"):
        raise IssuerMismatch(
            f"{printable(url)} is its own authorization server, but the credentials are for {printable(wanted or '')}: they are not sent"
        )
    resource = canonical_resource(url) or url
    server = yield from _read_server(search, profile, at, (at, f"{at}/") if wanted is None else (wanted,))
    if server is not None:
        return ProtectedServer(revision, resource, server)
    if not search.absent:
        raise DiscoveryFailed(
            f"{printable(url)} requires authorization, but no authorization server was found; tried",
            tried=search.tried,
        )
    return ProtectedServer(revision, resource, discovery.default_server(at, wanted or at))


# -- registration ------------------------------------------------------------------------------------------


def register(
    place: ProtectedServer, name: str, redirect_uri: str, scopes: Sequence[str] | None
) -> Flow[Registration]:
    """Register this client dynamically. Raises `RegistrationRejected`."""  # AUTH-12, AUTH-13
    server = place.server
    if server.registration_endpoint is None:
        raise RegistrationRejected(
            f"{printable(server.issuer)} does not support dynamic registration: register a client there and pass its `client_id`"
        )
    method = discovery.registered_method(server.methods)
    wanted: dict[str, Json] = {
        "client_name": name,
        "redirect_uris": [redirect_uri],
        "grant_types": list(GRANTS),
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
    }
    if place.profile.application_type:
        wanted["application_type"] = discovery.application_type(redirect_uri)
    if scopes is not None:
        wanted["scope"] = " ".join(discovery.join_scopes(scopes, place.scopes))
    headers = (("Accept", "application/json"), ("Content-Type", "application/json"))
    reply = yield from fetch(
        HttpFetch(server.registration_endpoint, headers, json.dumps(wanted).encode(), purpose="registration")
    )
    found = read_object(reply.body) or {}
    client_id = text(found, "client_id")
    if reply.status not in (200, 201) or client_id is None:
        remedy = "register a client there and pass its `client_id`"
        if reply.status == HTTPStatus.NOT_FOUND and not place.profile.resource_metadata:
            remedy = (
                f"at {place.revision.name} a client takes the MCP server itself for its authorization server, and nothing there "
                "registers clients; use a newer revision, or let the server use `mcprev.Login`"
            )
        raise RegistrationRejected(
            f"{printable(server.issuer)} did not register this client ({said_by(reply, found)}): {remedy}"
        )
    secret, chosen = text(found, "client_secret"), text(found, "token_endpoint_auth_method")
    if secret is None:
        method = NONE
    elif chosen in (NONE, BASIC, POST):
        method = chosen
    return Registration(
        client_id,
        secret,
        method,
        (redirect_uri,),
        seconds(found.get("client_secret_expires_at")) or None,
    )


# -- authorization code -------------------------------------------------------------------------------------


def random_secret() -> str:
    """Return a new state or code verifier."""
    return secrets.token_urlsafe(32)


def authorize(
    place: ProtectedServer,
    client: Registration,
    scopes: Sequence[str] | None,
    redirect_uri: str,
    *,
    secret: Callable[[], str] = random_secret,
    client_keys: ClientKeys = NO_KEYS,
) -> Flow[TokenResponse]:
    """Run the authorization code flow in the user's browser and redeem the code.

    Raises `AuthorizationDenied`, `IssuerMismatch`, `TokenRejected`, or `AuthError` for a response to another request.
    """  # AUTH-8, AUTH-9, AUTH-11, AUTH-15
    discovery.check_proofs(place.server)
    endpoint = place.server.authorization_endpoint
    if endpoint is None:
        raise DiscoveryFailed(f"{printable(place.server.issuer)} has no authorization endpoint")
    state, verifier = secret(), secret()
    digest = hashlib.sha256(verifier.encode()).digest()
    query = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": S256,
        "resource": place.resource,
    }
    if scopes is not None:
        query["scope"] = " ".join(scopes)
        if discovery.OFFLINE in scopes:
            query["prompt"] = "consent"  # OpenID Connect gives a refresh token for nothing else
    parts = urlsplit(discovery.check_page(endpoint))
    joined = "&".join(part for part in (parts.query, urlencode(query, quote_via=quote)) if part)
    back = yield OpenBrowser(urlunsplit(parts._replace(query=joined)))
    assert isinstance(back, str)
    form = {
        "grant_type": "authorization_code",
        "code": read_redirect(back, state, place),
        "redirect_uri": redirect_uri,
        "code_verifier": verifier,
    }
    return (yield from request_token(place, client, form, client_keys=client_keys))


def read_redirect(back: str, state: str, place: ProtectedServer) -> str:
    """Return the code in a redirect URL. Checks `state` and `iss` before anything else in it is used."""
    pairs = parse_qsl(urlsplit(back).query, keep_blank_values=True)
    said = dict(pairs)
    server, named = place.server, said.get("iss")
    issuer = printable(server.issuer)
    if len(said) != len(pairs):
        raise AuthError(f"the response of {issuer} repeats a parameter: it is not used")
    if not secrets.compare_digest(said.get("state", "").encode(), state.encode()):
        raise AuthError("the browser returned the response to another login: it is not used; try again")
    # AUTH-15
    if named is None and server.names_itself:
        raise IssuerMismatch(f"a response does not contain its issuer {issuer}: it is not used")
    if named is not None and named != server.issuer:
        raise IssuerMismatch(f"a response is from another issuer than {issuer}: it is not used")
    if "error" in said:
        words = printable(said.get("error_description", ""))
        error = printable(said["error"])
        raise AuthorizationDenied(
            f"{issuer} did not authorize this client: {error}{': ' if words else ''}{words}", error=error
        )
    code = said.get("code")
    if not code:
        raise AuthError(f"the browser returned from {issuer} without a code")
    return code
