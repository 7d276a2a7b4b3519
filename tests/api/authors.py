"""A server and a client that use everything an author can use."""

from __future__ import annotations

import asyncio
from typing import Any

import mcprev
from mcprev.errors import ResourceNotFound, UrlElicitationRequired
from mcprev_types.latest import models as m


def text(value: object) -> m.CallToolResult:
    return m.CallToolResult(content=[m.TextContent(text=str(value))])


def form(message: str = "who?") -> m.ElicitRequest:
    return m.ElicitRequest(
        params=m.ElicitRequestFormParams(
            message=message,
            requested_schema=m.ElicitRequestFormParamsRequestedSchema(properties={"name": m.StringSchema()}),
        )
    )


def sample() -> m.CreateMessageRequest:
    message = m.SamplingMessage(role="user", content=m.TextContent(text="say it"))
    return m.CreateMessageRequest(params=m.CreateMessageRequestParams(messages=[message], max_tokens=9))


def url() -> m.ElicitRequest:
    return m.ElicitRequest(params=m.ElicitRequestURLParams(message="go", url="https://example.com/x"))


class Everything(mcprev.ServerHandler):
    """Tools named after what they do; resources, prompts, completion."""

    def __init__(self) -> None:
        self.runs = 0
        self.started = asyncio.Event()
        self.stopped = asyncio.Event()

    async def list_tools(self, ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
        number = int(params.cursor or "0")
        tool = m.Tool(name=f"tool{number}", input_schema=m.ToolInputSchema())
        return m.ListToolsResult(tools=[tool], next_cursor=str(number + 1) if number < 2 else None)

    async def call_tool(
        self, ctx: mcprev.Context, params: m.CallToolRequestParams
    ) -> m.CallToolResult | m.InputRequiredResult:
        self.runs += 1
        found: m.CallToolResult | m.InputRequiredResult = await getattr(self, f"do_{params.name}")(
            ctx, params
        )
        return found

    async def do_echo(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        return text(params.arguments)

    async def do_who(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        info = ctx.client_info
        caps = ctx.client_capabilities.to_wire()
        return text([ctx.revision, info and info.name, sorted(caps), ctx.meta.get("com.example/x")])

    async def do_progress(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        for number in (1, 1, 2):
            await ctx.progress(number, 2, "step")
        return text("done")

    async def do_log(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        levels: tuple[m.LoggingLevel, ...] = ("debug", "info", "error")
        for level in levels:
            await ctx.log(level, {"at": level}, "here")
        return text("done")

    async def do_wait(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()
        return text("never")

    async def do_crash(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        raise RuntimeError("secret")

    async def do_error(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        raise mcprev.RpcError("mine", code=-31000, data={"x": 1})

    async def do_invalid(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        return m.CallToolResult.model_construct(content="secret")

    async def do_nothing(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        return None  # type: ignore[return-value]

    async def do_url(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        raise UrlElicitationRequired("go")

    async def do_ask(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        first = await ctx.ask("first", form())
        second = await ctx.ask("second", sample())
        roots = await ctx.ask("roots", m.ListRootsRequest())
        return text([first.action, first.content, second.model, [root.uri for root in roots.roots]])

    async def do_ask_both(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        async with asyncio.TaskGroup() as group:
            one = group.create_task(ctx.ask("one", form("one")))
            two = group.create_task(ctx.ask("two", form("two")))
        return text([one.result().action, two.result().action])

    async def do_ask_url(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        return text((await ctx.ask("url", url())).action)

    async def do_explicit(
        self, ctx: mcprev.Context, params: m.CallToolRequestParams
    ) -> m.CallToolResult | m.InputRequiredResult:
        answers = params.input_responses or {}
        if "a" not in answers:
            return m.InputRequiredResult(input_requests={"a": form()}, request_state="mine 1")
        if "b" not in answers:
            assert params.request_state == "mine 1"
            return m.InputRequiredResult(input_requests={"b": sample()}, request_state="mine 2")
        return text([sorted(answers), params.request_state])

    async def do_explicit_url(self, ctx: mcprev.Context, params: Any) -> m.InputRequiredResult:
        return m.InputRequiredResult(input_requests={"u": url()})

    async def do_forever(self, ctx: mcprev.Context, params: Any) -> m.InputRequiredResult:
        return m.InputRequiredResult(input_requests={f"k{self.runs}": form()})

    async def do_changed(self, ctx: mcprev.Context, params: Any) -> m.CallToolResult:
        ctx.changed("tools")
        ctx.changed("resource", "a:1")
        ctx.changed("resource", "a:2")
        return text("done")

    async def list_resources(
        self, ctx: mcprev.Context, params: m.PaginatedRequestParams
    ) -> m.ListResourcesResult:
        return m.ListResourcesResult(resources=[m.Resource(name="r", uri="a:1", title="R")])

    async def list_resource_templates(
        self, ctx: mcprev.Context, params: m.PaginatedRequestParams
    ) -> m.ListResourceTemplatesResult:
        return m.ListResourceTemplatesResult(
            resource_templates=[m.ResourceTemplate(name="t", uri_template="a:{x}")]
        )

    async def read_resource(
        self, ctx: mcprev.Context, params: m.ReadResourceRequestParams
    ) -> m.ReadResourceResult:
        if params.uri == "a:ask":
            answer = await ctx.ask("r", form())
            return m.ReadResourceResult(contents=[m.TextResourceContents(uri=params.uri, text=answer.action)])
        if params.uri != "a:1":
            raise ResourceNotFound("no such resource", data={"uri": params.uri})
        return m.ReadResourceResult(contents=[m.TextResourceContents(uri=params.uri, text="one")], ttl_ms=5)

    async def list_prompts(
        self, ctx: mcprev.Context, params: m.PaginatedRequestParams
    ) -> m.ListPromptsResult:
        return m.ListPromptsResult(prompts=[m.Prompt(name="p")])

    async def get_prompt(self, ctx: mcprev.Context, params: m.GetPromptRequestParams) -> m.GetPromptResult:
        content = m.TextContent(text=str(params.arguments))
        return m.GetPromptResult(messages=[m.PromptMessage(role="user", content=content)])

    async def complete(self, ctx: mcprev.Context, params: m.CompleteRequestParams) -> m.CompleteResult:
        known = params.context.arguments if params.context else None
        values = [params.argument.value + "x", str(known)]
        return m.CompleteResult(completion=m.CompleteResultCompletion(values=values))


class Helpful(mcprev.ClientHandler):
    """A client that answers everything."""

    def __init__(self) -> None:
        self.logs: list[tuple[str, Any]] = []
        self.tool_changes = 0
        self.asked: list[str] = []

    async def logging_message(
        self, ctx: mcprev.ClientContext, params: m.LoggingMessageNotificationParams
    ) -> None:
        self.logs.append((params.level, params.data))

    async def tool_list_changed(self, ctx: mcprev.ClientContext, params: m.NotificationParams | None) -> None:
        self.tool_changes += 1

    async def create_message(
        self, ctx: mcprev.ClientContext, params: m.CreateMessageRequestParams
    ) -> m.CreateMessageResult:
        self.asked.append("sampling")
        return m.CreateMessageResult(role="assistant", model="mm", content=m.TextContent(text="it"))

    async def list_roots(self, ctx: mcprev.ClientContext, params: Any) -> m.ListRootsResult:
        self.asked.append("roots")
        return m.ListRootsResult(roots=[m.Root(uri="file:///x")])

    async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
        self.asked.append(params.message)
        return m.ElicitResult(action="accept", content={"name": "bob"})


class Refusing(mcprev.ClientHandler):
    """A client that can be asked and refuses."""

    async def elicit(self, ctx: mcprev.ClientContext, params: m.ElicitRequestParams) -> m.ElicitResult:
        raise mcprev.RpcError("no", code=-1)


URLS = m.ClientCapabilities(elicitation=m.ClientCapabilitiesElicitation(url={}))
