"""Limits for request bodies: the size of one, and the memory of all together (HTTP-31, SEC-6).

Received bytes count as they arrive. A complete body counts with the memory that its parsed form takes, from before it
is parsed until everything in it is done: the response is sent, the notification's handler has returned, the task that
the request became has ended.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from mcprev.core.shares import free_of, share_of
from mcprev.errors import InternalError, InvalidRequest, TransportError
from mcprev.protocol.http_request_class import RETRY_LATER, HttpError
from mcprev.wire.bounds import NO_STRUCTURE, few_marks, without_strings
from mcprev.wire.headers import Headers
from mcprev.wire.jsonrpc import RequestId

MAX_BODY: Final = 4 * 1024 * 1024
"""The default limit of a request body, in bytes."""  # HTTP-31
MAX_VALUES: Final = 120_000
"""The default limit of the JSON values of a request body: more take too long to parse and check at once."""  # SEC-6
MAX_BODIES: Final = 256 * 1024 * 1024
"""The default limit of all request bodies together, in bytes of memory."""
MAX_OPENING: Final = 128 * 1024
"""The limit of an `initialize` request, in bytes of memory."""


SMALL: Final = 64 * 1024
"""Texts of fewer bytes are weighed without removing their strings; punctuation inside strings counts too."""
LOOSE: Final = 4
"""A text of more than `MAX_OPENING` bytes is weighed roughly while there is much room: in the same way, unless it then
weighs so many times its characters; with few marks, each byte as so many, which is what the widest character takes.
"""
_NO_MARKS: Final = bytes(set(range(256)).difference(b'",:[{'))
_BACKSLASH: Final = ord("\\")
_ESCAPE: Final = re.compile(rb"\\u")
_HALF: Final = re.compile(rb"\\u[dD]")
"""One of the two escapes of a character that takes four bytes. Both are found faster than with `in`."""
_ARRAY: Final = 72
_OBJECT: Final = 96
_KEY: Final = 40
_STRING_HEAD: Final = 48
_ITEM: Final = 40
"""One slot in a list or in the table of a dict, and a number in it."""


COUNTED: Final = 16 * 1024
"""The least weight of a body that is counted for its client, in bytes of memory."""


class HasClient(Protocol):
    """A request whose client is known."""

    @property
    def client(self) -> str | None:
        """The principal, else the network address; None if neither is known."""
        ...


class ClientGone(TransportError):
    """The client disconnected before its request was complete."""


class BodyBudget:
    """Counts the memory of all request bodies in bytes: `held` never exceeds `limit`.

    A client may use all but an eighth of it, and of the last eighth what is left of its share. For that, bodies of
    `COUNTED` bytes are counted for their client; smaller ones are too few to fill the budget, as the number of
    requests is bounded.
    """

    __slots__ = ("by", "each", "free", "held", "limit")

    def __init__(self, limit: int) -> None:
        self.limit: int = limit
        self.free: int = free_of(limit)
        self.each: int = share_of(limit)
        self.held: int = 0
        self.by: dict[str, int] = {}
        """What clients hold, of parts of bodies and of bodies that are counted."""

    def take(self, size: int, client: str | None = None) -> bool:
        """Reserve memory; return False and reserve nothing if it would exceed the limit or the share of the client."""
        if not self.fits(size, client):
            return False
        self.held += size
        if client is not None:
            self.count(size, client)
        return True

    def give(self, size: int, client: str | None) -> None:
        """Give back what `take` has reserved."""
        self.held -= size
        if client is not None:
            self.count(-size, client)

    def fits(self, size: int, client: str | None) -> bool:
        """Return whether a client may hold so many bytes more."""
        total = self.held + size
        if total <= self.free or client is None:
            return total <= self.limit
        return total <= self.limit and self.by.get(client, 0) + size <= self.each

    def count(self, size: int, client: str) -> None:
        """Add to what a client holds."""
        left = self.by.get(client, 0) + size
        if left:
            self.by[client] = left
        else:
            self.by.pop(client, None)

    def refusal(self, share: BodyShare) -> HttpError | None:
        """Return the error response for a body that exceeds the budget; the creator of the share releases it."""
        client = share.client
        beyond = self.held > self.free and client is not None and self.by.get(client, 0) > self.each
        if self.held <= self.limit and not beyond:
            return None
        most = self.limit if client is None else self.free
        return too_much() if share.weight <= most else _too_heavy(share.weight, most)


class BodyShare:
    """The memory of one body; it is released when every holder has released it."""

    __slots__ = ("_budget", "_holders", "client", "weight")

    def __init__(self, budget: BodyBudget, body: bytes, http_request: HasClient | None = None) -> None:
        """Reserve memory for a complete body of a request."""
        self._budget = budget
        self.client: str | None = None
        """The client for which it is counted; None for a small one."""
        self._holders = 1
        self.weight: int = parsed_weight(body, LOOSE)
        """The size, in bytes of memory."""
        if LOOSE * (budget.held + self.weight) > budget.limit:
            self.weight = parsed_weight(body)  # too high an estimate must refuse no body
        budget.held += self.weight
        if self.weight >= COUNTED and http_request is not None and http_request.client is not None:
            self.client = http_request.client
            budget.count(self.weight, self.client)

    def hold(self) -> None:
        """Add a holder: another message of the body is being served."""
        self._holders += 1

    def release(self) -> None:
        """Remove a holder: a message of the body is done."""
        self._holders -= 1
        if not self._holders:
            self._budget.held -= self.weight
            if self.client is not None:
                self._budget.count(-self.weight, self.client)


def declares_too_much(headers: Headers, limit: int) -> bool:
    """Return whether the declared length exceeds the limit, so that the body need not be read."""
    declared = headers.get(b"content-length", b"")
    return declared.isdigit() and (len(declared) > 18 or int(declared) > limit)


def too_large(limit: int) -> HttpError:
    """Return the error response for a body over the limit."""
    why = f"a body of more than {limit} bytes; the server's option max_body allows larger ones"
    return HttpError(413, InvalidRequest(f"Invalid Request: {why}"))


def too_much() -> HttpError:
    """Return the error response for a body that does not fit into the budget at the moment."""
    return HttpError(
        503,
        InternalError("the server is processing too many large requests; try again later"),
        headers=RETRY_LATER,
    )


def opening_refusal(share: BodyShare | None, request_id: RequestId) -> HttpError | None:
    """Return the error response for an `initialize` that is too large, because a session keeps its params."""
    if share is None or share.weight <= MAX_OPENING:
        return None
    why = f"parsed, initialize takes more than {MAX_OPENING} bytes of memory: say less about the client"
    return HttpError(413, InvalidRequest(f"Invalid Request: {why}"), request_id)


def _too_heavy(weight: int, limit: int) -> HttpError:
    """Return the error response for a body that exceeds the whole budget."""
    why = (
        f"parsed, the body takes about {weight} bytes of memory, more than the bodies of a client may take ({limit}); "
        "the server's option max_bodies allows more"
    )
    return HttpError(413, InvalidRequest(f"Invalid Request: {why}"))


def parsed_weight(data: bytes | bytearray, loose: int = 1) -> int:
    """Estimate the memory in bytes of the objects that parsing a JSON text creates, without the text itself.

    It may be up to `loose` times as high for a large text, which takes less time.
    The estimate is for the worst case. Small or repeated values share objects and may take as little as a fifth of it.
    Bytes that are not JSON get an estimate too; they raise no error.
    """
    few = few_marks(data) if len(data) > MAX_OPENING else None
    width = loose if few is not None else 1
    if width == 1 and not (data.isascii() and _BACKSLASH not in data):
        width = _character_width(data)  # takes half as long as to parse a text with escapes
    if few is not None:
        return len(data) * width + (few + 1) * _OBJECT  # at most: no mark takes more memory
    exact = len(data) < SMALL
    text = data if exact else data.translate(None, _NO_MARKS)
    while True:
        strings, arrays, objects = text.count(b'"') // 2, text.count(b"["), text.count(b"{")
        keys, commas = text.count(b":"), text.count(b",")
        weight = (
            len(data) * width + strings * _STRING_HEAD + arrays * _ARRAY + objects * _OBJECT + keys * _KEY
            + (commas + 1) * _ITEM
        )  # fmt: skip
        if exact or (len(data) > MAX_OPENING and weight <= loose * len(data) * width):
            return weight
        text, exact = without_strings(data.translate(None, NO_STRUCTURE)), True


def _character_width(data: bytes | bytearray) -> int:
    """Return the maximum memory of one character, in bytes per byte of text."""
    if data.isascii() and not _ESCAPE.search(data):
        return 1
    return 4 if any(lead in data for lead in b"\xf0\xf1\xf2\xf3\xf4") or _HALF.search(data) else 2
