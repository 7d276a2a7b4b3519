"""Generated models as users see them: constructors, absence and null, names, unknown members, copies, subclasses."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal, cast

import pytest
from pydantic import TypeAdapter, ValidationError

from helpers.support import (
    DATED,
    FIFTH,
    FOURTH,
    PYTHON_NAMES,
    REVISIONS,
    THIRD,
    each_revision,
    load,
    models_of,
    package,
    same,
)
from mcprev_codegen import ir
from mcprev_codegen.emit.models.planner import ModelPlanner
from mcprev_codegen.emit.models.sections import SMALL, categories
from mcprev_codegen.python.names import module_name
from mcprev_types import ABSENT, Model, UnknownContent
from mcprev_types.latest import models as latest

third, fourth, fifth = models_of(THIRD), models_of(FOURTH), models_of(FIFTH)

# -- constructors ----------------------------------------------------------------------------------------


def test_a_constructor_fills_in_constants_and_writes_them() -> None:
    content = third.TextContent(text="hi")
    assert content.type == "text"
    assert content.to_wire() == {"type": "text", "text": "hi"}
    assert content.to_json() == b'{"type":"text","text":"hi"}'


def test_a_constructor_fills_in_the_method_and_the_version() -> None:
    request = fourth.PingRequest(id=1)
    assert request.to_wire() == {"method": "ping", "jsonrpc": "2.0", "id": 1}


def test_a_constructor_fills_in_defaults_and_writes_them() -> None:
    result = fifth.ListToolsResult(tools=[])
    assert (result.result_type, result.ttl_ms, result.cache_scope) == ("complete", 0, "private")
    assert result.to_wire() == {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def test_a_given_value_goes_before_a_default() -> None:
    result = fifth.ListToolsResult(tools=[], ttl_ms=5, cache_scope="public", result_type="x-other")
    assert result.to_wire() == {"tools": [], "resultType": "x-other", "ttlMs": 5, "cacheScope": "public"}


def test_a_constant_of_a_subtype_goes_before_the_default_of_its_base() -> None:
    assert fifth.InputRequiredResult().to_wire() == {"resultType": "input_required"}


def test_reading_adds_nothing() -> None:
    result = fifth.ListToolsResult.from_wire({"tools": []})
    assert (result.result_type, result.ttl_ms, result.cache_scope) == ("complete", 0, "private")
    assert result.to_wire() == {"tools": []}
    assert result.to_json() == b'{"tools":[]}'


@pytest.mark.parametrize(
    "message", [{"text": "hi"}, {"type": "image", "text": "hi"}, {"type": None, "text": "hi"}]
)
def test_a_message_has_to_have_its_constants(message: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="type"):
        third.TextContent.from_wire(message)


def test_a_wrong_constant_is_refused_by_a_constructor() -> None:
    wrong: Any = "image"
    with pytest.raises(ValidationError):
        third.TextContent(type=wrong, text="hi")


def test_a_missing_member_is_refused_by_a_constructor() -> None:
    build: Any = third.TextContent
    with pytest.raises(ValidationError, match="text"):
        build()


def test_wire_names_and_attributes_both_construct() -> None:
    by_wire: Any = third.ImageContent
    one = third.ImageContent(data="AA==", mime_type="image/png")
    two = by_wire(data="AA==", mimeType="image/png")
    assert one == two
    assert one.to_wire() == two.to_wire() == {"type": "image", "data": "AA==", "mimeType": "image/png"}


def test_names_that_are_no_attributes_have_one() -> None:
    params = fifth.PaginatedRequestParams.model_validate({
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "x",
            "io.modelcontextprotocol/clientCapabilities": {},
            "com.example/other": 1,
        }
    })  # fmt: skip
    assert params.meta.protocol_version == "x"
    assert params.meta.to_wire()["com.example/other"] == 1
    schema = fourth.ToolInputSchema(schema_uri="https://json-schema.org/draft/2020-12/schema")
    assert schema.to_wire() == {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}


def test_a_constructor_takes_unknown_members() -> None:
    build: Any = third.TextContent
    assert build(text="a", **{"x-new": None, "n": 1.0}).to_wire() == {
        "type": "text", "text": "a", "x-new": None, "n": 1.0,
    }  # fmt: skip


# -- absent and null -------------------------------------------------------------------------------------


def test_none_for_an_optional_member_is_not_written() -> None:
    tool = third.Tool(name="a", title=None, input_schema=third.ToolInputSchema())
    assert tool.to_wire() == {"name": "a", "inputSchema": {"type": "object"}}
    assert json.loads(tool.to_json()) == tool.to_wire()


def test_null_on_an_optional_member_reads_as_absent() -> None:
    tool = third.Tool.from_wire({"name": "a", "title": None, "inputSchema": {"type": "object"}})
    assert tool.title is None
    assert tool.to_wire() == {"name": "a", "inputSchema": {"type": "object"}}


def test_where_null_is_a_value_absent_is_false_and_no_null() -> None:
    absent = fifth.CallToolResult(content=[])
    null = fifth.CallToolResult(content=[], structured_content=None)
    assert not absent.structured_content
    assert str(absent.structured_content) == "absent"
    assert absent.structured_content is ABSENT
    assert null.structured_content is None
    assert "structuredContent" not in absent.to_wire()
    assert null.to_wire()["structuredContent"] is None
    assert json.loads(null.to_json())["structuredContent"] is None
    again = fifth.CallToolResult.from_wire(null.to_wire())
    assert again.structured_content is None
    assert again == null != absent


def test_a_required_null_is_written() -> None:
    task = fourth.Task(task_id="1", status="working", created_at="t", last_updated_at="t", ttl=None)
    assert task.to_wire()["ttl"] is None
    with pytest.raises(ValidationError, match="ttl"):
        fourth.Task.from_wire({k: v for k, v in task.to_wire().items() if k != "ttl"})


def test_an_assigned_member_is_written() -> None:
    tool = third.Tool.from_wire({"name": "a", "inputSchema": {"type": "object"}})
    tool.title = "A"
    assert tool.to_wire()["title"] == "A"
    tool.title = None
    assert "title" not in tool.to_wire()
    result = fifth.CallToolResult.from_wire({"content": []})
    result.structured_content = None
    assert result.to_wire() == {"content": [], "structuredContent": None}
    result.structured_content = ABSENT
    assert result.to_wire() == {"content": []}
    result.result_type = "complete"
    assert result.to_wire() == {"content": [], "resultType": "complete"}


# -- numbers, strings, unknown members -------------------------------------------------------------------


@pytest.mark.parametrize("id_", [1, "1", 1.0, 0, "", 10**20, -1])
def test_an_identifier_keeps_its_kind(id_: Any) -> None:
    message = {"jsonrpc": "2.0", "id": id_, "method": "ping"}
    for revision in REVISIONS:
        models = package(revision, "models")
        assert same(models.JSONRPCRequest.from_wire(message).to_wire(), message)
        assert same(json.loads(models.JSONRPCRequest.from_wire(message).to_json()), message)


@pytest.mark.parametrize("id_", [True, False, 1.5, None, [], {}])
def test_what_is_no_identifier_is_refused(id_: Any) -> None:
    for revision in REVISIONS:
        with pytest.raises(ValidationError, match="id"):
            package(revision, "models").JSONRPCRequest.from_wire(
                {"jsonrpc": "2.0", "id": id_, "method": "ping"}
            )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_json_cannot_write_is_refused(value: float) -> None:
    with pytest.raises(ValidationError):
        third.Annotations(priority=value)
    with pytest.raises(ValidationError):
        third.ProgressNotificationParams(progress_token=1, progress=value)


@pytest.mark.parametrize("priority", [0, 1, 0.0, 1.0, 0.5])
def test_a_number_within_its_range_is_taken(priority: float) -> None:
    assert same(third.Annotations(priority=priority).to_wire(), {"priority": priority})


@pytest.mark.parametrize("priority", [-0.1, 1.1, -1, 2])
def test_a_number_out_of_its_range_is_refused(priority: float) -> None:
    with pytest.raises(ValidationError, match="priority"):
        third.Annotations(priority=priority)


@pytest.mark.parametrize("data", ["AA==", "not base64 at all", "_-8=", "", "A" * 2**20])
def test_base64_is_text(data: str) -> None:
    assert third.ImageContent(data=data, mime_type="image/png").to_wire()["data"] == data


def test_unknown_members_are_kept_at_every_level() -> None:
    message = {
        "content": [{"type": "text", "text": "a", "x": {"y": [None, 1, 1.0, True]}}],
        "_meta": {"com.example/a": None},
        "x-new": None,
    }
    assert same(fourth.CallToolResult.from_wire(message).to_wire(), message)


def test_a_wire_name_that_looks_like_an_attribute_is_an_unknown_member() -> None:
    message = {"type": "image", "data": "", "mimeType": "image/png", "mime_type": 1.0, "meta": [None]}
    content = third.ImageContent.from_wire(message)
    assert content.mime_type == "image/png"
    assert content.meta is None
    assert same(content.to_wire(), message)
    with pytest.raises(ValidationError, match="mimeType"):
        third.ImageContent.from_wire({"type": "image", "data": "", "mime_type": "image/png"})


@each_revision
def test_every_attribute_name_is_an_unknown_member_on_the_wire(revision: str) -> None:
    """For every type: its attribute names, put into a message beside the wire names, are kept as they are."""
    from helpers.corpus import Corpus

    current = load(revision)
    models = package(revision, "models")
    for name in current.schema.types:
        model: Any = getattr(models, PYTHON_NAMES.class_name(name))
        if not (isinstance(model, type) and issubclass(model, Model)):
            continue
        value = Corpus(current).sample(ir.Ref(name), full=True)
        assert isinstance(value, dict)
        declared = {f.name for f in current.schema.flat(name).fields}
        extra = {
            PYTHON_NAMES.attribute(member): 1.0
            for member in declared
            if PYTHON_NAMES.attribute(member) not in declared
        }
        message = {**value, **extra}
        assert same(model.from_wire(message).to_wire(), message)


# -- unknown content -------------------------------------------------------------------------------------


def test_content_of_an_unknown_type_is_kept() -> None:
    message = {"content": [{"type": "x-hologram", "data": 1.0, "n": None}, {"type": "text", "text": "a"}]}
    result = fourth.CallToolResult.from_wire(message)
    unknown, text = result.content
    assert type(unknown) is UnknownContent
    assert unknown.type == "x-hologram"
    assert type(text) is fourth.TextContent
    assert same(result.to_wire(), message)


@pytest.mark.parametrize(
    "block",
    [
        {"text": "a"},
        {"type": 1},
        {"type": None},
        {"type": "text"},
        {"type": "text", "text": 1},
        "text",
        None,
        [],
    ],
)
def test_content_that_is_wrong_is_not_unknown(block: object) -> None:
    for revision in REVISIONS:
        with pytest.raises(ValidationError):
            package(revision, "models").CallToolResult.from_wire({"content": [block]})


def test_unknown_content_can_be_sent() -> None:
    build: Any = UnknownContent
    result = fourth.CallToolResult(content=[build(type="x-hologram", data=1)])
    assert result.to_wire() == {"content": [{"type": "x-hologram", "data": 1}]}


@each_revision
def test_every_open_union_keeps_what_it_does_not_know_where_it_stands(revision: str) -> None:
    models = package(revision, "models")
    message = models.SamplingMessage.from_wire({"role": "user", "content": {"type": "x-new", "a": None}})
    assert type(message.content) is UnknownContent
    assert same(message.to_wire(), {"role": "user", "content": {"type": "x-new", "a": None}})


# -- unions ----------------------------------------------------------------------------------------------


def test_an_answer_is_read_as_the_result_that_its_type_says() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(fifth.CallToolResult | fifth.InputRequiredResult)
    complete = adapter.validate_python({"content": [], "resultType": "complete"})
    required = adapter.validate_python(
        {"resultType": "input_required", "requestState": "s", "inputRequests": {}}
    )
    lacking = adapter.validate_python({"content": []})
    assert [type(found) for found in (complete, required, lacking)] == [
        fifth.CallToolResult, fifth.InputRequiredResult, fifth.CallToolResult,
    ]  # fmt: skip


def test_text_and_blob_resources_are_told_apart_by_what_they_have() -> None:
    for revision in REVISIONS:
        models = package(revision, "models")
        text, blob = {"uri": "a:b", "text": ""}, {"uri": "a:b", "blob": ""}
        result: dict[str, Any] = {"contents": [text, blob]}
        read = models.ReadResourceResult.from_wire(result)
        assert [type(c) for c in read.contents] == [models.TextResourceContents, models.BlobResourceContents]
        assert same(read.to_wire(), result)


def test_a_message_is_read_as_what_it_is() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(fourth.JSONRPCMessage)
    messages: list[tuple[dict[str, Any], type[Model]]] = [
        ({"jsonrpc": "2.0", "id": 1, "method": "x"}, fourth.JSONRPCRequest),
        ({"jsonrpc": "2.0", "method": "x"}, fourth.JSONRPCNotification),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, fourth.JSONRPCResultResponse),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "m"}}, fourth.JSONRPCErrorResponse),
    ]
    for message, model in messages:
        assert type(adapter.validate_python(message)) is model


def test_form_and_url_elicitation_are_told_apart() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(fourth.ElicitRequestParams)
    form: dict[str, Any] = {"message": "m", "requestedSchema": {"type": "object", "properties": {}}}
    url = {"mode": "url", "message": "m", "url": "https://x", "elicitationId": "1"}
    assert type(adapter.validate_python(form)) is fourth.ElicitRequestFormParams
    assert type(adapter.validate_python({**form, "mode": "form"})) is fourth.ElicitRequestFormParams
    assert type(adapter.validate_python(url)) is fourth.ElicitRequestURLParams


# -- values as objects -----------------------------------------------------------------------------------


def example() -> Any:
    return fourth.CallToolResult.from_wire({
        "content": [{"type": "text", "text": "a", "x": 1.0}, {"type": "x-new"}],
        "structuredContent": {"a": None},
        "_meta": {"k": [1]},
        "x-new": None,
    })  # fmt: skip


def test_equal_messages_are_equal() -> None:
    assert example() == example()
    other = example()
    other.is_error = True
    assert other != example()
    assert package(DATED[0], "models").TextContent(text="a") != latest.TextContent(text="a")


def pickled(message: Model) -> Model:
    again: Model = pickle.loads(pickle.dumps(message))  # noqa: S301 - our own bytes
    return again


def model_copied(message: Model) -> Model:
    return message.model_copy(deep=True)


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, pickled, model_copied])
def test_a_copy_is_equal_and_writes_the_same(clone: Any) -> None:
    original = example()
    again = clone(original)
    assert again == original
    assert again is not original
    assert same(again.to_wire(), original.to_wire())
    again.is_error = True
    assert original.is_error is None


def test_a_deep_copy_shares_nothing() -> None:
    original = example()
    again = copy.deepcopy(original)
    again.content.clear()
    assert len(original.content) == 2


def test_reading_does_not_change_and_does_not_share_its_input() -> None:
    message: dict[str, Any] = {"content": [{"type": "text", "text": "a"}], "_meta": {"k": 1}}
    before = copy.deepcopy(message)
    result = fourth.CallToolResult.from_wire(message)
    result.content.clear()
    result.to_wire()["content"].append(1)
    assert message == before


def test_a_subclass_has_members_and_constants_of_its_own() -> None:
    class Custom(latest.TextContent):
        extra_note: str = "none"
        kind: Literal["custom"] = "custom"

    made = Custom(text="a", extra_note="n")
    assert made.to_wire() == {"type": "text", "text": "a", "extraNote": "n"}
    assert Custom.from_wire({"type": "text", "text": "a", "extraNote": "n"}).extra_note == "n"
    assert latest.TextContent(text="b").to_wire() == {"type": "text", "text": "b"}
    assert latest.CallToolResult(content=[made]).content == [made]


def test_a_subclass_keeps_its_own_members_in_a_result() -> None:
    class Custom(latest.TextContent):
        extra_note: str

    result = latest.CallToolResult(content=[Custom(text="a", extra_note="n")])
    assert result.to_wire()["content"] == [{"type": "text", "text": "a", "extraNote": "n"}]


@each_revision
def test_a_result_in_an_envelope_is_written_whole(revision: str) -> None:
    """The envelope only says Result; what is written is what the result is."""
    models = package(revision, "models")
    envelope = getattr(models, "JSONRPCResultResponse", None) or models.JSONRPCResponse
    result = models.CallToolResult(content=[models.TextContent(text="a")])
    response = envelope(id=1, result=result)
    assert response.to_wire() == {"jsonrpc": "2.0", "id": 1, "result": result.to_wire()}
    assert json.loads(response.to_json()) == response.to_wire()
    assert envelope.from_wire(response.to_wire()).to_wire() == response.to_wire()


@each_revision
def test_an_assigned_result_is_written_whole(revision: str) -> None:
    models = package(revision, "models")
    envelope = getattr(models, "JSONRPCResultResponse", None) or models.JSONRPCResponse
    response = envelope.from_wire({"jsonrpc": "2.0", "id": 1, "result": {}})
    response.result = models.CallToolResult(content=[])
    assert response.to_wire()["result"] == response.result.to_wire() != {}


def test_a_subclass_may_have_a_constructor_of_its_own() -> None:
    class Greeting(latest.TextContent):
        def __init__(self, who: str) -> None:
            super().__init__(text=f"Hello {who}")

    assert Greeting("you").to_wire() == {"type": "text", "text": "Hello you"}


def test_models_cannot_be_mistaken_for_each_other() -> None:
    with pytest.raises(ValidationError):
        fourth.CallToolResult.from_wire(fourth.TextContent(text="a"))
    wrong: Any = [third.TextContent(text="a")]
    with pytest.raises(ValidationError):
        fourth.CallToolResult(content=wrong)


@pytest.mark.parametrize("value", [None, 1, "x", [], [1], True])
def test_only_an_object_is_a_message(value: object) -> None:
    for revision in REVISIONS:
        with pytest.raises(ValidationError):
            package(revision, "models").Result.from_wire(value)


def test_an_error_names_the_json_path() -> None:
    message = {"content": [{"type": "text", "text": "a"}, {"type": "image", "data": 1, "mimeType": "x"}]}
    with pytest.raises(ValidationError) as caught:
        fourth.CallToolResult.from_wire(message)
    (error,) = caught.value.errors()
    assert error["loc"] == ("content", 1, "data")


@pytest.mark.parametrize(
    ("block", "paths"),
    [
        ({"type": "text"}, ["text"]),
        ({"type": "text", "text": 1}, ["text"]),
        ({"type": "text", "text": "", "annotations": {"priority": 70}}, ["annotations.priority"]),
        ({"type": "resource", "resource": {"uri": 1, "text": ""}}, ["resource.uri", "resource.blob"]),
        ({"type": "resource"}, ["resource"]),
    ],
)
def test_a_path_has_no_tags_and_types_of_unions(block: dict[str, Any], paths: list[str]) -> None:
    """The tags of content have the names of members, too: `text`, `resource`."""
    for revision in REVISIONS:
        with pytest.raises(ValidationError) as caught:
            package(revision, "models").CallToolResult.from_wire({"content": [block]})
        errors = caught.value.errors()
        assert [".".join(map(str, error["loc"])) for error in errors] == [
            f"content.0.{path}" for path in paths
        ]


def test_an_error_about_a_missing_tag_names_the_tag() -> None:
    with pytest.raises(ValidationError) as caught:
        fourth.CallToolResult.from_wire({"content": [{"text": "a"}]})
    (error,) = caught.value.errors()
    assert error["loc"] == ("content", 0)
    assert "type" in error["msg"]


# -- docs ------------------------------------------------------------------------------------------------


@each_revision
def test_every_model_says_what_it_is_and_links_its_page(revision: str) -> None:
    models = package(revision, "models")
    for name in load(revision).schema.types:
        model: Any = getattr(models, PYTHON_NAMES.class_name(name))
        if isinstance(model, type) and issubclass(model, Model):
            doc = model.__doc__ or ""
            assert "Since " in doc, name
            assert f"https://modelcontextprotocol.io/specification/{revision}" in doc, name
            assert doc.split("\n")[0].strip(), name


def test_a_deprecated_model_says_so() -> None:
    assert "Deprecated" in (fifth.CreateMessageRequest.__doc__ or "")
    assert "Deprecated" not in (fifth.CallToolRequest.__doc__ or "")


@cache
def json_schema(model: type[Model]) -> dict[str, Any]:
    """The JSON Schema of a model, which several tests look at."""
    return model.model_json_schema()


VALID: Final[set[str]] = set()
"""Definitions that are valid JSON Schema, of which most are the same at several revisions."""


@pytest.mark.slow
@each_revision
def test_what_the_schema_deprecates_is_marked_for_checkers_and_in_json_schema(revision: str) -> None:
    """Classes as `typing_extensions.deprecated` marks them, members in their JSON Schema. Nothing warns: see below."""
    current, models = load(revision).schema, package(revision, "models")
    for name, decl in current.types.items():
        model: Any = getattr(models, PYTHON_NAMES.class_name(name))
        if not (isinstance(model, type) and issubclass(model, Model)):
            continue
        assert ("__deprecated__" in vars(model)) == decl.tags.deprecated, name
        schema = json_schema(model)
        schema = schema["$defs"][model.__name__] if "$ref" in schema else schema
        assert schema.get("deprecated", False) == decl.tags.deprecated, name
        marked = {member for member, found in schema["properties"].items() if found.get("deprecated")}
        assert marked == {f.name for f in current.flat(name).fields if f.field.tags.deprecated}, name


def test_what_is_deprecated_is_read_written_and_looked_at_without_a_warning() -> None:
    message = {"role": "user", "content": {"type": "text", "text": "a"}}
    assert fifth.SamplingMessage.from_wire(message).to_wire() == message
    assert fifth.ClientCapabilities.from_wire({"roots": {}}).roots == {}


@pytest.mark.slow
@each_revision
def test_the_json_schema_of_a_model_is_json_schema(revision: str) -> None:
    """Limits have JSON Schema's names, a default is a value of the member, and a count is an integer."""
    from jsonschema.validators import Draft202012Validator  # type: ignore[import-untyped]

    current, models = load(revision).schema, package(revision, "models")
    limits = {"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "multipleOf"}
    seen: set[str] = set()
    checked: set[str] = set()
    for name in current.types:
        model: Any = getattr(models, PYTHON_NAMES.class_name(name))
        if not (isinstance(model, type) and issubclass(model, Model)):
            continue
        schema = json_schema(model)
        own = {key: value for key, value in schema.items() if key != "$defs"}
        for definition in (*schema.get("$defs", {}).values(), own):
            if (text := json.dumps(definition)) in checked:  # of another model that refers to it
                continue
            checked.add(text)
            if text not in VALID:
                Draft202012Validator.check_schema(definition)
                VALID.add(text)
            for node in nodes(definition):
                seen |= limits & node.keys()
                assert not {"ge", "le", "gt", "lt", "min_length", "max_length"} & node.keys()
                assert node.get("default") != "absent"
    assert {"minimum", "maximum"} <= seen


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, list):
        for item in cast("list[Any]", schema):  # type: ignore[redundant-cast]
            yield from nodes(item)
    elif isinstance(schema, dict):
        found = cast("dict[str, Any]", schema)
        yield found
        for item in found.values():
            yield from nodes(item)


