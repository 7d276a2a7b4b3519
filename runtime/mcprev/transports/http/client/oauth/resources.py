"""The URLs of protected resources and of authorization servers (AUTH-5, AUTH-9, AUTH-10, AUTH-19; RFC 8707, RFC 9728)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit

from mcprev.transports.http.security import is_loopback
from mcprev.transports.http.urls import split_url

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_URL: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}


def canonical_resource(uri: str) -> str | None:
    """Return a resource identifier in canonical form, or None if it is not one.

    The scheme and host are in lower case; a default port and a trailing slash are removed.
    """  # AUTH-9, AUTH-10
    parts = split(uri)
    if parts is None:
        return None
    port = "" if parts.port in {None, _PORTS[parts.scheme]} else f":{parts.port}"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{host}{port}{parts.path.removesuffix('/')}{query}"


def split(url: object) -> SplitResult | None:
    """Split an http or https URL without user and fragment; return None for any other."""
    if not isinstance(url, str) or not _URL.fullmatch(url) or "#" in url:
        return None
    parts = split_url(url)
    known = parts is not None and parts.scheme in _PORTS and parts.hostname and "@" not in parts.netloc
    return parts if known else None


def is_secure(url: str) -> bool:
    """Return whether a URL is https, or http on loopback."""
    parts = split(url)
    return parts is not None and (parts.scheme == "https" or is_loopback(parts.hostname or ""))


def in_lower_case(parts: SplitResult) -> str:
    """Return a URL without its query; the scheme and host are in lower case, the path is unchanged."""
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path}"


def check_issuer(issuer: str) -> None:
    """Raise `ValueError` for an issuer that is not an https URL, or http on loopback."""
    if not is_secure(issuer) or urlsplit(issuer).query:
        raise ValueError(f"{issuer!r} is not the URL of an authorization server: use https and a host")
