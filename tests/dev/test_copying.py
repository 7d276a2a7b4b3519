"""Calls and messages that are copied: as a line of `mcprev call`, as a test that runs, as JSON, and never as something else."""

from __future__ import annotations

import ast
import json
import re
import shlex
from io import BytesIO
from typing import Any

import pytest

import mcprev
from dev.inspected import opened
from helpers.running import run
from mcprev.client.targets import Target
from mcprev.dev.copying import CannotCopy, copied_event
from mcprev.dev.events import DIRECTIONS, SeenEvent
from mcprev.dev.launch import DirectLauncher
from mcprev.dev.recorded import RecordedSession
from mcprev.dev.saving import FORMAT

NASTY = ["--record=other.jsonl", "a\x1b[2Jb", "a\nrm -rf /", "a\u202eb", "x'; rm -rf /; '"]


def anything() -> mcprev.Server:
    class Handler(mcprev.ServerHandler):
        async def call_tool(self, ctx: mcprev.Context, params: Any) -> Any:
            from mcprev_types.latest import models

            return models.CallToolResult(content=[models.TextContent(text="ok")])

        async def read_resource(self, ctx: mcprev.Context, params: Any) -> Any:
            from mcprev_types.latest import models

            return models.ReadResourceResult(
                contents=[models.TextResourceContents(uri=params.uri, text="ok")]
            )

    return mcprev.Server(Handler(), "x", "1")


def launcher(*words: str, kind: str = "app") -> DirectLauncher:
    server = anything()
    return DirectLauncher("x", words, lambda: mcprev.memory(server), kind=kind, transport="stdio")


def test_a_call_of_a_client_that_shows_pages_is_copied_with_it() -> None:
    async def scenario() -> None:
        async with opened(launcher("server.py"), pages=True) as page:
            call = (await page.call("tools/call", {"name": "x"}))["call"]
            line = (await page.post("copy", call=call, **{"as": "command"}))["text"]
            assert shlex.split(line)[:3] == ["mcprev", "call", "--pages"]
            test = (await page.post("copy", call=call, **{"as": "pytest"}))["text"]
            assert "from mcprev.extensions.ui import HOST" in test
            assert "extensions=[HOST]) as client" in test

    run(scenario())


@pytest.mark.parametrize(
    ("words", "call", "copied"),
    [
        (
            ("server.py",), ("tools/call", {"name": "add it", "arguments": {"a": 1.0, "b": "it's"}}),
            ["mcprev", "call", "--revision", "R", "server.py", "add it", '{"a": 1.0, "b": "it\'s"}'],
        ),
        (
            ("--", "node", "my server.js"), ("tools/call", {"name": "x", "arguments": {"password": "p"}}),
            ["mcprev", "call", "--revision", "R", "x", '{"password": "[...]"}', "--", "node", "my server.js"],
        ),
        (
            ("https://x.example/mcp",), ("resources/read", {"uri": "a://b c"}),
            ["mcprev", "read", "--revision", "R", "https://x.example/mcp", "a://b c"],
        ),
        (
            ("https://ann:s3cret@x.example/mcp?k=s3cret",), ("tools/call", {"name": "x"}),
            ["mcprev", "call", "--revision", "R", "https://...@x.example/mcp?...", "x", "{}"],
        ),
        (
            ("--", "node", "--token", "s3cret"), ("tools/call", {"name": "x"}),
            ["mcprev", "call", "--revision", "R", "x", "{}", "--", "node", "--token", "[...]"],
        ),
    ],
)  # fmt: skip
def test_a_call_is_copied_as_the_words_of_a_shell(
    words: tuple[str, ...], call: tuple[str, dict[str, Any]], copied: list[str]
) -> None:
    async def scenario() -> None:
        async with opened(launcher(*words)) as page:
            made = await page.call(*call)
            by_call = await page.post("copy", call=made["call"], **{"as": "command"})
            by_event = await page.post("copy", event=made["first"], **{"as": "command"})
            expected = [made["revision"] if word == "R" else word for word in copied]
            assert shlex.split(by_call["text"]) == shlex.split(by_event["text"]) == expected
            assert "s3cret" not in (await page.post("copy", call=made["call"], **{"as": "pytest"}))["text"]
            refused = await page.post("copy", call=made["call"], **{"as": "curl"})
            assert (refused["status"], "HTTP" in refused["error"]) == (400, True)

    run(scenario())


