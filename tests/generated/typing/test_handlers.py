"""The static types that users' code sees; `make check` verifies the assertions, and running the test the imports.

For the newest revision of each era, and the draft: handlers with a context of the user's own, results narrowed by
their class, callers with the return type of the method.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, assert_type

from typing_extensions import override

from mcprev_types import ABSENT, MethodSpec, draft, latest, latest as fifth, v2025_11_25 as fourth


@dataclass
class Context:
    user: str


class FirstServer(fourth.ServerHandler[Context]):
    @override
    async def call_tool(self, ctx: Context, params: fourth.CallToolRequestParams) -> fourth.CallToolResult:
        assert_type(params.name, str)
        assert_type(params.arguments, dict[str, Any] | None)
        return fourth.CallToolResult(content=[fourth.TextContent(text=ctx.user)])

    @override
    async def ping(self, ctx: Context, params: fourth.RequestParams | None) -> fourth.EmptyResult:
        return fourth.EmptyResult()


class FirstClient(fourth.ClientHandler[Context]):
    @override
    async def list_roots(self, ctx: Context, params: fourth.RequestParams | None) -> fourth.ListRootsResult:
        return fourth.ListRootsResult(roots=[fourth.Root(uri="file:///")])

    @override
    async def logging_message(self, ctx: Context, params: fourth.LoggingMessageNotificationParams) -> None:
        assert_type(params.data, Any)


class SecondServer(fourth.ServerHandler[Context]):
    @override
    async def complete(self, ctx: Context, params: fourth.CompleteRequestParams) -> fourth.CompleteResult:
        assert_type(params.ref, fourth.PromptReference | fourth.ResourceTemplateReference)
        return fourth.CompleteResult(completion=fourth.CompleteResultCompletion(values=["a"]))


class SecondClient(fourth.ClientHandler[Context]):
    @override
    async def create_message(
        self, ctx: Context, params: fourth.CreateMessageRequestParams
    ) -> fourth.CreateMessageResult:
        assert_type(params.max_tokens, int)
        return fourth.CreateMessageResult(role="assistant", model="m", content=fourth.TextContent(text="a"))


class ThirdServer(fourth.ServerHandler[Context]):
    @override
    async def list_tools(
        self, ctx: Context, params: fourth.PaginatedRequestParams | None
    ) -> fourth.ListToolsResult:
        if params is not None:
            assert_type(params.cursor, str | None)
        return fourth.ListToolsResult(tools=[fourth.Tool(name="a", input_schema=fourth.ToolInputSchema())])


class ThirdClient(fourth.ClientHandler[Context]):
    @override
    async def elicit(self, ctx: Context, params: fourth.ElicitRequestParams) -> fourth.ElicitResult:
        return fourth.ElicitResult(action="accept", content={"a": 1, "b": "x", "c": True})


class FourthServer(fourth.ServerHandler[Context]):
    @override
    async def call_tool(
        self, ctx: Context, params: fourth.CallToolRequestParams
    ) -> fourth.CallToolResult | fourth.CreateTaskResult:
        if params.task is None:
            return fourth.CallToolResult(content=[])
        task = fourth.Task(task_id="1", status="working", created_at="t", last_updated_at="t", ttl=None)
        assert_type(task.ttl, int | None)
        return fourth.CreateTaskResult(task=task)

    @override
    async def list_prompts(
        self, ctx: Context, params: fourth.PaginatedRequestParams | None
    ) -> fourth.ListPromptsResult:
        return fourth.ListPromptsResult(prompts=[])


class Narrower(fourth.ServerHandler[Context]):
    """A stub may promise less than the revision allows."""

    @override
    async def call_tool(self, ctx: Context, params: fourth.CallToolRequestParams) -> fourth.CallToolResult:
        return fourth.CallToolResult(content=[])


class FourthClient(fourth.ClientHandler[Context]):
    @override
    async def elicit(self, ctx: Context, params: fourth.ElicitRequestParams) -> fourth.ElicitResult:
        if isinstance(params, fourth.ElicitRequestURLParams):
            assert_type(params.url, str)
            return fourth.ElicitResult(action="decline")
        assert_type(params, fourth.ElicitRequestFormParams)
        return fourth.ElicitResult(action="accept", content={"a": ["x"]})


class FifthServer(fifth.ServerHandler[Context]):
    @override
    async def call_tool(
        self, ctx: Context, params: fifth.CallToolRequestParams
    ) -> fifth.CallToolResult | fifth.InputRequiredResult:
        assert_type(params.meta.protocol_version, str)
        if params.input_responses is None:
            return fifth.InputRequiredResult(input_requests={}, request_state="s")
        return fifth.CallToolResult(content=[], structured_content=None)

    @override
    async def discover(self, ctx: Context, params: fifth.RequestParams) -> fifth.DiscoverResult:
        raise NotImplementedError


class FifthClient(fifth.ClientHandler[Context]):
    @override
    async def progress(self, ctx: Context, params: fifth.ProgressNotificationParams) -> None:
        assert_type(params.progress, int | float)


class DraftServer(draft.ServerHandler[None]):
    @override
    async def call_tool(
        self, ctx: None, params: draft.CallToolRequestParams
    ) -> draft.CallToolResult | draft.InputRequiredResult:
        return draft.CallToolResult(content=[])


class DraftClient(draft.ClientHandler[None]):
    @override
    async def list_roots(
        self, ctx: None, params: draft.ListRootsRequestParams | None
    ) -> draft.ListRootsResult:
        return draft.ListRootsResult(roots=[])


class Answering:
    """A connection that has an answer to one question."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    async def send(self, method: MethodSpec, params: object | None, /) -> object:
        return self.answer


