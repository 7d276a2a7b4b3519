"""The tools of one server: which arguments are sent as headers, and which tools cannot be called over HTTP.

HDR-6, HDR-7, HDR-9, HDR-11, HTTPM-7. Every `tools/list` result updates the cache. A tool whose schema marks headers
incorrectly is removed from the list, and a warning says why.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, cast

from mcprev.errors import Json, LocalProtocolError
from mcprev.protocol.pending_calls import Call
from mcprev.wire.param_headers import ParamHeader, find_annotations

LIST_TOOLS: Final = "tools/list"
CALL_TOOL: Final = "tools/call"
READS: Final = frozenset(
    {
        "completion/complete", "prompts/get", "prompts/list", "resources/list", "resources/read",
        "resources/templates/list", "server/discover", "subscriptions/listen", "tools/list",
    }
)  # fmt: skip
"""The methods that only read."""


class ParamHeaderCache:
    """The header parameters of tools, by tool name."""

    def __init__(self, logger: logging.Logger) -> None:
        self.complete: bool = False
        """Whether a list was read to its end, so that a tool not in the cache does not exist."""
        self._known: dict[str, tuple[ParamHeader, ...]] = {}
        self._refused: dict[str, str] = {}
        self._harmless: set[str] = set()
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
        found = find_annotations(members.get("inputSchema"))
        if found.problems:
            why = "; ".join(found.problems)
            if self._refused.get(name) != why:
                self._logger.warning("the tool %.100r is left out: %s", name, why)
            self._refused[name] = why
            self._known.pop(name, None)
            return False
        self._refused.pop(name, None)
        hints: object = members.get("annotations")
        said: Mapping[str, Json] = cast("dict[str, Json]", hints) if isinstance(hints, dict) else {}
        self._harmless.discard(name)
        if said.get("readOnlyHint") is True or said.get("idempotentHint") is True:
            self._harmless.add(name)
        self._known[name] = found.headers
        return True

    def repeatable(self, call: Call) -> bool:
        """Return whether a call can safely be sent twice, by its method or by the tool's annotations.

        Annotations are hints of the server, but so is the rest of the tool's description.
        """  # TOOL-9
        if call.method != CALL_TOOL:
            return call.method in READS
        return (call.params or {}).get("name") in self._harmless

    def find(self, params: Mapping[str, Json] | None) -> tuple[ParamHeader, ...] | None:
        """Return the header parameters of the called tool; None if the tool is unknown.

        Raises `LocalProtocolError` for a tool that was removed from the list.
        """
        name = (params or {}).get("name")
        if not isinstance(name, str):
            return ()
        why = self._refused.get(name)
        if why is not None:
            raise LocalProtocolError(f"the tool {name[:100]!r} cannot be called over HTTP: {why}")
        known = self._known.get(name)
        return () if known is None and self.complete else known
