"""`mcprev inspect`: servers of each revision, in both forms, and what is said when there is nothing to inspect."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, cast

import pytest
from click.testing import CliRunner, Result

from fuzz.fuzzing import diagonal
from helpers.named import SOME_ROWS
from helpers.running import run
from mcprev.cli import main
from mcprev.cli.inspect_ import _list  # pyright: ignore[reportPrivateUsage]
from mcprev.client.client import Client
from mcprev.core.lists import ListBounds
from mcprev.errors import RequestTimeout
from mcprev.revisions import DEFAULT, Revision
from mcprev_types.latest import models as m

HERE: Final = Path(__file__).parent
DUMB: Final = (sys.executable, "-S", "-E", str(HERE.parent / "stdio" / "dumb_server.py"))
SERVER: Final = """
import sys
import mcprev
from mcprev_types.latest import models as m

class Handler(mcprev.ServerHandler):
    async def list_tools(self, ctx, params):
        if sys.argv[1] == "endless":
            return m.ListToolsResult(tools=[], next_cursor=(params.cursor or "") + "x")
        if sys.argv[1] == "stuck" and params.cursor:
            return m.ListToolsResult(tools=[], next_cursor=params.cursor)
        schema = m.ToolInputSchema.from_wire({"type": "object"})
        tool = m.Tool(name="tool-" + (params.cursor or "0"), description="does\\n\\x1b[2J", input_schema=schema)
        return m.ListToolsResult(tools=[tool], next_cursor=None if params.cursor == "2" else str(int(params.cursor or 0) + 1))

    async def call_tool(self, ctx, params):
        raise NotImplementedError

    async def list_resources(self, ctx, params):
        return m.ListResourcesResult(resources=[m.Resource(name="one", uri="x:1", description="the first")])

    async def read_resource(self, ctx, params):
        raise NotImplementedError

    if sys.argv[1] == "templates":
        async def list_resource_templates(self, ctx, params):
            return m.ListResourceTemplatesResult(resource_templates=[m.ResourceTemplate(name="any", uri_template="x:{n}")])

