"""Stores of three methods that misbehave in the ways that stores in other places do, on the clock of the running loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from copy import deepcopy

from mcprev import MemoryRecords, Record, StoreError


def loop_time() -> float:
    return asyncio.get_running_loop().time()


class Unreliable:
    """Records on the clock of the running loop, which the test lets fail, wait, forget and go back."""

    def __init__(self, other: Unreliable | None = None) -> None:
        """`other` holds the same, as another worker sees it."""
        self._box: list[MemoryRecords] = [MemoryRecords(clock=loop_time)] if other is None else other._box
        self.away = False
        """Whether each operation fails."""
        self.deaf: Callable[[str], bool] = lambda _: False
        """Whether a write of a key is carried out and fails all the same."""
        self.before: Callable[[str, str], Awaitable[None]] | None = None
        """Runs before each operation: its name and key."""
        self.reads: list[str] = []
        self.writes: list[tuple[str, bytes, float | None]] = []

    @property
    def held(self) -> MemoryRecords:
        """What is stored."""
        return self._box[0]

    async def _operation(self, name: str, key: str) -> None:
        await asyncio.sleep(0)
        if self.before is not None:
            await self.before(name, key)
        if self.away:
            raise StoreError("the store is away")

    async def read(self, key: str, /) -> Record | None:
        self.reads.append(key)
        await self._operation("read", key)
        return await self.held.read(key)

    async def write(
        self, key: str, value: bytes, /, *, seen: int | None = None, ttl: float | None = None
    ) -> int | None:
        await self._operation("write", key)
        version = await self.held.write(key, value, seen=seen, ttl=ttl)
        if version is not None:
            self.writes.append((key, value, ttl))
        if self.deaf(key):
            raise StoreError("no answer within 2 s")
        return version

    async def remove(self, key: str, /, *, seen: int | None = None) -> bool:
        await self._operation("remove", key)
        return await self.held.remove(key, seen=seen)

    def lose_everything(self) -> None:
        """Begin anew, as a store without a disk does when it is started again."""
        self._box[0] = MemoryRecords(clock=loop_time)

    def copy(self) -> MemoryRecords:
        """What is stored at this moment, for `go_back`."""
        held = MemoryRecords(clock=loop_time)
        vars(held).update(
            _held=dict(vars(self.held)["_held"]),
            _room=deepcopy(vars(self.held)["_room"]),
            _endings=list(vars(self.held)["_endings"]),
            _versions=vars(self.held)["_versions"],
        )
        return held

    def go_back(self, to: MemoryRecords) -> None:
        """Lose the last writes, as a store does that another one takes over."""
        self._box[0] = to
