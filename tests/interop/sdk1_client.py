"""A client on release 1 of the official Python SDK that tries all that a server has: `sdk1_client.py http|sse URL` or
`sdk1_client.py stdio COMMAND ARGUMENTS...`. It says on stdout, case by case, what it and the server observed.
"""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false

import json
import sys
from contextlib import asynccontextmanager

import anyio
import mcp.types as t
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from pydantic import AnyUrl
from sdk_common import Cases, until_noted

ELICITS = hasattr(t, "ElicitResult")
PAGES = hasattr(t, "PaginatedRequestParams")
REPORTS = "message" in t.ProgressNotificationParams.model_fields
IN_CONTEXT = "context" in t.CompleteRequestParams.model_fields
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
    content = t.TextContent(type="text", text="it")
    return t.CreateMessageResult(role="assistant", model="mini", content=content, stopReason="endTurn")


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
    if isinstance(received, t.ServerNotification) and not isinstance(
        received.root, t.LoggingMessageNotification
    ):
        heard.add(received.root.method, plain(received.root.params) if received.root.params else None)


async def request(session, method, params, result):
    return await session.send_request(t.ClientRequest(method(method=NAMES[method], params=params)), result)


NAMES = {t.CallToolRequest: "tools/call", t.ListToolsRequest: "tools/list"}


async def call(session, name, arguments=None, **meta):
    params = t.CallToolRequestParams(name=name, arguments=arguments, _meta=t.RequestParams.Meta(**meta))
    return await request(session, t.CallToolRequest, params, t.CallToolResult)


async def journal(session):
    return json.loads((await session.call_tool("journal", {})).content[0].text)


async def outcome(work):
    """What a call gives, or how it is refused."""
    try:
        return plain(await work)
    except McpError as error:
        return {"code": error.error.code, "message": error.error.message, "data": error.error.data}


async def pages(ask, items):
    """The sizes of the pages of a list, and its items."""
    sizes, found, cursor = [], [], {}
    while True:
        result = await ask(**cursor)
        sizes.append(len(getattr(result, items)))
        found += getattr(result, items)
        if result.nextCursor is None or not PAGES:
            return {"sizes": sizes, "items": [plain(item) for item in found]}
        cursor = {"cursor": result.nextCursor}


# -- cases -------------------------------------------------------------------------------------------------------


@case
async def who(session):
    await session.call_tool("who")
    return opened


@case
async def ping(session):
    return plain(await session.send_ping())


@case
async def tools(session):
    return await pages(session.list_tools, "tools")


@case
async def echo(session):
    return plain(await call(session, "echo", {"text": "héllo\n"}, **{"com.example/trace": "t1"}))


@case
async def many(session):
    found = {}

    async def one(number):
        found[number] = (await session.call_tool("echo", {"text": str(number)})).content[0].text

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(one, number)
    return [found[number] for number in range(20)]


@case
async def structured(session):
    return plain(await session.call_tool("add", {"a": 1, "b": 2.5}))


@case
async def failing(session):
    return plain(await session.call_tool("fail"))


@case
async def refused(session):
    return [await outcome(session.call_tool("refuse")), await outcome(session.call_tool("nobody"))]


@case
async def progress(session):
    """The oldest release has no callback for it: the token is put in, and what comes is taken, by hand."""

    async def told(progress, total, message):
        heard.add("told", progress, total, message)

    if REPORTS:
        await session.call_tool("progress", progress_callback=told)
    else:
        await call(session, "progress", progressToken="p1")


@case
async def logs(session):
    await session.set_logging_level("info")
    await session.call_tool("log")
    await session.set_logging_level("debug")


