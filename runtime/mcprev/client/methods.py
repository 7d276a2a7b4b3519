"""The methods of `Client` for tools, resources, prompts and completion, in the types of the latest revision.

PAGE-1, PAGE-3, COMP-2, CONV-29, TOOL-6.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from typing_extensions import Unpack

from mcprev.client.options import Options
from mcprev.errors import Json

if TYPE_CHECKING:
    from mcprev.client.resource_result import ResourceResult
    from mcprev.client.tool_result import ToolResult
    from mcprev_types.latest import models

T = TypeVar("T")


class Methods:
    """The methods for tools, resources, prompts and completion; each takes the options of `call_tool`."""

    def __init__(self, pages: Callable[[str, str, Options], AsyncIterator[Any]]) -> None:
        """`pages` iterates over the entries of a list: a method, the member of each page's model that has them, and options."""
        self._pages = pages

    async def call(self, method: str, params: Mapping[str, Json], **options: Unpack[Options]) -> object:
        """Call a method of the latest revision."""
        raise NotImplementedError

    @overload
    async def call_tool(
        self, name: str, arguments: Mapping[str, Json] | None = None, **options: Unpack[Options]
    ) -> ToolResult: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        as_: type[T],
        **options: Unpack[Options],
    ) -> T: ...
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        as_: type[T] | None = None,
        **options: Unpack[Options],
    ) -> ToolResult | T:
        """Call a tool and return its result, whose `text` and `data` are the content as text and as JSON.

        A tool that failed returns a result with `is_error`. `arguments` maps names to JSON values; None: no arguments.
        With `as_`, a type that pydantic validates, such as a model or `list[int]`, the data of the result is returned
        as that type, and a tool that failed raises `ToolError`; see `ToolResult.read`.

        Options of this and every other call:

        - `timeout` is the maximum time without a response or progress, and `total_timeout` that of the whole call, in
          seconds. None: no maximum. Default: those of `connect`, 60 and 600.
        - `progress` is a function `f(progress, total, message)`, async or not, that is called for each progress
          notification of the call.
        - `log_level` is the lowest level of log messages that the server sends for this call.
        - `meta` are members to add to `_meta`, as JSON.
        - `fresh=True` sends the request even if the cache has a result.
        - `retry=True` sends the request once more if the connection breaks before the response; the server may then
          execute it twice.

        Every call raises `RpcError` if the server responds with an error, `LocalProtocolError` if the server does not
        offer the method, `RequestTimeout`, `ConnectionLost` and other errors of `TransportError`, `AuthError` if
        authorization fails, `InputDeclined` if the client's handler declines input that the server asks for, and
        `RemoteProtocolError` for an invalid response. See
        https://modelcontextprotocol.io/specification/latest/server/tools.
        """
        params: dict[str, Json] = {"name": name}
        if arguments is not None:
            params["arguments"] = by_name(arguments)
        found: Any = await self.call("tools/call", params, **options)
        result: ToolResult = found
        return result if as_ is None else result.read(as_, f"tool '{name:.100}': ")

    async def list_tools(
        self, cursor: str | None = None, **options: Unpack[Options]
    ) -> models.ListToolsResult:
        """Return one page of the server's tools, the first without a `cursor`; `tools` iterates over all of them."""
        return cast("models.ListToolsResult", await self.call("tools/list", page_params(cursor), **options))

    def tools(self, **options: Unpack[Options]) -> AsyncIterator[models.Tool]:
        """Iterate over all tools of the server, page after page.

        `total_timeout` holds for all pages together. Raises `RemoteProtocolError` after 1,000 pages, 20,000 entries, 8 MiB
        or 300,000 JSON values, or if a cursor is repeated; so do the other lists. `list_tools` has no such bounds.
        """
        return self._pages("tools/list", "tools", options)

    async def list_resources(
        self, cursor: str | None = None, **options: Unpack[Options]
    ) -> models.ListResourcesResult:
        """Return one page of the server's resources, the first without a `cursor`; `resources` iterates over all."""
        return cast(
            "models.ListResourcesResult", await self.call("resources/list", page_params(cursor), **options)
        )

    def resources(self, **options: Unpack[Options]) -> AsyncIterator[models.Resource]:
        """Iterate over all resources of the server, page after page."""
        return self._pages("resources/list", "resources", options)

    async def list_resource_templates(
        self, cursor: str | None = None, **options: Unpack[Options]
    ) -> models.ListResourceTemplatesResult:
        """Return one page of the resource templates, the first without a `cursor`; `resource_templates` iterates over all."""
        found = await self.call("resources/templates/list", page_params(cursor), **options)
        return cast("models.ListResourceTemplatesResult", found)

    def resource_templates(self, **options: Unpack[Options]) -> AsyncIterator[models.ResourceTemplate]:
        """Iterate over all resource templates of the server, page after page."""
        return self._pages("resources/templates/list", "resource_templates", options)

    async def read_resource(self, uri: str, **options: Unpack[Options]) -> ResourceResult:
        """Return the contents of the resource at `uri`. Raises `ResourceNotFound` if there is none, at every revision."""
        return cast("ResourceResult", await self.call("resources/read", {"uri": uri}, **options))

    async def list_prompts(
        self, cursor: str | None = None, **options: Unpack[Options]
    ) -> models.ListPromptsResult:
        """Return one page of the server's prompts, the first without a `cursor`; `prompts` iterates over all of them."""
        return cast(
            "models.ListPromptsResult", await self.call("prompts/list", page_params(cursor), **options)
        )

    def prompts(self, **options: Unpack[Options]) -> AsyncIterator[models.Prompt]:
        """Iterate over all prompts of the server, page after page."""
        return self._pages("prompts/list", "prompts", options)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, **options: Unpack[Options]
    ) -> models.GetPromptResult:
        """Return the messages of a prompt. `arguments` maps names to strings; None: no arguments."""
        params: dict[str, Json] = {"name": name}
        if arguments is not None:
            params["arguments"] = by_name(arguments)
        return cast("models.GetPromptResult", await self.call("prompts/get", params, **options))

    async def complete(
        self,
        ref: models.PromptReference | models.ResourceTemplateReference | str,
        name: str,
        value: str,
        context: Mapping[str, str] | None = None,
        **options: Unpack[Options],
    ) -> models.CompleteResult:
        """Return suggestions for the argument `name` of a prompt, or for that variable of a URI template.

        `ref` is the name of a prompt, the text of a URI template, or a reference model. `value` is the text typed so
        far, and `context` maps the names of the other arguments to their values so far.
        """
        params: dict[str, Json] = {"ref": _reference(ref), "argument": {"name": name, "value": value}}
        if context is not None:
            params["context"] = {"arguments": dict(context)}
        return cast("models.CompleteResult", await self.call("completion/complete", params, **options))


def by_name(arguments: Mapping[str, Json]) -> dict[str, Json]:
    """Return the arguments of a tool or prompt. Raises `TypeError` if they are no mapping."""
    try:
        return {**arguments}
    except TypeError:
        raise TypeError(
            f"arguments are passed by name, as in {{'text': 'hi'}}, and not as a {type(arguments).__name__}"
        ) from None


def _reference(ref: models.PromptReference | models.ResourceTemplateReference | str) -> dict[str, Json]:
    if not isinstance(ref, str):
        return ref.to_wire()
    return (
        {"type": "ref/resource", "uri": ref}
        if "{" in ref or "://" in ref
        else {"type": "ref/prompt", "name": ref}
    )


def page_params(cursor: str | None) -> dict[str, Json]:
    """Return the params of a request for the page of a cursor."""
    return {} if cursor is None else {"cursor": cursor}
