"""Connections of a client's own to one server: made when they are needed, kept for a while (HTTP-4, HTTP-31, SEC-1).

A request takes the connection that was used last, or a new one; there are as many as there are requests at a time,
for a call may hold one until others, which answer the server, have had theirs. What can be asked twice without harm
is asked once more where a connection that was kept breaks before a byte of the answer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from mcprev.errors import ConnectionLost
from mcprev.transports.http_answers import KEEP_ALIVE, Answer, closed, not_connected
from mcprev.transports.http_dial import dial
from mcprev.transports.http_heads import Origin, head_of, place_of
from mcprev.transports.http_lane import PIECE, Lane
from mcprev.transports.http_lane_answer import ROOM, LaneAnswer
from mcprev.wire.headers import Pairs

if TYPE_CHECKING:
    import ssl

    from mcprev.transports.http_cookies import Cookies

CLOSE: Final = 1.0
"""Seconds that connections get to end in good order."""
HEADS: Final = 64
"""How many heads of requests are kept because they come again."""
_REPEATABLE: Final = frozenset({"GET", "DELETE"})


class Pool:
    """The connections that one client has to a server."""

    def __init__(self, *, connect_timeout: float, max_message: int) -> None:
        self.room = min(ROOM, max_message)
        """How many bytes of an answer wait to be taken."""
        self._connect_timeout = connect_timeout
        self._loop = asyncio.get_running_loop()
        self._open: set[Lane] = set()
        self._idle: dict[Origin, list[Lane]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._gone: asyncio.Future[None] | None = None
        self._heads: dict[tuple[str, str, tuple[tuple[str, str], ...]], tuple[Origin, bytes]] = {}
        self._cookies: Cookies | None = None

    # -- requests ------------------------------------------------------------------------------------------

    async def send(self, verb: str, url: str, headers: Pairs, body: bytes | None) -> Answer:
        """The answer to a request. Raises `ConnectionLost`, and `LocalProtocolError` for what HTTP cannot carry."""
        origin, head, rest = self._framed(verb, url, headers, body)
        lane = self._take(origin)
        if lane is not None:
            try:
                return await self._exchange(lane, url, head, rest)
            except ConnectionLost:
                if lane.heard or verb not in _REPEATABLE:
                    raise
        lane = await self._connect(url, origin)
        return await self._exchange(lane, url, head, rest)

    def ask(self, url: str, headers: Pairs, body: bytes, told: Callable[[], None]) -> Lane | None:
        """Send a POST now, or None where that has to be waited for; `told` is called as `Lane.ask` says.

        Raises `LocalProtocolError`, and `ConnectionLost` for a host that cannot be one.
        """
        if len(body) > PIECE or self._closed:
            return None
        origin, head, _ = self._framed("POST", url, headers, body)
        lane = self._take(origin)
        if lane is not None:
            lane.ask(url, head, told)
        return lane

    async def _exchange(self, lane: Lane, url: str, head: bytes, body: bytes) -> LaneAnswer:
        waiter: asyncio.Future[None] = self._loop.create_future()

        def told() -> None:
            if not waiter.done():
                waiter.set_result(None)

        try:
            lane.ask(url, head, told)
            if body:
                await lane.pour(body)
            await waiter
        except asyncio.CancelledError:
            lane.cancel()
            raise
        return lane.result()

    def _framed(self, verb: str, url: str, headers: Pairs, body: bytes | None) -> tuple[Origin, bytes, bytes]:
        """Where a request goes, what of it is written at once, and a body that is not."""
        key = (verb, url, tuple(headers))
        known = self._heads.get(key)
        if known is None:
            if len(self._heads) >= HEADS:
                self._heads.clear()
            place = place_of(url)
            known = self._heads[key] = place.origin, head_of(verb, place, headers)
        origin, head = known
        if self._cookies is not None and (cookie := self._cookies.header(url)) is not None:
            mine = [value for name, value in headers if name.lower() == "cookie"]
            others = [pair for pair in headers if pair[0].lower() != "cookie"]
            head = head_of(verb, place_of(url), [*others, ("Cookie", "; ".join([*mine, cookie]))])
        if body is None:
            return origin, head + b"\r\n", b""
        if len(body) > PIECE:
            return origin, b"%bContent-Length: %d\r\n\r\n" % (head, len(body)), body
        return origin, b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body), b""

    def learn(self, url: str, cookies: Sequence[str]) -> None:
        """Keep the cookies that an answer sets."""
        if self._cookies is None:
            from mcprev.transports.http_cookies import Cookies

            self._cookies = Cookies()
        self._cookies.learn(url, cookies)

    # -- connections ---------------------------------------------------------------------------------------

    def _take(self, origin: Origin) -> Lane | None:
        """The connection that was used last, if one is left."""
        idle = self._idle.get(origin)
        while idle:
            lane = idle.pop()
            if not lane.spoilt:
                return lane
        return None

    async def _connect(self, url: str, origin: Origin) -> Lane:
        if self._closed:
            raise closed()
        options: dict[str, Any] = {}
        lane = Lane(self, origin)
        try:
            if origin.secure:
                options = {"ssl": _trust(), "server_hostname": origin.host, "ssl_shutdown_timeout": CLOSE}
            async with asyncio.timeout(self._connect_timeout):
                connected = await dial(origin.host, origin.port)
                await self._loop.create_connection(lambda: lane, sock=connected, **options)
        except TimeoutError as error:
            raise not_connected(url, f"no connection within {self._connect_timeout:g} s") from error
        except (OSError, ValueError) as error:
            raise not_connected(url, str(error) or type(error).__name__) from error
        except asyncio.CancelledError:
            self.gone(lane)  # not every loop says so
            raise
        if self._closed:
            lane.abort()
            raise closed()
        return lane

    def opened(self, lane: Lane) -> None:
        """There is one more connection."""
        self._open.add(lane)

    def gone(self, lane: Lane) -> None:
        """A connection is gone."""
        self._open.discard(lane)
        idle = self._idle.get(lane.origin, ())
        if lane in idle:
            self._idle[lane.origin].remove(lane)
        if self._gone is not None and not self._open and not self._gone.done():
            self._gone.set_result(None)

    def put(self, lane: Lane) -> None:
        """Keep a connection for the next request."""
        if self._closed:
            lane.close()
            return
        lane.idle_since = self._loop.time()
        self._idle.setdefault(lane.origin, []).append(lane)
        if self._timer is None:
            self._timer = self._loop.call_later(KEEP_ALIVE, self._sweep)

    def _sweep(self) -> None:
        """Close what nobody has needed for too long."""
        self._timer = None
        now, first = self._loop.time(), None
        for lanes in self._idle.values():
            stale = sum(lane.idle_since + KEEP_ALIVE <= now for lane in lanes)
            for lane in lanes[:stale]:
                lane.close()
            del lanes[:stale]
            if lanes:
                first = min(lanes[0].idle_since, first or now)
        if first is not None:
            self._timer = self._loop.call_at(first + KEEP_ALIVE, self._sweep)

    async def close(self) -> None:
        """Let all connections go, and wait until they are gone."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._idle.clear()
        for end in (Lane.close, Lane.abort):
            for lane in tuple(self._open):
                end(lane)
            if self._open:
                self._gone = self._loop.create_future()
                await asyncio.wait({self._gone}, timeout=CLOSE)


def _trust() -> ssl.SSLContext:
    """What certificates are judged by: those of the system, or where the usual variables say they are."""
    return _context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=4)
def _context(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    import ssl

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
