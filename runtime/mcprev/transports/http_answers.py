"""Answers to the requests of a client, and what sends those, whoever reads and writes the bytes (HTTP-4, HTTP-31, SEC-6).

`http_pool` has connections of our own, `http_aiohttp` sends with a session of aiohttp's, such as one of the user's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, Protocol

from typing_extensions import override

from mcprev.errors import ConnectionLost, RemoteProtocolError
from mcprev.wire.headers import Pairs

KEEP_ALIVE: Final = 4.0
"""Seconds that a connection is kept for the next request: less than servers do, who close it under a request else."""
UNKNOWN_TYPE: Final = "application/octet-stream"
"""What a body is that has no type (RFC 9110, section 8.3)."""
_SPACE: Final = b" \t"


class Headers(Mapping[str, str]):
    """The headers of an answer, found in any case; one that came more than once is its first."""

    __slots__ = ("_pairs", "found")

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        """Take what came, names in lower case."""
        self._pairs = pairs
        self.found: dict[bytes, bytes] = dict(reversed(pairs))
        """Values as they came, which may have white space around them, by name in lower case."""

    @override
    def __getitem__(self, name: str) -> str:
        return _text(self.found[name.lower().encode()])

    @override
    def __iter__(self) -> Iterator[str]:
        return (_text(name) for name in self.found)

    @override
    def __len__(self) -> int:
        return len(self.found)

    def all(self, name: str) -> list[str]:
        """Every value of a header, in the order they came."""
        key = name.lower().encode()
        return [_text(value) for found, value in self._pairs if found == key]


def _text(value: bytes) -> str:
    return value.strip(_SPACE).decode(errors="surrogateescape")


class Answer:
    """The answer to one request, whose head is there."""

    __slots__ = ("headers", "reason", "status", "url")

    def __init__(self, url: str, status: int, reason: str, headers: Headers) -> None:
        self.url = url
        """What was asked for."""
        self.status = status
        self.reason = reason
        self.headers = headers

    @property
    def content_type(self) -> str:
        """The type of its body, in lower case and without parameters."""
        found = self.headers.found.get(b"content-type")
        return UNKNOWN_TYPE if found is None else _media_type(found)

    @property
    def content_length(self) -> int | None:
        """How many bytes are sent as its body, where that is declared."""
        found = self.headers.found.get(b"content-length", b"").strip(_SPACE)
        return int(found) if found.isdigit() else None

    @property
    def ended(self) -> bool:
        """Whether it is known that nothing of its body is left."""
        return False

    async def read(self, limit: int) -> bytes:
        """The whole body. Raises `RemoteProtocolError` for one of more bytes than the limit, and `ConnectionLost`."""
        raise NotImplementedError

    async def chunk(self) -> bytes:
        """The next bytes of the body; nothing at its end. Raises `ConnectionLost`."""
        raise NotImplementedError

    def release(self) -> None:
        """It is done with: its connection is kept if all of it came. May be called again, as may `close`."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing more of it is wanted: its connection goes, unless it was released before."""
        raise NotImplementedError


@lru_cache(maxsize=64)
def _media_type(value: bytes) -> str:
    return value.partition(b";")[0].strip().lower().decode(errors="replace") or UNKNOWN_TYPE


class Sender(Protocol):
    """Sends requests, for as long as it is not closed."""

    async def send(self, verb: str, url: str, headers: Pairs, body: bytes | None) -> Answer:
        """The answer to a request. Raises `ConnectionLost`, and `LocalProtocolError` for what HTTP cannot carry.

        Redirects are answers. No header is named twice.
        """
        ...

    async def close(self) -> None:
        """Let connections go."""
        ...


def not_connected(url: str, why: object) -> ConnectionLost:
    """There is no connection: nothing was sent."""
    return ConnectionLost(f"cannot connect to {_place(url)}: {why}", in_flight=False, retry_safe=True)


def broken(url: str, why: object) -> ConnectionLost:
    """A connection broke, and nobody knows what of a request arrived."""
    return ConnectionLost(f"the connection to {_place(url)} broke: {why}", in_flight=True, retry_safe=False)


def closed() -> ConnectionLost:
    """Nothing is sent any more."""
    return ConnectionLost("the HTTP session was closed", in_flight=False, retry_safe=True)


def too_large(limit: int) -> RemoteProtocolError:
    """A body has more bytes than are taken."""
    return RemoteProtocolError(f"an answer of more than {limit} bytes")


def _place(url: str) -> str:
    """A URL without its query, in which secrets are found."""
    return url.partition("?")[0]
