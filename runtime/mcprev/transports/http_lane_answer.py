"""Answers on connections of a client's own: their bodies, as whole or as they come (HTTP-4, HTTPM-6, SEC-6).

A body that nobody takes is not read either, beyond a bound. Compressed ones are, and are held to the same limits.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from mcprev.transports.http_answers import Answer, Headers, broken, too_large
from mcprev.wire import media

if TYPE_CHECKING:
    from mcprev.transports.http_inflate import Inflater
    from mcprev.transports.http_lane import Lane

ROOM: Final = 256 * 1024
"""Bytes of a body that wait to be taken; beyond that no more is read."""
_OK: Final = 200
_JSON: Final = media.JSON.encode()


class LaneAnswer(Answer):
    """An answer on a connection of our own."""

    __slots__ = (
        "_chunked", "_inflater", "_lane", "_waiter", "complete", "gathers", "keep", "lost", "parts", "room", "unread",
        "until_eof",
    )  # fmt: skip

    def __init__(self, lane: Lane, url: str, status: int, reason: bytes, headers: Headers, room: int) -> None:
        # What the class above does, without a call of its own: this is done for every request.
        self.url, self.status, self.reason, self.headers = url, status, reason.decode("latin-1"), headers
        found = headers.found
        self._lane: Lane | None = lane
        self._waiter: asyncio.Future[None] | None = None
        self._inflater: Inflater | None = None
        if b"content-encoding" in found:
            self._inflater = _inflater(found[b"content-encoding"].strip().lower())
        self.parts: list[bytes] = []
        self.unread = 0
        self.room = room
        """How many bytes may wait to be taken."""
        self.complete = False
        """Whether all of it came, taken or not."""
        self.keep = False
        """Whether another request may follow on its connection."""
        self.lost = False
        """Whether the rest of it never comes."""
        self.gathers = status == _OK and found.get(b"content-type", b"")[: len(_JSON)] == _JSON
        """Whether nobody needs it before it is complete."""
        self._chunked = b"transfer-encoding" in found and _is_chunked(headers.all("Transfer-Encoding"))
        self.until_eof = not self._chunked and b"content-length" not in found
        """Whether it ends with its connection."""

    def ends_with(self, data: bytes) -> bool:
        """Whether a piece ends where it does: the parser passes over empty lines behind it without a word."""
        if self.parts and not self._chunked:
            return data.endswith(self.parts[-1])
        return not data.endswith((b"\r\n\r\n\r\n", b"\n\n\n"))

    def whole(self, limit: int) -> bytes | None:
        """The body, where all of it is there as it is meant."""
        if not self.complete or self.unread > limit or self._inflater is not None:
            return None
        return self._take()

    @property
    @override
    def ended(self) -> bool:
        return self.complete and not self.parts and self._inflater is None

    @override
    async def read(self, limit: int) -> bytes:
        length = self.content_length
        if length is not None and length > limit and self._inflater is None:
            self.close()
            raise too_large(limit)
        self.room, self.gathers = limit, True
        lane = self._lane
        if lane is not None:
            lane.resume()
        while not self.complete and self.unread <= limit:
            await self._more()
        if self.unread > limit:
            self.close()
            raise too_large(limit)
        data = self._take()
        return data if self._inflater is None else self._inflate_all(data, limit)

    @override
    async def chunk(self) -> bytes:
        inflater, self.gathers = self._inflater, False
        while True:
            if inflater is not None and inflater.full:
                data = b""
            else:
                while not self.parts:
                    if self.complete:
                        self._check_end()
                        return b""
                    await self._more()
                data = self._take()
                if self._lane is not None:
                    self._lane.resume()
            found = data if inflater is None else self._inflate(inflater, data, ROOM)
            if found:
                return found

    async def _more(self) -> None:
        """Wait until more is there. Raises `ConnectionLost` if that will not be; whoever is cancelled ends the connection."""
        lane = self._lane
        if lane is None:
            raise broken(self.url, "it was given up")
        if self.lost:
            raise lane.error()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            self.close()
            raise

    def rouse(self) -> None:
        """There is more, or never will be."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _take(self) -> bytes:
        parts = self.parts
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self.parts, self.unread = [], 0
        return data

    def _inflate(self, inflater: Inflater, data: bytes, most: int) -> bytes:
        try:
            return inflater.feed(data, most)
        except ValueError as error:
            self.close()
            raise broken(self.url, error) from error

    def _inflate_all(self, data: bytes, limit: int) -> bytes:
        inflater = self._inflater
        assert inflater is not None
        found = bytearray(self._inflate(inflater, data, limit + 1))
        while inflater.full and len(found) <= limit:
            found += self._inflate(inflater, b"", limit + 1 - len(found))
        if len(found) > limit:
            self.close()
            raise too_large(limit)
        self._check_end()
        return bytes(found)

    def _check_end(self) -> None:
        if self._inflater is not None:
            try:
                self._inflater.end()
            except ValueError as error:
                raise broken(self.url, error) from error

    @override
    def release(self) -> None:
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.put_back(self)

    @override
    def close(self) -> None:
        lane, self._lane = self._lane, None
        if lane is not None:
            self.keep = False
            lane.put_back(self)


def _is_chunked(codings: list[str]) -> bool:
    return codings[-1].lower().endswith("chunked")


def _inflater(coding: bytes) -> Inflater | None:
    from mcprev.transports.http_inflate import CODINGS, Inflater

    return Inflater(coding) if coding in CODINGS else None
