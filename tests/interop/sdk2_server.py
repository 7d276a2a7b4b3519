"""A server on release 2 of the official Python SDK that uses all of its low-level API: `sdk2_server.py [http]`.

It keeps a journal of what it observes, which the tool `journal` hands out. Input is asked for in results where the
client speaks a revision that has no requests of servers, and by requests where it has.
"""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false

import base64
import sys
import warnings
from contextlib import AsyncExitStack

import anyio
import mcp.types as t
from mcp import MCPError
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.message import ServerMessageMetadata
from sdk_common import FOUND, LEVELS, PAGE, RESOURCES, SCHEMA, SUM_TOOL, URL, bound, note, page, take

# What the newest revision deprecates is what the older one is tried with.
warnings.simplefilter("ignore")
NEWEST = "2026-07-28"
subscribed, wanted = set(), ["debug"]
bus = InMemorySubscriptionBus()
listening = ListenHandler(bus)


def text(value):
    return t.TextContent(text=str(value))


def result(value, **more):
    return t.CallToolResult(content=[text(value)], **more)


def plain(model):
    return None if model is None else model.model_dump(mode="json", by_alias=True, exclude_none=True)


# -- tools -------------------------------------------------------------------------------------------------------


async def echo(ctx, params):
    return result(params.arguments["text"])


async def add(ctx, params):
    total = params.arguments["a"] + params.arguments["b"]
    return result(total, structured_content={"sum": total})


async def fail(ctx, params):
    return result("it failed", is_error=True)


async def who(ctx, params):
    said = ctx.session.client_params
    note(
        "who",
        revision=ctx.protocol_version,
        info=plain(said.client_info),
        capabilities=plain(ctx.session.client_capabilities),
    )
    return result("you")


async def progress(ctx, params):
    await ctx.session.report_progress(1, 2, "half")
    await ctx.session.report_progress(2)
    return result("done")


async def log(ctx, params):
    for level in ("debug", "info", "error"):
        if ctx.protocol_version == NEWEST or LEVELS.index(level) >= LEVELS.index(wanted[0]):
            await ctx.session.send_log_message(level, {"at": level}, "here", ctx.request_id)
    return result("done")


def sampling():
    return {
        "messages": [t.SamplingMessage(role="user", content=text("say it"))],
        "max_tokens": 9,
        "system_prompt": "be brief",
        "temperature": 0.5,
        "stop_sequences": ["stop"],
        "model_preferences": t.ModelPreferences(hints=[t.ModelHint(name="small")], speed_priority=1),
    }


def sampling_tools():
    return {
        "messages": [t.SamplingMessage(role="user", content=text("add"))],
        "max_tokens": 9,
        "tools": [t.Tool(name="add", input_schema=SUM_TOOL)],
        "tool_choice": t.ToolChoice(mode="required"),
    }


async def asked(ctx, params, what, request, directly):
    """The answer to a question; where it is asked in a result, first that result, and the answer in the next try."""
    if ctx.protocol_version != NEWEST:
        return None, await directly()
    answers = params.input_responses or {}
    if what not in answers:
        return t.InputRequiredResult(input_requests={what: request}, request_state="kept"), None
    note("state", state=params.request_state)
    return None, answers[what]


async def ask(ctx, params, what, request, directly):
    try:
        question, answer = await asked(ctx, params, what, request, directly)
    except MCPError as error:
        note("refused", code=error.code, message=error.message)
        return result("done")
    if question is not None:
        return question
    note(what, result=plain(answer))
    return result("done")


async def sample(ctx, params, said=sampling):
    request = t.CreateMessageRequest(params=t.CreateMessageRequestParams(**said()))

    async def directly():
        return await ctx.session.create_message(**said(), related_request_id=ctx.request_id)

    return await ask(ctx, params, "sampled", request, directly)


async def sample_slowly(ctx, params):
    async def told(progress, total, message):
        note("told", progress=progress, total=total, message=message)

    request = t.CreateMessageRequest(params=t.CreateMessageRequestParams(**sampling()))
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    await ctx.session.send_request(request, t.CreateMessageResult, metadata=related, progress_callback=told)
    return result("done")


async def sample_tools(ctx, params):
    return await sample(ctx, params, sampling_tools)


async def elicit(ctx, params):
    message = params.arguments["message"]
    request = t.ElicitRequest(params=t.ElicitRequestFormParams(message=message, requested_schema=SCHEMA))

    async def directly():
        return await ctx.session.elicit_form(message, SCHEMA, ctx.request_id)

    return await ask(ctx, params, "elicited", request, directly)


async def elicit_url(ctx, params):
    request = t.ElicitRequest(params=t.ElicitRequestURLParams(message="go there", url=URL))

    async def directly():
        found = await ctx.session.elicit_url("go there", URL, "e1", ctx.request_id)
        await ctx.session.send_elicit_complete("e1", ctx.request_id)
        return found

    return await ask(ctx, params, "elicited", request, directly)


async def roots(ctx, params):
    return await ask(ctx, params, "roots", t.ListRootsRequest(), ctx.session.list_roots)


async def ping(ctx, params):
    note("ponged", result=plain(await ctx.session.send_ping()))
    return result("done")


async def wait(ctx, params):
    note("waiting")
    try:
        await anyio.sleep_forever()
    finally:
        note("stopped")


async def change(ctx, params):
    if ctx.protocol_version == NEWEST:
        for event in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()):
            await bus.publish(event)
        for uri in RESOURCES:
            await bus.publish(ResourceUpdated(uri))
        return result("done")
    await ctx.session.send_tool_list_changed()
    await ctx.session.send_prompt_list_changed()
    await ctx.session.send_resource_list_changed()
    for uri in sorted(subscribed):
        await ctx.session.send_resource_updated(uri)
    return result("done")


