"""How connections are accepted: many in one turn of the event loop, but bounded, and never more than there is room for.

SEC-6, HTTP-3, HTTP-31. The clients are real sockets, which wait in the queue of the kernel until a turn takes them.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, cast

import pytest
from typing_extensions import override

import mcprev
from helpers.lanes import each_loop, turns
from helpers.requirements import req
from helpers.running import pass_time, run, until
from mcprev.serving import accepting, running
from mcprev.serving.accepting import BACK_OFF, BATCH, SHARED_BATCH, Acceptor
from mcprev.serving.sockets import BACKLOG, bind

MANY: Final = 2 * BATCH + 5


class Line(socket.socket):
    """A listening socket; `failures` are raised by the next attempts to accept, None is an attempt that may succeed."""

    failures: list[OSError | None]
    attempts = 0

    @override
    def accept(self) -> tuple[socket.socket, Any]:
        self.attempts += 1
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        return super().accept()


class Door:
    """An acceptor with its clients, and what happens in which turn of the loop."""

    def __init__(self, listening: Line, limit: int) -> None:
        self.listening = listening
        self.limit = limit
        self.open: list[Kept] = []
        self.happened: list[tuple[str, int]] = []
        self.turn = 0
        self.idle = 0
        """How many times idle connections can make room."""
        self.refuses = False
        """Whether the protocol of the next connection cannot be made."""
        self._stack = ExitStack()
        self._loop = asyncio.get_running_loop()
        self._count()
        self.acceptor = Acceptor(
            listening, self._make, room=lambda: self.limit - len(self.open), make_room=self._make_room
        )

    def _count(self) -> None:
        self.turn += 1
        self._ticking = self._loop.call_soon(self._count)

    def _make(self) -> asyncio.Protocol:
        self.happened.append(("made", self.turn))
        if self.refuses:
            self.refuses = False
            raise ValueError("no protocol")
        return Kept(self)

    def _make_room(self) -> bool:
        self.happened.append(("make room", self.turn))
        if not self.idle:
            return False
        self.idle -= 1
        self.open[0].transport.close()
        return True

    def clients(self, count: int) -> list[socket.socket]:
        """Connect, as far as the kernel does that alone."""
        return [
            self._stack.enter_context(socket.create_connection(self.listening.getsockname()))
            for _ in range(count)
        ]

    def has(self, what: str) -> bool:
        """Whether something has happened."""
        return any(each == what for each, _ in self.happened)

    def made(self) -> list[int]:
        """How many connections each turn has accepted."""
        numbers = [turn for what, turn in self.happened if what == "made"]
        return [numbers.count(turn) for turn in dict.fromkeys(numbers)]

    async def end(self) -> None:
        """Close everything."""
        self.acceptor.stop()
        await turns()  # which opens what has just been accepted
        for kept in tuple(self.open):
            kept.transport.abort()
        await until(lambda: not self.open)
        self._stack.close()
        self._ticking.cancel()
        await turns()


class Kept(asyncio.Protocol):
    """A connection that has been accepted, and sends back what it gets."""

    def __init__(self, door: Door) -> None:
        self._door = door

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._door.open.append(self)

    @override
    def data_received(self, data: bytes) -> None:
        self._door.happened.append(("served", self._door.turn))
        self.transport.write(data)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._door.open.remove(self)


def with_door(test: Callable[[Door], Any], *, limit: int = BACKLOG) -> None:
    """Run a test with an acceptor that has not begun."""

    async def main() -> None:
        with bind("127.0.0.1", 0) as bound, Line(fileno=os.dup(bound.fileno())) as listening:
            listening.failures = []
            door = Door(listening, limit)
            try:
                await test(door)
            finally:
                await door.end()

    run(main())


@contextmanager
def failing(door: Door, *failures: OSError | None) -> Iterator[None]:
    door.listening.failures = list(failures)
    yield
    assert door.listening.failures == []


@req("SEC-6", "HTTP-31", everywhere=True)
@each_loop
def test_a_turn_accepts_all_that_wait_up_to_a_bound() -> None:
    async def test(door: Door) -> None:
        door.clients(MANY)
        door.acceptor.start()
        await until(lambda: len(door.open) == MANY)
        assert door.made() == [BATCH, BATCH, MANY - 2 * BATCH]
        assert door.listening.attempts == MANY + 1, "the last of which finds none"
        door.clients(3)
        await until(lambda: len(door.open) == MANY + 3)
        assert sum(door.made()) == MANY + 3

    with_door(test)


@req("SEC-6", "HTTP-3", everywhere=True)
@each_loop
def test_a_worker_that_shares_its_socket_takes_one_connection_in_a_turn() -> None:
    """Others that have time can take the next one."""

    async def test(door: Door) -> None:
        door.acceptor._batch = SHARED_BATCH
        door.clients(5)
        door.acceptor.start()
        await until(lambda: len(door.open) == 5)
        assert door.made() == [1] * 5

    with_door(test)


@req("SEC-6", "HTTP-3", everywhere=True)
@each_loop
@pytest.mark.parametrize(("limit", "taken"), [(2, 2), (MANY, 3)])
def test_what_has_arrived_when_a_server_stops_is_accepted_within_the_limit(limit: int, taken: int) -> None:
    """Its clients may have sent requests already, which closing the socket would lose."""

    async def test(door: Door) -> None:
        door.clients(3)
        door.acceptor.finish()
        await until(lambda: len(door.open) == taken)
        with failing(
            door, *([] if limit == taken else [ConnectionAbortedError(), OSError(errno.EMFILE, "none")])
        ):
            door.acceptor.finish()
        assert len(door.open) == taken

    with_door(test, limit=limit)


@req("SEC-6", "HTTP-3", everywhere=True)
@each_loop
def test_a_worker_that_has_more_connections_lets_others_be_first() -> None:
    """Once for all that has arrived; what nobody has taken then is accepted."""
    asked: list[float] = []

    async def test(door: Door) -> None:
        def wait() -> float:
            asked.append(0.01)
            return asked[-1] if len(asked) < 3 else 0.0

        door.acceptor._wait, door.acceptor._batch = wait, SHARED_BATCH
        door.acceptor.start()
        door.clients(1)
        await until(lambda: len(asked) == 1)
        assert not door.made()
        await until(lambda: len(door.open) == 1)
        assert len(asked) == 1
        door.clients(4)
        await until(lambda: len(door.open) == 5)
        assert len(asked) > 3  # it is asked anew for what comes later

    with_door(test)


@req("SEC-6", "HTTP-31", everywhere=True)
@each_loop
def test_a_connection_in_use_is_served_between_two_batches() -> None:
    async def test(door: Door) -> None:
        door.acceptor.start()
        (busy,) = door.clients(1)
        await until(lambda: len(door.open) == 1)
        door.clients(4 * BATCH)
        busy.sendall(b"one")
        await until(lambda: door.has("served"))
        assert sum(door.made()) <= 1 + 2 * BATCH
        busy.settimeout(5)
        assert busy.recv(10) == b"one"
        await until(lambda: len(door.open) == 1 + 4 * BATCH)

    with_door(test)


@req("SEC-6", everywhere=True)
@each_loop
@pytest.mark.parametrize("limit", [1, BATCH - 1, BATCH, BATCH + 1, MANY])
def test_no_batch_goes_beyond_the_limit(limit: int) -> None:
    """What is beyond waits in the queue of the kernel, and is accepted when others have closed."""
    most = 0

    async def test(door: Door) -> None:
        nonlocal most
        clients = door.clients(limit + 3)
        door.acceptor.start()
        await until(lambda: door.has("make room"))
        await turns(20)
        assert (len(door.open), sum(door.made())) == (limit, limit)
        for client in clients[:3]:
            client.close()
        await until(lambda: sum(door.made()) == limit + 3)
        await until(lambda: len(door.open) == limit)

    with_door(test, limit=limit)


@req("SEC-6", everywhere=True)
@each_loop
def test_idle_connections_are_closed_only_for_one_that_waits() -> None:
    async def test(door: Door) -> None:
        door.idle = 5
        door.clients(2)
        door.acceptor.start()
        await until(lambda: len(door.open) == 2)
        await turns(20)
        assert door.idle == 5, "nobody waits"
        door.clients(2)
        await until(lambda: sum(door.made()) == 4)
        await until(lambda: len(door.open) == 2)
        assert door.idle == 3

    with_door(test, limit=2)


EXHAUSTED: Final = [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM]


@req("SEC-6", everywhere=True)
@pytest.mark.parametrize("number", [*EXHAUSTED, errno.EPERM, errno.ENETDOWN])
def test_an_error_in_a_batch_leaves_the_rest_for_later_and_is_logged_once(
    number: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Idle connections make room if descriptors or memory ran out, and for no other reason."""
    monkeypatch.setattr(accepting, "QUIET", 1.0)

    async def test(door: Door) -> None:
        door.clients(5)
        with failing(door, None, None, OSError(number, os.strerror(number))):
            door.acceptor.start()
            await until(lambda: not door.listening.failures)
        await turns(10)
        assert sum(door.made()) == 2
        asked = [what for what, _ in door.happened].count("make room")
        assert asked == (number in EXHAUSTED)
        pass_time(BACK_OFF * 1.1)
        await until(lambda: sum(door.made()) == 5)
        with failing(door, OSError(number, "again")):
            door.clients(1)
            await until(lambda: not door.listening.failures)
        assert [record.getMessage() for record in caplog.records] == [
            f"no connection can be accepted: {os.strerror(number)}; new connections wait"
        ]
        pass_time(1.0)
        with failing(door, OSError(number, "later")):
            door.clients(1)
            await until(lambda: not door.listening.failures)
        assert len(caplog.records) == 2
        pass_time(BACK_OFF * 1.1)
        await until(lambda: sum(door.made()) == 7)

    with_door(test)


