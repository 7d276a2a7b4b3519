"""Downloads end in time, whatever a server sends and however slowly, and errors show no secret of a URL."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import repeat
from typing import Final

import pytest

from mcprev_codegen.errors import InputError
from mcprev_codegen.inputs import download as fetch
from mcprev_codegen.inputs.download import without_secrets

SECONDS: Final = 0.4
PAUSE: Final = 0.01
"""Between two pieces: far below the limit of one operation of a socket."""
OK: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
CHUNKED: Final = OK + b"Transfer-Encoding: chunked\r\n\r\n"
Pieces = Callable[[str], Iterator[bytes]]


def then(start: bytes, piece: bytes) -> Pieces:
    """A start, then the same piece again and again."""

    def pieces(_address: str) -> Iterator[bytes]:
        yield start
        yield from repeat(piece)

    return pieces


def circle(address: str) -> Iterator[bytes]:
    for _ in range(4):
        yield b"HTTP/1.1 302 Found\r\n"
    yield f"Location: {address}/again\r\nContent-Length: 0\r\n\r\n".encode()


ENDLESS: Final = {
    "nothing": then(b"", b""),
    "a status line": then(b"HTTP/1.1 200 ", b"O"),
    "a header": then(OK + b"X: ", b"x"),
    "many headers": then(OK, b"X: y\r\n"),
    "continue": then(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "the headers of continue": then(b"HTTP/1.1 100 Continue\r\n", b"X"),
    "a body": then(OK + b"\r\n", b"x"),
    "a body of known length": then(OK + b"Content-Length: 4000000\r\n\r\n", b"x"),
    "the size of a chunk": then(CHUNKED, b"0"),
    "the extension of a chunk": then(CHUNKED + b"5;", b"x"),
    "a chunk": then(CHUNKED + b"ffff\r\n", b"x"),
    "chunks": then(CHUNKED, b"1\r\nx\r\n"),
    "a trailer": then(CHUNKED + b"0\r\nX: ", b"x"),
    "trailers": then(CHUNKED + b"0\r\n", b"X: y\r\n"),
    "the body of an error": then(b"HTTP/1.1 404 No\r\n", b"X"),
    "redirects": circle,
}


@contextmanager
def dripping(pieces: Pieces) -> Iterator[str]:
    """Serve pieces with pauses between them until the client hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    threads: list[threading.Thread] = []
    done = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            for piece in pieces(address):
                connection.sendall(piece)
                connection.settimeout(PAUSE)
                with suppress(TimeoutError):
                    while connection.recv(1 << 16):
                        pass
                    return
                if done.is_set():
                    return

    def accept() -> None:
        with suppress(OSError):
            while True:
                thread = threading.Thread(target=answer, args=(listener.accept()[0],))
                threads.append(thread)
                thread.start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield address
        for thread in threads:
            thread.join(5)
            assert not thread.is_alive(), "the client has hung up"
    finally:
        done.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()


@pytest.mark.parametrize("pieces", ENDLESS.values(), ids=ENDLESS.keys())
def test_a_download_ends_in_time(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "TIMEOUT", SECONDS)
    with dripping(pieces) as address:
        started = time.monotonic()
        with pytest.raises(InputError, match=r"not fetched within|cannot be fetched"):
            fetch.fetch(f"{address}/schema.ts")
        assert time.monotonic() - started < 10 * SECONDS


def test_the_body_of_a_redirect_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def pieces(address: str) -> Iterator[bytes]:
        yield f"HTTP/1.1 302 Found\r\nLocation: ftp://{address[7:]}/\r\nContent-Length: 99999\r\n\r\n".encode()
        yield from repeat(b"x")

    with dripping(pieces) as address, pytest.raises(InputError, match=r"pass an https URL|cannot be fetched"):
        fetch.fetch(f"{address}/schema.ts")


