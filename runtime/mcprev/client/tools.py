"""What the client knows of the server's tools: their output schemas, and which require a task.

TOOL-6, JSCH-1..3, TASK-3. Results are validated against the schemas.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from mcprev.core.tool_schemas import MAX_TOOLS
from mcprev.errors import Json, RemoteProtocolError, SchemaError
from mcprev.json_schema.bounds import Validator
from mcprev.protocol.tasks import Support

if TYPE_CHECKING:
    from mcprev_types.latest import models

Policy: TypeAlias = Literal["warn", "strict", "off"]
"""The reaction to a result that does not match its tool's output schema: log it, raise an error, or do not check."""
_logger: Final = logging.getLogger("mcprev.client")


class ToolWatch:
    """The output schemas of the tools listed so far, and the policy for results that do not match them."""

    def __init__(self, policy: Policy) -> None:
        if policy not in ("warn", "strict", "off"):
            raise ValueError(f"`validate` must be 'warn', 'strict' or 'off', not {policy!r}")
        self._policy = policy
        self._schemas: dict[str, Json] = {}
        self._checks: dict[str, Validator | None] = {}
        self._warned: set[str] = set()
        self.task_tools: set[str] = set()
        """The tools that the server runs only as a task that the client asks for."""

    def learn(self, page: Mapping[str, Json]) -> None:
        """Keep what one page of `tools/list` says."""
        for tool in cast("list[dict[str, Any]]", page.get("tools") or []):
            name, schema, execution = str(tool.get("name")), tool.get("outputSchema"), tool.get("execution")
            if isinstance(execution, dict):
                self.set_task(
                    name, required=cast("dict[str, Json]", execution).get("taskSupport") == Support.REQUIRED
                )
            if self._policy == "off":
                continue
            if name not in self._schemas or self._schemas[name] != schema:
                self._checks.pop(name, None)
                self._warned.discard(name)
                if len(self._schemas) < MAX_TOOLS or name in self._schemas:
                    self._schemas[name] = schema

    def set_task(self, name: str, *, required: bool) -> None:
        """Keep whether a tool requires a task."""
        if not required:
            self.task_tools.discard(name)
        elif len(self.task_tools) < MAX_TOOLS:
            self.task_tools.add(name)

    def forget(self) -> None:
        """Drop everything, because the tools changed."""
        self.task_tools.clear()
        self._schemas.clear()
        self._checks.clear()

    def check(self, name: str, result: models.CallToolResult) -> None:
        """Validate a result. Raises `RemoteProtocolError` under the policy `strict`; errors of a tool are not checked."""
        schema = self._schemas.get(name)
        if schema is None or result.is_error:
            return
        from mcprev_types import ABSENT  # imported late: it loads all that models need

        structured = result.structured_content
        if structured is ABSENT:
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
