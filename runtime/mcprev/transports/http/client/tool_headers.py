"""The tools of one server: which arguments are sent as headers, and which tools cannot be called over HTTP.

HDR-6, HDR-7, HDR-9, HDR-11, HTTPM-7. Every `tools/list` result updates the cache. A tool whose schema marks headers
incorrectly is removed from the list, and a warning says why.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from mcprev.errors import Json, LocalProtocolError, one_line
from mcprev.protocol.pending_calls import Call
from mcprev.revisions import REPEATABLE
from mcprev.wire.param_headers import ParamHeader, find_annotations

LIST_TOOLS: Final = "tools/list"
CALL_TOOL: Final = "tools/call"


@dataclass(frozen=True, slots=True)
class _Tool:
    headers: tuple[ParamHeader, ...]
    refused: str
    """Why it cannot be called; empty if it can."""
    repeatable: bool


class ParamHeaderCache:
    """The header parameters of tools, by tool name."""

    def __init__(self, logger: logging.Logger) -> None:
        self.complete: bool = False
        """Whether a list was read to its end, so that a tool not in the cache does not exist."""
        self._tools: dict[str, _Tool] = {}
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
        members: Mapping[str, Json] = cast("dict[str, Json]", tool) if isinstance(tool, dict) else {}
        name = members.get("name")
        if not isinstance(name, str):
            return True  # an invalid entry is reported elsewhere
        found, known = find_annotations(members.get("inputSchema")), self._tools.get(name)
        refused = "; ".join(found.problems)
        if refused and (known is None or known.refused != refused):
            self._logger.warning("the tool %.100r is left out: %s", name, one_line(refused))
        hints: object = members.get("annotations")
        said: Mapping[str, Json] = cast("dict[str, Json]", hints) if isinstance(hints, dict) else {}
        repeatable = said.get("readOnlyHint") is True or said.get("idempotentHint") is True
        self._tools[name] = _Tool(found.headers, refused, repeatable)
        return not refused

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
