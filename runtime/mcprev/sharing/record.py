"""The record of a session in the store: what every copy of the session has to know."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from mcprev.core.store import Record, Store, stored_for
from mcprev.error_text import MALFORMED, invalid_value
from mcprev.errors import Json, StoreError
from mcprev.sharing.watching import TRIES

FORMAT: Final = 1
"""The format of the record; a worker does not restore a session that has another one."""
INDEX: Final = "sessions"
"""The index of the sessions that were confirmed, the longest unused first."""
UNCONFIRMED: Final = "sessions/unconfirmed"
"""The index of those that were not: they end first where others need the room."""
BLOCK: Final = 10_000
"""The number of ids that belong to one place of a session."""
GRACE: Final = 600.0
"""Seconds for which the logs of a session may outlive its record, beside its time to live."""
MAX_PLACES: Final = 200_000
"""The maximum number of places of a session, so that all ids are below 2 to the power of 31."""


def key_of(session_id: str) -> str:
    """Return the key of a session, from which nobody learns its id."""
    return sha256(session_id.encode("utf-8", "surrogateescape")).hexdigest()


def owner_of(principal: str | None, session_id: str) -> str | None:
    """Return what the record says of the principal that opened a session."""
    return None if principal is None else sha256(json.dumps([principal, session_id]).encode()).hexdigest()


def new_record(
    session: dict[str, Json], principal: str | None, client: str, told: list[Json], worker: int, ttl: float
) -> dict[str, Json]:
    """Return the record of a session that a worker has opened.

    `session` is the state of the engine. A copy has a place, from whose block its ids are; `places` maps those of the
    copies that are loaded to their workers. `gets` counts the GET streams of each worker. The worker `reader` sends what
    is in the session's own log, of which the client has everything up to `read`. `told` are the epoch and number of
    the changes that the client was told of. `ttl` is the time to live of the record.
    """
    return {
        "format": FORMAT,
        "session": session,
        "principal": principal,
        "client": client,
        "next": 1,
        "places": {"0": worker},
        "gets": {},
        "reader": 0,
        "read": 0,
        "told": told,
        "ttl": ttl,
    }


def log_ttl(ttl: float) -> float:
    """Return the time to live of the logs of a session whose record has one; both are renewed together."""
    return 2 * ttl + GRACE


def decode(record: Record) -> dict[str, Json]:
    """Return the value of a record. Raises `StoreError`."""
    found = {"client": "", **object_in(record.value, "a session")}
    if found.get("format") == FORMAT:
        for name, kind in _TYPES.items():
            if not isinstance(found.get(name), kind):
                raise invalid_value("a session")
    return found


_TYPES: Final[dict[str, type]] = {
    "session": dict,
    "client": str,
    "next": int,
    "places": dict,
    "gets": dict,
    "reader": int,
    "read": int,
}
"""The types of members of a record."""


def object_in(value: bytes, what: str) -> dict[str, Json]:
    """Return the JSON object that a store has for something. Raises `StoreError`."""
    try:
        found: dict[str, Json] = {**json.loads(value)}
    except MALFORMED as error:
        raise invalid_value(what) from error
    return found


class SharedRecord:
    """The record of a session as one worker knows it; it is changed by compare-and-set."""

    def __init__(self, store: Store, key: str, value: dict[str, Json], version: int, ttl: float) -> None:
        self._store = store
        self.ttl: float = ttl
        self.key: str = key
        self.value: dict[str, Json] = value
        self.version: int = version
        self.gone: bool = False
        """Whether the session has ended."""
        self._changing: asyncio.Lock = asyncio.Lock()

    async def refresh(self) -> bool:
        """Read the record; return False if the session has ended. Raises `StoreError`."""
        found = await self._store.read(f"session/{self.key}")
        if found is None:
            self.gone = True
        elif self._is_older_than(found.version):
            value = decode(found)
            if value.get("format") != FORMAT:
                raise invalid_value("a session")
            self.value, self.version = value, found.version
        return not self.gone

    def _is_older_than(self, version: int) -> bool:
        known = self.version
        return version > known

    async def remove(self) -> bool:
        """End the session; return False if it has ended already. Raises `StoreError`.

        Then `value` says which workers have loaded it.
        """
        while await self.refresh():
            if await self._store.remove(f"session/{self.key}", seen=self.version):
                self.gone = True
                return True
        return False

    async def change(self, change: Callable[[dict[str, Json]], object]) -> bool:
        """Let `change` change the value; return False if the session has ended. Raises `StoreError`.

        `change` may be called several times; it returns False to leave the record as it is.
        """
        async with self._changing:
            for number in range(TRIES):
                if self.gone:
                    return False
                value: dict[str, Json] = json.loads(json.dumps(self.value))
                if change(value) is False:
                    return True
                version = await write_record(self._store, self.key, value, self.version, self.ttl)
                if version is not None:
                    if self._is_older_than(version):
                        self.value, self.version = value, version
                    return True
                await self.refresh()
                if number:
                    await asyncio.sleep(secrets.randbelow(10) / 1000)
        raise StoreError("other processes keep changing the session; try again later")


def without_workers(record: dict[str, Json], gone: set[int]) -> None:
    """Remove workers from a record."""
    record["places"] = {place: worker for place, worker in record["places"].items() if worker not in gone}
    for worker in gone:
        record["gets"].pop(str(worker), None)
    if record["reader"] in gone:
        record["reader"] = 0


async def write_record(store: Store, key: str, value: dict[str, Json], seen: int, ttl: float) -> int | None:
    """Store a record if its version is still `seen`; return its version."""
    encoded = json.dumps(value, separators=(",", ":")).encode()
    index = INDEX if value["session"]["ready"] else UNCONFIRMED
    with stored_for(digest_in(value)):
        return await store.write(f"session/{key}", encoded, seen=seen, ttl=ttl, index=index)


def digest_in(value: dict[str, Json]) -> str | None:
    """Return the digest of the client whose session a record describes; None if its client is not known."""
    return value.get("client", "").rpartition("/")[2] or None


class Ids:
    """The ids that a copy of a session gives: those of its place, then of another one."""

    def __init__(self, place: int, exhausted: Callable[[], None]) -> None:
        """`exhausted` is called when a new place will be needed soon."""
        self._next, self._end = place * BLOCK, (place + 1) * BLOCK
        self._exhausted = exhausted
        self._places: list[int] = []

    def __iter__(self) -> Ids:
        return self

    def __next__(self) -> int:
        """Return the next id. Raises `StoreError` if the store has given no further place in time."""
        self._next += 1
        if self._next == self._end - BLOCK // 2:
            self._exhausted()
        if self._next >= self._end:
            if not self._places:
                self._next -= 1
                raise StoreError(
                    "no request ids are left for the session, because the store cannot be reached"
                )
            place = self._places.pop(0)
            self._next, self._end = place * BLOCK + 1, (place + 1) * BLOCK
        return self._next

    def add(self, place: int) -> None:
        """Add a place."""
        self._places.append(place)
