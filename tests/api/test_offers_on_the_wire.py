"""What servers offer: tools, resources and prompts, each at every revision (TOOL-*, RES-*, PROM-*)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import binascii
import json
import logging
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest
from hypothesis import given, strategies as st

import mcprev
from api.scripted import giving, server, text
from api.wire import Json, Message, served, serving
from helpers.named import ROW_A, C, rows_since
from helpers.requirements import req
from helpers.running import Records, run
from helpers.support import load
from mcprev.app.uri_templates import file_path
from mcprev.conversion import PayloadKind, converter
from mcprev.errors import InvalidParams, ResourceNotFound
from mcprev.protocol import result_rules, tool_names
from mcprev.protocol.uris import is_uri
from mcprev.revisions import LATEST, Revision
from mcprev_codegen import ir
from mcprev_types.latest import models as m

LONG: Final = "n" * 128
PNG: Final = "iVBORw0KGgoAAAANSUhEUg=="


@pytest.fixture
def logged() -> Iterator[Records]:
    """What the server logs."""
    records, log = Records(), logging.getLogger("mcprev.server")
    log.addHandler(records)
    yield records
    log.removeHandler(records)


# -- tools -----------------------------------------------------------------------------------------------


async def call(ctx: mcprev.Context, params: m.CallToolRequestParams) -> m.CallToolResult:
    if params.name != "add":
        raise InvalidParams(f"Unknown tool: {params.name}")
    return text(params.arguments)


async def list_tools(ctx: mcprev.Context, params: m.PaginatedRequestParams) -> m.ListToolsResult:
    number = int(params.cursor or "0")
    tool = m.Tool(name="add" if number else "first", input_schema=m.ToolInputSchema())
    return m.ListToolsResult(tools=[tool], next_cursor=None if number else "1")


@req("TOOL-1")
def test_tools_are_declared_listed_in_pages_and_known_by_name(row: Revision) -> None:
    async def main() -> None:
        async with served(server(call_tool=call, list_tools=list_tools), row) as client:
            assert client.hello["capabilities"]["tools"] == {"listChanged": True}
            first = (await client.ask("tools/list")).result
            assert [tool["name"] for tool in first["tools"]] == ["first"]
            second = (await client.ask("tools/list", {"cursor": first["nextCursor"]})).result
            assert [tool["name"] for tool in second["tools"]] == ["add"]
            assert "nextCursor" not in second
            result = (await client.ask("tools/call", {"name": "add", "arguments": {"a": 1}})).result
            assert result["content"] == [{"type": "text", "text": "{'a': 1}"}]
            unknown = await client.ask("tools/call", {"name": "subtract"})
            assert (unknown.code, unknown.error["message"]) == (-32602, "Unknown tool: subtract")

    run(main())


@req("TOOL-2", "AMB-4", "TOOL-8")
def test_arguments_that_do_not_fit(row: Revision) -> None:
    """A protocol error, or a result that a model can learn from; a call that is none is an error anywhere."""
    schema = m.ToolInputSchema.from_wire(
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    )

    async def listing(ctx: mcprev.Context, params: Any) -> m.ListToolsResult:
        return m.ListToolsResult(tools=[m.Tool(name="add", input_schema=schema)])

    async def main() -> None:
        async with served(server(call_tool=call, list_tools=listing), row) as client:
            assert (await client.ask("tools/call", {"name": "add", "arguments": {"a": 1}})).result["content"]
            for arguments in ({"a": "one"}, {}):
                answer = await client.ask("tools/call", {"name": "add", "arguments": arguments})
                if row.tool_argument_errors_are_results:
                    assert answer.result["isError"] is True
                    assert "arguments" in answer.result["content"][0]["text"]
                else:
                    assert answer.code == -32602
                    assert "arguments" in answer.error["message"]
            for broken in ({"arguments": {"a": 1}}, {"name": 5}, {"name": "add", "arguments": 5}):
                assert (await client.ask("tools/call", broken)).code == -32602

    run(main())


@req("TOOL-8")
def test_a_failed_tool_is_a_result(row: Revision) -> None:
    async def main() -> None:
        failed: Message = {"content": [{"type": "text", "text": "no such city"}], "isError": True}
        async with serving(row, {"tools/call": failed}) as (client, _):
            found = await client.call_tool("weather")
            assert found.is_error is True
            assert found.content == [m.TextContent(text="no such city")]
        async with served(server(call_tool=giving(failed)), row) as hand:
            assert (await hand.ask("tools/call", {"name": "t"})).result["isError"] is True

    run(main())


@req("TOOL-5", "CONV-3", "CONV-4")
@pytest.mark.parametrize("structured", [{"a": "ü"}, [1, None], "x", None, 0])
def test_what_is_structured_is_there_as_text(row: Revision, structured: Json) -> None:
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}

    async def main() -> None:
        contents: tuple[list[Json], ...] = ([], [image])
        for content in contents:
            given: Message = {"content": content, "structuredContent": structured}
            made = server(call_tool=giving(given))
            async with served(made, row) as client:
                result = (await client.ask("tools/call", {"name": "t"})).result
                blocks: list[Message] = result["content"]
                assert blocks[:-1] == content
                assert json.loads(blocks[-1]["text"]) == structured
                takes = row in rows_since(C) and (isinstance(structured, dict) or not row.handshake)
                assert ("structuredContent" in result) is takes
        said: Message = {"content": [{"type": "text", "text": "said"}], "structuredContent": structured}
        async with served(server(call_tool=giving(said)), LATEST) as client:
            result = (await client.ask("tools/call", {"name": "t"})).result
            assert result["content"] == said["content"]

    run(main())


@req("TOOL-7")
@pytest.mark.parametrize(
    ("name", "good"),
    [("add", True), ("a", True), ("Add_2-b.c", True), (LONG, True), (LONG + "n", False), ("", False),
     ("a b", False), ("a/b", False), ("ä", False), ("a,b", False), ("a\n", False)],
)  # fmt: skip
def test_names_of_tools_that_may_not_work_are_told_the_author_once(
    row: Revision, name: str, good: bool, logged: Records
) -> None:
    tool_names.logged_names.clear()
    tool = m.Tool(name=name, input_schema=m.ToolInputSchema())

    async def main() -> None:
        async with served(server(list_tools=giving(m.ListToolsResult(tools=[tool]))), row) as client:
            for _ in range(2):
                assert (await client.ask("tools/list")).result["tools"][0]["name"] == name

    run(main())
    assert len(logged.records) == (0 if good else 1)
    assert good or repr(name[:100])[1:-1] in logged.records[0].getMessage()


@req("TOOL-7", "JSCH-4")
@pytest.mark.parametrize("schema", [None, True, {}, {"type": "string"}, {"type": ["object"]}, []])
def test_the_schema_of_a_tools_input_is_of_an_object(row: Revision, schema: Json) -> None:
    async def main() -> None:
        listed = giving({"tools": [{"name": "t", "inputSchema": schema}]})
        async with served(server(list_tools=listed), row) as client:
            assert (await client.ask("tools/list")).code == -32603

    run(main())


@req("JSCH-4", "CONV-7", "CONV-8")
def test_schemas_of_tools_go_through_as_they_are(row: Revision) -> None:
    schema: Message = {
        "type": "object",
        "$defs": {"x": {"enum": [1, "ü", True]}},
        "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"type": "string", "x-mcp-header": "B"}},
        "patternProperties": {"^ü": {"const": ""}},
        "additionalProperties": False,
        "x-own": [[], {"deep": {}}],
    }

    async def main() -> None:
        listed = giving({"tools": [{"name": "t", "inputSchema": schema}]})
        async with served(server(list_tools=listed), row) as client:
            assert (await client.ask("tools/list")).result["tools"][0]["inputSchema"] == schema

    run(main())


@req("TOOL-11")
def test_the_list_of_tools_changes_only_for_those_who_hear_of_it(row: Revision) -> None:
    made = server(list_tools=list_tools)
    without = server(list_prompts=giving(m.ListPromptsResult(prompts=[])))

    async def main() -> None:
        for one, hears in ((made, row.handshake), (without, False)):
            async with served(one, row) as client:
                one.changed("tools")
                told = [found["method"] for found in await client.settle()]
                assert told == (["notifications/tools/list_changed"] if hears else [])

    run(main())


def unanswered(_: Message) -> None:
    """A server that takes its time."""


HARMLESS: Final = {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": False}
LIST: Final = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


@req("TOOL-9")
def test_nothing_is_done_because_an_annotation_says_so(row: Revision) -> None:
    """A tool that calls itself harmless is called as often as its caller says: once."""
    here, latest = (load(name).schema.flat("ToolAnnotations") for name in (row.name, LATEST.name))
    harmless = {name: value for name, value in HARMLESS.items() if here.get(name) and latest.get(name)}
    least = {field.name: False for field in here.fields if not field.field.optional}
    arrive = converter("tools/list", PayloadKind.RESULT, from_=row, to=LATEST)

    async def main() -> None:
        for hints in (harmless, dict.fromkeys(harmless, False), least):
            tool = {"name": "t", "inputSchema": {"type": "object"}, "annotations": hints}
            (wanted,) = arrive({**LIST, "tools": [tool]})["tools"]
            assert wanted["annotations"].items() >= hints.items()
            script: dict[str, Any] = {"tools/list": {"tools": [tool]}, "tools/call": unanswered}
            async with serving(row, script) as (client, hand):
                (found,) = [tool async for tool in client.tools()]
                assert found.annotations is not None
                assert found.annotations.to_wire() == wanted["annotations"]
                with pytest.raises(mcprev.RequestTimeout):
                    await client.call_tool("t", timeout=0.02)
                await client.ping()
                assert len(hand.asked("tools/call")) == 1

    run(main())


# -- resources -------------------------------------------------------------------------------------------


async def read(ctx: mcprev.Context, params: m.ReadResourceRequestParams) -> Any:
    if params.uri.endswith("missing"):
        raise ResourceNotFound("no such resource", data={"uri": params.uri})
    blob = m.BlobResourceContents(uri=params.uri, mime_type="image/png", blob=PNG)
    return m.ReadResourceResult(contents=[m.TextResourceContents(uri=params.uri, text="x"), blob])


@req("RES-1", "RES-3")
@pytest.mark.parametrize(
    "uri", ["file:///a", "https://x.test/ü?q=1#f", "urn:isbn:1", "x-own+1.0:{y}", "a:b", "DATA:,"]
)
def test_any_absolute_uri_is_a_resource(row: Revision, uri: str) -> None:
    async def main() -> None:
        async with served(server(read_resource=read), row) as client:
            contents = (await client.ask("resources/read", {"uri": uri})).result["contents"]
            assert [item["uri"] for item in contents] == [uri, uri]
            assert contents[1]["blob"] == PNG

    run(main())


@req("RES-1")
@pytest.mark.parametrize(
    "uri", ["", "a", "/etc/passwd", "../x", "a b:c", "a:", ":b", "1a:b", "a:b c", "a:\x00"]
)
def test_what_is_no_uri_is_refused(row: Revision, uri: str) -> None:
    async def main() -> None:
        async with served(server(read_resource=read), row) as client:
            answer = await client.ask("resources/read", {"uri": uri})
            assert answer.code == -32602
            assert "uri" in answer.error["message"]

    run(main())
    assert not is_uri(uri)


@req("RES-1", everywhere=True)
def test_files_are_looked_for_below_their_root_only(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("x")
    (root / "in side").write_text("x")
    (root / "link").symlink_to(tmp_path / "secret")
    base = root.as_uri()
    assert file_path(f"{base}/in%20side", root) == root / "in side"
    assert file_path(f"{base}/new", root) == root / "new"
    assert file_path(base.replace("file://", "file://localhost") + "/a/../new", root) == root / "new"
    for escape in (
        f"{base}/../secret", f"{base}/%2e%2e/secret", f"{base}/link", "file:///etc/passwd", f"{base}er/x",
        f"{base}/..%2Fsecret", "file:///",
    ):  # fmt: skip
        with pytest.raises(ResourceNotFound):
            file_path(escape, root)
    for other in (f"{base}/a%00b", "http://x.test/a", "file://elsewhere/a", "a:b"):
        with pytest.raises(InvalidParams):
            file_path(other, root)


@req("ERR-2", "RES-2", "CONV-33")
def test_a_missing_resource_is_an_error_and_never_empty(row: Revision) -> None:
    async def main() -> None:
        async with served(server(read_resource=read), row) as client:
            answer = await client.ask("resources/read", {"uri": "a:missing"})
            assert (answer.code, answer.error["data"]) == (row.resource_not_found, {"uri": "a:missing"})
            assert len((await client.ask("resources/read", {"uri": "a:b"})).result["contents"]) == 2

    run(main())


@req("RES-1", "PROM-2", everywhere=True)
@given(
    st.text("Aa0+/=_ \n\x00ü", max_size=9) | st.binary(max_size=9).map(lambda raw: b64encode(raw).decode()),
    st.sampled_from([4, 8, result_rules._PIECE]),
)
def test_base64_is_told_without_decoding_it(data: str, piece: int) -> None:
    """What is not told is decoded, which says what is wrong. It is looked at in pieces."""
    try:
        binascii.a2b_base64(data, strict_mode=True)
        valid = True
    except ValueError:
        valid = False
    with mock.patch.object(result_rules, "_PIECE", piece):
        told = result_rules._is_base64(data)
    assert told <= valid
    assert told or not valid or b64encode(binascii.a2b_base64(data)).decode() != data


BROKEN: Final = ("not base64", "AAA", "AA==AA==", "_-8=", "ü", "AA=\n=")


@req("RES-1", "PROM-2", "SEAM-4")
@pytest.mark.parametrize("data", BROKEN)
def test_binary_data_that_is_not_base64_does_not_go_out(row: Revision, data: str, logged: Records) -> None:
    contents: Message = {"contents": [{"uri": "a:b", "blob": data}]}
    image = {"type": "image", "data": data, "mimeType": "image/png"}
    embedded = {"type": "resource", "resource": {"uri": "a:b", "blob": data}}
    prompt: Message = {"messages": [{"role": "user", "content": image}]}
    made = server(
        read_resource=giving(contents), get_prompt=giving(prompt), call_tool=giving({"content": [embedded]})
    )

    async def main() -> None:
        async with served(made, row) as client:
            for method, params in (("resources/read", {"uri": "a:b"}), ("prompts/get", {"name": "p"})):
                assert (await client.ask(method, params)).code == -32603
            assert (await client.ask("tools/call", {"name": "t"})).failure == "the tool 't' failed"

    run(main())
    paths = ("$.contents[0].blob", "$.messages[0].content.data", "$.content[0].resource.blob")
    for record, path in zip(logged.records, paths, strict=True):
        assert path in str(record.exc_info)


TEMPLATES: Final = ("file:///{path}", "x:{+path}{?q,r*}{#f}", "a:{b:3}/{/c}{;d}{&e}", "plain:x")


@req("RES-4")
def test_templates_go_through_as_they_are_and_in_order(row: Revision) -> None:
    """Which one a URI belongs to is the handler's to say: it gets the URI that was asked for."""
    listed = m.ListResourceTemplatesResult(
        resource_templates=[m.ResourceTemplate(name="t", uri_template=text_) for text_ in TEMPLATES]
    )

    async def main() -> None:
        made = server(list_resource_templates=giving(listed), read_resource=read)
        async with served(made, row) as client:
            result = (await client.ask("resources/templates/list")).result
            assert [found["uriTemplate"] for found in result["resourceTemplates"]] == list(TEMPLATES)
            contents = (await client.ask("resources/read", {"uri": "x:{+path}"})).result["contents"]
            assert contents[0]["uri"] == "x:{+path}"
        async with serving(row, {"resources/templates/list": {"resourceTemplates": result["resourceTemplates"]}}) as (
            client_, _,
        ):  # fmt: skip
            assert [found.uri_template async for found in client_.resource_templates()] == list(TEMPLATES)

    run(main())


