"""Compressed bodies of answers, read piece by piece, so that a small one cannot become a large one (SEC-6)."""

from __future__ import annotations

import zlib
from typing import Final

CODINGS: Final = frozenset({b"gzip", b"x-gzip", b"deflate"})
"""What can be read; a body in any other coding is left as it is."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_MAGIC: Final = b"\x1f\x8b"


class Inflater:
    """One body. Its methods raise `ValueError` for what is not compressed as its headers say."""

    def __init__(self, coding: bytes) -> None:
        self._coding = coding.decode()
        self._gzip = coding != b"deflate"
        self._inner = zlib.decompressobj(_GZIP)
        self._begun = False
        self._rest: bytes = b""
        self.full = False
        """Whether there may be more to say before any other bytes."""

    def feed(self, data: bytes, most: int) -> bytes:
        """What the next bytes say, no more than so many of it: the rest is given for no bytes at all."""
        if self._rest:
            data = self._rest + data
        if not self._begun and data:
            self._begun = True
            if not self._gzip:
                # Many servers send this without the frame of zlib that it should have.
                self._inner = zlib.decompressobj(zlib.MAX_WBITS if data[0] & 15 == 8 else -zlib.MAX_WBITS)
        if self._inner.eof:
            if not self._gzip or not data.startswith(_MAGIC):
                self._rest, self.full = data if data == _MAGIC[:1] else b"", False
                return b""
            self._inner = zlib.decompressobj(_GZIP)
        try:
            found = self._inner.decompress(data, most)
        except zlib.error as error:
            raise ValueError(f"it is not compressed with {self._coding}: {error}") from error
        ended = self._inner.eof
        self._rest = self._inner.unused_data if ended else self._inner.unconsumed_tail
        self.full = bool(self._rest) if ended else len(found) >= most
        return found

    def end(self) -> None:
        """There are no more bytes. Raises `ValueError` where there should be."""
        if self._begun and not self._inner.eof:
            raise ValueError(f"what is compressed with {self._coding} is cut off")
