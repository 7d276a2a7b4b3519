"""What middleware of an app learns of it: the entry that a call is for, and changes after which kept results are wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from mcprev.app.handlers import entries_of
from mcprev.app.registry import Registry
from mcprev.protocol.subscriptions import Changed
from mcprev.server.middleware import place_middleware


def bind_entries(registry: Registry) -> None:
    """Let middleware find entries, and the secrets that their schemas name. Raises `ValueError` for a middleware with such a need that another app has."""
    for each in cast("tuple[Any, ...]", registry.middleware):
        if hasattr(each, "entries"):
            if each.entries is not None:
                raise ValueError(
                    f"the {type(each).__name__} is used by another app already; create one for each app"
                )
            each.entries = partial(entries_of, registry)
        if hasattr(each, "secrets"):
            each.secrets.learn_from(partial(entries_of, registry))


def place_inner(registry: Registry, where: str) -> None:
    """Tell the middleware of mounted apps where it stands, as `Server` tells its own."""
    for number, inner in enumerate(registry.inner):
        within = f"{where}/mount {number}"
        place_middleware(inner.middleware, within)
        place_inner(inner, within)


def keepers(registry: Registry) -> list[Callable[[Changed, str | None], None]]:
    """Return what to call at a change, for the middleware of mounted apps. Their names differ, so they forget whole kinds."""
    found: list[Callable[[Changed, str | None], None]] = []
    for inner in registry.inner:
        several = cast("tuple[Any, ...]", inner.middleware)
        found += [partial(_forget_kind, each.changed) for each in several if hasattr(each, "changed")]
        found += keepers(inner)
    return found


def _forget_kind(changed: Callable[[Changed], object], kind: Changed, uri: str | None) -> None:
    del uri
    changed(kind)
