"""The bodies of requests: how large one may be, and how much memory all of them may take (HTTP-31, SEC-6).

Bytes that are received count as they come. Once a body is complete it counts with what parsing makes of it, from
before it is parsed until all that came with it has been served: the request has been answered, the handler of the
notification has returned, the task that a request became has ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from mcprev.errors import InternalError, InvalidRequest, TransportError
from mcprev.protocol.http_request_class import RETRY_LATER, HttpError
from mcprev.wire.bounds import parsed_weight
from mcprev.wire.headers import Headers
from mcprev.wire.jsonrpc import RequestId

MAX_BODY: Final = 4 * 1024 * 1024
"""The default bound of a request's body, in bytes (HTTP-31)."""
MAX_BODIES: Final = 256 * 1024 * 1024
"""The default bound of the bodies of all requests together, in bytes of memory."""
MAX_OPENING: Final = 128 * 1024
"""The bound of an `initialize`, in bytes of memory."""

Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
"""As in ASGI."""


class ClientGone(TransportError):
    """The client hung up before it had said what it wants."""


class BodyBudget:
    """How much memory the bodies of all requests take, in bytes: `held` stays below `limit`."""

    __slots__ = ("held", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def take(self, size: int) -> bool:
        """Hold more; False, and nothing more held, where that is too much."""
        if self.held + size > self.limit:
            return False
        self.held += size
        return True

    def give(self, size: int) -> None:
        """Hold less."""
        self.held -= size

    def refusal(self, share: BodyShare) -> HttpError | None:
        """The refusal of a body with which more is held than may be; whoever made its share releases it."""
        if self.held <= self.limit:
            return None
        return too_much() if share.weight <= self.limit else _too_heavy(share.weight, self.limit)


class BodyShare:
    """What one body takes of the budget; it goes back once everyone who holds it has released it."""

    __slots__ = ("_budget", "_holders", "weight")

    def __init__(self, budget: BodyBudget, body: bytes) -> None:
        """Count a complete body, and hold it."""
        self._budget = budget
        self._holders = 1
        self.weight = parsed_weight(body)
        """In bytes of memory."""
        budget.held += self.weight

    def hold(self) -> None:
        """Something more is served that came with the body."""
        self._holders += 1

    def release(self) -> None:
        """It has been served."""
        self._holders -= 1
        if not self._holders:
            self._budget.held -= self.weight


async def read_body(receive: Receive, headers: Headers, limit: int, budget: BodyBudget) -> bytes | HttpError:
    """Read the body of a request; the refusal where it is over the limit, declared or not (HTTP-31).

    Raises `ClientGone` when the client hangs up. How long a slow client may take is the server's business.
    """
    if declares_too_much(headers, limit):
        return too_large(limit)
    message = await receive()
    chunk = _chunk(message)
    if len(chunk) > limit:
        return too_large(limit)
    if not message.get("more_body", False):
        return chunk
    body = bytearray()
    taken = 0
    try:
        while True:
            if len(body) + len(chunk) > limit:
                return too_large(limit)
            if not budget.take(len(chunk)):
                return too_much()
            taken += len(chunk)
            body += chunk
            if not message.get("more_body", False):
                return bytes(body)
            message = await receive()
            chunk = _chunk(message)
    finally:
        budget.give(taken)


def declares_too_much(headers: Headers, limit: int) -> bool:
    """Whether a request announces a body that is over the limit, so that none of it need be read."""
    declared = headers.values.get(b"content-length", b"").strip()
    return declared.isdigit() and (len(declared) > 18 or int(declared) > limit)


def _chunk(message: Mapping[str, Any]) -> bytes:
    if message["type"] != "http.request":
        raise ClientGone("the client hung up in the middle of a request")
    chunk: bytes = message.get("body", b"")
    return chunk


def too_large(limit: int) -> HttpError:
    """The refusal of a body that is over the limit."""
    why = f"a body of more than {limit} bytes; the server's option max_body allows larger ones"
    return HttpError(413, InvalidRequest(f"Invalid Request: {why}"))


def too_much() -> HttpError:
    """The refusal of a body for which there is no room now."""
    return HttpError(503, InternalError("the server holds too many large requests"), headers=RETRY_LATER)


def opening_refusal(share: BodyShare | None, request_id: RequestId) -> HttpError | None:
    """The refusal of an `initialize` that is too large: what its client says of itself lasts as long as the session."""
    if share is None or share.weight <= MAX_OPENING:
        return None
    why = f"parsed, initialize takes more than {MAX_OPENING} bytes of memory: say less about the client"
    return HttpError(413, InvalidRequest(f"Invalid Request: {why}"), request_id)


def _too_heavy(weight: int, limit: int) -> HttpError:
    """The refusal of a body for which there is never room."""
    why = (
        f"parsed, the body takes about {weight} bytes of memory, more than all bodies together may take ({limit}); "
        "the server's option max_bodies allows more"
    )
    return HttpError(413, InvalidRequest(f"Invalid Request: {why}"))
