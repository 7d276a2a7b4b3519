"""Our server and clients on releases of the official SDKs: what each side observed of the other.

`make interop` puts each release into an environment of its own; without them these tests are skipped. Each client is
run once and tries everything; the server keeps a journal of what reached it, which a tool hands out.
"""

from __future__ import annotations

from typing import Any

import pytest

from helpers.requirements import B, C, D, E
from interop.watching import PLAIN, Seen, seen_by

TOOLS = [
    "echo", "add", "fail", "refuse", "who", "progress", "log", "sample", "sample_tools", "elicit", "elicit_url",
    "roots", "wait", "change", "journal",
]  # fmt: skip
RESULT_META = ("_meta", "resultType", "ttlMs", "cacheScope")


def bare(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what every result of the newest revision says."""
    return {name: value for name, value in result.items() if name not in RESULT_META}


def texts(result: dict[str, Any]) -> list[str]:
    return [block["text"] for block in result["content"]]


# -- who is there ------------------------------------------------------------------------------------------------


@seen_by("LIFE-3", "LIFE-14", "NEG-8")
def test_both_sides_learn_who_the_other_is(seen: Seen) -> None:
    opened = seen.of("who")
    assert opened.saw["protocolVersion"] == seen.peer.revision
    title = {"title": "Everything"} if seen.peer.since(C) else {}
    assert opened.saw["serverInfo"] == {"name": "everything", "version": "1.0", **title}
    assert opened.saw["instructions"] == "Try it all."
    who = opened.note("who")
    assert (who["revision"], who["info"]) == (seen.peer.revision, {"name": "interop", "version": "1.2"})
    assert {"sampling", "roots"} <= set(who["capabilities"])
    assert ("elicitation" in who["capabilities"]) == seen.peer.since(C)


@seen_by("LIFE-11", "SEAM-3")
def test_what_is_served_is_declared(seen: Seen) -> None:
    declared = seen.of("who").saw["capabilities"]
    assert declared["tools"] == declared["prompts"] == {"listChanged": True}
    assert declared["resources"] == {"listChanged": True, "subscribe": True}
    assert declared["logging"] == {}
    assert ("completions" in declared) == seen.peer.since(B)


@seen_by("PING-1", until=D)
def test_pings_are_answered(seen: Seen) -> None:
    assert seen.of("ping").saw == {}


# -- tools -------------------------------------------------------------------------------------------------------


@seen_by("PAGE-1", "TOOL-1", "MOD-12")
def test_tools_are_listed_page_by_page(seen: Seen) -> None:
    listed = seen.of("tools").saw
    assert listed["sizes"] == [4, 4, 4, 3]
    assert [tool["name"] for tool in listed["items"]] == TOOLS


@seen_by("CONV-5", "CONV-10")
def test_tools_have_what_the_revision_knows(seen: Seen) -> None:
    numbers = {"a": {"type": "number"}, "b": {"type": "number"}}
    found = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
    newer: dict[str, Any] = {}
    if seen.peer.since(C):
        newer = {"title": "Addition", "outputSchema": found}
    elif seen.peer.since(B):
        newer = {"annotations": {"title": "Addition"}}
    assert seen.of("tools").saw["items"][1] == {
        "name": "add",
        "description": "Adds.",
        "inputSchema": {"type": "object", "properties": numbers},
        **newer,
    }


@seen_by("BASE-5", "MOD-7", "META-9")
def test_a_call_arrives_as_it_was_made(seen: Seen) -> None:
    echo = seen.of("echo")
    assert bare(echo.saw) == {"content": [{"type": "text", "text": "héllo\n"}], "isError": False}
    assert ("_meta" in echo.saw) == seen.peer.since(E), "the newest revision's results say who answers"
    call = echo.note("call")
    assert (call["tool"], call["arguments"]) == ("echo", {"text": "héllo\n"})
    assert call["meta"]["com.example/trace"] == "t1"


@seen_by("BASE-5")
def test_many_calls_at_a_time_get_their_own_answers(seen: Seen) -> None:
    many = seen.of("many")
    assert many.saw == [str(number) for number in range(20)]
    assert len(many.noted) == 20


@seen_by("TOOL-4", "TOOL-5", "CONV-3")
def test_structured_content_is_text_where_it_is_not_known(seen: Seen) -> None:
    result = seen.of("structured").saw
    if seen.peer.since(C):
        assert (result["structuredContent"], texts(result)) == ({"sum": 3.5}, ["3.5"])
    else:
        assert "structuredContent" not in result
        assert texts(result) == ["3.5", '{"sum":3.5}']


@seen_by("TOOL-8", "ERR-1", "TOOL-1")
def test_failures_and_errors_are_told_apart(seen: Seen) -> None:
    failed = seen.of("failing").saw
    assert (failed["isError"], texts(failed)) == (True, ["it failed"])
    refused, unknown = seen.of("refused").saw
    assert refused == {"code": -32602, "message": "not like that", "data": {"why": "it is a test"}}
    assert unknown["code"] == -32602


# -- progress, logging, cancellation -----------------------------------------------------------------------------


@seen_by("PROG-1", "PROG-2", "CONV-28")
def test_progress_is_told_with_what_the_revision_has(seen: Seen) -> None:
    heard = seen.of("progress").heard
    if seen.peer.since(B):
        told = [entry[1:] for entry in heard if entry[0] == "told"]
        assert told == [[1, 2, "half"], [2, None, None]]
    else:
        token = {"progressToken": "p1"}
        assert [entry[1] for entry in heard] == [
            {**token, "progress": 1, "total": 2},
            {**token, "progress": 2},
        ]


@seen_by("LOG-1", "LOG-2", "LOG-5")
def test_logging_from_the_level_asked_for(seen: Seen) -> None:
    heard = [entry for entry in seen.of("logs").heard if entry[0] == "log"]
    assert heard == [["log", level, {"at": level}, "here"] for level in ("info", "error")]


@seen_by("LOG-3", since=E)
def test_what_is_not_asked_for_is_not_logged(seen: Seen) -> None:
    silence = seen.of("silence")
    assert silence.note("call")["tool"] == "log"
    assert silence.heard == []


@seen_by("CANC-1", "CANC-2", "CANC-3", "STDIO-8")
def test_a_call_that_is_given_up_is_stopped(seen: Seen) -> None:
    saw = seen.of("cancelled").saw
    assert saw == {"stopped": [{"what": "stopped"}], "after": "still there"}


# -- resources ---------------------------------------------------------------------------------------------------


@seen_by("RES-1", "RES-4")
def test_resources_are_read(seen: Seen) -> None:
    resources = seen.of("resources")
    saw = resources.saw
    assert saw["templates"] == [{"uriTemplate": "memo:///{name}", "name": "memo", "mimeType": "text/plain"}]
    memo = {"mimeType": "text/x-memo"}
    assert saw["text"]["contents"] == [{"uri": "memo:///one", **memo, "text": "one"}]
    assert saw["bytes"]["contents"] == [{"uri": "memo:///bytes", **memo, "blob": "AP8="}]
    assert [entry["uri"] for entry in resources.noted] == ["memo:///one", "memo:///bytes", "memo:///unknown"]


@seen_by("PAGE-1")
def test_resources_are_listed_page_by_page(seen: Seen) -> None:
    saw = seen.of("resources").saw
    assert saw["sizes"] == [1, 1]
    titles = {"title": "The one"} if seen.peer.since(C) else {}
    assert saw["items"][0] == {"uri": "memo:///one", "name": "one", **titles}


@seen_by("ERR-2", "CONV-33")
def test_a_missing_resource_has_the_code_of_the_revision(seen: Seen) -> None:
    assert seen.of("resources").saw["missing"] == {
        "code": -32602 if seen.peer.since(E) else -32002,
        "message": "no such memo",
        "data": {"uri": "memo:///unknown"},
    }


@seen_by("CACHE-1", since=E)
def test_results_say_how_long_they_are_good(seen: Seen) -> None:
    assert seen.of("resources").saw["text"]["ttlMs"] == 5


@seen_by("SUB-1", "TOOL-11", until=D)
def test_changes_are_told_in_a_session(seen: Seen) -> None:
    lists = [[f"notifications/{what}/list_changed", None] for what in ("tools", "prompts", "resources")]
    updated = ["notifications/resources/updated", {"uri": "memo:///one"}]
    assert seen.of("changes").heard == [*lists, updated, *lists], "what is not subscribed to is not told"


@seen_by("SUB-2", "SUB-3", "SUB-6", "META-7", since=E)
def test_changes_are_told_on_streams(seen: Seen) -> None:
    saw = seen.of("changes").saw
    assert saw["honored"] == {"toolsListChanged": True, "resourceSubscriptions": ["memo:///one"]}
    assert saw["events"] == [
        "ToolsListChanged()",
        "ResourceUpdated(uri='memo:///one')",
        "PromptsListChanged()",
    ]


# -- prompts and completion --------------------------------------------------------------------------------------


@seen_by("PROM-1")
def test_prompts_are_listed_and_filled_in(seen: Seen) -> None:
    prompts = seen.of("prompts")
    asked = {"name": "name", "description": "Whom to greet.", "required": True}
    assert prompts.saw["items"][0] == {"name": "greet", "description": "Greets.", "arguments": [asked]}
    message = {"role": "user", "content": {"type": "text", "text": "hello ann"}}
    assert bare(prompts.saw["prompt"]) == {"description": "A greeting.", "messages": [message]}
    assert prompts.noted == [{"what": "prompt", "name": "greet", "arguments": {"name": "ann"}}]


@seen_by("COMP-1", "COMP-2")
def test_arguments_are_completed(seen: Seen) -> None:
    completion = seen.of("completion")
    assert completion.saw == {"values": ["anx"], "total": 7, "hasMore": True}
    prompt, template = completion.noted
    assert prompt["ref"] == {"type": "ref/prompt", "name": "greet"}
    assert prompt["argument"] == {"name": "name", "value": "an"}
    assert prompt["context"] == ({"arguments": {"tone": "warm"}} if seen.peer.since(C) else None)
    assert template["ref"] == {"type": "ref/resource", "uri": "memo:///{name}"}


# -- what the server asks ----------------------------------------------------------------------------------------


@seen_by("SAMP-1", "MRTR-2", "MRTR-4", "MRTR-11")
def test_the_client_samples_for_the_server(seen: Seen) -> None:
    sample = seen.of("sample")
    [(what, asked)] = sample.heard
    assert what == "sampling"
    assert [message["content"]["text"] for message in asked["messages"]] == ["say it"]
    assert (asked["maxTokens"], asked["systemPrompt"], asked["temperature"]) == (9, "be brief", 0.5)
    assert asked["modelPreferences"] == {"hints": [{"name": "small"}], "speedPriority": 1}
    result = sample.note("sampled")["result"]
    assert (result["model"], result["content"], result["stopReason"]) == (
        "mini",
        {"type": "text", "text": "it"},
        "endTurn",
    )
    assert texts(sample.saw) == ["done"]


@seen_by("ERR-9", "MRTR-10")
def test_the_user_refuses_to_sample(seen: Seen) -> None:
    sample = seen.of("sample_refused")
    assert [what for what, _ in sample.heard] == ["sampling"]
    if seen.peer.since(E):
        assert [entry["what"] for entry in sample.noted] == ["call"], "the call is not made again"
    else:
        refused = sample.note("refused")
        assert (refused["code"], refused["message"]) == (-1, "the user said no")


@seen_by("MRTR-1", "MRTR-11")
def test_prompts_and_resources_ask_too(seen: Seen) -> None:
    signed = seen.of("signed")
    assert signed.heard == [["roots"], ["roots"]]
    assert [message["content"]["text"] for message in signed.saw["prompt"]] == ["hello home"]
    assert [part["text"] for part in signed.saw["resource"]] == ["home"]


@seen_by("SAMP-2", "SAMP-4", since=D)
def test_the_client_samples_with_tools(seen: Seen) -> None:
    sample = seen.of("sample_tools")
    [(_, asked)] = sample.heard
    assert ([tool["name"] for tool in asked["tools"]], asked["toolChoice"]) == (["add"], {"mode": "required"})
    result = sample.note("sampled")["result"]
    [use] = result["content"] if isinstance(result["content"], list) else [result["content"]]
    assert use == {"type": "tool_use", "id": "u1", "name": "add", "input": {"a": 1, "b": 2}}


@seen_by("MOD-6", "CONV-24", "CONV-34", until=C)
def test_sampling_with_tools_is_not_asked_of_older_clients(seen: Seen) -> None:
    sample = seen.of("sample_tools")
    assert sample.heard == []
    assert sample.saw["data"] == {"requiredCapabilities": {"sampling": {"tools": {}}}}


@seen_by("ELIC-1", "ELIC-3", "MRTR-11", since=C)
def test_the_user_answers_a_form(seen: Seen) -> None:
    elicit = seen.of("elicit")
    assert [asked["message"] for _, asked in elicit.heard] == ["accept this", "decline this", "cancel this"]
    schema = elicit.heard[0][1]["requestedSchema"]
    assert (schema["properties"], schema["required"]) == ({"name": {"type": "string"}}, ["name"])
    accepted = {"action": "accept", "content": {"name": "ann"}}
    answers = [entry["result"] for entry in elicit.noted if entry["what"] == "elicited"]
    assert answers == [accepted, {"action": "decline"}, {"action": "cancel"}]
    assert [texts(result) for result in elicit.saw] == [["done"]] * 3


@seen_by("CONV-34", "LIFE-9", until=B)
def test_forms_are_not_put_to_clients_without_them(seen: Seen) -> None:
    elicit = seen.of("elicit")
    assert elicit.heard == []
    assert all("elicitation" in refused["data"]["requiredCapabilities"] for refused in elicit.saw)


@seen_by("ELIC-1", "ELIC-6", since=D)
def test_the_user_is_sent_to_a_url(seen: Seen) -> None:
    elicit = seen.of("elicit_url")
    [(_, asked)] = elicit.heard
    assert (asked["mode"], asked["message"], asked["url"]) == (
        "url",
        "go there",
        "https://example.com/sign-in",
    )
    assert ("elicitationId" in asked) == (seen.peer.revision == D)
    assert elicit.note("elicited")["result"] == {"action": "accept"}


@seen_by("CONV-18", "CONV-34", until=C)
def test_urls_are_not_put_to_clients_without_them(seen: Seen) -> None:
    elicit = seen.of("elicit_url")
    assert elicit.heard == []
    assert "elicitation" in elicit.saw["data"]["requiredCapabilities"]


@seen_by("ROOT-1", "MRTR-11")
def test_roots_are_told(seen: Seen) -> None:
    roots = seen.of("roots")
    assert roots.heard == [["roots"]]
    assert roots.note("roots")["result"] == {"roots": [{"uri": "file:///srv/ann", "name": "home"}]}
    calls = [entry["what"] for entry in roots.noted if entry["what"] == "call"]
    assert len(calls) == (2 if seen.peer.since(E) else 1), "the newest revision calls again"


# -- another way to serve HTTP -----------------------------------------------------------------------------------


@seen_by("HTTP-7", "HTTP-19", "HTTP-32", "HTTPM-1", fixture="plainly_seen", transports=("http",))
@pytest.mark.parametrize("case", PLAIN)
def test_a_server_without_sessions_and_streams_serves_as_well(plainly_seen: Seen, case: str) -> None:
    plain = plainly_seen.of(case)
    assert plain.saw
    if case == "who":
        assert plain.saw["protocolVersion"] == plainly_seen.peer.revision
    if case == "many":
        assert plain.saw == [str(number) for number in range(20)]
        assert len(plain.noted) == 20
    if case == "resources":
        assert plain.saw["missing"]["message"] == "no such memo"


@seen_by("SUB-2", "SUB-6", since=E, fixture="plainly_seen", transports=("http",))
def test_changes_are_told_where_calls_are_answered_with_json(plainly_seen: Seen) -> None:
    saw = plainly_seen.of("changes").saw
    assert saw["honored"] == {"toolsListChanged": True, "resourceSubscriptions": ["memo:///one"]}
    assert len(saw["events"]) == 3
