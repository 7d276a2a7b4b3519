"""The handler of an app: serves the registered functions (TOOL-1, RES-2, RES-4, PROM-1, COMP-1, COMP-3, PAGE-2).

It overrides the same methods as a handler written by hand. A URI is looked up among the fixed resources first, then
among the templates, in the order of registration: the first one that matches the URI and accepts its variables. What
a client does not see does not exist for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Any, Final, TypeVar

from mcprev.app.arguments import ArgumentError
from mcprev.app.entries import Entry, Prompt, RegisteredTool, Resource, ResourceTemplate
from mcprev.app.names import VERSION, VERSIONS, versions_among
from mcprev.app.registry import KINDS, Registry
from mcprev.app.results import completion_of, contents_of, messages_of
from mcprev.core.tool_schemas import refusal
from mcprev.errors import InvalidParams, Json, ResourceNotFound
from mcprev.json_schema.validation import describe
from mcprev.protocol.uris import comparable, normalized
from mcprev.server.context import Context
from mcprev.server.kept import Kept
from mcprev.server.server import ServerHandler
from mcprev_types.latest import models

E = TypeVar("E", bound=Entry)
P = TypeVar("P")
R = TypeVar("R")
SERVED: Final = Kept["Registry | None"](lambda: None)
"""The registry that is served, for the tools of a request that list or call its other functions; None for other tools."""
PAGE: Final = 250
"""The number of entries on a page. Few servers have more, and some clients read only the first page."""


class Handler(ServerHandler):
    """The base class of the handlers of each kind."""

    def __init__(self, registered: Registry) -> None:
        self._there = registered
        self._inside: Handler | None = None
        """Serves a call inside the middleware of mounted apps; None for that handler itself."""
        self._inside = copy(self)

    def has_entry(self, method: str, name: str) -> bool:
        """Return whether the app has the tool or prompt that a call names."""
        there = self._there.tools if method == "tools/call" else self._there.prompts
        return name in there

    @property
    def with_task(self) -> list[str]:
        """The names of the tools that can or must run as tasks."""
        return [name for name, tool in self._there.every_tool().items() if tool.task is not None]


class Tools(Handler):
    """Serves tools."""

    lists_all = False
    """Whether tools are listed that clients are to search for."""

    async def list_tools(self, ctx: Context, params: models.PaginatedRequestParams) -> models.ListToolsResult:
        """Return a page of the tools."""
        tools: Mapping[str, RegisteredTool] = self._there.tools
        if self._there.versions:
            tools = await _newest(self._there, ctx)
        if self._there.reflects and not self.lists_all:
            unlisted = self._there.unlisted()
            tools = {name: tool for name, tool in tools.items() if name not in unlisted}
        found, cursor = await _page(tools, ctx, params)
        wraps = ctx.request.revision.structured_objects
        shown = [(tool, tool.shown_as(ctx, self._there.resources)) for tool in found]
        return models.ListToolsResult(
            tools=[tool.returns.wrapped_tool(each) if wraps else each for tool, each in shown],
            next_cursor=cursor,
            **self._there.list_cache,
        )

    async def call_tool(
        self, ctx: Context, params: models.CallToolRequestParams
    ) -> models.CallToolResult | models.InputRequiredResult:
        """Validate the arguments and call a tool."""
        tool = self._there.tools.get(params.name)
        if tool is None or tool.checks:
            tool = await self._there.tool(params.name, ctx)
        if tool is None:
            raise InvalidParams(f"Unknown tool: {params.name:.100}")
        if self._there.versions or tool.originals:
            keys = {tool.listed.name, *tool.originals}
            for name in keys.union(key.partition("@")[0] for key in keys) - {params.name}:
                await check_scopes(ctx, "tools/call", {"name": name, "arguments": params.arguments or {}})
        if self._there.reflects:
            SERVED[ctx] = self._there
        if tool.around and self._inside is not None:
            return await _through(tool, self._inside.call_tool, "tools/call", ctx, params)
        try:
            arguments = tool.function.read(params.arguments or {})
        except ArgumentError as error:
            return models.CallToolResult.from_wire(
                refusal(params.name, error.complaints, ctx.request.revision)
            )
        return tool.returns.result(await tool.function(ctx, arguments), ctx.request.revision)


async def check_scopes(ctx: Context, method: str, params: Mapping[str, Json]) -> None:
    """Raise the error of a request that the client could not make itself with the scopes of its token."""
    access = ctx.access
    error = None if access is None or access.refusal is None else await access.refusal(method, params)
    if error is not None:
        raise error


async def _newest(there: Registry, ctx: Context) -> dict[str, RegisteredTool]:
    """Return the tools that the client of a request sees; of several versions the newest, under the plain name."""
    seen = {key: tool for key, tool in tuple(there.tools.items()) if await tool.shown(ctx)}
    found: dict[str, RegisteredTool] = {}
    for key, tool in seen.items():
        name, _, version = key.partition("@")
        if not version:
            found[name] = tool
        elif name not in found:
            keys = versions_among(name, seen)
            versions = [each.partition("@")[2] for each in keys]
            listed = seen[keys[0]].listed
            meta = {**(listed.meta or {}), VERSION: versions[0], VERSIONS: versions}
            listed = listed.model_copy(update={"name": name, "meta": meta})
            found[name] = replace(seen[keys[0]], listed=listed, checks=())  # it is seen
    return found


class Resources(Handler):
    """Serves resources and their templates."""

    async def list_resources(
        self, ctx: Context, params: models.PaginatedRequestParams
    ) -> models.ListResourcesResult:
        """Return a page of the resources with a fixed URI."""
        listed = {uri: each for uri, each in tuple(self._there.resources.items()) if not each.unlisted}
        found, cursor = await _page(listed, ctx, params)
        return models.ListResourcesResult(
            resources=[entry.listed for entry in found], next_cursor=cursor, **self._there.list_cache
        )

    async def list_resource_templates(
        self, ctx: Context, params: models.PaginatedRequestParams
    ) -> models.ListResourceTemplatesResult:
        """Return a page of the templates."""
        found, cursor = await _page(self._there.templates, ctx, params)
        return models.ListResourceTemplatesResult(
            resource_templates=[entry.listed for entry in found], next_cursor=cursor, **self._there.list_cache
        )

    async def read_resource(
        self, ctx: Context, params: models.ReadResourceRequestParams
    ) -> models.ReadResourceResult | models.InputRequiredResult:
        """Read the resource at a URI."""
        entry, arguments = await self._find(params.uri, ctx)
        if entry.around and self._inside is not None:
            return await _through(entry, self._inside.read_resource, "resources/read", ctx, params)
        value = await entry.function(ctx, arguments)
        # Contents that only some clients see must not be cached for all.
        cache = {**entry.cache, "cache_scope": "private"} if entry.checks else entry.cache
        return contents_of(value, params.uri, entry.listed.mime_type, cache)

    async def _find(self, uri: str, ctx: Context) -> tuple[Resource | ResourceTemplate, dict[str, Any]]:
        for entry, arguments in _matching(self._there.resources, self._there.templates, uri):
            if await entry.shown(ctx):
                return entry, arguments
        raise ResourceNotFound("Resource not found", data={"uri": uri})


def _matching(
    fixed: Mapping[str, Resource], templates: Mapping[str, ResourceTemplate], uri: str
) -> Iterator[tuple[Resource | ResourceTemplate, dict[str, Any]]]:
    """Yield what can read the resource at a URI, with the arguments: the first that the client sees does."""
    if uri in fixed:
        yield fixed[uri], {}
    for entry in tuple(templates.values()):
        texts = entry.template.match(uri)
        # A policy that was asked about another spelling was not asked about what this template reads.
        if texts is not None and entry.template.canonical(uri) == uri:
            with suppress(ArgumentError):  # the variables do not fit: another template may match
                yield entry, entry.function.read_texts(texts)


def canonical_uri(there: Registry, uri: str, *, of_template: bool = False) -> str:
    """Return the one spelling of a URI for which a request is served, and by which policies decide about it.

    That of what is listed; of a template with its literals and its variables percent-encoded; of any other URI as
    `normalized` says. `of_template` is for the text of a template.
    """
    if of_template:
        same = (text for text in tuple(there.templates) if comparable(text) == comparable(uri))
        return next(same, uri)
    listed = uri if uri in there.resources else there.spelled.get(comparable(uri))
    if listed is not None:
        return listed
    for entry in tuple(there.templates.values()):
        found = entry.template.canonical(uri)
        texts = None if found is None else entry.template.match(found)
        if found is not None and texts is not None:
            with suppress(ArgumentError):
                entry.function.read_texts(texts)
                return found
    return normalized(uri)


def guard_of(there: Registry, uri: str) -> Callable[[Context], Awaitable[bool]] | None:
    """Return how to find out whether a client sees the resource at a URI; None if all clients do, or if there is none."""
    uri = canonical_uri(there, uri)
    found = [entry for entry, _ in _matching(there.resources, there.templates, uri)]
    hidden: dict[str, dict[Any, Any]] = {kind: {} for kind in KINDS}
    for (kind, key), entry in there.disabled.items():
        hidden[kind][key] = entry
    if not all(entry.checks for entry in found):
        return None
    away = comparable(uri) in map(comparable, hidden["resources"])
    if not found and not away and not any(_matching({}, hidden["templates"], uri)):
        return None

    async def sees(ctx: Context) -> bool:
        for entry in found:
            if await entry.shown(ctx):
                return True
        return False

    return sees


def entries_of(there: Registry, method: str, params: object) -> list[Entry]:
    """Return what can serve a call with these params, for middleware that decides by it."""
    name: Any = getattr(params, "name", None)
    uri = getattr(params, "uri", None)
    found: dict[str, list[Entry | None]] = {
        "tools/call": [there.tools.get(key) for key in (name, *there.versions.get(name, ()))],
        "prompts/get": [there.prompts.get(name)],
    }
    if method == "resources/read" and isinstance(uri, str):
        found[method] = [entry for entry, _ in _matching(there.resources, there.templates, uri)]
    return [entry for entry in found.get(method, ()) if entry is not None]


class Prompts(Handler):
    """Serves prompts."""

    async def list_prompts(
        self, ctx: Context, params: models.PaginatedRequestParams
    ) -> models.ListPromptsResult:
        """Return a page of the prompts."""
        found, cursor = await _page(self._there.prompts, ctx, params)
        return models.ListPromptsResult(
            prompts=[prompt.listed for prompt in found], next_cursor=cursor, **self._there.list_cache
        )

    async def get_prompt(
        self, ctx: Context, params: models.GetPromptRequestParams
    ) -> models.GetPromptResult | models.InputRequiredResult:
        """Return a prompt with its arguments filled in."""
        prompt = self._there.prompts.get(params.name)
        if prompt is None or not await prompt.shown(ctx):
            raise InvalidParams(f"Unknown prompt: {params.name:.100}")
        if prompt.around and self._inside is not None:
            return await _through(prompt, self._inside.get_prompt, "prompts/get", ctx, params)
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
        if entry is None or not await entry.shown(ctx) or name not in entry.function.names:
            raise InvalidParams(f"Invalid params: '{key:.100}' has no argument '{name:.100}'")
        if entry.around and self._inside is not None:
            return await _through(entry, self._inside.complete, "completion/complete", ctx, params)
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


HANDLERS: Final[Mapping[str, type[Handler]]] = {
    "tools": Tools, "resources": Resources, "templates": Resources, "prompts": Prompts, "completions": Completions,
}  # fmt: skip
"""The class that serves each kind."""


async def _through(
    entry: Entry, serve: Callable[[Context, P], Awaitable[R]], method: str, ctx: Context, params: P
) -> R:
    """Serve a call inside the middleware of the mounted apps that its entry comes from.

    The method is that of the call, which a tool makes where it reads a resource or gets a prompt.
    """
    from mcprev.server.middleware import wrap

    result: R = await wrap(entry.around, method, serve)(ctx, params)
    return result


async def _page(
    entries: Mapping[str, E], ctx: Context, params: models.PaginatedRequestParams
) -> tuple[list[E], str | None]:
    """Return a page of what the client sees and the next cursor: the name of its last entry, which stays valid on
    changes.
    """
    entries = {name: entry for name, entry in tuple(entries.items()) if await entry.shown(ctx)}
    names, start = list(entries), 0
    if params.cursor is not None:
        if params.cursor not in entries:
            raise InvalidParams("Invalid params: the cursor is unknown; list again without a cursor")
        start = names.index(params.cursor) + 1
    page = names[start : start + PAGE]
    return [entries[name] for name in page], page[-1] if start + PAGE < len(names) else None
