"""A client on release 2 of the official Python SDK that tries all that a server has: `sdk2_client.py MODE http URL` or
`sdk2_client.py MODE stdio COMMAND ARGUMENTS...`. It says on stdout, case by case, what it and the server observed.
"""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false

import json
import sys
import warnings

import anyio
import mcp.types as t
from mcp import Client, MCPError, StdioServerParameters
from sdk_common import Cases, until_noted

# What the newest revision deprecates is what the older one is tried with.
warnings.simplefilter("ignore")
NEWEST = "2026-07-28"
case = Cases()
heard = case.heard


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


# -- what servers ask and tell -----------------------------------------------------------------------------------


refusing = []


async def sampling(context, params):
    heard.add("sampling", plain(params))
    if refusing:
        return t.ErrorData(code=-1, message="the user said no")
    if params.tools:
        use = t.ToolUseContent(id="u1", name=params.tools[0].name, input={"a": 1, "b": 2})
        more = {"content": [use], "stop_reason": "toolUse"}
        return t.CreateMessageResultWithTools(role="assistant", model="mini", **more)
    content = t.TextContent(text="it")
    return t.CreateMessageResult(role="assistant", model="mini", content=content, stop_reason="endTurn")


async def elicitation(context, params):
    heard.add("elicitation", plain(params))
    action = params.message.split()[0]
    form = {"content": {"name": "ann"}} if action == "accept" else {}
    return t.ElicitResult(action="accept" if action == "go" else action, **form)


async def list_roots(context):
    heard.add("roots")
    return t.ListRootsResult(roots=[t.Root(uri="file:///srv/ann", name="home")])


async def logging(params):
    heard.add("log", params.level, params.data, params.logger)


async def message(received):
    if not isinstance(received, t.LoggingMessageNotification | Exception):
        heard.add(received.method, plain(received.params) if received.params else None)


async def journal(client):
    return json.loads((await client.call_tool("journal", {})).content[0].text)


async def outcome(work):
    """What a call gives, or how it is refused."""
    try:
        return plain(await work)
    except MCPError as error:
        return {"code": error.code, "message": error.message, "data": error.data}


async def pages(ask, items):
    """The sizes of the pages of a list, and its items."""
    sizes, found, cursor = [], [], {}
    while True:
        result = await ask(**cursor)
        sizes.append(len(getattr(result, items)))
        found += getattr(result, items)
        if result.next_cursor is None:
            return {"sizes": sizes, "items": [plain(item) for item in found]}
        cursor = {"cursor": result.next_cursor}


# -- cases -------------------------------------------------------------------------------------------------------


@case
async def who(client):
    await client.call_tool("who")
    return {
        "protocolVersion": client.protocol_version,
        "serverInfo": plain(client.server_info),
        "instructions": client.instructions,
        "capabilities": plain(client.server_capabilities),
    }


@case
async def ping(client):
    return plain(await client.send_ping()) if client.protocol_version != NEWEST else None


@case
async def tools(client):
    return await pages(client.list_tools, "tools")


@case
async def echo(client):
    return plain(await client.call_tool("echo", {"text": "héllo\n"}, meta={"com.example/trace": "t1"}))


@case
async def many(client):
    found = {}

    async def one(number):
        found[number] = (await client.call_tool("echo", {"text": str(number)})).content[0].text

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(one, number)
    return [found[number] for number in range(20)]


@case
async def structured(client):
    return plain(await client.call_tool("add", {"a": 1, "b": 2.5}))


@case
async def failing(client):
    return plain(await client.call_tool("fail"))


@case
async def refused(client):
    return [await outcome(client.call_tool("refuse")), await outcome(client.call_tool("nobody"))]


@case
async def progress(client):
    async def told(progress, total, message):
        heard.add("told", progress, total, message)

    await client.call_tool("progress", progress_callback=told)


@case
async def logs(client):
    if client.protocol_version == NEWEST:
        await client.call_tool("log", meta={t.LOG_LEVEL_META_KEY: "info"})
        return
    await client.set_logging_level("info")
    await client.call_tool("log")
    await client.set_logging_level("debug")


@case
async def silence(client):
    await client.call_tool("log")


@case
async def cancelled(client):
    seen = {}

    async with anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "wait")
        await until_noted(client, journal, "waiting")
        group.cancel_scope.cancel()
    seen["stopped"] = await until_noted(client, journal, "stopped")
    seen["after"] = (await client.call_tool("echo", {"text": "still there"})).content[0].text
    return seen


@case
async def resources(client):
    templates = (await client.list_resource_templates()).resource_templates
    return {
        **await pages(client.list_resources, "resources"),
        "templates": [plain(template) for template in templates],
        "text": plain(await client.read_resource("memo:///one")),
        "bytes": plain(await client.read_resource("memo:///bytes")),
        "missing": await outcome(client.read_resource("memo:///unknown")),
    }


@case
async def changes(client):
    if client.protocol_version == NEWEST:
        return await streamed(client)
    await client.subscribe_resource("memo:///one")
    await client.call_tool("change")
    await heard.until(lambda said: len(said) == 4)
    await client.unsubscribe_resource("memo:///one")
    await client.call_tool("change")
    await heard.until(lambda said: len(said) == 7)


async def streamed(client):
    one = client.listen(tools_list_changed=True, resource_subscriptions=["memo:///one"])
    async with one as changes, client.listen(prompts_list_changed=True) as others:
        await client.call_tool("change")
        found = [await anext(changes), await anext(changes), await anext(others)]
        return {"events": [repr(event) for event in found], "honored": plain(changes.honored)}


@case
async def prompts(client):
    return {
        **await pages(client.list_prompts, "prompts"),
        "prompt": plain(await client.get_prompt("greet", {"name": "ann"})),
    }


@case
async def completion(client):
    prompt, argument = t.PromptReference(name="greet"), {"name": "name", "value": "an"}
    found = await client.complete(prompt, argument, {"tone": "warm"})
    template = t.ResourceTemplateReference(uri="memo:///{name}")
    await client.complete(template, {"name": "name", "value": "o"})
    return plain(found.completion)


@case
async def sample(client):
    return plain(await client.call_tool("sample"))


@case
async def sample_refused(client):
    refusing.append(True)
    try:
        return await outcome(client.call_tool("sample"))
    finally:
        refusing.clear()


@case
async def signed(client):
    prompt = plain(await client.get_prompt("bare"))
    resource = plain(await client.read_resource("memo:///signed"))
    return {"prompt": prompt["messages"], "resource": resource["contents"]}


@case
async def sample_tools(client):
    return plain(await client.call_tool("sample_tools"))


@case
async def elicit(client):
    actions = ("accept", "decline", "cancel")
    return [plain(await client.call_tool("elicit", {"message": f"{action} this"})) for action in actions]


@case
async def elicit_url(client):
    return plain(await client.call_tool("elicit_url"))


@case
async def roots(client):
    found = plain(await client.call_tool("roots"))
    if client.protocol_version != NEWEST:
        await client.send_roots_list_changed()
    return found


async def main():
    mode, how, *where = sys.argv[1:]
    target = StdioServerParameters(command=where[0], args=list(where[1:])) if how == "stdio" else where[0]
    async with Client(
        target,
        mode=mode,
        client_info=t.Implementation(name="interop", version="1.2"),
        sampling_callback=sampling,
        sampling_capabilities=t.SamplingCapability(tools=t.SamplingToolsCapability()),
        elicitation_callback=elicitation,
        list_roots_callback=list_roots,
        logging_callback=logging,
        message_handler=message,
    ) as client:
        await case.run(client, journal)


anyio.run(main)
