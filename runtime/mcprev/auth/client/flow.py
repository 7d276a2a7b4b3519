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
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from mcprev.auth.client import discovery
from mcprev.auth.client.discovery import (
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
from mcprev.auth.client.steps import NO_KEYS, ClientKeys, Flow, HttpFetch, OpenBrowser, fetch, said_by
from mcprev.auth.client.store import Registration
from mcprev.auth.client.tokens import FORGET, INVALID_CLIENT, TokenResponse, request_token, seconds
from mcprev.auth.urls import canonical_resource, is_same_issuer, split_resource
from mcprev.errors import (
    AuthError,
    AuthorizationDenied,
    DiscoveryFailed,
    IssuerMismatch,
    Json,
    RegistrationRejected,
)
from mcprev.revisions import AuthProfile, Revision
from mcprev.transports.http.urls import printable

VERSION: Final = "MCP-Protocol-Version"
GRANTS: Final = ("authorization_code", "refresh_token")


# -- discovery ---------------------------------------------------------------------------------------------


Fits: TypeAlias = Callable[[ServerMetadata], None]
"""Raises `AuthError` for an authorization server that the client cannot use: `RegistrationRejected` if only its registration
is missing there."""


def fits_all(_server: ServerMetadata) -> None:
    """Accept any authorization server."""


class _Search:
    """Fetches metadata documents, and records each that was tried with the reason why it is not used."""

    def __init__(self, revision: Revision, fits: Fits) -> None:
        self._headers = (("Accept", "application/json"), (VERSION, revision.version))
        self._fits = fits
        self.tried: list[str] = []
        self.absent = True
        """Whether every document so far was absent; False after a server error or a document that does not fit."""
        self._problems: list[AuthError] = []
        self.servers: set[str] = set()
        """The authorization servers that were tried."""
        self.unregistered: ServerMetadata | None = None
        """The first authorization server at which nothing is missing but a registration."""

    def look(self, url: str) -> Flow[dict[str, Json] | None]:
        reply = yield from fetch(HttpFetch(url, self._headers))
        found = read_object(reply.body) if reply.status == 200 else None
        if found is None:
            outcome = "no JSON object" if reply.status == 200 else reply.outcome
            self.unusable(url, outcome)
            self.absent = self.absent and (reply.status == 200 or 400 <= reply.status < 500)
        return found

    def unusable(self, url: str, why: str) -> None:
        self.tried.append(f"{printable(url)}: {why}")

    def unfit(self, url: str, problem: AuthError) -> None:
        self.unusable(url, str(problem))
        self._problems.append(problem)
        self.absent = False

    def server(self, document: dict[str, Json], at: str, issuer: str) -> ServerMetadata | None:
        """Return the metadata of an authorization server if the document fits."""
        server = None
        try:
            server = discovery.read_server(document, issuer)
            if server is None:
                self.unusable(at, "names no token endpoint")
                return None
            self._fits(server)
        except RegistrationRejected as problem:
            self.unregistered = self.unregistered or server
            self.unfit(at, problem)
        except AuthError as problem:
            self.unfit(at, problem)
        else:
            return server
        return None

    def failure(self, message: str) -> AuthError:
        """Return the error that lists what was tried; `IssuerMismatch` if nothing else was wrong with the documents."""
        if self._problems and all(isinstance(problem, IssuerMismatch) for problem in self._problems):
            return IssuerMismatch("\n  ".join([message, *self.tried]))
        return DiscoveryFailed(message, tried=self.tried)


def discover(
    url: str,
    revisions: Sequence[Revision],
    challenge: Challenge,
    *,
    issuer: str | None = None,
    resource: str | None = None,
    fits: Fits = fits_all,
) -> Flow[ProtectedServer]:
    """Find the authorization server of the MCP server at a URL: the first one whose documents fit.

    `revisions` are those that the server may speak, the preferred one first; if its metadata is absent, the rules
    of the oldest are tried. Revisions decide which URLs are tried, never which checks apply. `issuer` is the
    only authorization server that this client accepts, if set; `resource` is a resource above the URL that the
    metadata may name. Raises `DiscoveryFailed` or `IssuerMismatch`, with each document and why it is not used.
    """  # AUTH-3
    first, search = revisions[0], _Search(revisions[0], fits)
    assert first.auth is not None
    if first.auth.resource_metadata:
        found = yield from _find_named(search, first, url, challenge, resource, issuer)
        if found is not None:
            return found
    older = next(
        (
            revision
            for revision in revisions
            if revision.auth is not None and not revision.auth.resource_metadata
        ),
        None,
    )
    if older is None or not search.absent or search.servers:
        raise search.failure(
            f"{printable(url)} requires authorization but no authorization server can be used; tried"
            if search.servers
            else f"{printable(url)} requires authorization but names no authorization server; tried"
        )
    return (yield from _at_origin(search, older, url, issuer))


def _find_named(
    search: _Search,
    revision: Revision,
    url: str,
    challenge: Challenge,
    above: str | None,
    wanted: str | None,
) -> Flow[ProtectedServer | None]:
    """Return the first authorization server that the server's metadata names and that fits."""
    unregistered: ProtectedServer | None = None
    for at in discovery.resource_urls(url, challenge.resource_metadata):
        document = yield from search.look(at)
        if document is None:
            continue
        try:
            found = discovery.read_resource(document, url, above)
            names = () if found is None else _accepted(found, wanted)
        except AuthError as problem:
            search.unfit(at, problem)
            continue
        if found is None:
            search.unusable(at, "names no authorization server")
            continue
        for name in names:
            server = yield from _new_server(search, revision, name)
            if server is not None:
                return ProtectedServer(revision, found.resource, server, found.scopes)
            if unregistered is None and search.unregistered is not None:
                unregistered = ProtectedServer(revision, found.resource, search.unregistered, found.scopes)
    return unregistered


def _accepted(found: ResourceMetadata, wanted: str | None) -> Sequence[str]:
    """Return the authorization servers of resource metadata that this client accepts. Raises `IssuerMismatch` for none."""
    names = tuple(name for name in found.servers if wanted is None or is_same_issuer(name, wanted))
    if names:
        return names
    raise IssuerMismatch(
        f"the server does not accept tokens of {printable(wanted or '')} any more, but of "
        f"{printable(', '.join(found.servers))}: pass credentials for one of these"
    )


def _new_server(search: _Search, revision: Revision, name: str) -> Flow[ServerMetadata | None]:
    """Return the metadata of an authorization server that was not tried before, if it fits."""
    if name in search.servers or len(search.servers) >= discovery.MAX_SERVERS:
        return None
    search.servers.add(name)
    if split_resource(name) is None or "?" in name:
        search.unusable(name, "is no URL of an authorization server")
        return None
    assert revision.auth is not None
    return (yield from _read_server(search, revision.auth, name, name))


def _read_server(search: _Search, profile: AuthProfile, url: str, issuer: str) -> Flow[ServerMetadata | None]:
    """Return the metadata of the authorization server at a URL, which must name the issuer, from the first document that fits."""
    for at in discovery.server_urls(url, profile):
        document = yield from search.look(at)
        if document is not None and (server := search.server(document, at, issuer)) is not None:
            return server
    return None


def _at_origin(search: _Search, revision: Revision, url: str, wanted: str | None) -> Flow[ProtectedServer]:
    """Treat the MCP server's origin as its authorization server, with the default endpoints if it has no metadata."""  # AUTH-3
    profile, at = revision.auth, discovery.origin(url)
    assert profile is not None
    if wanted is not None and not is_same_issuer(wanted, at):
        raise IssuerMismatch(
            f"{printable(url)} is its own authorization server, but the credentials are for {printable(wanted)}: they are not sent"
        )
    resource = canonical_resource(url) or url
    server = yield from _read_server(search, profile, at, at)
    server = server or search.unregistered
    if server is None and search.absent:
        server = discovery.default_server(at, wanted or at)
    if server is None:
        raise search.failure(
            f"{printable(url)} requires authorization but no authorization server can be used; tried"
        )
    return ProtectedServer(revision, resource, server)


# -- registration ------------------------------------------------------------------------------------------


def check_registers(server: ServerMetadata) -> str:
    """Return the registration endpoint. Raises `RegistrationRejected` if the metadata names none."""
    if server.registration_endpoint is None:
        raise RegistrationRejected(
            f"{printable(server.issuer)} does not support dynamic registration: register a client there and pass its `client_id`"
        )
    return server.registration_endpoint


def register(
    place: ProtectedServer,
    name: str,
    redirect_uri: str,
    scopes: Sequence[str] | None,
    grants: Sequence[str] = (),
) -> Flow[Registration]:
    """Register this client dynamically, with more grants than those of a browser. Raises `RegistrationRejected`."""  # AUTH-12, AUTH-13
    server, endpoint = place.server, check_registers(place.server)
    method = discovery.registered_method(server.methods)
    wanted: dict[str, Json] = {
        "client_name": name,
        "redirect_uris": [redirect_uri],
        "grant_types": [*GRANTS, *grants],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
    }
    if place.profile.application_type:
        wanted["application_type"] = discovery.application_type(redirect_uri)
    if scopes:
        wanted["scope"] = " ".join(discovery.join_scopes(scopes, place.scopes))
    headers = (("Accept", "application/json"), ("Content-Type", "application/json"))
    reply = yield from fetch(
        HttpFetch(endpoint, headers, json.dumps(wanted).encode(), purpose="registration")
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
    elif method == NONE:
        method = BASIC  # the default of RFC 7591; the other way is tried next
    return Registration(
        client_id,
        secret,
        method,
        (redirect_uri,),
        seconds(found.get("client_secret_expires_at")) or None,
    )


# -- authorization code -------------------------------------------------------------------------------------


def check_pages(server: ServerMetadata) -> str:
    """Return the authorization endpoint of a server at which a user can log in. Raises `DiscoveryFailed` for any other."""
    discovery.check_proofs(server)
    if server.authorization_endpoint is None:
        raise DiscoveryFailed(f"{printable(server.issuer)} has no authorization endpoint")
    return discovery.check_page(server.authorization_endpoint)


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
    known: bool = True,
) -> Flow[TokenResponse]:
    """Run the authorization code flow in the user's browser and redeem the code.

    Unless the client is `known` to be registered, the page is requested first without the user: a server that has dropped
    the registration shows an error there, with which nobody returns. Raises `AuthorizationDenied`, `IssuerMismatch`, `TokenRejected`, or `AuthError` for a response to another request.
    """  # AUTH-8, AUTH-9, AUTH-11, AUTH-15
    endpoint = check_pages(place.server)
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
    if scopes:
        query["scope"] = " ".join(scopes)
        if discovery.OFFLINE in scopes:
            query["prompt"] = "consent"  # OpenID Connect gives a refresh token for nothing else
    parts = urlsplit(endpoint)
    joined = "&".join(part for part in (parts.query, urlencode(query, quote_via=quote)) if part)
    page = urlunsplit(parts._replace(query=joined))
    if not known:
        yield from _check_known(page, printable(place.server.issuer))
    back = yield OpenBrowser(page)
    assert isinstance(back, str)
    form = {
        "grant_type": "authorization_code",
        "code": read_redirect(back, state, place),
        "redirect_uri": redirect_uri,
        "code_verifier": verifier,
    }
    return (yield from request_token(place, client, form, client_keys=client_keys))


def _check_known(page: str, issuer: str) -> Flow[None]:
    """Raise `AuthorizationDenied` if an authorization endpoint refuses the client itself (RFC 6749, section 4.1.2.1)."""
    accepts = (("Accept", "application/json, text/html;q=0.9"),)
    reply = yield from fetch(HttpFetch(page, accepts, follow=False, purpose="login page"))
    if not 400 <= reply.status < 500:
        return
    error = text(read_object(reply.body) or {}, "error")
    if error is None:
        error = next((word for word in sorted(FORGET) if word.encode() in reply.body), None)
    if error in FORGET or error == "invalid_request":
        raise AuthorizationDenied(
            f"{issuer} does not know the client that was registered there: {printable(error)}",
            error=INVALID_CLIENT,
        )


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
