"""Tools that call an HTTP API, from its OpenAPI document, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP

operation = {
    "operationId": "get_items",
    "summary": "Look up items.",
    "parameters": [{"name": "q", "in": "query", "required": True, "schema": {"type": "string"}}],
    "responses": {"200": {"description": "The items."}},
}
document = {
    "openapi": "3.1.0",
    "info": {"title": "demo", "version": "1.0"},
    "servers": [{"url": "http://127.0.0.1:9"}],
    "paths": {"/items": {"get": operation}},
}
mcp = FastMCP.from_openapi(document)
mcp.run(show_banner=False)
