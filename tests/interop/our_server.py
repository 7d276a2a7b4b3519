"""A server of ours that uses all that a server can: `our_server.py [--http PORT [--plain]]`.

Over HTTP its first line says where it listens; port 0 is any that is free; plainly it has
neither sessions nor streams.
It keeps a journal of what it observes, which the tool `journal` hands out, as the servers on the official SDK do.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import mcprev
from mcprev_types.latest import models as m

Result: TypeAlias = m.CallToolResult | m.InputRequiredResult
Tool: TypeAlias = Callable[[mcprev.Context, dict[str, Any]], Awaitable[Result]]
PAGE: Final = 4
SUM: Final = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}
FOUND: Final = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
RESOURCES: Final = {"memo:///one": "text", "memo:///bytes": "AP8="}
LEVELS: Final[tuple[m.LoggingLevel, ...]] = ("debug", "info", "error")
_journal: Final[list[dict[str, Any]]] = []


def note(what: str, **details: object) -> None:
    """Keep what was observed, for the other side to fetch."""
    _journal.append({"what": what, **details})


def text(value: object) -> m.CallToolResult:
    """A result of a text."""
    return m.CallToolResult(content=[m.TextContent(text=str(value))])


async def echo(ctx: mcprev.Context, arguments: dict[str, Any]) -> Result:
    return text(arguments["text"])


async def add(ctx: mcprev.Context, arguments: dict[str, Any]) -> Result:
    total = arguments["a"] + arguments["b"]
    return m.CallToolResult(content=[m.TextContent(text=str(total))], structured_content={"sum": total})


async def fail(ctx: mcprev.Context, arguments: dict[str, Any]) -> Result:
    return m.CallToolResult(content=[m.TextContent(text="it failed")], is_error=True)


async def refuse(ctx: mcprev.Context, arguments: dict[str, Any]) -> Result:
    raise mcprev.InvalidParams("not like that", data={"why": "it is a test"})


async def who(ctx: mcprev.Context, arguments: dict[str, Any]) -> Result:
    info = ctx.client_info
    capabilities = ctx.client_capabilities.to_wire()
    note("who", revision=ctx.revision, info=info and info.to_wire(), capabilities=capabilities)
    return text("you")


async def progress(ctx: mcprev.Context, arguments: dict[str, Any]) -> Result:
    await ctx.progress(1, 2, "half")
    await ctx.progress(2)
    return text("done")


async def log(ctx: mcprev.Context, arguments: dict[str, Any]) -> Result:
    for level in LEVELS:
        await ctx.log(level, {"at": level}, "here")
    return text("done")


async def sample(ctx: mcprev.Context, arguments: dict[str, Any]) -> Result:
    asked = m.CreateMessageRequestParams(
        messages=[m.SamplingMessage(role="user", content=m.TextContent(text="say it"))],
        max_tokens=9,
        system_prompt="be brief",
        temperature=0.5,
        stop_sequences=["stop"],
        model_preferences=m.ModelPreferences(hints=[m.ModelHint(name="small")], speed_priority=1),
    )
    try:
        found = await ctx.ask("it", m.CreateMessageRequest(params=asked))
    except mcprev.RpcError as error:
        note("refused", code=error.code, message=error.message)
    else:
        note("sampled", result=found.to_wire())
    return text("done")


async def sample_tools(ctx: mcprev.Context, arguments: dict[str, Any]) -> Result:
    asked = m.CreateMessageRequestParams(
        messages=[m.SamplingMessage(role="user", content=m.TextContent(text="add"))],
        max_tokens=9,
        tools=[m.Tool(name="add", input_schema=m.ToolInputSchema.from_wire(SUM))],
        tool_choice=m.ToolChoice(mode="required"),
    )
    note("sampled", result=(await ctx.ask("it", m.CreateMessageRequest(params=asked))).to_wire())
    return text("done")


async def elicit(ctx: mcprev.Context, arguments: dict[str, Any]) -> Result:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    form = m.ElicitRequestFormParams(
        message=arguments["message"],
        requested_schema=m.ElicitRequestFormParamsRequestedSchema.from_wire(schema),
    )
    note("elicited", result=(await ctx.ask("form", m.ElicitRequest(params=form))).to_wire())
    return text("done")


async def elicit_url(ctx: mcprev.Context, arguments: dict[str, Any]) -> Result:
    page = m.ElicitRequestURLParams(message="go there", url="https://example.com/sign-in")
    note("elicited", result=(await ctx.ask("url", m.ElicitRequest(params=page))).to_wire())
    return text("done")


async def roots(ctx: mcprev.Context, arguments: dict[str, Any]) -> Result:
    note("roots", result=(await ctx.ask("roots", m.ListRootsRequest())).to_wire())
    return text("done")


async def wait(ctx: mcprev.Context, arguments: dict[str, Any]) -> Result:
    note("waiting")
    # The releases that cannot cancel by themselves learn from here which request it is.
    await ctx.log("alert", {"waiting": ctx.request_id})
    try:
        await asyncio.Event().wait()
    finally:
        note("stopped")
    raise AssertionError("nobody ends the waiting")


async def change(ctx: mcprev.Context, arguments: dict[str, Any]) -> Result:
    for what in ("tools", "prompts", "resources"):
        ctx.changed(what)
    for uri in RESOURCES:
        ctx.changed("resource", uri)
    return text("done")


async def journal(ctx: mcprev.Context, arguments: dict[str, Any]) -> Result:
    taken = json.dumps(_journal)
    _journal.clear()
    return text(taken)


TOOLS: Final[dict[str, Tool]] = {
    "echo": echo, "add": add, "fail": fail, "refuse": refuse, "who": who, "progress": progress, "log": log,
    "sample": sample, "sample_tools": sample_tools, "elicit": elicit, "elicit_url": elicit_url, "roots": roots,
    "wait": wait, "change": change, "journal": journal,
}  # fmt: skip


def page(items: list[Any], cursor: str | None, size: int = 1) -> tuple[list[Any], str | None]:
    """A page of a list, and the cursor of the next."""
    start = int(cursor or 0)
    after = start + size
    return items[start:after], str(after) if after < len(items) else None


async def signature(ctx: mcprev.Context) -> str:
    """The name of the client's first root."""
    return str((await ctx.ask("roots", m.ListRootsRequest())).roots[0].name)


