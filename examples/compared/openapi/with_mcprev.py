"""Tools that call an HTTP API, from its OpenAPI document, with mcprev."""

import mcprev

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
app = mcprev.App.from_openapi(document)
app.run_stdio()
