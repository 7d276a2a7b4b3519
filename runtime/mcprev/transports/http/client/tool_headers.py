"""The tools of one server: which arguments are sent as headers, and which tools cannot be called over HTTP.

HDR-6, HDR-7, HDR-9, HDR-11, HTTPM-7. Every `tools/list` result updates the cache. A tool whose schema marks headers
incorrectly is removed from the list, and a warning says why.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from mcprev.errors import Json, LocalProtocolError, one_line
from mcprev.protocol.pending_calls import Call
from mcprev.revisions import REPEATABLE
from mcprev.wire.json_values import json_object
from mcprev.wire.param_headers import ParamHeader, find_annotations

LIST_TOOLS: Final = "tools/list"
CALL_TOOL: Final = "tools/call"
MAX_KEPT: Final = 4 * 1024 * 1024
"""The maximum length of what is kept of all tools, in characters; those listed longest ago are forgotten first."""
MAX_REASON: Final = 1_000
"""The maximum length of the reason why a tool is left out, in characters."""
_EACH: Final = 256
"""Characters that each tool counts for in addition to its texts: its objects take as much memory."""


@dataclass(frozen=True, slots=True)
class _Tool:
    headers: tuple[ParamHeader, ...]
    refused: str
    """Why it cannot be called; empty if it can."""
    repeatable: bool
    size: int
    """What it counts for in `MAX_KEPT`."""


class ParamHeaderCache:
    """The header parameters of tools, by tool name."""

    def __init__(self, logger: logging.Logger) -> None:
        self.complete: bool = False
        """Whether a list was read to its end, so that a tool not in the cache does not exist."""
        self._tools: OrderedDict[str, _Tool] = OrderedDict()
        self._size = 0
        self._logger = logger

    def filter_page(self, result: dict[str, Json]) -> None:
        """Learn from one page of `tools/list`, and remove the tools that cannot be called."""  # HDR-7
        tools: object = result.get("tools")
        if not isinstance(tools, list):
            return
        result["tools"] = [tool for tool in cast("list[object]", tools) if self._learn(tool)]
        if not isinstance(result.get("nextCursor"), str):
            self.complete = True

    def _learn(self, tool: object) -> bool:
        members: Mapping[str, Json] = json_object(tool)
        name = members.get("name")
        if not isinstance(name, str):
            return True  # an invalid entry is reported elsewhere
        found, known = find_annotations(members.get("inputSchema")), self._tools.get(name)
        refused = "; ".join(found.problems)[:MAX_REASON]
        if refused and (known is None or known.refused != refused):
            self._logger.warning("the tool %.100r is left out: %s", name, one_line(refused))
        hints: object = members.get("annotations")
        said: Mapping[str, Json] = json_object(hints)
        repeatable = said.get("readOnlyHint") is True or said.get("idempotentHint") is True
        texts = len(name) + len(refused) + (len(repr(found.headers)) if found.headers else 0)
        self._keep(name, _Tool(found.headers, refused, repeatable, _EACH + texts))
        return not refused

    def _keep(self, name: str, tool: _Tool) -> None:
        before = self._tools.pop(name, None)
        self._size += tool.size - (0 if before is None else before.size)
        self._tools[name] = tool
        while self._size > MAX_KEPT:
            self._size -= self._tools.popitem(last=False)[1].size

    def repeatable(self, call: Call) -> bool:
        """Return whether a call can safely be sent twice, by its method or by the tool's annotations.

        Annotations are hints of the server, but so is the rest of the tool's description.
        """  # TOOL-9
        if call.method != CALL_TOOL:
            return call.method in REPEATABLE
        tool = self._tools.get((call.params or {}).get("name", ""))
        return tool is not None and tool.repeatable

    def find(self, params: Mapping[str, Json] | None) -> tuple[ParamHeader, ...] | None:
        """Return the header parameters of the called tool; None if the tool is unknown.

        Raises `LocalProtocolError` for a tool that was removed from the list.
        """
        name = (params or {}).get("name")
        if not isinstance(name, str):
            return ()
        tool = self._tools.get(name)
        if tool is None:
            return () if self.complete else None
        if tool.refused:
            raise LocalProtocolError(f"the tool {name[:100]!r} cannot be called over HTTP: {tool.refused}")
        return tool.headers