TOOLS = {
    tool.__name__: tool
    for tool in (
        echo, add, fail, who, progress, log, sample, sample_slowly, sample_tools, elicit, elicit_url, roots, ping, wait, change,
    )
}  # fmt: skip


async def list_tools(ctx, params):
    tools = [t.Tool(name=name, input_schema={"type": "object"}) for name in TOOLS]
    tools[1] = t.Tool(name="add", description="Adds.", input_schema=SUM_TOOL, output_schema=FOUND)
    found, after = page(tools, params.cursor if params else None, PAGE)
    return t.ListToolsResult(tools=found, next_cursor=after)


async def call_tool(ctx, params):
    if params.name == "journal":
        return result(take())
    note("call", tool=params.name, arguments=params.arguments, meta=dict(ctx.meta or {}))
    if params.name not in TOOLS:
        return result(f"no tool {params.name}", is_error=True)
    return await TOOLS[params.name](ctx, params)


# -- resources, prompts, and what else there is ------------------------------------------------------------------


async def list_resources(ctx, params):
    resources = [t.Resource(uri=uri, name=uri[8:]) for uri in RESOURCES]
    found, after = page(resources, params.cursor if params else None)
    return t.ListResourcesResult(resources=found, next_cursor=after)


async def signature(ctx, params):
    """The name of the client's first root, or the result that asks for it."""
    question, found = await asked(ctx, params, "roots", t.ListRootsRequest(), ctx.session.list_roots)
    return question, found and found.roots[0].name


async def list_resource_templates(ctx, params):
    memo = t.ResourceTemplate(uri_template="memo:///{name}", name="memo", mime_type="text/plain")
    return t.ListResourceTemplatesResult(resource_templates=[memo])


async def read_resource(ctx, params):
    uri = params.uri
    note("read", uri=uri)
    if uri == "memo:///signed":
        question, content = await signature(ctx, params)
        if question is not None:
            return question
    else:
        content = RESOURCES.get(uri)
    if content is None:
        code = -32602 if ctx.protocol_version == NEWEST else -32002
        raise MCPError(code, "no such memo", {"uri": uri})
    if isinstance(content, bytes):
        blob = base64.b64encode(content).decode()
        found = t.BlobResourceContents(uri=uri, blob=blob, mime_type="text/x-memo")
    else:
        found = t.TextResourceContents(uri=uri, text=content, mime_type="text/x-memo")
    return t.ReadResourceResult(contents=[found], ttl_ms=5, cache_scope="private")


async def subscribe(ctx, params):
    note("subscribed", uri=params.uri)
    subscribed.add(params.uri)
    return t.EmptyResult()


async def unsubscribe(ctx, params):
    note("unsubscribed", uri=params.uri)
    subscribed.discard(params.uri)
    return t.EmptyResult()


async def listen(ctx, params):
    note("listening", wants=plain(params.notifications))
    try:
        return await listening(ctx, params)
    finally:
        note("listened")


async def list_prompts(ctx, params):
    asked = t.PromptArgument(name="name", description="Whom to greet.", required=True)
    prompts = [t.Prompt(name="greet", description="Greets.", arguments=[asked]), t.Prompt(name="bare")]
    found, after = page(prompts, params.cursor if params else None)
    return t.ListPromptsResult(prompts=found, next_cursor=after)


async def get_prompt(ctx, params):
    note("prompt", name=params.name, arguments=params.arguments)
    question, name = None, (params.arguments or {}).get("name")
    if params.name == "bare":
        question, name = await signature(ctx, params)
    if question is not None:
        return question
    content = text(f"hello {name}")
    return t.GetPromptResult(
        description="A greeting.", messages=[t.PromptMessage(role="user", content=content)]
    )


async def complete(ctx, params):
    note("complete", ref=plain(params.ref), argument=plain(params.argument), context=plain(params.context))
    values = [params.argument.value + "x"]
    return t.CompleteResult(completion=t.Completion(values=values, total=7, has_more=True))


async def set_level(ctx, params):
    note("level", level=params.level)
    wanted[0] = params.level
    return t.EmptyResult()


async def roots_changed(ctx, params):
    note("roots changed")


def build():
    return Server(
        "everything",
        version="1.0",
        instructions="Try it all.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_resource_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=unsubscribe,
        on_subscriptions_listen=listen,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_set_logging_level=set_level,
        on_roots_list_changed=roots_changed,
    )


# -- transports --------------------------------------------------------------------------------------------------


async def over_stdio():
    changes = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
    server = build()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options(changes))


async def over_http():
    import uvicorn

    kinds = {"/mcp": {}, "/json": {"json_response": True}, "/stateless": {"stateless_http": True}}
    apps = {
        path: build().streamable_http_app(streamable_http_path=path, **kind) for path, kind in kinds.items()
    }

    async def app(scope, receive, send):
        await apps[scope["path"]](scope, receive, send)

    config = uvicorn.Config(
        app, interface="asgi3", log_level="warning", lifespan="off", timeout_graceful_shutdown=1
    )
    async with AsyncExitStack() as stack:
        for started in apps.values():
            await stack.enter_async_context(started.router.lifespan_context(started))
        await uvicorn.Server(config).serve(sockets=[bound("/mcp")])


if __name__ == "__main__":
    anyio.run({"stdio": over_stdio, "http": over_http}[[*sys.argv, "stdio"][1]])