@case
async def cancelled(session):
    seen = {}

    async with anyio.create_task_group() as group:
        group.start_soon(session.call_tool, "wait")
        await heard.until(lambda said: any(entry[0] == "log" for entry in said))
        waiting = next(entry[2]["waiting"] for entry in heard if entry[0] == "log")
        params = t.CancelledNotificationParams(requestId=waiting, reason="enough")
        cancelling = t.CancelledNotification(method="notifications/cancelled", params=params)
        await session.send_notification(t.ClientNotification(cancelling))
        seen["stopped"] = await until_noted(session, journal, "stopped")
        seen["after"] = (await session.call_tool("echo", {"text": "still there"})).content[0].text
        group.cancel_scope.cancel()
    return seen


@case
async def resources(session):
    templates = (await session.list_resource_templates()).resourceTemplates
    return {
        **await pages(session.list_resources, "resources"),
        "templates": [plain(template) for template in templates],
        "text": plain(await session.read_resource(AnyUrl("memo:///one"))),
        "bytes": plain(await session.read_resource(AnyUrl("memo:///bytes"))),
        "missing": await outcome(session.read_resource(AnyUrl("memo:///unknown"))),
    }


@case
async def changes(session):
    await session.subscribe_resource(AnyUrl("memo:///one"))
    await session.call_tool("change")
    await heard.until(lambda said: len(said) == 4)
    await session.unsubscribe_resource(AnyUrl("memo:///one"))
    await session.call_tool("change")
    await heard.until(lambda said: len(said) == 7)


@case
async def prompts(session):
    return {
        **await pages(session.list_prompts, "prompts"),
        "prompt": plain(await session.get_prompt("greet", {"name": "ann"})),
    }


@case
async def completion(session):
    reference = (
        t.ResourceTemplateReference if hasattr(t, "ResourceTemplateReference") else t.ResourceReference
    )
    context = {"context_arguments": {"tone": "warm"}} if IN_CONTEXT else {}
    prompt = t.PromptReference(type="ref/prompt", name="greet")
    found = await session.complete(prompt, {"name": "name", "value": "an"}, **context)
    template = reference(type="ref/resource", uri="memo:///{name}")
    await session.complete(template, {"name": "name", "value": "o"})
    return plain(found.completion)


@case
async def sample(session):
    return plain(await session.call_tool("sample"))


@case
async def sample_refused(session):
    refusing.append(True)
    try:
        return await outcome(session.call_tool("sample"))
    finally:
        refusing.clear()


@case
async def signed(session):
    prompt = plain(await session.get_prompt("bare"))
    resource = plain(await session.read_resource(AnyUrl("memo:///signed")))
    return {"prompt": prompt["messages"], "resource": resource["contents"]}


@case
async def sample_tools(session):
    return await outcome(session.call_tool("sample_tools"))


@case
async def elicit(session):
    actions = ("accept", "decline", "cancel")
    return [await outcome(session.call_tool("elicit", {"message": f"{action} this"})) for action in actions]


@case
async def elicit_url(session):
    return await outcome(session.call_tool("elicit_url"))


@case
async def roots(session):
    found = plain(await session.call_tool("roots"))
    await session.send_roots_list_changed()
    return found


# -- transports --------------------------------------------------------------------------------------------------

opened = {}


@asynccontextmanager
async def connected(how, *where):
    if how == "stdio":
        parameters = StdioServerParameters(command=where[0], args=list(where[1:]))
        async with stdio_client(parameters) as (read, write):
            yield read, write
    elif how == "sse":
        from mcp.client.sse import sse_client

        async with sse_client(where[0]) as (read, write):
            yield read, write
    else:
        from mcp.client.streamable_http import streamablehttp_client

        async with streamablehttp_client(where[0]) as (read, write, _):
            yield read, write


async def main():
    answers = {"sampling_callback": sampling, "list_roots_callback": list_roots, "logging_callback": logging}
    if ELICITS:
        answers["elicitation_callback"] = elicitation
    info = t.Implementation(name="interop", version="1.2")
    async with (
        connected(*sys.argv[1:]) as (read, write),
        ClientSession(read, write, message_handler=message, client_info=info, **answers) as session,
    ):
        opened.update(plain(await session.initialize()))
        await case.run(session, journal)


anyio.run(main)
