"""What a client knows of the tools that it has listed, and how it judges their results (TOOL-6, JSCH-1..3)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from pydantic_core import MISSING

from mcprev.core.tool_schemas import MAX_TOOLS
from mcprev.errors import Json, RemoteProtocolError, SchemaError
from mcprev.json_schema.bounds import Validator

if TYPE_CHECKING:
    from mcprev_types.latest import models

Policy: TypeAlias = Literal["warn", "strict", "off"]
"""What a client does about a result that does not fit its tool's schema."""
_logger: Final = logging.getLogger("mcprev.client")


class ToolWatch:
    """What a client knows of its server's tools, and what it does about results that do not fit (TOOL-6)."""

    def __init__(self, policy: Policy) -> None:
        if policy not in ("warn", "strict", "off"):
            raise ValueError(f"results are checked in the way of 'warn', 'strict' or 'off', not {policy!r}")
        self._policy = policy
        self._schemas: dict[str, Json] = {}
        self._checks: dict[str, Validator | None] = {}
        self._warned: set[str] = set()

    def learn(self, page: Mapping[str, Json]) -> None:
        """Remember the tools of a page of a list."""
        if self._policy == "off":
            return
        for tool in cast("list[dict[str, Any]]", page.get("tools") or []):
            name, schema = str(tool.get("name")), tool.get("outputSchema")
            if self._schemas.get(name, MISSING) != schema:
                self._checks.pop(name, None)
                self._warned.discard(name)
                if len(self._schemas) < MAX_TOOLS or name in self._schemas:
                    self._schemas[name] = schema

    def forget(self) -> None:
        """The tools have changed."""
        self._schemas.clear()
        self._checks.clear()

    def check(self, name: str, result: models.CallToolResult) -> None:
        """Judge a result. Raises `RemoteProtocolError` where that is wanted; a failed tool has no structure."""
        schema = self._schemas.get(name)
        if schema is None or result.is_error:
            return
        structured: Json = result.structured_content
        if structured is MISSING:
            self._complain(name, result, "it has an outputSchema and gave no structured content")
            return
        try:
            check = self._checks[name] if name in self._checks else self._compile(name, schema)
            found = [] if check is None else check(structured)
        except SchemaError as error:
            self._checks[name] = None
            self._complain(name, result, f"its outputSchema cannot be used: {error}")
            return
        if found:
            from mcprev.json_schema.validation import describe

            self._complain(name, result, describe(found, "structuredContent"))

    def _compile(self, name: str, schema: Json) -> Validator:
        from mcprev.json_schema.validation import compile_schema

        check = self._checks[name] = compile_schema(schema, trusted=False)
        return check

    def _complain(self, name: str, result: models.CallToolResult, what: str) -> None:
        text = f"the result of the tool '{name}' cannot be relied on: {what}"
        if self._policy == "strict":
            raise RemoteProtocolError(text, raw=result.to_wire())
        # Once for each tool: who calls it again knows.
        level = logging.DEBUG if name in self._warned else logging.WARNING
        self._warned.add(name)
        _logger.log(level, "%s", text)
