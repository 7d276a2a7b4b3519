"""Resources made of some operations of an OpenAPI document, and others left out, with mcprev."""

import mcprev

document = {
    "openapi": "3.1.0",
    "info": {"title": "demo", "version": "1.0"},
    "servers": [{"url": "http://127.0.0.1:9"}],
    "paths": {
        "/items": {"get": {"operationId": "items", "responses": {"200": {"description": "The items."}}}},
        "/stop": {"post": {"operationId": "stop", "responses": {"200": {"description": "Stopped."}}}},
    },
}

routes = [mcprev.OpenApiRoute("exclude", path="/stop"), mcprev.OpenApiRoute("resource", methods=["GET"])]
mcprev.App.from_openapi(document, routes=routes).run_stdio()