class Handler(mcprev.ServerHandler):
    """Everything that can be overridden."""

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        tools = [m.Tool(name=name, input_schema=m.ToolInputSchema()) for name in TOOLS]
        tools[1] = m.Tool(
            name="add",
            title="Addition",
            description="Adds.",
            input_schema=m.ToolInputSchema.from_wire(SUM),
            output_schema=m.ToolOutputSchema.from_wire(FOUND),
        )
        found, after = page(tools, params.cursor, PAGE)
        return m.ListToolsResult(tools=found, next_cursor=after)

    async def call_tool(self, ctx: mcprev.Context, params: m.CallToolRequestParams) -> Result:
        if params.name not in TOOLS:
            raise mcprev.InvalidParams(f"there is no tool '{params.name}'")
        if params.name != "journal":
            note("call", tool=params.name, arguments=params.arguments, meta=dict(ctx.meta))
        return await TOOLS[params.name](ctx, params.arguments or {})

    async def list_resources(
        self, ctx: mcprev.Context, params: m.PaginatedRequestParams
    ) -> m.ListResourcesResult:
        resources = [m.Resource(uri=uri, name=uri[8:], title=f"The {uri[8:]}") for uri in RESOURCES]
        found, after = page(resources, params.cursor)
        return m.ListResourcesResult(resources=found, next_cursor=after)

    async def list_resource_templates(
        self, ctx: mcprev.Context, params: m.PaginatedRequestParams
    ) -> m.ListResourceTemplatesResult:
        memo = m.ResourceTemplate(uri_template="memo:///{name}", name="memo", mime_type="text/plain")
        return m.ListResourceTemplatesResult(resource_templates=[memo])

    async def read_resource(
        self, ctx: mcprev.Context, params: m.ReadResourceRequestParams
    ) -> m.ReadResourceResult:
        uri = params.uri
        note("read", uri=uri)
        if uri == "memo:///signed":
            part: Any = m.TextResourceContents(uri=uri, mime_type="text/x-memo", text=await signature(ctx))
        elif uri == "memo:///one":
            part = m.TextResourceContents(uri=uri, mime_type="text/x-memo", text="one")
        elif uri == "memo:///bytes":
            part = m.BlobResourceContents(uri=uri, mime_type="text/x-memo", blob=RESOURCES[uri])
        else:
            raise mcprev.ResourceNotFound("no such memo", data={"uri": uri})
        return m.ReadResourceResult(contents=[part], ttl_ms=5)

    async def list_prompts(
        self, ctx: mcprev.Context, params: m.PaginatedRequestParams
    ) -> m.ListPromptsResult:
        asked = m.PromptArgument(name="name", description="Whom to greet.", required=True)
        prompts = [m.Prompt(name="greet", description="Greets.", arguments=[asked]), m.Prompt(name="bare")]
        found, after = page(prompts, params.cursor)
        return m.ListPromptsResult(prompts=found, next_cursor=after)

    async def get_prompt(self, ctx: mcprev.Context, params: m.GetPromptRequestParams) -> m.GetPromptResult:
        note("prompt", name=params.name, arguments=params.arguments)
        name = await signature(ctx) if params.name == "bare" else (params.arguments or {}).get("name")
        content = m.TextContent(text=f"hello {name}")
        message = m.PromptMessage(role="user", content=content)
        return m.GetPromptResult(description="A greeting.", messages=[message])

    async def complete(self, ctx: mcprev.Context, params: m.CompleteRequestParams) -> m.CompleteResult:
        context = params.context and params.context.to_wire()
        note("complete", ref=params.ref.to_wire(), argument=params.argument.to_wire(), context=context)
        values = [params.argument.value + "x"]
        return m.CompleteResult(completion=m.CompleteResultCompletion(values=values, total=7, has_more=True))


def main() -> None:
    """Serve over what the command line says."""
    server = mcprev.Server(Handler(), "everything", "1.0", instructions="Try it all.", title="Everything")
    if sys.argv[1:2] == ["--http"]:
        plain = sys.argv[3:] == ["--plain"]
        asyncio.run(
            server.serve_http(
                port=int(sys.argv[2]),
                sse=not plain,
                ready=say,
                json_response=True if plain else None,
                sessions=not plain,
            )
        )
    else:
        server.run_stdio()


def say(port: int) -> None:
    """Say where the server listens."""
    print(f"http://127.0.0.1:{port}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
