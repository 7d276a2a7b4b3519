"""Reads the URLs of stores in Redis, and connects to what they name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, cast
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from mcprev.errors import Json, MissingExtra

try:
    import redis.asyncio as client_library
    from redis.asyncio.connection import parse_url
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
except ImportError as _error:
    raise MissingExtra("a store in Redis", "redis", "redis") from _error

TIME_LIMIT: Final = 2.0
"""How long one operation may take, in seconds, the wait for a connection included."""
CONNECTIONS: Final = 32
"""The maximum number of operations of an event loop at the same time."""
PORT: Final = 6379
SENTINEL_PORT: Final = 26379


class RedisListener(Protocol):
    """What is used of the library's subscriptions."""

    async def subscribe(self, *channels: str) -> object:
        """Hear of channels."""
        ...

    async def unsubscribe(self, *channels: str) -> object:
        """Hear no more of channels."""
        ...

    async def ping(self) -> object:
        """Ask for a sign of life."""
        ...

    async def get_message(self, *, timeout: float | None) -> Mapping[str, Any] | None:
        """Return the next message, or None after the time."""
        ...

    async def aclose(self) -> object:
        """Close its connections."""
        ...


class RedisClient(Protocol):
    """What is used of the library's clients."""

    async def execute_command(self, *args: object, **options: str) -> Json:
        """Send a command, and return the answer."""
        ...

    def pubsub(self) -> RedisListener:
        """Return a connection that hears."""
        ...

    async def aclose(self) -> object:
        """Close its connections."""
        ...


Closes: TypeAlias = Sequence[Callable[[], Awaitable[object]]]
Connected: TypeAlias = tuple[RedisClient, Closes]
"""A client, and what else closes connections of it."""


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where a Redis is, as its URL says."""

    place: str
    """The URL without credentials and options, for messages."""
    connect: Callable[[], Connected]
    """Makes a client, which connects when it is used."""
    prefix: str
    cluster: bool
    secrets: tuple[str, ...] = ()
    """The credentials, which no message shows."""


_KINDS: Final = ("", "sentinel", "cluster")
_FORM: Final = (
    "redis://[user:password@]host[:port][/database], rediss:// with TLS, unix:///path/of/socket, "
    "redis+sentinel://host[:port],host[:port]/name-of-the-primary or redis+cluster://host[:port],host[:port]"
)


def read_url(url: str) -> RedisAddress:
    """Return the address that a URL names. Raises `ValueError`, whose message shows nothing of the URL."""
    try:
        parts = urlsplit(url)
        scheme, _, kind = parts.scheme.partition("+")
        credentials, _, hosts = parts.netloc.rpartition("@")
        default = SENTINEL_PORT if kind == "sentinel" else PORT
        nodes = [] if scheme == "unix" else [_node(host, default) for host in hosts.split(",")]
        usable = scheme in {"redis", "rediss", "unix"} and kind in _KINDS and (not kind or scheme != "unix")
        query = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    except ValueError:
        usable = False
        raise ValueError(f"the URL of the Redis store cannot be read; write {_FORM}") from None
    if not usable or (len(nodes) > 1 and not kind) or (scheme == "unix" and len(parts.path) < 2):
        raise ValueError(f"the URL of the Redis store has an unsupported form; write {_FORM}")
    prefix = query.pop("prefix", "mcprev")
    if not prefix or set("{}") & set(prefix):
        raise ValueError("`prefix` in the URL of the Redis store must have characters, and no braces")
    name = unquote(parts.path.strip("/"))
    if (kind == "sentinel" and not name) or (kind == "cluster" and name not in {"", "0"}):
        raise ValueError(
            f"the path of the URL is the name of the primary for Sentinel, and empty for Cluster: {_FORM}"
        )
    if not kind and scheme != "unix" and name and not name.isdecimal():
        raise ValueError("the path of a redis:// URL is the number of a database, such as /0")
    sentinel = {
        part: query.pop(f"sentinel_{part}")
        for part in ("username", "password")
        if f"sentinel_{part}" in query
    }
    unknown = [option for option in query if not option.startswith("ssl_")]
    if unknown or (sentinel and kind != "sentinel"):
        known = (
            "prefix, the ssl_ options of redis-py, and for Sentinel sentinel_username and sentinel_password"
        )
        raise ValueError(f"an option in the URL of the Redis store is unknown; the options are {known}")
    base = f"{credentials}@" if credentials else ""
    try:
        path = parts.path if scheme == "unix" or not kind else ""
        host = "" if scheme == "unix" else "host"
        options = dict(
            parse_url(f"{scheme}://{base}{host}{path}{'?' if query else ''}{'&'.join(_pairs(query))}")
        )
    except ValueError:
        raise ValueError("an option in the URL of the Redis store has an invalid value") from None
    retry = {
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "socket_connect_timeout": TIME_LIMIT,
        "socket_timeout": None,
    }
    shown = ",".join(f"[{at}]:{port}" if ":" in at else f"{at}:{port}" for at, port in nodes) or parts.path
    place = f"{parts.scheme}://{shown}{f'/{name}' if kind == 'sentinel' else ''}"
    return RedisAddress(
        place,
        _connector(kind, scheme, nodes, name, {**options, **retry}, sentinel),
        prefix,
        kind == "cluster",
        tuple(
            str(secret)
            for secret in (options.get("username"), options.get("password"), *sentinel.values())
            if secret
        ),
    )


def _pairs(query: Mapping[str, str]) -> list[str]:
    return [f"{quote(name)}={quote(value)}" for name, value in query.items()]


def _node(text: str, default: int) -> tuple[str, int]:
    """Return a host and port. Raises `ValueError`."""
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError("a host is missing")
    return parts.hostname, parts.port or default


def _connector(
    kind: str,
    scheme: str,
    nodes: Sequence[tuple[str, int]],
    name: str,
    options: dict[str, Any],
    sentinel: dict[str, str],
) -> Callable[[], Connected]:
    """Return what makes the clients."""
    library: Any = client_library
    if not kind:
        if nodes:
            options["host"], options["port"] = nodes[0]
        return lambda: (
            cast(
                "RedisClient",
                library.Redis.from_pool(library.ConnectionPool(**options, max_connections=2 * CONNECTIONS)),
            ),
            (),
        )
    for taken in ("host", "port", "connection_class"):
        options.pop(taken, None)
    options["ssl"] = scheme == "rediss"
    if kind == "cluster":

        def join() -> Connected:
            seeds = [library.cluster.ClusterNode(*node) for node in nodes]
            client: Any = library.RedisCluster(startup_nodes=seeds, **options)
            known = client.nodes_manager
            # After an error, the client itself closes no node.
            return cast("RedisClient", client), (known.aclose, partial(known.aclose, "startup_nodes"))

        return join

    def connect() -> Connected:
        about = {key: value for key, value in options.items() if key not in {"username", "password", "db"}}
        managed: Any = library.Sentinel(list(nodes), sentinel_kwargs={**about, **sentinel}, **options)
        return cast("RedisClient", managed.master_for(name)), [each.aclose for each in managed.sentinels]

    return connect
