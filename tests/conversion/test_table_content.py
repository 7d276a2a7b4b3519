"""The conversion table, content and tools: each CONV id at each revision it concerns."""

from __future__ import annotations

import json
import logging
from typing import Any, Final

import pytest

from conversion.peers import OLDER, A, B, C, D, E, Json, down, instead, up
from helpers.requirements import req
from helpers.support import same
from mcprev.conversion import PayloadKind
from mcprev.errors import ConversionError

RESULT, PARAMS = PayloadKind.RESULT, PayloadKind.PARAMS
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
each_older = pytest.mark.parametrize("to", OLDER)


def text(said: str, **more: Json) -> dict[str, Json]:
    return {"type": "text", "text": said, **more}


def called(*content: Json, **more: Json) -> dict[str, Json]:
    return {"content": list(content), "resultType": "complete", **more}


def told(content: Json) -> dict[str, Json]:
    return {"messages": [{"role": "user", "content": content}], "resultType": "complete"}


def tools(tool: Json) -> dict[str, Json]:
    return {"tools": [tool], "resultType": "complete", "ttlMs": 5, "cacheScope": "public"}


def tool_at(tool: Json, to: str) -> Json:
    return down(tools(tool), "tools/list", RESULT, to)["tools"][0]


def listed(method: str, member: str, item: Json, to: str) -> Json:
    value = {member: [item], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return down(value, method, RESULT, to)[member][0]


def is_at(to: str, *revisions: str) -> bool:
    return to in revisions


AUDIO: Final = {"type": "audio", "data": "AA==", "mimeType": "audio/x wav", "annotations": {"priority": 1}}
AS_RESOURCE: Final = {
    "type": "resource",
    "resource": {
        "uri": "data:audio/x%20wav;base64,AA==",
        "mimeType": "audio/x wav",
        "blob": "AA==",
    },
    "annotations": {"priority": 1},
}
LINK: Final = {
    "type": "resource_link",
    "uri": "file:///a",
    "name": "a",
    "title": "A file",
    "annotations": {"audience": ["user"], "lastModified": "2026-01-01T00:00:00Z"},
    "icons": [{"src": "https://x.test/i.png"}],
    "_meta": {"vendor/x": 1},
}
PLAIN: Final = {"type": "object"}


# -- content ---------------------------------------------------------------------------------------------


@req("CONV-1")
@each_older
def test_conv_01_audio(to: str) -> None:
    wanted = AS_RESOURCE if to == A else AUDIO
    assert down(called(text("x"), AUDIO), "tools/call", RESULT, to)["content"] == [text("x"), wanted]
    assert down(told(AUDIO), "prompts/get", RESULT, to)["messages"][0]["content"] == wanted


@req("CONV-1")
@each_older
def test_conv_01_audio_in_sampling(to: str) -> None:
    params = {
        "messages": [{"role": "user", "content": text("?")}, {"role": "user", "content": AUDIO}],
        "maxTokens": 1,
    }
    result = {"role": "assistant", "content": AUDIO, "model": "m"}
    if to != A:
        assert same(down(params, "sampling/createMessage", PARAMS, to), params)
        assert same(down(result, "sampling/createMessage", RESULT, to), result)
        return
    with pytest.raises(ConversionError, match="audio is not possible") as caught:
        down(params, "sampling/createMessage", PARAMS, to)
    assert (caught.value.path, caught.value.revision) == ("$.messages[1].content", A)
    with pytest.raises(ConversionError, match="audio is not possible") as caught:
        down(result, "sampling/createMessage", RESULT, to)
    assert caught.value.path == "$.content"
    heard: Json = down(params, "sampling/createMessage", PARAMS, to, on_downgrade=instead(text("heard")))
    assert heard["messages"][1]["content"] == text("heard")


@req("CONV-2")
@each_older
def test_conv_02_resource_link(to: str) -> None:
    found = down(called(LINK), "tools/call", RESULT, to)["content"]
    if to in {A, B}:
        assert found == [text("A file: file:///a", annotations={"audience": ["user"]})]
    else:
        assert found == [LINK if to == D else {k: v for k, v in LINK.items() if k != "icons"}]


@req("CONV-2")
@each_older
def test_conv_02_resource_link_without_title(to: str) -> None:
    link = {"type": "resource_link", "uri": "x:y", "name": "n"}
    found = down(called(link), "tools/call", RESULT, to)["content"]
    assert found == [text("n: x:y") if to in {A, B} else link]


@req("CONV-2")
@each_older
def test_conv_02_author_embeds(to: str, caplog: pytest.LogCaptureFixture) -> None:
    asked: list[tuple[str, str]] = []

    def embed(value: Json, reason: str, row: str) -> Json:
        asked.append((reason, row))
        value.clear()  # what an author does with it is the author's business
        return {**EMBEDDED, "_meta": {"x": 1}, "annotations": {"lastModified": "2026"}}

    caplog.set_level(logging.DEBUG, "mcprev.convert")
    found = down(called(LINK), "tools/call", RESULT, to, on_downgrade=embed)["content"]
    if to in {A, B}:
        # The replacement is converted like anything else.
        assert found == [{**EMBEDDED, "annotations": {}}]
        assert asked == [("resource_link", to)]
        assert not caplog.records
        down(called(LINK), "tools/call", RESULT, to, on_downgrade=instead(None))
        assert [record.name for record in caplog.records] == ["mcprev.convert"]
    else:
        assert not asked


EMBEDDED: Final = {"type": "resource", "resource": {"uri": "file:///a", "text": "all of it"}}


@req("CONV-3")
@each_older
def test_conv_03_structured_object(to: str) -> None:
    structured = {"temperature": 21.5, "at": "Łódź"}
    same_text = text(json.dumps(structured, indent=2))
    for content, wanted in (
        ([text("warm")], [text("warm"), text('{"temperature":21.5,"at":"Łódź"}')]),
        ([], [text('{"temperature":21.5,"at":"Łódź"}')]),
        ([same_text], [same_text]),
    ):
        found = down(called(*content, structuredContent=structured), "tools/call", RESULT, to)
        if to in {A, B}:
            assert found == {"content": wanted}
        else:
            assert found == {"content": content, "structuredContent": structured}


SAID: Final[tuple[tuple[list[Json], Json, bool], ...]] = (
    ([text("[1, 2]")], {"result": [1, 2]}, True),
    ([text("1"), text("2")], {"result": [1, 2]}, True),
    ([text("a"), text('{"b": 1}')], {"result": ["a", {"b": 1}]}, True),
    ([text("done")], {"result": "done"}, True),
    ([text("warm"), text("21.5")], {"result": 21.5}, True),
    ([text("2"), text("1")], {"result": [1, 2]}, False),
    ([text("1")], {"result": [1, 2]}, False),
    ([], {"result": []}, False),
    ([text("[1, 2]")], {"result": [1, 2], "more": True}, False),
    ([text("done")], {"other": "done"}, False),
    ([text('{"ok": 1}')], {"ok": True}, False),
    ([text("1.0")], {"result": 1}, False),
)
"""Content, structured content, and whether the one says the other."""


@req("CONV-3")
@each_older
@pytest.mark.parametrize(("content", "structured", "says"), SAID)
def test_conv_03_what_the_content_says_does_not_come_twice(
    content: list[Json], structured: Json, says: bool, to: str
) -> None:
    found = down(called(*content, structuredContent=structured), "tools/call", RESULT, to)
    if to in {A, B}:
        more = [] if says else [text(json.dumps(structured, separators=(",", ":")))]
        assert found == {"content": [*content, *more]}
    else:
        assert found == {"content": content, "structuredContent": structured}


@req("CONV-4")
@each_older
@pytest.mark.parametrize("structured", [None, 0, False, "x", [1, {"a": None}]])
def test_conv_04_structured_other(to: str, structured: Json) -> None:
    found = down(called(structuredContent=structured, isError=False), "tools/call", RESULT, to)
    said = json.dumps(structured, separators=(",", ":"))
    assert found == {"content": [text(said)], "isError": False}
    kept = down(called(text(f" {said} "), structuredContent=structured), "tools/call", RESULT, to)
    assert kept == {"content": [text(f" {said} ")]}


@req("CONV-4", at=D)
def test_conv_04_structured_null_of_an_older_peer_is_absent() -> None:
    assert up({"content": [], "structuredContent": None}, "tools/call", RESULT, D) == called()


# -- tools -----------------------------------------------------------------------------------------------

SCHEMA: Final = {
    "type": "object",
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "properties": {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"$ref": "#/$defs/b"}},
    "required": ["a"],
    "$defs": {"b": {"anyOf": [{"type": "null"}, True]}},
    "additionalProperties": False,
}


