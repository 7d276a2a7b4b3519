"""A server on release 1 of the official Python SDK that uses all of its low-level API: `sdk1_server.py [http|sse]`.

It keeps a journal of what it observes, which the tool `journal` hands out.
"""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false

import sys
from contextlib import AsyncExitStack

import anyio
import mcp.types as t
from mcp import McpError
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.stdio import stdio_server
from mcp.shared.message import ServerMessageMetadata
from pydantic import AnyUrl
from sdk_common import FOUND, LEVELS, PAGE, RESOURCES, SCHEMA, SUM_TOOL, URL, bound, note, page, take

STRUCTURED = "structuredContent" in t.CallToolResult.model_fields
IN_CONTEXT = "context" in t.CompleteRequestParams.model_fields
MESSAGES = "message" in t.ProgressNotificationParams.model_fields
PAGES = hasattr(t, "PaginatedRequestParams")
"""The oldest release drops the cursor of a request, so that its lists have one page."""


class Declaring(Server):
    """Declares what the releases leave to their users or get wrong: subscriptions and changed lists."""

    def get_capabilities(self, *given, **named):
        found = super().get_capabilities(*given, **named)
        found.resources.subscribe = found.resources.listChanged = True
        found.tools.listChanged = found.prompts.listChanged = True
        found.completions = {}
        return found


server = Declaring("everything", "1.0", instructions="Try it all.")
subscribed, wanted = set(), ["debug"]


def text(value):
    return [t.TextContent(type="text", text=str(value))]


def plain(model):
    return None if model is None else model.model_dump(mode="json", by_alias=True, exclude_none=True)


# -- tools -------------------------------------------------------------------------------------------------------


async def echo(ctx, arguments):
    return text(arguments["text"])


async def add(ctx, arguments):
    total = arguments["a"] + arguments["b"]
    return (text(total), {"sum": total}) if STRUCTURED else text(total)


async def fail(ctx, arguments):
    raise RuntimeError("it failed")


async def who(ctx, arguments):
    said = ctx.session.client_params
    note(
        "who",
        revision=said.protocolVersion,
        info=plain(said.clientInfo),
        capabilities=plain(said.capabilities),
    )
    return text("you")


async def progress(ctx, arguments):
    told = {"progress_token": ctx.meta.progressToken, "related_request_id": ctx.request_id}
    extra = {"message": "half"} if MESSAGES else {}
    await ctx.session.send_progress_notification(progress=1, total=2, **told, **extra)
    await ctx.session.send_progress_notification(progress=2, **told)
    return text("done")


async def log(ctx, arguments):
    for level in ("debug", "info", "error"):
        if LEVELS.index(level) >= LEVELS.index(wanted[0]):
            await ctx.session.send_log_message(level, {"at": level}, "here", ctx.request_id)
    return text("done")


async def sample(ctx, arguments):
    try:
        found = await sampled(ctx)
    except McpError as error:
        note("refused", code=error.error.code, message=error.error.message)
    else:
        note("sampled", result=plain(found))
    return text("done")


async def sampled(ctx):
    return await ctx.session.create_message(
        [t.SamplingMessage(role="user", content=text("say it")[0])],
        max_tokens=9,
        system_prompt="be brief",
        temperature=0.5,
        stop_sequences=["stop"],
        model_preferences=t.ModelPreferences(hints=[t.ModelHint(name="small")], speedPriority=1),
        related_request_id=ctx.request_id,
    )


async def sample_slowly(ctx, arguments):
    async def told(progress, total, message):
        note("told", progress=progress, total=total, message=message)

    params = t.CreateMessageRequestParams(
        messages=[t.SamplingMessage(role="user", content=text("say it")[0])], maxTokens=9
    )
    request = t.CreateMessageRequest(method="sampling/createMessage", params=params)
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    await ctx.session.send_request(
        t.ServerRequest(request), t.CreateMessageResult, metadata=related, progress_callback=told
    )
    return text("done")


async def sample_tools(ctx, arguments):
    found = await ctx.session.create_message(
        [t.SamplingMessage(role="user", content=text("add")[0])],
        max_tokens=9,
        tools=[t.Tool(name="add", inputSchema=SUM_TOOL)],
        tool_choice=t.ToolChoice(mode="required"),
        related_request_id=ctx.request_id,
    )
    note("sampled", result=plain(found))
    return text("done")


async def elicit(ctx, arguments):
    found = await ctx.session.elicit(arguments["message"], SCHEMA, ctx.request_id)
    note("elicited", result=plain(found))
    return text("done")


async def elicit_url(ctx, arguments):
    found = await ctx.session.elicit_url("go there", URL, "e1", ctx.request_id)
    note("elicited", result=plain(found))
    await ctx.session.send_elicit_complete("e1", ctx.request_id)
    return text("done")


async def roots(ctx, arguments):
    note("roots", result=plain(await ctx.session.list_roots()))
    return text("done")


async def ping(ctx, arguments):
    note("ponged", result=plain(await ctx.session.send_ping()))
    return text("done")


async def wait(ctx, arguments):
    note("waiting")
    try:
        await anyio.sleep_forever()
    finally:
        note("stopped")


async def change(ctx, arguments):
    await ctx.session.send_tool_list_changed()
    await ctx.session.send_prompt_list_changed()
    await ctx.session.send_resource_list_changed()
    for uri in sorted(subscribed):
        await ctx.session.send_resource_updated(AnyUrl(uri))
    return text("done")


