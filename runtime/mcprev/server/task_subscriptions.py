"""Listen streams that carry the states of tasks (SUB-9).

A stream tells of the tasks that it names and that its client may see. Each comes once as it is when the stream opens,
so that nothing is missed in between, and then whenever it changes, as `tasks/get` would have it; after its end nothing
more. A task that another process runs is not taken on: what becomes of it is not heard of here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from mcprev.protocol import tasks
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.stateless import StatelessServer
from mcprev.protocol.subscriptions import TASK_IDS
from mcprev.protocol.tasks import Task

if TYPE_CHECKING:
    from mcprev.core.connection import Connection
    from mcprev.errors import Json
    from mcprev.revisions import Revision

MOST: Final = 1_000
"""How many tasks one stream tells of; more are not taken on."""
Describe: TypeAlias = "Callable[[Task, Revision], dict[str, Json]]"
"""What is told of a task, in the words of a revision."""
logger: Final = logging.getLogger("mcprev.server")


@dataclass(slots=True)
class _Stream:
    """A stream that one task is told on."""

    incoming: IncomingRequest
    connection: Connection
    told: Task | None = None


class TaskSubscriptions:
    """The streams that are open, by the tasks they are to be told of."""

    def __init__(self, describe: Describe) -> None:
        self._describe = describe
        self._streams: dict[str, list[_Stream]] = {}

    def open(self, incoming: IncomingRequest, connection: Connection, found: Iterable[Task]) -> None:
        """Open a stream, say which tasks it will carry, and tell how each is now."""
        if not incoming.open:
            return
        carried = list(found)
        cast("StatelessServer", incoming.engine).open_stream(
            incoming, {TASK_IDS: [task.id for task in carried]}
        )
        for task in carried:
            stream = _Stream(incoming, connection)
            if not task.ended:
                others = (other for other in self._streams.get(task.id, ()) if other.incoming.open)
                self._streams[task.id] = [*others, stream]
            self._tell(stream, task)
        connection.process_events()

    def tell(self, task: Task) -> None:
        """A task has changed."""
        for stream in self._streams.get(task.id, ()):
            if stream.incoming.open and stream.told is not task:
                self._tell(stream, task)
                stream.connection.process_events()
        if task.ended:
            self.forget(task)

    def forget(self, task: Task) -> None:
        """Nothing more will become of a task."""
        self._streams.pop(task.id, None)

    def _tell(self, stream: _Stream, task: Task) -> None:
        stream.told = task
        incoming = stream.incoming
        try:
            cast("StatelessServer", incoming.engine).stream(
                incoming, tasks.TASK_NOTIFICATION, self._describe(task, incoming.revision)
            )
        except Exception:
            # It must go on however it is told.
            logger.exception("a task cannot be told of")
