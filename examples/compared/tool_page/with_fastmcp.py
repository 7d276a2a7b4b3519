"""A page for the results of a tool, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP
from fastmcp.apps import AppConfig

mcp = FastMCP("demo")


@mcp.tool(app=AppConfig(resource_uri="ui://clock"))
def now() -> str:
    return "noon"


@mcp.resource("ui://clock")
def page() -> str:
    return "<!doctype html><title>Clock</title>"


mcp.run(show_banner=False)
