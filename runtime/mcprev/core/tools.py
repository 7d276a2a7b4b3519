"""Keeping to the schemas of tools, on both sides (TOOL-2, 3, 4, 6, CONV-35, JSCH-1..3).

A server learns its tools by asking its own handler for them, as a client would, when the first of them is called;
it asks again after `changed("tools")`, and for a name that it has not seen. What a handler calls a tool without
listing it is not checked here, and one that does not exist is the handler's to refuse (TOOL-1). A client knows the
tools that it has listed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from pydantic_core import MISSING

from mcprev.convert import PayloadKind, argument_failure
from mcprev.core.method_binding import HandlerTable, to_wire
from mcprev.errors import InvalidParams, Json, LocalProtocolError, RemoteProtocolError, SchemaError
from mcprev.json_schema.bounds import Check, Complaint
from mcprev.protocol.stateless import COMPLETE

if TYPE_CHECKING:
    from mcprev.convert import ConversionContext as Conversion
    from mcprev.core.context import Context
    from mcprev.protocol.connection_state import IncomingRequest
    from mcprev.protocol.connection_state import RequestKind as Served
    from mcprev.revisions import Revision
    from mcprev_types.latest import models

CALL: Final = "tools/call"
LIST: Final = "tools/list"
MAX_PAGES: Final = 1_000
"""More pages of tools than this are not a list but a loop."""
MAX_TOOLS: Final = 5_000
"""How many names are kept of one list beyond those that are on it."""
MAX_NAME: Final = 256
"""A longer name that is not listed is not kept."""
MAX_LISTS: Final = 64
"""How many lists are kept: one for each revision and principal that calls."""
Policy: TypeAlias = Literal["warn", "strict", "off"]
"""What a client does about a result that does not fit its tool's schema."""
_client_log: Final = logging.getLogger("mcprev.client")


class ToolSchemas:
    """One tool as its schemas have it; they are compiled when they are first needed."""

    __slots__ = ("_arguments", "_compiled", "_result", "input", "name", "output")

    def __init__(self, name: str, input_: Json, output: Json) -> None:
        self.name = name
        self.input = input_
        self.output = output
        self._compiled = False
        self._arguments: Check | None = None
        self._result: Check | None = None

    def check(self, params: Mapping[str, Json], revision: Revision) -> dict[str, Json] | None:
        """The result of a call whose arguments do not fit; None when they do (TOOL-2, TOOL-3, CONV-35).

        Raises `InvalidParams` where the revision has an error for that.
        """
        arguments = params.get("arguments")
        check = self._arguments
        if check is None:
            if self.input is None:
                return None
            check = self._arguments = self._compile("inputSchema", self.input)
        found = check({} if arguments is None else arguments)
        if not found:
            return None
        return refusal(self.name, found, revision)

    def conform(self, result: dict[str, Json]) -> None:
        """Raise `LocalProtocolError` for a result whose structure does not fit (TOOL-4); failed tools have none."""
        structured = result.get("structuredContent", MISSING)
        if (
            result.get("isError") is True
            or "task" in result
            or result.get("resultType", COMPLETE) != COMPLETE
        ):
            return
        if self.output is not None:
            if structured is MISSING:
                raise LocalProtocolError(
                    f"the tool '{self.name}' has an outputSchema and gave no structured content"
                )
            check = self._result
            if check is None:
                check = self._result = self._compile("outputSchema", self.output)
            found = check(structured)
            if found:
                from mcprev.json_schema.validation import describe

                text = describe(found, "structuredContent")
                raise LocalProtocolError(
                    f"the result of the tool '{self.name}' does not fit its outputSchema: {text}"
                )

    def _compile(self, member: str, schema: Json) -> Check:
        from mcprev.json_schema.validation import compile_schema

        try:
            return compile_schema(schema, trusted=True)
        except SchemaError as error:
            raise SchemaError(
                f"the {member} of the tool '{self.name}' cannot be used, so its calls are refused: {error} "
                "(a server made with validate=False checks nothing)"
            ) from error


def refusal(name: str, found: list[Complaint], revision: Revision) -> dict[str, Json]:
    """The result of a call whose arguments are wrong; raises `InvalidParams` where there is an error for that (CONV-35)."""
    from mcprev.json_schema.validation import describe

    text = f"Invalid arguments for tool '{name}': {describe(found, 'arguments')}"
    answer = argument_failure(text, at=revision.name)
    if answer.kind is PayloadKind.RESULT:
        return answer.payload
    raise InvalidParams(text)


