"""Keeps the bytes of a session's messages: the newest in memory, older ones in a temporary file, the oldest nowhere."""

from __future__ import annotations

import tempfile
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import BinaryIO, Final, cast

MEMORY: Final = 64 * 1024 * 1024
"""The bytes that are kept in memory."""
FILE: Final = 256 * 1024 * 1024
"""The bytes that are kept in temporary files, which nothing but this process can read."""
_HALVES: Final = 2
"""The temporary files: when one is full, the other is emptied."""


@dataclass(slots=True)
class _Half:
    """One temporary file, written from its beginning to its end."""

    file: BinaryIO
    size: int = 0
    places: dict[int, tuple[int, int]] = field(default_factory=dict[int, "tuple[int, int]"])
    """The offset and length of the bytes of each number."""


class Spool:
    """Bytes by number, within bounds; `get` returns None for what was dropped."""

    def __init__(self, memory: int = MEMORY, file: int = FILE) -> None:
        self._memory, self._half = memory, file // _HALVES
        self._held: OrderedDict[int, bytes] = OrderedDict()
        self._size = 0
        self._halves: list[_Half] = []
        self._closed = False
        self._lock = threading.Lock()

    def put(self, number: int, data: bytes) -> None:
        """Keep bytes under a number that is new."""
        with self._lock:
            self._held[number] = data
            self._size += len(data)
            while self._size > self._memory:
                oldest, moved = self._held.popitem(last=False)
                self._size -= len(moved)
                self._write(oldest, moved)

    def get(self, number: int) -> bytes | None:
        """Return the bytes of a number; None if they were dropped. May be called in a thread."""
        with self._lock:
            return self._get(number)

    def _get(self, number: int) -> bytes | None:
        held = self._held.get(number)
        if held is not None:
            return held
        for half in self._halves:
            if number in half.places:
                offset, length = half.places[number]
                try:
                    half.file.seek(offset)
                    found = half.file.read(length)
                except (OSError, ValueError):
                    return None
                return found if len(found) == length else None
        return None

    def close(self) -> None:
        """Drop everything and remove the temporary files."""
        with self._lock:
            self._closed = True
            self._held.clear()
            self._size = 0
            for half in self._halves:
                half.file.close()
            self._halves.clear()

    def _write(self, number: int, data: bytes) -> None:
        if len(data) > self._half or self._closed:
            return
        try:
            half = self._halves[-1] if self._halves else self._another()
            if half.size + len(data) > self._half:
                half = self._another()
            half.file.seek(half.size)
            half.file.write(data)
        except OSError:
            return  # a full disk drops this message and no other
        half.places[number] = (half.size, len(data))
        half.size += len(data)

    def _another(self) -> _Half:
        """Return an empty file; the older of two is removed for it."""
        if len(self._halves) == _HALVES:
            self._halves.pop(0).file.close()
        file = tempfile.TemporaryFile(prefix="mcprev-dev-")  # noqa: SIM115 - `close` closes it
        half = _Half(cast("BinaryIO", file))
        self._halves.append(half)
        return half
