"""The conversion table, requests of either side: input, elicitation, sampling,"""

from __future__ import annotations

from typing import Any, Final

import pytest

from conversion.peers import MINTED, OLDER, A, B, C, D, E, Json, down, objections, unchanged, up
from helpers.requirements import req
from helpers.support import same
from mcprev.conversion import PayloadKind, convert
from mcprev.errors import ConversionError

RESULT, PARAMS = PayloadKind.RESULT, PayloadKind.PARAMS
ELICIT, SAMPLE = "elicitation/create", "sampling/createMessage"
each_older = pytest.mark.parametrize("to", OLDER)
with_forms = pytest.mark.parametrize("to", [C, D])
single = pytest.mark.parametrize("to", [A, B, C])

FORM: Final = {
    "mode": "form",
    "message": "Who?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}
URL: Final = {"mode": "url", "message": "log in", "url": "https://x.test/login"}
SAMPLING: Final = {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 9}


def text(said: str) -> dict[str, Json]:
    return {"type": "text", "text": said}


def asking(**requests: tuple[str, Json]) -> dict[str, Json]:
    asked = {
        key: {"method": method} | ({} if params is None else {"params": params})
        for key, (method, params) in requests.items()
    }
    return {"resultType": "input_required", "inputRequests": asked, "requestState": "s"}


# -- input that results ask for --------------------------------------------------------------------------


@req("CONV-17")
@each_older
@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
def test_conv_17_is_no_result_elsewhere(to: str, method: str) -> None:
    with pytest.raises(ConversionError, match="send each input request as a request") as caught:
        down(asking(name=(ELICIT, FORM)), method, RESULT, to)
    assert (caught.value.path, caught.value.revision) == ("$.resultType", to)
    for kind in ("task", "x-future", 5):
        with pytest.raises(ConversionError, match="complete it first"):
            down({"resultType": kind, "content": [], "messages": [], "contents": []}, method, RESULT, to)


@req("CONV-17")
@each_older
def test_conv_17_the_author_may_answer(to: str) -> None:
    instead = {"content": [text("ask me by mail")], "isError": True, "resultType": "complete"}
    reasons: list[str] = []

    def answer(_: Json, reason: str, row: str) -> Json:
        reasons.append(f"{reason} {row}")
        return instead

    found = down(asking(name=(ELICIT, FORM)), "tools/call", RESULT, to, on_downgrade=answer)
    assert found == {"content": [text("ask me by mail")], "isError": True}
    assert reasons == [f"input_required {to}"]
    with pytest.raises(ConversionError):
        down(asking(), "tools/call", RESULT, to, on_downgrade=unchanged)


@req("CONV-17")
@each_older
def test_conv_17_requests(to: str) -> None:
    assert down(SAMPLING, SAMPLE, PARAMS, to) == SAMPLING
    assert down(None, "roots/list", PARAMS, to) is None
    if to in {C, D}:
        form = down(FORM, ELICIT, PARAMS, to)
        assert not objections(form, ELICIT, PARAMS, to)
        assert form == (FORM if to == D else {k: v for k, v in FORM.items() if k != "mode"})


@req("CONV-17")
@pytest.mark.parametrize("to", [A, B])
def test_conv_17_no_elicitation(to: str) -> None:
    with pytest.raises(ConversionError, match="has no method 'elicitation/create'") as caught:
        down(FORM, ELICIT, PARAMS, to)
    assert caught.value.revision == to


# -- elicitation -----------------------------------------------------------------------------------------


@req("CONV-18", "ELIC-6", at=(C, D))
def test_conv_18_url_mode() -> None:
    assert down(URL, ELICIT, PARAMS, D) == {**URL, "elicitationId": MINTED}
    assert up({**URL, "elicitationId": "1", "task": {"ttl": 1}}, ELICIT, PARAMS, D) == URL
    with pytest.raises(ConversionError, match="no elicitation by URL"):
        down(URL, ELICIT, PARAMS, C)
    first, second = (convert(URL, ELICIT, PARAMS, from_=E, to=D) for _ in range(2))
    assert first["elicitationId"] != second["elicitationId"]


@req("CONV-17")
@pytest.mark.parametrize("to", [A, B])
def test_conv_18_no_elicitation_at_all(to: str) -> None:
    for params in (FORM, URL):
        with pytest.raises(ConversionError, match="has no method 'elicitation/create'"):
            down(params, ELICIT, PARAMS, to)


def field_at(field: Json, to: str, **options: Any) -> Json:
    form = {"message": "?", "requestedSchema": {"type": "object", "properties": {"f": field}}}
    found = down(form, ELICIT, PARAMS, to, **options)
    assert same(down(up(found, ELICIT, PARAMS, to), ELICIT, PARAMS, to), found)
    return found["requestedSchema"]["properties"]["f"]


@req("CONV-19")
@with_forms
def test_conv_19_defaults(to: str) -> None:
    for field in (
        {"type": "string", "minLength": 1, "format": "email", "default": "a@x.test"},
        {"type": "number", "maximum": 5, "default": 1},
        {"type": "integer", "default": 1},
        {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"], "default": "a"},
    ):
        plain = {name: item for name, item in field.items() if name != "default"}
        assert field_at(field, to) == (plain if to == C else field)
    switch = {"type": "boolean", "default": True}
    assert field_at(switch, to) == switch


@req("CONV-20")
@with_forms
def test_conv_20_titled_choice(to: str) -> None:
    options = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]
    field = {"type": "string", "title": "Colour", "oneOf": options, "default": "g"}
    older = {"type": "string", "title": "Colour", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}
    assert field_at(field, to) == (older if to == C else field)


@req("CONV-21")
@with_forms
def test_conv_21_untitled_choice(to: str) -> None:
    field = {"type": "string", "enum": ["r", "g"]}
    assert field_at(field, to) == field


@req("CONV-22")
@with_forms
@pytest.mark.parametrize(
    "items", [{"type": "string", "enum": ["r"]}, {"anyOf": [{"const": "r", "title": "Red"}]}]
)
def test_conv_22_several_choices(to: str, items: Json) -> None:
    field = {"type": "array", "items": items, "default": ["r"]}
    if to == D:
        assert field_at(field, to) == field
        return
    with pytest.raises(ConversionError, match="several choices") as caught:
        field_at(field, to)
    assert caught.value.path == "$.requestedSchema.properties.f"

    def as_text(value: Json, reason: str, row: str) -> Json:
        assert (value, reason, row) == (field, "multi_select", C)
        return {"type": "string", "description": "some of: r", "default": "r"}

    assert field_at(field, to, on_downgrade=as_text) == {"type": "string", "description": "some of: r"}
    with pytest.raises(ConversionError, match="several choices"):
        field_at(field, to, on_downgrade=unchanged)


@req("CONV-23", at=D)
def test_conv_23_chosen_values() -> None:
    answer = {"action": "accept", "content": {"several": ["a", "b"], "one": "a", "n": 1, "yes": True}}
    assert same(up(answer, ELICIT, RESULT, D), answer)
    plain = {"action": "accept", "content": {"one": "a"}}
    assert same(up(plain, ELICIT, RESULT, C), plain)
    assert same(down(answer, ELICIT, RESULT, D), answer)
    with pytest.raises(ConversionError) as caught:
        down(answer, ELICIT, RESULT, C)
    assert caught.value.path == "$.content.several"


# -- sampling --------------------------------------------------------------------------------------------

USE: Final[Json] = {"type": "tool_use", "id": "1", "name": "t", "input": {}}
DONE: Final[Json] = {"type": "tool_result", "toolUseId": "1", "content": [], "structuredContent": {"a": 1}}
TOOL: Final = {"name": "t", "inputSchema": {"type": "object"}}


def sampled(*messages: Json, **more: Json) -> dict[str, Json]:
    return {"messages": list(messages), "maxTokens": 9, **more}


def said(role: str, content: Json, **more: Json) -> dict[str, Json]:
    return {"role": role, "content": content, **more}


@req("CONV-24")
@each_older
@pytest.mark.parametrize(
    ("params", "path"),
    [
        (sampled(tools=[TOOL]), "$.tools"),
        (sampled(toolChoice={"mode": "required"}), "$.toolChoice"),
        (sampled(said("user", text("?")), said("assistant", USE)), "$.messages[1].content"),
        (sampled(said("user", [text("?"), DONE])), "$.messages[0].content[1]"),
    ],
)
def test_conv_24_tools(to: str, params: Json, path: str) -> None:
    if to == D:
        assert same(down(params, SAMPLE, PARAMS, D), params)
        return
    with pytest.raises(ConversionError, match="no sampling with tools") as caught:
        down(params, SAMPLE, PARAMS, to)
    assert (caught.value.path, caught.value.revision) == (path, to)


@req("CONV-24")
@single
def test_conv_24_answers_and_what_does_no_harm(to: str) -> None:
    answer: Json = {"role": "assistant", "content": USE, "model": "m", "stopReason": "toolUse"}
    assert same(down(answer, SAMPLE, RESULT, D), answer)
    for content in (USE, [USE]):
        with pytest.raises(ConversionError, match="no sampling with tools"):
            down({**answer, "content": content}, SAMPLE, RESULT, to)
    assert down(sampled(tools=[], toolChoice={"mode": "auto"}), SAMPLE, PARAMS, to) == sampled()


@req("CONV-24", at=D)
def test_conv_24_structured_results_of_tools() -> None:
    found = down(sampled(said("user", [{**DONE, "structuredContent": [1]}])), SAMPLE, PARAMS, D)
    block = found["messages"][0]["content"][0]
    assert block == {"type": "tool_result", "toolUseId": "1", "content": [text("[1]")]}
    null = sampled(said("user", {**DONE, "structuredContent": None}))
    assert "structuredContent" not in up(null, SAMPLE, PARAMS, D)["messages"][0]["content"]


@req("CONV-25", "SAMP-4")
@each_older
def test_conv_25_list_of_one(to: str) -> None:
    params = sampled(said("user", [text("?")]))
    answer = {"role": "assistant", "content": [text("!")], "model": "m"}
    if to == D:
        assert same(down(params, SAMPLE, PARAMS, D), params)
        assert same(down(answer, SAMPLE, RESULT, D), answer)
    else:
        assert down(params, SAMPLE, PARAMS, to) == sampled(said("user", text("?")))
        assert down(answer, SAMPLE, RESULT, to) == {**answer, "content": text("!")}
        assert down({**answer, "content": []}, SAMPLE, RESULT, to) == {**answer, "content": text("")}


@req("CONV-26", "SAMP-4")
@each_older
def test_conv_26_several_blocks(to: str) -> None:
    params = sampled(
        said("user", [text("a"), text("b")], _meta={"x": 1}), said("assistant", text("c")), said("user", [])
    )
    answer = {"role": "assistant", "content": [text("a"), text("b")], "model": "m"}
    if to == D:
        assert same(down(params, SAMPLE, PARAMS, D), params)
        return
    assert down(params, SAMPLE, PARAMS, to) == sampled(
        said("user", text("a")), said("user", text("b")), said("assistant", text("c"))
    )
    with pytest.raises(ConversionError, match="one content block") as caught:
        down(answer, SAMPLE, RESULT, to)
    assert caught.value.path == "$.content"


@req("CONV-27")
@each_older
def test_conv_27_answers_of_older_clients(to: str) -> None:
    answer = {
        "role": "assistant",
        "content": text("!"),
        "model": "m",
        "stopReason": "x-own",
        "_meta": {"x": 1},
    }
    assert same(up(answer, SAMPLE, RESULT, to), answer)
