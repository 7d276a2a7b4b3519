"""A client on pydantic-ai: `pydantic_ai_client.py http URL` or `pydantic_ai_client.py stdio COMMAND ARGUMENTS...`.

It says on stdout, case by case, what it and the server observed.
"""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false

import json
import sys

import anyio
from fastmcp.client.transports import StdioTransport
from pydantic_ai import ModelRetry
from pydantic_ai.mcp import MCPError, MCPToolset
from sdk_common import Cases

case = Cases()
heard = case.heard


async def journal(toolset):
    found = await toolset.direct_call_tool("journal", {})
    return found if isinstance(found, list) else json.loads(found)


async def outcome(work):
    """What a tool gives an agent, or how it fails."""
    try:
        return await work
    except ModelRetry as error:
        return {"retry": error.message}
    except MCPError as error:
        return {"code": error.code, "message": error.message}


@case
async def tools(toolset):
    found = {tool.name: tool for tool in await toolset.list_tools()}
    schema = found["add"].input_schema
    return {"names": list(found), "add": schema, "description": found["add"].description}


@case
async def echo(toolset):
    return await toolset.direct_call_tool("echo", {"text": "héllo\n"})


@case
async def many(toolset):
    found = {}

    async def one(number):
        found[number] = await toolset.direct_call_tool("echo", {"text": f"n{number}"})

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(one, number)
    return [found[number] for number in range(20)]


@case
async def structured(toolset):
    return await toolset.direct_call_tool("add", {"a": 1, "b": 2.5})


@case
async def failing(toolset):
    return await outcome(toolset.direct_call_tool("fail", {}))


@case
async def refused(toolset):
    return await outcome(toolset.direct_call_tool("refuse", {}))


@case
async def resources(toolset):
    text = await toolset.read_resource("memo:///one")
    data = await toolset.read_resource("memo:///bytes")
    return {
        "names": [found.name for found in await toolset.list_resources()],
        "text": text,
        "bytes": data.data.hex(),
    }


@case
async def prompts(toolset):
    found = await toolset.get_prompt("greet", {"name": "ann"})
    names = [prompt.name for prompt in await toolset.list_prompts()]
    return {"names": names, "messages": [[part.role, part.content.content] for part in found.messages]}


@case
async def logs(toolset):
    return await toolset.direct_call_tool("log", {})


async def main():
    how, *where = sys.argv[1:]

    async def logging(params):
        heard.add("log", params.level, params.data, params.logger)

    target = StdioTransport(where[0], where[1:]) if how == "stdio" else where[0]
    async with MCPToolset(target, log_handler=logging, init_timeout=30) as toolset:
        await case.run(toolset, journal)


anyio.run(main)