# -- prompts ---------------------------------------------------------------------------------------------


async def prompt(ctx: mcprev.Context, params: m.GetPromptRequestParams) -> m.GetPromptResult:
    if params.name != "greet":
        raise InvalidParams(f"Unknown prompt: {params.name}")
    if "who" not in (params.arguments or {}):
        raise InvalidParams("Missing argument: who")
    content = m.TextContent(text=f"Hello {(params.arguments or {})['who']}")
    return m.GetPromptResult(messages=[m.PromptMessage(role="user", content=content)])


@req("PROM-1")
def test_unknown_prompts_and_missing_arguments_are_invalid(row: Revision) -> None:
    async def main() -> None:
        async with served(server(get_prompt=prompt), row) as client:
            assert client.hello["capabilities"]["prompts"] == {"listChanged": True}
            good = await client.ask("prompts/get", {"name": "greet", "arguments": {"who": "ü"}})
            assert good.result["messages"][0]["content"]["text"] == "Hello ü"
            refusals: tuple[tuple[Message, str], ...] = (
                ({"name": "part"}, "Unknown prompt: part"),
                ({"name": "greet"}, "Missing argument: who"),
                ({"name": "greet", "arguments": {}}, "Missing argument: who"),
            )
            for params, message in refusals:
                answer = await client.ask("prompts/get", params)
                assert (answer.code, answer.error["message"]) == (-32602, message)
            values: tuple[Json, ...] = (5, None, True, ["x"], {})
            for value in values:
                arguments: Json = {"who": value}
                assert (
                    await client.ask("prompts/get", {"name": "greet", "arguments": arguments})
                ).code == -32602

    run(main())


