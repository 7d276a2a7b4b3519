"""A prompt of several messages, with the official Python SDK."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, UserMessage

mcp = MCPServer("demo")


@mcp.prompt()
def begin(task: str) -> list[Message]:
    return [UserMessage(f"Do {task}."), AssistantMessage("Yes.")]


mcp.run()
