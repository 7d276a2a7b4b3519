"""A TCP proxy that does harm: it cuts, delays, repeats and truncates what passes, at the place that a test names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from enum import StrEnum


class Harm(StrEnum):
    """What happens to a piece of a stream."""

    CUT = "cut"
    """It is lost, and the connection with it."""
    TRUNCATE = "truncate"
    """Half of it arrives, and the connection is lost."""
    DELAY = "delay"
    """It comes late."""
    REPEAT = "repeat"
    """It comes twice."""


LATE = 0.05
"""Seconds that a delayed piece is held."""


class Proxy:
    """Passes bytes on between its clients and one server."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self.target = port
        """The port of the server, which may change."""
        self.pieces = {True: 0, False: 0}
        """How many pieces have passed: from the clients, and to them."""
        self.harm: Callable[[bool, int, bytes], Harm | None] = lambda _upwards, _number, _data: None
        """What is done to a piece: whether it comes from a client, its number in that direction, its bytes."""
        self.harmed = 0
        """To how many pieces harm was done since `hurt`."""
        self.size = 65536
        """The most bytes of a piece."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def hurt(self, harm: Harm, *, upwards: bool, number: int) -> None:
        """Do harm once, to the piece with this number from now on."""
        self.pieces, self.harmed = {True: 0, False: 0}, 0
        self.harm = lambda up, count, _: harm if up is upwards and count == number else None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        await self._server.wait_closed()

    def cut(self) -> None:
        """Lose every connection there is."""
        for task in self._tasks:
            task.cancel()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._join(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            other_reader, other = await asyncio.open_connection("127.0.0.1", self.target)
            ends.append(other)
            loop = asyncio.get_running_loop()
            both = {
                loop.create_task(self._pass(reader, other, upwards=True)),
                loop.create_task(self._pass(other_reader, writer, upwards=False)),
            }
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in both:
                    task.cancel()
                await asyncio.wait(both)
        except OSError:
            pass
        finally:
            for end in ends:
                end.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, upwards: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(self.size):
                number = self.pieces[upwards]
                self.pieces[upwards] += 1
                harm = self.harm(upwards, number, data)
                self.harmed += harm is not None
                if harm is Harm.CUT:
                    return
                if harm is Harm.DELAY:
                    await asyncio.sleep(LATE)
                writer.write(data[: len(data) // 2] if harm is Harm.TRUNCATE else data)
                if harm is Harm.REPEAT:
                    writer.write(data)
                await writer.drain()
                if harm is Harm.TRUNCATE:
                    return


@asynccontextmanager
async def proxy(port: int) -> AsyncGenerator[Proxy, None]:
    """Stand between clients and the server at a port."""
    made = Proxy(port)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()
