"""The servers and clients that `large.py` measures, as programs.

A server takes the transport, and for HTTP the port: `stdio`, `session PORT` (answers in JSON) or `stateless PORT`. It has
two tools, listed with the schemas of their arguments: `echo` returns a text, `show` base64 data as an image, audio or an
embedded resource. `FLOOR` is a bare loop, or a bare ASGI app, around the JSON parser and writer that mcprev and the
official SDK use; it knows no protocol.

A client takes a revision, the call to make in JSON, how often, and the command or URL of its server; it prints the seconds
of CPU time and of wall time.
"""

from __future__ import annotations

from typing import Final

_UVICORN: Final = """
import uvicorn
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error", lifespan=lifespan)
"""
_CONTENT: Final = """
def content(name, a):
    if name == "echo":
        return {"type": "text", "text": a["text"]}
    if a["kind"] == "blob":
        return {"type": "resource", "resource": {"uri": "a:b", "blob": a["data"]}}
    return {"type": a["kind"], "data": a["data"], "mimeType": "image/png" if a["kind"] == "image" else "audio/wav"}
"""
FLOOR: Final = (
    """
import asyncio, sys
from pydantic_core import from_json, to_json
"""
    + _CONTENT
    + """
def answer(message):
    if message["method"] == "initialize":
        r = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
             "serverInfo": {"name": "floor", "version": "1"}}
    elif message["method"] == "tools/call":
        r = {"content": [content(message["params"]["name"], message["params"]["arguments"])]}
    else:
        r = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "show")]}
    return to_json({"jsonrpc": "2.0", "id": message["id"], "result": {**r, "resultType": "complete"}})
if sys.argv[1] == "stdio":
    for line in sys.stdin.buffer:
        message = from_json(line)
        if "id" in message:
            sys.stdout.buffer.write(answer(message) + b"\\n")
            sys.stdout.buffer.flush()
    sys.exit()
lifespan = "off"
async def app(scope, receive, send):
    parts, more = [], scope["method"] == "POST"
    while more:
        event = await receive()
        parts.append(event.get("body", b""))
        more = event.get("more_body", False)
    message = from_json(b"".join(parts)) if parts else {}
    data = answer(message) if "id" in message else b""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    if message.get("method") == "initialize":
        headers.append((b"mcp-session-id", b"one"))
    status = 200 if data else 202 if parts else 405
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})
"""
    + _UVICORN
)
_SCHEMAS: Final = """
def schema(*names):
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": list(names)}
SCHEMAS = {"echo": schema("text"), "show": schema("kind", "data")}
"""
_SERVE: Final = """
LIMITS = {"max_body": 1 << 25, "max_bodies": 1 << 28}
if sys.argv[1] == "stdio":
    server.run_stdio()
else:
    json_response = {"json_response": True} if sys.argv[1] == "session" else {}
    server.run_http(port=int(sys.argv[2]), **LIMITS, **json_response)
"""
OURS: Final = (
    """
import sys
import mcprev
from mcprev_types.latest import models as m
"""
    + _SCHEMAS
    + _CONTENT
    + """
TOOLS = [m.Tool(name=n, input_schema=m.ToolInputSchema.model_validate(s)) for n, s in SCHEMAS.items()]
class Echo(mcprev.ServerHandler):
    async def list_tools(self, ctx, params):
        return m.ListToolsResult(tools=TOOLS)
    async def call_tool(self, ctx, params):
        return m.CallToolResult(content=[content(params.name, params.arguments)])
server = mcprev.Server(Echo(), "echo", "1")
"""
    + _SERVE
)
APP: Final = (
    """
import sys
import mcprev
from mcprev_types.latest import models as m
"""
    + _CONTENT
    + """
server = mcprev.App("echo", "1")
@server.tool
async def echo(text: str) -> str:
    return text
@server.tool
async def show(kind: str, data: str) -> m.CallToolResult:
    return m.CallToolResult(content=[content("show", {"kind": kind, "data": data})])
"""
    + _SERVE
)
SDK: Final = (
    """
import sys, anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
import mcp.types as t
"""
    + _SCHEMAS
    + _CONTENT
    + """
TOOLS = [t.Tool(name=n, inputSchema=s) for n, s in SCHEMAS.items()]
async def call(ctx, params):
    return t.CallToolResult(content=[content(params.name, params.arguments)])
async def tools(ctx, params):
    return t.ListToolsResult(tools=TOOLS)
server = Server("echo", on_call_tool=call, on_list_tools=tools)
async def main():
    async with stdio_server() as (r, w): await server.run(r, w, server.create_initialization_options())
if sys.argv[1] == "stdio":
    anyio.run(main)
    sys.exit()
lifespan = "on"
app = server.streamable_http_app(json_response=True, max_request_body_size=1 << 25)
"""
    + _UVICORN
)
FASTMCP: Final = (
    """
import sys
from fastmcp import FastMCP
from fastmcp.tools import ToolResult
import mcp.types as t
"""
    + _CONTENT
    + """
server = FastMCP("echo")
@server.tool
async def echo(text: str) -> str:
    return text
@server.tool
async def show(kind: str, data: str) -> ToolResult:
    found = t.CallToolResult(content=[content("show", {"kind": kind, "data": data})])
    return ToolResult(content=found.content)
if sys.argv[1] == "stdio":
    server.run("stdio", show_banner=False)
    sys.exit()
lifespan = "on"
app = server.http_app(json_response=True)
"""
    + _UVICORN
)
_MEASURE: Final = """
import asyncio, json, sys, time
revision, tool, times = sys.argv[1], sys.argv[2], int(sys.argv[4])
with open(sys.argv[3]) as file:
    arguments = json.load(file)
command = sys.argv[5:]
over_http = command[0].startswith("http")
def echoed(block):
    found = getattr(block, "resource", block)
    return next(text for name in ("text", "data", "blob") if (text := getattr(found, name, None)) is not None)
async def measure(call):
    if echoed((await call()).content[0]) != arguments.get("data", arguments.get("text")):
        raise AssertionError("another text")
    started, cpu = time.perf_counter(), time.process_time()
    for _ in range(times):
        await call()
    print(json.dumps([time.process_time() - cpu, time.perf_counter() - started]))
"""
FLOOR_CLIENT: Final = _MEASURE + """
import subprocess, urllib.parse
from http.client import HTTPConnection
from types import SimpleNamespace
from pydantic_core import from_json, to_json
if over_http:
    url = urllib.parse.urlsplit(command[0])
    connection = HTTPConnection(url.netloc)
    def exchange(data):
        connection.request("POST", url.path, data)
        return connection.getresponse().read()
else:
    server = subprocess.Popen(command, stdin=-1, stdout=-1)
    def exchange(data):
        server.stdin.write(data + b"\\n")
        server.stdin.flush()
        return server.stdout.readline()
async def call():
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    block = from_json(exchange(to_json(message)))["result"]["content"][0]
    return SimpleNamespace(content=[SimpleNamespace(**block.get("resource", block))])
asyncio.run(measure(call))
if not over_http:
    server.stdin.close()
    server.wait()
"""
OURS_CLIENT: Final = _MEASURE + """
import mcprev
async def main():
    target = mcprev.http(command[0]) if over_http else mcprev.stdio(*command)
    async with mcprev.connect(target, mode=revision) as client:
        await measure(lambda: client.call_tool(tool, arguments))
asyncio.run(main())
"""
SDK_CLIENT: Final = _MEASURE + """
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
async def main():
    if over_http:
        streams = streamable_http_client(command[0])
    else:
        streams = stdio_client(StdioServerParameters(command=command[0], args=command[1:]))
    async with streams as opened, ClientSession(*opened[:2]) as session:
        await session.initialize()
        await measure(lambda: session.call_tool(tool, arguments))
asyncio.run(main())
"""
FASTMCP_CLIENT: Final = _MEASURE + """
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
async def main():
    transport = command[0] if over_http else StdioTransport(command[0], command[1:])
    async with Client(transport, mode="legacy") as client:
        await measure(lambda: client.call_tool_mcp(tool, arguments))
asyncio.run(main())
"""