@req("SEC-6", everywhere=True)
def test_an_exhausted_process_closes_idle_connections_and_goes_on_at_once() -> None:
    async def test(door: Door) -> None:
        door.clients(1)
        door.acceptor.start()
        await until(lambda: len(door.open) == 1)
        door.idle = 1
        began = asyncio.get_running_loop().time()
        with failing(door, OSError(errno.EMFILE, "")):
            door.clients(1)
            await until(lambda: sum(door.made()) == 2)
        assert asyncio.get_running_loop().time() - began < BACK_OFF
        await until(lambda: len(door.open) == 1)

    with_door(test)


@req("SEC-6", everywhere=True)
def test_clients_that_have_gone_already_hold_up_nobody() -> None:
    """Neither one that the kernel reports, nor one that hangs up between `accept` and its first turn."""

    async def test(door: Door) -> None:
        gone = ConnectionAbortedError(errno.ECONNABORTED, "")
        first, *_ = door.clients(3)
        first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        first.close()
        with failing(door, gone, None, gone, None):
            door.acceptor.start()
            await until(lambda: bool(door.happened))
            assert len(door.made()) == 1
        assert door.made() == [3]
        await until(lambda: len(door.open) == 2)

    with_door(test)


@req("SEC-6", everywhere=True)
@each_loop
def test_a_connection_that_cannot_be_served_is_closed_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test(door: Door) -> None:
        door.refuses = True
        first, _ = door.clients(2)
        door.acceptor.start()
        await until(lambda: len(door.open) == 1)
        first.settimeout(5)
        assert first.recv(1) == b""
        assert [record.getMessage() for record in caplog.records] == ["a connection could not be served"]

    with_door(test)