def test_an_integer_is_an_integer_and_keeps_how_it_was_written() -> None:
    ttl = fifth.ListToolsResult.model_json_schema()["properties"]["ttlMs"]
    assert (ttl["type"], ttl["minimum"]) == ("integer", 0)
    for value in (0, 1, 1.0, 1.5):
        assert same(fifth.ListToolsResult.from_wire({"tools": [], "ttlMs": value}).to_wire()["ttlMs"], value)
    for wrong in (-1, -1.0, "1", True):
        with pytest.raises(ValidationError):
            fifth.ListToolsResult.from_wire({"tools": [], "ttlMs": wrong})


# -- modules ---------------------------------------------------------------------------------------------


@each_revision
def test_modules_follow_the_schemas_sections_in_source_order(revision: str) -> None:
    """A type stands below one that the file has after it only while something that it is made of is not there."""
    current = load(revision)
    named = categories(current, [load(later) for later in DATED if later > revision])
    planner = ModelPlanner(current, {}, named)
    order = list(planner.schema.types)
    assert sorted(name for section in planner.sections for name in section.types) == sorted(order)
    models = package(revision, "models")
    for section in planner.sections:
        module = import_module(f"{models.__name__}.{section.module}")
        written = [
            name for name in vars(module) if name in {PYTHON_NAMES.class_name(n) for n in section.types}
        ]
        assert written == [PYTHON_NAMES.class_name(name) for name in section.types]
        for n, name in enumerate(section.types):
            for m, above in enumerate(section.types[:n]):
                if order.index(above) > order.index(name):
                    assert made_of(planner, name) & set(section.types[m:n]), (above, name)
    sizes = Counter(named.values())
    for name, title in named.items():
        (section,) = (s for s in planner.sections if name in s.types)
        family = title.partition("/")[0]
        assert section.title == title or (section.title == family and sizes[title] <= SMALL)
    small = Counter(s.title.partition("/")[0] for s in planner.sections if len(s.types) <= SMALL)
    assert set(small.values()) <= {1}, "small sections of one family share a module"


def made_of(planner: ModelPlanner, name: str) -> set[str]:
    needed = set(planner.needs(name))
    return needed.union(*(made_of(planner, other) for other in needed))


def test_a_class_of_ones_own_may_extend_a_model_that_nobody_has_used_yet() -> None:
    """Its hints name types of the model's revision, which its module does not know, or knows others by the name."""
    code = (
        f"from mcprev_types.{module_name(FOURTH)} import ListToolsResult\n"
        "def build():\n"
        "    class Tool: pass\n"
        "    class Mine(ListToolsResult):\n"
        "        note: str\n"
        "    return Mine.from_wire({'note': 'n', 'tools': [{'name': 'a', 'inputSchema': {'type': 'object'}}]})\n"
        "mine = build()\n"
        "print(type(mine.tools[0]).__module__, mine.to_wire()['note'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [f"{fourth.__name__}.tools_list", "n"]


def test_a_name_with_a_lone_surrogate_is_kept() -> None:
    """JSON can have such names in what a schema leaves open, such as the properties of a tool."""
    tool = {"name": "t", "inputSchema": {"type": "object", "properties": {"\ud800": {"title": "\udfff"}}}}
    assert latest.Tool.from_wire(tool).to_wire() == tool