@req("CONV-5")
@each_older
def test_conv_05_output_schema_of_an_object(to: str) -> None:
    found = tool_at({"name": "t", "inputSchema": PLAIN, "outputSchema": SCHEMA}, to)
    assert found == {"name": "t", "inputSchema": PLAIN} | ({} if to in {A, B} else {"outputSchema": SCHEMA})
    assert same(up({"tools": [found]}, "tools/list", RESULT, to)["tools"], [found])


@req("CONV-6")
@each_older
@pytest.mark.parametrize(
    "schema", [{"type": "array"}, {}, {"anyOf": [{"type": "object"}]}, {"type": ["object"]}]
)
def test_conv_06_output_schema_of_something_else(to: str, schema: Json) -> None:
    tool = {"name": "t", "inputSchema": PLAIN, "outputSchema": schema}
    assert tool_at(tool, to) == {"name": "t", "inputSchema": PLAIN}


@req("CONV-7")
@each_older
def test_conv_07_input_schema_keywords(to: str) -> None:
    tool = {"name": "t", "inputSchema": SCHEMA}
    assert same(tool_at(tool, to), tool)


@req("CONV-7")
@each_older
def test_conv_07_boolean_subschemas(to: str) -> None:
    schema = {"type": "object", "properties": {"any": True, "none": False, "text": {"type": "string"}}}
    wanted: Json = {"any": {}, "none": {"not": {}}, "text": {"type": "string"}}
    tool = tool_at({"name": "t", "inputSchema": schema, "outputSchema": schema}, to)
    assert tool["inputSchema"]["properties"] == wanted
    assert tool.get("outputSchema") == (None if to in {A, B} else {"type": "object", "properties": wanted})


