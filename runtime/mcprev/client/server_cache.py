"""What a client knows of its server: cached results, the tools' output schemas, and which tools require a task.

CACHE-2, CACHE-3, CACHE-5, TOOL-6, MRTR-9, JSCH-1..3, TASK-3. All of it is dropped when the server reports a change,
and when the connection is opened again. The results of tools are validated against the schemas.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from mcprev.client.options import Options
from mcprev.core.lists import text_of
from mcprev.core.tool_schemas import LIST, MAX_TOOLS
from mcprev.errors import Json, RemoteProtocolError, SchemaError, one_line
from mcprev.json_schema.bounds import Validator
from mcprev.protocol.cache import ResultCache, Scope
from mcprev.protocol.mrtr import is_input_required
from mcprev.protocol.subscriptions import Changed
from mcprev.protocol.tasks import Support
from mcprev.wire.json_values import is_json_object

if TYPE_CHECKING:
    from mcprev_types.latest import models

DISCOVER: Final = "server/discover"
MAX_BYTES: Final = 4 * 1024 * 1024
"""The maximum length of the output schemas that are kept of one server, as JSON text."""
MAX_NAME: Final = 1_024
"""The maximum length of the name of a tool of which anything is kept."""
Policy: TypeAlias = Literal["warn", "strict", "off"]
"""The reaction to a result that does not match its tool's output schema: log it, raise an error, or do not check."""
_logger: Final = logging.getLogger("mcprev.client")


@dataclass(slots=True)
class _OutputSchema:
    """The output schema of a tool, compiled on first use."""

    text: bytes
    """Its JSON text, which takes less memory."""
    check: Validator | None = None
    unusable: str = ""
    """Why the schema cannot be used."""
    warned: bool = False


class ServerCache:
    """The cached results and schemas of one client; the `ResultCache` may be shared with others."""

    def __init__(self, cache: ResultCache, scope: Scope, policy: Policy) -> None:
        """`policy` is for results that do not match their schema. Raises `ValueError` for an unknown one."""
        if policy not in ("warn", "strict", "off"):
            raise ValueError(f"`validate` must be 'warn', 'strict' or 'off', not {policy!r}")
        self._cache = cache
        self._scope = scope
        self._policy = policy
        self._outputs: dict[str, _OutputSchema] = {}
        self._size = 0
        """The length of the texts of all of them."""
        self.task_tools: set[str] = set()
        """The tools that the server runs only as a task that the client asks for."""

    # -- results -------------------------------------------------------------------------------------------

    async def result(
        self,
        method: str,
        params: Mapping[str, Json],
        options: Options,
        fetch: Callable[[], Awaitable[dict[str, Json]]],
        check: Callable[[dict[str, Json]], object],
    ) -> dict[str, Json]:
        """Return the cached result of a call if it is fresh, or else that of `fetch`, which is then cached.

        Only a result that `check` does not raise for is cached, and none that asks for input.
        """
        now = asyncio.get_running_loop().time
        asked, meta = params, options.get("meta")
        if meta:
            asked = {**params, "_meta": dict(meta)}
        found = None if options.get("fresh") else self._cache.get(self._scope, method, asked, now())
        if found is None:
            changes = self._cache.changes
            found = await fetch()
            if not is_input_required(found):
                check(found)
                if method == LIST:
                    self._learn(found)
                self._cache.put(self._scope, method, asked, found, now(), changes=changes)
        return found

    def introduction(self, now: float) -> dict[str, Json] | None:
        """Return the server's cached DiscoverResult; only a shared cache can have one."""
        return self._cache.get(self._scope, DISCOVER, {}, now)

    def introduced(self, discovery: Mapping[str, Json], now: float) -> None:
        """Keep the server's DiscoverResult."""
        self._cache.put(self._scope, DISCOVER, {}, discovery, now, changes=self._cache.changes)

    def changed(self, kind: Changed, uri: str | None) -> None:
        """Drop what a change of the server affects."""
        if kind is Changed.TOOLS:
            self._forget_tools()
        self._cache.changed(self._scope, kind, uri)

    def forget(self) -> None:
        """Drop everything: the next connection may reach another server."""
        self._forget_tools()
        self._cache.forget(self._scope)

    # -- tools ---------------------------------------------------------------------------------------------

    def _learn(self, page: Mapping[str, Json]) -> None:
        """Keep what one page of `tools/list` says."""
        listed: list[dict[str, Json]] = page.get("tools") or []
        for tool in listed:
            name, schema, execution = str(tool.get("name")), tool.get("outputSchema"), tool.get("execution")
            if len(name) > MAX_NAME:
                continue
            if is_json_object(execution):
                self.set_task(name, required=execution.get("taskSupport") == Support.REQUIRED)
            known = self._outputs.get(name)
            text = b"" if schema is None or self._policy == "off" else text_of(schema)
            if known is not None and known.text != text:
                self._size -= len(self._outputs.pop(name).text)
                known = None
            if text and not known and len(self._outputs) < MAX_TOOLS and self._size + len(text) <= MAX_BYTES:
                self._outputs[name] = _OutputSchema(text)
                self._size += len(text)

    def set_task(self, name: str, *, required: bool) -> None:
        """Keep whether a tool requires a task."""
        if not required:
            self.task_tools.discard(name)
        elif len(self.task_tools) < MAX_TOOLS:
            self.task_tools.add(name)

    def _forget_tools(self) -> None:
        self.task_tools.clear()
        self._outputs.clear()
        self._size = 0

    def check(self, name: str, result: models.CallToolResult) -> None:
        """Validate a result. Raises `RemoteProtocolError` under the policy `strict`; errors of a tool are not checked."""
        output = self._outputs.get(name)
        if output is None or result.is_error:
            return
        from mcprev.json_schema.validation import compile_schema, describe  # imported late, like the models
        from mcprev_types import ABSENT

        structured = result.structured_content
        wrong = output.unusable
        if structured is ABSENT:
            wrong = "it has an outputSchema, but returned no structured content"
        elif not wrong:
            try:
                output.check = output.check or compile_schema(json.loads(output.text), trusted=False)
                wrong = describe(output.check(structured), "structuredContent")
            except SchemaError as error:
                wrong = output.unusable = f"its outputSchema cannot be used: {error}"
        if not wrong:
            return
        text = f"the result of the tool '{one_line(name)}' cannot be relied on: {wrong}"
        if self._policy == "strict":
            raise RemoteProtocolError(text, raw=result.to_wire())
        # Once for each tool: who calls it again knows.
        _logger.log(logging.DEBUG if output.warned else logging.WARNING, "%s", text)
        output.warned = True
