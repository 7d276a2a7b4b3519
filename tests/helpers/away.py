"""Servers by hand that tell of changes and are away for a while: over HTTP, over the oldest HTTP transport, and as a process."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeAlias, cast

import pytest
from typing_extensions import override

import mcprev
from api.wire import SUBSCRIPTION_ID, HandServer, Message
from helpers.raw_server import Exchange, Mcp, OldMcp, Raw, serve, text
from helpers.running import until
from mcprev.client.targets import Target
from mcprev.errors import ConnectionLost
from mcprev.protocol.subscriptions import ACKNOWLEDGED, CHANGES, LISTEN, Changed
from mcprev.revisions import HttpShape, Revision
from mcprev.transports.http.client import legacy_sse, streamable, streams

URI: Final = "a:1"
SECONDS: Final = (2, 8, 30, 120)
"""How long servers are away."""
REPLIES: Final[Mapping[str, Any]] = {
    "tools/call": text("x"),
    "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
    "prompts/list": {"prompts": []},
    "resources/list": {"resources": [{"uri": URI, "name": "a resource"}]},
    "resources/subscribe": {},
    "resources/unsubscribe": {},
    "logging/setLevel": {},
    "ping": {},
}


class Changing(Mcp):
    """A server that tells of changes, on the stream of a session or on those that listen."""

    def __init__(self, row: Revision, *, forgets: bool = False) -> None:
        super().__init__(row, REPLIES)
        self.replies["GET" if row.handshake else LISTEN] = self.listen
        self.streams: list[Exchange] = []
        self.forgets = forgets
        """Whether it knows no session any more after it was away."""

    @override
    async def __call__(self, exchange: Exchange) -> None:
        if exchange.headers.get("mcp-session-id", self.session) != self.session:
            await exchange.respond(404)
        else:
            await super().__call__(exchange)

    async def listen(self, exchange: Exchange) -> None:
        await exchange.stream()
        if not self.revision.handshake:
            await self.tell(exchange, ACKNOWLEDGED, notifications=exchange.message["params"]["notifications"])
        self.streams.append(exchange)
        try:
            await exchange.gone.wait()
        finally:
            if exchange in self.streams:
                self.streams.remove(exchange)

    async def tell(self, exchange: Exchange, method: str, **params: Any) -> None:
        if not self.revision.handshake:
            params["_meta"] = {SUBSCRIPTION_ID: exchange.message["id"]}
        await exchange.event({"jsonrpc": "2.0", "method": method, "params": params})

    async def change(self) -> None:
        await until(lambda: bool(self.streams))
        for stream in tuple(self.streams):
            await self.tell(stream, CHANGES[Changed.TOOLS].method)

    def begin_anew(self) -> None:
        if self.forgets:
            self.session = f"{self.session}-again"

    def fall_silent(self) -> None:
        """Nothing comes on the streams that are open any more, and none of them ends."""
        self.streams.clear()

    async def sign(self) -> None:
        for stream in self.streams:
            await stream.send(b": still here\n\n")


class OldChanging(OldMcp):
    """The same over the oldest transport."""

    def __init__(self, row: Revision) -> None:
        super().__init__(row, REPLIES)

    async def change(self) -> None:
        await until(lambda: self.stream is not None)
        assert self.stream is not None
        await self.stream.event({"jsonrpc": "2.0", "method": CHANGES[Changed.TOOLS].method})

    @override
    async def reply(self, exchange: Exchange) -> None:
        if self.stream is not None:
            await super().reply(exchange)

    def begin_anew(self) -> None:
        """It keeps nothing."""

    def fall_silent(self) -> None:
        self.stream = None

    async def sign(self) -> None:
        """It sends none of its own accord."""


def soon_quiet(monkeypatch: pytest.MonkeyPatch) -> float:
    """Let a stream without a byte count as lost after a few seconds, and return how many."""
    assert streams.QUIET <= 300
    for module in (streamable, legacy_sse):
        monkeypatch.setattr(module, "QUIET", 3.0)
    return 3.0


async def outage(raw: Raw, seconds: float) -> None:
    """The server is gone for some time of the loop's clock, and its address is refused."""
    port = raw.port
    await raw.stop()
    await asyncio.sleep(seconds)
    await raw.start(port)


class Away:
    """A server that can be away: how to reach it, to let it tell of a change, and to have it away for some seconds."""

    def __init__(
        self,
        target: Callable[[], Target],
        change: Callable[[], Any],
        away: Callable[[float], Any],
        fall_silent: Callable[[], None] = lambda: None,
        sign: Callable[[], Any] = lambda: asyncio.sleep(0),
    ) -> None:
        self.target = target
        self.change = change
        self.away = away
        self.fall_silent = fall_silent
        """Over HTTP: its streams bring nothing more, and do not end, as behind a NAT that forgot them."""
        self.sign = sign
        """Sends a comment on each stream."""


@asynccontextmanager
async def over_http(row: Revision, *, forgets: bool = False) -> AsyncGenerator[Away, None]:
    """A server over HTTP of a revision."""
    server = OldChanging(row) if row.http is HttpShape.SSE else Changing(row, forgets=forgets)
    async with serve(server) as raw:

        async def away(seconds: float) -> None:
            server.begin_anew()
            await outage(raw, seconds)

        path = "/sse" if row.http is HttpShape.SSE else "/mcp"
        target = partial(mcprev.http, raw.origin + path)
        yield Away(target, server.change, away, server.fall_silent, server.sign)


class Process(HandServer):
    """A server by hand on a connection of its own, as a process is."""

    def __init__(self, row: Revision) -> None:
        super().__init__(row, cast("Any", REPLIES))
        self.listens: list[Any] = []

    @override
    def reply(self, request: Message) -> Any:
        if request["method"] != LISTEN:
            return super().reply(request)
        meta = {SUBSCRIPTION_ID: request["id"]}
        self.tell(ACKNOWLEDGED, {"notifications": request["params"]["notifications"], "_meta": meta})
        self.listens.append(request["id"])
        return None


class Processes:
    """Starts a server for each connection, unless it cannot be started now."""

    def __init__(self, row: Revision) -> None:
        self._row = row
        self.made: list[Process] = []
        self.can_start = True

    def connection(self) -> Process:
        if not self.can_start:
            raise ConnectionLost("it cannot be started", in_flight=False, retry_safe=True)
        self.made.append(Process(self._row))
        return self.made[-1]

    async def change(self) -> None:
        living = [each for each in self.made if not each.lost]
        for each in living:
            if self._row.handshake:
                each.tell(CHANGES[Changed.TOOLS].method)
            for id_ in each.listens:
                each.tell(CHANGES[Changed.TOOLS].method, {"_meta": {SUBSCRIPTION_ID: id_}})
        await asyncio.sleep(0)

    async def away(self, seconds: float) -> None:
        self.can_start = False
        for each in self.made:
            await each.aclose()
        await asyncio.sleep(seconds)
        self.can_start = True


class Restarting(mcprev.memory):
    """A target whose connection is opened again, as that of a command is."""

    restarts = mcprev.ReconnectPolicy()


@asynccontextmanager
async def as_process(row: Revision) -> AsyncGenerator[Away, None]:
    """A server that dies, and cannot be started for some time."""
    made = Processes(row)
    yield Away(lambda: Restarting(cast("Any", made)), made.change, made.away)
    for each in made.made:
        each.check()


Kind: TypeAlias = Callable[[Revision], Any]
