"""The classes of requests to the MCP endpoint, and the HTTP status of errors (ERR-6, AMB-7; BASE-7; HTTP-6).

`http_classify` returns one of the classes; the server acts on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from mcprev.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    RpcError,
)
from mcprev.revisions import Revision
from mcprev.wire.jsonrpc import (
    Batch,
    ErrorResponse,
    Malformed,
    Notification,
    Request,
    RequestId,
    Response,
    encode_error,
    record,
)
from mcprev.wire.media import BOTH, Accept

RETRY_LATER: Final = ((b"retry-after", b"10"),)
"""The header of a response that refuses a request for lack of capacity: when to try again, in seconds."""
Good: TypeAlias = Request | Notification | Response | ErrorResponse
"""A well-formed message."""


@record
class StatelessRequest:
    """A request for the stateless engine, which checks its `_meta`.

    The headers match the body. A notification is answered with 202.
    """  # MOD-3, HTTPM-3

    message: Request | Notification
    accept: Accept
    """The formats that the client accepts."""


@dataclass(frozen=True, slots=True)
class InitializeRequest:
    """`initialize`, which opens a session."""

    message: Request


@record
class SessionRequest:
    """A message in an open session. One without response (`wants_answer`) gets 202."""  # HTTP-6, BATCH-4

    message: Good | Batch
    revision: Revision
    accept: Accept = field(default=BOTH, compare=False)
    """The formats that the client accepts."""


@dataclass(frozen=True, slots=True)
class SessionlessRequest:
    """A message that is served as if its session were open at this revision; None for `initialize` itself."""

    message: Request | Notification | Batch
    revision: Revision | None


@dataclass(frozen=True, slots=True)
class OpenStream:
    """The client opens the standalone stream of its session, or resumes one of its streams."""  # HTTP-10, HTTP-15

    revision: Revision
    last_event_id: str | None


@dataclass(frozen=True, slots=True)
class DeleteSession:
    """The client deletes its session."""  # HTTP-24

    revision: Revision


@dataclass(frozen=True, slots=True)
class HttpError:
    """An immediate error response: an HTTP status and a JSON-RPC error."""

    status: int
    error: RpcError
    id: RequestId | None = None
    """The id of the request, if it is known."""  # ERR-6
    null_id: bool = False
    """Whether the body has `"id": null` if there is no id."""  # BASE-7
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers besides the content type."""

    @property
    def body(self) -> bytes:
        """The encoded JSON-RPC error."""
        return encode_error(self.id, self.error.to_wire(), null_id=self.null_id)


RequestClass: TypeAlias = (
    StatelessRequest
    | InitializeRequest
    | SessionRequest
    | SessionlessRequest
    | OpenStream
    | DeleteSession
    | HttpError
)


def wants_answer(message: Good | Batch) -> bool:
    """Return whether a message gets a response; others are accepted with 202 and no body."""  # HTTP-6, BATCH-4
    if isinstance(message, Batch):
        return any(
            isinstance(member, Request) or (isinstance(member, Malformed) and member.answer is not None)
            for member in message.messages
        )
    return isinstance(message, Request)


_ALWAYS: Final[Mapping[int, int]] = {
    HEADER_MISMATCH: 400,
    MISSING_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_PROTOCOL_VERSION: 400,
}
_BEFORE: Final[Mapping[int, int]] = {
    **_ALWAYS,
    METHOD_NOT_FOUND: 404,
    INVALID_PARAMS: 400,
    INVALID_REQUEST: 400,
    PARSE_ERROR: 400,
}


def status_of(error_code: int, *, pre_dispatch: bool) -> int:
    """Return the HTTP status of an error of the stateless era; in sessions it is always 200.

    `pre_dispatch` says that no handler was called. Protocol-level codes have their status wherever they are raised: a
    handler too may find that a capability is missing.
    """  # ERR-6, AMB-7, MOD-6
    return (_BEFORE if pre_dispatch else _ALWAYS).get(error_code, 200)
