"""The lists of a server, as JSON of the revision that is spoken: read when the page wants them, and when they change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Final, cast

from mcprev.conversion import PayloadKind, converter
from mcprev.core.background import Background
from mcprev.core.lists import ListBudget, ListTooLong, read_pages
from mcprev.core.valid_entries import InvalidEntry, told_entries, valid_page
from mcprev.dev.channels import Channels
from mcprev.errors import ConversionError, Json, McpError, MethodNotFound
from mcprev.json_schema.bounds import LIST
from mcprev.revisions import LATEST
from mcprev.wire.json_values import is_json_list, is_json_object

if TYPE_CHECKING:
    from mcprev.client.client import Client

_logger: Final = logging.getLogger("mcprev.dev")
KINDS: Final = {
    "tools": ("tools/list", "tools", "tools", "name"),
    "resources": ("resources/list", "resources", "resources", "uri"),
    "templates": ("resources/templates/list", "resourceTemplates", "resources", "uriTemplate"),
    "prompts": ("prompts/list", "prompts", "prompts", "name"),
}
"""For each list: the method, the member with its items, the capability, and the member that names an item."""


class Lists:
    """The lists of a server."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._lists: dict[str, dict[str, Json]] = {}
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._background = Background(_logger, "the reading of a list")

    def documents(self) -> dict[str, Json]:
        """Return the lists that were wanted so far."""
        return dict(self._lists)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The lists that were wanted so far."""
        return tuple(self._lists)

    def find(self, kind: str, member: str, value: str) -> dict[str, Json] | None:
        """Return the item of a list whose member has a value; None if there is none."""
        items: list[Json] = self._lists.get(kind, {}).get("items") or []
        for item in items:
            if is_json_object(item) and item.get(member) == value:
                found: dict[str, Json] = item
                return found
        return None

    def restore(self, documents: Sequence[Mapping[str, Json]]) -> None:
        """Take over the lists of a saved session. Raises `KeyError` and `TypeError` for what is none."""
        for found in documents:
            if not isinstance(found.get("items"), LIST):
                raise TypeError("the items of a list are not a list")
            if found["kind"] in KINDS:
                items = cast("list[Json]", found["items"])
                if len(_named(found["kind"], items)) < len(items):
                    raise TypeError("an item of a list has no name, or one that is no text")
                self._lists[found["kind"]] = dict(found)

    def load(self, client: Client, kind: str) -> None:
        """Read a list, beginning now."""
        before = self._loading.get(kind)
        if before is not None:
            before.cancel()
        self._set(kind, "loading", self._lists.get(kind, {}).get("items") or [])
        self._loading[kind] = self._background.start(self._load(client, kind))

    async def aclose(self) -> None:
        """Stop reading."""
        await self._background.aclose(2.0)

    def _set(self, kind: str, state: str, items: list[Json], error: str | None = None) -> None:
        found: dict[str, Json] = {"kind": kind, "state": state, "items": items}
        if error is not None:
            found["error"] = error
        self._lists[kind] = found
        self._channels.state("lists", kind, found)

    async def _load(self, client: Client, kind: str) -> None:
        method, member, capability, name = KINDS[kind]
        items: list[Json] = []
        if capability not in client.capabilities.to_wire():
            self._set(kind, "unsupported", items)
            return
        try:
            error = await _read(client, method, member, items)
        except MethodNotFound as missing:
            # Templates have no capability of their own.
            self._set(kind, "unsupported" if kind == "templates" else "failed", items, str(missing))
        except (McpError, OSError) as failure:
            self._set(kind, "failed", items, str(failure) or type(failure).__name__)
        else:
            named = _named(kind, items)
            if len(named) < len(items):
                error = (
                    error
                    or f"{len(items) - len(named)} items are left out: their `{name}` is missing, or no text"
                )
            self._set(kind, "ready" if error is None else "failed", named, error)


def _named(kind: str, items: Sequence[Json]) -> list[Json]:
    """Return the items that are objects with a name, which the page needs to list them."""
    member = KINDS[kind][3]
    return [item for item in items if is_json_object(item) and isinstance(item.get(member), str)]


async def _read(client: Client, method: str, member: str, items: list[Json]) -> str | None:
    """Read all pages; return why they are not complete, or None."""

    def fetch(cursor: str | None) -> Awaitable[dict[str, Json]]:
        return client.raw(method, None if cursor is None else {"cursor": cursor})

    invalid: list[InvalidEntry] = []
    up = converter(method, PayloadKind.RESULT, from_=client.spoken, to=LATEST)
    try:
        clock = client.session.clock
        async with aclosing(read_pages(method, fetch, ListBudget.take, clock=clock)) as pages:
            async for page in pages:
                found: object = page.get(member)
                if not is_json_list(found):
                    return f"the result has no list `{member}`"
                items += found
                with suppress(ConversionError):  # the page as a whole is not valid, but shown
                    invalid += valid_page(method, page, up)[1]
    except ListTooLong as error:
        return str(error)
    return f"not all entries are valid: {'; '.join(told_entries(invalid))}" if invalid else None
