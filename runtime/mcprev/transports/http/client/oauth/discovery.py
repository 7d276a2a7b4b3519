"""What a client makes of a server's refusal, and where it looks for who lets it in (AUTH-3, 5, 6, 7, 8, 9, 17, 18; SEC-2).

Pure functions: URLs to try in their order, readers of what is found there, choices. `flow` asks, with these.

Decided here because the requirements are silent:

- A document that is not JSON, such as the page that some servers answer everything with, is one that is not there.
- The resource that the metadata names is the server's URL, compared in canonical form and with or without its query. A
  resource above it takes the user's word (`resource=`): a token for it is good at every server below, and those may be
  of several tenants.
- Metadata that an authorization server does not have says nothing; metadata that it has must list S256.
- Scopes of the user's own choice are asked for together with those of the challenge.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast
from urllib.parse import urlsplit

from mcprev.errors import AuthError, DiscoveryFailed, IssuerMismatch, Json
from mcprev.revisions import AuthProfile, Revision
from mcprev.transports.http.client.oauth.resources import WELL_KNOWN, canonical, split
from mcprev.transports.http.security import is_loopback

OAUTH: Final = "/.well-known/oauth-authorization-server"
OPENID: Final = "/.well-known/openid-configuration"
OFFLINE: Final = "offline_access"
S256: Final = "S256"
NONE: Final = "none"
BASIC: Final = "client_secret_basic"
POST: Final = "client_secret_post"
MAX_SERVERS: Final = 5
"""How many of the authorization servers that are named are looked at."""
MAX_CHALLENGES: Final = 8192
"""How many characters of all `WWW-Authenticate` headers of an answer are read."""


# -- challenges --------------------------------------------------------------------------------------------

# No part of a text is read twice: nothing here is given back once it has matched.
_QUOTED: Final = r'"((?:[^"\\]++|\\.)*+)("?)'
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]++")
_WORD: Final = re.compile(rf'[\s,]*+(?:([^\s,="]++)(\s*+=)?|{_QUOTED}|=)?', re.DOTALL)
"""What stands before it, a word, and whether it is the name of a parameter; or something that stands there alone."""
_VALUE: Final = re.compile(rf'\s*+(?:{_QUOTED}|([^\s,"]++))?', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Challenge:
    """How a server wants to be shown who asks, of one scheme."""

    scheme: str = "bearer"
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    """By name in lower case."""

    @property
    def error(self) -> str:
        """What was wrong with the request; empty where it only had no token."""
        return shown(self.parameters.get("error", ""))

    @property
    def reason(self) -> str:
        """What is wrong, in words."""
        return shown(self.parameters.get("error_description", "")) or self.error

    @property
    def scopes(self) -> tuple[str, ...] | None:
        """The scopes that are needed; None where none are named."""
        return tuple(self.parameters.get("scope", "").split()) or None

    @property
    def resource_metadata(self) -> str | None:
        """Where the server says who lets clients in."""
        return self.parameters.get("resource_metadata")


def parse_challenges(values: Iterable[str]) -> tuple[Challenge, ...]:
    """The challenges in the `WWW-Authenticate` headers of an answer. Skips what is malformed or beyond the limit.

    The number of steps grows with the number of characters, of which `MAX_CHALLENGES` are read in all.
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
    """Add the schemes and parameters of one header to those that were found before."""
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
    """The challenge that tokens are an answer to, if there is one."""
    return next((found for found in parse_challenges(values) if found.scheme in schemes), None)


# -- where to look -----------------------------------------------------------------------------------------


def resource_urls(url: str, named: str | None) -> list[str]:
    """Where a server may say who lets clients in, in the order of trying (AUTH-5)."""
    parts = urlsplit(url)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    found = [] if named is None else [named]
    return list(dict.fromkeys([*found, f"{origin}{WELL_KNOWN}{path}", f"{origin}{WELL_KNOWN}"]))


def server_urls(issuer: str, profile: AuthProfile) -> list[str]:
    """Where an authorization server may describe itself, in the order of trying (AUTH-6)."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    found = [f"{origin}{OAUTH}{path}"]
    if profile.openid:
        found += [f"{origin}{OPENID}{path}", f"{origin}{path}{OPENID}"]
    return list(dict.fromkeys(found))


def origin(url: str) -> str:
    """The origin of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


# -- what is found there -----------------------------------------------------------------------------------


