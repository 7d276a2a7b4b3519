"""Heads of requests that come again on a connection: one that is known byte for byte is not parsed again (performance.md).

A client sends the same head with every request of a kind, but for the digits that say how long its body is. A head is
learned from the parser, once a request with it was plain: kept alive, with a length, with nothing asked for but an
answer. So a request means the same whether it was parsed or recognised. What is not recognised at one glance is the
parser's: a body that is not all there, more than one request, a length that is written in another way.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from mcprev.wire.headers import Headers

if TYPE_CHECKING:
    from mcprev.protocol.http_again import Again

Pairs: TypeAlias = list[tuple[bytes, bytes]]
KNOWN: Final = 8
"""Heads that a connection remembers."""
LONGEST: Final = 4096
"""Bytes of the longest head that is remembered."""
DIGITS: Final = 10
"""Digits of the longest length that is recognised."""
END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length"
_LENGTHS: Final = re.compile(rb"\r\ncontent-length: *([0-9]{1,%d})(?=\r\n)" % DIGITS, re.IGNORECASE)
_DEMANDS: Final = frozenset({b"expect", b"transfer-encoding", b"upgrade"})
"""Headers that ask for more than an answer."""


class Head:
    """A head and the length of one body, with what the parser made of them."""

    __slots__ = (
        "after", "again", "before", "digits", "headers", "pairs", "path", "size", "start", "target", "verb",
    )  # fmt: skip

    def __init__(
        self, before: bytes, digits: bytes, after: bytes, found: tuple[str, str, bytes], pairs: Pairs
    ) -> None:
        self.before, self.digits, self.after = before, digits, after
        """Its bytes: up to the length, the length, and behind it."""
        self.verb, self.path, self.target = found
        self.pairs, self.headers = pairs, Headers(pairs)
        self.again: Again | None = None
        """What a request with this head was found to be."""
        self.start = len(before) + len(digits) + len(after)
        """Where the body begins."""
        self.size = self.start + int(digits)
        """How many bytes the request has."""

    def resized(self, digits: bytes) -> Head:
        """The same for a body of another length."""
        pairs = [(name, digits if name == _LENGTH else value) for name, value in self.pairs]
        made = Head(self.before, digits, self.after, (self.verb, self.path, self.target), pairs)
        made.again = self.again
        return made


class Heads:
    """The heads that one connection has brought, the last one first."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: list[Head] = []

    def find(self, data: bytes) -> Head | None:
        """The head of a request that is all of `data`; None where that cannot be told from what is known."""
        for place, known in enumerate(self._known):
            if not data.startswith(known.before):
                continue
            at = len(known.before)
            end = data.find(b"\r", at, at + DIGITS + 1)
            if end < 0 or not data.startswith(known.after, end):
                continue
            digits = data[at:end]
            head = known
            if digits != known.digits:
                if not digits.isdigit():
                    return None
                head = known.resized(digits)
            if head.size != len(data):
                return None
            if place or head is not known:
                del self._known[place]
                self._known.insert(0, head)
            return head
        return None

    def learn(self, data: bytes, found: tuple[str, str, bytes], pairs: Pairs) -> None:
        """Remember the head of a plain request, if `data` is that request and nothing else."""
        names = dict(pairs)
        digits = names.get(_LENGTH, b"")
        start = data.find(END) + len(END)
        length = _LENGTHS.search(data, 0, start)
        if len(names) != len(pairs) or not _DEMANDS.isdisjoint(names) or length is None:
            return
        # A line for each header and no other: nothing is folded, and nothing came before the request.
        if (
            length[1] == digits
            and start <= LONGEST
            and len(data) == start + int(digits)
            and data.count(b"\n", 0, start) == len(pairs) + 2
        ):
            before, after = data[: length.start(1)], data[length.end(1) : start]
            self._known.insert(0, Head(before, digits, after, found, pairs))
            del self._known[KNOWN:]
