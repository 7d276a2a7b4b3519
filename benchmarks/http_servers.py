"""The servers that `over_http.py` measures, as programs: each takes the form of the answers, the HTTP parser and the port.

The form is `json`, `sse`, or `default`: what the server does without options. One echo tool everywhere, listed with the
schema of its argument, on uvicorn; `FLOOR` is a bare ASGI app that reads and writes JSON and knows no protocol.
`ON_UVICORN` is `OURS` without connections of our own.
"""

from __future__ import annotations

from typing import Final

_RUN: Final = """
import sys, uvicorn
parser, port = sys.argv[2], int(sys.argv[3])
uvicorn.run(app, host="127.0.0.1", port=port, http=parser, loop="uvloop" if parser == "httptools" else "asyncio",
            log_level="error", lifespan="on" if lifespan else "off")
"""
FLOOR: Final = """
import json
lifespan = False
async def app(scope, receive, send):
    body, more = b"", scope["method"] == "POST"
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    status, headers, data = 202, [], b""
    if scope["method"] == "GET":
        status = 405
    elif body:
        m = json.loads(body)
        if m.get("method") == "initialize":
            r = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}},
                 "serverInfo": {"name": "floor", "version": "1"}}
            headers = [(b"mcp-session-id", b"one")]
        elif m.get("method") == "tools/list":
            r = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        elif m.get("method") == "tools/call":
            r = {"content": [{"type": "text", "text": m["params"]["arguments"]["text"]}]}
        if "id" in m:
            status = 200
            data = json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}).encode()
    headers += [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})
""" + _RUN
_OPTIONS: Final = """
options = {"json": {"json_response": True}, "sse": {"json_response": False}}.get(sys.argv[1], {})
"""
_ASGI: Final = """
lifespan = True
app = server.asgi(**options)
""" + _RUN
_SERVE: Final = _OPTIONS + """
if sys.argv[2] == "httptools":
    server.run_http(port=int(sys.argv[3]), **options)
    sys.exit()
""" + _ASGI
_ECHO: Final = """
import sys
import mcprev
from mcprev_types.latest import models as m
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [m.Tool(name="echo", input_schema=m.ToolInputSchema.model_validate(SCHEMA))]
class Echo(mcprev.ServerHandler):
    async def list_tools(self, ctx, params):
        return m.ListToolsResult(tools=TOOLS)
    async def call_tool(self, ctx, params):
        return m.CallToolResult(content=[m.TextContent(text=params.arguments["text"])])
server = mcprev.Server(Echo(), "echo", "1")
"""
OURS: Final = _ECHO + _SERVE
ON_UVICORN: Final = _ECHO + _OPTIONS + _ASGI
APP: Final = """
import sys
import mcprev
server = mcprev.App("echo", "1")
@server.tool
async def echo(text: str) -> str:
    return text
""" + _SERVE
SDK: Final = """
import sys
from mcp.server.lowlevel import Server
import mcp.types as t
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [t.Tool(name="echo", inputSchema=SCHEMA)]
async def echo(ctx, params):
    return t.CallToolResult(content=[t.TextContent(type="text", text=params.arguments["text"])])
async def tools(ctx, params):
    return t.ListToolsResult(tools=TOOLS)
lifespan = True
app = Server("echo", on_call_tool=echo, on_list_tools=tools).streamable_http_app(json_response=sys.argv[1] == "json")
""" + _RUN
SDK_APP: Final = """
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("echo", log_level="ERROR")
@server.tool()
async def echo(text: str) -> str:
    return text
lifespan = True
app = server.streamable_http_app(json_response=sys.argv[1] == "json")
""" + _RUN
FASTMCP: Final = """
import sys
from fastmcp import FastMCP
server = FastMCP("echo")
@server.tool
async def echo(text: str) -> str:
    return text
lifespan = True
app = server.http_app(json_response=sys.argv[1] == "json")
""" + _RUN
