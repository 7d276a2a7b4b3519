"""Compressed bodies of answers, read piece by piece, so that a small one cannot become a large one (SEC-6)."""

from __future__ import annotations

import zlib
from typing import Final

CODINGS: Final = frozenset({b"gzip", b"x-gzip", b"deflate"})
"""What can be read; a body in any other coding is left as it is."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_MAGIC: Final = b"\x1f\x8b"
_STEP: Final = 4096
"""Bytes of a later part that are looked at in one go: what is behind its end is copied each time."""


class Inflater:
    """One body. Its methods raise `ValueError` for what is not compressed as its headers say."""

    def __init__(self, coding: bytes) -> None:
        self._coding = coding.decode()
        self._gzip = coding != b"deflate"
        self._inner = zlib.decompressobj(_GZIP)
        self._begun = False
        self._rest: bytes | memoryview = b""
        self._step: int | None = None
        self.full = False
        """Whether there may be more to say before any other bytes."""

    def feed(self, data: bytes, most: int) -> bytes:
        """What the next bytes say, no more than so many of it: the rest is given for no bytes at all."""
        held: bytes | memoryview = data
        if self._rest:
            held = b"".join((self._rest, data)) if data else self._rest
        if not self._begun and held:
            self._begun = True
            if not self._gzip:
                # Many servers send this without the frame of zlib that it should have.
                self._inner = zlib.decompressobj(zlib.MAX_WBITS if held[0] & 15 == 8 else -zlib.MAX_WBITS)
        if self._inner.eof:
            if not self._gzip or held[:2] != _MAGIC:
                self._rest, self.full = held if held == _MAGIC[:1] else b"", False
                return b""
            self._inner, self._step = zlib.decompressobj(_GZIP), _STEP
        step = held[: self._step]
        try:
            found = self._inner.decompress(step, most)
        except zlib.error as error:
            raise ValueError(f"it is not compressed with {self._coding}: {error}") from error
        ended = self._inner.eof
        left = len(held) - len(step) + len(self._inner.unused_data if ended else self._inner.unconsumed_tail)
        self._rest = memoryview(held)[len(held) - left :]
        self.full = left > 0 or (len(found) >= most and not ended)
        return found

    def end(self) -> None:
        """There are no more bytes. Raises `ValueError` where there should be."""
        if self._begun and not self._inner.eof:
            raise ValueError(f"what is compressed with {self._coding} is cut off")
