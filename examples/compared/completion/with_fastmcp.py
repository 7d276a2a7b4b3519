"""Completion of an argument, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP

mcp = FastMCP("demo")


@mcp.prompt
def greet(name: str) -> str:
    return f"Greet {name}."


@mcp.completion
def names(ref, argument, context):
    if ref.type == "ref/prompt" and ref.name == "greet":
        return [name for name in ("ann", "bob") if name.startswith(argument.value)]
    return None


mcp.run(show_banner=False)
