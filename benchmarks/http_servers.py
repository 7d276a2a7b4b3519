"""The servers that `over_http.py` measures, as programs: each takes the form of the answers, the HTTP parser and the port.

One echo tool everywhere, on uvicorn; `floor` is a bare ASGI app that reads and writes JSON and knows no protocol.
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
OURS: Final = """
import sys
import mcprev
from mcprev_types.latest import models as m
class Echo(mcprev.ServerHandler):
    async def call_tool(self, ctx, params):
        return m.CallToolResult(content=[m.TextContent(text=params.arguments["text"])])
server, options = mcprev.Server(Echo(), "echo", "1"), {"json_response": sys.argv[1] == "json"}
if sys.argv[2] == "httptools":
    server.run_http(port=int(sys.argv[3]), **options)
    sys.exit()
lifespan = True
app = server.asgi(**options)
""" + _RUN
SDK: Final = """
import sys
from mcp.server.lowlevel import Server
import mcp.types as t
async def echo(ctx, params):
    return t.CallToolResult(content=[t.TextContent(type="text", text=params.arguments["text"])])
async def tools(ctx, params):
    return t.ListToolsResult(tools=[t.Tool(name="echo", inputSchema={"type": "object"})])
lifespan = True
app = Server("echo", on_call_tool=echo, on_list_tools=tools).streamable_http_app(json_response=sys.argv[1] == "json")
""" + _RUN
