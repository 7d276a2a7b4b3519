"""The errors that the runtime raises, one class for each way a caller may react.

Requirements: ERR-1 to ERR-7; MOD-4, MOD-6, SEC-6, HTTP-23, AUTH-3 to 8, 12 to 15, 17, 22, TOOL-8, MRTR-10, TASK-5, JSCH-1 to 3.

McpError
├── RpcError                      a JSON-RPC error: the peer's answer to a call, or the answer that a handler raises
│   ├── InvalidRequest            -32600
│   ├── MethodNotFound            -32601
│   ├── InvalidParams             -32602
│   ├── InternalError             -32603
│   │   └── WorkerLost            the process that served the request has ended; says whether the request may have run
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
├── TransportError                sending or receiving failed
│   ├── HttpStatusError           an HTTP answer that is no message; carries its status and the start of its body
│   └── ConnectionLost            says whether requests were in flight and whether a retry is safe
│       ├── StreamEnded           a response stream ended without the response
│       ├── ProcessExited         a server process ended; carries its exit code and the end of its stderr
│       └── SessionExpired        the server knows the session no longer; clients open another one by themselves
├── AuthError                     authorization over HTTP failed; the message says where, and what to do
│   ├── DiscoveryFailed           no usable authorization server was found; carries the URLs that were tried
│   ├── RegistrationRejected      the authorization server does not know this client and does not register it
│   ├── IssuerMismatch            metadata or a response names another authorization server than expected
│   ├── AuthorizationDenied       the user or the authorization server declined
│   ├── InsufficientScope         the token lacks scopes that the request needs; carries them
│   └── TokenRejected             no token was issued, or the server refused a request without a token or with this one
├── RequestTimeout                no response in time; says which limit was reached, and after how long
├── MissingExtra                  a library is not installed; says which extra installs it
├── ToolError                     a tool failed; the model gets the text
├── ServersFailed                 some of several servers cannot be reached; carries the error of each by name
├── InputDeclined                 the user or a callback declined input that a server asked for
├── TaskCancelled                 a task was cancelled before it had a result
├── StoreError                    a store cannot be reached, or has no room
│   └── StoreShareError           a store has no room for more of one client
├── StateTooLarge                 a value does not fit into the state of a session
├── SchemaError                   a JSON Schema cannot be used: its dialect, its size, its references
├── RevisionError                 the revision table, a generated package or a step is not complete
│   └── UndecidedStep             a conversion step is incomplete; carries the file to write
└── ConversionError               a value cannot be expressed at a revision; carries the JSON path

Local failures (a timeout, a lost connection) never become an `RpcError`: its codes are those that the peer sent.
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

WORKER_LOST: Final = "worker_lost"
"""The `reason` in the data of the error of a request whose process has ended."""
INTERNAL_MESSAGE: Final = "Internal error"
"""The message that a peer gets for an exception that it did not cause."""  # ERR-1
_MOST: Final = 500


class McpError(Exception):
    """The base class of the errors that the runtime raises."""

    retry_after: float | None = None
    """Seconds after which to try again, if the server responded that it cannot serve any request now (HTTP 503); else None."""


class RpcError(McpError):
    """A JSON-RPC error. A call raises it if the peer responds with an error; a handler raises it to respond with one.

    It has the attributes `message`, `code` and `data`, which is JSON or None.
    """

    CODE: ClassVar[int] = INTERNAL_ERROR
    """The JSON-RPC error code of the class."""

    def __init__(self, message: str, *, data: Json = None, code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code: int = self.CODE if code is None else code
        self.data = data
        self.http_status: int | None = None
        """The HTTP status of the response that carried the error, if an HTTP request failed with it; otherwise None."""
        self.raw: Mapping[str, Json] | None = None
        """The `error` member as the peer sent it; None for an error of this side."""

    def to_wire(self) -> dict[str, Json]:
        """Return the `error` member of a response."""
        error: dict[str, Json] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return error

    @staticmethod
    def from_wire(error: Mapping[str, Json]) -> RpcError:
        """Return the exception for an `error` member that a peer sent; without a valid code it is an internal error."""
        code, message, data = error.get("code"), error.get("message"), error.get("data")
        if isinstance(code, bool) or not isinstance(code, int | float) or code != code // 1:
            code = INTERNAL_ERROR
        code = int(code)
        message = message if isinstance(message, str) else "an error without a message"
        found = _BY_CODE.get(code, UnknownRpcError)
        if code == INVALID_PARAMS and _member(data, "uri") is not None:
            found = ResourceNotFound
        elif code == INTERNAL_ERROR and _member(data, "reason") == WORKER_LOST:
            found = WorkerLost
        made = found(message, data=data, code=code)
        made.raw = error
        return made


def _member(data: object, name: str) -> object:
    """A member of an error's data, which is whatever the peer sent."""
    return cast("Mapping[str, object]", data).get(name) if isinstance(data, Mapping) else None


class InvalidRequest(RpcError):
    """The message is not a valid request, or cannot be served in this state."""

    CODE: ClassVar[int] = INVALID_REQUEST


