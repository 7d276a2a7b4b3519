"""What a server calls a task: where a revision has tasks, and for as long as the timeout of the call."""

from __future__ import annotations

from typing import Any, Final, cast

import pytest
from typing_extensions import override

import mcprev
from api.wire import HandServer, Message
from helpers.requirements import req
from helpers.running import run
from mcprev.errors import RemoteProtocolError, RequestTimeout
from mcprev.revisions import DEFAULT, Revision, TaskSupport

TASK: Final[Message] = {
    "resultType": "task", "taskId": "t", "status": "working", "ttlMs": None, "createdAt": "2026-01-01T00:00:00Z",
    "lastUpdatedAt": "2026-01-01T00:00:00Z",
}  # fmt: skip


class Silent(HandServer):
    """Answers calls with a task, of which it never says anything again."""

    polls = 0

    @override
    def reply(self, request: Message) -> Any:
        return TASK if request["method"] == "tools/call" else super().reply(request)

    @override
    def _take(self, message: Message) -> None:
        if str(message.get("method", "")).startswith("tasks/"):
            self.polls += 1
        else:
            super()._take(message)


@pytest.mark.parametrize("row", [row for row in DEFAULT if row.tasks is not TaskSupport.CORE], ids=str)
@req("TASKX-4", "TIME-1")
def test_a_task_is_followed_where_there_are_tasks_with_the_timeout_of_the_call(row: Revision) -> None:
    server = Silent(row)

    async def main() -> None:
        async with mcprev.connect(mcprev.memory(cast("Any", server)), mode=row.name) as client:
            error = RemoteProtocolError if row.tasks is TaskSupport.NONE else RequestTimeout
            with pytest.raises(error, match=r"content|tasks/get' within 2 s"):
                await client.call_tool("x", {}, timeout=2.0)

    run(main())
    assert (server.polls > 0) is (row.tasks is not TaskSupport.NONE)
