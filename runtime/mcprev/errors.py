"""Every error the runtime raises, one class for each way a caller may react (ERR-*).

McpError
├── RpcError                      a JSON-RPC error: what the peer answered, or what a handler wants answered
│   ├── InvalidRequest            -32600
│   ├── MethodNotFound            -32601
│   ├── InvalidParams             -32602
│   ├── InternalError             -32603
│   ├── ResourceNotFound          -32002, or -32602 where the revision has no code of its own for it
│   ├── HeaderMismatch            -32020
│   ├── MissingClientCapability   -32021, with the capabilities that are required
│   ├── UnsupportedProtocolVersion  -32022, with both sides' versions
│   ├── UrlElicitationRequired    -32042
│   └── UnknownRpcError           any other code
├── ProtocolError                 a rule of the protocol was broken
│   ├── LocalProtocolError        by this side: misuse of the API, an undeclared capability, a wrong state
│   └── RemoteProtocolError       by the peer; carries what it sent
│       └── EventTooLarge         an event of a stream that is over the limit
├── NegotiationError              no revision both sides speak; carries both lists and the evidence
├── TransportError                bytes could not be moved
│   ├── HttpStatusError           an HTTP answer that is no message; carries its status and the start of its body
│   ├── ConnectionLost            says whether requests were in flight and whether a retry is safe
│   ├── Unanswered                a stream ended well, but without the answer
│   ├── ProcessExited             a server process ended; carries its exit code and the end of its stderr
│   └── SessionExpired            the server knows the session no longer; clients open another one by themselves
├── AuthError                     no authorization was got over HTTP
│   ├── DiscoveryFailed           it was not found out who gives it; carries the URLs that were tried
│   ├── RegistrationRejected      this client is not known there, and cannot make itself known
│   ├── IssuerMismatch            an answer comes from another authorization server than it should
│   ├── AuthorizationDenied       the user, or the authorization server, said no
│   ├── InsufficientScope         it does not reach as far as the request needs; carries the scopes
│   └── TokenRejected             no token is given, or one that was just given is refused
├── RequestTimeout                a wait reached its bound; says which and how long it took
├── MissingExtra                  a library is needed that is not installed; says which extra has it
├── ToolError                     a tool failed in a way that the model should be told of, and is told
├── InputDeclined                 the user or a callback declined what a server asked for
├── TaskCancelled                 a task was given up before it came to a result
├── SchemaError                   a JSON Schema cannot be used: its dialect, its size, where it refers to
├── RevisionError                 the revision table, a generated package or a step is not complete
│   └── UndecidedStep             a conversion step leaves something open; carries the file to write
└── ConversionError               a value cannot be expressed at a revision; carries the JSON path

What happens here (a timeout, a lost connection) is never dressed as a JSON-RPC code, which could be taken for
the peer's (ERR-5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias, cast

Json: TypeAlias = Any
"""A decoded JSON value."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002
HEADER_MISMATCH: Final = -32020
MISSING_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_PROTOCOL_VERSION: Final = -32022
URL_ELICITATION_REQUIRED: Final = -32042
USER_REJECTED: Final = -1

INTERNAL_MESSAGE: Final = "Internal error"
"""All a peer learns of an exception it did not cause (ERR-1)."""


class McpError(Exception):
    """The root of everything the runtime raises."""


