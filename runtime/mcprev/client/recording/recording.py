"""Writes the messages of a client to a file that `mcprev validate` reads (BASE-10, SEC-6).

Messages are written as they are sent, and as they were understood when they were received. Of each HTTP response its status
and media type are written too, but no header, and so no token. So is the body of one that refuses a request: as a message
if it is one, such as the error with which a server of 2026-07-28 refuses, else its beginning as text. Secrets are masked as in the log of payloads, and the
answers to properties that a schema says are passwords.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from typing_extensions import override

from mcprev.client.recording.responses import ResponseNotes
from mcprev.client.recording.tap import WireEvent, WireKind, WireTap
from mcprev.errors import Json
from mcprev.json_schema.redaction import Redactor
from mcprev.protocol.connection_state import LocalInfo
from mcprev.protocol.endpoint import ClientProtocol
from mcprev.protocol.tap import Tap
from mcprev.wire.jsonrpc import Batch, Malformed, Message, encode, parse
from mcprev.wire.payloads import mask_text
from mcprev_types import Direction

MAX_TEXT: Final = 2000
"""The maximum number of characters that are written of a body that is no message."""
MOST: Final = 256 * 1024 * 1024
"""The maximum size of a file, in bytes."""
logger: Final = logging.getLogger("mcprev.client")


class Recording:
    """A file with one message or HTTP response on each line, for all connections of one client."""

    def __init__(self, path: str | os.PathLike[str], most: int = MOST) -> None:
        """Append to the file, which is made for its owner alone if it is not there. Raises `OSError`.

        Recording ends, with a warning, where the file would be larger than `most` bytes or cannot be written.
        """
        self._path, self._redactor = Path(path), Redactor()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._file = os.fdopen(descriptor, "ab", buffering=0)
        self._room = most - os.fstat(descriptor).st_size
        self._latest = self._session = ""
        self._names: dict[int, str] = {}
        """The names of connections that are open, by their numbers on the wire."""
        self._notes = ResponseNotes(self._write_response, self._write_body)
        self.tap: WireTap = WireTap(self._on_wire)
        """Records the HTTP responses of the connections whose protocols are made here."""

    def protocol(self, local: LocalInfo, result_types: frozenset[str]) -> RecordingProtocol:
        """Return the client side of a new connection, whose messages are recorded."""
        made = RecordingProtocol(self, local, result_types)
        self._latest = made.name
        return made

    def tapped(self, tap: Tap | None) -> Tap:
        """Return a tap that records the HTTP responses, as `tap` does, and reports to another tap too."""
        return tap.also(self._on_wire) if isinstance(tap, WireTap) else self.tap

    def _on_wire(self, event: WireEvent) -> None:
        if event.kind is WireKind.OPENED:  # right after its protocol was made
            self._names[event.connection] = self._latest
        self._session = self._names.get(event.connection, "")
        if event.kind is WireKind.CLOSED:
            self._names.pop(event.connection, None)
        self._notes(event)

    def _write_response(self, note: dict[str, Json]) -> None:
        self._write_note(note)

    def _write_body(self, exchange: int, body: bytes) -> None:
        message = parse(body, batch=False)
        if not isinstance(message, Malformed | Batch):
            self.write(self._session, Direction.SERVER_TO_CLIENT, encode(message, null_id_in_errors=True))
            return
        text = mask_text(self._redactor.message(body).decode(errors="replace"))
        self._write_note({"response": exchange, "body": text[:MAX_TEXT]})

    def _write_note(self, note: dict[str, Json]) -> None:
        line = {"session": self._session, **note}
        self._write_line(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def write(self, session: str, direction: Direction, message: bytes) -> None:
        """Write a message. Does not raise."""
        line = b'{"session":"%b","direction":"%b","message":%b}\n' % (
            session.encode(), direction.value.encode(), self._redactor.message(message),
        )  # fmt: skip
        self._write_line(line)

    def _write_line(self, line: bytes) -> None:
        if self._file.closed:
            return
        self._room -= len(line)
        why: object = "it has reached its maximum size"
        try:
            if self._room >= 0:
                self._file.write(line)
                return
        except OSError as error:
            why = error
        logger.warning("the recording '%s' is incomplete: %s", self._path, why)
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class RecordingProtocol(ClientProtocol):
    """The client side of a connection whose messages are recorded."""

    def __init__(self, recording: Recording, local: LocalInfo, result_types: frozenset[str]) -> None:
        super().__init__(local, result_types)
        self.name: str = os.urandom(8).hex()  # the names of connections that are in the file differ from it
        self.on_send: Callable[[bytes], None] | None = partial(
            recording.write, self.name, Direction.CLIENT_TO_SERVER
        )
        self._on_receive = partial(recording.write, self.name, Direction.SERVER_TO_CLIENT)

    @override
    def receive(self, message: Message | Batch, now: float) -> None:
        for one in message.messages if isinstance(message, Batch) else (message,):
            if isinstance(one, Malformed):
                # A JSON string is no message: `validate` reports it.
                self._on_receive(json.dumps(one.excerpt).encode())
            else:
                self._on_receive(encode(one, null_id_in_errors=True))
        super().receive(message, now)
