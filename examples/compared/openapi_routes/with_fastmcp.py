"""Resources made of some operations of an OpenAPI document, and others left out, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastmcp import FastMCP
from fastmcp.server.providers.openapi import MCPType, RouteMap

document = {
    "openapi": "3.1.0",
    "info": {"title": "demo", "version": "1.0"},
    "servers": [{"url": "http://127.0.0.1:9"}],
    "paths": {
        "/items": {"get": {"operationId": "items", "responses": {"200": {"description": "The items."}}}},
        "/stop": {"post": {"operationId": "stop", "responses": {"200": {"description": "Stopped."}}}},
    },
}

exclude = RouteMap(pattern="^/stop$", mcp_type=MCPType.EXCLUDE)
routes = [exclude, RouteMap(methods=["GET"], mcp_type=MCPType.RESOURCE)]
FastMCP.from_openapi(document, route_maps=routes).run(show_banner=False)
