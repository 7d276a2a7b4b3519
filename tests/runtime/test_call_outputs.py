"""`mcprev call` of a tool whose result does not match the output schema that its server lists: shown, and not a success."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from fuzz.fuzzing import diagonal
from mcprev.analysis.schemas import definitions_of
from mcprev.cli import main
from mcprev.revisions import DEFAULT, Revision

SERVER: Final = """
import mcprev
from mcprev_types.latest import models as m

SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
TOTALS = {"right": {"total": 2}, "wrong": {"total": "two"}}


class Handler(mcprev.ServerHandler):
    async def list_tools(self, ctx, params):
        schema = {"type": "object"}
        return m.ListToolsResult.from_wire({"tools": [
            {"name": name, "inputSchema": schema, "outputSchema": SCHEMA} for name in (*TOTALS, "none")
        ]})

    async def call_tool(self, ctx, params):
        given = {"structuredContent": TOTALS[params.name]} if params.name in TOTALS else {}
        return m.CallToolResult.from_wire({"content": [{"type": "text", "text": "about two"}], **given})


mcprev.Server(Handler(), "totals", "1.0", validate=False).run_stdio()
"""


@pytest.fixture(autouse=True)
def _totals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("totals.py").write_text(SERVER, encoding="utf-8")


def call(*arguments: str) -> Result:
    command = ("call", *arguments, "--", sys.executable, "totals.py")
    return CliRunner().invoke(main, command, catch_exceptions=False, prog_name="mcprev")


@pytest.mark.parametrize(
    ("row", "tool"),
    diagonal(DEFAULT, ["right", "wrong", "none"]),
    ids=lambda value: value.name if isinstance(value, Revision) else value,
)
def test_a_result_that_cannot_be_relied_on_is_shown_and_no_success(row: Revision, tool: str) -> None:
    """Where tools have output schemas."""
    done = call(tool, "--as", row.name, "--record", "saved.jsonl")
    assert "about two" in done.stdout
    if tool == "right" or "outputSchema" not in definitions_of(row)["Tool"]["properties"]:
        assert (done.exit_code, done.stderr) == (0, "")
        return
    assert done.exit_code == 4
    assert f"Error: the result of the tool '{tool}' cannot be relied on" in done.stderr
    checked = CliRunner().invoke(main, ("validate", "saved.jsonl"), catch_exceptions=False)
    assert checked.exit_code == 1
    assert "$.result.structuredContent" in checked.stdout


def test_it_is_shown_as_json_too() -> None:
    done = call("wrong", "--json")
    assert (done.exit_code, json.loads(done.stdout)["result"]["structuredContent"]) == (4, {"total": "two"})


def test_calls_that_are_repeated_have_failed() -> None:
    done = call("wrong", "--repeat", "3", "--json")
    assert (done.exit_code, json.loads(done.stdout)["repeat"]["failed"]) == (1, 3)


SAME: Final = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    results = {
        "initialize": {"protocolVersion": sys.argv[1], "capabilities": {"tools": {}}, "serverInfo": {"name": "same", "version": "1"}},
        "tools/call": json.loads(sys.argv[2]),
    }
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": results[request["method"]]}), flush=True)
"""
PRETTY: Final = '{\n  "result": '


