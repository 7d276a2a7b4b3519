"""What a server's list of tools says of each: whether it runs as a task, and which headers repeat its arguments (HDR-8)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from mcprev.bridge.upstream import Upstream, logger
from mcprev.conversion.rules import JsonObject, as_list, as_object
from mcprev.core.interfaces import message_origin
from mcprev.core.lists import ListBudget, ListTooLong, read_pages
from mcprev.core.tool_schemas import ToolSchemas
from mcprev.errors import HeaderMismatch, Json, McpError, one_line
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.tasks import Support
from mcprev.revisions import TaskSupport

TOOL_LIST: Final = "tools/list"
AGAIN: Final = 1.0
"""Seconds before a list is read again for a call whose headers differ from it."""


@dataclass(frozen=True, slots=True)
class ServerTool:
    """One tool of a server."""

    support: Support
    """Whether it can, must or must not run as a task."""
    schemas: ToolSchemas


class ServerTools:
    """The tools of a server; the list is read when it is first needed, and after it has changed."""

    def __init__(self) -> None:
        self._known: dict[str, ServerTool] | None = None
        self._read_at = float("-inf")
        self._lock = asyncio.Lock()

    def forget(self) -> None:
        """Read the list again when it is needed: it has changed."""
        self._known = None

    async def read(self, upstream: Upstream, meta: JsonObject | None, total: float) -> None:
        """Read the list, unless that was done; `meta` is that of a stateless request. Raises `McpError`."""
        async with self._lock:
            if self._known is None:
                self._known = await _listed(upstream, meta, total)
                self._read_at = asyncio.get_running_loop().time()

    async def support(self, upstream: Upstream, name: object, total: float) -> Support:
        """Return whether a tool can, must or must not run as a task. Raises `McpError`."""
        server = upstream.introduction
        if server.revision.tasks is not TaskSupport.CORE or not server.offers_tasks:
            return Support.FORBIDDEN
        await self.read(upstream, None, total)
        found = self._find(name)
        return Support.FORBIDDEN if found is None else found.support

    async def check_headers(self, incoming: IncomingRequest, read: Callable[[], Awaitable[None]]) -> None:
        """Raise `HeaderMismatch` for a call over HTTP whose headers do not repeat its arguments as its tool demands.

        `read` reads the list; the tools may have changed unannounced, so it is read again before a call is refused.
        """  # HDR-8
        origin, params = message_origin(incoming), incoming.params or {}
        assert origin is not None
        clock = asyncio.get_running_loop().time
        error: HeaderMismatch | None = None
        origin.checking = True
        try:
            for _ in range(2):
                if self._known is None:
                    await read()
                tool = self._find(params.get("name"))
                if tool is None:
                    return
                error = tool.schemas.header_mismatch(origin.headers, params.get("arguments"))
                if error is None:
                    return
                if clock() - self._read_at < AGAIN:
                    raise error
                self.forget()
        except HeaderMismatch:
            raise
        except McpError as failure:
            logger.warning(
                "headers are not checked, because the tools cannot be listed: %s", one_line(failure)
            )
            return
        finally:
            origin.checking = False
        if error is not None:
            raise error

    def _find(self, name: object) -> ServerTool | None:
        return None if self._known is None or not isinstance(name, str) else self._known.get(name)


async def _listed(upstream: Upstream, meta: JsonObject | None, total: float) -> dict[str, ServerTool]:
    found: dict[str, ServerTool] = {}

    def fetch(cursor: str | None) -> Awaitable[JsonObject]:
        params: JsonObject = {} if meta is None else {"_meta": meta}
        if cursor is not None:
            params["cursor"] = cursor
        return upstream.call(TOOL_LIST, params or None, total=total)

    try:
        clock = upstream.connection.pauses
        async with aclosing(
            read_pages(TOOL_LIST, fetch, ListBudget.take, seconds=total, clock=clock)
        ) as pages:
            async for page in pages:
                found |= {
                    tool.schemas.name: tool for tool in map(_tool, as_list(page.get("tools")) or ()) if tool
                }
    except ListTooLong as error:
        logger.warning("%s; the rest is ignored", one_line(error))
    return found


def _tool(item: Json) -> ServerTool | None:
    """Return what is known of a tool from its entry; None for one without a name."""
    tool = as_object(item)
    name, support = tool.get("name"), as_object(tool.get("execution")).get("taskSupport")
    if not isinstance(name, str):
        return None
    known = Support(support) if support in list(Support) else Support.FORBIDDEN
    return ServerTool(known, ToolSchemas(name, tool.get("inputSchema"), None))