def required_of(block: Message) -> set[str]:
    """The members that the latest revision requires of a block of content."""
    schema, union = load(LATEST.name).schema, ir.Ref("ContentBlock")
    tags = schema.discriminator(union)
    assert tags is not None
    members = zip(tags.values, schema.members(union), strict=True)
    return next(
        {f.name for f in schema.flatten(member).fields if not f.field.optional}
        for values, member in members
        if block["type"] in values
    )


@req("PROM-2", "CONV-1", "CONV-2", "CONV-37")
def test_what_a_prompt_holds_is_well_formed(row: Revision) -> None:
    """Every kind of content, and what is missing something does not go out."""
    blocks: tuple[Message, ...] = (
        {"type": "text", "text": "x"},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "audio", "data": PNG, "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "a:b", "mimeType": "text/plain", "text": "x"}},
        {"type": "resource", "resource": {"uri": "a:b", "mimeType": "image/png", "blob": PNG}},
        {"type": "resource_link", "uri": "a:b", "name": "n"},
    )

    async def got(block: Message) -> Any:
        made = server(get_prompt=giving({"messages": [{"role": "user", "content": block}]}))
        async with served(made, row) as client:
            return await client.ask("prompts/get", {"name": "p"})

    async def main() -> None:
        for block in blocks:
            found = (await got(block)).result["messages"][0]["content"]
            known = {"audio": row is not ROW_A, "resource_link": row in rows_since(C)}
            if known.get(block["type"], True):
                assert found == block
            else:
                assert found["type"] == ("resource" if block["type"] == "audio" else "text")
            for member in required_of(block) - {"type", "name"}:
                broken = {name: value for name, value in block.items() if name != member}
                assert (await got(broken)).code == -32603, (block, member)

    run(main())