@pytest.mark.parametrize(
    ("texts", "data", "shown"),
    [
        (["done"], {"result": "done"}, "done\n"),
        (["5"], {"result": "5"}, "5\n"),
        (["5"], {"result": 5}, "5\n"),
        (["[1, 2]"], {"result": [1, 2]}, "[1, 2]\n"),
        (["a", "2"], {"result": ["a", 2]}, "a\n2\n"),
        (["a"], {"result": ["a"]}, "a\n"),
        (['{"result": "done"}'], {"result": "done"}, PRETTY + '"done"\n}\n'),
        (["done"], {"result": "done", "left": 1}, "done\n" + PRETTY + '"done",\n  "left": 1\n}\n'),
        (["done"], {"result": "gone"}, "done\n" + PRETTY + '"gone"\n}\n'),
        (["done"], {"other": "done"}, 'done\n{\n  "other": "done"\n}\n'),
        (["1"], {"result": True}, "1\n" + PRETTY + "true\n}\n"),
        (["a"], {"result": ["a", "b"]}, "a\n" + PRETTY + '[\n    "a",\n    "b"\n  ]\n}\n'),
        ([], {"result": []}, PRETTY + "[]\n}\n"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_what_a_text_says_is_not_printed_again_as_structured_content(
    texts: list[str], data: dict[str, object], shown: str
) -> None:
    row = next(each for each in DEFAULT if "structuredContent" in str(definitions_of(each)["CallToolResult"]))
    result = {"content": [{"type": "text", "text": text} for text in texts], "structuredContent": data}
    server = ("--", sys.executable, "-c", SAME, row.version, json.dumps(result))
    words = ("call", "tool", "--unchecked", "--as", row.name)
    done = CliRunner().invoke(main, (*words, *server), catch_exceptions=False)
    assert (done.exit_code, done.stdout) == (0, shown)
    whole = CliRunner().invoke(main, (*words, "--json", *server), catch_exceptions=False)
    assert json.loads(whole.stdout)["result"]["structuredContent"] == data


RAW: Final = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    answer = {"jsonrpc": "2.0", "id": request["id"]}
    schema = {"type": "object"}
    results = {
        "initialize": {"protocolVersion": sys.argv[1], "capabilities": {"tools": {}, "prompts": {}}, "serverInfo": {"name": "raw", "version": "1"}},
        "tools/list": {
            "tools": [{"name": "odd", "description": 5, "inputSchema": schema}, {"name": "good", "inputSchema": schema}],
            **json.loads(sys.argv[2]),
        },
        "prompts/list": {"prompts": [{"name": "odd", "arguments": 5}]},
        "tools/call": {"content": [{"type": "text", "text": "done"}]},
    }
    if request["method"] in results:
        answer["result"] = results[request["method"]]
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    print(json.dumps(answer), flush=True)
"""


WARNING: Final = (
    "Warning: not all entries of 'tools/list' of the server are valid; left out: entry 1 ('odd'): $.description Input should be "
    "a valid string\n"
)
each_session = pytest.mark.parametrize(
    "row", [row for row in DEFAULT if row.handshake], ids=lambda row: row.name
)


def used(command: str, name: str, row: Revision, more: str = "{}") -> Result:
    words = (command, name, "--as", row.name, "--", sys.executable, "-c", RAW, row.version, more)
    return CliRunner().invoke(main, words, catch_exceptions=False, prog_name="mcprev")


@each_session
def test_an_invalid_tool_in_the_list_keeps_nobody_from_calling_another_one(row: Revision) -> None:
    done = used("call", "good", row)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "done\n", WARNING)


@each_session
@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("call", "the server has the tool 'odd', but its entry in the list is not valid: $.description Input should be a valid string"),
        ("prompt", "the server has the prompt 'odd', but its entry in the list is not valid: $.arguments Input should be a valid list"),
    ],
)  # fmt: skip
def test_what_is_in_the_list_and_not_valid_is_no_wrong_name(row: Revision, command: str, wrong: str) -> None:
    refused = used(command, "odd", row)
    assert (refused.exit_code, refused.stdout) == (4, "")
    assert refused.stderr.endswith(f"Error: {wrong}\n")


@pytest.mark.parametrize(
    ("more", "code", "end"),
    [
        ("{}", 2, "; did you mean 'good'?\n"),
        ('{"nextCursor": "2"}', 4, "; not all pages of the list are read, and the others may have the tool\n"),
    ],
    ids=["the only page", "one of several"],
)  # fmt: skip
def test_a_tool_that_no_entry_names(more: str, code: int, end: str) -> None:
    refused = used("call", "goood", next(row for row in DEFAULT if row.handshake), more)
    assert refused.exit_code == code
    assert "the server has no tool 'goood'" in refused.stderr
    assert refused.stderr.endswith(end)
