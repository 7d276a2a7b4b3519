"""The values that OAuth flows yield and receive: HTTP requests, browser pages and their replies.

A flow is a generator without I/O or clock: `runner` sends its requests, and tests answer from tables. No `repr` shows
secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from mcprev.auth.client.discovery import text
from mcprev.errors import Json
from mcprev.transports.http.urls import printable

if TYPE_CHECKING:
    from mcprev.auth.client.signatures import DpopSigner


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HttpFetch:
    """An HTTP request to send."""

    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes | None = field(default=None, repr=False)
    """The body of a POST; None for a GET."""
    follow: bool = True
    """Whether redirects of a GET are followed; those of a POST never are."""
    purpose: str = "metadata"
    """What is asked for: `metadata`, a `registration` or a `token`."""


@dataclass(frozen=True, slots=True)
class OpenBrowser:
    """A page to open in the user's browser; the flow receives the redirect URL."""

    url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """What a user enters at another machine to log in (RFC 8628): `OAuth(device=...)` gets it."""

    user_code: str = field(repr=False)
    """The code to enter."""
    verification_uri: str
    """The page at which it is entered."""
    verification_uri_complete: str | None = field(default=None, repr=False)
    """The same page with the code in it, such as for a QR code; None if the server has none."""
    expires_in: float = 0.0
    """The seconds for which the code can be entered."""


@dataclass(frozen=True, slots=True)
class ShowCode:
    """A code to show to the user."""

    code: DeviceCode


@dataclass(frozen=True, slots=True)
class Pause:
    """A time to wait, in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class HttpReply:
    """The reply to an `HttpFetch`."""

    status: int
    """The HTTP status; 0 if there was no response."""
    body: bytes = field(default=b"", repr=False)
    why: str = ""
    """The reason why there was no response."""
    nonce: str | None = None
    """The DPoP nonce that the server requires next."""

    @property
    def outcome(self) -> str:
        """The status or the reason, for error messages."""
        return self.why if not self.status else f"HTTP {self.status}"


Step: TypeAlias = HttpFetch | OpenBrowser | ShowCode | Pause
Answer: TypeAlias = HttpReply | str
Flow: TypeAlias = Generator[Step, Answer, T]


Signer: TypeAlias = Callable[[str], str]
"""Returns a signed assertion of this client's identity, for the issuer given."""


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """The keys of a client: one signs assertions, one signs DPoP proofs."""

    signer: Signer | None = None
    dpop_signer: DpopSigner | None = None


NO_KEYS: Final = ClientKeys()


def fetch(request: HttpFetch) -> Flow[HttpReply]:
    """Yield a request and return its reply."""
    reply = yield request
    assert isinstance(reply, HttpReply)
    return reply


def said_by(reply: HttpReply, found: Mapping[str, Json]) -> str:
    """Return the outcome of a failed request with the error that its body names."""
    error, words = text(found, "error"), text(found, "error_description")
    said = ": ".join(printable(part) for part in (error, words) if part is not None)
    return f"{reply.outcome}: {said}" if said else reply.outcome
