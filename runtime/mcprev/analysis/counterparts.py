"""What takes the place of a message at a revision that does not send it: what no conversion of payloads shows.

`initialize`, embedded requests, subscriptions, log levels, pings, tasks and HTTP headers: the ladder converts payloads, and
the engines decide what is sent at all. This table says the latter in words (NEG-*, MRTR-*, SUB-*, LOG-2, TASKX-*, HTTP-25).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, TypeAlias

from mcprev.errors import Json
from mcprev.protocol import tasks
from mcprev.revisions import Era, HttpShape, Revision, TaskSupport, revision_named
from mcprev.wire.headers import Pairs, request_headers
from mcprev.wire.jsonrpc import Notification, Request, parse
from mcprev_types import Transport


@dataclass(frozen=True, slots=True)
class Counterpart:
    """What is sent at a revision in the place of a method."""

    sent_as: str | None
    """The method that is sent; None if nothing is."""
    text: str
    """Why; empty if the method is sent as it is."""

    @property
    def sentence(self) -> str:
        """What is sent instead, or that nothing is, and why; empty if the method is sent as it is."""
        if not self.text:
            return ""
        return f"{'Not sent.' if self.sent_as is None else f'`{self.sent_as}` is sent instead.'} {self.text}"


_Row: TypeAlias = tuple[tuple[str, ...], str, object, str | None, str]
"""Methods; the field of a revision and its value where the row counts; what is sent instead; why."""
_CALL: Final = "tools/call"
_TOLD: Final = (TaskSupport.EXTENSION, tasks.TASK_NOTIFICATION)
"""The notification of the extension for tasks, which is in no schema."""
ROWS: Final[tuple[_Row, ...]] = (
    (("initialize",), "era", Era.STATELESS, "server/discover",
         "There is no handshake: requests state version, client and capabilities, and `server/discover` returns those of the server."),
    (("notifications/initialized",), "era", Era.STATELESS, None, "There is no handshake that has to be confirmed."),
    (("server/discover",), "era", Era.HANDSHAKE, "initialize",
         "The server introduces itself in the result of `initialize`, once in a session."),
    (("sampling/createMessage", "elicitation/create", "roots/list"), "input_in_results", True, None,
         "The server asks in `inputRequests` of its result, and the client calls again with the answer in `inputResponses`."),
    (("notifications/elicitation/complete",), "input_in_results", True, None,
         "The client calls again when the user is done, so the server need not say so."),
    (("elicitation/create",), "input_in_results", False, None,
         "A server cannot ask the user: the tool has to do without, or fail."),
    (("notifications/elicitation/complete",), "input_in_results", False, None,
         "There is no elicitation by URL, whose end could be told."),
    (("resources/subscribe",), "listens", True, "subscriptions/listen",
         "The client lists the URIs and lists that it wants to hear of in one long request; its stream carries the changes."),
    (("resources/unsubscribe",), "listens", True, None, "The client cancels `subscriptions/listen`, or sends another one."),
    (("subscriptions/listen",), "listens", False, "resources/subscribe",
         "The client subscribes to each resource by a request; changes of lists are sent unasked."),
    (("notifications/subscriptions/acknowledged",), "listens", False, None,
         "The result of `resources/subscribe` says that the subscription is made."),
    (("logging/setLevel",), "log_level_per_request", True, None,
         "Each request states the level that it wants to get log messages of in `_meta`."),
    (("ping",), "era", Era.STATELESS, None, "There is no session whose other end could be gone: a call has its own timeout."),
    (("notifications/roots/list_changed",), "era", Era.STATELESS, None,
         "The server asks for the roots in a result whenever it needs them."),
    ((tasks.GET, tasks.CANCEL), "tasks", TaskSupport.NONE, _CALL,
         "There are no tasks: the call waits for its result, and is cancelled by `notifications/cancelled`."),
    ((tasks.RESULT, tasks.LIST, tasks.UPDATE, tasks.TASK_NOTIFICATION, "notifications/tasks/status"), "tasks", TaskSupport.NONE, None,
         "There are no tasks: the call waits for its result."),
    ((tasks.RESULT,), "tasks", TaskSupport.EXTENSION, tasks.GET, "`tasks/get` returns the result of a task that has ended."),
    ((tasks.LIST,), "tasks", TaskSupport.EXTENSION, None, "A client knows the tasks that it has started; no server lists them."),
    (("notifications/tasks/status",), "tasks", TaskSupport.EXTENSION, tasks.TASK_NOTIFICATION,
         "The extension for tasks has a notification of its own."),
    ((tasks.UPDATE,), "tasks", TaskSupport.CORE, tasks.RESULT,
         "The questions of a task are requests of the server while `tasks/result` waits; the client answers them."),
    ((tasks.TASK_NOTIFICATION,), "tasks", TaskSupport.CORE, "notifications/tasks/status",
         "The notification has another name in the core protocol."),
)  # fmt: skip
_HTTP: Final = {
    HttpShape.SSE: "The client opens one event stream by GET, and posts each message to the endpoint that its first event names.",
    HttpShape.STREAMABLE: "Each message is a POST; the session is in `Mcp-Session-Id`, and a GET opens the server's own stream.",
    HttpShape.POST_ONLY: "Each message is a POST that stands alone; headers repeat the method and what it is about for proxies.",
}


def counterpart(method: str, revision: str | Revision) -> Counterpart:
    """Return what is sent at a revision in the place of a method: the method itself, another one, or nothing.

    Raises `ValueError` for an unknown revision.
    """
    row = revision_named(revision) if isinstance(revision, str) else revision
    spec = row.methods.get(method)
    own = spec is not None and spec.transport != Transport.EMBEDDED
    if own or method in tasks.METHODS[row.tasks] or (row.tasks, method) == _TOLD:
        return Counterpart(method, "")
    for methods, field, value, sent_as, text in ROWS:
        if method in methods and getattr(row, field) == value:
            return Counterpart(sent_as, text)
    return Counterpart(None, f"{row.name} has no method {method[:100]!r}, and nothing in its place.")


def http_headers(message: Json | bytes, revision: str | Revision) -> tuple[Pairs, str]:
    """Return the MCP headers of the POST of a message at a revision, and a sentence on how HTTP carries messages there.

    The id of a session and headers that depend on the schema of a tool are not among them. Raises `ValueError` for an
    unknown revision, and `LocalProtocolError` for an argument that no header can hold.
    """  # HTTP-25, HDR-6
    row = revision_named(revision) if isinstance(revision, str) else revision
    read = parse(message if isinstance(message, bytes) else json.dumps(message).encode(), batch=False)
    called = read if isinstance(read, Request | Notification) else None
    method, params = (None, None) if called is None else (called.method, called.params)
    return request_headers(row, method, params), _HTTP[row.http]
