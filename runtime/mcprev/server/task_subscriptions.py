"""Listen streams that carry the states of tasks (SUB-9).

A stream carries the status of the tasks that its filter names and its client owns: once when it opens, so that no
change is missed, then at each change, as `tasks/get` returns it. After the end of a task nothing more is sent about it.
Tasks that run in another process are not carried, because their changes are unknown here.
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

MAX_CARRIED: Final = 1_000
"""The maximum number of tasks of one stream; further ones are ignored."""
Describe: TypeAlias = "Callable[[Task, Revision], dict[str, Json]]"
"""Returns the status of a task at a revision."""
logger: Final = logging.getLogger("mcprev.server")


@dataclass(slots=True)
class _Stream:
    """A listen stream that carries the status of one task."""

    incoming: IncomingRequest
    connection: Connection
    last_sent: Task | None = None


class TaskSubscriptions:
    """The open listen streams, by the tasks that they carry."""

    def __init__(self, describe: Describe) -> None:
        self._describe = describe
        self._streams: dict[str, list[_Stream]] = {}

    def open(self, incoming: IncomingRequest, connection: Connection, found: Iterable[Task]) -> None:
        """Open a stream, acknowledge the tasks that it carries, and send the status of each."""
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
            self._send(stream, task)
        connection.process_events()

    def send(self, task: Task) -> None:
        """Send the status of a task that has changed."""
        for stream in self._streams.get(task.id, ()):
            if stream.incoming.open and stream.last_sent is not task:
                self._send(stream, task)
                stream.connection.process_events()
        if task.ended:
            self.forget(task)

    def forget(self, task: Task) -> None:
        """Remove the streams of a task that has ended."""
        self._streams.pop(task.id, None)

    def _send(self, stream: _Stream, task: Task) -> None:
        stream.last_sent = task
        incoming = stream.incoming
        try:
            cast("StatelessServer", incoming.engine).stream(
                incoming, tasks.TASK_NOTIFICATION, self._describe(task, incoming.revision)
            )
        except Exception:
            # The task continues even if its status cannot be sent.
            logger.exception("the status of a task could not be sent")
