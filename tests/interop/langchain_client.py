"""A client on langchain-mcp-adapters: `langchain_client.py http URL` or `langchain_client.py stdio COMMAND ARGUMENTS...`.

It says on stdout, case by case, what it and the server observed.
"""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false

import json
import sys

import anyio
from langchain_core.tools import ToolException
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.prompts import load_mcp_prompt
from langchain_mcp_adapters.resources import load_mcp_resources
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp import McpError
from sdk_common import Cases

case = Cases()


class Session:
    """An open session of the framework, with the tools that it made of the server's."""

    def __init__(self, raw, tools):
        self.raw = raw
        self.tools = {tool.name: tool for tool in tools}

    async def call(self, name, **arguments):
        """What a tool gives an agent: its text blocks, and what it keeps apart."""
        call = {"name": name, "args": arguments, "id": "c1", "type": "tool_call"}
        message = await self.tools[name].ainvoke(call)
        return {"status": message.status, "content": texts(message.content), "artifact": message.artifact}


def texts(content):
    return [content] if isinstance(content, str) else [block["text"] for block in content]


async def journal(session):
    return json.loads((await session.raw.call_tool("journal", {})).content[0].text)


@case
async def tools(session):
    schema = session.tools["add"].args_schema
    return {"names": list(session.tools), "add": schema, "description": session.tools["add"].description}


@case
async def echo(session):
    return await session.call("echo", text="héllo\n")


@case
async def many(session):
    found = {}

    async def one(number):
        found[number] = (await session.call("echo", text=str(number)))["content"][0]

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(one, number)
    return [found[number] for number in range(20)]


@case
async def structured(session):
    return await session.call("add", a=1, b=2.5)


@case
async def failing(session):
    try:
        return await session.call("fail")
    except ToolException as error:
        return {"status": "raised", "content": [str(error)]}


@case
async def refused(session):
    try:
        return await session.call("refuse")
    except McpError as error:
        return {"code": error.error.code, "message": error.error.message}


@case
async def resources(session):
    found = await load_mcp_resources(session.raw, uris=["memo:///one", "memo:///bytes"])
    return [{"mimeType": blob.mimetype, "data": blob.as_bytes().hex()} for blob in found]


@case
async def prompts(session):
    messages = await load_mcp_prompt(session.raw, "greet", arguments={"name": "ann"})
    return [[message.type, message.content] for message in messages]


async def main():
    how, *where = sys.argv[1:]
    stdio = {"transport": "stdio", "command": where[0], "args": where[1:]}
    there = stdio if how == "stdio" else {"transport": "streamable_http", "url": where[0]}
    async with MultiServerMCPClient({"ours": there}).session("ours") as raw:
        await case.run(Session(raw, await load_mcp_tools(raw)), journal)


anyio.run(main)
