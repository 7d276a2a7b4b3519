"""Resources and prompts as tools, for clients that know only tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from mcprev.app.app import App
from mcprev.app.handlers import canonical_uri
from mcprev.app.registry import Registry
from mcprev.errors import InvalidParams, Json, ResourceNotFound, ToolError
from mcprev.protocol.uris import check_uri
from mcprev.server.context import Context
from mcprev.transforms.requests import ask, every, own, reflecting, served
from mcprev_types.latest import models

_READS: Final = models.ToolAnnotations(read_only_hint=True)


def resources_as_tools(app: App) -> App:
    """Add the tools `list_resources` and `read_resource`, which list and read what the client of a request sees; return the app.

    Texts are text content, images and audio are such, and other data is an embedded resource. The middleware of the app runs
    for the tool, and for the request that it stands for. If the app is mounted, the tools show its resources under the URIs
    that they have there. Raises `ValueError` for a name that exists already.
    """
    registry = reflecting(app)

    async def list_resources(ctx: Context) -> dict[str, Any]:
        """List the resources, and the templates of the URIs of further resources, for `read_resource`."""
        resources = await every(registry, ctx, "resources/list", "resources")
        templates = await every(registry, ctx, "resources/templates/list", "resourceTemplates")
        there, here = own(registry, ctx, "resources"), own(registry, ctx, "templates")
        return {
            "resources": [each for each in resources if each["uri"] in there],
            "resourceTemplates": [each for each in templates if each["uriTemplate"] in here],
        }

    async def read_resource(
        uri: Annotated[str, Field(description="The URI of a resource, or one of a template.")], ctx: Context
    ) -> models.CallToolResult | models.InputRequiredResult:
        """Read a resource by its URI; `list_resources` lists them."""
        try:
            check_uri(uri)
            found = await ask(registry, ctx, "resources/read", {"uri": _of_the_app(registry, ctx, uri)})
        except (ResourceNotFound, InvalidParams) as error:
            raise ToolError(f"{error}: {uri:.200}") from None
        if isinstance(found, models.InputRequiredResult):
            return found
        return models.CallToolResult(content=[_block(part) for part in found.contents])

    app.tool(list_resources, annotations=_READS)
    app.tool(read_resource, annotations=_READS)
    return app


def prompts_as_tools(app: App) -> App:
    """Add the tools `list_prompts` and `get_prompt`, which list and fill in the prompts that its client sees; return the app.

    The middleware of the app runs for the tool, and for the request that it stands for. If the app is mounted, the tools show
    its prompts under the names that they have there. Raises `ValueError` for a name that exists already.
    """
    registry = reflecting(app)

    async def list_prompts(ctx: Context) -> list[dict[str, Any]]:
        """List the prompts and their arguments, for `get_prompt`."""
        there = own(registry, ctx, "prompts")
        return [
            each for each in await every(registry, ctx, "prompts/list", "prompts") if each["name"] in there
        ]

    async def get_prompt(
        name: Annotated[str, Field(description="The name of a prompt.")],
        ctx: Context,
        arguments: Annotated[dict[str, str] | None, Field(description="Its arguments.")] = None,
    ) -> dict[str, Any] | models.InputRequiredResult:
        """Get the messages of a prompt with its arguments filled in; `list_prompts` lists them."""
        params: Mapping[str, Json] = {"name": name, "arguments": arguments or {}}
        if name not in own(registry, ctx, "prompts"):
            raise ToolError(f"Unknown prompt: {name:.100}")
        try:
            found = await ask(registry, ctx, "prompts/get", params)
        except InvalidParams as error:
            raise ToolError(str(error)) from None
        if isinstance(found, models.InputRequiredResult):
            return found
        told: dict[str, Any] = found.to_wire()
        return {name: told[name] for name in ("description", "messages") if name in told}

    app.tool(list_prompts, annotations=_READS)
    app.tool(get_prompt, annotations=_READS)
    return app


def _of_the_app(registry: Registry, ctx: Context, uri: str) -> str:
    """Return a URI that a function of the app reads. Raises `ResourceNotFound` for one of the app that mounts it."""
    root = served(registry, ctx)
    uri, templates = canonical_uri(root, uri), root.templates
    here = (templates[key] for key in own(registry, ctx, "templates") if key in templates)
    if uri in own(registry, ctx, "resources") or any(each.template.match(uri) is not None for each in here):
        return uri
    raise ResourceNotFound("Resource not found")


def _block(part: Any) -> models.ContentBlock:  # noqa: ANN401 - of several models
    """Return the contents of a resource as content of a tool."""
    if isinstance(part, models.TextResourceContents):
        return models.TextContent(text=part.text)
    kind = str(part.mime_type or "")
    if kind.startswith("image/"):
        return models.ImageContent(data=part.blob, mime_type=kind)
    if kind.startswith("audio/"):
        return models.AudioContent(data=part.blob, mime_type=kind)
    return models.EmbeddedResource(resource=part)
