"""Opens the store that a URL names."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

from mcprev.core.store import Store

_FORM = (
    "sqlite:///path/of/file, redis://host:port/0, rediss://, redis+sentinel://, redis+cluster:// or memory:"
)


def open_store(url: str) -> Store:
    """Return the store at a URL, for `Server(store=...)`; it connects at its first use.

    `sqlite:///file.db` is a file for the workers of one machine, and `sqlite:////var/lib/file.db` a file by its
    absolute path; `?max_bytes=` limits its size. `redis://host:6379/0`, `rediss://` with TLS, `redis+sentinel://` and
    `redis+cluster://` are for any number of machines; services that share one need a `?prefix=` each. `memory:` is
    for tests.

    Raises `ValueError` for a URL that is not usable, and `mcprev.errors.MissingExtra` if a library is not installed
    (`pip install 'mcprev[redis]'`). Messages never contain the credentials of a URL.
    """
    scheme = url.partition(":")[0].partition("+")[0]
    if scheme in {"redis", "rediss", "unix"}:
        from mcprev.stores.redis import RedisStore

        return RedisStore(url)
    if scheme == "memory":
        from mcprev.stores.memory import MemoryStore

        if url not in {"memory:", "memory://"}:
            raise ValueError("the URL of a store in memory must be exactly `memory:`")
        return MemoryStore()
    if scheme != "sqlite":
        raise ValueError(f"the URL of a store must begin with a supported scheme: {_FORM}")
    from mcprev.stores.sqlite import SqliteStore

    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    size = options.pop("max_bytes", "1073741824")
    whole = (
        url.startswith("sqlite:///") and len(parts.path) > 1
    )  # with one slash, an absolute path would be taken as relative
    if not whole or parts.fragment or options or not size.isdecimal():
        raise ValueError(
            "the URL of an SQLite store is sqlite:///file for a file in this folder, or sqlite:////path/of/file, and "
            "its only option is ?max_bytes=<number>"
        )
    return SqliteStore(unquote(parts.path[1:]), max_bytes=int(size))
