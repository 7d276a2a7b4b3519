"""A search for tools: clients list two tools, one that finds the others and one that calls them (BM25)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import Field
from pydantic_core import to_json

from mcprev.app.app import App
from mcprev.app.entries import RegisteredTool
from mcprev.app.registry import Registry
from mcprev.error_text import did_you_mean
from mcprev.errors import Json, ToolError
from mcprev.json_schema.bounds import OBJECT
from mcprev.protocol.tasks import Support
from mcprev.revisions import load
from mcprev.server.context import Context
from mcprev.transforms.requests import ask, every, own, reflecting, served
from mcprev_types.latest import models

SEARCH_TOOLS: Final = "search_tools"
CALL_TOOL: Final = "call_tool"
MAX_QUERY: Final = 1_000
"""The maximum number of characters of a query."""
LIMIT: Final = "The maximum number of tools; if so many are found, more may match."
"""The description of the argument `limit` of a search."""
_SATURATION: Final = 1.5
_LENGTH: Final = 0.75
"""The usual parameters of BM25: how much repeated words count, and how much long texts count less."""
_NAME_WEIGHT: Final = 3
"""How often the words of a tool's name and title are counted."""
_WORDS: Final = re.compile(r"[^\W\d_]+|\d+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHOWN: Final = ("name", "title", "description", "inputSchema", "annotations")


def tools_by_search(app: App, *, limit: int = 5, always: Collection[str] = ()) -> App:
    """List only the tools `search_tools` and `call_tool`, by which a model finds and calls all the others; return the app.

    - `limit` is the number of tools that a search returns if the model does not say, and from 1 to 50.
    - `always` are the names of registered tools that are listed as well.

    A search returns the tools that the client of the request sees, the best first. A call by `call_tool` is validated
    as one of the tool itself and has the same result, and middleware of the app runs for both: for `call_tool`, and
    for the tool that it calls. A tool can still be called by its own name. Tools that are registered later are found,
    too; register those that run as tasks before. If the app is mounted, its tools are found and called under the
    names that they have there, and the tools of the app that mounts it are listed as before. Raises `ValueError` for
    an unknown name in `always`, another limit, and a name that exists already.
    """
    registry = searched(app, limit, always)

    async def search_tools(
        query: Annotated[str, Field(description="Words about the task.", max_length=MAX_QUERY)],
        ctx: Context,
        limit: Annotated[int, Field(description=LIMIT, ge=1, le=50)] = limit,
    ) -> list[dict[str, Any]] | models.CallToolResult:
        """Find tools by words about what they do. Call what is found with `call_tool`."""
        return found_result(*await find_tools(registry, ctx, query, limit), ctx)

    async def call_tool(
        name: Annotated[str, Field(description="The name of a tool that `search_tools` returned.")],
        ctx: Context,
        arguments: Annotated[
            dict[str, Any] | None, Field(description="Its arguments, as its inputSchema says.")
        ] = None,
    ) -> models.CallToolResult | models.InputRequiredResult:
        """Call a tool that was found with `search_tools`."""
        tool = await callable_tool(registry, ctx, name)
        if tool is None:
            raise ToolError(f"Unknown tool: {name:.100}; find one with {SEARCH_TOOLS}")
        if served(registry, ctx).task_support(name) is Support.REQUIRED and ctx.running is None:
            raise ToolError(f"the tool '{name}' runs as a task only; call {CALL_TOOL} as a task")
        result: models.CallToolResult | models.InputRequiredResult = await ask(
            registry, ctx, "tools/call", {"name": name, "arguments": arguments or {}}
        )
        return result

    app.tool(search_tools, annotations=models.ToolAnnotations(read_only_hint=True))
    if registry.tasks or any(tool.task for tool in registry.every_tool().values()):
        app.tool(call_tool, task="optional")
    else:
        app.tool(call_tool)
    list_only(registry, {SEARCH_TOOLS, CALL_TOOL}, always)
    return app


def searched(app: App, limit: int, always: Collection[str]) -> Registry:
    """Return the functions of an app that gets a search. Raises `ValueError` for another limit, an unknown name, or a second search."""
    if not 1 <= limit <= 50:
        raise ValueError(f"the `limit` of a search is {limit}; use 1 to 50")
    if app.registry.listed_tools is not None:
        raise ValueError("a search is registered already; an app has one")
    known = {*app.registry.every_tool(), *app.registry.versions}
    for name in always:
        if name not in known:
            raise ValueError(f"'{name}' in `always` is not registered{did_you_mean(name, known)}")
    return reflecting(app)


def list_only(registry: Registry, finders: Collection[str], always: Collection[str]) -> None:
    """List the tools that find and call the others, and those in `always`, alone."""
    registry.finders = frozenset(finders)
    registry.listed_tools = registry.finders.union(always)


async def find_tools(
    registry: Registry, ctx: Context, query: str, limit: int, shown: Collection[str] = _SHOWN
) -> tuple[list[dict[str, Json]], int]:
    """Return members of the tools of the app that the client of a request sees and that have a word of a query, the best first.

    The second value is the number of all these tools.
    """
    names = _found(registry, ctx)
    tools = [
        tool
        for tool in await every(registry, ctx, "tools/list", "tools")
        if tool["name"] in names and _is_for_model(tool)
    ]
    ranks = _ranks(query, [_terms(_text(tool)) for tool in tools])
    found = [{key: tools[index][key] for key in shown if key in tools[index]} for index in ranks[:limit]]
    return found, len(ranks)


def found_result(
    found: list[dict[str, Json]], matching: int, ctx: Context
) -> list[dict[str, Json]] | models.CallToolResult:
    """Return what a search found, with a text beside it if more tools match.

    At revisions without structured content, whose clients parse the text, there is none.
    """
    fields = load(ctx.request.revision, "models").CallToolResult.model_fields
    if matching == len(found) or "structured_content" not in fields:
        return found
    more = f"These are the best {len(found)} of {matching} tools that match. For others, use a larger `limit`, up to 50, or other words."
    content = [models.TextContent(text=text) for text in (to_json(found).decode(), more)]
    return models.CallToolResult(content=[*content], structured_content=found)


async def callable_tool(registry: Registry, ctx: Context, name: str) -> RegisteredTool | None:
    """Return a tool that a search of the app finds, also by the name of a version; None for any other name."""
    root = served(registry, ctx)
    tool = await root.tool(name, ctx) if name in _found(registry, ctx) else None
    seen = tool is not None and _is_for_model(tool.shown_as(ctx, root.resources).to_wire())
    return tool if seen else None


async def is_finder(registry: Registry, ctx: Context, name: str) -> bool:
    """Return whether the client sees a tool of the app of this name, and it is one that finds or calls others."""
    there = name in _finders(registry, ctx) & own(registry, ctx, "tools")
    return there and await served(registry, ctx).tool(name, ctx) is not None


def _found(registry: Registry, ctx: Context) -> set[str]:
    """Return the names of the tools of an app but those that find and call others."""
    return own(registry, ctx, "tools") - _finders(registry, ctx)


def _finders(registry: Registry, ctx: Context) -> set[str]:
    """Return the names of the tools that find and call others, here or in a mounted app, by any name."""
    root, finders = served(registry, ctx), set[str]()
    for each in registry.each():
        finders |= each.names_in(root, "tools", each.finders)
    return finders.union(name for name, tool in root.tools.items() if not finders.isdisjoint(tool.originals))


def _is_for_model(tool: Mapping[str, Json]) -> bool:
    """Return whether the model may call a tool: one that only pages call is neither found nor called for it."""
    if "_meta" not in tool:
        return True
    from mcprev.extensions.ui import for_model

    return any(for_model([models.Tool.from_wire(dict(tool))]))


def _text(tool: Mapping[str, Json]) -> str:
    """Return the words of a tool: its name and title several times, its description, and its arguments."""
    names = [tool["name"], tool.get("title", "")] * _NAME_WEIGHT
    for name, argument in tool["inputSchema"].get("properties", {}).items():
        names += [name, str(argument.get("description", ""))] if isinstance(argument, OBJECT) else [name]
    return " ".join([*names, tool.get("description") or ""])


@lru_cache(maxsize=4096)
def _terms(text: str) -> Counter[str]:
    """Return the words of a text in lower case, without the `s` of a plural, with their numbers."""
    words = _WORDS.findall(_CAMEL.sub(" ", text))
    folded = (word.casefold() for word in words)
    return Counter(word[:-1] if len(word) > 3 and word.endswith("s") else word for word in folded)


def _ranks(query: str, documents: Sequence[Counter[str]]) -> list[int]:
    """Return the indices of the documents that have a word of the query, by BM25, the best first."""
    lengths = [document.total() for document in documents]
    mean = sum(lengths) / max(len(lengths), 1) or 1
    scores = [0.0] * len(documents)
    for word in _terms(query):
        having = [index for index, document in enumerate(documents) if word in document]
        weight = math.log(1 + (len(documents) - len(having) + 0.5) / (len(having) + 0.5))
        for index in having:
            count, length = documents[index][word], 1 - _LENGTH + _LENGTH * lengths[index] / mean
            scores[index] += weight * count * (_SATURATION + 1) / (count + _SATURATION * length)
    found = [index for index, score in enumerate(scores) if score > 0]
    return sorted(found, key=lambda index: -scores[index])