TOOLS = {
    tool.__name__: tool
    for tool in (
        echo, add, fail, who, progress, log, sample, sample_slowly, sample_tools, elicit, elicit_url, roots, ping, wait, change,
    )
}  # fmt: skip


async def list_tools(request):
    tools = [t.Tool(name=name, inputSchema={"type": "object"}) for name in TOOLS]
    tools[1] = t.Tool(
        name="add",
        description="Adds.",
        inputSchema=SUM_TOOL,
        **({"outputSchema": FOUND} if STRUCTURED else {}),
    )
    found, after = listed(tools, request, PAGE)
    return t.ServerResult(t.ListToolsResult(tools=found, nextCursor=after))


@server.call_tool()
async def call_tool(name, arguments):
    if name == "journal":
        return text(take())
    ctx = server.request_context
    note("call", tool=name, arguments=arguments, meta=plain(ctx.meta))
    return await TOOLS[name](ctx, arguments)


# -- resources, prompts, and what else there is ------------------------------------------------------------------


def listed(items, request, size=1):
    if not PAGES:
        return items, None
    return page(
        items, request.params.cursor if request is not None and request.params is not None else None, size
    )


async def list_resources(request):
    found, after = listed([t.Resource(uri=uri, name=uri[8:]) for uri in RESOURCES], request)
    return t.ServerResult(t.ListResourcesResult(resources=found, nextCursor=after))


async def signature():
    """The name of the client's first root."""
    return (await server.request_context.session.list_roots()).roots[0].name


@server.list_resource_templates()
async def list_resource_templates():
    return [t.ResourceTemplate(uriTemplate="memo:///{name}", name="memo", mimeType="text/plain")]


@server.read_resource()
async def read_resource(uri):
    note("read", uri=str(uri))
    if str(uri) == "memo:///signed":
        return [ReadResourceContents(await signature(), "text/x-memo")]
    if str(uri) not in RESOURCES:
        raise McpError(t.ErrorData(code=-32002, message="no such memo", data={"uri": str(uri)}))
    return [ReadResourceContents(RESOURCES[str(uri)], "text/x-memo")]


@server.subscribe_resource()
async def subscribe(uri):
    note("subscribed", uri=str(uri))
    subscribed.add(str(uri))


@server.unsubscribe_resource()
async def unsubscribe(uri):
    note("unsubscribed", uri=str(uri))
    subscribed.discard(str(uri))


async def list_prompts(request):
    asked = t.PromptArgument(name="name", description="Whom to greet.", required=True)
    prompts = [t.Prompt(name="greet", description="Greets.", arguments=[asked]), t.Prompt(name="bare")]
    found, after = listed(prompts, request)
    return t.ServerResult(t.ListPromptsResult(prompts=found, nextCursor=after))


@server.get_prompt()
async def get_prompt(name, arguments):
    note("prompt", name=name, arguments=arguments)
    name = await signature() if name == "bare" else (arguments or {}).get("name")
    content = text(f"hello {name}")[0]
    return t.GetPromptResult(
        description="A greeting.", messages=[t.PromptMessage(role="user", content=content)]
    )


@server.completion()
async def complete(ref, argument, *context):
    note("complete", ref=plain(ref), argument=plain(argument), context=plain(context[0]) if context else None)
    return t.Completion(values=[argument.value + "x"], total=7, hasMore=True)


@server.set_logging_level()
async def set_level(level):
    note("level", level=level)
    wanted[0] = level


async def roots_changed(notification):
    note("roots changed")


server.request_handlers[t.ListToolsRequest] = list_tools
server.request_handlers[t.ListResourcesRequest] = list_resources
server.request_handlers[t.ListPromptsRequest] = list_prompts
server.notification_handlers[t.RootsListChangedNotification] = roots_changed


# -- transports --------------------------------------------------------------------------------------------------


async def over_stdio():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def over_http():
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    managers = {
        "/mcp": StreamableHTTPSessionManager(app=server),
        "/json": StreamableHTTPSessionManager(app=server, json_response=True),
        "/stateless": StreamableHTTPSessionManager(app=server, stateless=True),
    }

    async def app(scope, receive, send):
        await managers[scope["path"]].handle_request(scope, receive, send)

    async with AsyncExitStack() as stack:
        for manager in managers.values():
            await stack.enter_async_context(manager.run())
        await listen(app, "/mcp")


async def over_sse():
    from mcp.server.sse import SseServerTransport

    transport = SseServerTransport("/messages/")

    async def app(scope, receive, send):
        if scope["method"] == "POST":
            await transport.handle_post_message(scope, receive, send)
            return
        async with transport.connect_sse(scope, receive, send) as (read, write):
            await server.run(read, write, server.create_initialization_options())

    await listen(app, "/sse")


async def listen(app, path):
    import uvicorn

    config = uvicorn.Config(
        app, interface="asgi3", log_level="warning", lifespan="off", timeout_graceful_shutdown=1
    )
    await uvicorn.Server(config).serve(sockets=[bound(path)])


if __name__ == "__main__":
    anyio.run({"stdio": over_stdio, "http": over_http, "sse": over_sse}[[*sys.argv, "stdio"][1]])
