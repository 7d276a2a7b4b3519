"""Structured output, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from dataclasses import dataclass

from mcp.server.mcpserver import MCPServer

mcp = MCPServer("demo")


@dataclass
class Weather:
    city: str
    degrees: float


@mcp.tool()
def weather(city: str) -> Weather:
    return Weather(city, 21.5)


mcp.run()
