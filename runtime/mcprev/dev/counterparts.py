"""What takes the place of a message at a revision that does not have it, as that revision's prose says (CONV-36 to 38)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mcprev.protocol.tasks import CANCEL, GET, LIST, METHODS, RESULT, STATUS, TASK_NOTIFICATION, UPDATE
from mcprev.revisions import Revision, TaskSupport
from mcprev_types import Transport

_Condition = Callable[[Revision], bool]


def _stateless(revision: Revision) -> bool:
    return not revision.handshake


def _session(revision: Revision) -> bool:
    return revision.handshake


def _listens(revision: Revision) -> bool:
    return revision.listens


def _listens_not(revision: Revision) -> bool:
    return not revision.listens


def _in_results(revision: Revision) -> bool:
    return revision.input_in_results


def _always(revision: Revision) -> bool:
    del revision
    return True


def _core_tasks(revision: Revision) -> bool:
    return revision.tasks is TaskSupport.CORE


def _extension_tasks(revision: Revision) -> bool:
    return revision.tasks is TaskSupport.EXTENSION


def _no_tasks(revision: Revision) -> bool:
    return revision.tasks is TaskSupport.NONE


@dataclass(frozen=True, slots=True)
class _Row:
    """What takes the place of methods where a condition holds."""

    methods: frozenset[str]
    where: _Condition
    text: str


_ASKING: Final = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
_TASKS: Final = frozenset({GET, RESULT, UPDATE, CANCEL, LIST, STATUS, TASK_NOTIFICATION})
_ROWS: Final = (
    _Row(
        frozenset({"initialize", "notifications/initialized"}),
        _stateless,
        "Not sent, because there is no session to open: each request carries the version and what the client can do in "
        "`_meta`, and `server/discover` returns what the server can do.",
    ),
    _Row(
        frozenset({"server/discover"}),
        _session,
        "`initialize` is sent instead: it opens the session, and its result says what the server can do.",
    ),
    _Row(
        frozenset({"ping"}),
        _stateless,
        "Not sent, because there is no session to keep open: any request shows that the server answers.",
    ),
    _Row(
        frozenset({"logging/setLevel"}),
        _stateless,
        "Not sent: each request carries the wanted level in `_meta`.",
    ),
    _Row(
        frozenset({"resources/subscribe", "resources/unsubscribe"}),
        _listens,
        "`subscriptions/listen` with the URI in `resourceSubscriptions` is sent instead; its stream ends the subscription.",
    ),
    _Row(
        frozenset({"subscriptions/listen", "notifications/subscriptions/acknowledged"}),
        _listens_not,
        "Not sent: changes of lists are told without being asked for, and `resources/subscribe` is sent for each resource.",
    ),
    _Row(
        _ASKING,
        _in_results,
        "No message of its own: the question is in `inputRequests` of the result of the call, which the client repeats "
        "with the answers in `inputResponses`.",
    ),
    _Row(
        frozenset({"elicitation/create", "notifications/elicitation/complete"}),
        _always,
        "Not sent, because a server cannot ask the user: the tool has to do without, or fail.",
    ),
    _Row(
        frozenset({"notifications/roots/list_changed"}),
        _stateless,
        "Not sent: a server asks for the roots in the result of a call each time that it needs them.",
    ),
    _Row(
        frozenset({UPDATE}),
        _core_tasks,
        "Not sent: while the client waits for `tasks/result`, the server asks by requests of its own.",
    ),
    _Row(
        frozenset({RESULT, LIST, STATUS}),
        _extension_tasks,
        "Not sent: `tasks/get` returns the status and, at the end, the result; there is no list of tasks.",
    ),
    _Row(
        _TASKS,
        _no_tasks,
        "Not sent, because there are no tasks: the result of the call comes when the work is done.",
    ),
)
_NONE: Final = "Not sent, because the revision has no such method and nothing takes its place."


def has_method(method: str, revision: Revision) -> bool:
    """Return whether a method is a message of its own at a revision."""
    spec = revision.methods.get(method)
    if spec is None:
        known = METHODS[revision.tasks]
        return method in known or (method == TASK_NOTIFICATION and revision.tasks is TaskSupport.EXTENSION)
    return spec.transport is not Transport.EMBEDDED


def counterpart(method: str, revision: Revision) -> str | None:
    """Return what takes the place of a method at a revision; None if the revision has the method."""
    if has_method(method, revision):
        return None
    return next((row.text for row in _ROWS if method in row.methods and row.where(revision)), _NONE)
