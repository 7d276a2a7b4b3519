"""What the flows of OAuth yield and are given: requests, pages for a user, and their answers.

A flow is a generator. Nothing is sent here, and no time passes: `courier` carries the requests out, and tests give the
answers from tables. Secrets are in no `repr`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias, TypeVar

from mcprev.errors import Json
from mcprev.transports.http.client.oauth.discovery import shown, text

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HttpFetch:
    """A request to send."""

    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes | None = field(default=None, repr=False)
    """What to post; None for a GET."""


@dataclass(frozen=True, slots=True)
class OpenBrowser:
    """A page for the user's browser; the answer is the URL that it was sent back to."""

    url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class HttpReply:
    """The answer to a request."""

    status: int
    """Zero where there was none."""
    body: bytes = field(default=b"", repr=False)
    why: str = ""
    """What went wrong where there was none."""
    nonce: str | None = None
    """What the server wants to see in the next proof."""

    @property
    def outcome(self) -> str:
        """What came of it, in words."""
        return self.why if not self.status else f"HTTP {self.status}"


Step: TypeAlias = HttpFetch | OpenBrowser
Answer: TypeAlias = HttpReply | str
Flow: TypeAlias = Generator[Step, Answer, T]


class DpopSigner(Protocol):
    """Proves that a token is used by whom it was given to."""

    def prove(self, verb: str, url: str, token: str | None = None) -> str:
        """The proof for one request, and for the token that it shows."""
        ...

    def learn(self, url: str, nonce: str) -> None:
        """A server wants this nonce from now on."""
        ...


Signer: TypeAlias = Callable[[str], str]
"""Makes an assertion of who this client is, for the issuer that is to read it."""


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """The keys that a client has, and what it does with them."""

    signer: Signer | None = None
    dpop_signer: DpopSigner | None = None


NO_MEANS: Final = ClientKeys()


def fetch(request: HttpFetch) -> Flow[HttpReply]:
    """Send a request and have its answer."""
    reply = yield request
    assert isinstance(reply, HttpReply)
    return reply


def said_by(reply: HttpReply, found: Mapping[str, Json]) -> str:
    """What an endpoint said when it refused."""
    error, words = text(found, "error"), text(found, "error_description")
    said = ": ".join(shown(part) for part in (error, words) if part is not None)
    return f"{reply.outcome}: {said}" if said else reply.outcome
