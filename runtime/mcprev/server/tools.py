"""The schemas of a handler's tools (TOOL-2, 3, 4, CONV-35).

A server learns its tools by asking its own handler for them, as a client would, when the first of them is called;
it asks again after `changed("tools")`, and for a name that it has not seen. What a handler calls a tool without
listing it is not checked here, and one that does not exist is the handler's to refuse (TOOL-1). Where the transport
knows the principal, a tool that is not listed for it does not exist for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from mcprev.core.method_binding import HandlerTable, call_stub
from mcprev.core.tool_schemas import LIST, MAX_NAME, MAX_TOOLS, ToolSchemas
from mcprev.error_text import did_you_mean
from mcprev.errors import Json, LocalProtocolError
from mcprev.protocol.subscriptions import Changed

if TYPE_CHECKING:
    from mcprev.conversion import ConversionContext
    from mcprev.server.context import Context

_logger: Final = logging.getLogger("mcprev.server")
MAX_PAGES: Final = 1_000
"""The maximum number of pages of a list."""
MAX_LISTS: Final = 64
"""The maximum number of lists that are kept, one for each revision and principal."""
UNKNOWN: Final = ToolSchemas("", None, None)
"""Stands for a tool whose list has not been read."""


class ToolTable:
    """The schemas of the tools that a handler lists."""

    def __init__(
        self,
        handler_table: HandlerTable,
        tasks: Collection[str] = (),
    ) -> None:
        """`tasks` are the names of the tools that can run as tasks, which the handler should list."""
        self._tasks: frozenset[str] = frozenset(tasks)
        self._handlers = handler_table
        self.lists: OrderedDict[tuple[str, str | None], dict[str, ToolSchemas]] = OrderedDict()
        """The tools by name that are known so far, for each revision and principal."""
        self._locks: dict[tuple[str, str | None], asyncio.Lock] = {}
        self._generation = 0

    def forget(self) -> None:
        """Forget the lists, because the tools have changed."""
        self._generation += 1
        self.lists.clear()

    def changed(self, kind: Changed, _uri: str | None) -> None:
        """Forget the lists if a change is one of tools."""
        if kind is Changed.TOOLS:
            self.forget()

    async def find(
        self, context: Context, params: Mapping[str, Json] | None, up: ConversionContext | None
    ) -> ToolSchemas | None:
        """Return the tool that a call names; None if the name is no string. The handler has to list tools.

        Raises what the handler raises while it lists them.
        """
        name = (params or {}).get("name")
        incoming = context.request
        if not isinstance(name, str):
            return None  # the validation of the params reports this
        key = (incoming.revision.name, context.principal)
        tools = self.lists.get(key)
        if tools is not None and name in tools:
            return tools[name]
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                tools = self.lists.get(key)
                if tools is None or name not in tools:
                    tools = await self._list_again(key, context, up)
                found = tools.get(name) or ToolSchemas(name, None, None, listed=False)
                if len(name) <= MAX_NAME:
                    tools[name] = found  # it is looked for once, until the list changes
        finally:
            if not lock.locked():
                self._locks.pop(key, None)
        return found

    async def _list_again(
        self, key: tuple[str, str | None], context: Context, up: ConversionContext | None
    ) -> dict[str, ToolSchemas]:
        before, known = self._generation, self.lists.get(key, {})
        listed = {tool["name"]: tool for tool in await self._list(context, up)}
        if self._tasks:
            self._warn_of_tasks(listed)
        if len(known) > len(listed) + MAX_TOOLS:
            known = {}
        tools: dict[str, ToolSchemas] = {name: tool for name, tool in known.items() if name not in listed}
        for vanished in tools.values():
            vanished.listed = False
        for name, tool in listed.items():
            tools[name] = ToolSchemas(name, tool.get("inputSchema"), tool.get("outputSchema"))
        if before == self._generation:
            self.lists[key] = tools
            self.lists.move_to_end(key)
            if len(self.lists) > MAX_LISTS:
                self.lists.popitem(last=False)
        return tools

    def _warn_of_tasks(self, listed: Collection[str]) -> None:
        """Warn once of names in `Tasks` that are not listed; a handler may list them for other clients."""
        missing, self._tasks = self._tasks.difference(listed), frozenset()
        for name in sorted(missing):
            hint = did_you_mean(name, listed)
            _logger.warning("`tasks` names '%s', which the handler does not list%s", name, hint)

    async def _list(self, context: Context, up: ConversionContext | None) -> list[dict[str, Json]]:
        """Return every tool that the handler lists for this client."""
        method_binding = self._handlers[context.request.revision, LIST]
        meta = (context.request.params or {}).get("_meta")
        asked: dict[str, Json] = {} if meta is None else {"_meta": meta}
        found: list[dict[str, Json]] = []
        seen: set[str] = set()
        for _ in range(MAX_PAGES):
            params = method_binding.params(dict(asked), up)
            page = await call_stub(method_binding.stub, context, params)
            found += page["tools"]
            cursor = page.get("nextCursor")
            if cursor is None:
                return found
            if cursor in seen:
                break
            seen.add(cursor)
            asked["cursor"] = cursor
        raise LocalProtocolError(
            "the pages of the handler's list of tools do not end; return no `next_cursor` with the last page"
        )
