"""Changes that clients want to hear of: what there is, what a listen stream carries, what old sessions need.

SUB-1..9, CONV-38, LIFE-11. Data and pure functions; the engines send, the client's `listen` reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, cast

from mcprev.errors import InvalidParams, InvalidRequest, Json, RpcError
from mcprev.protocol.uris import is_uri

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
LISTEN: Final = "subscriptions/listen"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
TASK_IDS: Final = "taskIds"
"""The member of a listen filter that names tasks; it is the tasks extension's (SUB-9)."""
OF_TASKS: Final = frozenset({"notifications/tasks", "notifications/tasks/status"})
"""The notifications of the states of tasks, as an extension and in the core."""
HAS_TASKS: Final = "tasks/get"
"""What a server serves that has tasks to tell of."""


MAX_RESOURCES: Final = 1_000
"""Resources that one session or listen stream may subscribe to."""
MAX_URI: Final = 4096
"""Characters of a URI that can be subscribed to."""
MAX_STREAMS: Final = 10_000
"""Listen streams that a server has open at a time in one event loop."""


class Changed(StrEnum):
    """What can change."""

    TOOLS = "tools"
    PROMPTS = "prompts"
    RESOURCES = "resources"
    RESOURCE = "resource"
    """One resource, named by its URI."""
    TASK = "task"
    """The state of one task, named by its id; tasks tell of themselves."""


@dataclass(frozen=True, slots=True)
class ChangeNotification:
    """How one kind of change is told."""

    method: str
    member: str
    """The member of a listen filter that asks for it."""
    capability: str
    """The capability that promises it."""


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
"""What a server's author tells of."""
BY_METHOD: Final[Mapping[str, Changed]] = {change.method: kind for kind, change in CHANGES.items()}
HEARD: Final = BY_METHOD.keys() | OF_TASKS
"""What someone may listen for."""


def honoured(asked: Mapping[str, Json], capable: Iterable[Changed]) -> dict[str, Json]:
    """The part of a listen filter that a server with these abilities will serve (SUB-2, SEC-6)."""
    kept: dict[str, Json] = {}
    for kind in capable:
        member = CHANGES[kind].member
        value = asked.get(member)
        if value is True:
            kept[member] = True
        elif kind is Changed.RESOURCE and isinstance(value, list):
            uris = cast("list[object]", value)
            known = dict.fromkeys(uri for uri in uris if isinstance(uri, str) and len(uri) <= MAX_URI)
            kept[member] = list(known)[:MAX_RESOURCES]
    return kept


def resource_error(uri: object, others: Collection[str]) -> RpcError | None:
    """What is wrong with a resource to subscribe to, or to unsubscribe from, beside `others` (SUB-1, SEC-6)."""
    if not (isinstance(uri, str) and len(uri) <= MAX_URI and is_uri(uri)):
        return InvalidParams(f"Invalid params: uri is no absolute URI of {MAX_URI} characters at most")
    if len(others) >= MAX_RESOURCES and uri not in others:
        return InvalidRequest(
            f"a session subscribes to {MAX_RESOURCES} resources at most, and this is none of them"
        )
    return None


def wants(filter_: Mapping[str, Json], kind: Changed, uri: str | None) -> bool:
    """Whether a stream with this filter carries a change (SUB-3)."""
    value = filter_.get(CHANGES[kind].member)
    return uri in value if isinstance(value, list) else value is True


def methods(filter_: Mapping[str, Json]) -> frozenset[str]:
    """The notifications that a filter asks for."""
    return frozenset(change.method for change in CHANGES.values() if filter_.get(change.member))


def uris(filter_: Mapping[str, Json]) -> tuple[str, ...]:
    """The resources that a filter names: in older sessions each is subscribed to by itself (CONV-38)."""
    return tuple(filter_.get(CHANGES[Changed.RESOURCE].member) or ())


def names_tasks(filter_: Mapping[str, Json]) -> bool:
    """Whether a filter is for tasks too, be it for none of them (SUB-9)."""
    return filter_.get(TASK_IDS) is not None


def task_ids(filter_: Mapping[str, Json]) -> tuple[str, ...]:
    """The tasks that a filter names, each once; what cannot be a name is none (SUB-9)."""
    named = filter_.get(TASK_IDS)
    ids = cast("list[object]", named) if isinstance(named, list) else []
    return tuple(dict.fromkeys(id_ for id_ in ids if isinstance(id_, str)))
