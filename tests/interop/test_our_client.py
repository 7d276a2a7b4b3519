"""Our client and servers on releases of the official SDKs: what each side observed of the other.

`make interop` puts each release into an environment of its own; without them these tests are skipped. Every peer is
started once, holds one connection for all cases, and keeps a journal of what reached it, which a tool hands out.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import mcprev
from helpers.requirements import NAMES, B, C, D, E, req
from helpers.running import run
from interop.defects import DIES_OF_CANCELLING
from interop.holding import Held, case, text_of
from interop.peers import PEERS, Peer
from mcprev.protocol.subscriptions import Changed
from mcprev_types.latest import models as m

TOOLS = [
    "echo", "add", "fail", "who", "progress", "log", "sample", "sample_slowly", "sample_tools", "elicit", "elicit_url", "roots",
    "ping", "wait", "change",
]  # fmt: skip
EXTRA = {"com.example/trace": "t1"}
UNKNOWN = "memo:///unknown"


OLDER = [
    pytest.param(peer, revision, id=f"{revision}-{peer.name}{peer.release}", marks=peer.missing())
    for peer in PEERS
    if peer.transport == "stdio" and peer.mode == "auto"
    for revision in NAMES[: NAMES.index(peer.revision)]
]
"""Every release with the revisions that it knows besides its newest."""


# -- who is there ------------------------------------------------------------------------------------------------


@case("NEG-2", "LIFE-14", "SEAM-3")
async def test_both_sides_learn_who_the_other_is(server: Held) -> None:
    client, newest = server.client, server.peer.revision
    assert client.revision == newest
    assert client.server_info is not None
    assert (client.server_info.name, client.server_info.version) == ("everything", "1.0")
    assert client.instructions == "Try it all."
    capabilities = client.capabilities.to_wire()
    assert {"tools", "resources", "prompts"} <= set(capabilities)

    await client.call_tool("who")
    who = await server.noted("who")
    assert who["revision"] == (
        E if newest == E else D
    ), "sessions are opened with the newest revision that has them"
    assert who["info"] == {"name": "interop", "version": "1.2"}
    assert {"sampling", "roots", "elicitation"} <= set(who["capabilities"])


@req("NEG-12", "LIFE-2")
@pytest.mark.parametrize(("peer", "revision"), OLDER)
def test_an_older_revision_can_be_asked_for(peer: Peer, revision: str) -> None:
    async def main() -> None:
        target = mcprev.stdio(*peer.script("server"))
        async with mcprev.connect(target, mode=revision, name="interop") as client:
            assert client.revision == revision
            assert text_of(await client.call_tool("echo", {"text": "hello"})) == "hello"
            await client.call_tool("who")
            entries = json.loads(text_of(await client.call_tool("journal")))
            assert [entry["revision"] for entry in entries if entry["what"] == "who"] == [revision]

    run(main())


@case("PING-1", until=D)
async def test_pings_are_answered_both_ways(server: Held) -> None:
    await server.client.ping()
    await server.client.call_tool("ping")
    assert (await server.noted("ponged"))["result"] == {}


# -- tools -------------------------------------------------------------------------------------------------------


@case("TOOL-1", "MOD-12")
async def test_all_the_tools_are_listed(server: Held) -> None:
    tools = {tool.name: tool async for tool in server.client.tools()}
    assert list(tools) == TOOLS
    assert tools["add"].description == "Adds."
    assert tools["add"].input_schema.to_wire()["properties"] == {
        "a": {"type": "number"},
        "b": {"type": "number"},
    }


@case("PAGE-1", "PAGE-3")
async def test_lists_are_read_page_by_page(server: Held) -> None:
    client = server.client
    first = await client.list_tools()
    assert [tool.name for tool in first.tools] == TOOLS[:5]
    second = await client.list_tools(first.next_cursor)
    assert [tool.name for tool in second.tools] == TOOLS[5:10]
    resources, prompts = await client.list_resources(), await client.list_prompts()
    assert [len(resources.resources), resources.next_cursor] == [1, "1"]
    assert [len(prompts.prompts), prompts.next_cursor] == [1, "1"]


@case("META-9", "BASE-5")
async def test_a_call_arrives_as_it_was_made(server: Held) -> None:
    result = await server.client.call_tool("echo", {"text": "héllo\n"}, meta=EXTRA)
    assert text_of(result) == "héllo\n"
    assert not result.is_error
    call = await server.noted("call")
    assert (call["tool"], call["arguments"]) == ("echo", {"text": "héllo\n"})
    assert EXTRA.items() <= call["meta"].items()


@case("BASE-5")
async def test_many_calls_at_a_time_get_their_own_answers(server: Held) -> None:
    numbers = [str(number) for number in range(20)]
    results = await asyncio.gather(*(server.client.call_tool("echo", {"text": number}) for number in numbers))
    assert [text_of(result) for result in results] == numbers
    arrived = [entry["arguments"]["text"] for entry in await server.journal()]
    assert sorted(arrived) == sorted(numbers)


@case("TOOL-4", "TOOL-5", since=C)
async def test_structured_content_comes_beside_text(server: Held) -> None:
    result = await server.client.call_tool("add", {"a": 1, "b": 2.5})
    assert result.structured_content == {"sum": 3.5}
    assert text_of(result) == "3.5"


@case("TOOL-8", "BASE-6")
async def test_a_tool_that_fails_gives_a_result(server: Held) -> None:
    result = await server.client.call_tool("fail")
    assert result.is_error
    assert text_of(result) == "it failed"
    assert (await server.noted("call"))["tool"] == "fail"


# -- progress, logging, cancellation -----------------------------------------------------------------------------


@case("PROG-1", "PROG-3")
async def test_progress_is_told_with_what_the_revision_has(server: Held) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    result = await server.client.call_tool("progress", progress=tell)
    assert told == [(1, 2, "half" if server.peer.since(B) else None), (2, None, None)]
    assert text_of(result) == "done"


@case("LOG-5")
async def test_logging_from_the_level_asked_for(server: Held) -> None:
    await server.client.call_tool("log", log_level="info")
    assert server.handler.heard == [("log", level, {"at": level}, "here") for level in ("info", "error")]
    if server.peer.since(E):
        server.handler.heard.clear()
        await server.client.call_tool("log")
        assert server.handler.heard == [], "what is not asked for is not sent"


@case("LOG-2", "LOG-5", until=D)
async def test_a_level_is_set_for_the_session(server: Held) -> None:
    await server.client.set_log_level("error")
    assert (await server.noted("level"))["level"] == "error"
    await server.client.call_tool("log")
    assert server.handler.heard == [("log", "error", {"at": "error"}, "here")]
    await server.client.set_log_level("debug")


@case("CANC-1", "CANC-7")
async def test_a_call_that_is_given_up_is_stopped_there(server: Held) -> None:
    call = asyncio.create_task(server.client.call_tool("wait"))
    await server.noted("waiting")
    call.cancel()
    await asyncio.wait({call})
    assert call.cancelled()
    await server.said("noted stopped")
    if DIES_OF_CANCELLING.concerns(server.peer):
        await server.renew()


@case("CANC-7", "LIFE-18")
async def test_a_call_that_takes_too_long_is_stopped_there(server: Held) -> None:
    with pytest.raises(mcprev.RequestTimeout):
        await server.client.call_tool("wait", timeout=0.2)
    await server.said("noted stopped")
    if DIES_OF_CANCELLING.concerns(server.peer):
        await server.renew()


@case("CANC-3")
async def test_a_session_goes_on_after_cancelling(server: Held) -> None:
    calls = [asyncio.create_task(server.client.call_tool("wait")) for _ in range(3)]
    echo = asyncio.create_task(server.client.call_tool("echo", {"text": "on its way"}))
    await server.noted("waiting")
    for call in calls:
        call.cancel()
    assert text_of(await echo) == "on its way"
    await server.noted("stopped")
    for _ in range(5):  # a server that dies of it may still answer the first
        assert text_of(await server.client.call_tool("echo", {"text": "still there"})) == "still there"


# -- resources ---------------------------------------------------------------------------------------------------


@case("RES-4", "PAGE-3")
async def test_resources_and_templates_are_listed(server: Held) -> None:
    resources = [(resource.name, resource.uri) async for resource in server.client.resources()]
    assert resources == [("one", "memo:///one"), ("bytes", "memo:///bytes")]
    templates = [template async for template in server.client.resource_templates()]
    assert [(t.name, t.uri_template, t.mime_type) for t in templates] == [
        ("memo", "memo:///{name}", "text/plain")
    ]


@case("RES-1")
async def test_resources_are_read(server: Held) -> None:
    text = (await server.client.read_resource("memo:///one")).contents
    assert [part.to_wire() for part in text] == [
        {"uri": "memo:///one", "mimeType": "text/x-memo", "text": "one"}
    ]
    data = (await server.client.read_resource("memo:///bytes")).contents
    assert [part.to_wire() for part in data] == [
        {"uri": "memo:///bytes", "mimeType": "text/x-memo", "blob": "AP8="}
    ]
    assert [entry["uri"] for entry in await server.journal()] == ["memo:///one", "memo:///bytes"]


@case("ERR-2")
async def test_a_missing_resource_is_told_as_such(server: Held) -> None:
    with pytest.raises(mcprev.ResourceNotFound, match="no such memo") as caught:
        await server.client.read_resource(UNKNOWN)
    assert caught.value.data == {"uri": UNKNOWN}
    assert (await server.noted("read"))["uri"] == UNKNOWN


@case("SUB-7", until=D)
async def test_changes_are_heard_of_in_a_session(server: Held) -> None:
    async with server.client.listen(
        tools=True, prompts=True, resources=True, uris=["memo:///one"]
    ) as changes:
        assert (await server.noted("subscribed"))["uri"] == "memo:///one"
        await server.client.call_tool("change")
        heard = [await anext(changes) for _ in range(4)]
    assert heard == [
        mcprev.Change(Changed.TOOLS),
        mcprev.Change(Changed.PROMPTS),
        mcprev.Change(Changed.RESOURCES),
        mcprev.Change(Changed.RESOURCE, "memo:///one"),
    ]
    assert (await server.noted("unsubscribed"))["uri"] == "memo:///one"


@case("SUB-5", "SUB-7", since=E)
async def test_changes_are_heard_of_on_streams(server: Held) -> None:
    client = server.client
    async with client.listen(tools=True, uris=["memo:///one"]) as one, client.listen(prompts=True) as other:
        assert (await server.noted("listening"))["wants"] == {
            "toolsListChanged": True,
            "resourceSubscriptions": ["memo:///one"],
        }
        await client.call_tool("change")
        heard = [await anext(one), await anext(one)]
        assert heard == [mcprev.Change(Changed.TOOLS), mcprev.Change(Changed.RESOURCE, "memo:///one")]
        assert await anext(other) == mcprev.Change(Changed.PROMPTS)
    assert [await server.noted("listened"), len(await server.journal()) <= 1] == [{"what": "listened"}, True]


# -- prompts and completion --------------------------------------------------------------------------------------


@case("PROM-1")
async def test_prompts_are_listed_and_filled_in(server: Held) -> None:
    prompts = [prompt async for prompt in server.client.prompts()]
    assert [prompt.name for prompt in prompts] == ["greet", "bare"]
    asked = (prompts[0].arguments or [])[0]
    assert (asked.name, asked.description, asked.required) == ("name", "Whom to greet.", True)

    prompt = await server.client.get_prompt("greet", {"name": "ann"})
    assert prompt.description == "A greeting."
    message = {"role": "user", "content": {"type": "text", "text": "hello ann"}}
    assert [part.to_wire() for part in prompt.messages] == [message]
    assert await server.noted("prompt") == {"what": "prompt", "name": "greet", "arguments": {"name": "ann"}}


@case("COMP-2", "CONV-29")
async def test_arguments_are_completed(server: Held) -> None:
    ref = m.PromptReference(name="greet")
    found = (await server.client.complete(ref, "name", "an", {"tone": "warm"})).completion
    assert (found.values, found.total, found.has_more) == (["anx"], 7, True)
    asked = await server.noted("complete")
    assert asked["ref"] == {"type": "ref/prompt", "name": "greet"}
    assert asked["argument"] == {"name": "name", "value": "an"}
    assert asked["context"] == ({"arguments": {"tone": "warm"}} if server.peer.since(C) else None)

    await server.client.complete(m.ResourceTemplateReference(uri="memo:///{name}"), "name", "o")
    assert (await server.noted("complete"))["ref"] == {"type": "ref/resource", "uri": "memo:///{name}"}


# -- what servers ask --------------------------------------------------------------------------------------------


@case("SAMP-1", "MRTR-12")
async def test_the_client_samples_for_the_server(server: Held) -> None:
    assert text_of(await server.client.call_tool("sample")) == "done"
    [(_, asked)] = server.handler.heard
    assert [message["content"] for message in _listed(asked["messages"])] == [
        [{"type": "text", "text": "say it"}]
    ]
    assert (asked["maxTokens"], asked["systemPrompt"], asked["temperature"]) == (9, "be brief", 0.5)
    assert (asked["stopSequences"], asked["modelPreferences"]) == (
        ["stop"],
        {"hints": [{"name": "small"}], "speedPriority": 1.0},
    )
    assert (await server.noted("sampled"))["result"] == {
        "role": "assistant",
        "content": {"type": "text", "text": "it"},
        "model": "mini",
        "stopReason": "endTurn",
    }


@case("ERR-9", "MRTR-10")
async def test_the_user_refuses_to_sample(server: Held) -> None:
    server.handler.refusing = True
    if server.peer.since(E):
        with pytest.raises(mcprev.InputDeclined, match="the user said no"):
            await server.client.call_tool("sample")
        assert [entry["what"] for entry in await server.journal()] == ["call"], "the call is not made again"
    else:
        await server.client.call_tool("sample")
        refused = await server.noted("refused")
        assert (refused["code"], refused["message"]) == (-1, "the user said no")


@case("PROG-3", since=B, until=D)
async def test_the_client_reports_progress_too(server: Held) -> None:
    await server.client.call_tool("sample_slowly")
    told = await server.noted("told")
    assert (told["progress"], told["total"], told["message"]) == (1, 2, "thinking")


@case("SAMP-2", "SAMP-4", since=D)
async def test_the_client_samples_with_tools(server: Held) -> None:
    await server.client.call_tool("sample_tools")
    [(_, asked)] = server.handler.heard
    assert [tool["name"] for tool in asked["tools"]] == ["add"]
    assert asked["toolChoice"] == {"mode": "required"}
    result = (await server.noted("sampled"))["result"]
    assert result["stopReason"] == "toolUse"
    [use] = _listed([result])[0]["content"]
    assert use == {"type": "tool_use", "id": "u1", "name": "add", "input": {"a": 1, "b": 2}}


@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
@case("ELIC-1", "ELIC-3", since=C)
async def test_the_user_answers_a_form(server: Held, action: str) -> None:
    server.handler.action = action
    await server.client.call_tool("elicit", {"message": "who is it?"})
    [(_, asked)] = server.handler.heard
    assert asked["message"] == "who is it?"
    assert asked["requestedSchema"]["properties"] == {"name": {"type": "string"}}
    assert asked["requestedSchema"]["required"] == ["name"]
    content = {"content": {"name": "ann"}} if action == "accept" else {}
    assert (await server.noted("elicited"))["result"] == {"action": action, **content}


@pytest.mark.parametrize("action", ["accept", "decline"])
@case("ELIC-1", "ELIC-6", since=D)
async def test_the_user_is_sent_to_a_url(server: Held, action: str) -> None:
    server.handler.action = action
    await server.client.call_tool("elicit_url")
    [(_, asked)] = server.handler.heard
    assert (asked["mode"], asked["message"], asked["url"]) == (
        "url",
        "go there",
        "https://example.com/sign-in",
    )
    assert (await server.noted("elicited"))["result"] == {"action": action}


@case("MRTR-5", "MRTR-12")
async def test_prompts_and_resources_ask_too(server: Held) -> None:
    prompt = await server.client.get_prompt("bare")
    assert [part.to_wire()["content"]["text"] for part in prompt.messages] == ["hello home"]
    resource = await server.client.read_resource("memo:///signed")
    assert [part.to_wire()["text"] for part in resource.contents] == ["home"]
    assert server.handler.heard == [("roots",), ("roots",)]


@case("MRTR-5", since=E)
async def test_state_comes_back_with_the_answers(server: Held) -> None:
    await server.client.call_tool("roots", meta=EXTRA)
    first, second, answered, _ = await server.journal()
    assert (first["tool"], second["tool"]) == ("roots", "roots"), "the call is made again"
    assert EXTRA.items() <= second["meta"].items()
    assert answered["state"] == "kept"


@case("ROOT-1", "MRTR-12")
async def test_roots_are_told(server: Held) -> None:
    await server.client.call_tool("roots")
    assert (await server.noted("roots"))["result"] == {"roots": [{"uri": "file:///srv/ann", "name": "home"}]}
    if not server.peer.since(E):
        server.client.roots_changed()
        await server.noted("roots changed")


# -- other ways to serve HTTP ------------------------------------------------------------------------------------


@case("HTTP-7", transports=("http",))
async def test_servers_that_answer_with_json(server: Held) -> None:
    await _try(server, "json")


@case("HTTP-19", "HTTP-20", "NEG-6", transports=("http",))
async def test_servers_without_sessions(server: Held) -> None:
    await _try(server, "stateless")


async def _try(server: Held, path: str) -> None:
    """Use what needs neither a session nor a stream, at another path of the server."""
    target = mcprev.http(server.url.replace("/mcp", f"/{path}"))
    async with mcprev.connect(target, mode=server.peer.mode, name="interop") as client:
        assert client.revision == server.peer.revision
        assert TOOLS[0] in [tool.name async for tool in client.tools()]
        numbers = [str(number) for number in range(5)]
        results = await asyncio.gather(*(client.call_tool("echo", {"text": number}) for number in numbers))
        assert [text_of(result) for result in results] == numbers
        with pytest.raises(mcprev.ResourceNotFound, match="no such memo"):
            await client.read_resource(UNKNOWN)
        assert (await client.get_prompt("greet", {"name": "ann"})).description == "A greeting."
    observed = [entry["what"] for entry in await server.journal()]
    assert observed == [*["call"] * 5, "read", "prompt"]


def _listed(messages: list[Any]) -> list[Any]:
    """Messages with their content as lists, in which form some revisions may have them."""
    return [
        {
            **message,
            "content": message["content"] if isinstance(message["content"], list) else [message["content"]],
        }
        for message in messages
    ]
