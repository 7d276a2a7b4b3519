"""A server on several workers of one store, behind a front that gives each request to the next of them.

The front speaks lines, as `mcprev.Server` does in memory, so that tests of one connection can run against it unchanged.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import json
from collections import ChainMap
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import pytest

import mcprev
from mcprev.transports.memory import connect_pair

WORKERS: Final = 3
_several: list[int] = [1]


def loop_records(**options: Any) -> mcprev.MemoryRecords:
    """A store of three methods on the clock of the running loop, so that time is passed without waiting."""
    return mcprev.MemoryRecords(clock=lambda: asyncio.get_running_loop().time(), **options)


class _Lane(asyncio.Protocol):
    """The front's end of a connection to one worker."""

    def __init__(self, take: Callable[[dict[str, Any]], None]) -> None:
        self._take, self._rest = take, b""
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))


class _Lanes(_Lane):
    """One client's connection to all workers: no two requests in a row reach one worker."""

    def __init__(self, servers: list[mcprev.Server]) -> None:
        super().__init__(self._from_client)
        self._served = [server.connection() for server in servers]
        self._lanes = [_Lane(partial(self._from_worker, number)) for number in range(len(servers))]
        for lane, served in zip(self._lanes, self._served, strict=True):
            connect_pair(lane, served)
            # What the sharing of sessions does: all know the session by one name.
            served._connection_state.__dict__["key"] = self._served[0]._connection_state.key
        self._next = 0
        self._questions: dict[str, tuple[int, Any]] = {}

    def eof_received(self) -> None:
        for lane in self._lanes:
            lane.transport.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        for lane in self._lanes:
            lane.transport.close()

    def _send(self, number: int, message: dict[str, Any]) -> None:
        self._lanes[number].transport.write(json.dumps(message).encode() + b"\n")

    def _from_client(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            number, id_ = self._questions.pop(message["id"])
            self._send(number, {**message, "id": id_})
        elif message["method"] == "initialize":
            self._send(0, message)
            for number in range(1, len(self._lanes)):
                self._send(number, {**message, "id": "of the front"})
        elif "id" not in message:
            for number in range(len(self._lanes)):
                self._send(number, message)
        else:
            self._next = (self._next + 1) % len(self._lanes)
            self._send(self._next, message)

    def _from_worker(self, number: int, message: dict[str, Any]) -> None:
        if message.get("id") == "of the front":
            return
        if "method" in message and "id" in message:
            name = f"{number}: {message['id']}"
            self._questions[name] = (number, message["id"])
            message = {**message, "id": name}
        self.transport.write(json.dumps(message).encode() + b"\n")

    async def aclose(self) -> None:
        for served in self._served:
            await served.aclose()


class Front:
    """Several workers that look like one server."""

    def __init__(self, servers: list[mcprev.Server]) -> None:
        self.servers = servers
        self.lifespan = None

    def connection(self) -> _Lanes:
        return _Lanes(self.servers)

    @property
    def tasks(self) -> Any:
        """What the workers run together."""
        each: list[Any] = [server.tasks for server in self.servers]
        return SimpleNamespace(
            running=ChainMap(*(one.running for one in each)),
            _background=set[Any]().union(*(one._background for one in each)),
        )

    @property
    def _connections(self) -> set[Any]:
        return set[Any]().union(*(server._connections for server in self.servers))

    async def aclose(self) -> None:
        for server in self.servers:
            await server.aclose()

    def changed(self, what: str, uri: str | None = None) -> None:
        self.servers[0].changed(what, uri)


def spread(make: Callable[..., mcprev.Server]) -> Any:
    """The server that `make(store=...)` makes, or several workers of one store, as the test's module says."""
    if _several[-1] == 1:
        return make()
    store = loop_records()
    return Front([make(store=store) for _ in range(_several[-1])])


@pytest.fixture(params=[1, WORKERS], ids=["one", "workers"])
def workers(request: pytest.FixtureRequest) -> Any:
    """Run a test with one server, and with several workers of one store."""
    _several.append(request.param)
    yield request.param
    _several.pop()