class MethodNotFound(RpcError):
    """The peer does not serve the method."""

    CODE: ClassVar[int] = METHOD_NOT_FOUND


class InvalidParams(RpcError):
    """The method exists, but its params are not valid."""

    CODE: ClassVar[int] = INVALID_PARAMS


class InternalError(RpcError):
    """The peer failed while it served the request, for instance with an exception of a handler."""

    CODE: ClassVar[int] = INTERNAL_ERROR


class WorkerLost(InternalError):
    """The server process that served the request ended before its response; others, if any, go on with its session."""

    @property
    def may_have_run(self) -> bool:
        """Whether the request may have run, in part or completely."""
        return _member(self.data, "mayHaveRun") is not False


class ResourceNotFound(RpcError):
    """There is no resource at the URI. The code on the wire depends on the revision; a call raises this class at every one."""

    CODE: ClassVar[int] = RESOURCE_NOT_FOUND


class HeaderMismatch(RpcError):
    """HTTP headers and body of a request disagree."""

    CODE: ClassVar[int] = HEADER_MISMATCH


class MissingClientCapability(RpcError):
    """The request requires a capability that the client did not declare."""

    CODE: ClassVar[int] = MISSING_CLIENT_CAPABILITY

    @property
    def required(self) -> Mapping[str, Json]:
        """The missing capabilities, as JSON of `ClientCapabilities`."""
        value = _member(self.data, "requiredCapabilities")
        return cast("Mapping[str, Json]", value) if isinstance(value, Mapping) else {}


class UnsupportedProtocolVersion(RpcError):
    """The server does not speak the revision of the request."""

    CODE: ClassVar[int] = UNSUPPORTED_PROTOCOL_VERSION

    @property
    def supported(self) -> tuple[str, ...]:
        """The revisions that the server supports."""
        names = _member(self.data, "supported")
        return (
            tuple(n for n in cast("list[object]", names) if isinstance(n, str))
            if isinstance(names, list)
            else ()
        )


class UrlElicitationRequired(RpcError):
    """The user must visit a URL before the server serves the request; `data` contains the URLs."""

    CODE: ClassVar[int] = URL_ELICITATION_REQUIRED


class UnknownRpcError(RpcError):
    """An error with a code that has no class of its own."""


class ProtocolError(McpError):
    """One side broke a rule of the protocol."""


class LocalProtocolError(ProtocolError):
    """The caller used the API in a way that the protocol does not allow here; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer sent a message that the protocol does not allow; `raw` is its JSON, or None."""

    def __init__(self, message: str, *, raw: Json = None) -> None:
        super().__init__(message)
        self.raw = raw


