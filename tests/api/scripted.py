"""Servers and clients of a few lines, for tests that need one tool, one resource or one callback."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import new_class
from typing import Any, TypeAlias

import mcprev
from mcprev_types.latest import models as m

Stub: TypeAlias = Callable[[Any, Any], Awaitable[object]]


def handler(base: type, **stubs: Stub) -> Any:
    """A handler that serves some methods, each with a function of context and params."""

    def bound(stub: Stub) -> Any:
        async def serve(self: object, ctx: object, params: object) -> object:
            return await stub(ctx, params)

        return serve

    members = {name: bound(stub) for name, stub in stubs.items()}
    return new_class("Scripted", (base,), exec_body=lambda space: space.update(members))()


def server(options: dict[str, Any] | None = None, /, **stubs: Stub) -> mcprev.Server:
    """A server that serves some methods."""
    given: Any = options or {}
    return mcprev.Server(handler(mcprev.ServerHandler, **stubs), "scripted", "1", **given)


def client(**stubs: Stub) -> Any:
    """A client's handler that answers some methods."""
    return handler(mcprev.ClientHandler, **stubs)


def giving(value: object) -> Stub:
    """Answers with the same each time."""

    async def stub(ctx: object, params: object) -> object:
        return value

    return stub


def text(said: object) -> m.CallToolResult:
    return m.CallToolResult(content=[m.TextContent(text=str(said))])


def form(message: str = "who?", **properties: Any) -> m.ElicitRequest:
    fields = properties or {"name": m.StringSchema()}
    schema = m.ElicitRequestFormParamsRequestedSchema(properties=fields)
    return m.ElicitRequest(params=m.ElicitRequestFormParams(message=message, requested_schema=schema))


def url() -> m.ElicitRequest:
    return m.ElicitRequest(params=m.ElicitRequestURLParams(message="go", url="https://example.com/x"))


def sample(*messages: m.SamplingMessage, **more: Any) -> m.CreateMessageRequest:
    said = list(messages) or [m.SamplingMessage(role="user", content=m.TextContent(text="say it"))]
    return m.CreateMessageRequest(params=m.CreateMessageRequestParams(messages=said, max_tokens=9, **more))


def sampled(said: str = "it") -> m.CreateMessageResult:
    return m.CreateMessageResult(role="assistant", model="mm", content=m.TextContent(text=said))
