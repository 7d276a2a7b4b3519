"""A client on FastMCP, releases 2 to 4, that tries all that a server has: `fastmcp_client.py http|sse URL` or
`fastmcp_client.py stdio COMMAND ARGUMENTS...`. It says on stdout, case by case, what it and the server observed.
"""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false

import json
import sys
import warnings

import anyio
from sdk_common import Cases, until_noted

warnings.simplefilter("ignore")

import fastmcp  # noqa: E402
from fastmcp import Client  # noqa: E402
from fastmcp.client.elicitation import ElicitResult  # noqa: E402
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport  # noqa: E402

FOUR = fastmcp.__version__.startswith("4")
if FOUR:
    import mcp_types as t
    from mcp import MCPError as McpError
else:
    import mcp.types as t
    from mcp import McpError
NEWEST = "2026-07-28"
case = Cases()
heard = case.heard


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def spoken(client):
    return client.protocol_version if FOUR else client.initialize_result.protocolVersion


# -- what servers ask and tell -----------------------------------------------------------------------------------


refusing = []


async def sampling(messages, params, context):
    heard.add("sampling", plain(params))
    if refusing:
        raise McpError(
            *(-1, "the user said no") if FOUR else (t.ErrorData(code=-1, message="the user said no"),)
        )
    stop = "stop_reason" if FOUR else "stopReason"
    if params.tools:
        use = t.ToolUseContent(type="tool_use", id="u1", name=params.tools[0].name, input={"a": 1, "b": 2})
        return t.CreateMessageResultWithTools(
            role="assistant", model="mini", content=[use], **{stop: "toolUse"}
        )
    content = t.TextContent(type="text", text="it")
    return t.CreateMessageResult(role="assistant", model="mini", content=content, **{stop: "endTurn"})


async def elicitation(message, response_type, params, context):
    heard.add("elicitation", plain(params))
    action = message.split()[0]
    if action == "accept":
        return ElicitResult(action="accept", content={"name": "ann"})
    return ElicitResult(action="accept" if action == "go" else action)


async def list_roots(context):
    heard.add("roots")
    return [t.Root(uri="file:///srv/ann", name="home")]


async def logging(params):
    heard.add("log", params.level, params.data, params.logger)


async def message(received):
    told = getattr(received, "root", received)
    method = getattr(told, "method", "")
    if method.startswith("notifications/") and not method.endswith(("/message", "/progress", "/cancelled")):
        heard.add(method, plain(told.params) if told.params else None)


async def call(client, name, arguments=None, **more):
    return await client.call_tool_mcp(name, arguments or {}, **more)


async def journal(client):
    return json.loads((await call(client, "journal")).content[0].text)


async def outcome(work):
    """What a call gives, or how it is refused."""
    try:
        return plain(await work)
    except McpError as error:
        return {"code": error.error.code, "message": error.error.message, "data": error.error.data}


async def pages(client, items):
    """The sizes of the pages of a list, and its items; release 2 has cursors only in its session."""
    two = fastmcp.__version__.startswith("2")
    ask = getattr(client.session, f"list_{items}") if two else getattr(client, f"list_{items}_mcp")
    sizes, found, cursor = [], [], {}
    while True:
        result = await ask(**cursor)
        sizes.append(len(getattr(result, items)))
        found += getattr(result, items)
        after = result.next_cursor if FOUR else result.nextCursor
        if after is None:
            return {"sizes": sizes, "items": [plain(item) for item in found]}
        cursor = {"cursor": after}


# -- cases -------------------------------------------------------------------------------------------------------


@case
async def who(client):
    await call(client, "who")
    if not FOUR:
        return plain(client.initialize_result)
    return {
        "protocolVersion": client.protocol_version,
        "serverInfo": plain(client.server_info),
        "instructions": client.instructions,
        "capabilities": plain(client.server_capabilities),
    }


@case
async def ping(client):
    if spoken(client) != NEWEST:
        assert await client.ping()
        return {}
    return None


@case
async def tools(client):
    return await pages(client, "tools")


@case
async def echo(client):
    return plain(await call(client, "echo", {"text": "héllo\n"}, meta={"com.example/trace": "t1"}))


@case
async def many(client):
    found = {}

    async def one(number):
        found[number] = (await call(client, "echo", {"text": str(number)})).content[0].text

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(one, number)
    return [found[number] for number in range(20)]


@case
async def structured(client):
    return plain(await call(client, "add", {"a": 1, "b": 2.5}))


