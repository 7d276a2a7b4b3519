"""The JSON form of a task in a store."""

from __future__ import annotations

import json
from typing import Final

from mcprev.core.store import Record
from mcprev.error_text import MALFORMED, invalid_value
from mcprev.errors import Json, StoreError
from mcprev.protocol.tasks import Status, Task

FORMAT: Final = 1
"""The number of the form. A process refuses a task of another form, which another version of this library has stored."""
_PLAIN: Final = (
    "id", "created", "updated", "ttl", "poll", "owner", "session", "status", "message", "asked", "result", "error",
    "given", "worker",
)  # fmt: skip


def encode_task(task: Task) -> bytes:
    """Return a task as JSON in UTF-8."""
    members: dict[str, Json] = {name: getattr(task, name) for name in _PLAIN}
    wire = {"format": FORMAT, "used": sorted(task.used), **members}
    return json.dumps(wire, separators=(",", ":")).encode()


def decode_task(record: Record) -> Task:
    """Return the task of a record. Raises `StoreError` for a record that holds something else."""
    try:
        found: Json = json.loads(record.value)
        if found["format"] != FORMAT:
            raise StoreError(
                f"a task in the store has the form {found['format']!r:.20}, not {FORMAT}: another release of mcprev wrote it; use that release, or another store"
            )
        members: dict[str, Json] = {name: found[name] for name in _PLAIN}
        members["status"] = Status(members["status"])
        return Task(**members, used=frozenset(found["used"]), version=record.version)
    except MALFORMED as error:
        raise invalid_value("a task") from error
