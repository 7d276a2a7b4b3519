"""What a request to the MCP endpoint can turn out to be, and the HTTP status of errors (ERR-6, AMB-7; BASE-7; HTTP-6).

`http_classify` finds the verdict; the server carries it out.
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
"""What an answer says where there is no room for a request now: when to try again, in seconds."""
Good: TypeAlias = Request | Notification | Response | ErrorResponse
"""A message that is one."""


@record
class StatelessRequest:
    """For the stateless engine, whatever its `_meta` is like: the engine says what is missing there (MOD-3).

    The headers of a request fit its body. A notification is answered 202 (HTTPM-3).
    """

    message: Request | Notification
    accept: Accept
    """In which formats it may be answered."""


@dataclass(frozen=True, slots=True)
class InitializeRequest:
    """`initialize`, which opens a session."""

    message: Request


@record
class SessionRequest:
    """For a session that lives. What wants no answer (`wants_answer`) gets 202 (HTTP-6, BATCH-4)."""

    message: Good | Batch
    revision: Revision
    accept: Accept = field(default=BOTH, compare=False)
    """In which formats it may be answered."""


@dataclass(frozen=True, slots=True)
class SessionlessRequest:
    """To be served as if its session had been opened before, at this revision; None for `initialize` itself."""

    message: Request | Notification | Batch
    revision: Revision | None


@dataclass(frozen=True, slots=True)
class OpenStream:
    """A session's client opens its standalone stream, or takes up any of its streams again (HTTP-10, HTTP-15)."""

    revision: Revision
    last_event_id: str | None


@dataclass(frozen=True, slots=True)
class DeleteSession:
    """A session's client ends it (HTTP-24)."""

    revision: Revision


@dataclass(frozen=True, slots=True)
class HttpError:
    """An answer without anybody's being asked: a status and a JSON-RPC error."""

    status: int
    error: RpcError
    id: RequestId | None = None
    """The id of the request, where there was one to read (ERR-6)."""
    null_id: bool = False
    """How the body says that there is none (BASE-7)."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """What the answer needs beside its content type."""

    @property
    def body(self) -> bytes:
        """The JSON-RPC error."""
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
    """Whether a message has an answer; what has none is accepted with 202 and no body (HTTP-6, BATCH-4)."""
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
    """The HTTP status of an error of the stateless era (ERR-6, AMB-7); in sessions it is always 200.

    `pre_dispatch` says that no handler was asked. The codes that only the protocol gives a meaning to have their
    status from wherever they come: a handler finds out too that a capability is missing (MOD-6).
    """
    return (_BEFORE if pre_dispatch else _ALWAYS).get(error_code, 200)