UNKNOWN: Final = ToolSchemas("", None, None)
"""Stands for a tool that has to be asked for."""


class ToolTable:
    """What a server knows of the tools of its handler."""

    def __init__(
        self, handler_table: HandlerTable, served: Callable[[Revision], Mapping[str, Served]]
    ) -> None:
        self._routes = handler_table
        self._served = served
        self._lists: OrderedDict[tuple[str, str | None], dict[str, ToolSchemas]] = OrderedDict()
        self._locks: dict[tuple[str, str | None], asyncio.Lock] = {}
        self._unknown: dict[Revision, tuple[ToolSchemas | None]] = {}
        """What is said at a revision of tools that nobody has asked for."""
        self.generation = 0
        """Changes when what is known of the tools is forgotten."""

    def forget(self) -> None:
        """The tools have changed."""
        self.generation += 1
        self._lists.clear()

    def known(self, incoming: IncomingRequest) -> ToolSchemas | None:
        """What `find` would say, as far as nobody has to be asked for it; `UNKNOWN` otherwise."""
        revision = incoming.revision
        if self._lists:
            tools = self._lists.get((revision.name, incoming.principal))
            if tools is not None:
                name: Json = None if incoming.params is None else incoming.params.get("name")
                return tools.get(name, UNKNOWN) if name.__class__ is str else None
        unknown = self._unknown.get(revision)
        if unknown is None:
            unknown = self._unknown[revision] = (UNKNOWN if LIST in self._served(revision) else None,)
        return unknown[0]

    async def find(
        self, context: Context, params: Mapping[str, Json] | None, up: Conversion | None
    ) -> ToolSchemas | None:
        """The tool that a call is of; None for one that is not listed. Raises what the handler raises."""
        name = (params or {}).get("name")
        incoming = context.request
        if not isinstance(name, str):
            return None  # whoever reads the params will say so
        key = (incoming.revision.name, context.principal)
        tools = self._lists.get(key)
        if tools is not None and name in tools:
            return tools[name]
        if LIST not in self._served(incoming.revision):
            return None
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                tools = self._lists.get(key)
                if tools is None or name not in tools:
                    tools = await self._learn(key, context, up)
                    if name not in tools and len(name) <= MAX_NAME:
                        # It is looked for once, until the list changes.
                        tools[name] = ToolSchemas(name, None, None)
        finally:
            if not lock.locked():
                self._locks.pop(key, None)
        return tools.get(name)

    async def _learn(
        self, key: tuple[str, str | None], context: Context, up: Conversion | None
    ) -> dict[str, ToolSchemas]:
        before, known = self.generation, self._lists.get(key, {})
        listed = {tool["name"]: tool for tool in await self._all(context, up)}
        if len(known) > len(listed) + MAX_TOOLS:
            known = {}
        tools: dict[str, ToolSchemas] = {name: tool for name, tool in known.items() if name not in listed}
        for name, tool in listed.items():
            tools[name] = ToolSchemas(name, tool.get("inputSchema"), tool.get("outputSchema"))
        if before == self.generation:
            self._lists[key] = tools
            self._lists.move_to_end(key)
            if len(self._lists) > MAX_LISTS:
                self._lists.popitem(last=False)
        return tools

    async def _all(self, context: Context, up: Conversion | None) -> list[dict[str, Json]]:
        """Every tool that the handler lists for this client."""
        method_binding = self._routes.find(context.request.revision, LIST)
        meta = (context.request.params or {}).get("_meta")
        asked: dict[str, Json] = {} if meta is None else {"_meta": meta}
        found: list[dict[str, Json]] = []
        seen: set[str] = set()
        for _ in range(MAX_PAGES):
            page = to_wire(await method_binding.stub(context, method_binding.params(dict(asked), up)))
            found += page["tools"]
            cursor = page.get("nextCursor")
            if cursor is None:
                return found
            if cursor in seen:
                break
            seen.add(cursor)
            asked["cursor"] = cursor
        raise LocalProtocolError("the handler's list of tools does not end")


class ToolWatch:
    """What a client knows of its server's tools, and what it does about results that do not fit (TOOL-6)."""

    def __init__(self, policy: Policy) -> None:
        if policy not in ("warn", "strict", "off"):
            raise ValueError(f"results are checked in the way of 'warn', 'strict' or 'off', not {policy!r}")
        self._policy = policy
        self._schemas: dict[str, Json] = {}
        self._checks: dict[str, Check | None] = {}
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

    def _compile(self, name: str, schema: Json) -> Check:
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
        _client_log.log(level, "%s", text)