mcprev.Server(Handler(), "shop", "1.5", instructions="Ask.", revisions=sys.argv[2:] or None).run_stdio()
"""


def name_of(value: object) -> str:
    return value.name if isinstance(value, Revision) else str(value)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["inspect", *arguments], catch_exceptions=False)


def server(mode: str, *names: str) -> tuple[str, ...]:
    return ("--", sys.executable, "-c", SERVER, mode, *names)


def printed(result: Result) -> Any:
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


@pytest.mark.parametrize(("row", "who"), diagonal(SOME_ROWS, ["client", "server"]), ids=name_of)
def test_json(row: Revision, who: str) -> None:
    """NEG-12, PAGE-1: whichever side is restricted, this is what is spoken, and all pages are shown."""
    options, names = (("--revision", row.name), ()) if who == "client" else ((), (row.name,))
    document = printed(invoke("--json", *options, *server("templates", *names)))
    assert document["format"] == 1
    assert document["revision"] == row.name
    assert document["reached_by"] == ("initialize" if row.handshake else "server/discover")
    assert document["evidence"]
    assert (document["server"]["name"], document["server"]["version"]) == ("shop", "1.5")
    assert document["instructions"] == "Ask."
    assert {"tools", "resources"} <= document["capabilities"].keys()
    assert [tool["name"] for tool in document["tools"]] == ["tool-0", "tool-1", "tool-2"]
    assert [item["uri"] for item in document["resources"]] == ["x:1"]
    assert [item["uriTemplate"] for item in document["resource_templates"]] == ["x:{n}"]
    assert document["prompts"] is None
    assert document["errors"] == {}


@pytest.mark.parametrize("row", SOME_ROWS, ids=lambda row: row.name)
def test_text(row: Revision) -> None:
    done = invoke("--revision", row.name, *server("plain"))
    assert (done.exit_code, done.stderr) == (0, "")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    for wanted in (
        ["PROPERTY", "VALUE"], ["revision", row.name], ["server name", "shop"], ["instructions", "Ask."],
        ["TOOL", "DESCRIPTION"], ["tool-2", r"does \x1b[2J"], ["x:1", "one: the first"],
        ["RESOURCE TEMPLATE", "NAME"], ["(none)", ""],
    ):  # fmt: skip
        assert wanted in lines
    assert "PROMPT" not in done.stdout
    assert any(name == "evidence" for name, *_ in lines)


@pytest.mark.parametrize("row", SOME_ROWS, ids=lambda row: row.name)
def test_the_messages_are_recorded(row: Revision, tmp_path: Path) -> None:
    """All lists of a server are in one recording, so that `mcprev validate` judges each of them."""
    recording = tmp_path / "session.jsonl"
    assert invoke("--revision", row.name, "--record", str(recording), *server("templates")).exit_code == 0
    sent = [json.loads(line).get("message", {}) for line in recording.read_text("utf-8").splitlines()]
    lists = [each["method"] for each in sent if str(each.get("method")).endswith("/list")]
    assert lists == ["tools/list"] * 3 + ["resources/list", "resources/templates/list"]
    judged = CliRunner().invoke(main, ("validate", str(recording)), catch_exceptions=False)
    assert judged.exit_code == 0, judged.output


@pytest.mark.slow
def test_several_revisions_and_the_latest() -> None:
    two = DEFAULT[1:3]
    options = [word for row in two for word in ("--revision", row.name)]
    assert printed(invoke("--json", *options, *server("plain")))["revision"] == two[-1].name
    done = invoke("--json", "--revision", "latest", *server("plain"))
    assert printed(done)["revision"] == DEFAULT[-1].name


FAILURES: Final[tuple[tuple[tuple[str, ...], str, int], ...]] = (
    (("--revision", DEFAULT[0].name, *server("plain", DEFAULT[-1].name)), "this side allows", 4),
    (("--revision", DEFAULT[-1].name, *server("plain", DEFAULT[0].name)), "this side allows", 4),
    (("--", "no-such-command-anywhere"), "no-such-command-anywhere", 3),
    (("--", "a\0b"), "cannot start", 3),
    (("--", *DUMB, "exit"), "nothing to do", 3),
    (("--timeout", "0.2", "--", *DUMB, "silent"), "initialize at", 3),
)  # fmt: skip


@pytest.mark.parametrize(("arguments", "text", "code"), FAILURES, ids=range(len(FAILURES)))
def test_failures_are_one_message(arguments: tuple[str, ...], text: str, code: int) -> None:
    done = invoke(*arguments)
    assert (done.exit_code, done.stdout) == (code, "")
    assert "Error: " in done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("url", ["ftp://mcp.example/mcp", "ws://127.0.0.1:8000"])
def test_another_kind_of_url_is_not_taken_for_a_command(url: str) -> None:
    done = invoke(url)
    assert done.exit_code == 2
    assert "Error: write a URL that begins with http:// or https://" in done.stderr


@pytest.mark.parametrize(("row", "mode"), diagonal(SOME_ROWS, ["stuck", "endless"]), ids=name_of)
def test_list_that_does_not_end_costs_itself_only(
    row: Revision, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PAGE-3."""
    monkeypatch.setattr("mcprev.core.lists.BOUNDS", ListBounds(pages=5))
    done = invoke("--json", "--revision", row.name, *server(mode))
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert list(document["errors"]) == ["tools"]
    assert len(document["resources"]) == 1
    assert done.stderr.startswith("Error: the server failed to list what its capabilities declare: tools: ")


def test_the_pages_of_a_list_have_one_bound_together() -> None:
    class Slow:
        invalid_entries: Final[dict[str, Any]] = {}

        async def tools(self, *, total_timeout: float) -> AsyncIterator[Any]:
            yield m.Tool(name="first", input_schema=m.ToolInputSchema.from_wire({"type": "object"}))
            raise RequestTimeout("the second page", elapsed=total_timeout, kind="total")

    async def main() -> None:
        errors: dict[str, str] = {}
        found = await _list(cast("Client", Slow()), "tools", 0.01, errors)
        assert [tool["name"] for tool in found] == ["first"]
        assert errors == {"tools": "not complete within 0.01 s"}

    run(main())


def test_usage() -> None:
    for arguments in (
        (), ("--",), ("--revision", "1999", "--", "x"), ("--timeout", "0", "--", "x"), ("--nonsense", "--", "x"),
    ):  # fmt: skip
        done = invoke(*arguments)
        assert done.exit_code == 2
        assert "Usage: " in done.stderr


