"""The state of a session, as handlers use it: `await ctx.session.get("cart")`.

The state is one record of the server's store. Its key is a hash, so that the store learns neither ids of sessions nor
names of principals. Which state a request has follows from its connection: a connection of one client (stdio,
memory, a session over HTTP) has one of its own; any other request has that of its principal; and without a
principal, that of the handle that a tool gets as an argument.

A handle is signed like a request state, for this server and this principal. Who has a handle made without a principal
has the state.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Final, TypeVar, cast, overload
from weakref import WeakKeyDictionary, WeakValueDictionary

from mcprev.callbacks import at_once
from mcprev.core.background import Background
from mcprev.core.connection import PIPES, Connection
from mcprev.core.shares import Shares, free_of
from mcprev.core.store import PIPE_SESSION, Records, stored_for_client
from mcprev.error_text import MALFORMED, invalid_value
from mcprev.errors import InvalidParams, Json, LocalProtocolError, StateTooLarge, StoreError
from mcprev.protocol.request_state import RequestStateSealer

T = TypeVar("T")
MAX_KEY: Final = 200
"""The maximum length of a key, in characters."""
TRIES: Final = 100
"""How often a change is tried that others overtake, before it fails."""
_RENEWALS: Final = 8
"""A record is written again when it is used after this part of its lifetime."""
_log: Final = logging.getLogger("mcprev.server")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLimits:
    """The limits of the session state `ctx.session`, for `Server(state=...)`; they hold for each session."""

    ttl: float = 3600.0
    """Seconds after the last use at which the state expires."""
    max_keys: int = 100
    """The maximum number of keys."""
    max_value: int = 64 * 1024
    """The maximum size of one value, in bytes of JSON."""
    max_bytes: int = 256 * 1024
    """The maximum size of all keys and values together, in bytes of JSON."""
    max_handles: int = 32 * 1024 * 1024
    """The maximum size in bytes of the states that only a handle names, of all clients of a process together; one client has
    at most all but an eighth of it."""

    def __post_init__(self) -> None:
        for member in fields(self):
            if not getattr(self, member.name) > 0:
                raise ValueError(f"`{member.name}` must be more than 0")


class HandleStates:
    """What the states that only a handle names take in the store: any client may begin them without end."""

    def __init__(self, most: int) -> None:
        self._shares = Shares(most, free=free_of(most))
        self._held: OrderedDict[str, tuple[str | None, int, float]] = OrderedDict()
        """By record: its client, its size and when it ends; the first one ends first."""

    def hold(self, record: str, client: str | None, size: int, lifetime: float) -> None:
        """Count a record of a client that is about to be written. Raises `StoreError` if that is beyond its share."""
        now = time.time()
        while self._held and next(iter(self._held.values()))[2] <= now:
            self.release(next(iter(self._held)))
        before = self._held.get(record)
        held = before[1] if before is not None and before[0] == client else 0
        if size > held and not self._shares.take(client, size - held):
            raise StoreError(
                "the states of handles have no room for more of this client; try again later, or raise `max_handles` of "
                "`StateLimits`"
            )
        if size < held:
            self._shares.give(client, held - size)
        if before is not None and before[0] != client:
            self._shares.give(before[0], before[1])
        self._held[record] = client, size, now + lifetime
        self._held.move_to_end(record)

    def release(self, record: str) -> None:
        """Count a record no more."""
        before = self._held.pop(record, None)
        if before is not None:
            self._shares.give(before[0], before[1])


class SessionStates:
    """The states of all sessions of one server."""

    def __init__(
        self, store: Records, limits: StateLimits, sealer: RequestStateSealer, server_name: str
    ) -> None:
        self.store = store
        self.limits = limits
        self.sealer: RequestStateSealer = sealer.with_lifetime(limits.ttl)
        self.use: str = f"mcprev ctx.session of {server_name}"
        """What handles are sealed for, so that no other server and no other use accepts them."""
        self.handles: HandleStates = HandleStates(limits.max_handles)
        self._of_connections: WeakKeyDictionary[Connection, str] = WeakKeyDictionary()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._background = Background(_log, "the state of a session that has ended")

    def of(self, connection: Connection, principal: str | None, client: str | None = None) -> SessionState:
        """Return the state of a request; `client` is whose share a state that only a handle names counts for."""
        record: str | None = None
        if connection.lasting:
            record = self._of_connections.get(connection)
            if record is None:
                kept = PIPE_SESSION.get() if connection.network is PIPES else None
                record = self.record("session", connection.session_id or kept or secrets.token_hex(32))
                self._of_connections[connection] = record
                if kept is None and not connection.closed.done():
                    ended: str = record
                    connection.closed.add_done_callback(
                        lambda _: None if connection.lives_on else self._start_removing(ended)
                    )
        elif principal is not None:
            record = self.record("principal", principal)
        return SessionState(self, principal, record, client)

    def record(self, kind: str, name: str) -> str:
        """Return the key of a record in the store."""
        return f"session-state:{sha256(json.dumps([self.use, kind, name]).encode()).hexdigest()}"

    def lock(self, record: str) -> asyncio.Lock:
        """Return the lock for changes of a record within this process."""
        found = self._locks.get(record)
        if found is None:
            found = self._locks[record] = asyncio.Lock()
        return found

    def _start_removing(self, record: str) -> None:
        self._background.start(self._remove(record))

    async def _remove(self, record: str) -> None:
        try:
            await self.store.remove(record)
        except Exception:  # noqa: BLE001 - whatever a store raises; it is logged
            _log.exception(
                "the state of a session that has ended could not be removed; it ends with its `ttl`"
            )


class SessionState:
    """JSON values by key, which last from one request to the next: `ctx.session`.

    Everybody in a session shares them: at revisions with sessions, and on stdio and in memory, the requests of one
    connection; elsewhere the requests of one principal. A request with neither has to `open` a handle first. The state
    ends with its session, and one hour after its last use unless `StateLimits` says otherwise. A value that is returned
    is a copy. All methods raise `LocalProtocolError` if the request has no state, and `StoreError` if the store fails.
    """

    def __init__(
        self, states: SessionStates, principal: str | None, record: str | None, client: str | None = None
    ) -> None:
        self._states, self._principal, self._record = states, principal, record
        self._client, self._by_handle = client, record is None

    async def get(self, key: str, default: Json = None) -> Json:
        """Return the value of a key, or `default` if it has none."""
        limits, record = self._states.limits, self._key()
        values, version, written = await self._read()
        if version and abs(time.time() - written) >= limits.ttl / _RENEWALS:
            # If it was changed meanwhile, that has renewed it.
            await self._write(record, _encoded(values), version)
        return values.get(_checked(key), default)

    async def set(self, key: str, value: Json) -> None:
        """Set the value of a key. Raises `TypeError` for a value that is not JSON, and `StateTooLarge`."""
        await self.update(key, lambda _: value)

    @overload
    async def update(self, key: str, change: Callable[[Json], Json], default: T) -> T: ...
    @overload
    async def update(self, key: str, change: Callable[[Json], Json]) -> Json: ...
    async def update(self, key: str, change: Callable[[Json], Json], default: Json = None) -> Json:
        """Replace the value of a key by `change(value)`, and return it; no change of another request is lost.

        `change` gets `default` if the key has no value. It must not be async, and may be called several times: again
        with the new value, if another process was faster. Raises the errors of `set`, and what `change` raises.
        """
        limits = self._states.limits

        def changed(values: dict[str, Json]) -> Json:
            found = values[key] = _json(key, at_once(change(values.get(key, default)), "`change`"))
            size = len(json.dumps(found))
            if size > limits.max_value:
                raise StateTooLarge(f"the value of '{key}' has {size:,} bytes, limit {limits.max_value:,}")
            if len(values) > limits.max_keys:
                raise StateTooLarge(
                    f"'{key}' would exceed the limit of {limits.max_keys:,} keys in a session"
                )
            return found

        _checked(key)
        return await self._change(changed)

    async def delete(self, key: str) -> bool:
        """Remove a key; return whether it had a value."""
        _checked(key)
        gone = object()
        return await self._change(lambda values: values.pop(key, gone) is not gone)

    @property
    def handle(self) -> str:
        """A string that stands for this state, for a tool to return and to get again as an argument, for `open`.

        It is valid for the time to live of the state. Its holder cannot change it, and another principal or server
        cannot use it.
        """
        states = self._states
        return states.sealer.seal(
            self._key(), method=states.use, params=None, principal=self._principal, now=time.time()
        )

    def open(self, handle: str | None) -> None:
        """Use the state of a handle; with None, that of the session or principal, or else a new one.

        Raises `InvalidParams` for a handle that is forged or expired, or of another server or principal.
        """
        states = self._states
        if handle is None:
            self._record = self._record or states.record("handle", secrets.token_hex(32))
            return
        try:
            found = states.sealer.open(
                handle, method=states.use, params=None, principal=self._principal, now=time.time()
            )
        except InvalidParams:
            raise InvalidParams(
                "Invalid params: the handle is not valid, or has expired; call again without a handle to begin a new state"
            ) from None
        self._record = cast("str", found)

    @property
    def _lifetime(self) -> float:
        """The time to live of the record: `ttl` is over at the earliest after a use that does not write it."""
        return self._states.limits.ttl * (1 + 1 / _RENEWALS)

    def _key(self) -> str:
        if self._record is None:
            raise LocalProtocolError(
                "the request has neither a session nor an authenticated sender, so no state belongs to it: let the tool "
                "take an argument `handle`, begin with ctx.session.open(handle), and return ctx.session.handle"
            )
        return self._record

    async def _read(self) -> tuple[dict[str, Json], int, float]:
        """Return the values, and the version and time of their record; the version 0 if there is none."""
        found = await self._states.store.read(self._key())
        if found is None:
            return {}, 0, 0.0
        try:
            record = json.loads(found.value)
            return dict(record["values"]), found.version, float(record["written"])
        except MALFORMED as error:
            raise invalid_value("the state of a session") from error

    async def _write(self, record: str, data: bytes, seen: int) -> int | None:
        """Write a record if its version is still `seen`. Raises `StoreError`."""
        if self._by_handle:
            self._states.handles.hold(record, self._client, len(data), self._lifetime)
        with stored_for_client(self._client):
            return await self._states.store.write(record, data, seen=seen, ttl=self._lifetime)

    async def _change(self, change: Callable[[dict[str, Json]], T]) -> T:
        """Change the values by compare-and-set, and return what `change` returns."""
        record, states = self._key(), self._states
        async with states.lock(record):
            for _ in range(TRIES):
                values, version, _written = await self._read()
                result = change(values)
                if not values and (version == 0 or await states.store.remove(record, seen=version)):
                    states.handles.release(record)
                    return result
                if values:
                    data = _encoded(values)
                    if len(data) > states.limits.max_bytes:
                        raise StateTooLarge(
                            f"the session state would have {len(data):,} bytes, limit {states.limits.max_bytes:,}"
                        )
                    if await self._write(record, data, version) is not None:
                        return result
                await asyncio.sleep(
                    secrets.randbelow(10) / 1000
                )  # so that several processes do not collide again
        raise StoreError(
            f"the state of a session was changed by other requests {TRIES} times in a row; try again later"
        )


def _checked(key: str) -> str:
    if not isinstance(cast("object", key), str):
        raise TypeError(f"a key of ctx.session must be a string, not a {type(key).__name__}")
    if not 0 < len(key) <= MAX_KEY:
        raise ValueError(f"a key of ctx.session must have 1 to {MAX_KEY} characters")
    return key


def _json(key: str, value: object) -> Json:
    """Return a copy of a JSON value. Raises `TypeError` for anything else, such as a tuple or a number as a name."""
    try:
        found: Json = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"the value of '{key}' is not JSON: {error}") from error
    if found != value:
        raise TypeError(f"the value of '{key}' is not JSON: use lists, and strings as names of members")
    return found


def _encoded(values: dict[str, Json]) -> bytes:
    return json.dumps({"written": time.time(), "values": values}, separators=(",", ":")).encode()
