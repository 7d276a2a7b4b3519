"""Records what clients and the bridge say to each other, for `mcprev validate` (BASE-10, SEC-6).

The other side, between the bridge and the server, is recorded by `recording.RecordingProtocol` into the same file. `ping`
and what is malformed end at each side and are not recorded here.
"""

from __future__ import annotations

import json

from mcprev.bridge.relay import Record
from mcprev.client.recording.recording import Recording
from mcprev.errors import Json
from mcprev_types import Direction


def recorder(recording: Recording) -> Record:
    """Return a function that writes a message of a session to a recording, with its secrets masked."""

    def record(session: str, direction: Direction, message: dict[str, Json]) -> None:
        recording.write(session, direction, json.dumps(message, separators=(",", ":")).encode())

    return record