INVALID: Final = """
import json, sys
tools = [{"name": "good", "inputSchema": {"type": "object"}}, {"name": "bad\x1b[2J"}, 7]
answers = {"initialize": {"protocolVersion": sys.argv[1], "capabilities": {"tools": {}},
           "serverInfo": {"name": "x", **({} if "unversioned" in sys.argv else {"version": "1"})}}, "tools/list": {"tools": tools}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        found = answers.get(message["method"])
        answer = {"error": {"code": -32601, "message": "no"}} if found is None else {"result": found}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""
each_session = pytest.mark.parametrize(
    "row", [row for row in DEFAULT if row.handshake], ids=lambda row: row.name
)


@each_session
def test_an_invalid_tool_costs_itself_only(row: Revision) -> None:
    done = invoke("--as", row.name, "--", sys.executable, "-c", INVALID, row.name)
    assert done.exit_code == 1
    assert "\ngood\t" in done.stdout
    assert "tools: entry 2 ('bad\\x1b[2J'): $.inputSchema Field required; entry 3: $ " in done.stderr
    assert "\\n" not in done.stderr


@each_session
def test_invalid_information_of_a_server_is_named_where_the_server_sent_it(row: Revision) -> None:
    done = invoke("--as", row.name, "--", sys.executable, "-c", INVALID, row.name, "unversioned")
    assert done.exit_code == 4
    assert f"at {row.name}: $.result.serverInfo.version Field required" in done.stderr


WRONG_ID: Final = (
    INVALID.replace('"id": message["id"]', '"id": 99 if message["method"] == "tools/call" else message["id"]')
    .replace('"bad\x1b[2J"}, 7', '"bad", "inputSchema": {"type": "object"}}')
    .replace('{"tools": tools}}', '{"tools": tools}, "tools/call": {"content": []}}')
)


@pytest.mark.slow
def test_an_answer_under_a_wrong_id_is_named_when_none_comes() -> None:
    """The time that the command waits includes the start of the server."""
    row = [row for row in DEFAULT if row.handshake][-1]
    words = (
        "call",
        "good",
        "--timeout",
        "6",
        "--as",
        row.name,
        "--",
        sys.executable,
        "-c",
        WRONG_ID,
        row.name,
    )
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 3
    assert "no response to 'tools/call'" in done.stderr
    assert (
        "it sent a response to no pending request: 99; a response must have the id of its request"
        in done.stderr
    )
    assert (
        "pending request"
        not in invoke("--as", row.name, "--", sys.executable, "-c", WRONG_ID, row.name).stderr
    )


SCHEMAS: Final = """
import mcprev
from mcprev_types.latest import models as m

class Handler(mcprev.ServerHandler):
    async def list_tools(self, ctx, params):
        schemas = {"good": {"type": "object", "properties": {"a\\x1b[2J": {"type": "string"}}}, "odd": {"type": "object", "$ref": "https://example.org/x"}}
        return m.ListToolsResult(tools=[m.Tool.from_wire({"name": name, "inputSchema": schema}) for name, schema in schemas.items()])

    async def call_tool(self, ctx, params):
        raise NotImplementedError

    async def list_prompts(self, ctx, params):
        return m.ListPromptsResult(prompts=[m.Prompt.from_wire({"name": "hello", "arguments": [{"name": "who", "required": True}]})])

    async def get_prompt(self, ctx, params):
        raise NotImplementedError

mcprev.Server(Handler(), "shop", "1.5", validate=False).run_stdio()
"""


def test_schemas_and_what_is_wrong_with_them() -> None:
    done = invoke("--schemas", "--", sys.executable, "-c", SCHEMAS)
    assert done.exit_code == 0
    assert "good inputSchema\n{\n" in done.stdout
    assert '"a\\u001b[2J"' in done.stdout
    assert "ARGUMENT OF hello\tPRESENCE\tDESCRIPTION\nwho\trequired\t\n" in done.stdout
    [warning] = done.stderr.splitlines()
    assert warning.startswith("Warning: the inputSchema of the tool 'odd' cannot be used: the reference ")