@req("CONV-8")
@each_older
def test_conv_08_header_hints_in_schemas(to: str) -> None:
    found = tool_at({"name": "t", "inputSchema": SCHEMA}, to)
    assert found["inputSchema"]["properties"]["a"]["x-mcp-header"] == "A"


@req("CONV-9")
@each_older
def test_conv_09_tool_annotations(to: str) -> None:
    tool = {"name": "t", "inputSchema": PLAIN, "annotations": {"readOnlyHint": True}}
    assert tool_at(tool, to) == ({"name": "t", "inputSchema": PLAIN} if to == A else tool)


@req("CONV-10")
@each_older
@pytest.mark.parametrize(
    ("annotations", "at_b"),
    [
        ({}, {"annotations": {"title": "T"}}),
        ({"annotations": {"readOnlyHint": True}}, {"annotations": {"readOnlyHint": True, "title": "T"}}),
        ({"annotations": {"title": "older"}}, {"annotations": {"title": "older"}}),
    ],
)
def test_conv_10_title_of_tools(to: str, annotations: dict[str, Json], at_b: dict[str, Json]) -> None:
    plain = {"name": "t", "inputSchema": PLAIN}
    wanted = {A: plain, B: plain | at_b}.get(to, plain | {"title": "T"} | annotations)
    assert tool_at(plain | {"title": "T"} | annotations, to) == wanted


