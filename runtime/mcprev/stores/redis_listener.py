"""What one event loop holds of a Redis: a client, and a connection that hears of appends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from mcprev.errors import MissingExtra, StoreError, one_line
from mcprev.stores.redis_url import CONNECTIONS, TIME_LIMIT, Closes, RedisClient, RedisListener
from mcprev.stores.waiting import News

try:
    import redis.asyncio as client_library
    from redis.exceptions import RedisClusterException, RedisError
except ImportError as _error:
    raise MissingExtra("a store in Redis", "redis", "redis") from _error

HEARTBEAT: Final = 0.5
"""After so many seconds without a sign of life, the connection that listens asks for one."""

_ADVICE: Final = {
    "OOM": "it has no room: raise `maxmemory`, or store less or for a shorter time",
    "used memory > 'maxmemory'": "it has no room: raise `maxmemory`, or store less or for a shorter time",
    "NOAUTH": "it requires a user and password: put them into the URL",
    "WRONGPASS": "it does not accept the user and password of the URL",
    "invalid username-password": "it does not accept the user and password of the URL",
    "Authentication required": "it requires a user and password: put them into the URL",
    "NOPERM": "its user lacks a permission: allow the commands that the guide to stores lists, for keys and channels of the prefix",
    "no permissions": "its user lacks a permission: allow the commands that the guide to stores lists, for keys and channels of the prefix",
    "can't run this command": "its user lacks a permission: allow the commands that the guide to stores lists, for keys and channels of the prefix",
    "READONLY": "it is a replica, which takes no writes: name the primary, or use redis+sentinel:// or redis+cluster://",
    "read only replica": "it is a replica, which takes no writes: name the primary, or use redis+sentinel:// or redis+cluster://",
    "MOVED": "it belongs to a cluster: use redis+cluster:// or rediss+cluster://",
    "CLUSTERDOWN": "the cluster is down or not complete: bring its primaries back",
    "cluster support disabled": "it is not a cluster: use redis:// or rediss://",
    "unknown command": "it is too old: the store requires Redis 6.2 or Valkey",
    "MISCONF": "it cannot save to its disk: see the log of the server",
    "LOADING": "it is starting and still loads its data: try again",
    "loading": "it is starting and still loads its data: try again",
    "No master found": "no sentinel knows a primary of that name that is up",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not trusted: set `?ssl_ca_certs=` in the URL to a file with its authority",
}
"""What to do, by what an error says. Of other errors their own words are shown, without credentials."""
MAX_REASON: Final = 200
"""The maximum number of characters of an error that are shown."""
_AWAY: Final = "it cannot be reached: start it, or check the network and the address"
SLOW: Final = f"no response within {TIME_LIMIT:g} s: it is overloaded, stopped or cut off"


class RedisLocal:
    """What one event loop holds: a client, and the connection that hears of appends."""

    def __init__(
        self,
        client: RedisClient,
        others: Closes,
        place: str,
        channel: Callable[[str], str],
        secrets: Sequence[str] = (),
    ) -> None:
        self.client = client
        self.news: News = News()
        self.room: asyncio.Semaphore = asyncio.Semaphore(CONNECTIONS)
        self.checking: asyncio.Lock = asyncio.Lock()
        self.checked = False
        """Whether the server was reached once, and asked whether it drops records."""
        self._others, self._place, self._channel, self._secrets = others, place, channel, secrets
        self._listener: RedisListener | None = None
        self._listening: asyncio.Task[None] | None = None
        self._heard: dict[str, asyncio.Future[None]] = {}
        """By channel: done as soon as the server has confirmed that it tells this connection."""
        self._changing = asyncio.Lock()

    async def listen(self, log: str) -> bool:
        """Hear of appends to a log from now on; return whether they were not heard before."""
        channel = self._channel(log)
        confirmed = self._heard.get(channel)
        if confirmed is not None and confirmed.done():
            return False
        try:
            async with asyncio.timeout(TIME_LIMIT):
                async with self._changing:
                    confirmed = self._heard.get(channel)
                    if confirmed is None:
                        confirmed = self._heard[channel] = asyncio.get_running_loop().create_future()
                        listener = self._listener = self._listener or self.client.pubsub()
                        await listener.subscribe(channel)
                        if self._listening is None:
                            self._listening = asyncio.create_task(self._hear(listener))
                await asyncio.shield(confirmed)
        except (RedisError, RedisClusterException, OSError) as error:
            await self._stop()
            raise StoreError(f"{self._place}: {advice(error, self._secrets)}") from error
        return True

    async def _hear(self, listener: RedisListener) -> None:
        """Hear of appends until the connection is lost; then every wait ends, and the next one connects again."""
        logs = {self._channel(""): ""}
        prefix, quiet = len(next(iter(logs))), 0.0
        try:
            while True:
                async with asyncio.timeout(TIME_LIMIT):
                    message = await listener.get_message(timeout=HEARTBEAT)
                if message is None:
                    quiet += HEARTBEAT
                    if quiet > TIME_LIMIT:
                        self.news.fail(f"{self._place}: {SLOW}")
                        break
                    await self._forget(listener)
                    await listener.ping()
                    continue
                quiet = 0.0
                channel = message["channel"].decode() if message["channel"] else ""
                if message["type"] == "subscribe":
                    confirmed = self._heard.get(channel)
                    if confirmed is not None and not confirmed.done():
                        confirmed.set_result(None)
                elif message["type"] == "message":
                    self.news.tell(channel[prefix:])
        except (RedisError, RedisClusterException, OSError):
            pass
        finally:
            self._listening = None
            await self._stop()

    async def _forget(self, listener: RedisListener) -> None:
        """Hear no more of logs that nobody waits for."""
        waited = {self._channel(log) for log in self.news.logs}
        unwanted = [
            channel
            for channel, confirmed in self._heard.items()
            if channel not in waited and confirmed.done()
        ]
        for channel in unwanted:
            del self._heard[channel]
        if unwanted:
            await listener.unsubscribe(*unwanted)

    async def _stop(self) -> None:
        """Close the connection that hears; who waits looks again."""
        listener, task = self._listener, self._listening
        self._listener = self._listening = None
        for confirmed in self._heard.values():
            if not confirmed.done():
                confirmed.set_exception(ConnectionError("the connection is lost"))
                confirmed.exception()
        self._heard.clear()
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if listener is not None:
            with suppress(RedisError, OSError):
                async with asyncio.timeout(TIME_LIMIT):
                    await listener.aclose()
        self.news.tell_all()

    async def aclose(self, message: str) -> None:
        """Close all connections; waits end with `StoreError`."""
        self.news.fail(message)
        await self._stop()
        for close in (self.client.aclose, *self._others):
            with suppress(RedisError, OSError):
                async with asyncio.timeout(TIME_LIMIT):
                    await close()


def advice(error: Exception, secrets: Sequence[str] = ()) -> str:
    """Return what is wrong and what to do; `secrets` are not shown."""
    said = " ".join(str(each) for each in (error, error.__cause__, error.__context__) if each is not None)
    for words, advice in _ADVICE.items():
        if words in said:
            return advice
    if isinstance(error, TimeoutError):
        return SLOW
    reason = str(error) or type(error).__name__
    for secret in sorted(secrets, key=len, reverse=True):
        reason = reason.replace(secret, "...")
    reason = one_line(reason[:MAX_REASON])
    return f"{_AWAY if _is_connection(error) else 'it responds with an error'}: {reason}"


def _is_connection(error: Exception) -> bool:
    return isinstance(
        error, OSError | RedisClusterException | client_library.ConnectionError | client_library.TimeoutError
    )