@case
async def failing(client):
    return plain(await call(client, "fail"))


@case
async def refused(client):
    return [await outcome(call(client, "refuse")), await outcome(call(client, "nobody"))]


@case
async def progress(client):
    async def told(progress, total, message):
        heard.add("told", progress, total, message)

    await call(client, "progress", progress_handler=told)


@case
async def logs(client):
    if spoken(client) == NEWEST:
        await call(client, "log", meta={"io.modelcontextprotocol/logLevel": "info"})
        return
    await client.set_logging_level("info")
    await call(client, "log")
    await client.set_logging_level("debug")


@case
async def silence(client):
    await call(client, "log")


@case
async def cancelled(client):
    async with anyio.create_task_group() as group:
        group.start_soon(call, client, "wait")
        if FOUR:
            await until_noted(client, journal, "waiting")
            group.cancel_scope.cancel()
        else:
            await heard.until(lambda said: any(entry[0] == "log" for entry in said))
            waiting = next(entry[2]["waiting"] for entry in heard if entry[0] == "log")
            await client.cancel(waiting, "enough")
            stopped = await until_noted(client, journal, "stopped")
            group.cancel_scope.cancel()
    if FOUR:
        stopped = await until_noted(client, journal, "stopped")
    return {
        "stopped": stopped,
        "after": (await call(client, "echo", {"text": "still there"})).content[0].text,
    }


@case
async def resources(client):
    return {
        **await pages(client, "resources"),
        "templates": [plain(template) for template in await client.list_resource_templates()],
        "text": plain(await client.read_resource_mcp("memo:///one")),
        "bytes": plain(await client.read_resource_mcp("memo:///bytes")),
        "missing": await outcome(client.read_resource_mcp("memo:///unknown")),
    }


@case
async def prompts(client):
    return {
        **await pages(client, "prompts"),
        "prompt": plain(await client.get_prompt_mcp("greet", {"name": "ann"})),
    }


@case
async def completion(client):
    prompt = t.PromptReference(type="ref/prompt", name="greet")
    argument = {"name": "name", "value": "an"}
    found = await client.complete_mcp(prompt, argument, context_arguments={"tone": "warm"})
    template = t.ResourceTemplateReference(type="ref/resource", uri="memo:///{name}")
    await client.complete_mcp(template, {"name": "name", "value": "o"})
    return plain(found.completion)


@case
async def sample(client):
    return plain(await call(client, "sample"))


@case
async def sample_refused(client):
    refusing.append(True)
    try:
        return await outcome(call(client, "sample"))
    finally:
        refusing.clear()


@case
async def signed(client):
    prompt = plain(await client.get_prompt_mcp("bare"))
    resource = plain(await client.read_resource_mcp("memo:///signed"))
    return {"prompt": prompt["messages"], "resource": resource["contents"]}


@case
async def sample_tools(client):
    return await outcome(call(client, "sample_tools"))


@case
async def elicit(client):
    actions = ("accept", "decline", "cancel")
    return [await outcome(call(client, "elicit", {"message": f"{action} this"})) for action in actions]


@case
async def elicit_url(client):
    return await outcome(call(client, "elicit_url"))


@case
async def roots(client):
    found = plain(await call(client, "roots"))
    if spoken(client) != NEWEST:
        await client.send_roots_list_changed()
    return found


@case
async def changes(client):
    """Its clients do not subscribe to resources by themselves: the session below does."""
    if spoken(client) == NEWEST:
        raise NotImplementedError("it has no subscriptions at the newest revision")
    await client.session.subscribe_resource("memo:///one")
    await call(client, "change")
    await heard.until(lambda said: len(said) == 4)
    await client.session.unsubscribe_resource("memo:///one")
    await call(client, "change")
    await heard.until(lambda said: len(said) == 7)


async def main():
    mode, how, *where = sys.argv[1:]
    if how == "stdio":
        target = StdioTransport(where[0], where[1:])
    else:
        target = (SSETransport if how == "sse" else StreamableHttpTransport)(where[0])
    async with Client(
        target,
        client_info=t.Implementation(name="interop", version="1.2"),
        roots=list_roots,
        sampling_handler=sampling,
        sampling_capabilities=t.SamplingCapability(tools=t.SamplingToolsCapability()),
        elicitation_handler=elicitation,
        log_handler=logging,
        message_handler=message,
        **({"mode": mode} if FOUR else {}),
    ) as client:
        await case.run(client, journal)


anyio.run(main)
