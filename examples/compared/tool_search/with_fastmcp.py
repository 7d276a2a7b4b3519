"""A search for tools, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP
from fastmcp.server.transforms.search import BM25SearchTransform

mcp = FastMCP("demo", transforms=[BM25SearchTransform()])


@mcp.tool
def send_invoice(customer: str) -> str:
    """Send a bill to a customer."""
    return f"billed {customer}"


mcp.run(show_banner=False)
