"""A prompt of several messages, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP
from fastmcp.prompts import Message

mcp = FastMCP("demo")


@mcp.prompt
def begin(task: str) -> list[Message | str]:
    return [f"Do {task}.", Message("Yes.", role="assistant")]


mcp.run(show_banner=False)