@req("CONV-10")
@each_older
def test_conv_10_title_elsewhere(to: str) -> None:
    def without_title(value: Json) -> Json:
        return {k: v for k, v in value.items() if k != "title"} if to in {A, B} else value

    resource = {"name": "r", "title": "T", "uri": "x:y"}
    template = {"name": "r", "title": "T", "uriTemplate": "x:{y}"}
    argument = {"name": "a", "title": "T"}
    prompt = {"name": "p", "title": "T", "arguments": [argument]}
    assert listed("resources/list", "resources", resource, to) == without_title(resource)
    assert listed("resources/templates/list", "resourceTemplates", template, to) == without_title(template)
    assert listed("prompts/list", "prompts", prompt, to) == {
        **without_title(prompt), "arguments": [without_title(argument)]
    }  # fmt: skip
    who = {"name": "n", "version": "1", "title": "T"}
    assert down(who, "", PayloadKind.IMPLEMENTATION, to) == without_title(who)
    complete: Json = {
        "ref": {"type": "ref/prompt", "name": "p", "title": "T"},
        "argument": {"name": "a", "value": ""},
        "_meta": STAMP,
    }
    ref = down(complete, "completion/complete", PARAMS, to)["ref"]
    assert ref == without_title(complete["ref"])


STAMP: Final[Json] = {
    "io.modelcontextprotocol/protocolVersion": E,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@req("CONV-11")
@each_older
def test_conv_11_icons_descriptions_websites(to: str) -> None:
    icons = {"icons": [{"src": "https://x.test/i.png"}]}
    kept = icons if to == D else {}
    tool = {"name": "t", "inputSchema": PLAIN}
    assert tool_at(tool | icons, to) == tool | kept
    for method, member, item in (
        ("resources/list", "resources", {"name": "r", "uri": "x:y"}),
        ("resources/templates/list", "resourceTemplates", {"name": "r", "uriTemplate": "x:{y}"}),
        ("prompts/list", "prompts", {"name": "p"}),
    ):
        assert listed(method, member, item | icons, to) == item | kept
    who = {"name": "n", "version": "1"}
    more = {"description": "d", "websiteUrl": "https://x.test", **icons}
    assert down(who | more, "", PayloadKind.IMPLEMENTATION, to) == (who | more if to == D else who)


# -- metadata --------------------------------------------------------------------------------------------

META: Final = {"_meta": {"vendor.example/x": [1], SERVER_INFO: {"name": "n", "version": "1"}}}
VENDOR: Final = {"_meta": {"vendor.example/x": [1]}}


@req("CONV-12")
@each_older
def test_conv_12_meta_of_parts(to: str) -> None:
    kept: dict[str, Any] = {} if to in {A, B} else VENDOR
    tool = {"name": "t", "inputSchema": PLAIN}
    assert tool_at(tool | META, to) == tool | kept
    for method, member, item in (
        ("resources/list", "resources", {"name": "r", "uri": "x:y"}),
        ("resources/templates/list", "resourceTemplates", {"name": "r", "uriTemplate": "x:{y}"}),
        ("prompts/list", "prompts", {"name": "p"}),
        ("resources/read", "contents", {"uri": "x:y", "text": ""}),
        ("resources/read", "contents", {"uri": "x:y", "blob": ""}),
    ):
        assert listed(method, member, item | META, to) == item | kept
    for block in (
        text("x"),
        {"type": "image", "data": "AA==", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "x:y", "text": ""}},
    ):
        assert down(called(block | META), "tools/call", RESULT, to)["content"] == [block | kept]
        assert down(told(block | META), "prompts/get", RESULT, to)["messages"][0]["content"] == block | kept
    inner = {"type": "resource", "resource": {"uri": "x:y", "text": "", **META}}
    wanted = {"type": "resource", "resource": {"uri": "x:y", "text": "", **kept}}
    assert down(called(inner), "tools/call", RESULT, to)["content"] == [wanted]


