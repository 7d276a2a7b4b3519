"""Records of an authorization server in a store: each is sealed, bound to its key, and ends at a time that it names itself."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable
from math import ceil
from typing import Final

from mcprev.auth.authorization_server.keys import ServerKeys, digest_of
from mcprev.core.shares import share_of
from mcprev.core.store import Record, Records
from mcprev.errors import Json, StoreError
from mcprev.stores.memory import MemoryRecords

_TRIES: Final = 10
"""How often a change is tried again after another worker has changed the same record."""
_log: Final = logging.getLogger("mcprev.auth")


class ServerRecords:
    """The records of logins: in a store of their own, else in that of the first server that has one, else in memory."""

    def __init__(self, own: Records | None) -> None:
        self._records: Records = MemoryRecords() if own is None else own
        self._settled = own is not None

    def keep_in(self, store: Records) -> bool:
        """Use the store of a server from now on, unless another one is used; return whether it is."""
        if self._settled:
            return False
        self._records, self._settled = store, True
        return True

    def shared_with(self, store: Records | None) -> bool:
        """Return whether other processes of a server with this store read what is written here."""
        used = self._records if self._settled else store
        return not isinstance(used, MemoryRecords | None)

    async def read(self, key: str, /) -> Record | None:
        """Return the record; see `Records.read`."""
        return await self._records.read(key)

    async def write(
        self, key: str, value: bytes, /, *, seen: int | None = None, ttl: float | None = None
    ) -> int | None:
        """Store a record; see `Records.write`."""
        return await self._records.write(key, value, seen=seen, ttl=ttl)

    async def remove(self, key: str, /, *, seen: int | None = None) -> bool:
        """Remove a record; see `Records.remove`."""
        return await self._records.remove(key, seen=seen)


class Vault:
    """Sealed records by kind and id. No key of the store shows an id, and no value can be moved to another key."""

    def __init__(self, records: Records, keys: ServerKeys, owner: str, clock: Callable[[], float]) -> None:
        """`owner` tells apart the authorization servers that share a store."""
        self._records, self._keys, self._owner, self._clock = records, keys, owner, clock

    async def read(self, kind: str, name: str) -> tuple[Json, int] | None:
        """Return a value and its version; None if there is none, it has expired, or no key opens it."""
        key = self._key(kind, name)
        record = await self._records.read(key)
        if record is None:
            return None
        try:
            sealed: Json = json.loads(record.value)
        except (ValueError, RecursionError):
            sealed = None
        found: Json = self._keys.open("records", key, sealed) if isinstance(sealed, str) else None
        if found is None:
            _log.warning(
                "a record of the store cannot be decrypted: it was modified, or encrypted with a secret that is not in `secrets`"
            )
            return None
        return (found["value"], record.version) if self._clock() < found["ends"] else None

    async def write(
        self, kind: str, name: str, value: Json, *, ttl: float, seen: int | None = None
    ) -> int | None:
        """Write a value if its version is still `seen` (0: there is none); return the new version, or None."""
        key = self._key(kind, name)
        return await self._records.write(key, self._sealed(key, value, ttl), seen=seen, ttl=ttl)

    async def write_within(
        self, most: int, kind: str, name: str, value: Json, *, ttl: float, address: str
    ) -> bool:
        """Write a new value, unless those of its kind take more than `most` bytes in this window of `ttl` seconds.

        Those of one address take a quarter of that at most. So whoever may write without a login cannot fill the store, in which others keep theirs.
        """
        key = self._key(kind, name)
        sealed = self._sealed(key, value, ttl)
        for counted, bound in ((address, share_of(most)), ("", most)):
            if not await self.count(f"bytes of {kind}", counted, bound, ttl, by=len(sealed)):
                return False
        return await self._records.write(key, sealed, seen=0, ttl=ttl) is not None

    def _sealed(self, key: str, value: Json, ttl: float) -> bytes:
        return json.dumps(
            self._keys.seal("records", key, {"value": value, "ends": self._clock() + ttl})
        ).encode()

    async def remove(self, kind: str, name: str, *, seen: int | None = None) -> bool:
        """Remove a value if its version is still `seen`; return whether this call removed it."""
        return await self._records.remove(self._key(kind, name), seen=seen)

    async def count(self, kind: str, name: str, most: int, seconds: float, *, by: int = 1) -> bool:
        """Count up; return whether that makes at most `most` in this window of time.

        Numbers are not sealed, so that they go on when the secret changes.
        """
        key = self._key(kind, f"{name} {self._clock() // seconds:.0f}")
        for _ in range(_TRIES):
            found = await self._records.read(key)
            version = 0 if found is None else found.version
            said = b"" if found is None else found.value
            number = int(said) if said.isdigit() and len(said) < 16 else 0
            if number + by > most:
                return False
            if await self._records.write(key, b"%d" % (number + by), seen=version, ttl=seconds) is not None:
                return True
        return False

    def retry_after(self, seconds: float) -> int:
        """Return the seconds until the window of time ends in which `count` counts now."""
        return max(1, ceil(seconds - self._clock() % seconds))

    async def change(
        self, kind: str, name: str, changed: Callable[[Json], tuple[Json, float] | None]
    ) -> Json:
        """Replace a value by what `changed` makes of it, a value and its time to live; return that value.

        None if there is no value, or if `changed` returns None. Raises `StoreError` if others replace it all the time.
        """
        for _ in range(_TRIES):
            found = await self.read(kind, name)
            wanted = None if found is None else changed(found[0])
            if found is None or wanted is None:
                return None
            value, ttl = wanted
            if await self.write(kind, name, value, ttl=ttl, seen=found[1]) is not None:
                return value
        raise StoreError("other processes keep changing the record of a login; try again")

    def _key(self, kind: str, name: str) -> str:
        return f"authorization_server/{digest_of(self._owner, kind, name)}"


def new_secret() -> str:
    """Return 256 random bits, as text for URLs, cookies and headers."""
    return secrets.token_urlsafe(32)