@pytest.mark.parametrize("name", NASTY)
def test_a_name_becomes_no_option_no_control_character_and_no_code(name: str) -> None:
    async def scenario() -> None:
        async with opened(launcher("server.py")) as page:
            call = await page.call("tools/call", {"name": name, "arguments": {name: name}})
            line = await page.post("copy", call=call["call"], **{"as": "command"})
            if line["status"] == 200:
                assert shlex.split(line["text"])[5] == name
                assert line["text"].isprintable()
            else:
                assert (line["status"], name.startswith("-") or not name.isprintable()) == (400, True)
            code = (await page.post("copy", call=call["call"], **{"as": "pytest"}))["text"]
            assert code.replace("\n", "").isprintable()
            constants = {node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)}
            assert name in constants
            text = (await page.post("copy", event=call["first"], **{"as": "json"}))["text"]
            assert json.loads(text)["params"]["name"] == name
            assert text.replace("\n", "").isprintable()

    run(scenario())


REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "evil.py"}}
EXCHANGE = {"http": 1, "verb": "POST", "url": "https://x.example/[1-9]", "sent": [["X-A", "b"]]}


def recorded(**changes: Any) -> tuple[RecordedSession, SeenEvent]:
    """A session out of a file with one request, sent in an exchange with other members."""
    event = {"direction": DIRECTIONS["out"].value, "exchange": 1, "message": REQUEST}
    lines = ({"format": FORMAT}, {**EXCHANGE, **changes}, event)
    session = RecordedSession("x", BytesIO(b"".join(json.dumps(line).encode() + b"\n" for line in lines)))
    [found] = session.log.since(1, 10)
    return session, found


def test_a_message_out_of_a_file_is_copied_for_curl_as_it_is() -> None:
    words = shlex.split(copied_event(*recorded(), "curl"))
    assert words[:-1] == [
        "curl", "-N", "--globoff", "-X", "POST", "--url", "https://x.example/[1-9]", "-H", "X-A: b", "--data-raw",
    ]  # fmt: skip
    assert json.loads(words[-1]) == REQUEST


@pytest.mark.parametrize(
    ("changes", "kind", "says"),
    [
        ({"url": "-K/tmp/options"}, "curl", "its URL or method is not one of HTTP"),
        ({"url": "file:///etc/passwd"}, "curl", "its URL or method is not one of HTTP"),
        ({"verb": "GET /other"}, "curl", "its URL or method is not one of HTTP"),
        ({"sent": [["@/etc/passwd", "x"]]}, "curl", "'@/etc/passwd' is not a header name"),
        ({}, "command", "names no server to call"),
        ({}, "pytest", "names no server to call"),
    ],
)
def test_a_file_puts_no_option_file_or_server_into_what_is_copied(
    changes: dict[str, Any], kind: str, says: str
) -> None:
    with pytest.raises(CannotCopy, match=re.escape(says)):
        copied_event(*recorded(**changes), kind)


def test_a_copied_test_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> list[str]:
        async with opened(launcher("server.py")) as page:
            tool = await page.call("tools/call", {"name": "x", "arguments": {"deep": [1, None, True]}})
            read = await page.call("resources/read", {"uri": "a://b"})
            return [
                (await page.post("copy", call=one["call"], **{"as": "pytest"}))["text"]
                for one in (tool, read)
            ]

    def instead(*_: str) -> Target:
        return mcprev.memory(anything())

    for code in run(scenario()):
        assert "mcprev.stdio('mcprev', 'serve', 'server.py')" in code
        space: dict[str, Any] = {}
        monkeypatch.setattr(mcprev, "stdio", instead)
        exec(compile(code, "copied.py", "exec"), space)  # noqa: S102 - what is tested
        space["test_call"]()