async def use_callers() -> None:
    """Callers return what the method returns; a union is narrowed by the class of the answer."""
    one = await fourth.ClientCalls(Answering(fourth.ListToolsResult(tools=[]))).list_tools()
    assert_type(one, fourth.ListToolsResult)
    none = await fourth.ServerCalls(Answering(None)).tool_list_changed()  # type: ignore[func-returns-value]
    assert none is None
    calls = fourth.ClientCalls(Answering(fourth.CallToolResult(content=[])))
    result = await calls.call_tool(fourth.CallToolRequestParams(name="a"))
    assert_type(result, fourth.CallToolResult | fourth.CreateTaskResult)
    if isinstance(result, fourth.CreateTaskResult):
        assert_type(result.task, fourth.Task)
    else:
        assert_type(result, fourth.CallToolResult)
    server = fourth.ServerCalls(Answering(fourth.ElicitResult(action="cancel")))
    form = fourth.ElicitRequestFormParamsRequestedSchema(properties={})
    elicited = await server.elicit(fourth.ElicitRequestFormParams(message="m", requested_schema=form))
    assert_type(elicited, fourth.ElicitResult | fourth.CreateTaskResult)


def look_at_values() -> None:
    """Members have the types that the schema gives them; what is absent is told apart from null."""
    result = fifth.CallToolResult(content=[])
    if result.structured_content is not ABSENT:
        raise AssertionError
    task = fourth.Task.from_wire(
        {"taskId": "1", "status": "working", "createdAt": "", "lastUpdatedAt": "", "ttl": 1}
    )
    assert_type(task, fourth.Task)
    assert_type(task.to_wire(), dict[str, Any])
    assert_type(task.to_json(), bytes)
    request = fourth.JSONRPCRequest(id=1, method="x")
    assert_type(request.id, str | int)
    assert_type(latest.CallToolResult(content=[]), fifth.CallToolResult)
    text = fourth.TextContent(text="a")
    assert text.type == "text"
    assert fourth.PARSE_ERROR == -32700
    for block in fourth.CallToolResult(content=[fourth.TextContent(text="a")]).content:
        if isinstance(block, fourth.TextContent):
            assert_type(block.text, str)
        elif isinstance(block, fourth.ImageContent):
            assert_type(block.data, str)


def test_the_code_above_runs() -> None:
    look_at_values()
    asyncio.run(use_callers())
    context = Context("me")
    params = fourth.CallToolRequestParams(name="a")
    answer = asyncio.run(FirstServer().call_tool(context, params))
    assert answer.to_wire() == {"content": [{"type": "text", "text": "me"}]}
    every: tuple[type, ...] = (
        FirstClient, SecondServer, SecondClient, ThirdServer, ThirdClient, FourthServer, FourthClient, FifthServer,
        FifthClient, DraftServer, DraftClient, Narrower,
    )  # fmt: skip
    for handler in every:
        handler()
