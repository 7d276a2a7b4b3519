"""Structured output, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from dataclasses import dataclass

from fastmcp import FastMCP

mcp = FastMCP("demo")


@dataclass
class Weather:
    city: str
    degrees: float


@mcp.tool
def weather(city: str) -> Weather:
    return Weather(city, 21.5)


mcp.run(show_banner=False)