def read_object(body: bytes) -> dict[str, Json] | None:
    """A JSON object; None for anything else."""
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Json]", found) if isinstance(found, dict) else None


def text(document: Mapping[str, Json], name: str) -> str | None:
    """A member that is a text and not empty."""
    found: object = document.get(name)
    return found if isinstance(found, str) and found else None


def texts(document: Mapping[str, Json], name: str) -> tuple[str, ...] | None:
    """A member that is a list of texts; None where it is absent."""
    found: object = document.get(name)
    if not isinstance(found, list):
        return None
    return tuple(item for item in cast("list[object]", found) if isinstance(item, str) and item)


@dataclass(frozen=True, slots=True)
class ResourceMetadata:
    """What a server says of those that let clients in (RFC 9728)."""

    resource: str
    """What tokens are to be asked for, byte for byte."""
    servers: tuple[str, ...]
    scopes: tuple[str, ...] | None


def read_resource(
    document: Mapping[str, Json], url: str, above: str | None = None
) -> ResourceMetadata | None:
    """Read the metadata of the server at a URL; None where it names nobody who lets clients in.

    `above` is a resource that the user lets it name as well if it is above the URL. Raises `DiscoveryFailed` for the
    metadata of any other resource: a token for that one must not be given to this server (AUTH-9).
    """
    named = text(document, "resource")
    if named is not None and not is_resource(named, url, above):
        wider = is_above(named, url)
        raise DiscoveryFailed(
            f"the metadata of {shown(url)} is about another resource, {shown(named)}: "
            + (
                "a token for it is good at every server below it; if they may all have it, pass that as `resource`"
                if wider
                else "the server is not to be trusted, or set up for another URL than the one it is reached at"
            )
        )
    servers = texts(document, "authorization_servers")
    if not servers:
        return None
    resource = canonical(url) if named is None else named
    assert resource is not None
    return ResourceMetadata(resource, servers[:MAX_SERVERS], texts(document, "scopes_supported"))


def is_resource(named: str, url: str, above: str | None = None) -> bool:
    """Whether a resource is the server at a URL, or the one above it that the user lets it name."""
    mine, theirs = canonical(url), canonical(named)
    if mine is None or theirs is None:
        return False
    same = theirs in (mine, mine.partition("?")[0])
    return same or (above is not None and theirs == canonical(above) and is_above(named, url))


def is_above(resource: str, url: str) -> bool:
    """Whether a resource has the origin of a URL, and a path that is the beginning of its path in whole segments."""
    mine, theirs = canonical(url), canonical(resource)
    if mine is None or theirs is None:
        return False
    return "?" not in theirs and mine.partition("?")[0].startswith(theirs + "/")


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """What an authorization server says of itself (RFC 8414)."""

    issuer: str
    """The name that it was looked for under, and that it gives itself."""
    token_endpoint: str
    authorization_endpoint: str | None = None
    registration_endpoint: str | None = None
    scopes: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    """The ways in which a client can prove who it is; None where it does not say."""
    takes_documents: bool = False
    """Whether it takes the URL of a document for the name of a client (AUTH-12)."""
    names_itself: bool = False
    """Whether it says in its answers who it is (AUTH-15)."""
    proofs: tuple[str, ...] | None = None
    """The methods of proof keys that it knows; None where its metadata does not say."""


def read_server(document: Mapping[str, Json], issuer: str) -> ServerMetadata | None:
    """Read what an authorization server says of itself; None where that is of no use.

    Raises `IssuerMismatch` where it says that it is another (AUTH-7).
    """
    said = text(document, "issuer")
    if said != issuer:
        raise IssuerMismatch(
            f"the authorization server {shown(issuer)} says that it is {shown(said or 'nobody')}: it is not used, for "
            "it may be another's; its metadata and what names it have to agree to the letter"
        )
    token = text(document, "token_endpoint")
    if token is None:
        return None
    return ServerMetadata(
        issuer=issuer,
        token_endpoint=token,
        authorization_endpoint=text(document, "authorization_endpoint"),
        registration_endpoint=text(document, "registration_endpoint"),
        scopes=texts(document, "scopes_supported"),
        methods=texts(document, "token_endpoint_auth_methods_supported"),
        takes_documents=document.get("client_id_metadata_document_supported") is True,
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
        proofs=texts(document, "code_challenge_methods_supported"),
    )


