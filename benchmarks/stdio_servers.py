"""The stdio servers that are measured, as programs, and the revision that they are asked to speak.

One echo tool everywhere, listed with the schema of its argument and made when the program is imported, as users' servers
make theirs; `FLOOR` is a bare asyncio loop with the standard library's json and knows no protocol.
"""

from __future__ import annotations

from typing import Final

from mcprev.revisions import DEFAULT

FLOOR: Final = """
import asyncio, json, sys
class P(asyncio.Protocol):
    rest = b""
    def data_received(self, data):
        lines = (self.rest + data).split(b"\\n")
        self.rest = lines.pop()
        out = []
        for line in lines:
            m = json.loads(line)
            if "id" not in m: continue
            if m["method"] == "initialize":
                r = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}},
                     "serverInfo": {"name": "floor", "version": "1"}}
            elif m["method"] == "tools/list":
                r = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
            else:
                r = {"content": [{"type": "text", "text": m["params"]["arguments"]["text"]}]}
            out.append(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}).encode())
        if out: w.write(b"\\n".join(out) + b"\\n")
    def eof_received(self): done.set_result(None)
async def main():
    global w, done
    loop = asyncio.get_running_loop(); done = loop.create_future()
    w, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout)
    await loop.connect_read_pipe(P, sys.stdin)
    await done
asyncio.run(main())
"""
OURS: Final = """
import mcprev
from mcprev_types.latest import models as m
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [m.Tool(name="echo", input_schema=m.ToolInputSchema.model_validate(SCHEMA))]
class Echo(mcprev.ServerHandler):
    async def list_tools(self, ctx, params):
        return m.ListToolsResult(tools=TOOLS)
    async def call_tool(self, ctx, params):
        return m.CallToolResult(content=[m.TextContent(text=params.arguments["text"])])
mcprev.Server(Echo(), "echo", "1").run_stdio()
"""
APP: Final = """
import mcprev
app = mcprev.App("echo", "1")
@app.tool
async def echo(text: str) -> str:
    return text
app.run_stdio()
"""
SDK: Final = """
import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
import mcp.types as t
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [t.Tool(name="echo", inputSchema=SCHEMA)]
async def echo(*a):
    params = a[-1]
    text = params["text"] if isinstance(params, dict) else params.arguments["text"]
    content = [t.TextContent(type="text", text=text)]
    return content if isinstance(params, dict) else t.CallToolResult(content=content)
async def tools(*a):
    return t.ListToolsResult(tools=TOOLS) if a else TOOLS
try:
    s = Server("echo", on_call_tool=echo, on_list_tools=tools)
except TypeError:
    s = Server("echo"); s.list_tools()(tools); s.call_tool()(echo)
async def main():
    async with stdio_server() as (r, w): await s.run(r, w, s.create_initialization_options())
anyio.run(main)
"""
SDK_APP: Final = """
from mcp.server.mcpserver import MCPServer
app = MCPServer("echo", log_level="ERROR")
@app.tool()
async def echo(text: str) -> str:
    return text
app.run("stdio")
"""
FASTMCP: Final = """
from fastmcp import FastMCP
app = FastMCP("echo")
@app.tool
async def echo(text: str) -> str:
    return text
app.run("stdio", show_banner=False, log_level="ERROR")
"""
PARTS: Final = {
    "interpreter and asyncio": "import asyncio",
    "and pydantic": "import asyncio, pydantic\nclass A(pydantic.BaseModel): x: int",
    "and a Tool": "import asyncio\nfrom mcprev_types.latest import models as m\n"
    "m.Tool(name='echo', input_schema=m.ToolInputSchema())",
    "and mcprev": OURS.replace(".run_stdio()", ""),
}
"""What a start is made of: programs that end at once, each with what the one before it needs and something more."""
REVISION: Final = [row for row in DEFAULT if row.handshake][-1]
