"""Fetches a schema.ts from a URL: https only, of limited size, within a time limit. Errors show no query or password."""

from __future__ import annotations

import ipaddress
import socket
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import Future
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection
from threading import Event, Thread
from typing import IO, Final

from typing_extensions import override

from mcprev_codegen.errors import InputError, reason
from mcprev_codegen.inputs.files import LIMIT

TIMEOUT: Final = 60.0
"""Maximum time of a download in seconds, from the look-up of the name to the last byte."""
_CHUNK: Final = 64 * 1024
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_NOT_GLOBAL: Final = (
    ipaddress.IPv4Network("192.0.0.0/24"),
    ipaddress.IPv4Network("192.88.99.0/24"),
    ipaddress.IPv6Network("3fff::/20"),
)
"""Reserved for protocols (RFC 6890), relays (RFC 7526) and documentation (RFC 9637); some releases of Python treat them as
global."""
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")


def is_url(source: str) -> bool:
    """Return whether an input is a URL and not a path."""
    return "://" in source


def without_secrets(source: str) -> str:
    """Return a URL without user, password, query and fragment, to be shown; a path unchanged."""
    if not is_url(source):
        return source
    scheme, _, rest = source.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}".partition("?")[0].partition("#")[0]


def fetch(url: str) -> bytes:
    """Return the body of the response to a GET of a URL.

    Plain http is allowed for loopback addresses only. Redirects into a private network are refused, unless the URL
    itself names that host. Raises `InputError` if the download fails, is too large or takes too long.
    """
    download = _Download(url)
    # A server that sends a byte now and then never exceeds the time limit of one operation of a socket.
    Thread(target=download.run, daemon=True).start()
    try:
        return download.body.result(TIMEOUT)
    except TimeoutError:
        raise InputError(f"{without_secrets(url)}: not fetched within {TIMEOUT:g} seconds") from None
    finally:
        download.stop()


class _Download:
    """One download, which another thread can stop."""

    def __init__(self, url: str) -> None:
        self.body: Future[bytes] = Future()
        self._url = url
        self._stopped = Event()
        self._sockets: list[socket.socket] = []

    def run(self) -> None:
        try:
            self.body.set_result(self._read())
        except BaseException as error:  # noqa: BLE001 - the other thread raises it
            self.body.set_exception(error)

    def stop(self) -> None:
        self._stopped.set()
        for opened in self._sockets:
            with suppress(OSError):
                socket.socket.shutdown(opened, socket.SHUT_RDWR)

    def opened(self, connection: HTTPConnection) -> None:
        """Note a connection that was opened. Raises `OSError` if the download was stopped."""
        self._sockets.append(connection.sock)
        if self._stopped.is_set():
            raise OSError("stopped")

    def _read(self) -> bytes:
        url, shown = self._url, without_secrets(self._url)
        _check_scheme(url)
        redirects = _RedirectHandler(urllib.parse.urlsplit(url).hostname or "")
        opener = urllib.request.build_opener(redirects, _ConnectionHandler(self))
        try:
            with opener.open(url, timeout=TIMEOUT) as response:
                return _body(response, shown)
        except urllib.error.HTTPError as error:
            error.close()  # The error is the response and holds the connection.
            raise InputError(f"{shown}: cannot be fetched: HTTP status {error.code}") from None
        except urllib.error.URLError as error:
            why = reason(error.reason) if isinstance(error.reason, OSError) else "not a valid response"
            raise InputError(f"{shown}: cannot be fetched: {why}") from None
        except OSError as error:
            raise InputError(f"{shown}: cannot be fetched: {reason(error)}") from None
        except (HTTPException, ValueError) as error:  # whose text can hold the URL
            raise InputError(f"{shown}: cannot be fetched: {type(error).__name__}") from None


def _body(response: HTTPResponse, shown: str) -> bytes:
    """Return the body of a response. Raises `InputError` if it is a web page or too large."""
    if response.headers.get_content_type() == "text/html":
        raise InputError(f"{shown}: this is a web page; pass the URL of the raw file")
    body = bytearray()
    while piece := response.read1(_CHUNK):
        body += piece
        if len(body) > LIMIT:
            raise InputError(f"{shown}: larger than {LIMIT} bytes, so it is not a schema.ts")
    return bytes(body)


def _check_scheme(url: str) -> None:
    shown = without_secrets(url)
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise InputError(f"{shown}: invalid URL") from None
    if not host or parts.scheme not in ("https", "http"):
        raise InputError(f"{shown}: pass an https URL or the path of a file")
    if parts.username is not None:
        raise InputError(
            f"{shown}: a URL with a user or password is not supported; download the file and pass its path"
        )
    if parts.scheme == "http" and not all(a.is_loopback for a in _addresses(host)):
        raise InputError(f"{shown}: http is not authenticated; pass an https URL")


class _ConnectionHandler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens connections that a download can stop."""

    def __init__(self, download: _Download) -> None:
        super().__init__()

        class Http(HTTPConnection):
            @override
            def connect(self) -> None:
                super().connect()
                download.opened(self)

        class Https(Http, HTTPSConnection):
            """Connects as the second one does, and notes it as the first one does."""

        self._http, self._https = Http, Https

    @override
    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(self._http, req)

    @override
    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(self._https, req)


class _RedirectHandler(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not to addresses that only this machine or network can reach."""

    def __init__(self, named: str) -> None:
        self._named = named

    @override
    def http_error_302(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> object:
        fp.close()  # Otherwise its body, which can be of any size, would be read.
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

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
        _check_scheme(newurl)
        host = urllib.parse.urlsplit(newurl).hostname or ""
        if host != self._named and not all(map(_is_public, _addresses(host))):
            raise InputError(
                f"{without_secrets(req.full_url)}: redirected to {without_secrets(newurl)}, a private address; "
                "to allow it, give that URL itself"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _is_reserved(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return any(address in reserved for reserved in _NOT_GLOBAL)


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return whether an address is of the public internet, also the IPv4 address that an IPv6 address leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast and not _is_reserved(address)
    if address.ipv4_mapped is not None:
        return _is_public(address.ipv4_mapped)
    if address in _NAT64:
        return _is_public(ipaddress.IPv4Address(address.packed[-4:]))
    inner = address.sixtofour or (address.teredo or (None, None))[1]
    reached = address in _GLOBAL_UNICAST and address.is_global and not _is_reserved(address)
    return reached and (inner is None or _is_public(inner))


def _addresses(host: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Return every address of a host. Raises `InputError` if it has none."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise InputError(f"{host}: no such host: {reason(error)}") from None
    return [ipaddress.ip_address(str(address[4][0]).partition("%")[0]) for address in found]