class EventTooLarge(RemoteProtocolError):
    """The peer sent an event larger than `limit` bytes; the rest of its stream cannot be read."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"an event of more than {limit} bytes")
        self.limit = limit


class NegotiationError(McpError):
    """Client and server have no revision in common.

    `ours` and `theirs` are the names of each side's revisions; `evidence` lists the steps that were tried.
    """

    def __init__(
        self, message: str, *, ours: Sequence[str], theirs: Sequence[str], evidence: Sequence[str]
    ) -> None:
        lines = [message, f"  this side allows: {', '.join(ours) or 'nothing'}"]
        lines.append(f"  the peer offers: {', '.join(theirs) or 'unknown'}")
        super().__init__("\n".join([*lines, *(f"  {step}" for step in evidence)]))
        self.ours: tuple[str, ...] = tuple(ours)
        self.theirs: tuple[str, ...] = tuple(theirs)
        self.evidence: tuple[str, ...] = tuple(evidence)


class TransportError(McpError):
    """Sending or receiving failed: the server cannot be reached, or the connection broke."""


class HttpStatusError(TransportError):
    """An HTTP server answered with a response that is not a JSON-RPC message; `status` is its HTTP status."""

    def __init__(
        self, message: str, *, status: int, body: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = body
        """The beginning of the body, as printable text."""
        self.headers: Mapping[str, str] = {} if headers is None else headers
        """The headers of the response; names are case-insensitive."""


class ConnectionLost(TransportError):
    """The connection ended before the response."""

    def __init__(self, message: str, *, in_flight: bool, retry_safe: bool) -> None:
        super().__init__(message)
        self.in_flight = in_flight
        """Whether the request may have reached the server and be executed there."""
        self.retry_safe = retry_safe
        """Whether the request can be sent again without being executed twice."""


class StreamEnded(ConnectionLost):
    """A response stream ended before the response."""


class ProcessExited(ConnectionLost):
    """The server process ended, or could not be started.

    `returncode` is its exit code, negative for a signal; None if it could not be started.
    """

    def __init__(self, message: str, *, returncode: int | None, stderr: str, in_flight: bool = False) -> None:
        shown = f"{message}\n{stderr}".rstrip()
        super().__init__(shown, in_flight=in_flight, retry_safe=not in_flight)
        self.returncode = returncode
        self.stderr = stderr
        """The last 8 KiB that the process wrote to stderr, as text."""


class SessionExpired(ConnectionLost):
    """The server no longer knows the session; it did not execute the request."""

    def __init__(
        self, message: str = "the session has expired", *, in_flight: bool = True, retry_safe: bool = True
    ) -> None:
        super().__init__(message, in_flight=in_flight, retry_safe=retry_safe)


class AuthError(McpError):
    """Authorization at the server failed; the message says which step failed, and what to do."""


class DiscoveryFailed(AuthError):
    """No authorization server was found for the server, or the one found cannot be used."""

    def __init__(self, message: str, *, tried: Sequence[str] = ()) -> None:
        super().__init__("\n  ".join([message, *tried]))
        self.tried: tuple[str, ...] = tuple(tried)
        """One line per URL that was requested: the URL and the outcome."""


class RegistrationRejected(AuthError):
    """The authorization server does not know this client and does not register it."""


class IssuerMismatch(AuthError):
    """Metadata, credentials or a response belong to another authorization server than expected; they were not used."""


class AuthorizationDenied(AuthError):
    """The user or the authorization server declined the authorization; `error` is the OAuth error code."""

    def __init__(self, message: str, *, error: str) -> None:
        super().__init__(message)
        self.error = error


class InsufficientScope(AuthError):
    """The request requires scopes that were requested and not granted, that cannot be requested, or that the user's own
    token lacks. `required` and `requested` are lists of scopes.
    """

    def __init__(self, message: str, *, required: Sequence[str], requested: Sequence[str]) -> None:
        super().__init__(message)
        self.required: tuple[str, ...] = tuple(required)
        self.requested: tuple[str, ...] = tuple(requested)


class TokenRejected(AuthError):
    """No token was issued, or the server refused the token it was sent; `error` is the OAuth error code or empty."""

    def __init__(self, message: str, *, error: str = "") -> None:
        super().__init__(message)
        self.error = error


class RequestTimeout(McpError):
    """No response arrived in time; the request was cancelled."""

    def __init__(self, message: str, *, elapsed: float, kind: str) -> None:
        super().__init__(message)
        self.elapsed = elapsed
        """Seconds since the request was sent."""
        self.kind = kind
        """`idle` if nothing was received for too long, `total` if the whole call took too long."""


class MissingExtra(McpError, ImportError):
    """A feature needs a library that is not installed."""

    def __init__(self, what: str, library: str, extra: str) -> None:
        super().__init__(f"{what} requires {library}; install mcprev[{extra}]")
        self.extra = extra


class ToolError(McpError):
    """A failure that a tool reports by raising it: its text is sent to the model, unlike that of other exceptions.

    `ToolResult.read` and `call_tool(..., as_=...)` raise it for a tool that failed.
    """


class ServersFailed(McpError):
    """One or more of the servers of `connect_all` cannot be reached."""

    def __init__(self, errors: Mapping[str, McpError | OSError]) -> None:
        super().__init__("\n".join(f"the server '{name}': {error}" for name, error in errors.items()))
        self.errors: Mapping[str, McpError | OSError] = {**errors}
        """The errors by the names of the servers."""


class InputDeclined(McpError):
    """The client's handler declined input that the server asked for, so the call cannot continue."""


class TaskCancelled(McpError):
    """A task was cancelled before it had a result."""


class StoreError(McpError):
    """A store cannot be reached, or has no room for a record; the message says which store, and what to do."""


class StoreShareError(StoreError):
    """A store has room, but not for more of one client; the message says how much that stores."""


class StateTooLarge(McpError):
    """A value is not stored, because the state of its session would exceed a limit; the message says which."""


class SchemaError(McpError):
    """A JSON Schema that cannot be used; the message says why, and what to do."""


class RevisionError(McpError):
    """The revision table, a generated package or a conversion step is incomplete; the message says what to write."""


class UndecidedStep(RevisionError):
    """A conversion step between two revisions is missing or incomplete."""

    def __init__(
        self, message: str, *, file: str, line: int | None = None, members: Sequence[str] = ()
    ) -> None:
        place = file if line is None else f"{file}:{line}"
        listed = "".join(f"\n  {member}" for member in members)
        super().__init__(f"{message}: write {place}{listed}")
        self.file = file  # the module to write
        self.line = line
        self.members: tuple[str, ...] = tuple(members)
        """The undecided members, each as `Type.member` or with the line of its entry."""


class ConversionError(McpError):
    """A value cannot be represented in a revision; `path` is its JSON path, and `rule` the id of the rule that refuses it."""

    def __init__(self, message: str, *, path: str, revision: str, rule: str = "") -> None:
        super().__init__(f"{message} (at {path}, for {revision})")
        self.path: str = path
        self.revision: str = revision
        self.rule: str = rule  # empty if the result would not be valid


_BY_CODE: Final[Mapping[int, type[RpcError]]] = {
    cls.CODE: cls for cls in RpcError.__subclasses__() if cls is not UnknownRpcError
}


def one_line(text: object) -> str:
    """Return what a peer wrote, or an error about it, as one line for a log: printable, of at most 500 characters."""
    return "".join(c if c.isprintable() else " " for c in str(text)[:_MOST])