@req("HTTP-3", "SEC-6", everywhere=True)
@each_loop
@pytest.mark.parametrize("paused", [False, True])
def test_nothing_is_accepted_after_the_stop(*, paused: bool) -> None:
    """Not by a reader, nor by the timer of a pause."""

    async def test(door: Door) -> None:
        door.limit = 1
        door.clients(1)
        door.acceptor.start()
        await until(lambda: len(door.open) == 1)
        door.clients(1)
        if paused:
            await until(lambda: door.has("make room"))
        door.acceptor.stop()
        door.limit = 9
        await asyncio.sleep(2 * BACK_OFF)
        assert sum(door.made()) == 1

    with_door(test)


@req("HTTP-3", "SEC-6", everywhere=True)
def test_a_loop_that_cannot_watch_a_socket_looks_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows: limit, pause and stop are the same."""

    async def test(door: Door) -> None:
        monkeypatch.setattr(door.acceptor, "_loop", Unwatched(asyncio.get_running_loop()))
        door.acceptor.start()
        clients = door.clients(3)
        await until(lambda: door.has("make room"))
        assert (len(door.open), sum(door.made())) == (2, 2)
        clients[0].close()
        await until(lambda: sum(door.made()) == 3)
        door.acceptor.stop()
        door.limit = 9
        door.clients(1)
        await asyncio.sleep(10 * accepting.POLL)
        assert sum(door.made()) == 3

    with_door(test, limit=2)


@req("SEC-6", everywhere=True)
@each_loop
def test_a_server_has_as_many_connections_as_its_option_says() -> None:
    """The newest have half a second for their first request, so that nothing makes room for the others."""

    async def main() -> None:
        server = running._server(mcprev.Server(mcprev.ServerHandler(), "few", "1").asgi(max_connections=3))
        with bind("127.0.0.1", 0) as listening, ExitStack() as stack:
            serving = asyncio.create_task(running._serve(server, listening, None))
            for _ in range(5):
                stack.enter_context(socket.create_connection(listening.getsockname()))
            most = 0
            while most < 3:
                await asyncio.sleep(0)
                most = max(most, len(server.server_state.connections))
            for _ in range(100):
                await asyncio.sleep(0)
                most = max(most, len(server.server_state.connections))
            assert most == 3
            server.should_exit = True
            await serving

    run(main())


class Unwatched:
    """An event loop that watches no sockets for anybody else."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        if name in {"add_reader", "remove_reader"}:
            return self._unable
        return getattr(self._loop, name)

    def _unable(self, *_: object) -> None:
        raise NotImplementedError