@req("CONV-12")
@each_older
def test_conv_12_nothing_stays_of_an_emptied_meta(to: str) -> None:
    only_ours = {"_meta": {SERVER_INFO: {"name": "n", "version": "1"}}}
    assert down(called(text("x") | only_ours, **only_ours), "tools/call", RESULT, to) == {
        "content": [text("x")]
    }


@req("CONV-13", "CONV-14")
@each_older
def test_conv_13_14_annotations(to: str) -> None:
    """CONV-13 and CONV-14: when it was modified is new, whom it is for is not."""
    marks = {"audience": ["user"], "priority": 0.5}
    dated = {"lastModified": "2026-01-01T00:00:00Z"}
    wanted = {"annotations": marks if to in {A, B} else marks | dated}
    given = {"annotations": marks | dated}
    for block in (text("x"), {"type": "image", "data": "AA==", "mimeType": "image/png"}, EMBEDDED):
        assert down(called(block | given), "tools/call", RESULT, to)["content"] == [block | wanted]
    for method, member, item in (
        ("resources/list", "resources", {"name": "r", "uri": "x:y"}),
        ("resources/templates/list", "resourceTemplates", {"name": "r", "uriTemplate": "x:{y}"}),
    ):
        assert listed(method, member, item | given, to) == item | wanted


@req("CONV-15", at=(A, B, C, D))
@pytest.mark.parametrize("to", [A, B, C, E])
def test_conv_15_task_support(to: str) -> None:
    from conversion.peers import go

    plain = {"name": "t", "inputSchema": PLAIN}
    value = {"tools": [plain | {"execution": {"taskSupport": "optional"}}]}
    # A client in the latest types reads how a tool of an older server runs.
    assert go(value, "tools/list", RESULT, D, to)["tools"] == (value["tools"] if to == E else [plain])
    assert go(value, "tools/list", RESULT, D, D) is value


@req("CONV-16")
@each_older
def test_conv_16_result_metadata(to: str) -> None:
    vendor = {"_meta": {"vendor.example/x": 1, SERVER_INFO: {"name": "n", "version": "1"}}}
    value = {**tools({"name": "t", "inputSchema": PLAIN}), **vendor, "nextCursor": "c", "x-more": None}
    assert down(value, "tools/list", RESULT, to) == {
        "tools": [{"name": "t", "inputSchema": PLAIN}],
        "nextCursor": "c",
        "_meta": {"vendor.example/x": 1},
        "x-more": None,
    }


@req("CONV-16", "CACHE-5")
@each_older
@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("tools/list", {"tools": []}),
        ("prompts/list", {"prompts": []}),
        ("resources/list", {"resources": []}),
        ("resources/templates/list", {"resourceTemplates": []}),
        ("resources/read", {"contents": []}),
    ],
)
def test_conv_16_cache_hints_of_older_peers(to: str, method: str, value: dict[str, Json]) -> None:
    """CACHE-5: whatever an older peer puts there, it promised nothing."""
    junk = {"ttlMs": "soon", "cacheScope": 1, "resultType": "input_required"}
    hints = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    assert up(value | junk, method, RESULT, to) == value | hints
    assert up(value, method, RESULT, to) == value | hints


@req("CONV-37")
@each_older
def test_conv_37_resource_link_in_prompts(to: str) -> None:
    found = down(told(LINK), "prompts/get", RESULT, to)["messages"][0]
    assert found["role"] == "user"
    if to in {A, B}:
        assert found["content"] == text("A file: file:///a", annotations={"audience": ["user"]})
    else:
        assert found["content"]["type"] == "resource_link"


@req("CONV-41")
@each_older
def test_conv_41_meta_of_roots(to: str) -> None:
    root = {"uri": "file:///a", "name": "a"}
    found = down({"roots": [root | META]}, "roots/list", RESULT, to)
    assert found == {"roots": [root if to in {A, B} else root | VENDOR]}
    assert up(found, "roots/list", RESULT, to) == found
    assert down({"_meta": META["_meta"]}, "roots/list", PARAMS, to) == VENDOR
