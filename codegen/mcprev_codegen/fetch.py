"""Fetches a schema.ts from a URL: https only, of limited size, within a time limit."""

from __future__ import annotations

import ipaddress
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException, HTTPMessage
from typing import IO, Final

from typing_extensions import override

from mcprev_codegen.errors import InputError, reason

LIMIT: Final = 8_000_000
"""Maximum size in bytes; upstream's largest file has a fiftieth of that."""
TIMEOUT: Final = 60.0
"""Maximum time of a download in seconds."""
_CHUNK: Final = 64 * 1024


def is_url(source: str) -> bool:
    """Return whether an input is a URL and not a path."""
    return "://" in source


def fetch(url: str) -> bytes:
    """Return the body of the response to a GET of a URL.

    Plain http is allowed for loopback addresses only. Redirects into a private network are refused, unless the URL
    itself names that host. Raises `InputError` if the download fails, is too large or takes too long.
    """
    _check_scheme(url)
    opener = urllib.request.build_opener(_RedirectHandler(urllib.parse.urlsplit(url).hostname or ""))
    until = time.monotonic() + TIMEOUT
    try:
        with opener.open(url, timeout=TIMEOUT) as response:
            if response.headers.get_content_type() == "text/html":
                raise InputError(f"{url}: this is a web page; give the URL of the raw file")
            body = bytearray()
            while piece := response.read1(_CHUNK):
                body += piece
                if len(body) > LIMIT:
                    raise InputError(f"{url}: larger than {LIMIT} bytes, so it is not a schema.ts")
                if time.monotonic() > until:
                    raise InputError(f"{url}: not fetched within {TIMEOUT:.0f} seconds")
            return bytes(body)
    except urllib.error.HTTPError as error:
        error.close()  # The error is the response and holds the connection.
        raise InputError(f"{url}: cannot be fetched: {error}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise InputError(f"{url}: cannot be fetched: {getattr(error, 'reason', error)}") from None


def _check_scheme(url: str) -> None:
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname or ""
    except ValueError as error:
        raise InputError(f"{url}: invalid URL: {error}") from None
    if not host or parts.scheme not in ("https", "http"):
        raise InputError(f"{url}: give an https URL or the path of a file")
    if parts.scheme == "http" and not all(a.is_loopback for a in _addresses(host)):
        raise InputError(f"{url}: http is not authenticated; give an https URL")


class _RedirectHandler(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not to addresses that only this machine or network can reach."""

    def __init__(self, named: str) -> None:
        self._named = named

    @override
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        try:
            self._check(req.full_url, newurl)
        except InputError:
            fp.close()  # It is the response and holds the connection.
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    def _check(self, url: str, target: str) -> None:
        _check_scheme(target)
        host = urllib.parse.urlsplit(target).hostname or ""
        if host != self._named and not all(a.is_global for a in _addresses(host)):
            raise InputError(
                f"{url}: redirected to {target}, a private address; to allow it, give that URL itself"
            )


def _addresses(host: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Return every address of a host. Raises `InputError` if it has none."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise InputError(f"{host}: no such host: {reason(error)}") from None
    return [ipaddress.ip_address(str(address[4][0]).partition("%")[0]) for address in found]
