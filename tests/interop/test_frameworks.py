"""Our server and the frameworks of hosts: what an agent gets of it through them."""

from __future__ import annotations

from interop.peers import FRAMEWORKS
from interop.watching import Seen, seen_by

LANGCHAIN = tuple(peer for peer in FRAMEWORKS if peer.name == "langchain")
PYDANTIC_AI = tuple(peer for peer in FRAMEWORKS if peer.name == "pydantic-ai")
TOOLS = [
    "echo", "add", "fail", "refuse", "who", "progress", "log", "sample", "sample_tools", "elicit", "elicit_url",
    "roots", "wait", "change", "journal",
]  # fmt: skip


@seen_by("TOOL-1", "PAGE-1", among=FRAMEWORKS)
def test_all_tools_become_tools_of_the_agent(seen: Seen) -> None:
    saw = seen.of("tools").saw
    assert saw["names"] == TOOLS
    numbers = {"a": {"type": "number"}, "b": {"type": "number"}}
    assert (saw["description"], saw["add"]) == ("Adds.", {"type": "object", "properties": numbers})


@seen_by("BASE-5", among=FRAMEWORKS)
def test_a_call_arrives_as_the_agent_made_it(seen: Seen) -> None:
    echo = seen.of("echo")
    call = echo.note("call")
    assert (call["tool"], call["arguments"]) == ("echo", {"text": "héllo\n"})
    assert echo.saw in ("héllo\n", {"status": "success", "content": ["héllo\n"], "artifact": None})


@seen_by("BASE-5", among=FRAMEWORKS)
def test_calls_at_a_time_get_their_own_answers(seen: Seen) -> None:
    prefix = "" if seen.peer in LANGCHAIN else "n"
    assert seen.of("many").saw == [f"{prefix}{number}" for number in range(20)]


@seen_by("TOOL-4", "TOOL-5", among=FRAMEWORKS)
def test_structured_content_reaches_the_program(seen: Seen) -> None:
    saw = seen.of("structured").saw
    assert (saw["artifact"]["structured_content"] if seen.peer in LANGCHAIN else saw) == {"sum": 3.5}


@seen_by("TOOL-8", among=FRAMEWORKS)
def test_a_tool_that_fails_tells_the_model(seen: Seen) -> None:
    saw = seen.of("failing").saw
    assert saw in (
        {"retry": "it failed"},
        {"status": "error", "content": ["it failed"], "artifact": None},
    )


@seen_by("ERR-1", among=LANGCHAIN)
def test_an_error_of_the_protocol_is_raised(seen: Seen) -> None:
    assert seen.of("refused").saw == {"code": -32602, "message": "not like that"}


@seen_by("ERR-1", among=PYDANTIC_AI)
def test_an_error_of_the_protocol_tells_the_model(seen: Seen) -> None:
    assert seen.of("refused").saw == {"retry": "not like that"}


@seen_by("RES-1", "RES-4", among=FRAMEWORKS)
def test_resources_are_loaded(seen: Seen) -> None:
    saw = seen.of("resources").saw
    if seen.peer in LANGCHAIN:
        assert saw == [{"mimeType": "text/x-memo", "data": data} for data in ("6f6e65", "00ff")]
    else:
        assert saw == {"names": ["one", "bytes"], "text": "one", "bytes": "00ff"}


@seen_by("PROM-1", among=FRAMEWORKS)
def test_prompts_are_loaded(seen: Seen) -> None:
    prompts = seen.of("prompts")
    if seen.peer in LANGCHAIN:
        assert prompts.saw == [["human", "hello ann"]]
    else:
        assert prompts.saw == {"names": ["greet", "bare"], "messages": [["user", "hello ann"]]}
    assert prompts.noted[-1] == {"what": "prompt", "name": "greet", "arguments": {"name": "ann"}}


@seen_by("LOG-1", "LOG-3", among=PYDANTIC_AI)
def test_logs_of_a_call_are_heard(seen: Seen) -> None:
    assert seen.of("logs").heard == [
        ["log", level, {"at": level}, "here"] for level in ("debug", "info", "error")
    ]
