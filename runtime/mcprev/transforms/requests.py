"""Requests that a tool makes of the functions of its own app, as if the client had made them.

The middleware of the app runs around each, so that what it refuses by a name or URI is refused here, too. If the app is
mounted, the requests go to the app that is served: its names, visibility, middleware and scopes hold. A tool lists and
calls no more of it than what comes from its own app.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from mcprev.app.app import App
from mcprev.app.handlers import SERVED, Handler, Prompts, Resources, Tools, check_scopes
from mcprev.app.registry import Registry
from mcprev.errors import InternalError, InvalidRequest, Json, ToolError
from mcprev.middleware.records import INDIRECT
from mcprev.protocol.mrtr import InputResponses, is_input_required
from mcprev.protocol.stateless import missing_capability, uncovered
from mcprev.server.context import Context
from mcprev.server.middleware import HandlerResult, inner_request, wrap
from mcprev_types.latest import models

R = TypeVar("R")


class AllTools(Tools):
    """Lists the tools that clients search for, too."""

    lists_all = True


_SERVED: Final[Mapping[str, tuple[type[Handler], str, type[Any], type[Any]]]] = {
    "tools/list": (AllTools, "list_tools", models.PaginatedRequestParams, models.ListToolsResult),
    "tools/call": (Tools, "call_tool", models.CallToolRequestParams, models.CallToolResult),
    "resources/list": (Resources, "list_resources", models.PaginatedRequestParams, models.ListResourcesResult),
    "resources/templates/list": (
        Resources, "list_resource_templates", models.PaginatedRequestParams, models.ListResourceTemplatesResult,
    ),
    "resources/read": (Resources, "read_resource", models.ReadResourceRequestParams, models.ReadResourceResult),
    "prompts/list": (Prompts, "list_prompts", models.PaginatedRequestParams, models.ListPromptsResult),
    "prompts/get": (Prompts, "get_prompt", models.GetPromptRequestParams, models.GetPromptResult),
}  # fmt: skip
"""The class and the name of the method that serves each request, and the types of its params and its result."""


def result_of(found: HandlerResult, kind: type[R]) -> R | models.InputRequiredResult:
    """Return the result of a call as a model; middleware may have made it of JSON."""
    if not isinstance(found, Mapping):
        return cast("R", found)
    made: Any = models.InputRequiredResult if is_input_required(found) else kind
    return cast("R", made.from_wire(dict(found)))


async def ask(
    registry: Registry, ctx: Context, method: str, params: Mapping[str, Json]
) -> Any:  # noqa: ANN401 - of its method
    """Return the result of a request for what is served: its model, or `InputRequiredResult`. Raises the errors of the request.

    An error that middleware raises with a text, as for a result that is too large or a call beyond a rate, is a `ToolError`:
    the model reads it, as it does when a tool is called.
    `registry` has the tool that asks. It is refused where the client's own would be: for capabilities that the method requires, and for scopes.
    """
    registry = served(registry, ctx)
    if not ctx.request.revision.handshake and method in registry.requires:
        missing = uncovered(ctx.capabilities, registry.requires[method].to_wire())
        if missing:
            raise missing_capability(missing)
    await check_scopes(ctx, method, params)
    handler, name, given, kind = _SERVED[method]
    serve = wrap(registry.middleware, method, getattr(handler(registry), name))
    try:
        with inner_request():
            found = await serve(ctx, given.from_wire({**params, "_meta": {**ctx.stamp}}))
        return result_of(found, kind)
    except (InvalidRequest, InternalError) as error:
        raise ToolError(str(error)) from error
    finally:
        INDIRECT[ctx] = True


async def every(registry: Registry, ctx: Context, method: str, member: str) -> list[dict[str, Json]]:
    """Return all that the client of a request sees of a list, as JSON."""
    found, params = list[dict[str, Json]](), dict[str, Json]()
    while True:
        page = (await ask(registry, ctx, method, params)).to_wire()
        found += page[member]
        if page.get("nextCursor") is None:
            return found
        if page["nextCursor"] == params.get("cursor"):
            raise RuntimeError(f"middleware returned pages for '{method}' that do not end")
        params = {"cursor": page["nextCursor"]}


def inner_context(registry: Registry, ctx: Context) -> Context:
    """Return a context for one of several requests that a tool makes: it has no answers, no state and no task of the others."""
    made = replace(ctx, _answers=InputResponses())
    SERVED[made] = served(registry, ctx)
    INDIRECT[ctx] = True
    return made


def reflecting(app: App) -> Registry:
    """Return the functions of an app that gets tools which list or call the others."""
    app.registry.set_reflecting()
    return app.registry


def served(registry: Registry, ctx: Context) -> Registry:
    """Return the functions that are served to the client of a request: of the app, or of the one that mounts it."""
    found = SERVED[ctx]
    return registry if found is None else found


def own(registry: Registry, ctx: Context, kind: str) -> set[str]:
    """Return the names or URIs under which the functions of an app are served."""
    keys: set[str] = set(registry.of(kind))
    if kind == "tools":
        keys |= {key.partition("@")[0] for key in keys}
    return registry.names_in(served(registry, ctx), kind, keys)
