"""Changes that clients want to hear of: what there is, what a listen stream carries, what old sessions need.

SUB-1..9, CONV-38, LIFE-11. Data and pure functions; the engines send, the client's `listen` reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, cast

from mcprev.errors import Json

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
LISTEN: Final = "subscriptions/listen"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
TASK_IDS: Final = "taskIds"
"""The member of a listen filter that names tasks; it is the tasks extension's (SUB-9)."""
OF_TASKS: Final = frozenset({"notifications/tasks", "notifications/tasks/status"})
"""The notifications of the states of tasks, as an extension and in the core."""
HAS_TASKS: Final = "tasks/get"
"""What a server serves that has tasks to tell of."""


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
class Change:
    """How one kind of change is told."""

    method: str
    member: str
    """The member of a listen filter that asks for it."""
    capability: str
    """The capability that promises it."""


CHANGES: Final[Mapping[Changed, Change]] = {
    Changed.TOOLS: Change("notifications/tools/list_changed", "toolsListChanged", "tools.listChanged"),
    Changed.PROMPTS: Change(
        "notifications/prompts/list_changed", "promptsListChanged", "prompts.listChanged"
    ),
    Changed.RESOURCES: Change(
        "notifications/resources/list_changed", "resourcesListChanged", "resources.listChanged"
    ),
    Changed.RESOURCE: Change(
        "notifications/resources/updated", "resourceSubscriptions", "resources.subscribe"
    ),
}
"""What a server's author tells of."""
BY_METHOD: Final[Mapping[str, Changed]] = {change.method: kind for kind, change in CHANGES.items()}
HEARD: Final = BY_METHOD.keys() | OF_TASKS
"""What someone may listen for."""


def honoured(asked: Mapping[str, Json], capable: Iterable[Changed]) -> dict[str, Json]:
    """The part of a listen filter that a server with these abilities will serve (SUB-2)."""
    kept: dict[str, Json] = {}
    for kind in capable:
        member = CHANGES[kind].member
        value = asked.get(member)
        if value is True:
            kept[member] = True
        elif kind is Changed.RESOURCE and isinstance(value, list):
            uris = cast("list[object]", value)
            kept[member] = [uri for uri in uris if isinstance(uri, str)]
    return kept


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