def test_a_name_that_is_looked_up_for_ever_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()
    monkeypatch.setattr(fetch, "TIMEOUT", SECONDS)

    def look_up(_host: str) -> list[object]:
        asked.wait(10)
        return []

    monkeypatch.setattr(fetch, "_addresses", look_up)
    with pytest.raises(InputError, match="not fetched within"):
        fetch.fetch("http://example.org/schema.ts")
    asked.set()


# -- redirects ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "192.0.0.8", "192.88.99.1", "3fff::1",  # noqa: S104
        "::", "::1", "fe80::1", "fc00::1", "fec0::1", "ff02::1", "::ffff:10.0.0.1", "::10.0.0.1", "64:ff9b::10.0.0.1",
        "64:ff9b:1::10.0.0.1", "2002:0a00:0001::", "2001:0:1::f5ff:fffe", "4000::1", "2130706433", "0x7f.1",
    ],
)  # fmt: skip
def test_no_redirect_leads_into_a_private_network_in_any_spelling(address: str) -> None:
    """Also where IPv6 stands for an IPv4 address: mapped, NAT64, 6to4, Teredo."""
    host = f"[{address}]" if ":" in address else address

    def pieces(_address: str) -> Iterator[bytes]:
        yield f"HTTP/1.1 302 Found\r\nLocation: https://{host}/\r\nContent-Length: 0\r\n\r\n".encode()

    with dripping(pieces) as site, pytest.raises(InputError, match="a private address"):
        fetch.fetch(f"{site.replace('127.0.0.1', 'localhost')}/schema.ts")


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1", "64:ff9b::8.8.8.8"])
def test_the_public_internet_is_none(address: str) -> None:
    assert fetch._is_public(ipaddress.ip_address(address))


# -- secrets -----------------------------------------------------------------------------------------------

SECRET: Final = "s3cr3t"  # noqa: S105


@pytest.mark.parametrize(
    "url",
    [
        f"https://example.org/schema.ts?token={SECRET}",
        f"https://example.org/schema.ts#{SECRET}",
        f"https://example.org?token={SECRET}",
        f"https://{SECRET}@example.org/schema.ts",
        f"https://me:{SECRET}@example.org/schema.ts?token={SECRET}#{SECRET}",
    ],
)
def test_a_url_is_shown_without_secrets(url: str) -> None:
    shown = without_secrets(url)
    assert SECRET not in shown
    assert shown.startswith("https://example.org")


REFUSALS: Final = {
    "404": b"HTTP/1.1 404 No {secret}\r\n\r\n",
    "a web page": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
    "no HTTP": b"{secret} {secret}\r\n\r\n",
    "a redirect to elsewhere": b"HTTP/1.1 302 F\r\nLocation: https://x:{secret}@10.0.0.1/?t={secret}\r\n\r\n",
    "a redirect to ftp": b"HTTP/1.1 302 F\r\nLocation: ftp://example.org/?t={secret}\r\n\r\n",
    "a redirect to nothing": b"HTTP/1.1 302 F\r\nLocation: https://[{secret}\r\n\r\n",
    "an odd port": b"HTTP/1.1 302 F\r\nLocation: http://127.0.0.1:{secret}/\r\n\r\n",
    "a bad length": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{secret}\r\n",
}


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS.keys())
def test_no_error_of_a_download_shows_a_secret(answer: bytes) -> None:
    def pieces(_address: str) -> Iterator[bytes]:
        yield answer.replace(b"{secret}", SECRET.encode())

    with dripping(pieces) as address, pytest.raises(InputError) as caught:
        fetch.fetch(f"{address}/schema.ts?token={SECRET}")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url", [f"https://me:{SECRET}@example.org/schema.ts", f"https://example.org/\n?t={SECRET} x"]
)
def test_no_error_before_a_download_shows_a_secret(url: str) -> None:
    with pytest.raises(InputError) as caught:
        fetch.fetch(url)
    assert SECRET not in str(caught.value)
