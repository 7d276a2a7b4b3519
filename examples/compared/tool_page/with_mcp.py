"""A page for the results of a tool, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from mcp.server.apps import Apps
from mcp.server.mcpserver import MCPServer

apps = Apps()


@apps.tool(resource_uri="ui://clock")
def now() -> str:
    return "noon"


apps.add_html_resource("ui://clock", "<!doctype html><title>Clock</title>")
mcp = MCPServer("demo", extensions=[apps])
mcp.run()
