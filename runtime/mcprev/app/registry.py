"""The handler of an app: serves the registered functions (TOOL-1, RES-2, RES-4, PROM-1, COMP-1, COMP-3, PAGE-2).

It overrides the same methods as a handler written by hand. A URI is looked up among the fixed resources first, then
among the templates, in the order of registration: the first one that matches the URI and accepts its variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from mcprev.app.results import ToolReturns, completion_of, contents_of, messages_of
from mcprev.app.signatures import ArgumentError, Function
from mcprev.app.uri_templates import Template
from mcprev.core.tool_schemas import refusal
from mcprev.errors import InvalidParams, ResourceNotFound
from mcprev.json_schema.validation import describe
from mcprev.server.context import Context
from mcprev.server.server import ServerHandler
from mcprev_types.latest import models

T = TypeVar("T")
PAGE: Final = 250
"""The number of entries on a page. Few servers have more, and some clients read only the first page."""


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """A function that is a tool."""

    listed: models.Tool
    function: Function
    returns: ToolReturns


@dataclass(frozen=True, slots=True)
class Resource:
    """A function that reads one resource."""

    listed: models.Resource
    function: Function


@dataclass(frozen=True, slots=True)
class ResourceTemplate:
    """A function that reads the resources of a template."""

    listed: models.ResourceTemplate
    function: Function
    template: Template


@dataclass(frozen=True, slots=True)
class Prompt:
    """A function that is a prompt."""

    listed: models.Prompt
    function: Function


@dataclass(frozen=True, slots=True)
class Registry:
    """All functions of an app, by the names that clients use."""

    tools: dict[str, RegisteredTool] = field(default_factory=dict[str, RegisteredTool])
    resources: dict[str, Resource] = field(default_factory=dict[str, Resource])
    templates: dict[str, ResourceTemplate] = field(default_factory=dict[str, ResourceTemplate])
    prompts: dict[str, Prompt] = field(default_factory=dict[str, Prompt])
    completions: dict[tuple[str, str], Function] = field(default_factory=dict[tuple[str, str], Function])

    def kinds(self) -> tuple[type[Handler], ...]:
        """The handler classes for the kinds that have at least one function."""
        there = {
            Tools: self.tools,
            Resources: {**self.resources, **self.templates},
            Prompts: self.prompts,
            Completions: self.completions,
        }
        return tuple(kind for kind, entries in there.items() if entries)


class Handler(ServerHandler):
    """The base class of the handlers of each kind."""

    def __init__(self, registered: Registry) -> None:
        self._there = registered


class Tools(Handler):
    """Serves tools."""

    async def list_tools(self, ctx: Context, params: models.PaginatedRequestParams) -> models.ListToolsResult:
        """Return a page of the tools."""
        del ctx
        found, cursor = _page(self._there.tools, params)
        return models.ListToolsResult(tools=[tool.listed for tool in found], next_cursor=cursor)

    async def call_tool(
        self, ctx: Context, params: models.CallToolRequestParams
    ) -> models.CallToolResult | models.InputRequiredResult:
        """Validate the arguments and call a tool."""
        tool = self._there.tools.get(params.name)
        if tool is None:
            raise InvalidParams(f"Unknown tool: {params.name:.100}")
        try:
            arguments = tool.function.read(params.arguments or {})
        except ArgumentError as error:
            return models.CallToolResult.from_wire(
                refusal(params.name, error.complaints, ctx.request.revision)
            )
        return tool.returns.result(await tool.function(ctx, arguments))


class Resources(Handler):
    """Serves resources and their templates."""

    async def list_resources(
        self, ctx: Context, params: models.PaginatedRequestParams
    ) -> models.ListResourcesResult:
        """Return a page of the resources with a fixed URI."""
        del ctx
        found, cursor = _page(self._there.resources, params)
        return models.ListResourcesResult(resources=[entry.listed for entry in found], next_cursor=cursor)

    async def list_resource_templates(
        self, ctx: Context, params: models.PaginatedRequestParams
    ) -> models.ListResourceTemplatesResult:
        """Return a page of the templates."""
        del ctx
        found, cursor = _page(self._there.templates, params)
        return models.ListResourceTemplatesResult(
            resource_templates=[entry.listed for entry in found], next_cursor=cursor
        )

    async def read_resource(
        self, ctx: Context, params: models.ReadResourceRequestParams
    ) -> models.ReadResourceResult | models.InputRequiredResult:
        """Read the resource at a URI."""
        entry, arguments = self._find(params.uri)
        return contents_of(await entry.function(ctx, arguments), params.uri, entry.listed.mime_type)

    def _find(self, uri: str) -> tuple[Resource | ResourceTemplate, dict[str, Any]]:
        fixed = self._there.resources.get(uri)
        if fixed is not None:
            return fixed, {}
        for entry in tuple(self._there.templates.values()):
            texts = entry.template.match(uri)
            if texts is not None:
                try:
                    return entry, entry.function.read_texts(texts)
                except ArgumentError:
                    continue  # the variables do not fit: another template may match
        raise ResourceNotFound("Resource not found", data={"uri": uri})


class Prompts(Handler):
    """Serves prompts."""

    async def list_prompts(
        self, ctx: Context, params: models.PaginatedRequestParams
    ) -> models.ListPromptsResult:
        """Return a page of the prompts."""
        del ctx
        found, cursor = _page(self._there.prompts, params)
        return models.ListPromptsResult(prompts=[prompt.listed for prompt in found], next_cursor=cursor)

    async def get_prompt(
        self, ctx: Context, params: models.GetPromptRequestParams
    ) -> models.GetPromptResult | models.InputRequiredResult:
        """Return a prompt with its arguments filled in."""
        prompt = self._there.prompts.get(params.name)
        if prompt is None:
            raise InvalidParams(f"Unknown prompt: {params.name:.100}")
        try:
            arguments = prompt.function.read_texts(params.arguments or {})
        except ArgumentError as error:
            text = describe(error.complaints, "arguments")
            raise InvalidParams(f"Invalid arguments for prompt '{params.name}': {text}") from None
        return messages_of(await prompt.function(ctx, arguments), prompt.listed.description)


class Completions(Handler):
    """Serves completions."""

    async def complete(self, ctx: Context, params: models.CompleteRequestParams) -> models.CompleteResult:
        """Complete an argument of a prompt or a variable of a template; return no values without a completion."""
        reference, name = params.ref, params.argument.name
        of: Mapping[str, Prompt | ResourceTemplate]
        if isinstance(reference, models.PromptReference):
            of, key = self._there.prompts, reference.name
        else:
            of, key = self._there.templates, reference.uri
        entry = of.get(key)
        if entry is None or name not in entry.function.names:
            raise InvalidParams(f"Invalid params: '{key:.100}' has no argument '{name:.100}'")
        function = self._there.completions.get((key, name))
        if function is None:
            return completion_of([])
        settled = (params.context and params.context.arguments) or {}
        told = {"value": params.argument.value, "arguments": settled}
        try:
            wanted = function.read({known: told[known] for known in function.names})
        except ArgumentError as error:
            raise InvalidParams(f"Invalid params: {describe(error.complaints, 'argument')}") from None
        return completion_of(await function(ctx, wanted))


def _page(entries: Mapping[str, T], params: models.PaginatedRequestParams) -> tuple[list[T], str | None]:
    """Return a page of entries and the next cursor: the name of its last entry, which stays valid on changes."""
    names, start = list(entries), 0
    if params.cursor is not None:
        if params.cursor not in entries:
            raise InvalidParams("Invalid params: no such cursor")
        start = names.index(params.cursor) + 1
    page = names[start : start + PAGE]
    return [entries[name] for name in page], page[-1] if start + PAGE < len(names) else None