def default_server(at: str, issuer: str) -> ServerMetadata:
    """The endpoints of an authorization server at an origin that says nothing of itself (AUTH-3)."""
    return ServerMetadata(
        issuer=issuer,
        token_endpoint=f"{at}/token",
        authorization_endpoint=f"{at}/authorize",
        registration_endpoint=f"{at}/register",
        proofs=(S256,),
    )


@dataclass(frozen=True, slots=True)
class ProtectedServer:
    """Where authorization for a server is to be had, and in the way of which revision."""

    revision: Revision
    resource: str
    server: ServerMetadata
    scopes: tuple[str, ...] | None = None
    """The scopes that the server is used with, where it says so."""

    @property
    def profile(self) -> AuthProfile:
        """What the revision says."""
        assert self.revision.auth is not None
        return self.revision.auth


# -- choices -----------------------------------------------------------------------------------------------


def check_proofs(server: ServerMetadata) -> None:
    """Raise `DiscoveryFailed` for a server that cannot tell who redeems a code (AUTH-8).

    Metadata without a list of methods says that there is none (RFC 8414, section 2).
    """
    if S256 in (server.proofs or ()):
        return
    said = (
        "does not say that it knows proof keys" if server.proofs is None else f"knows no proof keys of {S256}"
    )
    raise DiscoveryFailed(
        f"the authorization server {shown(server.issuer)} {said}; it has to be set up for them"
    )


def first_scopes(
    place: ProtectedServer, challenge: Challenge, wanted: Sequence[str] | None
) -> tuple[str, ...] | None:
    """The scopes to ask for at first; None leaves them to the authorization server (AUTH-17)."""
    if wanted is not None:
        return join_scopes(wanted, challenge.scopes)
    return place.scopes if challenge.scopes is None else challenge.scopes


def more_scopes(profile: AuthProfile, challenge: Challenge, before: Sequence[str] | None) -> tuple[str, ...]:
    """The scopes to ask for when those of before do not suffice (AUTH-17)."""
    return join_scopes(before if profile.joins_scopes else (), challenge.scopes)


def with_offline(place: ProtectedServer, scopes: Sequence[str] | None) -> tuple[str, ...] | None:
    """The same, with the scope that a refresh token may take, where there is one (AUTH-18)."""
    if scopes is None or not place.profile.offline_access or OFFLINE not in (place.server.scopes or ()):
        return None if scopes is None else tuple(scopes)
    return join_scopes(scopes, (OFFLINE,))


def join_scopes(first: Sequence[str] | None, second: Sequence[str] | None) -> tuple[str, ...]:
    """Scopes of both, in their order."""
    return tuple(dict.fromkeys([*(first or ()), *(second or ())]))


def secret_method(methods: Sequence[str] | None) -> str:
    """How a client that has a secret shows it. Raises `AuthError` where it can be shown in no way there."""
    if methods is None or BASIC in methods:
        return BASIC
    for method in (POST, NONE):
        if method in methods:
            return method
    raise AuthError("the authorization server takes no client secret: it wants " + shown(", ".join(methods)))


def registered_method(methods: Sequence[str] | None) -> str:
    """How a client that registers says it will prove who it is."""
    if methods is None:
        return BASIC
    return next((method for method in (NONE, BASIC, POST) if method in methods), BASIC)


def application_type(redirect_uri: str) -> str:
    """What sort of application it is, by where users are sent back to (AUTH-13)."""
    parts = urlsplit(redirect_uri)
    return "web" if parts.scheme == "https" and not is_loopback(parts.hostname or "") else "native"


# -- what may be opened ------------------------------------------------------------------------------------


def check_page(url: str) -> str:
    """A URL that a user is sent to: of the web, and in the clear to this machine only (SEC-2, AUTH-19).

    Raises `DiscoveryFailed`.
    """
    parts = split(url)
    if parts is None or (parts.scheme != "https" and not is_loopback(parts.hostname or "")):
        raise DiscoveryFailed(
            f"the authorization server names {shown(url)} as its page, which is no https URL: it is not opened"
        )
    return url


def shown(said: str) -> str:
    """A text of somebody else's, fit to be shown: bounded, printable, and without the query of a URL."""
    head, question, _ = said[:200].partition("?")
    return "".join(c if c.isprintable() else " " for c in head) + (
        "?..." if question and "://" in head else question
    )
