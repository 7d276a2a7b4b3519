"""The tasks of a session, as the messages on the wire tell of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mcprev.dev.channels import Channels
from mcprev.dev.events import IN, SeenEvent
from mcprev.errors import Json
from mcprev.protocol.tasks import CANCEL, GET, LIST, RESULT, STATUS, TASK, TASK_NOTIFICATION
from mcprev.wire.json_values import is_json_list, is_json_object
from mcprev.wire.jsonrpc import Message, Notification, Response

KEPT: Final = 1000
"""How many tasks are kept; the oldest are dropped."""
NAME: Final = 500
"""The maximum length of the id of a task that is shown, in characters."""


@dataclass(slots=True)
class SeenTask:
    """One task."""

    id: str
    status: str
    message: str | None = None
    created: str | None = None
    call: str | None = None
    first: int | None = None
    """The number of the event that told of it first."""
    last: int | None = None
    result: int | None = None
    """The number of the event with its result."""

    def document(self) -> dict[str, Json]:
        """Return the task as the page shows it."""
        return {
            "task": self.id, "status": self.status, "message": self.message, "created": self.created,
            "call": self.call, "first": self.first, "last": self.last, "result": self.result,
        }  # fmt: skip


class TaskBoard:
    """Follows the tasks that messages mention."""

    def __init__(self, channels: Channels, began: Callable[[str, str], None]) -> None:
        """`began` is told the call and the id of a task that a call was answered with."""
        self._channels, self._began = channels, began
        self._tasks: OrderedDict[str, SeenTask] = OrderedDict()

    def documents(self) -> list[Json]:
        """Return all tasks that are kept."""
        return [task.document() for task in self._tasks.values()]

    def observe(self, event: SeenEvent, message: Message | None) -> None:
        """Note the tasks in a message of the server."""
        if event.dir != IN:
            return
        if isinstance(message, Notification) and message.method in (STATUS, TASK_NOTIFICATION):
            self._note(event, message.params, None)
        elif isinstance(message, Response):
            if event.method == LIST:
                found: object = _members(message.result).get("tasks")
                for each in found if is_json_list(found) else ():
                    self._note(event, each, None)
            elif event.method == RESULT:
                related: Json = _members(message.result).get("_meta")
                for value in _members(related).values():
                    self._note_result(event, _members(value).get("taskId"))
            elif event.method in (GET, CANCEL):
                self._note(event, message.result, None)
            else:
                members = _members(message.result)
                inner = members.get(TASK) if TASK in members else message.result
                if TASK in members or members.get("resultType") == TASK:
                    self._note(event, inner, event.call)

    def _note(self, event: SeenEvent, value: Json, call: str | None) -> None:
        members = _members(value)
        id_, status = members.get("taskId"), members.get("status")
        if not isinstance(id_, str) or not isinstance(status, str):
            return
        id_ = id_[:NAME]
        task = self._tasks.get(id_)
        if task is None:
            task = self._tasks[id_] = SeenTask(id_, status[:NAME], first=event.n)
            if len(self._tasks) > KEPT:
                self._tasks.popitem(last=False)
        if call is not None:
            task.call = call
            self._began(call, id_)
        said, created = members.get("statusMessage"), members.get("createdAt")
        task.status, task.last = status[:NAME], event.n
        task.message = said[:NAME] if isinstance(said, str) else None
        task.created = created[:NAME] if isinstance(created, str) else task.created
        if "result" in members or "error" in members:
            task.result = event.n
        self._tell(task)

    def _note_result(self, event: SeenEvent, id_: Json) -> None:
        task = self._tasks.get(id_) if isinstance(id_, str) else None
        if task is not None:
            task.result = task.last = event.n
            self._tell(task)

    def _tell(self, task: SeenTask) -> None:
        self._channels.state("task", task.id, task.document())


def _members(value: Json) -> dict[str, Json]:
    found: object = value
    return found if is_json_object(found) else {}
