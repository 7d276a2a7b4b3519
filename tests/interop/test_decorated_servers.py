"""Our client and servers in the decorated style of the official Python SDK and of FastMCP, which is how most servers are written."""

from __future__ import annotations

import asyncio
import json

import pytest

from helpers.requirements import C
from interop.holding import Held, case, text_of
from interop.peers import MCP
from mcprev_types.latest import models as m


@case("TOOL-1", "JSCH-4", role="decorated")
async def test_generated_schemas_arrive(decorated: Held) -> None:
    tools = {tool.name: tool async for tool in decorated.client.tools()}
    schema = tools["add"].input_schema.to_wire()
    assert tools["add"].description == "Adds."
    assert schema["properties"]["a"]["type"] == "integer"
    titles = {"title": "B"} if decorated.peer.name == MCP else {}
    assert schema["properties"]["b"] == {"default": 1, "type": "integer", **titles}
    assert schema["required"] == ["a"]
    found = tools["weather"].output_schema
    if decorated.peer.since(C):
        assert found is not None
        assert set(found.to_wire()["properties"]) == {"city", "degrees"}
    else:
        assert found is None


@case("TOOL-4", "TOOL-6", role="decorated")
async def test_results_are_structured(decorated: Held) -> None:
    added = await decorated.client.call_tool("add", {"a": 1, "b": 2})
    weather = await decorated.client.call_tool("weather", {"city": "Oslo"})
    assert text_of(added) == "3"
    if decorated.peer.since(C):
        assert added.structured_content == {"result": 3}
        assert weather.structured_content == {"city": "Oslo", "degrees": 21.5}
    assert json.loads(text_of(weather)) == {"city": "Oslo", "degrees": 21.5}
    assert await decorated.noted("call") == {"what": "call", "a": 1, "b": 2}


@case("CONV-1", "RES-1", role="decorated")
async def test_images_arrive(decorated: Held) -> None:
    [image] = (await decorated.client.call_tool("picture")).content
    assert isinstance(image, m.ImageContent)
    assert (image.mime_type, image.data) == ("image/png", "iVBORw==")


@case("TOOL-2", "TOOL-8", role="decorated")
async def test_failures_are_results(decorated: Held) -> None:
    failed = await decorated.client.call_tool("fail")
    assert failed.is_error
    assert "fail" in text_of(failed)
    wrong = await decorated.client.call_tool("add", {"a": "much"})
    assert wrong.is_error
    assert await decorated.journal() == []


@case("LOG-5", "PROG-1", role="decorated")
async def test_tools_report_and_log(decorated: Held) -> None:
    told: list[tuple[float, float | None]] = []
    heard = asyncio.Event()

    def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total))
        heard.set()

    working = asyncio.create_task(decorated.client.call_tool("work", progress=tell, log_level="info"))
    await heard.wait()
    await decorated.client.call_tool("proceed")
    assert text_of(await working) == "done"
    assert told == [(1, 2)]
    assert [(level, data) for _, level, data, _ in decorated.handler.heard] == [("info", "working")]


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
@case("ELIC-1", "MRTR-5", "MRTR-12", since=C, role="decorated")
async def test_tools_ask_for_forms(decorated: Held, action: str) -> None:
    decorated.handler.action = action
    assert text_of(await decorated.client.call_tool("ask")) == action
    elicited = await decorated.noted("elicited")
    assert (elicited["action"], elicited["name"]) == (action, "ann" if action == "accept" else None)
    [(_, asked)] = decorated.handler.heard
    assert asked["requestedSchema"]["properties"]["name"]["type"] == "string"


@case("RES-1", "RES-4", role="decorated")
async def test_resources_are_read(decorated: Held) -> None:
    client = decorated.client
    assert [resource.uri async for resource in client.resources()] == ["memo:///one", "memo:///bytes"]
    templates = [template.uri_template async for template in client.resource_templates()]
    assert templates == ["memo:///{name}/copy"]
    for uri, name, content in (
        ("memo:///one", "text", "one"),
        ("memo:///bytes", "blob", "AP8="),
        ("memo:///two/copy", "text", "a copy of two"),
    ):
        [part] = (await client.read_resource(uri)).contents
        assert (part.uri, part.to_wire()[name]) == (uri, content)


@case("PROM-1", role="decorated")
async def test_prompts_are_filled_in(decorated: Held) -> None:
    [prompt] = [prompt async for prompt in decorated.client.prompts()]
    assert [(asked.name, asked.required) for asked in prompt.arguments or []] == [("name", True)]
    messages = (await decorated.client.get_prompt("greet", {"name": "ann"})).messages
    said = [(message.role, message.content.to_wire()["text"]) for message in messages]
    assert said == [("user", "hello ann"), ("assistant", "hello")]