class RpcError(McpError):
    """A JSON-RPC error, raised by a call that was answered with one or by a handler that answers with one."""

    CODE: ClassVar[int] = INTERNAL_ERROR

    def __init__(self, message: str, *, data: Json = None, code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = self.CODE if code is None else code
        self.data = data
        self.http_status: int | None = None
        """The HTTP status that it came with, where it was the answer to a POST that failed."""

    def to_wire(self) -> dict[str, Json]:
        """The `error` member of a response."""
        error: dict[str, Json] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return error

    @staticmethod
    def from_wire(error: Mapping[str, Json]) -> RpcError:
        """The exception for an `error` member that a peer sent; it must hold a code and a message."""
        code, message, data = int(error["code"]), str(error["message"]), error.get("data")
        if code == INVALID_PARAMS and _member(data, "uri") is not None:
            return ResourceNotFound(message, data=data, code=code)
        return _BY_CODE.get(code, UnknownRpcError)(message, data=data, code=code)


def _member(data: object, name: str) -> object:
    """A member of an error's data, which is whatever the peer sent."""
    return cast("Mapping[str, object]", data).get(name) if isinstance(data, Mapping) else None


class InvalidRequest(RpcError):
    """The message is no request that could be served in this state."""

    CODE = INVALID_REQUEST


class MethodNotFound(RpcError):
    """The peer does not serve the method."""

    CODE = METHOD_NOT_FOUND


class InvalidParams(RpcError):
    """The method exists, its parameters do not fit."""

    CODE = INVALID_PARAMS


class InternalError(RpcError):
    """The peer failed for a reason of its own."""

    CODE = INTERNAL_ERROR


class ResourceNotFound(RpcError):
    """There is no resource at the URI; its code depends on the revision (ERR-2)."""

    CODE = RESOURCE_NOT_FOUND


class HeaderMismatch(RpcError):
    """HTTP headers and body of a request disagree."""

    CODE = HEADER_MISMATCH


class MissingClientCapability(RpcError):
    """The request needs a capability that the client did not declare (MOD-6)."""

    CODE = MISSING_CLIENT_CAPABILITY

    @property
    def required(self) -> Mapping[str, Json]:
        """The capabilities, in the shape of ClientCapabilities."""
        value = _member(self.data, "requiredCapabilities")
        return cast("Mapping[str, Json]", value) if isinstance(value, Mapping) else {}


class UnsupportedProtocolVersion(RpcError):
    """The server does not speak the revision of the request (MOD-4)."""

    CODE = UNSUPPORTED_PROTOCOL_VERSION

    @property
    def supported(self) -> tuple[str, ...]:
        """The versions the server names."""
        names = _member(self.data, "supported")
        return (
            tuple(n for n in cast("list[object]", names) if isinstance(n, str))
            if isinstance(names, list)
            else ()
        )


class UrlElicitationRequired(RpcError):
    """The user has to visit a URL first (ERR-3)."""

    CODE = URL_ELICITATION_REQUIRED


class UnknownRpcError(RpcError):
    """A code this runtime gives no meaning to (ERR-4)."""


class ProtocolError(McpError):
    """A rule of the protocol was broken."""


class LocalProtocolError(ProtocolError):
    """This side asked for something it may not send here; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something it may not send."""

    def __init__(self, message: str, *, raw: Json = None) -> None:
        super().__init__(message)
        self.raw = raw


class EventTooLarge(RemoteProtocolError):
    """The peer sent an event that is over the limit; nothing that follows on its stream can be read (SEC-6)."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"an event of more than {limit} bytes")
        self.limit = limit


class NegotiationError(McpError):
    """No common revision was found."""

    def __init__(
        self, message: str, *, ours: Sequence[str], theirs: Sequence[str], evidence: Sequence[str]
    ) -> None:
        lines = [message, f"  this side allows: {', '.join(ours) or 'nothing'}"]
        lines.append(f"  the peer offers: {', '.join(theirs) or 'unknown'}")
        super().__init__("\n".join([*lines, *(f"  {step}" for step in evidence)]))
        self.ours = tuple(ours)
        self.theirs = tuple(theirs)
        self.evidence = tuple(evidence)


class TransportError(McpError):
    """Bytes could not be moved."""


class HttpStatusError(TransportError):
    """An HTTP server answered with something that is no JSON-RPC message (ERR-7)."""

    def __init__(
        self, message: str, *, status: int, body: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = body
        """The beginning of the body, as text fit to be shown."""
        self.headers: Mapping[str, str] = {} if headers is None else headers
        """The headers of the answer; names are found in any case."""


class ConnectionLost(TransportError):
    """The connection ended."""

    def __init__(self, message: str, *, in_flight: bool, retry_safe: bool) -> None:
        super().__init__(message)
        self.in_flight = in_flight
        """Whether the request had left this side."""
        self.retry_safe = retry_safe
        """Whether sending it again cannot do its work twice."""


class Unanswered(ConnectionLost):
    """A stream ended as streams do, but without the answer that it was for."""


class ProcessExited(ConnectionLost):
    """The server's process ended, or could not be started at all."""

    def __init__(self, message: str, *, returncode: int | None, stderr: str, in_flight: bool = False) -> None:
        shown = f"{message}\n{stderr}".rstrip()
        super().__init__(shown, in_flight=in_flight, retry_safe=not in_flight)
        self.returncode = returncode
        self.stderr = stderr
        """The end of what it wrote to stderr."""


class SessionExpired(ConnectionLost):
    """The server does not know the session any more, and has not looked at the request (HTTP-23)."""

    def __init__(
        self, message: str = "the session has expired", *, in_flight: bool = True, retry_safe: bool = True
    ) -> None:
        super().__init__(message, in_flight=in_flight, retry_safe=retry_safe)


class AuthError(McpError):
    """A server wants authorization, and there is none to be had; the text says where it failed and what to do."""


class DiscoveryFailed(AuthError):
    """Who authorizes clients of the server was not found out, or cannot be used (AUTH-3..AUTH-8)."""

    def __init__(self, message: str, *, tried: Sequence[str] = ()) -> None:
        super().__init__("\n  ".join([message, *tried]))
        self.tried = tuple(tried)
        """A line for each URL that was asked: the URL, and what came of it."""


class RegistrationRejected(AuthError):
    """The authorization server does not know this client, and does not take it in (AUTH-12, AUTH-13)."""


class IssuerMismatch(AuthError):
    """Something that should be of one authorization server is of another; it was not used (AUTH-7, 14, 15)."""


class AuthorizationDenied(AuthError):
    """The user declined, or the authorization server did; `error` is its code."""

    def __init__(self, message: str, *, error: str) -> None:
        super().__init__(message)
        self.error = error


class InsufficientScope(AuthError):
    """The request needs scopes that were asked for and not given, or that cannot be asked for (AUTH-17)."""

    def __init__(self, message: str, *, required: Sequence[str], requested: Sequence[str]) -> None:
        super().__init__(message)
        self.required = tuple(required)
        self.requested = tuple(requested)


class TokenRejected(AuthError):
    """No token was given, or the server refuses one that was just given (AUTH-22); `error` is the code, if any."""

    def __init__(self, message: str, *, error: str = "") -> None:
        super().__init__(message)
        self.error = error


class RequestTimeout(McpError):
    """A wait reached its bound."""

    def __init__(self, message: str, *, elapsed: float, kind: str) -> None:
        super().__init__(message)
        self.elapsed = elapsed
        """Seconds since the request was sent."""
        self.kind = kind
        """`idle` when nothing came for too long, `total` when the whole took too long."""


class MissingExtra(McpError, ImportError):
    """Something needs a library that is not installed."""

    def __init__(self, what: str, library: str, extra: str) -> None:
        super().__init__(f"{what} needs {library}; install mcprev[{extra}]")
        self.extra = extra


class ToolError(McpError):
    """Raised by the function of a tool (`App.tool`) that failed: the model is told the text (TOOL-8)."""


class InputDeclined(McpError):
    """What the server asked for was declined, so the call cannot go on (MRTR-10)."""


class TaskCancelled(McpError):
    """A task was given up before it came to a result (TASK-5)."""


class SchemaError(McpError):
    """A JSON Schema cannot be used here; the text says why and what to do (JSCH-1..3)."""


class RevisionError(McpError):
    """The revision table, a generated package or a step is not complete; the message says what to write."""


class UndecidedStep(RevisionError):
    """A step between two revisions is missing, or leaves open what the generated deltas cannot decide."""

    def __init__(
        self, message: str, *, file: str, line: int | None = None, members: Sequence[str] = ()
    ) -> None:
        place = file if line is None else f"{file}:{line}"
        listed = "".join(f"\n  {member}" for member in members)
        super().__init__(f"{message}: write {place}{listed}")
        self.file = file
        """The module to write."""
        self.line = line
        self.members = tuple(members)
        """What is open, each as `Type.member`, or with the place of its entry."""


class ConversionError(McpError):
    """A value has no form at a revision."""

    def __init__(self, message: str, *, path: str, revision: str) -> None:
        super().__init__(f"{message} (at {path}, for {revision})")
        self.path = path
        self.revision = revision


_BY_CODE: Final[Mapping[int, type[RpcError]]] = {
    cls.CODE: cls
    for cls in (
        InvalidRequest, MethodNotFound, InvalidParams, InternalError, ResourceNotFound, HeaderMismatch,
        MissingClientCapability, UnsupportedProtocolVersion, UrlElicitationRequired,
    )
}  # fmt: skip
