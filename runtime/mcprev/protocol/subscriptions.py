"""The changes that clients can subscribe to, the filters of listen streams, and the equivalents in sessions.

SUB-1..9, CONV-38, LIFE-11. Data and pure functions; the engines send the notifications, the client's `listen` receives
them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mcprev.errors import InvalidParams, InvalidRequest, Json, RpcError
from mcprev.protocol.uris import ComparedUris, is_uri
from mcprev.wire.json_values import is_json_list, json_list

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
LISTEN: Final = "subscriptions/listen"
TASK_IDS: Final = "taskIds"
"""The member of a listen filter that names tasks, from the tasks extension."""  # SUB-9
TASK_NOTIFICATIONS: Final = frozenset({"notifications/tasks", "notifications/tasks/status"})
"""The notifications of task states, in the extension and in the core protocol."""
HAS_TASKS: Final = "tasks/get"
"""The method that a server with tasks serves."""


MAX_RESOURCES: Final = 1_000
"""The maximum number of resources that one session or listen stream subscribes to."""
MAX_URI: Final = 4096
"""The maximum length of a subscribed URI in characters."""
MAX_STREAMS: Final = 10_000
"""The maximum number of open listen streams of a server in one event loop."""


class Changed(StrEnum):
    """The kind of a change: of the list of tools, prompts or resources, of the contents of one resource, or of one task."""

    TOOLS = "tools"
    PROMPTS = "prompts"
    RESOURCES = "resources"
    RESOURCE = "resource"
    """The contents of one resource, which a URI identifies."""
    TASK = "task"
    """The status of one task, which an id identifies. The runtime sends it; handlers need not."""


@dataclass(frozen=True, slots=True)
class ChangeNotification:
    """How a kind of change is announced."""

    method: str
    member: str
    """The member of a listen filter that subscribes to it."""
    capability: str
    """The capability that declares it."""


CHANGES: Final[Mapping[Changed, ChangeNotification]] = {
    Changed.TOOLS: ChangeNotification(
        "notifications/tools/list_changed", "toolsListChanged", "tools.listChanged"
    ),
    Changed.PROMPTS: ChangeNotification(
        "notifications/prompts/list_changed", "promptsListChanged", "prompts.listChanged"
    ),
    Changed.RESOURCES: ChangeNotification(
        "notifications/resources/list_changed", "resourcesListChanged", "resources.listChanged"
    ),
    Changed.RESOURCE: ChangeNotification(
        "notifications/resources/updated", "resourceSubscriptions", "resources.subscribe"
    ),
}
"""The changes that the author of a server announces."""
BY_METHOD: Final[Mapping[str, Changed]] = {change.method: kind for kind, change in CHANGES.items()}
SUBSCRIBABLE: Final = BY_METHOD.keys() | TASK_NOTIFICATIONS
"""The notifications that clients can subscribe to."""


def accepted_filter(asked: Mapping[str, Json], capable: Iterable[Changed]) -> dict[str, Json]:
    """Return the part of a listen filter that a server with these kinds of changes accepts."""  # SUB-2, SEC-6
    kept: dict[str, Json] = {}
    for kind in capable:
        member = CHANGES[kind].member
        value = asked.get(member)
        if value is True:
            kept[member] = True
        elif kind is Changed.RESOURCE and is_json_list(value):
            known = dict.fromkeys(uri for uri in value if isinstance(uri, str) and len(uri) <= MAX_URI)
            kept[member] = list(known)[:MAX_RESOURCES]
    return kept


def resource_error(uri: object, others: Collection[str]) -> RpcError | None:
    """Return the error for a resource to subscribe to, given the subscribed `others`, or None."""  # SUB-1, SEC-6
    if not (isinstance(uri, str) and len(uri) <= MAX_URI and is_uri(uri)):
        return InvalidParams(f"Invalid params: uri must be an absolute URI of at most {MAX_URI} characters")
    if len(others) >= MAX_RESOURCES and uri not in others:
        return InvalidRequest(
            f"this session has its maximum of {MAX_RESOURCES} subscriptions: unsubscribe from a resource first"
        )
    return None


def wants(filter_: Mapping[str, Json], kind: Changed, uri: str | None) -> bool:
    """Return whether a stream with this filter carries a change."""  # SUB-3
    value = filter_.get(CHANGES[kind].member)
    if not isinstance(value, list) or uri is None:
        return value is True
    return uri in value or uri in resources_in(filter_)


def resources_in(filter_: Mapping[str, Json]) -> ComparedUris:
    """Return the resources of a filter."""  # SUB-3
    named = filter_.get(CHANGES[Changed.RESOURCE].member)
    return ComparedUris(json_list(named))


def task_ids(filter_: Mapping[str, Json]) -> tuple[str, ...]:
    """Return the task ids in a filter, each once; other values are ignored."""  # SUB-9
    named = filter_.get(TASK_IDS)
    ids = json_list(named)
    return tuple(dict.fromkeys(id_ for id_ in ids if isinstance(id_, str)))
